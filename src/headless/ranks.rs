//! The communication of a job for `simulate` and `breakdown`: who comes last, why, and what that costs the others.

use std::io::{self, Write};

use crate::session::{Communication, LateReason};

use super::output;

/// Most collectives that people are shown.
const MOST: usize = 12;

/// Waits of each rank, and the collectives that cost most waiting.
pub(super) fn describe(found: &Communication, out: &mut dyn Write) -> io::Result<()> {
    if found.ranks.iter().map(|rank| rank.count).sum::<u32>() < 2 || found.collectives.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let header = ["rank", "iteration", "waits for others", "transfers", "exposed", "comes last", "costs"];
    let mut table = output::Table::new(&header);
    for rank in &found.ranks {
        let name = if rank.count > 1 { format!("{} ×{}", rank.rank, rank.count) } else { rank.rank.to_string() };
        let cells = [rank.simulated_ns, rank.wait_ns, rank.transfer_ns, rank.exposed_ns].map(|time| time.to_string());
        let last = [format!("{} of {}", rank.comes_last, found.collectives.len()), rank.costs_ns.to_string()];
        table.row([name].into_iter().chain(cells).chain(last));
    }
    output::text(&table, out)?;
    writeln!(out)?;
    costliest(found, out)
}

/// The collectives that cost most, by waiting and exposed transfer.
pub(super) fn costliest(found: &Communication, out: &mut dyn Write) -> io::Result<()> {
    let header =
        ["collective", "bytes", "at", "transfer", "exposed", "last rank", "late by", "others wait", "because of"];
    let mut table = output::Table::new(&header);
    let order = found.costliest();
    for one in order.iter().take(MOST).map(|&at| &found.collectives[at]) {
        table.row([
            one.kind.clone(),
            one.bytes.map_or("–".to_owned(), |bytes| bytes.to_string()),
            one.start_ns.to_string(),
            one.transfer_ns.to_string(),
            one.exposed_ns.to_string(),
            one.last_rank.map_or("–".to_owned(), |rank| rank.to_string()),
            one.late_ns.to_string(),
            one.waited_ns.to_string(),
            one.why.as_ref().map_or_else(String::new, because),
        ]);
    }
    output::text(&table, out)?;
    if order.len() > MOST {
        writeln!(out, "and {} that cost less: --json has all", order.len() - MOST)?;
    }
    Ok(())
}

fn because(why: &LateReason) -> String {
    let name: String = why.name.chars().take(40).collect();
    format!("{} {name} {} more", why.kind, why.more_ns)
}
