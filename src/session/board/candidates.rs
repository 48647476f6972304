//! Which edits a board tries: those of advice, and what a reader may ask for beside them.

use retime_core::analysis::advise;
use retime_core::device::DeviceKind;
use retime_core::scenario::Step;

use crate::session::Loaded;

/// Edits that trade time for something else, or that advice does not propose by itself.
const FURTHER: [&str; 3] = ["quantize-weights int8", "checkpoint phase=forward segments=4", "accumulate 2"];

/// The lines to try on a trace, what is likely to gain first.
pub fn candidates(loaded: &Loaded) -> Vec<String> {
    let mut lines: Vec<String> =
        advise::candidates(&loaded.base, &loaded.context).into_iter().map(|candidate| candidate.line).collect();
    lines.extend(FURTHER.map(str::to_owned));
    let ranks = loaded.graph.rank_count();
    if ranks > 1 {
        lines.extend([2, 4].map(|times| format!("scale-ranks {}", u64::from(ranks) * times)));
    }
    lines.extend(batches(loaded.graph.batch_size));
    lines.extend(devices(loaded));
    let mut seen = std::collections::BTreeSet::new();
    let is_known = |line: &String| loaded.context.step(line).is_ok();
    // A device in force is named by its edit as any other.
    lines.into_iter().filter(is_known).filter(|line| seen.insert(line.clone())).collect()
}

/// Batch sizes around that of the trace, itself among them.
fn batches(batch: Option<u64>) -> Vec<String> {
    let sizes = batch.into_iter().flat_map(|batch| {
        let less = [16, 8, 4, 2].map(|by| batch / by);
        let more = [1, 2, 4, 8].map(|by| batch.saturating_mul(by));
        less.into_iter().chain(more)
    });
    sizes.filter(|&size| size > 0).map(|size| format!("resize-batch {size}")).collect()
}

/// Every GPU of the catalog, the traced one among them, with work that runs on devices.
fn devices(loaded: &Loaded) -> Vec<String> {
    let runs_on_gpu = loaded.context.devices.iter().any(|device| device.profile.kind == DeviceKind::Gpu);
    let is_gpu = |id: &&str| {
        loaded
            .context
            .catalog
            .iter()
            .any(|device| device.id == **id && device.kind == DeviceKind::Gpu && device.memory.0 > 0)
    };
    let ids: Vec<&str> = loaded.context.catalog.iter().map(|device| device.id.as_str()).collect();
    let edit = if runs_on_gpu { "swap-gpu" } else { "place-on" };
    ids.iter().filter(|id| is_gpu(id)).map(|id| format!("{edit} {id}")).collect()
}

/// The number of a step that can be turned, by its place: the first that is one.
pub fn number_of(step: &Step) -> Option<(usize, f64)> {
    const ARGUMENTS: usize = 4;
    (0..ARGUMENTS).find_map(|at| Some((at, step.number(at)?)))
}
