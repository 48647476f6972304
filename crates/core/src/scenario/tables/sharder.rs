//! Sharders: from the sizes of tables to the rank of each [Lin 2024 §V-B].

use super::Table;

/// A rule that gives each table a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharder {
    /// Tables dealt in their order: the rank is the table's number modulo the ranks.
    Naive,
    /// Tables dealt in an order drawn from a seed.
    Random(u64),
    /// Cost of a table: rows `E`.
    SizeGreedy,
    /// Cost of a table: elements read per bag `L·D`.
    LookupGreedy,
    /// Cost of a table: look-ups per row `L/E`.
    NormLookupGreedy,
    /// Cost of a table: `L·D·log₁₀ E`.
    SizeLookupGreedy,
}

impl Sharder {
    /// All, with seed 0.
    pub const ALL: [Self; 6] = [
        Self::Naive,
        Self::Random(0),
        Self::SizeGreedy,
        Self::LookupGreedy,
        Self::NormLookupGreedy,
        Self::SizeLookupGreedy,
    ];

    /// Its name, with the seed where that is not 0.
    pub fn name(self) -> String {
        match self {
            Self::Naive => "naive".to_owned(),
            Self::Random(0) => "random".to_owned(),
            Self::Random(seed) => format!("random({seed})"),
            Self::SizeGreedy => "size_greedy".to_owned(),
            Self::LookupGreedy => "lookup_greedy".to_owned(),
            Self::NormLookupGreedy => "norm_lookup_greedy".to_owned(),
            Self::SizeLookupGreedy => "size_lookup_greedy".to_owned(),
        }
    }

    /// The sharder of that name.
    pub fn parse(text: &str) -> Option<Self> {
        let seed = text.strip_prefix("random(").and_then(|rest| rest.strip_suffix(')'));
        match seed {
            Some(seed) => seed.parse().ok().map(Self::Random),
            None => Self::ALL.into_iter().find(|sharder| sharder.name() == text),
        }
    }

    /// A rank of `ranks` for each of `tables`; `None` when a size it goes by is not known, or there is no rank to place them on.
    pub fn place(self, tables: &[Table], ranks: &[usize]) -> Option<Vec<usize>> {
        if ranks.is_empty() {
            return None;
        }
        let count = ranks.len();
        match self {
            Self::Naive => Some((0..tables.len()).map(|at| ranks[at % count]).collect()),
            Self::Random(seed) => {
                let order = shuffled(tables.len(), seed);
                let mut placed = vec![0; tables.len()];
                for (turn, table) in order.into_iter().enumerate() {
                    placed[table] = ranks[turn % count];
                }
                Some(placed)
            }
            _ => {
                let costs: Option<Vec<f64>> = tables.iter().map(|table| self.cost(table)).collect();
                Some(greedy(&costs?, ranks))
            }
        }
    }

    fn cost(self, table: &Table) -> Option<f64> {
        let sizes = table.sizes()?;
        Some(match self {
            Self::Naive | Self::Random(_) => 1.0,
            Self::SizeGreedy => sizes.rows,
            Self::LookupGreedy => sizes.pooling * sizes.dim,
            Self::NormLookupGreedy => sizes.pooling / sizes.rows,
            Self::SizeLookupGreedy => sizes.pooling * sizes.dim * sizes.rows.log10(),
        })
    }
}

/// The costliest table first, each to the rank with the least so far.
fn greedy(costs: &[f64], ranks: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by(|&a, &b| costs[b].total_cmp(&costs[a]).then(a.cmp(&b)));
    let mut loads = vec![0.0; ranks.len()];
    let mut placed = vec![0; costs.len()];
    for table in order {
        let least = (0..loads.len()).min_by(|&a, &b| f64::total_cmp(&loads[a], &loads[b])).unwrap_or(0);
        loads[least] += costs[table];
        placed[table] = ranks[least];
    }
    placed
}

/// `0..count` in an order drawn from `seed`: Fisher–Yates over a linear congruential sequence (Knuth's MMIX constants).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for last in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::DurNs;

    fn table(rows: u64, dim: u64, pooling: f64) -> Table {
        Table {
            rank: 0,
            rows: Some(rows),
            dim: Some(dim),
            pooling: Some(pooling),
            batch: Some(8),
            bytes: None,
            forward: DurNs(0),
            backward: DurNs(0),
            is_mean: false,
            replicated: false,
            reuse: crate::cost::Reuse::Uniform,
        }
    }

    #[test]
    fn without_ranks_nothing_is_placed() {
        assert!(Sharder::ALL.into_iter().all(|sharder| sharder.place(&[], &[]).is_none()));
    }

    #[test]
    fn each_greedy_sharder_goes_by_its_own_cost() {
        let tables = [table(10, 8, 30.0), table(1_000_000, 16, 1.0), table(1000, 64, 4.0), table(100, 8, 1.0)];
        let place = |sharder: Sharder| sharder.place(&tables, &[0, 1]).unwrap();
        assert_eq!(place(Sharder::SizeGreedy), [1, 0, 1, 1]);
        // L·D: 240, 16, 256, 8; equal loads go to the first rank.
        assert_eq!(place(Sharder::LookupGreedy), [1, 1, 0, 0]);
        assert_eq!(place(Sharder::NormLookupGreedy), [0, 1, 1, 1]);
        // L·D·log₁₀E: 240, 96, 768, 16.
        assert_eq!(place(Sharder::SizeLookupGreedy), [1, 1, 0, 1]);
        assert_eq!(place(Sharder::Naive), [0, 1, 0, 1]);
    }

    #[test]
    fn random_plans_repeat_with_their_seed_and_deal_equal_counts() {
        let tables = vec![table(10, 8, 3.0); 40];
        let place = |seed| Sharder::Random(seed).place(&tables, &[0, 1, 2, 3]).unwrap();
        assert_eq!(place(7), place(7));
        assert_ne!(place(7), place(8));
        assert!((0..4).all(|rank| place(7).iter().filter(|&&placed| placed == rank).count() == 10));
    }

    #[test]
    fn unknown_sizes_leave_greedy_sharders_without_a_plan() {
        let unknown = Table { rows: None, ..table(1, 1, 1.0) };
        assert_eq!(Sharder::SizeGreedy.place(std::slice::from_ref(&unknown), &[0, 1]), None);
        assert_eq!(Sharder::Naive.place(&[unknown], &[0, 1]), Some(vec![0]));
    }

    #[test]
    fn names_are_read_back() {
        for sharder in Sharder::ALL.into_iter().chain([Sharder::Random(9)]) {
            assert_eq!(Sharder::parse(&sharder.name()), Some(sharder));
        }
        assert_eq!(Sharder::parse("random(x)"), None);
    }
}
