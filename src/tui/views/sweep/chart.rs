//! The sweep as a chart: throughput as a line with its band, memory as another, and what bounds the iteration below.

use unicode_width::UnicodeWidthStr;

use crate::session::{Sweep as Knob, SweepPoint, optimal_batch, still_gains};
use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;
use crate::tui::timeline::round_amounts;
use crate::tui::workspace::Workspace;
use retime_core::units::Bytes;

use super::{in_force, throughput};

/// Columns left and right of the chart for its scales.
const SCALE: u16 = 10;
/// Rows below the chart: its values, what bounds the iteration, marks.
const BELOW: u16 = 3;
/// Rows above: what the lines are.
const ABOVE: u16 = 2;
/// Room that is left above the highest point.
const HEADROOM: f64 = 1.08;

/// How the line of memory is named.
const MEMORY: [(&str, Role); 2] = [("⠤⠤ ", Role::Warn), ("device memory", Role::Text)];

/// The least area that the chart is readable in.
pub(super) fn fits(canvas: &Canvas<'_>) -> bool {
    canvas.width() >= 50 && canvas.height() >= ABOVE + BELOW + 4
}

/// Where values go in the chart.
struct Axes {
    x: u16,
    y: u16,
    width: u16,
    height: u16,
    is_logarithmic: bool,
    values: (f64, f64),
    most: f64,
    most_memory: f64,
}

impl Axes {
    fn of(points: &[SweepPoint], knob: &Knob, limit: Option<f64>, canvas: &Canvas<'_>) -> Self {
        let (low, high) = (knob.values.first().copied().unwrap_or(0.0), knob.values.last().copied().unwrap_or(1.0));
        let most = points.iter().map(|point| point.throughput_range().1.max(point.throughput)).fold(1e-9, f64::max);
        let memory = points.iter().filter_map(|point| point.memory_bytes).map(|bytes| bytes.0 as f64);
        let most_memory = memory.fold(1.0, f64::max);
        // A limit far above what is needed would press the line to the ground.
        let near = limit.filter(|limit| *limit <= 4.0 * most_memory);
        // Nor is it of interest how far beyond the limit a point lies.
        let most_memory = near.map_or(most_memory, |limit| most_memory.clamp(limit, 2.0 * limit));
        Self {
            x: SCALE,
            y: ABOVE,
            width: canvas.width().saturating_sub(2 * SCALE),
            height: canvas.height().saturating_sub(ABOVE + BELOW),
            is_logarithmic: low > 0.0 && high / low > 8.0,
            values: (low, high),
            most: most * HEADROOM,
            most_memory: most_memory * HEADROOM,
        }
    }

    /// The share of the width at which a value lies.
    fn across(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (low, high) = (scale(self.values.0), scale(self.values.1));
        if high > low { ((scale(value) - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// The column of a value, within the chart.
    fn column(&self, value: f64) -> u16 {
        (self.across(value) * f64::from(self.width.saturating_sub(1))).round() as u16
    }

    /// The row of a share of the height, within the chart.
    fn row(&self, share: f64) -> u16 {
        let last = f64::from(self.height.saturating_sub(1));
        ((1.0 - share.clamp(0.0, 1.0)) * last).round() as u16
    }
}

/// Dots of a line, eight to a cell, as Braille has them.
struct Dots {
    width: u16,
    height: u16,
    cells: Vec<u8>,
}

impl Dots {
    fn new(axes: &Axes) -> Self {
        Self { width: axes.width, height: axes.height, cells: vec![0; axes.width as usize * axes.height as usize] }
    }

    fn set(&mut self, x: i32, y: i32) {
        const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let (width, height) = (i32::from(self.width) * 2, i32::from(self.height) * 4);
        if (0..width).contains(&x) && (0..height).contains(&y) {
            let cell = (y / 4) as usize * self.width as usize + (x / 2) as usize;
            self.cells[cell] |= BITS[(x % 2) as usize][(y % 4) as usize];
        }
    }

    /// A line through points given as shares of width and height; it ends where it leaves the chart at the top.
    fn through(&mut self, points: &[(f64, f64)]) {
        let (width, height) = (f64::from(self.width) * 2.0 - 1.0, f64::from(self.height) * 4.0 - 1.0);
        let place = |(x, y): (f64, f64)| (x * width, (1.0 - y.max(0.0)) * height);
        for (from, to) in points.windows(2).filter_map(|pair| below_top(pair[0], pair[1])) {
            let ((x0, y0), (x1, y1)) = (place(from), place(to));
            let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as u32;
            for step in 0..=steps {
                let part = f64::from(step) / f64::from(steps);
                self.set((x0 + (x1 - x0) * part).round() as i32, (y0 + (y1 - y0) * part).round() as i32);
            }
        }
    }

    fn draw(&self, role: Role, axes: &Axes, canvas: &mut Canvas<'_>) {
        for (at, &bits) in self.cells.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            let (x, y) = ((at % self.width as usize) as u16, (at / self.width as usize) as u16);
            let symbol = char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ').to_string();
            canvas.overlay(axes.x + x, axes.y + y, &symbol, role);
        }
    }
}

/// The part of a segment that is not above 1; `None` where nothing is.
fn below_top(from: (f64, f64), to: (f64, f64)) -> Option<((f64, f64), (f64, f64))> {
    let crossing = || {
        let part = (1.0 - from.1) / (to.1 - from.1);
        (from.0 + (to.0 - from.0) * part, 1.0)
    };
    match (from.1 <= 1.0, to.1 <= 1.0) {
        (true, true) => Some((from, to)),
        (true, false) => Some((from, crossing())),
        (false, true) => Some((crossing(), to)),
        (false, false) => None,
    }
}

/// What the chart shows.
struct Chart<'a> {
    work: &'a Workspace,
    knob: &'a Knob,
    points: &'a [SweepPoint],
    /// Memory of the device.
    limit: Option<f64>,
    counted: &'a str,
}

/// Draws the chart of a sweep over one knob.
pub(super) fn render(work: &Workspace, knob: &Knob, counted: &str, canvas: &mut Canvas<'_>) {
    let limit = work.outcome.resolved.devices.first().map(|device| device.memory.0 as f64).filter(|&bytes| bytes > 0.0);
    let chart = Chart { work, knob, points: &work.sweep.points, limit, counted };
    let axes = Axes::of(chart.points, knob, limit, canvas);
    chart.legend(canvas);
    chart.scales(&axes, canvas);
    chart.band(&axes, canvas);
    chart.lines(&axes, canvas);
    chart.limit_name(&axes, canvas);
    chart.values(&axes, canvas);
    chart.bounds(&axes, canvas);
    chart.marks(&axes, canvas);
}

impl Chart<'_> {
    fn at(&self, point: &SweepPoint) -> f64 {
        point.value(&self.knob.knob).unwrap_or(0.0)
    }

    /// What the lines and signs are, the first of them where there is no room for all.
    fn legend(&self, canvas: &mut Canvas<'_>) {
        let has_memory = self.points.iter().any(|point| point.memory_bytes.is_some());
        let memory: &[(&str, Role)] = if has_memory { &MEMORY } else { &[] };
        canvas.right(0, 1, 1, memory);
        let own: usize = memory.iter().map(|(text, _)| text.width() + 1).sum();
        let left = format!("{} per second, whole job", self.counted);
        let does_not_fit = self.points.iter().any(|point| point.fits == Some(false));
        let signs = [
            (self.chosen().is_some(), "◉", Role::Accent, "chosen"),
            (self.best().is_some(), "★", Role::Good, "optimum"),
            (does_not_fit, "×", Role::Bad, "does not fit"),
            (true, "░", Role::Faint, "within the stated error"),
            (in_force(self.work, self.knob).is_some(), "◆", Role::Strong, "in force"),
        ];
        let room = (canvas.width() as usize).saturating_sub(own + 2);
        let mut x = canvas.line(1, 1, &[("⣀⡠⠤⠒ ", Role::Chart), (&left, Role::Text)]);
        for (_, sign, role, what) in signs.into_iter().filter(|&(is_drawn, ..)| is_drawn) {
            if x as usize + what.width() + 4 > room {
                break;
            }
            x = canvas.line(x + 2, 1, &[(sign, role), (" ", Role::Dim), (what, Role::Dim)]);
        }
    }

    /// The point that the cursor is at.
    fn chosen(&self) -> Option<&SweepPoint> {
        self.points.get(self.work.table.cursor)
    }

    /// The batch from which on doubling gains little.
    fn best(&self) -> Option<f64> {
        let best = optimal_batch(self.points);
        let best = best.filter(|&best| self.knob.knob == "batch" && !still_gains(self.points, best));
        best.map(|best| best as f64)
    }

    fn scales(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        let bottom = axes.y + axes.height;
        for y in axes.y..bottom {
            canvas.text(axes.x - 1, y, "│", Role::Border);
            canvas.text(axes.x + axes.width, y, "│", Role::Border);
        }
        let has_memory = self.points.iter().any(|point| point.memory_bytes.is_some());
        let ticks = (axes.height / 4).clamp(2, 5);
        for rate in round_amounts(axes.most, ticks, false) {
            let y = axes.y + axes.row(rate / axes.most);
            canvas.part(0, y, axes.x - 1, 1).right(0, 0, 0, &[(throughput(rate), Role::Dim)]);
            canvas.text(axes.x - 1, y, "┤", Role::Border);
        }
        for bytes in round_amounts(axes.most_memory, ticks, true).into_iter().filter(|_| has_memory) {
            let y = axes.y + axes.row(bytes / axes.most_memory);
            canvas.text(axes.x + axes.width, y, "├", Role::Border);
            canvas.text(axes.x + axes.width + 1, y, &Bytes(bytes as u64).to_string(), Role::Dim);
        }
        if let Some((y, _)) = self.limit_row(axes) {
            for x in 0..axes.width {
                canvas.overlay(axes.x + x, y, "┈", Role::Bad);
            }
        }
    }

    /// The row of the device's memory, and how much that is; `None` where it is not on the chart.
    fn limit_row(&self, axes: &Axes) -> Option<(u16, Bytes)> {
        let has_memory = self.points.iter().any(|point| point.memory_bytes.is_some());
        let limit = self.limit.filter(|&limit| has_memory && limit <= axes.most_memory)?;
        Some((axes.y + axes.row(limit / axes.most_memory), Bytes(limit as u64)))
    }

    /// Names the device's memory, at the right: what grows has left that row by there.
    fn limit_name(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        if let Some((y, limit)) = self.limit_row(axes) {
            let name = format!(" device has {limit} ");
            let x = (axes.x + axes.width).saturating_sub(name.chars().count() as u16 + 1);
            canvas.text(x, y, &name, Role::Bad);
        }
    }

    /// Where throughput may lie, column by column.
    fn band(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        for pair in self.points.windows(2) {
            let columns = (axes.column(self.at(&pair[0])), axes.column(self.at(&pair[1])));
            for x in columns.0..=columns.1 {
                let part = f64::from(x - columns.0) / f64::from((columns.1 - columns.0).max(1));
                let between = |of: fn(&SweepPoint) -> f64| of(&pair[0]) + (of(&pair[1]) - of(&pair[0])) * part;
                let low = axes.row(between(|point| point.throughput_range().0) / axes.most);
                let high = axes.row(between(|point| point.throughput_range().1) / axes.most);
                for y in high..=low {
                    canvas.overlay(axes.x + x, axes.y + y, "░", Role::Faint);
                }
            }
        }
    }

    fn lines(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        let mut memory = Dots::new(axes);
        let of_memory =
            |point: &SweepPoint| Some((axes.across(self.at(point)), point.memory_bytes?.0 as f64 / axes.most_memory));
        memory.through(&self.points.iter().filter_map(of_memory).collect::<Vec<_>>());
        memory.draw(Role::Warn, axes, canvas);
        let mut rates = Dots::new(axes);
        let of_rate = |point: &SweepPoint| (axes.across(self.at(point)), point.throughput / axes.most);
        rates.through(&self.points.iter().map(of_rate).collect::<Vec<_>>());
        rates.draw(Role::Chart, axes, canvas);
        for point in self.points {
            let (x, y) = (axes.column(self.at(point)), axes.row(point.throughput / axes.most));
            let role = if point.fits == Some(false) { Role::Bad } else { Role::Chart };
            canvas.overlay(axes.x + x, axes.y + y, if point.fits == Some(false) { "×" } else { "●" }, role);
        }
    }

    /// The values of the knob, as many as there is room for.
    fn values(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        let y = axes.y + axes.height;
        for x in 0..axes.width {
            canvas.text(axes.x + x, y, "─", Role::Border);
        }
        let mut free = 0;
        for value in self.knob.values() {
            let (x, text) = (axes.x + axes.column(value), self.knob.shown(value));
            let from = x.saturating_sub(text.width() as u16 / 2);
            if from >= free {
                canvas.text(x, y, "┬", Role::Border);
                free = canvas.text(from, y + 1, &text, Role::Dim) + 1;
            }
        }
        canvas.text(0, y + 1, self.knob.unit(), Role::Dim);
    }

    /// What bounds the iteration, region by region.
    fn bounds(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        let y = axes.y + axes.height + 2;
        let mut from = 0;
        while let Some(first) = self.points.get(from) {
            let count = self.points[from..].iter().take_while(|point| bound(point) == bound(first)).count();
            let last = &self.points[from + count - 1];
            let (begin, end) = (axes.x + axes.column(self.at(first)), axes.x + axes.column(self.at(last)));
            let width = end - begin + 1;
            let name = bound(first);
            let text = if width as usize >= name.width() + 4 {
                let dashes = width as usize - name.width() - 4;
                format!("├{} {name} {}┤", "─".repeat(dashes / 2), "─".repeat(dashes - dashes / 2))
            } else {
                format!("╵{name}")
            };
            canvas.text(begin, y, &text, Role::Dim);
            from += count;
        }
    }

    /// The chosen value as a column, the one in force and the best.
    fn marks(&self, axes: &Axes, canvas: &mut Canvas<'_>) {
        let mark = |value: f64, symbol: &str, role: Role, canvas: &mut Canvas<'_>| {
            let Some(point) = self.points.iter().find(|point| (self.at(point) / value - 1.0).abs() < 1e-6) else {
                return;
            };
            let (x, y) = (axes.x + axes.column(value), axes.y + axes.row(point.throughput / axes.most));
            canvas.text(x, y, symbol, role);
        };
        if let Some(chosen) = self.chosen() {
            let x = axes.x + axes.column(self.at(chosen));
            let top = axes.y + axes.row(chosen.throughput / axes.most);
            for y in (axes.y..axes.y + axes.height).filter(|&y| y != top) {
                if canvas.symbol(x, y) == " " || canvas.symbol(x, y) == "░" {
                    canvas.overlay(x, y, "│", Role::Accent);
                }
            }
        }
        if let Some(value) = in_force(self.work, self.knob) {
            mark(value, "◆", Role::Strong, canvas);
        }
        if let Some(best) = self.best() {
            mark(best, "★", Role::Good, canvas);
        }
        if let Some(chosen) = self.chosen() {
            mark(self.at(chosen), "◉", Role::Accent, canvas);
        }
    }
}

/// What bounds the iteration at a point, in the field's words.
pub(super) fn bound(point: &SweepPoint) -> &str {
    bound_by(&point.path_kind)
}

/// As [`bound`], by the kind of the critical path.
pub(super) fn bound_by(kind: &str) -> &str {
    match kind {
        "host" | "launch" => "CPU-bound",
        "kernel" => "GPU-bound",
        "copy" => "copy-bound",
        "collective" => "communication-bound",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::below_top;

    #[test]
    fn a_line_ends_where_it_leaves_the_chart() {
        assert_eq!(below_top((0.0, 0.2), (1.0, 0.4)), Some(((0.0, 0.2), (1.0, 0.4))));
        assert_eq!(below_top((0.0, 0.5), (1.0, 1.5)), Some(((0.0, 0.5), (0.5, 1.0))));
        assert_eq!(below_top((0.0, 3.0), (1.0, 0.0)), Some(((2.0 / 3.0, 1.0), (1.0, 0.0))));
        assert_eq!(below_top((0.0, 2.0), (1.0, 1e300)), None, "however far above");
    }
}
