//! `fuse SELECTOR` and `fuse-optimizer`: several kernels become one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::{Family, Work};
use crate::graph::{LaneId, NodeId, OperatorId, Phase, TaskKind};
use crate::memory::parameters::{begins_state, updated_bytes};
use crate::scenario::context::Context;
use crate::scenario::draft::{Combine, Draft, Node, NodeSet, Passes};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{Stage, StepReport, Transform};
use crate::units::Bytes;

use super::remove::host_of;
use super::report::{Kept, count, in_step};

/// Chains of neighbouring element-wise kernels become one kernel each.
#[derive(Clone, Debug, PartialEq)]
struct Fuse {
    /// Which kernels may be fused.
    selector: Selector,
}

/// The updates of all parameters, in one pass or several, become one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FuseOptimizer;

pub(super) const EDIT: Grammar = Grammar {
    name: "fuse",
    help: "runs of neighbouring element-wise kernels become one: arithmetic adds up, only the ends' bytes remain",
    example: "fuse family=elementwise",
    forms: &[Form {
        arguments: &[Argument::selector()],
        build: |given| Some(Arc::new(Fuse { selector: given.get(0)? })),
    }],
    knobs: &[],
};

pub(super) const OPTIMIZER: Grammar = Grammar {
    name: "fuse-optimizer",
    help: "the optimizer's updates become one launch that goes over parameters, gradients and state once",
    example: "fuse-optimizer",
    forms: &[Form { arguments: &[], build: |_| Some(Arc::new(FuseOptimizer)) }],
    knobs: &[],
};

/// Families whose kernels work element by element, so that a chain needs no exchange between blocks.
fn is_element_wise(family: Family) -> bool {
    matches!(family, Family::Elementwise | Family::Dropout | Family::Optimizer)
}

impl Transform for Fuse {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let chosen: NodeSet = self.selector.select_all(draft).into_iter().collect();
        let chains = chains(draft, &chosen);
        if chains.is_empty() {
            return StepReport::nothing(format!("no two neighbouring element-wise kernels match {}", self.selector));
        }
        let kernels: usize = chains.iter().map(Vec::len).sum();
        let chains: Vec<Group> = chains.into_iter().map(|nodes| Group { nodes, combine: Combine::Chain }).collect();
        let host = merge_all(draft, &chains);
        let (apart, fused) = per_step(draft, &chains);
        let summary = format!("{} → {fused}, {host} host tasks gone", count(apart, "kernel"));
        let effects = vec![Effect::assumption(SAME_DATA)];
        StepReport { changed: kernels + host, summary, effects, ..StepReport::default() }
    }
}

/// What is assumed of kernels that are fused.
const SAME_DATA: &str = "neighbouring element-wise kernels that write as much are taken to work on the same data, each on the result of the one before";

/// Chains of selected element-wise kernels that follow one another on a stream, one of each operator: where operators do their work in
/// several kernels, by slices, a chain has the same slice of each. Work between two of them that moved to another stream still takes what
/// the first makes.
fn chains(draft: &Draft<'_>, chosen: &NodeSet) -> Vec<Vec<Node>> {
    let fits = |node: &Node| {
        draft.kind_of(*node) == TaskKind::Kernel
            && draft.family_of(*node).is_some_and(is_element_wise)
            && draft.work_of(*node).is_some()
            && chosen.contains(*node)
    };
    let elements = |node: Node| draft.work_of(node).map_or(0, |work| work.written.0);
    let moved = draft.moved();
    let has_between = |a: Node, b: Node| {
        let (Node::Traced(a), Node::Traced(b)) = (a, b) else { return false };
        let lane = |node: NodeId| draft.graph().tasks[node].lane;
        let behind = moved.partition_point(|&(node, _)| node <= a);
        let mut between = moved[behind..].iter().take_while(|&&(node, _)| node < b);
        between.any(|&(node, to)| lane(node) == lane(a) && to != lane(a) && !draft.is_removed(node))
    };
    let mut chains = Vec::new();
    for lane in draft.in_order(|node| draft.kind_of(node).is_device()).values() {
        let follows = |a: &Node, b: &Node| {
            fits(a) && fits(b) && elements(*a) == elements(*b) && !has_between(*a, *b) && !ends_in_gradient(draft, *a)
        };
        for run in lane.chunk_by(follows) {
            // What a step added is no slice of the operator that it stands beside.
            let traced = |node: Node| draft.operator_of(node).filter(|_| matches!(node, Node::Traced(_)));
            let of_one = |a: &Node, b: &Node| traced(*a).is_some_and(|id| traced(*b) == Some(id));
            let operators: Vec<&[Node]> = run.chunk_by(of_one).collect();
            for alike in operators.chunk_by(|a, b| a.len() == b.len()).filter(|alike| alike.len() > 1) {
                chains.extend((0..alike[0].len()).map(|slice| alike.iter().map(|kernels| kernels[slice]).collect()));
            }
        }
    }
    chains
}

/// Whether a kernel adds to a parameter's gradient, which nothing reads before the optimizer.
fn ends_in_gradient(draft: &Draft<'_>, node: Node) -> bool {
    let graph = draft.graph();
    let operator = |id: OperatorId| &graph.operators[id.0 as usize];
    let mut around = std::iter::successors(draft.operator_of(node), |&id| operator(id).parent);
    around.any(|id| graph.names.get(operator(id).name) == "torch::autograd::AccumulateGrad")
}

impl Transform for FuseOptimizer {
    fn stage(&self) -> Stage {
        Stage::Host
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let groups = updates(draft);
        let mut report = if groups.is_empty() {
            StepReport::nothing(why_nothing(draft))
        } else {
            let kernels = groups.iter().map(|group| group.nodes.len()).sum::<usize>();
            let (apart, fused) = per_step(draft, &groups);
            let host = merge_all(draft, &groups);
            let summary = format!("{} → {fused}, {host} host tasks gone", count(apart, "update"));
            StepReport { changed: kernels + host, summary, ..StepReport::default() }
        };
        without_sizes(draft).list(&mut report, UNSIZED);
        report
    }
}

/// Kernels that become one, and how their work adds up.
struct Group {
    nodes: Vec<Node>,
    combine: Combine,
}

/// Kernels (or host computations) of the optimizer that one can do, two or more of each, by lane and step: all passes over the parameters
/// where it is known how large those are, else those of one name; what only clears gradients or moves data by name.
fn updates(draft: &Draft<'_>) -> Vec<Group> {
    let within = draft.base().iteration_tasks();
    let mut passes: BTreeMap<(LaneId, bool), Vec<Node>> = BTreeMap::new();
    let mut named: Vec<Vec<Node>> = Vec::new();
    let computes = |node: Node| matches!(draft.kind_of(node), TaskKind::Kernel | TaskKind::Compute);
    let is_update =
        |node: Node| computes(node) && draft.phase_of(node) == Some(Phase::Optimizer) && draft.work_of(node).is_some();
    for (lane, nodes) in draft.in_order(is_update) {
        let (updates, others): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|&node| draft.family_of(node) == Some(Family::Optimizer));
        for node in updates {
            passes.entry((lane, within[draft.beside(node).index()])).or_default().push(node);
        }
        named.extend(by_name(draft, others.into_iter().filter(|&node| !is_of_first_step(draft, node)).collect()));
    }
    let mut groups = Vec::new();
    for ((lane, _), nodes) in passes {
        match update(draft, lane, &nodes) {
            Some(combine) => groups.push(Group { nodes, combine }),
            None => named.extend(by_name(draft, nodes)),
        }
    }
    groups.extend(named.into_iter().map(|nodes| Group { nodes, combine: Combine::Batch }));
    groups.retain(|group| group.nodes.len() > 1);
    groups
}

/// Whether a task fills a tensor that the optimizer begins with: that is done once, whatever its updates are.
fn is_of_first_step(draft: &Draft<'_>, node: Node) -> bool {
    let graph = draft.graph();
    let mut callers = std::iter::successors(draft.operator_of(node), |&id| graph.operators[id.0 as usize].parent);
    callers.any(|id| begins_state(graph.names.get(graph.operators[id.0 as usize].name)))
}

/// Kernels of one lane by step and name.
fn by_name(draft: &Draft<'_>, nodes: Vec<Node>) -> impl Iterator<Item = Vec<Node>> {
    let within = draft.base().iteration_tasks();
    let mut groups: BTreeMap<(bool, String), Vec<Node>> = BTreeMap::new();
    for node in nodes {
        let key = (within[draft.beside(node).index()], draft.name_of(node).to_owned());
        groups.entry(key).or_default().push(node);
    }
    groups.into_values()
}

/// How one kernel does all passes of an update on a lane: it reads parameters, gradients and state and writes parameters and state back.
/// `None` where their sizes are not known, or the passes move no more than that.
fn update(draft: &Draft<'_>, lane: LaneId, nodes: &[Node]) -> Option<Combine> {
    let part = draft.graph().ranks.get(draft.rank_of(lane))?;
    let (parameters, state) = updated_bytes(draft.graph(), part)?;
    let bytes = |&node: &Node| match node {
        Node::Traced(node) => draft.traced_work(node).map(Work::bytes),
        Node::Added(_) => draft.work_of(node).map(Work::bytes),
    };
    let apart: Bytes = nodes.iter().filter_map(bytes).sum();
    let written = Bytes(parameters.saturating_add(state));
    let read = written + Bytes(parameters);
    (read + written < apart).then_some(Combine::Update(Passes { read, written, apart }))
}

/// How many kernels of a step become one each, and how many those are.
fn per_step(draft: &Draft<'_>, groups: &[Group]) -> (usize, usize) {
    let nodes: Vec<Node> = groups.iter().flat_map(|group| &group.nodes).copied().collect();
    let firsts: Vec<Node> = groups.iter().map(|group| group.nodes[0]).collect();
    (in_step(draft, &nodes), in_step(draft, &firsts))
}

/// Lets one task do the work of each group; how many host tasks of a step went with the others.
fn merge_all(draft: &mut Draft<'_>, groups: &[Group]) -> usize {
    for group in groups {
        draft.merge_nodes(&group.nodes, group.combine);
    }
    let others: Vec<Node> = groups.iter().flat_map(|group| &group.nodes[1..]).copied().collect();
    let host = host_of(draft, &others);
    for &node in &host {
        draft.take_out(node);
    }
    in_step(draft, &host)
}

/// Why no updates became one.
fn why_nothing(draft: &Draft<'_>) -> &'static str {
    let is_update = |node: &Node| {
        matches!(draft.kind_of(*node), TaskKind::Kernel | TaskKind::Compute)
            && draft.family_of(*node) == Some(Family::Optimizer)
    };
    let updates: Vec<Node> = draft.nodes().filter(is_update).collect();
    match updates.iter().any(|&node| draft.work_of(node).is_none()) {
        _ if updates.is_empty() => "no update of an optimizer was traced",
        true => {
            "the updates are of tensors whose sizes were not recorded: the profiler leaves out those of long lists, an \
             execution trace beside the trace has them"
        }
        false => "the updates are one launch already",
    }
}

/// Why an update keeps its time.
const UNSIZED: &str = "an update of tensors whose sizes were not recorded: time kept";

/// Kernels of the optimizer that update tensors of which no sizes were recorded.
fn without_sizes<'d>(draft: &'d Draft<'_>) -> Kept<'d> {
    let mut kept = Kept::default();
    let is_update = |&node: &Node| {
        draft.kind_of(node) == TaskKind::Kernel
            && draft.family_of(node) == Some(Family::Optimizer)
            && draft.work_of(node).is_none()
    };
    for node in draft.nodes().filter(is_update) {
        kept.add(draft, node, draft.price_of(node).duration);
    }
    kept
}
