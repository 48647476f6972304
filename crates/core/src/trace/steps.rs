//! Where the steps of a trace begin and end: where the profiler was told, else behind each update of the parameters.

use rustc_hash::FxHashMap;

use crate::units::{DurNs, TimeNs};

use super::{Category, EventId, Trace, TrackId, TrackKind, turns};

/// A step of the host's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRange {
    /// Its name as recorded; `step 3` where the profiler was not told of steps.
    pub name: String,
    /// The thread that recorded it.
    pub track: TrackId,
    /// When it begins, in the trace's time.
    pub start: TimeNs,
    /// When it ends.
    pub end: TimeNs,
    /// How many recorded steps it consists of: one, or as many kinds of them as take turns.
    pub parts: u32,
}

/// How many ranges of steps cannot stand as they were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OddRanges {
    /// Recorded twice: they count once.
    pub repeated: usize,
    /// Within another one: they are left out.
    pub nested: usize,
    /// Longer than until the next one begins: they end there.
    pub overlapping: usize,
    /// Kinds of steps that take turns: as many are one step; 0 where there is one kind.
    pub kinds: usize,
    /// Of no whole turn.
    pub beside_turns: usize,
}

/// Ranges that overlap no more than this do so as times were rounded.
const ROUNDING: DurNs = DurNs(1_000);

/// Whether `name` is that of a step the profiler was told of.
pub fn is_step_name(name: &str) -> bool {
    name.starts_with("ProfilerStep")
}

/// The steps in order of start: annotations (operators in 2021) on the host thread that recorded most of them. Without any, a step
/// ends with each update of the parameters, of two or more, and the next begins. That a profiler waits for the device before it
/// stops is no part of the last. Steps of several kinds that take turns are one step.
///
/// # Complexity
/// O(events + names).
pub fn steps(trace: &Trace) -> Vec<StepRange> {
    steps_and_odd_ranges(trace).0
}

/// As [`steps`], with what was recorded of them that cannot be.
pub fn steps_and_odd_ranges(trace: &Trace) -> (Vec<StepRange>, OddRanges) {
    let (mut steps, mut odd) = one_by_one(trace);
    (odd.kinds, odd.beside_turns) = turns::join(trace, &mut steps).unwrap_or_default();
    (steps, odd)
}

/// As [`steps_and_odd_ranges`], each step for itself.
pub fn one_by_one(trace: &Trace) -> (Vec<StepRange>, OddRanges) {
    let told = ranges_named(trace, is_step_name);
    if told.is_empty() {
        return (between_updates(trace), OddRanges::default());
    }
    let step = |&id: &EventId| StepRange {
        name: trace.names.get(trace.events.name(id)).to_owned(),
        track: trace.events.track(id),
        start: trace.events.start(id),
        end: trace.events.end(id),
        parts: 1,
    };
    let (mut steps, odd) = one_after_another(told.iter().map(step).collect());
    leave_out_the_profilers_wait(trace, &mut steps);
    (steps, odd)
}

/// The outermost of ranges that lie within one another, each until the next begins: a thread takes one step at a time.
fn one_after_another(mut ranges: Vec<StepRange>) -> (Vec<StepRange>, OddRanges) {
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let (mut steps, mut odd) = (Vec::<StepRange>::with_capacity(ranges.len()), OddRanges::default());
    for range in ranges {
        match steps.last_mut() {
            Some(before) if *before == range => odd.repeated += 1,
            Some(before) if range.start < before.end && range.end <= before.end => odd.nested += 1,
            Some(before) if range.start < before.end => {
                odd.overlapping += usize::from(before.end.since(range.start) > ROUNDING);
                before.end = range.start;
                steps.push(range);
            }
            _ => steps.push(range),
        }
    }
    (steps, odd)
}

/// A profiler that has waited for the device ends its step this soon [0.02 to 0.2 ms in captures].
const STOPPING: DurNs = DurNs(1_000_000);

/// Ends the last step where a wait for the whole device begins with which it ends, if the step before has none.
fn leave_out_the_profilers_wait(trace: &Trace, steps: &mut [StepRange]) {
    let [.., before, last] = steps else { return };
    let waits: Vec<bool> = trace.names.iter().map(|(_, text)| text.ends_with("DeviceSynchronize")).collect();
    let is_wait = |id: &EventId| waits.get(trace.events.name(*id).0 as usize) == Some(&true);
    let begun_in = |step: &StepRange| {
        let track = step.track;
        trace.events.within(step.start..step.end).filter(move |&id| trace.events.track(id) == track)
    };
    let is_left_out = waits.contains(&true) && !begun_in(before).any(|id| is_wait(&id));
    let stops = |id: &EventId| is_wait(id) && last.end.since(trace.events.end(*id)) <= STOPPING;
    if let Some(wait) = begun_in(last).next_back().filter(|id| is_left_out && stops(id)) {
        last.end = trace.events.start(wait);
    }
}

/// Host ranges with such names in order of start, on the thread that has most of them.
fn ranges_named(trace: &Trace, is_wanted: impl Fn(&str) -> bool) -> Vec<EventId> {
    let names: Vec<bool> = trace.names.iter().map(|(_, text)| is_wanted(text)).collect();
    if !names.contains(&true) {
        return Vec::new();
    }
    let is_named = |id: &EventId| names.get(trace.events.name(*id).0 as usize) == Some(&true);
    let mut found: Vec<EventId> =
        trace.events.ids().filter(|id| is_named(id) && is_range_of_thread(trace, *id)).collect();
    let mut per_track: FxHashMap<TrackId, usize> = FxHashMap::default();
    for &id in &found {
        *per_track.entry(trace.events.track(id)).or_default() += 1;
    }
    let main = per_track.into_iter().max_by_key(|&(track, count)| (count, std::cmp::Reverse(track)));
    found.retain(|&id| main.is_some_and(|(main, _)| trace.events.track(id) == main));
    found
}

fn is_range_of_thread(trace: &Trace, id: EventId) -> bool {
    let track = trace.tracks.get(trace.events.track(id).0 as usize);
    track.is_some_and(|track| matches!(track.kind, TrackKind::Thread { .. }))
        && matches!(trace.events.category(id), Category::Annotation | Category::Operator)
}

/// The steps of optimizers, in order of start, on the thread that has most of them.
///
/// # Complexity
/// O(events).
pub fn updates(trace: &Trace) -> Vec<EventId> {
    ranges_named(trace, |name| name.starts_with("Optimizer.step#"))
}

/// Steps that end with the updates of a training loop. Updates with no backward pass between them are one, of several optimizers;
/// where no backward pass was recorded, those until the first comes again are.
fn between_updates(trace: &Trace) -> Vec<StepRange> {
    let updates = updates(trace);
    let Some(&first) = updates.first().filter(|_| updates.len() > 1) else { return Vec::new() };
    let backward = backward_starts(trace);
    let mut ends: Vec<TimeNs> = Vec::new();
    for &update in &updates {
        let (start, end) = (trace.events.start(update), trace.events.end(update));
        let runs_between = |before: TimeNs| {
            let at = backward.partition_point(|&at| at < before);
            let is_apart = if backward.is_empty() {
                trace.events.name(update) == trace.events.name(first)
            } else {
                backward.get(at).is_some_and(|&at| at < start)
            };
            before <= start && is_apart
        };
        match ends.last_mut().filter(|before| !runs_between(**before)) {
            Some(before) => *before = end.max(*before),
            None => ends.push(end),
        }
    }
    let mut start = first_host_work(trace).unwrap_or_else(|| trace.events.start(first));
    let step = |(number, end): (usize, TimeNs)| {
        let begins = std::mem::replace(&mut start, end);
        StepRange { name: format!("step {number}"), track: trace.events.track(first), start: begins, end, parts: 1 }
    };
    if ends.len() > 1 { ends.into_iter().enumerate().map(step).collect() } else { Vec::new() }
}

/// When parts of backward passes begin, in order.
fn backward_starts(trace: &Trace) -> Vec<TimeNs> {
    let names: Vec<bool> = trace.names.iter().map(|(_, text)| text.starts_with("autograd::engine")).collect();
    let is_backward = |id: &EventId| names.get(trace.events.name(*id).0 as usize) == Some(&true);
    trace.events.ids().filter(is_backward).map(|id| trace.events.start(id)).collect()
}

fn first_host_work(trace: &Trace) -> Option<TimeNs> {
    let first = trace.events.ids().find(|&id| is_range_of_thread(trace, id))?;
    Some(trace.events.start(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::load_bytes;

    /// A trace with such host ranges: name, start and duration in µs.
    fn trace_of(ranges: &[(&str, u32, u32)]) -> Trace {
        let event = |(name, ts, dur): &(&str, u32, u32)| {
            let category =
                if name.starts_with("aten") || name.starts_with("autograd") { "cpu_op" } else { "user_annotation" };
            format!(r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#)
        };
        let events: Vec<String> = ranges.iter().map(event).collect();
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        load_bytes(text.as_bytes(), "hand-made.json").unwrap()
    }

    /// Its steps: name, start and end in µs.
    fn found(ranges: &[(&str, u32, u32)]) -> Vec<(String, i64, i64)> {
        let trace = trace_of(ranges);
        let origin = steps(&trace).first().map_or(TimeNs(0), |step| step.start);
        let us = |time: TimeNs| time.since(origin).0 / 1000;
        steps(&trace).into_iter().map(|step| (step.name, us(step.start), us(step.end))).collect()
    }

    const BACKWARD: &str = "autograd::engine::evaluate_function: MmBackward0";

    #[test]
    fn the_wait_of_a_profiler_that_stops_is_no_part_of_a_step() {
        let (first, second, wait) = (("ProfilerStep#1", 0, 100), ("ProfilerStep#2", 110, 190), "cudaDeviceSynchronize");
        let ends = |ranges: &[(&str, u32, u32)]| found(ranges).iter().map(|step| step.2).collect::<Vec<i64>>();
        assert_eq!(ends(&[first, second, ("aten::mm", 115, 5), (wait, 210, 80), (wait, 305, 9)]), [100, 210]);
        assert_eq!(ends(&[first, second, (wait, 210, 80), ("aten::mm", 292, 5)]), [100, 300], "work follows");
        let late = [first, ("ProfilerStep#2", 110, 9_000), (wait, 210, 80)];
        assert_eq!(ends(&late), [100, 9_110], "the host went on");
        assert_eq!(ends(&[first, (wait, 90, 5), second, (wait, 210, 80)]), [100, 300], "each step waits");
        assert_eq!(ends(&[second, (wait, 210, 80)]), [190], "one step");
    }

    #[test]
    fn updates_end_steps_where_the_profiler_was_not_told_of_any() {
        let update = "Optimizer.step#SGD.step";
        let two = [
            ("aten::mm", 0, 5),
            (BACKWARD, 10, 5),
            (update, 20, 10),
            ("aten::mm", 40, 5),
            (BACKWARD, 50, 5),
            (update, 60, 10),
        ];
        assert_eq!(found(&two), [("step 0".to_owned(), 0, 30), ("step 1".to_owned(), 30, 70)]);
        assert_eq!(found(&two[..3]), [], "one update is no step that repeats");
        let told: Vec<_> = two.into_iter().chain([("ProfilerStep#7", 0, 80)]).collect();
        assert_eq!(found(&told), [("ProfilerStep#7".to_owned(), 0, 80)]);
    }

    #[test]
    fn ranges_of_steps_on_one_thread_come_one_after_another() {
        let told = [("ProfilerStep#1", 0, 100), ("ProfilerStep#2", 100, 100), ("ProfilerStep#3", 200, 100)];
        let with = |more: &[(&str, u32, u32)]| {
            let trace = trace_of(&[&told, more].concat());
            let (found, odd) = steps_and_odd_ranges(&trace);
            (found.into_iter().map(|step| (step.name, step.start, step.end)).collect::<Vec<_>>(), odd)
        };
        let (plain, none) = with(&[]);
        assert_eq!((plain.len(), none), (3, OddRanges::default()));
        let (twice, odd) = with(&told[..2]);
        assert_eq!((twice, odd), (plain.clone(), OddRanges { repeated: 2, ..none }));
        let (outer, odd) = with(&[("ProfilerStep#1", 20, 30), ("ProfilerStep#9", 100, 40)]);
        assert_eq!((outer, odd), (plain, OddRanges { nested: 2, ..none }));
        let trace = trace_of(&[("ProfilerStep#1", 0, 170), ("ProfilerStep#2", 100, 170), ("ProfilerStep#3", 200, 170)]);
        let odd = steps_and_odd_ranges(&trace).1;
        assert_eq!(odd, OddRanges { overlapping: 2, ..none });
        let lengths: Vec<i64> = steps(&trace).iter().map(|step| step.end.since(step.start).0 / 1000).collect();
        assert_eq!(lengths, [100, 100, 170]);
        let rounded = trace_of(&[("ProfilerStep#1", 0, 101), ("ProfilerStep#2", 100, 100)]);
        assert_eq!(steps_and_odd_ranges(&rounded).1, none);
    }

    #[test]
    fn without_backward_passes_updates_of_several_names_end_one_step() {
        let (dense, sparse) = ("Optimizer.step#SGD.step", "Optimizer.step#Adagrad.step");
        let step = |at: u32| [("aten::mm", at, 5), (dense, at + 10, 5), (sparse, at + 20, 5)];
        let ranges: Vec<_> = [step(0), step(40), step(80)].concat();
        let ends: Vec<i64> = found(&ranges).into_iter().map(|(.., end)| end).collect();
        assert_eq!(ends, [25, 65, 105]);
        let one: Vec<_> = ranges.into_iter().filter(|(name, ..)| *name != sparse).collect();
        let ends: Vec<i64> = found(&one).into_iter().map(|(.., end)| end).collect();
        assert_eq!(ends, [15, 55, 95]);
    }

    #[test]
    fn optimizers_that_update_one_after_another_end_one_step() {
        let (dense, sparse) = ("Optimizer.step#SGD.step", "Optimizer.step#Adagrad.step");
        let step = |at: u32| [(BACKWARD, at, 5), (dense, at + 10, 5), (sparse, at + 20, 5)];
        let ranges: Vec<_> = [step(0), step(40), step(80)].concat();
        let ends: Vec<i64> = found(&ranges).into_iter().map(|(.., end)| end).collect();
        assert_eq!(ends, [25, 65, 105]);
    }
}
