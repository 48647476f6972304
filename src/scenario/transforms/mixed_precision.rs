//! `mixed-precision bf16|fp16`: products and convolutions on tensor cores, activations in half the bytes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::Family;
use crate::cost::operators::operator_family;
use crate::graph::{DType, Operand, Operands, OperatorId, Phase};
use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::step::StepError;
use crate::scenario::text::Words;
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

use super::report::{count, survey};

/// Computes in a 16-bit float where autocast would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedPrecision {
    /// The 16-bit type.
    pub dtype: DType,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "mixed-precision",
    usage: "mixed-precision bf16|fp16",
    help: "runs products, convolutions and element-wise kernels in a 16-bit float; losses, norms and updates stay",
    example: "mixed-precision bf16",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let word = words.expect("bf16 or fp16")?;
    let dtype = match word.text {
        "bf16" => DType::Bf16,
        "fp16" => DType::Fp16,
        other => return Err(StepError::unknown(word.column, "type", other, ["bf16", "fp16"])),
    };
    Ok(Arc::new(MixedPrecision { dtype }))
}

/// Families that autocast leaves in 32 bits: sums that would lose digits, lookups, updates.
fn stays(family: Family) -> bool {
    matches!(
        family,
        Family::Norm | Family::Softmax | Family::Reduction | Family::Embedding | Family::Optimizer | Family::Collective
    )
}

impl Transform for MixedPrecision {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn line(&self) -> String {
        format!("{} {}", SPEC.name, self.dtype.name())
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        let mut lists: Vec<Operands> = Vec::new();
        let mut rows: Vec<(OperatorId, u32)> = Vec::new();
        let mut known: FxHashMap<Operands, u32> = FxHashMap::default();
        for (index, operator) in graph.operators.iter().enumerate() {
            let id = OperatorId(index as u32);
            let family = operator_family(graph.names.get(operator.name));
            let computes = matches!(operator.phase, Phase::Forward | Phase::Backward) && !family.is_none_or(stays);
            let Some(now) = draft.operands(id).filter(|_| computes) else { continue };
            let Some(half) = self.halved(now) else { continue };
            let row = *known.entry(half).or_insert_with_key(|half| {
                lists.push(half.clone());
                lists.len() as u32 - 1
            });
            rows.push((id, row));
        }
        if rows.is_empty() {
            return StepReport::nothing("no 32-bit operator with recorded types to change");
        }
        let summary = format!("{} in {}", count(rows.len(), "operator"), self.dtype.name());
        draft.set_operands(lists, rows);
        let base = draft.base();
        let works = graph.tasks.node_indices().filter(|&node| base.family(node).is_some());
        let mut report = survey(draft, works, summary);
        report
            .unhandled
            .push("casts of weights and inputs are not added: they take a few per cent of what is gained".to_owned());
        report
    }
}

impl MixedPrecision {
    /// The arguments with 32-bit floats halved; `None` when there are none.
    fn halved(self, operands: &Operands) -> Option<Operands> {
        let mut changed = false;
        let mut halve = |operand: &mut Operand| {
            if let Operand::Tensor { dtype: dtype @ Some(DType::Fp32), .. } = operand {
                *dtype = Some(self.dtype);
                changed = true;
            }
        };
        let mut new = operands.clone();
        for operand in &mut new.inputs {
            match operand {
                Operand::TensorList(list) => list.iter_mut().for_each(&mut halve),
                other => halve(other),
            }
        }
        changed.then_some(new)
    }
}
