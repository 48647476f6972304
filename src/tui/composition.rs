//! What one iteration is made of: the time of its critical path by family of work.

use std::ops::Range;

use retime_core::analysis::busy;
use retime_core::analysis::critical_path::{Segment, SegmentKind};
use retime_core::graph::{NodeId, RankPart, TaskId};
use retime_core::scenario::Resolved;
use retime_core::units::{DurNs, TimeNs};

use crate::session::Outcome;

use super::theme::Paint;

/// A share of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is, in a word.
    pub name: &'static str,
    /// How it is painted; parts of one paint are one.
    pub paint: Paint,
    /// How long it is on the path.
    pub time: DurNs,
    /// How much of the iteration it is drawn as: less where steps overlap.
    pub drawn: DurNs,
}

/// Parts of one iteration, the longest first; they add up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// The parts.
    pub parts: Vec<Part>,
}

/// A task, as it was traced or as an edit added it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathTask {
    /// A node of the graph.
    Traced(NodeId),
    /// By its number among those that the scenario added.
    Added(u32),
}

/// The tasks of the critical path of the slowest rank's simulated iteration.
#[derive(Clone, Debug, Default)]
pub struct CriticalTasks {
    /// The iteration.
    window: Range<TimeNs>,
    /// Those that lie in it, the last first.
    pub tasks: Vec<(TaskId, PathTask)>,
}

impl CriticalTasks {
    /// Followed back from the end of the iteration.
    ///
    /// # Complexity
    /// O(length of the path + added tasks).
    pub fn of(outcome: &Outcome) -> Self {
        let (resolved, schedule) = (&*outcome.resolved, &*outcome.schedule);
        let (graph, timed) = (&*resolved.graph, &*resolved.timed);
        let window = |part: &RankPart| busy::window(part, timed, schedule);
        let length = |part: &&RankPart| {
            let (begin, end) = window(part);
            // Of equals the first, as for the path.
            (end.since(begin), std::cmp::Reverse(part.rank))
        };
        let Some(slowest) = graph.ranks.iter().max_by_key(length) else { return Self::default() };
        let (begin, end) = window(slowest);
        let mut added: Vec<(u32, u32)> = (0..).zip(&resolved.added).map(|(number, it)| (it.task.0, number)).collect();
        added.sort_unstable();
        let item = |task: TaskId| match timed.node(task) {
            Some(node) => Some(PathTask::Traced(node)),
            None => added.binary_search_by_key(&task.0, |&(task, _)| task).ok().map(|at| PathTask::Added(added[at].1)),
        };
        let before = |&task: &TaskId| schedule.critical_predecessor(timed, task);
        let back = std::iter::successors(Some(timed.task(slowest.end)), before);
        // What a task starts after the one before it in time ends it, too.
        let mut reached = end;
        let inside = back.take_while(|&task| {
            reached > begin && {
                reached = reached.min(schedule.start(timed, task));
                true
            }
        });
        Self { window: begin..end, tasks: inside.filter_map(|task| Some((task, item(task)?))).collect() }
    }
}

impl Composition {
    /// Of the slowest rank's simulated iteration in `outcome`.
    pub fn of(outcome: &Outcome) -> Self {
        Self::along(outcome, &CriticalTasks::of(outcome))
    }

    /// The same, along its path.
    ///
    /// # Complexity
    /// O(length of the path · families).
    pub fn along(outcome: &Outcome, path: &CriticalTasks) -> Self {
        let (resolved, schedule) = (&*outcome.resolved, &*outcome.schedule);
        let (begin, mut reached) = (path.window.start, path.window.end);
        let paint_of = |task: PathTask| match task {
            PathTask::Traced(node) => {
                SegmentKind::of(&resolved.graph, &resolved.works, node).map_or(Paint::Call, paint_of_kind)
            }
            PathTask::Added(number) => added_paint(&resolved.added[number as usize]),
        };
        let mut sums = vec![DurNs::ZERO; Paint::ALL.len()];
        let mut add = |paint: Paint, reached: &mut TimeNs, from: TimeNs| {
            let from = from.max(begin).min(*reached);
            sums[paint as usize] += reached.since(from);
            *reached = from;
        };
        for &(task, item) in &path.tasks {
            add(Paint::Call, &mut reached, schedule.end(task));
            add(paint_of(item), &mut reached, schedule.start(&resolved.timed, task));
        }
        add(Paint::Call, &mut reached, begin);
        let part = |(&paint, &time): (&Paint, &DurNs)| Part { name: part_name(paint), paint, time, drawn: time };
        let mut parts: Vec<Part> = Paint::ALL.iter().zip(&sums).map(part).filter(|part| part.time.0 > 0).collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.time), part.paint));
        Self { parts }
    }

    /// The same of an iteration that repeats every `whole`, as the path's table has it: what it takes longer than its path is a wait for the step
    /// before. Where steps overlap, and it takes less, all parts are drawn so much shorter.
    #[must_use]
    pub fn filling(&self, whole: DurNs) -> Self {
        let sum: DurNs = self.parts.iter().map(|part| part.time).sum();
        let mut parts = self.parts.clone();
        if whole < sum {
            let factor = whole.0 as f64 / sum.0.max(1) as f64;
            for part in &mut parts {
                part.drawn = part.time.scale(factor);
            }
        } else if whole > sum {
            let waited = whole - sum;
            match parts.iter_mut().find(|part| part.paint == Paint::Call) {
                Some(waits) => (waits.time, waits.drawn) = (waits.time + waited, waits.drawn + waited),
                None => {
                    parts.push(Part { name: part_name(Paint::Call), paint: Paint::Call, time: waited, drawn: waited });
                }
            }
        }
        Self { parts }
    }
}

fn added_paint(added: &retime_core::scenario::AddedTask) -> Paint {
    added.work.as_ref().map_or(if added.kind.is_device() { Paint::Other } else { Paint::Host }, |it| it.family.into())
}

fn paint_of_kind(kind: SegmentKind) -> Paint {
    match kind {
        SegmentKind::Kernel(family) => family.into(),
        SegmentKind::Memcpy | SegmentKind::Memset => Paint::Transfer,
        SegmentKind::Collective => Paint::Collective,
        SegmentKind::Unrecorded => Paint::Other,
        SegmentKind::Host(_) | SegmentKind::Runtime | SegmentKind::Compute => Paint::Host,
        SegmentKind::Wait(_) => Paint::Call,
    }
}

/// How a segment of a critical path is painted: one of a task that `resolved` added by what that does.
pub fn segment_paint(resolved: &Resolved, segment: &Segment) -> Paint {
    let number = segment.node.index().checked_sub(resolved.graph.tasks.node_count());
    let added = number.and_then(|number| resolved.added.get(number));
    added
        .filter(|_| !matches!(segment.kind, SegmentKind::Wait(_)))
        .map_or_else(|| paint_of_kind(segment.kind), added_paint)
}

/// What a part is called where there is little room.
pub fn part_name(paint: Paint) -> &'static str {
    match paint {
        Paint::Call => "waits",
        Paint::Transfer => "copies",
        Paint::Collective => "collectives",
        other => other.key(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Engine, sample};
    use retime_core::analysis::critical_path::CriticalPath;
    use retime_core::analysis::lanes::Times;
    use retime_core::analysis::sources::Sources;
    use retime_core::graph::BuildOptions;

    #[test]
    fn parts_add_up_to_the_iteration() {
        let engine = Engine::builtin().unwrap();
        let loaded = sample::load(&engine, &BuildOptions::default()).unwrap();
        let whole = |composition: &Composition| composition.parts.iter().map(|part| part.drawn.0).sum::<i64>();
        let composition = Composition::of(&loaded.replay);
        assert_eq!(whole(&composition), loaded.replay.summary.simulated_ns.0);
        assert!(composition.parts.len() > 2 && composition.parts.is_sorted_by(|a, b| a.time >= b.time));
        let half = composition.filling(DurNs(whole(&composition) / 2));
        assert!(whole(&half).abs_diff(whole(&composition) / 2) <= half.parts.len() as u64);
        let longer = composition.filling(DurNs(2 * whole(&composition)));
        assert_eq!(whole(&longer), 2 * whole(&composition));
        let kept = |part: &Part| part.paint == Paint::Call || longer.parts.contains(part);
        assert!(composition.parts.iter().all(kept));
    }

    #[test]
    fn parts_are_those_of_the_path_on_every_sample() {
        let engine = Engine::builtin().unwrap();
        for name in ["vgg13-train-h100", "dlrm-v100x8"] {
            let loaded = sample::find(name).unwrap().load(&engine, &BuildOptions::default()).unwrap();
            let (resolved, schedule) = (&loaded.replay.resolved, &loaded.replay.schedule);
            let times = Times::Simulated { timed: &resolved.timed, schedule };
            let (graph, works, timed) = (&*resolved.graph, &*resolved.works, &*resolved.timed);
            let path = CriticalPath::of_job(&Sources { graph, works, timed, schedule, times });
            let on_path = |paint: Paint| -> i64 {
                let of_paint = path.segments.iter().filter(|segment| segment_paint(resolved, segment) == paint);
                of_paint.map(|segment| segment.duration.0).sum()
            };
            for part in Composition::of(&loaded.replay).parts {
                assert_eq!(part.time.0, on_path(part.paint), "{name} {part:?}");
            }
        }
    }
}
