//! What follows from the order of a sweep's points along one knob, for every setting of the others.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{PathChange, SweepPoint, memory_limit, optimal_batch, path_changes, still_gains};

/// One knob turned while the others stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepSlice {
    /// The knob that is turned.
    pub knob: String,
    /// Where the others are.
    pub others: BTreeMap<String, f64>,
    /// The batch size whose doubling gains at most 5 %, where the knob is the batch.
    pub optimal_batch: Option<u64>,
    /// Whether that is only the largest tried that fits.
    #[serde(skip)]
    pub still_gains: bool,
    /// The largest value that fits the device, where one does not.
    pub memory_limit: Option<f64>,
    /// Where most of the critical path becomes another kind.
    pub path_changes: Vec<PathChange>,
}

/// What follows along the batch, or else the first knob by name, for every setting of the others in order.
pub fn slices(points: &[SweepPoint]) -> Vec<SweepSlice> {
    let Some(first) = points.first() else { return Vec::new() };
    let batch = first.knobs.keys().find(|knob| *knob == "batch");
    let Some(knob) = batch.or_else(|| first.knobs.keys().next()).cloned() else { return Vec::new() };
    let mut settings: Vec<(BTreeMap<String, f64>, Vec<SweepPoint>)> = Vec::new();
    for point in points {
        let mut others = point.knobs.clone();
        others.remove(&knob);
        match settings.iter_mut().find(|(known, _)| *known == others) {
            Some((_, own)) => own.push(point.clone()),
            None => settings.push((others, vec![point.clone()])),
        }
    }
    let of_setting = |(others, mut own): (BTreeMap<String, f64>, Vec<SweepPoint>)| {
        let value = |point: &SweepPoint| point.value(&knob).unwrap_or_default();
        own.sort_by(|a, b| value(a).total_cmp(&value(b)));
        let best = optimal_batch(&own);
        SweepSlice {
            still_gains: best.is_some_and(|best| still_gains(&own, best)),
            optimal_batch: best,
            memory_limit: memory_limit(&own, &knob),
            path_changes: path_changes(&own, &knob),
            knob: knob.clone(),
            others,
        }
    };
    settings.into_iter().map(of_setting).collect()
}
