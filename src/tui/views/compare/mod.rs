//! Scenarios and traces in columns: their figures against a reference, and below the time of operators or kinds.

mod account;
mod state;
mod strips;

use ratatui::layout::Rect;

use crate::session::{Column as Side, ComparisonTableRow, Difference, Faster};
use crate::tui::app::App;
use crate::tui::canvas::{Canvas, cut};
use crate::tui::command::{self, Argument, Command, CommandResult, Kind, Pane};
use crate::tui::effect::Effect;
use crate::tui::overlay::Overlay;
use crate::tui::table::{self, Column, Open, Table, TableRow, Value, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{short_name, signed};
use crate::tui::workspace::Workspace;
use retime_core::analysis::critical_path::explained;
use retime_core::analysis::profile::{Named, Place};
use retime_core::graph::operator::without_engine;
use retime_core::units::{DurNs, Percent};

use super::view::View;
use super::why::Why;
use super::{pane, signed_percent};

use state::time_of;

pub use state::{By, ColumnKind, CompareState, Compared, Measure, Order, SideSource};

/// What opens it.
const OPENER: Command = Command {
    name: "compare",
    aliases: &["diff"],
    argument: Argument::Optional(Kind::Text, "TRACE"),
    help: "scenarios side by side; with another trace or scenario file",
    keys: &[(Pane::Everywhere, "8")],
    run: command::compare::compare,
};

/// The view.
#[derive(Debug)]
pub struct Compare;

impl View for Compare {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn brief(&self) -> &'static str {
        "comp"
    }

    fn pane(&self) -> Pane {
        Pane::Compare
    }

    fn rows<'a>(&self, work: &'a Workspace, area: Rect) -> Option<Table<'a>> {
        Some(rows(work, area.width, area.height))
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        let above = figure_lines(work, area.width, area.height).saturating_sub(1);
        Rect { y: area.y + above, height: area.height.saturating_sub(above), ..area }
    }

    fn render(&self, app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        render(app, work, &rows(work, canvas.width(), canvas.height()), canvas);
    }

    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        let keys = [
            ("enter", "says why"),
            ("A", "puts it in force"),
            ("r", "reference"),
            ("v", "rows"),
            ("a", "keeps the steps"),
        ];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::flow(&account::chosen(work), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        lines.extend(account::why(work));
    }

    fn start(&self, app: &mut App) -> Vec<Effect> {
        app.start_compare()
    }

    /// Says why the row is what it is.
    fn open_row(&self, app: &mut App) -> CommandResult {
        app.overlay = Some(Overlay::Why { scroll: 0 });
        Ok(Vec::new())
    }

    /// To the next column or the one before.
    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        if let Some(work) = app.workspace_mut() {
            work.compare.step_sideways(by);
        }
        Ok(Vec::new())
    }
}

/// Least width of a column, which all figures fit.
const NARROW: u16 = 14;
/// Most width of a column: longer names are cut.
const WIDE: u16 = 26;
/// Least and most width of the rows' names.
const NAMES: (u16, u16) = (20, 44);
/// Differences below this share of the reference's iteration are small.
const SMALL: f64 = 5e-4;
/// Lines that rows of operators need at least, with their titles.
const LEAST_ROWS: u16 = 6;

/// A figure of every column, in one line.
struct Figure {
    name: &'static str,
    cell: fn(&Side, &Side) -> Option<(String, Role)>,
    /// From how many lines of the view on it is shown.
    from_height: u16,
}

const FIGURES: [Figure; 10] = [
    Figure {
        name: "iteration",
        cell: |side, _| Some((side.figures.iteration_ns.to_string(), Role::Strong)),
        from_height: 0,
    },
    Figure { name: "within", cell: |side, _| within(side), from_height: 14 },
    Figure { name: "", cell: change, from_height: 0 },
    Figure { name: "verdict", cell: |side, reference| Some(verdict(side, reference)), from_height: 0 },
    Figure { name: "per sample", cell: per_sample, from_height: 0 },
    Figure { name: "prediction", cell: prediction, from_height: 0 },
    Figure {
        name: "GPU busy",
        cell: |side, _| side.figures.gpu_busy.map(|busy| (format!("{:.0}", Percent(busy)), Role::Text)),
        from_height: 12,
    },
    Figure { name: "memory", cell: |side, _| memory(side), from_height: 13 },
    Figure { name: "steps", cell: |side, _| Some(steps(side)), from_height: 16 },
    Figure { name: "left as it was", cell: |side, _| unhandled(side), from_height: 16 },
];

fn within(side: &Side) -> Option<(String, Role)> {
    let (low, high) = (side.figures.low_ns, side.figures.high_ns);
    let (high_text, low_text) = (high.to_string(), low.to_string());
    let unit = high_text.split_whitespace().last().unwrap_or("");
    let low_text = low_text.strip_suffix(unit).map_or(low_text.as_str(), str::trim_end);
    let role = if side.figures.is_range_known { Role::Dim } else { Role::Faint };
    (low != high).then(|| (format!("{low_text}–{high_text}"), role))
}

fn change(side: &Side, reference: &Side) -> Option<(String, Role)> {
    let difference = side.difference.as_ref()?;
    let share = share(difference, reference);
    let text = if share.abs() < 2.0 { signed_percent(share) } else { format!("×{:.2}", share + 1.0) };
    Some((text, if share.abs() < SMALL { Role::Dim } else { of_verdict(difference.verdict) }))
}

/// How much of the reference's iteration a difference is.
fn share(difference: &Difference, reference: &Side) -> f64 {
    difference.delta_ns.0 as f64 / reference.figures.iteration_ns.0.max(1) as f64
}

fn of_verdict(verdict: Faster) -> Role {
    match verdict {
        Faster::AFaster => Role::Bad,
        Faster::BFaster => Role::Good,
        Faster::CannotTell => Role::Dim,
    }
}

fn verdict(side: &Side, reference: &Side) -> (String, Role) {
    let Some(difference) = &side.difference else { return ("reference".to_owned(), Role::Dim) };
    if share(difference, reference).abs() < SMALL {
        return ("≈ as fast".to_owned(), Role::Dim);
    }
    let text = match difference.verdict {
        Faster::AFaster => "▲ slower",
        Faster::BFaster => "▼ faster",
        Faster::CannotTell => "≈ cannot tell",
    };
    (text.to_owned(), of_verdict(difference.verdict))
}

fn per_sample(side: &Side, reference: &Side) -> Option<(String, Role)> {
    let difference = side.per_sample.as_ref()?;
    let start = reference.figures.iteration_ns.0 as f64 / reference.figures.samples?.max(1.0);
    Some((signed_percent(difference.delta_ns.0 as f64 / start.max(1.0)), of_verdict(difference.verdict)))
}

/// How far off the prediction was, whichever of both columns it is.
fn prediction(side: &Side, _: &Side) -> Option<(String, Role)> {
    let score = side.score.as_ref()?;
    let (sign, role) = match (score.is_within_band, score.is_within_error) {
        (true, _) => ("✓", Role::Good),
        (false, true) => ("≈", Role::Dim),
        (false, false) => ("✗", Role::Bad),
    };
    Some((format!("{} {sign}", signed_percent(score.error)), role))
}

fn memory(side: &Side) -> Option<(String, Role)> {
    let bytes = side.figures.memory_bytes?;
    let fits = side.figures.fits != Some(false);
    let text = if fits { bytes.to_string() } else { format!("! {bytes}") };
    Some((text, if fits { Role::Text } else { Role::Bad }))
}

fn steps(side: &Side) -> (String, Role) {
    let text = match side.figures.steps.len() {
        _ if side.figures.source != "simulated" => side.figures.source.to_owned(),
        0 => "none".to_owned(),
        1 => "1 step".to_owned(),
        count => format!("{count} steps"),
    };
    (text, Role::Dim)
}

fn unhandled(side: &Side) -> Option<(String, Role)> {
    match side.figures.unhandled.len() {
        0 => None,
        1 => Some(("1 kind".to_owned(), Role::Warn)),
        count => Some((format!("{count} kinds"), Role::Warn)),
    }
}

/// What is shown: which columns have room, and the figures that any of them has.
struct Plan<'a> {
    state: &'a CompareState,
    columns: &'a [Side],
    /// Positions of the columns shown, the reference first.
    places: Vec<usize>,
    figures: Vec<&'static Figure>,
    /// Width of the rows' names.
    names: u16,
    /// Width of a column.
    column: u16,
    is_stale: bool,
}

impl<'a> Plan<'a> {
    fn of(work: &'a Workspace, width: u16, height: u16) -> Self {
        let height = height - strips::lines(work, height);
        let state = &work.compare;
        let board = state.shown.as_ref().map(|shown| &shown.board);
        let columns = board.map_or(&[][..], |board| &board.columns);
        let reference = board.map_or(0, |board| board.reference);
        let room = (width.saturating_sub(NAMES.0 + 2) / (NARROW + 1)).max(2) as usize;
        let others: Vec<usize> = (0..columns.len()).filter(|&index| index != reference).collect();
        let chosen = others.iter().position(|&index| index == state.column()).unwrap_or(0);
        let first = (chosen + 1).saturating_sub(room - 1).min(others.len().saturating_sub(room - 1));
        let window = others.into_iter().skip(first).take(room - 1);
        let places: Vec<usize> = std::iter::once(reference).filter(|_| !columns.is_empty()).chain(window).collect();
        let count = places.len().max(1) as u16;
        let names = width.saturating_sub(2 + count * (NARROW + 1)).clamp(NAMES.0, NAMES.1);
        let longest = columns.iter().map(|side| side.figures.name.chars().count() as u16 + 1).max().unwrap_or(0);
        let column = (width.saturating_sub(2 + names) / count).saturating_sub(1).min(longest).clamp(NARROW, WIDE);
        let against = columns.get(reference);
        let is_told = |figure: &&Figure| {
            let told = |side: &Side| against.is_some_and(|against| (figure.cell)(side, against).is_some());
            figure.from_height <= height && columns.iter().any(told)
        };
        let mut figures: Vec<&'static Figure> = FIGURES.iter().filter(is_told).collect();
        figures.truncate(height.saturating_sub(LEAST_ROWS + 1).max(3) as usize);
        let is_stale = state.is_asked || work.is_stale() || state.is_stale();
        Self { state, columns, places, figures, names, column, is_stale }
    }

    /// Where each shown column begins.
    fn x(&self, at: usize) -> u16 {
        2 + self.names + at as u16 * (self.column + 1)
    }
}

/// Lines above the titles of the rows.
fn figure_lines(work: &Workspace, width: u16, height: u16) -> u16 {
    let plan = Plan::of(work, width, height);
    if plan.columns.len() < 2 { 0 } else { 2 + plan.figures.len() as u16 + strips::lines(work, height) }
}

/// Draws the view.
fn render(app: &App, work: &Workspace, table: &Table<'_>, canvas: &mut Canvas<'_>) {
    let (width, height) = (canvas.width(), canvas.height());
    let plan = Plan::of(work, width, height);
    if plan.columns.len() < 2 {
        return alone(work, canvas);
    }
    canvas.line(1, 0, &summary(&plan));
    let (above, strips) = (figure_lines(work, width, height), strips::lines(work, height));
    heads(&plan, &mut canvas.part(0, 1, width, above - strips - 1));
    strips::render(app, work, plan.names, &mut canvas.part(0, above - strips, width, strips));
    let mut rows = canvas.part(0, above, width, height - above);
    table::render_rows(table, &work.table, &mut rows, 0);
}

fn summary(plan: &Plan<'_>) -> Vec<(String, Role)> {
    let state = plan.state;
    let order = match state.order {
        Order::Difference => "by difference",
        Order::Time => "by time",
        Order::Name => "by name",
    };
    let hidden = plan.columns.len() - plan.places.len();
    let mut pieces = Vec::new();
    let what = if state.by == By::Operator { "operators" } else { "kinds" };
    for (key, text) in [
        ("A", " switch · "),
        ("r", " reference · "),
        ("v", what),
        ("c", state.measure().name()),
        ("s", order),
        ("a", " keep"),
    ] {
        pieces.push((key.to_owned(), Role::Key));
        let text = if text.starts_with(' ') { text.to_owned() } else { format!(" {text} · ") };
        pieces.push((text, Role::Dim));
    }
    if hidden > 0 {
        pieces.insert(0, (format!("←→ {hidden} more · "), Role::Warn));
    }
    if plan.is_stale {
        pieces.insert(0, ("computing … ".to_owned(), Role::Warn));
    }
    pieces
}

/// The names of the columns, and their figures.
fn heads(plan: &Plan<'_>, canvas: &mut Canvas<'_>) {
    let each = plan.column;
    let Some(against) = plan.places.first().and_then(|&index| plan.columns.get(index)) else { return };
    let against_name = format!("against {}", against.figures.name);
    for (y, figure) in plan.figures.iter().enumerate() {
        let name = if figure.name.is_empty() { &against_name } else { figure.name };
        let room = plan.names as usize;
        canvas.text(1, y as u16 + 1, &cut(name, room), Role::Dim);
    }
    for (at, &index) in plan.places.iter().enumerate() {
        let (side, x) = (&plan.columns[index], plan.x(at));
        let is_chosen = index == plan.state.column();
        let sign = if is_chosen { "▸" } else { "" };
        let name = cut(&side.figures.name, each as usize - 1);
        canvas.part(x, 0, each, 1).right(0, 0, 0, &[(sign, Role::Accent), (&name, Role::Title)]);
        if is_chosen {
            let selected = canvas.theme().style(Role::Selected);
            canvas.restyle(x, 0, each, selected);
        }
        for (y, figure) in plan.figures.iter().enumerate() {
            let (text, role) = (figure.cell)(side, against).unwrap_or(("–".to_owned(), Role::Faint));
            let role = if plan.is_stale { Role::Dim } else { role };
            let text = cut(&text, each as usize);
            canvas.part(x, y as u16 + 1, each, 1).right(0, 0, 0, &[(&text, role)]);
        }
    }
}

/// Nothing to compare with: how to get it.
fn alone(work: &Workspace, canvas: &mut Canvas<'_>) {
    if work.compare.is_asked || work.is_stale() {
        canvas.text(1, 0, "computing …", Role::Warn);
        return;
    }
    canvas.text(1, 0, "nothing to compare with the base yet", Role::Warn);
    let ways = [
        ("b g t", "make an edit: it comes beside the base"),
        ("a", "keep the steps under a name, and go on from there"),
        (":compare TRACE", "another trace, as measured"),
        (":compare FILE.toml", "a scenario from a file"),
    ];
    for (y, (key, what)) in ways.iter().enumerate() {
        canvas.line(1, y as u16 + 1, &[(format!("{key:<20}"), Role::Key), ((*what).to_owned(), Role::Dim)]);
    }
}

fn rows(work: &Workspace, width: u16, height: u16) -> Table<'_> {
    let plan = Plan::of(work, width, height);
    let rows = if plan.columns.len() < 2 { Vec::new() } else { plan.state.rows() };
    let column = |title, width, is_number| Column { title, width, is_number, from_width: 0 };
    let title = match (plan.state.by, plan.state.measure().name()) {
        (By::Operator, "device") => "device time of operators",
        (By::Operator, "host") => "host time of operators",
        (By::Operator, _) => "critical path by operator",
        (By::Kind, "path") => "critical path by kind",
        (By::Kind, _) => "time by kind",
    };
    let (names, each) = (plan.names, plan.column);
    let mut columns = vec![column(title, names, false)];
    columns.extend(
        plan.places.iter().enumerate().map(|(at, _)| column(if at == 0 { "time" } else { "difference" }, each, true)),
    );
    Table { summary: Vec::new(), columns, count: rows.len(), row: Box::new(move |index| row(&plan, rows[index])) }
}

/// What a row is called: an operator by its short name, a kind of time by where it is spent and in words.
fn label(row: &ComparisonTableRow) -> String {
    let (place, kind) = match row.place {
        None => return short_name(without_engine(&row.name)).to_owned(),
        Some(Place::Host) => ("host", row.name.as_str()),
        Some(Place::Device) => ("device", row.name.as_str()),
        Some(Place::Wait) => ("wait", row.name.trim_start_matches("wait-")),
    };
    let kind = match kind {
        "memcpy" => "copies",
        "memset" => "fills",
        other => explained(other),
    };
    format!("{place}: {kind}")
}

fn row(plan: &Plan<'_>, row: &ComparisonTableRow) -> TableRow {
    let (state, reference) = (plan.state, plan.places.first().copied().unwrap_or(0));
    let name = label(row);
    let role = if plan.is_stale { Role::Dim } else { Role::Text };
    let mut values = vec![value(name, role)];
    let own = row.cells.get(reference).copied().flatten();
    let time = |cell: Option<Named>| time_of(state.measure(), state.by, cell);
    let own_text = if own.is_some() { time(own).to_string() } else { "–".to_owned() };
    values.push(value(own_text, role));
    let iteration = plan.columns.get(reference).map_or(1, |side| side.figures.iteration_ns.0.max(1));
    for &index in plan.places.iter().skip(1) {
        let cell = row.cells.get(index).copied().flatten();
        values.push(difference(own, cell, time(cell) - time(own), iteration, plan.is_stale));
    }
    TableRow { values, open: Open::Nothing }
}

/// A cell beside the reference's: what is different.
fn difference(own: Option<Named>, cell: Option<Named>, by: DurNs, iteration: i64, is_stale: bool) -> Value {
    let count = |cell: Option<Named>| cell.map_or(0, |cell| cell.count);
    let note = match (count(own), count(cell)) {
        (0, 1..) => " new",
        (1.., 0) => " gone",
        _ => "",
    };
    let is_small = (by.0.unsigned_abs() as f64) < SMALL * iteration as f64;
    let role = match by.0 {
        _ if is_stale || is_small => Role::Dim,
        ..0 => Role::Good,
        _ => Role::Bad,
    };
    let text = if by == DurNs::ZERO { "=".to_owned() } else { signed(by) };
    value(format!("{text}{note}"), role)
}
