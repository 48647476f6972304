//! `path`: the critical path of the (edited) iteration.

use std::collections::BTreeMap;
use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Iteration, PathArgs};
use crate::session::LaneLabels;
use retime_core::analysis::critical_path::{CriticalPath, Run, Segment, SegmentKind, explained};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::sources::Sources;
use retime_core::graph::{ExecutionGraph, NodeId, Rank, TimedGraph};
use retime_core::scenario::KernelWork;
use retime_core::sim::{Schedule, slack};
use retime_core::units::{DurNs, TimeNs};

use super::opened::Opened;
use super::{input, output};

/// Pieces of the path that people read about, at most.
const SHOWN: usize = 40;
/// Tasks off the path that people read about, at most.
const NEAR: usize = 20;

/// The path as it is written.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// Whose times: `simulated` or `measured`.
    times: &'static str,
    length_ns: DurNs,
    segments: Vec<Row>,
    by_kind: BTreeMap<&'static str, DurNs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<Vec<Slack>>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    kind: &'static str,
    name: String,
    rank: u32,
    lane: String,
    start_ns: TimeNs,
    /// The same since the rank's iteration began, for people.
    #[serde(skip)]
    into: DurNs,
    duration_ns: DurNs,
    slack_ns: Option<DurNs>,
}

/// A task of the iteration.
#[derive(Debug, Serialize)]
struct Slack {
    #[serde(flatten)]
    task: Row,
    on_path: bool,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &PathArgs, iteration: Iteration) -> Result<()> {
    check(args)?;
    let opened = Opened::of(&args.common, iteration)?;
    let path = path_of(&opened, args.measured);
    let json = input::Envelope::new(&opened.loaded, answer(&opened, args, &path));
    let csv = || match &json.answer.tasks {
        Some(tasks) => table(tasks.iter().map(|task| &task.task)),
        None => table(json.answer.segments.iter()),
    };
    let text = |out: &mut dyn Write| {
        describe(&opened, &json.answer, &path, out)?;
        if args.measured { Ok(()) } else { output::window_note(&opened.outcome.summary, out) }
    };
    output::write(&args.common.input.output, &json, text, csv)?;
    Ok(())
}

/// Whether the arguments go together.
///
/// # Errors
/// They do not.
pub(super) fn check(args: &PathArgs) -> Result<()> {
    if args.measured && !args.common.scenario.edits.is_empty() {
        return Err(eyre!("--measured shows what was recorded: it goes with no edits"));
    }
    Ok(())
}

/// The critical path through the simulated or the measured times.
pub(super) fn path_of(opened: &Opened, measured: bool) -> CriticalPath {
    let (graph, timed, schedule) = (&*opened.edited.graph, &*opened.edited.timed, &*opened.outcome.schedule);
    let times = if measured { Times::Measured } else { opened.times() };
    CriticalPath::of_job(&Sources { graph, works: &opened.edited.works, timed, schedule, times })
}

fn answer(opened: &Opened, args: &PathArgs, path: &CriticalPath) -> Answer {
    let (graph, timed) = (&*opened.edited.graph, &*opened.edited.timed);
    let left = slacks(graph, timed, &opened.outcome.schedule);
    let of = |node: NodeId| left.get(timed.task_if_kept(node)?.0 as usize).copied().flatten();
    let labels = LaneLabels::of(graph);
    let segment_row = |segment: &Segment| Row { slack_ns: of(segment.node), ..row((graph, &labels), segment) };
    let times = if args.measured { Times::Measured } else { opened.times() };
    let tasks = || {
        let on_path: std::collections::BTreeSet<NodeId> = path.segments.iter().map(|segment| segment.node).collect();
        let belongs = graph.iteration_tasks();
        let inside = graph.tasks.node_indices().filter(|node| belongs[node.index()]);
        let task = |node| {
            let task = task_row((graph, &opened.edited.works, &labels), times, node, of(node))?;
            Some(Slack { task, on_path: on_path.contains(&node) })
        };
        inside.filter_map(task).collect()
    };
    Answer {
        times: if args.measured { "measured" } else { "simulated" },
        length_ns: path.length,
        segments: path.segments.iter().map(segment_row).collect(),
        by_kind: path.by_kind(),
        tasks: args.slack.then(tasks),
    }
}

/// How much later each task could end without the end of any rank's iteration moving.
fn slacks(graph: &ExecutionGraph, timed: &TimedGraph, schedule: &Schedule) -> Vec<Option<DurNs>> {
    let slowest = graph.ranks.iter().max_by_key(|part| retime_core::analysis::replay::period(timed, schedule, part));
    slowest.map(|part| slack(timed, schedule, timed.task(part.end))).unwrap_or_default()
}

fn task_row(
    (graph, works, labels): (&ExecutionGraph, &KernelWork, &LaneLabels),
    times: Times<'_>,
    node: NodeId,
    slack: Option<DurNs>,
) -> Option<Row> {
    let (start, end) = times.of(graph, node);
    let task = &graph.tasks[node];
    Some(Row {
        kind: SegmentKind::of(graph, works, node)?.name(),
        name: graph.names.get(task.name).to_owned(),
        rank: graph.lanes[task.lane.0 as usize].rank.0,
        lane: labels.label(&graph.lanes[task.lane.0 as usize]),
        start_ns: start,
        into: into_iteration(graph, graph.lanes[task.lane.0 as usize].rank, start),
        duration_ns: end.since(start),
        slack_ns: slack,
    })
}

/// How long after the beginning of a rank's iteration an instant is.
pub(super) fn into_iteration(graph: &ExecutionGraph, rank: Rank, at: TimeNs) -> DurNs {
    let part = graph.part_of(rank);
    at.since(part.map(|part| part.iteration_start).unwrap_or_default())
}

/// A segment of the path as it is written.
pub(super) fn row((graph, labels): (&ExecutionGraph, &LaneLabels), segment: &Segment) -> Row {
    Row {
        kind: segment.kind.name(),
        name: graph.names.get(segment.name).to_owned(),
        rank: segment.rank.0,
        lane: labels.label(&graph.lanes[segment.lane.0 as usize]),
        start_ns: segment.start,
        into: into_iteration(graph, segment.rank, segment.start),
        duration_ns: segment.duration,
        slack_ns: None,
    }
}

fn describe(opened: &Opened, answer: &Answer, path: &CriticalPath, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "critical path, {}: {}", answer.times, path.length)?;
    output::text(&shares(&answer.by_kind, path.length), out)?;
    let runs = longest(path);
    let shown: DurNs = runs.iter().map(|run| run.segment.duration).sum();
    let left = path.length - shown;
    writeln!(out, "\nthe longest {} of its pieces in order of time; the others take {left}", runs.len())?;
    let labels = LaneLabels::of(&opened.edited.graph);
    let of_run = |run: &Run| row((&opened.edited.graph, &labels), &run.segment);
    output::text(&for_people(runs.iter().map(of_run)), out)?;
    if let Some(tasks) = &answer.tasks {
        let mut near: Vec<Row> = tasks
            .iter()
            .filter(|task| !task.on_path && task.task.duration_ns * 1_000 >= path.length)
            .map(|task| task.task.clone())
            .filter(|task| task.slack_ns.is_some())
            .collect();
        near.sort_by_key(|row| (row.slack_ns, row.start_ns));
        near.truncate(NEAR);
        writeln!(out, "\noff the path, least slack first (of those that take a thousandth of it or more)")?;
        output::text(&for_people(near.into_iter()), out)?;
    }
    Ok(())
}

/// The longest pieces, those of one kind and name on one lane that follow one another as one, in order of time.
fn longest(path: &CriticalPath) -> Vec<Run> {
    let mut runs = path.folded(DurNs::ZERO);
    runs.sort_by_key(|run| (std::cmp::Reverse(run.segment.duration), run.segment.start));
    runs.truncate(SHOWN);
    runs.sort_by_key(|run| run.segment.start);
    runs
}

fn for_people(rows: impl Iterator<Item = Row>) -> output::Table {
    let mut table = output::Table::new(&["at_ns", "takes_ns", "slack_ns", "kind", "rank", "lane", "name"]);
    for row in rows {
        table.row([
            row.into.0.to_string(),
            row.duration_ns.0.to_string(),
            row.slack_ns.map_or("–".to_owned(), |slack| slack.0.to_string()),
            explained(row.kind).to_owned(),
            row.rank.to_string(),
            row.lane,
            row.name,
        ]);
    }
    table
}

/// Shares of a path by kind, largest first.
pub(super) fn shares(by_kind: &BTreeMap<&'static str, DurNs>, length: DurNs) -> output::Table {
    let mut kinds: Vec<(&'static str, DurNs)> = by_kind.iter().map(|(&kind, &time)| (kind, time)).collect();
    kinds.sort_by_key(|&(kind, time)| (std::cmp::Reverse(time), kind));
    let mut shares = output::Table::new(&["share %", "time", "kind"]);
    for (kind, time) in kinds {
        let share = 100.0 * time.0 as f64 / length.0.max(1) as f64;
        shares.row([format!("{share:.1}"), time.to_string(), explained(kind).to_owned()]);
    }
    shares
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> output::Table {
    let mut table = output::Table::new(&["start_ns", "duration_ns", "slack_ns", "kind", "rank", "lane", "name"]);
    for row in rows {
        table.row([
            row.start_ns.0.to_string(),
            row.duration_ns.0.to_string(),
            row.slack_ns.map_or("–".to_owned(), |slack| slack.0.to_string()),
            row.kind.to_owned(),
            row.rank.to_string(),
            row.lane.clone(),
            row.name.clone(),
        ]);
    }
    table
}
