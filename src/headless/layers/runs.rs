//! What `layers` takes from each run: its layers and kernels and what its profiler recorded.

use color_eyre::eyre::{Result, eyre};

use crate::headless::opened::Opened;
use crate::session::{first_trace, layer_table};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::layers::{Recorded, Run};
use retime_core::trace::Category;

/// Layers and kernels of the first rank: as measured, or as simulated where there are edits.
///
/// # Errors
/// It has no rank.
pub(super) fn run(opened: &Opened) -> Result<Run<'_>> {
    let times = if opened.outcome.steps.is_empty() { Times::Measured } else { opened.times() };
    let device = opened.outcome.resolved.devices.first().ok_or_else(|| eyre!("a run has no rank"))?;
    let table = layer_table(&opened.loaded, &opened.outcome, &opened.edited, times);
    Ok(Run { name: opened.loaded.title.clone(), device, recorded: recorded(opened), table })
}

/// What the first rank's profiler recorded; `None` without a trace.
fn recorded(run: &Opened) -> Option<Recorded> {
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
