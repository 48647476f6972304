//! What the devices spend the iteration on: kernels summed by layer and role, before and after.

use rustc_hash::FxHashMap;

use crate::session::Outcome;
use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::{Paint, Role};
use retime_core::graph::{ExecutionGraph, NodeId, OperatorId, Task};
use retime_core::intern::NameId;
use retime_core::scenario::Resolved;
use retime_core::units::{DurNs, Percent};

use super::density::DensityIndex;
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

/// Sums over the device work for which `is_chosen`; what changed most first, of what did not the longest.
///
/// # Arguments
/// `replay`: the untouched graph simulated.
///
/// # Complexity
/// O(device tasks).
pub fn sums(
    graph: &ExecutionGraph,
    (resolved, simulated): (&Resolved, &DensityIndex),
    replay: &Outcome,
    is_chosen: impl Fn(&Task) -> bool,
) -> Vec<KernelSum> {
    let mut sums: FxHashMap<Key<'_>, KernelSum> = FxHashMap::default();
    let length = |item| simulated.times(item).map_or(DurNs::ZERO, |(start, end)| end.since(start));
    // A replay that errs by little has changed nothing.
    let is_changed = !(resolved.changes.is_empty() && resolved.added.is_empty() && resolved.removed.is_empty());
    let length_before = |node: NodeId| match replay.resolved.timed.task_if_kept(node).filter(|_| is_changed) {
        Some(task) => replay.schedule.end(task).since(replay.schedule.start(&replay.resolved.timed, task)),
        None => graph.tasks[node].measured,
    };
    let mut add = |key, item, before: DurNs| {
        let none = KernelSum { item, count: 0, before: DurNs::ZERO, simulated: DurNs::ZERO };
        let sum = sums.entry(key).or_insert(none);
        sum.count += 1;
        sum.before += before;
        sum.simulated += length(item);
    };
    let layer = |operator: Option<OperatorId>| {
        let operator = operator.and_then(|id| graph.operators.get(id.0 as usize));
        operator.map_or((NameId::default(), NameId::default()), |operator| (operator.name, operator.module))
    };
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        if task.kind.is_device() && is_chosen(task) {
            add((Name::Traced(task.name), layer(task.operator)), Item::Task(node), length_before(node));
        }
    }
    for (number, added) in resolved.added.iter().enumerate() {
        if added.kind.is_device() {
            add((Name::Added(&added.name), layer(added.operator)), Item::Added(number as u32), DurNs::ZERO);
        }
    }
    let mut all: Vec<KernelSum> = sums.into_values().collect();
    let change = |sum: &KernelSum| (sum.simulated - sum.before).abs();
    all.sort_by_key(|sum| {
        let by = if is_changed { change(sum) } else { DurNs::ZERO };
        (std::cmp::Reverse(by), std::cmp::Reverse(sum.before), sum.item)
    });
    all
}

/// Draws as many sums as there are rows, one per row, under a title; those of one family where that is chosen.
pub fn render(scene: Scene<'_>, family: Option<Paint>, labels: u16, canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    let figures = labels + if scene.is_edited { 32 } else { 10 };
    let period = &(if scene.is_edited { scene.simulated } else { scene.measured }).period;
    // Of the iteration of all ranks, whose work is summed.
    let whole = DurNs(period.end.since(period.start).0.saturating_mul(scene.graph.ranks.len().max(1) as i64));
    canvas.text(1, 0, "kernels", Role::Dim);
    if let Some(family) = family {
        canvas.text(1, 1, &format!("{} only", family.key()), Role::Warn);
    }
    let mut head = canvas.part(labels, 0, width - labels, 1);
    head.rule(0, "");
    let (before, compared) = if scene.is_edited { ("replayed", "  simulated     change") } else { (scene.origin, "") };
    head.text(0, 0, &format!("{before:>9}{compared}   share  what "), Role::Dim);
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
        // Several of an operator are of other sizes, too.
        let bare =
            caption.rsplit_once(' ').filter(|(_, sizes)| sizes.contains('×')).map_or(&*caption, |(bare, _)| bare);
        let name = if sum.count > 1 { format!("{bare} ×{}", sum.count) } else { caption.clone() };
        let at = figures - labels;
        row.text(at, 0, &format!("{:>6}", format!("{share:.1}")), Role::Dim);
        let ink = row.theme().ink(scene.paint(sum.item));
        row.put(at + 8, 0, "■", ink);
        let room = row.width().saturating_sub(at + 11) as usize;
        let end = row.text(at + 10, 0, &cut(&name, room), Role::Text);
        let own = super::caption::kernel_name(scene.name(sum.item));
        if row.width() > end + 12 && !name.contains(&*own) {
            row.text(end + 2, 0, &own, Role::Faint);
        }
    }
}
