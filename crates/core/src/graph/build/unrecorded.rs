//! Device work that was not recorded, told from what it held back: a *backlog* from before the trace, and nodes of graphs
//! behind which the device idles alike whenever the graph runs. Computing and waiting look alike: that it takes as long as
//! kernels do is an assumption.

use rustc_hash::FxHashMap;

use crate::intern::NameId;
use crate::stats;
use crate::units::{DurNs, TimeNs};

use super::activities::Activity;
use super::calls::CallClass;
use super::constants::median;
use super::late::{Cause, Late, contention};
use super::observed::Observed;

/// The first work of a stream that starts this much later than it could was held back by a backlog …
pub(super) const HELD_BACK: DurNs = DurNs(200_000);

/// … if so many launches made before it starts follow it, or one for which a call waited, …
const QUEUED: usize = 3;

/// … back to back, nearly all of them: with gaps no longer than usual by this.
const BACK_TO_BACK: DurNs = DurNs(20_000);

/// Whether `activity`, which could have started at `allowed`, is the first of its stream and waited for a backlog.
pub(super) fn is_behind_backlog(observed: &Observed<'_>, activity: &Activity, allowed: TimeNs) -> bool {
    if activity.previous.is_some() || activity.call.is_none() || activity.start.since(allowed) <= HELD_BACK {
        return false;
    }
    let stream = &observed.activities.streams[activity.stream as usize];
    let on_stream = stream.activities.iter().map(|&index| observed.activity(index));
    let queued: Vec<&Activity> =
        on_stream.take_while(|other| other.call.is_some() && other.launched < activity.start).collect();
    // Gaps between launches; what is within a launch follows of itself.
    let pairs = queued.windows(2).filter(|pair| pair[0].call != pair[1].call);
    let usual = |before: &Activity, after: &Activity| observed.constants.follow(before.kind, after.kind);
    let gaps: Vec<DurNs> = pairs.map(|pair| pair[1].start.since(pair[0].end) - usual(pair[0], pair[1])).collect();
    let near = gaps.iter().filter(|&&gap| gap < BACK_TO_BACK).count();
    let (count, nearly_all) = (gaps.len(), near * 5 >= gaps.len() * 4);
    nearly_all && (count >= QUEUED || count > 0 && was_awaited(observed, &stream.activities[..queued.len()]))
}

/// Whether a blocking call waited for one of `activities` from before the first started.
fn was_awaited(observed: &Observed<'_>, activities: &[u32]) -> bool {
    let Some(&first) = activities.first() else { return false };
    let start = observed.activity(first).start;
    observed.waits.iter().any(|wait| {
        let call = &observed.threads.calls[wait.call as usize];
        call.start < start && call.end > start && wait.targets.iter().any(|target| activities.contains(target))
    })
}

/// Sets the causes of late starts that come of work in graphs which was not recorded, and of those beside unrecorded work.
pub(super) fn find(observed: &Observed<'_>, late: &mut [Late]) {
    for (_, places) in by_node(observed, late) {
        recurring(observed, &places, late);
    }
    beside(observed, late);
}

/// A late node of a graph.
struct Place {
    /// Position of its late start.
    late: usize,
    /// How often its graph ran.
    runs: usize,
    /// Position in its graph.
    node: usize,
}

/// Late starts of the same node of the same graph, which is known by the names of its nodes in order.
fn by_node(observed: &Observed<'_>, late: &[Late]) -> Vec<((usize, usize), Vec<Place>)> {
    let launches = launches_of_graphs(observed);
    let mut graphs: FxHashMap<Vec<NameId>, (usize, usize)> = FxHashMap::default();
    let mut graph_of: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
    for nodes in &launches {
        let names = nodes.iter().map(|&node| observed.trace.events.name(observed.activity(node).event)).collect();
        let count = graphs.len();
        let (graph, runs) = graphs.entry(names).or_insert((count, 0));
        *runs += 1;
        graph_of.extend(nodes.iter().enumerate().map(|(at, &node)| (node, (*graph, at))));
    }
    let runs: FxHashMap<usize, usize> = graphs.into_values().collect();
    let mut places: FxHashMap<(usize, usize), Vec<Place>> = FxHashMap::default();
    let open = |late: &Late| !matches!(late.cause, Cause::Enqueuing(_) | Cause::Backlog | Cause::BeforeTrace);
    for (position, one) in late.iter().enumerate().filter(|(_, late)| open(late)) {
        if let Some(&(graph, node)) = graph_of.get(&one.activity) {
            places.entry((graph, node)).or_default().push(Place { late: position, runs: runs[&graph], node });
        }
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_unstable_by_key(|&(key, _)| key);
    places
}

/// The nodes of each launch of a graph, by start.
fn launches_of_graphs(observed: &Observed<'_>) -> Vec<Vec<u32>> {
    let mut launches: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for (index, activity) in observed.activities.list.iter().enumerate() {
        let class = activity.call.map(|call| observed.threads.calls[call as usize].class);
        let correlation = observed.trace.events.correlation(activity.event);
        if correlation != 0 && class.is_none_or(|class| class == CallClass::GraphLaunch) {
            launches.entry(correlation).or_default().push(index as u32);
        }
    }
    let mut launches: Vec<Vec<u32>> = launches.into_values().filter(|nodes| nodes.len() > 1).collect();
    launches.sort_unstable();
    launches
}

/// Late starts at one node that are alike: work of the median length was not recorded. What is ahead of a graph's first node
/// counts only where work elsewhere seldom ends just then; and nothing where the device's other streams mostly work in the
/// meantime, for which a node waits.
fn recurring(observed: &Observed<'_>, places: &[Place], late: &mut [Late]) {
    let mut by: Vec<DurNs> = places.iter().map(|place| late[place.late].by).collect();
    let length = median(&mut by);
    let quartile = |of: (usize, usize)| stats::lower_quantile(&mut by.clone(), of).unwrap_or_default();
    let is_regular = by.len() > 1 && (quartile((3, 4)) - quartile((1, 4))) * 4 <= length;
    let elsewhere = places.iter().filter(
        |place| matches!(late[place.late].cause, Cause::Activity(_, dependency) if dependency.of_predecessor == 0.0),
    );
    let is_first = places.first().is_some_and(|place| place.node == 0);
    let beside_others = places.iter().filter(|place| is_beside_others(observed, &late[place.late]));
    if beside_others.count() * 2 > places.len() {
        return;
    }
    if is_regular && (!is_first || elsewhere.count() * 2 < places[0].runs) {
        for place in places {
            late[place.late].cause = Cause::Unrecorded(length);
        }
    }
}

/// Whether other streams of the device work for most of the time by which a start is late.
fn is_beside_others(observed: &Observed<'_>, late: &Late) -> bool {
    let activity = observed.activity(late.activity);
    let (from, to) = (activity.start - late.by, activity.start);
    let mut idle = late.by;
    let streams = &observed.activities.streams;
    let device = streams[activity.stream as usize].device;
    let others =
        streams.iter().enumerate().filter(|&(at, other)| at != activity.stream as usize && other.device == device);
    for (_, stream) in others {
        let first = stream.activities.partition_point(|&other| observed.activity(other).end <= from);
        let during = stream.activities[first..].iter().map(|&other| observed.activity(other));
        for other in during.take_while(|other| other.start < to) {
            idle -= other.end.min(to).since(other.start.max(from));
            if idle * 2 < late.by {
                return true;
            }
        }
    }
    false
}

/// Late starts without a cause while work on another stream ran that was not recorded.
fn beside(observed: &Observed<'_>, late: &mut [Late]) {
    let ahead = |late: &Late| {
        let start = observed.activity(late.activity).start;
        match late.cause {
            Cause::Unrecorded(_) | Cause::Backlog => Some((late.activity, (start - late.by, start))),
            _ => None,
        }
    };
    let unrecorded: Vec<(u32, (TimeNs, TimeNs))> = late.iter().filter_map(ahead).collect();
    for one in late.iter_mut().filter(|late| late.cause == Cause::Unknown) {
        let activity = observed.activity(one.activity);
        let throughout = |&&(other, (from, to)): &&(u32, (TimeNs, TimeNs))| {
            observed.activity(other).stream != activity.stream
                && from <= activity.start - one.by
                && to >= activity.start
        };
        if let Some(&(other, span)) = unrecorded.iter().find(throughout) {
            one.cause = Cause::BesideUnrecorded(other, contention(span, activity.start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Draft, MAIN, period};
    use super::*;
    use crate::analysis::replay::{ReplayReport, ReplayStatus};
    use crate::graph::{ExecutionGraph, Task, TaskKind};

    fn unrecorded(graph: &ExecutionGraph) -> Vec<i64> {
        let all = graph.tasks.node_weights().filter(|task| task.kind == TaskKind::Unrecorded);
        all.map(|task| task.duration.0 / 1_000).collect()
    }

    fn device(task: &Task) -> bool {
        task.kind.is_device()
    }

    /// Kernels of 100 µs, launched within 50 µs, that start 10 ms later, so far apart.
    fn late(count: u32, apart: f64) -> Draft {
        let mut draft = Draft::default();
        for index in (0..count).map(f64::from) {
            draft.launch(MAIN, 10.0 * index, 7, 10_000.0 + (100.0 + apart) * index, 100.0);
        }
        draft
    }

    #[test]
    fn what_the_first_work_waited_for_is_a_backlog_and_the_iteration_what_comes_after() {
        let graph = late(5, 1.0).graph();
        assert_eq!(unrecorded(&graph), [10_000]);
        let report = ReplayReport::of(&graph);
        assert_eq!((graph.measured, report.simulated), (DurNs(504_000), DurNs(504_000)));
        assert_eq!((report.status(), report.unexplained), (ReplayStatus::Pass, DurNs::ZERO));
        assert!((period(&graph, 0.5, device) - 254.0).abs() < 0.001);
    }

    #[test]
    fn one_piece_behind_the_first_is_a_backlog_only_where_a_call_waited() {
        assert!(unrecorded(&late(2, 1.0).graph()).is_empty());
        let mut waited = late(2, 1.0);
        waited.call("cudaDeviceSynchronize", MAIN, 40.0, 10_175.0);
        assert_eq!(unrecorded(&waited.graph()), [10_000]);
    }

    /// Graphs of three nodes, the last of which starts so much after the second has ended.
    fn graphs(gaps: &[f64]) -> Draft {
        let mut draft = Draft::default();
        for (index, gap) in gaps.iter().enumerate() {
            let at = 3_000.0 * index as f64;
            let correlation = draft.call("cudaGraphLaunch", MAIN, at, 10.0);
            for (name, start) in [("a", 10.0), ("b", 111.0), ("c", 211.0 + gap)] {
                draft.activity(name, 7, at + start, 100.0, correlation);
            }
        }
        draft.op("aten::item", MAIN, 3_000.0 * gaps.len() as f64, 10.0);
        draft
    }

    #[test]
    fn nodes_of_graphs_that_are_late_alike_follow_work_that_was_not_recorded() {
        let graph = graphs(&[500.0, 505.0, 495.0, 502.0]).graph();
        assert!(graph.late_starts.is_empty(), "{:?}", graph.late_starts);
        let lengths = unrecorded(&graph);
        assert!(lengths.len() == 4 && lengths.iter().all(|&length| (495..=505).contains(&length)), "{lengths:?}");
        assert!(ReplayReport::of(&graph).error().abs() < 0.01);
    }

    #[test]
    fn nodes_of_graphs_that_are_late_by_chance_are_unexplained() {
        let graph = graphs(&[500.0, 50.0, 1_500.0, 200.0]).graph();
        assert_eq!((unrecorded(&graph).len(), graph.late_starts.len()), (0, 4));
    }

    #[test]
    fn a_node_that_starts_while_its_graph_is_enqueued_keeps_its_distance_from_the_call() {
        let mut draft = Draft::default();
        let correlation = draft.call("hipGraphLaunch", MAIN, 0.0, 1_000.0);
        draft.activity("a", 7, 10.0, 100.0, correlation);
        draft.activity("b", 7, 600.0, 100.0, correlation);
        draft.activity("c", 7, 701.0, 900.0, correlation);
        let graph = draft.graph();
        assert_eq!((graph.late_starts.len(), unrecorded(&graph).len()), (0, 0));
        let halved = period(&graph, 0.5, device);
        assert!((halved - 1_101.0).abs() < 1.0, "b still starts at 600: {halved}");
    }
}
