//! `replace SELECTOR with OP`: the same arguments, another operator.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::operators::bare;
use crate::cost::{Caller, Launch, Work, work_of};
use crate::graph::{NodeId, Operand, Operands, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{Bytes, DurNs};

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

/// Operators of one tensor: of the arguments of an operator of several they take the first.
const OF_ONE: [&str; 20] = [
    "relu",
    "abs",
    "ceil",
    "clamp",
    "cos",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hardtanh",
    "leaky_relu",
    "log",
    "neg",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "silu",
    "sqrt",
    "tanh",
];

fn takes_one(operator: &str) -> bool {
    OF_ONE.contains(&bare(operator).trim_end_matches('_'))
}

/// The arguments without all tensors but the first.
fn first_tensor(operands: &Operands) -> Option<Operands> {
    let is_tensor = |operand: &&Operand| matches!(operand, Operand::Tensor { .. });
    let first = operands.inputs.iter().find(is_tensor)?;
    Some(Operands { inputs: vec![first.clone()], ..operands.clone() })
}

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
            match known.entry(key).or_insert_with(|| self.work(draft, id).map(Arc::new)) {
                Some(work) => changed.push((node, work.clone())),
                None => unknown.extend(traced(draft, node)),
            }
        }
        if changed.is_empty() {
            return StepReport::nothing(format!("no kernel with recorded arguments matches {}", self.selector));
        }
        let nodes: Vec<_> = changed.iter().map(|&(node, _)| node).collect();
        for (node, work) in changed {
            draft.set_work_of(node, work);
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

impl Replace {
    /// The work of the operator on the arguments of operator `id`.
    fn work(&self, draft: &Draft<'_>, id: OperatorId) -> Option<Work> {
        let first = draft.operands(id).filter(|_| takes_one(&self.operator)).and_then(first_tensor);
        let caller = Caller { operator: &self.operator, operands: first.as_ref().or(draft.operands(id)) };
        let phase = draft.graph().operators[id.0 as usize].phase;
        let launch = Launch { kind: TaskKind::Compute, name: &self.operator, bytes: Bytes(0), ranks: 0, phase };
        work_of(&launch, &[caller], None)
    }
}
