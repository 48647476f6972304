//! Reports of edits: how much changed, and what could not be handled with its time.

use std::collections::BTreeMap;

use crate::cost::{CollectiveKind, Provenance, Shape, Work};
use crate::scenario::draft::{Draft, Node};
use crate::scenario::transform::StepReport;
use crate::units::DurNs;

/// Kinds of tasks listed one by one; the rest are counted together.
const LISTED: usize = 8;

/// What edits assume that let kernels run side by side.
pub(super) const SHARED: &str = "kernels that share the device keep their times";

/// Share of its gain that an edit assumes which takes work off the way and does not know what that shares with the rest.
pub(super) const OVERLAP_DOUBT: f32 = 0.3;

/// The report of an edit that should have changed `nodes`: those that no model covers are listed by name, the costliest first.
pub(super) fn survey<N: Into<Node>>(
    draft: &Draft<'_>,
    nodes: impl IntoIterator<Item = N>,
    summary: String,
) -> StepReport {
    draft.predict_changes();
    let (mut unmodelled, mut sizeless) = (BTreeMap::new(), BTreeMap::new());
    let mut changed = 0;
    for node in nodes.into_iter().map(Into::into) {
        let price = draft.price_of(node);
        let traced = if let Node::Traced(node) = node { Some(draft.graph().tasks[node].duration) } else { None };
        if price.provenance == Provenance::Unmodelled {
            let found = if draft.work_of(node).is_some_and(is_sizeless) { &mut sizeless } else { &mut unmodelled };
            let entry: &mut (usize, DurNs) = found.entry(draft.name_of(node)).or_default();
            entry.0 += 1;
            entry.1 += traced.unwrap_or(price.duration);
        } else if traced != Some(price.duration) {
            changed += 1;
        }
    }
    let mut report = StepReport { changed, summary, ..StepReport::default() };
    list(&mut report, unmodelled, "no model covers it: traced time kept");
    list(&mut report, sizeless, SIZELESS);
    report
}

/// Why a collective keeps its time that recorded no size.
pub(super) const SIZELESS: &str = "the size of its message was not recorded: traced time kept";

/// Whether this is a collective of which nobody knows what it sends.
pub(super) fn is_sizeless(work: &Work) -> bool {
    matches!(work.shape, Shape::Collective { kind, .. } if kind != CollectiveKind::Barrier) && work.read.0 == 0
}

/// Lists tasks by name, with how often and how long, as not handled because of `why`.
pub(super) fn list(report: &mut StepReport, found: BTreeMap<&str, (usize, DurNs)>, why: &str) {
    report.unhandled_ns += found.values().map(|&(_, time)| time).sum();
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|&(name, (_, time))| (std::cmp::Reverse(time), name));
    let rest = rows.split_off(rows.len().min(LISTED));
    let line = |(name, (count, time)): &(&str, (usize, DurNs))| format!("{} ×{count}, {time}: {why}", brief(name));
    report.unhandled.extend(rows.iter().map(line));
    if !rest.is_empty() {
        let time: DurNs = rest.iter().map(|&(_, (_, time))| time).sum();
        report.unhandled.push(format!("{} more kinds, {time}: {why}", rest.len()));
    }
}

/// A name that fits a line.
fn brief(name: &str) -> String {
    const LONGEST: usize = 60;
    if name.chars().count() <= LONGEST {
        name.to_owned()
    } else {
        name.chars().take(LONGEST - 1).chain(['…']).collect()
    }
}

/// `1 task`, `7 tasks`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
