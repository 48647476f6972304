//! An evaluated scenario: the timed graph it resolves to, its schedule, its figures and each step's share.

use std::sync::Arc;

use serde::Serialize;

use crate::analysis::busy;
use crate::graph::{TaskId, TaskKind};
use crate::scenario::{EffectKind, Resolved, Scenario};
use crate::sim::Schedule;
use crate::units::{DurNs, Percent, TimeNs};

use super::Summary;
use super::recorded::Recorded;

/// What one step does to the iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepOutcome {
    /// The step in its one-line form.
    pub transform: String,
    /// Whether it is in force.
    #[serde(skip)]
    pub enabled: bool,
    /// Whether it cannot be done to this trace at all.
    #[serde(skip)]
    pub is_impossible: bool,
    /// Change of the iteration time by this step alone on the untouched graph; `None` while not yet known.
    pub alone_ns: Option<DurNs>,
    /// Change it makes on top of the steps before it.
    pub marginal_ns: Option<DurNs>,
    /// What it did, in one line.
    pub summary: String,
    /// What a reader has to know of it.
    pub effects: Vec<Told>,
    /// The same, in words alone.
    pub unhandled: Vec<String>,
    /// Traced time of the tasks of the iteration that it should have changed and no model covers.
    pub unhandled_ns: DurNs,
    /// That time as a share of the device's, or of the host's where no device was used.
    pub unhandled_share: f64,
    /// Share of its change that is assumed.
    pub assumed_share: f32,
}

/// One thing that a step says, and how much it concerns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// What kind of thing.
    pub kind: EffectKind,
    /// In one line.
    pub text: String,
    /// Of what is not modelled, its traced time as a share of the device's, or of the host's where no device was used; of an
    /// assumption the share of what the step changes in the iteration, where that can be told.
    pub share: Option<f64>,
}

impl Told {
    /// In a line that begins with what kind of thing it is.
    pub fn line(&self) -> String {
        let Self { text, share, .. } = self;
        match (self.kind, share) {
            (EffectKind::NoEffect, _) => format!("no effect: {text}"),
            (EffectKind::NotModelled, Some(share)) if *share >= 0.0005 => {
                format!("not modelled, {:.1} of the work: {text}", Percent(*share))
            }
            (EffectKind::NotModelled, _) => format!("not modelled: {text}"),
            (EffectKind::Assumption, Some(share)) => format!("assumed, {:.0} of its change: {text}", Percent(*share)),
            (EffectKind::Assumption, None) => format!("assumed: {text}"),
            (EffectKind::Note, _) => format!("note: {text}"),
        }
    }
}

impl StepOutcome {
    /// Why it changes nothing; `None` where it changes anything or asks for what there is.
    pub fn no_effect(&self) -> Option<&str> {
        let none = self.effects.iter().find(|told| told.kind == EffectKind::NoEffect);
        none.filter(|_| self.enabled).map(|told| told.text.as_str())
    }

    /// What of its change is assumed, in a phrase; `None` where nothing is.
    pub fn assumed(&self) -> Option<String> {
        (self.assumed_share > 0.0)
            .then(|| format!("{:.0} of its change is assumed, by judgement", Percent(self.assumed_share.into())))
    }
}

/// The result of evaluating one scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which request it answers.
    pub revision: u64,
    /// What was evaluated.
    pub scenario: Scenario,
    /// Durations and where they come from.
    pub resolved: Arc<Resolved>,
    /// When everything happens.
    pub schedule: Arc<Schedule>,
    /// What shares are of: that of every scenario of the trace.
    pub recorded: Arc<Recorded>,
    /// The figures.
    pub summary: Summary,
    /// Every step, disabled ones included.
    pub steps: Vec<StepOutcome>,
}

impl Outcome {
    /// The slowest rank's simulated iteration, and the task that ends it.
    pub fn slowest(&self) -> Option<(TimeNs, TimeNs, TaskId)> {
        let timed = &*self.resolved.timed;
        let windows = self.resolved.graph.ranks.iter().map(|part| {
            let (begin, end) = busy::window(part, timed, &self.schedule);
            (begin, end, timed.task(part.end))
        });
        windows.max_by_key(|(begin, end, _)| end.since(*begin))
    }

    /// Whether it takes longer than any iteration of which figures hold.
    pub(super) fn is_beyond(&self) -> bool {
        self.schedule.makespan() >= DurNs::LONGEST
    }

    /// Whether it takes longer, or holds more memory where that of the untouched `base` is known, than figures are told of.
    pub(super) fn is_beyond_of(&self, base: &Self) -> bool {
        let holds_more = base.summary.memory_bytes.is_some() && self.summary.memory_bytes.is_none();
        self.is_beyond() || holds_more || self.resolved.works.is_beyond_memory()
    }

    /// The steps in force that change nothing, each with why.
    pub fn without_effect(&self) -> impl Iterator<Item = (&StepOutcome, &str)> {
        self.steps.iter().filter_map(|step| Some((step, step.no_effect()?)))
    }

    /// When the last rank ends its iteration.
    pub fn end(&self) -> TimeNs {
        let timed = &*self.resolved.timed;
        let ends = self.resolved.graph.ranks.iter().map(|part| self.schedule.end(timed.task(part.end)));
        ends.max().unwrap_or_default()
    }

    /// The tasks of the slowest rank's critical path, last first, back to the start of its iteration.
    pub fn critical_tasks(&self) -> impl Iterator<Item = TaskId> {
        let (begin, _, last) = self.slowest().unwrap_or((TimeNs(0), TimeNs(0), TaskId(0)));
        let step = move |&task: &TaskId| self.schedule.critical_predecessor(&self.resolved.timed, task);
        std::iter::successors(self.slowest().map(|_| last), step)
            .take_while(move |&task| self.schedule.end(task) > begin)
    }

    /// What most of the critical path is: `host`, `launch`, `kernel`, `copy` or `collective`.
    pub fn critical_kind(&self) -> &'static str {
        const NAMES: [&str; 5] = ["host", "launch", "kernel", "copy", "collective"];
        let mut totals = [DurNs::ZERO; NAMES.len()];
        let added = self.resolved.added_by_task();
        for task in self.critical_tasks() {
            let kind = match self.resolved.timed.node(task) {
                Some(node) => Some(self.resolved.graph.tasks[node].kind),
                None => added.get(&task).map(|added| added.kind),
            };
            if let Some(class) = kind.and_then(class_of) {
                totals[class] += DurNs(self.resolved.timed.durations[task.0 as usize]);
            }
        }
        let largest = (0..NAMES.len()).max_by_key(|&class| (totals[class], std::cmp::Reverse(class)));
        largest.map_or("", |class| NAMES[class])
    }
}

/// Index into the names of [`Outcome::critical_kind`].
fn class_of(kind: TaskKind) -> Option<usize> {
    match kind {
        TaskKind::Host(_) | TaskKind::Compute => Some(0),
        TaskKind::Runtime => Some(1),
        TaskKind::Kernel | TaskKind::Unrecorded => Some(2),
        TaskKind::Memcpy | TaskKind::Memset => Some(3),
        TaskKind::Collective(_) => Some(4),
        TaskKind::Joint | TaskKind::StepEnd => None,
    }
}
