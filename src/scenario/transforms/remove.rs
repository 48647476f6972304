//! `remove SELECTOR`: operators with their host time, launches and kernels, or single tasks, go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{OperatorId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{AddedId, Draft, Node};
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
    Ok(Arc::new(Remove { selector: Selector::of_rest(words)? }))
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
        let device = all.iter().filter(|&&node| draft.kind_of(node).is_device()).count();
        for &node in &all {
            draft.take_out(node);
        }
        let orphans = if device == 0 { Vec::new() } else { host_of(draft, &all) };
        for &node in &orphans {
            draft.take_out(node);
        }
        let changed = all.len() + orphans.len();
        let summary = format!("{} out, {device} of them on the device", count(changed, "task"));
        StepReport { changed, summary, ..StepReport::default() }
    }
}

/// Launches of removed device work, and host time of the operators that have no device work left.
pub(super) fn host_of(draft: &mut Draft<'_>, removed: &[Node]) -> Vec<Node> {
    let mut all: BTreeSet<Node> = BTreeSet::new();
    for &node in removed.iter().filter(|&&node| draft.kind_of(node).is_device()).collect::<Vec<_>>() {
        all.extend(draft.call_of(node).filter(|&call| draft.kind_of(call) == TaskKind::Runtime));
    }
    let graph = draft.graph();
    let mut of_operator: Vec<(u32, u32)> = vec![(0, 0); graph.operators.len()];
    let mut of_added: BTreeMap<(Option<OperatorId>, &str), bool> = BTreeMap::new();
    let added = (0..draft.added().len() as u32).map(|id| Node::Added(AddedId(id)));
    for node in graph.tasks.node_indices().map(Node::Traced).chain(added) {
        let (operator, gone) = (draft.operator_of(node), draft.is_gone(node));
        if !draft.kind_of(node).is_device() {
            continue;
        }
        if let Some(caller) = draft.caller_of(node) {
            *of_added.entry((operator, caller)).or_insert(true) &= gone;
        } else if let Some(counts) = operator.and_then(|id| of_operator.get_mut(id.0 as usize)) {
            counts.0 += 1;
            counts.1 += u32::from(gone);
        }
    }
    let gone = without_work(draft, &of_operator);
    let host = draft.nodes().filter(|&node| {
        let operator = draft.operator_of(node);
        let in_gone = match draft.caller_of(node) {
            Some(caller) => of_added.get(&(operator, caller)) == Some(&true),
            None => operator.is_some_and(|id| gone[id.0 as usize]),
        };
        in_gone && matches!(draft.kind_of(node), TaskKind::Host(_) | TaskKind::Runtime)
    });
    all.extend(host);
    all.into_iter().filter(|&node| !draft.is_gone(node)).collect()
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
