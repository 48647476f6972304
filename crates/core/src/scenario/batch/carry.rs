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

    /// Resizes the dimension from a batch of `old` to one of `new`, to the nearest whole number, at least 1 where it was.
    pub(in crate::scenario) fn apply(self, operands: &mut Operands, old: u64, new: u64) {
        let argument = operands.inputs.get_mut(self.argument as usize);
        let tensor = match (argument, self.element) {
            (Some(Operand::TensorList(list)), Some(element)) => list.get_mut(element as usize),
            (other, _) => other,
        };
        let Some(Operand::Tensor { dims, .. }) = tensor else { return };
        let Some(dim) = dims.get_mut(self.dim as usize) else { return };
        let extra = u64::from(self.extra).min(*dim);
        let carried = (*dim - extra) as f64 * new as f64 / old.max(1) as f64;
        *dim = (carried.round() as u64).max(u64::from(*dim > extra)) + extra;
    }
}
