//! What the iteration is spent on: kernels summed by layer and role, before and after; without a device the host's operators.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::session::Loaded;
use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::{Paint, Role};
use retime_core::graph::{ExecutionGraph, LaneKind, NodeId, OperatorId, Task, TaskId};
use retime_core::intern::NameId;
use retime_core::scenario::{AddedTask, Resolved};
use retime_core::sim::Schedule;
use retime_core::units::{DurNs, Percent};

use super::caption;
use super::item::Item;
use super::ruler::signed;
use super::scene::Scene;

/// Kernels of one name that do the same for the same layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSum {
    /// The first of them.
    pub item: Item,
    /// How many.
    pub count: usize,
    /// What they take before the edits: as replayed, since measured collectives wait for late ranks; as measured where nothing is edited.
    pub before: DurNs,
    /// What they take as simulated.
    pub simulated: DurNs,
}

/// The name of a kernel.
#[derive(PartialEq, Eq, Hash)]
enum Name<'a> {
    Traced(NameId),
    Added(&'a str),
}

/// A kernel's name, its operator and module.
type Key<'a> = (Name<'a>, (NameId, NameId));

/// Sums over the device work, or without a device the host time of operators, for which `is_chosen`, and what edits added to the step;
/// what changed most first, of what did not the longest.
///
/// # Complexity
/// O(device tasks).
pub fn sums(
    graph: &ExecutionGraph,
    (resolved, schedule): (&Resolved, &Schedule),
    loaded: &Loaded,
    is_chosen: impl Fn(&Task) -> bool,
) -> Vec<KernelSum> {
    let (replay, of_step) = (&*loaded.replay, loaded.base.iteration_tasks());
    let mut sums: FxHashMap<Key<'_>, KernelSum> = FxHashMap::default();
    let taken = |(resolved, schedule): (&Resolved, &Schedule), task| {
        schedule.end(task).since(schedule.start(&resolved.timed, task))
    };
    let length = |task: Option<TaskId>| task.map_or(DurNs::ZERO, |task| taken((resolved, schedule), task));
    // A replay that errs by little has changed nothing.
    let is_changed = !(resolved.changes.is_empty() && resolved.added.is_empty() && resolved.removed.is_empty());
    let length_before = |node: NodeId| match replay.resolved.timed.task_if_kept(node).filter(|_| is_changed) {
        Some(task) => taken((&replay.resolved, &replay.schedule), task),
        None => graph.tasks[node].measured,
    };
    let mut add = |key, item, count: usize, (before, simulated): (DurNs, DurNs)| {
        let none = KernelSum { item, count: 0, before: DurNs::ZERO, simulated: DurNs::ZERO };
        let sum = sums.entry(key).or_insert(none);
        sum.count += count;
        sum.before += before;
        sum.simulated += simulated;
    };
    let layer = |operator: Option<OperatorId>| {
        let operator = operator.and_then(|id| graph.operators.get(id.0 as usize));
        operator.map_or((NameId::default(), NameId::default()), |operator| (operator.name, operator.module))
    };
    let mut operators: FxHashSet<OperatorId> = FxHashSet::default();
    let has_device = graph.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let is_summed =
        |task: &Task| if has_device { task.kind.is_device() } else { task.kind.is_work() && task.operator.is_some() };
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        if !is_summed(task) || !is_chosen(task) {
            continue;
        }
        let times = (length_before(node), length(resolved.timed.task_if_kept(node)));
        let of = layer(task.operator);
        match task.operator.filter(|_| !has_device) {
            Some(id) => add((Name::Traced(of.0), of), Item::Operator(id), usize::from(operators.insert(id)), times),
            None => add((Name::Traced(task.name), of), Item::Task(node), 1, times),
        }
    }
    let is_added = |added: &AddedTask| added.kind.is_device() && of_step[added.beside.index()];
    for (number, added) in resolved.added.iter().enumerate().filter(|(_, added)| is_added(added)) {
        let times = (DurNs::ZERO, length(Some(added.task)));
        add((Name::Added(&added.name), layer(added.operator)), Item::Added(number as u32), 1, times);
    }
    let mut all = told_apart(graph, resolved, sums.into_values().collect());
    let change = |sum: &KernelSum| (sum.simulated - sum.before).abs();
    all.sort_by_key(|sum| {
        let by = if is_changed { change(sum) } else { DurNs::ZERO };
        (std::cmp::Reverse(by), std::cmp::Reverse(sum.before), sum.item)
    });
    all
}

/// Those that are written alike as one: kernels of one short name and layer differ in template arguments that nobody is shown.
fn told_apart(graph: &ExecutionGraph, resolved: &Resolved, mut all: Vec<KernelSum>) -> Vec<KernelSum> {
    all.sort_by_key(|sum| sum.item);
    let mut places: FxHashMap<(String, String), usize> = FxHashMap::default();
    let mut merged: Vec<KernelSum> = Vec::new();
    for sum in all {
        let (caption, name) = match sum.item {
            Item::Task(node) => {
                (caption::of_task(graph, &resolved.works, node), graph.names.get(graph.tasks[node].name))
            }
            Item::Added(number) => {
                let added = &resolved.added[number as usize];
                (caption::of_added(graph, added), &*added.name)
            }
            Item::Operator(id) => (String::new(), graph.names.get(graph.operators[id.0 as usize].name)),
        };
        let key = (bare(&caption).to_owned(), caption::kernel_name(name).into_owned());
        let place = *places.entry(key).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(known) => {
                known.count += sum.count;
                known.before += sum.before;
                known.simulated += sum.simulated;
            }
            None => merged.push(sum),
        }
    }
    merged
}

/// What is written on a bar without its sizes: several of an operator are of other sizes, too.
fn bare(caption: &str) -> &str {
    caption.rsplit_once(' ').filter(|(_, sizes)| sizes.contains('×')).map_or(caption, |(bare, _)| bare)
}

/// Draws as many sums as there are rows, one per row, under a title; those of one family where that is chosen.
pub fn render(scene: Scene<'_>, family: Option<Paint>, labels: u16, canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    let figures = labels + if scene.is_edited { 32 } else { 10 };
    let period = &(if scene.is_edited { scene.simulated } else { scene.measured }).period;
    // Of the iteration of all ranks, whose work is summed.
    let whole = DurNs(period.end.since(period.start).0.saturating_mul(scene.graph.ranks.len().max(1) as i64));
    canvas.text(
        1,
        0,
        if (0..scene.graph.lanes.len()).any(|lane| scene.is_stream(lane)) { "kernels" } else { "operators" },
        Role::Dim,
    );
    if let Some(family) = family {
        canvas.text(1, 1, &format!("{} only", family.key()), Role::Warn);
    }
    let mut head = canvas.part(labels, 0, width - labels, 1);
    head.rule(0, "");
    let (before, compared) = if scene.is_edited { ("replayed", "  simulated     change") } else { (scene.origin, "") };
    let ranks = match scene.graph.ranks.len() {
        0 | 1 => String::new(),
        count => format!("of {count} ranks together "),
    };
    head.text(0, 0, &format!("{before:>9}{compared}   share  what {ranks}"), Role::Dim);
    let rows = canvas.height().saturating_sub(1) as usize;
    let shown = scene.simulated.kernels.iter().filter(|sum| sum.before.max(sum.simulated) > DurNs::ZERO);
    let shown = shown.filter(|sum| family.is_none_or(|family| family == scene.paint(sum.item)));
    for (y, sum) in shown.take(rows).enumerate() {
        let y = y as u16 + 1;
        let mut row = canvas.part(labels, y, width - labels, 1);
        row.text(0, 0, &format!("{:>9}", sum.before.to_string()), Role::Measured);
        if scene.is_edited {
            let change = sum.simulated - sum.before;
            let role = match change.0 {
                0 => Role::Dim,
                c if c < 0 => Role::Good,
                _ => Role::Bad,
            };
            row.text(11, 0, &format!("{:>9}", sum.simulated.to_string()), Role::Simulated);
            row.text(22, 0, &format!("{:>9}", signed(change)), role);
        }
        let share = Percent::of(if scene.is_edited { sum.simulated } else { sum.before }, whole);
        let caption = scene.caption(sum.item);
        let name = if sum.count > 1 { format!("{} ×{}", bare(&caption), sum.count) } else { caption.clone() };
        let at = figures - labels;
        row.text(at, 0, &format!("{:>6}", format!("{share:.1}")), Role::Dim);
        let ink = row.theme().ink(scene.paint(sum.item));
        row.put(at + 8, 0, "■", ink);
        let room = row.width().saturating_sub(at + 11) as usize;
        let end = row.text(at + 10, 0, &cut(&name, room), Role::Text);
        let own = caption::kernel_name(scene.name(sum.item));
        if row.width() > end + 12 && !name.contains(&*own) {
            row.text(end + 2, 0, &own, Role::Faint);
        }
    }
}
