//! From arguments to opened traces and scenarios, with progress and diagnostics on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Edit, Iteration, ScenarioArgs};
use crate::config::Config;
use crate::session::{Engine, Loaded, SessionError, Sweep, default_max_memory, is_fingerprint, read_scenario, sample};
use retime_core::diagnostic::{Diagnostic, Severity};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::intern::printable;
use retime_core::log::{self, Level};
use retime_core::scenario::{Fit, SavedScenario, Scenario, parse_step};
use retime_core::trace::{OpenOptions, Progress};
use retime_core::units::Bytes;

use super::Misuse;

/// Files shorter than this load before anyone could read a progress line.
const QUIET: Duration = Duration::from_millis(400);

/// What every JSON answer opens with.
#[derive(Debug, Serialize)]
pub struct Envelope<T> {
    /// The files that were read.
    pub traces: Vec<String>,
    /// The answer's own fields.
    #[serde(flatten)]
    pub answer: T,
    /// What was odd about the input.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Envelope<T> {
    /// The answer about one opened job.
    pub fn new(loaded: &Loaded, answer: T) -> Self {
        Self { traces: paths(loaded), answer, diagnostics: diagnostics(loaded) }
    }
}

/// What was odd about a job.
pub fn diagnostics(loaded: &Loaded) -> Vec<Diagnostic> {
    loaded.diagnostics().sorted().into_iter().cloned().collect()
}

/// Which steps of a job are one iteration, where several are.
pub fn turns(loaded: &Loaded) -> Option<String> {
    let found = diagnostics(loaded).into_iter().find(|found| found.code == "steps-in-turn");
    found.map(|found| found.message)
}

/// The files of a job.
pub fn paths(loaded: &Loaded) -> Vec<String> {
    loaded.traces().map(|trace| printable(&trace.path.display().to_string())).collect()
}

/// Expands globs that the shell left alone.
///
/// # Errors
/// A pattern matches nothing.
pub fn expand(arguments: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for argument in arguments {
        let text = argument.to_string_lossy();
        if argument.exists() || !text.contains(['*', '?', '[']) {
            found.push(argument.clone());
            continue;
        }
        let before = found.len();
        found.extend(glob::glob(&text).into_iter().flatten().filter_map(Result::ok));
        if found.len() == before {
            return Err(eyre!("{text}: no such file, and no file matches it as a pattern"));
        }
    }
    Ok(found)
}

/// Opens all jobs among the arguments; the bundled sample when there are none.
///
/// # Errors
/// See [`Engine::load`].
pub fn open_all(engine: &Engine, arguments: &[PathBuf], iteration: Iteration) -> Result<Vec<Loaded>> {
    let build = build_options(iteration);
    if arguments.is_empty() {
        return Ok(vec![sample::load(engine, &build)?]);
    }
    let paths = expand(arguments)?;
    let options = OpenOptions::default();
    let jobs = with_progress(&options.progress, || engine.load(&paths, &options, &build))?;
    report(&jobs);
    Ok(jobs)
}

/// Opens the arguments, which must be one job.
///
/// # Errors
/// See [`open_all`]; and several jobs.
pub fn open_one(engine: &Engine, arguments: &[PathBuf], iteration: Iteration) -> Result<Loaded> {
    let mut jobs = open_all(engine, arguments, iteration)?;
    let Some(only) = main_job(&jobs) else {
        let (count, names) = (jobs.len(), jobs.iter().flat_map(|job| paths(job).into_iter().take(1)).collect());
        return Err(SessionError::SeveralJobs { count, names }.into());
    };
    for (_, other) in jobs.iter().enumerate().filter(|&(at, _)| at != only) {
        let left_out = paths(other).join(", ");
        let _ = writeln!(stderr(), "retime: left-out: {left_out} is no further rank of the job that is opened");
    }
    Ok(jobs.swap_remove(only))
}

/// The only job; of several the one of several ranks, where the others are single ranks of a job as large: given twice, or
/// recorded at another time.
fn main_job(jobs: &[Loaded]) -> Option<usize> {
    let world = |job: &Loaded| job.job.ranks.first().and_then(|rank| rank.world_size);
    let largest = (0..jobs.len()).max_by_key(|&at| (jobs[at].job.ranks.len(), std::cmp::Reverse(at)))?;
    let is_left_over =
        |job: &Loaded| job.job.ranks.len() == 1 && world(job).is_some() && world(job) == world(&jobs[largest]);
    let others = jobs.iter().enumerate().filter(|&(at, _)| at != largest);
    let is_clear = jobs[largest].job.ranks.len() > 1 && others.map(|(_, job)| job).all(is_left_over);
    (jobs.len() == 1 || is_clear).then_some(largest)
}

/// Which iteration the graph is built of; the default one to begin with where all are wanted.
pub fn build_options(iteration: Iteration) -> BuildOptions {
    let iteration = match iteration {
        Iteration::Default | Iteration::All => IterationChoice::Default,
        Iteration::Index(index) => IterationChoice::Index(index),
    };
    BuildOptions { iteration }
}

static MAX_MEMORY: OnceLock<Bytes> = OnceLock::new();

/// Lets every engine of this process hold at most `bytes`.
pub fn limit_memory(bytes: Bytes) {
    // Asked for once, with the other arguments.
    let _ = MAX_MEMORY.set(bytes);
}

/// Memory that this process may hold: as asked for, else three quarters of what is there.
pub fn max_memory() -> Option<Bytes> {
    MAX_MEMORY.get().copied().or_else(default_max_memory)
}

static CAPTURES: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Lets every engine of this process know what graphs were captured from.
pub fn take_captures(paths: &[PathBuf]) {
    let _ = CAPTURES.set(paths.to_vec());
}

/// Gives `engine` what this process was asked to give every one: the memory it may hold, and recordings of captured graphs.
///
/// # Errors
/// A recording tells nothing of captured graphs.
pub fn furnish(engine: &mut Engine) -> Result<()> {
    engine.max_memory = max_memory();
    if let Some(paths) = CAPTURES.get().filter(|paths| !paths.is_empty()) {
        engine.captures = Some(Arc::new(engine.read_captures(&expand(paths)?)?));
    }
    Ok(())
}

/// An engine that knows the user's devices too.
///
/// # Errors
/// A built-in file cannot be used.
pub fn engine() -> Result<Engine> {
    let config = Config::read()?;
    let (mut engine, unusable) = Engine::with_usable_devices(&config.devices)?;
    furnish(&mut engine)?;
    for line in config.unreadable.iter().chain(&unusable) {
        let _ = writeln!(stderr(), "retime: left out: {}", printable(line));
    }
    Ok(engine)
}

/// The scenario that the arguments describe, read before anything is opened.
#[derive(Debug, Default)]
pub struct RequestedEdits {
    /// All steps in order.
    pub scenario: Scenario,
    /// The scenario files among them.
    files: Vec<(String, SavedScenario)>,
}

impl RequestedEdits {
    /// Reads steps and scenario files.
    ///
    /// # Errors
    /// A step that cannot be read or names an unknown device, or a scenario file.
    pub fn read(engine: &Engine, arguments: &ScenarioArgs) -> Result<Self> {
        let mut wanted = Self::default();
        for edit in &arguments.edits {
            if let Edit::File(path) = edit {
                let saved = read_scenario(engine, path)?;
                wanted.scenario.steps.extend(saved.scenario.steps.clone());
                wanted.files.push((path.display().to_string(), saved));
            }
            if let Some(line) = edit.line() {
                parse_step(&line).map_err(|error| Misuse(format!("`{line}`: {error}")))?;
                let step = engine.step(&line).map_err(|error| eyre!("`{line}`: {error}"))?;
                wanted.scenario.steps.push(step);
            }
        }
        Ok(wanted)
    }

    /// The same once for each batch size, where a range of them is given (`--batch 1..256`).
    ///
    /// # Errors
    /// As [`Self::read`], or a range that cannot be read.
    pub fn by_batch(engine: &Engine, arguments: &ScenarioArgs) -> Result<Vec<Self>> {
        let Some((place, sizes)) = batch_sizes(arguments)? else { return Ok(vec![Self::read(engine, arguments)?]) };
        let of_size = |size: f64| {
            let mut own = arguments.clone();
            own.edits[place] = Edit::Batch(size.to_string());
            Self::read(engine, &own)
        };
        sizes.into_iter().map(of_size).collect()
    }

    /// The scenario files that were made for another trace than `loaded`. Of those made on another iteration of it, it says so
    /// on standard error.
    ///
    /// # Errors
    /// There is one for another trace, and `force` is not set.
    pub fn strangers(&self, loaded: &Loaded, force: bool) -> Result<Vec<String>> {
        if self.files.is_empty() {
            return Ok(Vec::new());
        }
        let mut strange = Vec::new();
        for (name, saved) in &self.files {
            match saved.fit(|trace| is_fingerprint(trace, loaded), &loaded.graph) {
                Fit::Same => {}
                Fit::OtherIteration(made_on) => {
                    let line = format!("{name}: made on {made_on} of this trace, applied to another iteration of it");
                    let _ = writeln!(stderr(), "retime: {}", printable(&line));
                }
                Fit::OtherTrace => strange.push(name.clone()),
            }
        }
        match strange.first() {
            Some(name) if !force => Err(eyre!("{name}: made for another trace; --force applies it all the same")),
            _ => Ok(strange),
        }
    }
}

/// Where among the edits `--batch` gives several sizes, and which: `A..B`, or a list. What lies between the ends of a range is rounded.
///
/// # Errors
/// They cannot be read, are no whole numbers, or there is another `--batch`.
pub fn batch_sizes(arguments: &ScenarioArgs) -> Result<Option<(usize, Vec<f64>)>, Misuse> {
    let mut given = arguments.edits.iter().enumerate().filter_map(|(place, edit)| match edit {
        Edit::Batch(sizes) => Some((place, sizes)),
        _ => None,
    });
    let Some((place, sizes)) = given.clone().find(|(_, sizes)| sizes.contains(['.', ','])) else { return Ok(None) };
    if given.nth(1).is_some() {
        return Err(Misuse("--batch is there twice: list all its sizes once, e.g. --batch 64,128".to_owned()));
    }
    let sweep = Sweep::parse("batch", sizes).map_err(|error| Misuse(format!("--batch: {error}")))?;
    Ok(Some((place, sweep.values)))
}

/// Runs `work` while a progress line is shown on standard error, if that is a terminal.
fn with_progress<T: Send>(progress: &Arc<Progress>, work: impl FnOnce() -> T + Send) -> T {
    if !stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        let (done, finished) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut shown = false;
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(QUIET) {
                shown = true;
                let (read, total) = (Bytes(progress.bytes_read()), Bytes(progress.bytes_total()));
                let _ = write!(stderr(), "\r\x1b[Kreading {read} of {total}, {} events", progress.events());
            }
            if shown {
                let _ = write!(stderr(), "\r\x1b[K");
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Writes warnings and errors of the input to standard error, a line each; what several jobs say once.
fn report(loaded: &[Loaded]) {
    let mut said = std::collections::BTreeSet::new();
    for line in loaded.iter().flat_map(warnings).filter(|line| said.insert(line.clone())) {
        log::say(Level::Warning, &line);
        let _ = writeln!(stderr(), "{}", printable(&line));
    }
}

fn warnings(loaded: &Loaded) -> Vec<String> {
    let mut lines = Vec::new();
    for diagnostic in loaded.diagnostics().sorted() {
        if diagnostic.severity == Severity::Note {
            continue;
        }
        let place = diagnostic.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        let times = if diagnostic.count > 1 { format!(" ×{}", diagnostic.count) } else { String::new() };
        lines.push(format!("retime: {}: {}{place}{times}", diagnostic.code, diagnostic.message));
    }
    lines
}
