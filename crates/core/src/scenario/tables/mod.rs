//! Embedding tables of a traced job: which rank looks them up, how large they are, what their look-ups take.
//!
//! Found from `nn.EmbeddingBag`, `nn.Embedding` and FBGEMM's table-batched lookups. Facts that the trace does not record stay
//! `None` unless a facts file gives them. Of tables that one batched operator serves only sums are recorded: each is taken
//! as their mean.

mod facts;
mod find;
mod placement;
mod plan;
mod sharder;
mod sums;

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::cost::Reuse;
use crate::graph::NodeId;
use crate::units::{Bytes, DurNs, total};

use super::base::Base;

pub use facts::{CollectiveFact, FactsError, TableFact, TableFacts};
pub use placement::{ShardingType, TablePlacement};
pub use plan::Plan;
pub use sharder::Sharder;

use find::{lookups, tables_of};

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Position of its rank in [`ExecutionGraph::ranks`].
    pub rank: usize,
    /// Rows.
    pub rows: Option<u64>,
    /// Elements per row.
    pub dim: Option<u64>,
    /// Look-ups per bag, mean.
    pub pooling: Option<f64>,
    /// Bags per iteration.
    pub batch: Option<u64>,
    /// Size of its weights.
    pub bytes: Option<Bytes>,
    /// Time of its look-up in the chosen iteration.
    pub forward: DurNs,
    /// Time of its gradient and update in the chosen iteration.
    pub backward: DurNs,
    /// Whether its figures are the mean over the tables of one operator.
    pub is_mean: bool,
    /// Whether every rank holds a copy of it (data parallel): such a table does not move.
    pub replicated: bool,
    /// Which of its rows a batch looks up.
    pub reuse: Reuse,
}

impl Table {
    /// Rows × dimension, the elements of its weights; pooling × dimension, the elements read per bag.
    pub fn sizes(&self) -> Option<TableSizes> {
        Some(TableSizes {
            batch: self.batch? as f64,
            rows: self.rows.filter(|&rows| rows > 0)? as f64,
            dim: self.dim? as f64,
            pooling: self.pooling?,
        })
    }
}

/// What several tables' look-ups have in common: the mean of what is told in the way the first is; `None` when nothing is.
fn mean_reuse<'a>(all: impl Iterator<Item = &'a Reuse> + Clone) -> Option<Reuse> {
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    match all.clone().find(|reuse| **reuse != Reuse::Uniform)? {
        Reuse::Zipf(_) => Some(Reuse::Zipf(mean(
            all.filter_map(|reuse| if let Reuse::Zipf(exponent) = reuse { Some(*exponent) } else { None }).collect(),
        ))),
        Reuse::Unique(_) => Some(Reuse::Unique(mean(
            all.filter_map(|reuse| if let Reuse::Unique(share) = reuse { Some(*share) } else { None }).collect(),
        ))),
        Reuse::Histogram(first) => {
            let mut bins = first.clone();
            let others: Vec<_> =
                all.filter_map(|reuse| if let Reuse::Histogram(bins) = reuse { Some(bins) } else { None }).collect();
            for (at, bin) in bins.iter_mut().enumerate() {
                *bin = mean(others.iter().map(|bins| bins[at]).collect());
            }
            Some(Reuse::Histogram(bins))
        }
        Reuse::Uniform => None,
    }
}

/// The sizes of a table of which all are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSizes {
    /// Bags.
    pub batch: f64,
    /// Rows.
    pub rows: f64,
    /// Elements per row.
    pub dim: f64,
    /// Look-ups per bag.
    pub pooling: f64,
}

/// Device work of one rank's sharded lookups, over all traced steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankLookups {
    /// Look-ups.
    pub forward: Vec<NodeId>,
    /// Gradients and updates.
    pub backward: Vec<NodeId>,
    /// Whether one operator serves several tables.
    pub batched: bool,
}

/// The tables of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// In order of rank and look-up, those that can move before the replicated ones: table `t3` is at index 3.
    pub tables: Vec<Table>,
    /// By position of the rank.
    pub ranks: Vec<RankLookups>,
    /// Sizes that a facts file tells other than the trace, in words.
    pub contradictions: Vec<String>,
}

impl Tables {
    /// Finds the tables of a graph.
    ///
    /// # Complexity
    /// O(operators + tasks).
    pub fn find(base: &Base) -> Self {
        let graph = base.graph();
        let lookups = lookups(base);
        let mut found = Self { ranks: vec![RankLookups::default(); graph.ranks.len()], ..Self::default() };
        for lookup in &lookups {
            if !lookup.replicated {
                let rank = &mut found.ranks[lookup.rank];
                rank.batched |= lookup.batched;
                rank.forward.extend(&lookup.forward);
                rank.backward.extend(&lookup.backward);
            }
        }
        let of_iteration = lookups.iter().filter(|lookup| lookup.in_iteration);
        // A replicated table is listed once, by the first rank.
        let listed = of_iteration.filter(|lookup| !lookup.replicated || lookup.rank == 0);
        found.tables = listed.flat_map(|lookup| tables_of(base, lookup)).collect();
        found.tables.sort_by_key(|table| (table.replicated, table.rank));
        found.contradictions = base.table_facts().contradictions(&found.tables, &graph.ranks);
        base.table_facts().complete(&mut found.tables, &graph.ranks);
        found
    }

    /// Which rows the lookups of `base` look up, where a facts file tells, by their tasks; the mean of what is told of an
    /// operator's tables.
    pub(super) fn told_reuse(base: &Base) -> Vec<(NodeId, Reuse)> {
        let (graph, facts) = (base.graph(), base.table_facts());
        let lookups = lookups(base);
        // In the order of `find`, so that numbers mean the same tables.
        let of_iteration = lookups.iter().filter(|lookup| lookup.in_iteration);
        let listed = of_iteration.filter(|lookup| !lookup.replicated || lookup.rank == 0);
        let listed = listed.map(|lookup| (std::ptr::from_ref(lookup), tables_of(base, lookup)));
        let mut own: Vec<(*const find::Lookup, Table)> =
            listed.flat_map(|(lookup, tables)| tables.into_iter().map(move |table| (lookup, table))).collect();
        own.sort_by_key(|(_, table)| (table.replicated, table.rank));
        let (of, mut tables): (Vec<*const find::Lookup>, Vec<Table>) = own.into_iter().unzip();
        facts.complete(&mut tables, &graph.ranks);
        let mut by_lookup: FxHashMap<*const find::Lookup, Vec<&Reuse>> = FxHashMap::default();
        for (lookup, table) in of.into_iter().zip(&tables) {
            by_lookup.entry(lookup).or_default().push(&table.reuse);
        }
        let mut told = Vec::new();
        for lookup in &lookups {
            let same = by_lookup.remove(&std::ptr::from_ref(lookup)).unwrap_or_default();
            if let Some(reuse) = mean_reuse(same.into_iter()) {
                told.extend(lookup.forward.iter().chain(&lookup.backward).map(|&node| (node, reuse.clone())));
            }
        }
        told
    }

    /// The tables that can move, in order.
    pub fn sharded(&self) -> &[Table] {
        let end = self.tables.iter().position(|table| table.replicated).unwrap_or(self.tables.len());
        &self.tables[..end]
    }

    /// The rank of each table that can move, as traced.
    pub fn placement(&self) -> Vec<usize> {
        self.sharded().iter().map(|table| table.rank).collect()
    }

    /// Positions of the ranks that look tables up: those that a table can move to.
    pub fn able(&self) -> Vec<usize> {
        (0..self.ranks.len()).filter(|&rank| !self.ranks[rank].forward.is_empty()).collect()
    }

    /// By position of the rank, the sizes of the tables on it as traced, where known.
    pub fn sizes(&self, ranks: usize) -> Vec<Vec<u64>> {
        let everywhere: Vec<u64> = self.tables[self.sharded().len()..].iter().filter_map(bytes).collect();
        let own = |rank| self.tables[on(&self.tables, rank)].iter().filter_map(bytes);
        (0..ranks).map(|rank| own(rank).chain(everywhere.iter().copied()).collect()).collect()
    }

    /// Bytes of weights in each rank's device memory under a placement, replicated tables included. Tables behind the
    /// host's link need none there; one of unknown size counts nothing.
    pub fn held(&self, placements: &[TablePlacement]) -> Vec<Bytes> {
        let everywhere = total(self.tables.iter().filter(|table| table.replicated).filter_map(bytes));
        let mut held = vec![Bytes(everywhere); self.ranks.len()];
        for (table, placement) in
            self.sharded().iter().zip(placements).filter(|(_, placement)| placement.cached.is_none())
        {
            for &rank in &placement.ranks {
                held[rank] += Bytes(placement.part(table, rank).as_ref().and_then(bytes).unwrap_or_default());
            }
        }
        held
    }

    /// Elements per step that each rank sends of what it looked up; `None` when a size is not known.
    pub fn sent(&self, placements: &[TablePlacement]) -> Option<Vec<f64>> {
        let mut sent = vec![0.0; self.ranks.len()];
        for (table, placement) in self.sharded().iter().zip(placements) {
            for &rank in &placement.ranks {
                sent[rank] += placement.sent(table, rank)?;
            }
        }
        Some(sent)
    }

    /// The placement of each table that can move, as traced.
    pub fn placements(&self) -> Vec<TablePlacement> {
        self.sharded().iter().map(|table| TablePlacement::whole(table.rank)).collect()
    }
}

/// Where the tables on `rank` that can move stand in `tables`, which are in order.
fn on(tables: &[Table], rank: usize) -> Range<usize> {
    let before = |end: usize| tables.partition_point(|table| !table.replicated && table.rank < end);
    before(rank)..before(rank + 1)
}

fn bytes(table: &Table) -> Option<u64> {
    table.bytes.map(|bytes| bytes.0)
}
