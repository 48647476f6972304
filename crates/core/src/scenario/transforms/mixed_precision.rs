//! `mixed-precision bf16|fp16`: products and convolutions on tensor cores, activations in half the bytes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::operators::{bare, operator_family};
use crate::cost::{Family, Prediction, Shape, Work};
use crate::device::{DeviceKind, DeviceProfile, Precision};
use crate::graph::{DType, NodeId, Operand, Operands, OperatorId, Phase, TaskKind};
use crate::intern::NameId;
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, Source};
use crate::scenario::step::StepError;
use crate::scenario::text::Words;
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::{Bytes, Flop};

use super::kernel::{self, NewKernel, Side};
use super::report::{count, survey};

/// Computes in a 16-bit float where autocast would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedPrecision {
    /// The 16-bit type.
    pub dtype: DType,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "mixed-precision",
    usage: "mixed-precision bf16|fp16",
    help: "runs products, convolutions and element-wise kernels in a 16-bit float; losses, norms and updates stay",
    example: "mixed-precision bf16",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let word = words.expect("bf16 or fp16")?;
    let dtype = match word.text {
        "bf16" => DType::Bf16,
        "fp16" => DType::Fp16,
        other => return Err(StepError::unknown(word.column, "type", other, ["bf16", "fp16"])),
    };
    Ok(Arc::new(MixedPrecision { dtype }))
}

/// Families that autocast leaves in 32 bits: sums that would lose digits, lookups, updates. Autograd's own sums are of
/// gradients as wide as what they are of.
fn stays(family: Family, phase: Phase) -> bool {
    let always =
        matches!(family, Family::Norm | Family::Softmax | Family::Embedding | Family::Optimizer | Family::Collective);
    always || (family == Family::Reduction && phase == Phase::Forward)
}

/// Batch norms take activations of either width, with parameters and statistics in 32 bits.
fn takes_any(operator: &str) -> bool {
    operator.contains("batch_norm")
}

impl Transform for MixedPrecision {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn line(&self) -> String {
        format!("{} {}", SPEC.name, self.dtype.name())
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let (base, graph) = (draft.base(), draft.graph());
        let mut lists: Vec<Operands> = Vec::new();
        let mut rows: Vec<(OperatorId, u32)> = Vec::new();
        let mut known: FxHashMap<Operands, u32> = FxHashMap::default();
        let mut halved: FxHashMap<(Option<u32>, bool), Option<u32>> = FxHashMap::default();
        // What a name tells, asked once for each.
        let mut told: FxHashMap<NameId, (Option<Family>, bool)> = FxHashMap::default();
        for (index, operator) in graph.operators.iter().enumerate() {
            let id = OperatorId(index as u32);
            let name = || graph.names.get(operator.name);
            let (family, any) =
                *told.entry(operator.name).or_insert_with(|| (operator_family(name()), takes_any(name())));
            let stays = family.is_none_or(|family| stays(family, operator.phase)) && !any;
            let computes = matches!(operator.phase, Phase::Forward | Phase::Backward) && !stays;
            let Some(now) = draft.operands(id).filter(|_| computes) else { continue };
            let row = *halved.entry((draft.arguments(id), any)).or_insert_with(|| {
                let half = self.halved(now, any)?;
                Some(*known.entry(half).or_insert_with_key(|half| {
                    lists.push(half.clone());
                    lists.len() as u32 - 1
                }))
            });
            let Some(row) = row else { continue };
            rows.push((id, row));
        }
        if rows.is_empty() {
            return StepReport::nothing("no 32-bit operator with recorded types to change");
        }
        let summary = format!("{} in {}", count(rows.len(), "operator"), self.dtype.name());
        let mut changed = vec![false; graph.operators.len()];
        for (id, _) in &rows {
            changed[id.0 as usize] = true;
        }
        let (products, borders) = (products(draft, &changed), borders(draft, &changed));
        draft.set_operands(lists, rows);
        let works = graph.tasks.node_indices().filter(|&node| base.family(node).is_some());
        let mut report = survey(draft, works, summary);
        let (casts, missing) = self.cast_weights(draft, &products);
        let activations = self.cast_activations(draft, &borders);
        report.changed += casts + activations;
        let casts = count(casts, "cast");
        report.summary =
            format!("{}, {casts} of weights and their gradients, {activations} of activations", report.summary);
        report.unhandled.extend(self.without_units(draft));
        if missing > 0 {
            report.unhandled.push(format!("{}: weight not recorded, no cast added", count(missing, "product")));
        }
        if activations > 0 {
            report.unhandled.push("which activations are cast is told by the order of kernels on a stream".to_owned());
        }
        report
    }
}

impl MixedPrecision {
    /// What a device without matrix units for the type does instead.
    fn without_units(self, draft: &Draft<'_>) -> Option<String> {
        let (own, other) = match self.dtype {
            DType::Bf16 => (Precision::Bf16Tensor, Precision::Fp16Tensor),
            _ => (Precision::Fp16Tensor, Precision::Bf16Tensor),
        };
        let lacks = |device: &&Arc<DeviceProfile>| device.kind == DeviceKind::Gpu && !device.peak.contains_key(&own);
        let device = draft.devices().iter().find(lacks)?;
        let has = device.peak.contains_key(&other);
        let instead =
            if has { format!("; it has some for {}", other.key().replace("_tensor", "")) } else { String::new() };
        Some(format!("{} has no matrix units for {}: products gain nothing{instead}", device.id, self.dtype.name()))
    }
}

/// A product or convolution with a weight: its first kernel, and the weight's elements where they are recorded.
#[derive(Clone, Copy, Debug)]
struct Product {
    kernel: NodeId,
    weight: Option<u64>,
    is_forward: bool,
}

/// The products among operators that change, each by its first kernel.
///
/// # Arguments
/// `changed`: by operator whether it does.
fn products(draft: &Draft<'_>, changed: &[bool]) -> Vec<Product> {
    let graph = draft.graph();
    let mut seen = vec![false; graph.operators.len()];
    let mut products = Vec::new();
    for kernel in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel) {
        let product = matches!(draft.family(kernel), Some(Family::Gemm | Family::Conv)) && !draft.is_removed(kernel);
        let Some(id) = graph.tasks[kernel].operator.filter(|id| product && changed[id.0 as usize]) else { continue };
        if !std::mem::replace(&mut seen[id.0 as usize], true) {
            let operator = &graph.operators[id.0 as usize];
            let weight = draft.operands(id).and_then(|operands| weight(graph.names.get(operator.name), operands));
            products.push(Product { kernel, weight, is_forward: operator.phase == Phase::Forward });
        }
    }
    products
}

/// Where an activation goes from an operator of one width to one of the other.
#[derive(Clone, Copy, Debug)]
struct Border {
    /// The first kernel after it.
    kernel: Node,
    elements: u64,
    narrows: bool,
}

/// The borders on every stream: what follows is taken to use what comes before, as it does in a chain of layers.
fn borders(draft: &Draft<'_>, changed: &[bool]) -> Vec<Border> {
    let read: Vec<Option<u64>> = (0..changed.len() as u32).map(|id| activation(draft, OperatorId(id))).collect();
    // Of look-ups the first tensor is a table.
    let activation = |node: Node| {
        let elements = draft.operator_of(node).and_then(|id| read[id.0 as usize]);
        elements.filter(|_| draft.family_of(node) != Some(Family::Embedding))
    };
    let computes = |node: Node| {
        draft.kind_of(node) == TaskKind::Kernel
            && matches!(draft.phase_of(node), Some(Phase::Forward | Phase::Backward))
            && activation(node).is_some()
    };
    let mut borders = Vec::new();
    for nodes in draft.in_order(computes).values() {
        for pair in nodes.windows(2) {
            let narrow = |node: Node| draft.operator_of(node).is_some_and(|id| changed[id.0 as usize]);
            let (kernel, narrows) = (pair[1], narrow(pair[1]));
            let is_same_phase = draft.phase_of(pair[0]) == draft.phase_of(kernel);
            if let Some(elements) = activation(kernel).filter(|_| narrows != narrow(pair[0]) && is_same_phase) {
                borders.push(Border { kernel, elements, narrows });
            }
        }
    }
    borders
}

/// Elements of the first tensor of 32-bit floats that an operator reads.
fn activation(draft: &Draft<'_>, operator: OperatorId) -> Option<u64> {
    let floats = |operand: &Operand| match operand {
        Operand::Tensor { dims, dtype: Some(DType::Fp32), .. } if dims.len() > 1 => Some(dims.iter().product()),
        _ => None,
    };
    draft.operands(operator)?.inputs.iter().find_map(floats)
}

/// Elements of the weight of a product; 0 for a product of two activations.
fn weight(operator: &str, operands: &Operands) -> Option<u64> {
    let bare = bare(operator);
    let at = match bare {
        _ if bare.contains("bmm") || bare.contains("matmul") => return Some(0),
        "addmm" | "baddbmm" => 2,
        _ => 1,
    };
    operands.dims(at).filter(|dims| dims.len() > 1).map(|dims| dims.iter().product())
}

impl MixedPrecision {
    /// Before every forward product its weight becomes 16 bits wide; after every backward one the gradient 32 again.
    /// How many casts that are, and for how many products the weight is not known.
    fn cast_weights(self, draft: &mut Draft<'_>, products: &[Product]) -> (usize, usize) {
        let (mut casts, mut missing, within) = (0, 0, draft.base().iteration_tasks());
        let mut narrowing = Casts::to(&format!("cast weight to {}", self.dtype.name()));
        let mut widening = Casts::to("cast gradient to fp32");
        draft.reserve(2 * products.len(), 6 * products.len());
        for product in products {
            let Some(elements) = product.weight else {
                missing += 1;
                continue;
            };
            let node = Node::Traced(product.kernel);
            if product.is_forward && within[product.kernel.index()] {
                // Autocast keeps the narrow weight until the end of the step.
                draft.hold(draft.rank_of(draft.lane_of(node)), Bytes(2 * elements));
            }
            let (of, side) =
                if product.is_forward { (&mut narrowing, Side::Before) } else { (&mut widening, Side::After) };
            casts += usize::from(of.cast(draft, (node, side), elements, product.is_forward));
        }
        (casts, missing)
    }

    /// Casts the activations at borders; at how many there was anything to cast.
    fn cast_activations(self, draft: &mut Draft<'_>, borders: &[Border]) -> usize {
        let mut narrowing = Casts::to(&format!("cast activation to {}", self.dtype.name()));
        let mut widening = Casts::to("cast activation to fp32");
        draft.reserve(2 * borders.len(), 6 * borders.len());
        let mut cast = |border: &Border| {
            let of = if border.narrows { &mut narrowing } else { &mut widening };
            of.cast(draft, (border.kernel, Side::Before), border.elements, border.narrows)
        };
        borders.iter().filter(|border| cast(border)).count()
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

/// Casts of one name, with what is known of those of each size.
struct Casts {
    name: Arc<str>,
    caller: Arc<str>,
    /// By elements and rank.
    known: FxHashMap<(u64, usize), (Arc<Work>, Option<Prediction>)>,
}

impl Casts {
    fn to(name: &str) -> Self {
        Self { name: name.into(), caller: "aten::_to_copy".into(), known: FxHashMap::default() }
    }

    /// Adds a kernel that copies elements to the other width, beside a kernel that is there; `false` where nothing is to copy.
    fn cast(&mut self, draft: &mut Draft<'_>, (at, side): (Node, Side), elements: u64, narrows: bool) -> bool {
        let rank = draft.rank_of(draft.lane_of(at));
        let (work, price) = self.known.entry((elements, rank)).or_insert_with(|| {
            let work = cast_work(elements, narrows);
            let price = draft.price_new(&work, rank);
            (Arc::new(work), price)
        });
        let Some(prediction) = price.filter(|_| elements > 0) else { return false };
        let (name, work, caller) = (self.name.clone(), Some(work.clone()), Some(self.caller.clone()));
        let (operator, source) = (draft.operator_of(at), Source::Given);
        kernel::place(draft, at, side, NewKernel { name, operator, work, prediction, source, caller });
        true
    }
}

fn cast_work(elements: u64, narrows: bool) -> Work {
    let (wide, narrow) = (Bytes(4 * elements), Bytes(2 * elements));
    let (read, written) = if narrows { (wide, narrow) } else { (narrow, wide) };
    let (family, precision, shape) = (Family::Elementwise, Precision::Fp32, Shape::Plain);
    Work { family, flop: Flop(elements as f64), read, written, precision, shape }
}
