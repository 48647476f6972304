//! The timeline as a view: lanes measured and simulated, with tracks below them.

use crossterm::event::MouseEventKind;
use ratatui::layout::Rect;

use crate::tui::app::{App, MousePress};
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, run_line};
use crate::tui::effect::Effect;
use crate::tui::table::Table;
use crate::tui::theme::{Paint, Role};
use crate::tui::timeline::range::{self, InRange, SideSums};
use crate::tui::timeline::{
    self, DensityIndex, Detail, HeadPart, Item, Timeline as TimelineState, describe, short_name,
};
use crate::tui::workspace::Workspace;
use retime_core::units::{DurNs, Percent, TimeNs};

use super::pane;
use super::view::{View, show};
use super::why::{Why, of_item};

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
        let remark = if work.is_edited() {
            " − faster  + slower  × gone  * new · underlined: critical path "
        } else {
            " underlined: critical path "
        };
        Some(remark.to_owned())
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

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let (scene, timeline) = (work.scene(), &work.timeline);
        let is_folded = !timeline.is_unfolded(scene, timeline.lane);
        let (keys, enter) = match (timeline.is_marking(), timeline.selected) {
            (true, _) => (&PENDING[..], None),
            (_, Some(_)) if is_folded => (&CHOSEN[..], Some("unfold")),
            (_, Some(item)) => (&CHOSEN[..], scene.partner(item).map(|_| "launch or kernel")),
            (_, None) => (&KEYS[..], Some(if is_folded { "unfold" } else { "nearest" })),
        };
        let enter = enter.map(|what| ("enter", what.to_owned()));
        let fold = timeline.folds_into(scene, timeline.lane).map(|_| ("z", "fold".to_owned()));
        enter.into_iter().chain(fold).chain(keys.iter().map(|&(key, what)| (key, what.to_owned()))).collect()
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        work.timeline.selected.map(|item| work.scene().caption(item))
    }

    /// The colours' meaning, which has no room below the chosen event.
    fn beside_title(&self, work: &Workspace, canvas: &mut Canvas<'_>) {
        let (shown, is_all) = legend_in_a_line(work, canvas.width());
        for &(paint, x) in &shown {
            key_of_family(work, paint, (x, 0), canvas);
        }
        if !is_all {
            canvas.right(0, 0, 0, &[(" … ", Role::Dim)]);
        }
    }

    fn family_beside_title(&self, work: &Workspace, x: u16, width: u16) -> Option<Paint> {
        let (shown, _) = legend_in_a_line(work, width);
        shown.into_iter().find(|&(paint, from)| (from..from + paint.key().len() as u16 + 2).contains(&x)).map(|it| it.0)
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        match work.timeline.selected {
            Some(item) => pane::labelled(&named(work, item), canvas),
            None => match cause_of_idle(work) {
                Some(cause) => _ = canvas.text(1, 0, &cause, Role::Text),
                None => guide(work, canvas),
            },
        }
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        match work.timeline.selected {
            Some(item) => of_item(work, item, lines),
            None => of_lane(work, lines),
        }
    }

    fn vertical(&self, app: &mut App, by: isize) -> Vec<Effect> {
        app.with_timeline(|scene, extent, timeline| timeline.vertical(scene, extent, by));
        Vec::new()
    }

    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        app.with_timeline(|scene, extent, timeline| timeline.step(scene, extent, by > 0, by.unsigned_abs()));
        Ok(Vec::new())
    }

    fn press(&self, app: &mut App, area: Rect, (x, y): (u16, u16), is_double: bool) -> CommandResult {
        let (x, y) = (x - area.x, y - area.y);
        let mut unfolds = false;
        app.with_timeline(|scene, extent, timeline| match TimelineState::part_at(extent, x, y) {
            HeadPart::Ruler => timeline.cursor = timeline.time_under(extent, x),
            HeadPart::Minimap => timeline.go_on_minimap(extent, x),
            HeadPart::None => {
                timeline.click(scene, extent, x, y);
                unfolds = timeline.selected.is_none() && x < extent.labels();
            }
        });
        match (is_double, unfolds) {
            (true, true) => run_line(app, "follow"),
            (true, false) => run_line(app, "fit"),
            _ => Ok(Vec::new()),
        }
    }

    /// Pans; from the ruler on it marks a range, on the minimap it goes along.
    fn drag(&self, app: &mut App, area: Rect, press: MousePress, (x, y): (u16, u16)) {
        if !press.on_view {
            return;
        }
        let (from, to) = (press.x.saturating_sub(area.x), x.saturating_sub(area.x));
        let part = app.with_timeline(|_, extent, timeline| {
            let part = TimelineState::part_at(extent, from, press.y.saturating_sub(area.y));
            match part {
                HeadPart::Ruler => {
                    timeline.set_range(timeline.time_under(extent, from), timeline.time_under(extent, to));
                }
                HeadPart::Minimap => timeline.go_on_minimap(extent, to),
                HeadPart::None => timeline.drag(extent, i32::from(x) - i32::from(press.x)),
            }
            part
        });
        let next = if part == Some(HeadPart::None) { MousePress { x, y, ..press } } else { press };
        app.press = Some(MousePress { is_drag: true, ..next });
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

/// Why the stream of the cursor does nothing there, where that is known.
fn cause_of_idle(work: &Workspace) -> Option<String> {
    let timeline = Some(&work.timeline).filter(|timeline| timeline.is_at_idle)?;
    let at = TimeNs(timeline.cursor as i64) - work.simulated.shift;
    let model = &work.listing.view_model;
    let is_here = |gap: &&retime_core::analysis::gaps::Gap| {
        gap.lane.0 as usize == timeline.lane && gap.start <= at && at < gap.start + gap.duration
    };
    let gap = model.idle.gaps.iter().find(is_here)?;
    let cause = gap.cause.describe_with(model.graph(&work.loaded), short_name);
    Some(format!("idle for {}: {cause}", gap.duration))
}

/// What keys do, while nothing is chosen.
const KEYS: [(&str, &str); 6] =
    [("←↑↓→", "choose an event"), ("w s", "zoom"), ("a d", "pan"), ("[ ]", "family"), ("space", "mark"), ("/", "find")];

/// What keys do to the chosen event.
const CHOSEN: [(&str, &str); 7] = [
    ("E", "what it is"),
    ("f", "fit"),
    ("< >", "alike"),
    ("H", "hide family"),
    ("space", "mark"),
    ("v", "other side"),
    ("/", "find"),
];

/// What can follow a mark.
const PENDING: [(&str, &str); 4] =
    [("←→", "go on"), ("space", "mark the other end, or take the mark away"), ("'", "name it"), ("/", "find")];

/// What is between the last two marks.
#[derive(Debug)]
struct Range {
    /// The marks, and the result that it was summed of.
    of: (TimeNs, TimeNs, u64),
    /// By family and kernel, measured and simulated; `None` where there is too much.
    sums: Option<[SideSums; 2]>,
}

/// Sums up what is between the marks of the trace that is shown, unless that is known.
pub fn sum_range(app: &mut App) {
    let Some(work) = app.workspace_mut() else { return };
    let Some((from, to)) = work.timeline.marked_pair() else { return };
    let of = (from, to, work.outcome.revision);
    if work.states.get::<Range>().is_none_or(|known| known.of != of) {
        let sums = range::sums(work.scene(), &(from..to));
        work.states.set(Range { of, sums });
    }
}

/// What is between the last two marks: how long and how busy, families, kernels; a line each.
fn range_lines(work: &Workspace) -> Vec<String> {
    let (scene, timeline) = (work.scene(), &work.timeline);
    let Some((from, to)) = timeline.marked_pair().filter(|_| !timeline.is_marking()) else { return Vec::new() };
    let length = to.since(from);
    let busy = |density: &DensityIndex| {
        let mut streams = (0..scene.graph.lanes.len()).filter(|&lane| scene.is_main_stream(lane));
        let row = streams.find_map(|lane| density.lanes.get(lane)?.rows.first());
        row.map(|row| Percent::of(row.busy(from..to), length))
    };
    let busy = match (busy(scene.measured), busy(scene.simulated)) {
        (Some(before), Some(after)) if work.is_edited() => format!(": stream busy {before:.0} ▶ {after:.0}"),
        (Some(before), _) => format!(": stream busy {before:.0}"),
        _ => String::new(),
    };
    let mut lines = vec![format!("range of {length}{busy}")];
    match work.states.get::<Range>().map(|range| &range.sums) {
        Some(Some(sums)) => lines.extend(summed(work, sums)),
        Some(None) => lines.push("too many kernels in it to be summed by family".to_owned()),
        None => {}
    }
    lines
}

/// Families, and the kernels that take most.
fn summed(work: &Workspace, [measured, simulated]: &[SideSums; 2]) -> Vec<String> {
    const FAMILIES: usize = 6;
    const KERNELS: usize = 4;
    if measured.families.is_empty() && simulated.families.is_empty() {
        return Vec::new();
    }
    let total = measured.total();
    let families = families_of([measured, simulated], work.is_edited());
    let family = |&(paint, [before, after]): &(Paint, [DurNs; 2])| {
        if work.is_edited() {
            format!("{} {before} ▶ {after}", paint.key())
        } else {
            format!("{} {before} {:.0}", paint.key(), Percent::of(before, total))
        }
    };
    let kernel = |sum: &InRange| {
        let times = if sum.count > 1 { format!(" ×{}", sum.count) } else { String::new() };
        format!("{}{times} {}", work.scene().caption(sum.item), sum.time)
    };
    let more = families.len().saturating_sub(FAMILIES);
    let mut families: Vec<String> = families.iter().take(FAMILIES).map(family).collect();
    families.extend((more > 0).then(|| format!("{more} more")));
    let is_simulated = measured.kernels.is_empty() || work.is_edited() && !simulated.kernels.is_empty();
    let (side, from) = if is_simulated { ("simulated", simulated) } else { ("measured", measured) };
    let kernels: Vec<String> = from.kernels.iter().take(KERNELS).map(kernel).collect();
    [families.join(" · "), format!("{side}: {}", kernels.join(" · "))]
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect()
}

/// The families of both sides with what each takes of either, those that take most of the iteration as it is now first.
fn families_of([measured, simulated]: [&SideSums; 2], is_edited: bool) -> Vec<(Paint, [DurNs; 2])> {
    let added = simulated.families.iter().filter(|(paint, _)| measured.of(*paint) == DurNs::ZERO);
    let paints = measured.families.iter().chain(added.filter(|_| is_edited)).map(|&(paint, _)| paint);
    let mut families: Vec<_> = paints.map(|paint| (paint, [measured.of(paint), simulated.of(paint)])).collect();
    let now = |[before, after]: [DurNs; 2]| if is_edited { (after, before) } else { (before, after) };
    families.sort_by_key(|&(paint, times)| (std::cmp::Reverse(now(times)), paint));
    families
}

/// What is between the marks, and what the colours mean.
fn guide(work: &Workspace, canvas: &mut Canvas<'_>) {
    let lines = range_lines(work);
    for (y, line) in lines.iter().enumerate() {
        let end = canvas.text(1, y as u16, line, Role::Text);
        if y == 0 {
            canvas.line(end, 0, &[("   z", Role::Key), (" zooms to it", Role::Dim)]);
        }
    }
    let below = lines.len() as u16;
    for (paint, x, y) in legend(work, canvas.width()) {
        key_of_family(work, paint, (x, below + y), canvas);
    }
}

/// What the colour of a family stands for.
fn key_of_family(work: &Workspace, paint: Paint, (x, y): (u16, u16), canvas: &mut Canvas<'_>) {
    let ink = canvas.theme().ink(paint);
    let is_hidden = work.timeline.hidden_families.contains(&paint);
    let (sign, role) = if is_hidden { ("□ ", Role::Faint) } else { ("■ ", Role::Dim) };
    let end = canvas.put(x, y, sign, ink);
    canvas.text(end, y, &format!("{} ", paint.key()), role);
}

/// As many families on the screen as are named in one line, with where, and whether that is all.
fn legend_in_a_line(work: &Workspace, width: u16) -> (Vec<(Paint, u16)>, bool) {
    const MORE: u16 = 3;
    let all = families(work);
    let length = |paint: Paint| paint.key().len() as u16 + 3;
    let whole: u16 = all.iter().map(|&paint| length(paint)).sum();
    let room = if whole <= width { width } else { width.saturating_sub(MORE) };
    let mut x = 0;
    let place = |paint: Paint| {
        let at = x;
        x += length(paint);
        (x <= room).then_some((paint, at))
    };
    let shown: Vec<(Paint, u16)> = all.iter().copied().map_while(place).collect();
    let is_all = shown.len() == all.len();
    (shown, is_all)
}

/// The families on the screen.
fn families(work: &Workspace) -> Vec<Paint> {
    let scene = work.scene();
    let mut paints: Vec<Paint> = scene.simulated.kernels.iter().map(|sum| scene.paint(sum.item)).collect();
    let shows_threads = (0..scene.graph.lanes.len())
        .any(|lane| !scene.is_stream(lane) && scene.is_busy(lane) && work.timeline.is_unfolded(scene, lane));
    if shows_threads {
        paints.extend([Paint::Forward, Paint::Backward, Paint::Optimizer, Paint::Host, Paint::Call]);
    } else {
        paints.push(Paint::Host);
    }
    paints.sort_unstable();
    paints.dedup();
    paints
}

/// The families on the screen, with where each is named below the keys.
fn legend(work: &Workspace, width: u16) -> Vec<(Paint, u16, u16)> {
    let (mut x, mut y) = (1_u16, 0_u16);
    let place = |paint: Paint| {
        let length = paint.key().len() as u16 + 4;
        if x > 1 && x + length > width {
            (x, y) = (1, y + 1);
        }
        let at = (paint, x, y);
        x += length;
        at
    };
    families(work).into_iter().map(place).collect()
}

/// The family that is named at a cell of the details, where those are the guide.
pub fn legend_at(work: &Workspace, area: Rect, (x, y): (u16, u16)) -> Option<Paint> {
    if !area.contains((x, y).into()) {
        return None;
    }
    let is_guide = work.timeline.selected.is_none() && cause_of_idle(work).is_none();
    let below = range_lines(work).len() as u16;
    let (x, y) = (x - area.x, (y - area.y).checked_sub(below).filter(|_| is_guide)?);
    let named = legend(work, area.width);
    let at = named
        .into_iter()
        .find(|&(paint, from, row)| row == y && (from..from + paint.key().len() as u16 + 2).contains(&x));
    at.map(|(paint, ..)| paint)
}

/// A lane as a whole: how busy it is, measured and simulated, and how much of the critical path it holds.
fn of_lane(work: &Workspace, lines: &mut Why) {
    let (scene, lane) = (work.scene(), work.timeline.lane);
    if scene.lane(lane).is_none() {
        return;
    }
    lines.push(("", format!("lane {}", scene.lane_label(lane)), Role::Title));
    for (label, density) in [(work.origin(), scene.measured), ("simulated", scene.simulated)] {
        let range = density.period.clone();
        let length = range.end.since(range.start);
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
    let model = &work.listing.view_model;
    let gaps = model.idle.gaps.iter().filter(|gap| gap.lane.0 as usize == lane);
    if let Some(longest) = gaps.max_by_key(|gap| gap.duration) {
        let cause = longest.cause.describe_with(model.graph(&work.loaded), short_name);
        lines.push(("longest gap", format!("{}: {cause}", longest.duration), Role::Text));
    }
}

/// What there is to say about an event, its own name last where the title has a shorter one.
fn named(work: &Workspace, item: Item) -> Vec<Detail> {
    let (name, mut details) = describe(work.scene(), item, work.prediction(item));
    if name != work.scene().caption(item) {
        details.push(Detail { label: "name", value: name });
    }
    details
}
