//! Says what was recorded of device work that cannot be: sizes that no device works off in the recorded time, and kernels of one
//! stream at the same time; and of ranks, that they are no copies of one another.

use rustc_hash::FxHashMap;

use crate::analysis::busy;
use crate::diagnostic::{Diagnostics, Severity};
use crate::graph::{ExecutionGraph, LaneKind};
use crate::intern::printable;
use crate::scenario::Base;
use crate::scenario::roles::Unlike;
use crate::trace::{Category, EventId, Job, TrackId};
use crate::units::{DurNs, TimeNs};

/// Kernels of one stream overlap by less of their time where one begins before the last blocks of the one before it end.
const MOST_OVERLAP: f64 = 0.05;

/// Tells how many kernels and copies took too little time for their sizes, and which is the first.
///
/// # Complexity
/// O(tasks).
pub(super) fn tell(base: &Base, diagnostics: &mut Diagnostics) {
    let graph = base.graph();
    let mut refuted = base.refuted().filter(|&node| graph.tasks[node].kind.is_device());
    let Some(first) = refuted.next() else { return };
    let (task, count) = (&graph.tasks[first], 1 + refuted.count());
    let (kernels, took) = if count == 1 { ("kernel or copy", "takes") } else { ("kernels and copies", "take") };
    diagnostics.add(Severity::Warning, "impossible-rate", "", None, || {
        format!(
            "{count} {kernels} {took} less time than the device needs for the recorded sizes ({}: {}): what they compute counts as \
             not known",
            graph.names.get(task.name),
            task.duration
        )
    });
}

/// Tells why the throughput of a job is not that of all its ranks together.
pub(super) fn tell_copies(base: &Base, diagnostics: &mut Diagnostics) {
    let (code, text) = match base.roles().unlike() {
        None => return,
        Some(Unlike::Stages) => (
            "pipeline-stages",
            "ranks send one another what they compute, and not all of them add up gradients: they are taken to be stages that work on the \
             same samples, which throughput counts once",
        ),
        Some(Unlike::Parameters) => (
            "unlike-parameters",
            "ranks update unlike parameters, and no collective between them was recorded: not known whether they work on the same samples; \
             throughput is that of one rank",
        ),
    };
    diagnostics.note(code, text);
}

/// Calls of one thread cross by less where their times are rounded.
const ROUNDED: DurNs = DurNs(2_000);

/// Why nothing of a job may be left that takes time: calls of a host thread that begin before the one before them has ended, and
/// end after it. `None` where there are none.
///
/// # Complexity
/// O(events).
pub(super) fn crossing_calls(job: &Job) -> Option<String> {
    let (mut count, mut first) = (0_usize, None);
    for trace in job.ranks.iter().filter_map(|rank| rank.trace.as_ref()) {
        let mut before: FxHashMap<TrackId, EventId> = FxHashMap::default();
        let events = &trace.events;
        for id in events.ids().filter(|&id| events.category(id) == Category::Runtime) {
            let last = *before.entry(events.track(id)).or_insert(id);
            if events.end(id) < events.end(last) || last == id {
                continue;
            }
            if events.start(id) + ROUNDED < events.end(last) {
                count += 1;
                first.get_or_insert_with(|| (trace.names.get(events.name(last)).to_owned(), events.dur(last)));
            }
            before.insert(events.track(id), id);
        }
    }
    let (name, took) = first?;
    Some(format!(
        "{count} calls of host threads begin before the one before them has ended ({} of {took}), which no thread does: how long \
         they are recorded to last is wrong",
        printable(&name)
    ))
}

/// Nor do others run while one does, but for few of them.
const MOST_COVERED: f64 = 0.05;

/// Tells by how much kernels of one stream overlap, where that is more than a device lets them, and how many run while another one does.
///
/// # Complexity
/// O(tasks · log).
pub(super) fn tell_overlaps(graph: &ExecutionGraph, diagnostics: &mut Diagnostics) {
    let mut lanes: Vec<Vec<(TimeNs, TimeNs)>> = vec![Vec::new(); graph.lanes.len()];
    for task in graph.tasks.node_weights().filter(|task| task.kind.is_device()) {
        lanes[task.lane.0 as usize].push((task.measured_start, task.measured_end()));
    }
    let streams = graph.lanes.iter().zip(lanes).filter(|(lane, _)| matches!(lane.kind, LaneKind::Stream { .. }));
    for (lane, spans) in streams {
        let (covered, all) = (covered(&spans), spans.len());
        let whole: DurNs = spans.iter().map(|(from, to)| to.since(*from)).sum();
        let overlap = whole - busy::union(spans);
        if overlap.0 as f64 > MOST_OVERLAP * whole.0 as f64 {
            diagnostics.add(Severity::Warning, "overlapping-kernels", "", None, || {
                format!(
                    "kernels of one stream of rank {} overlap by {overlap} of {whole}: a device runs them one after another, so times \
                     of kernels add up to more than there is",
                    lane.rank.0
                )
            });
        } else if covered as f64 > MOST_COVERED * all as f64 {
            diagnostics.add(Severity::Warning, "overlapping-kernels", "", None, || {
                format!(
                    "{covered} of {all} kernels and copies of one stream of rank {} lie within another one, which a device runs \
                     before or after them: its recorded length is wrong, or theirs",
                    lane.rank.0
                )
            });
        }
    }
}

/// How many of the spans lie within another one.
///
/// # Complexity
/// O(spans · log spans).
fn covered(spans: &[(TimeNs, TimeNs)]) -> usize {
    let mut spans: Vec<(TimeNs, TimeNs)> = spans.iter().copied().filter(|(from, to)| from < to).collect();
    spans.sort_unstable_by_key(|&(from, to)| (from, std::cmp::Reverse(to)));
    let mut latest = TimeNs(i64::MIN);
    spans.retain(|&(_, to)| {
        let is_within = to <= latest;
        latest = latest.max(to);
        is_within
    });
    spans.len()
}
