//! The ribbon: what the critical path of one iteration is made of, measured and simulated on one scale.

use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::{Canvas, cut};
use crate::tui::composition::{Composition, Part};
use crate::tui::theme::{Paint, Role};
use crate::tui::workspace::Workspace;
use retime_core::units::{DurNs, Percent};

/// Columns of the names of the two rows.
const LABELS: u16 = 11;
/// Columns of the figures at the right.
const FIGURES: u16 = 10;
/// Below this width names and figures, which the header has, go.
const NARROW: u16 = 60;

/// Rows that the ribbon takes: the second only once something is edited.
pub fn height(work: &Workspace) -> u16 {
    1 + u16::from(work.is_edited())
}

/// A row of the ribbon: its segments with the columns that they take.
struct Bar {
    y: u16,
    label: &'static str,
    role: Role,
    whole: DurNs,
    segments: Vec<(Part, u16, u16)>,
}

/// Draws the ribbon.
pub fn render(work: &Workspace, canvas: &mut Canvas<'_>) {
    let bars = bars(work, canvas.width());
    for bar in &bars {
        draw(work, bar, canvas);
    }
    if let [before, after] = bars.as_slice() {
        bracket(before, after, canvas);
        if work.is_stale() {
            canvas.dim(0, 1, canvas.width());
        }
    }
}

/// The part at a cell of the ribbon.
pub fn part_at(work: &Workspace, width: u16, (x, y): (u16, u16)) -> Option<Paint> {
    let bars = bars(work, width);
    let bar = bars.iter().find(|bar| bar.y == y)?;
    bar.segments.iter().find(|&&(_, from, to)| (from..to).contains(&x)).map(|(part, ..)| part.paint)
}

/// The paints of the parts, in the order in which they are chosen one after the other.
pub fn paints(work: &Workspace) -> Vec<Paint> {
    let mut all: Vec<Paint> = work.measured.composition.parts.iter().map(|part| part.paint).collect();
    for part in &work.simulated.composition.parts {
        if !all.contains(&part.paint) {
            all.push(part.paint);
        }
    }
    all
}

fn bars(work: &Workspace, width: u16) -> Vec<Bar> {
    let order = paints(work);
    let (before, after) = work.iteration_figures();
    let (left, right) = if width < NARROW { (0, 0) } else { (LABELS, FIGURES) };
    let room = width.saturating_sub(left + right);
    let most = if work.is_edited() { before.max(after) } else { before };
    let segments = |composition: &Composition, whole: DurNs| {
        let mut parts = composition.filling(whole).parts;
        parts.sort_by_key(|part| order.iter().position(|&paint| paint == part.paint));
        let mut reached = 0;
        let column = |time: i64| left + (time as f64 / most.0.max(1) as f64 * f64::from(room)).round() as u16;
        let placed = parts.into_iter().map(|part| {
            let from = column(reached);
            reached += part.drawn.0;
            (part, from, column(reached))
        });
        placed.collect()
    };
    let label = work.origin();
    let own = segments(&work.measured.composition, before);
    let mut all = vec![Bar { y: 0, label, role: Role::Measured, whole: before, segments: own }];
    if work.is_edited() {
        let segments = segments(&work.simulated.composition, after);
        all.push(Bar { y: 1, label: "simulated", role: Role::Simulated, whole: after, segments });
    }
    all
}

fn draw(work: &Workspace, bar: &Bar, canvas: &mut Canvas<'_>) {
    if canvas.width() >= NARROW {
        canvas.text(1, bar.y, bar.label, bar.role);
        canvas.right(0, bar.y, 1, &[(bar.whole.to_string(), bar.role)]);
    }
    for (number, &(part, from, to)) in bar.segments.iter().enumerate() {
        let width = to.saturating_sub(from);
        let is_chosen = work.timeline.family == Some(part.paint);
        let body = if is_chosen { canvas.theme().style(Role::BarSelected) } else { canvas.theme().bar(part.paint) };
        for x in from..to {
            canvas.cell(x, bar.y, " ", body);
        }
        // A seam tells neighbours apart, and a name in it whose each is.
        if number > 0 && width > 1 {
            canvas.cell(from, bar.y, "▏", canvas.theme().gap(body));
        }
        let text = caption(part, bar.whole, width.saturating_sub(1) as usize);
        canvas.put(from + 1, bar.y, &text, body);
        if is_chosen {
            canvas.restyle(from, bar.y, width, Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD));
        }
    }
}

/// The name of a part with its time, as far as there is room: `conv 146`, `conv`, `elem…`; nothing where fewer letters are left.
fn caption(part: Part, whole: DurNs, room: usize) -> String {
    const LEAST_LETTERS: usize = 3;
    let time = part.time.to_string();
    // All parts are in the unit of the whole where they can be.
    let unit = |text: &str| text.rsplit(' ').next().unwrap_or("").to_owned();
    let is_plain = unit(&time) == unit(&whole.to_string());
    let figure = time.split(' ').next().filter(|_| is_plain).unwrap_or(&time).to_owned();
    let share = format!("{:.0}", Percent::of(part.time, whole));
    let captions = [format!("{} {time} {share}", part.name), format!("{} {figure}", part.name), part.name.to_owned()];
    let fits = captions.into_iter().find(|caption| caption.width() <= room);
    let is_told = room > LEAST_LETTERS;
    fits.or_else(|| is_told.then(|| cut(part.name, room).into_owned())).unwrap_or_default()
}

/// What the edits gain or cost, between the ends of the two bars.
fn bracket(before: &Bar, after: &Bar, canvas: &mut Canvas<'_>) {
    let end = |bar: &Bar| bar.segments.last().map_or(0, |&(.., to)| to);
    let change = after.whole - before.whole;
    let (shorter, role) = if change.0 < 0 { (after, Role::Good) } else { (before, Role::Bad) };
    let (from, to) = (end(shorter), end(before).max(end(after)));
    let room = to.saturating_sub(from) as usize;
    let text = crate::tui::timeline::signed(change);
    let inside = format!(" {text} ");
    if room >= inside.width() + 4 {
        let lines = room - inside.width() - 2;
        let line = format!("◀{}{inside}{}▶", "─".repeat(lines / 2), "─".repeat(lines - lines / 2));
        canvas.text(from, shorter.y, &line, role);
    } else if room > inside.width() {
        canvas.text(from, shorter.y, &inside, role);
    } else if room >= text.width() {
        canvas.text(from, shorter.y, &text, role);
    } else if room > 0 {
        // The header has the figure.
        let line = if room == 1 { "◆".to_owned() } else { format!("◀{}▶", "─".repeat(room - 2)) };
        canvas.text(from, shorter.y, &line, role);
    }
}
