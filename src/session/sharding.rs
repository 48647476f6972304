//! Plans for embedding tables: each sharder's, and the search for a better one with the simulator as the judge.

use std::sync::Arc;

use serde::Serialize;

use crate::analysis::busy;
use crate::graph::NodeId;
use crate::scenario::tables::{Seat, Tables};
use crate::scenario::transforms::{Plan, Reshard, Sharder};
use crate::scenario::{Scenario, Step, resolve};
use crate::sim::{Schedule, simulate};
use crate::units::DurNs;

use super::Loaded;

/// A placement of all tables that can move, with what the iteration takes then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardingPlan {
    /// `traced`, the name of the sharder, or `best`.
    pub sharder: String,
    /// Iteration time; `None` for a plan that cannot be carried out.
    pub simulated_ns: Option<DurNs>,
    /// Look-up time, forward and backward, of the rank with most of it.
    pub max_rank_ns: Option<DurNs>,
    /// The rank of each table, by global number.
    pub assignment: Vec<u32>,
    /// The edit that carries it out; empty where nothing moves.
    pub step: String,
    /// What could not be done or was not handled.
    pub unhandled: Vec<String>,
}

/// Most placements that a search simulates.
const BUDGET: usize = 300;

/// Evaluates placements of one job's tables.
#[derive(Debug)]
pub struct Sharding<'a> {
    loaded: &'a Loaded,
    scenario: Scenario,
    /// The tables.
    pub tables: Tables,
    /// Ranks that look tables up.
    ranks: Vec<usize>,
    /// Look-ups of the chosen iteration, by rank.
    lookups: Vec<Vec<NodeId>>,
}

impl<'a> Sharding<'a> {
    /// Finds the tables of a job; plans take the place of those in `scenario`.
    pub fn new(loaded: &'a Loaded, scenario: &Scenario) -> Self {
        let mut scenario = scenario.clone();
        scenario.steps.retain(|step| step.transform.name() != "reshard-tables");
        let tables = Tables::find(&loaded.base);
        let belongs = loaded.graph.iteration_tasks();
        let of_rank = |rank: &crate::scenario::tables::RankLookups| {
            let all = rank.forward.iter().chain(&rank.backward).copied();
            all.filter(|node| belongs[node.index()]).collect()
        };
        let lookups = tables.ranks.iter().map(of_rank).collect();
        let ranks = (0..tables.ranks.len()).filter(|&rank| !tables.ranks[rank].forward.is_empty()).collect();
        Self { loaded, scenario, tables, ranks, lookups }
    }

    /// The placement as traced.
    pub fn traced(&self) -> ShardingPlan {
        self.evaluate("traced", &self.tables.placement())
    }

    /// The plan of a sharder.
    pub fn by(&self, sharder: Sharder) -> ShardingPlan {
        match sharder.place(self.tables.sharded(), &self.ranks) {
            Some(placement) => self.evaluate(&sharder.name(), &placement),
            None => ShardingPlan {
                sharder: sharder.name(),
                simulated_ns: None,
                max_rank_ns: None,
                assignment: Vec::new(),
                step: String::new(),
                unhandled: vec!["rows, dimension or pooling of a table is not recorded".to_owned()],
            },
        }
    }

    /// The best of the traced placement, all sharders and what moves and swaps of tables make of the best of those.
    pub fn best(&self) -> ShardingPlan {
        let all = Sharder::ALL.into_iter().map(|sharder| self.by(sharder));
        let mut best = all.fold(self.traced(), |best, plan| if is_better(&plan, &best) { plan } else { best });
        let mut left = BUDGET;
        while let Some(better) = self.improve(&best, &mut left) {
            best = better;
        }
        ShardingPlan { sharder: "best".to_owned(), ..best }
    }

    /// The first change that makes the iteration shorter, of those that take look-ups off the rank with most.
    fn improve(&self, from: &ShardingPlan, left: &mut usize) -> Option<ShardingPlan> {
        let placement: Vec<usize> = from.assignment.iter().filter_map(|&number| self.position(number)).collect();
        let loads = self.loads(&self.resolve(&placement));
        for change in self.changes(&placement, &loads) {
            *left = left.checked_sub(1)?;
            let mut changed = placement.clone();
            change.apply(&mut changed);
            let plan = self.evaluate("best", &changed);
            if is_better(&plan, from) {
                return Some(plan);
            }
        }
        None
    }

    /// Moves from the rank with most look-ups and swaps with it, by what the more loaded of both ranks would then have; those
    /// that would not lighten it are left out.
    fn changes(&self, placement: &[usize], loads: &[DurNs]) -> Vec<Change> {
        let Some(&source) = self.ranks.iter().max_by_key(|&&rank| (loads[rank], std::cmp::Reverse(rank))) else {
            return Vec::new();
        };
        let time = |table: usize| self.tables.tables[table].forward + self.tables.tables[table].backward;
        let (own, others): (Vec<usize>, Vec<usize>) =
            (0..placement.len()).partition(|&table| placement[table] == source);
        let moves = own.iter().flat_map(|&table| {
            let targets = self.ranks.iter().filter(move |&&target| target != source);
            targets.map(move |&target| (Change::Move { table, target }, target, time(table)))
        });
        let swaps = own.iter().flat_map(|&table| {
            let pairs = others.iter().filter(move |&&other| time(other) < time(table));
            pairs.map(move |&other| (Change::Swap { table, other }, placement[other], time(table) - time(other)))
        });
        let after = |(change, target, moved): (Change, usize, DurNs)| {
            let most = (loads[source] - moved).max(loads[target] + moved);
            (most < loads[source]).then_some((most, change))
        };
        let mut all: Vec<(DurNs, Change)> = moves.chain(swaps).filter_map(after).collect();
        all.sort_by_key(|&(most, _)| most);
        all.into_iter().map(|(_, change)| change).collect()
    }

    fn position(&self, number: u32) -> Option<usize> {
        self.loaded.graph.ranks.iter().position(|part| part.rank.0 == number)
    }

    fn number(&self, rank: usize) -> u32 {
        self.loaded.graph.ranks.get(rank).map_or(0, |part| part.rank.0)
    }

    /// The edit from the traced placement to this one.
    fn step(&self, placement: &[usize]) -> Option<Step> {
        let moved = self.tables.sharded().iter().zip(placement).enumerate();
        let moves: Vec<(usize, Seat)> = moved
            .filter(|(_, (table, rank))| table.rank != **rank)
            .map(|(index, (_, &rank))| (index, Seat::whole(self.number(rank) as usize)))
            .collect();
        let is_move = !moves.is_empty();
        is_move.then(|| Step { transform: Arc::new(Reshard { plan: Plan::Moves(moves) }), enabled: true })
    }

    fn resolve(&self, placement: &[usize]) -> crate::scenario::Resolved {
        let mut scenario = self.scenario.clone();
        scenario.steps.extend(self.step(placement));
        resolve(&self.loaded.base, &scenario, &self.loaded.context)
    }

    /// Look-up time of each rank.
    fn loads(&self, resolved: &crate::scenario::Resolved) -> Vec<DurNs> {
        let load = |nodes: &Vec<NodeId>| nodes.iter().map(|&node| resolved.prediction(node).duration).sum();
        self.lookups.iter().map(load).collect()
    }

    fn evaluate(&self, sharder: &str, placement: &[usize]) -> ShardingPlan {
        let resolved = self.resolve(placement);
        let step = self.step(placement);
        let report = step.as_ref().and_then(|_| resolved.reports.last());
        let is_done = report.is_none_or(|report| report.changed > 0);
        let mut schedule = Schedule::default();
        simulate(&resolved.timed, &mut schedule);
        let windows = self.loaded.graph.ranks.iter().map(|part| busy::window(part, &resolved.timed, &schedule));
        let period = windows.map(|(begin, end)| end.since(begin)).max();
        ShardingPlan {
            sharder: sharder.to_owned(),
            simulated_ns: period.filter(|_| is_done),
            max_rank_ns: self.loads(&resolved).into_iter().max().filter(|_| is_done),
            assignment: placement.iter().map(|&rank| self.number(rank)).collect(),
            step: step.map(|step| step.to_string()).unwrap_or_default(),
            unhandled: report.map(|report| report.unhandled.clone()).unwrap_or_default(),
        }
    }
}

/// A step of the search.
#[derive(Clone, Copy, Debug)]
enum Change {
    Move { table: usize, target: usize },
    Swap { table: usize, other: usize },
}

impl Change {
    fn apply(self, placement: &mut [usize]) {
        match self {
            Self::Move { table, target } => placement[table] = target,
            Self::Swap { table, other } => placement.swap(table, other),
        }
    }
}

fn is_better(a: &ShardingPlan, b: &ShardingPlan) -> bool {
    match (a.simulated_ns, b.simulated_ns) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, _) => false,
    }
}
