//! Any number of sides in columns, each held against one of them.

use std::sync::Arc;

use serde::Serialize;

use retime_core::analysis::profile::{Named, Place, Spent};

use super::{Difference, Score, Side, SideFigures};

/// A side with how it differs from the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// What is said of it.
    #[serde(flatten)]
    pub figures: SideFigures,
    /// This minus the reference, of which `a-faster` says that it is faster; `None` for the reference.
    pub difference: Option<Difference>,
    /// The same per sample, where batches differ.
    pub per_sample: Option<Difference>,
    /// What this predicted, where the reference was measured on another trace; or what the reference predicted of this.
    pub score: Option<Score>,
}

/// An operator or a kind in every column; `None` where it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonTableRow {
    /// The operator, or the kind.
    pub name: String,
    /// Where its time is spent, for a kind.
    pub place: Option<Place>,
    /// One per column.
    pub cells: Vec<Option<Named>>,
}

/// Sides in columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonTable {
    /// The columns.
    pub columns: Vec<Column>,
    /// Which of them the others are held against.
    pub reference: usize,
    /// By operator.
    pub operators: Vec<ComparisonTableRow>,
    /// By kind, by place.
    pub kinds: Vec<ComparisonTableRow>,
    /// Whether any work of any column ran on a device.
    pub has_device: bool,
}

impl ComparisonTable {
    /// Holds all sides against the one at `reference`, or the first.
    ///
    /// # Complexity
    /// O(names · sides · log).
    pub fn of(sides: &[Arc<Side>], reference: usize) -> Self {
        let reference = if reference < sides.len() { reference } else { 0 };
        let Some(against) = sides.get(reference) else { return Self::default() };
        let column = |(index, side): (usize, &Arc<Side>)| {
            let is_other = index != reference;
            Column {
                figures: side.figures.clone(),
                difference: is_other.then(|| against.against(side)),
                per_sample: against.per_sample(side).filter(|_| is_other),
                score: Score::of(side, against).or_else(|| Score::of(against, side)).filter(|_| is_other),
            }
        };
        Self {
            columns: sides.iter().enumerate().map(column).collect(),
            reference,
            operators: operators(sides),
            kinds: kinds(sides),
            has_device: sides.iter().any(|side| side.profile.has_device()),
        }
    }
}

fn operators(sides: &[Arc<Side>]) -> Vec<ComparisonTableRow> {
    let mut names: Vec<&String> = sides.iter().flat_map(|side| side.profile.by_name.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &String| ComparisonTableRow {
        name: name.clone(),
        place: None,
        cells: sides.iter().map(|side| side.profile.by_name.get(name).copied()).collect(),
    };
    names.into_iter().map(row).collect()
}

fn kinds(sides: &[Arc<Side>]) -> Vec<ComparisonTableRow> {
    let mut keys: Vec<(Place, &'static str)> =
        sides.iter().flat_map(|side| side.profile.by_kind.keys().copied()).collect();
    keys.sort_unstable();
    keys.dedup();
    let named = |spent: &Spent| Named { spent: *spent, count: 0 };
    let row = |key: (Place, &'static str)| ComparisonTableRow {
        name: key.1.to_owned(),
        place: Some(key.0),
        cells: sides.iter().map(|side| side.profile.by_kind.get(&key).map(named)).collect(),
    };
    keys.into_iter().map(row).collect()
}
