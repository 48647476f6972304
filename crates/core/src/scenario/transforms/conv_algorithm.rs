//! `conv-algorithm ALGORITHM [SELECTOR]`: forward convolutions are computed by another algorithm.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::cost::conv_algorithm::{algorithm_cost, chosen_times, used_algorithm};
use crate::cost::operators::operator_family;
use crate::cost::{ChosenAlgorithm, ConvAlgorithm, Family, Shape, Work};
use crate::device::DeviceKind;
use crate::graph::{Operand, Operands, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{DurNs, Flop};

use super::argument_changes::ArgumentChanges;
use super::report::{Kept, LISTED, brief, count, survey};

/// Lets the selected convolutions be computed by `algorithm`.
#[derive(Clone, Debug, PartialEq)]
struct ConvolutionAlgorithm {
    /// Which; `None` for the fastest of each on its device.
    algorithm: Option<ConvAlgorithm>,
    /// Which convolutions; all where left out.
    selector: Option<Selector>,
}

/// Names of algorithms, in the order of [`ConvAlgorithm::ALL`], and of the choice of the fastest.
const NAMES: &[&str] = &["direct", "implicit-gemm", "im2col", "winograd", "fft", crate::cost::conv_choice::BEST];

pub(super) const EDIT: Grammar = Grammar {
    name: "conv-algorithm",
    help: "computes forward convolutions by another algorithm: direct, implicit-gemm, im2col, winograd, fft, or the best of them",
    example: "conv-algorithm best",
    forms: &[Form {
        arguments: &[
            Argument::new("ALGORITHM", "an algorithm, or best", Kind::Choice("algorithm", NAMES)),
            Argument::selector().optional(),
        ],
        build: |given| {
            let at: usize = given.get(0)?;
            let algorithm = ConvAlgorithm::ALL.get(at).copied();
            Some(Arc::new(ConvolutionAlgorithm { algorithm, selector: given.get(1)? }))
        },
    }],
    knobs: &[],
};

/// A forward convolution.
struct Convolution {
    kernel: Node,
    /// The operator whose arguments tell its sizes.
    operator: OperatorId,
    /// The algorithm that its kernel's name tells.
    recorded: Option<ConvAlgorithm>,
}

impl Transform for ConvolutionAlgorithm {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let (all, fixed) = self.convolutions(draft);
        if all.is_empty() {
            let kept = if fixed.is_empty() { "" } else { " computed by one kernel" };
            return StepReport::nothing(format!("no forward convolution{kept} matches"));
        }
        let (able, unable): (Vec<Convolution>, Vec<Convolution>) =
            all.into_iter().partition(|it| self.applies(draft, it));
        let mut report = self.change(draft, &able);
        list_kept(draft, unable.iter().map(|it| it.kernel), DOES_NOT_APPLY, &mut report);
        list_kept(draft, fixed.into_iter(), SEVERAL_KERNELS, &mut report);
        report
    }
}

/// Calls between a convolution and what computes it, at most.
const DEEPEST: usize = 16;

const DOES_NOT_APPLY: &str = "the algorithm needs a square filter, stride 1 and no groups: time kept";
const SEVERAL_KERNELS: &str = "one kernel of an algorithm that has several: time kept";

fn list_kept(draft: &Draft<'_>, kernels: impl Iterator<Item = Node>, why: &str, report: &mut StepReport) {
    let mut kept = Kept::default();
    kernels.for_each(|kernel| kept.add(draft, kernel, draft.price_of(kernel).duration));
    kept.list(report, why);
}

/// How many convolutions each algorithm computes now.
fn summary(draft: &Draft<'_>, convolutions: &[Convolution]) -> String {
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for it in convolutions.iter().filter(|it| draft.is_in_step(it.kernel)) {
        let times = placed(draft, it.kernel).and_then(|(work, device)| chosen_times(work, device));
        *by_name.entry(times.map_or("the library's choice", |times| times.algorithm.name())).or_default() += 1;
    }
    let parts: Vec<String> =
        by_name.into_iter().map(|(name, times)| format!("{} by {name}", count(times, "convolution"))).collect();
    parts.join(", ")
}

fn placed<'d>(draft: &'d Draft<'_>, kernel: Node) -> Option<(&'d Work, &'d crate::device::DeviceProfile)> {
    let device = draft.device(draft.rank_of(draft.lane_of(kernel)))?;
    Some((draft.work_of(kernel)?, device))
}

/// The algorithm in use.
fn used(draft: &Draft<'_>, it: &Convolution) -> Option<ConvAlgorithm> {
    let (work, device) = placed(draft, it.kernel)?;
    used_algorithm(work, it.recorded, device)
}

/// Arithmetic of a convolution by the algorithm in use.
fn flop(draft: &Draft<'_>, it: &Convolution) -> Option<f64> {
    let (work, device) = placed(draft, it.kernel)?;
    algorithm_cost(work, used(draft, it)?, device).map(|cost| cost.flop())
}

/// What is said where the choice is that of a GPU's library: the share of the change that it assumes.
const BY_LIBRARY: (&str, f32) =
    ("the library is taken to have a kernel of that algorithm, as near to its roof as the recorded one", 0.5);

/// A convolution in a line: its module or kernel, channels, filter and output.
fn label(draft: &Draft<'_>, it: &Convolution) -> String {
    let graph = draft.graph();
    let module = graph.operators.get(it.operator.0 as usize).map_or("", |operator| graph.names.get(operator.module));
    let name = if module.is_empty() { draft.name_of(it.kernel) } else { module };
    let shape = match draft.work_of(it.kernel).map(|work| &work.shape) {
        Some(Shape::Conv { channels_in, channels_out, out_h, out_w, r, s, .. }) => {
            format!(" ({channels_in} to {channels_out} channels by {r}×{s}, output {out_h}×{out_w})")
        }
        _ => String::new(),
    };
    format!("{}{shape}", brief(name))
}

/// What memory does not show.
const WORKSPACES: &str = "memory of patches, tiles and spectra: their workspaces are in the time, not in memory";

/// What becomes of convolutions, each by its label and the algorithms before and now: how many, and their times.
#[derive(Default)]
struct Moves(BTreeMap<(String, ConvAlgorithm, ConvAlgorithm), (usize, DurNs, DurNs)>);

impl Moves {
    fn add(&mut self, label: String, (from, before): (ConvAlgorithm, DurNs), (to, after): (ConvAlgorithm, DurNs)) {
        let sum = self.0.entry((label, from, to)).or_default();
        *sum = (sum.0 + 1, sum.1 + before, sum.2 + after);
    }

    /// Says of each what it takes less or more, the largest change first.
    fn say(self, report: &mut StepReport) {
        let is_told = |before: DurNs, after: DurNs| (after - before).abs().0.saturating_mul(200) > before.0;
        let rows = self.0.into_iter().filter(|(_, (_, before, after))| is_told(*before, *after));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|(key, (_, before, after))| (std::cmp::Reverse((*after - *before).abs()), key.clone()));
        let rest = rows.len().saturating_sub(LISTED);
        for ((label, from, to), (times, before, after)) in rows.into_iter().take(LISTED) {
            let (from, to) = (from.name(), to.name());
            report.say(Effect::note(format!("{label} ×{times}: {from} → {to}, {before} → {after}")));
        }
        if rest > 0 {
            report.say(Effect::note(format!("and {}", count(rest, "more size"))));
        }
    }
}

impl ConvolutionAlgorithm {
    fn change(&self, draft: &mut Draft<'_>, able: &[Convolution]) -> StepReport {
        let mut changes = ArgumentChanges::default();
        for it in able {
            let way = it.recorded.map_or(0, |recorded| recorded as u16 + 1);
            changes.add(draft, (it.operator, way.into()), |now| self.chosen(now, it.recorded));
        }
        if changes.operators().len() == 0 {
            return if able.is_empty() {
                StepReport::default()
            } else {
                StepReport::already("they are computed so already")
            };
        }
        let arithmetic = |draft: &Draft<'_>| able.iter().filter_map(|it| flop(draft, it)).sum::<f64>();
        let state = |draft: &Draft<'_>, it| Some((used(draft, it)?, draft.price_of(it.kernel).duration));
        let before: Vec<_> = able.iter().map(|it| state(draft, it)).collect();
        let counted = arithmetic(draft);
        changes.set(draft);
        let mut report = survey(draft, able.iter().map(|it| it.kernel), summary(draft, able));
        let after = arithmetic(draft);
        report.say(Effect::note(format!(
            "arithmetic of these convolutions: {} → {} by counting operations",
            Flop(counted),
            Flop(after)
        )));
        let mut moves = Moves::default();
        for (it, before) in able.iter().zip(before) {
            if let Some((before, after)) = before.zip(state(draft, it)).filter(|(before, after)| before.0 != after.0) {
                moves.add(label(draft, it), before, after);
            }
        }
        let on_gpu =
            |it: &Convolution| placed(draft, it.kernel).is_some_and(|(_, device)| device.kind == DeviceKind::Gpu);
        if report.changed > 0 && able.iter().any(on_gpu) {
            report.say(Effect::assumed(BY_LIBRARY.0, BY_LIBRARY.1));
        }
        let has_workspace = |it: &Convolution| {
            used(draft, it).is_some_and(|used| !matches!(used, ConvAlgorithm::Direct | ConvAlgorithm::ImplicitGemm))
        };
        if report.changed > 0 && able.iter().any(has_workspace) {
            report.say(Effect::not_modelled(WORKSPACES, DurNs::ZERO));
        }
        moves.say(&mut report);
        report
    }

    /// The convolutions that are meant, and the kernels of those that are computed by several.
    fn convolutions(&self, draft: &Draft<'_>) -> (Vec<Convolution>, Vec<Node>) {
        let everything = || {
            let traced = draft.graph().tasks.node_indices().filter(|&node| !draft.is_removed(node)).map(Node::Traced);
            traced.chain(draft.added_nodes()).collect()
        };
        let chosen: Vec<Node> = self.selector.as_ref().map_or_else(everything, |selector| selector.select_all(draft));
        let (mut found, mut fixed) = (Vec::new(), Vec::new());
        let launched = launched(draft);
        for kernel in chosen {
            let is_whole = match draft.work_of(kernel).map(|work| &work.shape) {
                // What an edit has it launch instead of several recorded kernels.
                Some(Shape::Conv { .. }) if matches!(kernel, Node::Added(_)) => {
                    draft.operator_of(kernel).is_none_or(|id| !launched.contains(&id))
                }
                Some(Shape::Conv { .. }) => true,
                Some(Shape::Gemm { .. }) => false,
                _ => continue,
            };
            let Some(operator) = draft.operator_of(kernel).and_then(|id| convolution_of(draft, id)) else { continue };
            if is_whole {
                let recorded = ConvAlgorithm::of_kernel(draft.name_of(kernel));
                found.push(Convolution { kernel, operator, recorded });
            } else {
                fixed.push(kernel);
            }
        }
        (found, fixed)
    }

    fn applies(&self, draft: &Draft<'_>, convolution: &Convolution) -> bool {
        let Some(algorithm) = self.algorithm else { return true };
        let placed = placed(draft, convolution.kernel);
        placed.is_some_and(|(work, device)| algorithm_cost(work, algorithm, device).is_some())
    }

    /// The arguments with the choice among them; `None` where it is there already.
    fn chosen(&self, operands: &Operands, recorded: Option<ConvAlgorithm>) -> Option<Operands> {
        let chosen_by = |operand: &Operand| match operand {
            Operand::Value(text) => ChosenAlgorithm::of_argument(text),
            _ => None,
        };
        let before = operands.inputs.iter().find_map(chosen_by);
        let from = before.map_or(recorded, |before| before.from);
        let chosen = ChosenAlgorithm { from, to: self.algorithm };
        if before == Some(chosen) || (before.is_none() && from.is_some() && from == self.algorithm) {
            return None;
        }
        let mut new = operands.clone();
        new.inputs.retain(|operand| chosen_by(operand).is_none());
        new.inputs.push(Operand::Value(chosen.argument()));
        Some(new)
    }
}

/// The operators whose kernels were recorded, where an edit added any.
fn launched(draft: &Draft<'_>) -> FxHashSet<OperatorId> {
    let tasks = draft.graph().tasks.node_weights().filter(|task| task.kind == TaskKind::Kernel);
    if draft.added().is_empty() { FxHashSet::default() } else { tasks.filter_map(|task| task.operator).collect() }
}

/// The innermost forward convolution with recorded arguments that `id` is or is called by, over few calls as frameworks nest them.
fn convolution_of(draft: &Draft<'_>, id: OperatorId) -> Option<OperatorId> {
    let graph = draft.graph();
    let parent = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
    std::iter::successors(Some(id), parent).take(DEEPEST).find(|id| {
        let Some(operator) = graph.operators.get(id.0 as usize) else { return false };
        let family = operator_family(graph.names.get(operator.name));
        operator.phase == Phase::Forward && family == Some(Family::Conv) && draft.operands(*id).is_some()
    })
}
