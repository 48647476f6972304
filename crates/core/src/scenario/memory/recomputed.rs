//! What parts of the forward pass that run again keep: what later parts use, nothing else until their backward pass.
//!
//! Nothing names tensors here, so an argument is taken to be the youngest result of its size, as far as it is still there.

use rustc_hash::FxHashMap;

use crate::graph::{LaneId, Operand, Operator, OperatorId, Phase};
use crate::memory::{Buffer, Holds};
use crate::scenario::draft::{Draft, Recomputed};
use crate::units::TimeNs;

use super::grain;

/// Results inside a recomputed part go when the part has run, which is later than they could, and come back for its backward pass.
/// Those that what follows uses stay. What goes before the backward pass of its own part is kept for another's already.
///
/// # Complexity
/// O(n log n) in buffers and operators of the forward pass.
///
/// # Returns
/// Whether that changed anything.
pub(super) fn recompute(draft: &Draft<'_>, rank: usize, buffers: &mut Vec<Buffer>) -> bool {
    let mut parts: Vec<Recomputed> = draft.recomputed().iter().filter(|part| part.rank == rank).copied().collect();
    if parts.is_empty() {
        return false;
    }
    parts.sort_unstable_by_key(|part| (part.begins, part.ends));
    let used = last_uses(draft, rank, &parts, buffers);
    let mut back = Vec::new();
    for part in &parts {
        let inside = |buffer: &Buffer| {
            buffer.holds == Holds::Activations && buffer.from >= part.begins && buffer.from < part.ends
        };
        let own: Vec<usize> =
            (0..buffers.len()).filter(|&at| inside(&buffers[at]) && buffers[at].until > part.ends).collect();
        let stays = |&at: &usize| used[at] >= part.ends || buffers[at].until <= part.again;
        // Of a trace that records no arguments, the last result is what follows begins with.
        let last = own.iter().copied().filter(|_| !own.iter().any(stays)).max_by_key(|&at| (buffers[at].from, at));
        let goes: Vec<usize> = own.iter().copied().filter(|at| !stays(at) && Some(*at) != last).collect();
        for at in goes {
            back.push(Buffer { from: part.again, ..buffers[at] });
            buffers[at].until = part.ends;
        }
    }
    buffers.extend(back);
    true
}

/// The forward passes that parts, in order, are of: from the first of them to where their backward pass begins.
fn passes(parts: &[Recomputed]) -> Vec<[TimeNs; 2]> {
    let mut passes: Vec<[TimeNs; 2]> = Vec::new();
    for part in parts {
        match passes.last_mut().filter(|pass| part.begins < pass[1]) {
            Some(pass) => pass[1] = pass[1].min(part.again),
            None => passes.push([part.begins, part.again]),
        }
    }
    passes
}

/// The rank's operators in forward passes that say what they are given, in order.
fn users(draft: &Draft<'_>, rank: usize, passes: &[[TimeNs; 2]]) -> Vec<(TimeNs, OperatorId)> {
    let graph = draft.graph();
    let is_own: Vec<bool> =
        (0..graph.lanes.len()).map(|lane| draft.base().rank_index(LaneId(lane as u32)) == rank).collect();
    let within = |start: TimeNs| {
        let last = passes.partition_point(|pass| pass[0] <= start).checked_sub(1);
        last.is_some_and(|at| start < passes[at][1])
    };
    let uses = |operator: &Operator| {
        operator.phase == Phase::Forward && operator.operands.is_some() && is_own[operator.lane.0 as usize]
    };
    let all = graph.operators.iter().enumerate().filter(|(_, operator)| uses(operator) && within(operator.start));
    let mut users: Vec<_> = all.map(|(at, operator)| (operator.start, OperatorId(at as u32))).collect();
    users.sort_unstable();
    users
}

/// When the forward pass last uses each buffer.
fn last_uses(draft: &Draft<'_>, rank: usize, parts: &[Recomputed], buffers: &[Buffer]) -> Vec<TimeNs> {
    let graph = draft.graph();
    let mut made: Vec<usize> = (0..buffers.len()).filter(|&at| buffers[at].holds == Holds::Activations).collect();
    made.sort_unstable_by_key(|&at| (buffers[at].from, at));
    let mut made = made.into_iter().peekable();
    let mut of_size: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let mut used = vec![TimeNs(i64::MIN); buffers.len()];
    for (start, id) in users(draft, rank, &passes(parts)) {
        while let Some(at) = made.next_if(|&at| buffers[at].from <= start) {
            of_size.entry(grain(buffers[at].bytes.0)).or_default().push(at);
        }
        let row = graph.operators[id.0 as usize].operands;
        let arguments = row.and_then(|row| graph.operands.get(row.0 as usize)).map_or(&[][..], |all| &all.inputs);
        let sizes: Vec<u64> =
            arguments.iter().flat_map(tensors).map(|it| grain(it.bytes().0)).filter(|&it| it > 0).collect();
        for (place, argument) in sizes.iter().enumerate() {
            let Some(alike) = of_size.get_mut(argument) else { continue };
            alike.retain(|&at| buffers[at].until > start);
            // Of several arguments of one size each is another result.
            let before = sizes[..place].iter().filter(|&size| size == argument).count();
            if let Some(&at) = alike.iter().rev().nth(before) {
                used[at] = start;
            }
        }
    }
    used
}

/// The tensors of an argument.
fn tensors(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::TensorList(list) => list,
        _ => std::slice::from_ref(operand),
    }
}
