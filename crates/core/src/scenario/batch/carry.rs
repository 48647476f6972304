//! A dimension that grows with the batch.

use crate::graph::{Operand, Operands};

/// Dimension `dim` of argument `argument` (of element `element` when that is a list of tensors) is `c · batch + extra`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::scenario) struct Carry {
    pub(super) argument: u16,
    pub(super) element: Option<u16>,
    pub(super) dim: u8,
    pub(super) extra: u8,
}

impl Carry {
    pub(super) fn of(argument: usize, dim: usize) -> Self {
        Self { argument: argument as u16, element: None, dim: dim as u8, extra: 0 }
    }

    /// Whether it is dimension `dim` of `argument`, of `element` when that is a list of tensors.
    pub(in crate::scenario) fn is(self, argument: usize, element: Option<usize>, dim: usize) -> bool {
        let place = (usize::from(self.argument), self.element.map(usize::from), usize::from(self.dim));
        place == (argument, element, dim)
    }

    /// Whether it is dimension `dim` of some argument.
    pub(in crate::scenario) fn is_dimension(self, dim: usize) -> bool {
        usize::from(self.dim) == dim
    }

    /// Resizes the dimension from a batch of `old` to one of `new`.
    pub(super) fn apply(self, operands: &mut Operands, old: u64, new: u64) {
        if let Some(dim) = self.dim_mut(operands) {
            *dim = self.resized(*dim, old, new);
        }
    }

    /// As [`apply`](Self::apply), for arguments that steps before changed: a dimension that is still as recorded, or as the batch
    /// of `now` made it, starts from the `recorded` one, so that rounding does not add up.
    pub(super) fn apply_again(self, operands: &mut Operands, recorded: &Operands, [old, now, new]: [u64; 3]) {
        let Some(recorded) = self.dim_of(recorded) else { return };
        if let Some(dim) = self.dim_mut(operands) {
            let is_plain = *dim == self.resized(recorded, old, now);
            *dim = if is_plain { self.resized(recorded, old, new) } else { self.resized(*dim, now, new) };
        }
    }

    /// A dimension of `dim` at a batch of `new` instead of `old`, to the nearest whole number, at least 1 where it was.
    fn resized(self, dim: u64, old: u64, new: u64) -> u64 {
        let extra = u64::from(self.extra).min(dim);
        let carried = (dim - extra) as f64 * new as f64 / old.max(1) as f64;
        (carried.round() as u64).max(u64::from(dim > extra)).saturating_add(extra)
    }

    fn dim_of(self, operands: &Operands) -> Option<u64> {
        let tensor = match (operands.inputs.get(self.argument as usize)?, self.element) {
            (Operand::TensorList(list), Some(element)) => list.get(element as usize)?,
            (other, _) => other,
        };
        tensor.dims()?.get(self.dim as usize).copied()
    }

    fn dim_mut(self, operands: &mut Operands) -> Option<&mut u64> {
        let tensor = match (operands.inputs.get_mut(self.argument as usize)?, self.element) {
            (Operand::TensorList(list), Some(element)) => list.get_mut(element as usize)?,
            (other, _) => other,
        };
        let Operand::Tensor { dims, .. } = tensor else { return None };
        dims.get_mut(self.dim as usize)
    }
}
