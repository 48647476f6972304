//! The memory of an iteration that this program exported: its pieces as they stand in the file, with what each holds.

use rustc_hash::FxHashMap;

use crate::graph::OperatorId;
use crate::trace::{StatedMemory, Trace};
use crate::units::{Bytes, TimeNs};

use super::callers::operators_of;
use super::recorded::calls;
use super::sources::Rank;
use super::{AFTER, BEFORE, Buffer, Holds, MemorySource, RankMemory};

/// The pieces that `trace` holds; `None` where it holds none or does not say how they were known.
pub(super) fn read(rank: Rank<'_>, trace: &Trace, stated: &StatedMemory) -> Option<RankMemory> {
    let source = MemorySource::named(&stated.source)?;
    let operators = by_external(rank, trace);
    let mut live: FxHashMap<u64, usize> = FxHashMap::default();
    let mut buffers: Vec<Buffer> = Vec::new();
    for call in calls(rank, trace) {
        if call.args.bytes > 0 {
            live.insert(call.args.address, buffers.len());
            let name = trace.names.get(call.args.holds);
            buffers.push(Buffer {
                holds: Holds::ALL.into_iter().find(|holds| holds.name() == name).unwrap_or(Holds::Other),
                bytes: Bytes(call.args.bytes.unsigned_abs()),
                from: if call.at < TimeNs(0) { BEFORE } else { call.at },
                until: AFTER,
                operator: operators.get(&trace.events.external(call.event)).copied(),
            });
        } else if let Some(at) = live.remove(&call.args.address) {
            buffers[at].until = call.at;
        }
    }
    (!buffers.is_empty())
        .then(|| RankMemory::new(source, buffers, stated.unknown.clone()).without(stated.missing.clone()))
}

/// The rank's operators by the number that the profiler gave them.
fn by_external(rank: Rank<'_>, trace: &Trace) -> FxHashMap<u32, OperatorId> {
    let external = |id: OperatorId| trace.events.external(rank.graph.operators[id.0 as usize].event);
    operators_of(rank.graph, rank.part).map(|id| (external(id), id)).filter(|&(external, _)| external != 0).collect()
}
