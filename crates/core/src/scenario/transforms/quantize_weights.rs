//! `quantize-weights int8|int4 [SELECTOR]`: products read weights of 8 or 4 bits and compute as before.

use std::sync::Arc;

use crate::cost::Family;
use crate::graph::{DType, Operand, Operands, OperatorId, Phase};
use crate::scenario::context::Context;
use crate::scenario::draft::{AddedId, Draft, Node, Source};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::memory::{is_vocabulary, vocabularies};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};

use super::argument_changes::ArgumentChanges;
use super::products::{Product, products};
use super::remove::host_of;
use super::report::{Kept, count, survey};

/// Stores weights of the selected products in few bits; their kernels widen them as they load them.
#[derive(Clone, Debug, PartialEq)]
struct QuantizeWeights {
    /// The type that weights are stored in.
    dtype: DType,
    /// Which products; all where left out.
    selector: Option<Selector>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "quantize-weights",
    help: "stores weights of matrix products as int8 or int4, widened as they are loaded: inference only",
    example: "quantize-weights int8",
    forms: &[Form {
        arguments: &[
            Argument::new("TYPE", "int8 or int4", Kind::Choice("type", &["int8", "int4"])),
            Argument::selector().optional(),
        ],
        build: |given| {
            let dtype = *[DType::Int8, DType::Int4].get(given.get::<usize>(0)?)?;
            Some(Arc::new(QuantizeWeights { dtype, selector: given.get(1)? }))
        },
    }],
    knobs: &[],
};

impl Transform for QuantizeWeights {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let products = self.products(draft);
        let mut changes = ArgumentChanges::default();
        for product in &products {
            if let Some(place) = product.weight {
                changes.add(draft, (product.operator, place.into()), |now| self.quantized(now, place));
            }
        }
        if changes.operators().len() == 0 {
            return StepReport::nothing("no forward product whose weight is recorded and wider matches");
        }
        let changed = changes.flags(draft);
        let is_changed = |id: OperatorId| changed[id.0 as usize];
        let trains = draft.graph().operators.iter().any(|operator| operator.phase == Phase::Backward);
        let shared = if trains { 0 } else { shared(draft, products.iter().filter(|it| is_changed(it.operator))) };
        let summary = format!("weights of {} in {}", count(changes.operators().len(), "product"), self.dtype.name());
        changes.set(draft);
        take_out_casts(draft);
        let kernels = products.iter().filter(|product| is_changed(product.operator)).map(|product| product.kernel);
        let mut report = survey(draft, kernels, summary);
        list_kept(draft, products.iter().filter(|product| !is_changed(product.operator)), &mut report);
        report.say(Effect::assumption("scales and zero points of the weights are not counted"));
        if shared > 0 {
            let weights = count(shared, "weight");
            report.say(Effect::note(format!("{weights} shared with an embedding: held in both types")));
        }
        if trains {
            let why = "the backward pass and the update need the wide weights: their kernels and memory stay";
            report.say(Effect::assumption(why));
        }
        report
    }
}

impl QuantizeWeights {
    /// The forward products that are meant.
    fn products(&self, draft: &Draft<'_>) -> Vec<Product> {
        let mut chosen = self.selector.as_ref().map(|selector| selector.select_all(draft));
        if let Some(chosen) = &mut chosen {
            chosen.sort_unstable();
        }
        let is_chosen = |node: Node| chosen.as_ref().is_none_or(|chosen| chosen.binary_search(&node).is_ok());
        products(draft, |node, operator| {
            let is_forward = draft.graph().operators[operator.0 as usize].phase == Phase::Forward;
            is_forward && draft.family_of(node) == Some(Family::Gemm) && is_chosen(node)
        })
    }

    /// The arguments with the weight at `place` in few bits; `None` where it is not wider, or its type was not recorded.
    fn quantized(&self, operands: &Operands, place: u16) -> Option<Operands> {
        let mut new = operands.clone();
        let Some(Operand::Tensor { dtype: Some(dtype), .. }) = new.inputs.get_mut(usize::from(place)) else {
            return None;
        };
        if dtype.bits() <= self.dtype.bits() {
            return None;
        }
        *dtype = self.dtype;
        Some(new)
    }
}

/// How many weights of products an embedding reads, too: those stay wide besides.
fn shared<'p>(draft: &Draft<'_>, products: impl Iterator<Item = &'p Product>) -> usize {
    let tables = vocabularies(draft);
    let is_shared = |product: &&Product| {
        let within = matches!(product.kernel, Node::Traced(node) if draft.base().iteration_tasks()[node.index()]);
        let weight = draft.operands(product.operator).zip(product.weight);
        within && weight.is_some_and(|(operands, place)| is_vocabulary(operands.dims(usize::from(place)), &tables))
    };
    products.filter(is_shared).count()
}

/// Takes out the casts of weights that products now widen as they load them, with their calls.
fn take_out_casts(draft: &mut Draft<'_>) {
    let is_left = |node: &Node| match node {
        Node::Added(AddedId(id)) => {
            matches!(draft.added()[*id as usize].source, Source::Cast(cast) if cast.elements(draft).is_none())
        }
        Node::Traced(_) => false,
    };
    let gone: Vec<Node> = draft.added_nodes().filter(is_left).collect();
    for &node in &gone {
        draft.take_out(node);
    }
    // Only of what is gone already the host has no more to do.
    for node in host_of(draft, &gone) {
        draft.take_out(node);
    }
}

/// Lists the products that keep their time.
fn list_kept<'p>(draft: &Draft<'_>, kept: impl Iterator<Item = &'p Product>, report: &mut StepReport) {
    let mut found = Kept::default();
    for product in kept {
        found.add(draft, product.kernel, draft.price_of(product.kernel).duration);
    }
    found.list(report, "weight not recorded, or no wider: time kept");
}
