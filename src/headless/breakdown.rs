//! `breakdown`: device time per stream by kernel family and idle time by cause.

use std::collections::BTreeMap;
use std::io::{self, Write};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, ScenarioCommand};
use crate::session::{Communication, LaneLabels};
use retime_core::analysis::breakdown::Breakdown;
use retime_core::analysis::sources::Sources;
use retime_core::units::{DurNs, Percent};

use super::opened::Opened;
use super::{input, output, ranks};

/// The breakdown as it is written.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    streams: Vec<Stream>,
    pub(super) ranks: Vec<Rank>,
    #[serde(flatten)]
    communication: Communication,
}

#[derive(Debug, Serialize)]
struct Stream {
    rank: u32,
    #[serde(rename = "stream")]
    lane: String,
    busy_ns: DurNs,
    by_family: BTreeMap<&'static str, DurNs>,
    idle: BTreeMap<&'static str, DurNs>,
}

#[derive(Debug, Serialize)]
pub(super) struct Rank {
    #[serde(rename = "rank")]
    pub(super) number: u32,
    pub(super) period_ns: DurNs,
    pub(super) gpu_busy: f64,
    pub(super) kernel_only_ns: DurNs,
    pub(super) communication_exposed_ns: DurNs,
    pub(super) communication_overlapped_ns: DurNs,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &ScenarioCommand, iteration: Iteration) -> Result<()> {
    let opened = Opened::of(args, iteration)?;
    let json = input::Envelope::new(&opened.loaded, answer(&opened));
    let text = |out: &mut dyn Write| {
        describe(&json.answer, out)?;
        output::window_note(&opened.outcome.summary, out)
    };
    output::write(&args.input.output, &json, text, || table(&json.answer.streams))?;
    Ok(())
}

/// Streams and ranks of one edited iteration.
pub(super) fn answer(opened: &Opened) -> Answer {
    let (graph, timed, schedule) = (&*opened.edited.graph, &*opened.edited.timed, &*opened.outcome.schedule);
    let breakdown =
        Breakdown::of(&Sources { graph, works: &opened.edited.works, timed, schedule, times: opened.times() });
    let labels = LaneLabels::of(graph);
    let streams = breakdown.streams.into_iter().map(|stream| Stream {
        rank: stream.rank.0,
        lane: labels.label(&graph.lanes[stream.lane.0 as usize]),
        busy_ns: stream.busy,
        by_family: stream.by_family.into_iter().map(|(family, time)| (family.name(), time)).collect(),
        idle: stream.idle,
    });
    let ranks = breakdown.ranks.into_iter().map(|rank| Rank {
        number: rank.rank.0,
        period_ns: rank.period.end.since(rank.period.start),
        gpu_busy: rank.busy,
        kernel_only_ns: rank.kernel_only,
        communication_exposed_ns: rank.communication_exposed,
        communication_overlapped_ns: rank.communication_overlapped,
    });
    let communication = Communication::on(&opened.engine, &opened.loaded, &opened.outcome, &opened.edited);
    Answer { streams: streams.collect(), ranks: ranks.collect(), communication }
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    for rank in &answer.ranks {
        let (exposed, hidden) = (rank.communication_exposed_ns, rank.communication_overlapped_ns);
        writeln!(
            out,
            "rank {}: {}, GPU busy {:.0}, communication {exposed} exposed, {hidden} overlapped",
            rank.number,
            rank.period_ns,
            Percent(rank.gpu_busy)
        )?;
    }
    if answer.ranks.len() > 1 && !answer.communication.collectives.is_empty() {
        ranks::costliest(&answer.communication, out)?;
        writeln!(out)?;
    }
    output::text(&table_of(&answer.streams, "time_ns"), out)
}

fn table(streams: &[Stream]) -> output::Table {
    table_of(streams, "ns")
}

fn table_of(streams: &[Stream], time: &'static str) -> output::Table {
    let mut table = output::Table::new(&["rank", "stream", "what", "family or cause", time]);
    for stream in streams {
        let kinds = [("busy", &stream.by_family), ("idle", &stream.idle)];
        for (what, shares) in kinds {
            for (name, time) in shares {
                let cells = [stream.rank.to_string(), stream.lane.clone(), what.to_owned(), (*name).to_owned()];
                table.row(cells.into_iter().chain([time.0.to_string()]));
            }
        }
    }
    table
}
