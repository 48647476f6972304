//! Rule 8: threads that hand the work to one another, as the forward thread and the autograd thread do.

use crate::units::{DurNs, TimeNs};

use super::host::{Doing, Stretch};
use super::threads::{Call, Thread};

/// Main resumes from a run's end when its next boundary comes this soon.
const SOON: DurNs = DurNs(200_000);

/// Pauses of a thread shorter than this do not end a run.
const PAUSE: DurNs = DurNs(20_000);

/// Main counts as waiting for a run when it stopped at most this much after the run began.
const OVERLAP: DurNs = DurNs(100_000);

/// A run of activity on a thread that another thread started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Start of its first activity.
    pub(super) start: TimeNs,
    /// End of its last activity.
    pub(super) end: TimeNs,
    /// The main thread's last boundary before it: what started it.
    pub(super) started_by: TimeNs,
    /// Start of the main thread's stretch that waited for it, when one did.
    pub(super) resumes: Option<TimeNs>,
}

/// The runs of `thread`, told apart by pauses in which the main thread was active.
///
/// # Arguments
/// `main`: the main thread's stretches, without gaps, by start.
pub(super) fn runs(thread: &Thread, calls: &[Call], main: &[Stretch]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (start, end) in activity(thread, calls) {
        let Some(started_by) = last_boundary(main, start) else { continue };
        match runs.last_mut() {
            Some(run) if start.since(run.end) <= PAUSE || started_by <= run.end => run.end = run.end.max(end),
            _ => runs.push(Run { start, end, started_by, resumes: None }),
        }
    }
    for run in &mut runs {
        run.resumes = waiting_stretch(main, run);
    }
    runs
}

/// Top-level operators and calls, by start.
fn activity(thread: &Thread, calls: &[Call]) -> Vec<(TimeNs, TimeNs)> {
    let operators = thread.operators.iter().filter(|span| span.parent.is_none()).map(|span| (span.start, span.end));
    let mut activity: Vec<_> = operators.chain(calls.iter().map(|call| (call.start, call.end))).collect();
    activity.sort_unstable();
    activity
}

/// The last time at or before `time` at which a stretch of `main` began.
fn last_boundary(main: &[Stretch], time: TimeNs) -> Option<TimeNs> {
    let after = main.partition_point(|stretch| stretch.start <= time);
    after.checked_sub(1).map(|i| main[i].start)
}

/// The stretch of host work of `main` in which `run` ended, when it waited for that.
fn waiting_stretch(main: &[Stretch], run: &Run) -> Option<TimeNs> {
    let after = main.partition_point(|stretch| stretch.start < run.end);
    let stretch = &main[after.checked_sub(1)?];
    let waited = stretch.start <= run.start + OVERLAP || stretch.end.since(stretch.start) >= SOON;
    let resumed = stretch.end.since(run.end) < SOON && stretch.end >= run.end;
    (matches!(stretch.doing, Doing::Host(_)) && waited && resumed).then_some(stretch.start)
}
