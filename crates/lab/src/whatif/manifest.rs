//! Manifests of captures: what was traced, and how long the same iterations took without a profiler.
//!
//! The same capture in several manifests is one that was repeated: its steps are pooled, of its times the median counts.

use std::path::{Path, PathBuf};

use color_eyre::eyre::{Result, WrapErr};
use serde::Deserialize;

use retime::session::{Engine, Loaded, read_text};
use retime_core::graph::IterationChoice;

use super::median;

#[derive(Debug, Deserialize)]
struct Manifest {
    captures: Vec<Entry>,
}

/// A capture as the manifest lists it.
#[derive(Clone, Debug, Deserialize)]
struct Entry {
    id: String,
    #[serde(default = "one")]
    world_size: u32,
    model: String,
    batch: u64,
    wall: Wall,
    /// Steps recorded for their times; the one after them was slowed down by a second recorder.
    #[serde(default)]
    timing_steps: Vec<u64>,
    files: Files,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, Deserialize)]
struct Wall {
    iteration_us: f64,
    #[serde(default)]
    synced: Option<Spread>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Spread {
    p10: f64,
    p90: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Files {
    kineto: String,
    #[serde(default)]
    et: Option<String>,
}

/// An opened capture of one rank.
pub(crate) struct Capture {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) batch: u64,
    /// Median iteration without a profiler, in ns.
    pub(crate) wall_ns: f64,
    /// Median profiled iteration, in ns.
    pub(crate) profiled_ns: f64,
    /// Whether its un-profiled iterations agree with one another, in most rounds.
    pub(crate) quiet: bool,
    /// The execution trace of a step beside them.
    pub(crate) execution_trace: Option<PathBuf>,
    /// The steps recorded for their times.
    pub(crate) steps: Vec<Loaded>,
    /// Each time that it was captured: without and with a profiler, in ns.
    pub(crate) rounds: Vec<[f64; 2]>,
}

/// Most that the slow tenth of un-profiled iterations may take over the quick tenth for a capture to count as quiet.
const QUIET: f64 = 1.3;

impl Capture {
    /// The id without its batch size: captures that share it differ in nothing else.
    pub(crate) fn series(&self) -> String {
        self.id.replace(&format!("-b{}", self.batch), "")
    }

    /// Whether products and convolutions of 32-bit floats ran in TF32.
    pub(crate) fn is_tf32(&self) -> bool {
        self.id.split('-').any(|part| part == "tf32")
    }

    /// What it ran on, as its id ends.
    fn place(&self) -> &str {
        self.id.rsplit('-').next().unwrap_or_default()
    }

    /// Median time with work on the device of the recorded steps, in ns; 0 where none was used.
    pub(crate) fn device_ns(&self) -> f64 {
        let active = |step: &Loaded| step.replay.summary.gpu_active_ns.0 as f64;
        median(&mut self.steps.iter().map(active).collect::<Vec<f64>>())
    }

    /// Profiled operators of the modelled iteration.
    pub(crate) fn events(&self) -> f64 {
        let Some(graph) = self.steps.first().map(|step| &step.graph) else { return 0.0 };
        let Some(part) = graph.ranks.first() else { return 0.0 };
        let inside = part.iteration_start..part.iteration_end;
        graph.operators.iter().filter(|operator| inside.contains(&operator.start)).count() as f64
    }
}

/// Opens the captures of one rank that the manifests at `paths` list.
///
/// # Errors
/// A manifest cannot be read, or a capture in it.
pub(crate) fn open(engine: &Engine, paths: &[PathBuf]) -> Result<Vec<Capture>> {
    let mut rounds: Vec<Vec<Capture>> = Vec::new();
    for path in paths {
        let text = read_text(path)?;
        let manifest: Manifest = serde_json::from_str(&text).wrap_err_with(|| path.display().to_string())?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        for entry in manifest.captures.into_iter().filter(|entry| entry.world_size == 1) {
            let capture = opened(engine, &folder, entry)?;
            match rounds.iter_mut().find(|captures| captures[0].id == capture.id) {
                Some(same) => same.push(capture),
                None => rounds.push(vec![capture]),
            }
        }
    }
    Ok(rounds.into_iter().filter_map(pooled).collect())
}

fn pooled(captures: Vec<Capture>) -> Option<Capture> {
    let rounds: Vec<[f64; 2]> = captures.iter().flat_map(|capture| capture.rounds.clone()).collect();
    let quiet = 2 * captures.iter().filter(|capture| capture.quiet).count() > captures.len();
    let mut captures = captures.into_iter();
    let mut first = captures.next()?;
    first.steps.extend(captures.flat_map(|capture| capture.steps));
    let time = |at: usize| median(&mut rounds.iter().map(|round| round[at]).collect::<Vec<f64>>());
    Some(Capture { wall_ns: time(0), profiled_ns: time(1), quiet, rounds, ..first })
}

fn opened(engine: &Engine, folder: &Path, entry: Entry) -> Result<Capture> {
    let file: PathBuf = folder.join(&entry.files.kineto);
    let mut steps = Vec::new();
    for index in 0..entry.timing_steps.len().max(1) {
        let choice =
            if entry.timing_steps.is_empty() { IterationChoice::Default } else { IterationChoice::Index(index) };
        steps.push(super::open(engine, &file, choice)?);
    }
    let wall_ns = entry.wall.iteration_us * 1e3;
    let measured = |step: &Loaded| step.graph.measured.0 as f64;
    let profiled_ns = median(&mut steps.iter().map(measured).collect::<Vec<f64>>());
    Ok(Capture {
        profiled_ns,
        id: entry.id,
        model: entry.model,
        batch: entry.batch,
        wall_ns,
        quiet: entry.wall.synced.is_some_and(|wall| wall.p90 <= QUIET * wall.p10),
        execution_trace: entry.files.et.map(|file| folder.join(file)),
        steps,
        rounds: vec![[wall_ns, profiled_ns]],
    })
}

/// What the profiler adds per operator, in ns, as captures of other models than that of `of` on the same machine show it: their
/// median, of those whose iteration is short enough for the profiler to matter.
pub(crate) fn event_cost_ns(captures: &[Capture], of: &Capture) -> f64 {
    const USUAL_NS: f64 = 1500.0;
    const LEAST_SHARE: f64 = 0.03;
    let others = captures.iter().filter(|capture| capture.model != of.model && capture.place() == of.place());
    let matters = others.filter(|capture| capture.events() * USUAL_NS > LEAST_SHARE * capture.wall_ns);
    let mut costs: Vec<f64> =
        matters.map(|capture| (capture.profiled_ns - capture.wall_ns) / capture.events().max(1.0)).collect();
    if costs.is_empty() { USUAL_NS } else { median(&mut costs).max(0.0) }
}
