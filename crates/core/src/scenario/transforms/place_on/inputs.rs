//! What a step is given: arguments of operators that lie in the host's memory when it begins.
//!
//! A trace of a host shows no copy of them, since there is nowhere to copy them to; an execution trace of a GPU shows each. Told by role: what the first operator on the batch
//! reads, the indices and offsets of look-ups, the targets of losses. Each is counted where it is first read.

use crate::cost::Family;
use crate::cost::operators::{bare, operator_family};
use crate::graph::{DType, Operand, OperatorId, Phase, RankPart};
use crate::scenario::batch::BatchPlan;
use crate::scenario::draft::Draft;
use crate::units::Bytes;

/// An argument of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) operator: OperatorId,
    pub(super) argument: u16,
}

/// The inputs of all steps, in order; none where the batch size is not known, or the trace tells itself what is copied.
///
/// # Complexity
/// O(operators · arguments).
pub(super) fn of_steps(draft: &Draft<'_>) -> Vec<Input> {
    let Some(batch) = draft.graph().batch_size else { return Vec::new() };
    let plan = draft.base().batch_plan(batch);
    let mut walk = Walk { draft, plan: &plan, found: Vec::new() };
    for part in draft.graph().ranks.iter().filter(|part| !part.tells_transfers) {
        walk.rank(part);
    }
    walk.found
}

struct Walk<'a, 'b> {
    draft: &'a Draft<'b>,
    plan: &'a BatchPlan,
    found: Vec<Input>,
}

impl Walk<'_, '_> {
    fn rank(&mut self, part: &RankPart) {
        let graph = self.draft.graph();
        // Whether nothing of the present step was read yet, and where the operators end that lie within one that was looked at.
        let (mut is_first, mut until) = (true, 0);
        let mut is_before = true;
        for &(id, row) in &self.plan.rows {
            let operator = &graph.operators[id.0 as usize];
            if graph.lanes[operator.lane.0 as usize].rank != part.rank || id.0 < until {
                continue;
            }
            let begins = is_before && operator.start >= part.iteration_start;
            is_before &= !begins;
            if operator.phase != Phase::Forward && operator.phase != Phase::Other {
                is_first = true;
                continue;
            }
            is_first |= begins;
            until = operator.subtree_end.0;
            let arguments = self.arguments(id, self.plan.arguments(row), is_first);
            is_first = false;
            self.found.extend(arguments.into_iter().map(|argument| Input { operator: id, argument }));
        }
    }

    /// Those of the arguments that carry the batch which the step is given.
    fn arguments(&self, id: OperatorId, carried: Vec<u16>, is_first: bool) -> Vec<u16> {
        let graph = self.draft.graph();
        let full = graph.names.get(graph.operators[id.0 as usize].name);
        let is_index = |&argument: &u16| {
            let operand = self.draft.operands(id).and_then(|operands| operands.inputs.get(usize::from(argument)));
            matches!(operand, Some(Operand::Tensor { dtype: Some(DType::Int64 | DType::Int32), .. }))
        };
        if operator_family(full) == Some(Family::Embedding) {
            return carried.into_iter().filter(is_index).collect();
        }
        if is_loss(bare(full)) {
            return carried.into_iter().filter(|&argument| argument == TARGET).collect();
        }
        let bytes = |argument: u16| {
            let operands = self.draft.operands(id);
            operands.and_then(|operands| operands.inputs.get(usize::from(argument))).map_or(Bytes(0), Operand::bytes)
        };
        // A bias may be as long as the batch.
        let largest = carried.into_iter().rev().max_by_key(|&argument| bytes(argument));
        largest.filter(|_| is_first).into_iter().collect()
    }
}

/// Which argument of a loss is what the model should have said.
const TARGET: u16 = 1;

fn is_loss(name: &str) -> bool {
    name.contains("loss") || name.starts_with("binary_cross_entropy")
}
