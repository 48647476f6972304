//! The roofline: kernels, layers or the model under the roofs of a device, real or made up by moving a roof.
//!
//! The upper part is a plot (or two, or the three planes), the lower a table of the same points.

mod axes;
mod legend;
mod planes;
mod plot;
mod roofs;
mod state;
mod systems;

use ratatui::layout::Rect;

use crate::tui::app::{App, MousePress};
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Kind, Pane};
use crate::tui::table::{self, Column, Open, Table, TableRow, TableState, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Detail, Item, kernel_name};
use crate::tui::workspace::Workspace;
use retime_core::analysis::operators::Level;
use retime_core::analysis::roofline::{Limit, Place, Point, Roofs, dominant_precision};
use retime_core::device::{DeviceKind, DeviceProfile, Precision};
use retime_core::units::{Bytes, DurNs, Flop, Percent};

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::Why;
use axes::Axes;

pub use state::{Roof, RooflineState};
pub use systems::{OPTIONS, Systems, take_runs};

/// What opens it.
const OPENER: Command = Command {
    name: "roofline",
    aliases: &[],
    argument: Argument::Optional(Kind::System, "SYSTEM …"),
    help: "the trace under its device's roofs; with systems, these alone",
    keys: &[(Pane::Everywhere, "5")],
    run: |app, systems| if systems.is_empty() { Ok(show(app, &Roofline)) } else { systems::ask(app, systems) },
};

/// The view.
#[derive(Debug)]
pub struct Roofline;

impl View for Roofline {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn brief(&self) -> &'static str {
        "roof"
    }

    fn pane(&self) -> Pane {
        Pane::Roofline
    }

    fn rows<'a>(&self, work: &'a Workspace, area: Rect) -> Option<Table<'a>> {
        Some(rows(work, area.width))
    }

    fn rows_area(&self, _work: &Workspace, area: Rect) -> Rect {
        let table = parts(area).table;
        Rect { y: table.y - 1, height: table.height + 1, ..table }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        render(work, &rows(work, canvas.width()), canvas);
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        details(work).map(|(name, _)| kernel_name(&name).into_owned())
    }

    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        let keys = [
            ("← →", "point"),
            ("r", "roof"),
            ("+ −", "move it"),
            ("A", "adds the moved roofs"),
            ("enter", "on the timeline"),
        ];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::labelled(&details(work).map(|(_, details)| details).unwrap_or_default(), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        why(work, lines);
    }

    /// The next or the previous point in order of intensity.
    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        if let Some(work) = app.workspace_mut() {
            step_sideways(work, by);
        }
        Ok(self.vertical(app, 0))
    }

    fn press(&self, app: &mut App, area: Rect, at: (u16, u16), is_double: bool) -> CommandResult {
        if !app.workspace_mut().is_some_and(|work| press(work, area, at)) {
            app.choose_row((at.1 - area.y) as usize);
        }
        if is_double { app.open_row() } else { Ok(Vec::new()) }
    }

    fn drag(&self, app: &mut App, area: Rect, _press: MousePress, to: (u16, u16)) {
        if let Some(work) = app.workspace_mut() {
            drag(work, area, to);
        }
    }
}

/// Where the parts of the view are.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// The plots.
    plots: Rect,
    /// The table with its titles; empty where there is no room.
    table: Rect,
}

/// The parts of a view at `view`: a line of summary, plots, a table.
fn parts(view: Rect) -> Parts {
    const LEAST_WITH_TABLE: u16 = 12;
    let rows = if view.height < LEAST_WITH_TABLE { 0 } else { (view.height / 3).clamp(4, 16) };
    let plots = Rect { y: view.y + 1, height: view.height.saturating_sub(rows + 1), ..view };
    Parts { plots, table: Rect { y: plots.y + plots.height, height: rows, ..view } }
}

/// What is drawn: the points with the roofs over them.
struct Scene<'a> {
    points: &'a [Point],
    /// Where each point was before the edits; nothing without edits.
    origins: Vec<Option<&'a Point>>,
    /// The device that was traced, where the scenario has another.
    old_device: Option<&'a DeviceProfile>,
    now: Place<'a>,
    moved: Place<'a>,
    /// At the precision of most of the arithmetic.
    roofs: Roofs,
    moved_roofs: Roofs,
    precision: Precision,
    seconds: f64,
    /// What shares are of.
    whole: DurNs,
    chosen: usize,
    roof: Roof,
}

impl<'a> Scene<'a> {
    /// `None` where no device is known: a GPU that was not recorded has no roofs, and those of its host mean nothing.
    fn of(work: &'a Workspace) -> Option<Self> {
        let rooflines = &work.view_model.rooflines;
        let device = rooflines.device.as_deref()?;
        if !device.is_known() || work.has_device() && device.kind == DeviceKind::Cpu {
            return None;
        }
        let points = rooflines.at(work.roofline.level);
        // The steps in force have moved the device's own.
        let now = Place { device, factors: [1.0; 3], beside: &[] };
        let moved = Place { device, factors: work.roofline.factors, beside: &[] };
        let precision = dominant_precision(rooflines.at(Level::Kernel), device);
        Some(Self {
            points,
            origins: origins(work, points),
            old_device: work
                .view_model
                .rooflines_before()
                .and_then(|it| it.device.as_deref())
                .filter(|old| old.id != device.id),
            now,
            moved,
            roofs: now.roofs(precision),
            moved_roofs: moved.roofs(precision),
            precision,
            seconds: points.iter().map(|point| point.load.seconds).sum(),
            whole: work.whole(),
            chosen: work.table.cursor,
            roof: work.roofline.roof,
        })
    }

    fn origin(&self, at: usize) -> Option<&'a Point> {
        self.origins.get(at).copied().flatten()
    }

    /// Of the time of all points: how large it is drawn.
    fn share(&self, point: &Point) -> f64 {
        if self.seconds > 0.0 { point.load.seconds / self.seconds } else { 0.0 }
    }

    /// Of the iteration.
    fn of_iteration(&self, point: &Point) -> f64 {
        point.load.seconds * 1e9 / self.whole.0 as f64
    }
}

/// Where points were before the edits.
fn origins<'a>(work: &'a Workspace, points: &[Point]) -> Vec<Option<&'a Point>> {
    let Some(before) = work.view_model.rooflines_before().filter(|_| work.is_edited()) else { return Vec::new() };
    let level = work.roofline.level;
    points.iter().map(|point| before.origin_of(point, level, &work.loaded.graph)).collect()
}

/// The plots in `area` with their axes: under memory and, where something crosses a network, under that.
fn plots(work: &Workspace, scene: &Scene<'_>, area: Rect) -> Vec<Axes> {
    const LEAST_WIDTH: u16 = 30;
    let has_network = work.view_model.rooflines.has_network() && scene.roofs.network.is_some();
    let width = if has_network && area.width >= 2 * LEAST_WIDTH { area.width / 2 } else { area.width };
    let memory = Axes::of(scene, Roof::Memory, Rect { width, ..area });
    let network = (width < area.width).then(|| {
        let area = Rect { x: area.x + width, width: area.width - width, ..area };
        Axes::of(scene, Roof::Network, area)
    });
    std::iter::once(memory).chain(network).collect()
}

/// Draws the view into `canvas`, which begins at the view's corner.
fn render(work: &Workspace, table: &Table<'_>, canvas: &mut Canvas<'_>) {
    let view = Rect::new(0, 0, canvas.width(), canvas.height());
    canvas.line(1, 0, table::fitting(&table.summary, canvas.width().saturating_sub(2) as usize));
    let Some(scene) = Scene::of(work) else { return };
    let parts = parts(view);
    if work.roofline.is_planes {
        planes::render(&scene, parts.plots, canvas);
    } else {
        for axes in plots(work, &scene, parts.plots) {
            plot::render(&scene, &axes, canvas);
        }
    }
    if parts.table.height > 0 {
        let mut lower = canvas.part(0, parts.table.y, view.width, parts.table.height);
        table::render_rows(table, &work.table, &mut lower, 0);
    }
}

/// Chooses the point or takes hold of the roof at a place of the view `view`; whether that is on the plots.
fn press(work: &mut Workspace, view: Rect, (x, y): (u16, u16)) -> bool {
    let area = parts(view).plots;
    work.roofline.is_held = false;
    if work.roofline.is_planes || !area.contains((x, y).into()) {
        return area.contains((x, y).into());
    }
    let Some(scene) = Scene::of(work) else { return true };
    let plots = plots(work, &scene, area);
    let Some(axes) = plots.iter().find(|axes| axes.frame.contains((x, y).into())) else { return true };
    let (roof, point) = (axes.roof_at(&scene, x, y), axes.point_at(&scene, x, y));
    match (point, roof) {
        (Some(point), _) => work.table.cursor = point,
        (None, Some(roof)) => (work.roofline.roof, work.roofline.is_held) = (roof, true),
        (None, None) => {}
    }
    true
}

/// Moves the roof that is held to a place of the view `view`.
fn drag(work: &mut Workspace, view: Rect, (x, y): (u16, u16)) {
    if !work.roofline.is_held {
        return;
    }
    let factor = Scene::of(work).and_then(|scene| {
        let plots = plots(work, &scene, parts(view).plots);
        let axes = plots.into_iter().find(|axes| axes.frame.contains((x, y).into()))?;
        axes.factor_through(&scene, x, y)
    });
    if let Some(factor) = factor {
        work.roofline.set(work.roofline.roof, factor);
    }
}

/// Chooses the next or the previous point in order of intensity.
fn step_sideways(work: &mut Workspace, by: isize) {
    let points = work.view_model.rooflines.at(work.roofline.level);
    let mut order: Vec<usize> = (0..points.len()).filter(|&at| axes::is_placed(&points[at])).collect();
    order.sort_by(|&a, &b| points[a].load.intensity().total_cmp(&points[b].load.intensity()).then(a.cmp(&b)));
    let at = order.iter().position(|&point| point == work.table.cursor);
    let next = at.map_or(0, |at| at.saturating_add_signed(by).min(order.len().saturating_sub(1)));
    if let Some(&point) = order.get(next) {
        work.table.cursor = point;
    }
}

/// The commands that put the moved roofs in force.
///
/// # Errors
/// There is no edit for them.
pub fn steps(work: &Workspace) -> Result<Vec<String>, String> {
    let device = work.view_model.rooflines.device.as_deref().ok_or("no device is known")?;
    if device.kind != DeviceKind::Gpu {
        return Err("moved roofs become a step on a GPU only: place-on first".to_owned());
    }
    let moved = FIGURES.iter().zip(work.roofline.factors).filter(|(_, factor)| Roof::is_moved(*factor));
    Ok(moved.map(|(figure, factor)| format!("scale-device {figure} x{}", state::rounded(factor))).collect())
}

/// The figures of a device that the roofs stand for, as edits call them.
const FIGURES: [&str; 3] = ["flops", "dram_bw", "link"];

fn rows(work: &Workspace, width: u16) -> Table<'_> {
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let compared = if work.is_edited() { 0 } else { u16::MAX };
    let columns = vec![
        column("", 1, false, 0),
        column("before", 10, true, compared),
        column("time", 10, true, 0),
        column("share", 7, true, 0),
        column("", 18, false, 140),
        column("FLOP", 12, true, 110),
        column("bytes", 10, true, 110),
        column("FLOP/B", 8, true, if work.is_edited() { 96 } else { 0 }),
        column("reached", 14, true, 0),
        column("of roof", 7, true, 66),
        column("bound", 8, false, 0),
        column("count", 6, true, 100),
        column("", 0, false, 0),
    ];
    let Some(scene) = Scene::of(work) else {
        let why = "the trace does not say which GPU it ran on: g puts it on one";
        let summary = vec![(why.to_owned(), Role::Warn)];
        return Table {
            summary,
            columns,
            count: 0,
            row: Box::new(|_| TableRow { values: Vec::new(), open: Open::Nothing }),
        };
    };
    let summary = summary(work, &scene, width);
    let traced = work.view_model.rooflines.traced;
    Table { summary, columns, count: scene.points.len(), row: Box::new(move |at| row(&scene, at, traced)) }
}

fn row(scene: &Scene<'_>, at: usize, traced: usize) -> TableRow {
    let point = &scene.points[at];
    let before = scene.origin(at).map(|origin| DurNs::from_secs_f64(origin.load.seconds).to_string());
    let (share, moved) = (scene.of_iteration(point), point.under(&scene.moved));
    let least = point.least_seconds(&scene.moved);
    let is_known = point.bound != Limit::Unknown;
    let of_roof = point.share_of_roof(least).map_or("–".to_owned(), percent);
    let node = point.example.index();
    let item = if node < traced { Item::Task(point.example) } else { Item::Added((node - traced) as u32) };
    TableRow {
        values: vec![
            value(plot::letter(point.family, true), Role::Strong),
            value(before.unwrap_or_else(|| "–".to_owned()), Role::Measured),
            value(DurNs::from_secs_f64(point.load.seconds).to_string(), Role::Text),
            value(percent(share), Role::Text),
            value(bar(share), Role::Chart),
            value(flop(point), Role::Text),
            value(moved_bytes(point), Role::Text),
            value(point.intensity.filter(|_| is_known).map_or("–".to_owned(), short), Role::Text),
            value(reached(point), Role::Text),
            value(of_roof, if is_above(point, &scene.moved) { Role::Bad } else { Role::Text }),
            value(moved.bound.name(), role_of(moved.bound)),
            value(point.count.to_string(), Role::Dim),
            table::name(kernel_name(&point.label), Role::Text),
        ],
        open: Open::Item(item),
    }
}

/// Whether a point took less than its roofs allow: its data was in a cache, or its work is counted wrong.
fn is_above(point: &Point, place: &Place<'_>) -> bool {
    point.least_seconds(place) > 1.001 * point.load.seconds
}

/// The device with its roofs, where there is room for what the plot shows too, and the keys that change it.
fn summary(work: &Workspace, scene: &Scene<'_>, width: u16) -> Vec<(String, Role)> {
    const WITH_ROOFS: u16 = 112;
    let state = &work.roofline;
    let mut pieces =
        vec![(scene.now.device.id.clone(), Role::Strong), (format!(" {}", roofs::name(scene.precision)), Role::Dim)];
    if width >= WITH_ROOFS {
        let ridge = format!(" · ridge {} FLOP/B", short(scene.roofs.ridge()));
        let roofs = format!(" · {} · {:.0} GB/s", rate(scene.roofs.peak.0), scene.roofs.memory.0 / 1e9);
        pieces.extend([(roofs, Role::Text), (ridge, Role::Text)]);
    }
    let left_out = work.view_model.rooflines.left_out.as_ref().map(|_| " · not of all ranks".to_owned());
    let left_out = left_out.map(|text| (text, Role::Warn));
    if !state.is_moved() {
        pieces.extend(left_out);
        let above = scene.points.iter().filter(|point| is_above(point, &scene.now)).count();
        if above > 0 {
            pieces.push((format!(" · {above} faster than their roof"), Role::Bad));
        }
        let mut hint = |key: &str, what: String| {
            pieces.push((format!(" · {key}"), Role::Key));
            pieces.push((format!(" {what}"), Role::Dim));
        };
        hint("v", format!("points: {}", state.level_name()));
        hint("r", format!("roof: {}", state.roof.name()));
        hint("p", if state.is_planes { "roofs" } else { "planes" }.to_owned());
        return pieces;
    }
    pieces.truncate(1);
    pieces.extend(left_out);
    for (roof, factor) in Roof::ALL.iter().zip(state.factors).filter(|(_, factor)| Roof::is_moved(*factor)) {
        pieces.push((format!(" {} ×{}", roof.name(), state::rounded(factor)), Role::Accent));
    }
    let kernels = work.view_model.rooflines.at(Level::Kernel);
    let total = |time: &dyn Fn(&Point) -> f64| DurNs::from_secs_f64(kernels.iter().map(time).sum());
    let now = total(&|point| point.load.seconds);
    let then = total(&|point| point.seconds_under(&scene.now, &scene.moved));
    pieces.push((format!(" · kernels {now} → {then}"), Role::Strong));
    for (key, what) in [("enter", "adds the step"), ("0", "back")] {
        pieces.push((format!(" · {key}"), Role::Key));
        pieces.push((format!(" {what}"), Role::Dim));
    }
    pieces.push((" · each as near to its roof as now".to_owned(), Role::Dim));
    pieces
}

/// The chosen point of the roofline, and where its figures and the roofs come from.
fn why(work: &Workspace, lines: &mut Why) {
    let Some((name, details)) = details(work) else { return };
    lines.push(("", name, Role::Title));
    lines.extend(details.into_iter().map(|detail| (detail.label, detail.value, Role::Text)));
    let basis = "FLOP and bytes are counted from recorded shapes, each byte once; the time is that of the scenario";
    lines.basis(basis.to_owned(), Role::Text);
    if let Some(left_out) = &work.view_model.rooflines.left_out {
        lines.push(("ranks", left_out.clone(), Role::Warn));
    }
    lines.push(("roofs", "the device's theoretical peaks: nothing measured can lie above them".to_owned(), Role::Text));
}

/// The chosen point's name and what there is to say of it.
fn details(work: &Workspace) -> Option<(String, Vec<Detail>)> {
    let scene = Scene::of(work)?;
    let point = scene.points.get(scene.chosen)?;
    let detail = |label, value: String| Detail { label, value };
    let attained = |place: &Place<'_>| {
        if point.bound == Limit::Unknown {
            return "not known".to_owned();
        }
        let (under, least) = (point.under(place), point.least_seconds(place));
        let rate = if least > 0.0 { transfer(point, least) } else { "–".to_owned() };
        format!("{rate}, by {}", under.bound.name())
    };
    let mut details = vec![
        detail("time", format!("{}, {}", DurNs::from_secs_f64(point.load.seconds), percent(scene.of_iteration(point)))),
        detail("work", format!("{}, {}", flop(point), traffic(point))),
        detail(
            "intensity",
            match point.intensity {
                _ if point.bound == Limit::Unknown => "not known".to_owned(),
                Some(value) => format!("{} FLOP/B", short(value)),
                None => "no traffic".to_owned(),
            },
        ),
        detail("reached", reached(point)),
        detail("attainable", attained(&scene.now)),
    ];
    if let Some(origin) = scene.origin(scene.chosen) {
        let was = DurNs::from_secs_f64(origin.load.seconds);
        details.push(detail("before", format!("{was}, {} in {}", reached(origin), origin.precision)));
    }
    if is_above(point, &scene.now) {
        let cause = match point.bound {
            Limit::Network => "faster than the link is known to be, or its bytes are counted wrong",
            _ => "faster than memory allows: its data was in a cache, or its work is counted wrong",
        };
        details.push(detail("above", cause.to_owned()));
    }
    if let Some(value) = point.communication_intensity {
        details.push(detail("network", format!("{} FLOP/B", short(value))));
    }
    if work.roofline.is_moved() {
        let then = DurNs::from_secs_f64(point.seconds_under(&scene.now, &scene.moved));
        details.push(detail("moved", format!("{}, {then}", attained(&scene.moved))));
    }
    let family = format!("{} {}, {}", plot::letter(point.family, true), point.family.name(), point.precision);
    details.push(detail("kind", family));
    if kernel_name(&point.label) != point.label {
        details.push(detail("name", point.label.clone()));
    }
    Some((point.label.clone(), details))
}

/// Bytes of memory and network traffic; of a collective whose message was not recorded they are not known.
fn moved_bytes(point: &Point) -> String {
    let all = point.load.bytes + point.load.network_bytes;
    if point.bound == Limit::Unknown { "unknown".to_owned() } else { Bytes(all as u64).to_string() }
}

fn flop(point: &Point) -> String {
    if point.load.flop > 0.0 { Flop(point.load.flop).to_string() } else { "no FLOP".to_owned() }
}

/// Bytes of memory traffic and, where there are any, those that cross a network.
fn traffic(point: &Point) -> String {
    let bytes = |count: f64| Bytes(count as u64);
    match (point.load.bytes > 0.0, point.load.network_bytes > 0.0) {
        (false, true) => format!("{} over the network", bytes(point.load.network_bytes)),
        (true, true) => format!("{} + {} over the network", bytes(point.load.bytes), bytes(point.load.network_bytes)),
        (false, false) if point.bound == Limit::Unknown => "traffic unknown".to_owned(),
        _ => bytes(point.load.bytes).to_string(),
    }
}

fn reached(point: &Point) -> String {
    let is_known = point.load.seconds > 0.0 && point.bound != Limit::Unknown;
    if is_known { transfer(point, point.load.seconds) } else { "–".to_owned() }
}

/// The arithmetic of `point` in `seconds` as a rate; for work without any that of its traffic.
fn transfer(point: &Point, seconds: f64) -> String {
    if point.load.flop > 0.0 {
        return rate(point.load.flop / seconds);
    }
    format!("{} GB/s", short((point.load.bytes + point.load.network_bytes) / seconds / 1e9))
}

fn role_of(bound: Limit) -> Role {
    match bound {
        Limit::Compute => Role::Good,
        Limit::Memory => Role::Chart,
        Limit::Network | Limit::Accesses => Role::Warn,
        Limit::Unknown => Role::Dim,
    }
}

fn percent(share: f64) -> String {
    Percent(share).to_string()
}

/// `12.8 TFLOP/s`.
fn rate(flop_per_s: f64) -> String {
    const PREFIXES: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (unit, prefix) = PREFIXES.into_iter().find(|(unit, _)| flop_per_s >= *unit * 0.999_5).unwrap_or((1.0, ""));
    format!("{} {prefix}FLOP/s", short(flop_per_s / unit))
}

/// A mark of a logarithmic scale: `0.01`, `10`, `1k`, `100G`.
fn power_of_ten(exponent: i32) -> String {
    match exponent {
        0.. => format!(
            "{}{}",
            10_i32.pow(exponent as u32 % 3),
            ["", "k", "M", "G", "T", "P", "E"][(exponent as usize / 3).min(6)]
        ),
        -3..0 => format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent)),
        _ => format!("1e{exponent}"),
    }
}

/// Three significant digits.
fn short(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.1 => format!("{v:.2}"),
        v if v >= 0.001 => format!("{v:.4}"),
        v if v > 0.0 => format!("{v:.0e}"),
        _ => "0".to_owned(),
    }
}

/// Shows points of another kind, from the longest.
pub fn show_level(work: &mut Workspace, level: Level) {
    work.roofline.level = level;
    work.table = TableState::default();
}
