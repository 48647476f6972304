//! What most commands start from: one job, opened, with the scenario of the arguments evaluated on it.

use std::io::{Write, stderr};
use std::sync::Arc;

use color_eyre::eyre::{Result, eyre};

use crate::cli::{Iteration, ScenarioCommand};
use crate::session::{Engine, Loaded, Outcome, read_table_facts, trace_fingerprint};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::engine::UNMEASURED;
use retime_core::graph::iteration::{Step, steps};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::intern::printable;

use super::input;

/// An opened job and its edited iteration.
#[derive(Debug)]
pub struct Opened {
    /// Devices and models.
    pub engine: Arc<Engine>,
    /// The job.
    pub loaded: Loaded,
    /// The scenario's result; the steps' gains stay open.
    pub outcome: Outcome,
    /// The edited iteration as a graph.
    pub edited: Edited,
}

/// What the edits of a job are evaluated with.
#[derive(Clone, Copy)]
struct Given<'a> {
    args: &'a ScenarioCommand,
    /// What `resize-batch` learns from.
    second: Option<&'a Loaded>,
}

impl Opened {
    /// Opens what `args` name and evaluates their edits.
    ///
    /// # Errors
    /// Nothing could be opened, several jobs were, an edit cannot be read, or a scenario file is another trace's.
    pub fn of(args: &ScenarioCommand, iteration: Iteration) -> Result<Self> {
        let engine = Self::engine(args)?;
        let wanted = input::RequestedEdits::read(&engine, &args.scenario)?;
        let loaded = input::open_one(&engine, &args.input.traces, iteration)?;
        let second = Self::second(&engine, args)?;
        let given = Given { args, second: second.as_ref() };
        Self::evaluated(engine, loaded, &wanted, given, input::build_options(iteration))
    }

    /// Opens what `args` name and looks at every recorded step of it in turn, edits applied; one where none was recorded.
    ///
    /// # Returns
    /// The job with its default iteration; name and answer of each step.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn each<T>(args: &ScenarioCommand, mut look: impl FnMut(Self) -> T) -> Result<(Loaded, Vec<(String, T)>)> {
        let engine = Self::engine(args)?;
        let wanted = input::RequestedEdits::read(&engine, &args.scenario)?;
        let mut loaded = input::open_one(&engine, &args.input.traces, Iteration::All)?;
        let second = Self::second(&engine, args)?;
        let given = Given { args, second: second.as_ref() };
        let mut found = Vec::new();
        for index in of_all_ranks(&mut loaded) {
            let options = BuildOptions { iteration: IterationChoice::Index(index) };
            let step = engine.replay(Arc::clone(&loaded.job), &options)?;
            let name = step.graph.ranks.first().map(|part| part.iteration.clone()).unwrap_or_default();
            found.push((name, look(Self::evaluated(Arc::clone(&engine), step, &wanted, given, options)?)));
        }
        Ok((loaded, found))
    }

    /// Opens every job that `args` name with their edits applied to each; once for each batch size of a range, and with
    /// [`Iteration::All`] for every step of it.
    ///
    /// # Errors
    /// As [`Self::of`], but for several jobs.
    pub fn runs(args: &ScenarioCommand, iteration: Iteration) -> Result<Vec<Self>> {
        let engine = Self::engine(args)?;
        let variants = input::RequestedEdits::by_batch(&engine, &args.scenario)?;
        let second = Self::second(&engine, args)?;
        let given = Given { args, second: second.as_ref() };
        let (mut runs, mut recordings) = (Vec::new(), Vec::new());
        let mut evaluate = |loaded: &Loaded, options: BuildOptions| -> Result<()> {
            for wanted in &variants {
                runs.push(Self::evaluated(Arc::clone(&engine), loaded.clone(), wanted, given, options)?);
            }
            Ok(())
        };
        for mut job in input::open_all(&engine, &args.input.traces, iteration)? {
            let recording = trace_fingerprint(&job);
            if recordings.contains(&recording) {
                let text = format!("{} was recorded once and counts once", input::paths(&job).join(", "));
                let _ = writeln!(stderr(), "retime: repeated-run: {text}");
                continue;
            }
            recordings.push(recording);
            if iteration != Iteration::All {
                evaluate(&job, input::build_options(iteration))?;
                continue;
            }
            for index in of_all_ranks(&mut job) {
                let options = BuildOptions { iteration: IterationChoice::Index(index) };
                evaluate(&engine.replay(Arc::clone(&job.job), &options)?, options)?;
            }
        }
        Ok(runs)
    }

    fn engine(args: &ScenarioCommand) -> Result<Arc<Engine>> {
        let mut engine = input::engine()?;
        engine.folds = !args.input.all_ranks;
        engine.device = args.input.device.as_deref().map(|name| engine.catalog.find(name).cloned()).transpose()?;
        engine.table_facts = args.table_facts.as_deref().map(read_table_facts).transpose()?;
        Ok(Arc::new(engine))
    }

    /// The trace that `--learn` names; that its times are predicted is told on standard error.
    fn second(engine: &Engine, args: &ScenarioCommand) -> Result<Option<Loaded>> {
        let Some(path) = &args.learn else { return Ok(None) };
        let other = input::open_one(engine, std::slice::from_ref(path), Iteration::Default)?;
        if let Some(warning) = other.unmeasured() {
            let _ = writeln!(stderr(), "retime: {UNMEASURED}: {}", printable(&warning));
        }
        Ok(Some(other))
    }

    fn evaluated(
        engine: Arc<Engine>,
        mut loaded: Loaded,
        wanted: &input::RequestedEdits,
        Given { args, second }: Given<'_>,
        options: BuildOptions,
    ) -> Result<Self> {
        if let Some(other) = second {
            loaded.learn(other)?;
        }
        if loaded.refolded(&wanted.scenario).is_some() {
            loaded = engine.reopen(&loaded, &wanted.scenario, &options)?;
        }
        let strangers = wanted.strangers(&loaded, args.scenario.force)?;
        let outcome = engine.evaluate(&loaded, &wanted.scenario, 0);
        if !strangers.is_empty() {
            report_matches(&strangers, &outcome);
        }
        if let Some(step) = outcome.steps.iter().find(|step| step.is_impossible) {
            return Err(eyre!("`{}`: {}", step.transform, step.no_effect().unwrap_or_default()));
        }
        let edited = Edited::of(&outcome.resolved);
        Ok(Self { engine, loaded, outcome, edited })
    }

    /// The simulated times of the edited graph.
    pub fn times(&self) -> Times<'_> {
        Times::Simulated { timed: &self.edited.timed, schedule: &self.outcome.schedule }
    }
}

/// Says on standard error what each step of scenario files made for another trace found in this one.
pub(super) fn report_matches(files: &[String], outcome: &Outcome) {
    let mut lines = vec![format!("{}: made for another trace; on this one:", files.join(", "))];
    for (number, step) in outcome.steps.iter().enumerate() {
        lines.push(format!("  {}. {}: {}", number + 1, step.transform, step.summary));
        lines.extend(step.effects.iter().map(|told| format!("     {}", told.line())));
    }
    for line in lines {
        let _ = writeln!(stderr(), "retime: {}", printable(&line));
    }
}

/// The steps of the first rank, by their numbers, for which every other rank has one: of the same name, else of the same number; that of a
/// job without any. Others are told of in the job's notes.
fn of_all_ranks(loaded: &mut Loaded) -> Vec<usize> {
    let mut ranks = loaded.traces().map(steps);
    let Some(first) = ranks.next().filter(|first| !first.is_empty()) else { return vec![0] };
    let others: Vec<Vec<Step>> = ranks.collect();
    let has = |steps: &[Step], (index, step): (usize, &Step)| {
        index < steps.len() || steps.iter().any(|other| other.name == step.name)
    };
    let is_of_all = |&one: &(usize, &Step)| others.iter().all(|steps| has(steps, one));
    let all: Vec<usize> = first.iter().enumerate().filter(is_of_all).map(|(index, _)| index).collect();
    let missing = first.len() - all.len();
    if missing > 0 {
        let what = "were not recorded by all ranks: they are left out";
        let text = format!("{missing} of {} steps {what}", first.len());
        let _ = writeln!(stderr(), "retime: missing-steps: {text}");
        loaded.notes.warn("missing-steps", text);
    }
    all
}
