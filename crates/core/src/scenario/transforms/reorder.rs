//! `reorder SELECTOR before SELECTOR`: two independent pieces of work change places on a thread or stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::graph::{Dependency, DependencyKind, LaneId};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, NodeSet, order_kind};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::report::{OVERLAP_DOUBT, count};

/// Runs what `first` selects before what `second` selects, where it came after it.
#[derive(Clone, Debug, PartialEq)]
struct Reorder {
    /// What moves.
    first: Selector,
    /// Before what.
    second: Selector,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "reorder",
    help: "runs the first earlier: before the second on the same thread or stream; they have to be independent",
    example: "reorder name~all_to_all before name~addmm",
    forms: &[Form {
        arguments: &[Argument::selector(), Argument::selector().after(" before ")],
        build: |given| Some(Arc::new(Reorder { first: given.get(0)?, second: given.get(1)? })),
    }],
    knobs: &[],
};

impl Transform for Reorder {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let moving: NodeSet = self.first.select_all(draft).into_iter().collect();
        let staying: NodeSet = self.second.select_all(draft).into_iter().collect();
        if moving.is_empty() || staying.is_empty() {
            let what = if moving.is_empty() { &self.first } else { &self.second };
            return StepReport::nothing(format!("nothing matches {what}"));
        }
        let both = moving.iter().filter(|&node| staying.contains(node)).count();
        let pairs = pairs(draft, &moving, &staying);
        let mut report = StepReport::default();
        if both > 0 {
            report.say(Effect::note(format!("{} match both selectors and stay", count(both, "task"))));
        }
        if pairs.is_empty() {
            report.say(Effect::none("on no thread or stream does the first come after the second"));
            return report;
        }
        let mut held = Vec::new();
        let mut runs = 0;
        for (run, before) in pairs {
            if waits_for(draft, &run, before) {
                held.push(run);
            } else {
                shift(draft, &run, before);
                report.changed += run.tasks.len();
                runs += 1;
            }
        }
        if !held.is_empty() {
            let tasks = held.iter().map(|run| run.tasks.len()).sum();
            let why = format!(
                "{} in {} stay: they wait for what they would come before",
                count(tasks, "task"),
                count(held.len(), "run")
            );
            report.say(if runs == 0 { Effect::none(why) } else { Effect::note(why) });
        }
        if runs == 0 {
            return report;
        }
        report.summary = format!("{} in {} earlier", count(report.changed, "task"), count(runs, "run"));
        report.say(Effect::assumed("taken as independent: no data of the one may be the other's", OVERLAP_DOUBT));
        report
    }
}

/// Neighbouring tasks of one lane, in order.
#[derive(Clone, Debug)]
struct Run {
    first: Node,
    last: Node,
    tasks: Vec<Node>,
}

/// Runs to be moved, each with the task it goes before: on every lane and in every step the next run after one that stays. Those of
/// hosts come first: what they launch may then come earlier, too.
fn pairs(draft: &Draft<'_>, moving: &NodeSet, staying: &NodeSet) -> Vec<(Run, Node)> {
    let within = draft.base().iteration_tasks();
    let mut lanes: BTreeMap<(LaneId, bool), Vec<Node>> = BTreeMap::new();
    for (lane, nodes) in draft.in_order(|node| draft.kind_of(node).is_work()) {
        for node in nodes {
            lanes.entry((lane, within[draft.beside(node).index()])).or_default().push(node);
        }
    }
    let class = |&node: &Node| (moving.contains(node) && !staying.contains(node), staying.contains(node));
    let mut pairs = Vec::new();
    for tasks in lanes.values() {
        let mut before: Option<Node> = None;
        for run in tasks.chunk_by(|a, b| class(a) == class(b)) {
            let (Some(&first), Some(&last)) = (run.first(), run.last()) else { continue };
            match (class(&first), before) {
                ((_, true), None) => before = Some(first),
                ((true, _), Some(at)) => {
                    pairs.push((Run { first, last, tasks: run.to_vec() }, at));
                    before = None;
                }
                _ => {}
            }
        }
    }
    pairs.sort_by_key(|(run, _)| draft.kind_of(run.first).is_device());
    pairs
}

/// Whether something of `run` waits for `before` in another way than by the order of their lane: it could not come earlier.
///
/// # Complexity
/// O(edges of the tasks recorded between the two).
fn waits_for(draft: &Draft<'_>, run: &Run, before: Node) -> bool {
    let order = order_kind(draft.kind_of(run.first));
    let moved: NodeSet = run.tasks.iter().copied().collect();
    // Traced dependencies lead from earlier tasks to later ones: nothing beyond the run leads back to it.
    let until = run.tasks.iter().map(|&node| draft.beside(node)).max();
    let mut seen = NodeSet::default();
    let mut open = vec![before];
    while let Some(node) = open.pop() {
        for edge in draft.edges_from(node) {
            let is_own_order = edge.kind() == order && edge.to == run.first;
            if is_own_order || Some(draft.beside(edge.to)) > until || !seen.insert(edge.to) {
                continue;
            }
            if moved.contains(edge.to) {
                return true;
            }
            open.push(edge.to);
        }
    }
    false
}

/// Takes a run out of its place and puts it before `before`.
fn shift(draft: &mut Draft<'_>, run: &Run, before: Node) {
    let (first, last) = (run.first, draft.end_of(run.last));
    let order = order_kind(draft.kind_of(first));
    let gap = if draft.kind_of(first).is_device() { draft.stream_gap(first) } else { DurNs::ZERO };
    // Where the run was the last of its step, the step ends with what came before it.
    let ahead: Vec<Node> = draft.edges_into(first).filter(|edge| edge.kind() == order).map(|edge| edge.from).collect();
    let ends = [run.last, last].into_iter().flat_map(|node| draft.edges_from(node).collect::<Vec<_>>());
    let markers: Vec<Node> = ends.filter(|edge| edge.kind() == DependencyKind::StepEnd).map(|edge| edge.to).collect();
    draft.unchain(first, last);
    draft.put_before(before, (first, last), gap);
    for (&from, &marker) in ahead.iter().flat_map(|from| markers.iter().map(move |marker| (from, marker))) {
        draft.connect(from, marker, Dependency::on_end(DependencyKind::StepEnd, DurNs::ZERO));
    }
}
