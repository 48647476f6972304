//! What `layers` takes from each run: its layers and kernels and what its profiler recorded.

use crate::headless::opened::Opened;
use crate::session::{first_trace, layer_table};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::layers::{LayerTable, Recorded};
use retime_core::trace::Category;

/// Layers and kernels of the first rank: as measured, or as simulated where there are edits.
pub(super) fn table(run: &Opened) -> LayerTable {
    let times = if run.outcome.steps.is_empty() { Times::Measured } else { run.times() };
    layer_table(&run.loaded, &run.outcome, &run.edited, times)
}

/// What the first rank's profiler recorded; `None` without a trace.
pub(super) fn recorded(run: &Opened) -> Option<Recorded> {
    let trace = first_trace(&run.loaded)?;
    let mut found = Recorded { memory: !trace.memory.is_empty(), ..Recorded::default() };
    for event in trace.events.ids() {
        match trace.events.category(event) {
            Category::Kernel => found.kernels = true,
            Category::Operator => found.operators = true,
            Category::Python => found.stacks = true,
            _ => {}
        }
    }
    for (_, args) in trace.operators.iter() {
        found.shapes |= args.tensors.is_some();
        found.stacks |= args.stack != retime_core::intern::NameId(0);
    }
    Some(found)
}
