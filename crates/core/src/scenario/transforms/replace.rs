//! `replace SELECTOR with OP`: the same arguments, another operator.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::operators::{bare, operator_family};
use crate::cost::{Caller, Launch, Work, work_of};
use crate::graph::{Operand, Operands, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::nearest::nearest;
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::Bytes;

use super::report::{count, survey};

/// Lets the selected kernels compute another operator on their operator's arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Replace {
    /// Which kernels.
    pub selector: Selector,
    /// The operator, e.g. `aten::relu`.
    pub operator: String,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "replace",
    usage: "replace SELECTOR with OPERATOR",
    help: "lets the selected kernels compute another operator on the same arguments",
    example: "replace name=aten::gelu with aten::relu",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let (selector, operator) = words.halves("with", "SELECTOR with OPERATOR")?;
    known_operator(operator, "")?;
    let selector = Selector::parse_at(selector.text, selector.column)?;
    Ok(Arc::new(Replace { selector, operator: operator.text.to_owned() }))
}

/// Operators of one tensor, the most common first: of the arguments of an operator of several they take the first.
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

/// Operators that people insert, for those who misspell one.
const COMMON: [&str; 16] = [
    "add",
    "addmm",
    "bmm",
    "cat",
    "conv2d",
    "convolution",
    "copy_",
    "dropout",
    "embedding_bag",
    "layer_norm",
    "linear",
    "matmul",
    "mm",
    "mul",
    "softmax",
    "sum",
];

/// Refuses an operator whose cost no model knows.
pub(super) fn known_operator(operator: Word<'_>, or: &str) -> Result<(), StepError> {
    if operator_family(operator.text).is_some() {
        return Ok(());
    }
    let known: Vec<String> = OF_ONE.iter().chain(&COMMON).map(|name| format!("aten::{name}")).collect();
    let nearest = nearest(operator.text, known.iter().map(String::as_str)).map(str::to_owned);
    let hint = nearest.as_ref().map_or(", e.g. aten::relu".to_owned(), |name| format!("; did you mean `{name}`?"));
    let message = format!("`{}`: expected {or}an operator with a known cost{hint}", operator.text);
    Err(StepError { nearest, ..StepError::at(operator.column, message) })
}

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
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        vec![&self.selector]
    }

    fn line(&self) -> String {
        format!("{} {} with {}", SPEC.name, self.selector, self.operator)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let mut changed = Vec::new();
        let mut unknown = 0;
        // Of equal arguments the work is worked out once.
        let mut known: FxHashMap<(Option<u32>, Phase), Option<Arc<Work>>> = FxHashMap::default();
        for node in self.selector.select_all(draft) {
            let computes = matches!(draft.kind_of(node), TaskKind::Kernel | TaskKind::Compute);
            let Some(id) = draft.operator_of(node).filter(|_| computes) else { continue };
            let key = (draft.arguments(id), draft.graph().operators[id.0 as usize].phase);
            match known.entry(key).or_insert_with(|| self.work(draft, id).map(Arc::new)) {
                Some(work) => changed.push((node, work.clone())),
                None => unknown += 1,
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
        if unknown > 0 {
            report.unhandled.push(format!("{}: arguments do not fit {}", count(unknown, "kernel"), self.operator));
        }
        report
    }
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
