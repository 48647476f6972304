//! Chrome-trace JSON in the profiler's own form: Perfetto shows it, and this program opens it again as the same iteration.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction::Incoming;
use rustc_hash::FxHashSet;

use super::event::{
    self, Args, Arguments, DeviceProperties, DistributedInfo, Document, Event, Id, Message, StatedWork,
};
use super::operators::Calls;
use super::{Shown, Timeline, lane_label};
use crate::cost::Shape;
use crate::engine::Loaded;
use crate::graph::timed::NO_TASK;
use crate::graph::{Collective, DependencyKind, Lane, LaneId, LaneKind, NodeId, RankPart, TaskId, TaskKind};
use crate::units::{DurNs, TimeNs};

/// Host processes are numbered from here by rank, clear of the device numbers that stand for GPU processes.
const FIRST_PID: i64 = 100_000;
/// Devices of the next rank of a job are numbered so much higher.
const DEVICES_OF_RANK: i64 = 1_000;

impl<'a> Timeline<'a> {
    /// Chrome-trace JSON in the profiler's own form, all ranks in one document.
    ///
    /// # Errors
    /// None in practice: the document is plain data.
    pub fn chrome(&self, loaded: &'a Loaded) -> serde_json::Result<Vec<u8>> {
        self.document(loaded, &self.graph.ranks.iter().enumerate().collect::<Vec<_>>())
    }

    /// As [`chrome`](Self::chrome), a document for each rank, as profilers write them: opened together they are the same job.
    ///
    /// # Errors
    /// None in practice: the documents are plain data.
    pub fn chrome_by_rank(&self, loaded: &'a Loaded) -> serde_json::Result<Vec<(u32, Vec<u8>)>> {
        let parts = self.graph.ranks.iter().enumerate();
        parts.map(|part| Ok((part.1.rank.0, self.document(loaded, &[part])?))).collect()
    }

    /// The document of some ranks, each with its position among all.
    fn document(&self, loaded: &'a Loaded, parts: &[(usize, &'a RankPart)]) -> serde_json::Result<Vec<u8>> {
        let is_shown = |lane| self.lane(lane).is_some_and(|lane| parts.iter().any(|(_, part)| part.rank == lane.rank));
        let mut events = self.names(is_shown);
        let mut memory = None;
        for &(place, part) in parts {
            let main = self.steps(part, &mut events);
            if let Some(main) = &main {
                self.earlier_launches(main, &mut events);
            }
            self.annotations(loaded, part, &mut events);
            if !self.is_bare {
                memory = self.memory(place, main, &mut events).or(memory);
            }
        }
        let calls = Calls::of(self);
        self.operators(&calls, is_shown, &mut events);
        let mut last_call: BTreeMap<LaneId, usize> = BTreeMap::new();
        for shown in self.shown.iter().filter(|shown| is_shown(shown.lane)) {
            self.task(shown, &calls, &mut events, &mut last_call);
        }
        self.critical_flows(is_shown, &mut events);
        let changed = !self.outcome.scenario.steps.is_empty();
        let steps: Vec<String> =
            self.outcome.scenario.steps.iter().filter(|s| s.enabled).map(ToString::to_string).collect();
        let devices = parts.iter().filter_map(|&(at, _)| self.outcome.resolved.devices.get(at)).enumerate();
        let place = match parts {
            [(_, part)] => loaded.job.ranks.get(part.trace_index).zip(Some(part)),
            _ => None,
        };
        let predicted = if changed { Some(steps.join("; ")) } else { loaded.predicted().map(str::to_owned) };
        let document = Document {
            schema_version: 1,
            display_time_unit: "ms",
            retime_error: predicted.is_some().then(|| self.outcome.summary.relative_error()),
            retime_predicted: predicted,
            retime_batches: Some(self.outcome.resolved.repeats).filter(|&batches| batches > 1),
            retime_memory: memory,
            retime_iteration: parts.first().map_or(String::new(), |(_, part)| step_name(part)),
            distributed_info: place.and_then(|(rank, part)| {
                let loaded = || u32::try_from(self.graph.ranks.len()).ok().filter(|&n| n > 1);
                let known = self.outcome.resolved.rank_count.or(rank.world_size).or_else(loaded);
                known.map(|world_size| DistributedInfo { rank: part.rank.0, world_size })
            }),
            device_properties: devices.map(|(id, device)| DeviceProperties::of(id, device)).collect(),
            trace_events: events,
        };
        serde_json::to_vec(&document)
    }

    /// Process and thread that a lane is shown as; devices of several ranks are kept apart.
    pub(super) fn process(&self, lane: &Lane) -> (i64, Id) {
        let rank = i64::from(lane.rank.0);
        match lane.kind {
            LaneKind::Thread { tid } => (FIRST_PID + rank, Id(tid)),
            LaneKind::Stream { device, stream } if self.graph.ranks.len() > 1 => {
                (device + DEVICES_OF_RANK * rank, Id(stream))
            }
            LaneKind::Stream { device, stream } => (device, Id(stream)),
            LaneKind::Virtual => (-1, Id(0)),
        }
    }

    /// What viewers call the processes, threads and streams.
    fn names(&self, is_shown: impl Fn(LaneId) -> bool) -> Vec<Event<'a>> {
        let used: BTreeSet<LaneId> = self.shown.iter().map(|shown| shown.lane).filter(|&lane| is_shown(lane)).collect();
        let lanes = used.into_iter().filter_map(|lane| self.lane(lane));
        let mut names = Vec::new();
        let mut processes = BTreeSet::new();
        for lane in lanes.filter(|lane| lane.kind != LaneKind::Virtual) {
            let (pid, tid) = self.process(&lane);
            let (rank, what) = (lane.rank.0, if matches!(lane.kind, LaneKind::Thread { .. }) { "host" } else { "GPU" });
            if processes.insert(pid) {
                names.push(Event::named("process_name", (pid, Id(0)), format!("rank {rank} {what}")));
            }
            let own = self.graph.names.get(lane.name);
            let name = if own.is_empty() { lane_label(&lane) } else { own.to_owned() };
            names.push(Event::named("thread_name", (pid, tid), name));
        }
        names
    }

    /// The step at the chosen iteration and, where it was simulated, the one before it, as annotations on the main thread.
    ///
    /// # Returns
    /// That thread; `None` where the rank has no steps.
    fn steps(&self, part: &RankPart, events: &mut Vec<Event<'a>>) -> Option<Lane> {
        let on_thread = |task: TaskId| {
            let node = self.outcome.resolved.timed.node(task)?;
            let lane = self.lane(self.graph.tasks[node].lane)?;
            matches!(lane.kind, LaneKind::Thread { .. }).then_some((self.end(task), task, lane))
        };
        let host_end = |marker: NodeId| {
            let into = self.graph.tasks.neighbors_directed(marker, Incoming);
            let last = into.filter_map(|node| on_thread(self.outcome.resolved.timed.task(node)));
            // What ends behind a border is not waited for any more: a copy of it that runs before is.
            let border = self.end(self.outcome.resolved.timed.task(marker));
            let last = last.filter(|&(end, ..)| end <= border).max_by_key(|&(end, task, _)| (end, task));
            last.map(|(end, task, lane)| (self.through_sync(task, end), lane))
        };
        let (end, lane) = host_end(part.end).filter(|_| !part.iteration.is_empty())?;
        let number = step_number(part);
        let split = part.begin.and_then(host_end).map(|(split, _)| split);
        let before = split.map(|split| (number.saturating_sub(1), TimeNs(0), split));
        // A call that takes no time at the very end is in the step, too.
        let is_at_end = |shown: &Shown<'_>| {
            shown.kind == TaskKind::Runtime && self.start(shown.task) == end && self.end(shown.task) == end
        };
        let end = if self.shown.iter().any(is_at_end) { end + DurNs(1) } else { end };
        let spans = before.into_iter().chain([(number, split.unwrap_or(part.iteration_start), end)]);
        events.extend(spans.map(|(number, from, to)| {
            let name = format!("ProfilerStep#{number}").into();
            Event::complete("user_annotation", name, self.process(&lane), from, to, Args::default())
        }));
        Some(lane)
    }

    /// Calls before the first step, which stand for those that launched the work that was on its way when it began: opened
    /// again, that work keeps its times as it does here.
    fn earlier_launches(&self, main: &Lane, events: &mut Vec<Event<'a>>) {
        let is_hip = self.shown.iter().any(|shown| shown.kind == TaskKind::Runtime && shown.name.starts_with("hip"));
        let of_rank = |shown: &&Shown<'_>| self.lane(shown.lane).is_some_and(|lane| lane.rank == main.rank);
        let mut earlier: Vec<&Shown<'_>> =
            self.shown.iter().filter(of_rank).filter(|shown| self.is_from_before(shown)).collect();
        earlier.sort_by_key(|shown| (std::cmp::Reverse(self.start(shown.task)), shown.task));
        for (shown, before) in earlier.into_iter().zip(1..) {
            let at = TimeNs(-1_000 * before);
            let name = if is_hip { "hipLaunch" } else { "cudaLaunch" };
            let args = Args { correlation: Some(u64::from(shown.task.0) + 1), ..Args::default() };
            events.push(Event::complete("cuda_runtime", name.into(), self.process(main), at, at, args));
        }
    }

    /// Whether device work was launched before the window: it keeps its measured start, and no call of the window launched it. Work
    /// behind which the step queued has no launch, by which it is known again.
    fn is_from_before(&self, shown: &Shown<'_>) -> bool {
        let is_device = |node: &NodeId| shown.kind.is_device() && !self.graph.is_backlog(*node);
        let Some(node) = shown.node.filter(is_device) else { return false };
        let mut into = self.graph.tasks.edges_directed(node, Incoming);
        into.any(|edge| edge.weight().kind == DependencyKind::Anchor) && self.launch_of(shown).is_none()
    }

    /// When the thread of `last` goes on after a synchronisation that begins at `end`; `end` where none does.
    fn through_sync(&self, last: TaskId, end: TimeNs) -> TimeNs {
        let Ok(at) = self.shown.binary_search_by_key(&last, |shown| shown.task) else { return end };
        let lane = self.shown[at].lane;
        let mut after = self.shown[at + 1..].iter().filter(|shown| shown.lane == lane);
        let next = after.find(|shown| shown.kind != TaskKind::Runtime || self.start(shown.task) > end);
        let joint = next.filter(|shown| shown.kind == TaskKind::Joint && !self.ends_no_call(shown));
        joint.map_or(end, |joint| self.end(joint.task).max(end))
    }

    /// Whether the thread of a joint goes on when another thread lets it, or after a wait that no call shows, and no call of its own ends there.
    fn ends_no_call(&self, joint: &Shown<'_>) -> bool {
        let into = joint.node.into_iter().flat_map(|node| self.graph.tasks.edges_directed(node, Incoming));
        let (mut goes_on, mut is_return) = (false, false);
        for edge in into {
            goes_on |= matches!(edge.weight().kind, DependencyKind::HandOver | DependencyKind::HiddenWait);
            is_return |= edge.weight().kind == DependencyKind::HostWait;
        }
        goes_on && !is_return
    }

    /// A call or a piece of device work; a joint after a call draws the call's end out.
    fn task(
        &self,
        shown: &Shown<'a>,
        calls: &Calls,
        events: &mut Vec<Event<'a>>,
        last_call: &mut BTreeMap<LaneId, usize>,
    ) {
        let Some(lane) = self.lane(shown.lane) else { return };
        let (start, end) = (self.start(shown.task), self.end(shown.task));
        match shown.kind {
            TaskKind::Joint => {
                if self.ends_no_call(shown) {
                    last_call.remove(&shown.lane);
                }
                if let Some(&call) = last_call.get(&shown.lane) {
                    events[call].extend_to(end);
                }
            }
            // What was not recorded is inferred again from where it is missing.
            TaskKind::Unrecorded => {}
            TaskKind::Host(_) | TaskKind::Compute | TaskKind::StepEnd => {
                last_call.remove(&shown.lane);
            }
            TaskKind::Runtime => {
                let args = Args {
                    external_id: shown.operator.map(|id| calls.external(id, Some(shown.task))),
                    correlation: Some(u64::from(shown.task.0) + 1),
                    ..Args::default()
                };
                last_call.insert(shown.lane, events.len());
                events.push(Event::complete("cuda_runtime", shown.name.into(), self.process(&lane), start, end, args));
            }
            TaskKind::Kernel | TaskKind::Memcpy | TaskKind::Memset | TaskKind::Collective(_) => {
                let start = self.arrival(shown).unwrap_or(start);
                events.push(self.device_event(shown, calls, &lane, (start, end)));
            }
        }
    }

    fn device_event(&self, shown: &Shown<'a>, calls: &Calls, lane: &Lane, (start, end): (TimeNs, TimeNs)) -> Event<'a> {
        if matches!(lane.kind, LaneKind::Thread { .. }) {
            return self.host_collective(shown, lane, (start, end));
        }
        let category = match shown.kind {
            TaskKind::Memcpy => "gpu_memcpy",
            TaskKind::Memset => "gpu_memset",
            _ => "kernel",
        };
        let (device, stream) = match lane.kind {
            LaneKind::Stream { device, stream } => (Some(device), Some(stream)),
            _ => (None, None),
        };
        let is_copy = matches!(shown.kind, TaskKind::Memcpy | TaskKind::Memset);
        let collective = self.collective_of(shown);
        let launch = self.launch_of(shown);
        let args = Args {
            external_id: shown.operator.map(|id| calls.external(id, launch)),
            correlation: launch
                .or_else(|| self.is_from_before(shown).then_some(shown.task))
                .map(|task| u64::from(task.0) + 1),
            device,
            stream,
            bytes: is_copy.then_some(shown.bytes),
            work: self.stated_work(shown),
            source: Some(format!("{:?}", shown.prediction.source()).to_lowercase()),
            message: collective.map(|one| {
                Box::new(Message {
                    collective: Some(self.graph.names.get(one.kind).to_owned()),
                    group: Some(self.graph.names.get(one.group).to_owned()),
                    group_size: Some(ranks_of(shown).unwrap_or(one.group_size)).filter(|_| one.group_size > 0),
                    in_elements: Some(message(shown, one)),
                    element: Some("Byte"),
                    sequence_in_group: shown.in_collective.map(|member| member.position),
                })
            }),
            ..Args::default()
        };
        Event::complete(category, shown.name.into(), self.process(lane), start, end, args).on_whole_micros()
    }

    /// Whether the file states what there is to do: arguments of operators may tell another work once edits have changed what there is,
    /// or did so before.
    pub(super) fn states_works(&self) -> bool {
        self.outcome.scenario.steps.iter().any(|step| step.enabled) || !self.graph.stated.is_empty()
    }

    /// The work of a kernel, where the file states it.
    fn stated_work(&self, shown: &Shown<'_>) -> Option<StatedWork> {
        (shown.kind == TaskKind::Kernel && self.states_works()).then(|| StatedWork::of(shown.work))
    }

    /// When the rank of a collective's member is there: its kernel runs from then on, waiting for the others.
    fn arrival(&self, shown: &Shown<'_>) -> Option<TimeNs> {
        Some(self.end(shown.in_collective?.arrival?))
    }

    /// What a member of a collective took part in.
    fn collective_of(&self, shown: &Shown<'_>) -> Option<&'a Collective> {
        match shown.kind {
            TaskKind::Collective(id) => self.graph.collectives.get(id.0 as usize),
            _ => None,
        }
    }

    /// A collective of a host backend: an annotation on the backend's own thread, with its message as the profiler has it.
    fn host_collective(&self, shown: &Shown<'a>, lane: &Lane, (start, end): (TimeNs, TimeNs)) -> Event<'a> {
        let bytes = self.collective_of(shown).map(|one| message(shown, one)).filter(|&bytes| bytes > 0);
        let args = Args {
            arguments: bytes.map(|bytes| {
                let (input_dims, input_type) = (vec![event::Dims::One(vec![bytes])], vec!["signed char"]);
                let (input_dims, input_type) = (Some(input_dims), Some(input_type));
                Box::new(Arguments { input_dims, input_type, ..Arguments::default() })
            }),
            source: Some(format!("{:?}", shown.prediction.source()).to_lowercase()),
            ..Args::default()
        };
        Event::complete("user_annotation", shown.name.into(), self.process(lane), start, end, args)
    }

    /// The call of the same rank that launched a piece of device work: a runtime call among its predecessors, looked for
    /// through joints, such as the one behind a call that waited. Of a collective's member a predecessor of its rank's arrival.
    pub(super) fn launch_of(&self, shown: &Shown<'_>) -> Option<TaskId> {
        let timed = &*self.outcome.resolved.timed;
        let rank = self.lane(shown.lane)?.rank;
        let arrival = shown.in_collective.and_then(|member| member.arrival);
        let mut waiting = vec![arrival.unwrap_or(shown.task).0];
        // Between two tasks there are many ways through joints and what edits removed.
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        while let Some(row) = waiting.pop() {
            for &predecessor in timed.predecessors[row as usize].iter().filter(|&&p| p != NO_TASK) {
                let found = self.shown.binary_search_by_key(&TaskId(predecessor), |shown| shown.task);
                match found.map(|at| &self.shown[at]) {
                    Ok(call) if call.kind == TaskKind::Runtime && self.lane(call.lane)?.rank == rank => {
                        return Some(call.task);
                    }
                    Ok(other) if other.kind != TaskKind::Joint || !is_thread(self.lane(other.lane)) => {}
                    _ if seen.insert(predecessor) => waiting.push(predecessor),
                    _ => {}
                }
            }
        }
        None
    }

    /// An arrow from each task of the critical path to the next.
    fn critical_flows(&self, is_shown: impl Fn(LaneId) -> bool, events: &mut Vec<Event<'a>>) {
        let is_on_path = |shown: &&Shown<'_>| shown.kind.is_work() && self.critical[shown.task.0 as usize];
        let path: Vec<&Shown<'_>> = self.shown.iter().filter(is_on_path).filter(|shown| is_shown(shown.lane)).collect();
        for (id, pair) in path.windows(2).enumerate() {
            let (Some(from), Some(to)) = (self.lane(pair[0].lane), self.lane(pair[1].lane)) else { continue };
            events.push(Event::flow("s", id as u64 + 1, self.process(&from), self.start(pair[0].task)));
            events.push(Event::flow("f", id as u64 + 1, self.process(&to), self.start(pair[1].task)));
        }
    }
}

/// The number of the chosen step, of `ProfilerStep#3` or `step 3`.
fn step_number(part: &RankPart) -> u64 {
    part.iteration.rsplit(['#', ' ']).next().and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// The name of the chosen step in the file, one however many recorded steps it consists of; empty where the rank has no steps.
fn step_name(part: &RankPart) -> String {
    if part.iteration.is_empty() { String::new() } else { format!("ProfilerStep#{}", step_number(part)) }
}

/// The bytes of a collective's message after all edits, as recorded where its work is not known.
fn message(shown: &Shown<'_>, recorded: &Collective) -> u64 {
    if ranks_of(shown).is_some() { shown.bytes } else { recorded.bytes.0 }
}

/// How many ranks take part in a collective after all edits; `None` where its work is not known.
fn ranks_of(shown: &Shown<'_>) -> Option<u32> {
    match shown.work?.shape {
        Shape::Collective { ranks, .. } => Some(ranks),
        _ => None,
    }
}

fn is_thread(lane: Option<Lane>) -> bool {
    lane.is_some_and(|lane| matches!(lane.kind, LaneKind::Thread { .. }))
}
