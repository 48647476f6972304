//! Communication of an edited iteration: every collective with who comes last, why, and what that costs the others; every rank
//! with its waiting, its transfers, and what its own lateness costs the job.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

use retime_core::analysis::collectives::{Arrival, SimulatedCollective, by_rank, collectives, windows};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::sources::Sources;
use retime_core::analysis::stragglers::{Overlap, Reasons};
use retime_core::graph::NodeId;
use retime_core::units::{Bytes, DurNs};

use super::{Engine, Loaded, Outcome};

/// A rank's part in a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Participation {
    /// Which.
    pub rank: u32,
    /// How many ranks it stands for.
    pub count: u32,
    /// When it was there, from the start of the iteration.
    pub at_ns: DurNs,
    /// Its waiting for the last.
    pub wait_ns: DurNs,
    /// From when all were there to when it left.
    pub transfer_ns: DurNs,
    /// Its task.
    #[serde(skip)]
    pub node: NodeId,
}

/// A collective of the iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectiveReport {
    /// Its kind, e.g. `all-reduce`.
    pub kind: String,
    /// Its process group; empty where not recorded.
    pub group: String,
    /// The largest message of a rank, where sizes were recorded.
    pub bytes: Option<Bytes>,
    /// Ranks that took part and are loaded.
    pub ranks: u32,
    /// Ranks that took part and are not: what waiting for them took is in the transfer.
    pub missing: u32,
    /// When all were there, from the start of the iteration.
    pub start_ns: DurNs,
    /// The longest transfer of a rank.
    pub transfer_ns: DurNs,
    /// Who comes last, where one does.
    pub last_rank: Option<u32>,
    /// How much later than the one before the last rank arrives.
    pub late_ns: DurNs,
    /// Waiting for it, all ranks together.
    pub waited_ns: DurNs,
    /// Why it comes last.
    pub why: Option<LateReason>,
    /// Transfer while nothing else runs on the rank, mean over ranks.
    pub exposed_ns: DurNs,
    /// Transfer beside other work of the rank, mean over ranks.
    pub overlapped_ns: DurNs,
    /// Every rank, in order of arrival.
    pub arrivals: Vec<Participation>,
}

/// What makes the last rank later than the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LateReason {
    /// Kind of time, e.g. `T2` or `gemm`.
    pub kind: &'static str,
    /// The task or operator with most of it.
    pub name: String,
    /// How much more of that kind lies on its way.
    pub more_ns: DurNs,
}

/// A rank of the iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankReport {
    /// Which.
    pub rank: u32,
    /// How many ranks it stands for.
    pub count: u32,
    /// Its iteration.
    pub simulated_ns: DurNs,
    /// Its waiting for others, while no collective transfers.
    pub wait_ns: DurNs,
    /// Time in which at least one collective transfers.
    pub transfer_ns: DurNs,
    /// Of these, while nothing else runs on it.
    pub exposed_ns: DurNs,
    /// Of these, beside other work of its own.
    pub overlapped_ns: DurNs,
    /// How many collectives it comes last to.
    pub comes_last: usize,
    /// What that costs the job: how much shorter the iteration is where the rank does what the median rank does.
    pub costs_ns: DurNs,
    /// The largest reason why it does.
    pub why: Option<LateReason>,
}

impl RankReport {
    /// Whether its lateness costs the job a fiftieth of the iteration or more.
    pub fn is_late(&self) -> bool {
        const SHARE: i64 = 50;
        self.costs_ns.0.saturating_mul(SHARE) > self.simulated_ns.0
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Communication {
    /// In order.
    #[serde(rename = "lateness")]
    pub ranks: Vec<RankReport>,
    /// In order of time.
    pub collectives: Vec<CollectiveReport>,
}

impl Communication {
    /// Looks at the iteration of `outcome`.
    pub fn of(engine: &Engine, loaded: &Loaded, outcome: &Outcome) -> Self {
        Self::on(engine, loaded, outcome, &Edited::of(&outcome.resolved))
    }

    /// As [`of`](Self::of), with the edited iteration as a graph at hand.
    ///
    /// # Complexity
    /// O(tasks · log tasks + collectives · (ranks · log + length of the ways to them)), and a simulation for each rank that
    /// comes last.
    pub fn on(engine: &Engine, loaded: &Loaded, outcome: &Outcome, edited: &Edited) -> Self {
        let mut found = Self::met(outcome, edited);
        found.ranks.par_iter_mut().filter(|rank| rank.comes_last > 0).for_each(|rank| {
            let step = format!("straggler remove {}", rank.rank);
            rank.costs_ns = engine.gain(loaded, outcome, &step).max(DurNs::ZERO);
        });
        found
    }

    /// Who meets whom when; what lateness costs stays open.
    fn met(outcome: &Outcome, edited: &Edited) -> Self {
        let (graph, timed, schedule) = (&*edited.graph, &*edited.timed, &*outcome.schedule);
        if graph.collectives.is_empty() {
            return Self { ranks: ranks(outcome, &[]), collectives: Vec::new() };
        }
        let times = Times::Simulated { timed, schedule };
        let sources = Sources { graph, works: &edited.works, timed, schedule, times };
        let begins = graph.ranks.iter().map(|part| sources.times.period(graph, part).start);
        let begin = begins.min().unwrap_or_default();
        let (overlap, calls) = (Overlap::of(&sources), collectives(graph, timed, schedule));
        let mut reasons = Reasons::of(&sources);
        let seen: Vec<Seen> = calls.iter().map(|call| Seen::of(&mut reasons, &overlap, call)).collect();
        let collectives = calls.iter().zip(&seen).map(|(call, seen)| {
            let arrival = |arrival: &Arrival| Participation {
                rank: arrival.rank.0,
                count: arrival.count,
                at_ns: arrival.at.since(begin),
                wait_ns: call.wait(arrival),
                transfer_ns: call.transfer(arrival),
                node: arrival.node,
            };
            let arrivals = call.arrivals.iter().map(arrival).collect();
            CollectiveReport { start_ns: call.began.since(begin), arrivals, ..seen.collective(edited, call) }
        });
        let collectives: Vec<CollectiveReport> = collectives.collect();
        let mut ranks = ranks(outcome, &collectives);
        for (rank, own) in by_rank(&calls, &windows(graph, timed, schedule)) {
            if let Ok(at) = ranks.binary_search_by_key(&rank.0, |report| report.rank) {
                let (exposed_ns, overlapped_ns) = overlap.split_spans(rank, &own.transfers);
                ranks[at] = RankReport {
                    wait_ns: own.wait,
                    transfer_ns: own.transfer(),
                    exposed_ns,
                    overlapped_ns,
                    ..std::mem::take(&mut ranks[at])
                };
            }
        }
        Self { ranks, collectives }
    }

    /// Positions of the collectives, those first that cost most by waiting and exposed transfer.
    pub fn costliest(&self) -> Vec<usize> {
        let cost = |one: &CollectiveReport| one.waited_ns + one.exposed_ns * i64::from(one.ranks);
        let mut order: Vec<usize> = (0..self.collectives.len()).collect();
        order.sort_by_key(|&at| (std::cmp::Reverse(cost(&self.collectives[at])), self.collectives[at].start_ns));
        order
    }

    /// Waiting, exposed and overlapped transfer of all ranks, each the mean of a rank.
    pub fn means(&self) -> (DurNs, DurNs, DurNs) {
        let count = self.ranks.iter().map(|rank| i64::from(rank.count)).sum::<i64>().max(1);
        let mean = |of: fn(&RankReport) -> DurNs| {
            DurNs(self.ranks.iter().map(|rank| of(rank) * i64::from(rank.count)).sum::<DurNs>().0 / count)
        };
        (mean(|rank| rank.wait_ns), mean(|rank| rank.exposed_ns), mean(|rank| rank.overlapped_ns))
    }
}

/// What one collective was found to be.
struct Seen {
    /// Rank, exposed and overlapped transfer.
    splits: Vec<(u32, DurNs, DurNs)>,
    why: Option<LateReason>,
}

impl Seen {
    fn of(reasons: &mut Reasons<'_>, overlap: &Overlap, call: &SimulatedCollective) -> Self {
        let split = |arrival: &Arrival| {
            let (exposed, overlapped) = overlap.split(call, arrival);
            (arrival.rank.0, exposed, overlapped)
        };
        let why = reasons.reason(call).map(|why| LateReason {
            kind: why.kind,
            name: reasons.graph().names.get(why.name).to_owned(),
            more_ns: why.more,
        });
        Self { splits: call.arrivals.iter().map(split).collect(), why }
    }

    /// All but the times of arrival.
    fn collective(&self, Edited { graph, works, .. }: &Edited, call: &SimulatedCollective) -> CollectiveReport {
        let collective = &graph.collectives[call.collective.0 as usize];
        let sizes = call.arrivals.iter().map(|arrival| works.carried(graph, arrival.node));
        let count = self.splits.len().max(1) as i64;
        let mean = |of: fn(&(u32, DurNs, DurNs)) -> DurNs| DurNs(self.splits.iter().map(of).sum::<DurNs>().0 / count);
        CollectiveReport {
            kind: graph.names.get(collective.kind).to_owned(),
            group: graph.names.get(collective.group).to_owned(),
            bytes: sizes.filter(|bytes| bytes.0 > 0).max(),
            ranks: call.ranks(),
            missing: collective.group_size.saturating_sub(call.ranks()),
            start_ns: DurNs::ZERO,
            transfer_ns: call.longest_transfer(),
            last_rank: call.last_two().filter(|(last, second)| last.at > second.at).map(|(last, _)| last.rank.0),
            late_ns: call.late(),
            waited_ns: call.waited(),
            why: self.why.clone(),
            exposed_ns: mean(|split| split.1),
            overlapped_ns: mean(|split| split.2),
            arrivals: Vec::new(),
        }
    }
}

/// The ranks with their lateness.
fn ranks(outcome: &Outcome, collectives: &[CollectiveReport]) -> Vec<RankReport> {
    let mut late: BTreeMap<u32, (usize, Option<&LateReason>)> = BTreeMap::new();
    for one in collectives {
        let Some(rank) = one.last_rank else { continue };
        let entry = late.entry(rank).or_default();
        entry.0 += 1;
        if let Some(why) = one.why.as_ref().filter(|why| entry.1.is_none_or(|known| why.more_ns > known.more_ns)) {
            entry.1 = Some(why);
        }
    }
    let report = |rank: &super::RankSummary| {
        let (comes_last, why) = late.get(&rank.rank).copied().unwrap_or_default();
        RankReport {
            rank: rank.rank,
            count: rank.count,
            simulated_ns: rank.simulated_ns,
            wait_ns: rank.wait_ns,
            transfer_ns: rank.transfer_ns,
            comes_last,
            why: why.cloned(),
            ..RankReport::default()
        }
    };
    outcome.summary.ranks.iter().map(report).collect()
}
