//! `mixed-precision bf16|fp16`: products and convolutions on tensor cores, activations in half the bytes; `mixed-precision tf32` is
//! [`Tf32`]'s.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::Family;
use crate::cost::operators::{bare, operator_family};
use crate::device::{DeviceKind, DeviceProfile, Precision};
use crate::graph::{DType, NodeId, Operand, Operands, OperatorId, Phase, TaskKind};
use crate::intern::NameId;
use crate::memory::parameters::bias_place;
use crate::scenario::context::Context;
use crate::scenario::draft::{Cast, Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::transform::{StepReport, Transform};

use self::widths::kept;
use super::argument_changes::ArgumentChanges;
use super::cast::Casts;
use super::conv_units;
use super::kernel::Side;
use super::products::{Product, WeightGradient, products, weight_gradients};
use super::report::{count, survey};
use super::tf32::Tf32;

mod widths;

/// Computes in a 16-bit float where autocast would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MixedPrecision {
    /// The 16-bit type.
    dtype: DType,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "mixed-precision",
    help: "runs products, convolutions and element-wise kernels in a 16-bit float, losses, norms and updates stay; tf32: products and convolutions of fp32 round to 19 bits, nothing else changes",
    example: "mixed-precision bf16",
    forms: &[Form {
        arguments: &[Argument::new("TYPE", "bf16, fp16 or tf32", Kind::Choice("type", &["bf16", "fp16", "tf32"]))],
        build: |given| match [DType::Bf16, DType::Fp16].get(given.get::<usize>(0)?) {
            Some(&dtype) => Some(Arc::new(MixedPrecision { dtype })),
            None => Some(Arc::new(Tf32)),
        },
    }],
    knobs: &[],
};

/// Families that autocast leaves in 32 bits: sums that would lose digits, lookups, updates. Autograd's own sums are of
/// gradients as wide as what they are of.
fn stays(family: Family, phase: Phase) -> bool {
    let always =
        matches!(family, Family::Norm | Family::Softmax | Family::Embedding | Family::Optimizer | Family::Collective);
    always || (family == Family::Reduction && phase == Phase::Forward)
}

/// Operators that autocast computes in 32 bits whatever they are given, powers and exponentials among the element-wise ones
/// [`PyTorch` 2.11, automatic mixed precision on CUDA].
const IN_32_BITS: [&str; 14] = [
    "pow",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "reciprocal",
    "rsqrt",
    "softplus",
    "cumsum",
    "cumprod",
    "prod",
    "norm",
];

/// Whether `operator` stays in 32 bits by its name.
fn is_in_32_bits(operator: &str) -> bool {
    IN_32_BITS.contains(&bare(operator).trim_end_matches('_'))
}

/// Whether every product with recorded types computes in 16 bits or fewer. Under autocast those around it are given 32 bits and cast them:
/// what a kernel, or the host, computes counts.
fn is_narrow_already(draft: &Draft<'_>) -> bool {
    let graph = draft.graph();
    let products =
        graph.tasks.node_indices().filter(|&node| matches!(draft.family(node), Some(Family::Gemm | Family::Conv)));
    let dtypes = products.filter_map(|node| draft.operands(graph.tasks[node].operator?)?.dtype());
    let mut is_narrow = dtypes.map(|dtype| dtype.size() <= DType::Bf16.size()).peekable();
    is_narrow.peek().is_some() && is_narrow.all(|narrow| narrow)
}

/// Batch norms take activations of either width, with parameters and statistics in 32 bits.
fn takes_any(operator: &str) -> bool {
    operator.contains("batch_norm")
}

impl Transform for MixedPrecision {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let (base, graph) = (draft.base(), draft.graph());
        if is_narrow_already(draft) {
            return StepReport::nothing(
                "products compute in 16 bits already: what is left in 32 is what autocast leaves",
            );
        }
        let mut changes = ArgumentChanges::default();
        let keeps = kept(draft);
        // What a name tells, asked once for each.
        let mut told: FxHashMap<NameId, (Option<Family>, bool)> = FxHashMap::default();
        for (index, operator) in graph.operators.iter().enumerate() {
            let name = || graph.names.get(operator.name);
            let (family, any) =
                *told.entry(operator.name).or_insert_with(|| (operator_family(name()), takes_any(name())));
            let stays = family.is_none_or(|family| stays(family, operator.phase)) && !any || is_in_32_bits(name());
            let stays = stays || keeps[index];
            if matches!(operator.phase, Phase::Forward | Phase::Backward) && !stays {
                changes.add(draft, (OperatorId(index as u32), u32::from(any)), |now| self.halved(now, any));
            }
        }
        if changes.operators().len() == 0 {
            return StepReport::nothing("no 32-bit operator with recorded types to change");
        }
        let summary =
            format!("{} in {}", count(draft.operators_in_step(changes.operators()), "operator"), self.dtype.name());
        let changed = changes.flags(draft);
        let cast_points = cast_points(draft, &changed);
        changes.set(draft);
        let works = graph.tasks.node_indices().filter(|&node| base.family(node).is_some());
        let mut report = survey(draft, works, summary);
        let products = products(draft, |_, operator| changed[operator.0 as usize]);
        let (casts, missing) = self.cast_weights(draft, &products);
        let activations = self.cast_activations(draft, &cast_points);
        report.changed += casts + activations;
        let casts = count(casts, "cast");
        report.summary =
            format!("{}, {casts} of weights and their gradients, {activations} of activations", report.summary);
        conv_units::settle(draft, &mut report);
        report.effects.extend(self.without_units(draft).map(Effect::note));
        let on_host =
            |node: NodeId| graph.tasks[node].kind == TaskKind::Compute && draft.price(node).provenance.is_modelled();
        if graph.tasks.node_indices().any(on_host) {
            report.say(Effect::assumption(self.on_host()));
        }
        if missing > 0 {
            let text = format!("{}: weight not recorded, no cast added", count(missing, "product"));
            report.say(Effect::assumption(text));
        }
        if activations > 0 {
            let told = "which activations are cast is told by the order of kernels on a stream";
            report.say(Effect::assumption(told));
        }
        report
    }
}

impl MixedPrecision {
    /// What is taken for granted of operators that run on the host.
    fn on_host(self) -> String {
        let name = self.dtype.name();
        format!(
            "the host is taken to compute products in {name} as fast as in fp32 and to gain by fewer bytes alone; a processor without \
             {name} arithmetic takes longer. Casts on the host are not counted"
        )
    }

    /// What a device without matrix units for the type does instead.
    fn without_units(self, draft: &Draft<'_>) -> Option<String> {
        let (own, other) = match self.dtype {
            DType::Bf16 => (Precision::Bf16Tensor, Precision::Fp16Tensor),
            _ => (Precision::Fp16Tensor, Precision::Bf16Tensor),
        };
        let lacks = |device: &&Arc<DeviceProfile>| device.kind == DeviceKind::Gpu && !device.peak.contains_key(&own);
        let device = draft.devices().iter().find(lacks)?;
        let (id, name) = (&device.id, self.dtype.name());
        if device.peak_rate(own).0 > device.product_rate(Precision::Fp32).0 {
            return Some(format!("{id} has no matrix units for {name}: products compute on vector units"));
        }
        let has = device.peak.contains_key(&other);
        let instead =
            if has { format!("; it has some for {}", other.key().replace("_tensor", "")) } else { String::new() };
        Some(format!("{id} has no matrix units for {name}: products gain nothing but by their bytes{instead}"))
    }
}

/// Where an activation goes from an operator of one width to one of the other.
#[derive(Clone, Copy, Debug)]
struct CastPoint {
    /// The first kernel after it.
    kernel: Node,
    operator: OperatorId,
    /// The activation among that operator's arguments.
    argument: u16,
    narrows: bool,
}

/// The cast points on every stream: what follows is taken to use what comes before, as it does in a chain of layers.
fn cast_points(draft: &Draft<'_>, changed: &[bool]) -> Vec<CastPoint> {
    let read: Vec<Option<u16>> = (0..changed.len() as u32).map(|id| activation(draft, OperatorId(id))).collect();
    // Of look-ups the first tensor is a table.
    let activation = |node: Node| {
        let found = draft.operator_of(node).and_then(|id| Some((id, read[id.0 as usize]?)));
        found.filter(|_| draft.family_of(node) != Some(Family::Embedding))
    };
    let computes = |node: Node| {
        draft.kind_of(node) == TaskKind::Kernel
            && matches!(draft.phase_of(node), Some(Phase::Forward | Phase::Backward))
            && activation(node).is_some()
    };
    let mut cast_points = Vec::new();
    for nodes in draft.in_order(computes).values() {
        for pair in nodes.windows(2) {
            let narrow = |node: Node| draft.operator_of(node).is_some_and(|id| changed[id.0 as usize]);
            let (kernel, narrows) = (pair[1], narrow(pair[1]));
            let is_same_phase = draft.phase_of(pair[0]) == draft.phase_of(kernel);
            let is_cast_point = narrows != narrow(pair[0]) && is_same_phase;
            if let Some((operator, argument)) = activation(kernel).filter(|_| is_cast_point) {
                cast_points.push(CastPoint { kernel, operator, argument, narrows });
            }
        }
    }
    cast_points
}

/// The place of the first tensor of 32-bit floats that an operator reads.
fn activation(draft: &Draft<'_>, operator: OperatorId) -> Option<u16> {
    let is_float =
        |operand: &Operand| matches!(operand, Operand::Tensor { dims, dtype: Some(DType::Fp32), .. } if dims.len() > 1);
    draft.operands(operator)?.inputs.iter().position(is_float).map(|place| place as u16)
}

/// The place of the bias among the arguments of a forward product, where it is given one.
fn bias(draft: &Draft<'_>, operator: OperatorId) -> Option<u16> {
    let graph = draft.graph();
    let place = bias_place(bare(graph.names.get(graph.operators[operator.0 as usize].name)))?;
    draft.operands(operator)?.dims(place).filter(|dims| dims.len() == 1).map(|_| place as u16)
}

impl MixedPrecision {
    /// Before every forward product its weight and its bias become 16 bits wide; after the backward one that computes the weight's gradient
    /// both their gradients are 32 bits wide again. Gradients of activations stay in 16.
    /// How many casts that are, and for how many products the weight is not known.
    fn cast_weights(self, draft: &mut Draft<'_>, products: &[Product]) -> (usize, usize) {
        let (mut casts, mut missing) = (0, 0);
        let mut narrowing = Casts::named(draft, &format!("cast weight to {}", self.dtype.name()));
        let mut widening = Casts::named(draft, "cast gradient to fp32");
        draft.reserve(2 * products.len(), 6 * products.len());
        for product in products.iter().filter(|product| product.is_forward) {
            let Some(argument) = product.weight else {
                missing += 1;
                continue;
            };
            for argument in std::iter::once(argument).chain(bias(draft, product.operator)) {
                let cast = self.cast(product.operator, argument, true);
                let is_added = narrowing.add(draft, (product.kernel, Side::Before), cast);
                casts += usize::from(is_added && draft.is_in_step(product.kernel));
            }
        }
        for WeightGradient { kernel, weight: (operator, argument) } in weight_gradients(draft, products) {
            for argument in std::iter::once(argument).chain(bias(draft, operator)) {
                let cast = self.cast(operator, argument, false);
                let is_added = widening.add(draft, (kernel, Side::After), cast);
                casts += usize::from(is_added && draft.is_in_step(kernel));
            }
        }
        (casts, missing)
    }

    /// An argument copied to the narrow type, or back.
    fn cast(self, operator: OperatorId, argument: u16, narrows: bool) -> Cast {
        let (from, to) = if narrows { (DType::Fp32, self.dtype) } else { (self.dtype, DType::Fp32) };
        Cast { operator, argument, from, to }
    }

    /// Casts the activations at cast points; at how many there was anything to cast.
    fn cast_activations(self, draft: &mut Draft<'_>, cast_points: &[CastPoint]) -> usize {
        let mut narrowing = Casts::named(draft, &format!("cast activation to {}", self.dtype.name()));
        let mut widening = Casts::named(draft, "cast activation to fp32");
        draft.reserve(2 * cast_points.len(), 6 * cast_points.len());
        let mut cast = |cast_point: &CastPoint| {
            let of = if cast_point.narrows { &mut narrowing } else { &mut widening };
            let cast = self.cast(cast_point.operator, cast_point.argument, cast_point.narrows);
            of.add(draft, (cast_point.kernel, Side::Before), cast) && draft.is_in_step(cast_point.kernel)
        };
        cast_points.iter().filter(|cast_point| cast(cast_point)).count()
    }

    /// The arguments with 32-bit floats halved; `None` when there are none.
    ///
    /// # Arguments
    /// `activations`: leaves vectors, which are parameters and statistics.
    fn halved(self, operands: &Operands, activations: bool) -> Option<Operands> {
        let mut changed = false;
        let mut halve = |operand: &mut Operand| {
            if let Operand::Tensor { dtype: dtype @ Some(DType::Fp32), dims, .. } = operand
                && !(activations && dims.len() < 2)
            {
                *dtype = Some(self.dtype);
                changed = true;
            }
        };
        let mut new = operands.clone();
        for operand in &mut new.inputs {
            match operand {
                Operand::TensorList(list) => list.iter_mut().for_each(&mut halve),
                other => halve(other),
            }
        }
        changed.then_some(new)
    }
}
