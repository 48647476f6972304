//! Which rows the timeline has: lanes, depths and sides, as many as there is room for.
//!
//! Devices come first and tall; the host threads of a rank are one row until they are unfolded, and of many ranks each is one.

use retime_core::graph::LaneKind;

use super::scene::Scene;
use super::state::{Expansion, Timeline};

/// Measured, simulated, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// As the trace has it.
    Measured,
    /// As the scenario gives.
    Simulated,
    /// Drawn once: nothing to be seen is different.
    Same,
    /// Upper half measured, lower half simulated.
    Both,
    /// Nothing: room between lanes.
    Blank,
}

/// Several lanes in one row; ranks by their place in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fold {
    /// The host threads of a rank.
    Hosts(usize),
    /// All streams of a rank.
    Rank(usize),
}

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the lane in the graph; of a fold its first.
    pub lane: usize,
    /// Depth within the lane.
    pub depth: usize,
    /// Which times.
    pub side: Side,
    /// Which row of those that a tall lane takes.
    pub line: u16,
    /// What is folded into it.
    pub fold: Option<Fold>,
    /// How many rows it takes.
    pub lines: u16,
}

impl Row {
    /// Whether it is the last row of a tall lane.
    pub fn is_last(&self) -> bool {
        self.line + 1 == self.lines
    }
}

/// Lanes that are drawn as one.
#[derive(Clone, Copy, Debug)]
struct Strip {
    lane: usize,
    depth: usize,
    fold: Option<Fold>,
    is_device: bool,
    is_pair: bool,
}

/// Most rows of nested operators that open by themselves.
const MOST_DEPTHS: usize = 8;
/// Rows of a device lane, the most that there is room for.
const TALL: [u16; 3] = [3, 2, 1];

/// The lanes in the order shown: pinned first; those without work in the iteration and hidden ones left out.
pub fn lanes(state: &Timeline, scene: Scene<'_>) -> Vec<usize> {
    let is_pinned = |lane: &usize| state.pinned.contains(lane);
    let shown = |lane: &usize| {
        scene.is_drawn(*lane) && !state.hidden.contains(lane) && (scene.is_busy(*lane) || is_pinned(lane))
    };
    let known = scene.graph.lanes.len();
    let all = state.order.iter().copied().chain(known..known + scene.resolved.added_lanes.len());
    let (mut pinned, rest): (Vec<usize>, Vec<usize>) = all.filter(shown).partition(is_pinned);
    pinned.extend(rest);
    pinned
}

/// What `lane` is folded into now.
pub fn fold_of(state: &Timeline, scene: Scene<'_>, lane: usize) -> Option<Fold> {
    let shown = scene.lane(lane)?;
    let place = scene.graph.place_of(shown.rank)?;
    let is_thread = matches!(shown.kind, LaneKind::Thread { .. });
    let folds = [Some(Fold::Rank(place)), is_thread.then_some(Fold::Hosts(place))];
    folds.into_iter().flatten().find(|&fold| state.is_folded(scene, fold))
}

fn strips(state: &Timeline, scene: Scene<'_>) -> Vec<Strip> {
    let mut strips: Vec<Strip> = Vec::new();
    for lane in lanes(state, scene) {
        let fold = fold_of(state, scene, lane);
        let is_pair = scene.is_edited && scene.simulated.changed.get(lane).copied().unwrap_or(false);
        let known = strips.iter_mut().find(|strip| fold.is_some() && strip.fold == fold);
        if let Some(strip) = known {
            strip.is_pair |= is_pair;
            continue;
        }
        let is_device = scene.is_stream(lane) || matches!(fold, Some(Fold::Rank(_)));
        let depth = if fold.is_some() { 1 } else { depth_of(scene, lane) };
        strips.push(Strip { lane, depth, fold, is_device, is_pair });
    }
    strips
}

/// How many nested rows a lane has.
fn depth_of(scene: Scene<'_>, lane: usize) -> usize {
    let depth = |density: &super::density::DensityIndex| {
        let rows = density.lanes.get(lane).map_or(&[][..], |lane| &lane.rows);
        rows.iter().rposition(|row| row.span().is_some()).map_or(0, |last| last + 1)
    };
    scene.densities().map(depth).into_iter().max().unwrap_or(0)
}

/// All rows; devices as tall and nested operators as deep as `height` allows.
pub fn rows(state: &Timeline, scene: Scene<'_>, height: usize) -> Vec<Row> {
    let strips = strips(state, scene);
    let sizes = TALL.into_iter().flat_map(|tall| (1..=MOST_DEPTHS).rev().map(move |most| (tall, most)));
    // Depth gives way before height does, but for the third row.
    let mut sizes: Vec<(u16, usize)> = sizes.filter(|&(tall, most)| tall < 3 || most >= 4).collect();
    sizes.push((1, 1));
    let count =
        |(tall, most): (u16, usize)| strips.iter().map(|strip| rows_of(state, *strip, tall, most)).sum::<usize>();
    let size = sizes.into_iter().find(|&size| count(size) <= height).unwrap_or((1, 1));
    let mut rows = Vec::with_capacity(count(size));
    for &strip in &strips {
        push(&mut rows, state, strip, size);
    }
    if rows.len() + strips.len() <= height { spaced(&rows) } else { rows }
}

/// The rows with a blank one between lanes.
fn spaced(rows: &[Row]) -> Vec<Row> {
    let mut apart: Vec<Row> = Vec::with_capacity(rows.len() * 2);
    for &row in rows {
        if let Some(last) = apart.last().copied().filter(|last| last.lane != row.lane) {
            apart.push(Row { side: Side::Blank, ..last });
        }
        apart.push(row);
    }
    apart
}

fn sides(state: &Timeline, strip: Strip) -> &'static [Side] {
    match (strip.is_pair, state.expansion_of(strip.lane)) {
        (false, _) => &[Side::Same],
        (true, Expansion::Collapsed) => &[Side::Both],
        (true, _) => &[Side::Measured, Side::Simulated],
    }
}

/// Rows of one side: of a device that many times the same, of a thread its depths.
fn height_of(state: &Timeline, strip: Strip, tall: u16, most: usize) -> (u16, usize) {
    match (state.expansion_of(strip.lane), strip.is_device) {
        (Expansion::Collapsed, _) => (1, 1),
        (_, true) => (tall, 1),
        (Expansion::Auto, false) => (1, strip.depth.min(most)),
        (Expansion::Expanded, false) => (1, strip.depth),
    }
}

fn rows_of(state: &Timeline, strip: Strip, tall: u16, most: usize) -> usize {
    let (lines, depths) = height_of(state, strip, tall, most);
    sides(state, strip).len() * lines as usize * depths
}

fn push(rows: &mut Vec<Row>, state: &Timeline, strip: Strip, (tall, most): (u16, usize)) {
    let (lines, depths) = height_of(state, strip, tall, most);
    for &side in sides(state, strip) {
        for depth in 0..depths {
            let row = Row { lane: strip.lane, depth, side, line: 0, lines, fold: strip.fold };
            rows.extend((0..lines).map(|line| Row { line, ..row }));
        }
    }
}
