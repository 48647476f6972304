//! `resize-op SELECTOR OLD->NEW`: a dimension of some operators has another size.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::graph::{Operand, Operands, OperandsId, OperatorId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};

use super::argument_changes::ArgumentChanges;
use super::report::{count, survey};

/// Lets every dimension of `old` elements in the arguments of the selected operators have `new`.
#[derive(Clone, Debug, PartialEq)]
struct ResizeOp {
    /// Which operators.
    selector: Selector,
    /// The size now.
    old: u64,
    /// The size then.
    new: u64,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "resize-op",
    help: "gives dimensions of OLD elements in the selected operators' arguments NEW elements",
    example: "resize-op name=aten::addmm 1024->2048",
    forms: &[Form {
        arguments: &[
            Argument::selector(),
            Argument::new("OLD", "OLD->NEW", SIZE),
            Argument::new("NEW", "the new size", SIZE).after("->"),
        ],
        build: |given| Some(Arc::new(ResizeOp { selector: given.get(0)?, old: given.get(1)?, new: given.get(2)? })),
    }],
    knobs: &[],
};

/// Dimensions that can be asked for.
const SIZE: Kind = Kind::Whole(1, 1 << 40);

impl Transform for ResizeOp {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let computes = |node: &Node| matches!(draft.kind_of(*node), TaskKind::Kernel | TaskKind::Compute);
        let mut chosen = self.selector.select_all(draft);
        chosen.retain(computes);
        let mut operators: Vec<OperatorId> = chosen.iter().filter_map(|&node| draft.operator_of(node)).collect();
        operators.sort_unstable();
        operators.dedup();
        let mut changes = ArgumentChanges::default();
        let mut ways: FxHashMap<Option<OperandsId>, u16> = FxHashMap::default();
        for &id in &operators {
            // Equal arguments may have been others before the batch changed.
            let traced = draft.graph().operators[id.0 as usize].operands.filter(|_| draft.batch().is_some());
            let next = ways.len() as u16;
            let way = *ways.entry(traced).or_insert(next);
            changes.add(draft, (id, way), |operands| self.resized(operands, BatchDims::of(draft, traced)));
        }
        if changes.operators().len() == 0 {
            let why = format!("no operator with a dimension of {} matches {}", self.old, self.selector);
            return StepReport::nothing(why);
        }
        if self.old == self.new {
            return StepReport::already("the size is what it was");
        }
        let changed: Vec<OperatorId> = changes.operators().collect();
        let summary = format!(
            "{}: {} → {}",
            count(draft.operators_in_step(changed.iter().copied()), "operator"),
            self.old,
            self.new
        );
        changes.set(draft);
        chosen.retain(|&node| draft.operator_of(node).is_some_and(|id| changed.binary_search(&id).is_ok()));
        let mut report = survey(draft, chosen, summary);
        report.say(Effect::note("operators that are not selected keep their sizes"));
        report
    }
}

impl ResizeOp {
    /// The arguments with the dimension changed; `None` when none has it.
    fn resized(&self, operands: &Operands, batch: Option<BatchDims<'_>>) -> Option<Operands> {
        let mut found = false;
        let mut new = operands.clone();
        let before = batch.map(|batch| batch.traced.inputs.iter().chain(&batch.traced.outputs));
        let mut before = before.into_iter().flatten();
        for operand in new.inputs.iter_mut().chain(&mut new.outputs) {
            self.resize(operand, batch.zip(before.next()), &mut found);
        }
        found.then_some(new)
    }

    fn resize(&self, operand: &mut Operand, batch: Option<(BatchDims<'_>, &Operand)>, found: &mut bool) {
        match operand {
            Operand::Tensor { dims, .. } => {
                let before = batch.and_then(|(batch, traced)| Some((batch, traced.dims()?)));
                for (at, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim == self.old) {
                    let of_batch = before.is_some_and(|(batch, traced)| batch.changed(traced.get(at).copied(), *dim));
                    if !of_batch {
                        *dim = self.new;
                        *found = true;
                    }
                }
            }
            Operand::TensorList(list) => {
                for (at, operand) in list.iter_mut().enumerate() {
                    let before = batch.and_then(|(batch, traced)| match traced {
                        Operand::TensorList(list) => Some((batch, list.get(at)?)),
                        _ => None,
                    });
                    self.resize(operand, before, found);
                }
            }
            Operand::Value(_) => {}
        }
    }
}

/// Tells dimensions that have the size they have because the batch changed: those follow the batch, whatever size that makes them.
#[derive(Clone, Copy)]
struct BatchDims<'d> {
    old: u64,
    new: u64,
    /// The arguments as traced.
    traced: &'d Operands,
}

impl<'d> BatchDims<'d> {
    fn of(draft: &'d Draft<'_>, traced: Option<OperandsId>) -> Option<Self> {
        let (old, new) = draft.batch().filter(|(old, new)| old != new)?;
        Some(Self { old, new, traced: draft.graph().operands.get(traced?.0 as usize)? })
    }

    fn changed(&self, traced: Option<u64>, now: u64) -> bool {
        let follows = |traced: u64| u128::from(traced) * u128::from(self.new) == u128::from(now) * u128::from(self.old);
        traced.is_some_and(|traced| traced != now && follows(traced))
    }
}
