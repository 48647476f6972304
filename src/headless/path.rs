//! `path`: the critical path of the (edited) iteration.

use std::collections::BTreeMap;
use std::io::{self, Write};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::analysis::critical_path::{CriticalPath, Segment};
use crate::cli::{Iteration, ScenarioCommand};
use crate::graph::ExecutionGraph;
use crate::session::lane_label;
use crate::units::{DurNs, TimeNs};

use super::opened::Opened;
use super::{input, output};

/// Pieces of the path that people read about, at most.
const SHOWN: usize = 40;

#[derive(Debug, Serialize)]
struct Answer {
    length_ns: DurNs,
    segments: Vec<Row>,
    by_kind: BTreeMap<&'static str, DurNs>,
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    kind: &'static str,
    name: String,
    rank: u32,
    lane: String,
    start_ns: TimeNs,
    duration_ns: DurNs,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &ScenarioCommand, iteration: Iteration) -> Result<()> {
    let opened = Opened::of(args, iteration)?;
    let (graph, timed, schedule) = (&*opened.edited.graph, &*opened.edited.timed, &*opened.outcome.schedule);
    let path = CriticalPath::of_job(graph, timed, schedule, opened.times());
    let segments = path.segments.iter().map(|segment| row(graph, segment)).collect();
    let json =
        input::Envelope::new(&opened.loaded, Answer { length_ns: path.length, segments, by_kind: path.by_kind() });
    let csv = || table(json.answer.segments.iter());
    output::write(&args.input.output, &json, |out| describe(graph, &path, out), csv)?;
    Ok(())
}

/// A segment of the path as it is written.
pub(super) fn row(graph: &ExecutionGraph, segment: &Segment) -> Row {
    Row {
        kind: segment.kind.name(),
        name: graph.names.get(segment.name).to_owned(),
        rank: segment.rank.0,
        lane: lane_label(&graph.lanes[segment.lane.0 as usize]),
        start_ns: segment.start,
        duration_ns: segment.duration,
    }
}

fn describe(graph: &ExecutionGraph, path: &CriticalPath, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "critical path {}", path.length)?;
    let mut kinds: Vec<(&str, DurNs)> = path.by_kind().into_iter().collect();
    kinds.sort_by_key(|&(kind, time)| (std::cmp::Reverse(time), kind));
    let mut shares = output::Table::new(&["share %", "time", "kind"]);
    for (kind, time) in kinds {
        let share = 100.0 * time.0 as f64 / path.length.0.max(1) as f64;
        shares.row([format!("{share:.1}"), time.to_string(), kind.to_owned()]);
    }
    output::text(&shares, out)?;
    let mut runs = path.folded(path.length.scale(0.001));
    runs.sort_by_key(|run| (std::cmp::Reverse(run.segment.duration), run.segment.start));
    writeln!(out, "\nlongest of {} pieces", runs.len())?;
    let rows: Vec<Row> = runs.iter().take(SHOWN).map(|run| row(graph, &run.segment)).collect();
    output::text(&table(rows.iter()), out)
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> output::Table {
    let mut table = output::Table::new(&["start_ns", "duration_ns", "kind", "rank", "lane", "name"]);
    for row in rows {
        table.row([
            row.start_ns.0.to_string(),
            row.duration_ns.0.to_string(),
            row.kind.to_owned(),
            row.rank.to_string(),
            row.lane.clone(),
            row.name.clone(),
        ]);
    }
    table
}
