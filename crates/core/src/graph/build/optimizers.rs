//! The steps of optimizers that a trace names: those of the modelled iteration, else the last that it has.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::updates::{Optimizer, fewest_bytes};
use crate::graph::{Operand, StepOfOptimizer};
use crate::intern::NameId;
use crate::trace::steps::{one_by_one, updates};
use crate::trace::{Category, EventId, Trace};
use crate::units::TimeNs;

use super::operands;

/// The steps of optimizers that begin `within` the iteration, else those of the last step of the program that has any.
///
/// # Complexity
/// O(events of those steps).
pub(super) fn find(trace: &Trace, within: &Range<TimeNs>) -> Vec<Optimizer> {
    let all = updates(trace);
    let begin = |id: EventId| trace.events.start(id);
    let of = |span: &Range<TimeNs>| -> Vec<EventId> {
        all.iter().copied().filter(|&id| span.contains(&begin(id))).collect()
    };
    let own = of(within);
    let Some(&last) = all.last().filter(|_| own.is_empty()) else {
        return own.into_iter().map(|id| optimizer(trace, id, StepOfOptimizer::Chosen)).collect();
    };
    let (steps, _) = one_by_one(trace);
    let around = steps.iter().map(|step| step.start..step.end).find(|step| step.contains(&begin(last)));
    let of_step = of(&around.unwrap_or(begin(last)..trace.events.end(last)));
    of_step.into_iter().map(|id| optimizer(trace, id, StepOfOptimizer::Other)).collect()
}

/// What ran in one step of an optimizer: operators that write in place, with the lists that they were given.
fn optimizer(trace: &Trace, id: EventId, step: StepOfOptimizer) -> Optimizer {
    let events = &trace.events;
    let mut lists: BTreeMap<NameId, BTreeMap<u64, usize>> = BTreeMap::new();
    let mut decays = false;
    let is_own = |other: &EventId| {
        events.track(*other) == events.track(id) && events.category(*other) == Category::Operator && *other != id
    };
    for own in events.within(events.start(id)..events.end(id)).filter(is_own) {
        let name = trace.names.get(events.name(own));
        if !name.ends_with('_') {
            continue;
        }
        // Momentum is decayed before the gradient is added to it.
        decays |= matches!(name.trim_start_matches("aten::"), "mul_" | "_foreach_mul_" | "_fused_sgd_");
        let args = trace.operators.get(own).and_then(|args| trace.tensor_args.get(args.tensors?.index()));
        let Some(args) = args else { continue };
        let text = |name| trace.names.get(name);
        let operands = operands::parse([args.dims, args.types, args.concrete, args.strides].map(text));
        if let Some(Operand::TensorList(list)) = operands.inputs.first() {
            let sizes = lists.entry(events.name(own)).or_default();
            for tensor in list.iter().filter(|tensor| tensor.dims().is_some_and(|dims| !dims.is_empty())) {
                *sizes.entry(tensor.bytes().0).or_default() += 1;
            }
        }
    }
    Optimizer { name: trace.names.get(events.name(id)).to_owned(), sizes: fewest_bytes(lists), decays, step }
}
