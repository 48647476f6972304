//! Which results of host computations are on pages that no one touched before: the C library's heap, followed through a step.
//!
//! glibc keeps what is freed up to a threshold and gives back the end of its heap beyond it; a block of over 32 MiB is mapped
//! afresh each time. The threshold follows the program: twice the largest block below that size (`M_TRIM_THRESHOLD` with
//! the dynamic `M_MMAP_THRESHOLD` of mallopt(3)). So eight gradients of 5 MB, freed together, are on fresh pages in each
//! step, while one of 10 MB is not. Lifetimes are told by what each result is for: gradients of parameters live until the
//! step's end, what the backward pass needs until it was there, all else until its consumer is done.
//!
//! The heap is taken as a stack without holes, and to keep as much as the threshold (it gives back all of its free end in one
//! go, at a moment that lies below the resolution of a trace). Counting the page faults of each operator on our own recommenders and
//! perceptrons, at batches 64 to 1024, confirmed which results fault and how much; no time entered.

use rustc_hash::FxHashSet;

use crate::cost::operators::bare;
use crate::cost::{Family, Prediction, Provenance, Work};
use crate::graph::{ExecutionGraph, LaneKind, NodeId, OperatorId, Phase, TaskKind};
use crate::scenario::draft::Draft;
use crate::units::DurNs;

use super::{HostModel, LEAST_BYTE_S};

/// A block of more is mapped and given back each time (`DEFAULT_MMAP_THRESHOLD_MAX` on 64 bits).
const ALWAYS_MAPPED: u64 = 32 << 20;
/// Smaller results do not move the end of the heap noticeably.
const LEAST_BLOCK: u64 = 64 << 10;
const PAGE: f64 = 4096.0;
/// The first touch of a page, in seconds: a loop over fresh mappings of 1 MB took 1.47 µs a page, 0.15 of it for the writing
/// itself, on a machine like that of our captures. (2048 pages of our perceptron took 1.2 µs each.)
const FIRST_TOUCH_S: f64 = 1.3e-6;
/// Giving a page back, in seconds; the same loop: 0.14 to 0.17 µs.
const RELEASE_S: f64 = 0.15e-6;
/// Allocations of the backward pass after which a result that is no gradient of a parameter has been consumed.
const CONSUMED_AFTER: usize = 2;
/// Relative error of what fresh pages are predicted to cost.
const ERROR: f32 = 0.5;

/// Seconds for the first touch of as many bytes.
pub(super) fn first_touch_s(bytes: u64) -> f64 {
    bytes as f64 / PAGE * FIRST_TOUCH_S
}

/// Bytes by task.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// Of its result that are on fresh pages.
    pub(super) fresh: Vec<u64>,
    /// Given back when gradients are dropped, in the host's time before the next forward pass.
    released: Vec<u64>,
}

/// Follows the heap through the steps of a graph.
///
/// # Arguments
/// `written`: the result of a task in bytes, 0 where it allocates none.
///
/// # Complexity
/// O(tasks).
pub(super) fn pages(graph: &ExecutionGraph, written: impl Fn(NodeId) -> u64) -> Pages {
    let events = events(graph, written);
    let largest = events.iter().map(Event::kept_bytes).max().unwrap_or_default();
    let none = || vec![0; graph.tasks.node_count()];
    let mut pages = Pages { fresh: none(), released: none() };
    let mut heap = Heap { threshold: 2 * largest, ..Heap::default() };
    // The first round brings the heap to where it is between steps.
    for _ in 0..2 {
        for event in &events {
            match *event {
                Event::Allocate(node, bytes) => pages.fresh[node.index()] = heap.allocate(bytes),
                Event::Free(bytes) => _ = heap.free(bytes),
                Event::Drop(node, ref blocks) => {
                    let released = blocks.iter().map(|&bytes| heap.free(bytes)).sum();
                    pages.released[node.index()] = released;
                }
            }
        }
    }
    pages
}

/// A heap without holes.
#[derive(Clone, Copy, Debug, Default)]
struct Heap {
    live: u64,
    end: u64,
    threshold: u64,
}

impl Heap {
    /// Bytes of the block that were not on the heap before.
    fn allocate(&mut self, bytes: u64) -> u64 {
        if bytes > ALWAYS_MAPPED {
            return bytes;
        }
        self.live += bytes;
        let grown = self.live.saturating_sub(self.end);
        self.end += grown;
        grown
    }

    /// Bytes given back to the system.
    fn free(&mut self, bytes: u64) -> u64 {
        if bytes > ALWAYS_MAPPED {
            return bytes;
        }
        self.live = self.live.saturating_sub(bytes);
        let end = self.end.min(self.live + self.threshold);
        std::mem::replace(&mut self.end, end) - end
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Allocate(NodeId, u64),
    Free(u64),
    /// Gradients, in the time of a host task.
    Drop(NodeId, Vec<u64>),
}

impl Event {
    /// Size of a block that stays on the heap.
    fn kept_bytes(&self) -> u64 {
        match *self {
            Self::Allocate(_, bytes) if bytes <= ALWAYS_MAPPED => bytes,
            _ => 0,
        }
    }
}

/// What is allocated and freed in a step, in order.
fn events(graph: &ExecutionGraph, written: impl Fn(NodeId) -> u64) -> Vec<Event> {
    let mut lives = Lives::default();
    let mut seen = FxHashSet::default();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        if !matches!(graph.lanes[task.lane.0 as usize].kind, LaneKind::Thread { .. }) {
            continue;
        }
        let Some(id) = task.operator else {
            lives.pause(graph, node);
            continue;
        };
        let phase = graph.operators[id.0 as usize].phase;
        lives.enter(phase);
        if phase == Phase::Backward && seen.insert(id) {
            lives.enter_backward(graph, id);
        }
        let bytes = if task.kind == TaskKind::Compute { written(node) } else { 0 };
        if bytes >= LEAST_BLOCK {
            lives.allocate(graph, node, id, bytes);
        }
    }
    lives.pass_is_over();
    lives.step_is_over();
    lives.events
}

/// Blocks that are live, by what ends them.
#[derive(Debug, Default)]
struct Lives {
    events: Vec<Event>,
    /// For the backward pass, with the operator that made them.
    saved: Vec<(OperatorId, u64)>,
    /// Of the backward pass, until consumed.
    passing: Vec<u64>,
    /// Of parameters.
    gradients: Vec<u64>,
    /// The part of training the program is in.
    phase: Phase,
    /// The longest stretch of host time between operators since the last update.
    pause: Option<NodeId>,
}

impl Lives {
    /// Between the backward pass and what follows nothing but gradients is live; they are until the next forward pass.
    fn enter(&mut self, phase: Phase) {
        match (self.phase, phase) {
            (Phase::Backward, Phase::Optimizer | Phase::Forward) => self.pass_is_over(),
            (Phase::Optimizer, Phase::Forward) => self.step_is_over(),
            _ => {}
        }
        if phase == Phase::Optimizer {
            self.pause = None;
        }
        self.phase = phase;
    }

    /// Notes host time between operators.
    fn pause(&mut self, graph: &ExecutionGraph, node: NodeId) {
        let length = |node: NodeId| graph.tasks[node].duration;
        if self.pause.is_none_or(|longest| length(longest) < length(node)) {
            self.pause = Some(node);
        }
    }

    fn allocate(&mut self, graph: &ExecutionGraph, node: NodeId, id: OperatorId, bytes: u64) {
        self.events.push(Event::Allocate(node, bytes));
        match graph.operators[id.0 as usize].phase {
            Phase::Backward => {
                self.passing.push(bytes);
                if self.passing.len() > CONSUMED_AFTER {
                    let consumed = self.passing.remove(0);
                    self.free(consumed);
                }
            }
            Phase::Forward if is_saved(graph, id) => self.saved.push((id, bytes)),
            _ => self.free(bytes),
        }
    }

    /// What was made after the forward operator is no longer needed; a gradient that arrives at its parameter stays.
    fn enter_backward(&mut self, graph: &ExecutionGraph, id: OperatorId) {
        let operator = &graph.operators[id.0 as usize];
        if let Some(forward) = operator.forward {
            let after = graph.operators[forward.0 as usize].subtree_end;
            while let Some((_, bytes)) = self.saved.pop_if(|(of, _)| *of >= after) {
                self.free(bytes);
            }
        }
        if graph.names.get(operator.name).contains("AccumulateGrad") {
            self.accumulate(graph, id);
        }
    }

    fn accumulate(&mut self, graph: &ExecutionGraph, id: OperatorId) {
        const FP32: u64 = 4;
        let operands = graph.operators[id.0 as usize].operands.and_then(|at| graph.operands.get(at.0 as usize));
        let Some(dims) = operands.and_then(|operands| operands.dims(0)) else { return };
        let bytes = FP32 * dims.iter().product::<u64>();
        if bytes < LEAST_BLOCK {
            return;
        }
        // A sparse gradient is recorded as large as its table.
        let exact = self.passing.iter().rposition(|&block| block == bytes);
        let sparse = || self.passing.iter().rposition(|&block| block < bytes && !block.is_multiple_of(bytes));
        if let Some(at) = exact.or_else(sparse) {
            let block = self.passing.remove(at);
            self.gradients.push(block);
        }
    }

    fn free(&mut self, bytes: u64) {
        self.events.push(Event::Free(bytes));
    }

    fn pass_is_over(&mut self) {
        let saved = std::mem::take(&mut self.saved).into_iter().map(|(_, bytes)| bytes).rev();
        let passing = std::mem::take(&mut self.passing);
        let blocks: Vec<u64> = saved.chain(passing).collect();
        for bytes in blocks {
            self.free(bytes);
        }
    }

    fn step_is_over(&mut self) {
        let gradients = std::mem::take(&mut self.gradients);
        match self.pause {
            Some(node) => self.events.push(Event::Drop(node, gradients)),
            None => self.events.extend(gradients.into_iter().map(Event::Free)),
        }
    }
}

/// Whether a forward result outlives its consumer: those of products and lookups go into the activation or concatenation that
/// follows, which keeps its own.
fn is_saved(graph: &ExecutionGraph, id: OperatorId) -> bool {
    let around = std::iter::successors(Some(id), |&id| graph.operators[id.0 as usize].parent);
    let family =
        |id: OperatorId| crate::cost::operators::operator_family(graph.names.get(graph.operators[id.0 as usize].name));
    !around.take(3).filter_map(family).any(|family| matches!(family, Family::Gemm | Family::Conv | Family::Embedding))
}

/// The result of a computation that is new memory, in bytes: updates write where they read, and an operator that fills its
/// result by another has it from there.
pub(super) fn result(graph: &ExecutionGraph, node: NodeId, work: Option<&Work>) -> u64 {
    let task = &graph.tasks[node];
    let (Some(work), Some(id)) = (work, task.operator) else { return 0 };
    let operator = &graph.operators[id.0 as usize];
    // What claims more than memory can give only describes it.
    let written = work.written.0;
    if operator.phase == Phase::Optimizer || task.duration.secs() < written as f64 * LEAST_BYTE_S {
        return 0;
    }
    let name = |id: OperatorId| bare(graph.names.get(graph.operators[id.0 as usize].name));
    let own = name(id);
    let fills = |name: &str| matches!(name, "copy_" | "fill_" | "zero_");
    if fills(own) {
        let for_new = operator.parent.is_some_and(|parent| !name(parent).ends_with('_') && is_call(graph, parent));
        return if for_new { written } else { 0 };
    }
    let inside = id.0 + 1..operator.subtree_end.0;
    let filled = inside.map(OperatorId).any(|inner| fills(name(inner)));
    if own.ends_with('_') || filled { 0 } else { written }
}

/// Whether an operator is one of the framework's, no annotation.
fn is_call(graph: &ExecutionGraph, id: OperatorId) -> bool {
    graph.names.get(graph.operators[id.0 as usize].name).contains("::")
}

/// Pages as traced and as edits made them.
pub(super) struct Change {
    before: Pages,
    after: Pages,
}

/// Lets computations of a trace without device work pay for the fresh pages that edits gave or spared them.
///
/// # Complexity
/// O(tasks).
pub(super) fn touch_all(draft: &mut Draft<'_>, host: &HostModel) -> Change {
    let graph = draft.graph();
    let before = pages(graph, |node| result(graph, node, draft.traced_alone(node)));
    let after = pages(graph, |node| if draft.is_removed(node) { 0 } else { new_result(draft, node) });
    for node in graph.tasks.node_indices() {
        if graph.tasks[node].kind == TaskKind::Compute && !draft.is_removed(node) {
            touch(draft, host, node, &before.fresh, after.fresh[node.index()]);
        }
    }
    Change { before, after }
}

/// Lets the host's time between steps pay for the pages that it gives back.
///
/// # Complexity
/// O(tasks).
pub(super) fn give_back(draft: &mut Draft<'_>, change: &Change) {
    let graph = draft.graph();
    let seconds = |pages: &Pages, node: NodeId| pages.released[node.index()] as f64 / PAGE * RELEASE_S;
    for node in graph.tasks.node_indices() {
        let (old, new) = (seconds(&change.before, node), seconds(&change.after, node));
        let took = graph.tasks[node].duration.secs();
        if draft.is_removed(node) || took <= 0.0 || (old - new).abs() <= 0.0 {
            continue;
        }
        let ratio = draft.price(node).duration.secs() / took;
        // What is left when nothing is given back is the code itself.
        let now = (took - old).max(LEAST_CODE * took) * ratio + new;
        draft.recost(node, slower(now / took));
    }
}

/// Least share of the host's time between steps that is not spent on pages.
const LEAST_CODE: f64 = 0.1;

/// Lets a computation pay for the fresh pages of its result.
fn touch(draft: &mut Draft<'_>, host: &HostModel, node: NodeId, before: &[u64], new: u64) {
    // What was short when an earlier step asked may compute for long now.
    draft.forget_host(node);
    let members = draft.members(node);
    let old: u64 = members.iter().map(|member| before[member.index()]).sum();
    if old == 0 && new == 0 {
        return;
    }
    let traced: f64 = members.iter().map(|&member| draft.graph().tasks[member].duration.secs()).sum();
    let spent: f64 = members.iter().map(|&member| spent_s(draft, host, member, before[member.index()])).sum();
    draft.recost(node, None);
    let ratio = draft.price(node).duration.secs() / traced.max(1e-9);
    let growth = growth(draft, node);
    let grown = ((old as f64 * growth) as u64).min(new);
    // Pages that were there against expectation are there in a result of like size, too.
    let like = growth.min(1.0 / growth.max(1e-9));
    let held = if old > 0 { 1.0 - like * (1.0 - spent / first_touch_s(old)) } else { 1.0 };
    let now = (traced - spent) * ratio + held * first_touch_s(grown) + first_touch_s(new - grown);
    draft.recost(node, slower(now / (traced * ratio).max(1e-12)));
}

/// Size of a task's result over that of what it was traced doing.
fn growth(draft: &Draft<'_>, node: NodeId) -> f64 {
    let written = |work: Option<&Work>| work.map_or(0.0, |work| work.written.0 as f64);
    let old: f64 = draft.members(node).iter().map(|&member| written(draft.traced_alone(member))).sum();
    if old > 0.0 { written(draft.work(node)) / old } else { 1.0 }
}

/// The result of a task as it is now.
fn new_result(draft: &Draft<'_>, node: NodeId) -> u64 {
    let (graph, members) = (draft.graph(), draft.members(node));
    let old = draft.traced_alone(node).map_or(0, |work| work.written.0);
    let was_new = members.iter().any(|&member| result(graph, member, draft.traced_alone(member)) > 0) && old > 0;
    if was_new { draft.work(node).map_or(0, |work| work.written.0) } else { 0 }
}

/// Seconds of a task's traced time that fresh pages took: no more than what its work leaves of it.
fn spent_s(draft: &Draft<'_>, host: &HostModel, node: NodeId, fresh: u64) -> f64 {
    let took = draft.graph().tasks[node].duration.secs();
    let work_s = draft.traced_alone(node).map_or(took, |work| host.estimate(work).duration.secs());
    first_touch_s(fresh).min((took - work_s).max(0.0))
}

fn slower(factor: f64) -> Option<(f64, Prediction)> {
    const LEAST: f64 = 1e-3;
    let prediction = Prediction {
        duration: DurNs::ZERO,
        provenance: Provenance::Anchored,
        model: "host-heap",
        error: ERROR,
        extrapolated: false,
    };
    ((factor - 1.0).abs() > LEAST && factor > 0.0).then_some((factor, prediction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_within_the_threshold_is_used_again() {
        let mut heap = Heap { threshold: 20, ..Heap::default() };
        assert_eq!(heap.allocate(10), 10);
        heap.free(10);
        assert_eq!(heap.allocate(15), 5, "only what the heap grew by");
    }

    #[test]
    fn the_end_of_the_heap_is_given_back_beyond_the_threshold() {
        let mut heap = Heap { threshold: 20, ..Heap::default() };
        for _ in 0..3 {
            heap.allocate(10);
        }
        for _ in 0..3 {
            heap.free(10);
        }
        assert_eq!(heap.allocate(25), 5);
    }

    #[test]
    fn the_largest_blocks_are_never_on_the_heap() {
        let mut heap = Heap { threshold: 20, ..Heap::default() };
        let large = ALWAYS_MAPPED + 1;
        for _ in 0..2 {
            assert_eq!(heap.allocate(large), large);
            heap.free(large);
        }
        assert_eq!(heap.end, 0);
    }
}
