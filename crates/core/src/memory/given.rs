//! Large tensors that operators were given and none of the iteration made: caches and pools, which are there all the time. What
//! operators hold of which nothing is known is no figure, but is said.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::cost::Family;
use crate::cost::operators::{Reading, bare, is_free, operator_family, operator_work};
use crate::graph::{ExecutionGraph, Operand, OperatorId, Phase, TaskKind};
use crate::units::{Bytes, DurNs, Percent};

use super::parameters::{arguments, bytes};
use super::sources::Rank;
use super::{AFTER, BEFORE, Buffer, Holds};

/// Smaller ones are no matter of whether a model fits.
const LARGE: u64 = 64 << 20;
/// From this share of the device's time on, operators of which nothing is known may hold as much as the others.
const MUCH: f64 = 0.25;
/// How far up the call tree something is looked for that tells of a kernel.
const DEPTH: usize = 8;

/// A tensor that operators were given.
#[derive(Clone, Debug)]
struct Given {
    /// Its dimensions, the smallest first, without those of 1: views in another order have the same.
    dims: Vec<u64>,
    bytes: u64,
    /// The first operator that was given it, of those that do more than view it where there are any.
    operator: OperatorId,
}

/// The tensors larger than `peak` that the operators `ids` were given and that have none of the sizes `made`, one of each size; and, where
/// there are any, what to say of them. What is smaller may be the result of an operator of which nothing is known.
pub(super) fn large(
    rank: Rank<'_>,
    ids: &[OperatorId],
    made: &FxHashSet<u64>,
    peak: u64,
) -> (Vec<Buffer>, Option<String>) {
    let graph = rank.graph;
    let name = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name);
    let allocated = allocated(graph, ids);
    let mut found: BTreeMap<Vec<u64>, Given> = BTreeMap::new();
    // What look-ups are given are tables and the state of their updates, which are known.
    let reads = |id: &&OperatorId| {
        let is_forward = graph.operators[id.0 as usize].phase == Phase::Forward;
        is_forward && operator_family(name(**id)) != Some(Family::Embedding)
    };
    for &operator in ids.iter().filter(reads) {
        for argument in arguments(graph, operator) {
            let (bytes, Some(recorded)) = (bytes(argument), argument.dims()) else { continue };
            if bytes < LARGE.max(peak) || made.contains(&bytes) || allocated.contains(recorded) {
                continue;
            }
            let dims = sorted(recorded);
            let given = found.entry(dims.clone()).or_insert(Given { dims, bytes, operator });
            if is_free(name(given.operator)) && !is_free(name(operator)) {
                given.operator = operator;
            }
        }
    }
    let all: Vec<Given> = found.into_values().collect();
    let is_view = |one: &Given| all.iter().any(|other| other.bytes > one.bytes && is_part(&one.dims, &other.dims));
    let whole: Vec<&Given> = all.iter().filter(|one| !is_view(one)).collect();
    let Some(largest) = whole.iter().max_by_key(|given| given.bytes) else { return (Vec::new(), None) };
    let mut readers = all.iter().filter(|one| is_part(&one.dims, &largest.dims)).map(|one| name(one.operator));
    let reader = readers.find(|name| !is_free(name)).unwrap_or(name(largest.operator));
    let said = format!(
        "how many tensors operators were given that none made, such as those of {reader}: one of {} is counted",
        Bytes(largest.bytes)
    );
    (whole.into_iter().map(buffer).collect(), Some(said))
}

fn buffer(given: &Given) -> Buffer {
    let (holds, bytes, operator) = (Holds::Other, Bytes(given.bytes), Some(given.operator));
    Buffer { holds, bytes, from: BEFORE, until: AFTER, operator }
}

fn sorted(dims: &[u64]) -> Vec<u64> {
    let mut dims: Vec<u64> = dims.iter().copied().filter(|&size| size > 1).collect();
    dims.sort_unstable();
    dims
}

/// Whether `all` has each of `some`.
fn is_part(some: &[u64], all: &[u64]) -> bool {
    let mut left = all.iter();
    some.iter().all(|size| left.any(|other| other == size))
}

/// Dimensions of tensors that operators made without anything in them.
fn allocated(graph: &ExecutionGraph, ids: &[OperatorId]) -> FxHashSet<Vec<u64>> {
    let makes = |id: &&OperatorId| bare(graph.names.get(graph.operators[id.0 as usize].name)).contains("empty");
    let values = ids.iter().filter(makes).flat_map(|&id| arguments(graph, id));
    let dims = values.filter_map(|argument| match argument {
        Operand::Value(text) => serde_json::from_str::<Vec<u64>>(text).ok(),
        _ => None,
    });
    dims.collect()
}

/// What to say where the work of much of the device's time is of operators of which nothing is known, nor of those around them.
pub(super) fn untold(rank: Rank<'_>) -> Option<String> {
    let graph = rank.graph;
    let (mut all, mut untold) = (DurNs::ZERO, BTreeMap::<&str, DurNs>::new());
    for task in rank.device_work.iter().map(|&node| &graph.tasks[node]).filter(|task| task.kind == TaskKind::Kernel) {
        let Some(operator) = task.operator else { continue };
        all += task.duration;
        let around = |id: &OperatorId| graph.operators[id.0 as usize].parent;
        let mut chain = std::iter::successors(Some(operator), around).take(DEPTH);
        let makes = matches!(graph.operators[operator.0 as usize].phase, Phase::Forward | Phase::Other);
        if makes && !chain.any(|id| is_known(graph, id)) {
            *untold.entry(graph.names.get(graph.operators[operator.0 as usize].name)).or_default() += task.duration;
        }
    }
    let time: DurNs = untold.values().copied().sum();
    let (name, _) = untold.into_iter().max_by_key(|&(_, time)| time)?;
    let share = time.0 as f64 / all.0.max(1) as f64;
    (share >= MUCH).then(|| {
        format!(
            "weights and results of operators of which nothing is known ({name}): {:.0} of the device's time",
            Percent(share)
        )
    })
}

fn is_known(graph: &ExecutionGraph, id: OperatorId) -> bool {
    let operator = &graph.operators[id.0 as usize];
    let name = graph.names.get(operator.name);
    let operands = operator.operands.and_then(|row| graph.operands.get(row.0 as usize));
    let tells = operands.is_some_and(|operands| operator_work(name, operands, Reading::default()).is_some());
    tells || is_free(name)
}
