//! Execution traces without a profiler trace: operators with shapes and no times become a predicted timeline on a GPU
//! [Lin 2022, Fig. 3], which everything else then treats like a recorded one.

use crate::diagnostic::Severity;
use crate::graph::BuildOptions;
use crate::scenario::{EffectKind, Scenario};
use crate::trace::{self, Job, SideTable, Trace};

use super::{Engine, EngineError, Timeline};

/// The edit that gives them times; another `place-on` in a scenario moves the model on to its device.
const PLACEMENT: &str = "place-on V100";

/// Whether nothing of a job was timed.
pub(super) fn is_untimed(job: &Job) -> bool {
    job.ranks.iter().all(|rank| rank.trace.is_none() && rank.execution_trace.is_some())
}

/// Gives every rank of an untimed job a predicted trace.
///
/// # Errors
/// An execution trace has no operator to place.
pub(super) fn predict(engine: &Engine, mut job: Job, options: &BuildOptions) -> Result<Job, EngineError> {
    for rank in &mut job.ranks {
        let Some(source) = &rank.execution_trace else { continue };
        let laid_out = source.laid_out()?;
        let about = (source.path.clone(), laid_out.format, laid_out.rank, laid_out.diagnostics.clone());
        let skipped = laid_out.skipped_events;
        let entries = laid_out.events_in_file;
        let (placed, assumed) = place(engine, laid_out, rank.rank, options)?;
        // What the loader notes of the file in between says nothing about this one, but for what it left out.
        let (path, format, place, mut diagnostics) = about;
        if placed.skipped_events > 0 {
            diagnostics.merge(&placed.diagnostics);
        }
        diagnostics.add(Severity::Warning, "predicted-times", "", None, || {
            format!(
                "an execution trace has no times: all shown are predicted by {PLACEMENT}; \
                 a step `place-on NAME` puts it on another GPU"
            )
        });
        for text in assumed {
            diagnostics.add(Severity::Warning, "predicted-so", &text, None, || format!("{PLACEMENT}: {text}"));
        }
        rank.trace = Some(Trace {
            path,
            format,
            rank: place,
            events_in_file: entries,
            skipped_events: skipped + placed.skipped_events,
            diagnostics,
            // The execution trace's own tensors tell it.
            stated_memory: None,
            memory: SideTable::default(),
            ..placed
        });
    }
    Ok(job)
}

/// The timeline that `laid_out` has on the GPU, as a trace, and what was assumed for it.
fn place(
    engine: &Engine,
    laid_out: Trace,
    rank: u32,
    options: &BuildOptions,
) -> Result<(Trace, Vec<String>), EngineError> {
    let path = laid_out.path.display().to_string();
    let world_size = None;
    let alone = trace::RankTrace { rank, world_size, trace: Some(laid_out), execution_trace: None };
    let loaded = engine.replay(Job { ranks: vec![alone] }, options)?;
    let outcome = engine.evaluate(&loaded, &Scenario::parse([PLACEMENT])?, 0);
    if outcome.resolved.added.is_empty() {
        return Err(EngineError::NothingToPlace { path });
    }
    let damaged = |error: serde_json::Error| EngineError::Read { path: path.clone(), reason: error.to_string() };
    let bytes = Timeline::new(&outcome).bare().chrome(&loaded).map_err(damaged)?;
    let effects = outcome.steps.iter().flat_map(|step| &step.effects);
    let assumed = effects.filter(|told| told.kind == EffectKind::Assumption).map(|told| told.text.clone());
    let assumed: Vec<String> = assumed.collect();
    // Both are as large as what is read now.
    drop((outcome, loaded));
    Ok((trace::load_bytes(&bytes, &path)?, assumed))
}
