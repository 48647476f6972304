//! The work of each task of a graph. An operator's work is divided among kernels of one name that it launched: a tensor of more
//! than 2³¹ bytes is worked on by several, none of which does the whole.

use rustc_hash::FxHashMap;

use crate::cost::{Shape, Work, work_of_task};
use crate::graph::{ExecutionGraph, Operands, OperatorId, Task, TaskKind};
use crate::intern::NameId;
use crate::units::{Bytes, Flop};

/// Looks up the work of tasks.
#[derive(Debug)]
pub struct KernelWork<'a> {
    graph: &'a ExecutionGraph,
    /// Kernels of one name of one operator, where there are several.
    parts: FxHashMap<(OperatorId, NameId), u64>,
}

impl<'a> KernelWork<'a> {
    /// Counts the kernels of every operator.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn of(graph: &'a ExecutionGraph) -> Self {
        let mut parts: FxHashMap<(OperatorId, NameId), u64> = FxHashMap::default();
        for task in graph.tasks.node_weights().filter(|task| task.kind == TaskKind::Kernel) {
            if let Some(operator) = task.operator {
                *parts.entry((operator, task.name)).or_default() += 1;
            }
        }
        parts.retain(|_, count| *count > 1);
        Self { graph, parts }
    }

    /// The work of `task`, as far as known.
    pub fn work(&self, task: &Task) -> Option<Work> {
        let whole = work_of_task(self.graph, task, |id| operands(self.graph, id))?;
        let count = task.operator.and_then(|operator| self.parts.get(&(operator, task.name)));
        Some(count.map_or_else(|| whole.clone(), |&count| divided(&whole, count)))
    }
}

/// One of `parts` equal parts of `whole`. Products, convolutions and lookups stay whole: which dimension is cut is not known.
fn divided(whole: &Work, parts: u64) -> Work {
    let shape = match whole.shape {
        Shape::Plain => Shape::Plain,
        Shape::Strided { elements } => Shape::Strided { elements: elements / parts },
        Shape::Rows { rows, width } => Shape::Rows { rows: (rows / parts).max(1), width },
        _ => return whole.clone(),
    };
    Work {
        flop: Flop(whole.flop.0 / parts as f64),
        read: Bytes(whole.read.0 / parts),
        written: Bytes(whole.written.0 / parts),
        shape,
        ..whole.clone()
    }
}

fn operands(graph: &ExecutionGraph, id: OperatorId) -> Option<&Operands> {
    graph.operators.get(id.0 as usize)?.operands.and_then(|id| graph.operands.get(id.0 as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Family;
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
        let part = divided(&work(Shape::Plain), 3);
        assert_eq!((part.flop.0, part.read, part.written), (100.0, Bytes(200), Bytes(300)));
        let part = divided(&work(Shape::Rows { rows: 9, width: 4 }), 3);
        assert_eq!(part.shape, Shape::Rows { rows: 3, width: 4 });
    }

    #[test]
    fn products_stay_whole() {
        let product = work(Shape::Gemm { batch: 1, m: 2, n: 3, k: 4 });
        assert_eq!(divided(&product, 3), product);
    }
}
