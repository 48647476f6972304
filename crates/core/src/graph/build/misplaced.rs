//! Device work whose times contradict its launch: clocks or correlation ids of a recording that are wrong.

use super::activities::Activity;
use super::observed::Observed;
use crate::diagnostic::Diagnostics;
use crate::graph::Rank;
use crate::trace::CLOCK_ERROR;
use crate::units::{DurNs, TimeNs};

/// How many pieces of work are where they cannot be, and by how much the farthest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Misplaced {
    count: usize,
    most: DurNs,
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
fn find(observed: &Observed<'_>) -> (Option<Misplaced>, Option<Misplaced>) {
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

/// Says which work of a rank did not run where its launch says: before it, or behind work of the same stream that was launched later; and
/// which has several launches.
///
/// # Complexity
/// O(work).
pub(super) fn note(found: &mut Diagnostics, Rank(number): Rank, observed: &Observed<'_>) {
    let (early, overtaken) = find(observed);
    if let Some(Misplaced { count, most }) = early {
        let what = "device work starts before its launch call";
        let follows = "it is taken to have started with it, or behind older work";
        found.warn("early-work", format!("rank {number}: {what} {count} times, by up to {most}: {follows}"));
    }
    if let Some(Misplaced { count, most }) = overtaken {
        let what = "device work runs behind work of its stream that was launched later";
        let follows = "it counts to the step of that work";
        let text = format!("rank {number}: {what} {count} times, up to {most} after its launch: {follows}");
        found.warn("late-work", text);
    }
    let ambiguous = observed.activities.ambiguous;
    if ambiguous > 0 {
        let what = "device work has the correlation id of several launches";
        let text = format!("rank {number}: {what} {ambiguous} times: it is taken to be of the last");
        found.warn("ambiguous-launch", text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Draft, MAIN};

    fn told(draft: &Draft) -> Vec<&'static str> {
        let found = draft.graph().diagnostics.sorted().into_iter().map(|found| found.code).collect::<Vec<_>>();
        found.into_iter().filter(|code| ["early-work", "late-work", "ambiguous-launch"].contains(code)).collect()
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
    #[test]
    fn work_of_several_launches_is_told() {
        let mut draft = launched([20.0; 9]);
        draft.next -= 1;
        draft.launch(MAIN, 109_000.0, 7, 109_020.0, 100.0);
        assert!(told(&draft).contains(&"ambiguous-launch"), "{:?}", told(&draft));
    }
}
