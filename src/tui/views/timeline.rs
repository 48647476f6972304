//! The timeline as a view: lanes measured and simulated, with tracks below them.

use crossterm::event::MouseEventKind;
use ratatui::layout::Rect;

use crate::tui::app::{App, MousePress};
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, run_line};
use crate::tui::table::Table;
use crate::tui::theme::{Paint, Role};
use crate::tui::timeline::{self, describe, short_name};
use crate::tui::workspace::Workspace;
use retime_core::units::DurNs;

use super::pane;
use super::view::{View, show};
use super::why::{Line, of_item};

/// How much a turn of the wheel zooms.
const WHEEL: f64 = 0.8;

/// What opens it.
const OPENER: Command = Command {
    name: "timeline",
    aliases: &[],
    argument: Argument::None,
    help: "what ran when, measured and simulated",
    keys: &[(Pane::Everywhere, "1")],
    run: |app, _| Ok(show(app, &Timeline)),
};

/// The view.
#[derive(Debug)]
pub struct Timeline;

impl View for Timeline {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn brief(&self) -> &'static str {
        "time"
    }

    fn pane(&self) -> Pane {
        Pane::Timeline
    }

    fn remark(&self, work: &Workspace) -> Option<String> {
        let above = if work.loaded.predicted().is_some() { "predicted" } else { "measured" };
        Some(format!(" {above} above, simulated below · underlined: critical path "))
    }

    fn rows<'a>(&self, _work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        None
    }

    fn render(&self, app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let (lanes, tracks) = app.timeline_area();
        timeline::render(work.scene(), &work.timeline, &mut canvas.part(0, 0, lanes.width, lanes.height));
        let mut below = canvas.part(0, lanes.height, lanes.width, tracks);
        timeline::tracks::render(&work.tracks(), &work.timeline, &mut below);
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        work.timeline.selected.map(|item| describe(work.scene(), item, None).0)
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        match work.timeline.selected {
            Some(item) => pane::labelled(&describe(work.scene(), item, work.prediction(item)).1, canvas),
            None => guide(work, canvas),
        }
    }

    fn why(&self, work: &Workspace, lines: &mut Vec<Line>) {
        match work.timeline.selected {
            Some(item) => of_item(work, item, lines),
            None => of_lane(work, lines),
        }
    }

    fn vertical(&self, app: &mut App, by: isize) {
        app.with_timeline(|scene, extent, timeline| timeline.vertical(scene, extent, by));
    }

    fn sideways(&self, app: &mut App, by: isize) {
        app.with_timeline(|scene, extent, timeline| timeline.step(scene, extent, by > 0, by.unsigned_abs()));
    }

    fn press(&self, app: &mut App, area: Rect, (x, y): (u16, u16), is_double: bool) -> CommandResult {
        app.with_timeline(|scene, extent, timeline| timeline.click(scene, extent, x - area.x, y - area.y));
        if is_double { run_line(app, "fit") } else { Ok(Vec::new()) }
    }

    fn drag(&self, app: &mut App, _area: Rect, press: MousePress, (x, y): (u16, u16)) {
        if press.on_view {
            let columns = i32::from(x) - i32::from(press.x);
            app.with_timeline(|_, extent, timeline| timeline.drag(extent, columns));
            app.press = Some(MousePress { x, y, is_drag: true, ..press });
        }
    }

    /// Zooms at the pointer; over the names of lanes, or with a modifier, it scrolls.
    fn wheel(&self, app: &mut App, kind: MouseEventKind, x: u16, with_modifier: bool) -> CommandResult {
        let is_up = kind == MouseEventKind::ScrollUp;
        app.with_timeline(|scene, extent, timeline| {
            if with_modifier || x < extent.labels() {
                timeline.scroll_by(scene, extent, if is_up { -3 } else { 3 });
            } else {
                timeline.zoom_at(extent, x, if is_up { WHEEL } else { 1.0 / WHEEL });
            }
        });
        Ok(Vec::new())
    }
}

/// What to press, and what the colours mean.
fn guide(work: &Workspace, canvas: &mut Canvas<'_>) {
    let keys: [(&str, &str); 7] = [
        ("←↑↓→", "choose an event"),
        ("w s", "zoom"),
        ("a d", "pan"),
        ("f", "fit"),
        ("0", "all"),
        ("/", "find"),
        ("W", "why"),
    ];
    let below = pane::hints(&keys, 0, canvas);
    let paints: &[Paint] = if work.has_device() {
        &[
            Paint::Gemm,
            Paint::Conv,
            Paint::Attention,
            Paint::Embedding,
            Paint::Norm,
            Paint::Elementwise,
            Paint::Reduction,
            Paint::Movement,
            Paint::Optimizer,
            Paint::Transfer,
            Paint::Collective,
        ]
    } else {
        &[]
    };
    let host = [Paint::Forward, Paint::Backward, Paint::Optimizer, Paint::Host, Paint::Call];
    let (mut x, mut y) = (1_u16, below);
    for &paint in paints.iter().chain(host.iter().filter(|paint| !paints.contains(paint))) {
        let name = paint.key();
        if x + name.len() as u16 + 4 > canvas.width() {
            (x, y) = (1, y + 1);
        }
        let ink = canvas.theme().ink(paint);
        x = canvas.put(x, y, "■ ", ink);
        x = canvas.text(x, y, name, Role::Dim) + 2;
    }
}

/// A lane as a whole: how busy it is, measured and simulated, and how much of the critical path it holds.
fn of_lane(work: &Workspace, lines: &mut Vec<Line>) {
    let (scene, lane) = (work.scene(), work.timeline.lane);
    let Some(rank) = scene.lane(lane).map(|lane| lane.rank) else { return };
    let Some(part) = work.loaded.graph.ranks.iter().find(|part| part.rank == rank) else { return };
    lines.push(("", format!("lane {}", scene.lane_label(lane)), Role::Title));
    let simulated = work.outcome.summary.simulated_ns;
    let spans = [
        ("measured", scene.measured, part.iteration_end.since(part.iteration_start)),
        ("simulated", scene.simulated, simulated),
    ];
    for (label, density, length) in spans {
        let range = part.iteration_start..part.iteration_start + length;
        let Some(density) = density.lanes.get(lane) else { continue };
        let busy = density.rows.first().map_or(DurNs::ZERO, |row| row.busy(range.clone()));
        let share = |part: DurNs| part.0 as f64 * 100.0 / length.0.max(1) as f64;
        let critical = density.critical.busy(range);
        let text = format!(
            "busy {busy} of {length} ({:.1} %), idle {}; on the critical path {critical} ({:.1} %)",
            share(busy),
            length - busy,
            share(critical)
        );
        lines.push((label, text, Role::Text));
    }
    let gaps = work.listing.view_model.gaps.iter().filter(|gap| gap.lane.0 as usize == lane);
    if let Some(longest) = gaps.max_by_key(|gap| gap.duration) {
        let cause = longest.cause.describe_with(&work.loaded.graph, short_name);
        lines.push(("longest gap", format!("{}: {cause}", longest.duration), Role::Text));
    }
}
