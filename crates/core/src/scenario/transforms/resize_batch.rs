//! `resize-batch N [from B]`: the same model on more or fewer samples per iteration.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{CollectiveKind, Family, Prediction, Provenance, Route, Shape, Work};
use crate::graph::{CopyStep, NodeId, Operand, Operands, OperatorId, Phase, Task, TaskKind, batch_size};
use crate::scenario::base::Base;
use crate::scenario::batch::{BatchPlan, BatchScaling, Modelled};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::{Effect, EffectKind};
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{Bytes, DurNs};

use super::prefetch_input::loads;
use super::report::{Kept, UNMODELLED, count, in_step, survey};

/// Changes the number of samples per iteration and rank. Host time and gradients' collectives stay.
#[derive(Clone, Debug, PartialEq)]
struct ResizeBatch {
    /// The new batch size.
    batch: u64,
    /// The traced one, where the trace does not tell it.
    from: Option<u64>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "resize-batch",
    help: "changes the batch size per rank; kernels and input copies are re-costed, host time stays",
    example: "resize-batch 4096",
    forms: &[Form {
        arguments: &[
            Argument::new("N", "the new batch size", SIZE),
            Argument::new("B", "the traced batch size", SIZE).after(" from ").optional(),
        ],
        build: |given| Some(Arc::new(ResizeBatch { batch: given.get(0)?, from: given.get(1)? })),
    }],
    knobs: &[Knob {
        name: "batch",
        help: "samples per iteration and rank",
        unit: "batch",
        line: "resize-batch 1",
        argument: 0,
        range: "",
    }],
};

/// Batch sizes that can be asked for.
const SIZE: Kind = Kind::Whole(1, batch_size::MOST);

impl Transform for ResizeBatch {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let base = draft.base();
        let Some(old) = self.from.or(base.graph().batch_size) else {
            return StepReport::impossible(base.graph().why_no_batch());
        };
        if let Some(scaling) = context.batch_scaling.as_ref().filter(|scaling| scaling.fit(base.graph(), old)) {
            return learned(draft, scaling, (old, self.batch));
        }
        let plan = base.batch_plan(old);
        let is_work = |task: &Task| matches!(task.kind, TaskKind::Kernel | TaskKind::Compute);
        if !base.graph().tasks.node_weights().any(is_work) {
            let mut report = StepReport::nothing("no work on the batch was recorded, of a device or of the host");
            let all = base.graph().tasks.node_indices().map(|node| (node, base.graph().tasks[node].duration));
            report.say(Effect::kept("every task keeps its time", all.collect()));
            return report;
        }
        if plan.rows.is_empty() {
            let mut report = StepReport::nothing("no operator recorded shapes with the batch in them");
            unknown(draft, &[], &mut report);
            return report;
        }
        let now = draft.batch().map_or(old, |(_, now)| now);
        let (lists, rows) = resized(draft, &plan, [old, now, self.batch]);
        draft.set_batch(old, self.batch);
        // Before the operators: what stands in place of an update follows them.
        resize_sparse(draft, self.batch as f64 / old as f64);
        draft.set_operands(lists, rows);
        let carrying = carrying(base, &plan.rows);
        let moved = resize_transfers(draft, &carrying, [old, now, self.batch]);
        let nodes = base.graph().tasks.node_indices().filter(|&node| base.family(node).is_some());
        let operators = draft.operators_in_step(plan.rows.iter().map(|&(id, _)| id));
        let summary = format!("batch {old} → {}, {} resized, {moved} copies", self.batch, count(operators, "operator"));
        let mut report = survey(draft, nodes, summary);
        report.is_met = now == self.batch;
        if report.is_met {
            // What would keep its time at another batch size does so at this one.
            report.effects.retain(|effect| effect.kind != EffectKind::NotModelled);
        } else {
            unknown(draft, &carrying, &mut report);
            report.effects.extend(loading(draft));
        }
        report
    }
}

/// The arguments of operators on the batch at another batch size, on top of what steps before made of them; each operator with
/// its row.
///
/// # Arguments
/// `batches`: the recorded batch, the one now, and the new one.
fn resized(draft: &Draft<'_>, plan: &BatchPlan, batches: [u64; 3]) -> (Vec<Operands>, Vec<(OperatorId, u32)>) {
    let (graph, [old, _, new]) = (draft.graph(), batches);
    if !draft.has_operands() {
        return (plan.resized(graph, old, new), plan.rows.clone());
    }
    let mut lists = Vec::new();
    let mut rows = Vec::with_capacity(plan.rows.len());
    let mut known: FxHashMap<(u32, Option<u32>), u32> = FxHashMap::default();
    for &(id, variant) in &plan.rows {
        let Some(current) = draft.operands(id) else { continue };
        let row = *known.entry((variant, draft.arguments(id))).or_insert_with(|| {
            lists.push(plan.resized_again(graph, variant, current, batches));
            lists.len() as u32 - 1
        });
        rows.push((id, row));
    }
    (lists, rows)
}

/// Resizes by what a second trace of the model tells: dimensions on the lines through both, times by the model through both. How far a
/// task's time is from what the model makes of it is told of the traced task, whatever edits made of it before.
fn learned(draft: &mut Draft<'_>, scaling: &BatchScaling, (old, new): (u64, u64)) -> StepReport {
    let graph = draft.graph();
    let as_traced = |batch: u64| {
        let mut resized = Draft::new(draft.base(), draft.context());
        follow_both(&mut resized, scaling, (old, batch));
        resized
    };
    let (at_other, at_new) = (as_traced(scaling.other_batch()), as_traced(new));
    let now = draft.batch().map_or(old, |(_, now)| now);
    let resized = follow_both(draft, scaling, (old, new));
    let mut report = StepReport { is_met: now == new, ..StepReport::default() };
    let mut unmatched = Vec::new();
    for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].duration > DurNs::ZERO) {
        let traced = graph.tasks[node].duration;
        let over_traced =
            |draft: &Draft<'_>| draft.price_without_figures(node).duration.0.max(1) as f64 / traced.0 as f64;
        let modelled = Modelled { other: over_traced(&at_other), new: over_traced(&at_new) };
        // What another edit tells of a task's time goes by the model from there.
        let is_own = draft.corrected_by(node).is_none_or(|model| model == LEARNED.model);
        match scaling.ratio(node, new, modelled).filter(|_| is_own) {
            Some(_) if new == old => draft.correct(node, None),
            Some(ratio) => draft.correct_by_measurement(node, ratio / modelled.new, LEARNED),
            None => {
                unmatched.push((node, traced));
                continue;
            }
        }
        report.changed += 1;
    }
    let tasks = count(report.changed, "task");
    report.summary = format!(
        "batch {old} → {new}, {} and {tasks} as at batch {old} and {}",
        count(resized, "operator"),
        scaling.other_batch()
    );
    report.effects.extend(other_host(scaling).map(Effect::assumption));
    let mut kept = Kept::default();
    for (node, traced) in unmatched {
        kept.add(draft, node, traced);
    }
    kept.list(&mut report, "not in the second trace: by the model, or kept");
    report
}

/// That the second trace's host was another, as far as two recordings of one program differ anyway.
fn other_host(scaling: &BatchScaling) -> Option<String> {
    let times = scaling.other_host().filter(|times| times.ln().abs() > SAME_SPEED)?;
    Some(format!(
        "host work of the second trace took ×{times:.2} as long, whatever the batch: here the host is as fast as in this trace"
    ))
}

/// Hosts that differ by less are as fast, as a logarithm.
const SAME_SPEED: f64 = 0.05;

/// Gives operators their arguments at another batch size as two traces tell them, and tasks what the model makes of it; how
/// many operators that resized.
fn follow_both(draft: &mut Draft<'_>, scaling: &BatchScaling, (old, new): (u64, u64)) -> usize {
    let now = draft.batch().map_or(old, |(_, now)| now);
    let (arguments, rows) = scaling.resized(draft.graph(), [now, new], |id| draft.operands(id));
    let resized = rows.len();
    draft.set_batch(old, new);
    resize_sparse(draft, new as f64 / old as f64);
    draft.set_operands(arguments, rows);
    resized
}

/// Where learned times are from. The error is the root mean square of that of un-profiled iterations at a third batch size predicted
/// from two others, on our own captures (`lab whatif`), of the kind of model that is worse: perceptron 9 % (n 6),
/// recommenders 18 % (n 12).
const LEARNED: Prediction = Prediction {
    duration: DurNs::ZERO,
    provenance: Provenance::Anchored,
    model: "two-traces",
    error: 0.18,
    extrapolated: false,
};

/// By operator: whether it or one around it works on the batch.
fn carrying(base: &Base, rows: &[(OperatorId, u32)]) -> Vec<bool> {
    let operators = &base.graph().operators;
    let mut carrying = vec![false; operators.len()];
    for &(operator, _) in rows {
        carrying[operator.0 as usize] = true;
    }
    for index in 0..operators.len() {
        carrying[index] |= operators[index].parent.is_some_and(|parent| carrying[parent.0 as usize]);
    }
    carrying
}

/// Copies to the device, copies and fills of operators on the batch, and all-to-all carry proportionally more bytes.
fn resize_transfers(draft: &mut Draft<'_>, carrying: &[bool], [old, now, new]: [u64; 3]) -> usize {
    let ratio = |from: u64| new as f64 / from as f64;
    let base = draft.base();
    let graph = base.graph();
    let mut resized = Vec::new();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let on_batch = task.operator.is_some_and(|id| carrying[id.0 as usize]);
        let Some(work) = base.work(node) else { continue };
        let grows = match (&work.shape, task.kind) {
            (Shape::Copy { route: Route::HostToDevice, .. }, _) => task.bytes.0 >= old,
            (Shape::Collective { kind: CollectiveKind::AllToAll, .. }, _) => true,
            // All-reduces of activations; gradients are as large as parameters.
            (Shape::Copy { .. }, TaskKind::Memcpy | TaskKind::Memset)
            | (Shape::Collective { kind: CollectiveKind::AllReduce, .. }, _) => on_batch,
            _ => false,
        };
        if grows {
            // What steps before made of it stays; what only the batch made of it starts from what was recorded.
            let by_batch = scaled(work, now as f64 / old as f64);
            let own = draft.share_of(node).filter(|own| **own != by_batch);
            resized.push((node, own.map_or_else(|| scaled(work, ratio(old)), |own| scaled(own, ratio(now)))));
        }
    }
    let nodes: Vec<NodeId> = resized.iter().map(|&(node, _)| node).collect();
    for (node, work) in resized {
        draft.set_work(node, work);
    }
    draft.follow_packed();
    in_step(draft, &nodes)
}

fn scaled(work: &Work, ratio: f64) -> Work {
    let bytes = |bytes: Bytes| Bytes((bytes.0 as f64 * ratio).round() as u64);
    Work { read: bytes(work.read), written: bytes(work.written), ..work.clone() }
}

/// Updates of sparse parameters touch as many rows as were looked up.
fn resize_sparse(draft: &mut Draft<'_>, ratio: f64) {
    let base = draft.base();
    for node in base.sparse_updates() {
        // What computes another operator follows the arguments of that.
        let Some(work) = base.work(node).filter(|_| draft.replaced_by(Node::Traced(node)).is_none()) else { continue };
        if let Shape::Embedding { batch, rows, tables, pooling, dim, backward, ref reuse } = work.shape {
            let (batch, reuse) = ((batch as f64 * ratio).round() as u64, reuse.clone());
            let shape = Shape::Embedding { batch, rows, tables, pooling, dim, backward, reuse };
            let flop = crate::units::Flop(work.flop.0 * ratio);
            let new = Work { flop, shape, ..scaled(work, ratio) };
            draft.set_work(node, new);
        }
    }
}

/// Host time that loads input, which is kept: whether other processes or threads load more in the same time was not recorded.
fn loading(draft: &Draft<'_>) -> Option<Effect> {
    let graph = draft.graph();
    let is_loading = |&node: &NodeId| {
        let task = &graph.tasks[node];
        matches!(task.kind, TaskKind::Host(_)) && task.duration > DurNs::ZERO && loads(draft, node.into()) == Some(true)
    };
    let time_of = |node: NodeId| (node, draft.price(node).duration);
    let tasks: Vec<(NodeId, DurNs)> = graph.tasks.node_indices().filter(is_loading).map(time_of).collect();
    let is_chosen = |node: NodeId| draft.base().copies().step(node) == CopyStep::Chosen;
    let time: DurNs = tasks.iter().filter(|(node, _)| is_chosen(*node)).map(|&(_, time)| time).sum();
    let text = format!("loading the input, {time} of the host's time, is taken to last as long at any batch");
    (time > DurNs::ZERO).then(|| Effect::kept_by_assumption(text, tasks))
}

/// Lists device work of the model that may grow with the batch and does not here: its sizes were not recorded, or nobody knows
/// what its operator does with them.
fn unknown(draft: &Draft<'_>, carrying: &[bool], report: &mut StepReport) {
    let (base, graph) = (draft.base(), draft.graph());
    let (mut sizeless, mut unmodelled) = (Kept::default(), Kept::default());
    let is_sizeless = |id: OperatorId| {
        let operands = graph.operators[id.0 as usize].operands.and_then(|row| graph.operands.get(row.0 as usize));
        let has_none = |operand: &Operand| operand.dims().is_none_or(<[u64]>::is_empty);
        let tells_none = |operand: &Operand| match operand {
            Operand::TensorList(list) => list.iter().all(has_none),
            operand => has_none(operand),
        };
        operands.is_none_or(|operands| operands.inputs.iter().all(tells_none))
    };
    let copies_unknown = |task: &Task, node: NodeId| {
        let route = base.work(node).map(|work| &work.shape);
        let is_inside = matches!(route, Some(Shape::Copy { route: Route::DeviceToDevice, .. }));
        let stays = |id: &OperatorId| !carrying.get(id.0 as usize).copied().unwrap_or(false);
        is_inside && task.kind == TaskKind::Memcpy && task.operator.filter(stays).is_some_and(is_sizeless)
    };
    let is_unknown = |&node: &NodeId| {
        let task = &graph.tasks[node];
        let phase = task.operator.map_or(Phase::Other, |id| graph.operators[id.0 as usize].phase);
        let model = matches!(phase, Phase::Forward | Phase::Backward | Phase::Other);
        let is_kernel = matches!(task.kind, TaskKind::Kernel) && base.family(node) != Some(Family::Optimizer);
        model && (is_kernel && base.work(node).is_none() || copies_unknown(task, node))
    };
    for node in graph.tasks.node_indices().filter(is_unknown) {
        let task = &graph.tasks[node];
        let on_batch = task.operator.is_some_and(|id| carrying.get(id.0 as usize).copied().unwrap_or(false));
        let found = if on_batch { &mut unmodelled } else { &mut sizeless };
        found.add(draft, node, task.duration);
    }
    unmodelled.list(report, UNMODELLED);
    sizeless.list(report, "no shapes recorded: traced time kept");
}
