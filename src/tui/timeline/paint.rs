//! One row of bars: cells of a density index → symbols with edges finer than a cell, and names where they fit.

use ratatui::style::{Modifier, Style};

use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::{Paint, Role};
use retime_core::analysis::density::{Cell, Density};
use retime_core::units::TimeNs;

use super::item::{Item, short_name};
use super::rows::{Row, Side};
use super::scene::Scene;
use super::span::Span;

/// Left parts of a cell, in eighths.
const LEFT: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
/// Lower parts of a cell, in eighths.
const LOWER: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// A cell counts as filled from here on, as empty below the rest.
const FULL: f32 = 15.0 / 16.0;
/// Names in less room than this are cut without an ellipsis.
const CUT_BARE: usize = 7;
/// A half block is drawn from this share on.
const HALF: f32 = 0.2;

/// Draws rows of bars onto a canvas that is as wide as `span`.
pub struct Painter<'a> {
    /// What is drawn.
    pub scene: Scene<'a>,
    /// The part of time.
    pub span: Span,
    /// What is selected.
    pub selected: Option<Item>,
    cells: Vec<Cell>,
    others: Vec<Cell>,
}

impl<'a> Painter<'a> {
    /// A painter for one frame.
    pub fn new(scene: Scene<'a>, span: Span, selected: Option<Item>) -> Self {
        Self { scene, span, selected, cells: Vec::new(), others: Vec::new() }
    }

    /// Draws `row` at `y`.
    pub fn row(&mut self, canvas: &mut Canvas<'_>, y: u16, row: Row) {
        if row.side == Side::Both {
            self.packed(canvas, y, row);
        } else if let Some(density) = self.scene.density(row) {
            let mut cells = std::mem::take(&mut self.cells);
            self.sample(density, canvas.width(), &mut cells);
            self.bars(canvas, y, &cells);
            self.names(canvas, y, &cells);
            self.cells = cells;
        }
        if row.depth == 0 && row.side != Side::Blank {
            self.critical(canvas, y, row);
        }
        if self.scene.is_stale && row.side == Side::Simulated {
            canvas.dim(0, y, canvas.width());
        }
    }

    fn sample(&self, density: &Density, width: u16, cells: &mut Vec<Cell>) {
        density.cells(TimeNs(self.span.from as i64)..TimeNs(self.span.to as i64), width as usize, cells);
    }

    fn paint_of(&self, key: u32) -> Paint {
        self.scene.paint(Item::from_key(key))
    }

    fn bars(&self, canvas: &mut Canvas<'_>, y: u16, cells: &[Cell]) {
        for (x, cell) in cells.iter().enumerate() {
            let Some(key) = cell.key else { continue };
            let before = x.checked_sub(1).map(|i| cells[i]).unwrap_or_default();
            let after = cells.get(x + 1).copied().unwrap_or_default();
            let (symbol, style) = self.symbol(canvas, *cell, key, before, after);
            canvas.cell(x as u16, y, symbol, style);
        }
    }

    fn symbol(&self, canvas: &Canvas<'_>, cell: Cell, key: u32, before: Cell, after: Cell) -> (&'static str, Style) {
        let theme = canvas.theme();
        let paint = self.paint_of(key);
        let is_selected = self.selected.is_some_and(|item| item.key() == key);
        let (continues, goes_on) = (before.key == cell.key, after.key == cell.key);
        let eighths = |share: f32| ((share * 8.0).round() as usize).min(8);
        if cell.busy >= FULL {
            let seam = before.busy >= FULL && !continues && goes_on;
            let body = if is_selected { theme.style(Role::BarSelected) } else { theme.bar(paint) };
            return if seam { (LEFT[1], theme.gap(body)) } else { (" ", body) };
        }
        let body = if is_selected { theme.style(Role::BarSelected) } else { theme.bar(paint) };
        let ink = if is_selected { theme.ground_as_ink(body) } else { theme.ink(paint) };
        if before.busy <= 0.0 && goes_on && after.busy >= FULL {
            return (LEFT[eighths(1.0 - cell.busy)], theme.gap(body));
        }
        if after.busy <= 0.0 && continues && before.busy >= FULL {
            return (LEFT[eighths(cell.busy).max(1)], ink);
        }
        (LOWER[eighths(cell.busy).max(1)], ink)
    }

    /// Writes names into bars that are wide enough.
    fn names(&self, canvas: &mut Canvas<'_>, y: u16, cells: &[Cell]) {
        const LEAST: usize = 4;
        let mut x = 0;
        while x < cells.len() {
            let start = x;
            let key = cells[x].key;
            while x < cells.len() && cells[x].key == key && cells[x].busy >= FULL {
                x += 1;
            }
            if let Some(key) = key.filter(|_| x - start >= LEAST) {
                self.name(canvas, (start as u16 + 1, y), x - start - 1, key);
            }
            x = x.max(start + 1);
        }
    }

    fn name(&self, canvas: &mut Canvas<'_>, (x, y): (u16, u16), room: usize, key: u32) {
        let item = Item::from_key(key);
        let theme = canvas.theme();
        let style = match self.selected {
            Some(selected) if selected == item => theme.style(Role::BarSelected),
            _ => theme.bar(self.paint_of(key)),
        };
        let name = short_name(self.scene.name(item));
        if room < CUT_BARE {
            canvas.part(x, y, room as u16, 1).put_bare(name, style);
        } else {
            canvas.put(x, y, &cut(name, room), style);
        }
    }

    /// Measured above, simulated below, in one row.
    fn packed(&mut self, canvas: &mut Canvas<'_>, y: u16, row: Row) {
        let (mut upper, mut lower) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.others));
        for (side, cells) in [(Side::Measured, &mut upper), (Side::Simulated, &mut lower)] {
            cells.clear();
            match self.scene.density(Row { side, ..row }) {
                Some(density) => self.sample(density, canvas.width(), cells),
                None => cells.resize(canvas.width() as usize, Cell::default()),
            }
        }
        for (x, (up, low)) in upper.iter().zip(&lower).enumerate() {
            let paint = |cell: &Cell| cell.key.filter(|_| cell.busy >= HALF).map(|key| self.paint_of(key));
            let theme = canvas.theme();
            let (symbol, style) = match (paint(up), paint(low)) {
                (Some(up), Some(low)) => theme.halves(up, low),
                (Some(up), None) => ("▀", theme.ink(up)),
                (None, Some(low)) => ("▄", theme.ink(low)),
                (None, None) => continue,
            };
            canvas.cell(x as u16, y, symbol, style);
        }
        (self.cells, self.others) = (upper, lower);
    }

    /// Underlines where the critical path runs on the row's lane.
    fn critical(&mut self, canvas: &mut Canvas<'_>, y: u16, row: Row) {
        let Some(lane) = self.scene.side(row.side).lanes.get(row.lane) else { return };
        let mut cells = std::mem::take(&mut self.others);
        self.sample(&lane.critical, canvas.width(), &mut cells);
        let style = Style::new().add_modifier(Modifier::UNDERLINED);
        for (x, _) in cells.iter().enumerate().filter(|(_, cell)| cell.busy > 0.0) {
            let x = x as u16;
            match canvas.symbol(x, y) {
                " " => canvas.overlay(x, y, LOWER[1], Role::Critical),
                symbol if symbol == LEFT[1] => {}
                _ => canvas.restyle(x, y, 1, style),
            }
        }
        self.others = cells;
    }
}
