//! What is said where the chosen steps of ranks are not one step of the job.

use crate::diagnostic::Diagnostics;
use crate::graph::RankPart;
use crate::trace::Category;

use super::Prepared;

/// Says where the chosen steps of ranks differ, lie at other times, or hold nothing.
pub(super) fn note(found: &mut Diagnostics, ranks: &[Prepared<'_>], parts: &[RankPart]) {
    note_names(found, ranks);
    note_times(found, parts);
    note_empty(found, ranks);
}

/// Says where ranks recorded other steps than the first one did.
fn note_names(found: &mut Diagnostics, ranks: &[Prepared<'_>]) {
    let [first, others @ ..] = ranks else { return };
    let expected = first.steps;
    for rank in others {
        let (number, other, own) = (rank.input.rank.0, first.input.rank.0, rank.steps);
        if own != expected {
            let text = format!("rank {number} recorded {own} steps, rank {other} recorded {expected}");
            found.warn("unequal-iterations", format!("{text}: the step of the same name is modelled of both"));
        }
        if rank.window.name != first.window.name {
            let (own, expected) = (&rank.window.name, &first.window.name);
            let text = format!("rank {number} did not record {expected} of rank {other}: its {own} stands for it");
            found.warn("different-iterations", text);
        }
    }
}

/// Share of the shorter of two steps of one job that lies within the other at least.
const SAME_TIME: f64 = 0.5;

/// Says where the step of a rank lies at another time than that of the first one, on its clock.
fn note_times(found: &mut Diagnostics, parts: &[RankPart]) {
    let [first, others @ ..] = parts else { return };
    let span = |part: &RankPart| (part.iteration_start, part.iteration_end);
    for part in others {
        let ((start, end), (from, to)) = (span(part), span(first));
        let both = end.min(to).since(start.max(from));
        let shorter = end.since(start).min(to.since(from));
        if both >= shorter.scale(SAME_TIME) {
            continue;
        }
        let way = if start < from { "before" } else { "after" };
        let gap = start.since(from).abs();
        let (rank, other, own, theirs) = (part.rank.0, first.rank.0, &part.iteration, &first.iteration);
        let what = "they are not one step of the job, and what ranks waited for one another is not known";
        found.warn("steps-apart", format!("{own} of rank {rank} begins {gap} {way} {theirs} of rank {other}: {what}"));
    }
}

/// Says where nothing was recorded in the chosen step of a rank.
fn note_empty(found: &mut Diagnostics, ranks: &[Prepared<'_>]) {
    for rank in ranks.iter().filter(|rank| rank.window.main.is_some()) {
        let (window, events) = (&rank.window, &rank.input.trace.events);
        let is_work = |category: Category| {
            matches!(
                category,
                Category::Operator | Category::Runtime | Category::Kernel | Category::Memcpy | Category::Memset
            )
        };
        if !events.within(window.split.unwrap_or(window.start)..window.end).any(|id| is_work(events.category(id))) {
            let (number, name) = (rank.input.rank.0, &window.name);
            let what = "its work lies outside of it";
            found.warn("empty-step", format!("rank {number} recorded no operator, call or kernel in {name}: {what}"));
        }
    }
}
