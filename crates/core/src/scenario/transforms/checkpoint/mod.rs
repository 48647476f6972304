//! `checkpoint SELECTOR [segments=N]`: parts of the forward pass run again before their backward pass and keep no more than
//! what the next part begins with.
//!
//! Every run of selected work is cut as `torch.utils.checkpoint.checkpoint_sequential` cuts a list of modules: into N parts of as
//! many stages each, the last with what is left, which is not run again since its backward pass comes next. Without N there are
//! ⌈√n⌉ parts of n stages, which for equal stages takes about 2√n results instead of n. A run of one part runs again whole.

mod segments;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{Prediction, Provenance};
use crate::graph::{Dependency, DependencyKind, NodeId, Phase, TaskKind, launches_graph};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, NodeSet, Recomputed, order_kind};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::memory;
use crate::scenario::selector::Selector;
use crate::scenario::transform::{Stage, StepReport, Transform};
use crate::units::{Bytes, DurNs, Percent};

use super::report::{self, count};
use segments::Segment;

/// Recomputes activations instead of keeping them.
#[derive(Clone, Debug, PartialEq)]
struct Checkpoint {
    /// Which part of the forward pass.
    selector: Selector,
    /// Into how many parts each run of it is cut; `None` for the root of its number of stages.
    segments: Option<u64>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "checkpoint",
    help: "cuts the selected forward pass into parts that keep only where the next begins, and run again for their backward pass",
    example: "checkpoint phase=forward segments=4",
    forms: &[Form {
        arguments: &[
            Argument::selector(),
            Argument::new("N", "the number of segments", Kind::Whole(1, 1000)).after(" segments=").optional(),
        ],
        build: |given| Some(Arc::new(Checkpoint { selector: given.get(0)?, segments: given.get(1)? })),
    }],
    knobs: &[Knob {
        name: "segments",
        help: "parts of the forward pass, all but the last recomputed",
        unit: "segments",
        line: "checkpoint phase=forward segments=1",
        argument: 1,
        range: "1..64",
    }],
};

/// How much longer the host takes for what it runs under hooks that save its arguments and hand them back, the first time and again
/// [captures of an H200, profiled: BERT's forward pass 19.3 → 31.5 ms and 31 again, GPT-2's in bf16 17.0 → 26.3 and 28].
const HOOKED: f64 = 1.6;
/// Relative error of that between programs and implementations.
const HOOKED_ERROR: f32 = 0.3;

impl Transform for Checkpoint {
    fn stage(&self) -> Stage {
        Stage::Recompute
    }

    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let forward = |&node: &Node| draft.phase_of(node) == Some(Phase::Forward);
        let (mut chosen, again) = (self.selector.select_all(draft), run_again(draft));
        chosen.retain(forward);
        let selected = chosen.len();
        chosen.retain(|&node| !again.contains(node));
        let left = selected - chosen.len();
        let chosen: NodeSet = chosen.into_iter().collect();
        let within = draft.base().iteration_tasks();
        let segments = segments::of(draft, &chosen, within, self.segments);
        if segments.is_empty() && left > 0 {
            return StepReport::nothing("what it selects runs again already, by a step before it, or is kept by that");
        }
        if segments.is_empty() {
            return StepReport::nothing(format!("no computation of the forward pass matches {}", self.selector));
        }
        let more = segments.iter().map(|segment| segment.work.len() + segment.host.len()).sum();
        if let Some(why) = draft.refuses(more, context.max_memory) {
            return StepReport::impossible(why);
        }
        draft.reserve(more, 2 * more);
        let before = memory::peak(draft, memory::edited(draft).as_ref());
        let mut done = Done::default();
        let again = segments.iter().filter(|segment| segment.gradient.is_some() && !segment.is_kept);
        let again: Vec<Node> = again.flat_map(|segment| segment.host.iter().copied()).collect();
        let one_off = report::one_off(draft, &again);
        for segment in &segments {
            let own = within[draft.beside(segment.work[0]).index()];
            let time: DurNs = segment.work.iter().map(|&node| draft.price_of(node).duration).sum();
            let Some(gradient) = segment.gradient else {
                // What earlier steps added is no part of the traced time that shares are of.
                let traced = |&node: &Node| match node {
                    Node::Traced(id) => draft.traced_time(node).map(|time| (id, time)),
                    Node::Added(_) => None,
                };
                done.lost.extend(segment.work.iter().filter(|_| own).filter_map(traced));
                continue;
            };
            done.all += usize::from(own);
            if segment.is_kept {
                draft.note_kept(&segment.work);
                continue;
            }
            hook(draft, &segment.host);
            done.changed += recompute(draft, segment, gradient);
            if own {
                (done.again, done.time) = (done.again + 1, done.time + time);
                draft.note_recomputed(segment.recomputed(draft));
            }
        }
        let held = memory::edited(draft);
        done.freed = memory::not_kept(draft, held.as_ref());
        let mut report = done.report([before, memory::peak(draft, held.as_ref())]);
        if !again.is_empty() {
            let more = Percent(HOOKED - 1.0);
            report.say(Effect::assumption(format!("the host takes {more:.0} longer for what runs again, both times")));
        }
        if let Some(one_off) = one_off {
            report.say(one_off);
        }
        if left > 0 {
            let what = count(left, "task");
            report.say(Effect::note(format!(
                "{what} of what it selects run again already, by a step before it, or are kept by that: left"
            )));
        }
        report
    }
}

/// What steps before it let run again or keep beside that, and the copies that run again: forward work in the backward pass.
fn run_again(draft: &Draft<'_>) -> NodeSet {
    let is_backward = |node| draft.phase_of(Node::Traced(node)) == Some(Phase::Backward);
    let copies = draft.added_nodes().filter(|&node| {
        draft.phase_of(node) == Some(Phase::Forward) && is_backward(draft.beside(node)) && !draft.is_gone(node)
    });
    let kept = draft.kept_beside_recomputed().iter().copied();
    copies.filter_map(|copy| Some([copy, draft.repeated(copy)?])).flatten().chain(kept).collect()
}

/// What was done.
#[derive(Default)]
struct Done {
    /// Parts of the iteration, and those of them that run again, with what that takes where they compute.
    all: usize,
    again: usize,
    time: DurNs,
    /// What they keep less until then.
    freed: Bytes,
    /// Tasks added.
    changed: usize,
    /// Tasks of the iteration whose backward pass is not known, with their traced times.
    lost: Vec<(NodeId, DurNs)>,
}

impl Done {
    fn report(self, peaks: [Option<Bytes>; 2]) -> StepReport {
        let mut report = StepReport { changed: self.changed, ..StepReport::default() };
        if self.changed > 0 {
            let peak = match peaks {
                [Some(before), Some(after)] if before.to_string() != after.to_string() => {
                    format!("memory peak {before} → {after}")
                }
                [Some(before), Some(_)] if self.freed.0 == 0 => {
                    format!("memory peak stays {before}: what follows uses all that they keep")
                }
                [Some(before), Some(_)] => format!("memory peak stays {before}, since it is elsewhere"),
                _ => "memory not known".to_owned(),
            };
            let peak = if self.freed.0 > 0 { format!("keep {} less until then; {peak}", self.freed) } else { peak };
            let all = count(self.all, "segment");
            let again = if self.again < self.all { format!("{} of {all}", self.again) } else { all };
            let then = if self.freed.0 > 0 { ", " } else { "; " };
            report.summary = format!("{again} run again in {}{then}{peak}", self.time);
        }
        if !self.lost.is_empty() {
            let time: DurNs = self.lost.iter().map(|(_, time)| *time).sum();
            let what = count(self.lost.len(), "task");
            let text = format!("{what}, {time}: the trace does not tell their backward pass");
            report.say(Effect::kept(text, self.lost));
        }
        report
    }
}

impl Segment {
    /// When it is gone and when it comes back, in the host's time.
    fn recomputed(&self, draft: &Draft<'_>) -> Recomputed {
        let rank = draft.rank_of(draft.lane_of(self.work[0]));
        Recomputed { rank, begins: self.begins, ends: self.ends, again: self.again }
    }
}

/// Lets what the host does in a segment take as long as under hooks, which do not load code; its copies then do so, too.
fn hook(draft: &mut Draft<'_>, host: &[Node]) {
    for &node in host {
        if draft.one_off_launches(&[node]).0 == 0
            && matches!(draft.kind_of(node), TaskKind::Host(_) | TaskKind::Runtime)
        {
            let duration = draft.price_without_figures(node).duration.scale(HOOKED);
            let (provenance, model) = (Provenance::Absolute, "saved-tensor hooks");
            draft.set_price(node, Prediction { duration, provenance, model, error: HOOKED_ERROR, extrapolated: false });
        }
    }
}

/// Puts copies of a segment before its backward pass; how many tasks that added.
fn recompute(draft: &mut Draft<'_>, segment: &Segment, at: Node) -> usize {
    let call = draft.own_call_of(at).filter(|&call| !draft.kind_of(call).is_device());
    let on_host = draft.kind_of(at) == TaskKind::Compute;
    let beside = draft.beside(at);
    // Where calls were not recorded, only the device runs again.
    let host_at = if on_host { Some(at) } else { call };
    let copied = host_at.map_or_else(Vec::new, |at| chain(draft, &segment.host, at, beside, DurNs::ZERO));
    if on_host {
        return copied.len();
    }
    let gap = draft.stream_gap(at);
    let again = chain(draft, &segment.work, at, beside, gap);
    let copy_of: FxHashMap<Node, Node> = segment.host.iter().copied().zip(copied.iter().copied()).collect();
    let beside_launch = draft.edges_into(at).find(|edge| edge.kind() == DependencyKind::Launch);
    for (&work, &copy) in segment.work.iter().zip(&again) {
        let launch = draft.edges_into(work).find(|edge| edge.kind() == DependencyKind::Launch);
        let (Some(launch), Some(call)) = (launch, draft.own_call_of(work)) else { continue };
        if let Some(&from) = copy_of.get(&call) {
            draft.connect(from, copy, launch.dependency);
        } else if let Some(launch) = beside_launch.filter(|_| launches_graph(draft.name_of(call))) {
            draft.connect(launch.from, copy, launch.dependency);
        }
    }
    copied.len() + again.len()
}

/// Copies tasks, one after another, and puts them before `at` on its lane.
fn chain(draft: &mut Draft<'_>, of: &[Node], at: Node, beside: NodeId, lag: DurNs) -> Vec<Node> {
    let lane = draft.lane_of(at);
    let copies: Vec<Node> = of.iter().map(|&node| draft.copy(node, lane, beside)).collect();
    let order = order_kind(draft.kind_of(at));
    for pair in copies.windows(2) {
        draft.connect(pair[0], pair[1], Dependency::on_end(order, lag));
    }
    if let (Some(&first), Some(&last)) = (copies.first(), copies.last()) {
        draft.put_before(at, (first, last), lag);
    }
    copies
}
