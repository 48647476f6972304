//! The batch size that operators' arguments show: one size, several that are as likely, or none.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::intern::NameTable;
use crate::units::elements;

use super::{Operands, Operator};

/// Operators whose first dimension is the batch.
const BATCHED: [&str; 6] =
    ["aten::linear", "aten::conv2d", "aten::convolution", "aten::embedding", "aten::layer_norm", "aten::batch_norm"];

/// The product of a linear layer, whose input is the second argument: asked where nothing else tells, as gradients are no `addmm`.
const PRODUCT: &str = "aten::addmm";

/// No batch is larger, and none that edits ask for; one has a sample at least.
pub(crate) const MOST: u64 = 1 << 30;

/// What the batch may be, the likeliest first; one where it is told.
///
/// The most frequent first dimension of operators that carry the batch there (the larger of equally frequent ones) is the batch, but
/// where most of those tensors are `[size, smaller, width]` and neither an image nor a list of indices has that size first: then they
/// may be sequences of a batch in the second dimension, as language models of some frameworks have them. Indices that have the
/// smaller size first settle it.
///
/// # Complexity
/// O(operators).
pub(super) fn candidates(operators: &[Operator], operands: &[Operands], names: &NameTable) -> Vec<u64> {
    let known = BATCHED.map(|name| names.find(name));
    let of = |operator: &Operator| operator.operands.and_then(|id| operands.get(id.0 as usize));
    let batched = || operators.iter().filter(|operator| known.contains(&Some(operator.name)));
    let mut counts: FxHashMap<u64, usize> = FxHashMap::default();
    for operands in batched().filter_map(of) {
        if let Some(&size) = operands.dims(0).and_then(<[u64]>::first).filter(|&size| (1..=MOST).contains(size)) {
            *counts.entry(size).or_default() += 1;
        }
    }
    let Some((&first, &count)) = counts.iter().max_by_key(|&(&size, &count)| (count, size)) else {
        let products = operators.iter().filter(|operator| names.find(PRODUCT) == Some(operator.name));
        return of_products(products.filter_map(of));
    };
    let second = batched().filter_map(of).filter_map(|operands| match operands.dims(0)? {
        &[size, second, _] if size == first && second > 1 && second < first => Some(second),
        _ => None,
    });
    let mut seconds: FxHashMap<u64, usize> = FxHashMap::default();
    for size in second {
        *seconds.entry(size).or_default() += 1;
    }
    let Some((&second, &sequences)) = seconds.iter().max_by_key(|&(&size, &count)| (count, size)) else {
        return vec![first];
    };
    // Images and indices have the batch first wherever they are.
    let told = |size: u64| {
        let is_told = |operands: &Operands| {
            let indices = operands.dims(1).is_some_and(|dims| dims.len() == 2 && dims[0] == size);
            operands.dims(0).is_some_and(|dims| dims.len() > 3 && dims[0] == size) || indices
        };
        let embeds = names.find("aten::embedding");
        let tells = |operator: &&Operator| {
            Some(operator.name) == embeds
                || of(operator).is_some_and(|it| it.dims(0).is_some_and(|dims| dims.len() > 3))
        };
        batched().filter(tells).filter_map(of).any(is_told)
    };
    match (2 * sequences > count && !told(first), told(second)) {
        (false, _) => vec![first],
        (true, true) => vec![second],
        (true, false) => vec![first, second],
    }
}

/// An operator on the batch that has weights.
pub(super) struct Layer<'a> {
    /// Dimensions of what it is given beside its weights, a batch first.
    pub(super) given: &'a [u64],
    /// How wide what it gives is: its last dimension, or the channels of images.
    pub(super) width: Option<u64>,
    /// Whether it gives images, whose second dimension is the channels.
    pub(super) has_channels_first: bool,
    /// Whether it is given indices of rows.
    pub(super) looks_up: bool,
}

impl<'a> Layer<'a> {
    /// The layer that an operator is; `None` where it is none or its arguments were not recorded.
    pub(super) fn of(operator: &Operator, operands: &'a [Operands], names: &NameTable) -> Option<Self> {
        let name = names.get(operator.name);
        let weight = weight_place(name)?;
        let operands = operands.get(operator.operands?.0 as usize)?;
        let looks_up = name == "aten::embedding";
        let given = operands.dims(usize::from(looks_up || name == PRODUCT))?;
        let weight = operands.dims(weight);
        let has_channels_first = name.contains("conv") || (name == "aten::batch_norm" && given.len() > 2);
        let width = match name {
            "aten::embedding" | PRODUCT => weight.and_then(<[u64]>::last),
            "aten::layer_norm" => given.last(),
            _ => weight.and_then(<[u64]>::first),
        };
        Some(Self { given, width: width.copied(), has_channels_first, looks_up })
    }

    /// How many rows of its width it gives, where it gives no images.
    pub(super) fn rows(&self) -> u64 {
        let outer = self.given.len() - usize::from(!self.looks_up).min(self.given.len());
        elements(&self.given[..outer])
    }
}

/// The place of the weight among the arguments of an operator on the batch; `None` for other operators.
fn weight_place(name: &str) -> Option<usize> {
    match name {
        "aten::embedding" => Some(0),
        PRODUCT | "aten::layer_norm" => Some(2),
        name => BATCHED.contains(&name).then_some(1),
    }
}

/// Dimensions of the weights that operators on the batch are given, each once.
///
/// # Complexity
/// O(operators · log weights).
pub(super) fn weights<'a>(
    all: impl Iterator<Item = &'a Operator>,
    operands: &'a [Operands],
    names: &NameTable,
) -> BTreeSet<&'a [u64]> {
    let weight = |operator: &Operator| {
        operands.get(operator.operands?.0 as usize)?.dims(weight_place(names.get(operator.name))?)
    };
    all.filter_map(weight).filter(|dims| !dims.is_empty()).collect()
}

/// The batch that linear layers have in common; none where they differ.
fn of_products<'a>(mut products: impl Iterator<Item = &'a Operands>) -> Vec<u64> {
    let size = |operands: &Operands| operands.dims(1).filter(|dims| dims.len() == 2).map(|dims| dims[0]);
    let first = products.next().and_then(size);
    let is_common = products.all(|operands| size(operands) == first);
    first.filter(|size| is_common && (1..=MOST).contains(size)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{DType, LaneId, Operand, OperandsId, OperatorId, Phase};
    use crate::intern::NameId;
    use crate::trace::EventId;
    use crate::units::{DurNs, TimeNs};

    fn found(calls: &[(&str, &[&[u64]])]) -> Vec<u64> {
        let mut names = NameTable::default();
        let tensor = |dims: &&[u64]| Operand::tensor(dims.to_vec(), Some(DType::Fp32));
        let operands: Vec<Operands> = calls
            .iter()
            .map(|(_, tensors)| Operands { inputs: tensors.iter().map(tensor).collect(), outputs: Vec::new() })
            .collect();
        let operators: Vec<Operator> = (0..)
            .zip(calls)
            .map(|(at, (name, _))| Operator {
                name: names.intern(name),
                parent: None,
                subtree_end: OperatorId(at + 1),
                lane: LaneId(0),
                event: EventId(0),
                start: TimeNs(0),
                dur: DurNs(0),
                operands: Some(OperandsId(at)),
                phase: Phase::Forward,
                forward: None,
                module: NameId(0),
                transfer: None,
            })
            .collect();
        candidates(&operators, &operands, &names)
    }

    #[test]
    fn a_batch_in_the_first_or_the_second_dimension_is_offered_where_nothing_tells() {
        let linear: (&str, &[&[u64]]) = ("aten::linear", &[&[2048, 4, 4096], &[4096, 4096]]);
        assert_eq!(found(&[linear, linear]), [2048, 4]);
        assert_eq!(found(&[linear, linear, ("aten::embedding", &[&[32_000, 4096], &[4, 2048]])]), [4]);
        assert_eq!(found(&[linear, linear, ("aten::embedding", &[&[32_000, 4096], &[2048, 4]])]), [2048]);
        assert_eq!(found(&[("aten::linear", &[&[4, 2048, 4096], &[4096, 4096]])]), [4]);
        let patches: (&str, &[&[u64]]) = ("aten::linear", &[&[512, 196, 768], &[768, 768]]);
        assert_eq!(found(&[patches, patches, ("aten::conv2d", &[&[512, 3, 224, 224], &[768, 3, 16, 16]])]), [512]);
        assert_eq!(found(&[]), [0_u64; 0]);
    }

    #[test]
    fn products_tell_the_batch_where_nothing_else_does_and_they_agree() {
        let product = |batch: u64| [vec![10], vec![batch, 64], vec![64, 10]];
        let of = |batches: &[u64], more: &[(&str, &[&[u64]])]| {
            let shapes: Vec<[Vec<u64>; 3]> = batches.iter().map(|&batch| product(batch)).collect();
            let slices: Vec<Vec<&[u64]>> = shapes.iter().map(|all| all.iter().map(Vec::as_slice).collect()).collect();
            let calls = slices.iter().map(|tensors| ("aten::addmm", tensors.as_slice()));
            found(&calls.chain(more.iter().copied()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[512, 512], &[]), [512]);
        assert_eq!(of(&[512, 4], &[]), [0_u64; 0]);
        assert_eq!(of(&[512, 512], &[("aten::conv2d", &[&[8, 3, 32, 32], &[4, 3, 3, 3]])]), [8]);
    }
}
