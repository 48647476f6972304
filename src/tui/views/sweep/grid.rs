//! Two knobs at once: a map of iteration times, the first knob downwards and the second across.

use crate::session::{Sweep, SweepPoint, SweepSlice, slices};
use crate::tui::canvas::Canvas;
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

use super::{command, throughput};

/// Columns of the first knob's values, and of a cell.
const KNOB: u16 = 9;
const CELL: u16 = 11;
/// From slow to fast.
const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];

/// The map's rows.
struct Map<'a> {
    work: &'a Workspace,
    knob: &'a Sweep,
    across: &'a Sweep,
    along: Vec<SweepSlice>,
    /// Samples a second of the slowest and the fastest point.
    range: (f64, f64),
}

impl Map<'_> {
    fn row(&self, index: usize) -> TableRow {
        let at = self.knob.values[index];
        let column = self.across.values.get(self.work.sweep.column).copied();
        let mut values = vec![value(self.knob.shown(at), Role::Strong)];
        values.extend((0..self.across.values.len()).map(|column| self.cell(index, column)));
        let lines = std::iter::once(command(self.work, self.knob, at))
            .chain(column.map(|column| command(self.work, self.across, column)));
        TableRow { values, open: Open::Lines(lines.collect()) }
    }

    fn cell(&self, row: usize, column: usize) -> crate::tui::table::Value {
        let Some(point) = self.point(row, column) else { return value("·", Role::Faint) };
        let (slow, fast) = self.range;
        let share = if fast > slow { (point.throughput - slow) / (fast - slow) } else { 1.0 };
        let shade = SHADES[(share * (SHADES.len() - 1) as f64).round() as usize];
        let is_best = self.is_best(point);
        let (mark, role) = match (point.fits, is_best) {
            (Some(false), _) => ("!", Role::Bad),
            (_, true) => ("*", Role::Good),
            _ => (" ", Role::Text),
        };
        value(format!("{shade}{}{mark}{}", point.steady_ns, self.kind(row, column, point)), role)
    }

    fn point(&self, row: usize, column: usize) -> Option<&SweepPoint> {
        self.work.sweep.at(*self.knob.values.get(row)?, *self.across.values.get(column)?)
    }

    fn is_best(&self, point: &SweepPoint) -> bool {
        let is_on = |along: &&SweepSlice| along.others.iter().all(|(other, at)| point.value(other) == Some(*at));
        let best =
            self.along.iter().find(is_on).filter(|along| !along.still_gains).and_then(|along| along.optimal_batch);
        best.is_some_and(|best| point.value("batch") == Some(best as f64))
    }

    /// The letter of what most of the critical path is; large where a neighbour before it has another.
    fn kind(&self, row: usize, column: usize, point: &SweepPoint) -> String {
        let before = [row.checked_sub(1).map(|row| (row, column)), column.checked_sub(1).map(|column| (row, column))];
        let others = before.into_iter().flatten().filter_map(|(row, column)| self.point(row, column));
        let changes = others.into_iter().any(|other| other.path_kind != point.path_kind);
        let letter = letter(&point.path_kind);
        if changes { letter.to_uppercase() } else { letter.to_owned() }
    }
}

/// One letter for each kind of critical path.
fn letter(kind: &str) -> &str {
    match kind {
        "collective" => "x",
        other => other.get(..1).unwrap_or_default(),
    }
}

/// The map as a table.
pub(super) fn table<'a>(work: &'a Workspace, knob: &'a Sweep, across: &'a Sweep) -> Table<'a> {
    let points = &work.sweep.points;
    let rates = points.iter().map(|point| point.throughput);
    let range = rates.fold((f64::INFINITY, 0.0), |(slow, fast): (f64, f64), rate| (slow.min(rate), fast.max(rate)));
    let map = Map { work, knob, across, along: slices(points), range };
    let column = |title, width| Column { title, width, is_number: width == KNOB, from_width: 0 };
    let cells = across.values.iter().map(|_| column("", CELL));
    Table {
        summary: summary(&map),
        columns: std::iter::once(column(knob.unit(), KNOB)).chain(cells).collect(),
        count: knob.values.len(),
        row: Box::new(move |index| map.row(index)),
    }
}

fn summary(map: &Map<'_>) -> Vec<(String, Role)> {
    let (sweep, expected) = (&map.work.sweep, map.work.sweep.expected);
    let points = &sweep.points;
    let count =
        if sweep.count() < expected { format!("{} of {expected}", sweep.count()) } else { expected.to_string() };
    let mut pieces = vec![(format!("{} ↓ {} →: {count} points", map.knob.knob, map.across.knob), Role::Dim)];
    let mut kinds: Vec<&str> =
        points.iter().map(|point| point.path_kind.as_str()).filter(|it| !it.is_empty()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kinds: Vec<String> = kinds.into_iter().map(|kind| format!("{} {kind}", letter(kind))).collect();
    if map.along.iter().any(|along| along.optimal_batch.is_some() && !along.still_gains) {
        pieces.push((" · * doubling ≤ 5 %".to_owned(), Role::Good));
    }
    if points.iter().any(|point| point.fits == Some(false)) {
        pieces.push((" · ! does not fit".to_owned(), Role::Bad));
    }
    pieces.push((format!(" · {}", kinds.join(", ")), Role::Dim));
    let (slow, fast) = map.range;
    if fast > 0.0 {
        pieces.push((format!(" · ░▒▓█ {} to {}", throughput(slow), throughput(fast)), Role::Dim));
    }
    pieces.extend(sweep.left_out().map(|left_out| (left_out, Role::Warn)));
    if map.work.sweep.revision != map.work.history.revision() && !points.is_empty() {
        pieces.push((" · of an earlier scenario".to_owned(), Role::Warn));
    }
    pieces
}

/// The second knob's values above the cells, and the chosen cell.
pub(super) fn mark(work: &Workspace, across: &Sweep, canvas: &mut Canvas<'_>) {
    let x = |column: usize| 1 + KNOB + 1 + column as u16 * (CELL + 1);
    let width = canvas.width();
    for (column, &at) in across.values.iter().enumerate().filter(|&(column, _)| x(column) + CELL <= width) {
        canvas.text(x(column) + 1, 1, &across.shown(at), Role::Dim);
    }
    let line = 2 + work.table.cursor.saturating_sub(work.table.scroll) as u16;
    if line < canvas.height() && x(work.sweep.column) + CELL <= canvas.width() {
        let style = canvas.theme().style(Role::BarSelected);
        canvas.restyle(x(work.sweep.column), line, CELL, style);
    }
}

/// Chooses another column.
pub(super) fn step_sideways(work: &mut Workspace, by: isize) {
    let columns =
        work.sweep.shown.as_ref().and_then(|knob| knob.across.as_ref()).map_or(1, |across| across.values.len());
    work.sweep.column = work.sweep.column.saturating_add_signed(by).min(columns.saturating_sub(1));
}
