//! `mixed-precision bf16|fp16`: products and convolutions on tensor cores, activations in half the bytes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::operators::{bare, operator_family};
use crate::cost::{Family, Shape, Work};
use crate::device::Precision;
use crate::graph::{DType, NodeId, Operand, Operands, OperatorId, Phase, TaskKind};
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

/// Families that autocast leaves in 32 bits: sums that would lose digits, lookups, updates.
fn stays(family: Family) -> bool {
    matches!(
        family,
        Family::Norm | Family::Softmax | Family::Reduction | Family::Embedding | Family::Optimizer | Family::Collective
    )
}

impl Transform for MixedPrecision {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn line(&self) -> String {
        format!("{} {}", SPEC.name, self.dtype.name())
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        let mut lists: Vec<Operands> = Vec::new();
        let mut rows: Vec<(OperatorId, u32)> = Vec::new();
        let mut known: FxHashMap<Operands, u32> = FxHashMap::default();
        for (index, operator) in graph.operators.iter().enumerate() {
            let id = OperatorId(index as u32);
            let family = operator_family(graph.names.get(operator.name));
            let computes = matches!(operator.phase, Phase::Forward | Phase::Backward) && !family.is_none_or(stays);
            let Some(now) = draft.operands(id).filter(|_| computes) else { continue };
            let Some(half) = self.halved(now) else { continue };
            let row = *known.entry(half).or_insert_with_key(|half| {
                lists.push(half.clone());
                lists.len() as u32 - 1
            });
            rows.push((id, row));
        }
        if rows.is_empty() {
            return StepReport::nothing("no 32-bit operator with recorded types to change");
        }
        let summary = format!("{} in {}", count(rows.len(), "operator"), self.dtype.name());
        let products = products(draft, &rows);
        draft.set_operands(lists, rows);
        let base = draft.base();
        let works = graph.tasks.node_indices().filter(|&node| base.family(node).is_some());
        let mut report = survey(draft, works, summary);
        let (casts, missing) = self.insert_casts(draft, &products);
        report.changed += casts;
        report.summary = format!("{}, {} of weights and their gradients", report.summary, count(casts, "cast"));
        if missing > 0 {
            report.unhandled.push(format!("{}: weight not recorded, no cast added", count(missing, "product")));
        }
        report.unhandled.push("casts of activations between 16-bit and 32-bit operators are not added".to_owned());
        report
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
fn products(draft: &Draft<'_>, rows: &[(OperatorId, u32)]) -> Vec<Product> {
    let graph = draft.graph();
    let changed: FxHashSet<OperatorId> = rows.iter().map(|&(id, _)| id).collect();
    let mut seen = FxHashSet::default();
    let mut products = Vec::new();
    for kernel in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel) {
        let product = matches!(draft.family(kernel), Some(Family::Gemm | Family::Conv)) && !draft.is_removed(kernel);
        let Some(id) = graph.tasks[kernel].operator.filter(|id| product && changed.contains(id)) else { continue };
        if seen.insert(id) {
            let operator = &graph.operators[id.0 as usize];
            let weight = draft.operands(id).and_then(|operands| weight(graph.names.get(operator.name), operands));
            products.push(Product { kernel, weight, is_forward: operator.phase == Phase::Forward });
        }
    }
    products
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
    fn insert_casts(self, draft: &mut Draft<'_>, products: &[Product]) -> (usize, usize) {
        let (mut casts, mut missing) = (0, 0);
        for product in products {
            let Some(elements) = product.weight else {
                missing += 1;
                continue;
            };
            let (wide, narrow) = (Bytes(4 * elements), Bytes(2 * elements));
            let (read, written) = if product.is_forward { (wide, narrow) } else { (narrow, wide) };
            let (family, precision, shape) = (Family::Elementwise, Precision::Fp32, Shape::Plain);
            let work = Work { family, flop: Flop(elements as f64), read, written, precision, shape };
            let node = Node::Traced(product.kernel);
            let rank = draft.rank_of(draft.lane_of(node));
            let Some(prediction) = draft.price_new(&work, rank).filter(|_| elements > 0) else { continue };
            let (name, side) = if product.is_forward {
                (format!("cast weight to {}", self.dtype.name()), Side::Before)
            } else {
                ("cast gradient to fp32".to_owned(), Side::After)
            };
            let operator = draft.operator_of(node);
            kernel::place(draft, node, side, NewKernel { name, operator, work: Some(work), prediction, source: Source::Given, caller: None });
            casts += 1;
        }
        (casts, missing)
    }

    /// The arguments with 32-bit floats halved; `None` when there are none.
    fn halved(self, operands: &Operands) -> Option<Operands> {
        let mut changed = false;
        let mut halve = |operand: &mut Operand| {
            if let Operand::Tensor { dtype: dtype @ Some(DType::Fp32), .. } = operand {
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
