//! Rule 1: a host thread as a chain of host spans, cut where the innermost operator changes and at top-level calls.
//!
//! Measured times only; tasks are made from host spans in `emit`.

use crate::graph::HostPart;
use crate::units::TimeNs;

use super::threads::{Call, Span, Thread};

/// What a thread did during a host span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostActivity {
    /// Host work of the innermost operator (its position on the thread), or of none.
    Host(Option<u32>),
    /// A top-level call (its position on the thread).
    Call(u32),
}

/// An interval of a thread's time in one innermost operator, or in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostSpan {
    /// Its start.
    pub(super) start: TimeNs,
    /// Its end; after its start, except for calls.
    pub(super) end: TimeNs,
    /// What went on.
    pub(super) doing: HostActivity,
}

/// A time at which host work is cut.
#[derive(Clone, Copy)]
struct Change {
    time: TimeNs,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// Another operator, or none, is the innermost from here on.
    Innermost(Option<u32>),
    /// The same goes on.
    Cut,
}

/// Cuts the time `from..to` of a thread into host spans without gaps.
///
/// # Arguments
/// `calls`: the thread's calls; `cuts`: further times to cut host work at, sorted.
///
/// # Complexity
/// O(operators + calls + cuts).
pub(super) fn host_spans(
    thread: &Thread,
    calls: &[Call],
    cuts: &[TimeNs],
    (from, to): (TimeNs, TimeNs),
) -> Vec<HostSpan> {
    let mut changes = changes(&thread.operators);
    changes.extend(cuts.iter().map(|&time| Change { time, what: What::Cut }));
    changes.sort_by_key(|change| change.time);
    let mut cutter = SpanCutter { at: from, operator: None, changes: &changes, found: Vec::new() };
    for (index, call) in calls.iter().enumerate().filter(|(_, call)| call.start >= from && call.start < to) {
        cutter.host_until(call.start);
        cutter.found.push(HostSpan { start: call.start, end: call.end, doing: HostActivity::Call(index as u32) });
        cutter.at = cutter.at.max(call.end);
    }
    cutter.host_until(to);
    cutter.found
}

struct SpanCutter<'c> {
    at: TimeNs,
    operator: Option<u32>,
    changes: &'c [Change],
    found: Vec<HostSpan>,
}

impl SpanCutter<'_> {
    fn host_until(&mut self, until: TimeNs) {
        while let Some((change, rest)) = self.changes.split_first().filter(|(change, _)| change.time < until) {
            self.host(change.time);
            if let What::Innermost(operator) = change.what {
                self.operator = operator;
            }
            self.changes = rest;
        }
        self.host(until);
    }

    fn host(&mut self, end: TimeNs) {
        if end > self.at {
            self.found.push(HostSpan { start: self.at, end, doing: HostActivity::Host(self.operator) });
            self.at = end;
        }
    }
}

/// Every change of the innermost operator, in order of time.
fn changes(operators: &[Span]) -> Vec<Change> {
    let mut changes = Vec::with_capacity(2 * operators.len());
    let mut stack: Vec<u32> = Vec::new();
    let close = |stack: &mut Vec<u32>, changes: &mut Vec<Change>, parent: Option<u32>| {
        while stack.last().copied() != parent {
            let Some(closed) = stack.pop() else { break };
            let span = &operators[closed as usize];
            changes.push(Change { time: span.end, what: What::Innermost(span.parent) });
        }
    };
    for (index, span) in operators.iter().enumerate() {
        close(&mut stack, &mut changes, span.parent);
        changes.push(Change { time: span.start, what: What::Innermost(Some(index as u32)) });
        stack.push(index as u32);
    }
    close(&mut stack, &mut changes, None);
    changes
}

/// First and last call inside each top-level operator, for the classes T2, T3 and T5.
pub(super) struct Parts {
    /// By position of the top-level operator: start of the first call in it, end of the last.
    calls: Vec<Option<(TimeNs, TimeNs)>>,
}

impl Parts {
    /// Reads the calls of `thread`.
    pub(super) fn of(thread: &Thread, calls: &[Call]) -> Self {
        let mut found: Vec<Option<(TimeNs, TimeNs)>> = vec![None; thread.operators.len()];
        for call in calls {
            let Some(operator) = call.operator else { continue };
            let top = thread.operators[operator as usize].top as usize;
            let first = found[top].map_or(call.start, |(first, _)| first);
            found[top] = Some((first, call.end));
        }
        Self { calls: found }
    }

    /// The class of a host span.
    pub(super) fn class(&self, thread: &Thread, host_span: &HostSpan, operator: Option<u32>) -> HostPart {
        let Some(operator) = operator else { return HostPart::Between };
        match self.calls[thread.operators[operator as usize].top as usize] {
            Some((first, _)) if host_span.end <= first => HostPart::BeforeLaunch,
            Some((_, last)) if host_span.start >= last => HostPart::AfterLaunch,
            _ => HostPart::Inside,
        }
    }
}
