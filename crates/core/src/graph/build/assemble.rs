//! Ranks → one graph: a shared clock, each rank's tasks, the collectives that join them, and the topological order.

use crate::diagnostic::Diagnostics;
use crate::graph::iteration::MeanStep;
use crate::graph::{
    Clock, Collective, ExecutionGraph, LateStart, Pass, Rank, RankPart, StepOfOptimizer, TaskKind, TimedGraph,
};
use crate::trace::steps::OddRanges;
use crate::trace::{EventId, RecordedDevice, folding_tolerance};
use crate::units::{DurNs, TimeNs, total};

use super::Prepared;
use super::batches;
use super::collectives::{self, Drafted, Member};
use super::convolutions;
use super::draft::Ordered;
use super::emit::{RankOutput, Shared};
use super::gather::{self, Written};
use super::lookups;
use super::misplaced;
use super::optimizers;
use super::stated;
use super::unlike_steps;
use super::unread;

/// Schedule time 0 of each rank in its trace's time: one instant on a shared clock, before any task of the windows.
pub(super) fn zeros(ranks: &[Prepared<'_>]) -> Vec<TimeNs> {
    let first = |rank: &Prepared<'_>| {
        let (from, all) = (rank.window.start, rank.window.main.is_none());
        let activities = rank.observed.activities.list.iter().filter(|activity| activity.end > from || all);
        activities.map(|activity| activity.start).fold(from, TimeNs::min)
    };
    let origin = |rank: &Prepared<'_>| rank.input.trace.origin.0;
    let earliest = ranks.iter().map(|rank| first(rank).0.saturating_add(origin(rank))).min().unwrap_or_default();
    ranks.iter().map(|rank| TimeNs(earliest.saturating_sub(origin(rank)))).collect()
}

/// Writes all ranks into one graph, and lowers it.
///
/// # Arguments
/// `hidden`: how many waits were found that no call shows.
pub(super) fn assemble(ranks: &[Prepared<'_>], hidden: usize) -> (ExecutionGraph, TimedGraph) {
    let Aligned { zeros, groups, clocks } = shared_clock(ranks);
    let Written { mut shared, outputs, virtual_lanes } = gather::write(ranks, &zeros);
    let task_of: Vec<&[u32]> = outputs.iter().map(|rank| rank.activities.as_slice()).collect();
    let counts: Vec<u32> = ranks.iter().map(|rank| 1 + rank.input.others.len() as u32).collect();
    let drafted = collectives::join(&mut shared, &groups, &task_of, &virtual_lanes, &counts, world_size(ranks));
    let Shared { mut draft, lanes, mut names, mut operators } = shared;
    lookups::complete(&mut operators, &names);
    convolutions::complete(&mut operators, &names);
    let contradicted = draft.drop_contradicted();
    let mut ordered = draft.order();
    let stated = stated::works(ranks, &ordered, (&lanes, &operators.list), &mut names);
    // A finished graph grows no more.
    names.shrink_to_fit();
    operators.list.shrink_to_fit();
    operators.operands.shrink_to_fit();
    let parts = parts(ranks, (&zeros, &clocks), &outputs, &ordered);
    let timed = std::mem::take(&mut ordered.timed);
    let mut graph = ExecutionGraph {
        measured: parts.iter().map(|part| part.measured).max().unwrap_or_default(),
        late_starts: late_starts(&outputs, &ordered),
        diagnostics: diagnostics(ranks, (&zeros, &outputs), (hidden, contradicted), &drafted, (&ordered, &parts)),
        stated,
        stands_beside: Vec::new(),
        repeats: Vec::new(),
        collectives: with_members(drafted, &ordered),
        tasks: ordered.graph,
        lanes,
        batch_size: None,
        batches: 1,
        passes: Vec::new(),
        operators: operators.list,
        operands: operators.operands,
        names,
        is_predicted: ranks.iter().any(|rank| rank.input.trace.predicted.is_some()),
        ranks: parts,
        constants: ranks.iter().map(|rank| rank.observed.constants.clone()).collect(),
    };
    let beside = graph.beside_training();
    graph.batch_size = graph.told_batch(&beside);
    let found = batches::find(ranks, &graph, &beside);
    graph.batches = found.counts.iter().copied().max().unwrap_or(1);
    let each = found.counts.into_iter().zip(found.begins);
    graph.ranks.iter_mut().zip(each).for_each(|(part, own)| (part.batches, part.passes) = own);
    graph.passes = found.passes;
    // Where a step trains on some samples and is evaluated on others, its batch is what it trains on.
    let told = graph.batch_size.filter(|_| !found.evaluates);
    graph.batch_size = told.or_else(|| graph.usual_pass()).or(graph.batch_size);
    if found.may_be_one > 1 {
        graph.diagnostics.warn("passes-by-optimizer", by_optimizer(found.may_be_one));
    }
    note_passes(&mut graph);
    note_updates(&mut graph);
    (graph, timed)
}

/// Says where optimizers have steps in other steps of the program only.
fn note_updates(graph: &mut ExecutionGraph) {
    let is_elsewhere = |part: &RankPart| part.optimizers.iter().any(|it| it.step == StepOfOptimizer::Other);
    if graph.ranks.iter().any(is_elsewhere) {
        graph.diagnostics.note(
            "update-elsewhere",
            "no parameters are updated in this step, but in another one of the recording: how many steps make an update is not known, and \
             its time is in no figure",
        );
    }
}

/// What else an iteration may be whose `batches` only the optimizer's lists tell.
fn by_optimizer(batches: u32) -> String {
    format!(
        "{batches} batches an iteration, told by gradients that are added up {batches} times as often as the optimizer's lists name tensors of \
         their sizes: where it updates only a part of the parameters, or each rank its own part, it is one batch, throughput {batches} times \
         less and parameters {batches} times more"
    )
}

/// Says where the passes of a step run on batches of unlike size.
fn note_passes(graph: &mut ExecutionGraph) {
    note_evaluations(graph);
    let Some(first) = graph.passes.iter().find(|pass| pass.is_counted) else { return };
    let chosen = graph.passes.iter().filter(|pass| pass.is_counted && pass.rank == first.rank);
    let sizes: Vec<u64> = chosen.map(|pass| pass.batch).collect();
    let (least, most) = (sizes.iter().min().copied(), sizes.iter().max().copied());
    let (Some(least), Some(most)) = (least, most) else { return };
    let (count, samples) = (sizes.len(), total(sizes.iter().copied()));
    let unlike_ranks = graph.ranks.windows(2).any(|pair| pair[0].batches != pair[1].batches)
        || graph.passes.iter().any(|pass| pass.is_counted && pass.batch != least);
    if least == most && !unlike_ranks {
        return;
    }
    let text = match graph.batch_size {
        Some(_) if least == most => {
            "ranks run on unlike numbers of samples in a step: throughput counts those of each".to_owned()
        }
        Some(_) => {
            format!("{count} passes of a step run on {least} to {most} samples: throughput counts {samples} of them")
        }
        None => format!("{count} passes of a step run on {least} to {most} samples, and the batch size is not known"),
    };
    graph.diagnostics.note("unlike-batches", text);
}

/// Says where an iteration has passes that train nothing on other numbers of samples than it trains on.
fn note_evaluations(graph: &mut ExecutionGraph) {
    let is_trained = |batch: u64| graph.passes.iter().any(|pass| pass.is_counted && pass.batch == batch);
    let inside = |pass: &&Pass| {
        let part = graph.ranks.iter().find(|part| part.rank == pass.rank);
        part.is_some_and(|part| (part.iteration_start..part.iteration_end).contains(&pass.from))
    };
    let beside = graph.passes.iter().filter(inside).filter(|pass| !pass.is_counted && !is_trained(pass.batch));
    let mut sizes: Vec<u64> = beside.map(|pass| pass.batch).collect();
    let count = sizes.len();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if count > 0 {
        let passes = if count == 1 { "1 forward pass" } else { &format!("{count} forward passes") };
        let text = format!(
            "{passes} of a step on {sizes} samples without a backward pass: batch and throughput are of what is trained, and with another \
             batch it is as many times more"
        );
        graph.diagnostics.note("evaluation-passes", text);
    }
}

/// How many ranks the job has, as its traces say; 0 where none does.
fn world_size(ranks: &[Prepared<'_>]) -> u32 {
    let recorded = ranks.iter().filter_map(|rank| rank.input.trace.rank?.world_size);
    recorded.max().unwrap_or_default()
}

/// Ranks on one clock.
struct Aligned {
    /// Schedule time 0 of each rank in its trace's time.
    zeros: Vec<TimeNs>,
    /// The collectives that ranks share.
    groups: Vec<Vec<Member>>,
    /// Each rank's clock against the first's.
    clocks: Vec<Clock>,
}

/// Aligns the clocks of all ranks where the first rank's window begins: within a window no clock drifts far.
fn shared_clock(ranks: &[Prepared<'_>]) -> Aligned {
    let zeros = zeros(ranks);
    let members = ranks.iter().enumerate().map(|(i, rank)| collectives::members(&rank.observed, i, zeros[i]));
    let at =
        ranks.first().zip(zeros.first()).map_or(TimeNs(0), |(rank, &zero)| TimeNs(rank.window.start.since(zero).0));
    let counts: Vec<u32> = ranks.iter().map(|rank| 1 + rank.input.others.len() as u32).collect();
    let (groups, clocks) = collectives::matched(members.collect(), &counts, at);
    let ahead = clocks.iter().map(|clock| clock.offset).max().unwrap_or_default();
    let zeros = zeros.iter().zip(&clocks).map(|(&zero, clock)| zero + clock.offset - ahead).collect();
    Aligned { zeros, groups, clocks }
}

fn with_members(drafted: Vec<Drafted>, ordered: &Ordered) -> Vec<Collective> {
    let nodes = |tasks: &[u32]| tasks.iter().map(|&task| ordered.node_of[task as usize]).collect();
    let with = |it: Drafted| Collective { members: nodes(&it.tasks), arrivals: nodes(&it.arrivals), ..it.collective };
    drafted.into_iter().map(with).collect()
}

/// Every late start without a cause, the latest first.
fn late_starts(outputs: &[RankOutput], ordered: &Ordered) -> Vec<LateStart> {
    let all = outputs.iter().flat_map(|rank| &rank.unexplained);
    let mut found: Vec<LateStart> =
        all.map(|&(task, by)| LateStart { node: ordered.node_of[task as usize], by }).collect();
    found.sort_by_key(|late| (std::cmp::Reverse(late.by), late.node));
    found
}

fn diagnostics(
    ranks: &[Prepared<'_>],
    (zeros, outputs): (&[TimeNs], &[RankOutput]),
    (hidden, contradicted): (usize, usize),
    drafted: &[Drafted],
    (ordered, parts): (&Ordered, &[RankPart]),
) -> Diagnostics {
    let mut found = Diagnostics::default();
    for rank in ranks {
        found.merge(&rank.input.trace.diagnostics);
    }
    if hidden > 0 {
        let what = "long host times, in the same place on several ranks, are taken as waits for the device";
        found.note("hidden-wait", format!("{hidden} {what}"));
    }
    if contradicted > 0 {
        let what = "inferred dependencies were left out: by them work would have started later than it did";
        found.note("contradicted-dependency", format!("{contradicted} {what}"));
    }
    if ordered.dropped > 0 {
        let what = "inferred dependencies closed a cycle and were left out";
        found.note("cyclic-dependency", format!("{} {what}", ordered.dropped));
    }
    note_beginnings(&mut found, ranks, zeros, outputs);
    unread::note(&mut found, ranks);
    for rank in ranks {
        misplaced::note(&mut found, rank.input.rank, &rank.observed);
    }
    note_outlived(&mut found, ranks, outputs);
    note_unrecorded(&mut found, ranks, outputs, ordered);
    note_clocks(&mut found, parts);
    unlike_steps::note(&mut found, ranks, parts);
    note_odd_steps(&mut found, ranks);
    note_folding(&mut found, parts);
    note_partial(&mut found, drafted, parts);
    note_ambiguous(&mut found, ranks, drafted);
    note_alone(&mut found, ranks, drafted);
    note_unlike_messages(&mut found, drafted);
    found
}

/// Says which collectives keep their traced duration, since no other rank meets them in the modelled window.
fn note_alone(found: &mut Diagnostics, ranks: &[Prepared<'_>], drafted: &[Drafted]) {
    let is_alone = |one: &&Drafted| one.collective.loaded == 1 && !one.is_ambiguous;
    let (outside, alone): (Vec<&Drafted>, Vec<&Drafted>) =
        drafted.iter().filter(is_alone).partition(|one| one.matched > one.collective.loaded);
    let (outside, alone) = (outside.len(), alone.len());
    let (what, keep) = if alone == 1 { ("collective", "keeps its") } else { ("collectives", "keep their") };
    if alone > 0 && ranks.len() == 1 {
        let why = "traced duration, which contains waiting for ranks that are not loaded";
        found.note("single-rank-collectives", format!("{alone} {what} {keep} {why}"));
    } else if alone > 0 {
        let has = if alone == 1 { "has no partner" } else { "have no partner" };
        found.warn("unmatched-collectives", format!("{alone} {what} {has} on another rank and {keep} traced duration"));
    }
    if outside > 0 {
        let (what, keep) = if outside == 1 { ("collective", "keeps its") } else { ("collectives", "keep their") };
        let where_to = "at the edge of the modelled window: its other ranks ran it outside of theirs";
        found.warn("collectives-at-edge", format!("{outside} {what} {where_to}; {keep} traced duration"));
    }
}

/// Says of which collectives the ranks recorded unlike sizes of one message, or a group that is not as large as its list of ranks.
fn note_unlike_messages(found: &mut Diagnostics, drafted: &[Drafted]) {
    let mut unlike = drafted.iter().filter_map(|one| one.unlike);
    if let Some((less, more)) = unlike.next() {
        let count = 1 + unlike.count();
        let what = if count == 1 { "message has" } else { "messages have" };
        let text = format!(
            "{count} {what} another size on one rank than on another, where all have the same ({less} and {more}): the larger is taken"
        );
        found.warn("unlike-messages", text);
    }
    let mut unlike = drafted.iter().filter_map(|one| one.unlike_group);
    if let Some((size, listed)) = unlike.next() {
        let count = 1 + unlike.count();
        let what = if count == 1 { "collective has" } else { "collectives have" };
        let text = format!(
            "{count} {what} a group of {size} ranks of which {listed} are listed, where all are: {} are taken",
            size.max(listed)
        );
        found.warn("unlike-groups", text);
    }
    let mut beyond = drafted.iter().filter_map(|one| Some((one.beyond?, one.collective.group_size)));
    if let Some((more, ranks)) = beyond.next() {
        let (count, size) = (1 + beyond.count(), u64::from(ranks) + u64::from(more));
        let what = if count == 1 { "collective has" } else { "collectives have" };
        let text = format!("{count} {what} a group of {size} ranks in a job of {ranks}: {ranks} are taken");
        found.warn("groups-beyond-job", text);
    }
}

/// Says how many ranks others stand for.
fn note_folding(found: &mut Diagnostics, parts: &[RankPart]) {
    let all: u32 = parts.iter().map(RankPart::count).sum();
    let simulated = parts.len() as u32;
    if all > simulated {
        let percent = 100.0 * folding_tolerance(all as usize);
        let text = format!("{simulated} of {all} ranks are simulated, the others did the same within {percent} %");
        found.note("folded-ranks", text);
    }
}

/// Says which collectives lack a rank that is loaded.
fn note_partial(found: &mut Diagnostics, drafted: &[Drafted], parts: &[RankPart]) {
    let loaded: u32 = parts.iter().map(RankPart::count).sum();
    let lacks = |one: &&Drafted| {
        let size = one.collective.group_size;
        !one.is_ambiguous && one.matched > 1 && one.matched < size && size <= loaded
    };
    let partial: Vec<&Drafted> = drafted.iter().filter(lacks).collect();
    if let Some(first) = partial.first() {
        let (there, size, count) = (first.matched, first.collective.group_size, partial.len());
        let what = "collectives have no member on some loaded ranks";
        let text = format!("{count} {what} (the first has {there} of {size}): those that have one wait for each other");
        found.warn("partial-collectives", text);
    }
}

/// Says which collectives are of groups that cannot be told apart.
fn note_ambiguous(found: &mut Diagnostics, ranks: &[Prepared<'_>], drafted: &[Drafted]) {
    let ambiguous: Vec<&Drafted> = drafted.iter().filter(|one| one.is_ambiguous).collect();
    if let Some(first) = ambiguous.first().filter(|_| ranks.len() > 1) {
        let (count, size) = (ambiguous.len(), first.collective.group_size);
        let what = format!(
            "are of groups that share a name, and which ranks each has was not recorded (the first has {size})"
        );
        found.warn("ambiguous-groups", format!("{count} collectives {what}: each rank's keeps its traced duration"));
    }
}

/// Clocks this close to the first rank's are not worth a word.
const SAME_CLOCK: DurNs = DurNs(1_000);

/// Says how far the clocks of ranks are apart.
fn note_clocks(found: &mut Diagnostics, parts: &[RankPart]) {
    let Some(first) = parts.first() else { return };
    for part in parts {
        let Clock { offset, drift_ppm } = part.clock;
        if offset.abs() < SAME_CLOCK && drift_ppm.abs() < 1.0 {
            continue;
        }
        let way = if offset.0 < 0 { "behind" } else { "ahead of" };
        let drift = if drift_ppm.abs() < 1.0 { String::new() } else { format!(", drifting by {drift_ppm:+.0} ppm") };
        let (rank, other, apart) = (part.rank.0, first.rank.0, offset.abs());
        found.note("clock", format!("rank {rank}'s clock is {apart} {way} rank {other}'s{drift}: both are taken out"));
    }
}

/// Says which ranges of steps were not taken as they were recorded, and which steps were not considered.
fn note_odd_steps(found: &mut Diagnostics, ranks: &[Prepared<'_>]) {
    for rank in ranks {
        let (number, odd) = (rank.input.rank.0, rank.odd);
        let told = [
            ("repeated-steps", odd.repeated, "were recorded twice: they count once"),
            ("nested-steps", odd.nested, "lie within another one on the same thread: the outermost counts"),
            ("overlapping-steps", odd.overlapping, "end after the next one began: they are taken to end there"),
        ];
        for (code, count, what) in told.into_iter().filter(|&(_, count, _)| count > 0) {
            found.warn(code, format!("rank {number}: {count} ranges of steps {what}"));
        }
    }
    if let Some(OddRanges { kinds, beside_turns, .. }) =
        ranks.first().map(|first| first.odd).filter(|odd| odd.kinds > 0)
    {
        let beside =
            if beside_turns > 0 { format!("; {beside_turns} of no whole turn are left out") } else { String::new() };
        found.note(
            "steps-in-turn",
            format!("steps of {kinds} kinds take turns: {kinds} of them are one iteration{beside}"),
        );
    }
    note_mean_step(found, ranks);
    if let Some(first) = ranks.first().filter(|first| first.small > 0) {
        let (small, all) = (first.small, first.steps);
        let what = "have less than half the events of others, and are not chosen unless --iteration names one";
        found.note("small-steps", format!("{small} of {all} steps {what}"));
    }
}

/// From how far on, as a share, the mean of steps is another figure than the chosen one.
const ANOTHER_MEAN: f64 = 0.05;

/// Says where steps take another time on average than the one that is modelled: figures are of that one.
fn note_mean_step(found: &mut Diagnostics, ranks: &[Prepared<'_>]) {
    let differs = |mean: &MeanStep| (mean.own.0 as f64 / mean.mean.0.max(1) as f64 - 1.0).abs() > ANOTHER_MEAN;
    let apart = ranks.iter().find_map(|rank| Some((rank, rank.mean.filter(differs)?)));
    let Some((rank, MeanStep { count, mean, own })) = apart else { return };
    let name = &rank.window.name;
    found.warn(
        "unlike-steps",
        format!("{count} steps in a row take {mean} each on average, {name} takes {own}: times and throughput are of that one"),
    );
}

/// Says what the trace does not show: late starts without a cause, and ranks that began long after the first one.
fn note_beginnings(found: &mut Diagnostics, ranks: &[Prepared<'_>], zeros: &[TimeNs], outputs: &[RankOutput]) {
    let late: Vec<DurNs> = outputs.iter().flat_map(|rank| &rank.unexplained).map(|&(_, by)| by).collect();
    if !late.is_empty() {
        let total: DurNs = late.iter().copied().sum();
        let what = if late.len() == 1 { "piece of device work starts" } else { "pieces of device work start" };
        let than = "later than launch, stream order and waits explain";
        found.warn("unexplained-start", format!("{} {what} {than}, by {total} in all", late.len()));
    }
    let first = |rank: &Prepared<'_>, zero: TimeNs| rank.window.start.since(zero);
    let begun = ranks.iter().zip(zeros).filter(|(rank, _)| rank.window.split.is_none());
    let begun: Vec<(DurNs, u32)> = begun.map(|(rank, &zero)| (first(rank, zero), rank.input.rank.0)).collect();
    if let (Some(&(earliest, _)), Some(&(latest, rank))) = (begun.iter().min(), begun.iter().max())
        && (latest - earliest) * LATE_RANK
            > outputs.iter().map(|it| it.measured.1.since(it.measured.0)).max().unwrap_or_default()
    {
        let what = "after the first rank did; what it did before that was not recorded";
        let late = latest - earliest;
        let recorded = recording_spread(ranks, zeros);
        let profiler = if recorded * 10 > late * 9 {
            format!(" (the profiler itself started {recorded} apart on the ranks, and the step began with it)")
        } else {
            String::new()
        };
        found.warn("late-rank", format!("rank {rank} began the recorded step {late} {what}{profiler}"));
    }
}

/// Says of which ranks nothing can be told, as the step before ended after the chosen one.
fn note_outlived(found: &mut Diagnostics, ranks: &[Prepared<'_>], outputs: &[RankOutput]) {
    for (rank, output) in ranks.iter().zip(outputs).filter(|(_, output)| output.measured.1 < output.measured.0) {
        let (number, late) = (rank.input.rank.0, output.measured.0.since(output.measured.1));
        let activities = rank.observed.activities.list.iter();
        let unknown = activities.filter(|activity| activity.call.is_none() && !activity.on_host).count();
        let why = if unknown == 0 {
            format!("work of the step before ended {late} after the chosen one")
        } else {
            format!("{unknown} kernels and copies have no recorded launch, and which step they are of is not known")
        };
        let what = "its period is taken as zero; choose another with --iteration";
        found.warn("outlived-step", format!("rank {number}: {why}: {what}"));
    }
}

/// Says what is taken as work that was not recorded.
fn note_unrecorded(found: &mut Diagnostics, ranks: &[Prepared<'_>], outputs: &[RankOutput], ordered: &Ordered) {
    for (rank, output) in ranks.iter().zip(outputs) {
        if let Some(waited) = backlog(rank, output).filter(|_| output.backlogs > 0) {
            let number = rank.input.rank.0;
            let what =
                "the iteration begins where that had ended, and that it takes as long as kernels do is an assumption";
            found.note("backlog", format!("rank {number} waited {waited} for work from before the trace: {what}"));
        }
    }
    for (rank, output) in ranks.iter().zip(outputs) {
        if let Some((count, until)) = output.without_launch {
            let number = rank.input.rank.0;
            let what = if backlog(rank, output).is_some() {
                "they are taken as of the step before, and the iteration begins where they have ended"
            } else {
                "their launches were lost, or they are of the step before; they count as this one's"
            };
            let which =
                format!("rank {number}: {count} kernels and copies of the first {until} have no recorded launch");
            found.note("lost-launches", format!("{which}: {what}"));
        }
    }
    let in_graphs = ordered.graph.node_weights().filter(|task| task.kind == TaskKind::Unrecorded).count();
    let in_graphs = in_graphs - outputs.iter().map(|output| output.backlogs).sum::<usize>();
    if in_graphs > 0 {
        let what = "nodes of graphs idle alike whenever the graph runs: taken as work that was not recorded and scales as kernels do";
        found.note("unrecorded-work", format!("{in_graphs} {what}"));
    }
}

/// How long a rank's first work waited for work from before the trace.
fn backlog(rank: &Prepared<'_>, output: &RankOutput) -> Option<DurNs> {
    let began = output.begin.is_some() && rank.window.split.is_none();
    began.then(|| output.measured.0.since(rank.window.start))
}

/// How far the first events of the ranks are apart where on each of them the step begins with it; else zero.
fn recording_spread(ranks: &[Prepared<'_>], zeros: &[TimeNs]) -> DurNs {
    let first = |(rank, &zero): (&Prepared<'_>, &TimeNs)| {
        let began = rank.input.trace.events.start(EventId(0));
        let lead = rank.window.start.since(began);
        (lead * LATE_RANK < rank.window.end.since(rank.window.start)).then_some(began.since(zero))
    };
    let began: Option<Vec<DurNs>> = ranks.iter().zip(zeros).map(first).collect();
    let began = began.unwrap_or_default();
    began.iter().max().zip(began.iter().min()).map_or(DurNs::ZERO, |(&last, &first)| last - first)
}

/// A rank is late when it begins this part of the period after the first, or later.
const LATE_RANK: i64 = 50;

fn parts(
    ranks: &[Prepared<'_>],
    (zeros, clocks): (&[TimeNs], &[Clock]),
    outputs: &[RankOutput],
    ordered: &Ordered,
) -> Vec<RankPart> {
    let node = |task: u32| ordered.node_of[task as usize];
    let part = |(((rank, &zero), &clock), outputs): (((&Prepared<'_>, &TimeNs), &Clock), &RankOutput)| {
        debug_assert_eq!(ordered.graph[node(outputs.end)].kind, TaskKind::StepEnd);
        RankPart {
            rank: rank.input.rank,
            others: rank.input.others.iter().copied().map(Rank).collect(),
            trace_index: rank.input.trace_index,
            unlike: device(rank).and_then(|device| unlike(rank, &device)),
            device: device(rank),
            clock,
            batches: 1,
            passes: Vec::new(),
            tells_transfers: rank.input.trace.transfers.is_some(),
            optimizers: optimizers::find(rank.input.trace, &iteration(rank)),
            iteration: rank.window.name.clone(),
            window_start: zero,
            iteration_start: TimeNs(iteration(rank).start.since(zero).0),
            iteration_end: TimeNs(iteration(rank).end.since(zero).0),
            window_end: outputs.measured.1.max(rank.window.end),
            begin: outputs.begin.map(node),
            backlog: backlog(rank, outputs),
            end: node(outputs.end),
            measured: outputs.measured.1.since(outputs.measured.0).max(DurNs::ZERO),
        }
    };
    ranks.iter().zip(zeros).zip(clocks).zip(outputs).map(part).collect()
}

/// The host's time in the chosen step; to the very end without steps.
fn iteration(rank: &Prepared<'_>) -> std::ops::Range<TimeNs> {
    let end = if rank.window.main.is_some() { rank.window.end } else { rank.window.end + DurNs(1) };
    rank.window.split.unwrap_or(rank.window.start)..end
}

/// The device that did most of the rank's work.
fn device(rank: &Prepared<'_>) -> Option<RecordedDevice> {
    let busiest = rank.observed.activities.streams.iter().max_by_key(|stream| stream.activities.len())?.device;
    let devices = &rank.input.trace.devices;
    let used = devices.iter().find(|device| i64::from(device.id) == busiest);
    used.or_else(|| devices.first()).cloned()
}

/// A device that the rank used beside `device` and that is another model.
fn unlike(rank: &Prepared<'_>, device: &RecordedDevice) -> Option<RecordedDevice> {
    let used = |other: &&RecordedDevice| {
        rank.observed.activities.streams.iter().any(|stream| stream.device == i64::from(other.id))
    };
    let mut others = rank.input.trace.devices.iter().filter(|other| other.name != device.name);
    others.find(used).cloned()
}
