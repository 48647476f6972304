//! `compare`: traces, or scenarios of one, side by side, with what makes the difference; predictions are scored.

mod describe;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{CompareArgs, CompareOrder, Edit, Iteration, ScenarioArgs};
use crate::session::{
    Column, ComparedRow, Comparison, ComparisonTable, Engine, Loaded, Overwrite, Side, export_comparison,
};

use super::opened::report_matches;
use super::{input, output};

/// The answer: the first two in detail, all of them in columns.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    comparison: Comparison,
    /// All sides, the later ones against the first.
    sides: Vec<Column>,
    /// With more than two sides: the time of each operator on every one, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operators: Vec<Row>,
}

/// An operator's time on every side.
#[derive(Serialize)]
struct Row {
    name: String,
    times_ns: Vec<i64>,
    counts: Vec<usize>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit or a scenario file cannot be read, or there is nothing to compare with.
pub fn run(args: &CompareArgs, iteration: Iteration) -> Result<()> {
    let engine = input::engine()?;
    let inputs = ComparisonInputs { engine: &engine, args, iteration };
    let (loaded, sides) = inputs.sides()?;
    let [a, b, ..] = sides.as_slice() else { return Err(eyre!("there is nothing to compare with")) };
    let mut comparison = a.compare(b, args.calls);
    if !args.calls {
        sort(&mut comparison.rows, args.sort);
    }
    let board = ComparisonTable::of(&sides, 0);
    if let Some(path) = &args.out {
        export_comparison(path, &board, Overwrite::forced(args.scenario.force))?;
    }
    let operators = if sides.len() > 2 { rows(&board) } else { Vec::new() };
    let answer = Answer { comparison, sides: board.columns.clone(), operators };
    let mut json = input::Envelope::new(&loaded[0], &answer);
    json.traces.extend(loaded[1..].iter().flat_map(input::paths));
    json.diagnostics.extend(loaded[1..].iter().flat_map(input::diagnostics));
    let shown = if args.calls { usize::MAX } else { args.top };
    let text = |out: &mut dyn std::io::Write| match sides.len() {
        2 => describe::pair(&answer.comparison, shown, out),
        _ => describe::board(&board, (args.sort, shown), out),
    };
    output::write(&args.output, &json, text, || describe::csv(&answer.comparison, &board))?;
    Ok(())
}

fn rows(board: &ComparisonTable) -> Vec<Row> {
    let time = |cell: &Option<retime_core::analysis::profile::Named>| {
        let spent = cell.unwrap_or_default().spent;
        if board.has_device { spent.device.0 } else { spent.host.0 }
    };
    let row = |row: &crate::session::ComparisonTableRow| Row {
        name: row.name.clone(),
        times_ns: row.cells.iter().map(time).collect(),
        counts: row.cells.iter().map(|cell| cell.map_or(0, |named| named.count)).collect(),
    };
    board.operators.iter().map(row).collect()
}

/// Rows come by time.
fn sort(rows: &mut [ComparedRow], order: CompareOrder) {
    let largest = |key: fn(&ComparedRow) -> i64| move |row: &ComparedRow| std::cmp::Reverse(key(row).abs());
    match order {
        CompareOrder::Time => {}
        CompareOrder::Host => rows.sort_by_key(largest(|row| row.host_delta_ns().0)),
        CompareOrder::Path => rows.sort_by_key(largest(|row| row.path_delta_ns().0)),
        CompareOrder::Count => rows.sort_by_key(largest(|row| row.b_count as i64 - row.a_count as i64)),
        CompareOrder::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
    }
}

struct ComparisonInputs<'a> {
    engine: &'a Engine,
    args: &'a CompareArgs,
    iteration: Iteration,
}

fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

impl ComparisonInputs<'_> {
    /// The jobs, and all sides in the order of the arguments.
    fn sides(&self) -> Result<(Vec<Loaded>, Vec<Arc<Side>>)> {
        let named: Vec<&PathBuf> = std::iter::once(&self.args.a).chain(&self.args.others).collect();
        let traces: Vec<&PathBuf> = named.iter().copied().filter(|path| !is_scenario(path)).collect();
        let (is_edited, count) = (!self.args.scenario.edits.is_empty(), named.len());
        if count == 1 && traces.len() == 1 && !is_edited {
            return Err(eyre!("compare takes two traces or scenario files, or a trace and edits"));
        }
        let mut loaded = Vec::new();
        for &trace in &traces {
            loaded.push(self.open(std::slice::from_ref(trace))?);
        }
        if traces.is_empty() {
            loaded.push(self.open(&self.args.on)?);
        }
        let mut sides = Vec::new();
        if count == 1 {
            let before = if traces.is_empty() {
                self.edited(&loaded[0], None)?
            } else {
                Side::simulated(self.engine, &loaded[0], &loaded[0].replay, "unedited".to_owned())
            };
            sides.push(before);
        }
        let mut next = 0;
        for path in named {
            let side = match (is_scenario(path), next) {
                (true, _) => self.edited(&loaded[0], Some(path))?,
                (false, 0) if traces.len() == 1 || is_edited => self.edited(&loaded[0], None)?,
                (false, at) => Side::measured(&loaded[at], loaded[at].title.clone()),
            };
            next += usize::from(!is_scenario(path));
            sides.push(side);
        }
        Ok((loaded, sides.into_iter().map(Arc::new).collect()))
    }

    fn open(&self, paths: &[PathBuf]) -> Result<Loaded> {
        input::open_one(self.engine, paths, self.iteration)
    }

    /// The trace with the edits of the arguments and those of a scenario file.
    fn edited(&self, loaded: &Loaded, file: Option<&Path>) -> Result<Side> {
        let mut edits = self.args.scenario.edits.clone();
        edits.extend(file.map(|file| Edit::File(file.to_owned())));
        let force = self.args.scenario.force;
        let wanted = input::RequestedEdits::read(self.engine, &ScenarioArgs { edits, force })?;
        let strangers = wanted.strangers(loaded, force)?;
        let steps = || wanted.scenario.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let name = file.map_or_else(steps, |file| file.display().to_string());
        let name = if name.is_empty() { "unedited".to_owned() } else { name };
        let (side, outcome) = Side::of_scenario(self.engine, loaded, &wanted.scenario, name)?;
        if !strangers.is_empty() {
            report_matches(&strangers, &outcome);
        }
        Ok(side)
    }
}
