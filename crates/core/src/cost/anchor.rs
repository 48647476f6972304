//! How wrong an anchored prediction may be: `t_measured · model(new)/model(old)`.

use serde::{Deserialize, Serialize};

use super::domain::Domain;
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

/// What supplies the ratio of two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// The fits of the devices, whatever each has chosen.
    Fitted,
    /// Their structured models alone.
    Structured,
    /// The structured model with the parameters that devices share.
    Shared,
}

impl Ratio {
    /// All of them, in the order of the enum.
    pub const ALL: [Self; 3] = [Self::Fitted, Self::Structured, Self::Shared];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Structured => "structured",
            Self::Shared => "structured-unseen",
        }
    }

    /// What an estimate by `model` is; `None` for models that are not of a domain.
    pub fn of(model: &str) -> Option<Self> {
        match model {
            "structured+trees" | "mlp" | "curve" => Some(Self::Fitted),
            "structured" => Some(Self::Structured),
            "structured-unseen" => Some(Self::Shared),
            _ => None,
        }
    }
}

/// Mean absolute relative error over pairs of held-out measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairError {
    /// The error.
    pub error: f64,
    /// How many pairs.
    pub n: u32,
}

/// Errors of `t_a · model(b)/model(a)` against a measured `t_b`, in one domain: what anchored predictions state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchored {
    /// What it covers.
    pub domain: Domain,
    /// What supplied the ratio.
    pub by: Ratio,
    /// The batch ×2, ×4 and ×8, or as much smaller, on one device.
    pub doublings: [PairError; 3],
    /// The same work on a device of another chip.
    pub swap: PairError,
    /// Where the measurements are from.
    pub source: String,
}

/// Fewest pairs whose mean is taken for an error.
const FEWEST_PAIRS: u32 = 20;

impl Anchored {
    /// Expected error of `change`; `None` where too few pairs were measured. Between doublings it is interpolated, grows from 0
    /// and never falls; beyond ×8 it goes on as from ×2 to ×8.
    pub fn error(&self, change: Change) -> Option<f64> {
        let size = self.size_error(change.doublings)?;
        if change.same_device {
            return Some(size);
        }
        (self.swap.n >= FEWEST_PAIRS).then(|| size.hypot(self.swap.error))
    }

    fn size_error(&self, doublings: f64) -> Option<f64> {
        if doublings <= 0.0 {
            return Some(0.0);
        }
        let mut points = vec![(0.0, 0.0_f64)];
        for (at, pairs) in self.doublings.iter().enumerate().filter(|(_, pairs)| pairs.n >= FEWEST_PAIRS) {
            let lowest = points.last().map_or(0.0, |point| point.1);
            points.push((at as f64 + 1.0, pairs.error.max(lowest)));
        }
        let &(last, highest) = points.last().filter(|(last, _)| *last > 0.0)?;
        if doublings >= last {
            let (first, lowest) = points[1];
            let slope = if last > first { (highest - lowest) / (last - first) } else { 0.0 };
            return Some(highest + slope * (doublings - last));
        }
        let above = points.partition_point(|(at, _)| *at < doublings).max(1);
        let ((from, low), (to, high)) = (points[above - 1], points[above]);
        Some(low + (high - low) * (doublings - from) / (to - from))
    }
}

/// Errors of anchoring where none were measured, by model: at the first doubling of the work, for each further one, and across
/// devices.
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

/// Expected relative error of anchoring, of the weaker of both models; grows from 0 with the first doubling. As `measured` of
/// the work's domain where that was.
pub(crate) fn expected_error<'a>(
    before: &Estimate,
    after: &Estimate,
    change: Change,
    measured: impl Fn(Ratio) -> Option<&'a Anchored>,
) -> f32 {
    let of = |model: &str| {
        if let Some(error) = Ratio::of(model).and_then(&measured).and_then(|anchored| anchored.error(change)) {
            return error;
        }
        let Errors { first, further, device } = errors(model);
        let size = first * change.doublings.min(1.0) + further * (change.doublings - 1.0).max(0.0);
        if change.same_device { size } else { size.hypot(device) }
    };
    of(before.model).max(of(after.model)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchored(errors: [(f64, u32); 3]) -> Anchored {
        let doublings = errors.map(|(error, n)| PairError { error, n });
        let swap = PairError { error: 0.3, n: 50 };
        Anchored { domain: Domain::Linear, by: Ratio::Fitted, doublings, swap, source: String::new() }
    }

    fn size(doublings: f64) -> Change {
        Change { same_device: true, doublings }
    }

    #[test]
    fn an_error_is_interpolated_between_measured_doublings_and_never_falls() {
        let measured = anchored([(0.04, 90), (0.03, 90), (0.08, 90)]);
        for (doublings, wanted) in [(0.0, 0.0), (0.5, 0.02), (1.0, 0.04), (1.5, 0.04), (2.5, 0.06), (4.0, 0.1)] {
            assert!((measured.error(size(doublings)).unwrap() - wanted).abs() < 1e-9, "{doublings}");
        }
        let swapped = measured.error(Change { same_device: false, doublings: 1.0 }).unwrap();
        assert!((swapped - 0.04f64.hypot(0.3)).abs() < 1e-9);
    }

    #[test]
    fn few_pairs_say_nothing() {
        assert!(anchored([(0.04, 3), (0.0, 0), (0.0, 0)]).error(size(1.0)).is_none());
        assert!((anchored([(0.9, 3), (0.06, 40), (0.0, 0)]).error(size(1.0)).unwrap() - 0.03).abs() < 1e-9);
    }
}
