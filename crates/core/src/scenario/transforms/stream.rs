//! Added kernels on a stream of a given number: after what was launched there before them.

use std::collections::BTreeMap;

use crate::graph::{CopyStep, Dependency, DependencyKind, Lane, LaneId, LaneKind};
use crate::intern::NameId;
use crate::scenario::draft::{Draft, Node};
use crate::units::{DurNs, TimeNs};

use super::kernel::{self, NewKernel, Side};

/// The streams that kernels were put on, with the work on each by launch.
#[derive(Debug, Default)]
pub(super) struct Streams {
    known: BTreeMap<(usize, i64), Stream>,
    /// When each traced task was launched.
    launch_times: Vec<TimeNs>,
}

/// In which step work was launched, and when.
type Issued = (CopyStep, TimeNs);

#[derive(Debug)]
struct Stream {
    lane: LaneId,
    /// The step of each piece of its work and when it was launched, in order; what was put there last stands for what it follows.
    work: Vec<(Issued, Node)>,
}

impl Streams {
    /// Puts `new` on stream `number` of the rank of `node`: it waits for `node`, whose call its own follows.
    pub(super) fn place(&mut self, draft: &mut Draft<'_>, node: Node, number: i64, new: NewKernel) {
        let rank = draft.rank_of(draft.lane_of(node));
        if self.launch_times.is_empty() {
            self.launch_times = draft.graph().launch_times();
        }
        let times = &self.launch_times;
        let stream = self.known.entry((rank, number)).or_insert_with(|| Stream::of(draft, node, (number, times)));
        if draft.lane_of(node) == stream.lane {
            kernel::place(draft, node, Side::After, new);
            return;
        }
        let kernel = kernel::launch(draft, node, Side::After, stream.lane, new).kernel;
        draft.connect(node, kernel, Dependency::on_end(DependencyKind::EventWait, DurNs::ZERO));
        let launched = launched(draft, node, times);
        let place = stream.work.partition_point(|&(at, _)| at <= launched);
        let next = stream.work.get(place).copied();
        match (place.checked_sub(1), next) {
            (Some(before), _) => draft.put_after_launched(stream.work[before].1, (kernel, kernel), launched),
            (None, Some((_, next))) => draft.put_before(next, (kernel, kernel), DurNs::ZERO),
            (None, None) => {}
        }
        let is_last = next.is_none_or(|((step, _), _)| step > launched.0);
        if is_last && !draft.edges_from(kernel).any(|edge| edge.kind() == DependencyKind::StepEnd) {
            end_with(draft, kernel, (rank, launched.0));
        }
        stream.work.insert(place, (launched, kernel));
    }
}

impl Stream {
    fn of(draft: &mut Draft<'_>, node: Node, (number, times): (i64, &[TimeNs])) -> Self {
        let lane = lane(draft, node, number);
        let nodes = draft.in_order(|other| draft.lane_of(other) == lane).remove(&lane).unwrap_or_default();
        // An added task is launched no earlier than the one before it.
        let mut latest = (CopyStep::Origin, TimeNs(i64::MIN));
        let timed = nodes.into_iter().map(|node| {
            latest = latest.max(launched(draft, node, times));
            (latest, node)
        });
        let work = timed.collect();
        Self { lane, work }
    }
}

/// The lane of that stream on the device of `node`; a new one where there was none.
fn lane(draft: &mut Draft<'_>, node: Node, number: i64) -> LaneId {
    let own = draft.lane_of(node);
    let (rank, device) = match draft.lane(own) {
        Some(&Lane { rank, kind: LaneKind::Stream { device, .. }, .. }) => (rank, device),
        other => (other.map(|lane| lane.rank).unwrap_or_default(), 0),
    };
    let kind = LaneKind::Stream { device, stream: number };
    let all = draft.graph().lanes.len() + draft.structure.lanes.len();
    let known = (0..all as u32)
        .map(LaneId)
        .find(|&id| draft.lane(id).is_some_and(|lane| lane.rank == rank && lane.kind == kind));
    known.unwrap_or_else(|| {
        let lane = Lane { rank, kind, name: NameId(0), communication: false };
        draft.add_lane(lane, format!("stream {number}"))
    })
}

fn launched(draft: &Draft<'_>, node: Node, times: &[TimeNs]) -> Issued {
    let beside = draft.beside(node);
    (draft.base().copies().step(beside), times[beside.index()])
}

/// Lets the step of `kernel` end no earlier than it does.
fn end_with(draft: &mut Draft<'_>, kernel: Node, (rank, step): (usize, CopyStep)) {
    let part = &draft.graph().ranks[rank];
    let marker = match step {
        CopyStep::Origin | CopyStep::Before => part.begin,
        CopyStep::Chosen => Some(part.end),
        CopyStep::After => None,
    };
    if let Some(marker) = marker {
        draft.connect(kernel, Node::Traced(marker), Dependency::on_end(DependencyKind::StepEnd, DurNs::ZERO));
    }
}
