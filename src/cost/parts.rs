//! Operators that launch several kernels of one name: a tensor of more than 2³¹ bytes is worked on by several, none of which does
//! the whole.

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, OperatorId, TaskKind};
use crate::intern::NameId;
use crate::units::{Bytes, Flop};

use super::work::{Shape, Work};

/// By task: among how many kernels of its name its operator's work is divided; 1 for everything else.
///
/// # Complexity
/// O(tasks).
pub fn kernel_parts(graph: &ExecutionGraph) -> Vec<u32> {
    let mut counts: FxHashMap<(OperatorId, NameId), u32> = FxHashMap::default();
    let keys = || {
        let all = graph.tasks.node_weights();
        all.map(|task| task.operator.filter(|_| task.kind == TaskKind::Kernel).map(|operator| (operator, task.name)))
    };
    for key in keys().flatten() {
        *counts.entry(key).or_default() += 1;
    }
    keys().map(|key| key.and_then(|key| counts.get(&key).copied()).unwrap_or(1)).collect()
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
        Shape::Rows { rows, width } => Shape::Rows { rows: (rows / parts).max(1), width },
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
