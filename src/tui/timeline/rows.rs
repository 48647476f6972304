//! Which rows the timeline has: lanes, depths and sides, as many as there is room for.

use super::density::DensityIndex;
use super::scene::Scene;
use super::state::{Expansion, Timeline};

/// Measured, simulated, or both in one row of half blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// As the trace has it.
    Measured,
    /// As the scenario gives.
    Simulated,
    /// Upper half measured, lower half simulated.
    Both,
    /// Nothing: room between lanes.
    Blank,
}

/// A row of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the lane in the graph.
    pub lane: usize,
    /// Depth within the lane.
    pub depth: usize,
    /// Which times.
    pub side: Side,
}

/// Most rows of nested operators that open by themselves.
const MOST_DEPTHS: usize = 8;

/// The lanes in the order shown: pinned first, those without any work and hidden ones left out.
pub fn lanes(state: &Timeline, scene: Scene<'_>) -> Vec<usize> {
    let shown =
        |&lane: &usize| scene.is_drawn(lane) && depth_of(scene.densities(), lane) > 0 && !state.hidden.contains(&lane);
    let known = scene.graph.lanes.len();
    let all = state.order.iter().copied().chain(known..known + scene.resolved.added_lanes.len());
    let (mut pinned, rest): (Vec<usize>, Vec<usize>) = all.filter(shown).partition(|lane| state.pinned.contains(lane));
    pinned.extend(rest);
    pinned
}

/// How many nested rows a lane has.
fn depth_of(densities: [&DensityIndex; 2], lane: usize) -> usize {
    let depth = |density: &DensityIndex| {
        let rows = density.lanes.get(lane).map_or(&[][..], |lane| &lane.rows);
        rows.iter().rposition(|row| row.span().is_some()).map_or(0, |last| last + 1)
    };
    densities.map(depth).into_iter().max().unwrap_or(0)
}

/// All rows; nested operators open as far as `height` allows.
pub fn rows(state: &Timeline, scene: Scene<'_>, height: usize) -> Vec<Row> {
    let densities = scene.densities();
    let lanes = lanes(state, scene);
    let depths: Vec<usize> = lanes.iter().map(|&lane| depth_of(densities, lane)).collect();
    let count = |most: usize| -> usize {
        lanes.iter().zip(&depths).map(|(&lane, &depth)| rows_of(state, lane, depth, most)).sum()
    };
    let most = (1..=MOST_DEPTHS).rev().find(|&most| count(most) <= height).unwrap_or(1);
    let mut rows = Vec::with_capacity(count(most));
    for (&lane, &depth) in lanes.iter().zip(&depths) {
        push_lane(&mut rows, state, lane, depth, most);
    }
    if rows.len() + lanes.len() <= height { spaced(&rows) } else { rows }
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

fn open_depth(expansion: Expansion, depth: usize, most: usize) -> usize {
    match expansion {
        Expansion::Collapsed => 1,
        Expansion::Auto => depth.min(most),
        Expansion::Expanded => depth,
    }
}

fn rows_of(state: &Timeline, lane: usize, depth: usize, most: usize) -> usize {
    let expansion = state.expansion_of(lane);
    if expansion == Expansion::Collapsed { 1 } else { 2 * open_depth(expansion, depth, most) }
}

fn push_lane(rows: &mut Vec<Row>, state: &Timeline, lane: usize, depth: usize, most: usize) {
    let expansion = state.expansion_of(lane);
    if expansion == Expansion::Collapsed {
        rows.push(Row { lane, depth: 0, side: Side::Both });
        return;
    }
    for side in [Side::Measured, Side::Simulated] {
        rows.extend((0..open_depth(expansion, depth, most)).map(|depth| Row { lane, depth, side }));
    }
}
