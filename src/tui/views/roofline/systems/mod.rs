//! The communication roofline of machines without a trace [Cardwell 2019 ch. 2]: their roofs over one another, distributed
//! algorithms over sizes and measured runs under them.
//!
//! The upper part is a plot under the network and one under memory, the lower a table of the same points.

mod asked;
mod plot;

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::session::measured_runs;
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::files::readable;
use crate::tui::command::{Argument, Command, CommandResult, Kind};
use crate::tui::effect::Effect;
use crate::tui::message::{Message, NO_TRACE};
use crate::tui::overlay::{Overlay, Prompt, Purpose};
use crate::tui::runner::{Reading, Request};
use crate::tui::table::{self, Column, Open, Table, TableRow, TableState, value};
use crate::tui::theme::Role;
use crate::tui::timeline::Detail;
use crate::tui::views::pane;
use crate::tui::views::view::{View, show};
use crate::tui::views::why::Why;
use crate::tui::workspace::Workspace;
use retime_core::analysis::roofline::{Limit, SystemRoofline};
use retime_core::units::Percent;

use super::{Roofline, parts, rate, role_of, short};
use asked::{Asked, Entry, SystemsState};

pub use asked::OPTIONS;

/// What opens it.
const OPENER: Command = Command {
    name: "systems",
    aliases: &[],
    argument: Argument::Optional(Kind::System, "SYSTEM …"),
    help: "communication roofline of machines, algorithms and runs under it",
    keys: &[],
    run: ask,
};

/// The view.
#[derive(Debug)]
pub struct Systems;

/// Shows the machines of a question; asks for one where there is none and none was answered before.
pub(super) fn ask(app: &mut App, text: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    if text.is_empty() {
        if !is_asked(work) {
            app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "systems ")));
            return Ok(Vec::new());
        }
        return Ok(show(app, &Systems));
    }
    let (asked, catalog) = (Asked::parse(text)?, work.loaded.context.catalog.clone());
    let points = asked.points.clone();
    work.states.with(|state: &mut SystemsState| state.ask(asked, &catalog))?;
    let mut effects = show(app, &Systems);
    if let Some(work) = app.workspace_mut() {
        work.table = TableState::default();
    }
    if let Some(path) = points {
        let path = readable(&path)?;
        app.busy += 1;
        effects.push(Effect::Ask(Request::Read { path, reading: Reading::Runs }));
    }
    Ok(effects)
}

/// Takes a table of measured runs that was read for the machines shown.
///
/// # Errors
/// It cannot be read, or holds no run of them.
pub fn take_runs(app: &mut App, file: &str, text: &str) -> CommandResult {
    let runs = measured_runs(text).map_err(|error| format!("{file}: {error}"))?;
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    let catalog = work.loaded.context.catalog.clone();
    let measured = work.states.with(|state: &mut SystemsState| state.measure(&runs, &catalog));
    if let Some(said) = measured.map_err(|error| format!("{file}: {error}"))? {
        app.say(Message::note(format!("{file}: {said}")));
    }
    Ok(Vec::new())
}

fn is_asked(work: &Workspace) -> bool {
    work.states.get::<SystemsState>().is_some_and(|state| !state.found.is_empty())
}

impl View for Systems {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn is_listed(&self, work: &Workspace) -> bool {
        is_asked(work)
    }

    fn rows<'a>(&self, work: &'a Workspace, area: Rect) -> Option<Table<'a>> {
        Some(rows(work, area.width))
    }

    fn rows_area(&self, _work: &Workspace, area: Rect) -> Rect {
        let table = parts(area).table;
        Rect { y: table.y - 1, height: table.height + 1, ..table }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let table = rows(work, canvas.width());
        let summary = table::fitting(&table.summary, canvas.width().saturating_sub(2) as usize);
        canvas.line(1, 0, summary);
        let Some(state) = work.states.get::<SystemsState>() else { return };
        colour(state, summary, canvas);
        let (entries, parts) = (state.entries(), parts(canvas.area()));
        for axes in plot::plots(state, &entries, parts.plots) {
            plot::render(state, &entries, work.table.cursor, &axes, canvas);
        }
        if parts.table.height > 0 {
            let mut lower = canvas.part(0, parts.table.y, parts.table.width, parts.table.height);
            table::render_rows(&table, &work.table, &mut lower, 0);
        }
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        chosen(work, |entry| format!("{} on {}", plot::label(entry), entry.system.system))
    }

    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        let keys = [("↑ ↓", "point"), ("← →", "series"), (":systems", "others"), ("esc", "the trace's roofs")];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::labelled(&chosen(work, details).unwrap_or_default(), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        let Some(details) = chosen(work, details) else { return };
        lines.extend(self.title(work).map(|title| ("", title, Role::Title)));
        lines.extend(details.into_iter().map(|detail| (detail.label, detail.value, Role::Text)));
        let basis = "the least of peak, memory bandwidth × FLOP/B and network bandwidth × FLOP per network byte";
        lines.basis(basis.to_owned(), Role::Text);
        let counts =
            "work and traffic of an algorithm by its size and processes, as Cardwell 2019 table 2.4 counts them";
        lines.push(("counts", counts.to_owned(), Role::Text));
    }

    /// The first point of the next or the previous series.
    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        if let Some(work) = app.workspace_mut() {
            let state = work.states.get::<SystemsState>();
            let entries = state.map(SystemsState::entries).unwrap_or_default();
            let series = entries.chunk_by(Entry::continues);
            let starts: Vec<usize> = series.scan(0, |at, some| Some(std::mem::replace(at, *at + some.len()))).collect();
            let now = starts.iter().rposition(|&start| start <= work.table.cursor).unwrap_or(0);
            let next = now.saturating_add_signed(by).min(starts.len().saturating_sub(1));
            work.table.cursor = starts.get(next).copied().unwrap_or(0);
        }
        Ok(self.vertical(app, 0))
    }

    /// Chooses the point at a place of a plot, or a row.
    fn press(&self, app: &mut App, area: Rect, at: (u16, u16), _is_double: bool) -> CommandResult {
        let plots = parts(area).plots;
        match app.workspace_mut().filter(|_| plots.contains(at.into())) {
            Some(work) => press(work, plots, at),
            None => app.choose_row((at.1 - area.y) as usize),
        }
        Ok(Vec::new())
    }

    fn open_row(&self, app: &mut App) -> CommandResult {
        app.overlay = Some(Overlay::Why { scroll: 0 });
        Ok(Vec::new())
    }

    fn parent(&self, _work: &Workspace) -> &'static dyn View {
        &Roofline
    }
}

/// Chooses the point drawn nearest to a place on the plots, at most a cell away: the first of several.
fn press(work: &mut Workspace, plots: Rect, (x, y): (u16, u16)) {
    let Some(state) = work.states.get::<SystemsState>() else { return };
    let entries = state.entries();
    let axes = plot::plots(state, &entries, plots);
    let Some(axes) = axes.iter().find(|axes| axes.frame.contains((x, y).into())) else { return };
    let distance = |entry: &Entry<'_>| {
        let (column, row) = plot::cell(axes, entry)?;
        Some((axes.inner.x + column).abs_diff(x).max((axes.inner.y + row).abs_diff(y)))
    };
    let near = entries.iter().enumerate().filter_map(|(at, entry)| Some((distance(entry)?, at)));
    let near = near.filter(|(distance, _)| *distance <= 1).min();
    if let Some((_, at)) = near {
        work.table.cursor = at;
    }
}

/// What `say` says of the chosen point.
fn chosen<T>(work: &Workspace, say: impl FnOnce(&Entry<'_>) -> T) -> Option<T> {
    let state = work.states.get::<SystemsState>()?;
    state.entries().get(work.table.cursor).map(say)
}

fn rows(work: &Workspace, width: u16) -> Table<'_> {
    let empty = SystemsState::default;
    let state = work.states.get::<SystemsState>();
    let entries = state.map(SystemsState::entries).unwrap_or_default();
    let is_measured = entries.iter().any(|entry| entry.reached.is_some());
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let are_several = state.is_some_and(|state| state.found.len() > 1);
    let (several, measured) = (if are_several { 12 } else { 0 }, if is_measured { 14 } else { 0 });
    let base = 68 + several + measured;
    let columns = vec![
        column("", 1, false, 0),
        column("", 0, false, 0),
        column("size", 10, true, 0),
        column("processes", 9, true, base + 10),
        column("FLOP/B", 8, true, 0),
        column("FLOP/net B", 10, true, 0),
        column("reached", 13, true, if is_measured { 0 } else { u16::MAX }),
        column("attainable", 13, true, 0),
        column("by memory", 13, true, base + 24),
        column("bound", 7, false, if is_measured { base } else { 0 }),
        column("system", 11, false, if are_several { 0 } else { base + 40 }),
    ];
    let summary = summary(state.unwrap_or(&empty()), width);
    Table { summary, columns, count: entries.len(), row: Box::new(move |at| row(&entries[at])) }
}

fn row(entry: &Entry<'_>) -> TableRow {
    let optional = |value: Option<f64>| value.map_or("–".to_owned(), short);
    let size = |of: fn((f64, f64)) -> f64| entry.size.map_or("–".to_owned(), |size| of(size).to_string());
    let is_above = entry.reached.is_some_and(|reached| reached > 1.001 * entry.attainable);
    TableRow {
        values: vec![
            value(entry.sign, Role::Strong),
            table::name(entry.name.clone(), Role::Text),
            value(size(|(size, _)| size), Role::Text),
            value(size(|(_, processes)| processes), Role::Dim),
            value(short(entry.intensity), Role::Text),
            value(optional(entry.communication_intensity), Role::Text),
            value(entry.reached.map_or("–".to_owned(), rate), if is_above { Role::Bad } else { Role::Measured }),
            value(rate(entry.attainable), Role::Text),
            value(rate(entry.by_memory()), Role::Dim),
            value(entry.bound.name(), role_of(entry.bound)),
            value(entry.system.system.clone(), Role::Text),
        ],
        open: Open::Nothing,
    }
}

/// Each system with its three figures, where there is room for several only their names; how far measured runs are off.
fn summary(state: &SystemsState, width: u16) -> Vec<(String, Role)> {
    const FOR_FIGURES: u16 = 64;
    if state.found.is_empty() {
        return vec![("no system yet: `:systems Karst mine=22,13.9,1.2`".to_owned(), Role::Warn)];
    }
    let has_figures = usize::from(width / FOR_FIGURES) >= state.found.len();
    let mut pieces = Vec::new();
    for (at, found) in state.found.iter().enumerate() {
        if at > 0 {
            pieces.push((" · ".to_owned(), Role::Dim));
        }
        pieces.push((found.system.clone(), Role::Strong));
        if has_figures {
            pieces.push((format!(" {}", figures(found)), Role::Text));
        }
    }
    for (found, errors) in state.found.iter().filter_map(|found| Some((found, found.errors?))) {
        let [memory, network] = [errors.by_memory, errors.by_communication].map(Percent);
        let name = if state.found.len() > 1 { format!(" of {}", found.system) } else { String::new() };
        let text = format!(" · runs{name} off by {memory:.0}, under the network's roof too by {network:.0}");
        pieces.push((text, Role::Strong));
    }
    pieces
}

/// Puts the names of the systems in the summary into the colours of their roofs.
fn colour(state: &SystemsState, summary: &[(String, Role)], canvas: &mut Canvas<'_>) {
    let mut x = 1;
    for (text, _) in summary {
        let width = text.width() as u16;
        let at = state.found.iter().position(|found| *text == found.system);
        if let Some(at) = at {
            let style = plot::ink(at, canvas);
            canvas.restyle(x, 0, width, style);
        }
        x += width;
    }
}

/// The three figures of a system.
fn figures(found: &SystemRoofline) -> String {
    let memory = short(found.roofs.memory.0 / 1e9);
    let network = found
        .roofs
        .network
        .map_or("no network".to_owned(), |network| format!("network {} GB/s", short(network.0 / 1e9)));
    format!("{}, memory {memory} GB/s, {network}", rate(found.roofs.peak.0))
}

fn details(entry: &Entry<'_>) -> Vec<Detail> {
    let detail = |label, value: String| Detail { label, value };
    let roofs = &entry.system.roofs;
    let under = |bandwidth: f64, intensity: f64, unit: &str| {
        format!("{} GB/s × {} {unit} = {}", short(bandwidth / 1e9), short(intensity), rate(bandwidth * intensity))
    };
    let mut details = vec![detail("system", format!("{}: {}", entry.system.system, figures(entry.system)))];
    if let Some((size, processes)) = entry.size {
        details.push(detail("size", format!("{size} on {processes} processes")));
    }
    if let Some(reached) = entry.reached {
        let share = Percent(if entry.attainable > 0.0 { reached / entry.attainable } else { 0.0 });
        details.push(detail("reached", format!("{}, {share:.0} of what is attainable", rate(reached))));
    }
    details.push(detail(
        "memory",
        if entry.intensity.is_finite() {
            under(roofs.memory.0, entry.intensity, "FLOP/B")
        } else {
            "no traffic".to_owned()
        },
    ));
    details.push(detail(
        "network",
        match (roofs.network, entry.communication_intensity) {
            (Some(network), Some(intensity)) => under(network.0, intensity, "FLOP/net B"),
            (None, _) => "the system has none".to_owned(),
            (_, None) => "no traffic".to_owned(),
        },
    ));
    let bound = if entry.bound == Limit::Compute { "its peak".to_owned() } else { entry.bound.name().to_owned() };
    details.push(detail("attainable", format!("{}, bound by {bound}", rate(entry.attainable))));
    details
}
