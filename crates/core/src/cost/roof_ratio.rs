//! Kernels whose work is not known, on another device: their time by the ratio of the roof that kernels of their family run against.
//!
//! Profiles without operators (Nsight Systems, recordings that begin in the middle of a step) name kernels but not what they compute.

use crate::device::{DeviceKind, DeviceProfile, Precision};
use crate::graph::DType;
use crate::units::DurNs;

use super::kernel_name::{dtype, is_tf32};
use super::operators::gemm_precision;
use super::prediction::{Prediction, Provenance};
use super::roofline::memory_rate;
use super::work::Family;

/// The model's name.
pub(super) const ROOF_RATIO: &str = "roof-ratio";

/// How a kernel's time follows from its time on another device: `t = start' + max(t_measured − start, 0) · ratio`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RoofRatio {
    /// Roof of the old device over that of the new one.
    pub ratio: f64,
    /// Fixed cost of a kernel on the old device and on the new one.
    pub starts: (DurNs, DurNs),
    /// Expected relative error.
    pub error: f32,
}

/// Errors of the ratio alone: mean absolute relative error over all pairs of P100, V100, T4 and two A100s, of kernels of more than
/// 200 µs on both: linear 42 % (n 58 k pairs), bmm 35 (100 k), conv 19 (56 k); element-wise 12 (13 k), softmax 33, layer norm 26.
/// Source: the measurements of NeuSight; nothing is fitted.
const PRODUCT_ERROR: f32 = 0.35;
const MEMORY_ERROR: f32 = 0.25;
/// Where not even the family is known: either roof may hold.
const UNKNOWN_ERROR: f32 = 0.5;

/// The ratio for `kernel`, a kernel of `family`; `None` unless both are GPUs with known roofs.
pub(crate) fn roof_ratio(kernel: &str, family: Family, old: &DeviceProfile, new: &DeviceProfile) -> Option<RoofRatio> {
    if old.kind != DeviceKind::Gpu || new.kind != DeviceKind::Gpu {
        return None;
    }
    let precision = precision_of(kernel);
    let memory = memory_rate(old) / memory_rate(new);
    let arithmetic = old.product_rate(precision).0 / new.product_rate(precision).0;
    let (ratio, error) = match family {
        Family::Gemm | Family::Conv | Family::Attention => (arithmetic, PRODUCT_ERROR),
        Family::Other => ((memory * arithmetic).sqrt(), UNKNOWN_ERROR),
        _ => (memory, MEMORY_ERROR),
    };
    let starts = (old.kernel_start, new.kernel_start);
    (ratio.is_finite() && ratio > 0.0).then_some(RoofRatio { ratio, starts, error })
}

fn precision_of(kernel: &str) -> Precision {
    let named = dtype(kernel).unwrap_or(DType::Fp32);
    gemm_precision(named, is_tf32(kernel))
}

impl RoofRatio {
    /// The time of a kernel that took `measured` on the old device.
    pub fn predict(&self, measured: DurNs) -> Prediction {
        let beyond = DurNs((measured.0 - self.starts.0.0).max(0));
        let duration = self.starts.1 + beyond.scale(self.ratio);
        Prediction {
            duration,
            provenance: Provenance::Anchored,
            model: ROOF_RATIO,
            error: self.error,
            extrapolated: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Catalog;

    fn time(kernel: &str, family: Family, us: i64) -> f64 {
        let catalog = Catalog::builtin().unwrap();
        let (old, new) = (catalog.find("H100").unwrap(), catalog.find("H200").unwrap());
        roof_ratio(kernel, family, old, new).unwrap().predict(DurNs(us * 1000)).duration.0 as f64 / 1000.0
    }

    #[test]
    fn memory_bound_kernels_gain_by_the_bandwidth_and_products_by_the_peak() {
        let copy = time("vectorized_elementwise_kernel", Family::Elementwise, 1000);
        assert!((600.0..800.0).contains(&copy), "{copy}");
        let product = time("sm90_xmma_gemm_bf16bf16", Family::Gemm, 1000);
        assert!((product - 1000.0).abs() < 5.0, "the same peak: {product}");
        let unknown = time("fancy", Family::Other, 1000);
        assert!(copy < unknown && unknown < product, "{copy} {unknown} {product}");
    }

    #[test]
    fn the_shortest_kernel_stays_the_shortest() {
        assert!(time("vectorized_elementwise_kernel", Family::Elementwise, 1) > 0.5);
    }

    #[test]
    fn hosts_have_no_such_ratio() {
        let catalog = Catalog::builtin().unwrap();
        let (gpu, cpu) = (catalog.find("H100").unwrap(), catalog.find("CPU").unwrap());
        assert_eq!(roof_ratio("k", Family::Gemm, gpu, cpu), None);
    }
}
