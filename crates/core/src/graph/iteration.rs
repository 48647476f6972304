//! Which part of a trace is modelled: the profiler's steps, the choice among them, and the window around the chosen one.
//!
//! Reads traces; knows no tasks and no dependencies.

use crate::trace::steps::{OddRanges, StepRange, is_step_name, one_by_one, steps_and_odd_ranges as told_steps};
use crate::trace::{Trace, TrackId};
use crate::units::{DurNs, TimeNs};

/// How to choose the iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IterationChoice {
    /// Among steps recorded whole (see [`choose`]) the one with the lower median duration.
    #[default]
    Default,
    /// The step at this position among all recorded steps, from 0.
    Index(usize),
}

/// One recorded step (`ProfilerStep#…`, or `step 3` where the profiler was not told of steps).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name as recorded.
    pub name: String,
    /// The thread that recorded it.
    pub track: TrackId,
    /// Start, in the trace's time.
    pub start: TimeNs,
    /// Its length.
    pub dur: DurNs,
    /// How many events start in it.
    pub events: u64,
    /// Whether an execution-trace observer was on, which slows a step.
    pub observed: bool,
    /// How many recorded steps it consists of, see [`StepRange::parts`].
    pub parts: u32,
}

impl Step {
    /// When it ends.
    pub fn end(&self) -> TimeNs {
        self.start + self.dur
    }
}

/// The steps of a trace in order of start.
///
/// # Complexity
/// O(events + names).
pub fn steps(trace: &Trace) -> Vec<Step> {
    steps_and_odd_ranges(trace, true).0
}

/// As [`steps`], with what was recorded of them that cannot be.
///
/// # Arguments
/// `joined`: whether those that take turns are one.
pub(super) fn steps_and_odd_ranges(trace: &Trace, joined: bool) -> (Vec<Step>, OddRanges) {
    let step = |step: StepRange| Step {
        name: step.name,
        track: step.track,
        start: step.start,
        dur: step.end.since(step.start),
        events: 0,
        observed: false,
        parts: step.parts,
    };
    let (told, odd) = if joined { told_steps(trace) } else { one_by_one(trace) };
    let mut steps: Vec<Step> = told.into_iter().map(step).collect();
    count_events(trace, &mut steps);
    (steps, odd)
}

fn count_events(trace: &Trace, steps: &mut [Step]) {
    for step in steps.iter_mut() {
        step.events = trace.events.within(step.start..step.end()).len() as u64;
    }
    for (id, _) in trace.operators.iter().filter(|(_, arguments)| arguments.record_function != 0) {
        let at = trace.events.start(id);
        let after = steps.partition_point(|step| step.start <= at);
        if let Some(step) = after.checked_sub(1).map(|i| &mut steps[i]) {
            step.observed |= at < step.end();
        }
    }
}

/// The position of the chosen step; `None` when there are no steps or the index is out of range.
///
/// By default, steps that an execution-trace observer slowed, steps with fewer than [`least_events`] and, when three or more
/// remain, the first are left out; of the rest the one with the lower median time since the end of the step before is taken.
pub fn choose(steps: &[Step], choice: IterationChoice) -> Option<usize> {
    match choice {
        IterationChoice::Index(index) => (index < steps.len()).then_some(index),
        IterationChoice::Default => choose_median(steps),
    }
}

/// From how many events on a step counts as recorded whole: half the largest step's. Where half of those between the first and the
/// last, which a recording may have cut off, have less, the largest did something else beside: half of their median.
pub fn least_events(steps: &[Step]) -> u64 {
    let half = |events: u64| events.div_ceil(2);
    let of_largest = half(steps.iter().map(|step| step.events).max().unwrap_or_default());
    let mut between: Vec<u64> = steps.iter().map(|step| step.events).skip(1).collect();
    between.pop();
    between.sort_unstable();
    let smaller = between.partition_point(|&events| events < of_largest);
    if smaller > 0 && smaller * 2 >= between.len() { half(between[(between.len() - 1) / 2]) } else { of_largest }
}

fn choose_median(steps: &[Step]) -> Option<usize> {
    let mut candidates = candidates(steps);
    candidates.sort_by_key(|&i| (iteration(steps, i), i));
    candidates.get((candidates.len().max(1) - 1) / 2).copied()
}

/// Steps that were recorded whole and not slowed, without the first of three or more.
fn candidates(steps: &[Step]) -> Vec<usize> {
    let least = least_events(steps);
    let whole = |step: &Step| step.events >= least;
    let all_observed = steps.iter().all(|step| step.observed || !whole(step));
    let mut found: Vec<usize> =
        (0..steps.len()).filter(|&i| whole(&steps[i]) && (all_observed || !steps[i].observed)).collect();
    if found.len() >= 3 {
        found.remove(0);
    }
    found
}

/// What steps recorded whole take one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeanStep {
    /// How many there are.
    pub(super) count: usize,
    /// From the end of one to the end of the next, on average.
    pub(super) mean: DurNs,
    /// The same of the chosen one.
    pub(super) own: DurNs,
}

/// Steps from which on their mean says more than the median.
const LEAST_MEAN: usize = 3;

impl MeanStep {
    /// Of the steps among which one is chosen by default, and of step `chosen`; `None` where too few follow one another.
    pub(super) fn of(steps: &[Step], chosen: usize) -> Option<Self> {
        let is_after = |&at: &usize| at.checked_sub(1).is_some_and(|before| follows(&steps[before], &steps[at]));
        let followed: Vec<usize> = candidates(steps).into_iter().filter(is_after).collect();
        let all: DurNs = followed.iter().map(|&at| iteration(steps, at)).sum();
        let count = followed.len();
        (count >= LEAST_MEAN).then(|| Self { count, mean: DurNs(all.0 / count as i64), own: iteration(steps, chosen) })
    }
}

/// How long the host takes from the end of the step before, where that is known, to the end of step `at`.
fn iteration(steps: &[Step], at: usize) -> DurNs {
    let step = &steps[at];
    let before = at.checked_sub(1).map(|i| &steps[i]).filter(|before| follows(before, step));
    before.map_or(step.dur, |before| step.end().since(before.end().min(step.start)))
}

/// The part of a trace that is modelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Name of the chosen step; empty without steps.
    pub name: String,
    /// From here on work is simulated: the start of the step before the chosen one.
    pub start: TimeNs,
    /// Where the chosen iteration begins, when a step before it is simulated too: at the end of that, or at its own start if
    /// steps between them were not recorded.
    pub split: Option<TimeNs>,
    /// End of the chosen step.
    pub end: TimeNs,
    /// Host work from here on is left out. What the next steps do until the chosen step's device work has ended is
    /// simulated too: it shares the device with that work, as this step does with the work of the one before.
    pub tail: TimeNs,
    /// The thread that recorded the steps.
    pub main: Option<TrackId>,
    /// How many batches the chosen iteration runs on: as many as the profiler was told of steps in it.
    pub batches: u32,
}

impl Window {
    /// The window of step `chosen` of `steps`; of all host and device work (`span`) when there are none.
    pub fn of(steps: &[Step], chosen: Option<usize>, span: (TimeNs, TimeNs)) -> Self {
        let Some((index, step)) = chosen.and_then(|i| Some((i, steps.get(i)?))) else {
            return Self {
                name: String::new(),
                start: span.0,
                split: None,
                end: span.1,
                tail: span.1,
                main: None,
                batches: 1,
            };
        };
        let before = index.checked_sub(1).map(|i| &steps[i]);
        Self {
            name: step.name.clone(),
            start: before.map_or(step.start, |b| b.start),
            split: before.map(|before| if follows(before, step) { before.end().min(step.start) } else { step.start }),
            end: step.end(),
            tail: step.end(),
            main: Some(step.track),
            batches: if is_step_name(&step.name) { step.parts } else { 1 },
        }
    }
}

/// Whether no step between them was left out, by their numbers.
fn follows(before: &Step, step: &Step) -> bool {
    let number = |step: &Step| -> Option<u64> {
        step.name.rsplit(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    };
    let parts = u64::from(step.parts);
    number(before).zip(number(step)).is_some_and(|(before, number)| before.checked_add(parts) == Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(dur: i64, events: u64, observed: bool) -> Step {
        Step { name: String::new(), track: TrackId(0), start: TimeNs(0), dur: DurNs(dur), events, observed, parts: 1 }
    }

    #[test]
    fn the_default_leaves_out_the_first_the_cut_and_the_observed_step() {
        let steps = [
            step(50, 90, false),
            step(70, 100, false),
            step(300, 100, true),
            step(72, 100, false),
            step(9, 20, false),
            step(75, 100, false),
        ];
        assert_eq!(choose(&steps, IterationChoice::Default), Some(3));
        assert_eq!(choose(&steps[..2], IterationChoice::Default), Some(0));
        assert_eq!(choose(&[], IterationChoice::Default), None);
        assert_eq!(choose(&steps, IterationChoice::Index(9)), None);
    }

    #[test]
    fn one_large_step_does_not_leave_out_most_of_the_others() {
        let with_evaluation: Vec<Step> = [(50, 100), (52, 101), (900, 2_000), (51, 99), (53, 100), (9, 20)]
            .map(|(dur, events)| step(dur, events, false))
            .to_vec();
        assert_eq!((least_events(&with_evaluation), choose(&with_evaluation, IterationChoice::Default)), (50, Some(1)));
        assert_eq!(least_events(&with_evaluation[1..3]), 1_000, "half of the steps are not most of them");
        assert_eq!(least_events(&[]), 0);
    }

    #[test]
    fn a_step_that_did_more_than_the_others_does_not_make_them_small() {
        let of = |events: &[u64]| {
            let steps: Vec<Step> = events.iter().map(|&events| step(50, events, false)).collect();
            least_events(&steps)
        };
        assert_eq!(of(&[100, 100, 900, 100, 100, 100]), 50);
        assert_eq!((of(&[10, 100, 10]), of(&[10, 100]), of(&[])), (50, 50, 0), "cut off at both ends");
    }

    #[test]
    fn the_mean_of_steps_that_differ_is_another_than_that_of_the_chosen_one() {
        let mut end = 0;
        let mut of = |number: usize, dur: i64| {
            end += dur;
            let name = format!("ProfilerStep#{number}");
            Step { name, start: TimeNs(end - dur), ..step(dur, 100, false) }
        };
        let steps: Vec<Step> =
            [900, 500, 1_000, 520, 980, 500].into_iter().enumerate().map(|(n, dur)| of(n, dur)).collect();
        let chosen = choose(&steps, IterationChoice::Default).unwrap();
        let expected = MeanStep { count: 5, mean: DurNs(700), own: DurNs(520) };
        assert_eq!(MeanStep::of(&steps, chosen), Some(expected));
        assert_eq!(MeanStep::of(&steps[..3], 1), None);
    }

    #[test]
    fn the_window_begins_with_the_step_before() {
        let mut steps = [step(50, 1, false), step(70, 1, false)];
        steps[1].start = TimeNs(55);
        let window = Window::of(&steps, Some(1), (TimeNs(0), TimeNs(1)));
        assert_eq!((window.start, window.split, window.end), (TimeNs(0), Some(TimeNs(55)), TimeNs(125)));
        assert_eq!(Window::of(&steps, Some(0), (TimeNs(0), TimeNs(1))).split, None);
        (steps[0].name, steps[1].name) = ("ProfilerStep#4".to_owned(), "ProfilerStep#5".to_owned());
        let begins = |steps: &[Step]| Window::of(steps, Some(1), (TimeNs(0), TimeNs(1))).split;
        assert_eq!(begins(&steps), Some(TimeNs(50)), "what is between two steps is of the later");
        steps[1].name = "ProfilerStep#9".to_owned();
        assert_eq!(begins(&steps), Some(TimeNs(55)), "four steps between them were not recorded");
        assert_eq!(Window::of(&[], None, (TimeNs(3), TimeNs(9))).end, TimeNs(9));
    }
}
