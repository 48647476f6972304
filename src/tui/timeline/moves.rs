//! Moving about: along a row, between rows, to an item, with the pointer.

use retime_core::analysis::density::{Density, Interval};
use retime_core::units::{DurNs, TimeNs};

use super::item::Item;
use super::render::{body_height, head_height, label_width};
use super::rows::{Fold, Row, Side, fold_of, lanes};
use super::scene::Scene;
use super::span::Span;
use super::state::{Expansion, Timeline};

/// What lies above the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadPart {
    /// Times.
    Ruler,
    /// All of the time.
    Minimap,
    /// Neither.
    None,
}

/// Columns and rows that the timeline has on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Columns, labels included.
    pub width: u16,
    /// Rows, ruler included.
    pub height: u16,
}

impl Extent {
    /// Columns of the lanes' names.
    pub fn labels(self) -> u16 {
        label_width(self.width)
    }

    fn bars(self) -> u16 {
        self.width.saturating_sub(label_width(self.width)).max(1)
    }

    fn rows(self) -> usize {
        body_height(self.height) as usize
    }
}

impl Timeline {
    fn row(&self) -> Row {
        Row { lane: self.lane, depth: self.depth, side: self.side, line: 0, lines: 1, fold: None }
    }

    /// Selects the item `times` further along the row, or back.
    pub fn step(&mut self, scene: Scene<'_>, extent: Extent, is_forward: bool, times: usize) {
        let Some(density) = scene.density(self.row()) else { return self.enter(scene, extent) };
        let mut at = self.selected.and_then(|item| scene.side(self.side).times(item));
        let mut found = None;
        for _ in 0..times.max(1) {
            let next = match (at, is_forward) {
                (Some((start, end)), true) => density.next(start.max(end - DurNs(1))),
                (Some((start, _)), false) => density.previous(start),
                (None, _) => nearest(density, self.cursor),
            };
            let Some(next) = next else { break };
            at = Some((next.start, next.end));
            found = Some(next);
        }
        if let Some(found) = found {
            self.select_in_row(scene, extent, Item::from_key(found.key));
        }
    }

    /// Goes to the first row when the cursor is on none.
    fn enter(&mut self, scene: Scene<'_>, extent: Extent) {
        if let Some(&row) = scene.rows(self, extent.rows()).first() {
            self.go_to_row(scene, extent, row);
        }
    }

    /// Goes `by` rows down (up when negative), to the item nearest to the cursor's time.
    pub fn vertical(&mut self, scene: Scene<'_>, extent: Extent, by: isize) {
        let mut rows = scene.rows(self, extent.rows());
        rows.retain(|row| row.side != Side::Blank && row.line == 0);
        if rows.is_empty() {
            return;
        }
        let is_here = |row: &&Row| row.lane == self.lane && row.depth == self.depth && same_side(row.side, self.side);
        let next = match rows.iter().position(|row| is_here(&row)) {
            Some(here) if self.selected.is_some() || rows[here].fold.is_some() => {
                here.saturating_add_signed(by).min(rows.len() - 1)
            }
            _ => self.scroll.min(rows.len() - 1),
        };
        self.go_to_row(scene, extent, rows[next]);
    }

    fn go_to_row(&mut self, scene: Scene<'_>, extent: Extent, row: Row) {
        self.lane = row.lane;
        self.depth = row.depth;
        self.side = self.side_in(row);
        let visible = (self.span.from..self.span.to).contains(&self.cursor);
        let time = if visible { self.cursor } else { self.span.middle() };
        let found = scene.density(row).and_then(|density| nearest(density, time));
        self.selected =
            found.map(|found| Item::from_key(found.key)).filter(|_| !matches!(row.fold, Some(Fold::Hosts(_))));
        self.cursor = time;
        self.scroll_to_cursor(scene, extent);
    }

    /// Goes to the first row of the rank that is called `name`, `r55`; false where none of several is.
    pub fn go_to_rank(&mut self, scene: Scene<'_>, extent: Extent, name: &str) -> bool {
        let ranks = scene.graph.ranks.iter().map(|part| part.rank).filter(|_| scene.graph.rank_count() > 1);
        let Some(rank) = ranks.into_iter().find(|rank| name == format!("r{}", rank.0)) else { return false };
        let rows = scene.rows(self, extent.rows());
        let is_its = |row: &&Row| scene.lane(row.lane).is_some_and(|lane| lane.rank == rank);
        let first = rows.iter().find(is_its).copied();
        if let Some(row) = first {
            self.go_to_row(scene, extent, row);
            // Nothing of it is chosen: what comes next unfolds the row.
            self.selected = None;
        }
        first.is_some()
    }

    /// Goes to the next lane whose name contains `text`, which is lower case, or the one before, around the end if need be; its number
    /// among them and how many there are.
    ///
    /// # Arguments
    /// `is_here_one`: whether the lane of the cursor counts.
    pub fn go_to_lane(
        &mut self,
        scene: Scene<'_>,
        extent: Extent,
        text: &str,
        (is_forward, is_here_one): (bool, bool),
    ) -> Option<(usize, usize)> {
        let count = scene.graph.lanes.len() + scene.resolved.added_lanes.len();
        let is_named = |&lane: &usize| scene.is_drawn(lane) && scene.lane_label(lane).to_lowercase().contains(text);
        let named: Vec<usize> = (0..count).filter(is_named).collect();
        let at = if is_forward {
            named.iter().position(|&lane| lane > self.lane || lane == self.lane && is_here_one).unwrap_or(0)
        } else {
            named.iter().rposition(|&lane| lane < self.lane).unwrap_or(named.len().saturating_sub(1))
        };
        let lane = *named.get(at)?;
        self.hidden.remove(&lane);
        while let Some(fold) = fold_of(self, scene, lane) {
            self.toggle_fold(fold);
        }
        let row = scene.rows(self, extent.rows()).into_iter().find(|row| row.lane == lane)?;
        self.go_to_row(scene, extent, row);
        // Nothing of it is chosen, as of a rank.
        self.selected = None;
        Some((at + 1, named.len()))
    }

    /// Selects `item` where it is drawn and brings it on the screen.
    pub fn select(&mut self, scene: Scene<'_>, extent: Extent, item: Item, side: Side) {
        let Some(lane) = scene.lane_of(item).map(|lane| lane.0 as usize) else { return };
        self.side = if side == Side::Simulated { side } else { Side::Measured };
        self.lane = lane;
        self.hidden.remove(&lane);
        while let Some(fold) = fold_of(self, scene, lane) {
            self.toggle_fold(fold);
        }
        self.depth = scene.side(side).depth_of(lane, item).unwrap_or(0);
        self.select_in_row(scene, extent, item);
    }

    fn select_in_row(&mut self, scene: Scene<'_>, extent: Extent, item: Item) {
        (self.selected, self.is_at_idle) = (Some(item), false);
        if let Some((start, _)) = scene.side(self.side).times(item) {
            self.cursor = start.0 as f64;
            self.span = self.span.showing(self.cursor, self.bounds);
        }
        self.scroll_to_cursor(scene, extent);
    }

    /// Scrolls so that the cursor's row is on the screen.
    fn scroll_to_cursor(&mut self, scene: Scene<'_>, extent: Extent) {
        let rows = scene.rows(self, extent.rows());
        let on_lane = |row: &Row| row.lane == self.lane && same_side(row.side, self.side) && row.depth <= self.depth;
        let Some(at) = rows.iter().rposition(on_lane) else { return };
        // The last line says how many rows are below it.
        let behind = at + usize::from(at + 1 < rows.len() && extent.rows() > 2);
        let last = self.scroll + extent.rows().saturating_sub(1);
        if at < self.scroll {
            self.scroll = at.saturating_sub(self.depth.min(1));
        } else if behind > last {
            self.scroll = behind + 1 - extent.rows().min(behind + 1);
        }
        self.scroll = self.scroll.min(rows.len().saturating_sub(extent.rows()));
    }

    /// Scrolls the lanes without moving the cursor.
    pub fn scroll_by(&mut self, scene: Scene<'_>, extent: Extent, by: isize) {
        let most = scene.rows(self, extent.rows()).len().saturating_sub(extent.rows());
        self.scroll = self.scroll.saturating_add_signed(by).min(most);
    }

    /// Shows `factor` times as much time around the cursor, or around the middle when that is not on the screen.
    pub fn zoom(&mut self, factor: f64) {
        let is_visible = (self.span.from..self.span.to).contains(&self.cursor);
        let pivot = if is_visible { self.cursor } else { self.span.middle() };
        self.span = self.span.zoomed(factor, pivot, self.bounds);
    }

    /// Zooms around the time under column `x`.
    pub fn zoom_at(&mut self, extent: Extent, x: u16, factor: f64) {
        let column = f64::from(x.saturating_sub(label_width(extent.width))) + 0.5;
        let pivot = self.span.time_at(column, extent.bars());
        self.span = self.span.zoomed(factor, pivot, self.bounds);
    }

    /// Pans by `columns` cells.
    pub fn drag(&mut self, extent: Extent, columns: i32) {
        self.span = self.span.panned(-f64::from(columns) / f64::from(extent.bars()), self.bounds);
    }

    /// Fills the width with the selection.
    pub fn fit_selection(&mut self, scene: Scene<'_>) -> bool {
        let Some((start, end)) = self.selected.and_then(|item| scene.side(self.side).times(item)) else {
            return false;
        };
        let margin = (end.0 - start.0) as f64 * 0.1;
        let wanted = Span { from: start.0 as f64 - margin, to: end.0 as f64 + margin };
        self.span = wanted.zoomed(1.0, wanted.middle(), self.bounds);
        true
    }

    /// Shows the selection with what is around it.
    pub fn fit_context(&mut self, scene: Scene<'_>) {
        const AROUND: f64 = 12.0;
        if self.fit_selection(scene) {
            self.span = self.span.zoomed(AROUND, self.span.middle(), self.bounds);
        }
    }

    /// The lane, and the item if there is one, at a cell of the timeline.
    pub fn hit(&self, scene: Scene<'_>, extent: Extent, x: u16, y: u16) -> Option<(Row, f64, Option<Item>)> {
        let y = y.checked_sub(head_height(extent.height)).filter(|&y| y < body_height(extent.height))? as usize;
        let rows = scene.rows(self, extent.rows());
        let first = self.scroll.min(rows.len().saturating_sub(extent.rows()));
        let row = *rows.get(first + y)?;
        let labels = label_width(extent.width);
        let column = f64::from(x.saturating_sub(labels));
        let (from, to) = (self.span.time_at(column, extent.bars()), self.span.time_at(column + 1.0, extent.bars()));
        let mut cell = Vec::new();
        if x >= labels
            && !matches!(row.fold, Some(Fold::Hosts(_)))
            && let Some(density) = scene.density(row)
        {
            density.cells(TimeNs(from as i64)..TimeNs((to as i64).max(from as i64 + 1)), 1, &mut cell);
        }
        let item = cell.first().and_then(|cell| cell.key).map(Item::from_key);
        Some((row, from, item))
    }

    /// What is at row `y` above the lanes.
    pub fn part_at(extent: Extent, x: u16, y: u16) -> HeadPart {
        match y {
            _ if x < extent.labels() => HeadPart::None,
            0 => HeadPart::Ruler,
            1 if head_height(extent.height) > 1 => HeadPart::Minimap,
            _ => HeadPart::None,
        }
    }

    /// The time under column `x`.
    pub fn time_under(&self, extent: Extent, x: u16) -> f64 {
        self.span.time_at(f64::from(x.saturating_sub(extent.labels())), extent.bars())
    }

    /// Shows the part of time around that under column `x` of the minimap.
    pub fn go_on_minimap(&mut self, extent: Extent, x: u16) {
        let middle = self.bounds.time_at(f64::from(x.saturating_sub(extent.labels())) + 0.5, extent.bars());
        let share = (middle - self.span.middle()) / self.span.length();
        self.span = self.span.panned(share, self.bounds);
    }

    /// Marks a range by its ends, in place of the last one; marks with names stay.
    pub fn set_range(&mut self, a: f64, b: f64) {
        self.marks.retain(|mark| self.mark_names.contains_key(mark));
        self.marks.extend([TimeNs(a.min(b) as i64), TimeNs(a.max(b) as i64)]);
    }

    /// Shows the marked range alone; false without one.
    pub fn fit_range(&mut self) -> bool {
        let Some((from, to)) = self.marked_pair() else { return false };
        self.show(from, to);
        true
    }

    /// Selects the next item on the lane, or the one before, of the same kind: a kernel of the same name and layer's operator.
    pub fn step_alike(&mut self, scene: Scene<'_>, extent: Extent, is_forward: bool) -> bool {
        let Some(item) = self.selected else { return false };
        let Some(density) = scene.density(self.row()) else { return false };
        let (name, mut at) = (scene.name(item), scene.side(self.side).times(item));
        while let Some((start, end)) = at {
            let next = if is_forward { density.next(start.max(end - DurNs(1))) } else { density.previous(start) };
            let Some(next) = next else { return false };
            let found = Item::from_key(next.key);
            if scene.name(found) == name {
                self.select_in_row(scene, extent, found);
                return true;
            }
            at = Some((next.start, next.end));
        }
        false
    }

    /// Selects what is under the pointer.
    pub fn click(&mut self, scene: Scene<'_>, extent: Extent, x: u16, y: u16) {
        let Some((row, time, item)) = self.hit(scene, extent, x, y) else { return };
        if row.side == Side::Blank {
            return;
        }
        (self.depth, self.selected, self.is_at_idle) = (row.depth, item, item.is_none());
        self.lane = item.and_then(|item| scene.lane_of(item)).map_or(row.lane, |lane| lane.0 as usize);
        if row.fold.is_some() {
            self.lane = row.lane;
        }
        self.side = self.side_in(row);
        self.cursor = time;
    }

    /// The side that the cursor has in `row`: in one drawn once that which it had.
    fn side_in(&self, row: Row) -> Side {
        match row.side {
            Side::Measured | Side::Simulated => row.side,
            Side::Same if self.side == Side::Simulated => Side::Simulated,
            _ => Side::Measured,
        }
    }

    /// Folds or unfolds the lane of the cursor: threads of a rank into one row, a pair of rows into one.
    pub fn next_expansion(&mut self, scene: Scene<'_>) {
        let fold = fold_of(self, scene, self.lane).or_else(|| self.folds_into(scene, self.lane));
        if let Some(fold) = fold {
            self.toggle_fold(fold);
            self.selected = None;
            return;
        }
        let next = match self.expansion_of(self.lane) {
            Expansion::Collapsed => Expansion::Expanded,
            _ => Expansion::Collapsed,
        };
        self.expansions.insert(self.lane, next);
    }

    /// Unfolds the row of the cursor and brings what was folded into it on the screen; false when nothing is.
    pub fn unfold(&mut self, scene: Scene<'_>, extent: Extent) -> bool {
        let Some(fold) = fold_of(self, scene, self.lane) else { return false };
        self.toggle_fold(fold);
        let rank = scene.lane(self.lane).map(|lane| lane.rank);
        let rows = scene.rows(self, extent.rows());
        let is_its = |row: &Row| scene.lane(row.lane).map(|lane| lane.rank) == rank;
        if let (Some(first), Some(last)) = (rows.iter().position(is_its), rows.iter().rposition(is_its)) {
            // Behind the last of them stands how many rows are below.
            self.scroll = self.scroll.max((last + 2).saturating_sub(extent.rows())).min(first);
        }
        self.scroll_by(scene, extent, 0);
        true
    }

    /// Moves the lane of the cursor up or down among the lanes shown.
    pub fn move_lane(&mut self, scene: Scene<'_>, by: isize) {
        let shown = lanes(self, scene);
        let Some(at) = shown.iter().position(|&lane| lane == self.lane) else { return };
        let target = shown[at.saturating_add_signed(by).min(shown.len() - 1)];
        let place = |order: &[usize], lane: usize| order.iter().position(|&known| known == lane);
        let (Some(from), Some(to)) = (place(&self.order, self.lane), place(&self.order, target)) else { return };
        let lane = self.order.remove(from);
        self.order.insert(to, lane);
    }
}

fn same_side(shown: Side, side: Side) -> bool {
    shown == side || [Side::Both, Side::Same].contains(&shown)
}

/// The piece at `time`, else the nearer of its neighbours.
fn nearest(density: &Density, time: f64) -> Option<Interval> {
    let at = TimeNs(time as i64);
    let distance = |piece: &Interval| if piece.start > at { piece.start.since(at) } else { at.since(piece.end) };
    let neighbours = [density.previous(at), density.next(at)];
    density.at(at).or_else(|| neighbours.into_iter().flatten().min_by_key(distance))
}
