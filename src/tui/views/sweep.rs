//! The sweep: iteration time, throughput and memory against a knob, filling in live; of two knobs a map.

mod chart;
mod grid;
mod state;

use ratatui::layout::Rect;

use crate::session::{
    Sweep as Knob, SweepPoint, has_unmodelled, memory_limit, none_fits, optimal_batch, path_changes, place, still_gains,
};
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane};
use crate::tui::effect::Effect;
use crate::tui::runner::Finding;
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

use super::pane;
use super::view::{View, show};
use super::why::Why;

pub use state::SweepState;

/// What opens it.
const OPENER: Command = Command {
    name: "sweep",
    aliases: &[],
    argument: Argument::None,
    help: "iteration time, throughput and memory against batch or any knob",
    keys: &[(Pane::Everywhere, "6")],
    run: |app, _| Ok(show(app, &Sweep)),
};

/// The view.
#[derive(Debug)]
pub struct Sweep;

impl View for Sweep {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn pane(&self) -> Pane {
        Pane::Sweep
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(table(work))
    }

    fn is_computing(&self, work: &Workspace) -> bool {
        work.sweep.count() < work.sweep.expected
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let knob = work.sweep.shown.as_ref().filter(|knob| knob.across.is_none() && !work.table.is_other);
        if let Some(knob) = knob.filter(|_| chart::fits(canvas)) {
            let table = table(work);
            canvas.line(1, 0, table::fitting(&table.summary, canvas.width().saturating_sub(2) as usize));
            return chart::render(work, knob, counted(work), canvas);
        }
        table::render(&table(work), &work.table, canvas);
        if let Some(across) = work.sweep.shown.as_ref().and_then(|knob| knob.across.as_deref()) {
            grid::mark(work, across, canvas);
        }
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        if work.sweep.shown.is_none() {
            return vec![("K", "another knob".to_owned())];
        }
        let keys = [
            ("←→", "along it"),
            ("A", "puts it in force"),
            ("v", if work.table.is_other { "chart" } else { "table" }),
            ("K", "another knob"),
            ("V", "a second"),
            ("r", "range"),
            ("+ −", "points"),
        ];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        if let Some((text, role)) = chosen(work).filter(|_| work.sweep.shown.is_some()) {
            pane::flowing(&text, role, canvas);
        }
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        of_point(work, lines);
    }

    fn start(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, Workspace::start_sweep)
    }

    fn take(&self, work: &mut Workspace, revision: u64, finding: &Finding) -> Option<String> {
        if let Finding::Point(point) = finding {
            work.take_point(revision, SweepPoint::clone(point));
        }
        None
    }

    /// Along the curve, or the columns of a map; all views follow.
    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        let is_map =
            app.workspace().is_some_and(|work| work.sweep.shown.as_ref().is_some_and(|it| it.across.is_some()));
        if !is_map {
            return Ok(self.vertical(app, by));
        }
        let Some(work) = app.workspace_mut() else { return Ok(Vec::new()) };
        grid::step_sideways(work, by);
        Ok(work.preview_sweep())
    }

    fn vertical(&self, app: &mut App, by: isize) -> Vec<Effect> {
        let height = app.rows_area().height;
        let count = app.rows().map_or(0, |table| table.count);
        let Some(work) = app.workspace_mut() else { return Vec::new() };
        work.table.move_by(by, count, height);
        work.preview_sweep()
    }

    fn leave(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, Workspace::leave_sweep)
    }

    /// The chart, or the figures as a table.
    fn group(&self, work: &mut Workspace, _by: &str) -> CommandResult {
        work.table.is_other = !work.table.is_other;
        Ok(Vec::new())
    }
}

/// Columns of a bar.
const BAR: u16 = 18;

/// What throughput counts.
fn counted(work: &Workspace) -> &'static str {
    match work.outcome.summary.replicas {
        _ if work.batch().is_none() => "steps",
        1 => "samples",
        _ => "job samples",
    }
}

/// The figures of the chosen point.
fn chosen(work: &Workspace) -> Option<(String, Role)> {
    let knob = work.sweep.shown.as_ref()?;
    let point = work.sweep.point(work.table.cursor)?;
    let at = point.value(&knob.knob)?;
    let memory = point.memory_bytes.map_or(String::new(), |bytes| format!(" · memory {bytes}"));
    let fits = if point.fits == Some(false) { " · too large for the device" } else { "" };
    let (time, rate, bound) = (point.steady_ns, throughput(point.throughput), chart::bound(point));
    Some((format!("{} {}: iteration {time} · {rate}{memory}{fits} · {bound}", knob.unit(), knob.shown(at)), Role::Text))
}

/// What rows are drawn from.
struct Rows<'a> {
    knob: &'a Knob,
    points: &'a [SweepPoint],
    work: &'a Workspace,
    /// The value in force.
    current: Option<f64>,
    best: Option<u64>,
    most_time: i64,
    most_throughput: f64,
    most_memory: u64,
}

impl<'a> Rows<'a> {
    fn of(work: &'a Workspace, knob: &'a Knob) -> Self {
        let points = work.sweep.points.as_slice();
        Self {
            knob,
            points,
            work,
            current: in_force(work, knob),
            best: optimal_batch(points).filter(|&best| !still_gains(points, best)),
            most_time: points.iter().map(|point| point.steady_ns.0).max().unwrap_or(1).max(1),
            most_throughput: points.iter().map(|point| point.throughput).fold(1e-9, f64::max),
            most_memory: points.iter().filter_map(|point| Some(point.memory_bytes?.0)).max().unwrap_or(1).max(1),
        }
    }

    fn row(&self, index: usize) -> TableRow {
        let point = &self.points[index];
        let at = point.value(&self.knob.knob).unwrap_or(0.0);
        let is_current = self.current.is_some_and(|current| (current / at - 1.0).abs() < 1e-6);
        let fits = point.fits != Some(false);
        let role = if is_current { Role::Strong } else { Role::Text };
        let memory =
            point.memory_bytes.map_or(String::new(), |bytes| format!("{}{bytes}", if fits { "" } else { "! " }));
        let memory_bar = point.memory_bytes.map_or(0.0, |bytes| bytes.0 as f64 / self.most_memory as f64);
        TableRow {
            values: vec![
                value(format!("{}{}", self.knob.shown(at), if is_current { " ◂" } else { "" }), role),
                value(point.steady_ns.to_string(), role),
                value(bar_of(point.steady_ns.0 as f64 / self.most_time as f64, TIME_BAR), Role::Chart),
                value(throughput(point.throughput), role),
                value(bar(point.throughput / self.most_throughput), Role::Good),
                value(memory, if fits { Role::Text } else { Role::Bad }),
                value(bar_of(memory_bar, MEMORY_BAR), if fits { Role::Dim } else { Role::Bad }),
                self.note(index, at),
            ],
            open: Open::Line(command(self.work, self.knob, at)),
        }
    }

    /// What is said of a point: what its path is, whether that changes here, whether it is the best.
    fn note(&self, index: usize, at: f64) -> table::Value {
        let point = &self.points[index];
        if point.fits == Some(false) {
            return value("too large for the device".to_owned(), Role::Bad);
        }
        let before = index.checked_sub(1).map(|before| &self.points[before].path_kind);
        let changes = before.is_some_and(|before| *before != point.path_kind);
        let path = if changes { format!("{} from here", chart::bound(point)) } else { chart::bound(point).to_owned() };
        let best = if self.best == Some(at as u64) && self.knob.knob == "batch" { "optimal · " } else { "" };
        let share = 100.0 * point.unhandled_share;
        let left = if share >= 0.5 { format!(", {share:.0} % kept") } else { String::new() };
        let role = match (best.is_empty(), changes) {
            (false, _) => Role::Good,
            (true, true) => Role::Accent,
            (true, false) => Role::Dim,
        };
        value(format!("{best}{path}{left}"), role)
    }
}

/// Columns of the bar of time: at 80 columns what is said of the path has to fit.
const TIME_BAR: u16 = 5;
/// Columns of the bar of memory.
const MEMORY_BAR: u16 = 10;

/// `12.3 k/s`.
fn throughput(per_second: f64) -> String {
    let (value, unit) = match per_second {
        t if t >= 1e6 => (t / 1e6, "M"),
        t if t >= 1e3 => (t / 1e3, "k"),
        t => (t, ""),
    };
    let digits = match value {
        v if v >= 100.0 || v <= 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}/s")
}

/// A bar of block characters, finer than a cell.
pub fn bar(share: f64) -> String {
    bar_of(share, BAR)
}

/// A bar of at most `width` cells.
pub fn bar_of(share: f64, width: u16) -> String {
    const LEFT: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(width) * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), LEFT[eighths % 8])
}

/// The value of a knob in force, where that is known.
fn in_force(work: &Workspace, knob: &Knob) -> Option<f64> {
    if knob.knob == "batch" {
        return work.batch().map(|batch| batch as f64);
    }
    let steps = work.history.current();
    let edited = place(steps, knob).and_then(|at| knob.value_in(&steps.steps[at]));
    edited.or_else(|| knob.is_factor().then_some(1.0))
}

/// The command that puts a value of a knob in force: a knob has one value.
fn command(work: &Workspace, knob: &Knob, at: f64) -> String {
    match place(work.history.current(), knob) {
        _ if knob.knob == "batch" => format!("batch {at}"),
        Some(step) => {
            let line = knob.line_in(&work.history.current().steps[step], at);
            format!("edit {} {line}", step + 1)
        }
        None => format!("try {}", knob.line(at)),
    }
}

/// The columns of the sweep.
fn columns(knob: &Knob, counted: &'static str) -> Vec<Column> {
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let title = knob.unit();
    vec![
        column(title, 9, true, 0),
        column("iteration", 11, true, 0),
        column("", TIME_BAR, false, 50),
        column(counted, 11, true, 0),
        column("", BAR, false, 100),
        column("memory", 11, true, 64),
        column("", MEMORY_BAR, false, 130),
        column("bound", 0, false, 76),
    ]
}

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let sweep = &work.sweep;
    let Some(knob) = sweep.shown.as_ref() else {
        let why = "the trace does not tell its batch size: K chooses another knob".to_owned();
        let row = |_| TableRow { values: Vec::new(), open: Open::Nothing };
        return Table { summary: vec![(why, Role::Warn)], columns: Vec::new(), count: 0, row: Box::new(row) };
    };
    if let Some(across) = &knob.across {
        return grid::table(work, knob, across);
    }
    let count = sweep.count();
    let mut summary = vec![if count < sweep.expected {
        (format!("{}: {count} of {} points", knob.knob, sweep.expected), Role::Warn)
    } else {
        (format!("{} {}", knob.knob, knob.range()), Role::Dim)
    }];
    let mut say = |what: &str, figure: String| {
        summary.push((format!(" · {what} "), Role::Dim));
        summary.push((figure, Role::Strong));
    };
    if let Some(best) = optimal_batch(&sweep.points) {
        let gains = still_gains(&sweep.points, best);
        say(if gains { "doubling still gains at" } else { "doubling gains ≤ 5 % from" }, best.to_string());
    }
    if let Some(limit) = memory_limit(&sweep.points, &knob.knob) {
        say("fits up to", knob.shown(limit));
    }
    if none_fits(&sweep.points) {
        say("too large for the device", "everywhere".to_owned());
    }
    if has_unmodelled(&sweep.points) {
        say("no best:", "too little is modelled".to_owned());
    }
    for change in path_changes(&sweep.points, &knob.knob).iter().take(2) {
        say(chart::bound_by(&change.to), format!("from {}", knob.shown(change.at)));
    }
    summary.extend(sweep.left_out().map(|left_out| (left_out, Role::Warn)));
    if !work.is_on_sweep() && sweep.revision != work.history.revision() && !sweep.points.is_empty() {
        summary.push((" · of an earlier scenario".to_owned(), Role::Warn));
    }
    let rows = Rows::of(work, knob);
    Table {
        summary,
        columns: columns(knob, counted(work)),
        count: sweep.points.len(),
        row: Box::new(move |index| rows.row(index)),
    }
}

fn of_point(work: &Workspace, lines: &mut Why) {
    let Some(point) = work.sweep.point(work.table.cursor) else { return };
    lines.push(("", format!("iteration of {}", point.steady_ns), Role::Title));
    lines.basis("all steps of the scenario with this value of the knob, simulated whole".to_owned(), Role::Text);
    lines.extend(point.unhandled.iter().map(|text| ("as traced", text.clone(), Role::Warn)));
    let share = 100.0 * point.unhandled_share;
    lines.extend((share >= 0.5).then(|| ("in all", format!("{share:.0} % of the work is as traced"), Role::Warn)));
}
