//! What exported traces state that kernels and host computations have to do, by task.

use crate::graph::{Lane, NodeId, Operator, StatedWork, TaskKind};
use crate::intern::NameTable;
use crate::trace::{Trace, WorkArgs};

use super::Prepared;
use super::draft::Ordered;

/// What the traces of `ranks` state of the kernels among the tasks, and of operators that compute on the host, in order.
///
/// # Complexity
/// O(ranks) where nothing is stated, else O(tasks · log stated).
pub(super) fn works(
    ranks: &[Prepared<'_>],
    ordered: &Ordered,
    (lanes, operators): (&[Lane], &[Operator]),
    names: &mut NameTable,
) -> Vec<(NodeId, Option<StatedWork>)> {
    if ranks.iter().all(|rank| rank.input.trace.works.is_empty()) {
        return Vec::new();
    }
    let stated = |node: NodeId| {
        let task = &ordered.graph[node];
        let event = match task.kind {
            TaskKind::Kernel => task.event?,
            TaskKind::Compute => operators.get(task.operator?.0 as usize)?.event,
            _ => return None,
        };
        let rank = lanes.get(task.lane.0 as usize)?.rank;
        let trace = ranks.iter().find(|own| own.input.rank == rank)?.input.trace;
        let &work = trace.works.get(event)?;
        Some((node, work.map(|work| named(work, trace, names))))
    };
    ordered.graph.node_indices().filter_map(stated).collect()
}

fn named(work: WorkArgs, trace: &Trace, names: &mut NameTable) -> StatedWork {
    let mut name = |own| names.intern(trace.names.get(own));
    let WorkArgs { family, precision, flop, read, written } = work;
    StatedWork { family: name(family), precision: name(precision), flop, read, written }
}
