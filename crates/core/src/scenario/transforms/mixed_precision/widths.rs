//! Which operators between products keep their 32 bits under autocast: a result is as wide as the widest of what it is made from. What
//! they are made from was not recorded but for sizes; it is told by the order of kernels, as in a chain of layers.

use std::collections::BTreeMap;

use crate::cost::Family;
use crate::cost::operators::{bare, operator_family};
use crate::graph::{DType, LaneId, Operand, Operands, OperatorId, Phase, TaskKind};
use crate::scenario::draft::Draft;

use super::{is_in_32_bits, stays, takes_any};

/// By operator whether it keeps its 32 bits though by its name it need not.
pub(super) fn kept(draft: &Draft<'_>) -> Vec<bool> {
    let graph = draft.graph();
    // As traced, so that edits before, which move and merge kernels, have no say.
    let mut lanes: BTreeMap<LaneId, Vec<OperatorId>> = BTreeMap::new();
    for task in graph.tasks.node_weights().filter(|task| matches!(task.kind, TaskKind::Kernel | TaskKind::Compute)) {
        if let Some(operator) = task.operator {
            lanes.entry(task.lane).or_default().push(operator);
        }
    }
    let mut widths = Widths { draft, kept: vec![None; draft.graph().operators.len()], wide_sums: 0 };
    // What goes back through an operator is as wide as what it made.
    for phase in [Phase::Forward, Phase::Backward] {
        for operators in lanes.values() {
            widths.follow(operators, phase);
        }
    }
    widths.kept.into_iter().map(|kept| kept == Some(true)).collect()
}

struct Widths<'d, 'b> {
    draft: &'d Draft<'b>,
    kept: Vec<Option<bool>>,
    /// Sums of two activations in the forward pass that keep their width, less those that do not: gradients are summed as most of them.
    wide_sums: i64,
}

impl Widths<'_, '_> {
    /// Decides the operators of a phase by the order of their kernels.
    fn follow(&mut self, operators: &[OperatorId], phase: Phase) {
        // Inputs, and what look-ups, norms, powers and exponentials leave, are wide; so are products that the model computes in 16 bits
        // itself, behind which it casts by itself.
        let (mut is_wide, mut was_wide, mut before) = (true, false, None);
        let graph = self.draft.graph();
        for &id in operators {
            let own = graph.operators[id.0 as usize].phase;
            // A forward pass begins with inputs; old traces have sums of gradients between those of the backward pass as if of it.
            let last = before.replace(own);
            if last != Some(own) {
                is_wide |= own == Phase::Forward && last != Some(Phase::Backward);
                was_wide = false;
            }
            if own != phase {
                continue;
            }
            let name = graph.names.get(graph.operators[id.0 as usize].name);
            let family = operator_family(name);
            let by_name = family.is_none_or(|family| stays(family, phase)) && !takes_any(name) || is_in_32_bits(name);
            match family {
                Some(Family::Gemm | Family::Conv | Family::Attention) => is_wide = !self.is_of_32_bits(id),
                _ if by_name => {
                    is_wide = true;
                    let lasts = matches!(family, Some(Family::Norm | Family::Softmax | Family::Embedding));
                    // The gradient of a loss is wide at first, and narrow behind the first product.
                    was_wide |= phase == Phase::Forward && (lasts || is_in_32_bits(name));
                }
                _ => {
                    let joins = self.is_sum(id) && if phase == Phase::Forward { was_wide } else { self.wide_sums > 0 };
                    let wide = self.forward_of(id).unwrap_or(is_wide || joins);
                    self.set(id, wide);
                    if phase == Phase::Forward && self.is_sum(id) {
                        self.wide_sums += if joins { 1 } else { -i64::from(!wide) };
                    }
                    is_wide = wide;
                }
            }
        }
    }

    /// Whether the operator that a backward one goes back through kept its width, where both are known.
    fn forward_of(&self, id: OperatorId) -> Option<bool> {
        let operators = &self.draft.graph().operators;
        let parent = |id: &OperatorId| operators[id.0 as usize].parent;
        let forward = std::iter::successors(Some(id), parent).find_map(|id| operators[id.0 as usize].forward)?;
        let inside = forward.0 as usize..operators[forward.0 as usize].subtree_end.0 as usize;
        self.kept.get(inside)?.iter().rev().find_map(|kept| *kept)
    }

    fn is_of_32_bits(&self, id: OperatorId) -> bool {
        self.draft.recorded(id).and_then(Operands::dtype).is_none_or(|dtype| dtype.size() > DType::Bf16.size())
    }

    /// Whether it adds two tensors of one size, as a residual connection does.
    fn is_sum(&self, id: OperatorId) -> bool {
        let graph = self.draft.graph();
        let name = bare(graph.names.get(graph.operators[id.0 as usize].name)).trim_end_matches('_');
        let Some(operands) = self.draft.recorded(id).filter(|_| name == "add") else { return false };
        let mut tensors = operands.inputs.iter().filter_map(Operand::dims).filter(|dims| dims.len() > 1);
        tensors.next().zip(tensors.next()).is_some_and(|(one, other)| one == other)
    }

    fn set(&mut self, id: OperatorId, wide: bool) {
        // An operator of several kernels is as wide as its first.
        self.kept[id.0 as usize].get_or_insert(wide);
    }
}
