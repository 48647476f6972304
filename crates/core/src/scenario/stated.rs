//! Work that exports state of kernels and host computations. What it is beside the work that the arguments of their operators tell
//! stays when edits change those: it grows as that does.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{Family, Shape, Work};
use crate::device::Precision;
use crate::graph::{ExecutionGraph, NodeId, StatedWork, TaskKind};
use crate::units::{Bytes, Flop};

use super::work_classes::{Classified, Sharing};

/// What tasks have to do as stated, where that is not what the arguments of their operators tell.
#[derive(Clone, Debug, Default)]
pub(super) struct StatedWorks {
    rows: Vec<Stated>,
    /// By task its position in `rows`, plus one.
    of_node: FxHashMap<NodeId, u32>,
}

#[derive(Clone, Debug)]
struct Stated {
    /// What is stated, of no shape; `None` where it is that nothing is known.
    work: Option<Work>,
    /// What the arguments tell as recorded.
    told: Option<Arc<Work>>,
}

impl StatedWorks {
    /// What `graph` states beside what the arguments of operators tell of its tasks.
    ///
    /// # Complexity
    /// O(tasks + operators).
    pub(super) fn of(graph: &ExecutionGraph, sharing: &Sharing) -> Self {
        let told = Classified::of(graph, sharing);
        let mut found = Self::default();
        let mut known = FxHashMap::default();
        // What prepares the computation of an operator has no work.
        let prepares = |node: NodeId| graph.tasks[node].kind == TaskKind::Compute && sharing.auxiliary[node.index()];
        for (node, stated) in graph.stated.iter().filter(|(node, _)| !prepares(*node)) {
            let work = stated.map(|stated| named(graph, &stated));
            // A kind of work that is not known here says nothing.
            let Some(work) = work.map_or(Some(None), |named| named.map(Some)) else { continue };
            let (class, told) = told.class(*node);
            let told = told.and_then(|class| class.work.clone());
            if same(work.as_ref(), told.as_deref()) {
                continue;
            }
            let key = (class, work.as_ref().map(amounts));
            let next = found.rows.len() as u32 + 1;
            let row = *known.entry(key).or_insert(next);
            if row == next {
                found.rows.push(Stated { work, told });
            }
            found.of_node.insert(*node, row);
        }
        found
    }

    /// What is stated of a task, as a number; 0 for nothing that its operator's arguments do not tell.
    pub(super) fn row(&self, node: NodeId) -> u32 {
        self.of_node.get(&node).copied().unwrap_or(0)
    }

    /// The work that row `row` states where the arguments of the operator tell `now`.
    pub(super) fn work(&self, row: u32, now: Option<Work>) -> Option<Work> {
        let Some(Stated { work, told }) = (row as usize).checked_sub(1).and_then(|at| self.rows.get(at)) else {
            return now;
        };
        let work = work.as_ref()?;
        match (told.as_deref(), now) {
            (Some(told), Some(now)) => Some(grown(work, told, now)),
            (Some(_), None) => None,
            (None, _) => Some(work.clone()),
        }
    }
}

/// What tells stated works apart.
fn amounts(work: &Work) -> (Family, Precision, u64, Bytes, Bytes) {
    (work.family, work.precision, work.flop.0.to_bits(), work.read, work.written)
}

/// Whether it is the same work, shapes aside.
fn same(stated: Option<&Work>, told: Option<&Work>) -> bool {
    stated.map(amounts) == told.map(amounts)
}

/// Stated work; `None` where its family or how it computes is none.
fn named(graph: &ExecutionGraph, stated: &StatedWork) -> Option<Work> {
    let &StatedWork { family, precision, flop, read, written } = stated;
    let (family, precision) = (graph.names.get(family), graph.names.get(precision));
    Some(Work {
        family: Family::ALL.into_iter().find(|known| known.name() == family)?,
        precision: Precision::ALL.into_iter().find(|known| known.key() == precision)?,
        flop,
        read,
        written,
        shape: Shape::Plain,
    })
}

/// `stated` where arguments that told `told` tell `now`: each amount grows as theirs did, or as their bytes where they had none.
fn grown(stated: &Work, told: &Work, now: Work) -> Work {
    let ratio = |now: f64, told: f64| (told > 0.0).then(|| now / told);
    let bytes = |work: &Work| work.bytes().0 as f64;
    let all = ratio(bytes(&now), bytes(told)).unwrap_or(1.0);
    let grows = |now: f64, told: f64| ratio(now, told).unwrap_or(all);
    let size = |stated: Bytes, now: Bytes, told: Bytes| {
        Bytes((stated.0 as f64 * grows(now.0 as f64, told.0 as f64)).round() as u64)
    };
    Work {
        family: stated.family,
        flop: Flop(stated.flop.0 * grows(now.flop.0, told.flop.0)),
        read: size(stated.read, now.read, told.read),
        written: size(stated.written, now.written, told.written),
        precision: if now.precision == told.precision { stated.precision } else { now.precision },
        shape: if stated.family == told.family { now.shape } else { Shape::Plain },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(family: Family, flop: f64, (read, written): (u64, u64), shape: Shape) -> Work {
        Work { family, flop: Flop(flop), read: Bytes(read), written: Bytes(written), precision: Precision::Fp32, shape }
    }

    fn rows(stated: Option<Work>, told: Option<Work>) -> StatedWorks {
        let rows = vec![Stated { work: stated, told: told.map(Arc::new) }];
        StatedWorks { rows, of_node: FxHashMap::default() }
    }

    #[test]
    fn stated_work_grows_as_that_of_the_arguments_does() {
        let shape = |rows| Shape::Rows { rows, width: 8 };
        let told = work(Family::Norm, 100.0, (40, 20), shape(10));
        let stated = rows(Some(work(Family::Norm, 300.0, (80, 10), Shape::Plain)), Some(told.clone()));
        assert_eq!(stated.work(1, Some(told.clone())), Some(work(Family::Norm, 300.0, (80, 10), shape(10))));
        let twice = work(Family::Norm, 200.0, (80, 40), shape(20));
        assert_eq!(stated.work(1, Some(twice.clone())), Some(work(Family::Norm, 600.0, (160, 20), shape(20))));
        assert_eq!(stated.work(0, Some(twice.clone())), Some(twice));
        let half = Work { precision: Precision::Bf16Tensor, ..told };
        assert_eq!(stated.work(1, Some(half)).map(|work| work.precision), Some(Precision::Bf16Tensor));
        assert_eq!(stated.work(1, None), None);
    }

    #[test]
    fn work_of_another_family_has_no_shape_of_the_operators() {
        let told = work(Family::Gemm, 0.0, (40, 20), Shape::Gemm { batch: 1, m: 2, n: 3, k: 4 });
        let added = work(Family::Elementwise, 7.0, (12, 12), Shape::Plain);
        let twice = work(Family::Gemm, 0.0, (80, 40), Shape::Gemm { batch: 1, m: 4, n: 3, k: 4 });
        let grown = rows(Some(added), Some(told)).work(1, Some(twice));
        assert_eq!(grown, Some(work(Family::Elementwise, 14.0, (24, 24), Shape::Plain)));
    }

    #[test]
    fn what_is_stated_alone_is_so_and_what_is_stated_not_to_be_known_is_not() {
        let alone = work(Family::Conv, 7.0, (12, 12), Shape::Plain);
        assert_eq!(rows(Some(alone.clone()), None).work(1, None), Some(alone.clone()));
        assert_eq!(rows(None, Some(alone.clone())).work(1, Some(alone)), None);
    }

    #[test]
    fn endless_growth_is_no_possible_work() {
        let told = work(Family::Norm, 1e-300, (1, 0), Shape::Plain);
        let stated = rows(Some(work(Family::Norm, 1e21, (1 << 52, 1 << 52), Shape::Plain)), Some(told));
        let now = work(Family::Norm, 1e300, (u64::MAX, u64::MAX), Shape::Plain);
        assert!(!stated.work(1, Some(now)).unwrap().is_possible());
    }
}
