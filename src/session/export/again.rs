//! What an exported iteration is once it is opened again.

use std::path::PathBuf;

use retime_core::analysis::edited::Edited;
use retime_core::graph::BuildOptions;
use retime_core::reads;
use retime_core::trace::OpenOptions;
use retime_core::units::{Bytes, DurNs, Flop};

use crate::session::{Engine, ExportFormat, Loaded, Outcome};

/// By more than this share a figure is another one.
const OTHER: f64 = 0.005;

/// Figures of an iteration that an export has to keep.
struct Figures {
    time: f64,
    flop: f64,
    bytes: f64,
    samples: f64,
}

impl Figures {
    fn of(outcome: &Outcome) -> Self {
        let edited = Edited::of(&outcome.resolved);
        let belongs = edited.graph.iteration_tasks();
        let works =
            edited.graph.tasks.node_indices().filter(|node| belongs[node.index()] && !edited.works.is_removed(*node));
        let works = works.filter_map(|node| edited.works.work(node));
        let (flop, bytes) =
            works.fold((0.0, 0.0), |(flop, bytes), work| (flop + work.flop.0, bytes + work.bytes().0 as f64));
        let (time, samples) = (outcome.summary.steady_ns.0 as f64, outcome.summary.job_samples());
        Self { time, flop, bytes, samples }
    }
}

/// In which figures the iteration is another one in the `files` that were written of `outcome`, in words; `None` where it is the
/// same, and of formats that nothing opens. The file states what there is to do; what waits for what is inferred anew, and with it the
/// time and which work at the ends of the iteration belongs to it.
pub fn opened_again(engine: &Engine, files: &[PathBuf], outcome: &Outcome, format: ExportFormat) -> Option<String> {
    let others = if format == ExportFormat::Chrome { others(engine, files, outcome) } else { Vec::new() };
    (!others.is_empty()).then(|| format!("opened again it has {}", others.join(", ")))
}

fn others(engine: &Engine, files: &[PathBuf], outcome: &Outcome) -> Vec<String> {
    let opened = engine.load(files, &OpenOptions::default(), &BuildOptions::default());
    for file in files {
        reads::forget(file);
    }
    let again: Loaded = match opened.map(|mut opened| opened.pop()) {
        Ok(Some(again)) => again,
        Ok(None) => return vec!["no trace".to_owned()],
        Err(error) => return vec![error.to_string()],
    };
    let (own, again) = (Figures::of(outcome), Figures::of(&again.replay));
    let is_other = |own: f64, again: f64| (again - own).abs() > OTHER * own.abs().max(again.abs());
    let time = |ns: f64| DurNs(ns as i64).to_string();
    let figures = [
        (own.time, again.time, &time as &dyn Fn(f64) -> String),
        (own.flop, again.flop, &|flop| Flop(flop).to_string()),
        (own.bytes, again.bytes, &|bytes| format!("{} of traffic", Bytes(bytes as u64))),
        (own.samples, again.samples, &|samples| format!("{samples} samples")),
    ];
    let others = figures.into_iter().filter(|&(own, again, _)| is_other(own, again));
    others.map(|(own, again, text)| format!("{} for {}", text(again), text(own))).collect()
}
