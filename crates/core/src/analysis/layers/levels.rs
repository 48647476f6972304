//! What each level of profiling costs, where runs at several levels are given [Li 2019 §3.2].

use std::collections::BTreeMap;

use serde::Serialize;

use super::trimmed_mean;
use crate::units::DurNs;

/// What a profiler recorded of a run. Ordered by depth: what goes deeper is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a set of things that are recorded or not")]
pub struct Recorded {
    /// Device kernels.
    pub kernels: bool,
    /// Operators.
    pub operators: bool,
    /// Shapes of their tensors.
    pub shapes: bool,
    /// Allocations.
    pub memory: bool,
    /// Python frames or stacks.
    pub stacks: bool,
}

impl Recorded {
    /// `model`, `model+operators+kernels` …
    pub fn name(self) -> String {
        let parts = [
            (self.operators, "+operators"),
            (self.kernels, "+kernels"),
            (self.shapes, "+shapes"),
            (self.memory, "+memory"),
            (self.stacks, "+stacks"),
        ];
        parts.into_iter().filter(|(is, _)| *is).fold("model".to_owned(), |name, (_, part)| name + part)
    }

    /// Whether everything that `other` recorded was, and more.
    fn exceeds(self, other: Self) -> bool {
        let parts = |it: Self| [it.kernels, it.operators, it.shapes, it.memory, it.stacks];
        self != other && parts(self).iter().zip(parts(other)).all(|(own, others)| *own >= others)
    }
}

/// Runs at one level of profiling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelRow {
    /// What was recorded.
    pub level: String,
    /// How many runs.
    pub runs: usize,
    /// Their trimmed mean.
    pub latency_ns: DurNs,
    /// The deepest other level that recorded less; `None` for the first.
    pub above: Option<String>,
    /// What this level takes longer than that one.
    pub overhead_ns: Option<DurNs>,
}

/// One row per level among `runs`, each with the time of its iteration, in order of depth.
pub fn levels(runs: &[(Recorded, DurNs)]) -> Vec<LevelRow> {
    let mut by_level: BTreeMap<Recorded, Vec<DurNs>> = BTreeMap::new();
    for &(recorded, latency) in runs {
        by_level.entry(recorded).or_default().push(latency);
    }
    let means: Vec<(Recorded, usize, DurNs)> =
        by_level.into_iter().map(|(recorded, times)| (recorded, times.len(), trimmed_mean(times))).collect();
    let row = |&(recorded, count, latency): &(Recorded, usize, DurNs)| {
        let above = means.iter().rev().find(|(other, ..)| recorded.exceeds(*other));
        LevelRow {
            level: recorded.name(),
            runs: count,
            latency_ns: latency,
            above: above.map(|(other, ..)| other.name()),
            overhead_ns: above.map(|(_, _, less)| latency - *less),
        }
    };
    means.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_costs_what_it_adds_to_the_one_above() {
        let model = Recorded::default();
        let operators = Recorded { operators: true, ..model };
        let kernels = Recorded { kernels: true, ..operators };
        let runs = [(kernels, 900), (model, 100), (operators, 150), (operators, 170), (model, 104), (model, 500)];
        let rows = levels(&runs.map(|(level, ns)| (level, DurNs(ns))));
        let found: Vec<_> = rows.iter().map(|row| (row.level.as_str(), row.runs, row.latency_ns.0)).collect();
        assert_eq!(found, [("model", 3, 104), ("model+operators", 2, 160), ("model+operators+kernels", 1, 900)]);
        assert_eq!(
            rows.iter().map(|row| row.overhead_ns.map(|ns| ns.0)).collect::<Vec<_>>(),
            [None, Some(56), Some(740)]
        );
    }

    #[test]
    fn levels_of_which_neither_contains_the_other_are_not_compared() {
        let shapes = Recorded { operators: true, shapes: true, ..Recorded::default() };
        let stacks = Recorded { operators: true, stacks: true, ..Recorded::default() };
        let rows = levels(&[(shapes, DurNs(5)), (stacks, DurNs(9))]);
        assert!(rows.iter().all(|row| row.overhead_ns.is_none()), "{rows:?}");
    }
}
