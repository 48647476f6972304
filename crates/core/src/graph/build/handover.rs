//! Rule 8: threads that hand the work to one another, as the forward thread and the autograd thread do.

use crate::units::{DurNs, TimeNs};

use super::host::{HostActivity, HostSpan};
use super::observed::Observed;
use super::threads::{Call, Thread};

/// Main resumes from a run's end when its next boundary comes this soon.
const SOON: DurNs = DurNs(200_000);

/// Pauses of a thread shorter than this do not end a run.
const PAUSE: DurNs = DurNs(20_000);

/// Main counts as waiting for a run when it stopped at most this much after the run began.
const OVERLAP: DurNs = DurNs(100_000);

/// What a thread did without a pause that another thread started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// When it began.
    pub(super) start: TimeNs,
    /// When it ended.
    pub(super) end: TimeNs,
    /// The main thread's last boundary before it: what started it.
    pub(super) started_by: TimeNs,
}

/// A host span of the main thread that waited for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resume {
    /// Start of the host span.
    pub(super) host_span: TimeNs,
    /// When the other thread let it go on.
    pub(super) at: TimeNs,
    /// Position of the other thread.
    pub(super) thread: usize,
}

/// The runs of `thread`, told apart by pauses in which the main thread was active.
///
/// # Arguments
/// `main`: the main thread's host spans, without gaps, by start. `until`: what begins later is not looked at.
pub(super) fn runs(thread: &Thread, calls: &[Call], (main, until): (&[HostSpan], TimeNs)) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (start, end) in busy(thread, calls).into_iter().take_while(|&(start, _)| start < until) {
        let Some(started_by) = last_boundary(main, start) else { continue };
        match runs.last_mut() {
            Some(run) if start.since(run.end) <= PAUSE || started_by <= run.end => run.end = run.end.max(end),
            _ => runs.push(Run { start, end, started_by }),
        }
    }
    runs
}

/// The host spans of the main thread that waited for one of `runs` to end, or were woken in the middle of one.
pub(super) fn resumes(observed: &Observed<'_>, thread: usize, runs: &[Run], main: (usize, &[HostSpan])) -> Vec<Resume> {
    let backward = runs_backward(observed, thread);
    let ended = runs.iter().filter_map(|run| {
        let host_span = waiting_span(main.1, run, backward)?;
        Some(Resume { host_span, at: run.end, thread })
    });
    let mut found: Vec<Resume> = ended.collect();
    if backward {
        let woken = main.1.iter().filter(|host_span| is_woken(observed, main.0, host_span, runs));
        found.extend(woken.map(|host_span| Resume { host_span: host_span.start, at: host_span.end, thread }));
    }
    found
}

/// Whether the autograd engine runs on a thread; the thread that called it is blocked meanwhile.
fn runs_backward(observed: &Observed<'_>, thread: usize) -> bool {
    let spans = observed.threads.list[thread].operators.iter().filter(|span| span.parent.is_none());
    spans.take(FEW).any(|span| is_engine(observed, span.event))
}

/// Operators looked at to tell what a thread does.
const FEW: usize = 64;

fn is_engine(observed: &Observed<'_>, event: crate::trace::EventId) -> bool {
    observed.trace.names.get(observed.trace.events.name(event)).starts_with("autograd::engine")
}

/// Whether a long host span of the main thread ends inside a run with a piece of the engine's work: it was handed that.
fn is_woken(observed: &Observed<'_>, main: usize, host_span: &HostSpan, runs: &[Run]) -> bool {
    let after = runs.partition_point(|run| run.start < host_span.end);
    let inside = after.checked_sub(1).is_some_and(|i| runs[i].end > host_span.end);
    let long = host_span.end.since(host_span.start) >= SOON;
    inside && long && host_span.doing == HostActivity::Host(None) && {
        let spans = &observed.threads.list[main].operators;
        let next = spans.get(spans.partition_point(|span| span.start < host_span.end));
        next.is_some_and(|span| span.start == host_span.end && is_engine(observed, span.event))
    }
}

/// Top-level operators and calls, by start.
fn busy(thread: &Thread, calls: &[Call]) -> Vec<(TimeNs, TimeNs)> {
    let operators = thread.operators.iter().filter(|span| span.parent.is_none()).map(|span| (span.start, span.end));
    let mut busy: Vec<_> = operators.chain(calls.iter().map(|call| (call.start, call.end))).collect();
    busy.sort_unstable();
    busy
}

/// The last time at or before `time` at which a host span of `main` began.
fn last_boundary(main: &[HostSpan], time: TimeNs) -> Option<TimeNs> {
    let after = main.partition_point(|host_span| host_span.start <= time);
    after.checked_sub(1).map(|i| main[i].start)
}

/// The host span of `main` in which `run` ended, when it waited for that: it went on soon after, or it called
/// the autograd engine, which blocks it.
fn waiting_span(main: &[HostSpan], run: &Run, backward: bool) -> Option<TimeNs> {
    let after = main.partition_point(|host_span| host_span.start < run.end);
    let host_span = &main[after.checked_sub(1)?];
    let covers = host_span.start <= run.start + OVERLAP;
    let waited = covers || host_span.end.since(host_span.start) >= SOON;
    let resumed = host_span.end >= run.end && (host_span.end.since(run.end) < SOON || (covers && backward));
    (matches!(host_span.doing, HostActivity::Host(_)) && waited && resumed).then_some(host_span.start)
}
