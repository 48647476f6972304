//! Plans for embedding tables: each sharder's, and the search for a better one with the simulator as the judge.

use std::sync::Arc;

use serde::Serialize;

use crate::analysis::busy;
use crate::scenario::tables::{Seat, Tables};
use crate::scenario::transforms::{Plan, Reshard, Sharder, without_plans};
use crate::scenario::{Resolved, Scenario, Step, resolve};
use crate::sim::{Schedule, simulate};
use crate::units::DurNs;

use super::{JobTables, Loaded};

/// A placement of all tables that can move, with what the iteration takes then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardingPlan {
    /// `traced`, the name of the sharder, or `best`.
    pub sharder: String,
    /// Iteration time; `None` for a plan that cannot be carried out.
    pub simulated_ns: Option<DurNs>,
    /// How it compares with the others; `None` before [`judge`] or for a plan that cannot be carried out.
    pub pick: Option<Pick>,
    /// Look-up time, forward and backward, of the rank with most of it.
    pub max_rank_ns: Option<DurNs>,
    /// The rank of each table, by global number.
    pub assignment: Vec<u32>,
    /// The edit that carries it out; empty where nothing moves.
    pub step: String,
    /// What could not be done or was not handled.
    pub unhandled: Vec<String>,
}

/// How good a choice a plan would be among others [Lin24 §V-C: a choice is a good one when it is the fastest, or within
/// 10 % of it].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The fastest.
    Fastest,
    /// Within 10 % of the fastest.
    Near,
    /// Slower than that.
    Slower,
}

impl Pick {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Near => "within 10 % of it",
            Self::Slower => "slower",
        }
    }
}

/// How much slower than the fastest a good choice may be.
const NEAR: f64 = 0.1;

/// Compares plans with each other.
pub fn judge(plans: &mut [ShardingPlan]) {
    let Some(fastest) = plans.iter().filter_map(|plan| plan.simulated_ns).min() else { return };
    let pick = |time: DurNs| match time {
        time if time <= fastest => Pick::Fastest,
        time if time <= fastest.scale(1.0 + NEAR) => Pick::Near,
        _ => Pick::Slower,
    };
    for plan in plans {
        plan.pick = plan.simulated_ns.map(pick);
    }
}

/// Most placements that a search simulates.
pub const SEARCH_BUDGET: usize = 300;

/// Evaluates placements of one job's tables.
#[derive(Debug)]
pub struct Sharding<'a> {
    loaded: &'a Loaded,
    scenario: Scenario,
    job: JobTables,
}

impl<'a> Sharding<'a> {
    /// Finds the tables of a job; plans take the place of those in `scenario`.
    pub fn new(loaded: &'a Loaded, scenario: &Scenario) -> Self {
        Self { loaded, scenario: without_plans(scenario), job: JobTables::find(loaded) }
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.job.tables
    }

    /// The placement as traced.
    pub fn traced(&self) -> ShardingPlan {
        self.evaluate("traced", &self.tables().placement())
    }

    /// The plan of a sharder.
    pub fn by(&self, sharder: Sharder) -> ShardingPlan {
        match sharder.place(self.tables().sharded(), &self.job.able) {
            Some(placement) => self.evaluate(&sharder.name(), &placement),
            None => ShardingPlan {
                sharder: sharder.name(),
                simulated_ns: None,
                pick: None,
                max_rank_ns: None,
                assignment: Vec::new(),
                step: String::new(),
                unhandled: vec!["rows, dimension or pooling of a table is not recorded".to_owned()],
            },
        }
    }

    /// The best of the traced placement, all sharders and what moves and swaps of tables make of the best of those.
    pub fn best(&self) -> ShardingPlan {
        self.search(&mut |_| true)
    }

    /// As [`Self::best`]; `go_on` is told how many moves and swaps have been tried, of [`SEARCH_BUDGET`], and says whether
    /// to go on. What has been found until then is the answer.
    pub fn search(&self, go_on: &mut dyn FnMut(usize) -> bool) -> ShardingPlan {
        let mut best = self.traced();
        for sharder in Sharder::ALL {
            if !go_on(0) {
                return ShardingPlan { sharder: "best".to_owned(), ..best };
            }
            let plan = self.by(sharder);
            best = if is_better(&plan, &best) { plan } else { best };
        }
        let mut tried = 0;
        let mut may_try = || {
            tried += 1;
            tried <= SEARCH_BUDGET && go_on(tried)
        };
        while let Some(better) = self.improve(&best, &mut may_try) {
            best = better;
        }
        ShardingPlan { sharder: "best".to_owned(), ..best }
    }

    /// The first change that makes the iteration shorter, of those that take look-ups off the rank with most.
    fn improve(&self, from: &ShardingPlan, may_try: &mut dyn FnMut() -> bool) -> Option<ShardingPlan> {
        let placement: Vec<usize> = from.assignment.iter().filter_map(|&number| self.position(number)).collect();
        let loads = self.job.lookup_times(&self.resolve(&placement));
        for change in self.changes(&placement, &loads) {
            if !may_try() {
                return None;
            }
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
        let Some(&source) = self.job.able.iter().max_by_key(|&&rank| (loads[rank], std::cmp::Reverse(rank))) else {
            return Vec::new();
        };
        let time = |table: usize| self.tables().tables[table].forward + self.tables().tables[table].backward;
        let (own, others): (Vec<usize>, Vec<usize>) =
            (0..placement.len()).partition(|&table| placement[table] == source);
        let moves = own.iter().flat_map(|&table| {
            let targets = self.job.able.iter().filter(move |&&target| target != source);
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
        let moved = self.tables().sharded().iter().zip(placement).enumerate();
        let moves: Vec<(usize, Seat)> = moved
            .filter(|(_, (table, rank))| table.rank != **rank)
            .map(|(index, (_, &rank))| (index, Seat::whole(self.number(rank) as usize)))
            .collect();
        let is_move = !moves.is_empty();
        is_move.then(|| Step { transform: Arc::new(Reshard { plan: Plan::Moves(moves) }), enabled: true })
    }

    fn resolve(&self, placement: &[usize]) -> Resolved {
        let mut scenario = self.scenario.clone();
        scenario.steps.extend(self.step(placement));
        resolve(&self.loaded.base, &scenario, &self.loaded.context)
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
            pick: None,
            max_rank_ns: self.job.lookup_times(&resolved).into_iter().max().filter(|_| is_done),
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
