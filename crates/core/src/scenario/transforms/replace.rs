//! `replace SELECTOR with OP`: the same arguments, another operator.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::Work;
use crate::cost::operators::bare;
use crate::graph::{NodeId, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::{Effect, EffectKind};
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::remove::host_of;
use super::report::{call_of, count, in_step, refused_host_read, survey, tell_gradients};

/// Lets the selected operators compute another one on the same arguments, each by its longest kernel alone.
#[derive(Clone, Debug, PartialEq)]
struct Replace {
    /// Which kernels.
    selector: Selector,
    /// The operator, e.g. `aten::relu`.
    operator: String,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "replace",
    help: "lets the selected operators compute another one on the same arguments",
    example: "replace name=aten::gelu with aten::relu",
    forms: &[Form {
        arguments: &[
            Argument::selector(),
            Argument::new("OPERATOR", "an operator with a known cost", Kind::Operator).after(" with "),
        ],
        build: |given| Some(Arc::new(Replace { selector: given.get(0)?, operator: given.get(1)? })),
    }],
    knobs: &[],
};

impl Transform for Replace {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        if let Some(refused) = refused_host_read(&self.operator) {
            return refused;
        }
        let calls = self.calls(draft);
        let mut kept = Vec::new();
        let (mut gone, mut unknown, mut same) = (Vec::new(), Vec::new(), 0);
        // Of equal arguments the work is worked out once.
        let mut known: FxHashMap<(Option<u32>, Phase), Option<Arc<Work>>> = FxHashMap::default();
        let name: Arc<str> = self.operator.as_str().into();
        for (id, nodes) in calls {
            if self.is_computed_by(draft, id, &nodes) {
                same += 1;
                continue;
            }
            let key = (draft.arguments(id), draft.graph().operators[id.0 as usize].phase);
            let work = known.entry(key).or_insert_with(|| draft.work_as(&self.operator, id).map(Arc::new)).clone();
            let Some((work, main)) = work.zip(main_kernel(draft, &nodes)) else {
                unknown.extend(nodes.into_iter().filter_map(|node| traced(draft, node)));
                continue;
            };
            match main {
                Node::Traced(node) => draft.replace_work(node, Arc::clone(&name), id, work),
                Node::Added(_) => draft.set_work_of(main, work),
            }
            kept.push(main);
            gone.extend(nodes.into_iter().filter(|&node| node != main));
        }
        if kept.is_empty() && unknown.is_empty() && same > 0 {
            return StepReport::already(format!("what it selects computes {} already", self.operator));
        }
        if kept.is_empty() && !unknown.is_empty() {
            let kernels = count(unknown.len(), "kernel");
            let why = format!("arguments of {kernels} were not recorded, or do not fit {}", self.operator);
            return StepReport::nothing(why);
        }
        if kept.is_empty() {
            return StepReport::nothing(format!("no kernel with recorded arguments matches {}", self.selector));
        }
        for &node in &gone {
            draft.take_out(node);
        }
        for node in host_of(draft, &gone) {
            draft.take_out(node);
        }
        let mut summary = format!("{} compute {}", count(in_step(draft, &kept), "kernel"), self.operator);
        if !gone.is_empty() {
            let _ = write!(
                summary,
                ", {} that did the rest of their operators out",
                count(in_step(draft, &gone), "kernel")
            );
        }
        let chosen = [kept.as_slice(), gone.as_slice()].concat();
        let mut report = survey(draft, kept, summary);
        tell_gradients(&mut report, draft, &chosen);
        report.changed += gone.len();
        if report.changed == 0 && !report.says(EffectKind::NotModelled) {
            report.is_met = true;
            report.say(Effect::note("by the models it takes as long as what it replaces"));
        }
        if !unknown.is_empty() {
            let text = format!("{}: arguments do not fit {}", count(unknown.len(), "kernel"), self.operator);
            report.say(Effect::kept(text, unknown));
        }
        report
    }
}

impl Replace {
    /// Whether all work of a call is of the operator that is asked for.
    fn is_computed_by(&self, draft: &Draft<'_>, id: OperatorId, nodes: &[Node]) -> bool {
        let graph = draft.graph();
        let own = graph.names.get(graph.operators[id.0 as usize].name);
        let name = |node: Node| draft.replaced_by(node).map_or(own, |(name, _)| name);
        let is_it = |&node: &Node| bare(name(node)) == bare(&self.operator);
        nodes.iter().all(is_it)
    }

    /// The operators to replace, each with the selected work below it: the outermost around a kernel that the selector asks for by name,
    /// else the one that launched it.
    fn calls(&self, draft: &Draft<'_>) -> BTreeMap<OperatorId, Vec<Node>> {
        let mut calls: BTreeMap<OperatorId, Vec<Node>> = BTreeMap::new();
        for node in self.selector.select_all(draft) {
            let kind = draft.kind_of(node);
            let computes = kind == TaskKind::Compute || (kind.is_device() && !matches!(kind, TaskKind::Collective(_)));
            let Some(call) = call_of(draft, &self.selector, node).filter(|_| computes) else { continue };
            calls.entry(call).or_default().push(node);
        }
        calls
    }
}

/// The longest piece of computation among `nodes`.
fn main_kernel(draft: &Draft<'_>, nodes: &[Node]) -> Option<Node> {
    let computes = |&&node: &&Node| matches!(draft.kind_of(node), TaskKind::Kernel | TaskKind::Compute);
    nodes.iter().filter(computes).max_by_key(|&&node| (draft.price_of(node).duration, Reverse(node))).copied()
}

/// A traced task with what it takes now.
fn traced(draft: &Draft<'_>, node: Node) -> Option<(NodeId, DurNs)> {
    let Node::Traced(traced) = node else { return None };
    Some((traced, draft.price_of(node).duration))
}
