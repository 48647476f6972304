//! Says of which device work the recorded sizes cannot be, as no device works them off in the recorded time.

use crate::diagnostic::{Diagnostics, Severity};
use crate::scenario::Base;

/// Tells how many kernels and copies took too little time for their sizes, and which is the first.
///
/// # Complexity
/// O(tasks).
pub(super) fn tell(base: &Base, diagnostics: &mut Diagnostics) {
    let graph = base.graph();
    let mut refuted = base.refuted().filter(|&node| graph.tasks[node].kind.is_device());
    let Some(first) = refuted.next() else { return };
    let (task, count) = (&graph.tasks[first], 1 + refuted.count());
    let (kernels, took) = if count == 1 { ("kernel or copy", "takes") } else { ("kernels and copies", "take") };
    diagnostics.add(Severity::Warning, "impossible-rate", "", None, || {
        format!(
            "{count} {kernels} {took} less time than the device needs for the recorded sizes ({}: {}): what they compute counts as \
             not known",
            graph.names.get(task.name),
            task.duration
        )
    });
}
