//! A job on which laws are tried.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use retime::session::{Engine, Loaded, Outcome};
use retime_core::graph::{BuildOptions, ExecutionGraph, NodeId, TaskKind};
use retime_core::scenario::{Prefix, Scenario, Step};
use retime_core::trace::OpenOptions;
use retime_core::units::DurNs;

use super::Violation;

/// Changes of time below this are none.
pub const NOTHING: f64 = 20_000.0;

/// An opened job under a name that tells it from the other jobs of its file or folder.
pub struct Subject {
    pub name: String,
    pub engine: Arc<Engine>,
    pub loaded: Loaded,
}

/// An engine that takes devices of no known name for one that it knows, so that edits of their traces are done.
fn engine() -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    let named = || {
        let mut engine = Engine::builtin().unwrap();
        engine.device = Some(Arc::clone(engine.catalog.find("A100-80").unwrap()));
        Arc::new(engine)
    };
    Arc::clone(ENGINE.get_or_init(named))
}

impl Subject {
    /// The jobs in a file or folder that can be modelled.
    pub fn of(path: &Path) -> Vec<Self> {
        let engine = engine();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(all) = engine.load(&[path.to_owned()], &OpenOptions::default(), &BuildOptions::default()) else {
            return Vec::new();
        };
        let is_one = all.len() == 1;
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut of_job = |loaded: Loaded| {
            let title = if is_one { String::new() } else { format!("/{}", file_of(&loaded)) };
            let number = seen.entry(title.clone()).or_default();
            *number += 1;
            let again = if *number > 1 { format!("#{number}") } else { String::new() };
            Self { name: format!("{name}{title}{again}"), engine: engine.clone(), loaded }
        };
        all.into_iter().map(&mut of_job).collect()
    }

    pub fn graph(&self) -> &ExecutionGraph {
        &self.loaded.graph
    }

    /// The iteration under these steps; `None` where a line names what this trace does not have.
    pub fn outcome(&self, lines: &[&str]) -> Option<Outcome> {
        let steps: Option<Vec<Step>> = lines.iter().map(|line| self.loaded.context.step(line).ok()).collect();
        Some(self.engine.evaluate(&self.loaded, &Scenario { steps: steps?, ..Scenario::default() }, 0))
    }

    /// As [`outcome`](Self::outcome), going on from a prefix that is worked out.
    pub fn outcome_after(&self, prefix: &Prefix<'_>, steps: Vec<Step>) -> Outcome {
        let resolved = prefix.clone().resolve(&steps);
        self.engine.evaluated(&self.loaded, &Scenario { steps, ..Scenario::default() }, resolved, 0)
    }

    pub fn step(&self, line: &str) -> Option<Step> {
        self.loaded.context.step(line).ok()
    }

    pub fn violation(&self, law: &'static str, edit: &str, shown: String) -> Violation {
        Violation { law, trace: self.name.clone(), edit: edit.to_owned(), shown }
    }

    pub fn task_name(&self, node: NodeId) -> &str {
        self.graph().names.get(self.graph().tasks[node].name)
    }

    /// The device that rank 0 was traced on.
    pub fn device(&self) -> Option<&str> {
        let own = self.loaded.context.devices.first().filter(|device| device.recognised)?;
        Some(&own.profile.id)
    }
}

/// The iteration that laws compare: the period at which it repeats where the trace tells that.
pub fn time(outcome: &Outcome) -> f64 {
    outcome.summary.steady_ns.0 as f64
}

/// What tasks of a kind take in all, added ones included.
pub fn work_time(outcome: &Outcome, is_wanted: impl Fn(TaskKind) -> bool) -> DurNs {
    let (resolved, timed) = (&*outcome.resolved, &*outcome.resolved.timed);
    let tasks = resolved.graph.tasks.node_indices().map(|node| (timed.task(node), resolved.graph.tasks[node].kind));
    let added = resolved.added.iter().map(|added| (added.task, added.kind));
    let wanted = tasks.chain(added).filter(|&(_, kind)| is_wanted(kind));
    DurNs(wanted.map(|(task, _)| timed.durations[task.0 as usize]).sum())
}

/// Whether a step says that it did nothing, or left at least `gap` ns of work as it was.
pub fn says_so(outcome: &Outcome, gap: f64) -> bool {
    let kept: i64 = outcome.steps.iter().map(|step| step.unhandled_ns.0).sum();
    kept as f64 >= gap && kept > 0
}

/// Whether a step says that it selects what an earlier one added, or would have selected what that took out.
pub fn says_what_it_selects(outcome: &Outcome) -> bool {
    outcome.steps.iter().flat_map(|step| &step.effects).any(|told| told.text.contains("steps before it"))
}

fn file_of(loaded: &Loaded) -> String {
    let trace = loaded.job.ranks.first().and_then(|rank| rank.trace.as_ref());
    let file = trace.and_then(|trace| trace.path.file_name());
    file.map_or_else(|| loaded.title.clone(), |file| file.to_string_lossy().into_owned())
}
