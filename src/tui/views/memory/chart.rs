//! The chart: bytes over the iteration, stacked by what they hold, with the total before the edits and the device's memory.

use crate::session::MemoryOverTime;
use crate::tui::canvas::Canvas;
use crate::tui::theme::{Paint, Role};
use crate::tui::timeline::{Span, round_amounts, ticks};
use crate::tui::workspace::Workspace;
use retime_core::memory::{Holds, Peak};
use retime_core::units::{Bytes, DurNs, TimeNs};

/// Columns left of the chart for its scale.
const SCALE: u16 = 10;
/// Rows below it: the axis and its times.
const BELOW: u16 = 2;
/// Room that is left above the highest point.
const HEADROOM: f64 = 1.08;
/// A limit this far above the peak would press the chart to the ground.
const FAR: f64 = 4.0;

/// Where bytes and times go.
struct Axes {
    width: u16,
    height: u16,
    /// The end of the time axis, which begins where the host begins the iteration.
    end: i64,
    /// Bytes at the upper edge.
    most: f64,
}

/// Draws the chart into `canvas`: its legend, the stacks, the lines and the scales.
pub(super) fn render(work: &Workspace, canvas: &mut Canvas<'_>) {
    let memory = &work.view_model.memory;
    let Some(after) = &memory.after else { return };
    let before = memory.before.as_ref().filter(|_| work.is_edited());
    let limit = work.outcome.summary.memory.as_ref().and_then(|it| it.device_bytes).map(|limit| limit.0 as f64);
    legend(after, before.is_some(), canvas);
    let (was, now) = work.iteration_figures();
    let peak = before.map_or(0, |it| it.peak.bytes.0).max(after.peak.bytes.0).max(1) as f64;
    let shown = limit.filter(|limit| *limit <= FAR * peak).map_or(peak, |limit| limit.clamp(peak, f64::MAX));
    let sides: Vec<&MemoryOverTime> = before.into_iter().chain([after]).collect();
    let (end, later) = extent(&sides, was.max(now).0);
    let axes = Axes {
        width: canvas.width().saturating_sub(SCALE + 1),
        height: canvas.height().saturating_sub(BELOW + 1),
        end,
        most: shown * HEADROOM,
    };
    scales(&axes, canvas);
    let mut inner = canvas.part(SCALE, 1, axes.width, axes.height);
    stacks(&columns(&after.held, &axes), &axes, &mut inner);
    if let Some(before) = before {
        line(&columns(&before.held, &axes), &axes, &mut inner);
    }
    marks(after, limit, &axes, &mut inner);
    if let Some(until) = later {
        let text = format!(" less than a tenth of the peak comes and goes until {} ▸", DurNs(until));
        inner.right(0, axes.height.saturating_sub(1), 0, &[(text, Role::Dim)]);
    }
}

/// When no more than `share` of the peak comes or goes from then to the end; `None` where it never does.
fn settles(side: &MemoryOverTime, share: u64) -> Option<i64> {
    let (least, end) = (side.peak.bytes.0 / share, side.held.last().map_or(0, |held| held.bytes.0));
    let last = side.held.iter().rposition(|held| held.bytes.0.abs_diff(end) > least)?;
    side.held.get(last + 1).map(|held| held.at.0)
}

/// Where the axis ends, and until when a little comes and goes that is then not drawn.
///
/// The host may be done long before the device: a tenth of the peak more or less at the end is not worth most of the width.
fn extent(sides: &[&MemoryOverTime], whole: i64) -> (i64, Option<i64>) {
    let latest = |share: u64| sides.iter().filter_map(|side| settles(side, share)).max();
    let with_room = |at: i64| at.saturating_mul(11) / 10;
    let (all, most) = (latest(100), latest(10));
    match (all, most) {
        (Some(all), Some(most)) if with_room(most) < all / 2 => (with_room(most), Some(all)),
        (Some(all), _) => (with_room(all), None),
        (None, _) => (whole.max(1), None),
    }
}

impl Axes {
    fn column(&self, at: i64) -> u16 {
        let share = (at as f64 / self.end as f64).clamp(0.0, 1.0);
        (share * f64::from(self.width.saturating_sub(1))).round() as u16
    }

    /// The row of so many bytes, in parts of a cell from the upper edge.
    fn row(&self, bytes: f64) -> f64 {
        (1.0 - bytes / self.most) * f64::from(self.height)
    }
}

/// The sign and colour of a kind.
fn ink(holds: Holds) -> (&'static str, Paint) {
    match holds {
        Holds::Parameters => ("▓", Paint::Gemm),
        Holds::Gradients => ("▒", Paint::Movement),
        Holds::Optimizer => ("▞", Paint::Optimizer),
        Holds::Activations => ("█", Paint::Conv),
        Holds::Other => ("▚", Paint::Other),
    }
}

/// The fullest moment of each column: what was held when it begins, or came in it.
fn columns(held: &[Peak], axes: &Axes) -> Vec<Peak> {
    let at = |column: u16| TimeNs((i128::from(axes.end) * i128::from(column) / i128::from(axes.width.max(1))) as i64);
    let fullest = |column: u16| {
        let from = held.partition_point(|it| it.at <= at(column)).saturating_sub(1);
        let to = held.partition_point(|it| it.at < at(column + 1)).max(from + 1).min(held.len());
        held[from.min(to)..to].iter().copied().max_by_key(|it| it.bytes).unwrap_or_default()
    };
    (0..axes.width).map(fullest).collect()
}

/// How full the last cell of a column is.
const EIGHTHS: [&str; 8] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇"];

/// Each column from the ground up, one kind on the other; the last cell is as full as the bytes tell, and never empty.
fn stacks(columns: &[Peak], axes: &Axes, inner: &mut Canvas<'_>) {
    for (x, held) in (0..).zip(columns) {
        let top = axes.row(held.bytes.0 as f64);
        for y in 0..axes.height {
            let middle = (f64::from(axes.height) - f64::from(y) - 0.5) / f64::from(axes.height) * axes.most;
            let full = f64::from(y) + 1.0 - top;
            let is_least = y + 1 == axes.height && held.bytes.0 > 0;
            if full <= 0.0 && !is_least {
                continue;
            }
            let mut below = 0.0;
            let kind = Holds::ALL.into_iter().zip(&held.of).find(|(_, bytes)| {
                below += bytes.0 as f64;
                middle <= below
            });
            let (sign, paint) = ink(kind.map_or(Holds::Other, |(kind, _)| kind));
            let style = inner.theme().ink(paint);
            let part = EIGHTHS.get(((full * 8.0) as usize).max(usize::from(is_least))).copied();
            if part != Some(" ") {
                inner.cell(x, y, part.unwrap_or(sign), style);
            }
        }
    }
}

/// What was held before the edits, as a line.
fn line(columns: &[Peak], axes: &Axes, inner: &mut Canvas<'_>) {
    let row = |held: &Peak| (axes.row(held.bytes.0 as f64).max(0.0) as u16).min(axes.height.saturating_sub(1));
    let mut last = columns.first().map_or(0, row);
    for (x, held) in (0..).zip(columns) {
        let y = row(held);
        for between in y.min(last) + 1..y.max(last) {
            inner.overlay(x, between, "│", Role::Measured);
        }
        inner.overlay(x, y, "─", Role::Measured);
        last = y;
    }
}

/// The device's memory, and the peak.
fn marks(after: &MemoryOverTime, limit: Option<f64>, axes: &Axes, inner: &mut Canvas<'_>) {
    if let Some(limit) = limit.filter(|limit| *limit <= axes.most) {
        let y = axes.row(limit).max(0.0) as u16;
        for x in 0..axes.width {
            inner.overlay(x, y, "┈", Role::Bad);
        }
        inner.right(0, y, 1, &[(format!(" device has {} ", Bytes(limit as u64)), Role::Bad)]);
    }
    let (x, y) = (axes.column(after.peak.at.0), axes.row(after.peak.bytes.0 as f64));
    if y >= 1.0 {
        inner.text(x, y as u16 - 1, "▼", Role::Accent);
    }
}

fn legend(after: &MemoryOverTime, has_before: bool, canvas: &mut Canvas<'_>) {
    /// From here on the names stand apart.
    const ROOMY: u16 = 90;
    let between = if canvas.width() < ROOMY { " " } else { "  " };
    let mut x = 1;
    for (holds, _) in Holds::ALL.into_iter().zip(&after.peak.of).filter(|(_, bytes)| bytes.0 > 0) {
        let (sign, paint) = ink(holds);
        let ink = canvas.theme().ink(paint);
        x = canvas.put(x, 0, sign, ink);
        x = canvas.text(x, 0, &format!(" {}{between}", holds.name()), Role::Dim);
    }
    if has_before {
        x = canvas.text(x, 0, "─", Role::Measured);
        x = canvas.text(x, 0, &format!(" before{between}"), Role::Dim);
    }
    canvas.text(x, 0, "▼", Role::Accent);
    canvas.text(x + 1, 0, " peak", Role::Dim);
}

fn scales(axes: &Axes, canvas: &mut Canvas<'_>) {
    let bottom = 1 + axes.height;
    let count = (axes.height / 3).clamp(1, 6);
    for y in 1..bottom {
        canvas.text(SCALE - 1, y, "│", Role::Border);
    }
    for bytes in round_amounts(axes.most, count, true) {
        let y = 1 + (axes.row(bytes) as u16).min(axes.height.saturating_sub(1));
        canvas.part(0, y, SCALE - 1, 1).right(0, 0, 0, &[(Bytes(bytes as u64).to_string(), Role::Dim)]);
        canvas.text(SCALE - 1, y, "┤", Role::Border);
    }
    for x in 0..axes.width {
        canvas.text(SCALE + x, bottom, "─", Role::Border);
    }
    for (column, text) in ticks(Span { from: 0.0, to: axes.end as f64 }, axes.width, 0.0) {
        let x = (SCALE + column).min((SCALE + axes.width).saturating_sub(text.chars().count() as u16));
        canvas.text(SCALE + column, bottom, "┬", Role::Border);
        canvas.text(x, bottom + 1, &text, Role::Dim);
    }
}
