//! Arguments of operators: what each gives is as large as its work tells, and stays until what needs it has run.
//!
//! Nothing names tensors here, so an argument is taken to be the youngest result of its size. A result is kept for the
//! backward pass where the operator that made it, or one that used it, needs it there.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::Family;
use crate::cost::operators::{Reading, bare, is_free, operator_family, operator_work};
use crate::graph::{DType, Operand, OperatorId, Phase, TaskKind};
use crate::units::{Bytes, DurNs, TimeNs, total};

use super::callers::{end, operators_of};
use super::parameters::{self, Parameters, bytes};
use super::recomputed::Recomputed;
use super::sources::Rank;
use super::{AFTER, BEFORE, Buffer, Holds, MemorySource, RankMemory};
use super::{given, workspaces};

/// What operators' arguments tell; `None` where none were recorded, or for less than half of what the device does.
pub(super) fn read(rank: Rank<'_>) -> Option<RankMemory> {
    let known = parameters::read(rank);
    let ids = in_order(rank);
    let mut walk = Walk::new(rank, &ids);
    if !ids.iter().any(|&id| !walk.arguments(id).is_empty()) || !walk.covers_most() {
        return None;
    }
    let births = walk.births(&ids);
    let made: FxHashSet<u64> = births.values().chain(&known.each).copied().collect();
    for &id in &ids {
        walk.pass(id, births.get(&id).copied());
    }
    walk.copy_inputs(&ids);
    walk.accumulate(&known);
    let mut buffers = walk.buffers;
    let stays = |holds, bytes| Buffer { holds, bytes: Bytes(bytes), from: BEFORE, until: AFTER, operator: None };
    buffers.extend(workspaces::of(rank, &ids));
    buffers.push(stays(Holds::Parameters, known.total()));
    buffers.push(stays(Holds::Optimizer, known.optimizer));
    let mut unknown =
        vec!["workspaces of convolutions and attention, and results of operators without recorded sizes".to_owned()];
    if known.each.is_empty() {
        unknown.push("parameters: neither gradients nor weights were recorded".to_owned());
    }
    unknown.extend(known.untrained.clone());
    if let Some(why) = &known.unknown_optimizer {
        unknown.push(format!("the optimizer's state: {why}"));
    }
    let memory = RankMemory::new(MemorySource::Shapes, buffers, unknown);
    let (given, more) = given::large(rank, &ids, &made, memory.peak().bytes.0);
    let missing = more.into_iter().chain(given::untold(rank)).collect();
    Some(memory.with(given).without(missing))
}

/// The rank's operators of the chosen iteration in order of start.
fn in_order(rank: Rank<'_>) -> Vec<OperatorId> {
    let Rank { graph, part, .. } = rank;
    let inside = |id: &OperatorId| {
        let start = graph.operators[id.0 as usize].start;
        start >= part.iteration_start && start < part.iteration_end
    };
    let mut ids: Vec<OperatorId> = operators_of(graph, part).filter(inside).collect();
    ids.sort_by_key(|&id| (graph.operators[id.0 as usize].start, id));
    ids
}

struct Walk<'a> {
    rank: Rank<'a>,
    buffers: Vec<Buffer>,
    /// Buffers of a size, the youngest last.
    of_size: FxHashMap<u64, Vec<usize>>,
    /// When the backward pass of an operator is through.
    backward: FxHashMap<OperatorId, TimeNs>,
    recomputed: Recomputed,
}

impl<'a> Walk<'a> {
    fn new(rank: Rank<'a>, ids: &[OperatorId]) -> Self {
        let mut backward: FxHashMap<OperatorId, TimeNs> = FxHashMap::default();
        for id in operators_of(rank.graph, rank.part) {
            if let Some(forward) = rank.graph.operators[id.0 as usize].forward {
                let through = end(rank.graph, id);
                let known = backward.entry(forward).or_insert(through);
                *known = (*known).max(through);
            }
        }
        let recomputed = Recomputed::of(rank.graph, ids);
        Self { rank, buffers: Vec::new(), of_size: FxHashMap::default(), backward, recomputed }
    }

    fn name(&self, id: OperatorId) -> &'a str {
        self.rank.graph.names.get(self.rank.graph.operators[id.0 as usize].name)
    }

    fn arguments(&self, id: OperatorId) -> &'a [Operand] {
        let row = self.rank.graph.operators[id.0 as usize].operands;
        row.and_then(|row| self.rank.graph.operands.get(row.0 as usize)).map_or(&[], |all| all.inputs.as_slice())
    }

    /// Whether at least half of the device's kernel time is of operators with arguments; true without kernels.
    fn covers_most(&self) -> bool {
        let graph = self.rank.graph;
        let tasks = self.rank.device_work.iter().map(|&node| &graph.tasks[node]);
        let kernels = tasks.filter(|task| task.kind == TaskKind::Kernel);
        let (mut all, mut told) = (DurNs::ZERO, DurNs::ZERO);
        for task in kernels {
            all += task.duration;
            if task.operator.is_some_and(|id| !self.arguments(id).is_empty()) {
                told += task.duration;
            }
        }
        told * 2 >= all
    }

    /// What operators give that none inside them does, in bytes.
    fn births(&self, ids: &[OperatorId]) -> FxHashMap<OperatorId, u64> {
        let graph = self.rank.graph;
        let mut births: FxHashMap<OperatorId, u64> = FxHashMap::default();
        let mut around: FxHashSet<OperatorId> = FxHashSet::default();
        for &id in ids.iter().rev() {
            let operator = &graph.operators[id.0 as usize];
            let mut gives = around.contains(&id);
            let in_place = operator.parent.is_some_and(|parent| bare(self.name(parent)).ends_with('_'));
            if !gives && !in_place && operator.phase != Phase::Optimizer && makes(self.name(id)) {
                let operands = operator.operands.and_then(|row| graph.operands.get(row.0 as usize));
                let work = operands.and_then(|it| operator_work(self.name(id), it, Reading::default()));
                if let Some(written @ 1..) = work.map(|work| work.written.0) {
                    births.insert(id, written);
                    gives = true;
                }
            }
            around.extend(operator.parent.filter(|_| gives));
        }
        births
    }

    /// An operator uses its arguments, keeps them where its backward pass needs them, and gives its result.
    fn pass(&mut self, id: OperatorId, born: Option<u64>) {
        let graph = self.rank.graph;
        let operator = &graph.operators[id.0 as usize];
        let repeats = self.recomputed.repeats(id);
        let is_forward = operator.phase == Phase::Forward || repeats.is_some();
        let later = self.backward_of(id).or_else(|| self.backward_of(repeats?));
        let later = later.filter(|_| !self.recomputed.runs_again(id));
        let (until, name) = (end(graph, id), bare(self.name(id)));
        let keeps = later.filter(|_| is_forward && saves_arguments(self.name(id)));
        let in_place = name.ends_with('_') && saves_result(name);
        let keeps = keeps.or(later.filter(|_| is_forward && in_place)).or(self.recomputed.given_until(id));
        let sizes: Vec<u64> = self.arguments(id).iter().map(bytes).filter(|&size| size > 0).collect();
        for (place, argument) in sizes.iter().enumerate() {
            // Of several arguments of one size each is another result.
            let before = sizes[..place].iter().filter(|&size| size == argument).count();
            if let Some(&at) = self.of_size.get(argument).and_then(|all| all.iter().rev().nth(before)) {
                let buffer = &mut self.buffers[at];
                buffer.until = buffer.until.max(keeps.unwrap_or(until)).max(until);
            }
        }
        if name == "AccumulateGrad" && self.name(id).starts_with("torch::autograd::") {
            self.take_gradient(id);
        }
        self.keep_for_next_token(id);
        let Some(size) = born else { return };
        let is_gradient = operator.phase == Phase::Backward && !is_forward;
        let holds = if is_gradient { Holds::Other } else { Holds::Activations };
        let is_kept = is_forward && saves_result(name);
        let element = match self.arguments(id).first() {
            Some(Operand::Tensor { dtype: Some(dtype), .. }) => dtype.size(),
            _ => DType::Fp32.size(),
        };
        let kept = later.filter(|_| is_kept).unwrap_or(until).max(until);
        for (part, until) in results(name, size, element).zip([until.max(kept), later.unwrap_or(until).max(until)]) {
            self.of_size.entry(part).or_default().push(self.buffers.len());
            let (from, bytes) = (operator.start, Bytes(part));
            self.buffers.push(Buffer { holds, bytes, from, until, operator: Some(id) });
        }
    }

    /// Without a backward pass, causal attention keeps keys and values to the end of the step: the next token needs them.
    fn keep_for_next_token(&mut self, id: OperatorId) {
        let operator = &self.rank.graph.operators[id.0 as usize];
        let is_outermost = bare(self.name(id)) == "scaled_dot_product_attention";
        let arguments = self.arguments(id);
        let is_causal = arguments.get(5).is_some_and(|it| matches!(it, Operand::Value(text) if text == "True"));
        if !(is_outermost && is_causal && self.backward.is_empty()) {
            return;
        }
        for bytes in arguments.iter().skip(1).take(2).map(bytes) {
            let (from, until) = (operator.start, self.rank.part_end());
            let holds = Holds::Activations;
            self.buffers.push(Buffer { holds, bytes: Bytes(bytes), from, until, operator: Some(id) });
        }
    }

    /// When the backward pass of an operator, of one around it or inside it is through.
    fn backward_of(&self, id: OperatorId) -> Option<TimeNs> {
        let operators = &self.rank.graph.operators;
        let up = |id: &OperatorId| operators[id.0 as usize].parent;
        let around = std::iter::successors(Some(id), up).take(6).find_map(|id| self.backward.get(&id).copied());
        let inside = || {
            (id.0 + 1..operators[id.0 as usize].subtree_end.0)
                .find_map(|at| self.backward.get(&OperatorId(at)).copied())
        };
        around.or_else(inside)
    }

    /// The gradient that is accumulated is the youngest result of its size, and stays.
    fn take_gradient(&mut self, id: OperatorId) {
        let Some(size) = self.arguments(id).first().map(bytes).filter(|&size| size > 0) else { return };
        let last = self.rank.part_end();
        let of_pass = |&at: &usize| self.buffers[at].holds == Holds::Other;
        let found = self.of_size.get_mut(&size).and_then(|all| Some(all.remove(all.iter().rposition(of_pass)?)));
        if let Some(at) = found {
            (self.buffers[at].holds, self.buffers[at].until) = (Holds::Gradients, last);
        } else {
            let from = self.rank.graph.operators[id.0 as usize].start;
            let (holds, bytes) = (Holds::Gradients, Bytes(size));
            self.buffers.push(Buffer { holds, bytes, from, until: last, operator: Some(id) });
        }
    }

    /// Gradients that were accumulated have the sizes that are known of them; without any they are all there at the end.
    fn accumulate(&mut self, known: &Parameters) {
        let mut sparse: Vec<(u64, u64)> = known
            .each
            .iter()
            .zip(&known.gradients)
            .filter(|(of, gradient)| of != gradient)
            .map(|(a, b)| (*a, *b))
            .collect();
        // What is accumulated more often than there are parameters of its size adds to a gradient that is there.
        let mut of_first: FxHashMap<u64, usize> = FxHashMap::default();
        known.each.iter().for_each(|size| *of_first.entry(*size).or_default() += 1);
        let (graph, mut any) = (self.rank.graph, false);
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.holds == Holds::Gradients) {
            let left = of_first.entry(buffer.bytes.0).or_default();
            if *left == 0 {
                let given = buffer.operator.map(|id| end(graph, id));
                (buffer.holds, buffer.until) = (Holds::Other, given.unwrap_or(buffer.until));
                continue;
            }
            (*left, any) = (left.saturating_sub(1), true);
            if let Some(at) = sparse.iter().position(|&(of, _)| of == buffer.bytes.0) {
                buffer.bytes = Bytes(sparse.swap_remove(at).1);
            }
        }
        if !any {
            let graph = self.rank.graph;
            let own = operators_of(graph, self.rank.part);
            let backward = own.filter(|&id| graph.operators[id.0 as usize].phase == Phase::Backward);
            let Some(from) = backward.map(|id| end(graph, id)).max() else { return };
            let bytes = Bytes(total(known.gradients.iter().copied()));
            self.buffers.push(Buffer {
                holds: Holds::Gradients,
                bytes,
                from,
                until: self.rank.part_end(),
                operator: None,
            });
        }
    }

    /// Inputs that are copied to the device: each of the operator that copies it where its arguments were recorded, else of the one of
    /// `ids` that is the first to be given as much.
    fn copy_inputs(&mut self, ids: &[OperatorId]) {
        let Rank { graph, part, device_work, .. } = self.rank;
        let is_given = |id: OperatorId, size: Bytes| self.arguments(id).iter().any(|given| given.bytes() == size);
        let mut inputs = Vec::new();
        for &node in device_work {
            let task = &graph.tasks[node];
            let is_copy = task.kind == TaskKind::Memcpy;
            let inside = task.measured_start >= part.iteration_start && task.measured_start < part.iteration_end;
            if is_copy && inside && graph.names.get(task.name).contains("HtoD") {
                let (holds, bytes, from, until) = (Holds::Other, task.bytes, task.measured_start, self.rank.part_end());
                let told = task.operator.filter(|&id| !self.arguments(id).is_empty());
                let reader = || ids.iter().copied().find(|&id| is_given(id, bytes));
                let operator = told.or_else(reader).or(task.operator);
                inputs.push(Buffer { holds, bytes, from, until, operator });
            }
        }
        self.buffers.extend(inputs);
    }
}

/// The tensors that an operator gives, of `bytes` together: beside its result, of `element` bytes a number, a maximum pooling gives
/// where each maximum was, in eight, which its backward pass needs.
fn results(name: &str, bytes: u64, element: u64) -> impl Iterator<Item = u64> {
    const INDEX: u64 = 8;
    let has_indices = name.contains("pool") && name.ends_with("with_indices");
    let indices = if has_indices { bytes.saturating_mul(INDEX) / element.saturating_add(INDEX) } else { 0 };
    [bytes - indices, indices].into_iter().filter(|&bytes| bytes > 0)
}

/// Whether an operator gives a tensor of its own.
fn makes(operator: &str) -> bool {
    let name = bare(operator);
    !is_free(operator) && !name.ends_with('_') && !operator.starts_with("autograd::engine")
}

/// Whether the backward pass of an operator needs what it was given.
fn saves_arguments(operator: &str) -> bool {
    const ELEMENT_WISE: &str =
        "mul div pow gelu silu mish hardswish sin cos log abs clamp addcmul addcdiv lerp where glu swiglu";
    let name = bare(operator).trim_end_matches('_');
    match operator_family(operator) {
        Some(Family::Gemm | Family::Conv | Family::Norm | Family::Attention | Family::Pooling) => true,
        Some(Family::Elementwise) => ELEMENT_WISE.split(' ').any(|known| known == name),
        Some(Family::Reduction) => name.contains("loss"),
        _ => false,
    }
}

/// Whether the backward pass of an operator needs what it gave.
fn saves_result(operator: &str) -> bool {
    const NEEDED: &str =
        "relu tanh sigmoid exp sqrt rsqrt reciprocal softmax _softmax log_softmax _log_softmax native_dropout";
    let name = operator.trim_end_matches('_');
    NEEDED.split(' ').any(|known| known == name) || name.contains("attention")
}
