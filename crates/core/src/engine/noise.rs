//! How far off an iteration is that no model had a part in: as recorded steps differ, and as the replay is off.

use crate::graph::ExecutionGraph;
use crate::graph::iteration::{least_events, steps};
use crate::stats::{mean_and_deviation, median};
use crate::trace::Job;

use super::Summary;

/// How much iterations of one trace differ as a rule: the median standard deviation over 23 jobs that recorded several steps,
/// as a share of the iteration. Assumed where a trace recorded one step.
pub const TYPICAL_SPREAD: f64 = 0.035;

/// How far off an iteration is that no model had a part in, as a share of it: as recorded steps differ from one another, and as the
/// replay is off.
pub(super) fn noise(job: &Job, graph: &ExecutionGraph, replay: &Summary) -> f64 {
    let spread = spread_of_steps(job, graph).map(|spread| spread / graph.measured.0.max(1) as f64);
    spread.unwrap_or(TYPICAL_SPREAD).hypot(replay.replay_error.unwrap_or(UNSTATED_ERROR))
}

/// How far off a prediction may be that does not say so, as a share of it.
const UNSTATED_ERROR: f64 = 1.0;

/// How far off the iteration of a job is, relative, whose times were predicted, by what its traces state; `None` where they were
/// measured.
pub(super) fn of_prediction(job: &Job) -> Option<f64> {
    let predicted = job.ranks.iter().filter_map(|rank| rank.trace.as_ref()).filter(|trace| trace.predicted.is_some());
    predicted.map(|trace| trace.predicted_error.unwrap_or(UNSTATED_ERROR)).reduce(f64::max)
}

/// How far the steps that were recorded whole are apart, but the first of three or more, in ns; `None` of fewer than two.
pub fn spread_of_steps(job: &Job, graph: &ExecutionGraph) -> Option<f64> {
    let part = graph.ranks.first()?;
    let steps = steps(job.ranks.get(part.trace_index)?.trace.as_ref()?);
    let least = least_events(&steps);
    let whole = steps.iter().filter(|step| step.events >= least && !step.observed);
    let lengths: Vec<f64> = whole.map(|step| step.dur.0 as f64).collect();
    let settled = if lengths.len() >= 3 { &lengths[1..] } else { &lengths[..] };
    spread(settled)
}

/// Steps from which on a minority that waited for something else can be told from how steps spread.
const SEVERAL: usize = 4;
/// The standard deviation of a normal distribution over its median distance from the median.
const NORMAL: f64 = 1.4826;

/// The standard deviation of lengths. Of several it is told by their median distance from the median: a step here and there that
/// waited for data says nothing about the others, and the chosen iteration is one of those.
fn spread(lengths: &[f64]) -> Option<f64> {
    if lengths.len() < SEVERAL {
        let (_, deviation) = mean_and_deviation(lengths).filter(|_| lengths.len() > 1)?;
        let count = lengths.len() as f64;
        return Some(deviation * (count / (count - 1.0)).sqrt());
    }
    let middle = median(&mut lengths.to_vec())?;
    let mut distances: Vec<f64> = lengths.iter().map(|length| (length - middle).abs()).collect();
    median(&mut distances).map(|distance| NORMAL * distance)
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn steps_that_waited_for_data_do_not_widen_the_others() {
        let even = spread(&[126.2, 127.2, 123.1, 124.2]).unwrap();
        let waited = spread(&[126.2, 127.2, 123.1, 163.5, 124.2, 182.3]).unwrap();
        assert!((1.0..5.0).contains(&even) && waited < 2.5 * even, "{even} {waited}");
        assert!(spread(&[100.0, 150.0, 100.0, 150.0]).unwrap() > 25.0, "steps of two kinds do differ");
    }

    #[test]
    fn of_two_or_three_steps_every_one_counts() {
        assert_eq!(spread(&[100.0]), None);
        assert!((spread(&[100.0, 104.0]).unwrap() - 8.0_f64.sqrt()).abs() < 1e-9);
    }
}
