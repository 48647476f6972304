//! How far off an iteration is that no model had a part in: as recorded steps differ, and as the replay is off.

use crate::graph::ExecutionGraph;
use crate::graph::iteration::steps;
use crate::trace::Job;

use super::Summary;

/// How much iterations of one trace differ as a rule: the median standard deviation over 23 jobs that recorded several steps,
/// as a share of the iteration. Assumed where a trace recorded one step.
pub const TYPICAL_SPREAD: f64 = 0.035;

/// How far off an iteration is that no model had a part in, as a share of it: as recorded steps differ from one another, and as the
/// replay is off.
pub(super) fn noise(job: &Job, graph: &ExecutionGraph, replay: &Summary) -> f64 {
    let spread = spread_of_steps(job, graph).map(|spread| spread / graph.measured.0.max(1) as f64);
    spread.unwrap_or(TYPICAL_SPREAD).hypot(replay.replay_error)
}

/// Standard deviation of the steps that were recorded whole, but the first of three or more, in ns; `None` of fewer than two.
pub fn spread_of_steps(job: &Job, graph: &ExecutionGraph) -> Option<f64> {
    let part = graph.ranks.first()?;
    let steps = steps(job.ranks.get(part.trace_index)?.trace.as_ref()?);
    let largest = steps.iter().map(|step| step.events).max()?;
    let whole = steps.iter().filter(|step| step.events * 2 >= largest && !step.observed);
    let lengths: Vec<f64> = whole.map(|step| step.dur.0 as f64).collect();
    let settled = if lengths.len() >= 3 { &lengths[1..] } else { &lengths[..] };
    let mean = settled.iter().sum::<f64>() / settled.len().max(1) as f64;
    let sum = settled.iter().map(|length| (length - mean).powi(2)).sum::<f64>();
    (settled.len() > 1).then(|| (sum / (settled.len() - 1) as f64).sqrt())
}
