//! Device work whose times contradict its launch: clocks or correlation ids of a recording that are wrong.

use super::activities::Activity;
use super::observed::Observed;
use crate::trace::CLOCK_ERROR;
use crate::units::{DurNs, TimeNs};

/// How many pieces of work are where they cannot be, and by how much the farthest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    pub(super) count: usize,
    pub(super) most: DurNs,
}

impl Misplaced {
    fn of(by: impl Iterator<Item = DurNs>) -> Option<Self> {
        by.fold(None, |found: Option<Self>, by| {
            let (count, most) = found.map_or((0, by), |found| (found.count, found.most));
            Some(Self { count: count + 1, most: most.max(by) })
        })
    }
}

/// Work that was recorded to start before its launch call; and work that runs behind work of its stream whose call began after its own had
/// ended, by how long after its own.
///
/// # Complexity
/// O(work).
pub(super) fn find(observed: &Observed<'_>) -> (Option<Misplaced>, Option<Misplaced>) {
    let call = |activity: &Activity| activity.call.map(|call| &observed.threads.calls[call as usize]);
    let overtaken = observed.activities.streams.iter().flat_map(|stream| {
        let mut latest = TimeNs(i64::MIN);
        stream.activities.iter().filter_map(move |&index| {
            let activity = observed.activity(index);
            let call = call(activity)?;
            let is_overtaken = latest > call.end && latest.since(call.end) > CLOCK_ERROR;
            latest = latest.max(call.start);
            is_overtaken.then(|| activity.start.since(call.end))
        })
    });
    (Misplaced::of(observed.activities.early.iter().copied()), Misplaced::of(overtaken))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Draft, MAIN};

    fn told(draft: &Draft) -> Vec<&'static str> {
        let found = draft.graph().diagnostics.sorted().into_iter().map(|found| found.code).collect::<Vec<_>>();
        found.into_iter().filter(|code| ["early-work", "late-work"].contains(code)).collect()
    }

    /// A launch every millisecond, each of a kernel that starts as long after it as `starts` says, in µs.
    fn launched(starts: [f64; 9]) -> Draft {
        let mut draft = Draft::default();
        for (index, start) in starts.into_iter().enumerate() {
            let at = 100_000.0 + 1_000.0 * index as f64;
            draft.launch(MAIN, at, 7, at + start, 100.0);
        }
        draft
    }

    #[test]
    fn work_before_its_launch_and_behind_what_was_launched_later_is_told() {
        assert!(told(&launched([20.0; 9])).is_empty());
        assert!(told(&launched([-5_000.0; 9])).is_empty(), "clocks are apart");
        let mut starts = [20.0; 9];
        starts[4] = -50_000.0;
        assert_eq!(told(&launched(starts)), ["early-work"]);
        starts[4] = 50_000.0;
        assert_eq!(told(&launched(starts)), ["late-work"]);
    }
}
