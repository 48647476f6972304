//! The host's side: every top-level operator as T2, its calls with T5 between them, and T3; T1 between operators.

use std::sync::Arc;

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::overhead::LONGEST_GAP;
use crate::cost::{OverheadKind, Prediction, Provenance, Work};
use crate::device::DeviceKind;
use crate::graph::{
    Dependency, DependencyKind, ExecutionGraph, HostPart, Lane, LaneId, LaneKind, NodeId, OperatorId, TaskKind,
};
use crate::intern::NameId;
use crate::scenario::draft::{Added, AddedId, Draft, Node, Source};
use crate::units::{Bytes, DurNs, TimeNs};

use super::inputs::{self, Input};
use super::kernels::{Piece, input_copy, pieces};
use crate::scenario::transforms::report::Kept;

/// The stream that everything goes to, as frameworks number their first.
const STREAM: i64 = 7;

const AT_ONCE: Dependency = Dependency { kind: DependencyKind::Program, lag: DurNs::ZERO, of_predecessor: 0.0 };

/// What was placed.
#[derive(Debug, Default)]
pub(super) struct Tally<'b> {
    pub(super) kernels: usize,
    pub(super) calls: usize,
    pub(super) changed: usize,
    /// Inputs that are copied to the device, and those of the step.
    pub(super) inputs: (usize, usize),
    /// Operators without a model: how many, and their traced time.
    pub(super) unmodelled: Kept<'b>,
}

/// Consecutive tasks of a thread that belong to one top-level operator, or to none.
#[derive(Debug)]
struct Group {
    lane: LaneId,
    rank: usize,
    root: Option<OperatorId>,
    start: TimeNs,
    nodes: Vec<NodeId>,
    /// Those among and after `nodes` that steps before took out.
    gone: Vec<NodeId>,
}

impl Group {
    fn has(&self, node: NodeId) -> bool {
        self.nodes.binary_search(&node).is_ok() || self.gone.binary_search(&node).is_ok()
    }
}

/// The only stream of a rank.
#[derive(Debug)]
struct Stream {
    lane: LaneId,
    /// Its work in order, with the measured start of the operator that launched it.
    work: Vec<(TimeNs, AddedId)>,
}

/// A draft while it is placed on a device.
#[derive(Debug)]
pub(super) struct Placement<'d, 'b> {
    draft: &'d mut Draft<'b>,
    graph: &'b ExecutionGraph,
    streams: Vec<Stream>,
    /// What runs last in place of a traced task that ended an operator.
    tails: FxHashMap<NodeId, Node>,
    /// Tasks whose work their operators' arguments do not show: updates that touch few rows of a table.
    updates: FxHashSet<NodeId>,
    /// Operators whose work another does.
    passed_on: FxHashSet<OperatorId>,
    /// What a step is given, by top-level operator.
    inputs: FxHashMap<OperatorId, Vec<Input>>,
    pub(super) tally: Tally<'b>,
}

/// Tasks of a thread as they are added, one after another.
#[derive(Clone, Copy, Debug)]
struct Chain {
    lane: LaneId,
    beside: NodeId,
    last: Node,
}

impl<'d, 'b> Placement<'d, 'b> {
    pub(super) fn new(draft: &'d mut Draft<'b>) -> Self {
        let graph = draft.graph();
        let streams = graph.ranks.iter().map(|part| {
            let kind = LaneKind::Stream { device: i64::from(part.rank.0), stream: STREAM };
            let lane = Lane { rank: part.rank, kind, name: NameId(0), communication: false };
            Stream { lane: draft.add_lane(lane, format!("stream {STREAM}")), work: Vec::new() }
        });
        let streams = streams.collect();
        let mut inputs: FxHashMap<OperatorId, Vec<Input>> = FxHashMap::default();
        for input in inputs::of_steps(draft) {
            inputs.entry(root_of(graph, input.operator)).or_default().push(input);
        }
        let updates = draft.base().sparse_updates().into_iter().collect();
        let others = draft.merged_members().flat_map(|(members, _)| members).filter(|&&node| draft.is_removed(node));
        let passed_on = others.filter_map(|&node| graph.tasks[node].operator).collect();
        Self { draft, graph, streams, tails: FxHashMap::default(), updates, passed_on, inputs, tally: Tally::default() }
    }

    /// Places all ranks, operators in the order in which they ran.
    pub(super) fn write(&mut self) {
        for group in groups(self.draft) {
            match group.root {
                Some(root) => self.operator(&group, root),
                None => self.gap(&group),
            }
        }
        for (rank, part) in self.graph.ranks.iter().enumerate() {
            for (marker, until) in [(part.begin, part.iteration_start), (Some(part.end), part.iteration_end)] {
                if let Some(marker) = marker {
                    self.synchronise(marker, rank, until);
                }
            }
        }
    }

    /// The database's mean of an overhead.
    fn overhead(&self, kind: OverheadKind, of: &str, lane: LaneId) -> Prediction {
        let rank = self.draft.base().rank_index(lane);
        if self.draft.device(rank).is_some_and(|device| device.kind != DeviceKind::Gpu) {
            return super::no_launch();
        }
        let found = self.draft.overheads().get(kind, of);
        let (mean, spread) = found.map_or((0.0, 0.0), |statistic| (statistic.mean_us, statistic.std_us));
        let error = if mean > 0.0 { (spread / mean) as f32 } else { 1.0 };
        let duration = DurNs::from_us_f64(mean);
        Prediction { duration, provenance: Provenance::Absolute, model: "overheads", error, extrapolated: false }
    }

    fn gap(&mut self, group: &Group) {
        let all: DurNs = group.nodes.iter().map(|&node| self.graph.tasks[node].duration).sum();
        if all <= LONGEST_GAP {
            self.take(group, self.overhead(OverheadKind::T1, "", group.lane));
        }
    }

    /// Lets the group's first task take `time` and the others nothing.
    fn take(&mut self, group: &Group, time: Prediction) {
        for (index, &node) in group.nodes.iter().enumerate() {
            if index == 0 {
                self.draft.fix_duration(node, time);
            } else {
                self.draft.remove(node);
            }
        }
        self.tally.changed += group.nodes.len();
    }

    fn operator(&mut self, group: &Group, root: OperatorId) {
        let name = self.graph.names.get(self.graph.operators[root.0 as usize].name);
        let (inputs, launches) = (self.inputs.remove(&root).unwrap_or_default(), self.launches(group));
        let is_empty = inputs.is_empty() && launches.is_empty();
        let Some(&beside) = group.nodes.last().filter(|_| !is_empty) else {
            let inside = self.overhead(OverheadKind::T5, name, group.lane);
            return self.take(group, inside);
        };
        let mut chain = Chain { lane: group.lane, beside, last: Node::Traced(beside) };
        for input in inputs {
            self.give(&mut chain, group, input);
        }
        let mut before = (HostPart::BeforeLaunch, OverheadKind::T2);
        for (operator, nodes, piece) in launches {
            let caller = self.graph.operators[operator.0 as usize].parent.unwrap_or(root);
            self.host(&mut chain, before, (Some(caller), name));
            self.launch(&mut chain, group, (Some(operator), nodes), piece);
            before = (HostPart::Inside, OverheadKind::T5);
        }
        let after = match before {
            (HostPart::BeforeLaunch, _) => (HostPart::Inside, OverheadKind::T5),
            _ => (HostPart::AfterLaunch, OverheadKind::T3),
        };
        self.host(&mut chain, after, (Some(root), name));
        self.replace(group, chain.last);
    }

    /// Copies an input to the device, an operator of its own before the one that reads it.
    fn give(&mut self, chain: &mut Chain, group: &Group, input: Input) {
        const NAME: &str = "aten::to";
        let launched = self.draft.device(group.rank).is_some_and(|device| device.kind == DeviceKind::Gpu);
        let Some(piece) = input_copy(self.draft, input, group.rank).filter(|_| launched) else { return };
        let (all, shown) = self.tally.inputs;
        let is_shown = self.draft.is_in_step(Node::Traced(chain.beside));
        self.tally.inputs = (all + 1, shown + usize::from(is_shown));
        self.host(chain, (HostPart::BeforeLaunch, OverheadKind::T2), (None, NAME));
        self.launch(chain, group, (None, Vec::new()), piece);
        self.host(chain, (HostPart::AfterLaunch, OverheadKind::T3), (None, NAME));
        self.host(chain, (HostPart::Between, OverheadKind::T1), (None, ""));
    }

    /// Everything that the operators of a group launch, in order, with the traced tasks it stands for.
    fn launches(&mut self, group: &Group) -> Vec<(OperatorId, Vec<NodeId>, Piece)> {
        let mut computing: Vec<(OperatorId, Vec<NodeId>)> = Vec::new();
        for &node in &group.nodes {
            let task = &self.graph.tasks[node];
            let Some(operator) = task.operator.filter(|_| task.kind == TaskKind::Compute) else { continue };
            match computing.iter_mut().find(|(known, _)| *known == operator) {
                Some((_, nodes)) => nodes.push(node),
                None => computing.push((operator, vec![node])),
            }
        }
        let mut all = Vec::new();
        for (operator, nodes) in computing {
            let computes = |&node: &NodeId| self.draft.work(node).is_some();
            if self.passed_on.contains(&operator) && !nodes.iter().any(computes) {
                continue;
            }
            let own = nodes.iter().find_map(|&node| Some((node, self.own_work(node)?)));
            for mut piece in pieces(self.draft, operator, group.rank, own) {
                if piece.prediction.provenance == Provenance::Unmodelled {
                    if self.draft.device(group.rank).is_some_and(|device| device.kind != DeviceKind::Gpu) {
                        // Another host takes what this one took.
                        let times = nodes.iter().map(|&node| self.graph.tasks[node].duration);
                        piece.prediction.duration = times.sum();
                    }
                    let name = self.graph.names.get(self.graph.operators[operator.0 as usize].name);
                    for &node in &nodes {
                        self.tally.unmodelled.add_as(self.draft, name, (node, self.graph.tasks[node].duration));
                    }
                }
                all.push((operator, nodes.clone(), piece));
            }
        }
        all
    }

    /// The work of a task whose operator's arguments do not show it.
    fn own_work(&self, node: NodeId) -> Option<Work> {
        let is_own = self.draft.is_merged(node) || self.updates.contains(&node);
        self.draft.work(node).filter(|_| is_own).cloned()
    }

    fn append(
        &mut self,
        chain: &mut Chain,
        kind: TaskKind,
        (operator, name): (Option<OperatorId>, &str),
        time: Prediction,
    ) -> AddedId {
        let id = self.draft.add(Added {
            name: name.into(),
            kind,
            lane: chain.lane,
            operator,
            bytes: Bytes(0),
            work: None,
            price: time.into(),
            members: Vec::new(),
            source: Source::Given,
            caller: None,
            after: chain.beside,
        });
        self.draft.connect(chain.last, Node::Added(id), AT_ONCE);
        chain.last = Node::Added(id);
        self.tally.changed += 1;
        id
    }

    fn host(
        &mut self,
        chain: &mut Chain,
        (part, kind): (HostPart, OverheadKind),
        (within, name): (Option<OperatorId>, &str),
    ) {
        let time = self.overhead(kind, name, chain.lane);
        self.append(chain, TaskKind::Host(part), (within, name), time);
    }

    fn call(&mut self, chain: &mut Chain, operator: Option<OperatorId>, name: &str) -> AddedId {
        let time = self.overhead(OverheadKind::T4, name, chain.lane);
        self.tally.calls += 1;
        self.append(chain, TaskKind::Runtime, (operator, name), time)
    }

    fn launch(
        &mut self,
        chain: &mut Chain,
        group: &Group,
        (operator, members): (Option<OperatorId>, Vec<NodeId>),
        piece: Piece,
    ) {
        let call = self.call(chain, operator, piece.call);
        let lane = self.streams[group.rank].lane;
        let Piece { name, kind, bytes, work, prediction, source, blocks, .. } = piece;
        let (name, work) = (name.into(), work.map(Arc::new));
        let after = chain.beside;
        let price = prediction.into();
        let added = Added { name, kind, lane, operator, bytes, work, price, members, source, caller: None, after };
        let id = self.draft.add(added);
        let device = self.draft.device(group.rank);
        let launched = device.filter(|device| device.kind == DeviceKind::Gpu);
        let (latency, between) = launched.map_or((DurNs::ZERO, DurNs::ZERO), |d| (d.launch_latency, d.kernel_start));
        self.draft.connect(Node::Added(call), Node::Added(id), Dependency::on_end(DependencyKind::Launch, latency));
        if let Some(&(_, previous)) = self.streams[group.rank].work.last() {
            let in_order = Dependency::on_end(DependencyKind::Stream, between);
            self.draft.connect(Node::Added(previous), Node::Added(id), in_order);
        }
        self.streams[group.rank].work.push((group.start, id));
        self.tally.kernels += usize::from(kind == TaskKind::Kernel && self.draft.is_in_step(Node::Added(id)));
        self.tally.changed += 1;
        if blocks {
            self.join(chain, id);
        }
    }

    /// A call that returns when `work` has ended.
    fn wait(&mut self, chain: &mut Chain, operator: Option<OperatorId>, call: &str, work: AddedId) {
        self.call(chain, operator, call);
        self.join(chain, work);
    }

    /// Lets the last call return when `work` has ended, as a copy from or to memory that is not pinned does.
    fn join(&mut self, chain: &mut Chain, work: AddedId) {
        let joint = self.append(chain, TaskKind::Joint, (None, ""), Prediction::measured(DurNs::ZERO));
        let ended = Dependency::on_end(DependencyKind::HostWait, DurNs::ZERO);
        self.draft.connect(Node::Added(work), Node::Added(joint), ended);
    }

    /// Takes the group's traced tasks out; what waited for them waits for `tail`.
    fn replace(&mut self, group: &Group, tail: Node) {
        for &node in &group.nodes {
            self.draft.remove(node);
            self.tails.insert(node, tail);
        }
        for &node in group.nodes.iter().chain(&group.gone) {
            for edge in self.graph.tasks.edges(node).filter(|edge| !group.has(edge.target())) {
                let Dependency { kind, lag, .. } = *edge.weight();
                self.draft.connect(tail, Node::Traced(edge.target()), Dependency::on_end(kind, lag));
            }
        }
        self.tally.changed += group.nodes.len();
    }

    /// Ends a step: the thread waits for all that was launched before `until`, and the marker for both.
    fn synchronise(&mut self, marker: NodeId, rank: usize, until: TimeNs) {
        let launched = self.streams[rank].work.partition_point(|&(start, _)| start < until);
        let Some(&(_, work)) = launched.checked_sub(1).and_then(|last| self.streams[rank].work.get(last)) else {
            return;
        };
        let is_thread = |node: &NodeId| {
            let lane = &self.graph.lanes[self.graph.tasks[*node].lane.0 as usize];
            matches!(lane.kind, LaneKind::Thread { .. })
        };
        let into: Vec<NodeId> = self.graph.tasks.neighbors_directed(marker, Incoming).filter(is_thread).collect();
        for source in into {
            let last = self.tails.get(&source).copied().unwrap_or(Node::Traced(source));
            let mut chain = Chain { lane: self.graph.tasks[source].lane, beside: source, last };
            self.wait(&mut chain, None, "cudaDeviceSynchronize", work);
            for edge in self.graph.tasks.edges(source) {
                let Dependency { kind, lag, .. } = *edge.weight();
                self.draft.connect(chain.last, Node::Traced(edge.target()), Dependency::on_end(kind, lag));
            }
        }
    }
}

/// The host's tasks by top-level operator, rank by rank in order of start.
fn groups(draft: &Draft<'_>) -> Vec<Group> {
    let graph = draft.graph();
    let mut open: FxHashMap<LaneId, Group> = FxHashMap::default();
    let mut done = Vec::new();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let root = task.operator.map(|operator| root_of(graph, operator));
        let on_host = matches!(task.kind, TaskKind::Host(_) | TaskKind::Compute);
        let is_gone = draft.is_removed(node);
        if let Some(group) = open.get_mut(&task.lane).filter(|group| on_host && group.root == root) {
            if is_gone { &mut group.gone } else { &mut group.nodes }.push(node);
            continue;
        }
        if is_gone {
            continue;
        }
        done.extend(open.remove(&task.lane));
        if on_host {
            let (lane, start) = (task.lane, task.measured_start);
            let rank = draft.base().rank_index(lane);
            open.insert(lane, Group { lane, rank, root, start, nodes: vec![node], gone: Vec::new() });
        }
    }
    done.extend(open.into_values());
    done.sort_by_key(|group| (group.rank, group.start, group.nodes[0]));
    done
}

fn root_of(graph: &ExecutionGraph, operator: OperatorId) -> OperatorId {
    let parent = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
    std::iter::successors(Some(operator), parent).last().unwrap_or(operator)
}
