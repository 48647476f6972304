//! How wrong an anchored prediction may be: `t_measured · model(new)/model(old)`.

use super::prediction::Estimate;
use crate::units::DurNs;

/// What changed between the measured kernel and the predicted one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Whether both run on the same device.
    pub same_device: bool,
    /// How often the work doubled or halved.
    pub doublings: f64,
}

/// Errors of anchoring by model: at the first doubling of the work, for each further one, and across devices.
///
/// Source: ACCURACY, batch ×2/×4/×8 on one GPU: roofline 13/23/38 %, structured 9/10/12 %, residual 7/7/8 %;
/// across GPUs: roofline 18 %, structured 14 % unseen, residual 7–10 % seen.
struct Errors {
    first: f64,
    further: f64,
    device: f64,
}

fn errors(model: &str) -> Errors {
    match model {
        "structured+trees" => Errors { first: 0.07, further: 0.005, device: 0.09 },
        "structured" | "structured-unseen" => Errors { first: 0.09, further: 0.015, device: 0.14 },
        "embedding-enhanced" | "embedding-plain" | "embedding-backward" => {
            Errors { first: 0.05, further: 0.02, device: 0.25 }
        }
        "collective-curve" | "collective-sigmoid" => Errors { first: 0.06, further: 0.01, device: 0.35 },
        _ => Errors { first: 0.13, further: 0.12, device: 0.18 },
    }
}

/// How far a model is from a kernel that was measured: `|ln(model / measured)|`; large where either took no time.
pub fn missed(before: &Estimate, measured: DurNs) -> f32 {
    let (model, measured) = (before.duration.0.max(1) as f64, measured.0.max(1) as f64);
    (model / measured).ln().abs() as f32
}

/// Expected relative error of anchoring, of the weaker of both models; grows from 0 with the first doubling.
pub fn expected_error(before: &Estimate, after: &Estimate, change: Change) -> f32 {
    let of = |model: &str| {
        let Errors { first, further, device } = errors(model);
        let size = first * change.doublings.min(1.0) + further * (change.doublings - 1.0).max(0.0);
        if change.same_device { size } else { size.hypot(device) }
    };
    of(before.model).max(of(after.model)) as f32
}
