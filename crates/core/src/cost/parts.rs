//! Operators that launch several kernels: a tensor of more than 2³¹ bytes is worked on by several kernels of one name, none of
//! which does the whole; a convolution changes the layout of one tensor after the other; and kernels whose names say nothing
//! prepare for the one that computes.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{ExecutionGraph, NodeId, OperatorId, TaskKind};
use crate::intern::NameId;
use crate::units::{Bytes, Flop, elements};

use super::kernel_name::{LayoutChange, is_spectrum, is_weight_gradient, kernel_family, layout_change, pads_channels};
use super::work::{Family, Shape, Work};

/// Which of an operator's kernels of one kind a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Position among them, by start.
    pub at: u32,
    /// How many there are.
    pub of: u32,
    /// Whether its name says nothing, and another kernel's of the operator says that it computes the product, convolution or
    /// attention.
    pub beside: bool,
}

impl Default for Part {
    /// The only one.
    fn default() -> Self {
        Self { at: 0, of: 1, beside: false }
    }
}

impl Part {
    /// The part as one number.
    pub(crate) fn key(self) -> u32 {
        self.of.min(0xffff) << 16 | self.at.min(0x7fff) << 1 | u32::from(self.beside)
    }
}

/// What kernels of an operator are counted together: those of one name; layout changes in one direction; products for the
/// gradient of a convolution's weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Name(NameId),
    Layout(LayoutChange),
    WeightGradient,
}

/// What a kernel's name says of its part.
struct Named {
    kind: Option<Kind>,
    /// Whether kernels of the kind do different work, so that their order counts.
    ordered: bool,
    family: Option<Family>,
}

impl Named {
    fn of(name: &str) -> Self {
        let layout = layout_change(name).map(Kind::Layout);
        let kind = layout.or_else(|| is_weight_gradient(name).then_some(Kind::WeightGradient));
        let family = kernel_family(name);
        let ordered = kind.is_some() || is_spectrum(name) || pads_channels(name);
        Self { kind, ordered, family }
    }

    /// Whether it computes what operators of several kernels are launched for.
    fn is_main(&self) -> bool {
        self.family.is_some_and(has_helpers)
    }
}

/// Whether operators of `family` launch kernels beside the one that computes.
pub(crate) fn has_helpers(family: Family) -> bool {
    matches!(family, Family::Gemm | Family::Conv | Family::Attention)
}

/// By task: its part among its operator's kernels of its kind. The position counts where kernels of one kind do different
/// work (layout changes, sums of weight gradients, spectra); elsewhere it is 0, since all are alike.
///
/// # Complexity
/// O(tasks); O(k log k) for k kernels of convolutions.
pub fn kernel_parts(graph: &ExecutionGraph) -> Vec<Part> {
    let names: Vec<Named> = graph.names.iter().map(|(_, name)| Named::of(name)).collect();
    let key = |node: NodeId| {
        let task = &graph.tasks[node];
        let operator = task.operator.filter(|_| task.kind == TaskKind::Kernel)?;
        let named = names.get(task.name.0 as usize)?;
        Some(((operator, named.kind.unwrap_or(Kind::Name(task.name))), named))
    };
    let mut counts: FxHashMap<(OperatorId, Kind), u32> = FxHashMap::default();
    let mut computed: FxHashSet<OperatorId> = FxHashSet::default();
    let mut in_order = Vec::new();
    for node in graph.tasks.node_indices() {
        let Some((key, named)) = key(node) else { continue };
        *counts.entry(key).or_default() += 1;
        if named.is_main() {
            computed.insert(key.0);
        }
        if named.ordered {
            in_order.push((graph.tasks[node].measured_start, node));
        }
    }
    let part = |node| {
        let Some((key, named)) = key(node) else { return Part::default() };
        let beside = named.family.is_none() && computed.contains(&key.0);
        Part { at: 0, of: counts.get(&key).copied().unwrap_or(1), beside }
    };
    let mut parts: Vec<Part> = graph.tasks.node_indices().map(part).collect();
    in_order.retain(|(_, node)| parts[node.index()].of > 1);
    in_order.sort_unstable();
    let mut seen: FxHashMap<(OperatorId, Kind), u32> = FxHashMap::default();
    for (_, node) in in_order {
        let Some((key, _)) = key(node) else { continue };
        let next = seen.entry(key).or_default();
        parts[node.index()].at = *next;
        *next += 1;
    }
    parts
}

/// Elements up to which libraries index a tensor by 32 bits.
const INDEXED: u64 = 1 << 31;

/// Whether a tensor of a product has more elements than 32 bits index: it is then cut into several products of one kernel.
fn is_cut(work: &Work) -> bool {
    let Shape::Gemm { batch, m, n, k } = work.shape else { return false };
    [[m, k], [k, n], [m, n]].iter().any(|&[a, b]| elements(&[batch, a, b]) > INDEXED)
}

/// One of `parts` equal parts of `whole`. Convolutions and lookups stay whole: which dimension is cut is not known; so do products whose
/// tensors need no cut.
pub fn divided(whole: Work, parts: u32) -> Work {
    if parts <= 1 {
        return whole;
    }
    let parts = u64::from(parts);
    let shape = match whole.shape {
        Shape::Plain => Shape::Plain,
        Shape::Strided { elements } => Shape::Strided { elements: elements / parts },
        Shape::Tiled { elements } => Shape::Tiled { elements: elements / parts },
        Shape::Chained => Shape::Chained,
        Shape::Rows { rows, width } => Shape::Rows { rows: (rows / parts).max(1), width },
        Shape::Picked { rows, width, picking } => Shape::Picked { rows: (rows / parts).max(1), width, picking },
        Shape::Columns { rows, columns } => Shape::Columns { rows, columns: (columns / parts).max(1) },
        Shape::Channels { images, channels, area } => {
            Shape::Channels { images, channels: (channels / parts).max(1), area }
        }
        Shape::Gemm { batch, m, n, k } if is_cut(&whole) => Shape::Gemm { batch, m: (m / parts).max(1), n, k },
        _ => return whole,
    };
    Work {
        flop: Flop(whole.flop.0 / parts as f64),
        read: Bytes(whole.read.0 / parts),
        written: Bytes(whole.written.0 / parts),
        shape,
        ..whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::work::Family;
    use crate::device::Precision;

    fn work(shape: Shape) -> Work {
        Work {
            family: Family::Elementwise,
            flop: Flop(300.0),
            read: Bytes(600),
            written: Bytes(900),
            precision: Precision::Fp32,
            shape,
        }
    }

    #[test]
    fn three_kernels_of_one_operator_do_a_third_each() {
        let part = divided(work(Shape::Plain), 3);
        assert_eq!((part.flop.0, part.read, part.written), (100.0, Bytes(200), Bytes(300)));
        let part = divided(work(Shape::Rows { rows: 9, width: 4 }), 3);
        assert_eq!(part.shape, Shape::Rows { rows: 3, width: 4 });
    }

    #[test]
    fn products_stay_whole_unless_a_tensor_needs_a_cut() {
        let product = work(Shape::Gemm { batch: 1, m: 2, n: 3, k: 4 });
        assert_eq!(divided(product.clone(), 3), product);
        let large = work(Shape::Gemm { batch: 1, m: 1 << 20, n: 3, k: 1 << 12 });
        let half = divided(large, 2);
        assert_eq!((half.flop.0, half.shape), (150.0, Shape::Gemm { batch: 1, m: 1 << 19, n: 3, k: 1 << 12 }));
    }
}
