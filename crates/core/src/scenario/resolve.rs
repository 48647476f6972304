//! Resolving: a base and a scenario → what the simulator runs, with the source of every changed figure.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{Prediction, Provenance, Work};
use crate::device::DeviceProfile;
use crate::graph::{ExecutionGraph, Lane, LaneId, NodeId, OperatorId, RankPart, TaskId, TaskKind, TimedGraph};

use super::base::Base;
use super::context::Context;
use super::draft::{AddedId, Draft, Node};
use super::effect::Effect;
use super::kernel_work::KernelWork;
use super::lower::{self, Prices};
use super::memory;
use super::selector::Selector;
use super::step::Scenario;
use super::tables::TablePlacement;
use super::transform::{Stage, StepReport, kept};
use crate::memory::{JobMemory, RankMemory};
use crate::sim::Cycle;
use crate::units::DurNs;

/// A scenario worked out on its base.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The untouched graph.
    pub graph: Arc<ExecutionGraph>,
    /// What the simulator runs.
    pub timed: Arc<TimedGraph>,
    /// Its chosen step closed into a loop.
    pub cycle: Arc<Cycle>,
    /// The tasks before this one are those of the base and take as long; `None` where the graph was built anew.
    pub unchanged: Option<TaskId>,
    /// Traced tasks whose duration changed, by node.
    pub changes: Vec<(NodeId, Prediction)>,
    /// Traced tasks that were taken out, by node; they stay in `timed` and take no time.
    pub removed: Vec<NodeId>,
    /// Traced tasks that edits should have changed and no model covers, by node, each with as much of its time as it keeps.
    pub kept: Vec<(NodeId, DurNs)>,
    /// Tasks that were added, in order.
    pub added: Vec<AddedTask>,
    /// Lanes that were added: ids go on from those of the graph.
    pub added_lanes: Vec<(Lane, String)>,
    /// Traced operators that compute another one now, with its name, by number.
    pub replaced: Vec<(OperatorId, Arc<str>)>,
    /// One report per step of the scenario; that of a disabled step is empty.
    pub reports: Vec<StepReport>,
    /// The device of each rank.
    pub devices: Vec<Arc<DeviceProfile>>,
    /// Batch size before and after, where an edit changed it.
    pub batch: Option<(u64, u64)>,
    /// Where each embedding table that can move is, where an edit moved any.
    pub placements: Option<Vec<TablePlacement>>,
    /// Traced tasks that run on another lane than the recorded one, by node.
    pub moved: Vec<(NodeId, LaneId)>,
    /// How many ranks there are, where an edit changed it.
    pub rank_count: Option<u32>,
    /// How many ranks the job has, those that are not loaded among them.
    pub job_ranks: u32,
    /// How many of them have a batch of their own.
    pub replicas: u32,
    /// How often forward and backward pass run in one step, each on a batch.
    pub repeats: u32,
    /// What each rank's memory holds.
    pub memory: Arc<JobMemory>,
    /// What tasks have to do, added ones after the traced.
    pub works: Arc<KernelWork>,
    /// Dependencies of edits that were left out because they closed a cycle.
    pub cyclic: usize,
}

/// A task that was not traced, as views draw it.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedTask {
    /// Its row in the timed graph.
    pub task: TaskId,
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: TaskKind,
    /// Where it runs; may be an added lane.
    pub lane: LaneId,
    /// The traced operator it stands for or belongs to.
    pub operator: Option<OperatorId>,
    /// The operator that an edit added beside that one, whose task it is.
    pub caller: Option<Arc<str>>,
    /// What it takes and where that is from.
    pub prediction: Prediction,
    /// What it has to do, where it is device work.
    pub work: Option<Arc<Work>>,
    /// The traced tasks whose work it does instead.
    pub members: Vec<NodeId>,
    /// The traced task that it stands beside, in the same step.
    pub beside: NodeId,
    /// The task that it does once more, if any.
    pub repeats: Option<TaskId>,
}

impl Resolved {
    /// What a traced task takes and where that is from.
    pub fn prediction(&self, node: NodeId) -> Prediction {
        let found = self.changes.binary_search_by_key(&node, |&(changed, _)| changed);
        found.map_or_else(|_| self.untouched(self.graph.tasks[node].duration), |at| self.changes[at].1)
    }

    /// The time of a traced task that nothing changed: measured, or a prediction itself, by what model the trace does not say.
    pub fn untouched(&self, duration: DurNs) -> Prediction {
        let measured = Prediction::measured(duration);
        if self.graph.is_predicted { Prediction { provenance: Provenance::Absolute, ..measured } } else { measured }
    }

    /// How many ranks each simulated one stands for: where an edit added ranks, those are like the traced ones in turn.
    pub fn rank_counts(&self) -> Vec<u32> {
        let traced: Vec<u32> = self.graph.ranks.iter().map(RankPart::count).collect();
        let all: u32 = traced.iter().sum();
        let Some(count) = self.rank_count.filter(|&count| count > all && all > 0) else { return traced };
        let mut rest = count % all;
        let share = |&own: &u32| {
            let more = own.min(rest);
            rest -= more;
            own * (count / all) + more
        };
        traced.iter().map(share).collect()
    }

    /// Where a traced task runs.
    pub fn lane(&self, node: NodeId) -> LaneId {
        let found = self.moved.binary_search_by_key(&node, |&(moved, _)| moved);
        found.map_or_else(|_| self.graph.tasks[node].lane, |at| self.moved[at].1)
    }

    /// Whether a traced task was taken out.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.removed.binary_search(&node).is_ok()
    }

    /// The added tasks by their rows of the timed graph.
    pub fn added_by_task(&self) -> FxHashMap<TaskId, &AddedTask> {
        self.added.iter().map(|added| (added.task, added)).collect()
    }
}

/// Steps in force that several scenarios begin with, worked out once.
#[derive(Clone, Debug)]
pub struct Prefix<'b> {
    draft: Draft<'b>,
    /// All of them; those of a later stage wait for the rest.
    steps: Vec<super::Step>,
    /// What each did so far.
    reports: Vec<StepReport>,
    /// Places of those that were applied, in the order in which they were.
    applied: Vec<usize>,
    /// What earlier edits multiply, whenever it comes in.
    multiples: Vec<(Selector, f64)>,
    /// What other earlier edits select, with their lines.
    selected: Vec<(Selector, String)>,
    /// Why nothing can be predicted where a traced device is not known.
    unknown_device: Option<String>,
}

impl<'b> Prefix<'b> {
    /// Applies the enabled ones of `steps` stage by stage, but for those of stages after [`Stage::Work`], which wait for the rest.
    pub fn of(base: &'b Base, steps: &[super::Step], context: &'b Context) -> Self {
        let mut prefix = Self::new(base, context);
        prefix.take(steps);
        prefix
    }

    fn new(base: &'b Base, context: &'b Context) -> Self {
        Self {
            draft: Draft::new(base, context),
            steps: Vec::new(),
            reports: Vec::new(),
            applied: Vec::new(),
            multiples: Vec::new(),
            selected: Vec::new(),
            unknown_device: context.unknown_device(base.graph()),
        }
    }

    /// How many tasks its steps add.
    pub fn added(&self) -> usize {
        self.draft.added().len()
    }

    /// Applies further steps, but for those of a later stage. Where one belongs before what was applied all begin anew.
    pub fn take(&mut self, steps: &[super::Step]) {
        let mut all = std::mem::take(&mut self.steps);
        all.extend_from_slice(steps);
        let order: Vec<usize> =
            order(&all).into_iter().filter(|&place| all[place].transform().stage() <= Stage::Work).collect();
        if !order.starts_with(&self.applied) {
            *self = Self::new(self.draft.base(), self.draft.context());
        }
        self.reports.resize(all.len(), StepReport::default());
        for &place in &order[self.applied.len()..] {
            self.apply(place, &all[place]);
        }
        self.steps = all;
    }

    fn apply(&mut self, place: usize, step: &super::Step) {
        self.applied.push(place);
        let (before, replaced) = (self.draft.added().len(), self.draft.replaced_tasks());
        let mut earlier: Vec<Effect> = self.changed_selection(step).into_iter().collect();
        earlier.extend(self.replaced_selection(step));
        let is_changed = self.reports.iter().any(|report| report.changed > 0 || report.is_met);
        let untouched = (is_changed || self.unknown_device.is_some()).then(|| self.draft.clone());
        let context = self.draft.context();
        let mut report = step.transform().apply(&mut self.draft, context);
        if let Some((untouched, why)) = untouched.as_ref().zip(self.unknown_device.as_ref())
            && self.draft.misses_device()
        {
            // What the models would need is not known: nothing of the step is done.
            self.draft = untouched.clone();
            self.reports[place] = StepReport::impossible(why);
            return;
        }
        if report.changed == 0 && !report.is_met && !report.is_impossible {
            if let Some(earlier) = &untouched {
                let differing = Prices::of(earlier).differing(&Prices::of(&self.draft), self.draft.graph());
                report.take_back(differing);
            }
            if report.changed == 0 && held(untouched.as_ref(), &self.draft) != held(Some(&self.draft), &self.draft) {
                report.changes_memory_alone();
            }
        }
        report.complete();
        report.effects.extend(earlier);
        report.effects.extend(self.unreached(before));
        report.effects.extend(self.unreached_replaced(&replaced));
        self.multiply_added(before);
        match step.transform().multiple().filter(|_| !report.is_impossible) {
            Some(multiple) => self.multiples.push(multiple),
            None => self.selected.extend(step.selectors().next().map(|selector| (selector.clone(), step.to_string()))),
        }
        self.reports[place] = report;
    }

    /// What earlier edits added to the tasks that `step` selects, and took out of them: in another order it would mean others.
    fn changed_selection(&self, step: &super::Step) -> Option<Effect> {
        let (mut added, mut gone) = (0, 0);
        for selector in step.selectors() {
            if !self.draft.added().is_empty() {
                let chosen = selector.select_all(&self.draft);
                added += chosen.iter().filter(|node| matches!(node, Node::Added(_))).count();
            }
            if self.draft.removed().next().is_some() {
                gone += selector.select(self.draft.base()).iter().filter(|&&node| self.draft.is_removed(node)).count();
            }
        }
        let said = match (added, gone) {
            (0, 0) => return None,
            (_, 0) => format!("{added} of the tasks that it selects were added by steps before it"),
            (0, _) => format!("{gone} of the tasks that it would select were taken out by steps before it"),
            _ => format!("steps before it added {added} of the tasks that it selects, and took out {gone}"),
        };
        Some(Effect::note(said))
    }

    /// What `step` selects, or no longer does, since earlier edits replaced operators.
    fn replaced_selection(&self, step: &super::Step) -> Vec<Effect> {
        if self.draft.replaced_tasks().is_empty() {
            return Vec::new();
        }
        let (mut became, mut left) = (0, 0);
        for selector in step.selectors() {
            let [new, old] = replaced_among(&self.draft, selector);
            became += new.len();
            left += old.len();
        }
        let since = "since steps before it replaced their operators";
        let became = (became > 0).then(|| format!("{became} of the tasks that it selects are what they are {since}"));
        let left = (left > 0).then(|| format!("{left} of the tasks that it would select are others {since}"));
        became.into_iter().chain(left).map(Effect::note).collect()
    }

    /// What the last edit replaced, beside what was `before`, that earlier ones would have selected: in another order they would mean it,
    /// too.
    fn unreached_replaced(&self, before: &[NodeId]) -> Vec<Effect> {
        if self.draft.replaced_tasks().len() == before.len() {
            return Vec::new();
        }
        let said = |(selector, line): &(Selector, String)| {
            let [new, _] = replaced_among(&self.draft, selector);
            let missed = new.iter().filter(|node| before.binary_search(node).is_err()).count();
            let text = format!(
                "{missed} of the tasks that it replaces are what `{line}`, a step before it, selects: it left them"
            );
            (missed > 0).then(|| Effect::note(text))
        };
        self.selected.iter().filter_map(said).collect()
    }

    /// Multiplies the time of tasks that the last edit added, from number `first` on, as earlier edits asked.
    fn multiply_added(&mut self, first: usize) {
        for (selector, factor) in &self.multiples {
            for node in new_among(&self.draft, selector, first) {
                self.draft.stretch(node, *factor);
            }
        }
    }

    /// What the last edit added, from number `first` on, that earlier ones would have selected: in another order they would mean it, too.
    fn unreached(&self, first: usize) -> Vec<Effect> {
        let said = |(selector, line): &(Selector, String)| {
            let is_more = |node: &&Node| self.draft.is_in_step(**node) && !self.draft.does_work_of_others(**node);
            let missed = new_among(&self.draft, selector, first).iter().filter(is_more).count();
            let text = format!(
                "{missed} of the tasks that it adds are what `{line}`, a step before it, selects: it left them"
            );
            (missed > 0).then(|| Effect::note(text))
        };
        self.selected.iter().filter_map(said).collect()
    }

    /// Goes on with the rest of `steps`, which begin with those applied.
    pub fn resolve(mut self, steps: &[super::Step]) -> Resolved {
        self.take(&steps[self.steps.len().min(steps.len())..]);
        let all = std::mem::take(&mut self.steps);
        let later = order(&all).split_off(self.applied.len());
        let batches = later.iter().map(|&place| all[place].transform().batches()).filter(|&batches| batches > 1);
        self.draft.ask_for_batches(batches.collect());
        for place in later {
            self.apply(place, &all[place]);
        }
        finish(self.draft, self.reports)
    }
}

/// The tasks that an edit added, from number `first` on, and `selector` selects; without those that repeat another task, which are as
/// that one is.
fn new_among(draft: &Draft<'_>, selector: &Selector, first: usize) -> Vec<Node> {
    let added = draft.added();
    let is_own = |id: AddedId| id.0 as usize >= first && added[id.0 as usize].price.repeated().is_none();
    let is_new = |node: &Node| matches!(node, Node::Added(id) if is_own(*id));
    let selected = if added.len() > first { selector.select_all(draft) } else { Vec::new() };
    selected.into_iter().filter(is_new).collect()
}

/// The tasks of the modelled step whose operators edits replaced that `selector` selects since, and those that it no longer does.
fn replaced_among(draft: &Draft<'_>, selector: &Selector) -> [Vec<NodeId>; 2] {
    let traced = |node: Node| if let Node::Traced(node) = node { Some(node) } else { None };
    let is_replaced = |node: &NodeId| draft.is_replaced(*node) && draft.is_in_step(Node::Traced(*node));
    let mut now: Vec<NodeId> = selector.select_all(draft).into_iter().filter_map(traced).filter(is_replaced).collect();
    now.sort_unstable();
    let there = |node: &NodeId| is_replaced(node) && !draft.is_removed(*node);
    let recorded: Vec<NodeId> = selector.select(draft.base()).into_iter().filter(there).collect();
    let left = recorded.iter().copied().filter(|node| now.binary_search(node).is_err()).collect();
    now.retain(|node| recorded.binary_search(node).is_err());
    [now, left]
}

/// Places of the enabled ones of `steps`, stage by stage, in order within each. What comes before a model is placed on another device
/// does so only where one is placed.
fn order(steps: &[super::Step]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..steps.len()).filter(|&place| steps[place].enabled).collect();
    let stage = |place: usize| steps[place].transform().stage();
    let first = if order.iter().any(|&place| steps[place].transform().places()) { Stage::Host } else { Stage::Work };
    order.sort_by_key(|&place| stage(place).max(first));
    order
}

/// Applies the enabled steps of `scenario`, stage by stage, in order within each.
///
/// Without any the timed graph is the base's own.
///
/// # Complexity
/// O(steps · tasks); models are asked once per distinct kind of call.
pub fn resolve(base: &Base, scenario: &Scenario, context: &Context) -> Resolved {
    Prefix::of(base, &scenario.steps, context).resolve(&scenario.steps)
}

/// Says with the last step that did something what its tasks no longer wait for.
fn report_cycles(reports: &mut [StepReport], cyclic: usize) {
    let last = reports.iter_mut().rev().find(|report| !report.summary.is_empty());
    if let (Some(report), 1..) = (last, cyclic) {
        let dependencies = if cyclic == 1 { "dependency" } else { "dependencies" };
        let left_out = format!("{cyclic} {dependencies} left out: tasks would have waited for one another");
        report.say(Effect::assumption(left_out));
    }
}

fn finish(mut draft: Draft<'_>, mut reports: Vec<StepReport>) -> Resolved {
    let base = draft.base();
    let prices = Prices::of(&draft);
    let untouched = prices.changes.is_empty() && !draft.is_restructured();
    let timed = || (!untouched).then(|| lower::lower(&draft, &prices));
    let (lowered, memory) = rayon::join(timed, || memory::edited(&draft));
    let (timed, cycle, unchanged, rows, cyclic) = match lowered {
        Some(lowered) => (Arc::new(lowered.timed), lowered.cycle, lowered.unchanged, lowered.added, lowered.cyclic),
        None => {
            (base.timed().clone(), lower::cycle_of_base(&draft), Some(TaskId(base.timed().len() as u32)), Vec::new(), 0)
        }
    };
    report_cycles(&mut reports, cyclic);
    let removed: Vec<NodeId> = draft.removed().collect();
    let mut as_traced = kept(&reports);
    as_traced.retain(|(node, _)| removed.binary_search(node).is_err());
    let (devices, batch) = (draft.devices_as_figured(), draft.batch());
    let placements = draft.placements().map(<[TablePlacement]>::to_vec);
    let (moved, rank_count) = (draft.moved(), draft.rank_count());
    let repeats = base.graph().batches.saturating_mul(draft.repeats());
    let job_ranks = rank_count.unwrap_or_else(|| base.graph().job_size()).max(1);
    let replicas = (job_ranks / base.roles().share_a_batch()).max(1);
    let memory = memory.map_or_else(|| base.memory().clone(), Arc::new);
    let row_of = |node: Node| match node {
        Node::Traced(node) => Some(timed.task(node)),
        Node::Added(AddedId(id)) => rows.get(id as usize).copied(),
    };
    let repeated: Vec<Option<TaskId>> = draft.all_repeated().into_iter().map(|of| of.and_then(row_of)).collect();
    let replaced = draft.replaced();
    let works = Arc::new(draft.take_kernel_work());
    let mut all = Vec::with_capacity(draft.structure.added.len());
    let left = draft
        .structure
        .added
        .into_iter()
        .zip(prices.of_added)
        .zip(repeated)
        .zip(draft.structure.dropped)
        .zip(rows)
        .filter(|((_, gone), _)| !gone)
        .zip(&works.added);
    all.extend(left.map(|(((((added, prediction), repeats), _), task), work)| AddedTask {
        task,
        name: added.name,
        kind: added.kind,
        lane: added.lane,
        operator: added.operator,
        caller: added.caller,
        prediction,
        work: work.clone(),
        members: added.members,
        beside: added.after,
        repeats,
    }));
    Resolved {
        graph: base.graph().clone(),
        timed,
        cycle,
        unchanged,
        changes: prices.changes,
        removed,
        kept: as_traced,
        added: all,
        added_lanes: draft.structure.lanes,
        replaced,
        reports,
        devices,
        batch,
        placements,
        moved,
        rank_count,
        job_ranks,
        replicas,
        repeats,
        memory,
        works,
        cyclic,
    }
}

/// Bytes of all buffers by rank, as `draft` has them; as traced without one.
fn held(draft: Option<&Draft<'_>>, of: &Draft<'_>) -> Vec<u64> {
    let edited = draft.and_then(memory::edited);
    let memory: &JobMemory = edited.as_ref().unwrap_or_else(|| of.base().memory());
    let sum = |rank: &RankMemory| rank.buffers.iter().map(|buffer| buffer.bytes.0).fold(0, u64::saturating_add);
    memory.iter().map(|rank| rank.as_ref().map_or(0, sum)).collect()
}
