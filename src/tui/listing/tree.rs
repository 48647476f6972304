//! Work in rows within rows: model, module or part of training, operator, kernel; or in one level of groups.

use rustc_hash::FxHashMap;

use retime_core::analysis::operators::module_of;
use retime_core::cost::family_of_task;
use retime_core::graph::{ExecutionGraph, NodeId, OperatorId, Task, TaskKind};
use retime_core::units::DurNs;

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
    let mut tree = Tree { sources, graph, nodes: Vec::new(), roots: Vec::new(), of_label: FxHashMap::default() };
    let mut modules: FxHashMap<OperatorId, String> = FxHashMap::default();
    for node in graph.tasks.node_indices().filter(|&node| inside[node.index()] && is_seen(node)) {
        let task = &graph.tasks[node];
        if task.kind.is_work() && (sources.arrangement.grouping != Grouping::Kernel || is_kernel(task)) {
            tree.add(node, &labels(sources, graph, task, &mut modules));
        }
    }
    tree.add_tasks_of_the_scenario(is_seen);
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
    of_label: FxHashMap<(Option<usize>, String), usize>,
}

impl Tree<'_> {
    /// Counts a task in every row on the way down.
    fn add(&mut self, node: NodeId, labels: &[String]) {
        let mut parent = None;
        for label in labels {
            let index = self.child(parent, label, node);
            count(self.sources, self.graph, node, &mut self.nodes[index].group);
            parent = Some(index);
        }
    }

    /// Counts what the scenario added in the rows of the operators that it belongs to.
    fn add_tasks_of_the_scenario(&mut self, is_seen: &dyn Fn(NodeId) -> bool) {
        let sources = self.sources;
        let (edited, traced) = (sources.view_model.graph(&sources.loaded), self.graph.tasks.node_count());
        for (number, added) in sources.outcome.resolved.added.iter().enumerate() {
            let node = NodeId::new(traced + number);
            let Some(mut task) =
                edited.tasks.node_weight(node).filter(|_| is_work(added.kind) && is_seen(node)).copied()
            else {
                continue;
            };
            let member = added.members.first().copied();
            task.operator = task.operator.or_else(|| self.graph.tasks[member?].operator);
            let mut parent = None;
            for label in &labels(sources, edited, &task, &mut FxHashMap::default()) {
                let index = self.child(parent, label, member.unwrap_or(node));
                let group = &mut self.nodes[index].group;
                if group.count == 0 {
                    group.family = added.work.as_ref().map_or("other", |work| work.family.name());
                }
                group.simulated += added.prediction.duration;
                group.count += 1;
                group.provenance = group.provenance.max(added.prediction.provenance);
                parent = Some(index);
            }
        }
    }

    fn child(&mut self, parent: Option<usize>, label: &str, node: NodeId) -> usize {
        let key = (parent, label.to_owned());
        if let Some(&index) = self.of_label.get(&key) {
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
            group.is_open = group.depth == 0 || (group.depth == 1 && (are_few || is_filtered));
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
fn labels(
    sources: &Sources,
    graph: &ExecutionGraph,
    task: &Task,
    modules: &mut FxHashMap<OperatorId, String>,
) -> Vec<String> {
    let mut module = || match task.operator {
        Some(id) => modules.entry(id).or_insert_with(|| module_of(graph, task)).clone(),
        None => module_of(graph, task),
    };
    let kernel = || graph.names.get(task.name).to_owned();
    match sources.arrangement.grouping {
        Grouping::Tree => {
            let mut labels = vec!["model".to_owned(), module(), operator_name(graph, task)];
            labels.extend(is_kernel(task).then(kernel));
            labels
        }
        Grouping::Operator => vec![operator_name(graph, task)],
        Grouping::Kernel => vec![kernel()],
        Grouping::Module => vec![module()],
        Grouping::Stream => vec![sources.paints.labels.get(task.lane.0 as usize).cloned().unwrap_or_default()],
        Grouping::Family => vec![family_name(graph, task).to_owned()],
    }
}

fn operator_name(graph: &ExecutionGraph, task: &Task) -> String {
    let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
    match graph.names.get(operator.map_or(task.name, |operator| operator.name)) {
        "" => "outside operators".to_owned(),
        name => name.to_owned(),
    }
}

fn count(sources: &Sources, graph: &ExecutionGraph, node: NodeId, group: &mut Group) {
    let task = &graph.tasks[node];
    group.waited += (task.measured - task.duration).max(DurNs::ZERO);
    if !is_kernel(task) {
        group.host += task.duration;
        return;
    }
    let resolved = &sources.outcome.resolved;
    let prediction = resolved.prediction(node);
    let longest = graph.tasks[group.example].duration;
    if group.count == 0 || task.duration > longest {
        (group.example, group.family) = (node, family_name(graph, task));
    }
    group.count += 1;
    group.measured += task.duration;
    group.simulated += if resolved.is_removed(node) { DurNs::ZERO } else { prediction.duration };
    group.provenance = group.provenance.max(prediction.provenance);
    if let Some(estimate) = sources.modelled.get(node) {
        group.against.add(task.measured, estimate);
    }
}

fn family_name(graph: &ExecutionGraph, task: &Task) -> &'static str {
    match task.kind {
        TaskKind::Kernel => family_of_task(graph, task).name(),
        TaskKind::Memcpy | TaskKind::Memset => "copy",
        TaskKind::Collective(_) => "collective",
        _ => "host",
    }
}
