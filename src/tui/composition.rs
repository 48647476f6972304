//! What one iteration is made of: the time of its critical path by family of work.

use retime_core::analysis::busy;
use retime_core::analysis::critical_path::{Segment, SegmentKind};
use retime_core::graph::{RankPart, TaskId};
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
}

/// Parts of one iteration, the longest first; they add up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// The parts.
    pub parts: Vec<Part>,
}

impl Composition {
    /// Of the slowest rank's simulated iteration in `outcome`.
    ///
    /// # Complexity
    /// O(length of the path · families).
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
        let (begin, mut reached) = window(slowest);
        let mut added: Vec<(TaskId, Paint)> = resolved.added.iter().map(|it| (it.task, added_paint(it))).collect();
        added.sort_unstable_by_key(|&(task, _)| task.0);
        let paint_of = |task: TaskId| match timed.node(task) {
            Some(node) => SegmentKind::of(graph, node).map_or(Paint::Call, paint_of_kind),
            None => added.binary_search_by_key(&task.0, |&(task, _)| task.0).map_or(Paint::Call, |at| added[at].1),
        };
        let mut sums = vec![DurNs::ZERO; Paint::ALL.len()];
        let mut add = |paint: Paint, reached: &mut TimeNs, from: TimeNs| {
            let from = from.max(begin).min(*reached);
            sums[paint as usize] += reached.since(from);
            *reached = from;
        };
        let mut next = Some(timed.task(slowest.end));
        while let Some(task) = next.filter(|_| reached > begin) {
            add(Paint::Call, &mut reached, schedule.end(task));
            add(paint_of(task), &mut reached, schedule.start(timed, task));
            next = schedule.critical_predecessor(timed, task);
        }
        add(Paint::Call, &mut reached, begin);
        let part = |(&paint, &time): (&Paint, &DurNs)| Part { name: part_name(paint), paint, time };
        let mut parts: Vec<Part> = Paint::ALL.iter().zip(&sums).map(part).filter(|part| part.time.0 > 0).collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.time), part.paint));
        Self { parts }
    }

    /// The same of an iteration that repeats every `whole`, as the path's table has it: what it takes longer than its path is a wait for the step
    /// before. Where steps overlap, and it takes less, all parts keep their shares.
    #[must_use]
    pub fn filling(&self, whole: DurNs) -> Self {
        let sum: DurNs = self.parts.iter().map(|part| part.time).sum();
        let mut parts = self.parts.clone();
        if whole < sum {
            let factor = whole.0 as f64 / sum.0.max(1) as f64;
            for part in &mut parts {
                part.time = part.time.scale(factor);
            }
        } else if whole > sum {
            let waited = whole - sum;
            match parts.iter_mut().find(|part| part.paint == Paint::Call) {
                Some(waits) => waits.time += waited,
                None => parts.push(Part { name: part_name(Paint::Call), paint: Paint::Call, time: waited }),
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
    use retime_core::graph::BuildOptions;

    #[test]
    fn parts_add_up_to_the_iteration() {
        let engine = Engine::builtin().unwrap();
        let loaded = sample::load(&engine, &BuildOptions::default()).unwrap();
        let whole = |composition: &Composition| composition.parts.iter().map(|part| part.time.0).sum::<i64>();
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
            let path = CriticalPath::of_job(&resolved.graph, &resolved.timed, schedule, times);
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
