//! Tables of one operator, of which only sums are recorded: what a facts file tells of some leaves the rest to the others.

use std::ops::Range;

use crate::units::Bytes;

use super::{Table, TableFact};

/// How far figures that are told may add up beyond the recorded sum: they are rounded, and means of steps.
const ROUNDED: f64 = 0.01;

/// An entry of a facts file for the table at a position.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// Position of the entry, from 1.
    pub(super) entry: usize,
    /// Position of the table.
    pub(super) table: usize,
    /// What is told.
    pub(super) fact: TableFact,
}

/// The tables of each operator that serves several, by position: neighbours with equal figures.
pub(super) fn groups(tables: &[Table]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, table) in tables.iter().enumerate().filter(|(_, table)| table.is_mean) {
        match found.last_mut() {
            Some(group) if group.end == at && tables[group.start] == *table => group.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// Elements of the weights and look-ups per bag.
#[derive(Clone, Copy)]
enum Figure {
    Weights,
    Pooling,
}

impl Figure {
    const ALL: [(Self, &'static str); 2] = [(Self::Weights, "weights"), (Self::Pooling, "look-ups")];

    fn recorded(self, table: &Table) -> Option<f64> {
        match self {
            Self::Weights => Some(table.rows? as f64 * table.dim? as f64),
            Self::Pooling => table.pooling,
        }
    }

    fn told(self, fact: &TableFact, table: &Table) -> Option<f64> {
        match self {
            Self::Weights if fact.rows.is_none() && fact.dim.is_none() => None,
            Self::Weights => Some(fact.rows.or(table.rows)? as f64 * fact.dim.or(table.dim)? as f64),
            Self::Pooling => fact.pooling,
        }
    }

    fn forget(self, fact: &mut TableFact) {
        match self {
            Self::Weights => (fact.rows, fact.dim) = (None, None),
            Self::Pooling => fact.pooling = None,
        }
    }

    /// How far what is told may be beyond the recorded sum, as a share: the recorded mean of the dimensions has no fraction.
    fn slack(self, fact: &TableFact, table: &Table) -> f64 {
        match self {
            Self::Weights if fact.rows.is_none() => ROUNDED + 1.0 / table.dim.unwrap_or(1).max(1) as f64,
            Self::Weights | Self::Pooling => ROUNDED,
        }
    }

    /// The least that a table has.
    fn least(self, table: &Table) -> f64 {
        match self {
            Self::Weights => table.dim.unwrap_or(1) as f64,
            Self::Pooling => 0.0,
        }
    }
}

/// Takes out of `told` what is more than all tables of an operator have together, or of all of them less, and says so.
pub(super) fn without_excess(told: &mut [Told], tables: &[Table]) -> Vec<String> {
    let mut odd = Vec::new();
    for group in groups(tables) {
        let one = &tables[group.start];
        for (figure, name) in Figure::ALL {
            let Some(mean) = figure.recorded(one) else { continue };
            let sum = mean * group.len() as f64;
            let (mut used, mut others) = (0.0, group.len());
            for own in told.iter_mut().filter(|own| group.contains(&own.table)) {
                let Some(more) = figure.told(&own.fact, one) else { continue };
                let left = figure.least(one) * (others - 1) as f64;
                if used + more + left > (1.0 + figure.slack(&own.fact, one)) * sum {
                    let Told { entry, table, .. } = own;
                    let all = group.len();
                    odd.push(format!(
                        "entry {entry} of tables: the {name} of t{table} are more than the trace has of the {all} tables of its operator \
                         together, and are not taken"
                    ));
                    figure.forget(&mut own.fact);
                } else {
                    (used, others) = (used + more, others - 1);
                }
            }
            if others == 0 {
                odd.extend(without_shortfall(told, (&group, one), (figure, name), sum));
            }
        }
    }
    odd
}

/// Takes out of `told` what is told of every table of an operator and is less than the trace has of them together, `sum`, and says so.
fn without_shortfall(
    told: &mut [Told],
    (group, one): (&Range<usize>, &Table),
    (figure, name): (Figure, &str),
    sum: f64,
) -> Option<String> {
    let own = || told.iter().filter(|own| group.contains(&own.table));
    let used: f64 = own().filter_map(|own| figure.told(&own.fact, one)).sum();
    let slack = own().map(|own| figure.slack(&own.fact, one)).fold(ROUNDED, f64::max);
    if used >= (1.0 - slack) * sum {
        return None;
    }
    let entries: Vec<String> = own().map(|own| own.entry.to_string()).collect();
    told.iter_mut().filter(|own| group.contains(&own.table)).for_each(|own| figure.forget(&mut own.fact));
    let (entries, all) = (entries.join(", "), group.len());
    Some(format!(
        "entries {entries} of tables: the {name} are less than the trace has of the {all} tables of their operator together, and are not taken"
    ))
}

/// Shares what `told` leaves of each recorded sum among the tables of which it was not told.
///
/// # Arguments
/// `recorded`: the tables as the trace has them; `tables`: the same with what was told.
pub(super) fn share_rest(told: &[Told], recorded: &[Table], tables: &mut [Table]) {
    for group in groups(recorded) {
        let one = &recorded[group.start];
        for (figure, _) in Figure::ALL {
            let own: Vec<(usize, f64)> = told
                .iter()
                .filter(|own| group.contains(&own.table))
                .filter_map(|own| Some((own.table, figure.told(&own.fact, one)?)))
                .collect();
            let others = group.len() - own.len();
            let Some(mean) = figure.recorded(one).filter(|_| !own.is_empty() && others > 0) else { continue };
            let used: f64 = own.iter().map(|(_, told)| told).sum();
            let each = ((mean * group.len() as f64 - used) / others as f64).max(figure.least(one));
            for at in group.clone().filter(|at| own.iter().all(|(told, _)| told != at)) {
                set(&mut tables[at], figure, each);
            }
        }
    }
}

fn set(table: &mut Table, figure: Figure, value: f64) {
    match figure {
        Figure::Pooling => table.pooling = Some(value),
        Figure::Weights => {
            let (before, dim) = (table.rows.unwrap_or(1).max(1), table.dim.unwrap_or(1).max(1));
            let rows = (value / dim as f64).round().max(1.0);
            table.bytes = table.bytes.map(|bytes| Bytes((bytes.0 as f64 * rows / before as f64).round() as u64));
            table.rows = Some(rows as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Reuse;
    use crate::units::DurNs;

    fn three() -> Vec<Table> {
        let table = Table {
            rank: 0,
            rows: Some(1000),
            dim: Some(64),
            pooling: Some(20.0),
            batch: Some(32),
            bytes: Some(Bytes(256_000)),
            forward: DurNs(10),
            backward: DurNs(10),
            is_mean: true,
            replicated: false,
            reuse: Reuse::Uniform,
        };
        vec![table; 3]
    }

    fn told(table: usize, rows: Option<u64>, pooling: Option<f64>) -> Told {
        Told { entry: table + 1, table, fact: TableFact { rows, pooling, ..TableFact::default() } }
    }

    #[test]
    fn what_is_told_of_one_leaves_the_rest_of_the_sum_to_the_others() {
        let (recorded, mut tables) = (three(), three());
        let told = [told(0, Some(100), Some(45.0))];
        share_rest(&told, &recorded, &mut tables);
        let shown: Vec<_> = tables[1..].iter().map(|table| (table.rows, table.pooling, table.bytes)).collect();
        assert_eq!(shown, [(Some(1450), Some(7.5), Some(Bytes(371_200))); 2]);
    }

    #[test]
    fn a_dimension_alone_tells_of_weights_too() {
        let with = |dim: u64| {
            let mut told = [told(0, None, None)];
            told[0].fact.dim = Some(dim);
            (without_excess(&mut told, &three()).len(), told[0].fact.dim)
        };
        assert_eq!((with(128), with(16_384)), ((0, Some(128)), (1, None)));
    }

    #[test]
    fn less_than_the_sum_of_all_tables_is_not_taken() {
        let of = |rows: [Option<u64>; 3]| {
            let mut all: Vec<Told> = (0..3).map(|at| told(at, rows[at], None)).collect();
            let odd = without_excess(&mut all, &three());
            (odd, all.iter().filter(|one| one.fact.rows.is_some()).count())
        };
        let (odd, taken) = of([Some(100); 3]);
        assert!(taken == 0 && odd.len() == 1, "{odd:?}");
        assert!(odd[0].starts_with("entries 1, 2, 3 of tables: the weights are less than the trace has"), "{odd:?}");
        assert_eq!(of([Some(100), Some(100), Some(2790)]), (Vec::new(), 3));
        assert_eq!(of([Some(100), Some(100), None]), (Vec::new(), 2), "the third has the rest");
    }

    #[test]
    fn more_than_the_sum_is_not_taken() {
        let mut beyond = [told(0, Some(3500), Some(20.0)), told(1, Some(2000), Some(50.0))];
        let odd = without_excess(&mut beyond, &three());
        assert_eq!((odd.len(), beyond[0].fact.rows, beyond[1].fact.rows), (2, None, Some(2000)));
        assert_eq!((beyond[0].fact.pooling, beyond[1].fact.pooling), (Some(20.0), None));
        assert!(
            odd[0].starts_with("entry 1 of tables: the weights of t0 are more than the trace has of the 3"),
            "{odd:?}"
        );
    }
}
