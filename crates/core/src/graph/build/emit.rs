//! One rank's tasks and edges inside its window, from what was observed.

use rustc_hash::FxHashMap;

use crate::graph::iteration::Window;
use crate::graph::{Dependency, DependencyKind, Lane, LaneId, LaneKind, OperatorId, Rank, Task, TaskKind};
use crate::intern::{NameId, NameTable};
use crate::trace::EventId;
use crate::units::{Bytes, DurNs, TimeNs};

use super::draft::{Draft, NONE, Names, ORIGIN};
use super::observed::Observed;
use super::operators::OperatorTable;
use super::threads::Span;
use super::{emit_device, emit_host, emit_step};

/// The first and last task that stand for a call; the last is the joint after it when it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallTasks {
    /// The call's own part.
    pub(super) own: u32,
    /// What ends when the call ends.
    pub(super) end: u32,
}

/// What ranks are written into: first each one's own, then that of all.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Tasks and edges.
    pub(super) draft: Draft,
    /// Lanes of all ranks.
    pub(super) lanes: Vec<Lane>,
    /// Names.
    pub(super) names: NameTable,
    /// Operators and operands of all ranks.
    pub(super) operators: OperatorTable,
}

/// One rank on its way into the draft.
pub(super) struct RankWriter<'a, 'o> {
    /// Its trace.
    pub(super) observed: &'o Observed<'a>,
    /// What is modelled of it.
    pub(super) window: &'o Window,
    /// Schedule time 0 in the trace's time.
    pub(super) zero: TimeNs,
    /// Its rank.
    pub(super) rank: Rank,
    /// What is written.
    pub(super) shared: &'o mut Shared,
    /// The trace's names in the graph.
    pub(super) names: Names<'a>,
    /// Lane of joints and markers.
    pub(super) virtual_lane: LaneId,
    /// First lane of its threads, then of its streams, each in the order of `observed`.
    pub(super) thread_lanes: u32,
    /// First lane of its streams.
    pub(super) stream_lanes: u32,
    /// The operators of each thread in the graph: position of the first that is in the window, its id, how many.
    pub(super) operator_ids: Vec<Vec<Option<OperatorId>>>,
    /// Where graphs were launched, the operators by the number that the profiler gave them.
    pub(super) named: FxHashMap<u32, OperatorId>,
    /// By call: its tasks.
    pub(super) calls: Vec<CallTasks>,
    /// By work: its task.
    pub(super) activities: Vec<u32>,
    /// By work ahead of which work was not recorded: the task that stands for it.
    pub(super) unrecorded: FxHashMap<u32, u32>,
    /// The tasks that stand for work from before the trace, and when they end.
    pub(super) backlogs: Vec<(u32, TimeNs)>,
    /// Joints that wait for device work without a call: the work, the joint.
    pub(super) hidden: Vec<(u32, u32)>,
    /// By thread: end of each host span in the trace's time, with the task that ends then.
    pub(super) ends: Vec<Vec<(TimeNs, u32)>>,
}

/// What a rank left in the draft.
pub(super) struct RankOutput {
    /// Marker of the end of the step before, when simulated.
    pub(super) begin: Option<u32>,
    /// Marker of the end of the chosen step.
    pub(super) end: u32,
    /// Measured end of the step before (else the window's start) and of the chosen one, in the trace's time.
    pub(super) measured: (TimeNs, TimeNs),
    /// How many streams waited for work from before the trace.
    pub(super) backlogs: usize,
    /// Work ahead of all that recorded calls launched: how many pieces, and until when after the window's begin.
    pub(super) without_launch: Option<(usize, DurNs)>,
    /// Late starts without a cause, within the window: the task, and how much later than allowed.
    pub(super) unexplained: Vec<(u32, DurNs)>,
    /// By work: its task.
    pub(super) activities: Vec<u32>,
}

impl<'a, 'o> RankWriter<'a, 'o> {
    /// Prepares to write rank `rank` into `shared`, which is empty.
    pub(super) fn new(
        observed: &'o Observed<'a>,
        window: &'o Window,
        zero: TimeNs,
        rank: Rank,
        shared: &'o mut Shared,
    ) -> Self {
        let none = CallTasks { own: NONE, end: NONE };
        let mut writer = Self {
            observed,
            window,
            zero,
            rank,
            names: Names::new(observed.trace),
            virtual_lane: LaneId(0),
            thread_lanes: 0,
            stream_lanes: 0,
            operator_ids: Vec::new(),
            named: FxHashMap::default(),
            calls: vec![none; observed.threads.calls.len()],
            activities: vec![NONE; observed.activities.list.len()],
            unrecorded: FxHashMap::default(),
            backlogs: Vec::new(),
            hidden: Vec::new(),
            ends: vec![Vec::new(); observed.threads.list.len()],
            shared,
        };
        writer.add_lanes();
        let origin = writer.joint(writer.virtual_lane, zero);
        debug_assert_eq!(origin, ORIGIN);
        writer
    }

    /// Writes the rank's tasks and edges.
    pub(super) fn run(mut self) -> RankOutput {
        self.operator_ids = super::operators::emit(&mut self);
        if self.observed.activities.have_graphs() {
            self.named = self.operators_by_number();
        }
        emit_host::emit(&mut self);
        let unexplained = emit_device::emit(&mut self);
        emit_host::connect_waits(&mut self);
        let (begin, end, measured) = emit_step::emit(&mut self);
        let backlogs = self.backlogs.len();
        let without_launch = emit_step::without_launch(&self).filter(|_| self.window.split.is_none());
        RankOutput { begin, end, measured, backlogs, without_launch, unexplained, activities: self.activities }
    }

    fn add_lanes(&mut self) {
        let observed = self.observed;
        self.virtual_lane = self.add_lane(LaneKind::Virtual, NameId(0), false);
        self.thread_lanes = self.shared.lanes.len() as u32;
        for thread in &observed.threads.list {
            let name = observed.trace.tracks[thread.track.0 as usize].name;
            self.add_lane(LaneKind::Thread { tid: thread.tid }, name, false);
        }
        self.stream_lanes = self.shared.lanes.len() as u32;
        for stream in &observed.activities.streams {
            let name = observed.trace.tracks[stream.track.0 as usize].name;
            let kind = if stream.on_host {
                LaneKind::Thread { tid: stream.number }
            } else {
                LaneKind::Stream { device: stream.device, stream: stream.number }
            };
            self.add_lane(kind, name, super::collectives::dominate(observed, stream));
        }
    }

    fn add_lane(&mut self, kind: LaneKind, name: NameId, communication: bool) -> LaneId {
        let name = self.names.copy(&mut self.shared.names, name);
        self.shared.lanes.push(Lane { rank: self.rank, kind, name, communication });
        LaneId(self.shared.lanes.len() as u32 - 1)
    }

    /// The graph's id of a name of the trace.
    pub(super) fn name(&mut self, name: NameId) -> NameId {
        self.names.copy(&mut self.shared.names, name)
    }

    /// The operators of all threads by the number that the profiler gave them, where it did.
    fn operators_by_number(&self) -> FxHashMap<u32, OperatorId> {
        let number = |span: &Span| self.observed.trace.events.external(span.event);
        let threads = self.observed.threads.list.iter().zip(&self.operator_ids);
        let all = threads.flat_map(|(thread, ids)| thread.operators.iter().zip(ids));
        all.filter_map(|(span, id)| Some((number(span), (*id)?))).filter(|&(number, _)| number != 0).collect()
    }

    /// The graph's operator for one of a thread's.
    pub(super) fn operator(&self, thread: usize, operator: Option<u32>) -> Option<OperatorId> {
        self.operator_ids[thread].get(operator? as usize).copied().flatten()
    }

    /// Adds a task without bytes that took `start..end` (trace's time) and takes `duration` in the replay.
    pub(super) fn task(
        &mut self,
        kind: TaskKind,
        lane: LaneId,
        what: What,
        span: (TimeNs, TimeNs),
        duration: DurNs,
    ) -> u32 {
        self.shared.draft.push(Task {
            kind,
            lane,
            name: what.name,
            operator: what.operator,
            event: what.event,
            measured_start: TimeNs(span.0.since(self.zero).0),
            measured: span.1.since(span.0),
            duration,
            bytes: Bytes(0),
        })
    }

    /// Adds a joint at `time` (trace's time).
    pub(super) fn joint(&mut self, lane: LaneId, time: TimeNs) -> u32 {
        self.task(TaskKind::Joint, lane, What::default(), (time, time), DurNs::ZERO)
    }

    /// Adds an edge.
    pub(super) fn edge(&mut self, from: u32, to: u32, dependency: Dependency) {
        self.shared.draft.edge(from, to, dependency);
    }

    /// Keeps the measured start of `task`, at `time` in the trace's time.
    pub(super) fn anchor(&mut self, task: u32, time: TimeNs) {
        self.keep(task, time, DependencyKind::Anchor);
    }

    /// Lets the chain of a thread begin with `task`, at `time` in the trace's time.
    pub(super) fn begin(&mut self, task: u32, time: TimeNs) {
        self.keep(task, time, DependencyKind::RankStart);
    }

    fn keep(&mut self, task: u32, time: TimeNs, kind: DependencyKind) {
        let lag = time.since(self.zero);
        self.edge(ORIGIN, task, Dependency::on_end(kind, lag));
    }
}

/// What a task stands for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct What {
    /// Its name in the graph.
    pub(super) name: NameId,
    /// Its operator.
    pub(super) operator: Option<OperatorId>,
    /// Its event.
    pub(super) event: Option<EventId>,
}
