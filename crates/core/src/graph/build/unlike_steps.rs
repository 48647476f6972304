//! What is said where the chosen steps of ranks are not one step of the job.

use crate::diagnostic::Diagnostics;
use crate::graph::RankPart;
use crate::stats;
use crate::trace::Category;
use crate::units::DurNs;

use super::Prepared;

/// Says where the chosen steps of ranks differ, lie at other times, or hold nothing.
pub(super) fn note(found: &mut Diagnostics, ranks: &[Prepared<'_>], parts: &[RankPart]) {
    note_names(found, ranks);
    note_times(found, parts);
    note_units(found, parts);
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

/// From so many times the length on, a step is not as long as that of another rank by what it does: units of time are a thousand apart.
const OTHER_UNIT: f64 = 500.0;

/// Says where the step of a rank is so much longer or shorter than the median of all that its times were written in another unit.
fn note_units(found: &mut Diagnostics, parts: &[RankPart]) {
    let length = |part: &RankPart| part.iteration_end.since(part.iteration_start);
    let lengths = parts.iter().map(|part| (length(part).0 as f64, f64::from(part.count())));
    let Some(usual) = stats::weighted_quantile(lengths.filter(|&(length, _)| length > 0.0).collect(), 0.5) else {
        return;
    };
    for part in parts.iter().filter(|part| length(part) > DurNs::ZERO) {
        let (rank, own, name) = (part.rank.0, length(part), &part.iteration);
        let ratio = own.0 as f64 / usual;
        if (1.0 / OTHER_UNIT..OTHER_UNIT).contains(&ratio) {
            continue;
        }
        let usual = DurNs(usual as i64);
        let apart = format!("{name} of rank {rank} lasts {own}, that of the median rank {usual}");
        let text = format!("{apart}: its times look as if written in another unit, and are taken as they are");
        found.warn("different-units", text);
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
