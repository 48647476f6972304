//! `mixed-precision tf32`: products and convolutions of 32-bit floats on matrix units that round them to 19 bits, as
//! `torch.backends.cuda.matmul.allow_tf32` has it. No type changes, so nothing is cast and memory stays.

use crate::cost::Family;
use crate::cost::operators::{TF32_ARGUMENT, operator_family, rounds_to_tf32};
use crate::device::{DeviceKind, Precision};
use crate::graph::{DType, Operand, Operands, OperatorId};
use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::effect::Effect;
use crate::scenario::transform::{StepReport, Transform};

use super::argument_changes::ArgumentChanges;
use super::conv_units;
use super::report::{count, survey};

/// Rounds in products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tf32;

/// The arguments of a product that rounds; `None` of one that does already, or is not of 32-bit floats.
fn rounded(operands: &Operands) -> Option<Operands> {
    if operands.dtype() != Some(DType::Fp32) || rounds_to_tf32(operands) {
        return None;
    }
    let mut new = operands.clone();
    new.inputs.push(Operand::Value(TF32_ARGUMENT.into()));
    Some(new)
}

impl Transform for Tf32 {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let (base, graph) = (draft.base(), draft.graph());
        let gpus = || draft.devices().iter().filter(|device| device.kind == DeviceKind::Gpu);
        if gpus().next().is_none() {
            return StepReport::nothing("no GPU: only its matrix units round to tf32");
        }
        let without = gpus().find(|device| !device.peak.contains_key(&Precision::Tf32)).map(|device| device.id.clone());
        let mut changes = ArgumentChanges::default();
        for (index, operator) in graph.operators.iter().enumerate() {
            let family = operator_family(graph.names.get(operator.name));
            if matches!(family, Some(Family::Gemm | Family::Conv)) {
                changes.add(draft, (OperatorId(index as u32), 0), rounded);
            }
        }
        if changes.operators().len() == 0 {
            return StepReport::nothing("no product or convolution of 32-bit floats with recorded types");
        }
        let operators = draft.operators_in_step(changes.operators());
        changes.set(draft);
        let works = graph.tasks.node_indices().filter(|&node| base.family(node).is_some());
        let mut report = survey(draft, works, format!("{} round to tf32", count(operators, "product")));
        conv_units::settle(draft, &mut report);
        if let Some(device) = without {
            report.say(Effect::note(format!("{device} has no matrix units for tf32: products gain nothing")));
        }
        report
    }
}
