//! `remove SELECTOR`: operators with their host time, launches and kernels, or single tasks, go.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::graph::{HostPart, OperatorId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{AddedId, Draft, Node, NodeSet};
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};

use super::report::{count, in_step, tell_elsewhere, tell_gradients};

/// Takes the selected tasks out. Where all device work of an operator goes, its host time and launches go too.
#[derive(Clone, Debug, PartialEq)]
struct Remove {
    /// Which tasks.
    selector: Selector,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "remove",
    help: "takes operators out with their host time, launches and kernels",
    example: "remove name~dropout",
    forms: &[Form {
        arguments: &[Argument::selector()],
        build: |given| Some(Arc::new(Remove { selector: given.get(0)? })),
    }],
    knobs: &[],
};

impl Transform for Remove {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let all = self.selector.select_all(draft);
        if all.is_empty() {
            return StepReport::nothing(format!("nothing matches {}", self.selector));
        }
        let device: Vec<Node> = all.iter().copied().filter(|&node| draft.kind_of(node).is_device()).collect();
        for &node in &all {
            draft.take_out(node);
        }
        let orphans = if device.is_empty() { Vec::new() } else { host_of(draft, &all) };
        for &node in &orphans {
            draft.take_out(node);
        }
        let changed = all.len() + orphans.len();
        let tasks = in_step(draft, &all) + in_step(draft, &orphans);
        let summary = format!("{} out, {} of them on the device", count(tasks, "task"), in_step(draft, &device));
        let mut report = StepReport { changed, summary, ..StepReport::default() };
        tell_elsewhere(&mut report, draft, &all);
        tell_gradients(&mut report, draft, &all);
        report
    }
}

/// Launches of removed device work, and host time of the operators that have no device work left for it.
pub(super) fn host_of(draft: &Draft<'_>, removed: &[Node]) -> Vec<Node> {
    let mut calls = NodeSet::default();
    for &node in removed.iter().filter(|&&node| draft.kind_of(node).is_device()) {
        calls.extend(draft.own_call_of(node).filter(|&call| draft.kind_of(call) == TaskKind::Runtime));
    }
    // A graph is launched as long as any of its kernels is left.
    let mut all = NodeSet::default();
    all.extend(calls.iter().filter(|&call| draft.launched_by(call).all(|work| draft.is_gone(work))));
    let around: Vec<Node> = all.iter().filter_map(|call| host_around(draft, call)).flatten().collect();
    all.extend(around);
    let graph = draft.graph();
    let own: NodeSet = removed.iter().copied().collect();
    let mut of_operator = vec![Count::default(); graph.operators.len()];
    let mut of_added: BTreeMap<(Option<OperatorId>, &str), Count> = BTreeMap::new();
    let added = (0..draft.added().len() as u32).map(|id| Node::Added(AddedId(id)));
    for node in graph.tasks.node_indices().map(Node::Traced).chain(added) {
        if !draft.kind_of(node).is_device() {
            continue;
        }
        let operator = draft.operator_of(node);
        let counted = Count { all: 1, gone: draft.is_gone(node).into(), own: own.contains(node).into() };
        if let Some(caller) = draft.caller_of(node) {
            of_added.entry((operator, caller)).or_default().add(counted);
        } else if let Some(count) = operator.and_then(|id| of_operator.get_mut(id.0 as usize)) {
            count.add(counted);
        }
    }
    let gone = without_work(draft, &of_operator);
    let host = draft.nodes().filter(|&node| {
        let operator = draft.operator_of(node);
        let in_gone = match draft.caller_of(node) {
            Some(caller) => of_added.get(&(operator, caller)).is_some_and(Count::has_none_left),
            None => operator.is_some_and(|id| gone[id.0 as usize]),
        };
        in_gone && matches!(draft.kind_of(node), TaskKind::Host(_) | TaskKind::Runtime)
    });
    all.extend(host);
    all.iter().filter(|&node| !draft.is_gone(node)).collect()
}

/// The host time on both sides of `call`, where an edit added an operator for that call alone: others of its name may have been added
/// for the same traced operator.
fn host_around(draft: &Draft<'_>, call: Node) -> Option<[Node; 2]> {
    let caller = draft.caller_of(call)?;
    let is_host = |node: &Node, part: HostPart| {
        draft.kind_of(*node) == TaskKind::Host(part) && draft.caller_of(*node) == Some(caller)
    };
    let before = draft.edges_into(call).map(|edge| edge.from).find(|node| is_host(node, HostPart::BeforeLaunch))?;
    let after = draft.edges_from(call).map(|edge| edge.to).find(|node| is_host(node, HostPart::AfterLaunch))?;
    Some([before, after])
}

/// Pieces of device work: all, those that are gone, and those that this edit took out.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    gone: u32,
    own: u32,
}

impl Count {
    fn add(&mut self, other: Self) {
        *self = Self { all: self.all + other.all, gone: self.gone + other.gone, own: self.own + other.own };
    }

    /// Whether this edit took some and none is left; what earlier edits emptied keeps its host time as they left it.
    fn has_none_left(&self) -> bool {
        self.own > 0 && self.all == self.gone
    }
}

/// Operators whose subtree had device work and has none left.
fn without_work(draft: &Draft<'_>, of_operator: &[Count]) -> Vec<bool> {
    let operators = &draft.graph().operators;
    let mut sums = vec![Count::default(); operators.len() + 1];
    for (index, &count) in of_operator.iter().enumerate() {
        sums[index + 1] = sums[index];
        sums[index + 1].add(count);
    }
    let left = |id: usize| {
        let (before, after) = (sums[id], sums[operators[id].subtree_end.0 as usize]);
        let (all, gone, own) = (after.all - before.all, after.gone - before.gone, after.own - before.own);
        Count { all, gone, own }.has_none_left()
    };
    let mut gone: Vec<bool> = (0..operators.len()).map(left).collect();
    // What is inside an operator that goes, goes with it.
    for id in 0..operators.len() {
        gone[id] |= operators[id].parent.is_some_and(|OperatorId(parent)| gone[parent as usize]);
    }
    gone
}
