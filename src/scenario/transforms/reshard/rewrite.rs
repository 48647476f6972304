//! What a placement of tables costs: look-ups by the model's ratio of a rank's new set of tables to its traced one, the
//! exchange of looked-up rows by the largest share of any rank.

use crate::cost::operators::{LookupSize, lookup_work};
use crate::cost::{CollectiveKind, Estimate, Prediction, Provenance, Shape, Work};
use crate::device::DeviceProfile;
use crate::graph::{DType, NodeId, TaskKind};
use crate::scenario::draft::Draft;
use crate::scenario::tables::{RankLookups, Table, Tables};
use crate::scenario::transform::StepReport;
use crate::scenario::transforms::report::count;
use crate::units::{Bytes, DurNs};

/// Puts each table that can move on the rank `new` gives it; `old` is where they were before this step.
pub(super) fn place(draft: &mut Draft<'_>, tables: &Tables, old: &[usize], new: &[usize], report: &mut StepReport) {
    if let Some(problem) = overfilled(draft, tables, new) {
        report.unhandled.insert(0, problem);
        return;
    }
    let moved = old.iter().zip(new).filter(|(old, new)| old != new).count();
    if moved == 0 {
        "every table is where it was".clone_into(&mut report.summary);
        return;
    }
    let mut changes = Vec::new();
    for rank in 0..tables.ranks.len() {
        if let Some((ratio, changed)) = recost_rank(draft, tables, rank, new, report) {
            report.changed += changed;
            let number = draft.graph().ranks[rank].rank.0;
            changes.push(format!("r{number} {:+.0} %", 100.0 * (ratio - 1.0)));
        }
    }
    let exchange = recost_exchange(draft, tables, old, new, report);
    draft.set_placement(new.to_vec());
    let against = if changes.is_empty() { String::new() } else { format!(", look-ups {}", changes.join(", ")) };
    report.summary = format!("{} moved{against}{exchange}", count(moved, "table"));
    if tables.ranks.iter().any(|rank| !rank.batched && !rank.forward.is_empty()) {
        report.unhandled.push("host time of single look-ups stays on its rank".to_owned());
    }
}

/// Why the tables do not fit: the first rank that they overfill.
fn overfilled(draft: &Draft<'_>, tables: &Tables, new: &[usize]) -> Option<String> {
    for rank in 0..tables.ranks.len() {
        let moved = tables.sharded().iter().zip(new).filter(|&(_, &at)| at == rank).map(|(table, _)| table);
        let everywhere = tables.tables.iter().filter(|table| table.replicated);
        let needed: u64 = moved.chain(everywhere).filter_map(|table| table.bytes).map(|bytes| bytes.0).sum();
        let memory = draft.device(rank)?.memory;
        if memory.0 > 0 && needed > memory.0 {
            let number = draft.graph().ranks[rank].rank.0;
            return Some(format!("rank {number} would hold {} of tables in {memory}: nothing moved", Bytes(needed)));
        }
    }
    None
}

/// Re-costs a rank's look-ups.
///
/// # Returns
/// New over traced cost, and how many tasks it concerns; `None` when the rank's tables are those it was traced with.
fn recost_rank(
    draft: &mut Draft<'_>,
    tables: &Tables,
    rank: usize,
    new: &[usize],
    report: &mut StepReport,
) -> Option<(f64, usize)> {
    let lookups = &tables.ranks[rank];
    let on = |at: &dyn Fn(usize) -> usize| {
        let all = tables.sharded().iter().enumerate();
        all.filter(|&(index, _)| at(index) == rank).map(|(_, table)| table).collect::<Vec<&Table>>()
    };
    let before = on(&|index| tables.sharded()[index].rank);
    let after = on(&|index| new[index]);
    let nodes = || lookups.forward.iter().chain(&lookups.backward).copied();
    if before == after {
        nodes().for_each(|node| draft.recost(node, None));
        return None;
    }
    let device = draft.device(rank)?.clone();
    let mut whole = (0.0, 0.0);
    for (nodes, backward) in [(&lookups.forward, false), (&lookups.backward, true)] {
        let cost = |set: &[&Table]| set_cost(draft, set, lookups, backward, &device);
        let (old, new) = (cost(&before), cost(&after));
        if old.duration <= DurNs::ZERO {
            let lost: DurNs = nodes.iter().map(|&node| draft.graph().tasks[node].duration).sum();
            report.unhandled_ns += lost;
            continue;
        }
        let ratio = new.duration.0 as f64 / old.duration.0 as f64;
        whole = (whole.0 + old.duration.0 as f64, whole.1 + new.duration.0 as f64);
        for &node in nodes {
            let prediction = Prediction {
                duration: DurNs(0),
                provenance: Provenance::Anchored,
                model: new.model,
                error: new.error,
                extrapolated: new.extrapolated || old.extrapolated,
            };
            draft.recost(node, Some((ratio, prediction)));
        }
    }
    Some((if whole.0 > 0.0 { whole.1 / whole.0 } else { 1.0 }, nodes().count()))
}

/// Relative error of a look-up told from the traced time of the table alone.
const TRACED_ERROR: f32 = 0.5;

/// What looking up a set of tables costs on `device`. One operator for all: `T` tables of their mean sizes. One
/// each: the sum. Where a size is unknown: the traced times.
fn set_cost(
    draft: &Draft<'_>,
    set: &[&Table],
    lookups: &RankLookups,
    backward: bool,
    device: &DeviceProfile,
) -> Estimate {
    let models = &draft.context().models;
    let modelled: Option<Vec<Estimate>> = if lookups.batched && !set.is_empty() {
        batched_work(set, backward).and_then(|work| models.estimate(&work, device)).map(|estimate| vec![estimate])
    } else {
        let single = |&table: &&Table| models.estimate(&batched_work(&[table], backward)?, device);
        set.iter().map(single).collect()
    };
    let traced = |table: &&Table| if backward { table.backward } else { table.forward };
    match modelled {
        Some(parts) => Estimate {
            duration: parts.iter().map(|part| part.duration).sum(),
            model: parts.first().map_or("lookup", |part| part.model),
            error: parts.iter().map(|part| part.error).fold(0.0, f32::max),
            extrapolated: parts.iter().any(|part| part.extrapolated),
        },
        None => Estimate {
            duration: set.iter().map(traced).sum(),
            model: "traced-share",
            error: TRACED_ERROR,
            extrapolated: true,
        },
    }
}

/// The work of one look-up in all tables of a set: mean rows and dimension, and the pooling that keeps `Σ L·D`.
fn batched_work(set: &[&Table], backward: bool) -> Option<Work> {
    let sizes: Vec<_> = set.iter().map(|table| table.sizes()).collect::<Option<_>>()?;
    let count = sizes.len() as f64;
    let (rows, dims): (f64, f64) = sizes.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.rows, sum.1 + one.dim));
    let read: f64 = sizes.iter().map(|one| one.pooling * one.dim).sum();
    let size = LookupSize {
        batch: sizes.first()?.batch as u64,
        rows: (rows / count) as u64,
        tables: sizes.len() as u64,
        pooling: read / dims,
        dim: (dims / count).round() as u64,
    };
    Some(lookup_work(&size, backward, DType::Fp32, DType::Int64))
}

/// Looked-up elements of the rank that has most: what an exchange's size goes by.
fn largest_share(tables: &Tables, placement: &[usize]) -> Option<f64> {
    let mut shares = vec![0.0; tables.ranks.len()];
    for (table, &rank) in tables.sharded().iter().zip(placement) {
        shares[rank] += table.batch? as f64 * table.dim? as f64;
    }
    shares.into_iter().max_by(f64::total_cmp).filter(|&share| share > 0.0)
}

/// Scales the all-to-alls that carry looked-up rows or their gradients.
///
/// # Returns
/// What to add to the summary.
fn recost_exchange(
    draft: &mut Draft<'_>,
    tables: &Tables,
    old: &[usize],
    new: &[usize],
    report: &mut StepReport,
) -> String {
    let graph = draft.graph();
    let is_exchange = |&node: &NodeId| {
        let work = draft.base().work(node);
        matches!(work.map(|work| &work.shape), Some(Shape::Collective { kind: CollectiveKind::AllToAll, .. }))
            && matches!(graph.tasks[node].kind, TaskKind::Collective(_))
    };
    let exchanges: Vec<NodeId> = graph.tasks.node_indices().filter(is_exchange).collect();
    let shares = [tables.placement().as_slice(), old, new].map(|placement| largest_share(tables, placement));
    let (carried, time) = match shares {
        [Some(traced), Some(before), Some(after)] => {
            let carries = |node: &NodeId| {
                let bytes = draft.base().work(*node).map_or(0, |work| work.read.0) as f64;
                [2.0, 4.0].iter().any(|element| (bytes / (traced * element) - 1.0).abs() < 0.01)
            };
            let (carried, others): (Vec<NodeId>, Vec<NodeId>) = exchanges.iter().copied().partition(carries);
            let works: Vec<_> = carried.iter().filter_map(|&node| Some((node, draft.work(node)?.clone()))).collect();
            let ratio = after / before;
            for (node, work) in works {
                let scaled = |bytes: Bytes| Bytes((bytes.0 as f64 * ratio).round() as u64);
                draft.set_work(node, Work { read: scaled(work.read), written: scaled(work.written), ..work });
            }
            report.changed += carried.len();
            (carried.len(), (ratio, others))
        }
        _ => (0, (1.0, exchanges)),
    };
    let (ratio, others) = time;
    if !others.is_empty() {
        let lost: DurNs = others.iter().map(|&node| draft.graph().tasks[node].duration).sum();
        report.unhandled_ns += lost;
        let what = "all-to-all of indices or unrecorded size";
        report.unhandled.push(format!("{what} ×{}, {lost}: kept", others.len()));
    }
    if carried == 0 { String::new() } else { format!(", exchange of rows {:+.0} %", 100.0 * (ratio - 1.0)) }
}
