//! Draft → timed graph: written into the rows that are there where each task still comes after all it waits for, else copied
//! with the rows that changed written anew.

mod changed;
mod cycle;
mod durations;
mod patch;
mod rebuild;

use std::sync::Arc;

use crate::graph::{TaskId, TimedGraph};
use crate::sim::Cycle;

use super::draft::Draft;
use changed::Changed;
use durations::Durations;
pub(super) use durations::Prices;

/// What lowering gives.
pub(super) struct Lowered {
    pub(super) timed: TimedGraph,
    /// Its chosen step closed into a loop.
    pub(super) cycle: Arc<Cycle>,
    /// The tasks before this one are those of the base and take as long; `None` where the graph was built anew.
    pub(super) unchanged: Option<TaskId>,
    /// The task of each added one.
    pub(super) added: Vec<TaskId>,
    /// Dependencies left out because they closed a cycle.
    pub(super) cyclic: usize,
}

/// Lowers `draft`, whose tasks take what `prices` says.
///
/// # Complexity
/// O(tasks), and O(dependencies) of tasks whose dependencies changed.
pub(super) fn lower(draft: &Draft<'_>, prices: &Prices) -> Lowered {
    let durations = Durations::of(draft, prices);
    let changed = Changed::of(draft, &durations);
    let untouched = draft.base().timed();
    if draft.structure.added.is_empty() && patch::fits(untouched, &changed) {
        let (timed, unchanged) = patch::patch(untouched, &changed, &durations);
        let waits_for_the_same = changed.groups().next().is_none() && draft.moved().is_empty();
        let cycle = if waits_for_the_same {
            cycle::taking(&cycle_of_base(draft), &timed)
        } else {
            cycle::cycle(draft, &timed, &[])
        };
        return Lowered { timed, cycle: Arc::new(cycle), unchanged: Some(unchanged), added: Vec::new(), cyclic: 0 };
    }
    rebuild::rebuild(draft, changed, &durations)
}

/// The cycle of the untouched graph, of which `draft` differs in no dependency.
pub(super) fn cycle_of_base(draft: &Draft<'_>) -> Arc<Cycle> {
    let base = draft.base();
    base.cycle(|| cycle::cycle(&Draft::new(base, draft.context()), base.timed(), &[])).clone()
}
