//! Convolutions as implicit matrix products, or by Winograd where it applies; the library is taken to choose the faster.

use crate::device::DeviceProfile;

use super::gemm::{self, Product, Rates, product_us};
use super::{Parameter, START_US, parameter};
use crate::cost::conv_kernel::WINOGRAD_TILE;
use crate::cost::work::{Shape, Work, element_bytes};

const WINOGRAD: usize = gemm::PARAMETERS.len();
const TRANSFORM: usize = WINOGRAD + 1;
const WINOGRAD_US: usize = WINOGRAD + 2;

pub(super) const PARAMETERS: [Parameter; WINOGRAD + 3] = {
    let mut all = [parameter("", 1.0, 1.0, 1.0); WINOGRAD + 3];
    let mut at = 0;
    while at < WINOGRAD {
        all[at] = gemm::PARAMETERS[at];
        at += 1;
    }
    all[WINOGRAD] = parameter("rate of Winograd products", 0.5, 0.01, 2.0);
    all[TRANSFORM] = parameter("passes over data by Winograd transforms", 2.0, 0.2, 20.0);
    all[WINOGRAD_US] = parameter("start of Winograd's extra kernels µs", 5.0, 0.2, 200.0);
    all
};

/// Outputs of a Winograd tile along an axis.
const OUTPUTS: f64 = WINOGRAD_TILE as f64;

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, .. } = &work.shape else {
        return p[START_US];
    };
    let rates = Rates::of_products(work, device, p);
    let [n, c, k, h, w] = [batch, channels_in, channels_out, out_h, out_w].map(|dim| dim as f64);
    let (g, taps) = ((groups.max(1)) as f64, (r * s) as f64);
    let (bytes, element) = (work.bytes().0 as f64, element_bytes(work) as f64);
    let direct = Product {
        batch: g,
        m: n * h * w,
        n: k / g,
        k: c / g * taps,
        element: element / taps.max(1.0).sqrt(),
        bytes,
        hides_prologue: false,
    };
    let mut best = product_us(direct, rates, p);
    if r == s && r == 3 && stride == 1 && groups == 1 {
        let side = OUTPUTS + r as f64 - 1.0;
        let tiles = n * (h / OUTPUTS).ceil() * (w / OUTPUTS).ceil();
        let points = side * side;
        let transformed = points * (tiles * (c + k) + c * k) * element;
        let product =
            Product { batch: points, m: tiles, n: k, k: c, element, bytes: transformed, hides_prologue: false };
        let rates = Rates { per_sm: rates.per_sm * p[WINOGRAD], ..rates };
        let transforms = p[TRANSFORM] * transformed / rates.dram;
        best = best.min(p[WINOGRAD_US] + product_us(product, rates, p) + transforms);
    }
    p[START_US] + best
}
