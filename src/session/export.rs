//! The simulated timeline as a file: a Chrome trace, rows as CSV or JSON, a picture, or a report for people.

mod chrome;
mod comparison;
mod event;
mod format;
mod html;
mod markdown;
mod picture;
mod report;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use retime_core::cost::Prediction;
use retime_core::graph::{
    BuildOptions, ExecutionGraph, IterationChoice, Lane, LaneId, LaneKind, NodeId, OperatorId, TaskId, TaskKind,
};
use retime_core::units::TimeNs;

use super::files::{EXISTS, write_new};
use super::{Board, Engine, Loaded, Outcome, SessionError, chosen_iteration};

pub use format::ExportFormat;

/// What a file is written about.
#[derive(Clone, Copy)]
pub struct Exported<'a> {
    /// The trace.
    pub loaded: &'a Loaded,
    /// The edited iteration.
    pub outcome: &'a Outcome,
    /// What stands beside it, for a report.
    pub board: Option<&'a Board>,
}

impl Engine {
    /// The contents of a file of `format` about an outcome. A report also tells what each step gains and what would
    /// close the largest gaps, which takes further evaluations.
    ///
    /// # Errors
    /// None in practice: all of it is plain data.
    pub fn export(
        &self,
        Exported { loaded, outcome, board }: Exported<'_>,
        format: ExportFormat,
    ) -> Result<Vec<u8>, SessionError> {
        let timeline = || Timeline::new(outcome);
        let fail = |error: serde_json::Error| SessionError::Write {
            path: format.name().to_owned(),
            reason: error.to_string(),
        };
        Ok(match format {
            ExportFormat::Chrome => timeline().chrome(loaded).map_err(fail)?,
            ExportFormat::Json => serde_json::to_vec_pretty(&timeline().rows()).map_err(fail)?,
            ExportFormat::Csv => format::csv(&timeline().rows()).into_bytes(),
            ExportFormat::Svg => svg::svg(loaded, outcome).into_bytes(),
            ExportFormat::Markdown => markdown::markdown(&report::report(self, loaded, outcome, board)).into_bytes(),
            ExportFormat::Html => {
                html::html(&report::report(self, loaded, outcome, board), &svg::svg(loaded, outcome)).into_bytes()
            }
        })
    }
}

impl Engine {
    /// Writes an outcome to a file of `format`. A Chrome trace of several ranks becomes a file for each, as profilers write
    /// them: `rank0.NAME` and so on beside `path`, or `rank0.json` and so on in `path` where that is a folder (it exists, or
    /// ends in a slash).
    ///
    /// # Returns
    /// The files, and their size in bytes.
    ///
    /// # Errors
    /// One of the files exists and `replace` is not set, in which case none is written; or the system refuses.
    pub fn export_to(
        &self,
        path: &Path,
        exported: Exported<'_>,
        format: ExportFormat,
        replace: bool,
    ) -> Result<(Vec<PathBuf>, usize), SessionError> {
        let Exported { loaded, outcome, .. } = exported;
        let fail = |path: &Path, reason: String| SessionError::Write { path: path.display().to_string(), reason };
        if format == ExportFormat::Chrome && loaded.folding.folds() {
            let options = BuildOptions {
                iteration: chosen_iteration(loaded).map_or_else(Default::default, IterationChoice::Index),
            };
            let all = self.unfold(loaded, &options)?;
            let outcome = self.evaluate(&all, &outcome.scenario, outcome.revision);
            let unfolded = Exported { loaded: &all, outcome: &outcome, ..exported };
            return self.export_to(path, unfolded, format, replace);
        }
        let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let files = if format == ExportFormat::Chrome && (loaded.graph.ranks.len() > 1 || is_folder) {
            let documents = Timeline::new(outcome).chrome_by_rank(loaded);
            let documents = documents.map_err(|error| fail(path, error.to_string()))?;
            documents.into_iter().map(|(rank, bytes)| (of_rank(path, is_folder, rank), bytes)).collect()
        } else {
            vec![(path.to_owned(), self.export(exported, format)?)]
        };
        if is_folder {
            fs::create_dir_all(path).map_err(|error| fail(path, error.to_string()))?;
        }
        if let Some((there, _)) = files.iter().find(|(file, _)| !replace && file.exists()) {
            return Err(fail(there, EXISTS.to_owned()));
        }
        for (file, bytes) in &files {
            write_new(file, bytes, replace)?;
        }
        let size = files.iter().map(|(_, bytes)| bytes.len()).sum();
        Ok((files.into_iter().map(|(file, _)| file).collect(), size))
    }
}

/// Scenarios and traces side by side as a report, Markdown or HTML by the file's ending.
///
/// # Errors
/// The ending is another, the file exists and `replace` is not set, or the system refuses.
pub fn export_comparison(path: &Path, board: &Board, replace: bool) -> Result<(), SessionError> {
    let names: Vec<&str> = board.columns.iter().map(|column| column.figures.name.as_str()).collect();
    let report = report::Report { title: names.join(" · "), blocks: comparison::blocks(board) };
    let text = match ExportFormat::of_path(path) {
        ExportFormat::Markdown => markdown::markdown(&report),
        ExportFormat::Html => html::html(&report, ""),
        _ => {
            let reason = "a comparison is written as Markdown or HTML: expected .md or .html".to_owned();
            return Err(SessionError::Write { path: path.display().to_string(), reason });
        }
    };
    write_new(path, text.as_bytes(), replace)
}

/// The file of a rank's trace: in a folder, or beside the name that was given.
fn of_rank(path: &Path, is_folder: bool, rank: u32) -> PathBuf {
    if is_folder {
        return path.join(format!("rank{rank}.json"));
    }
    let mut name = std::ffi::OsString::from(format!("rank{rank}."));
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// One task of the simulated timeline.
#[derive(Clone, Debug, Serialize)]
pub struct TaskRow {
    /// Global rank.
    pub rank: u32,
    /// `thread 123` or `stream 7`.
    pub lane: String,
    /// What it is, e.g. `kernel`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The operator it belongs to.
    pub operator: String,
    /// Simulated start.
    pub start_ns: i64,
    /// Simulated duration.
    pub duration_ns: i64,
    /// Measured duration; 0 for a task that was added.
    pub measured_ns: i64,
    /// `measured`, `anchored`, `absolute` or `unmodelled`.
    pub source: String,
    /// Whether it lies on the critical path.
    pub critical: bool,
}

/// A task that takes time, traced or added.
struct Shown<'a> {
    task: TaskId,
    node: Option<NodeId>,
    kind: TaskKind,
    name: &'a str,
    lane: LaneId,
    operator: Option<OperatorId>,
    prediction: Prediction,
    bytes: u64,
}

/// The simulated timeline of an outcome.
pub struct Timeline<'a> {
    outcome: &'a Outcome,
    graph: &'a ExecutionGraph,
    shown: Vec<Shown<'a>>,
    critical: Vec<bool>,
}

impl<'a> Timeline<'a> {
    /// Gathers the tasks of `outcome` in order.
    pub fn new(outcome: &'a Outcome) -> Self {
        let resolved = &*outcome.resolved;
        let graph = &*resolved.graph;
        let traced = graph.tasks.node_indices().filter(|&node| !resolved.is_removed(node)).map(|node| {
            let task = &graph.tasks[node];
            Shown {
                task: resolved.timed.task(node),
                node: Some(node),
                kind: task.kind,
                name: graph.names.get(task.name),
                lane: task.lane,
                operator: task.operator,
                prediction: resolved.prediction(node),
                bytes: task.bytes.0,
            }
        });
        let added = resolved.added.iter().map(|added| Shown {
            task: added.task,
            node: None,
            kind: added.kind,
            name: &added.name,
            lane: added.lane,
            operator: added.operator,
            prediction: added.prediction,
            bytes: added.work.as_ref().map_or(0, |work| work.bytes().0),
        });
        let mut shown: Vec<Shown<'a>> = traced.chain(added).collect();
        shown.sort_by_key(|shown| shown.task);
        let mut critical = vec![false; resolved.timed.len()];
        for task in outcome.critical_tasks() {
            critical[task.0 as usize] = true;
        }
        Self { outcome, graph, shown, critical }
    }

    fn start(&self, task: TaskId) -> TimeNs {
        self.outcome.schedule.start(&self.outcome.resolved.timed, task)
    }

    fn end(&self, task: TaskId) -> TimeNs {
        self.outcome.schedule.end(task)
    }

    fn lane(&self, lane: LaneId) -> Option<Lane> {
        let index = lane.0 as usize;
        let added = || self.outcome.resolved.added_lanes.get(index - self.graph.lanes.len()).map(|(lane, _)| *lane);
        self.graph.lanes.get(index).copied().or_else(added)
    }

    /// One row per task, in order of the simulation.
    pub fn rows(&self) -> Vec<TaskRow> {
        let row = |shown: &Shown<'_>| {
            let lane = self.lane(shown.lane)?;
            let source = format!("{:?}", shown.prediction.provenance).to_lowercase();
            Some(TaskRow {
                rank: lane.rank.0,
                lane: lane_label(&lane),
                kind: kind_label(shown.kind),
                name: shown.name.to_owned(),
                operator: shown.operator.map(|id| self.operator_name(id).to_owned()).unwrap_or_default(),
                start_ns: self.start(shown.task).0,
                duration_ns: self.end(shown.task).since(self.start(shown.task)).0,
                measured_ns: shown.node.map_or(0, |node| self.graph.tasks[node].measured.0),
                source,
                critical: self.critical[shown.task.0 as usize],
            })
        };
        self.shown.iter().filter(|shown| shown.kind.is_work()).filter_map(row).collect()
    }

    fn operator_name(&self, id: OperatorId) -> &str {
        self.graph.names.get(self.graph.operators[id.0 as usize].name)
    }
}

/// How a lane is called: `thread 123` or `stream 7`.
pub fn lane_label(lane: &Lane) -> String {
    match lane.kind {
        LaneKind::Thread { tid } => format!("thread {tid}"),
        LaneKind::Stream { stream, .. } => format!("stream {stream}"),
        LaneKind::Virtual => String::new(),
    }
}

fn kind_label(kind: TaskKind) -> String {
    use retime_core::graph::HostPart;
    match kind {
        TaskKind::Host(HostPart::Between) => "T1",
        TaskKind::Host(HostPart::BeforeLaunch) => "T2",
        TaskKind::Host(HostPart::AfterLaunch) => "T3",
        TaskKind::Host(HostPart::Inside) => "T5",
        TaskKind::Compute => "compute",
        TaskKind::Runtime => "runtime",
        TaskKind::Kernel => "kernel",
        TaskKind::Memcpy => "memcpy",
        TaskKind::Memset => "memset",
        TaskKind::Collective(_) => "collective",
        TaskKind::Joint | TaskKind::StepEnd => "joint",
    }
    .to_owned()
}
