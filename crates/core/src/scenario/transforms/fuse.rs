//! `fuse SELECTOR` and `fuse-optimizer`: several kernels become one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::Family;
use crate::graph::{LaneId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Combine, Draft, Node, NodeSet};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};

use super::remove::host_of;
use super::report::count;

/// Chains of neighbouring element-wise kernels become one kernel each.
#[derive(Clone, Debug, PartialEq)]
struct Fuse {
    /// Which kernels may be fused.
    selector: Selector,
}

/// The updates of all parameters become one launch per kind of kernel.
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
    help: "per-parameter updates become one multi-tensor launch per kind",
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
        let kernels = chains.iter().map(Vec::len).sum();
        let host = merge_all(draft, &chains, Combine::Chain);
        let summary = format!("{} → {}, {host} host tasks gone", count(kernels, "kernel"), chains.len());
        let effects = vec![Effect::assumption(SAME_DATA)];
        StepReport { changed: kernels + host, summary, effects, ..StepReport::default() }
    }
}

/// What is assumed of kernels that are fused.
const SAME_DATA: &str = "neighbouring element-wise kernels that write as much are taken to work on the same data, each on the result of the one before";

/// Chains of selected element-wise kernels that follow one another on a stream, one of each operator: where operators do their work in
/// several kernels, by slices, a chain has the same slice of each.
fn chains(draft: &Draft<'_>, chosen: &NodeSet) -> Vec<Vec<Node>> {
    let fits = |node: &Node| {
        draft.kind_of(*node) == TaskKind::Kernel
            && draft.family_of(*node).is_some_and(is_element_wise)
            && draft.work_of(*node).is_some()
            && chosen.contains(*node)
    };
    let elements = |node: Node| draft.work_of(node).map_or(0, |work| work.written.0);
    let mut chains = Vec::new();
    for lane in draft.in_order(|node| draft.kind_of(node).is_device()).values() {
        for run in lane.chunk_by(|a, b| fits(a) && fits(b) && elements(*a) == elements(*b)) {
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

impl Transform for FuseOptimizer {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let groups = updates(draft);
        if groups.is_empty() {
            return StepReport::nothing("no two updates of one kind: they are fused already, or none was traced");
        }
        let kernels = groups.iter().map(Vec::len).sum();
        let host = merge_all(draft, &groups, Combine::Batch);
        let summary = format!("{} → {}, {host} host tasks gone", count(kernels, "update"), groups.len());
        StepReport { changed: kernels + host, summary, ..StepReport::default() }
    }
}

/// Update kernels (or host computations) of one name, lane and step; two or more of each.
fn updates(draft: &Draft<'_>) -> Vec<Vec<Node>> {
    let within = draft.base().iteration_tasks();
    let mut groups: BTreeMap<(LaneId, bool, &str), Vec<Node>> = BTreeMap::new();
    let computes = |node: Node| matches!(draft.kind_of(node), TaskKind::Kernel | TaskKind::Compute);
    let is_update =
        |node: Node| computes(node) && draft.phase_of(node) == Some(Phase::Optimizer) && draft.work_of(node).is_some();
    for (lane, nodes) in draft.in_order(is_update) {
        for node in nodes {
            let key = (lane, within[draft.beside(node).index()], draft.name_of(node));
            groups.entry(key).or_default().push(node);
        }
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

/// Lets one task do the work of each group; how many host tasks went with the others.
fn merge_all(draft: &mut Draft<'_>, groups: &[Vec<Node>], combine: Combine) -> usize {
    for group in groups {
        draft.merge_nodes(group, combine);
    }
    let others: Vec<Node> = groups.iter().flat_map(|group| &group[1..]).copied().collect();
    let host = host_of(draft, &others);
    for &node in &host {
        draft.take_out(node);
    }
    host.len()
}
