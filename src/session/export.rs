//! The simulated timeline as a file: Chrome-trace JSON that Perfetto shows and this program opens again, CSV or JSON rows.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cost::Prediction;
use crate::graph::timed::NO_TASK;
use crate::graph::{ExecutionGraph, Lane, LaneId, LaneKind, NodeId, Operand, OperatorId, RankPart, TaskId, TaskKind};
use crate::units::TimeNs;

use super::{Loaded, Outcome};

mod event;

use event::{Args, DeviceProperties, Document, Event, Id};

/// Host processes are numbered from here by rank, clear of the device numbers that stand for GPU processes.
const FIRST_PID: i64 = 100_000;

/// One task of the simulated timeline.
#[derive(Clone, Debug, Serialize)]
pub struct TaskRow {
    /// Global rank.
    pub rank: u32,
    /// `thread 123` or `stream 7`.
    pub lane: String,
    /// What it is, e.g. `kernel`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The operator it belongs to.
    pub operator: String,
    /// Simulated start.
    pub start_ns: i64,
    /// Simulated duration.
    pub duration_ns: i64,
    /// Measured duration; 0 for a task that was added.
    pub measured_ns: i64,
    /// `measured`, `anchored`, `absolute` or `unmodelled`.
    pub source: String,
    /// Whether it lies on the critical path.
    pub critical: bool,
}

/// A task that takes time, traced or added.
struct Shown<'a> {
    task: TaskId,
    node: Option<NodeId>,
    kind: TaskKind,
    name: &'a str,
    lane: LaneId,
    operator: Option<OperatorId>,
    prediction: Prediction,
    bytes: u64,
}

/// The simulated timeline of an outcome.
pub struct Timeline<'a> {
    outcome: &'a Outcome,
    graph: &'a ExecutionGraph,
    shown: Vec<Shown<'a>>,
    critical: Vec<bool>,
}

impl<'a> Timeline<'a> {
    /// Gathers the tasks of `outcome` in order.
    pub fn new(outcome: &'a Outcome) -> Self {
        let resolved = &*outcome.resolved;
        let graph = &*resolved.graph;
        let traced = graph.tasks.node_indices().filter(|&node| !resolved.is_removed(node)).map(|node| {
            let task = &graph.tasks[node];
            Shown {
                task: resolved.timed.task(node),
                node: Some(node),
                kind: task.kind,
                name: graph.names.get(task.name),
                lane: task.lane,
                operator: task.operator,
                prediction: resolved.prediction(node),
                bytes: task.bytes.0,
            }
        });
        let added = resolved.added.iter().map(|added| Shown {
            task: added.task,
            node: None,
            kind: added.kind,
            name: &added.name,
            lane: added.lane,
            operator: added.operator,
            prediction: added.prediction,
            bytes: added.work.as_ref().map_or(0, |work| work.bytes().0),
        });
        let mut shown: Vec<Shown<'a>> = traced.chain(added).collect();
        shown.sort_by_key(|shown| shown.task);
        let mut critical = vec![false; resolved.timed.len()];
        for task in outcome.critical_tasks() {
            critical[task.0 as usize] = true;
        }
        Self { outcome, graph, shown, critical }
    }

    fn start(&self, task: TaskId) -> TimeNs {
        self.outcome.schedule.start(&self.outcome.resolved.timed, task)
    }

    fn end(&self, task: TaskId) -> TimeNs {
        self.outcome.schedule.end(task)
    }

    fn lane(&self, lane: LaneId) -> Option<Lane> {
        let index = lane.0 as usize;
        let added = || self.outcome.resolved.added_lanes.get(index - self.graph.lanes.len()).map(|(lane, _)| *lane);
        self.graph.lanes.get(index).copied().or_else(added)
    }

    /// One row per task, in order of the simulation.
    pub fn rows(&self) -> Vec<TaskRow> {
        let row = |shown: &Shown<'_>| {
            let lane = self.lane(shown.lane)?;
            let source = format!("{:?}", shown.prediction.provenance).to_lowercase();
            Some(TaskRow {
                rank: lane.rank.0,
                lane: lane_label(&lane),
                kind: kind_label(shown.kind),
                name: shown.name.to_owned(),
                operator: shown.operator.map(|id| self.operator_name(id).to_owned()).unwrap_or_default(),
                start_ns: self.start(shown.task).0,
                duration_ns: self.end(shown.task).since(self.start(shown.task)).0,
                measured_ns: shown.node.map_or(0, |node| self.graph.tasks[node].measured.0),
                source,
                critical: self.critical[shown.task.0 as usize],
            })
        };
        self.shown.iter().filter(|shown| shown.kind.is_work()).filter_map(row).collect()
    }

    fn operator_name(&self, id: OperatorId) -> &str {
        self.graph.names.get(self.graph.operators[id.0 as usize].name)
    }

    /// Chrome-trace JSON in the profiler's own form.
    ///
    /// # Errors
    /// None in practice: the document is plain data.
    pub fn chrome(&self, loaded: &Loaded) -> serde_json::Result<Vec<u8>> {
        let mut events = Vec::new();
        for part in &self.graph.ranks {
            self.steps(part, &mut events);
        }
        self.operators(&mut events);
        let mut last_call: BTreeMap<LaneId, usize> = BTreeMap::new();
        for shown in &self.shown {
            self.task(shown, &mut events, &mut last_call);
        }
        self.critical_flows(&mut events);
        let changed = !self.outcome.scenario.steps.is_empty();
        let steps: Vec<String> =
            self.outcome.scenario.steps.iter().filter(|s| s.enabled).map(ToString::to_string).collect();
        let devices = self.outcome.resolved.devices.iter().enumerate();
        let document = Document {
            schema_version: 1,
            display_time_unit: "ms",
            retime_predicted: if changed { Some(steps.join("; ")) } else { loaded.predicted().map(str::to_owned) },
            retime_iteration: self.graph.ranks.first().map_or("", |part| &part.iteration),
            device_properties: devices.map(|(id, device)| DeviceProperties::of(id, device)).collect(),
            trace_events: events,
        };
        serde_json::to_vec(&document)
    }

    /// The steps before and at the chosen iteration, as annotations on the rank's busiest thread.
    fn steps(&self, part: &RankPart, events: &mut Vec<Event<'a>>) {
        let Some(begin) = part.begin else { return };
        let on_thread = |task: TaskId| {
            let node = self.outcome.resolved.timed.node(task)?;
            let lane = self.lane(self.graph.tasks[node].lane)?;
            matches!(lane.kind, LaneKind::Thread { .. }).then_some((self.end(task), lane))
        };
        let host_end = |marker: NodeId| {
            let into = self.graph.tasks.neighbors_directed(marker, petgraph::Direction::Incoming);
            into.filter_map(|node| on_thread(self.outcome.resolved.timed.task(node))).max_by_key(|(end, _)| *end)
        };
        let (Some((split, lane)), Some((end, _))) = (host_end(begin), host_end(part.end)) else { return };
        let number: u64 = part.iteration.rsplit('#').next().and_then(|number| number.parse().ok()).unwrap_or(1);
        let spans = [(number.saturating_sub(1), TimeNs(0), split), (number, split, end)];
        events.extend(spans.map(|(number, from, to)| {
            let name = format!("ProfilerStep#{number}").into();
            Event::complete("user_annotation", name, process(&lane), from, to, Args::default())
        }));
    }

    /// Every operator over the simulated time of what it and its callees did on their thread.
    fn operators(&self, events: &mut Vec<Event<'a>>) {
        let spans = self.operator_spans();
        for (operator, (index, span)) in self.graph.operators.iter().zip(spans.into_iter().enumerate()) {
            let (Some((from, to)), Some(lane)) = (span, self.lane(operator.lane)) else { continue };
            let operands = operator.operands.map(|id| &self.graph.operands[id.0 as usize].inputs);
            let args = Args {
                external_id: Some(index as u64 + 1),
                sequence_number: operator.sequence,
                input_dims: operands.map(|inputs| inputs.iter().map(event::dims).collect()),
                input_type: operands.map(|inputs| inputs.iter().map(event::type_name).collect()),
                concrete_inputs: operands.map(|inputs| inputs.iter().map(concrete).collect()),
                ..Args::default()
            };
            let name = self.graph.names.get(operator.name).into();
            events.push(Event::complete("cpu_op", name, process(&lane), from, to, args));
        }
    }

    /// The simulated span of each operator; one without host time of its own, such as a view on a device, stands where
    /// the call before it in the same caller ended.
    fn operator_spans(&self) -> Vec<Option<(TimeNs, TimeNs)>> {
        let operators = &self.graph.operators;
        let mut spans: Vec<Option<(TimeNs, TimeNs)>> = vec![None; operators.len()];
        let mut calling: BTreeMap<LaneId, Option<OperatorId>> = BTreeMap::new();
        for shown in &self.shown {
            let on_host = self.lane(shown.lane).is_some_and(|lane| matches!(lane.kind, LaneKind::Thread { .. }));
            let mut next = match shown.kind {
                TaskKind::Joint => calling.get(&shown.lane).copied().flatten(),
                _ => shown.operator,
            };
            if on_host {
                calling.insert(shown.lane, next.filter(|_| matches!(shown.kind, TaskKind::Runtime | TaskKind::Joint)));
            }
            while let Some(id) = next.filter(|_| on_host) {
                let (from, to) = (self.start(shown.task), self.end(shown.task));
                let span = spans[id.0 as usize].get_or_insert((from, to));
                *span = (span.0.min(from), span.1.max(to));
                next = operators[id.0 as usize].parent;
            }
        }
        let mut reached: Vec<Option<TimeNs>> = vec![None; operators.len()];
        for (index, operator) in operators.iter().enumerate() {
            let Some(caller) = operator.parent.map(|id| id.0 as usize) else { continue };
            let at = reached[caller].or_else(|| spans[caller].map(|(from, _)| from));
            spans[index] = spans[index].or_else(|| at.map(|at| (at, at)));
            reached[caller] = spans[index].map(|(_, to)| to);
        }
        spans
    }

    /// A call or a piece of device work; a joint after a call draws the call's end out.
    fn task(&self, shown: &Shown<'a>, events: &mut Vec<Event<'a>>, last_call: &mut BTreeMap<LaneId, usize>) {
        let Some(lane) = self.lane(shown.lane) else { return };
        let (start, end) = (self.start(shown.task), self.end(shown.task));
        match shown.kind {
            TaskKind::Joint => {
                if let Some(&call) = last_call.get(&shown.lane) {
                    events[call].extend_to(end);
                }
            }
            TaskKind::Host(_) | TaskKind::Compute | TaskKind::StepEnd => {
                last_call.remove(&shown.lane);
            }
            TaskKind::Runtime => {
                let args = Args {
                    external_id: shown.operator.map(|id| u64::from(id.0) + 1),
                    correlation: Some(u64::from(shown.task.0) + 1),
                    ..Args::default()
                };
                last_call.insert(shown.lane, events.len());
                events.push(Event::complete("cuda_runtime", shown.name.into(), process(&lane), start, end, args));
            }
            TaskKind::Kernel | TaskKind::Memcpy | TaskKind::Memset | TaskKind::Collective(_) => {
                events.push(self.device_event(shown, &lane, (start, end)));
            }
        }
    }

    fn device_event(&self, shown: &Shown<'a>, lane: &Lane, (start, end): (TimeNs, TimeNs)) -> Event<'a> {
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
        let args = Args {
            external_id: shown.operator.map(|id| u64::from(id.0) + 1),
            correlation: self.launch_of(shown.task).map(|task| u64::from(task.0) + 1),
            device,
            stream,
            bytes: is_copy.then_some(shown.bytes),
            source: Some(format!("{:?}", shown.prediction.provenance).to_lowercase()),
            ..Args::default()
        };
        Event::complete(category, shown.name.into(), process(lane), start, end, args)
    }

    /// The call that launched a piece of device work: a runtime call among its predecessors, joints looked through.
    fn launch_of(&self, task: TaskId) -> Option<TaskId> {
        let timed = &*self.outcome.resolved.timed;
        let mut waiting = vec![task.0];
        while let Some(row) = waiting.pop() {
            for &predecessor in timed.predecessors[row as usize].iter().filter(|&&p| p != NO_TASK) {
                let found = self.shown.binary_search_by_key(&TaskId(predecessor), |shown| shown.task);
                match found.map(|at| self.shown[at].kind) {
                    Ok(TaskKind::Runtime) => return Some(TaskId(predecessor)),
                    Err(_) => waiting.push(predecessor),
                    Ok(_) => {}
                }
            }
        }
        None
    }

    /// An arrow from each task of the critical path to the next.
    fn critical_flows(&self, events: &mut Vec<Event<'a>>) {
        let path: Vec<&Shown<'_>> =
            self.shown.iter().filter(|shown| shown.kind.is_work() && self.critical[shown.task.0 as usize]).collect();
        for (id, pair) in path.windows(2).enumerate() {
            let (Some(from), Some(to)) = (self.lane(pair[0].lane), self.lane(pair[1].lane)) else { continue };
            events.push(Event::flow("s", id as u64 + 1, process(&from), self.start(pair[0].task)));
            events.push(Event::flow("f", id as u64 + 1, process(&to), self.start(pair[1].task)));
        }
    }
}

fn concrete(operand: &Operand) -> String {
    match operand {
        Operand::Value(text) => text.clone(),
        _ => String::new(),
    }
}

/// Process and thread that a lane is shown as.
fn process(lane: &Lane) -> (i64, Id) {
    match lane.kind {
        LaneKind::Thread { tid } => (FIRST_PID + i64::from(lane.rank.0), Id(tid)),
        LaneKind::Stream { device, stream } => (device, Id(stream)),
        LaneKind::Virtual => (-1, Id(0)),
    }
}

/// How a lane is called: `thread 123` or `stream 7`.
pub fn lane_label(lane: &Lane) -> String {
    match lane.kind {
        LaneKind::Thread { tid } => format!("thread {tid}"),
        LaneKind::Stream { stream, .. } => format!("stream {stream}"),
        LaneKind::Virtual => String::new(),
    }
}

fn kind_label(kind: TaskKind) -> String {
    use crate::graph::HostPart;
    match kind {
        TaskKind::Host(HostPart::Between) => "T1",
        TaskKind::Host(HostPart::BeforeLaunch) => "T2",
        TaskKind::Host(HostPart::AfterLaunch) => "T3",
        TaskKind::Host(HostPart::Inside) => "T5",
        TaskKind::Compute => "compute",
        TaskKind::Runtime => "runtime",
        TaskKind::Kernel => "kernel",
        TaskKind::Memcpy => "memcpy",
        TaskKind::Memset => "memset",
        TaskKind::Collective(_) => "collective",
        TaskKind::Joint | TaskKind::StepEnd => "joint",
    }
    .to_owned()
}
