//! The host threads of a trace as they ran: nested operators and top-level runtime calls, in the trace's time.
//!
//! Nesting is repaired here (rounding, truly crossing events); nothing here knows tasks or dependencies.

use crate::trace::{Category, EventId, Trace, TrackId, TrackKind};
use crate::units::TimeNs;

use super::calls::CallClass;

/// An operator in the preorder tree of its thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The operator's event.
    pub(super) event: EventId,
    /// Its start.
    pub(super) start: TimeNs,
    /// Its end, cut to that of its parent.
    pub(super) end: TimeNs,
    /// Position of its parent on the thread.
    pub(super) parent: Option<u32>,
    /// Position of the top-level operator it is in.
    pub(super) top: u32,
}

/// A top-level runtime call; those nested in it are folded in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The outermost call's event.
    pub(super) event: EventId,
    /// Position of its thread.
    pub(super) thread: u32,
    /// Its start.
    pub(super) start: TimeNs,
    /// Its end.
    pub(super) end: TimeNs,
    /// What it does; of the folded calls the one that does most.
    pub(super) class: CallClass,
    /// Position of the innermost operator around it, on its thread.
    pub(super) operator: Option<u32>,
}

/// A named span of host time that is no operator: a user annotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annotation {
    /// Its event.
    pub(super) event: EventId,
    /// Its start.
    pub(super) start: TimeNs,
    /// Its end.
    pub(super) end: TimeNs,
}

/// One host thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// Its track.
    pub(super) track: TrackId,
    /// Its thread id.
    pub(super) tid: i64,
    /// Its process id.
    pub(super) pid: i64,
    /// Its operators in preorder.
    pub(super) operators: Vec<Span>,
    /// Its annotations by start, steps left out.
    pub(super) annotations: Vec<Annotation>,
    /// Its Python frames by start, where recorded.
    pub(super) frames: Vec<EventId>,
    /// Its calls are `calls[first_call..first_call + call_count]` of all.
    pub(super) first_call: u32,
    /// How many calls it made.
    pub(super) call_count: u32,
    /// Whether it recorded steps.
    pub(super) has_steps: bool,
}

/// How many annotations back the ones around a time are looked for.
const LOOK_BACK: usize = 16;

impl Thread {
    /// The annotations around `time`, innermost first.
    pub(super) fn annotations_at(&self, time: TimeNs) -> impl Iterator<Item = EventId> + '_ {
        let started = self.annotations.partition_point(|note| note.start <= time);
        let near = self.annotations[..started].iter().rev().take(LOOK_BACK);
        near.filter(move |note| note.end > time).map(|note| note.event)
    }
}

/// The threads that matter (they ran operators, launched or recorded steps) and their calls, grouped by thread.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// By track.
    pub(super) list: Vec<Thread>,
    /// All calls, by thread, then start.
    pub(super) calls: Vec<Call>,
    /// The event of each runtime call, nested ones included, with the position in `calls` of the call it is folded into.
    pub(super) folded: Vec<(EventId, u32)>,
}

/// What one track holds before nesting is known.
#[derive(Default)]
struct Raw {
    operators: Vec<EventId>,
    calls: Vec<EventId>,
    annotations: Vec<EventId>,
    frames: Vec<EventId>,
    has_steps: bool,
}

impl Threads {
    /// Reads the host side of `trace`.
    ///
    /// # Complexity
    /// O(events + names).
    pub(super) fn read(trace: &Trace) -> Self {
        let classes: Vec<CallClass> = trace.names.iter().map(|(_, text)| CallClass::of(text)).collect();
        let raw = bucket(trace);
        let mut threads = Self::default();
        for (index, raw) in raw.into_iter().enumerate() {
            let TrackKind::Thread { pid, tid } = trace.tracks[index].kind else { continue };
            let launches = |&id: &EventId| class_of(trace, &classes, id) != CallClass::Other;
            if raw.operators.is_empty() && !raw.has_steps && !raw.calls.iter().any(launches) {
                continue;
            }
            threads.add(trace, &classes, TrackId(index as u32), (pid, tid), raw);
        }
        threads
    }

    fn add(&mut self, trace: &Trace, classes: &[CallClass], track: TrackId, (pid, tid): (i64, i64), raw: Raw) {
        let operators = nest(trace, &raw.operators);
        let first_call = self.calls.len() as u32;
        let thread = self.list.len() as u32;
        for &id in &raw.calls {
            self.add_call(trace, classes, thread, first_call, id);
        }
        let mut inner = Innermost::default();
        for call in &mut self.calls[first_call as usize..] {
            call.operator = inner.at(&operators, call.start);
        }
        let annotations = raw.annotations.iter().map(|&event| Annotation {
            event,
            start: trace.events.start(event),
            end: trace.events.end(event),
        });
        self.list.push(Thread {
            track,
            tid,
            pid,
            annotations: annotations.collect(),
            operators,
            frames: raw.frames,
            first_call,
            call_count: self.calls.len() as u32 - first_call,
            has_steps: raw.has_steps,
        });
    }

    fn add_call(&mut self, trace: &Trace, classes: &[CallClass], thread: u32, first_call: u32, id: EventId) {
        let (start, end) = (trace.events.start(id), trace.events.end(id));
        let class = class_of(trace, classes, id);
        let previous = self.calls[first_call as usize..].last_mut();
        let free_from = previous.as_ref().map_or(start, |last| last.end);
        let sticks_out = end.since(free_from) > free_from.since(start);
        match previous {
            Some(last) if start < last.end && !sticks_out => {
                last.class = last.class.min(class);
                last.end = last.end.max(end);
            }
            _ => self.calls.push(Call { event: id, thread, start: start.max(free_from), end, class, operator: None }),
        }
        self.folded.push((id, self.calls.len() as u32 - 1));
    }

    /// The calls of one thread.
    pub(super) fn calls_of(&self, thread: &Thread) -> &[Call] {
        &self.calls[thread.first_call as usize..(thread.first_call + thread.call_count) as usize]
    }

    /// Position of the thread that drives the iteration: the one with steps, else the process's first thread if it ran
    /// operators, else the one that did most.
    pub(super) fn main(&self) -> Option<usize> {
        let busy = |thread: &Thread| thread.operators.len() as u32 + thread.call_count;
        (0..self.list.len()).max_by_key(|&i| {
            let thread = &self.list[i];
            (thread.has_steps, thread.tid == thread.pid && busy(thread) > 0, busy(thread), std::cmp::Reverse(i))
        })
    }
}

fn class_of(trace: &Trace, classes: &[CallClass], id: EventId) -> CallClass {
    classes.get(trace.events.name(id).0 as usize).copied().unwrap_or(CallClass::Other)
}

/// Whether an operator's name is that of an annotation, as 2021's profiler filed them: `Optimizer.step#SGD.step`.
fn is_annotation_name(name: &str) -> bool {
    name.contains('#') && !name.contains("::")
}

fn bucket(trace: &Trace) -> Vec<Raw> {
    let annotation: Vec<bool> = trace.names.iter().map(|(_, text)| is_annotation_name(text)).collect();
    let step: Vec<bool> = trace.names.iter().map(|(_, text)| crate::trace::steps::is_step_name(text)).collect();
    let mut raw: Vec<Raw> = (0..trace.tracks.len()).map(|_| Raw::default()).collect();
    for id in trace.events.ids() {
        let Some(raw) = raw.get_mut(trace.events.track(id).0 as usize) else { continue };
        let name = trace.events.name(id).0 as usize;
        match trace.events.category(id) {
            Category::Operator | Category::Annotation if step[name] => raw.has_steps = true,
            Category::Operator if !annotation[name] => raw.operators.push(id),
            Category::Operator | Category::Annotation => raw.annotations.push(id),
            Category::Runtime => raw.calls.push(id),
            Category::Python => raw.frames.push(id),
            _ => {}
        }
    }
    raw
}

/// Orders operators as a tree. One that starts in another but ends after it is cut to the other's end when most of it
/// lies inside, else it follows the other, which is cut where it starts.
fn nest(trace: &Trace, events: &[EventId]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::with_capacity(events.len());
    let mut stack: Vec<u32> = Vec::new();
    for &event in events {
        let (start, mut end) = (trace.events.start(event), trace.events.end(event));
        while let Some(&top) = stack.last() {
            let around = &mut spans[top as usize];
            if around.end <= start {
                stack.pop();
            } else if end > around.end && end.since(around.end) > around.end.since(start) {
                around.end = start;
                stack.pop();
            } else {
                end = end.min(around.end);
                break;
            }
        }
        let index = spans.len() as u32;
        let parent = stack.last().copied();
        let top = stack.first().copied().unwrap_or(index);
        spans.push(Span { event, start, end, parent, top });
        stack.push(index);
    }
    spans
}

/// Walks the operators of a thread along with rising times.
#[derive(Default)]
pub(super) struct Innermost {
    next: usize,
    stack: Vec<u32>,
}

impl Innermost {
    /// Position of the innermost operator that contains `time`. Times must not fall from call to call.
    pub(super) fn at(&mut self, operators: &[Span], time: TimeNs) -> Option<u32> {
        while let Some(span) = operators.get(self.next).filter(|span| span.start <= time) {
            while self.stack.last().copied() != span.parent && self.stack.pop().is_some() {}
            self.stack.push(self.next as u32);
            self.next += 1;
        }
        while let Some(&top) = self.stack.last() {
            if operators[top as usize].end > time {
                break;
            }
            self.stack.pop();
        }
        self.stack.last().copied()
    }
}
