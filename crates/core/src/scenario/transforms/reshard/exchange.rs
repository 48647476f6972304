//! What a placement of tables exchanges: looked-up rows by the largest share of any rank, gradients of copied tables.
//!
//! Each placement is told from what the job exchanges without any, after all other edits.

use crate::cost::{CollectiveKind, Shape, Work};
use crate::graph::{NodeId, TaskKind};
use crate::scenario::draft::Draft;
use crate::scenario::effect::Effect;
use crate::scenario::tables::{ShardingType, Table, TablePlacement, Tables};
use crate::scenario::transform::StepReport;
use crate::units::{Bytes, DurNs, Percent};

/// A change of placement and how many elements cross the interconnect under each.
#[derive(Clone, Copy)]
struct Sent {
    traced: f64,
    before: f64,
    after: f64,
}

/// Re-costs the collectives that carry looked-up rows, their gradients, or the gradients of copied tables.
///
/// # Arguments
/// `tables`: as traced, and as edits of their look-ups leave them.
///
/// # Returns
/// What to add to the summary.
pub(super) fn recost(
    draft: &mut Draft<'_>,
    (tables, edited): (&Tables, &Tables),
    old: &[TablePlacement],
    new: &[TablePlacement],
    report: &mut StepReport,
) -> String {
    let rows = recost_rows(draft, tables, old, new, report);
    let gradients = recost_gradients(draft, edited, old, new, report);
    rows + &gradients
}

/// Looked-up elements of the rank that sends most: what an exchange's size goes by.
fn largest_share(tables: &Tables, placements: &[TablePlacement]) -> Option<f64> {
    tables.sent(placements)?.into_iter().max_by(f64::total_cmp)
}

fn collectives(draft: &Draft<'_>, wanted: CollectiveKind) -> Vec<NodeId> {
    let graph = draft.graph();
    let is_wanted = |&node: &NodeId| {
        let shape = draft.base().work(node).map(|work| &work.shape);
        matches!(shape, Some(Shape::Collective { kind, .. }) if *kind == wanted)
            && matches!(graph.tasks[node].kind, TaskKind::Collective(_))
    };
    graph.tasks.node_indices().filter(is_wanted).collect()
}

/// Scales the all-to-alls whose message is the largest share of looked-up rows.
fn recost_rows(
    draft: &mut Draft<'_>,
    tables: &Tables,
    old: &[TablePlacement],
    new: &[TablePlacement],
    report: &mut StepReport,
) -> String {
    let exchanges = collectives(draft, CollectiveKind::AllToAll);
    let shares = [tables.placements().as_slice(), old, new].map(|placements| largest_share(tables, placements));
    let sent = match shares {
        [Some(traced), Some(before), Some(after)] if traced > 0.0 => Some(Sent { traced, before, after }),
        _ => None,
    };
    let carries = |node: &NodeId| {
        let bytes = draft.base().work(*node).map_or(0, |work| work.read.0) as f64;
        sent.is_some_and(|sent| [2.0, 4.0].iter().any(|element| (bytes / (sent.traced * element) - 1.0).abs() < 0.01))
    };
    let (carried, others): (Vec<NodeId>, Vec<NodeId>) = exchanges.iter().copied().partition(carries);
    if !others.is_empty() {
        let kept: Vec<_> = others.iter().map(|&node| (node, draft.graph().tasks[node].duration)).collect();
        let once: Vec<_> = kept.iter().filter(|(node, _)| draft.base().is_recorded(*node)).collect();
        let lost: DurNs = once.iter().map(|(_, time)| *time).sum();
        let what = "all-to-all of indices or unrecorded size";
        report.say(Effect::kept(format!("{what} ×{}, {lost}: kept", once.len()), kept));
    }
    let Some(sent) = sent.filter(|_| !carried.is_empty()) else { return String::new() };
    for &node in &carried {
        scale_message(draft, node, sent.after / sent.traced);
    }
    report.changed += carried.len();
    format!(", exchange of rows {:+.0}", Percent(sent.after / sent.before.max(1.0) - 1.0))
}

/// The message without placement, times `ratio`.
fn scale_message(draft: &mut Draft<'_>, node: NodeId, ratio: f64) {
    draft.set_placed_work(node, None);
    let Some(work) = draft.work(node).filter(|_| (ratio - 1.0).abs() > f64::EPSILON).cloned() else { return };
    let scaled = |bytes: Bytes| Bytes((bytes.0 as f64 * ratio).round() as u64);
    draft.set_placed_work(node, Some(Work { read: scaled(work.read), written: scaled(work.written), ..work }));
}

/// Bytes of the gradients that ranks sum of the tables that each has a copy of: the rows that a rank touches, at most all.
fn copied_gradients(tables: &Tables, placements: &[TablePlacement]) -> f64 {
    let copied = tables.sharded().iter().zip(placements).filter(|(_, placement)| placement.cut == ShardingType::Copies);
    let bytes = |(table, placement): (&Table, &TablePlacement)| {
        let sizes = table.sizes()?;
        let touched = sizes.batch / placement.ranks.len() as f64 * sizes.pooling;
        Some(touched.min(sizes.rows) * sizes.dim * 4.0)
    };
    copied.filter_map(bytes).sum()
}

/// Adds the gradients of copied tables to the largest all-reduce of each step.
fn recost_gradients(
    draft: &mut Draft<'_>,
    tables: &Tables,
    old: &[TablePlacement],
    new: &[TablePlacement],
    report: &mut StepReport,
) -> String {
    let (before, copied) = (copied_gradients(tables, old), copied_gradients(tables, new));
    let added = copied - before;
    if added == 0.0 {
        return String::new();
    }
    let all = collectives(draft, CollectiveKind::AllReduce);
    let size = |node: &NodeId| draft.base().work(*node).map_or(Bytes(0), |work| work.read);
    let largest = all.iter().map(size).max();
    let carriers: Vec<NodeId> = all.iter().copied().filter(|node| Some(size(node)) == largest).collect();
    if carriers.is_empty() {
        let missing = format!("no all-reduce carries the gradients of copies, {}", Bytes(added.abs() as u64));
        report.say(Effect::not_modelled(missing, DurNs::ZERO));
        return String::new();
    }
    for &node in &carriers {
        draft.set_placed_work(node, None);
        let Some(work) = draft.work(node).filter(|_| copied > 0.0).cloned() else { continue };
        let grown = |bytes: Bytes| Bytes((bytes.0 as f64 + copied).round() as u64);
        draft.set_placed_work(node, Some(Work { read: grown(work.read), written: grown(work.written), ..work }));
    }
    report.changed += carriers.len();
    let sign = if added > 0.0 { '+' } else { '−' };
    format!(", gradients of copies {sign}{}", Bytes(added.abs() as u64))
}
