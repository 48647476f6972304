//! Host tasks: each thread's stretches as a chain, with the joints at which it waits for the device or another thread.

use crate::graph::{Dependency, DependencyKind, LaneId, TaskKind};
use crate::trace::EventId;
use crate::units::{DurNs, TimeNs};

use super::compute;
use super::draft::NONE;
use super::emit::{CallTasks, Emission, What};
use super::handover::{self, Resume, Run};
use super::hidden::HiddenWait;
use super::host::{self, HostActivity, HostSpan, Parts};
use super::observed::Observed;
use super::sync::Wait;
use super::threads::Thread;

const AT_ONCE: Dependency = Dependency { kind: DependencyKind::Program, lag: DurNs::ZERO, of_predecessor: 0.0 };

/// Writes the chains of all threads, the main thread's first.
pub(super) fn emit(emission: &mut Emission<'_, '_>) {
    let observed = emission.observed;
    let Some(main) = main_thread(emission) else { return };
    let thread = &observed.threads.list[main];
    let range = (emission.window.start, host_end(emission, thread));
    let stretches = stretches(emission, thread, range);
    let mut others: Vec<(usize, Vec<Run>)> = Vec::new();
    for (index, other) in observed.threads.list.iter().enumerate().filter(|&(index, _)| index != main) {
        others.push((index, handover::runs(other, observed.threads.calls_of(other), &stretches)));
    }
    let classes = Classes::of(observed, main);
    let mut chain = Chain::new(emission, main, &classes);
    let main_stretches = (main, stretches.as_slice());
    let resumes = others.iter().flat_map(|(other, runs)| handover::resumes(observed, *other, runs, main_stretches));
    chain.resumes = resumes.collect();
    chain.resumes.sort_unstable();
    chain.write(&stretches);
    let joints = chain.joints;
    for (index, runs) in others {
        emit_runs(emission, main, index, &runs);
    }
    for (joint, resume) in joints {
        let Some((end, from)) = last_end(emission, resume.thread, resume.at) else { continue };
        emission.edge(from, joint, Dependency::on_end(DependencyKind::HandOver, resume.at.since(end)));
    }
}

/// Until when a thread has work: the window's end, or without steps the end of its last operator or call.
fn host_end(emission: &Emission<'_, '_>, thread: &Thread) -> TimeNs {
    if emission.window.main.is_some() {
        return emission.window.tail;
    }
    let operators = thread.operators.iter().filter(|span| span.parent.is_none()).map(|span| span.end);
    let calls = emission.observed.threads.calls_of(thread).iter().map(|call| call.end);
    operators.chain(calls).max().unwrap_or(emission.window.start)
}

/// The thread that drives the iteration: the one with the chosen step.
pub(super) fn main_thread(emission: &Emission<'_, '_>) -> Option<usize> {
    let threads = &emission.observed.threads;
    let stepped = emission.window.main.and_then(|track| threads.list.iter().position(|thread| thread.track == track));
    stepped.or_else(|| threads.main())
}

fn stretches(emission: &Emission<'_, '_>, thread: &Thread, range: (TimeNs, TimeNs)) -> Vec<HostSpan> {
    let mut cuts = annotation_cuts(thread);
    cuts.extend(emission.window.split);
    cuts.push(emission.window.end);
    cuts.sort_unstable();
    host::stretches(thread, emission.observed.threads.calls_of(thread), &cuts, range)
}

/// Starts and ends of a thread's annotations, sorted.
pub(super) fn annotation_cuts(thread: &Thread) -> Vec<TimeNs> {
    let mut cuts: Vec<TimeNs> = thread.annotations.iter().flat_map(|note| [note.start, note.end]).collect();
    cuts.sort_unstable();
    cuts
}

/// The event that names a stretch of host work: its operator's, else that of the annotation around it.
pub(super) fn event_of(thread: &Thread, operator: Option<u32>, start: TimeNs) -> Option<EventId> {
    match operator {
        Some(operator) => Some(thread.operators[operator as usize].event),
        None => thread.annotations_at(start).next(),
    }
}

/// The chain of a thread other than the main one, run by run.
fn emit_runs(emission: &mut Emission<'_, '_>, main: usize, index: usize, runs: &[Run]) {
    let observed = emission.observed;
    let thread = &observed.threads.list[index];
    let window = (emission.window.start, emission.window.tail);
    let runs: Vec<&Run> = runs.iter().filter(|run| run.end > window.0 && run.start < window.1).collect();
    let mut cuts = annotation_cuts(thread);
    cuts.extend(runs.iter().flat_map(|run| [run.started_by, run.start, run.end]));
    cuts.sort_unstable();
    let last = runs.last().map_or(window.1, |run| run.end.max(window.1));
    let stretches = host::stretches(thread, observed.threads.calls_of(thread), &cuts, (window.0, last));
    let classes = Classes::of(observed, index);
    let mut before = NONE;
    for run in runs {
        let handed = ending_at(emission, main, run.started_by);
        let start = if handed == NONE { run.start.max(window.0) } else { run.started_by };
        let from = stretches.partition_point(|stretch| stretch.start < start);
        let to = stretches.partition_point(|stretch| stretch.start < run.end);
        let chain = Chain::new(emission, index, &classes);
        before = emit_run(chain, start, (handed, before), &stretches[from.min(to)..to]);
    }
}

/// One run, from where both the main thread had `handed` over and the run `before` had ended; its last task.
fn emit_run(mut chain: Chain<'_, '_, '_>, start: TimeNs, (handed, before): (u32, u32), stretches: &[HostSpan]) -> u32 {
    let joint = chain.emission.joint(chain.lane, start);
    if handed == NONE && before == NONE {
        chain.emission.anchor(joint, start);
    }
    chain.emission.edge(before, joint, AT_ONCE);
    chain.emission.edge(handed, joint, Dependency::on_end(DependencyKind::HandOver, DurNs::ZERO));
    chain.last = joint;
    chain.write(stretches);
    chain.last
}

/// The task of `thread` that ends last at or before `time`.
pub(super) fn ending_at(emission: &Emission<'_, '_>, thread: usize, time: TimeNs) -> u32 {
    last_end(emission, thread, time).map_or(NONE, |(_, task)| task)
}

/// The task of `thread` that ends last at or before `time`, and when it does.
pub(super) fn last_end(emission: &Emission<'_, '_>, thread: usize, time: TimeNs) -> Option<(TimeNs, u32)> {
    let ends = &emission.ends[thread];
    let after = ends.partition_point(|&(end, _)| end <= time);
    after.checked_sub(1).map(|i| ends[i])
}

/// What the stretches of a thread's host work are.
struct Classes {
    parts: Parts,
    computes: Vec<bool>,
}

impl Classes {
    fn of(observed: &Observed<'_>, thread: usize) -> Self {
        let threads = &observed.threads;
        let parts = Parts::of(&threads.list[thread], threads.calls_of(&threads.list[thread]));
        Self { parts, computes: compute::operators(observed, thread) }
    }

    fn kind(&self, thread: &Thread, stretch: &HostSpan, operator: Option<u32>) -> TaskKind {
        let computes = operator.is_some_and(|operator| self.computes.get(operator as usize) == Some(&true));
        if computes { TaskKind::Compute } else { TaskKind::Host(self.parts.class(thread, stretch, operator)) }
    }
}

/// A thread's tasks while they are written.
struct Chain<'e, 'a, 'o> {
    emission: &'e mut Emission<'a, 'o>,
    thread: usize,
    lane: LaneId,
    classes: &'e Classes,
    last: u32,
    /// OverheadSpans that wait for another thread, by start.
    resumes: Vec<Resume>,
    /// Joints to connect to the other thread.
    joints: Vec<(u32, Resume)>,
}

impl<'e, 'a, 'o> Chain<'e, 'a, 'o> {
    fn new(emission: &'e mut Emission<'a, 'o>, thread: usize, classes: &'e Classes) -> Self {
        Self {
            thread,
            lane: LaneId(emission.thread_lanes + thread as u32),
            classes,
            last: NONE,
            resumes: Vec::new(),
            joints: Vec::new(),
            emission,
        }
    }

    fn write(&mut self, stretches: &[HostSpan]) {
        if self.last == NONE
            && let Some(first) = stretches.first()
        {
            self.last = self.emission.joint(self.lane, first.start);
            self.emission.begin(self.last, first.start);
            self.emission.ends[self.thread].push((first.start, self.last));
        }
        for stretch in stretches {
            match stretch.doing {
                HostActivity::Host(operator) => self.host(stretch, operator),
                HostActivity::Call(call) => self.call(stretch, call),
            }
            self.emission.ends[self.thread].push((stretch.end, self.last));
        }
    }

    fn append(&mut self, task: u32) {
        self.emission.edge(self.last, task, AT_ONCE);
        self.last = task;
    }

    fn host(&mut self, stretch: &HostSpan, operator: Option<u32>) {
        let from = self.resume(stretch).or_else(|| self.hidden_wait(stretch)).unwrap_or(stretch.start);
        if from >= stretch.end {
            return;
        }
        let thread = &self.emission.observed.threads.list[self.thread];
        let event = event_of(thread, operator, stretch.start);
        let name = event.map_or(crate::intern::NameId(0), |event| self.emission.observed.trace.events.name(event));
        let what = What {
            name: self.emission.name(name),
            operator: self.emission.operator(self.thread, operator),
            event: None,
        };
        let kind = self.classes.kind(thread, stretch, operator);
        let span = (from, stretch.end);
        let task = self.emission.task(kind, self.lane, what, span, stretch.end.since(from));
        self.append(task);
    }

    /// Waits for the run on another thread that this stretch waited for; the end of that run.
    fn resume(&mut self, stretch: &HostSpan) -> Option<TimeNs> {
        let from = self.resumes.partition_point(|resume| resume.stretch < stretch.start);
        let to = self.resumes.partition_point(|resume| resume.stretch <= stretch.start);
        let at = self.resumes[from..to].iter().map(|resume| resume.at).max()?;
        let joint = self.emission.joint(self.lane, at);
        self.joints.extend(self.resumes[from..to].iter().map(|&resume| (joint, resume)));
        self.append(joint);
        Some(at)
    }

    /// Waits for the device work that this stretch waited for without a call; the end of that work.
    fn hidden_wait(&mut self, stretch: &HostSpan) -> Option<TimeNs> {
        let observed = self.emission.observed;
        let key = |wait: &HiddenWait| (wait.thread, wait.stretch);
        let found = observed.hidden.binary_search_by_key(&(self.thread, stretch.start), key).ok()?;
        let target = observed.hidden[found].target;
        let at = observed.work(target).end.clamp(stretch.start, stretch.end);
        let joint = self.emission.joint(self.lane, at);
        self.append(joint);
        self.emission.hidden.push((target, joint));
        Some(at)
    }

    fn call(&mut self, stretch: &HostSpan, call: u32) {
        let observed = self.emission.observed;
        let index = observed.threads.list[self.thread].first_call + call;
        let measured = &observed.threads.calls[index as usize];
        let what = What {
            name: self.emission.name(observed.trace.events.name(measured.event)),
            operator: self.emission.operator(self.thread, measured.operator),
            event: Some(measured.event),
        };
        let waits = [wait_of(&observed.waits, index), wait_of(&observed.queue, index)];
        let dur = stretch.end.since(stretch.start);
        let duration = waits.iter().flatten().map(|wait| wait.own).min().unwrap_or(dur);
        let own = self.emission.task(TaskKind::Runtime, self.lane, what, (stretch.start, stretch.end), duration);
        self.append(own);
        if waits.iter().any(Option::is_some) {
            let joint = self.emission.joint(self.lane, stretch.end);
            self.append(joint);
        }
        self.emission.calls[index as usize] = CallTasks { own, end: self.last };
    }
}

fn wait_of(waits: &[Wait], call: u32) -> Option<&Wait> {
    waits.binary_search_by_key(&call, |wait| wait.call).ok().map(|i| &waits[i])
}

/// Connects awaited device work to the joints after the calls that waited for it.
pub(super) fn connect_waits(emission: &mut Emission<'_, '_>) {
    let observed = emission.observed;
    for (target, joint) in std::mem::take(&mut emission.hidden) {
        let on_end = Dependency::on_end(DependencyKind::HiddenWait, DurNs::ZERO);
        emission.edge(emission.works[target as usize], joint, on_end);
    }
    let waits = observed.waits.iter().map(|wait| (wait, DependencyKind::HostWait));
    let queue = observed.queue.iter().map(|wait| (wait, DependencyKind::LaunchQueue));
    for (wait, kind) in waits.chain(queue) {
        let CallTasks { own, end } = emission.calls[wait.call as usize];
        for &target in wait.targets.iter().filter(|_| end != own) {
            emission.edge(emission.works[target as usize], end, Dependency::on_end(kind, wait.lag));
        }
    }
}
