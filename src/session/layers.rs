//! Layers and kernels of a run with what only its trace tells: the occupancy of launches.

use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::layers::{Launch, LayerTable, Recorded, occupancy};
use retime_core::device::DeviceProfile;
use retime_core::graph::Task;
use retime_core::trace::{Category, KernelArgs, Trace};
use retime_core::units::elements;

use super::{Loaded, Outcome};

/// Layers and kernels of the first rank of `edited`, which is what `outcome` made of the trace, at `times`.
///
/// # Complexity
/// O(tasks · log tasks).
pub fn layer_table(loaded: &Loaded, outcome: &Outcome, edited: &Edited, times: Times<'_>) -> LayerTable {
    let Some(device) = outcome.resolved.devices.first() else { return LayerTable::default() };
    let own = loaded.context.devices.first().is_some_and(|old| old.profile.id == device.id);
    let trace = first_trace(loaded);
    let occupancy = |task: &Task| trace.and_then(|trace| task_occupancy(trace, task, device, own));
    let table = LayerTable::of((&edited.graph, &edited.works), times, device, occupancy);
    let batch = outcome.resolved.batch.map(|(_, batch)| batch);
    let samples = samples_of_first(loaded, outcome).or(table.samples);
    let summary = &outcome.summary;
    // As throughput is told elsewhere: by the step as it repeats, where that is known.
    let latency = if summary.steady.is_compared() { summary.steady_ns } else { table.latency };
    LayerTable { batch: batch.or(table.batch), samples, latency, ..table }
}

/// Samples of an iteration of the first rank under the edits of `outcome`, where ranks have unlike ones its own; `None` where the batch size
/// is not known.
fn samples_of_first(loaded: &Loaded, outcome: &Outcome) -> Option<f64> {
    let mean = outcome.summary.known_samples()?;
    let own = loaded.graph.ranks.first().and_then(|part| loaded.graph.samples_of(part));
    let traced = loaded.replay.summary.known_samples().filter(|&traced| traced > 0.0);
    Some(own.zip(traced).map_or(mean, |(own, traced)| own * mean / traced))
}

/// The trace of the first rank; `None` where there is none, as of a table of layers.
pub fn first_trace(loaded: &Loaded) -> Option<&Trace> {
    let part = loaded.graph.ranks.first()?;
    loaded.job.ranks.get(part.trace_index)?.trace.as_ref()
}

/// What the first rank's profiler recorded; `None` without a trace.
pub fn recorded(loaded: &Loaded) -> Option<Recorded> {
    let trace = first_trace(loaded)?;
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

/// The profiler's estimate where the kernel stays on its device, else what its launch allows. The profiler says 0 of kernels that
/// ask for more shared memory than a block has by default.
fn task_occupancy(trace: &Trace, task: &Task, device: &DeviceProfile, own: bool) -> Option<f64> {
    let launched = trace.kernels.get(task.event?)?;
    let recorded = launched.occupancy.filter(|percent| own && *percent > 0).map(|percent| f64::from(percent) / 100.0);
    recorded.or_else(|| occupancy(launch(launched), device))
}

fn launch(args: &KernelArgs) -> Launch {
    let all = |sizes: [u32; 3]| elements(&sizes.map(u64::from));
    let threads = u32::try_from(all(args.block)).unwrap_or(u32::MAX);
    Launch { blocks: all(args.grid), threads, registers: args.registers, shared: args.shared_memory }
}
