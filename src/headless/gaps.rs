//! `gaps`: idle intervals of the device streams with their causes, and the edits that would close them.

use std::io::{self, Write};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, ScenarioCommand};
use crate::session::LaneLabels;
use retime_core::units::{DurNs, TimeNs};

use super::opened::Opened;
use super::path::{self, Row as Link};
use super::validate::{Unexplained, unexplained, unexplained_table};
use super::{input, output};

/// Shorter gaps are not listed: back-to-back kernels leave them.
pub(super) const SHORTEST: DurNs = DurNs(5_000);
/// The largest gaps for which the closing edits are tried.
const TRIED: usize = 8;
/// Gaps that people read about, at most.
const SHOWN: usize = 30;

#[derive(Debug, Serialize)]
struct Answer {
    /// Shorter gaps are not listed.
    shortest_ns: DurNs,
    gaps: Vec<Row>,
    /// Device work that started later than anything explains.
    unexplained: Vec<Unexplained>,
}

#[derive(Debug, Serialize)]
struct Row {
    rank: u32,
    stream: String,
    start_ns: TimeNs,
    /// The same since the rank's iteration began, for people.
    #[serde(skip)]
    into: DurNs,
    duration_ns: DurNs,
    cause: &'static str,
    detail: String,
    chain: Vec<Link>,
    closed_by: Vec<ClosingStep>,
}

#[derive(Debug, Serialize)]
struct ClosingStep {
    step: String,
    gain_ns: DurNs,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &ScenarioCommand, iteration: Iteration) -> Result<()> {
    let Opened { engine, loaded, outcome, edited } = Opened::of(args, iteration)?;
    let graph = &*edited.graph;
    let gaps = engine.gaps(&loaded, &outcome, SHORTEST, TRIED);
    let labels = LaneLabels::of(graph);
    let row = |gap: &retime_core::analysis::gaps::Gap| Row {
        rank: gap.rank.0,
        stream: labels.label(&graph.lanes[gap.lane.0 as usize]),
        start_ns: gap.start,
        into: path::into_iteration(graph, gap.rank, gap.start),
        duration_ns: gap.duration,
        cause: gap.cause.name(),
        detail: gap.cause.describe(graph),
        chain: gap.chain.iter().map(|segment| path::row((graph, &labels), segment)).collect(),
        closed_by: gap
            .closed_by
            .iter()
            .map(|(step, gain)| ClosingStep { step: step.clone(), gain_ns: *gain })
            .collect(),
    };
    let gaps = gaps.iter().map(row).collect();
    let answer = Answer { shortest_ns: SHORTEST, gaps, unexplained: unexplained(graph) };
    let json = input::Envelope::new(&loaded, answer);
    let rows = &json.answer.gaps;
    let text = |out: &mut dyn Write| {
        describe(&json.answer, out)?;
        output::window_note(&outcome.summary, out)
    };
    output::write(&args.input.output, &json, text, || table(rows))?;
    Ok(())
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let rows = &answer.gaps;
    let total: DurNs = rows.iter().map(|row| row.duration_ns).sum();
    writeln!(out, "{} gaps of {SHORTEST} and more, {total} in all", rows.len())?;
    output::text(&for_people(&rows[..rows.len().min(SHOWN)]), out)?;
    let late = &answer.unexplained;
    if !late.is_empty() {
        writeln!(out, "\n{} starts later than anything explains", late.len())?;
        output::text(&unexplained_table(&late[..late.len().min(SHOWN)]), out)?;
    }
    Ok(())
}

/// Edits that people read about for each gap, at most.
const EDITS: usize = 2;

fn for_people(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&["idle_ns", "at_ns", "rank", "stream", "why", "closed by"]);
    for row in rows {
        let best = row.closed_by.iter().take(EDITS).map(|by| format!("{} (−{})", by.step, by.gain_ns));
        table.row([
            row.duration_ns.0.to_string(),
            row.into.0.to_string(),
            row.rank.to_string(),
            row.stream.clone(),
            row.detail.clone(),
            best.collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&["start_ns", "duration_ns", "rank", "stream", "cause", "detail", "closed by"]);
    for row in rows {
        let closing: Vec<String> = row.closed_by.iter().map(|by| format!("{} (−{})", by.step, by.gain_ns)).collect();
        table.row([
            row.start_ns.0.to_string(),
            row.duration_ns.0.to_string(),
            row.rank.to_string(),
            row.stream.clone(),
            row.cause.to_owned(),
            row.detail.clone(),
            closing.join(", "),
        ]);
    }
    table
}
