//! Work in rows within rows: model, module or part of training, operator, kernel; or in one level of groups.

use rustc_hash::FxHashMap;

use retime_core::analysis::operators::module_of;
use retime_core::cost::{Estimate, Prediction, Provenance};
use retime_core::graph::{ExecutionGraph, NodeId, Task, TaskKind};
use retime_core::units::DurNs;

use retime_core::scenario::Resolved;

use super::Sources;
use super::group::{Group, Grouping, compare};

/// Up to so many modules (or parts of training) are shown open.
const FEW_MODULES: usize = 8;

/// The rows of `sources`, each with its inner rows behind it, in the order asked for.
///
/// # Complexity
/// O(tasks · depth + rows · log rows).
pub fn rows(sources: &Sources, is_seen: &dyn Fn(NodeId) -> bool) -> Vec<Group> {
    let graph = &*sources.loaded.graph;
    let inside = graph.iteration_tasks();
    let (of_label, of_place) = (FxHashMap::default(), FxHashMap::default());
    let mut tree = Tree { sources, graph, nodes: Vec::new(), roots: Vec::new(), of_label, of_place };
    let resolved = &*sources.outcome.resolved;
    let mut told = InOrder { resolved, changes: &resolved.changes, removed: &resolved.removed };
    for node in graph.tasks.node_indices().filter(|&node| inside[node.index()] && is_seen(node)) {
        let task = &graph.tasks[node];
        if task.kind.is_work() && (sources.arrangement.grouping != Grouping::Kernel || is_kernel(task)) {
            tree.add(node, told.simulated(node, task));
        }
    }
    tree.add_tasks_of_the_scenario(&inside, is_seen);
    tree.flattened()
}

struct Node {
    group: Group,
    children: Vec<usize>,
}

struct Tree<'a> {
    sources: &'a Sources,
    graph: &'a ExecutionGraph,
    nodes: Vec<Node>,
    roots: Vec<usize>,
    of_label: FxHashMap<(Option<usize>, &'a str), usize>,
    /// The same by where the label lies: names of a trace are each there once, and long.
    of_place: FxHashMap<(Option<usize>, *const str), usize>,
}

/// What tasks take after the edits, asked in the order of the tasks.
struct InOrder<'a> {
    resolved: &'a Resolved,
    changes: &'a [(NodeId, Prediction)],
    removed: &'a [NodeId],
}

impl InOrder<'_> {
    /// Time and source of `node`, which is behind those asked before.
    fn simulated(&mut self, node: NodeId, task: &Task) -> (DurNs, Provenance) {
        self.changes = after(self.changes, |&(known, _)| known < node);
        self.removed = after(self.removed, |&known| known < node);
        let change = self.changes.first().filter(|(known, _)| *known == node);
        let untouched = || self.resolved.untouched(task.duration);
        let prediction = change.map_or_else(untouched, |(_, of)| *of);
        let is_removed = self.removed.first() == Some(&node);
        (if is_removed { DurNs::ZERO } else { prediction.duration }, prediction.source())
    }
}

/// What is left of a list behind the first of it that `is_before`.
fn after<T>(list: &[T], is_before: impl Fn(&T) -> bool) -> &[T] {
    let skipped = list.iter().take_while(|one| is_before(one)).count();
    &list[skipped..]
}

impl<'a> Tree<'a> {
    /// Counts a task in every row on the way down.
    fn add(&mut self, node: NodeId, simulated: (DurNs, Provenance)) {
        let (sources, graph) = (self.sources, self.graph);
        let task = &graph.tasks[node];
        let modelled = sources.modelled.get(node);
        let mut parent = None;
        let family = family_name(sources, node);
        for label in labels(sources, graph, task, family).into_iter().flatten() {
            let index = self.child(parent, label, node);
            count((graph, node, family), simulated, modelled, &mut self.nodes[index].group);
            parent = Some(index);
        }
    }

    /// Counts what the scenario added to the iteration, beside a task that is `inside`, in the rows of the operators that it belongs to.
    fn add_tasks_of_the_scenario(&mut self, inside: &[bool], is_seen: &dyn Fn(NodeId) -> bool) {
        let sources = self.sources;
        let (edited, traced) = (sources.view_model.graph(&sources.loaded), self.graph.tasks.node_count());
        let all = sources.outcome.resolved.added.iter().enumerate();
        for (number, added) in all.filter(|(_, added)| inside[added.beside.index()]) {
            let node = NodeId::new(traced + number);
            let Some(mut task) =
                edited.tasks.node_weight(node).filter(|_| is_work(added.kind) && is_seen(node)).copied()
            else {
                continue;
            };
            let member = added.members.first().copied();
            task.operator = task.operator.or_else(|| self.graph.tasks[member?].operator);
            let mut parent = None;
            let family = added.work.as_ref().map_or("other", |work| work.family.name());
            for label in labels(sources, edited, &task, family).into_iter().flatten() {
                let index = self.child(parent, label, member.unwrap_or(node));
                let group = &mut self.nodes[index].group;
                if group.count == 0 {
                    group.family = family;
                }
                group.simulated += added.prediction.duration;
                group.count += 1;
                group.provenance = group.provenance.max(added.prediction.source());
                parent = Some(index);
            }
        }
    }

    fn child(&mut self, parent: Option<usize>, label: &'a str, node: NodeId) -> usize {
        let place = (parent, std::ptr::from_ref(label));
        if let Some(&index) = self.of_place.get(&place) {
            return index;
        }
        let key = (parent, label);
        if let Some(&index) = self.of_label.get(&key) {
            self.of_place.insert(place, index);
            return index;
        }
        let index = self.nodes.len();
        let (path, depth) = parent.map_or((label.to_owned(), 0), |parent| {
            let above = &self.nodes[parent].group;
            (format!("{}\u{1f}{label}", above.path), above.depth + 1)
        });
        self.nodes.push(Node { group: Group::new(label.to_owned(), path, depth, node), children: Vec::new() });
        match parent {
            Some(parent) => self.nodes[parent].children.push(index),
            None => self.roots.push(index),
        }
        self.of_label.insert(key, index);
        self.of_place.insert(place, index);
        index
    }

    /// All rows in the order they are read, siblings sorted.
    fn flattened(mut self) -> Vec<Group> {
        let roots = std::mem::take(&mut self.roots);
        let mut rows = Vec::with_capacity(self.nodes.len());
        self.emit(roots, &mut rows);
        rows
    }

    fn emit(&mut self, mut siblings: Vec<usize>, rows: &mut Vec<Group>) {
        let order = self.sources.order();
        siblings.sort_by(|&a, &b| compare(&self.nodes[a].group, &self.nodes[b].group, order));
        let is_filtered = self.sources.filter.is_some();
        let are_few = siblings.len() <= FEW_MODULES;
        for index in siblings {
            let at = rows.len();
            let mut children = std::mem::take(&mut self.nodes[index].children);
            if self.is_alone(index, &children) {
                children.clear();
            }
            let mut group = self.nodes[index].group.clone();
            group.is_open = is_filtered || group.depth == 0 || (group.depth == 1 && are_few);
            rows.push(group);
            self.emit(children, rows);
            rows[at].end = rows.len();
        }
    }

    /// Whether the only row inside says what is said already (a host computation is called as its operator).
    fn is_alone(&self, index: usize, children: &[usize]) -> bool {
        matches!(children, [only] if self.nodes[*only].group.label == self.nodes[index].group.label)
    }
}

/// Device work, and host computations.
fn is_kernel(task: &Task) -> bool {
    is_work(task.kind)
}

fn is_work(kind: TaskKind) -> bool {
    kind.is_device() || kind == TaskKind::Compute
}

/// What the rows of a task are called, from the outermost inwards.
fn labels<'a>(
    sources: &'a Sources,
    graph: &'a ExecutionGraph,
    task: &Task,
    family: &'static str,
) -> [Option<&'a str>; 4] {
    let kernel = || graph.names.get(task.name);
    let one = match sources.arrangement.grouping {
        Grouping::Tree => {
            let operator = operator_name(graph, task);
            return [Some("model"), Some(module_of(graph, task)), Some(operator), is_kernel(task).then(kernel)];
        }
        Grouping::Operator => operator_name(graph, task),
        Grouping::Kernel => kernel(),
        Grouping::Module => module_of(graph, task),
        Grouping::Stream => sources.paints.labels.get(task.lane.0 as usize).map_or("", String::as_str),
        Grouping::Family => family,
    };
    [Some(one), None, None, None]
}

fn operator_name<'a>(graph: &'a ExecutionGraph, task: &Task) -> &'a str {
    let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
    match graph.names.get(operator.map_or(task.name, |operator| operator.name)) {
        "" => "outside operators",
        name => name,
    }
}

fn count(
    (graph, node, family): (&ExecutionGraph, NodeId, &'static str),
    (simulated, provenance): (DurNs, Provenance),
    modelled: Option<Estimate>,
    group: &mut Group,
) {
    let task = &graph.tasks[node];
    group.waited += (task.measured - task.duration).max(DurNs::ZERO);
    if !is_kernel(task) {
        group.host += task.duration;
        return;
    }
    let longest = graph.tasks[group.example].duration;
    if group.count == 0 || task.duration > longest {
        (group.example, group.family) = (node, family);
    }
    group.count += 1;
    group.measured += task.duration;
    group.simulated += simulated;
    group.provenance = group.provenance.max(provenance);
    if let Some(estimate) = modelled {
        group.against.add(task.measured, estimate);
    }
}

fn family_name(sources: &Sources, node: NodeId) -> &'static str {
    let graph = &sources.loaded.graph;
    match graph.tasks[node].kind {
        TaskKind::Kernel => sources.loaded.replay.resolved.works.family(graph, node).name(),
        TaskKind::Memcpy | TaskKind::Memset => "copy",
        TaskKind::Collective(_) => "collective",
        _ => "host",
    }
}
