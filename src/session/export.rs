//! The simulated timeline as a file: a Chrome trace, rows as CSV or JSON, a picture, or a report for people.

mod again;
mod charts;
mod comparison;
mod format;
mod html;
mod markdown;
mod picture;
mod report;
mod ribbon;
mod svg;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use retime_core::engine::Timeline;
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::intern::printable;

use super::{
    ComparisonTable, Engine, Loaded, Outcome, Overwrite, SessionError, chosen_iteration, is_same_file, write_files,
    write_new,
};

pub use again::opened_again;
pub use format::ExportFormat;
pub use html::escaped;

/// What a file is written about.
#[derive(Clone, Copy)]
pub struct Exported<'a> {
    /// The trace.
    pub loaded: &'a Loaded,
    /// The edited iteration.
    pub outcome: &'a Outcome,
    /// What stands beside it, for a report.
    pub board: Option<&'a ComparisonTable>,
}

/// The contents of a file of `format` about an outcome. A report also tells what each step gains and what would
/// close the largest gaps, which takes further evaluations.
///
/// # Errors
/// None in practice: all of it is plain data.
pub fn export(
    engine: &Engine,
    Exported { loaded, outcome, board }: Exported<'_>,
    format: ExportFormat,
) -> Result<Vec<u8>, SessionError> {
    let timeline = || Timeline::new(outcome);
    let fail =
        |error: serde_json::Error| SessionError::Write { path: format.name().to_owned(), reason: error.to_string() };
    Ok(match format {
        ExportFormat::Chrome => timeline().chrome(loaded).map_err(fail)?,
        ExportFormat::Json => serde_json::to_vec_pretty(&timeline().rows()).map_err(fail)?,
        ExportFormat::Csv => shown(&format::csv(&timeline().rows())),
        ExportFormat::Svg => shown(&svg::svg(loaded, outcome)),
        ExportFormat::Markdown => shown(&markdown::markdown(&report::report(engine, loaded, outcome, board))),
        ExportFormat::Html => {
            let is_edited = outcome.steps.iter().any(|step| step.enabled);
            let mut bars =
                vec![(if is_edited { "before the edits" } else { "critical path" }, ribbon::kinds(&loaded.replay))];
            bars.extend(is_edited.then(|| ("after", ribbon::kinds(outcome))));
            let mut pictures = ribbon::svg(&bars) + &svg::svg(loaded, outcome);
            let none = |what: &str, why: &str| format!("<p>no chart of {what}: {}</p>\n", escaped(why));
            let roofs = charts::roofline(loaded, outcome);
            pictures.push_str(&roofs.unwrap_or_else(|| none("rooflines", "the work of no kernel is known")));
            let batches = charts::batches(engine, loaded, outcome);
            pictures.push_str(&batches.unwrap_or_else(|why| none("batch sizes", &why)));
            shown(&html::html(&report::report(engine, loaded, outcome, board), &pictures))
        }
    })
}

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
    engine: &Engine,
    path: &Path,
    exported: Exported<'_>,
    format: ExportFormat,
    replace: bool,
) -> Result<(Vec<PathBuf>, usize), SessionError> {
    let Exported { loaded, outcome, .. } = exported;
    let fail = |path: &Path, reason: String| SessionError::Write { path: path.display().to_string(), reason };
    if format == ExportFormat::Chrome && loaded.folding.folds() {
        let options =
            BuildOptions { iteration: chosen_iteration(loaded).map_or_else(Default::default, IterationChoice::Index) };
        let all = engine.unfold(loaded, &options)?;
        let outcome = engine.evaluate(&all, &outcome.scenario, outcome.revision);
        let unfolded = Exported { loaded: &all, outcome: &outcome, ..exported };
        return export_to(engine, path, unfolded, format, replace);
    }
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Err(fail(path, "is no regular file".to_owned()));
    }
    let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let files = if format == ExportFormat::Chrome && (loaded.graph.ranks.len() > 1 || is_folder) {
        let documents = Timeline::new(outcome).chrome_by_rank(loaded);
        let documents = documents.map_err(|error| fail(path, error.to_string()))?;
        documents.into_iter().map(|(rank, bytes)| (of_rank(path, is_folder, rank), bytes)).collect()
    } else {
        vec![(path.to_owned(), export(engine, exported, format)?)]
    };
    let mut files: Vec<(PathBuf, Vec<u8>)> = files;
    for (file, bytes) in files.iter_mut().filter(|(file, _)| is_gzip(file)) {
        *bytes = gzip(bytes).map_err(|error| fail(file, error.to_string()))?;
    }
    let folder = if is_folder { Some(path) } else { folder_of(path) };
    let is_of_job = is_folder || loaded.graph.ranks.len() > 1;
    if is_of_job && format == ExportFormat::Chrome && folder.is_some_and(|folder| holds_traces(folder, loaded)) {
        let reason = "holds the traces that this is made from, and with more in it would be no job any more; name another folder";
        return Err(fail(path, reason.to_owned()));
    }
    let is_new = is_folder && !path.exists();
    if is_new {
        fs::create_dir_all(path).map_err(|error| fail(path, error.to_string()))?;
    }
    if let Err(error) = write_files(files.iter().map(|(file, bytes)| (file, bytes)), Overwrite::forced(replace)) {
        if is_new {
            let _ = fs::remove_dir(path);
        }
        return Err(error);
    }
    let size = files.iter().map(|(_, bytes)| bytes.len()).sum();
    Ok((files.into_iter().map(|(file, _)| file).collect(), size))
}

/// Whether a trace of `loaded` is a file in `folder`.
fn holds_traces(folder: &Path, loaded: &Loaded) -> bool {
    let timed = loaded.job.ranks.iter().filter_map(|rank| rank.trace.as_ref().map(|trace| &trace.path));
    let untimed = loaded.job.ranks.iter().filter_map(|rank| rank.execution_trace.as_ref().map(|trace| &trace.path));
    let is_in = |file: &PathBuf| folder_of(file).is_some_and(|of| is_same_file(of, folder));
    timed.chain(untimed).any(is_in)
}

/// The folder that `path` lies in: the working folder for a name alone.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// The bytes of a text that people may look at in a terminal: no control sequence is in it.
fn shown(text: &str) -> Vec<u8> {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n").into_bytes()
}

/// Whether a file's name says that it is packed.
fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"))
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes)?;
    packed.finish()
}

/// Scenarios and traces side by side as a report, Markdown or HTML by the file's ending.
///
/// # Errors
/// The ending is another, the file exists and `replace` is not set, or the system refuses.
pub fn export_comparison(path: &Path, board: &ComparisonTable, over: Overwrite<'_>) -> Result<(), SessionError> {
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
    write_new(path, &shown(&text), over)
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
