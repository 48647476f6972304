//! `fuse-embedding-bags`: lookups of several tables by one call each become one batched lookup; so do their gradients and
//! updates, and the copies of their indices to the device.
//!
//! Siblings are found by structure: calls of the same shape with the same operators inside, in the same step and thread.

mod copies;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::cost::Shape;
use crate::cost::operators::{Reading, bare, operator_work};
use crate::graph::{ExecutionGraph, HostPart, LaneId, NodeId, Operand, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::grammar::{Form, Grammar};
use crate::scenario::transform::{Stage, StepReport, Transform};

use super::report::count;
use copies::Copies;

/// Tasks of each operator itself, in order.
type Tasks = FxHashMap<OperatorId, Vec<NodeId>>;

/// Batches sibling lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FuseEmbeddingBags;

pub(super) const EDIT: Grammar = Grammar {
    name: "fuse-embedding-bags",
    help: "looks up all tables of a step at once: forward, backward and update",
    example: "fuse-embedding-bags",
    forms: &[Form { arguments: &[], build: |_| Some(Arc::new(FuseEmbeddingBags)) }],
    knobs: &[],
};

impl Transform for FuseEmbeddingBags {
    fn stage(&self) -> Stage {
        Stage::Host
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        let tasks = tasks_by_operator(graph);
        let mut groups = groups(graph);
        for group in &mut groups {
            // What a step before it batched, or took out, is no call any more.
            group.roots.retain(|&root| is_left(draft, root, &tasks));
        }
        groups.retain(|group| group.roots.len() > 1);
        let lookups = groups.iter().filter(|group| group.part == Part::Lookup).map(|group| group.roots.len()).sum();
        if groups.is_empty() {
            return StepReport::nothing("no two lookups of one step could be batched");
        }
        let copies = Copies::find(draft, &groups, &tasks);
        let mut changed = 0;
        for group in groups.iter().chain(&copies.groups) {
            changed += fuse(draft, group, &tasks);
        }
        changed += drop_gathers(draft, &groups, &tasks);
        let batched = groups.iter().filter(|group| group.part == Part::Lookup).count();
        let of_lists = copies.groups.iter().map(|group| group.roots.len()).sum::<usize>();
        let and_copies = match copies.groups.len() {
            0 => String::new(),
            one_each => format!("; {of_lists} copies of their lists to the device → {one_each}"),
        };
        let summary = format!("{} → {batched}, with gradients and updates{and_copies}", count(lookups, "lookup"));
        let mut report = StepReport { changed, summary, ..StepReport::default() };
        report.effects.extend(copies.effect(draft));
        report
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Lookup,
    Gradient,
    Update,
    Copy,
}

/// Calls that become one.
struct Group {
    part: Part,
    roots: Vec<OperatorId>,
    /// `[bags, width]` of a lookup's result.
    result: Option<[u64; 2]>,
}

type Key = (Part, LaneId, u8, u64, Vec<u64>);

fn groups(graph: &ExecutionGraph) -> Vec<Group> {
    let mut found: BTreeMap<Key, Group> = BTreeMap::new();
    let mut tables: FxHashSet<[u64; 2]> = FxHashSet::default();
    let mut add = |root: OperatorId, part: Part, sizes: Vec<u64>, result: Option<[u64; 2]>| {
        let operator = &graph.operators[root.0 as usize];
        let key = (part, operator.lane, step(graph, root), structure(graph, root), sizes);
        found.entry(key).or_insert_with(|| Group { part, roots: Vec::new(), result }).roots.push(root);
    };
    for id in (0..graph.operators.len() as u32).map(OperatorId) {
        if let Some((table, result)) = lookup(graph, id) {
            tables.insert(table);
            add(id, Part::Lookup, result.to_vec(), Some(result));
        } else if let Some(result) = batched_lookup(graph, id) {
            add(id, Part::Lookup, result.to_vec(), Some(result));
        }
    }
    for id in (0..graph.operators.len() as u32).map(OperatorId) {
        if let Some(gradient) = gradient(graph, id).or_else(|| batched_gradient(graph, id)) {
            add(gradient.0, Part::Gradient, gradient.1, None);
        } else if let Some(table) = update(graph, id, &tables) {
            // Tables of any number of rows lie one after another in a batched one; all its rows are as wide.
            add(outermost(graph, id), Part::Update, vec![table[1]], None);
        }
    }
    let mut groups: Vec<Group> = found.into_values().collect();
    for group in &mut groups {
        group.roots.dedup();
    }
    groups.retain(|group| group.roots.len() > 1);
    groups
}

fn name(graph: &ExecutionGraph, id: OperatorId) -> &str {
    bare(graph.names.get(graph.operators[id.0 as usize].name))
}

fn dims(graph: &ExecutionGraph, id: OperatorId, at: usize) -> Option<&[u64]> {
    let operands = graph.operators[id.0 as usize].operands?;
    graph.operands[operands.0 as usize].dims(at)
}

fn parent(graph: &ExecutionGraph, id: OperatorId) -> Option<OperatorId> {
    graph.operators[id.0 as usize].parent
}

/// Whether `name` is FBGEMM's lookup of the tables that one module holds.
fn is_batched_lookup(name: &str) -> bool {
    name.starts_with("split_embedding_codegen_lookup") || name.starts_with("dense_embedding_codegen_lookup")
}

/// Result of an outermost FBGEMM lookup, `[bags per table, width of all its tables]`.
fn batched_lookup(graph: &ExecutionGraph, id: OperatorId) -> Option<[u64; 2]> {
    let operator = &graph.operators[id.0 as usize];
    if !is_batched_lookup(name(graph, id)) || operator.parent.is_some_and(|outer| is_batched_lookup(name(graph, outer)))
    {
        return None;
    }
    let operands = &graph.operands[operator.operands?.0 as usize];
    let work = operator_work(graph.names.get(operator.name), operands, Reading::default())?;
    let Shape::Embedding { batch, tables, dim, .. } = work.shape else { return None };
    Some([batch, tables * dim])
}

/// The outermost operator of an FBGEMM lookup's gradient, which updates the tables too, with the gradient's sizes.
fn batched_gradient(graph: &ExecutionGraph, id: OperatorId) -> Option<(OperatorId, Vec<u64>)> {
    let is_gradient = |id: OperatorId| {
        let full = graph.names.get(graph.operators[id.0 as usize].name);
        graph.operators[id.0 as usize].phase == Phase::Backward
            && (full.contains("SplitLookupFunction") || full.contains("embedding_backward_codegen"))
    };
    if !is_gradient(id) || parent(graph, id).is_some_and(is_gradient) {
        return None;
    }
    let inside = id.0..graph.operators[id.0 as usize].subtree_end.0;
    let sizes = inside.map(OperatorId).find_map(|inner| dims(graph, inner, 0).filter(|dims| dims.len() == 2))?;
    Some((id, sizes.to_vec()))
}

/// Table and result of an outermost `embedding_bag`.
fn lookup(graph: &ExecutionGraph, id: OperatorId) -> Option<([u64; 2], [u64; 2])> {
    let is_lookup = |id| matches!(name(graph, id), "embedding_bag" | "_embedding_bag");
    if !is_lookup(id) || parent(graph, id).is_some_and(is_lookup) {
        return None;
    }
    let (&[rows, width], offsets) = (dims(graph, id, 0)?, dims(graph, id, 2)) else { return None };
    let bags = match dims(graph, id, 1)? {
        &[bags, _] => bags,
        _ => *offsets?.first()?,
    };
    Some(([rows, width], [bags, width]))
}

/// The outermost operator of a lookup's gradient, with its sizes.
fn gradient(graph: &ExecutionGraph, id: OperatorId) -> Option<(OperatorId, Vec<u64>)> {
    let inner = name(graph, id);
    let is_gradient =
        inner == "_embedding_bag_backward" || inner.starts_with("_embedding_bag_") && inner.ends_with("_backward");
    if !is_gradient || parent(graph, id).is_some_and(|outer| name(graph, outer) == "_embedding_bag_backward") {
        return None;
    }
    Some((outermost(graph, id), dims(graph, id, 0)?.to_vec()))
}

/// The table that an operator accumulates the gradient of, or updates.
fn update(graph: &ExecutionGraph, id: OperatorId, tables: &FxHashSet<[u64; 2]>) -> Option<[u64; 2]> {
    let operator = &graph.operators[id.0 as usize];
    let table = |id| dims(graph, id, 0).and_then(|dims| <[u64; 2]>::try_from(dims).ok()).filter(|d| tables.contains(d));
    let own = table(id)?;
    let accumulates = name(graph, id) == "AccumulateGrad";
    let outer_has = operator.parent.is_some_and(|outer| table(outer).is_some());
    ((operator.phase == Phase::Optimizer || accumulates) && !outer_has).then_some(own)
}

/// The outermost operator around `id` that holds nothing else of note: wrappers of the autograd engine.
fn outermost(graph: &ExecutionGraph, id: OperatorId) -> OperatorId {
    let is_wrapper = |outer: &OperatorId| {
        let full = graph.names.get(graph.operators[outer.0 as usize].name);
        full.starts_with("autograd::") || full.contains("Backward") || full.contains("AccumulateGrad")
    };
    std::iter::successors(Some(id), |&id| parent(graph, id).filter(is_wrapper)).last().unwrap_or(id)
}

/// Which step of the window: before, within or after the chosen one.
fn step(graph: &ExecutionGraph, id: OperatorId) -> u8 {
    let operator = &graph.operators[id.0 as usize];
    let rank = graph.lanes[operator.lane.0 as usize].rank;
    let Some(part) = graph.part_of(rank) else { return 0 };
    u8::from(operator.start >= part.iteration_start) + u8::from(operator.start >= part.iteration_end)
}

/// The names of the operators inside, as one number.
fn structure(graph: &ExecutionGraph, id: OperatorId) -> u64 {
    let mut hasher = FxHasher::default();
    for operator in &graph.operators[id.0 as usize..graph.operators[id.0 as usize].subtree_end.0 as usize] {
        operator.name.0.hash(&mut hasher);
    }
    hasher.finish()
}

fn tasks_by_operator(graph: &ExecutionGraph) -> Tasks {
    let mut tasks = Tasks::default();
    for node in graph.tasks.node_indices() {
        if let Some(operator) = graph.tasks[node].operator {
            tasks.entry(operator).or_default().push(node);
        }
    }
    tasks
}

/// Lets the first call do the work of all and takes the others out; how many tasks that changed.
fn fuse(draft: &mut Draft<'_>, group: &Group, tasks: &Tasks) -> usize {
    let graph = draft.graph();
    let [kept, others @ ..] = group.roots.as_slice() else { return 0 };
    let empty = Vec::new();
    let of = |root: &OperatorId, offset: u32| tasks.get(&OperatorId(root.0 + offset)).unwrap_or(&empty);
    let size = graph.operators[kept.0 as usize].subtree_end.0 - kept.0;
    let mut changed = 0;
    for offset in 0..size {
        let own = of(kept, offset).iter().copied().filter(|&node| works(graph, node));
        for (place, node) in own.enumerate() {
            let same = |root| of(root, offset).iter().copied().filter(|&node| works(graph, node)).nth(place);
            let mut members = vec![node];
            members.extend(others.iter().filter_map(same));
            draft.merge(node, members);
            changed += 1;
        }
    }
    for root in others {
        let inside = (0..size).flat_map(|offset| of(root, offset).iter().copied());
        for node in inside.chain(gap_before(graph, *root, tasks)) {
            draft.remove(node);
            changed += 1;
        }
    }
    changed
}

/// Whether any task of `root` is left.
fn is_left(draft: &Draft<'_>, root: OperatorId, tasks: &Tasks) -> bool {
    let end = draft.graph().operators[root.0 as usize].subtree_end.0;
    let own = (root.0..end).filter_map(|id| tasks.get(&OperatorId(id))).flatten();
    own.into_iter().any(|&node| !draft.is_removed(node))
}

fn works(graph: &ExecutionGraph, node: NodeId) -> bool {
    graph.tasks[node].kind.is_device() || graph.tasks[node].kind == TaskKind::Compute
}

/// Host time between operators right before the first task of `root`.
fn gap_before(graph: &ExecutionGraph, root: OperatorId, tasks: &Tasks) -> Option<NodeId> {
    let end = graph.operators[root.0 as usize].subtree_end;
    let host = |node: &&NodeId| !graph.tasks[**node].kind.is_device();
    let first = (root.0..end.0).filter_map(|id| tasks.get(&OperatorId(id))?.iter().find(host)).min()?;
    let mut before = graph.tasks.neighbors_directed(*first, petgraph::Direction::Incoming);
    before.find(|&node| graph.tasks[node].kind == TaskKind::Host(HostPart::Between))
}

/// Takes out concatenations and stacks of nothing but the batched results: a batched lookup writes them side by side.
fn drop_gathers(draft: &mut Draft<'_>, groups: &[Group], tasks: &Tasks) -> usize {
    let graph = draft.graph();
    let gathers = |id: OperatorId| {
        let operator = &graph.operators[id.0 as usize];
        let operands = &graph.operands.get(operator.operands?.0 as usize)?.inputs;
        let Some(Operand::TensorList(list)) = operands.first() else { return None };
        let is_result = |group: &&Group| {
            group.roots.len() == list.len()
                && list.iter().all(|tensor| group.result.as_ref().map(<[u64; 2]>::as_slice) == tensor.dims())
        };
        let gathers = matches!(name(graph, id), "cat" | "stack") && operator.phase == Phase::Forward;
        (gathers && groups.iter().any(|group| is_result(&group))).then_some(operator.subtree_end)
    };
    let mut changed = 0;
    for id in (0..graph.operators.len() as u32).map(OperatorId) {
        let Some(end) = gathers(id) else { continue };
        for node in (id.0..end.0).filter_map(|id| tasks.get(&OperatorId(id))).flatten() {
            draft.remove(*node);
            changed += 1;
        }
    }
    changed
}
