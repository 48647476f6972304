//! Which node of an execution trace each recorded operator is: by record function id, else by operator id, else by aligning
//! the names of each thread.

use rustc_hash::FxHashMap;

use super::execution_trace::EtNodeIndex;
use super::steps::steps;
use super::{Category, EventId, ExecutionTrace, Trace, TrackId, TrackKind};
use crate::align::common_subsequence;
use crate::intern::NameId;
use crate::units::TimeNs;

/// What joined two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedBy {
    /// `Record function id` = `rf_id`: profiler and observer ran together (2024 on).
    RecordFunction,
    /// `External id` = `rf_id` (2023, when both ran together).
    ExternalId,
    /// Names in order, thread by thread, in each step that is alike: the two may have recorded different steps.
    Names,
}

/// Operators with their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Pairs in order of event; each event occurs once, each node in a step once.
    pub pairs: Vec<(EventId, EtNodeIndex)>,
    /// How they were found.
    pub by: LinkedBy,
    /// Nodes that could have been linked: those with a record function id, roots excluded.
    pub candidates: usize,
}

impl Link {
    /// The node of `event`, if it is linked.
    pub fn node(&self, event: EventId) -> Option<EtNodeIndex> {
        self.pairs.binary_search_by_key(&event, |(event, _)| *event).ok().map(|at| self.pairs[at].1)
    }
}

/// Links the operators of `trace` to the nodes of `execution_trace`.
pub fn link(trace: &Trace, execution_trace: &ExecutionTrace) -> Link {
    let nodes = Nodes::of(trace, execution_trace);
    let record_function = |id| trace.operators.get(id).map_or(0, |args| args.record_function);
    let external = |id| trace.events.external(id);
    let by_id = nodes
        .by_id(trace, record_function)
        .map(|pairs| (pairs, LinkedBy::RecordFunction))
        .or_else(|| nodes.by_id(trace, external).map(|pairs| (pairs, LinkedBy::ExternalId)));
    let (mut pairs, by) = by_id.unwrap_or_else(|| (nodes.by_names(trace), LinkedBy::Names));
    pairs.sort_unstable();
    pairs.dedup_by_key(|(event, _)| *event);
    Link { pairs, by, candidates: nodes.in_order.len() }
}

/// A node that can be linked.
#[derive(Clone, Copy)]
struct Node {
    index: EtNodeIndex,
    rf_id: u32,
    thread: u32,
    /// Its name in the profiler trace's table; `None` when no event has it.
    name: Option<NameId>,
}

/// Such nodes in the order they began, which is that of their record function ids.
struct Nodes {
    in_order: Vec<Node>,
}

fn is_host_range(category: Category) -> bool {
    matches!(category, Category::Operator | Category::Annotation)
}

fn host_ranges(trace: &Trace) -> impl Iterator<Item = EventId> {
    trace.events.ids().filter(|&id| is_host_range(trace.events.category(id)))
}

impl Nodes {
    fn of(trace: &Trace, execution_trace: &ExecutionTrace) -> Self {
        let mut names: FxHashMap<NameId, Option<NameId>> = FxHashMap::default();
        let mut in_order: Vec<Node> = execution_trace
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.rf_id != 0)
            .map(|(index, node)| Node {
                index: EtNodeIndex(index as u32),
                rf_id: node.rf_id,
                thread: node.tid,
                name: *names.entry(node.name).or_insert_with(|| trace.names.find(execution_trace.names.get(node.name))),
            })
            .collect();
        in_order.sort_by_key(|node| node.rf_id);
        in_order.dedup_by_key(|node| node.rf_id);
        Self { in_order }
    }

    /// Pairs with equal ids and names; `None` when ids agree by chance only.
    fn by_id(&self, trace: &Trace, id_of: impl Fn(EventId) -> u32) -> Option<Vec<(EventId, EtNodeIndex)>> {
        let mut found: Vec<(u32, EventId)> = host_ranges(trace).map(|event| (id_of(event), event)).collect();
        found.retain(|(id, _)| *id != 0);
        let of_id: FxHashMap<u32, Node> = self.in_order.iter().map(|node| (node.rf_id, *node)).collect();
        let hits: Vec<(Node, EventId)> =
            found.iter().filter_map(|(id, event)| Some((*of_id.get(id)?, *event))).collect();
        let mut taken = FxHashMap::default();
        for (node, event) in hits.iter().filter(|(node, event)| node.name == Some(trace.events.name(*event))) {
            taken.entry(node.index).or_insert(*event);
        }
        let mostly_alike = 10 * taken.len() >= 9 * hits.len();
        let mostly_there = 2 * taken.len() >= self.in_order.len();
        (!taken.is_empty() && mostly_alike && mostly_there)
            .then(|| taken.into_iter().map(|(node, event)| (event, node)).collect())
    }

    /// Aligns each thread with the track it resembles most, in every step that is as alike to the execution trace as the one that is
    /// most alike.
    fn by_names(&self, trace: &Trace) -> Vec<(EventId, EtNodeIndex)> {
        let mut threads: FxHashMap<u32, Vec<Node>> = FxHashMap::default();
        for node in self.in_order.iter().filter(|node| node.name.is_some()) {
            threads.entry(node.thread).or_default().push(*node);
        }
        let mut threads: Vec<Vec<Node>> = threads.into_values().collect();
        threads.sort_by_key(|nodes| (std::cmp::Reverse(nodes.len()), nodes[0].rf_id));
        let of_window = |window: &Window| aligned(trace, &threads, window);
        alike_windows(trace, &threads).iter().flat_map(of_window).collect()
    }
}

/// The events of a window with the nodes they are, thread by thread.
fn aligned(trace: &Trace, threads: &[Vec<Node>], window: &Window) -> Vec<(EventId, EtNodeIndex)> {
    let mut pairs = Vec::new();
    let mut free: Vec<&Vec<EventId>> = window.iter().collect();
    for nodes in threads {
        let best = (0..free.len()).max_by_key(|&at| (common(trace, nodes, free[at]), std::cmp::Reverse(at)));
        let Some(best) = best else { break };
        let events = free.remove(best);
        let wanted: Vec<Option<NameId>> = nodes.iter().map(|node| node.name).collect();
        let recorded: Vec<Option<NameId>> = events.iter().map(|id| Some(trace.events.name(*id))).collect();
        pairs.extend(common_subsequence(&wanted, &recorded).map(|(n, e)| (events[e], nodes[n].index)));
    }
    pairs
}

/// The host ranges of each thread within one step.
type Window = Vec<Vec<EventId>>;

/// The steps (or the part, or the whole, of a trace without steps) whose names are most alike to those of `threads`, by Dice's
/// coefficient.
fn alike_windows(trace: &Trace, threads: &[Vec<Node>]) -> Vec<Window> {
    const AS_ALIKE: f64 = 0.99;
    let wanted: Vec<Node> = threads.iter().flatten().copied().collect();
    let ranges: Vec<EventId> = host_ranges(trace).collect();
    let alike =
        |events: &[EventId]| 2.0 * common(trace, &wanted, events) as f64 / (wanted.len() + events.len()).max(1) as f64;
    let of_steps = step_windows(trace, &ranges);
    let others = if of_steps.is_empty() { pieces(ranges.len(), wanted.len()) } else { Vec::new() };
    let scored = |windows: Vec<(usize, usize)>| -> Vec<(f64, usize, usize)> {
        windows.into_iter().map(|(from, to)| (alike(&ranges[from..to]), from, to)).collect()
    };
    let (of_steps, others) = (scored(of_steps), scored(others));
    let whole = (alike(&ranges), 0, ranges.len());
    let all = of_steps.iter().chain(&others).chain([&whole]).copied();
    let Some(best) = all.reduce(|best, next| if next.0 > best.0 { next } else { best }) else { return Vec::new() };
    let is_step = of_steps.contains(&best);
    let as_alike = of_steps.into_iter().filter(|step| is_step && step.0 >= AS_ALIKE * best.0);
    let chosen: Vec<(f64, usize, usize)> = if is_step { as_alike.collect() } else { vec![best] };
    chosen.into_iter().map(|(_, from, to)| by_track(trace, &ranges[from..to])).collect()
}

/// Each step as a run of `ranges`.
fn step_windows(trace: &Trace, ranges: &[EventId]) -> Vec<(usize, usize)> {
    let first = |is_before: &dyn Fn(TimeNs) -> bool| ranges.partition_point(|&id| is_before(trace.events.start(id)));
    steps(trace).iter().map(|step| (first(&|at| at < step.start), first(&|at| at <= step.end))).collect()
}

/// Overlapping pieces of `count` ranges, a little longer than what is wanted.
fn pieces(count: usize, wanted: usize) -> Vec<(usize, usize)> {
    const PIECES_PER_LENGTH: usize = 8;
    let length = wanted + wanted / PIECES_PER_LENGTH;
    let starts = (0..count).step_by((wanted / PIECES_PER_LENGTH).max(1));
    starts.map(|from| (from, count.min(from + length))).collect()
}

fn by_track(trace: &Trace, events: &[EventId]) -> Window {
    let mut tracks: FxHashMap<TrackId, Vec<EventId>> = FxHashMap::default();
    for &id in events {
        let track = trace.events.track(id);
        if matches!(trace.tracks[track.0 as usize].kind, TrackKind::Thread { .. }) {
            tracks.entry(track).or_default().push(id);
        }
    }
    let mut tracks: Vec<Vec<EventId>> = tracks.into_values().collect();
    tracks.sort_by_key(|events| events[0]);
    tracks
}

/// How many names the two have in common, each as often as it occurs in both.
fn common(trace: &Trace, nodes: &[Node], events: &[EventId]) -> usize {
    let mut counts: FxHashMap<NameId, usize> = FxHashMap::default();
    for id in events {
        *counts.entry(trace.events.name(*id)).or_default() += 1;
    }
    let mut take = |name: NameId| match counts.get_mut(&name) {
        Some(left @ 1..) => {
            *left -= 1;
            true
        }
        _ => false,
    };
    nodes.iter().filter(|node| node.name.is_some_and(&mut take)).count()
}
