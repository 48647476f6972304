//! What `layers` takes from each run: its layers and kernels and what its profiler recorded.

use color_eyre::eyre::{Result, eyre};

use crate::headless::opened::Opened;
use crate::session::{layer_table, recorded};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::layers::Run;

/// Layers and kernels of the first rank: as measured, or as simulated where there are edits.
///
/// # Errors
/// It has no rank.
pub(super) fn run(opened: &Opened) -> Result<Run<'_>> {
    let times = if opened.outcome.steps.is_empty() { Times::Measured } else { opened.times() };
    let device = opened.outcome.resolved.devices.first().ok_or_else(|| eyre!("a run has no rank"))?;
    let table = layer_table(&opened.loaded, &opened.outcome, &opened.edited, times);
    Ok(Run { name: opened.loaded.title.clone(), device, recorded: recorded(&opened.loaded), table })
}
