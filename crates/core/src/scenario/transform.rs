//! What an edit does: [`Transform`] and its report.

use std::cmp::Reverse;
use std::fmt::Debug;

use crate::graph::NodeId;
use crate::units::DurNs;

use super::context::Context;
use super::draft::Draft;
use super::effect::{Effect, EffectKind};
use super::selector::Selector;

/// When an edit is applied: those of an earlier stage first, within a stage in the order of the steps. What shares out, repeats or
/// launches work means the work as all other edits leave it, wherever it stands among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What the host computes at once, before a device does that instead; where none does, as the rest of the work.
    Host,
    /// Which device does what the host computed, where an edit places it on one.
    Device,
    /// What runs, on what, and in which order.
    #[default]
    Work,
    /// Which rank has what of the embedding tables.
    Placement,
    /// What runs again for the backward pass.
    Recompute,
    /// How often forward and backward pass run.
    Batches,
    /// How it is launched.
    Launch,
}

/// An edit of a graph. Pure: the same draft and context give the same result.
pub trait Transform: Debug + Send + Sync {
    /// Whether it means one of two ranks and not the other for another reason than its selectors.
    fn tells_apart(&self) -> bool {
        false
    }

    /// When it is applied.
    fn stage(&self) -> Stage {
        Stage::Work
    }

    /// Whether a device does what the host computed.
    fn places(&self) -> bool {
        false
    }

    /// A multiple of the time of the selected tasks that holds for tasks which later edits add, too.
    fn multiple(&self) -> Option<(Selector, f64)> {
        None
    }

    /// How often it lets forward and backward pass run in a step.
    fn batches(&self) -> u32 {
        1
    }

    /// Applies it to a working copy.
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport;
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Tasks changed, added and removed.
    pub changed: usize,
    /// What it did, in one line; empty for a step that took no part.
    pub summary: String,
    /// Whether it does what it should without changing a task: it asks for what there is, or changes something else.
    pub is_met: bool,
    /// Whether it cannot be done to this trace at all, which is another thing than finding nothing to do.
    pub is_impossible: bool,
    /// What a reader has to know of it; of what is not modelled the costliest first.
    pub effects: Vec<Effect>,
    /// Whether it takes the host of another machine to be as fast as the recorded one.
    pub assumes_host: bool,
}

impl StepReport {
    /// A step that found nothing to do.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self { effects: vec![Effect::none(why)], ..Self::default() }
    }

    /// A step that cannot be done to this trace.
    pub fn impossible(why: impl Into<String>) -> Self {
        Self { is_impossible: true, ..Self::nothing(why) }
    }

    /// A step that asks for what there is.
    pub fn already(what: impl Into<String>) -> Self {
        Self { summary: what.into(), is_met: true, ..Self::default() }
    }

    /// Says one thing more.
    pub fn say(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// What it says that is not modelled.
    pub fn not_modelled(&self) -> impl Iterator<Item = &Effect> + Clone {
        self.effects.iter().filter(|effect| effect.kind == EffectKind::NotModelled)
    }

    /// Share of what it changes in the iteration that is assumed.
    pub fn assumed(&self) -> f32 {
        self.effects.iter().filter_map(|effect| effect.assumed).fold(0.0, f32::max)
    }

    /// All that it says, in words alone.
    pub fn lines(&self) -> Vec<String> {
        self.effects.iter().map(|effect| effect.text.clone()).collect()
    }

    /// Whether it says something of this kind.
    pub fn says(&self, kind: EffectKind) -> bool {
        self.effects.iter().any(|effect| effect.kind == kind)
    }

    /// Of a step that leaves tasks as traced: `count` of them take another time than steps before it made of them, which is an effect.
    pub(super) fn take_back(&mut self, count: usize) {
        if count > 0 {
            self.changed = count;
            self.effects.retain(|effect| effect.kind != EffectKind::NoEffect);
            self.effects.insert(0, Effect::note("takes back what steps before it changed"));
        }
    }

    /// Of a step that changes no task's time or place, and the memory all the same.
    pub(super) fn changes_memory_alone(&mut self) {
        self.is_met = true;
        self.effects.retain(|effect| effect.kind != EffectKind::NoEffect);
        self.effects.insert(0, Effect::note("no task takes another time for it: it changes the memory alone"));
    }

    /// Says so where it changed nothing and does not tell why, unless it asks for what there is.
    pub(super) fn complete(&mut self) {
        if self.changed == 0 && !self.is_met && !self.says(EffectKind::NoEffect) {
            self.effects.insert(0, Effect::none("no task takes another time or another place for it"));
        }
    }
}

/// What steps left of traced tasks as it was: each task once, by node.
pub(super) fn kept<'r>(reports: impl IntoIterator<Item = &'r StepReport>) -> Vec<(NodeId, DurNs)> {
    tasks_of(reports.into_iter().flat_map(|report| &report.effects).filter(|effect| effect.is_kept))
}

/// The traced tasks that effects name, each once, by node.
pub(crate) fn tasks_of<'e>(effects: impl Iterator<Item = &'e Effect>) -> Vec<(NodeId, DurNs)> {
    let mut kept: Vec<(NodeId, DurNs)> = effects.flat_map(|effect| effect.tasks.iter().copied()).collect();
    kept.sort_unstable_by_key(|&(node, time)| (node, Reverse(time)));
    kept.dedup_by_key(|&mut (node, _)| node);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_two_effects_name_keeps_its_time_once() {
        let task = |index| (NodeId::new(index), DurNs(10));
        let mut report = StepReport::default();
        report.say(Effect::kept("these", vec![task(0), task(1)]));
        report.say(Effect::kept("and those", vec![task(1), task(2)]));
        report.say(Effect::not_modelled("what was not traced", DurNs(5)));
        let tasks = tasks_of(report.not_modelled());
        assert_eq!(tasks, [task(0), task(1), task(2)]);
        assert_eq!(report.not_modelled().map(|effect| effect.untraced).sum::<DurNs>(), DurNs(5));
    }

    #[test]
    fn a_step_that_changes_nothing_says_so_unless_it_asks_for_what_there_is() {
        let completed = |mut report: StepReport| {
            report.complete();
            report.says(EffectKind::NoEffect)
        };
        assert!(completed(StepReport::default()));
        assert!(!completed(StepReport::already("that is its size")));
        assert!(!completed(StepReport { changed: 1, ..StepReport::default() }));
        let mut kept = StepReport { summary: "1 kernel on another device".to_owned(), ..StepReport::default() };
        kept.say(Effect::kept("it keeps its time", vec![(NodeId::new(0), DurNs(10))]));
        assert!(completed(kept));
    }
}
