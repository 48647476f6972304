//! `layers`: the fifteen across-stack analyses of one run, or of several runs as trimmed means.

mod overview;
mod runs;

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Iteration, LayersArgs};
use crate::session::LayerStudy;
use retime_core::analysis::layers::Run;
use retime_core::diagnostic::Diagnostic;
use retime_core::units::DurNs;

use super::opened::Opened;
use super::{input, output};

#[derive(Debug, Serialize)]
struct Envelope {
    traces: Vec<String>,
    /// The rank that the layers are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    /// How many ranks the first run has.
    ranks: u32,
    #[serde(flatten)]
    answer: LayerStudy,
    diagnostics: Vec<Diagnostic>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, or standard output cannot be written.
pub fn run(args: &LayersArgs, iteration: Iteration) -> Result<()> {
    let runs = Opened::runs(&args.common, iteration)?;
    let target = args.latency_ms.map(|ms| DurNs::from_us_f64(ms * 1e3));
    let named: Result<Vec<Run<'_>>> = runs.iter().map(runs::run).collect();
    let answer = LayerStudy::of(&named?, target).ok_or_else(|| eyre!("no run was opened"))?;
    let (mut traces, mut diagnostics) = (Vec::new(), Vec::new());
    for run in &runs {
        let paths = input::paths(&run.loaded);
        if !paths.iter().all(|path| traces.contains(path)) {
            traces.extend(paths);
            diagnostics.extend(input::diagnostics(&run.loaded));
        }
    }
    let graph = runs.first().map(|run| &run.loaded.graph);
    let rank = graph.and_then(|graph| graph.ranks.first()).map(|part| part.rank.0);
    let envelope = Envelope { traces, rank, ranks: graph.map_or(0, |graph| graph.rank_count()), answer, diagnostics };
    let answer = &envelope.answer;
    output::write(
        &args.common.input.output,
        &envelope,
        |out| {
            if let (Some(rank), true) = (envelope.rank, envelope.ranks > 1) {
                writeln!(out, "layers of rank {rank}, one of {} ranks", envelope.ranks)?;
            }
            match &args.analysis[..] {
                [] => overview::overview(answer, args.top, out),
                chosen => overview::analyses(answer, chosen, args.top, out),
            }
        },
        || answer.analysis(args.analysis.first().copied().unwrap_or(LAYERS)).into(),
    )?;
    Ok(())
}

/// The number of the table of layers among the analyses.
const LAYERS: u8 = 2;
