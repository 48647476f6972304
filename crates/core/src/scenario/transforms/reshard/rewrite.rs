//! What a placement of tables costs: look-ups by the model's ratio of a rank's new set of tables to its traced one.

use crate::cost::lookup::hosted_bytes;
use crate::cost::operators::{LookupSize, lookup_work};
use crate::cost::{Estimate, Prediction, Provenance, Shape, Work};
use crate::device::DeviceProfile;
use crate::graph::{DType, NodeId};
use crate::scenario::draft::Draft;
use crate::scenario::effect::Effect;
use crate::scenario::tables::{RankLookups, Table, TablePlacement, Tables};
use crate::scenario::transform::StepReport;
use crate::scenario::transforms::report::count;
use crate::units::{DurNs, Percent};

use super::exchange;
use super::lookup_line::{LookupLine, Traced};
use super::lookup_scale::{LookupRatio, Scales};

/// Puts each table that can move on the placement `new` gives it; `old` is where they were before this step.
pub(super) fn place(
    draft: &mut Draft<'_>,
    tables: &Tables,
    old: &[TablePlacement],
    new: &[TablePlacement],
    report: &mut StepReport,
) {
    if let Some(problem) = overfilled(draft, tables, new) {
        report.effects.insert(0, Effect::none(problem));
        return;
    }
    let moved = old.iter().zip(new).filter(|(old, new)| old != new).count();
    if moved == 0 {
        "every table is where it was".clone_into(&mut report.summary);
        report.is_met = true;
        return;
    }
    let mut changes = Vec::new();
    let lookups = tables.ranks.iter().flat_map(|rank| rank.forward.iter().chain(&rank.backward));
    for &node in lookups {
        draft.set_placed_work(node, None);
        draft.correct(node, None);
    }
    let edited = edited(draft, tables);
    let lines = [false, true].map(|backward| lookup_line(draft, tables, backward));
    let scales = [false, true].map(|backward| Scales::of(draft, (tables, &edited), backward));
    for rank in 0..tables.ranks.len() {
        if let Some((ratio, changed)) = recost_rank(draft, (tables, &edited), (rank, &lines, &scales), new, report) {
            report.changed += changed;
            let number = draft.graph().ranks[rank].rank.0;
            changes.push(format!("r{number} {:+.0}", Percent(ratio - 1.0)));
        }
    }
    let exchange = exchange::recost(draft, (tables, &edited), old, new, report);
    draft.set_placements(new.to_vec());
    let against = if changes.is_empty() { String::new() } else { format!(", look-ups {}", changes.join(", ")) };
    report.summary = format!("{} moved{against}{exchange}", count(moved, "table"));
    if tables.ranks.iter().any(|rank| !rank.batched && !rank.forward.is_empty()) {
        report.say(Effect::assumption("host time of single look-ups stays on its rank"));
    }
}

/// The tables as edits of their look-ups leave them: other batches, rows, dimensions and bag sizes.
fn edited(draft: &Draft<'_>, tables: &Tables) -> Tables {
    let sizes = |work: Option<&Work>| match work.map(|work| &work.shape) {
        Some(&Shape::Embedding { batch, rows, pooling, dim, .. }) => {
            Some([batch as f64, rows as f64, pooling, dim as f64])
        }
        _ => None,
    };
    let growth = |rank: usize| {
        let pair = |&node: &NodeId| sizes(draft.base().work(node)).zip(sizes(draft.work(node)));
        let (from, to) = tables.ranks[rank].forward.iter().find_map(pair)?;
        Some(std::array::from_fn(|at| if from[at] > 0.0 { to[at] / from[at] } else { 1.0 }))
    };
    let by_rank: Vec<[f64; 4]> = (0..tables.ranks.len()).map(|rank| growth(rank).unwrap_or([1.0; 4])).collect();
    let mut all = tables.clone();
    for table in &mut all.tables {
        let [batch, rows, pooling, dim] = by_rank.get(table.rank).copied().unwrap_or([1.0; 4]);
        let grown = |size: u64, by: f64| (size as f64 * by).round() as u64;
        table.batch = table.batch.map(|size| grown(size, batch));
        table.rows = table.rows.map(|size| grown(size, rows));
        table.pooling = table.pooling.map(|size| size * pooling);
        table.dim = table.dim.map(|size| grown(size, dim));
    }
    all
}

/// Why the tables do not fit: the first rank that they overfill. Those behind the host's link need no device memory.
fn overfilled(draft: &Draft<'_>, tables: &Tables, new: &[TablePlacement]) -> Option<String> {
    for (rank, needed) in tables.held(new).into_iter().enumerate() {
        let memory = draft.device(rank)?.memory;
        if memory.0 > 0 && needed > memory {
            let number = draft.graph().ranks[rank].rank.0;
            return Some(format!("rank {number} would hold {needed} of tables in {memory}: nothing moved"));
        }
    }
    None
}

/// What a rank has of a table, and where.
pub(super) struct Part {
    pub(super) table: Table,
    /// Share of look-ups that the device serves, of a table in host memory.
    cached: Option<f64>,
}

/// What `rank` has under a placement.
pub(super) fn parts(tables: &Tables, placements: &[TablePlacement], rank: usize) -> Vec<Part> {
    let all = tables.sharded().iter().zip(placements);
    all.filter_map(|(table, placement)| Some(Part { table: placement.part(table, rank)?, cached: placement.cached }))
        .collect()
}

/// Whether a placement leaves a rank what it was traced with.
fn is_traced(tables: &Tables, placements: &[TablePlacement], rank: usize) -> bool {
    let mut all = tables.sharded().iter().zip(placements);
    all.all(|(table, placement)| {
        *placement == TablePlacement::whole(table.rank) || (table.rank != rank && !placement.ranks.contains(&rank))
    })
}

/// What look-ups of the job's ranks take by what they read, forward or backward, where its ranks tell that better than the
/// models do; each rank has one operator for all its tables then.
fn lookup_line(draft: &Draft<'_>, tables: &Tables, backward: bool) -> Option<LookupLine> {
    let placements = tables.placements();
    let traced = |rank: usize| {
        let lookups = &tables.ranks[rank];
        let nodes = if backward { &lookups.backward } else { &lookups.forward };
        let set = parts(tables, &placements, rank);
        let took: DurNs = nodes.iter().map(|&node| draft.graph().tasks[node].duration).sum();
        let modelled = set_cost(draft, &set, lookups, backward, (draft.device(rank)?, None)).duration;
        let elements = elements(&set).filter(|_| lookups.batched)?;
        Some(Traced { elements, took: took.0 as f64, modelled: modelled.0 as f64 })
    };
    let ranks: Option<Vec<Traced>> = tables.able().into_iter().map(traced).collect();
    LookupLine::learn(&ranks?)
}

/// Elements that look-ups of a set of tables read in a step.
fn elements(set: &[Part]) -> Option<f64> {
    set.iter().map(|part| part.table.sizes().map(|sizes| sizes.batch * sizes.pooling * sizes.dim)).sum()
}

/// Re-costs a rank's look-ups.
///
/// # Arguments
/// `tables`: as traced, and as edits of their look-ups leave them; `rank`: its position, and the lines and scales of the job's look-ups, forward and
/// backward.
///
/// # Returns
/// New over traced cost, and how many tasks it concerns; `None` when the rank's tables are those it was traced with.
fn recost_rank(
    draft: &mut Draft<'_>,
    (tables, edited): (&Tables, &Tables),
    (rank, lines, scales): (usize, &[Option<LookupLine>; 2], &[Scales; 2]),
    new: &[TablePlacement],
    report: &mut StepReport,
) -> Option<(f64, usize)> {
    let lookups = &tables.ranks[rank];
    if is_traced(tables, new, rank) {
        return None;
    }
    let left = |nodes: &[NodeId]| nodes.iter().copied().filter(|&node| !draft.is_removed(node)).collect::<Vec<_>>();
    let both = [(left(&lookups.forward), false), (left(&lookups.backward), true)];
    let count = both.iter().map(|(nodes, _)| nodes.len()).sum();
    if count == 0 {
        return None;
    }
    let (before, after) = (parts(edited, &tables.placements(), rank), parts(edited, new, rank));
    let device = draft.device(rank)?.clone();
    let link = draft.host_link(rank)?;
    let mut whole = (0.0, 0.0);
    for (nodes, backward) in &both {
        let backward = *backward;
        let line = lines[usize::from(backward)].as_ref();
        let cost = |set: &[Part]| set_cost(draft, set, lookups, backward, (&device, line));
        let (old, new) = (cost(&before), cost(&after));
        let took = per_step(draft, tables, rank, backward);
        if old.duration <= DurNs::ZERO {
            let kept: Vec<_> = nodes.iter().map(|&node| (node, draft.graph().tasks[node].duration)).collect();
            report.say(Effect::kept("look-ups that no model covers keep their time", kept));
            continue;
        }
        let fetched: f64 = after.iter().map(|part| fetch_ns(part, backward, link)).sum();
        let ratio = new.duration.0 as f64 / old.duration.0 as f64 + if took > 0.0 { fetched / took } else { 0.0 };
        whole = (whole.0 + took, whole.1 + took * ratio);
        let of = Prediction {
            duration: DurNs(0),
            provenance: Provenance::Anchored,
            model: new.model,
            error: new.error,
            extrapolated: new.extrapolated || old.extrapolated || fetched > 0.0,
        };
        let of_work = scales[usize::from(backward)].ratio(&before, &after);
        for &node in nodes {
            place_work(draft, node, (ratio, of), of_work);
        }
    }
    Some((if whole.0 > 0.0 { whole.1 / whole.0 } else { 1.0 }, count))
}

/// Gives a look-up its part of what its rank's new tables take: `ratio` of what it takes now, and the work of that.
fn place_work(draft: &mut Draft<'_>, node: NodeId, (ratio, of): (f64, Prediction), of_work: Option<LookupRatio>) {
    let now = draft.price(node);
    if let Some((of_work, work)) = of_work.zip(draft.work(node).cloned()) {
        draft.set_placed_work(node, Some(of_work.apply(work)));
    }
    let own = draft.price(node).duration;
    let factor = if own > DurNs::ZERO { ratio * now.duration.0 as f64 / own.0 as f64 } else { ratio };
    // What the models make of the new work is made up for, its error with it.
    draft.correct_by_measurement(node, factor, Prediction { error: of.error.hypot(now.error), ..of });
}

/// What a rank's look-ups take in one step now, in ns: as long as traced, times what edits make of them in all traced steps.
fn per_step(draft: &Draft<'_>, tables: &Tables, rank: usize, backward: bool) -> f64 {
    let (own, lookups) = (tables.sharded().iter().filter(|table| table.rank == rank), &tables.ranks[rank]);
    let nodes = || if backward { &lookups.backward } else { &lookups.forward }.iter().copied();
    let step: DurNs = own.map(|table| if backward { table.backward } else { table.forward }).sum();
    let traced: DurNs = nodes().map(|node| draft.graph().tasks[node].duration).sum();
    let now: DurNs = nodes().filter(|&node| !draft.is_removed(node)).map(|node| draft.price(node).duration).sum();
    step.0 as f64 * now.0 as f64 / traced.0.max(1) as f64
}

/// Relative error of a look-up told from the traced time of the table alone.
const TRACED_ERROR: f32 = 0.5;

/// What looking up a set of tables costs on `device`. One operator for all `T`: the traffic of each as one of `T` alike, since a table that is
/// read often and one that is large are not two of middling sizes, or the longest bag. One each: the sum. Where a size is unknown: the
/// traced times.
///
/// # Arguments
/// `on`: the device, and what the job's own ranks tell of such look-ups.
fn set_cost(
    draft: &Draft<'_>,
    set: &[Part],
    lookups: &RankLookups,
    backward: bool,
    (device, line): (&DeviceProfile, Option<&LookupLine>),
) -> Estimate {
    let models = &draft.context().models;
    let tables: Vec<&Table> = set.iter().map(|part| &part.table).collect();
    let told = line.zip(elements(set)).filter(|_| !set.is_empty());
    let modelled: Option<Vec<Estimate>> = if let Some((line, elements)) = told {
        Some(vec![Estimate {
            duration: DurNs(line.time(elements).round() as i64),
            model: "traced-ranks",
            error: line.error as f32,
            extrapolated: line.is_beyond(elements),
        }])
    } else if lookups.batched && !set.is_empty() {
        let works: Option<Vec<Work>> = tables.iter().map(|table| batched_work(table, tables.len(), backward)).collect();
        works.and_then(|works| models.unlike_lookups(&works, device)).map(|all| vec![all])
    } else {
        let single = |&table: &&Table| models.estimate(&batched_work(table, 1, backward)?, device);
        tables.iter().map(single).collect()
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
            duration: tables.iter().map(traced).sum(),
            model: "traced-share",
            error: TRACED_ERROR,
            extrapolated: true,
        },
    }
}

/// Time in ns of the rows that cross the host's link of `rate` bytes per second, see [`hosted_bytes`].
fn fetch_ns(part: &Part, backward: bool, rate: f64) -> f64 {
    let (Some(hits), Some(work)) = (part.cached, batched_work(&part.table, 1, backward)) else { return 0.0 };
    hosted_bytes(&work.shape, DType::Fp32.size(), hits) / if rate > 0.0 { rate } else { UNRECORDED_HOST_LINK } * 1e9
}

/// Bytes per second assumed of a host link that a profile does not tell: PCIe 3.0 ×16 as measured.
const UNRECORDED_HOST_LINK: f64 = 12e9;

/// The work of one look-up in `count` tables like `table`.
pub(super) fn batched_work(table: &Table, count: usize, backward: bool) -> Option<Work> {
    let sizes = table.sizes()?;
    let size = LookupSize {
        batch: sizes.batch as u64,
        rows: sizes.rows as u64,
        tables: count as u64,
        pooling: sizes.pooling,
        dim: sizes.dim.round() as u64,
    };
    let mut work = lookup_work(&size, backward, DType::Fp32, DType::Int64);
    if let Shape::Embedding { reuse, .. } = &mut work.shape {
        reuse.clone_from(&table.reuse);
    }
    Some(work)
}
