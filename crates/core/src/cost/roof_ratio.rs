//! Kernels whose work is not known, on another device: their time by the ratio of the roof that kernels of their family run against.
//!
//! Profiles without operators (Nsight Systems, recordings that begin in the middle of a step) name kernels but not what they compute.

use crate::device::{DeviceKind, DeviceProfile};
use crate::units::DurNs;

use super::kernel_name::units_of;
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
/// Source: the measurements of NeuSight; nothing is fitted. Whether a product on matrix units waits for them or for memory its name
/// does not tell; between both ratios, the geometric mean errs by 21 % on bf16 products of more than 50 µs (178 k pairs of A100, H100,
/// L40S and B200, measurements of aiconfigurator), either alone by 31 to 37 %.
const PRODUCT_ERROR: f32 = 0.35;
const MEMORY_ERROR: f32 = 0.25;
/// Where not even the family is known: either roof may hold.
const UNKNOWN_ERROR: f32 = 0.5;

/// The ratio for `kernel`, a kernel of `family`; `None` unless both are GPUs with known roofs.
pub(crate) fn roof_ratio(kernel: &str, family: Family, old: &DeviceProfile, new: &DeviceProfile) -> Option<RoofRatio> {
    if old.kind != DeviceKind::Gpu || new.kind != DeviceKind::Gpu {
        return None;
    }
    let precision = units_of(kernel, family);
    let memory = memory_rate(old) / memory_rate(new);
    let arithmetic = old.product_rate(precision).0 / new.product_rate(precision).0;
    let between = (memory * arithmetic).sqrt();
    let (ratio, error) = match family {
        Family::Gemm | Family::Conv | Family::Attention if precision.is_tensor() => (between, PRODUCT_ERROR),
        Family::Gemm | Family::Conv | Family::Attention => (arithmetic, PRODUCT_ERROR),
        Family::Other => (between, UNKNOWN_ERROR),
        _ => (memory, MEMORY_ERROR),
    };
    let starts = (old.kernel_start, new.kernel_start);
    (ratio.is_finite() && ratio > 0.0).then_some(RoofRatio { ratio, starts, error })
}

impl RoofRatio {
    /// The time of a kernel that took `measured` on the old device. A device whose kernels start for nothing takes the more for what
    /// they do.
    pub fn predict(&self, measured: DurNs) -> Prediction {
        let (old, new) = self.starts;
        let beyond = if new > DurNs::ZERO { DurNs((measured.0 - old.0).max(0)) } else { measured };
        let duration = new + beyond.scale(self.ratio);
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
    use crate::cost::kernel_name::kernel_family;
    use crate::device::Catalog;

    fn time(kernel: &str, family: Family, us: i64) -> f64 {
        moved(kernel, family, us, ("H100", "H200"))
    }

    fn moved(kernel: &str, family: Family, us: i64, (old, new): (&str, &str)) -> f64 {
        let catalog = Catalog::builtin().unwrap();
        let (old, new) = (catalog.find(old).unwrap(), catalog.find(new).unwrap());
        roof_ratio(kernel, family, old, new).unwrap().predict(DurNs(us * 1000)).duration.0 as f64 / 1000.0
    }

    #[test]
    fn memory_bound_kernels_gain_by_the_bandwidth_and_products_by_the_peak() {
        let copy = time("vectorized_elementwise_kernel", Family::Elementwise, 1000);
        assert!((600.0..800.0).contains(&copy), "{copy}");
        let product = time("ampere_sgemm_128x64_tn", Family::Gemm, 1000);
        assert!((product - 1000.0).abs() < 5.0, "the same peak: {product}");
        let unknown = time("fancy", Family::Other, 1000);
        assert!(copy < unknown && unknown < product, "{copy} {unknown} {product}");
    }

    #[test]
    fn what_runs_on_matrix_units_goes_by_their_roofs_and_the_memorys_never_by_those_of_vector_units() {
        let decode = "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, 16>";
        let product = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32";
        assert_eq!(kernel_family(product), Some(Family::Gemm));
        for (kernel, family, from, to, (memory, matrix)) in [
            (decode, Family::Attention, "MI300X", "H200", (1.10, 1.32)),
            (decode, Family::Attention, "MI300X", "L4", (17.7, 10.8)),
            (product, Family::Gemm, "B200", "MI300X", (1.45, 1.72)),
            (product, Family::Gemm, "B200", "H100", (2.27, 2.27)),
        ] {
            let ratio = moved(kernel, family, 1_000_000, (from, to)) / 1e6;
            let (low, high) = (f64::min(memory, matrix), f64::max(memory, matrix));
            assert!((0.97 * low..1.03 * high).contains(&ratio), "{from} to {to}: {ratio}");
        }
        let (narrow, wide) = ("bmm_E4m3_E4m3E4m3_Fp32_t128x16", "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x16");
        let on_a100 = |kernel| moved(kernel, Family::Gemm, 1000, ("H100", "A100"));
        assert!(on_a100(narrow) > on_a100(wide), "half of what made it fast is missing there");
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
