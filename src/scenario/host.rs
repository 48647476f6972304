//! The host of a trace without device work, as a cost model fitted to the trace itself.
//!
//! `t = dispatch + a·FLOP` for products, `t = dispatch + b·bytes` for lookups and, with another `b`, for everything else.
//! It only ever supplies ratios between two sizes of one operator (anchored predictions).

use rustc_hash::FxHashMap;

use crate::cost::{Estimate, Family, Work};
use crate::graph::{ExecutionGraph, NodeId, OperatorId, TaskKind};
use crate::units::DurNs;

use super::sparse;
use super::works::{Classifier, Overrides, names_by_forward};

/// Fitted costs of host computations.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    /// Cost of an operator that does next to nothing, in seconds.
    dispatch_s: f64,
    /// Seconds per FLOP and per byte, by [`Group`].
    groups: [PerUnit; 3],
}

/// Seconds per FLOP and per byte.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PerUnit {
    flop: f64,
    byte: f64,
}

/// Kinds of computations that are bound alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Product,
    Lookup,
    Stream,
}

impl Group {
    fn of(work: &Work) -> Self {
        match work.family {
            Family::Gemm | Family::Conv | Family::Attention => Self::Product,
            Family::Embedding => Self::Lookup,
            _ => Self::Stream,
        }
    }
}

/// Traffic of the largest operator that is nothing but dispatch.
const SMALL_BYTES: u64 = 1 << 12;
/// Arithmetic of the largest operator that is nothing but dispatch.
const SMALL_FLOP: f64 = 1e4;
/// Dispatch where nothing small was traced, in seconds.
const USUAL_DISPATCH_S: f64 = 2e-6;
/// Relative error stated: geometric mean of iterations predicted between batches ×4 to ×16 apart, on our own captures.
const ERROR: f32 = 0.25;

impl HostModel {
    /// The model that fits the host computations of `graph`; `None` when there are none whose work is known.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn fit(graph: &ExecutionGraph) -> Option<Self> {
        let measured = computations(graph);
        if measured.is_empty() {
            return None;
        }
        let is_small = |work: &Work| work.bytes().0 <= SMALL_BYTES && work.flop.0 <= SMALL_FLOP;
        let mut small: Vec<f64> = measured.iter().filter(|(work, _)| is_small(work)).map(|&(_, s)| s).collect();
        small.sort_by(f64::total_cmp);
        let dispatch_s = small.get(small.len() / 2).copied().unwrap_or(USUAL_DISPATCH_S);
        let groups = [Group::Product, Group::Lookup, Group::Stream].map(|group| {
            let rows = measured.iter().filter(|(work, _)| Group::of(work) == group && !is_small(work));
            let rest = |seconds: f64| (seconds - dispatch_s).max(0.0);
            if group == Group::Product {
                PerUnit { flop: per_unit(rows.map(|(work, s)| (work.flop.0, rest(*s)))), byte: 0.0 }
            } else {
                PerUnit { flop: 0.0, byte: per_unit(rows.map(|(work, s)| (work.bytes().0 as f64, rest(*s)))) }
            }
        });
        Some(Self { dispatch_s, groups })
    }

    /// The time of `work`.
    pub fn estimate(&self, work: &Work) -> Estimate {
        let PerUnit { flop, byte } = self.groups[Group::of(work) as usize];
        let seconds = self.dispatch_s + flop * work.flop.0 + byte * work.bytes().0 as f64;
        Estimate { duration: DurNs::from_secs_f64(seconds), model: "host-fit", error: ERROR, extrapolated: false }
    }
}

/// The median time per unit, each row weighted by its time: rows that claim much and take little do not count.
fn per_unit(rows: impl Iterator<Item = (f64, f64)>) -> f64 {
    let mut rows: Vec<(f64, f64)> =
        rows.filter(|&(units, _)| units > 0.0).map(|(units, seconds)| (seconds / units, seconds)).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = rows.iter().map(|row| row.1).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    for (each, seconds) in rows {
        passed += seconds;
        if passed >= half {
            return each;
        }
    }
    0.0
}

/// Work and seconds of the host computations whose work is known, by operator: its stretches share its work.
fn computations(graph: &ExecutionGraph) -> Vec<(Work, f64)> {
    let (overrides, by_forward) = (Overrides::default(), names_by_forward(graph));
    let mut classifier = Classifier::new(graph, &overrides, &by_forward, 0);
    let updates: FxHashMap<NodeId, Work> = sparse::updates(graph).collect();
    let mut place: FxHashMap<OperatorId, usize> = FxHashMap::default();
    let mut found: Vec<(Work, f64)> = Vec::new();
    for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Compute) {
        let (task, class) = (&graph.tasks[node], classifier.class(node));
        if let Some(&place) = task.operator.and_then(|operator| place.get(&operator)) {
            found[place].1 += task.duration.secs();
            continue;
        }
        let by_arguments = || classifier.classes.get(class as usize).and_then(|class| class.work.clone());
        if let Some(work) = updates.get(&node).cloned().or_else(by_arguments) {
            task.operator.map(|operator| place.insert(operator, found.len()));
            found.push((work, task.duration.secs()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::per_unit;

    #[test]
    fn the_fit_is_the_rate_of_what_takes_the_time() {
        let rows = [(1e6, 1.0), (2e6, 2.0), (3e6, 3.0), (1e12, 1e-3), (2e6, 4.0)];
        assert!((per_unit(rows.into_iter()) - 1e-6).abs() < 1e-12);
        assert!(per_unit(std::iter::empty()).abs() < 1e-12);
    }
}
