//! Reports of edits: how much changed, and what could not be handled with its time.

use std::collections::BTreeMap;

use crate::cost::Work;
use crate::cost::operators::bare;
use crate::graph::{NodeId, OperatorId, Phase};
use crate::scenario::draft::{Draft, Node, NodeSet};
use crate::scenario::effect::Effect;
use crate::scenario::selector::Selector;
use crate::scenario::transform::StepReport;
use crate::units::DurNs;

/// Kinds of tasks listed one by one; the rest are counted together.
pub(super) const LISTED: usize = 8;

/// What edits assume that let kernels run side by side.
pub(super) const SHARED: &str = "kernels that share the device keep their times";

/// Share of its gain that an edit assumes which takes work off the way and does not know what that shares with the rest.
pub(super) const OVERLAP_DOUBT: f32 = 0.3;

/// The report of an edit that should have changed `nodes`: those that no model covers are listed by name, the costliest first.
pub(super) fn survey<N: Into<Node>>(
    draft: &Draft<'_>,
    nodes: impl IntoIterator<Item = N>,
    summary: String,
) -> StepReport {
    draft.predict_changes();
    let (mut kept, mut by_roofs): (BTreeMap<String, Kept<'_>>, _) = (BTreeMap::new(), Kept::guessed());
    let mut changed = 0;
    for node in nodes.into_iter().map(Into::into) {
        let price = draft.price_of(node);
        let traced = if let Node::Traced(node) = node { Some(draft.graph().tasks[node].duration) } else { None };
        if price.is_by_roofs() {
            by_roofs.add(draft, node, traced.unwrap_or(price.duration));
            changed += 1;
        } else if price.is_unmodelled() {
            let why = draft.work_of(node).and_then(Work::lacks);
            let why = why.map_or_else(|| UNMODELLED.to_owned(), |why| format!("{why}: traced time kept"));
            kept.entry(why).or_default().add(draft, node, traced.unwrap_or(price.duration));
        } else if traced != Some(price.duration) {
            changed += 1;
        }
    }
    let mut report = StepReport { changed, summary, ..StepReport::default() };
    for (why, kept) in kept {
        kept.list(&mut report, &why);
    }
    by_roofs.list(&mut report, "no model covers it: by the roofs of both devices");
    report
}

/// That launches among `repeated` which loaded code are repeated without; `None` where none did.
pub(super) fn one_off(draft: &Draft<'_>, repeated: &[Node]) -> Option<Effect> {
    let (launches, time) = draft.one_off_launches(repeated);
    let what = count(launches, "call");
    let text = format!("{what} took {time} longer than launches do, as the first of a kernel does: repeated without");
    (launches > 0).then(|| Effect::assumption(text))
}

/// Why a task keeps its time that no model knows.
pub(super) const UNMODELLED: &str = "no model covers it: traced time kept";

/// Work that no model covers, by name.
#[derive(Debug, Default)]
pub(super) struct Kept<'a> {
    by_name: BTreeMap<&'a str, Named>,
    /// Whether it takes another time all the same.
    is_guessed: bool,
}

/// Work of one name: how often and how long in the chosen iteration, how much of that is no traced task, and which tasks it is.
#[derive(Debug, Default)]
struct Named {
    count: usize,
    time: DurNs,
    untraced: DurNs,
    tasks: Vec<(NodeId, DurNs)>,
}

impl<'a> Kept<'a> {
    /// Work that takes another time all the same, by no model of what it computes.
    pub(super) fn guessed() -> Self {
        Self { is_guessed: true, ..Self::default() }
    }

    /// One task, with as much of its time as no model covers.
    pub(super) fn add(&mut self, draft: &'a Draft<'_>, node: impl Into<Node>, time: DurNs) {
        let node = node.into();
        match node {
            Node::Traced(traced) => self.add_as(draft, draft.name_of(node), (traced, time)),
            Node::Added(_) => self.count(draft.name_of(node), time),
        }
    }

    /// One traced task under a name, with as much of its time as no model covers. One of another iteration is not counted.
    pub(super) fn add_as(&mut self, draft: &Draft<'_>, name: &'a str, task: (NodeId, DurNs)) {
        let named = self.by_name.entry(name).or_default();
        if draft.base().is_recorded(task.0) {
            (named.count, named.time) = (named.count + 1, named.time + task.1);
        }
        named.tasks.push(task);
    }

    /// Work that is no traced task.
    pub(super) fn count(&mut self, name: &'a str, time: DurNs) {
        let named = self.by_name.entry(name).or_default();
        (named.count, named.time, named.untraced) = (named.count + 1, named.time + time, named.untraced + time);
    }

    /// Whether there is any.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Of all of it in the chosen iteration.
    pub(super) fn time(&self) -> DurNs {
        self.by_name.values().map(|named| named.time).sum()
    }

    /// Says of it by name, with how often and how long, that it is not modelled because of `why`.
    pub(super) fn list(self, report: &mut StepReport, why: &str) {
        let is_kept = !self.is_guessed;
        self.each(why, |text, Named { untraced, tasks, .. }| {
            report.say(Effect { untraced, is_kept, ..Effect::kept(text, tasks) });
        });
    }

    /// Says of it by name, with how often and how long, what is taken of it instead.
    pub(super) fn list_assumed(self, report: &mut StepReport, what: &str) {
        self.each(what, |text, _| report.say(Effect::assumption(text)));
    }

    fn each(self, why: &str, mut say: impl FnMut(String, Named)) {
        let mut rows: Vec<_> = self.by_name.into_iter().filter(|(_, named)| named.count > 0).collect();
        rows.sort_by_key(|(name, named)| (std::cmp::Reverse(named.time), *name));
        let rest = rows.split_off(rows.len().min(LISTED));
        for (name, named) in rows {
            say(format!("{} ×{}, {}: {why}", brief(name), named.count, named.time), named);
        }
        let kinds = rest.len();
        let rest = rest.into_iter().map(|(_, named)| named).reduce(Named::and);
        if let Some(rest) = rest {
            say(format!("{kinds} more kinds, {}: {why}", rest.time), rest);
        }
    }
}

impl Named {
    fn and(mut self, other: Self) -> Self {
        self.tasks.extend(other.tasks);
        let (count, time) = (self.count + other.count, self.time + other.time);
        Self { count, time, untraced: self.untraced + other.untraced, ..self }
    }
}

/// How many of `nodes` are of the modelled step: what edits say of their work is said of one step, whatever the window holds besides.
pub(super) fn in_step<N: Into<Node> + Copy>(draft: &Draft<'_>, nodes: &[N]) -> usize {
    nodes.iter().filter(|&&node| draft.is_in_step(node.into())).count()
}

/// Says of what was chosen if none of it is of the modelled step: the recorded window changes then only where it begins.
pub(super) fn tell_elsewhere<N: Into<Node> + Copy>(report: &mut StepReport, draft: &Draft<'_>, chosen: &[N]) {
    if in_step(draft, chosen) == 0 {
        report.say(Effect::none("what matches is of other steps than the modelled one"));
    }
}

/// Says how much device work of the backward pass is there of operators of the forward pass among `chosen`, and not among these itself.
///
/// # Complexity
/// O(tasks + operators).
pub(super) fn tell_gradients(report: &mut StepReport, draft: &Draft<'_>, chosen: &[Node]) {
    let graph = draft.graph();
    let own: NodeSet = chosen.iter().copied().collect();
    let mut touched = vec![false; graph.operators.len()];
    for node in chosen.iter().filter(|&&node| draft.kind_of(node).is_device()) {
        let up = |id: &OperatorId| graph.operators[id.0 as usize].parent;
        for id in std::iter::successors(draft.operator_of(*node), up) {
            if std::mem::replace(&mut touched[id.0 as usize], true) {
                break;
            }
        }
    }
    // By operator of the backward pass whether it gives a gradient of one of those.
    let mut gives: Vec<bool> = Vec::with_capacity(graph.operators.len());
    for operator in &graph.operators {
        let of_touched = operator.phase == Phase::Backward && operator.forward.is_some_and(|id| touched[id.0 as usize]);
        gives.push(of_touched || operator.parent.is_some_and(|parent| gives[parent.0 as usize]));
    }
    let left = graph.tasks.node_indices().map(Node::Traced).filter(|&node| {
        draft.kind_of(node).is_device()
            && draft.operator_of(node).is_some_and(|id| gives[id.0 as usize])
            && !own.contains(node)
            && !draft.is_gone(node)
            && draft.is_in_step(node)
    });
    let (mut kernels, mut time) = (0, DurNs::ZERO);
    for node in left {
        (kernels, time) = (kernels + 1, time + draft.price_of(node).duration);
    }
    if kernels > 0 {
        let kernels = count(kernels, "kernel");
        report.say(Effect::note(format!("gradients of what is selected stay as they are: {kernels}, {time}")));
    }
}

/// A name that fits a line.
pub(super) fn brief(name: &str) -> String {
    const LONGEST: usize = 60;
    if name.chars().count() <= LONGEST {
        name.to_owned()
    } else {
        name.chars().take(LONGEST - 1).chain(['…']).collect()
    }
}

/// The outermost operator around the one of `node` that `selector` asks for by name, its own or one that an edit put in its place; without
/// one, that of `node`.
pub(super) fn call_of(draft: &Draft<'_>, selector: &Selector, node: Node) -> Option<OperatorId> {
    let (graph, own) = (draft.graph(), draft.operator_of(node)?);
    let replaced = draft.replaced_by(node);
    let name = |id: OperatorId| match replaced {
        Some((name, place)) if place == id => name,
        _ => graph.operators.get(id.0 as usize).map_or("", |it| graph.names.get(it.name)),
    };
    let parent = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
    Some(std::iter::successors(Some(own), parent).filter(|&id| selector.asks_for(name(id))).last().unwrap_or(own))
}

/// Why an operator cannot be put where there was none: it copies a value to the host, which waits for it.
pub(super) fn refused_host_read(operator: &str) -> Option<StepReport> {
    let why = || format!("{operator} lets the host wait for a copy, which is not added: its kernel alone says nothing");
    (bare(operator) == "_local_scalar_dense").then(|| StepReport::impossible(why()))
}

/// `1 task`, `7 tasks`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
