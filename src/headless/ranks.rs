//! The collectives of a job for `simulate` and `breakdown`: who comes last, why, and what that costs the others.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::gaps::Sources;
use crate::analysis::lateness::{Overlap, reason};
use crate::analysis::meetings::{Meeting, meetings};
use crate::session::RankSummary;
use crate::units::{Bytes, DurNs};

use super::opened::Opened;
use super::output;

/// A collective as it is written.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Collective {
    kind: String,
    group: String,
    bytes: Bytes,
    /// Ranks that were matched.
    ranks: u32,
    /// When all were there, from the start of the iteration.
    start_ns: DurNs,
    transfer_ns: DurNs,
    last_rank: Option<u32>,
    /// How much later than the one before the last rank arrives.
    late_ns: DurNs,
    /// Waiting for it, all ranks together.
    waited_ns: DurNs,
    why: Option<Why>,
    /// Transfer while nothing else runs on the rank, mean over ranks.
    exposed_ns: DurNs,
    overlapped_ns: DurNs,
}

#[derive(Clone, Debug, Serialize)]
struct Why {
    kind: &'static str,
    name: String,
    more_ns: DurNs,
}

/// The collectives of the edited iteration, in order of time.
pub(super) fn collectives(opened: &Opened) -> Vec<Collective> {
    let (graph, timed, schedule) = (&*opened.edited.graph, &*opened.edited.timed, &*opened.outcome.schedule);
    let sources = Sources { graph, timed, schedule, times: opened.times() };
    let overlap = Overlap::of(&sources);
    let begins = graph.ranks.iter().map(|part| sources.times.period(graph, part).start);
    let begin = begins.min().unwrap_or_default();
    let row = |meeting: &Meeting| {
        let collective = &graph.collectives[meeting.collective.0 as usize];
        let splits = meeting.arrivals.iter().map(|arrival| overlap.split(meeting, arrival));
        let (exposed, hidden) = splits.fold((0, 0), |sum, (exposed, hidden)| (sum.0 + exposed.0, sum.1 + hidden.0));
        let count = meeting.arrivals.len() as i64;
        let why = reason(&sources, meeting);
        Collective {
            kind: graph.names.get(collective.kind).to_owned(),
            group: graph.names.get(collective.group).to_owned(),
            bytes: meeting.arrivals.iter().map(|arrival| graph.tasks[arrival.node].bytes).max().unwrap_or_default(),
            ranks: meeting.ranks(),
            start_ns: meeting.began.since(begin),
            transfer_ns: meeting.longest_transfer(),
            last_rank: meeting.last_two().filter(|(last, second)| last.at > second.at).map(|(last, _)| last.rank.0),
            late_ns: meeting.late(),
            waited_ns: meeting.waited(),
            why: why.map(|why| Why { kind: why.kind, name: graph.names.get(why.name).to_owned(), more_ns: why.more }),
            exposed_ns: DurNs(exposed / count),
            overlapped_ns: DurNs(hidden / count),
        }
    };
    meetings(graph, timed, schedule).iter().map(row).collect()
}

/// Most collectives that people are shown.
const MOST: usize = 12;

/// Waits of each rank, and the collectives that cost most waiting.
pub(super) fn describe(ranks: &[RankSummary], collectives: &[Collective], out: &mut dyn Write) -> io::Result<()> {
    if ranks.iter().map(|rank| rank.count).sum::<u32>() < 2 || collectives.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = output::Table::new(&["rank", "iteration", "waits for others", "transfers", "comes last"]);
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for rank in collectives.iter().filter_map(|collective| collective.last_rank) {
        *last.entry(rank).or_default() += 1;
    }
    for rank in ranks {
        let times = format!("{} of {}", last.get(&rank.rank).copied().unwrap_or(0), collectives.len());
        let cells = [rank.simulated_ns, rank.wait_ns, rank.transfer_ns].map(|time| time.to_string());
        let name = if rank.count > 1 { format!("{} ×{}", rank.rank, rank.count) } else { rank.rank.to_string() };
        table.row([name].into_iter().chain(cells).chain([times]));
    }
    output::text(&table, out)?;
    writeln!(out)?;
    costliest(collectives, out)
}

/// The collectives that cost most, by waiting and transfer.
pub(super) fn costliest(collectives: &[Collective], out: &mut dyn Write) -> io::Result<()> {
    let mut order: Vec<&Collective> = collectives.iter().collect();
    order.sort_by_key(|one| (std::cmp::Reverse(one.waited_ns + one.transfer_ns), one.start_ns));
    let header =
        ["collective", "bytes", "at", "transfer", "exposed", "last rank", "late by", "others wait", "because of"];
    let mut table = output::Table::new(&header);
    for one in order.iter().take(MOST) {
        let why = one.why.as_ref().map_or(String::new(), |why| {
            let name: String = why.name.chars().take(40).collect();
            format!("{} {name} {} more", why.kind, why.more_ns)
        });
        table.row([
            one.kind.clone(),
            one.bytes.to_string(),
            one.start_ns.to_string(),
            one.transfer_ns.to_string(),
            one.exposed_ns.to_string(),
            one.last_rank.map_or("–".to_owned(), |rank| rank.to_string()),
            one.late_ns.to_string(),
            one.waited_ns.to_string(),
            why,
        ]);
    }
    output::text(&table, out)?;
    if order.len() > MOST {
        writeln!(out, "and {} that cost less: --json has all", order.len() - MOST)?;
    }
    Ok(())
}
