//! `remove SELECTOR`: operators with their host time, launches and kernels, or single tasks, go.

use std::sync::Arc;

use crate::graph::{NodeId, OperatorId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::Words;
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

use super::report::count;

/// Takes the selected tasks out. Where all device work of an operator goes, its host time and launches go too.
#[derive(Clone, Debug, PartialEq)]
pub struct Remove {
    /// Which tasks.
    pub selector: Selector,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "remove",
    usage: "remove SELECTOR",
    help: "takes operators out with their host time, launches and kernels",
    example: "remove name~dropout",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let rest = words.rest();
    Ok(Arc::new(Remove { selector: Selector::parse_at(rest.text, rest.column)? }))
}

impl Transform for Remove {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        vec![&self.selector]
    }

    fn line(&self) -> String {
        format!("{} {}", SPEC.name, self.selector)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let all = self.selector.select_all(draft);
        if all.is_empty() {
            return StepReport::nothing(format!("nothing matches {}", self.selector));
        }
        let traced = |&node: &Node| if let Node::Traced(node) = node { Some(node) } else { None };
        let chosen: Vec<NodeId> = all.iter().filter_map(traced).collect();
        let added = remove_added(draft, &all[chosen.len()..]);
        let device = chosen.iter().filter(|&&node| draft.graph().tasks[node].kind.is_device()).count();
        for &node in &chosen {
            draft.remove(node);
        }
        let orphans = if device == 0 { Vec::new() } else { host_of(draft, &chosen) };
        for &node in &orphans {
            draft.remove(node);
        }
        let changed = chosen.len() + orphans.len() + added;
        let summary = format!("{} out, {device} of them on the device", count(changed, "task"));
        StepReport { changed, summary, ..StepReport::default() }
    }
}

/// Takes added tasks out, device work with its launch; how many that are.
fn remove_added(draft: &mut Draft<'_>, chosen: &[Node]) -> usize {
    let mut removed = 0;
    for &node in chosen {
        let call = draft.call_of(node).filter(|call| matches!(call, Node::Added(_)) && !draft.is_gone(*call));
        for gone in std::iter::once(node).chain(call) {
            removed += usize::from(!draft.is_gone(gone));
            draft.take_out(gone);
        }
    }
    removed
}

/// Launches of removed device work, and host time of the operators that have no device work left.
pub(super) fn host_of(draft: &Draft<'_>, removed: &[NodeId]) -> Vec<NodeId> {
    let graph = draft.graph();
    let mut of_operator: Vec<(u32, u32)> = vec![(0, 0); graph.operators.len()];
    let mut launches = Vec::new();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        if let Some(counts) =
            task.operator.filter(|_| task.kind.is_device()).and_then(|id| of_operator.get_mut(id.0 as usize))
        {
            counts.0 += 1;
            counts.1 += u32::from(draft.is_removed(node));
        }
    }
    for &node in removed.iter().filter(|&&node| graph.tasks[node].kind.is_device()) {
        if let Some(call) = graph.launch_of(node).filter(|&call| graph.tasks[call].kind == TaskKind::Runtime) {
            launches.push(call);
        }
    }
    let gone = without_work(draft, &of_operator);
    let host = graph.tasks.node_indices().filter(|&node| {
        let task = &graph.tasks[node];
        let in_gone = task.operator.is_some_and(|id| gone[id.0 as usize]);
        in_gone && matches!(task.kind, TaskKind::Host(_) | TaskKind::Runtime) && !draft.is_removed(node)
    });
    let mut all: Vec<NodeId> = host.chain(launches.iter().copied().filter(|&call| !draft.is_removed(call))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Operators whose subtree had device work and has none left.
fn without_work(draft: &Draft<'_>, of_operator: &[(u32, u32)]) -> Vec<bool> {
    let operators = &draft.graph().operators;
    let mut sums = vec![(0u64, 0u64); operators.len() + 1];
    for (index, &(all, gone)) in of_operator.iter().enumerate() {
        sums[index + 1] = (sums[index].0 + u64::from(all), sums[index].1 + u64::from(gone));
    }
    let left = |id: usize| {
        let end = operators[id].subtree_end.0 as usize;
        let (all, gone) = (sums[end].0 - sums[id].0, sums[end].1 - sums[id].1);
        all > 0 && all == gone
    };
    let mut gone: Vec<bool> = (0..operators.len()).map(left).collect();
    // What is inside an operator that goes, goes with it.
    for id in 0..operators.len() {
        gone[id] |= operators[id].parent.is_some_and(|OperatorId(parent)| gone[parent as usize]);
    }
    gone
}
