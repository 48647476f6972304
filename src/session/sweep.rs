//! Sweeps: one scenario evaluated over the values of a knob.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::analysis::layers::optimal_throughput;
use crate::scenario::transforms::Figure;
use crate::scenario::{Scenario, Step};
use crate::units::{Bytes, DurNs};

/// A knob and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Name of the knob, e.g. `batch`.
    pub knob: String,
    /// A step with `{}` in the place of the value, e.g. `resize-batch {}`.
    pub template: String,
    /// The values, in rising order.
    pub values: Vec<f64>,
}

impl Sweep {
    /// A sweep over batch sizes.
    pub fn batch(sizes: &[u64]) -> Self {
        Self {
            knob: "batch".to_owned(),
            template: "resize-batch {}".to_owned(),
            values: sizes.iter().map(|&size| size as f64).collect(),
        }
    }

    /// Batch sizes around `current`: a sixteenth of it to sixteen times it, doubling.
    pub fn batch_around(current: u64) -> Self {
        let sizes: Vec<u64> = (-4..=4)
            .map(|power| (current as f64 * 2_f64.powi(power)).round() as u64)
            .filter(|&size| size > 0)
            .collect();
        Self::batch(&sizes)
    }

    /// The step template of a knob given by name: `batch`, `ranks`, `bucket`, `accumulate`, a figure of the device
    /// (`dram_bw`, `flops`, `link`, `host_link`), or a selector, also as `alpha SELECTOR`, which is scaled.
    pub fn template(knob: &str) -> String {
        match knob {
            "batch" => "resize-batch {}".to_owned(),
            "ranks" => "scale-ranks {}".to_owned(),
            "bucket" => "bucket-size {}".to_owned(),
            "accumulate" => "accumulate {}".to_owned(),
            figure if Figure::ALL.iter().any(|known| known.name() == figure) => format!("scale-device {figure} x{{}}"),
            selector => {
                let alpha = selector.strip_prefix("alpha ").unwrap_or(selector);
                format!("scale {} x{{}}", alpha.strip_prefix("of ").unwrap_or(alpha).trim())
            }
        }
    }

    /// The values, in order.
    pub fn values(&self) -> impl Iterator<Item = f64> + use<> {
        self.values.clone().into_iter()
    }

    /// The step for one value.
    pub fn line(&self, value: f64) -> String {
        self.template.replace("{}", &value.to_string())
    }

    /// Parses `A..B` (doubling), `A..BxN` (N values, evenly spaced ratios when A > 0) or `A,B,C`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse_values(text: &str) -> Result<Vec<f64>, String> {
        let number = |text: &str| {
            let value: f64 = text.trim().parse().map_err(|_| format!("`{text}` is no number"))?;
            if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(format!("`{text}` is out of range")) }
        };
        let Some((low, rest)) = text.split_once("..") else { return text.split(',').map(number).collect() };
        let (high, count) = match rest.split_once('x') {
            Some((high, count)) => (high, Some(count.parse::<usize>().map_err(|_| format!("`{count}` is no count"))?)),
            None => (rest, None),
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high || low <= 0.0 {
            return Err(format!("`{text}`: expected A..B with 0 < A ≤ B"));
        }
        match count {
            None => {
                Ok(std::iter::successors(Some(low), |value| Some(value * 2.0)).take_while(|&v| v <= high).collect())
            }
            Some(count @ 2..=10_000) => {
                let ratio = (high / low).powf(1.0 / (count - 1) as f64);
                Ok((0..count).map(|index| low * ratio.powi(index as i32)).collect())
            }
            Some(_) => Err("expected 2 to 10000 values".to_owned()),
        }
    }
}

/// Puts a knob's step in place of the last step of the same kind where the knob is that step's only argument, else at the end.
pub(super) fn put(scenario: &mut Scenario, step: Step, sweep: &Sweep) {
    let same = |other: &&mut Step| sweep.knob == "batch" && other.transform.name() == step.transform.name();
    match scenario.steps.iter_mut().rev().find(same) {
        Some(other) => *other = step,
        None => scenario.steps.push(step),
    }
}

/// One evaluated value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Knob → value.
    pub knobs: BTreeMap<String, f64>,
    /// Iteration time.
    pub simulated_ns: DurNs,
    /// Samples per second; iterations per second where the batch size is unknown.
    pub throughput: f64,
    /// Peak device memory, where it can be told.
    pub memory_bytes: Option<Bytes>,
    /// Whether it fits the device, where both are known.
    pub fits: Option<bool>,
    /// What most of the critical path is.
    pub path_kind: String,
    /// What the step could not do.
    pub unhandled: Vec<String>,
}

impl SweepPoint {
    /// The value of `knob`.
    pub fn value(&self, knob: &str) -> Option<f64> {
        self.knobs.get(knob).copied()
    }
}

/// The batch size whose doubling gains at most 5 % in throughput, among points that fit; see [`optimal_throughput`].
pub fn optimal_batch(points: &[SweepPoint]) -> Option<u64> {
    let fitting = points.iter().filter(|point| point.fits != Some(false));
    optimal_throughput(fitting.filter_map(|point| Some((point.value("batch")? as u64, point.throughput))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(batch: f64, throughput: f64, fits: Option<bool>) -> SweepPoint {
        SweepPoint {
            knobs: BTreeMap::from([("batch".to_owned(), batch)]),
            simulated_ns: DurNs(1),
            throughput,
            memory_bytes: None,
            fits,
            path_kind: String::new(),
            unhandled: Vec::new(),
        }
    }

    #[test]
    fn ranges_double_or_are_evenly_spaced_in_ratio() {
        assert_eq!(Sweep::parse_values("64..512").unwrap(), [64.0, 128.0, 256.0, 512.0]);
        assert_eq!(Sweep::parse_values("1..4x3").unwrap(), [1.0, 2.0, 4.0]);
        assert_eq!(Sweep::parse_values("3,1").unwrap(), [3.0, 1.0]);
        for bad in ["0..4", "5..4", "a..b", "1..2x1", "NaN", "1..inf"] {
            assert!(Sweep::parse_values(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_optimal_batch_is_where_doubling_stops_paying() {
        let points = [point(64.0, 100.0, None), point(128.0, 180.0, None), point(256.0, 188.0, None)];
        assert_eq!(optimal_batch(&points), Some(128));
        let memory = [point(64.0, 100.0, None), point(128.0, 180.0, None), point(256.0, 360.0, Some(false))];
        assert_eq!(optimal_batch(&memory), Some(128));
        assert_eq!(optimal_batch(&points[..1]), None);
    }
}
