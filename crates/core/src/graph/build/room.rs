//! How much memory a graph will take, told before it is built.

use crate::graph::iteration;
use crate::trace::{Category, EventId, Job, RankClasses, Trace};
use crate::units::Bytes;

use super::BuildOptions;

/// Memory that an event takes while the replay's constants are estimated, about.
const PER_READ: Bytes = Bytes(100);
/// Memory that an event of the modelled window takes in the graph and while it is built, about.
const PER_BUILT: Bytes = Bytes(500);

/// Memory that the graph of a job takes while it is built, about: all that it did is read, the window alone becomes tasks.
///
/// # Complexity
/// O(events).
pub fn memory_needed(job: &Job, folding: &RankClasses, options: &BuildOptions) -> Bytes {
    let traces = folding.classes.iter().filter_map(|class| job.ranks.get(class.position)?.trace.as_ref());
    traces.map(|trace| of_trace(trace, options)).sum()
}

fn of_trace(trace: &Trace, options: &BuildOptions) -> Bytes {
    let all = read(trace, trace.events.ids());
    let steps = iteration::steps(trace);
    let Some(at) = iteration::choose(&steps, options.iteration) else { return (PER_READ + PER_BUILT) * all };
    let (before, chosen) = (&steps[at.saturating_sub(1)], &steps[at]);
    // The host goes on until the device has done the chosen step: about one more.
    let window = read(trace, trace.events.within(before.start..chosen.end() + chosen.dur));
    PER_READ * all + PER_BUILT * window
}

fn read(trace: &Trace, ids: impl Iterator<Item = EventId>) -> u64 {
    ids.filter(|&id| is_read(trace, id)).count() as u64
}

/// Whether an event is read for the graph, as frames of Python, allocations and annotations are not.
fn is_read(trace: &Trace, id: EventId) -> bool {
    use Category::{Kernel, Memcpy, Memset, Operator, Runtime, Sync};
    matches!(trace.events.category(id), Operator | Runtime | Kernel | Memcpy | Memset | Sync)
}
