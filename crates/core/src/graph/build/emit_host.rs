//! Host tasks: each thread's host spans as a chain, with the joints at which it waits for the device or another thread.

use crate::graph::{Dependency, DependencyKind, LaneId, TaskKind};
use crate::trace::EventId;
use crate::units::{DurNs, TimeNs};

use super::compute;
use super::draft::NONE;
use super::emit::{CallTasks, RankWriter, What};
use super::handover::{self, Resume, Run};
use super::hidden::HiddenWait;
use super::host::{self, HostActivity, HostSpan, Parts};
use super::observed::Observed;
use super::sync::Wait;
use super::threads::Thread;

const AT_ONCE: Dependency = Dependency { kind: DependencyKind::Program, lag: DurNs::ZERO, of_predecessor: 0.0 };

/// Writes the chains of all threads, the main thread's first.
pub(super) fn emit(writer: &mut RankWriter<'_, '_>) {
    let observed = writer.observed;
    let Some(main) = main_thread(writer) else { return };
    let thread = &observed.threads.list[main];
    let range = (writer.window.start, host_end(writer, thread));
    let host_spans = host_spans(writer, thread, range);
    let mut others: Vec<(usize, Vec<Run>)> = Vec::new();
    for (index, other) in observed.threads.list.iter().enumerate().filter(|&(index, _)| index != main) {
        let until = if writer.window.main.is_some() { range.1 } else { TimeNs(i64::MAX) };
        others.push((index, handover::runs(other, observed.threads.calls_of(other), (&host_spans, until))));
    }
    let classes = Classes::of(observed, main);
    let mut chain = Chain::new(writer, main, &classes);
    let main_stretches = (main, host_spans.as_slice());
    let resumes = others.iter().flat_map(|(other, runs)| handover::resumes(observed, *other, runs, main_stretches));
    chain.resumes = resumes.collect();
    chain.resumes.sort_unstable();
    chain.write(&host_spans);
    let joints = chain.joints;
    for (index, runs) in others {
        emit_runs(writer, main, index, &runs);
    }
    for (joint, resume) in joints {
        let Some((end, from)) = last_end(writer, resume.thread, resume.at) else { continue };
        writer.edge(from, joint, Dependency::on_end(DependencyKind::HandOver, resume.at.since(end)));
    }
}

/// Until when a thread has work: the window's end, or without steps the end of its last operator or call.
fn host_end(writer: &RankWriter<'_, '_>, thread: &Thread) -> TimeNs {
    if writer.window.main.is_some() {
        return writer.window.tail;
    }
    let operators = thread.operators.iter().filter(|span| span.parent.is_none()).map(|span| span.end);
    let calls = writer.observed.threads.calls_of(thread).iter().map(|call| call.end);
    operators.chain(calls).max().unwrap_or(writer.window.start)
}

/// The thread that drives the iteration: the one with the chosen step.
pub(super) fn main_thread(writer: &RankWriter<'_, '_>) -> Option<usize> {
    let threads = &writer.observed.threads;
    let stepped = writer.window.main.and_then(|track| threads.list.iter().position(|thread| thread.track == track));
    stepped.or_else(|| threads.main())
}

fn host_spans(writer: &RankWriter<'_, '_>, thread: &Thread, range: (TimeNs, TimeNs)) -> Vec<HostSpan> {
    let mut cuts = annotation_cuts(thread);
    cuts.extend(writer.window.split);
    cuts.push(writer.window.end);
    cuts.sort_unstable();
    host::host_spans(thread, writer.observed.threads.calls_of(thread), &cuts, range)
}

/// Starts and ends of a thread's annotations, sorted.
pub(super) fn annotation_cuts(thread: &Thread) -> Vec<TimeNs> {
    let mut cuts: Vec<TimeNs> = thread.annotations.iter().flat_map(|note| [note.start, note.end]).collect();
    cuts.sort_unstable();
    cuts
}

/// The event that names a host span: its operator's, else that of the annotation around it.
pub(super) fn event_of(thread: &Thread, operator: Option<u32>, start: TimeNs) -> Option<EventId> {
    match operator {
        Some(operator) => Some(thread.operators[operator as usize].event),
        None => thread.annotations_at(start).next(),
    }
}

/// The chain of a thread other than the main one, run by run.
fn emit_runs(writer: &mut RankWriter<'_, '_>, main: usize, index: usize, runs: &[Run]) {
    let observed = writer.observed;
    let thread = &observed.threads.list[index];
    let window = (writer.window.start, writer.window.tail);
    let runs: Vec<&Run> = runs.iter().filter(|run| run.end > window.0 && run.start < window.1).collect();
    let mut cuts = annotation_cuts(thread);
    cuts.extend(runs.iter().flat_map(|run| [run.started_by, run.start, run.end]));
    cuts.sort_unstable();
    let last = runs.last().map_or(window.1, |run| run.end.max(window.1));
    let host_spans = host::host_spans(thread, observed.threads.calls_of(thread), &cuts, (window.0, last));
    let classes = Classes::of(observed, index);
    let mut before = NONE;
    for run in runs {
        let handed = ending_at(writer, main, run.started_by);
        let start = if handed == NONE { run.start.max(window.0) } else { run.started_by };
        let from = host_spans.partition_point(|host_span| host_span.start < start);
        let to = host_spans.partition_point(|host_span| host_span.start < run.end);
        let chain = Chain::new(writer, index, &classes);
        before = emit_run(chain, start, (handed, before), &host_spans[from.min(to)..to]);
    }
}

/// One run, from where both the main thread had `handed` over and the run `before` had ended; its last task.
fn emit_run(mut chain: Chain<'_, '_, '_>, start: TimeNs, (handed, before): (u32, u32), host_spans: &[HostSpan]) -> u32 {
    let joint = chain.writer.joint(chain.lane, start);
    if handed == NONE && before == NONE {
        chain.writer.anchor(joint, start);
    }
    chain.writer.edge(before, joint, AT_ONCE);
    chain.writer.edge(handed, joint, Dependency::on_end(DependencyKind::HandOver, DurNs::ZERO));
    chain.last = joint;
    chain.write(host_spans);
    chain.last
}

/// The task of `thread` that ends last at or before `time`.
pub(super) fn ending_at(writer: &RankWriter<'_, '_>, thread: usize, time: TimeNs) -> u32 {
    last_end(writer, thread, time).map_or(NONE, |(_, task)| task)
}

/// The task of `thread` that ends last at or before `time`, and when it does.
pub(super) fn last_end(writer: &RankWriter<'_, '_>, thread: usize, time: TimeNs) -> Option<(TimeNs, u32)> {
    let ends = &writer.ends[thread];
    let after = ends.partition_point(|&(end, _)| end <= time);
    after.checked_sub(1).map(|i| ends[i])
}

/// What the host spans of a thread are.
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

    fn kind(&self, thread: &Thread, host_span: &HostSpan, operator: Option<u32>) -> TaskKind {
        let computes = operator.is_some_and(|operator| self.computes.get(operator as usize) == Some(&true));
        if computes { TaskKind::Compute } else { TaskKind::Host(self.parts.class(thread, host_span, operator)) }
    }
}

/// A thread's tasks while they are written.
struct Chain<'e, 'a, 'o> {
    writer: &'e mut RankWriter<'a, 'o>,
    thread: usize,
    lane: LaneId,
    classes: &'e Classes,
    last: u32,
    /// Host spans that wait for another thread, by start.
    resumes: Vec<Resume>,
    /// Joints to connect to the other thread.
    joints: Vec<(u32, Resume)>,
}

impl<'e, 'a, 'o> Chain<'e, 'a, 'o> {
    fn new(writer: &'e mut RankWriter<'a, 'o>, thread: usize, classes: &'e Classes) -> Self {
        Self {
            thread,
            lane: LaneId(writer.thread_lanes + thread as u32),
            classes,
            last: NONE,
            resumes: Vec::new(),
            joints: Vec::new(),
            writer,
        }
    }

    fn write(&mut self, host_spans: &[HostSpan]) {
        if self.last == NONE
            && let Some(first) = host_spans.first()
        {
            self.last = self.writer.joint(self.lane, first.start);
            self.writer.begin(self.last, first.start);
            self.writer.ends[self.thread].push((first.start, self.last));
        }
        for host_span in host_spans {
            match host_span.doing {
                HostActivity::Host(operator) => self.host(host_span, operator),
                HostActivity::Call(call) => self.call(host_span, call),
            }
            self.writer.ends[self.thread].push((host_span.end, self.last));
        }
    }

    fn append(&mut self, task: u32) {
        self.writer.edge(self.last, task, AT_ONCE);
        self.last = task;
    }

    fn host(&mut self, host_span: &HostSpan, operator: Option<u32>) {
        let from = self.resume(host_span).or_else(|| self.hidden_wait(host_span)).unwrap_or(host_span.start);
        if from >= host_span.end {
            return;
        }
        let thread = &self.writer.observed.threads.list[self.thread];
        let event = event_of(thread, operator, host_span.start);
        let name = event.map_or(crate::intern::NameId(0), |event| self.writer.observed.trace.events.name(event));
        let what =
            What { name: self.writer.name(name), operator: self.writer.operator(self.thread, operator), event: None };
        let kind = self.classes.kind(thread, host_span, operator);
        let span = (from, host_span.end);
        let task = self.writer.task(kind, self.lane, what, span, host_span.end.since(from));
        self.append(task);
    }

    /// Waits for the run on another thread that this host span waited for; the end of that run.
    fn resume(&mut self, host_span: &HostSpan) -> Option<TimeNs> {
        let from = self.resumes.partition_point(|resume| resume.host_span < host_span.start);
        let to = self.resumes.partition_point(|resume| resume.host_span <= host_span.start);
        let at = self.resumes[from..to].iter().map(|resume| resume.at).max()?;
        let joint = self.writer.joint(self.lane, at);
        self.joints.extend(self.resumes[from..to].iter().map(|&resume| (joint, resume)));
        self.append(joint);
        Some(at)
    }

    /// Waits for the device work that this host span waited for without a call; the end of that work.
    fn hidden_wait(&mut self, host_span: &HostSpan) -> Option<TimeNs> {
        let observed = self.writer.observed;
        let key = |wait: &HiddenWait| (wait.thread, wait.host_span);
        let found = observed.hidden.binary_search_by_key(&(self.thread, host_span.start), key).ok()?;
        let target = observed.hidden[found].target;
        let at = observed.activity(target).end.clamp(host_span.start, host_span.end);
        let joint = self.writer.joint(self.lane, at);
        self.append(joint);
        self.writer.hidden.push((target, joint));
        Some(at)
    }

    fn call(&mut self, host_span: &HostSpan, call: u32) {
        let observed = self.writer.observed;
        let index = observed.threads.list[self.thread].first_call + call;
        let measured = &observed.threads.calls[index as usize];
        let what = What {
            name: self.writer.name(observed.trace.events.name(measured.event)),
            operator: self.writer.operator(self.thread, measured.operator),
            event: Some(measured.event),
        };
        let waits = [wait_of(&observed.waits, index), wait_of(&observed.queue, index)];
        let dur = host_span.end.since(host_span.start);
        let duration = waits.iter().flatten().map(|wait| wait.own).min().unwrap_or(dur);
        let own = self.writer.task(TaskKind::Runtime, self.lane, what, (host_span.start, host_span.end), duration);
        self.append(own);
        if waits.iter().any(Option::is_some) {
            let joint = self.writer.joint(self.lane, host_span.end);
            self.append(joint);
        }
        self.writer.calls[index as usize] = CallTasks { own, end: self.last };
    }
}

fn wait_of(waits: &[Wait], call: u32) -> Option<&Wait> {
    waits.binary_search_by_key(&call, |wait| wait.call).ok().map(|i| &waits[i])
}

/// Connects awaited device work to the joints after the calls that waited for it.
pub(super) fn connect_waits(writer: &mut RankWriter<'_, '_>) {
    let observed = writer.observed;
    for (target, joint) in std::mem::take(&mut writer.hidden) {
        let on_end = Dependency::on_end(DependencyKind::HiddenWait, DurNs::ZERO);
        writer.edge(writer.activities[target as usize], joint, on_end);
    }
    let waits = observed.waits.iter().map(|wait| (wait, DependencyKind::HostWait));
    let queue = observed.queue.iter().map(|wait| (wait, DependencyKind::LaunchQueue));
    for (wait, kind) in waits.chain(queue) {
        let CallTasks { own, end } = writer.calls[wait.call as usize];
        for &target in wait.targets.iter().filter(|_| end != own) {
            writer.edge(writer.activities[target as usize], end, Dependency::on_end(kind, wait.lag));
        }
    }
}
