//! A recorded iteration as the operators that the published algorithms run over.
//!
//! The algorithms know one thread, one overhead of each kind per operator, and nothing that waits but collectives. Operators of all
//! threads of a rank come in the order in which they began; several calls of one kind in an operator share their time equally.

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;

use crate::analysis::edited::Edited;
use crate::cost::overhead::LONGEST_GAP;
use crate::graph::{
    DependencyKind, ExecutionGraph, HostPart, LaneId, LaneKind, NodeId, OperatorId, RankPart, TaskKind,
};
use crate::scenario::Resolved;
use crate::units::{DurNs, TimeNs};

use super::PublishedOp;

/// The operators of one rank in order, and what of its step the algorithms have no place for.
#[derive(Clone, Debug, Default)]
pub struct RankOps {
    /// In order of their start.
    pub ops: Vec<PublishedOp>,
    /// Host time between operators that is too long for T1: loading data, or other work of the program.
    pub left_out: DurNs,
    /// Device work of the step whose launch was not recorded: it comes without host time.
    pub not_launched: DurNs,
}

/// An operator while its tasks are gathered.
#[derive(Debug, Default)]
struct Group {
    start: TimeNs,
    gap: i64,
    /// Host tasks in order: whether each starts device work, and its time.
    host: Vec<(bool, i64)>,
    kernels: Vec<(TimeNs, i64)>,
    is_collective: bool,
    reads_collective: bool,
}

/// An edited iteration that is read.
struct Reader<'e> {
    edited: &'e Edited,
    resolved: &'e Resolved,
    tops: Vec<OperatorId>,
}

/// The operators of every rank of an iteration as edited.
///
/// # Complexity
/// O(tasks · log tasks).
pub fn recorded_ops(edited: &Edited, resolved: &Resolved) -> Vec<RankOps> {
    let reader = Reader { edited, resolved, tops: edited.graph.top_level_operators() };
    edited.graph.ranks.iter().map(|part| reader.rank(part)).collect()
}

impl Reader<'_> {
    fn graph(&self) -> &ExecutionGraph {
        &self.edited.graph
    }

    fn time(&self, node: NodeId) -> i64 {
        let task = self.edited.timed.task(node);
        self.edited.timed.durations.get(task.0 as usize).copied().unwrap_or(0)
    }

    /// The tasks of a rank that are left, by lane and time.
    fn tasks(&self, part: &RankPart, wanted: impl Fn(LaneKind, TaskKind) -> bool) -> Vec<NodeId> {
        let graph = self.graph();
        let is_wanted = |&node: &NodeId| {
            let task = &graph.tasks[node];
            let lane = &graph.lanes[task.lane.0 as usize];
            lane.rank == part.rank && wanted(lane.kind, task.kind) && !self.resolved.is_removed(node)
        };
        let mut nodes: Vec<NodeId> = graph.tasks.node_indices().filter(is_wanted).collect();
        nodes.sort_by_key(|&node| (graph.tasks[node].lane, graph.tasks[node].measured_start, node));
        nodes
    }

    fn rank(&self, part: &RankPart) -> RankOps {
        let mut found = RankOps::default();
        let (mut groups, by_call, by_top) = self.host(part, &mut found);
        self.device(part, (&mut groups, &by_call, &by_top), &mut found);
        groups.sort_by_key(|group| group.start);
        found.ops = groups.into_iter().map(Group::finish).collect();
        found
    }

    /// The host's side of the operators, with the place of each call and of each top-level operator among them.
    fn host(
        &self,
        part: &RankPart,
        found: &mut RankOps,
    ) -> (Vec<Group>, FxHashMap<NodeId, usize>, FxHashMap<OperatorId, usize>) {
        let graph = self.graph();
        let is_host = |_: LaneKind, kind| matches!(kind, TaskKind::Host(_) | TaskKind::Runtime | TaskKind::Compute);
        let inside = part.iteration_start..part.iteration_end;
        let (mut groups, mut by_call, mut by_top) = (Vec::<Group>::new(), FxHashMap::default(), FxHashMap::default());
        let mut open: Option<(LaneId, Option<OperatorId>)> = None;
        let (mut lane, mut gap) = (None, 0);
        for node in self.tasks(part, is_host) {
            let task = &graph.tasks[node];
            if !inside.contains(&task.measured_start) {
                continue;
            }
            if lane.replace(task.lane) != Some(task.lane) {
                (open, gap) = (None, 0);
            }
            if task.kind == TaskKind::Host(HostPart::Between) {
                (open, gap) = (None, gap + self.time(node));
                continue;
            }
            let key = (task.lane, task.operator.map(|operator| self.tops[operator.0 as usize]));
            if open != Some(key) {
                let is_overhead = gap <= LONGEST_GAP.0;
                found.left_out += DurNs(if is_overhead { 0 } else { gap });
                let gap = if is_overhead { gap } else { 0 };
                groups.push(Group { start: task.measured_start, gap, ..Group::default() });
                by_top.extend(key.1.map(|top| (top, groups.len() - 1)));
            }
            (open, gap) = (Some(key), 0);
            let launches = self.launches(node);
            if launches {
                by_call.insert(node, groups.len() - 1);
            }
            if let Some(group) = groups.last_mut() {
                group.host.push((launches, self.time(node)));
            }
        }
        (groups, by_call, by_top)
    }

    /// Whether a host task starts device work.
    fn launches(&self, node: NodeId) -> bool {
        let graph = self.graph();
        let task = &graph.tasks[node];
        let starts = |node| graph.tasks.edges(node).any(|edge| edge.weight().kind == DependencyKind::Launch);
        // Of a call that waited, the joint at its end.
        let joints = graph.tasks.neighbors(node).filter(|&next| graph.tasks[next].kind == TaskKind::Joint);
        let launched = starts(node) || joints.into_iter().any(starts);
        // What an edit added has no dependencies here.
        let is_added = node.index() >= self.resolved.graph.tasks.node_count();
        let name = graph.names.get(task.name);
        task.kind == TaskKind::Runtime
            && (launched || is_added && ["Launch", "Memcpy", "Memset"].iter().any(|part| name.contains(part)))
    }

    /// The call itself, of one that waited and launches with the joint at its end.
    fn call_at(&self, launch: NodeId) -> NodeId {
        let tasks = &self.graph().tasks;
        let mut before = tasks.neighbors_directed(launch, Incoming);
        let call = before.find(|&before| tasks[before].kind == TaskKind::Runtime);
        call.filter(|_| tasks[launch].kind == TaskKind::Joint).unwrap_or(launch)
    }

    /// Puts the device work to the operators that launched it.
    fn device(
        &self,
        part: &RankPart,
        (groups, by_call, by_top): (&mut Vec<Group>, &FxHashMap<NodeId, usize>, &FxHashMap<OperatorId, usize>),
        found: &mut RankOps,
    ) {
        let graph = self.graph();
        for node in self.tasks(part, |_, kind| kind.is_device()) {
            let task = &graph.tasks[node];
            let call = graph.launch_of(node).map(|call| self.call_at(call));
            let top = task.operator.map(|operator| self.tops[operator.0 as usize]);
            let place = match call {
                Some(call) => by_call.get(&call).copied(),
                None => top.and_then(|top| by_top.get(&top).copied()),
            };
            let is_inside = (part.iteration_start..part.iteration_end).contains(&task.measured_start);
            let place = place.or_else(|| {
                let is_own = call.is_none() && is_inside;
                is_own.then(|| {
                    found.not_launched += DurNs(self.time(node));
                    groups.push(Group { start: task.measured_start, ..Group::default() });
                    groups.len() - 1
                })
            });
            let Some(group) = place.and_then(|place| groups.get_mut(place)) else { continue };
            group.kernels.push((task.measured_start, self.time(node)));
            group.is_collective |= matches!(task.kind, TaskKind::Collective(_));
            group.reads_collective |= self.waits_for_collective(node, MOST_JOINTS);
        }
    }

    /// Whether a task waits for a collective on another stream.
    fn waits_for_collective(&self, node: NodeId, joints: usize) -> bool {
        let graph = self.graph();
        graph.tasks.edges_directed(node, Incoming).any(|edge| {
            let (source, kind) = (edge.source(), edge.weight().kind);
            match graph.tasks[source].kind {
                TaskKind::Collective(_) => matches!(kind, DependencyKind::EventWait | DependencyKind::Data),
                TaskKind::Joint => joints > 0 && self.waits_for_collective(source, joints - 1),
                _ => false,
            }
        })
    }
}

/// Points where dependencies meet, one behind another, that are looked through.
const MOST_JOINTS: usize = 4;

impl Group {
    fn finish(mut self) -> PublishedOp {
        self.kernels.sort_unstable();
        let kernels: Vec<i64> = self.kernels.iter().map(|&(_, time)| time).collect();
        let sum = |tasks: &[(bool, i64)], launches: bool| -> i64 {
            tasks.iter().filter(|&&(it, _)| it == launches).map(|&(_, time)| time).sum()
        };
        let all = sum(&self.host, false) + sum(&self.host, true);
        let count = kernels.len() as i64;
        let overheads = match (self.host.iter().position(|&(it, _)| it), self.host.iter().rposition(|&(it, _)| it)) {
            _ if count == 0 => [0, self.gap, 0, 0, 0, all],
            (Some(first), Some(last)) => {
                let between = sum(&self.host[first..=last], false);
                let (inside, rest) = if count > 1 { (between / (count - 1), 0) } else { (0, between) };
                let (before, after) = (sum(&self.host[..first], false), sum(&self.host[last + 1..], false));
                [0, self.gap, before, after + rest, sum(&self.host, true) / count, inside]
            }
            _ => [0, self.gap, all, 0, 0, 0],
        };
        let Self { is_collective, reads_collective, .. } = self;
        PublishedOp { overheads, kernels, is_collective, reads_collective }
    }
}

/// Ranks with equally many operators, so that the collectives of all stand at the same places: what lies between two collectives is
/// filled up with operators that do nothing.
///
/// # Errors
/// The ranks do not take part in equally many collectives.
pub fn aligned(ranks: &[RankOps]) -> Result<Vec<Vec<PublishedOp>>, String> {
    let parts: Vec<Vec<&[PublishedOp]>> =
        ranks.iter().map(|rank| rank.ops.split_inclusive(|op| op.is_collective).collect()).collect();
    let collectives = |ops: &[PublishedOp]| ops.iter().filter(|op| op.is_collective).count();
    let counts: Vec<usize> = ranks.iter().map(|rank| collectives(&rank.ops)).collect();
    if let Some(at) = counts.iter().position(|count| *count != counts[0]) {
        return Err(format!(
            "the algorithm needs the same collectives on every rank: the first has {}, number {at} {}",
            counts[0], counts[at]
        ));
    }
    let most = parts.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = vec![Vec::new(); ranks.len()];
    for index in 0..most {
        let of = |rank: &Vec<&[PublishedOp]>| rank.get(index).copied().unwrap_or(&[]).to_vec();
        let own: Vec<Vec<PublishedOp>> = parts.iter().map(of).collect();
        let longest = own.iter().map(Vec::len).max().unwrap_or(0);
        for (rank, mut ops) in own.into_iter().enumerate() {
            // A collective stays the last of its part.
            let end = ops.pop_if(|op| op.is_collective);
            ops.resize_with(longest - usize::from(end.is_some()), PublishedOp::default);
            all[rank].extend(ops.into_iter().chain(end));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::published::several_ranks;

    fn op(kernel: i64, is_collective: bool) -> PublishedOp {
        PublishedOp { overheads: [0, 1, 2, 3, 4, 5], kernels: vec![kernel], is_collective, reads_collective: false }
    }

    #[test]
    fn collectives_of_all_ranks_stand_at_the_same_places() {
        let rank = |ops: Vec<PublishedOp>| RankOps { ops, ..RankOps::default() };
        let ranks = [
            rank(vec![op(10, false), op(20, true), op(30, false)]),
            rank(vec![op(10, false), op(11, false), op(20, true)]),
        ];
        let all = aligned(&ranks).unwrap();
        let places = |ops: &[PublishedOp]| ops.iter().map(|op| op.is_collective).collect::<Vec<_>>();
        assert_eq!(places(&all[0]), places(&all[1]));
        assert_eq!(places(&all[0]), [false, false, true, false]);
        assert!(several_ranks(&all) >= several_ranks(&all[..1]), "waiting for another rank is never shorter");
        assert!(aligned(&[rank(vec![op(1, true)]), rank(vec![op(1, false)])]).is_err());
    }

    #[test]
    fn an_operator_keeps_its_host_time_whatever_it_launches() {
        let host = vec![(false, 7), (true, 3), (false, 10), (true, 5), (false, 2)];
        let with =
            |kernels: usize| Group { host: host.clone(), kernels: vec![(TimeNs(0), 9); kernels], ..Group::default() };
        assert_eq!(with(2).finish().overheads, [0, 0, 7, 2, 4, 10]);
        assert_eq!(with(0).finish().overheads, [0, 0, 0, 0, 0, 27]);
        assert_eq!(with(1).finish().overheads, [0, 0, 7, 12, 8, 0]);
    }
}
