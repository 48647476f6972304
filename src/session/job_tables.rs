//! The embedding tables of a job with the tasks that look them up, found once; and what each rank carries under an outcome.

use retime_core::graph::NodeId;
use retime_core::scenario::tables::{TablePlacement, Tables};
use retime_core::scenario::{Resolved, Scenario, placements};
use retime_core::units::{Bytes, DurNs};

use super::Loaded;

/// Tables and their look-ups.
#[derive(Clone, Debug, Default)]
pub struct JobTables {
    /// The tables.
    pub tables: Tables,
    /// Ranks that look tables up, by position.
    pub able: Vec<usize>,
    /// Look-ups of the chosen iteration, forward and backward, by position of the rank.
    lookups: Vec<Vec<NodeId>>,
    /// Whether ranks are left out that did the same as another, with tables of their own.
    is_folded: bool,
}

/// What one rank carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankLoad {
    /// Its global number.
    pub rank: u32,
    /// Time of its look-ups, gradients and updates in an iteration.
    pub lookup: DurNs,
    /// Weights in its device's memory; `None` where the size of one of its tables is not known.
    pub held: Option<Bytes>,
    /// That memory; 0 where not known.
    pub memory: Bytes,
    /// Looked-up rows that it sends in an iteration; `None` where a table's sizes are not known.
    pub sent: Option<Bytes>,
}

impl JobTables {
    /// Finds the tables of a job.
    ///
    /// # Complexity
    /// O(operators + tasks · ranks); O(operators + tasks) without tables that can move.
    pub fn find(loaded: &Loaded) -> Self {
        let tables = loaded.base.tables().clone();
        if tables.sharded().is_empty() {
            return Self { tables, ..Self::default() };
        }
        let belongs = loaded.graph.iteration_tasks();
        let of_rank = |rank: &retime_core::scenario::tables::RankLookups| {
            let all = rank.forward.iter().chain(&rank.backward).copied();
            all.filter(|node| belongs[node.index()]).collect()
        };
        let lookups = tables.ranks.iter().map(of_rank).collect();
        Self { able: tables.able(), lookups, is_folded: loaded.folding.folds(), tables }
    }

    /// Why no table can be moved, in a sentence; `None` where one can.
    pub fn immovable(&self, ranks: usize) -> Option<&'static str> {
        match self.tables.tables.len() {
            0 => Some("no embedding table was found in this trace"),
            _ if self.is_folded => {
                Some("ranks that did the same are shown once: :all-ranks shows all, with tables that move")
            }
            _ if ranks < 2 => Some("one rank is loaded: there is nowhere to move tables to"),
            _ if self.tables.sharded().is_empty() => Some("every table is on every rank: there is nothing to move"),
            _ if self.able.len() < 2 => Some("only one rank looks tables up: no task elsewhere can serve them"),
            _ => None,
        }
    }

    /// Look-up time of each rank, by position.
    pub fn lookup_times(&self, resolved: &Resolved) -> Vec<DurNs> {
        let load = |nodes: &Vec<NodeId>| nodes.iter().map(|&node| resolved.prediction(node).duration).sum();
        self.lookups.iter().map(load).collect()
    }

    /// The first look-up of a rank in the chosen iteration.
    pub fn first_lookup(&self, rank: usize) -> Option<NodeId> {
        self.lookups.get(rank)?.first().copied()
    }

    /// The placements that `scenario` asks for, by position of the rank.
    pub fn wanted(&self, loaded: &Loaded, scenario: &Scenario) -> Vec<TablePlacement> {
        placements::placements_of(scenario, &self.tables, &loaded.graph.ranks)
    }

    /// The placements under an outcome.
    pub fn placements(&self, resolved: &Resolved) -> Vec<TablePlacement> {
        resolved.placements.clone().unwrap_or_else(|| self.tables.placements())
    }

    /// What each rank carries under an outcome, by position.
    ///
    /// # Complexity
    /// O(look-ups · log changes + tables · ranks of each).
    pub fn loads(&self, resolved: &Resolved) -> Vec<RankLoad> {
        let placements = self.placements(resolved);
        let (held, sent) = (self.tables.held(&placements), self.tables.sent(&placements));
        // Tables know the recorded batch; an edit may have made another of it, or several in a step.
        let batches = resolved.batch.map_or(1.0, |(old, new)| new as f64 / old.max(1) as f64);
        let batches = batches * f64::from(resolved.repeats);
        let untold = |rank: usize| {
            let is_here = |placement: &TablePlacement| placement.cached.is_none() && placement.ranks.contains(&rank);
            let mut here = self.tables.sharded().iter().zip(&placements).filter(|(_, placement)| is_here(placement));
            here.any(|(table, _)| table.bytes.is_none())
        };
        let load = |(rank, lookup): (usize, DurNs)| RankLoad {
            rank: resolved.graph.ranks[rank].rank.0,
            lookup,
            held: (!untold(rank)).then(|| held[rank]),
            memory: resolved.devices.get(rank).map_or(Bytes(0), |device| device.memory),
            sent: sent.as_ref().map(|sent| Bytes((sent[rank] * batches * ELEMENT).round() as u64)),
        };
        self.lookup_times(resolved).into_iter().enumerate().map(load).collect()
    }
}

/// Bytes of a looked-up element: rows are exchanged in single precision.
const ELEMENT: f64 = 4.0;
