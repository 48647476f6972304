//! Which operator runs at an instant on a thread, and which part of training an instant lies in.

use std::ops::Range;

use crate::graph::{ExecutionGraph, LaneId, LaneKind, OperatorId, Phase, RankPart};
use crate::units::TimeNs;

/// Operators that stand together.
type OperatorRange = std::iter::Map<Range<u32>, fn(u32) -> OperatorId>;

/// The operators of some lanes: they stand in the order of lanes.
fn operators_on(graph: &ExecutionGraph, lanes: Range<usize>) -> OperatorRange {
    let before = |lane: usize| graph.operators.partition_point(|operator| (operator.lane.0 as usize) < lane) as u32;
    (before(lanes.start)..before(lanes.end)).map(OperatorId)
}

/// The operators of one thread, to be asked in order of time.
pub(super) struct Callers<'a> {
    graph: &'a ExecutionGraph,
    ids: OperatorRange,
    next: Option<OperatorId>,
    open: Vec<OperatorId>,
}

/// When an operator ends.
pub(super) fn end(graph: &ExecutionGraph, id: OperatorId) -> TimeNs {
    let operator = &graph.operators[id.0 as usize];
    operator.start + operator.dur
}

impl<'a> Callers<'a> {
    pub(super) fn new(graph: &'a ExecutionGraph, lane: LaneId) -> Self {
        let lane = lane.0 as usize;
        let mut ids = operators_on(graph, lane..lane + 1);
        let next = ids.next();
        Self { graph, ids, next, open: Vec::new() }
    }

    /// The innermost operator that runs at `time`, which must not be earlier than the last asked for.
    pub(super) fn at(&mut self, time: TimeNs) -> Option<OperatorId> {
        while let Some(id) = self.next.filter(|id| self.graph.operators[id.0 as usize].start <= time) {
            self.leave(self.graph.operators[id.0 as usize].start);
            self.open.push(id);
            self.next = self.ids.next();
        }
        self.leave(time);
        self.open.last().copied()
    }

    fn leave(&mut self, time: TimeNs) {
        while self.open.last().is_some_and(|&id| end(self.graph, id) < time) {
            self.open.pop();
        }
    }
}

/// The rank's lane of a host thread.
pub(super) fn lane_of(graph: &ExecutionGraph, part: &RankPart, tid: i64) -> Option<LaneId> {
    let found = graph.lanes_of(part.rank).find(|&at| graph.lanes[at].kind == LaneKind::Thread { tid });
    found.map(|at| LaneId(at as u32))
}

/// The operators of a rank: they stand together, in order of their lanes.
pub(super) fn operators_of(graph: &ExecutionGraph, part: &RankPart) -> OperatorRange {
    operators_on(graph, graph.lanes_of(part.rank))
}

/// When the passes of a rank's steps run.
pub(super) struct Passes {
    /// OverheadSpans of a phase in order: its start and what it is.
    starts: Vec<(TimeNs, Phase)>,
}

impl Passes {
    /// # Complexity
    /// O(n log n) in operators.
    pub(super) fn of(graph: &ExecutionGraph, part: &RankPart) -> Self {
        let top = operators_of(graph, part)
            .map(|id| &graph.operators[id.0 as usize])
            .filter(|operator| operator.parent.is_none());
        let mut starts: Vec<(TimeNs, Phase)> = top.map(|operator| (operator.start, operator.phase)).collect();
        starts.sort_by_key(|&(start, phase)| (start, phase));
        starts.dedup_by_key(|&mut (_, phase)| phase);
        Self { starts }
    }

    /// The phase of the operator that began last.
    pub(super) fn at(&self, time: TimeNs) -> Phase {
        let after = self.starts.partition_point(|&(start, _)| start <= time);
        after.checked_sub(1).map_or(Phase::Other, |at| self.starts[at].1)
    }

    /// Whether the backward pass is through: what adds up a gradient stands within it.
    pub(super) fn is_behind_backward(&self, time: TimeNs) -> bool {
        let after = self.starts.partition_point(|&(start, _)| start <= time);
        let is_backward = |at: usize| self.starts.get(at).is_some_and(|&(_, phase)| phase == Phase::Backward);
        !is_backward(after) && !after.checked_sub(1).is_some_and(is_backward)
    }

    /// Whether there is a backward pass.
    pub(super) fn train(&self) -> bool {
        self.starts.iter().any(|&(_, phase)| phase == Phase::Backward)
    }
}
