//! `straggler remove`: between two collectives of all ranks every rank does what the median rank does.

use std::sync::Arc;

use crate::cost::Placed;
use crate::cost::roofline::LeastTimes;
use crate::graph::{ExecutionGraph, NodeId, Rank, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::transform::{StepReport, Transform};
use crate::stats::weighted_quantile;
use crate::units::{DurNs, TimeNs};

use super::report::count;

/// Lets ranks do what the median rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Straggler {
    /// The one that does; all without.
    rank: Option<u32>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "straggler",
    help: "every rank, or RANK, takes as long as the median rank between one collective of all ranks and the next",
    example: "straggler remove",
    forms: &[Form {
        arguments: &[
            Argument::new("ACTION", "remove", Kind::Choice("action", &["remove"])),
            Argument::new("RANK", "the global number of a rank", Kind::Whole(0, 1 << 20)).optional(),
        ],
        build: |given| {
            let _: usize = given.get(0)?;
            Some(Arc::new(Straggler { rank: given.get(1)? }))
        },
    }],
    knobs: &[],
};

/// The host's work, and the device's.
const PLACES: usize = 2;

/// Calls that allocate and free device memory: they last while the device or the driver is taken, by ranks that wait among others.
const ALLOCATIONS: [&str; 4] = ["cudaMalloc", "cudaFree", "hipMalloc", "hipFree"];

impl Transform for Straggler {
    fn tells_apart(&self) -> bool {
        self.rank.is_some()
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        if graph.ranks.len() < 2 {
            return StepReport::nothing("one rank is simulated: there is no other to compare it with");
        }
        if let Some(rank) = self.rank
            && graph.place_of(Rank(rank)).is_none()
        {
            return StepReport::nothing(format!("rank {rank} is not simulated by itself"));
        }
        let stretches = Stretches::of(graph);
        if stretches.joined == 0 {
            return StepReport::nothing("no collective of all ranks: nothing tells what they do at the same time");
        }
        let placed: Vec<(Node, usize, usize)> = draft
            .nodes()
            .filter_map(|node| stretches.place(draft, node).map(|(rank, cell)| (node, rank, cell)))
            .collect();
        let mut sums = vec![vec![DurNs::ZERO; stretches.allocations(1) + 1]; graph.ranks.len()];
        for &(node, rank, cell) in &placed {
            sums[rank][cell] += draft.price_of(node).duration;
        }
        let mut factors = factors(graph, &sums);
        let of_step = [0, 1].map(|inside| as_the_quickest(&mut factors, &sums, stretches.allocations(inside)));
        let waited = of_step[1];
        let meant = self.rank.and_then(|rank| graph.place_of(Rank(rank)));
        let is_meant = |rank: usize| meant.is_none_or(|meant| meant == rank);
        let (mut changed, mut bounded) = (0, 0);
        for (node, rank, cell) in placed {
            let bound = factor_of_roofs(draft, node, factors[rank][cell]);
            let factor = bound.unwrap_or(factors[rank][cell]);
            // Where the rank allocates quickest, others did so while they waited for it, and do so no longer.
            let is_wait = cell >= stretches.allocations(0) && meant.is_some_and(|meant| factors[meant][cell] >= 1.0);
            if (is_meant(rank) || is_wait) && (factor - 1.0).abs() > f64::EPSILON {
                draft.stretch(node, factor);
                changed += 1;
                bounded += usize::from(bound.is_some() && draft.is_in_step(node));
            }
        }
        let ranks = if self.rank.is_some() { 1 } else { graph.ranks.len() };
        let (all, joined) = (graph.ranks.len(), count(stretches.joined, "collective"));
        let summary = format!("{} like the median of {all} between {joined} of all ranks", count(ranks, "rank"));
        let mut report = StepReport { changed, summary, ..StepReport::default() };
        if bounded > 0 {
            report.say(Effect::note(format!(
                "{} have more to do than what the median rank does in the same stretch: they take what roofs allow",
                count(bounded, "kernel")
            )));
        }
        if waited > DurNs::ZERO {
            let text = "calls that allocate memory last while others wait: each rank is taken to spend as long in them as the quickest";
            report.say(Effect::assumption(format!("{text}, up to {waited} less")));
        }
        let begins = graph.ranks.iter().map(|part| part.iteration_start);
        if let Some(apart) =
            begins.clone().max().zip(begins.min()).map(|(last, first)| last.since(first)).filter(|it| it.0 > 0)
        {
            report.say(Effect::note(format!(
                "ranks begin the step as recorded, up to {apart} apart: what is late from before it stays late"
            )));
        }
        report
    }
}

/// The factor at which the time of `node` is what roofs allow its own work, where that is known and does not fit into `factor` of its time.
fn factor_of_roofs(draft: &Draft<'_>, node: Node, factor: f64) -> Option<f64> {
    let device = draft.device(draft.rank_of(draft.lane_of(node)))?;
    let placed = Placed { work: Some(draft.work_of(node).filter(|_| factor < 1.0)?), device };
    let before = draft.price_of(node).duration;
    let now = before.scale(factor);
    let held = LeastTimes::of(placed, placed).hold(before, now).min(before);
    (held > now).then(|| held.0 as f64 / before.0.max(1) as f64)
}

/// By rank and stretch, host and device apart, what the median rank takes over what this one does.
fn factors(graph: &ExecutionGraph, sums: &[Vec<DurNs>]) -> Vec<Vec<f64>> {
    let mut factors: Vec<Vec<f64>> = sums.iter().map(|cells| vec![1.0; cells.len()]).collect();
    for cell in 0..sums.first().map_or(0, Vec::len) {
        let rows = graph.ranks.iter().zip(sums).map(|(part, sums)| (sums[cell].0 as f64, f64::from(part.count())));
        let Some(median) = weighted_quantile(rows.collect(), 0.5) else { continue };
        for (factors, sums) in factors.iter_mut().zip(sums) {
            if sums[cell].0 > 0 && median > 0.0 {
                factors[cell] = median / sums[cell].0 as f64;
            }
        }
    }
    factors
}

/// Lets every rank take in cell `at` what the quickest takes that takes any time; how much less that is at most.
fn as_the_quickest(factors: &mut [Vec<f64>], sums: &[Vec<DurNs>], at: usize) -> DurNs {
    let taking = || sums.iter().map(|cells| cells[at]).filter(|&time| time > DurNs::ZERO);
    let (Some(least), Some(most)) = (taking().min(), taking().max()) else { return DurNs::ZERO };
    for (factors, sums) in factors.iter_mut().zip(sums).filter(|(_, sums)| sums[at] > DurNs::ZERO) {
        factors[at] = least.0 as f64 / sums[at].0 as f64;
    }
    most - least
}

/// What ranks do between collectives of all of them, told by what each host had issued.
struct Stretches {
    /// Collectives of all ranks.
    joined: usize,
    /// By rank, when it issued each of these.
    issued: Vec<Vec<TimeNs>>,
}

impl Stretches {
    fn of(graph: &ExecutionGraph) -> Self {
        let rank_of = |node: NodeId| graph.lanes[graph.tasks[node].lane.0 as usize].rank;
        let mut issued: Vec<Vec<TimeNs>> = vec![Vec::new(); graph.ranks.len()];
        let mut joined = 0;
        for one in graph.collectives.iter().filter(|one| one.members.len() == graph.ranks.len()) {
            joined += 1;
            for &member in &one.members {
                let at = graph.place_of(rank_of(member)).unwrap_or(0);
                issued[at].push(launched(graph, member));
            }
        }
        for times in &mut issued {
            times.sort_unstable();
        }
        Self { joined, issued }
    }

    /// The cell of calls that allocate memory, behind those of all stretches: of the chosen iteration where `inside` is 1.
    fn allocations(&self, inside: usize) -> usize {
        (self.joined + 1) * PLACES + inside
    }

    /// The position of a task's rank, and its stretch by host and device; `None` of collectives, joints and markers.
    fn place(&self, draft: &Draft<'_>, node: Node) -> Option<(usize, usize)> {
        let (graph, kind) = (draft.graph(), draft.kind_of(node));
        if !kind.is_work() || matches!(kind, TaskKind::Collective(_)) {
            return None;
        }
        let rank = draft.rank_of(draft.lane_of(node));
        if kind == TaskKind::Runtime && ALLOCATIONS.iter().any(|call| draft.name_of(node).starts_with(call)) {
            let inside = draft.base().iteration_tasks()[draft.beside(node).index()];
            return Some((rank, self.allocations(usize::from(inside))));
        }
        let at = launched(graph, draft.beside(node));
        let stretch = self.issued.get(rank)?.partition_point(|&issued| issued <= at);
        Some((rank, stretch * PLACES + usize::from(kind.is_device())))
    }
}

/// When the host issued a task: the start of its launch, else its own.
fn launched(graph: &ExecutionGraph, node: NodeId) -> TimeNs {
    let task = &graph.tasks[node];
    let call = if task.kind.is_device() { graph.launch_of(node) } else { None };
    call.map_or(task.measured_start, |call| graph.tasks[call].measured_start)
}
