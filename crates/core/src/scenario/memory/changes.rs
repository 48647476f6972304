//! How edits changed the arguments of operators around a buffer: their sizes may change further in than their types, which an edit of
//! types gives only to operators with work of their own.

use std::borrow::Cow;

use crate::graph::{DType, Operand, Operands, OperatorId};
use crate::intern::NameId;
use crate::scenario::draft::Draft;

use super::DEPTH;

/// Arguments of an operator as they were recorded and as they are now, by their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Changed {
    name: NameId,
    recorded: u32,
    row: u32,
    /// Whether their types alone count.
    by_type: bool,
}

impl Changed {
    /// The operator's name.
    pub(super) fn name<'d>(&self, draft: &'d Draft<'_>) -> &'d str {
        draft.graph().names.get(self.name)
    }
}

/// What `ratio` makes of changed arguments, recorded and now, of the innermost operator at or around `operator` that has such: where
/// only their sizes changed, times that of the types of the next around it whose types did.
pub(super) fn over_changes(
    draft: &Draft<'_>,
    operator: OperatorId,
    mut ratio: impl FnMut(Changed, [&Operands; 2]) -> Option<f64>,
) -> Option<f64> {
    let operators = &draft.graph().operators;
    let around = |id: &OperatorId| operators.get(id.0 as usize).and_then(|operator| operator.parent);
    let mut by_size = None;
    for id in std::iter::successors(Some(operator), around).take(DEPTH) {
        let (Some(row), Some(old), Some(new)) = (draft.changed_row(id), draft.recorded(id), draft.operands(id)) else {
            continue;
        };
        let Some(recorded) = operators[id.0 as usize].operands.filter(|_| old != new) else { continue };
        let by_type = by_size.is_some();
        let changed = Changed { name: operators[id.0 as usize].name, recorded: recorded.0, row, by_type };
        let is_retyped = types(old).ne(types(new));
        if is_retyped {
            let new = if by_type { Cow::Owned(retyped(old, new)) } else { Cow::Borrowed(new) };
            if let Some(ratio) = ratio(changed, [old, &new]) {
                return Some(by_size.unwrap_or(1.0) * ratio);
            }
        } else if !by_type {
            by_size = ratio(changed, [old, new]);
        }
    }
    by_size
}

/// The types of an operator's arguments and results, those in lists among them.
fn types<'a>(operands: &'a Operands) -> impl Iterator<Item = Option<DType>> + 'a {
    let tensors = |operand: &'a Operand| match operand {
        Operand::TensorList(list) => list.as_slice(),
        operand => std::slice::from_ref(operand),
    };
    operands.inputs.iter().chain(&operands.outputs).flat_map(tensors).map(Operand::dtype)
}

/// `old` in the types of `new`.
fn retyped(old: &Operands, new: &Operands) -> Operands {
    let all = |old: &[Operand], new: &[Operand]| old.iter().zip(new).map(|(old, new)| in_type_of(old, new)).collect();
    Operands { inputs: all(&old.inputs, &new.inputs), outputs: all(&old.outputs, &new.outputs) }
}

fn in_type_of(old: &Operand, new: &Operand) -> Operand {
    match (old, new) {
        (Operand::Tensor { dims, expanded, .. }, Operand::Tensor { dtype, .. }) => {
            Operand::Tensor { dims: dims.clone(), dtype: *dtype, expanded: *expanded }
        }
        (Operand::TensorList(old), Operand::TensorList(new)) => {
            Operand::TensorList(old.iter().zip(new).map(|(old, new)| in_type_of(old, new)).collect())
        }
        _ => old.clone(),
    }
}
