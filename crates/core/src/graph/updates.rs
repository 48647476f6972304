//! Which parameters an optimizer updates, by the lists of tensors that it is given: each parameter stands in them once, however often its
//! gradient was added to.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::intern::NameId;
use crate::units::TimeNs;

use super::{ExecutionGraph, Operand, Operator, Phase, RankPart};

/// How many parameters of each size in bytes.
type Sizes = BTreeMap<u64, usize>;

impl ExecutionGraph {
    /// How many parameters of each size in bytes a rank's optimizers update within a span of time; empty where they are given no lists.
    ///
    /// An update is several operators, each on lists as long: of those that name every size the one that names least is what it
    /// updates.
    ///
    /// # Complexity
    /// O(operators of the rank).
    pub fn updated_sizes(&self, part: &RankPart, within: &Range<TimeNs>) -> BTreeMap<u64, usize> {
        let lanes = self.lanes_of(part.rank);
        let before = |lane: usize| self.operators.partition_point(|operator| (operator.lane.0 as usize) < lane);
        let (first, last) = (before(lanes.start), before(lanes.end));
        let mut all = Sizes::new();
        let mut at = first;
        while at < last {
            let operator = &self.operators[at];
            let end = (operator.subtree_end.0 as usize).clamp(at + 1, last);
            if operator.phase == Phase::Optimizer && within.contains(&operator.start) {
                for (size, count) in self.updated_by(&self.operators[at..end]) {
                    *all.entry(size).or_default() += count;
                }
            }
            at = end;
        }
        all
    }

    /// What one update, of these operators, is of.
    fn updated_by(&self, operators: &[Operator]) -> Sizes {
        let mut lists: BTreeMap<NameId, Sizes> = BTreeMap::new();
        for operator in operators {
            let operands = operator.operands.and_then(|row| self.operands.get(row.0 as usize));
            if let Some(Operand::TensorList(list)) = operands.and_then(|operands| operands.inputs.first()) {
                let sizes = lists.entry(operator.name).or_default();
                // A tensor without dimensions counts steps.
                for tensor in list.iter().filter(|tensor| tensor.dims().is_some_and(|dims| !dims.is_empty())) {
                    *sizes.entry(tensor.bytes().0).or_default() += 1;
                }
            }
        }
        let bytes = |sizes: &Sizes| sizes.iter().map(|(size, count)| u128::from(*size) * *count as u128).sum::<u128>();
        let distinct = lists.values().map(Sizes::len).max().unwrap_or_default();
        lists.into_values().filter(|sizes| sizes.len() == distinct).min_by_key(bytes).unwrap_or_default()
    }
}
