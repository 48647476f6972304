//! Which parameters an optimizer updates, by the lists of tensors that it is given: each parameter stands in them once, however often its
//! gradient was added to.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::intern::NameId;
use crate::units::TimeNs;

use super::{ExecutionGraph, Operand, Phase, RankPart};

/// Of which step of the program the step of an optimizer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOfOptimizer {
    /// The chosen one.
    Chosen,
    /// Another one: the chosen step has none.
    Other,
}

/// A step of an optimizer that the trace names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimizer {
    /// As recorded: `Optimizer.step#Adam.step`.
    pub name: String,
    /// How many tensors of each size in bytes it updates; empty where it is given no lists.
    pub sizes: BTreeMap<u64, usize>,
    /// Whether it multiplies in place, as momentum is decayed.
    pub decays: bool,
    /// Of which step of the program it is.
    pub step: StepOfOptimizer,
}

/// Of lists that are given to the operators of one update, by name: the one with the least bytes that has tensors of every size.
pub(super) fn fewest_bytes(lists: BTreeMap<NameId, BTreeMap<u64, usize>>) -> BTreeMap<u64, usize> {
    let bytes = |sizes: &BTreeMap<u64, usize>| -> u128 {
        sizes.iter().map(|(&size, &count)| u128::from(size) * count as u128).sum()
    };
    let distinct = lists.values().map(BTreeMap::len).max().unwrap_or_default();
    lists.into_values().filter(|sizes| sizes.len() == distinct).min_by_key(bytes).unwrap_or_default()
}

impl ExecutionGraph {
    /// How many parameters of each size in bytes a rank's optimizers update within a span of time; empty where they are given no lists.
    ///
    /// An update is several operators, some of them called twice on all parameters: of the names that write in place and whose lists have
    /// tensors of every size, the one with the least bytes. What decays some parameters before is not in place.
    ///
    /// # Complexity
    /// O(operators of the rank).
    pub fn updated_sizes(&self, part: &RankPart, within: &Range<TimeNs>) -> BTreeMap<u64, usize> {
        let lanes = self.lanes_of(part.rank);
        let before = |lane: usize| self.operators.partition_point(|operator| (operator.lane.0 as usize) < lane);
        let (first, last) = (before(lanes.start), before(lanes.end));
        let mut lists: BTreeMap<NameId, BTreeMap<u64, usize>> = BTreeMap::new();
        let updates = self.operators[first..last].iter().filter(|operator| {
            let is_update = operator.phase == Phase::Optimizer && within.contains(&operator.start);
            is_update && self.names.get(operator.name).ends_with('_')
        });
        for operator in updates {
            let operands = operator.operands.and_then(|row| self.operands.get(row.0 as usize));
            if let Some(Operand::TensorList(list)) = operands.and_then(|operands| operands.inputs.first()) {
                let sizes = lists.entry(operator.name).or_default();
                // A tensor without dimensions counts steps.
                for tensor in list.iter().filter(|tensor| tensor.dims().is_some_and(|dims| !dims.is_empty())) {
                    *sizes.entry(tensor.bytes().0).or_default() += 1;
                }
            }
        }
        fewest_bytes(lists)
    }
}
