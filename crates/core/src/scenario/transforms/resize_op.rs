//! `resize-op SELECTOR OLD->NEW`: a dimension of some operators has another size.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::operators::{Reading, operator_work};
use crate::graph::{NodeId, Operand, Operands, OperatorId, TaskKind};
use crate::intern::printable;
use crate::scenario::batch::Carry;
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
        // A task that does the work of several does it for the operators of all.
        let traced = |node: &Node| if let Node::Traced(node) = node { Some(*node) } else { None };
        let own: FxHashSet<NodeId> = chosen.iter().filter_map(traced).collect();
        let merged = draft.merged_members().filter(|(members, _)| members.iter().any(|member| own.contains(member)));
        operators
            .extend(merged.flat_map(|(members, _)| members).filter_map(|&node| draft.graph().tasks[node].operator));
        operators.sort_unstable();
        operators.dedup();
        let mut changes = ArgumentChanges::default();
        let batch = draft.batch().map_or(draft.graph().batch_size, |(first, _)| Some(first));
        let plan = batch.map(|batch| draft.base().batch_plan(batch));
        let rows: FxHashMap<OperatorId, u32> = plan.iter().flat_map(|plan| plan.rows.iter().copied()).collect();
        let (mut keeps_batch, mut unfit) = (false, BTreeSet::new());
        for &id in &operators {
            let row = rows.get(&id).copied();
            let carries = plan.as_ref().zip(row).map_or(&[][..], |(plan, row)| plan.carries(row));
            let way = row.map_or(0, |row| row + 1);
            let name = draft.graph().names.get(draft.graph().operators[id.0 as usize].name);
            let has_work = |operands: &Operands| operator_work(name, operands, Reading::default()).is_some();
            changes.add(draft, (id, way), |operands| {
                let new = self.resized(operands, carries, &mut keeps_batch)?;
                let fits = has_work(&new) || !has_work(operands);
                if !fits {
                    unfit.insert(name);
                }
                Some(new).filter(|_| fits)
            });
        }
        if changes.operators().len() == 0 && !unfit.is_empty() {
            return StepReport::nothing(format!("{} cannot compute with a dimension of {}", list(&unfit), self.new));
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
        let multiples =
            operators.iter().filter(|&&id| changed.binary_search(&id).is_err() && self.has_multiple(draft, id));
        let multiples = draft.operators_in_step(multiples.copied());
        changes.set(draft);
        chosen.retain(|&node| draft.operator_of(node).is_some_and(|id| changed.binary_search(&id).is_ok()));
        let mut report = survey(draft, chosen, summary);
        report.say(Effect::note("operators that are not selected keep their sizes"));
        if !unfit.is_empty() {
            let what = format!("{} cannot compute with a dimension of {}", list(&unfit), self.new);
            report.say(Effect::assumption(format!("{what}: left as it is")));
        }
        if multiples > 0 {
            let (operators, old) = (count(multiples, "operator"), self.old);
            report.say(Effect::note(format!(
                "{operators} with dimensions that are multiples of {old} and may hold it among others stay as they are"
            )));
        }
        if keeps_batch {
            let old = self.old;
            report.say(Effect::note(format!(
                "dimensions of {old} that carry the batch stay: resize-batch changes those"
            )));
        }
        report
    }
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().map(|name| printable(name)).collect::<Vec<_>>().join(", ")
}

impl ResizeOp {
    /// Whether an argument of an operator has a dimension that may be flattened from the resized one and others.
    fn has_multiple(&self, draft: &Draft<'_>, id: OperatorId) -> bool {
        let is_multiple = |dim: &u64| self.old > 1 && *dim > self.old && dim.is_multiple_of(self.old);
        let dims = |operand: &Operand| operand.dims().is_some_and(|dims| dims.iter().any(is_multiple));
        draft.operands(id).is_some_and(|operands| operands.inputs.iter().any(dims))
    }

    /// The arguments with the dimension changed; `None` when none has it. What carries the batch stays, which `keeps` notes.
    fn resized(&self, operands: &Operands, carries: &[Carry], keeps: &mut bool) -> Option<Operands> {
        let (mut new, mut found) = (operands.clone(), false);
        let mut resize = |operand: &mut Operand, of_batch: &dyn Fn(Option<usize>, usize) -> bool| {
            let mut tensor = |operand: &mut Operand, element: Option<usize>| {
                let Operand::Tensor { dims, .. } = operand else { return };
                for (at, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim == self.old) {
                    if of_batch(element, at) {
                        *keeps = true;
                    } else {
                        (*dim, found) = (self.new, true);
                    }
                }
            };
            match operand {
                Operand::TensorList(list) => {
                    list.iter_mut().enumerate().for_each(|(at, operand)| tensor(operand, Some(at)));
                }
                operand => tensor(operand, None),
            }
        };
        for (argument, operand) in new.inputs.iter_mut().enumerate() {
            resize(operand, &|element, dim| carries.iter().any(|carry| carry.is(argument, element, dim)));
        }
        for operand in &mut new.outputs {
            // Results carry the batch where arguments do.
            resize(operand, &|_, dim| carries.iter().any(|carry| carry.is_dimension(dim)));
        }
        found.then_some(new)
    }
}
