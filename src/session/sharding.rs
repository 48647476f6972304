//! Plans for embedding tables: each sharder's, and the search for a better one with the simulator as the judge.

mod search;

use serde::Serialize;

use retime_core::analysis::busy;
use retime_core::engine::compared;
use retime_core::scenario::placements::{step_of, without_plans};
use retime_core::scenario::tables::{Plan, Sharder, TablePlacement, Tables};
use retime_core::scenario::{Resolved, Scenario, Step, StepReport, resolve};
use retime_core::sim::{Schedule, simulate};
use retime_core::units::{Bytes, DurNs};

use super::{JobTables, Loaded};

/// A placement of all tables that can move, with what the iteration takes then.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShardingPlan {
    /// `traced`, the name of the sharder, or `best`.
    pub sharder: String,
    /// The recorded window; `None` for a plan that cannot be carried out.
    pub simulated_ns: Option<DurNs>,
    /// What plans are compared by.
    pub steady_ns: Option<DurNs>,
    /// How it compares with the others; `None` before [`judge`] or for a plan that cannot be carried out.
    pub pick: Option<Pick>,
    /// Look-up time, forward and backward, of the rank with most of it.
    pub max_rank_ns: Option<DurNs>,
    /// The rank of each table, by global number; of a table on several the first.
    pub assignment: Vec<u32>,
    /// The placement of each table, as edits write it.
    pub placements: Vec<String>,
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
    /// All take the same time, to a thousandth: placement does not decide here.
    Equal,
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
            Self::Equal => "any: all the same",
            Self::Fastest => "fastest",
            Self::Near => "within 10 % of it",
            Self::Slower => "slower",
        }
    }
}

/// How much slower than the fastest a good choice may be.
const NEAR: f64 = 0.1;

/// Spread of all plans below which none is better than another.
const EQUAL: f64 = 1e-3;

/// Compares plans with each other.
pub fn judge(plans: &mut [ShardingPlan]) {
    let times = || plans.iter().filter_map(|plan| plan.steady_ns);
    let Some((fastest, slowest)) = times().min().zip(times().max()) else { return };
    let are_equal = times().count() > 1 && slowest <= fastest.scale(1.0 + EQUAL);
    let pick = |time: DurNs| match time {
        _ if are_equal => Pick::Equal,
        time if time <= fastest => Pick::Fastest,
        time if time <= fastest.scale(1.0 + NEAR) => Pick::Near,
        _ => Pick::Slower,
    };
    for plan in plans {
        plan.pick = plan.steady_ns.map(pick);
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
    /// Bytes of tables that a rank may hold, where that is less than its memory.
    limit: Option<Bytes>,
}

impl<'a> Sharding<'a> {
    /// Finds the tables of a job; plans take the place of those in `scenario`.
    pub fn new(loaded: &'a Loaded, scenario: &Scenario) -> Self {
        Self { loaded, scenario: without_plans(scenario), job: JobTables::find(loaded), limit: None }
    }

    /// With `limit` bytes of tables on a rank at most.
    #[must_use]
    pub fn within(self, limit: Option<Bytes>) -> Self {
        Self { limit, ..self }
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.job.tables
    }

    /// The placement as traced.
    pub fn traced(&self) -> ShardingPlan {
        self.evaluate("traced", &self.tables().placements())
    }

    /// The plan of a sharder.
    pub fn by(&self, sharder: Sharder) -> ShardingPlan {
        match sharder.place(self.tables().sharded(), &self.job.able) {
            Some(placement) => {
                let placements: Vec<TablePlacement> = placement.into_iter().map(TablePlacement::whole).collect();
                self.evaluate(&sharder.name(), &placements)
            }
            None => ShardingPlan {
                sharder: sharder.name(),
                simulated_ns: None,
                steady_ns: None,
                pick: None,
                max_rank_ns: None,
                assignment: Vec::new(),
                placements: Vec::new(),
                step: String::new(),
                unhandled: vec!["rows, dimension or pooling of a table is not recorded".to_owned()],
            },
        }
    }

    /// As [`Self::search`], to its end.
    pub fn best(&self) -> ShardingPlan {
        self.search(&mut |_| true)
    }

    /// A placement by positions as one by global numbers.
    pub fn by_numbers(&self, placement: &TablePlacement) -> TablePlacement {
        let number = |&rank: &usize| self.loaded.graph.ranks.get(rank).map_or(rank, |part| part.rank.0 as usize);
        TablePlacement { ranks: placement.ranks.iter().map(number).collect(), ..placement.clone() }
    }

    /// The edit from the traced placement to this one.
    fn step(&self, placements: &[TablePlacement]) -> Option<Step> {
        let moved = self.tables().sharded().iter().zip(placements).enumerate();
        let moves: Vec<(usize, TablePlacement)> = moved
            .filter(|(_, (table, placement))| **placement != TablePlacement::whole(table.rank))
            .map(|(index, (_, placement))| (index, self.by_numbers(placement)))
            .collect();
        if moves.is_empty() { None } else { step_of(Plan::Moves(moves)) }
    }

    fn resolve(&self, placements: &[TablePlacement]) -> Resolved {
        let mut scenario = self.scenario.clone();
        scenario.steps.extend(self.step(placements));
        resolve(&self.loaded.base, &scenario, &self.loaded.context)
    }

    /// Why tables do not fit, where a limit was set: the first rank that they overfill.
    fn overfilled(&self, placements: &[TablePlacement]) -> Option<String> {
        let limit = self.limit?;
        let held = self.tables().held(placements);
        let (rank, held) = held.into_iter().enumerate().find(|&(_, held)| held > limit)?;
        let number = self.loaded.graph.ranks.get(rank)?.rank.0;
        Some(format!("rank {number} would hold {held} of tables, {limit} are allowed"))
    }

    fn evaluate(&self, sharder: &str, placements: &[TablePlacement]) -> ShardingPlan {
        let resolved = self.resolve(placements);
        let step = self.step(placements);
        let report = step.as_ref().and_then(|_| resolved.reports.last());
        let overfilled = self.overfilled(placements);
        let is_done = overfilled.is_none() && report.is_none_or(|report| report.changed > 0);
        let mut schedule = Schedule::default();
        simulate(&resolved.timed, &mut schedule);
        let windows = self.loaded.graph.ranks.iter().map(|part| busy::window(part, &resolved.timed, &schedule));
        let period = windows.map(|(begin, end)| end.since(begin)).max();
        let steady = compared(self.loaded, &resolved);
        let placements: Vec<TablePlacement> = placements.iter().map(|placement| self.by_numbers(placement)).collect();
        let unhandled = report.map(StepReport::lines).unwrap_or_default();
        ShardingPlan {
            sharder: sharder.to_owned(),
            simulated_ns: period.filter(|_| is_done),
            steady_ns: is_done.then_some(steady),
            pick: None,
            max_rank_ns: self.job.lookup_times(&resolved).into_iter().max().filter(|_| is_done),
            assignment: placements
                .iter()
                .map(|placement| placement.ranks.first().map_or(0, |&rank| rank as u32))
                .collect(),
            placements: placements.iter().map(ToString::to_string).collect(),
            step: step.map(|step| step.to_string()).unwrap_or_default(),
            unhandled: overfilled.into_iter().chain(unhandled).collect(),
        }
    }
}

fn is_better(a: &ShardingPlan, b: &ShardingPlan) -> bool {
    match (a.steady_ns, b.steady_ns) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, _) => false,
    }
}
