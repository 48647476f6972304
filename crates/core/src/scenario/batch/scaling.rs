//! What two traces of one model at different batch sizes tell: which dimensions grow with the batch, and how the time of each
//! operator does.
//!
//! Operators are matched by name, caller, phase and order within a step. Each kind of call has two times. Where a model
//! says how its time grows, the model is anchored at both: `t = m(B)·r^λ`, with `m` the model through the first time, `r`
//! what the second is over `m`, `λ` how far `ln B` is between both, from 0 to 1. So beyond both batch sizes the model goes on
//! from the nearer one, and the noise of two traces is not blown up by a slope between them. Where no model does, it is
//! `t = a + b·B`, or `t = b·B^c` where that line would start below zero; what does not grow keeps its mean.
//!
//! Hosts are not equally fast twice, whatever the batch. Of host work (launches, and what is between them) the ratio that is
//! the middle of all is taken as the speeds of both recordings. Of what a kind of call is beside it, as much counts as stands
//! out from how kinds scatter: with `r` its logarithm and `σ` the scatter, `r·max(0, 1 − (3σ/r)²)` [Breiman 1995, the
//! non-negative garrote].

use std::mem::Discriminant;

use rustc_hash::FxHashMap;

use crate::graph::{
    ExecutionGraph, HostPart, NodeId, Operand, Operands, OperandsId, OperatorId, Phase, Task, TaskKind,
};
use crate::intern::NameId;
use crate::stats;

/// How calls of one graph scale, learned from another of the same model.
#[derive(Clone, Debug)]
pub struct BatchScaling {
    /// Batch sizes of the graph and of the other.
    batches: [u64; 2],
    /// Number of tasks of the graph, by which it is recognised.
    tasks: usize,
    /// By task, where the other graph has its like.
    calls: Vec<Option<CallScaling>>,
    /// Operators whose arguments differ, with those of the other graph.
    grown: Vec<(OperatorId, Operands)>,
    /// How the host work of both differs.
    host: Option<HostSpeeds>,
}

/// Times of a kind of call at both batch sizes, in ns; of the second, what it would be at the speed of the first's host.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CallScaling([f64; 2]);

/// How the host work of two recordings differs, whatever their batches: logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HostSpeeds {
    /// The second's times over the first's.
    ratio: f64,
    /// How kinds of calls scatter about that, as a standard deviation.
    scatter: f64,
}

impl HostSpeeds {
    /// Of the logarithms of the ratios of kinds of calls, each with the time that it weighs by.
    fn of(ratios: &[(f64, f64)]) -> Option<Self> {
        let ratio = stats::weighted_quantile(ratios.to_vec(), 0.5)?;
        let apart = ratios.iter().map(|(of, weight)| ((of - ratio).abs(), *weight)).collect();
        Some(Self { ratio, scatter: OF_NORMAL * stats::weighted_quantile(apart, 0.5)? })
    }

    /// The second time at the speed of the first recording, without what is as likely scatter.
    fn at_first(self, [first, second]: [f64; 2]) -> f64 {
        let beside = (second / first).ln() - self.ratio;
        let certain = 1.0 - (STANDS_OUT * self.scatter / beside).powi(2);
        first * if certain > 0.0 { (beside * certain).exp() } else { 1.0 }
    }
}

/// What is within as many standard deviations of the others is scatter.
const STANDS_OUT: f64 = 3.0;

/// Standard deviation of a normal distribution over its median distance from the middle.
const OF_NORMAL: f64 = 1.4826;

/// Largest exponent: attention over longer inputs grows with the square.
const LARGEST_EXPONENT: f64 = 2.0;

impl CallScaling {
    /// As [`Self::ratio`], by a model that gives `modelled` of the first time at the second batch size and at the new one.
    fn anchored(self, batches: [u64; 2], new: u64, modelled: Modelled) -> f64 {
        const LEAST: f64 = 0.01;
        if (modelled.other - 1.0).abs() < LEAST || modelled.other <= 0.0 {
            return self.ratio(batches, new);
        }
        let [first, second] = self.0;
        modelled.new * (second / first / modelled.other).powf(along(batches, new as f64))
    }

    /// The time at a batch of `new` over that at the first of `batches`.
    fn ratio(self, batches: [u64; 2], new: u64) -> f64 {
        let ([first, second], [a, b], new) = (self.0, batches.map(|batch| batch as f64), new as f64);
        if (second > first) != (b > a) {
            return (second / first).sqrt();
        }
        let slope = (second - first) / (b - a);
        if first - slope * a >= 0.0 {
            return 1.0 + slope * (new - a) / first;
        }
        let exponent = ((second / first).ln() / (b / a).ln()).min(LARGEST_EXPONENT);
        (new / a).powf(exponent)
    }
}

/// How far a batch is between both of `batches`, 0 to 1, by logarithms.
fn along(batches: [u64; 2], batch: f64) -> f64 {
    let [a, b] = batches.map(|batch| batch as f64);
    ((batch / a).ln() / (b / a).ln()).clamp(0.0, 1.0)
}

/// What a model says of a task's time, over that at the batch size of the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::scenario) struct Modelled {
    /// At the batch size of the other trace.
    pub(in crate::scenario) other: f64,
    /// At the one asked for.
    pub(in crate::scenario) new: f64,
}

/// What calls have in common that are the same place in the model: names of operator and caller, phase.
type Place = (NameId, Option<NameId>, Phase);
/// A kind of task: its operator's place and arguments, its number among that one's tasks of the sort, its name and sort.
type Kind = (Option<Place>, Option<OperandsId>, usize, NameId, Discriminant<TaskKind>);

impl BatchScaling {
    /// Learns what `other` tells about `graph`; `None` when a batch size is not known, both are the same, or sizes of most operators tell
    /// that it is another model.
    ///
    /// # Complexity
    /// O(tasks + operators) of both.
    pub fn learn(graph: &ExecutionGraph, other: &ExecutionGraph) -> Option<Self> {
        let batches = [graph.batch_size?, other.batch_size?];
        if batches[0] == batches[1] {
            return None;
        }
        let matched = matched_operators(graph, other);
        if !is_one_model((graph, other), &matched) {
            return None;
        }
        let (calls, host) = call_scalings(graph, other, &matched);
        let grown = matched.iter().enumerate().filter_map(|(id, theirs)| {
            let operands = |graph: &ExecutionGraph, id: OperatorId| {
                graph.operators[id.0 as usize].operands.map(|at| graph.operands[at.0 as usize].clone())
            };
            let (mine, theirs) = (operands(graph, OperatorId(id as u32))?, operands(other, (*theirs)?)?);
            (mine != theirs && alike(&mine, &theirs)).then_some((OperatorId(id as u32), theirs))
        });
        Some(Self { batches, tasks: graph.tasks.node_count(), calls, grown: grown.collect(), host })
    }

    /// Whether these are of `graph` at a batch of `batch`.
    pub(in crate::scenario) fn fit(&self, graph: &ExecutionGraph, batch: u64) -> bool {
        self.batches[0] == batch && self.tasks == graph.tasks.node_count()
    }

    /// The batch size of the other trace.
    pub fn other_batch(&self) -> u64 {
        self.batches[1]
    }

    /// The time of a task at a batch of `new` over its traced one.
    pub(in crate::scenario) fn ratio(&self, node: NodeId, new: u64, modelled: Modelled) -> Option<f64> {
        let law = (*self.calls.get(node.index())?)?;
        let ratio = law.anchored(self.batches, new, modelled);
        Some(ratio.max(0.0)).filter(|ratio| ratio.is_finite())
    }

    /// How many times as long the other recording's host work took, whatever the batch; `None` where none of it has a like.
    pub(in crate::scenario) fn other_host(&self) -> Option<f64> {
        self.host.map(|speeds| speeds.ratio.exp())
    }

    /// The arguments of all operators that grow, each dimension on the line through both traces, on top of what edits made of them.
    ///
    /// # Arguments
    /// `batches`: the one now, and the new one; `current`: the arguments of an operator now.
    pub(in crate::scenario) fn resized<'a>(
        &self,
        graph: &ExecutionGraph,
        batches: [u64; 2],
        current: impl Fn(OperatorId) -> Option<&'a Operands>,
    ) -> (Vec<Operands>, Vec<(OperatorId, u32)>) {
        let [a, b] = self.batches.map(|batch| batch as f64);
        let along = batches.map(|batch| (batch as f64 - a) / (b - a));
        let mut list = Vec::with_capacity(self.grown.len());
        let mut rows = Vec::with_capacity(self.grown.len());
        for (id, theirs) in &self.grown {
            let Some(own) = graph.operators[id.0 as usize].operands else { continue };
            let recorded = &graph.operands[own.0 as usize];
            let mut operands = current(*id).unwrap_or(recorded).clone();
            for (now, recorded, theirs) in triples(&mut operands.inputs, &recorded.inputs, &theirs.inputs) {
                regrow(now, (recorded, theirs), along);
            }
            rows.push((*id, list.len() as u32));
            list.push(operands);
        }
        (list, rows)
    }
}

fn triples<'a, T>(
    now: &'a mut [T],
    recorded: &'a [T],
    theirs: &'a [T],
) -> impl Iterator<Item = (&'a mut T, &'a T, &'a T)> {
    now.iter_mut().zip(recorded).zip(theirs).map(|((now, recorded), theirs)| (now, recorded, theirs))
}

/// Of operators of one model at two batch sizes this share has sizes that are equal or grow with the batch at least: some go by the data.
const OF_ONE_MODEL: f64 = 0.8;

/// Whether most operators have the sizes of their likes, but for the batch, and no parameter another size.
fn is_one_model((graph, other): (&ExecutionGraph, &ExecutionGraph), matched: &[Option<OperatorId>]) -> bool {
    let batches = [graph.batch_size, other.batch_size].map(|batch| u128::from(batch.unwrap_or(1)));
    let dims = |graph: &ExecutionGraph, id: OperatorId| -> Option<Vec<Vec<u64>>> {
        let operands = &graph.operands[graph.operators[id.0 as usize].operands?.0 as usize];
        Some(operands.inputs.iter().filter_map(|operand| operand.dims().map(<[u64]>::to_vec)).collect())
    };
    let is_parameter =
        |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name) == "torch::autograd::AccumulateGrad";
    let pairs = matched.iter().enumerate().filter_map(|(id, theirs)| {
        let id = OperatorId(id as u32);
        Some((is_parameter(id), dims(graph, id)?, dims(other, (*theirs)?)?))
    });
    let grows = |(a, b): (&u64, &u64)| a == b || u128::from(*a) * batches[1] == u128::from(*b) * batches[0];
    let is_like = |(a, b): (&Vec<u64>, &Vec<u64>)| a.len() == b.len() && a.iter().zip(b).all(grows);
    let (mut all, mut like) = (0_u32, 0_u32);
    for (is_parameter, mine, theirs) in pairs.filter(|(_, mine, _)| !mine.is_empty()) {
        if is_parameter && mine != theirs {
            return false;
        }
        all += 1;
        like += u32::from(mine.len() == theirs.len() && mine.iter().zip(&theirs).all(is_like));
    }
    f64::from(like) >= OF_ONE_MODEL * f64::from(all)
}

/// Gives an argument as it is now the sizes at another batch: those on the line through both traces, or where an edit made others of
/// them as many times as many as that line grows.
///
/// # Arguments
/// `along`: how far between both traces the batch now is, and the new one.
fn regrow(now: &mut Operand, (recorded, theirs): (&Operand, &Operand), along: [f64; 2]) {
    match (now, recorded, theirs) {
        (Operand::Tensor { dims, .. }, Operand::Tensor { dims: own, .. }, Operand::Tensor { dims: other, .. }) => {
            if dims.len() != own.len() {
                return;
            }
            for (dim, &own, &other) in triples(dims, own, other) {
                let [before, after] = along.map(|along| {
                    let grown = own as f64 + (other as f64 - own as f64) * along;
                    (grown.round() as u64).max(u64::from(own > 0))
                });
                *dim = match *dim {
                    same if same == before => after,
                    edited if before == 0 => edited,
                    edited => (edited as f64 * after as f64 / before as f64).round() as u64,
                };
            }
        }
        (Operand::TensorList(list), Operand::TensorList(own), Operand::TensorList(other)) => {
            for (now, recorded, theirs) in triples(list, own, other) {
                regrow(now, (recorded, theirs), along);
            }
        }
        _ => {}
    }
}

/// Whether two argument lists have tensors of equal rank in the same places.
fn alike(a: &Operands, b: &Operands) -> bool {
    let same = |(a, b): (&Operand, &Operand)| match (a, b) {
        (Operand::TensorList(a), Operand::TensorList(b)) => a.len() == b.len(),
        _ => a.dims().map(<[u64]>::len) == b.dims().map(<[u64]>::len),
    };
    a.inputs.len() == b.inputs.len() && a.inputs.iter().zip(&b.inputs).all(same)
}

fn place(graph: &ExecutionGraph, id: OperatorId) -> (&str, Option<&str>, Phase) {
    let operator = &graph.operators[id.0 as usize];
    let name = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name);
    (name(id), operator.parent.map(name), operator.phase)
}

/// Operators of the chosen step, by place.
fn by_place(graph: &ExecutionGraph) -> FxHashMap<(&str, Option<&str>, Phase), Vec<OperatorId>> {
    let mut places: FxHashMap<_, Vec<OperatorId>> = FxHashMap::default();
    for id in (0..graph.operators.len() as u32).map(OperatorId).filter(|&id| in_step(graph, id) == 1) {
        places.entry(place(graph, id)).or_default().push(id);
    }
    places
}

/// Which step of the window an operator is in: before, within or after the chosen one.
fn in_step(graph: &ExecutionGraph, id: OperatorId) -> usize {
    let operator = &graph.operators[id.0 as usize];
    let rank = graph.lanes[operator.lane.0 as usize].rank;
    graph.part_of(rank).map_or(1, |part| {
        usize::from(operator.start >= part.iteration_start) + usize::from(operator.start >= part.iteration_end)
    })
}

/// By operator of `graph`: its like in `other`'s chosen step. Places that occur another number of times are left out.
fn matched_operators(graph: &ExecutionGraph, other: &ExecutionGraph) -> Vec<Option<OperatorId>> {
    let theirs = by_place(other);
    let counts = by_place(graph);
    let mut passed: FxHashMap<_, [usize; 3]> = FxHashMap::default();
    let matched = (0..graph.operators.len() as u32).map(OperatorId).map(|id| {
        let place = place(graph, id);
        let number = &mut passed.entry(place).or_default()[in_step(graph, id)];
        *number += 1;
        let theirs = theirs.get(&place)?;
        let same_count = counts.get(&place).is_some_and(|mine| mine.len() == theirs.len());
        if same_count { theirs.get(*number - 1).copied() } else { None }
    });
    matched.collect()
}

/// Tasks by operator, in order.
fn tasks_of(graph: &ExecutionGraph) -> FxHashMap<OperatorId, Vec<NodeId>> {
    let mut tasks: FxHashMap<OperatorId, Vec<NodeId>> = FxHashMap::default();
    for node in graph.tasks.node_indices() {
        if let Some(operator) = graph.tasks[node].operator {
            tasks.entry(operator).or_default().push(node);
        }
    }
    tasks
}

fn call_scalings(
    graph: &ExecutionGraph,
    other: &ExecutionGraph,
    matched: &[Option<OperatorId>],
) -> (Vec<Option<CallScaling>>, Option<HostSpeeds>) {
    let (mine, theirs) = (tasks_of(graph), tasks_of(other));
    let mut kinds: Vec<Option<Kind>> = vec![None; graph.tasks.node_count()];
    let mut times: FxHashMap<Kind, [Vec<f64>; 2]> = FxHashMap::default();
    let ns = |task: &Task| task.duration.0 as f64;
    for (id, tasks) in mine {
        let operator = &graph.operators[id.0 as usize];
        let caller = operator.parent.map(|parent| graph.operators[parent.0 as usize].name);
        let place = (operator.name, caller, operator.phase);
        let like = matched[id.0 as usize].and_then(|like| theirs.get(&like));
        let (mine, theirs) = (by_kind(graph, &tasks), like.map(|like| by_kind(other, like)));
        for (what, mine) in mine {
            let theirs = theirs.as_ref().map(|kinds| kinds.get(&what).map_or(&[][..], Vec::as_slice));
            let kind = |at, name| (Some(place), operator.operands, at, name, what);
            if let Some(theirs) = theirs.filter(|theirs| theirs.len() != mine.len()) {
                // Another algorithm takes another number of kernels: together they are alike.
                let kind = kind(usize::MAX, operator.name);
                for node in &mine {
                    kinds[node.index()] = Some(kind);
                }
                let [first, second] = times.entry(kind).or_default();
                first.push(mine.iter().map(|&node| ns(&graph.tasks[node])).sum());
                let all: f64 = theirs.iter().map(|&node| ns(&other.tasks[node])).sum();
                second.extend(Some(all).filter(|&all| all > 0.0));
                continue;
            }
            for (at, &node) in mine.iter().enumerate() {
                let kind = kind(at, graph.tasks[node].name);
                kinds[node.index()] = Some(kind);
                let [first, second] = times.entry(kind).or_default();
                first.push(ns(&graph.tasks[node]));
                second.extend(theirs.and_then(|theirs| theirs.get(at)).map(|&node| ns(&other.tasks[node])));
            }
        }
    }
    between(graph, other, &mut kinds, &mut times);
    let known = |(kind, [mine, theirs]): (Kind, [Vec<f64>; 2])| {
        let weight: f64 = mine.iter().sum();
        Some((kind, weight, [middle(mine)?, middle(theirs)?]))
    };
    let known: Vec<(Kind, f64, [f64; 2])> = times.into_iter().filter_map(known).collect();
    let host = [TaskKind::Host(HostPart::Between), TaskKind::Runtime].map(|kind| std::mem::discriminant(&kind));
    let is_host = |kind: &Kind| host.contains(&kind.4);
    let ratios = known.iter().filter(|(kind, ..)| is_host(kind));
    let speeds = HostSpeeds::of(&ratios.map(|(_, weight, [a, b])| ((b / a).ln(), *weight)).collect::<Vec<_>>());
    let at_one_speed = |(kind, _, [first, second]): (Kind, f64, [f64; 2])| {
        let speeds = speeds.filter(|_| is_host(&kind));
        (kind, CallScaling([first, speeds.map_or(second, |speeds| speeds.at_first([first, second]))]))
    };
    let laws: FxHashMap<Kind, CallScaling> = known.into_iter().map(at_one_speed).collect();
    (kinds.iter().map(|kind| laws.get(kind.as_ref()?).copied()).collect(), speeds)
}

/// Adds the host's time between operators, by the name it is recorded under.
fn between(
    graph: &ExecutionGraph,
    other: &ExecutionGraph,
    kinds: &mut [Option<Kind>],
    times: &mut FxHashMap<Kind, [Vec<f64>; 2]>,
) {
    let alone = |task: &Task| task.operator.is_none() && takes_time(task);
    let mut names: FxHashMap<&str, NameId> = FxHashMap::default();
    for node in graph.tasks.node_indices().filter(|&node| alone(&graph.tasks[node])) {
        let task = &graph.tasks[node];
        names.insert(graph.names.get(task.name), task.name);
        let kind = (None, None, 0, task.name, std::mem::discriminant(&task.kind));
        kinds[node.index()] = Some(kind);
        times.entry(kind).or_default()[0].push(task.duration.0 as f64);
    }
    for task in other.tasks.node_weights().filter(|task| alone(task)) {
        if let Some(&name) = names.get(other.names.get(task.name)) {
            let kind = (None, None, 0, name, std::mem::discriminant(&task.kind));
            times.entry(kind).or_default()[1].push(task.duration.0 as f64);
        }
    }
}

/// Tasks that take time by what they are, in order.
fn by_kind(graph: &ExecutionGraph, tasks: &[NodeId]) -> FxHashMap<Discriminant<TaskKind>, Vec<NodeId>> {
    let mut kinds: FxHashMap<_, Vec<NodeId>> = FxHashMap::default();
    for &node in tasks.iter().filter(|&&node| takes_time(&graph.tasks[node])) {
        kinds.entry(std::mem::discriminant(&graph.tasks[node].kind)).or_default().push(node);
    }
    kinds
}

fn takes_time(task: &Task) -> bool {
    !matches!(task.kind, TaskKind::Joint | TaskKind::StepEnd) && task.duration.0 > 0
}

/// The mean of the middle half: no single outlier decides.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    let cut = values.len() / 4;
    stats::trimmed_mean(&mut values, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_two_times_gives_the_third_and_a_power_where_it_would_start_below_zero() {
        let line = CallScaling([30.0, 60.0]);
        assert!((line.ratio([64, 256], 1024) * 30.0 - 180.0).abs() < 1e-9);
        let steep = CallScaling([10.0, 80.0]);
        assert!((steep.ratio([64, 256], 1024) * 10.0 - 640.0).abs() < 1e-6);
        assert!((steep.ratio([64, 256], 16) * 10.0 - 1.25).abs() < 1e-6);
    }

    #[test]
    fn a_model_is_anchored_at_both_traces_and_goes_on_from_the_nearer() {
        let law = CallScaling([10.0, 36.0]);
        let at = |new, modelled| law.anchored([64, 256], new, Modelled { other: 3.0, new: modelled }) * 10.0;
        assert!((at(64, 1.0) - 10.0).abs() < 1e-9 && (at(256, 3.0) - 36.0).abs() < 1e-9);
        assert!((at(128, 1.7) - 17.0 * 1.2_f64.sqrt()).abs() < 1e-9);
        assert!((at(1024, 11.0) - 110.0 * 1.2).abs() < 1e-9, "from the second");
        assert!((at(16, 0.5) - 5.0).abs() < 1e-9, "from the first");
        let unknown = law.anchored([64, 256], 1024, Modelled { other: 1.0, new: 1.0 });
        assert!((unknown - law.ratio([64, 256], 1024)).abs() < 1e-12);
    }

    #[test]
    fn what_shrinks_while_the_batch_grows_is_noise_about_a_constant() {
        assert!((CallScaling([4.0, 1.0]).ratio([64, 256], 9999) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn dimensions_follow_the_line_through_both_traces() {
        let tensor = |dims: &[u64]| Operand::tensor(dims.to_vec(), None);
        let mut mine = tensor(&[64, 512, 129]);
        let recorded = mine.clone();
        regrow(&mut mine, (&recorded, &tensor(&[256, 512, 513])), [0.0, 5.0]);
        assert_eq!(mine.dims(), Some(&[1024, 512, 2049][..]));
    }

    #[test]
    fn host_work_grows_with_the_batch_where_it_stands_out_from_how_fast_hosts_are() {
        let times = [[10.0, 13.0], [20.0, 25.0], [30.0, 40.0], [15.0, 19.0], [8.0, 64.0]];
        let ratios: Vec<(f64, f64)> = times.iter().map(|[a, b]: &[f64; 2]| ((b / a).ln(), *a)).collect();
        let speeds = HostSpeeds::of(&ratios).unwrap();
        assert!((speeds.ratio.exp() - 1.3).abs() < 1e-9, "the second host is as much slower");
        for [first, second] in &times[..4] {
            assert!((speeds.at_first([*first, *second]) - first).abs() < 1e-9);
        }
        let grown = speeds.at_first([8.0, 64.0]);
        assert!((0.9 * 64.0 / 1.3..64.0 / 1.3).contains(&grown), "{grown}");
        assert_eq!(HostSpeeds::of(&[]), None);
    }

    #[test]
    fn one_outlier_does_not_move_the_middle() {
        assert_eq!(middle(vec![1.0, 2.0, 3.0, 900.0]), Some(2.5));
        assert_eq!(middle(Vec::new()), None);
    }
}
