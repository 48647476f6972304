//! Operators that launch several kernels of one kind: a tensor of more than 2³¹ bytes is worked on by several kernels of one
//! name, none of which does the whole; a convolution changes the layout of one tensor after the other.

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, NodeId, OperatorId, TaskKind};
use crate::intern::NameId;
use crate::units::{Bytes, Flop};

use super::kernel_name::{LayoutChange, is_weight_gradient, layout_change};
use super::work::{Shape, Work};

/// Which of an operator's kernels of one kind a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Position among them, by start.
    pub at: u32,
    /// How many there are.
    pub of: u32,
}

impl Default for Part {
    /// The only one.
    fn default() -> Self {
        Self { at: 0, of: 1 }
    }
}

impl Part {
    /// The part as one number.
    pub(crate) fn key(self) -> u32 {
        self.of.min(0xffff) << 16 | self.at.min(0xffff)
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

/// By task: its part among its operator's kernels of its kind. The position counts where kernels of one kind do different
/// work (layout changes, sums of weight gradients); elsewhere it is 0, since all are alike.
///
/// # Complexity
/// O(tasks); O(k log k) for k kernels of convolutions.
pub fn kernel_parts(graph: &ExecutionGraph) -> Vec<Part> {
    let layouts: Vec<Option<LayoutChange>> = graph.names.iter().map(|(_, name)| layout_change(name)).collect();
    let ordered: Vec<bool> = graph.names.iter().map(|(_, name)| is_weight_gradient(name)).collect();
    let key = |node: NodeId| {
        let task = &graph.tasks[node];
        let operator = task.operator.filter(|_| task.kind == TaskKind::Kernel)?;
        let layout = layouts.get(task.name.0 as usize).copied().flatten();
        let name = task.name.0 as usize;
        let kind = match layout {
            Some(change) => Kind::Layout(change),
            None if ordered.get(name) == Some(&true) => Kind::WeightGradient,
            None => Kind::Name(task.name),
        };
        Some((operator, kind))
    };
    let mut counts: FxHashMap<(OperatorId, Kind), u32> = FxHashMap::default();
    let mut in_order = Vec::new();
    for node in graph.tasks.node_indices() {
        let Some(key) = key(node) else { continue };
        *counts.entry(key).or_default() += 1;
        if !matches!(key.1, Kind::Name(_)) {
            in_order.push((graph.tasks[node].measured_start, node));
        }
    }
    let of = |node| key(node).and_then(|key| counts.get(&key).copied()).unwrap_or(1);
    let mut parts: Vec<Part> = graph.tasks.node_indices().map(|node| Part { at: 0, of: of(node) }).collect();
    in_order.sort_unstable();
    let mut seen: FxHashMap<(OperatorId, Kind), u32> = FxHashMap::default();
    for (_, node) in in_order {
        let Some(key) = key(node) else { continue };
        let next = seen.entry(key).or_default();
        parts[node.index()].at = *next;
        *next += 1;
    }
    parts
}

/// One of `parts` equal parts of `whole`. Products, convolutions and lookups stay whole: which dimension is cut is not known.
pub fn divided(whole: Work, parts: u32) -> Work {
    if parts <= 1 {
        return whole;
    }
    let parts = u64::from(parts);
    let shape = match whole.shape {
        Shape::Plain => Shape::Plain,
        Shape::Strided { elements } => Shape::Strided { elements: elements / parts },
        Shape::Chained => Shape::Chained,
        Shape::Rows { rows, width } => Shape::Rows { rows: (rows / parts).max(1), width },
        Shape::Columns { rows, columns } => Shape::Columns { rows, columns: (columns / parts).max(1) },
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
    fn products_stay_whole() {
        let product = work(Shape::Gemm { batch: 1, m: 2, n: 3, k: 4 });
        assert_eq!(divided(product.clone(), 3), product);
    }
}
