//! One row of bars: cells of a density index → symbols with edges finer than a cell, and names where they fit.

use std::borrow::Cow;

use ratatui::style::{Modifier, Style};

use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::{Paint, Role};
use retime_core::analysis::density::{Cell, Density};
use retime_core::units::TimeNs;

use super::item::Item;
use super::rows::{Fold, Row, Side};
use super::scene::Scene;
use super::state::Timeline;

/// Left parts of a cell, in eighths.
const LEFT: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
/// Lower parts of a cell, in eighths.
const LOWER: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// A cell counts as filled from here on, as empty below the rest.
const FULL: f32 = 15.0 / 16.0;
/// What a bar that steps back is filled with.
const FADED: &str = "░";
/// A half block is drawn from this share on.
const HALF: f32 = 0.2;

/// Draws rows of bars onto a canvas that is as wide as the span of `state`.
pub struct Painter<'a> {
    /// What is drawn.
    scene: Scene<'a>,
    /// What the user looks at.
    state: &'a Timeline,
    cells: Vec<Cell>,
    others: Vec<Cell>,
}

impl<'a> Painter<'a> {
    /// A painter for one frame.
    pub fn new(scene: Scene<'a>, state: &'a Timeline) -> Self {
        Self { scene, state, cells: Vec::new(), others: Vec::new() }
    }

    /// Draws `row` at `y`.
    pub fn row(&mut self, canvas: &mut Canvas<'_>, y: u16, row: Row) {
        if row.side == Side::Blank {
            return;
        }
        if row.side == Side::Both {
            self.packed(canvas, y, row);
        } else {
            let mut cells = std::mem::take(&mut self.cells);
            self.gather(row, canvas.width(), &mut cells);
            if matches!(row.fold, Some(Fold::Hosts(_))) {
                hosts(canvas, y, &cells);
            } else {
                self.bars(canvas, y, row, &cells);
                self.captions(canvas, y, row, &cells);
                if row.line == 0 && matches!(row.side, Side::Measured | Side::Simulated) {
                    self.edges(canvas, y, row.side, &cells);
                }
                self.hits(canvas, y, row, &cells);
            }
            self.cells = cells;
        }
        if row.depth == 0 && row.is_last() && row.fold.is_none() {
            self.critical(canvas, y, row);
        }
        if self.scene.is_stale && row.side == Side::Simulated {
            canvas.dim(0, y, canvas.width());
        }
    }

    /// The cells of `row`, those of hidden families left out. Of several lanes in one row computation covers communication.
    fn gather(&mut self, row: Row, width: u16, cells: &mut Vec<Cell>) {
        cells.clear();
        cells.resize(width as usize, Cell::default());
        let mut one = std::mem::take(&mut self.others);
        let is_communication = |lane: usize| self.scene.lane(lane).is_some_and(|lane| lane.communication);
        let mut lanes = self.scene.lanes_in(row);
        lanes.sort_by_key(|&lane| is_communication(lane));
        for lane in lanes {
            let fold = row.fold.filter(|fold| matches!(fold, Fold::Hosts(_)));
            let Some(density) = self.scene.density(Row { lane, fold, ..row }) else { continue };
            self.sample(density, width, &mut one);
            for (cell, own) in cells.iter_mut().zip(&one) {
                let is_covered = is_communication(lane) && cell.busy >= HALF;
                if own.busy > cell.busy && !is_covered {
                    *cell = *own;
                }
            }
        }
        self.others = one;
        if !self.state.hidden_families.is_empty() {
            let is_hidden =
                |cell: &Cell| cell.key.is_some_and(|key| self.state.hidden_families.contains(&self.paint_of(key)));
            cells.iter_mut().filter(|cell| is_hidden(cell)).for_each(|cell| *cell = Cell::default());
        }
    }

    fn sample(&self, density: &Density, width: u16, cells: &mut Vec<Cell>) {
        let span = self.state.span;
        density.cells(TimeNs(span.from as i64)..TimeNs(span.to as i64), width as usize, cells);
    }

    fn paint_of(&self, key: u32) -> Paint {
        self.scene.paint(Item::from_key(key))
    }

    fn is_selected(&self, key: u32) -> bool {
        self.state.selected.is_some_and(|item| item.key() == key)
    }

    /// Whether a bar steps back: it belongs to a neighbouring step, or not to the family that is looked at.
    fn is_faded(&self, key: u32) -> bool {
        let item = Item::from_key(key);
        !self.is_selected(key)
            && (self.scene.is_neighbour(item) || self.state.family.is_some_and(|family| family != self.paint_of(key)))
    }

    fn bars(&self, canvas: &mut Canvas<'_>, y: u16, row: Row, cells: &[Cell]) {
        for (x, cell) in cells.iter().enumerate() {
            let Some(key) = cell.key else { continue };
            let before = x.checked_sub(1).map(|i| cells[i]).unwrap_or_default();
            let after = cells.get(x + 1).copied().unwrap_or_default();
            let (symbol, style) = self.symbol(canvas, row, *cell, key, (before, after));
            if symbol != " " || cell.busy >= FULL {
                canvas.cell(x as u16, y, symbol, style);
            }
        }
    }

    fn symbol(
        &self,
        canvas: &Canvas<'_>,
        row: Row,
        cell: Cell,
        key: u32,
        (before, after): (Cell, Cell),
    ) -> (&'static str, Style) {
        let theme = canvas.theme();
        // A share of a tall lane fills its rows from below.
        let above = f32::from(row.lines.saturating_sub(row.line + 1));
        let share = (cell.busy * f32::from(row.lines) - above).clamp(0.0, 1.0);
        let least = usize::from(row.is_last());
        let eighths = |share: f32| ((share * 8.0).round() as usize).min(8);
        if self.is_faded(key) {
            let symbol = if cell.busy >= FULL { FADED } else { LOWER[eighths(share).max(least)] };
            return (symbol, theme.style(Role::ChartDim));
        }
        let is_selected = self.is_selected(key);
        let (continues, goes_on) = (before.key == cell.key, after.key == cell.key);
        let body = if is_selected { theme.style(Role::BarSelected) } else { theme.bar(self.paint_of(key)) };
        if cell.busy >= FULL {
            let seam = before.busy >= FULL && !continues && goes_on;
            return if seam { (LEFT[1], theme.gap(body)) } else { (" ", body) };
        }
        let ink = if is_selected { theme.ground_as_ink(body) } else { theme.ink(self.paint_of(key)) };
        if before.busy <= 0.0 && goes_on && after.busy >= FULL {
            return (LEFT[eighths(1.0 - cell.busy)], theme.gap(body));
        }
        if after.busy <= 0.0 && continues && before.busy >= FULL {
            return (LEFT[eighths(cell.busy).max(1)], ink);
        }
        (LOWER[eighths(share).max(least)], ink)
    }

    /// Parts of the row that one bar fills: first column, width, key.
    fn runs(cells: &[Cell]) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        let mut x = 0;
        std::iter::from_fn(move || {
            while x < cells.len() {
                let (start, key) = (x, cells[x].key);
                while x < cells.len() && cells[x].key == key && cells[x].busy >= FULL {
                    x += 1;
                }
                let width = x - start;
                x = x.max(start + 1);
                if let Some(key) = key.filter(|_| width > 0) {
                    return Some((start, width, key));
                }
            }
            None
        })
    }

    /// Writes names into bars that are wide enough; into the second row of tall ones how long they take.
    fn captions(&self, canvas: &mut Canvas<'_>, y: u16, row: Row, cells: &[Cell]) {
        const LEAST: usize = 5;
        for (start, width, key) in Self::runs(cells) {
            if width < LEAST || row.line > 1 || self.is_faded(key) {
                continue;
            }
            let item = Item::from_key(key);
            let room = width - 1;
            let name: Cow<'_, str> = if row.line == 0 {
                fitting(&self.scene.caption(item), room).into()
            } else {
                let length = self.scene.side(row.side).times(item).map(|(start, end)| end.since(start).to_string());
                length.filter(|length| length.width() <= room).unwrap_or_default().into()
            };
            let theme = canvas.theme();
            let style =
                if self.is_selected(key) { theme.style(Role::BarSelected) } else { theme.bar(self.paint_of(key)) };
            canvas.put(start as u16 + 1, y, &cut(&name, room), style);
        }
    }

    /// What a bar became, as a sign: `−` faster, `+` slower, `×` it is taken out, `*` it is new.
    fn turn(&self, side: Side, key: u32) -> Option<(&'static str, Role)> {
        const NO_CHANGE: f64 = 0.01;
        if self.is_faded(key) {
            return None;
        }
        let Some((before, after)) = self.scene.lengths(Item::from_key(key)) else {
            return Some(if side == Side::Measured { ("×", Role::Faint) } else { ("*", Role::Simulated) });
        };
        let change = after.0 as f64 / before.0.max(1) as f64 - 1.0;
        let faster = change < 0.0;
        (change.abs() >= NO_CHANGE).then_some(if faster { ("−", Role::Good) } else { ("+", Role::Bad) })
    }

    /// Signs at the edges of bars that take another time than measured. Bars too narrow for a sign of their own share one
    /// with their neighbours that turned the same way, so that a change is seen however far one has zoomed out.
    fn edges(&self, canvas: &mut Canvas<'_>, y: u16, side: Side, cells: &[Cell]) {
        const MOST: usize = 12;
        let turns: Vec<_> = cells
            .iter()
            .map(|cell| self.turn(side, cell.key?).filter(|(sign, _)| side == Side::Simulated || *sign == "×"))
            .collect();
        let mut x = 0;
        while x < cells.len() {
            let begin = x;
            let is_wide = |x: usize| cells.get(x + 1).is_some_and(|next| next.key == cells[x].key && next.busy >= FULL);
            let goes_on = |x: usize| {
                if is_wide(begin) {
                    cells[x].key == cells[begin].key
                } else {
                    turns[x] == turns[begin] && !is_wide(x) && x - begin < MOST
                }
            };
            x += 1;
            while x < cells.len() && goes_on(x) {
                x += 1;
            }
            let is_alone = begin.checked_sub(1).is_none_or(|before| turns[before].is_none())
                && turns.get(x).is_none_or(Option::is_none);
            if let Some((sign, role)) = turns[begin].filter(|_| x - begin > 1 || is_alone) {
                let style = canvas.theme().style(Role::Background).patch(canvas.theme().style(role));
                canvas.cell(begin as u16, y, sign, style);
            }
        }
    }

    /// A sign at the end of every bar that was searched for.
    fn hits(&self, canvas: &mut Canvas<'_>, y: u16, row: Row, cells: &[Cell]) {
        if row.line > 0 || self.state.search.is_empty() {
            return;
        }
        for (x, cell) in cells.iter().enumerate() {
            let is_end = cells.get(x + 1).is_none_or(|next| next.key != cell.key);
            let Some(key) = cell.key.filter(|_| is_end) else { continue };
            if self.scene.is_hit(self.state, Item::from_key(key)) {
                let style = canvas.theme().style(Role::Background).patch(canvas.theme().style(Role::Match));
                canvas.cell(x as u16, y, "●", style);
            }
        }
    }

    /// Measured above, simulated below, in one row.
    fn packed(&mut self, canvas: &mut Canvas<'_>, y: u16, row: Row) {
        let (mut upper, mut lower) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.others));
        for (side, cells) in [(Side::Measured, &mut upper), (Side::Simulated, &mut lower)] {
            self.gather(Row { side, ..row }, canvas.width(), cells);
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
                " " if !canvas.is_ground(x, y) => canvas.overlay(x, y, LOWER[1], Role::Critical),
                symbol if symbol == LEFT[1] || symbol == FADED => {}
                _ => canvas.restyle(x, y, 1, style),
            }
        }
        self.others = cells;
    }
}

/// A caption in little room: of layer and role the role, of operator and sizes the operator, else the first word.
fn fitting(caption: &str, room: usize) -> String {
    if caption.width() <= room {
        return caption.to_owned();
    }
    let is_size = |last: &str| last.split('×').all(|size| size.parse::<u64>().is_ok());
    let bare = caption.rsplit_once(' ').filter(|(_, last)| is_size(last)).map_or(caption, |(bare, _)| bare);
    match bare.split_once(' ').filter(|_| bare.width() > room) {
        Some((_, role)) if role.width() <= room => role.to_owned(),
        Some((first, _)) if first.width() <= room => first.to_owned(),
        _ => bare.to_owned(),
    }
}

/// How busy the host threads of a rank are.
fn hosts(canvas: &mut Canvas<'_>, y: u16, cells: &[Cell]) {
    for (x, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.busy > 0.0) {
        let eighths = ((cell.busy * 8.0).round() as usize).clamp(1, 8);
        canvas.cell(x as u16, y, LOWER[eighths], canvas.theme().ink(Paint::Host));
    }
}
