//! What the streams do in a part of time: by family, and the kernels that take most of it.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::tui::theme::Paint;
use retime_core::units::{DurNs, TimeNs};

use super::density::DensityIndex;
use super::item::Item;
use super::scene::Scene;

/// Pieces of work that are summed; more take too long for a key.
const MOST: usize = 200_000;

/// Kernels of one name in a part of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InRange {
    /// The first of them.
    pub item: Item,
    /// How many.
    pub count: usize,
    /// What they take of it.
    pub time: DurNs,
}

/// The sums of one side, the most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideSums {
    /// By family.
    pub families: Vec<(Paint, DurNs)>,
    /// By kernel.
    pub kernels: Vec<InRange>,
}

impl SideSums {
    /// All of it.
    pub fn total(&self) -> DurNs {
        self.families.iter().map(|&(_, time)| time).sum()
    }

    /// What a family takes.
    pub fn of(&self, paint: Paint) -> DurNs {
        self.families.iter().find(|(known, _)| *known == paint).map_or(DurNs::ZERO, |&(_, time)| time)
    }
}

/// The sums of `range` over all streams, measured and simulated; `None` where there is too much in it.
///
/// # Complexity
/// O(n log n) in the pieces of work in the range.
pub fn sums(scene: Scene<'_>, range: &Range<TimeNs>) -> Option<[SideSums; 2]> {
    let [measured, simulated] = scene.densities().map(|density| of_side(scene, density, range));
    Some([measured?, simulated?])
}

fn of_side(scene: Scene<'_>, density: &DensityIndex, range: &Range<TimeNs>) -> Option<SideSums> {
    let mut families: FxHashMap<Paint, DurNs> = FxHashMap::default();
    let mut kernels: FxHashMap<&str, InRange> = FxHashMap::default();
    let mut left = MOST;
    for lane in (0..density.lanes.len()).filter(|&lane| scene.is_stream(lane)) {
        let Some(row) = density.lanes[lane].rows.first() else { continue };
        let mut piece = row.at(range.start).or_else(|| row.next(range.start));
        while let Some(found) = piece.filter(|found| found.start < range.end) {
            left = left.checked_sub(1)?;
            let (item, time) =
                (Item::from_key(found.key), found.end.min(range.end).since(found.start.max(range.start)));
            *families.entry(scene.paint(item)).or_default() += time;
            let none = InRange { item, count: 0, time: DurNs::ZERO };
            let sum = kernels.entry(scene.name(item)).or_insert(none);
            (sum.count, sum.time) = (sum.count + 1, sum.time + time);
            piece = row.next(found.start);
        }
    }
    let mut families: Vec<(Paint, DurNs)> = families.into_iter().collect();
    families.sort_by_key(|&(paint, time)| (std::cmp::Reverse(time), paint));
    let mut kernels: Vec<(&str, InRange)> = kernels.into_iter().collect();
    kernels.sort_by_key(|&(name, sum)| (std::cmp::Reverse(sum.time), name));
    Some(SideSums { families, kernels: kernels.into_iter().map(|(_, sum)| sum).collect() })
}
