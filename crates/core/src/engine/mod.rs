//! The engine: opens traces and evaluates scenarios. Everything a front end computes goes through it.

mod another_run;
mod bounds;
mod databases;
mod decisive;
mod device_time;
mod error;
mod files;
mod gains;
mod loaded;
mod noise;
mod outcome;
mod reach;
mod recorded;
mod refuted;
mod so_far;
mod steady;
mod summary;
mod table_facts;
mod timeline;
mod untimed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::analysis::busy;
use crate::analysis::edited::Edited;
use crate::analysis::gaps::{self, Gap};
use crate::analysis::lanes::Times;
use crate::analysis::replay::PathShares;
use crate::analysis::sources::Sources;
use crate::cost::{CostModels, Overheads};
use crate::device::{Catalog, DeviceProfile};
use crate::diagnostic::{Diagnostics, Severity};
use crate::graph::{BuildOptions, Captures, build, build_lowered};
use crate::log::{self, Level};
use crate::memory;
use crate::scenario::tables::TableFacts;
use crate::scenario::{
    self, Base, Context, Databases, Effect, EffectKind, Known, Resolved, Scenario, Step, StepReport,
};
use crate::sim::{Schedule, resimulate_from, simulate};
use crate::trace::{self, Job, OpenError, OpenOptions, RankClasses, RankTrace};
use crate::units::{Bytes, DurNs};

pub use another_run::{AnotherRun, OTHER_RECORDING};
pub use databases::read as read_overheads;
pub use device_time::DeviceTime;
pub use error::EngineError;
pub use files::{read_text, read_text_up_to};
pub use loaded::{LearnedFrom, Loaded, UNMEASURED};
pub use noise::{TYPICAL_SPREAD, spread_of_steps};
pub use outcome::{Outcome, StepOutcome, Told};
pub use recorded::Recorded;
pub use so_far::SoFar;
pub use steady::{Steady, SteadyBasis};
pub use summary::{ErrorBand, PeriodShift, RankSummary, Straggler, Summary};
pub use table_facts::{TABLE_FACTS_FILE, read_table_facts};
pub use timeline::{LaneLabels, TaskRow, Timeline};

/// The device catalog, the cost models and the default host overheads.
#[derive(Debug)]
pub struct Engine {
    /// Known devices.
    pub catalog: Arc<Catalog>,
    /// Known models.
    pub models: Arc<CostModels>,
    /// Host overheads of operators that were never traced.
    pub overheads: Arc<Overheads>,
    /// Databases of host overheads in files.
    pub databases: Databases,
    /// Facts about embedding tables; `None` looks for a file beside the traces.
    pub table_facts: Option<TableFacts>,
    /// The device of traces that do not name one that the catalog knows.
    pub device: Option<Arc<DeviceProfile>>,
    /// What graphs that traces replay were captured from.
    pub captures: Option<Arc<Captures>>,
    /// Whether ranks that did the same are simulated once.
    pub folds: bool,
    /// Memory that this process may hold; `None` for as much as there is.
    pub max_memory: Option<Bytes>,
}

impl Engine {
    /// An engine with the built-in devices, models and overheads.
    ///
    /// # Errors
    /// A built-in file is damaged.
    pub fn builtin() -> Result<Self, EngineError> {
        Self::with_devices(&[])
    }

    /// An engine that also knows the devices of `files`, each a name and its contents.
    ///
    /// # Errors
    /// The first device file that cannot be used.
    pub fn with_devices(files: &[(String, String)]) -> Result<Self, EngineError> {
        let catalog = Catalog::with_files(files)?;
        Ok(Self {
            models: Arc::new(CostModels::with_devices(&catalog, files)?),
            catalog: Arc::new(catalog),
            overheads: Arc::new(Overheads::builtin()?),
            databases: databases::of_files(),
            table_facts: None,
            device: None,
            captures: None,
            folds: true,
            max_memory: None,
        })
    }

    /// An engine that also knows those of `files` that can be used, why the others cannot, and which devices of an earlier file a
    /// later one defines anew.
    ///
    /// # Errors
    /// A built-in file cannot be used.
    pub fn with_usable_devices(files: &[(String, String)]) -> Result<(Self, Vec<String>), EngineError> {
        if let Ok(engine) = Self::with_devices(files) {
            return Ok((engine, Catalog::replaced(files)));
        }
        let (mut engine, mut usable, mut reasons) = (Self::builtin()?, Vec::new(), Vec::new());
        for file in files {
            usable.push(file.clone());
            match Self::with_devices(&usable) {
                Ok(more) => engine = more,
                Err(error) => {
                    usable.pop();
                    reasons.push(error.to_string());
                }
            }
        }
        reasons.extend(Catalog::replaced(&usable));
        Ok((engine, reasons))
    }

    /// Opens files and folders; each job found is ready to be edited.
    ///
    /// # Errors
    /// Nothing could be read, or nothing in it can be modelled.
    pub fn load(
        &self,
        paths: &[PathBuf],
        options: &OpenOptions,
        build_options: &BuildOptions,
    ) -> Result<Vec<Loaded>, EngineError> {
        let max_memory = options.max_memory.or(self.max_memory);
        let options = OpenOptions { max_memory, ..options.clone() };
        let opened = log::timed(Level::Info, "load", || trace::open(paths, &options))?;
        let mut notes = opened.diagnostics;
        let (mut all, mut first_error) = (Vec::new(), None);
        for job in opened.jobs {
            match self.prepare(job, build_options) {
                Ok(loaded) => all.push(loaded),
                Err(error) => {
                    let text = error.to_string();
                    notes.add(Severity::Error, "nothing-to-model", &text, None, || text.clone());
                    first_error.get_or_insert(error);
                }
            }
        }
        for loaded in &mut all {
            loaded.notes.merge(&notes);
        }
        match first_error {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(all),
        }
    }

    /// What the graphs that a trace replays were captured from: recordings of the run that captured them.
    ///
    /// # Errors
    /// A recording cannot be read, or tells nothing of captured graphs.
    pub fn read_captures(&self, paths: &[PathBuf]) -> Result<Captures, EngineError> {
        let opened = trace::open(paths, &OpenOptions { max_memory: self.max_memory, ..OpenOptions::default() })?;
        let traces = opened.jobs.iter().flat_map(|job| &job.ranks).filter_map(|rank| rank.trace.as_ref());
        let mut captures = Captures::read(traces);
        captures.files = paths.to_vec();
        match captures.lack() {
            None => Ok(captures),
            Some(reason) => {
                let path = paths.first().cloned().unwrap_or_default();
                Err(EngineError::Read { path: path.display().to_string(), reason: reason.to_owned() })
            }
        }
    }

    /// Reads one trace from memory.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_bytes(&self, bytes: &[u8], name: &str, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let trace = trace::load_bytes(bytes, name)?;
        let rank = trace.rank.map_or(0, |place| place.rank);
        let world_size = trace.rank.and_then(|place| place.world_size);
        let job = Job { ranks: vec![RankTrace { rank, world_size, trace: Some(trace), execution_trace: None }] };
        self.prepare(job, options)
    }

    /// Builds the graph of a job and replays it untouched; a job without times is predicted first.
    ///
    /// # Errors
    /// Nothing in it can be modelled.
    pub fn prepare(&self, job: Job, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let job = if untimed::is_untimed(&job) {
            let nodes =
                job.ranks.iter().filter_map(|rank| rank.execution_trace.as_ref()).map(|trace| trace.nodes.len());
            self.check_memory(&job, PER_PREDICTED * nodes.sum::<usize>() as u64)?;
            untimed::predict(self, job, options)?
        } else {
            job
        };
        self.replay(job, options)
    }

    /// Builds the graph of a job as its traces are and replays it untouched.
    ///
    /// # Errors
    /// Nothing in it can be modelled.
    pub fn replay(&self, job: impl Into<Arc<Job>>, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let job = job.into();
        let alike = if self.folds { RankClasses::of(&job) } else { RankClasses::none(&job) };
        self.build(job, alike.clone(), alike, options, self.captures.clone())
    }

    /// The job of `loaded` with those ranks simulated that `scenario` asks for, and another iteration.
    ///
    /// # Errors
    /// Nothing in it can be modelled.
    pub fn reopen(&self, loaded: &Loaded, scenario: &Scenario, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let folding = loaded.refolded(scenario).unwrap_or_else(|| loaded.folding.clone());
        self.build_again(loaded, (folding, loaded.alike.clone()), options)
    }

    /// The job of `loaded` whose replayed graphs were captured in the recordings `paths`.
    ///
    /// # Errors
    /// See [`Self::read_captures`].
    pub fn with_captures(
        &self,
        loaded: &Loaded,
        paths: &[PathBuf],
        options: &BuildOptions,
    ) -> Result<Loaded, EngineError> {
        let captures = Some(Arc::new(self.read_captures(paths)?));
        self.reopen(&Loaded { captures, ..loaded.clone() }, &Scenario::default(), options)
    }

    /// The job of `loaded` with every rank simulated on its own.
    ///
    /// # Errors
    /// Nothing in it can be modelled.
    pub fn unfold(&self, loaded: &Loaded, options: &BuildOptions) -> Result<Loaded, EngineError> {
        let none = RankClasses::none(&loaded.job);
        self.build_again(loaded, (none.clone(), none), options)
    }

    /// The job of `loaded` with other ranks simulated, drawing on what it draws on.
    fn build_again(
        &self,
        loaded: &Loaded,
        (folding, alike): (RankClasses, RankClasses),
        options: &BuildOptions,
    ) -> Result<Loaded, EngineError> {
        let mut other = self.build(Arc::clone(&loaded.job), folding, alike, options, loaded.captures.clone())?;
        other.notes.merge(&loaded.notes);
        other.context.batch_scaling.clone_from(&loaded.context.batch_scaling);
        other.learned_from.clone_from(&loaded.learned_from);
        Ok(other)
    }

    fn build(
        &self,
        job: Arc<Job>,
        folding: RankClasses,
        alike: RankClasses,
        options: &BuildOptions,
        captures: Option<Arc<Captures>>,
    ) -> Result<Loaded, EngineError> {
        if self.max_memory.is_some() {
            self.check_memory(&job, build::memory_needed(&job, &folding, options))?;
        }
        let (mut graph, timed) = log::timed(Level::Info, "build", || build_lowered(&job, &folding, options))?;
        if let Some(captures) = &captures {
            captures.join(&mut graph);
        }
        let mut notes = Diagnostics::default();
        let facts = self.table_facts.clone().unwrap_or_else(|| table_facts::beside(&job, &mut notes));
        table_facts::complete(&facts, &mut graph, &mut notes);
        let graph = Arc::new(graph);
        let (catalog, models, overheads) = (self.catalog.clone(), self.models.clone(), self.overheads.clone());
        let (mut context, base) = rayon::join(
            || Context::with_device(catalog, models, overheads, &graph, self.device.as_ref()),
            || Base::of_lowered(graph.clone(), timed),
        );
        context.databases = self.databases.clone();
        context.max_memory = self.max_memory;
        let is_placed = |how: &str| how.split("; ").any(|step| step.starts_with("place-on"));
        context.is_placed = job.ranks.iter().any(|rank| {
            let predicted = rank.trace.as_ref().and_then(|trace| trace.predicted.as_deref());
            predicted.is_some_and(|how| rank.execution_trace.is_some() || is_placed(how))
        });
        context.is_predicted = graph.is_predicted;
        if let Some(unknown) = context.unknown_device(&graph) {
            notes.add(Severity::Warning, "unknown-device", &unknown, None, || unknown.clone());
        }
        if let Some(ignored) = self.device.as_ref().and_then(|named| context.ignored_device(&graph, named)) {
            notes.add(Severity::Warning, "device-ignored", &ignored, None, || ignored.clone());
        }
        if let Some(taken) = context.taken_by_figures(&graph).filter(|_| self.device.is_none()) {
            notes.add(Severity::Warning, "device-by-figures", &taken, None, || taken.clone());
        }
        if let Some(unlike) = context.unlike_ranks(&graph) {
            notes.add(Severity::Warning, "unlike-devices", &unlike, None, || unlike.clone());
        }
        if let Some(part) = context.parts_of_devices(&graph) {
            notes.add(Severity::Warning, "part-of-device", &part, None, || part.clone());
        }
        let base = base.on_devices(&context.devices).with_table_facts(facts);
        refuted::tell(&base, &mut notes);
        refuted::tell_overlaps(&graph, &mut notes);
        refuted::tell_copies(&base, &mut notes);
        let memory = memory::of_job(&job, &graph, &base.tables().sizes(graph.ranks.len()));
        if let Some(left_out) = memory::left_out(&job, &graph) {
            notes.add(Severity::Warning, "allocations-left-out", "", None, || format!("memory is without {left_out}"));
        }
        let base = Arc::new(base.with_memory(memory));
        let untouched = Scenario::default();
        let replay = || outcome_of(scenario::resolve(&base, &untouched, &context), None, &untouched, 0);
        let (replay, ()) = rayon::join(replay, || table_facts::check(&base, &graph, &mut notes));
        if replay.is_beyond() {
            return Err(EngineError::Beyond { path: loaded::title(&job) });
        }
        let outlived = graph.diagnostics.sorted().into_iter().find(|found| found.code == "outlived-step");
        let is_unmeasured = outlived.is_some() && graph.measured == DurNs::ZERO;
        if replay.summary.simulated_ns == DurNs::ZERO || is_unmeasured {
            let unknown = || "what was recorded is shorter than a nanosecond, or cannot be read".to_owned();
            let crossing = || refuted::crossing_calls(&job).unwrap_or_else(unknown);
            let reason = outlived.map_or_else(crossing, |found| found.message.clone());
            return Err(EngineError::Timeless { path: loaded::title(&job), reason });
        }
        let noise = noise::noise(&job, &graph, &replay.summary);
        let mut summary = Summary { noise, ..replay.summary };
        summary.of_path(&PathShares::of(&graph, &replay.resolved.timed, &replay.schedule));
        if let Some(error) = noise::of_prediction(&job) {
            summary.of_prediction(error);
        }
        let replay = Arc::new(Outcome { summary, ..replay });
        let title = loaded::title(&job);
        Ok(Loaded { job, folding, alike, captures, learned_from: None, graph, base, context, replay, notes, title })
    }

    /// Refuses a job that would need `more` memory than may be held.
    fn check_memory(&self, job: &Job, more: Bytes) -> Result<(), EngineError> {
        let Some((limit, held)) = self.max_memory.zip(trace::resident()) else { return Ok(()) };
        let needed = held + more;
        if needed <= limit {
            return Ok(());
        }
        let timed = |rank: &RankTrace| rank.trace.as_ref().map(|trace| trace.path.clone());
        let untimed = |rank: &RankTrace| rank.execution_trace.as_ref().map(|trace| trace.path.clone());
        let path = job.ranks.iter().find_map(|rank| timed(rank).or_else(|| untimed(rank))).unwrap_or_default();
        Err(OpenError::Memory { path, needed: format!("about {needed}"), limit }.into())
    }

    /// Evaluates a scenario; the steps' gains stay open (see [`Self::with_gains`]). A step that leads to an iteration beyond what is
    /// computed is not done, nor are those behind it, and says so.
    pub fn evaluate(&self, loaded: &Loaded, scenario: &Scenario, revision: u64) -> Outcome {
        let resolve = || scenario::resolve(&loaded.base, scenario, &loaded.context);
        let resolved = log::timed(Level::Info, "resolve", resolve);
        self.evaluated(loaded, scenario, resolved, revision)
    }

    /// As [`Self::evaluate`], of a scenario whose first steps may be worked out already.
    pub fn evaluate_on(&self, so_far: &mut SoFar<'_>, loaded: &Loaded, scenario: &Scenario, revision: u64) -> Outcome {
        /// What is kept of fewer steps takes more memory than time is saved.
        const MANY: usize = 8;
        let resolve = || {
            if scenario.steps.len() < MANY {
                so_far.resolve_alone(&scenario.steps)
            } else {
                so_far.resolve(&scenario.steps)
            }
        };
        let resolved = log::timed(Level::Info, "resolve", resolve);
        self.evaluated(loaded, scenario, resolved, revision)
    }

    /// How many scenarios that add so many tasks may be worked out at a time: as many as there are cores, and memory for them.
    pub fn at_once(&self, added: usize) -> usize {
        let needed = scenario::memory_of_added(added).0.max(1);
        let room = self.max_memory.map_or(u64::MAX, |limit| limit.0 / needed);
        (rayon::current_num_threads() as u64).min(room).max(1) as usize
    }

    /// Reads a step that names only what the engine knows.
    ///
    /// # Errors
    /// See [`scenario::read_step`].
    pub fn step(&self, line: &str) -> Result<Step, EngineError> {
        Ok(scenario::read_step(line, self.known())?)
    }

    /// What steps may name.
    pub fn known(&self) -> Known<'_> {
        Known { catalog: &self.catalog, links: self.models.links(), databases: &self.databases }
    }

    /// The result of a scenario that is worked out already; the steps' gains stay open.
    pub fn evaluated(&self, loaded: &Loaded, scenario: &Scenario, resolved: Resolved, revision: u64) -> Outcome {
        let outcome = outcome_of(resolved, Some(&loaded.replay), scenario, revision);
        if outcome.is_beyond_of(&loaded.replay) { bounds::bounded(loaded, outcome) } else { outcome }
    }
}

impl Engine {
    /// The idle gaps of an outcome's streams, longest first; for the first `tried` of those that an edit may close every such
    /// edit is evaluated on top of the scenario, and those that gain are named.
    pub fn gaps(&self, loaded: &Loaded, outcome: &Outcome, shortest: DurNs, tried: usize) -> Vec<Gap> {
        let edited = Edited::of(&outcome.resolved);
        let (graph, timed, schedule) = (&*edited.graph, &*edited.timed, &*outcome.schedule);
        let times = Times::Simulated { timed, schedule };
        let works = &*edited.works;
        let mut gaps = gaps::gaps(&Sources { graph, works, timed, schedule, times }, shortest);
        let mut known: BTreeMap<String, DurNs> = BTreeMap::new();
        let with_steps = gaps.iter_mut().filter_map(|gap| {
            let lines = gaps::candidate_steps(graph, gap);
            (!lines.is_empty()).then_some((gap, lines))
        });
        for (gap, lines) in with_steps.take(tried) {
            for line in lines {
                let gain = *known.entry(line.clone()).or_insert_with(|| self.gain(loaded, outcome, &line));
                if gain > DurNs::ZERO {
                    gap.closed_by.push((line, gain));
                }
            }
            gap.closed_by.sort_by_key(|(line, gain)| (std::cmp::Reverse(*gain), line.clone()));
        }
        gaps
    }
}

/// Memory that a node of a trace without times takes while its time is predicted, about.
const PER_PREDICTED: Bytes = Bytes(6 << 10);

/// What scenarios are compared by, of one that is worked out.
pub fn compared(loaded: &Loaded, resolved: &Resolved) -> DurNs {
    let steady = loaded.replay.summary.steady;
    if steady.is_compared() {
        let (steady, _) = steady.of(resolved);
        if steady.is_compared() {
            return steady.compared(DurNs::ZERO);
        }
    }
    let schedule = scheduled(resolved, Some(&loaded.replay));
    let windows = loaded.graph.ranks.iter().map(|part| busy::window(part, &resolved.timed, &schedule));
    windows.map(|(begin, end)| end.since(begin)).max().unwrap_or_default()
}

/// The schedule of a scenario; from the first task that differs on where the untouched one is known.
fn scheduled(resolved: &Resolved, replay: Option<&Outcome>) -> Schedule {
    if let (Some(first), Some(replay)) = (resolved.unchanged, replay) {
        let mut schedule = Schedule::clone(&replay.schedule);
        resimulate_from(&resolved.timed, first, &mut schedule);
        return schedule;
    }
    let mut schedule = Schedule::default();
    simulate(&resolved.timed, &mut schedule);
    schedule
}

fn outcome_of(resolved: Resolved, replay: Option<&Outcome>, scenario: &Scenario, revision: u64) -> Outcome {
    let schedule = log::timed(Level::Info, "simulate", || scheduled(&resolved, replay));
    let base = replay.map(|replay| &replay.summary);
    let recorded =
        replay.map_or_else(|| Arc::new(Recorded::of(&resolved.graph)), |replay| Arc::clone(&replay.recorded));
    let figures = || Summary::of(&resolved, &schedule, &recorded, base.map(|base| base.simulated_ns));
    let steady = || match base {
        Some(base) => base.steady.of(&resolved),
        None => Steady::of_base(&resolved.graph, &resolved, &schedule),
    };
    let (mut summary, steady) = rayon::join(figures, steady);
    summary.set_steady(&resolved, steady, base);
    if let Some(base) = base {
        summary.over(base);
    }
    let steps = step_outcomes(scenario, &resolved, &recorded);
    let (resolved, schedule) = (Arc::new(resolved), Arc::new(schedule));
    let mut outcome = Outcome { revision, scenario: scenario.clone(), resolved, schedule, recorded, summary, steps };
    let is_shown = !outcome.summary.steady.is_compared() || outcome.summary.both_named().is_some();
    if let Some(replay) = replay.filter(|_| is_shown) {
        let (period, base) = (outcome.summary.simulated_ns, outcome.summary.base_simulated_ns);
        outcome.summary.cut = PeriodShift::of(outcome.end().since(replay.end()), period, base);
    }
    outcome
}

/// What a step says, with what is not modelled as a share of the iteration's work.
fn told(effect: &Effect, recorded: &Recorded) -> Told {
    let share = match effect.kind {
        EffectKind::NotModelled => Some(recorded.share(recorded.not_modelled(std::iter::once(effect)))),
        EffectKind::Assumption => effect.assumed.map(f64::from),
        EffectKind::NoEffect | EffectKind::Note => None,
    };
    Told { kind: effect.kind, text: effect.text.clone(), share }
}

fn step_outcomes(scenario: &Scenario, resolved: &Resolved, recorded: &Recorded) -> Vec<StepOutcome> {
    let outcome = |(step, report): (&Step, &StepReport)| {
        let unhandled_ns = recorded.not_modelled(report.not_modelled());
        StepOutcome {
            transform: step.to_string(),
            enabled: step.enabled,
            is_impossible: report.is_impossible,
            alone_ns: None,
            marginal_ns: None,
            summary: report.summary.clone(),
            effects: report.effects.iter().map(|effect| told(effect, recorded)).collect(),
            unhandled: report.lines(),
            unhandled_ns,
            unhandled_share: recorded.share(unhandled_ns),
            assumed_share: report.assumed(),
        }
    };
    scenario.steps.iter().zip(&resolved.reports).map(outcome).collect()
}
