//! `replace SELECTOR with OP`: the same arguments, another operator.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::Work;
use crate::graph::{NodeId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::report::{count, survey};

/// Lets the selected kernels compute another operator on their operator's arguments.
#[derive(Clone, Debug, PartialEq)]
struct Replace {
    /// Which kernels.
    selector: Selector,
    /// The operator, e.g. `aten::relu`.
    operator: String,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "replace",
    help: "lets the selected kernels compute another operator on the same arguments",
    example: "replace name=aten::gelu with aten::relu",
    forms: &[Form {
        arguments: &[
            Argument::selector(),
            Argument::new("OPERATOR", "an operator with a known cost", Kind::Operator).after(" with "),
        ],
        build: |given| Some(Arc::new(Replace { selector: given.get(0)?, operator: given.get(1)? })),
    }],
    knobs: &[],
};

impl Transform for Replace {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let mut changed = Vec::new();
        let mut unknown = Vec::new();
        // Of equal arguments the work is worked out once.
        let mut known: FxHashMap<(Option<u32>, Phase), Option<Arc<Work>>> = FxHashMap::default();
        for node in self.selector.select_all(draft) {
            let computes = matches!(draft.kind_of(node), TaskKind::Kernel | TaskKind::Compute);
            let Some(id) = draft.operator_of(node).filter(|_| computes) else { continue };
            let key = (draft.arguments(id), draft.graph().operators[id.0 as usize].phase);
            match known.entry(key).or_insert_with(|| draft.work_as(&self.operator, id).map(Arc::new)) {
                Some(work) => changed.push((node, work.clone())),
                None => unknown.extend(traced(draft, node)),
            }
        }
        if changed.is_empty() {
            return StepReport::nothing(format!("no kernel with recorded arguments matches {}", self.selector));
        }
        let nodes: Vec<_> = changed.iter().map(|&(node, _)| node).collect();
        let name: Arc<str> = self.operator.as_str().into();
        for (node, work) in changed {
            match node {
                Node::Traced(node) => draft.replace_work(node, Arc::clone(&name), work),
                Node::Added(_) => draft.set_work_of(node, work),
            }
        }
        let summary = format!("{} compute {}", count(nodes.len(), "kernel"), self.operator);
        let mut report = survey(draft, nodes, summary);
        if !unknown.is_empty() {
            let text = format!("{}: arguments do not fit {}", count(unknown.len(), "kernel"), self.operator);
            report.say(Effect::kept(text, unknown));
        }
        report
    }
}

/// A traced task with what it takes now.
fn traced(draft: &Draft<'_>, node: Node) -> Option<(NodeId, DurNs)> {
    let Node::Traced(traced) = node else { return None };
    Some((traced, draft.price_of(node).duration))
}
