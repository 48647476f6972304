//! Ranges that the program marked on its threads, where the simulated host is in them: they tell the parts of training.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Args, Event};
use super::{Shown, Timeline};
use crate::engine::Loaded;
use crate::graph::{Lane, LaneId, LaneKind, NodeId, RankPart, TaskKind};
use crate::trace::steps::is_step_name;
use crate::trace::{Category, EventId, Trace, TrackKind};
use crate::units::{DurNs, TimeNs};

/// A thread's recorded work with its measured starts, in order.
type Thread = Vec<(TimeNs, NodeId)>;

impl<'a> Timeline<'a> {
    /// Adds the annotations of a rank's threads within the window but those of steps to `events`.
    ///
    /// # Complexity
    /// O(events + tasks · log tasks).
    pub(super) fn annotations(&self, loaded: &'a Loaded, part: &RankPart, events: &mut Vec<Event<'a>>) {
        let Some(trace) = loaded.job.ranks.get(part.trace_index).and_then(|rank| rank.trace.as_ref()) else { return };
        let threads = self.threads(part);
        let is_collective = |shown: &&Shown<'_>| matches!(shown.kind, TaskKind::Collective(_));
        let collectives: BTreeSet<&str> = self.shown.iter().filter(is_collective).map(|shown| shown.name).collect();
        // Those of a host's backend are tasks.
        let is_task = |id: EventId| collectives.contains(trace.names.get(trace.events.name(id)));
        let marked = trace.events.ids().filter(|&id| is_marked(trace, id) && !is_task(id));
        for id in marked {
            let TrackKind::Thread { tid, .. } = trace.tracks[trace.events.track(id).0 as usize].kind else { continue };
            let Some((lane, thread)) = threads.get(&tid) else { continue };
            let [start, end] =
                [trace.events.start(id), trace.events.end(id)].map(|at| TimeNs(at.since(part.window_start).0));
            let within = |&(at, _): &(TimeNs, NodeId)| at < end;
            let works = thread[..thread.partition_point(within)].last().is_some_and(|&(at, _)| at >= start);
            if works {
                let [from, to] = [start, end].map(|at| self.at(thread, at));
                let name = trace.names.get(trace.events.name(id)).into();
                events.push(Event::complete("user_annotation", name, self.process(lane), from, to, Args::default()));
            }
        }
    }

    /// The threads of a rank by their number.
    fn threads(&self, part: &RankPart) -> BTreeMap<i64, (Lane, Thread)> {
        let mut of_lane: BTreeMap<LaneId, Thread> = BTreeMap::new();
        let recorded = |shown: &Shown<'_>| shown.node.map(|node| (shown.lane, node));
        for (lane, node) in self.shown.iter().filter_map(recorded) {
            of_lane.entry(lane).or_default().push((self.graph.tasks[node].measured_start, node));
        }
        let own = of_lane.into_iter().filter_map(|(id, mut thread)| {
            let lane = self.lane(id).filter(|lane| lane.rank == part.rank)?;
            let LaneKind::Thread { tid } = lane.kind else { return None };
            thread.sort_unstable();
            Some((tid, (lane, thread)))
        });
        own.collect()
    }

    /// When the thread is where it was at a measured instant.
    fn at(&self, thread: &Thread, measured: TimeNs) -> TimeNs {
        let before = thread.partition_point(|&(start, _)| start <= measured).checked_sub(1);
        let Some(&(start, node)) = before.and_then(|at| thread.get(at)) else { return TimeNs(0) };
        let task = self.outcome.resolved.timed.task(node);
        let length = self.end(task).since(self.start(task));
        self.start(task) + DurNs(measured.since(start).0.clamp(0, length.0.max(0)))
    }
}

fn is_marked(trace: &Trace, id: EventId) -> bool {
    trace.events.category(id) == Category::Annotation
        && trace.collectives.get(id).is_none()
        && !is_step_name(trace.names.get(trace.events.name(id)))
}
