//! Reading an operator's arguments: sizes, element types, numbers and lists of numbers.

use crate::graph::{DType, Operand, Operands};

pub(super) use crate::units::elements;

/// The arguments of one operator.
#[derive(Clone, Copy)]
pub(super) struct Args<'a> {
    operands: &'a Operands,
    /// Element type of tensors that recorded none.
    unrecorded: DType,
}

/// A sum that stays at the largest number.
pub(super) fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl<'a> Args<'a> {
    #[cfg(test)]
    pub(super) fn new(operands: &'a Operands) -> Self {
        Self { operands, unrecorded: DType::Fp32 }
    }

    /// The arguments, with the element type to take for tensors where none is recorded.
    pub(super) fn with_default(operands: &'a Operands, unrecorded: DType) -> Self {
        Self { operands, unrecorded }
    }

    /// Dimensions of argument `index` when it is a tensor with at least one dimension.
    pub(super) fn tensor(self, index: usize) -> Option<&'a [u64]> {
        self.operands.dims(index).filter(|dims| !dims.is_empty())
    }

    /// Dimensions of argument `index` when it is a tensor: none of a single number.
    pub(super) fn dims(self, index: usize) -> Option<&'a [u64]> {
        self.operands.dims(index)
    }

    /// Element type of argument `index`; the operator's own where that was not recorded.
    pub(super) fn dtype_at(self, index: usize) -> DType {
        self.operands.inputs.get(index).and_then(Operand::dtype).unwrap_or_else(|| self.dtype())
    }

    /// Element type of the first tensor that recorded one.
    pub(super) fn dtype(self) -> DType {
        self.operands.dtype().unwrap_or(self.unrecorded)
    }

    /// Dimensions of the tensors in list argument `index`.
    pub(super) fn list(self, index: usize) -> Option<Vec<&'a [u64]>> {
        match self.operands.inputs.get(index)? {
            Operand::TensorList(list) if !list.is_empty() => list.iter().map(Operand::dims).collect(),
            _ => None,
        }
    }

    /// The text of argument `index` when it is a value that was recorded.
    pub(super) fn value(self, index: usize) -> Option<&'a str> {
        match self.operands.inputs.get(index)? {
            Operand::Value(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The texts of the arguments that are values, the last first: edits append theirs in any order.
    pub(super) fn values_from_last(self) -> impl Iterator<Item = &'a str> {
        (0..self.operands.inputs.len()).rev().filter_map(move |at| self.value(at))
    }

    /// Argument `index` as a whole number from 0.
    pub(super) fn number(self, index: usize) -> Option<u64> {
        self.value(index)?.trim().parse().ok()
    }

    /// Argument `index` as a truth value.
    pub(super) fn truth(self, index: usize) -> Option<bool> {
        match self.value(index)?.trim() {
            "True" | "true" | "1" => Some(true),
            "False" | "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// Argument `index` as a list of whole numbers: `[1, 2]`, or one number.
    pub(super) fn numbers(self, index: usize) -> Option<Vec<i64>> {
        let text = self.value(index)?.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
        text.split(',').filter(|part| !part.trim().is_empty()).map(|part| part.trim().parse().ok()).collect()
    }

    /// Argument `index` as a list of numbers that need not be whole.
    pub(super) fn factors(self, index: usize) -> Option<Vec<f64>> {
        let text = self.value(index)?.trim().strip_prefix('[')?.strip_suffix(']')?;
        text.split(',').map(|part| part.trim().parse().ok()).collect()
    }

    /// How many arguments there are.
    pub(super) fn count(self) -> usize {
        self.operands.inputs.len()
    }

    /// Elements of argument `index` in memory, when it is a tensor with at least one dimension.
    pub(super) fn stored(self, index: usize) -> Option<u64> {
        self.tensor(index)?;
        self.operands.inputs.get(index).map(Operand::stored_elements)
    }

    /// Every tensor among the arguments, those in lists included, with its element type.
    pub(super) fn tensors(self) -> Vec<(&'a [u64], DType)> {
        let mut found = Vec::new();
        collect(&self.operands.inputs, &mut |_, dims, dtype| found.push((dims, dtype.unwrap_or(self.dtype()))));
        found
    }

    /// Bytes of every tensor among the arguments in memory.
    pub(super) fn bytes(self) -> u64 {
        self.bytes_of_first(usize::MAX)
    }

    /// Bytes of the first `count` tensors among the arguments in memory.
    pub(super) fn bytes_of_first(self, count: usize) -> u64 {
        let mut sizes = Vec::new();
        collect(&self.operands.inputs, &mut |tensor, _, dtype| {
            sizes.push(tensor.stored_elements().saturating_mul(dtype.unwrap_or(self.dtype()).size()));
        });
        sum(sizes.into_iter().take(count))
    }

    /// The dimensions that the tensor arguments broadcast to.
    pub(super) fn broadcast(self) -> Option<Vec<u64>> {
        let tensors = self.tensors();
        let rank = tensors.iter().map(|(dims, _)| dims.len()).max()?;
        let mut result = vec![1; rank];
        for (dims, _) in tensors {
            for (out, &dim) in result[rank - dims.len()..].iter_mut().zip(dims) {
                *out = if *out == 1 { dim } else { *out };
            }
        }
        Some(result)
    }

    /// Dimensions of the first recorded result (execution traces only).
    pub(super) fn output(self) -> Option<&'a [u64]> {
        self.operands.outputs.first().and_then(Operand::dims).filter(|dims| !dims.is_empty())
    }
}

fn collect<'a>(operands: &'a [Operand], found: &mut impl FnMut(&'a Operand, &'a [u64], Option<DType>)) {
    for operand in operands {
        match operand {
            Operand::Tensor { dims, dtype, .. } => found(operand, dims, *dtype),
            Operand::TensorList(list) => collect(list, found),
            Operand::Value(_) => {}
        }
    }
}
