//! The allocator's calls as the profiler recorded them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::operators::is_free;
use crate::graph::{LaneId, OperatorId, Phase};
use crate::trace::args::MemoryArgs;
use crate::trace::{EventId, Trace, TrackKind};
use crate::units::{Bytes, TimeNs, total};

use super::callers::{Callers, Passes, end, lane_of};
use super::parameters::{self, Parameters};
use super::sources::Rank;
use super::{AFTER, BEFORE, Buffer, Holds, MemorySource, RankMemory, exported};

/// What is missing where totals were not recorded.
const BESIDE_KNOWN: &str = "what the allocator held before beside parameters, gradients and optimizer state";

/// The allocator rounds sizes up to this.
const GRAIN: u64 = 512;

/// An allocation with the operator in which it was made.
struct Piece {
    from: TimeNs,
    until: TimeNs,
    bytes: u64,
    operator: Option<OperatorId>,
}

/// The buffers that the allocator gave and took; `None` where it was not recorded within the window.
pub(super) fn read(rank: Rank<'_>) -> Option<RankMemory> {
    let trace = rank.of_job.trace.as_ref()?;
    if let Some(stated) = &trace.stated_memory {
        return exported::read(rank, trace, stated);
    }
    let calls = calls(rank, trace);
    let window = rank.part.window_end.since(rank.part.window_start);
    if !calls.iter().any(|call| call.at >= TimeNs(0) && call.at.0 <= window.0) {
        return None;
    }
    let Joined { mut pieces, changes, was_there } = join(rank, &calls);
    let known = parameters::read(rank);
    let passes = Passes::of(rank.graph, rank.part);
    let mut unknown = Vec::new();
    let more = unrecorded(&calls, &changes);
    if more.over as f64 > more.least {
        let over = Bytes(more.over);
        unknown
            .push(format!("why recorded calls come to up to {over} more than the allocator's totals: it counts here"));
    }
    if let Some(most) = more.pieces.iter().map(|piece| Bytes(piece.bytes)).max() {
        unknown.push(format!(
            "which calls gave up to {most} of it: the allocator's totals hold them, no recorded call does"
        ));
    }
    pieces.extend(more.pieces);
    let given_by = known.given_by.iter().copied().chain(std::iter::repeat(None));
    let gradients: Vec<(u64, Option<OperatorId>)> = known.gradients.iter().copied().zip(given_by).collect();
    // Those of the step before may go as this one's come.
    let mut gradients = [gradients.clone(), gradients];
    let mut buffers: Vec<Buffer> = pieces.iter().map(|piece| buffer(rank, piece, &passes, &mut gradients)).collect();
    buffers.extend(kept(was_there, &known, &buffers, passes.train()));
    if was_there.is_none() {
        unknown.push(format!("{BESIDE_KNOWN}: its total was not recorded"));
    }
    let device_bytes = other_device(rank, trace, &calls);
    Some(RankMemory { device_bytes, ..RankMemory::new(MemorySource::Allocator, buffers, unknown) })
}

/// What to say of recorded calls that are left out, since they give more than the device has: as they say, it does not fit, or the
/// device's memory is not as recorded.
pub(super) fn beyond(rank: Rank<'_>) -> Option<String> {
    let trace = rank.of_job.trace.as_ref()?;
    let is_beyond =
        |args: &&MemoryArgs| args.bytes > 0 && args.bytes.unsigned_abs() > most_at_once(rank, trace, args.device);
    let beyond = || trace.memory.iter().map(|(_, args)| args).filter(is_beyond);
    let most = beyond().map(|args| Bytes(args.bytes.unsigned_abs())).max()?;
    let calls = beyond().count();
    Some(format!(
        "recorded allocations that are larger than the device's memory, {calls} of them, of up to {most}: they are left out"
    ))
}

/// What the allocator held of the device at most in the iteration and no tensor had, as a share of the `peak` of these; `None` where it
/// was not recorded.
pub(super) fn reserve(rank: Rank<'_>, peak: Bytes) -> Option<f64> {
    let trace = rank.of_job.trace.as_ref()?;
    let within = |call: &Call<'_>| call.at < rank.part.iteration_end;
    let reserved = calls(rank, trace).into_iter().filter(within).filter_map(|call| {
        let most = most_at_once(rank, trace, call.args.device);
        call.args.total_reserved.filter(|&reserved| reserved <= most)
    });
    let reserved = reserved.max()?;
    (peak.0 > 0 && reserved >= peak.0).then(|| (reserved - peak.0) as f64 / peak.0 as f64)
}

/// What one call of the allocator can have given at most of a device: its memory, where that is known. An edited iteration that was
/// exported may hold more.
fn most_at_once(rank: Rank<'_>, trace: &Trace, device: i64) -> u64 {
    let memory = memory_of(rank, trace, device).filter(|_| trace.stated_memory.is_none());
    memory.map_or(Bytes::MOST.0, |memory| memory.min(Bytes::MOST).0)
}

/// The memory of the device of that number, else of the one that did most of the rank's work; `None` where neither is known.
fn memory_of(rank: Rank<'_>, trace: &Trace, device: i64) -> Option<Bytes> {
    let named = trace.devices.iter().find(|recorded| i64::from(recorded.id) == device);
    named.or(rank.part.device.as_ref()).map(|device| device.memory).filter(|memory| memory.0 > 0)
}

/// The device of a process that is fullest for its memory, by what the allocator held of each: whether memory suffices goes by that.
fn fullest<'t>(rank: Rank<'_>, trace: &Trace, calls: impl Iterator<Item = &'t MemoryArgs>) -> Option<i64> {
    let mut devices: FxHashMap<i64, (u64, usize)> = FxHashMap::default();
    for args in calls {
        let (held, count) = devices.entry(args.device).or_default();
        (*held, *count) = ((*held).max(args.total_allocated.unwrap_or_default()), *count + 1);
    }
    let parts_per_million = |device: i64, held: u64| {
        let memory = memory_of(rank, trace, device).unwrap_or(Bytes::MOST);
        u128::from(held) * 1_000_000 / u128::from(memory.0)
    };
    let key = |&(device, (held, count)): &(i64, (u64, usize))| {
        (parts_per_million(device, held), held, count, std::cmp::Reverse(device))
    };
    devices.into_iter().max_by_key(key).map(|(device, _)| device)
}

/// Memory of the device that the allocator's calls are of, where it is another one than did most of the rank's work.
fn other_device(rank: Rank<'_>, trace: &Trace, calls: &[Call<'_>]) -> Option<Bytes> {
    let device = calls.first().filter(|call| call.args.on_device)?.args.device;
    let recorded = trace.devices.iter().find(|recorded| i64::from(recorded.id) == device)?;
    let own = rank.part.device.as_ref().filter(|own| own.id != recorded.id && own.name != recorded.name)?;
    Some(recorded.memory).filter(|memory| memory.0 > 0 && *memory != own.memory)
}

/// A call of the allocator, in time from the window's start.
pub(super) struct Call<'t> {
    pub(super) at: TimeNs,
    pub(super) args: &'t MemoryArgs,
    pub(super) event: EventId,
    lane: Option<LaneId>,
}

/// The calls for the rank's device (on a host for its memory) up to the window's end, in order of time.
pub(super) fn calls<'t>(rank: Rank<'_>, trace: &'t Trace) -> Vec<Call<'t>> {
    // An exported trace names the device of its host, too.
    let has_device = rank.part.device.is_some() && trace.stated_memory.is_none();
    let on_device = has_device || trace.memory.iter().any(|(_, args)| args.on_device);
    let own = || trace.memory.iter().filter(|(_, args)| args.on_device == on_device);
    let fullest = fullest(rank, trace, own().map(|(_, args)| args));
    let mut lanes: FxHashMap<u32, Option<LaneId>> = FxHashMap::default();
    let mut calls: Vec<Call<'t>> = own()
        .filter(|(_, args)| Some(args.device) == fullest && args.at <= rank.part.window_end)
        .filter(|(_, args)| args.bytes.unsigned_abs() <= most_at_once(rank, trace, args.device))
        .map(|(event, args)| {
            let track = trace.events.track(event);
            let lane = *lanes.entry(track.0).or_insert_with(|| match trace.tracks[track.0 as usize].kind {
                TrackKind::Thread { tid, .. } => lane_of(rank.graph, rank.part, tid),
                _ => None,
            });
            Call { at: TimeNs(args.at.since(rank.part.window_start).0), args, event, lane }
        })
        .collect();
    calls.sort_by_key(|call| call.at);
    keep_once(&mut calls);
    calls
}

/// Takes out calls that stand twice in the file: an address is not given twice unless it went back between, and a call that leaves the
/// total as the one before it of the same address and size is that one again, though it stands later. Where none that gave the address
/// was recorded it may go back more often. The calls are in order of time.
fn keep_once(calls: &mut Vec<Call<'_>>) {
    let mut last: FxHashMap<u64, MemoryArgs> = FxHashMap::default();
    let given: FxHashSet<u64> = calls.iter().filter(|call| call.args.bytes > 0).map(|call| call.args.address).collect();
    calls.retain(|call| {
        let before = last.insert(call.args.address, *call.args);
        let is_again = |before: MemoryArgs| {
            let may_be_later = call.args.total_allocated.is_some() && given.contains(&call.args.address);
            let at = if may_be_later { before.at } else { call.args.at };
            before == MemoryArgs { at, total_reserved: before.total_reserved, ..*call.args }
        };
        call.args.address == 0 || !before.is_some_and(is_again)
    });
}

/// The allocator's own totals may exceed what its calls come to by as much, as a share: calls of several threads are in no order.
const IN_NO_ORDER: f64 = 0.01;

/// What the allocator held by its own totals, and not by its calls: given by calls that were not recorded. Each piece is as large as
/// it was at first, within what counts as no order.
///
/// # Arguments
/// `changes`: by call how much more the pieces that were joined come to after it.
fn unrecorded(calls: &[Call<'_>], changes: &[i64]) -> Unrecorded {
    let Some((first, total)) = calls.first().and_then(|call| Some((call, call.args.total_allocated?))) else {
        return Unrecorded::default();
    };
    let mut held = i128::from(total) - i128::from(first.args.bytes);
    let most = calls.iter().filter_map(|call| call.args.total_allocated).max().unwrap_or(total);
    let mut found = Unrecorded { least: IN_NO_ORDER * most as f64, ..Unrecorded::default() };
    let mut before = TimeNs(i64::MIN);
    for (call, &change) in calls.iter().zip(changes).filter(|_| first.args.on_device) {
        let Some(total) = call.args.total_allocated.map(i128::from) else {
            held += i128::from(change);
            continue;
        };
        // What a call takes that no recorded one gave was given since the call before.
        if change > call.args.bytes {
            found.hold(total - i128::from(call.args.bytes) - held, before);
        }
        held += i128::from(change);
        found.hold(total - held, call.at);
        before = call.at;
    }
    found
}

/// Pieces that no recorded call gave, one after another.
#[derive(Default)]
struct Unrecorded {
    /// Sizes that differ by no more are one.
    least: f64,
    pieces: Vec<Piece>,
    /// By how much calls come to more than totals at most.
    over: u64,
}

impl Unrecorded {
    /// Holds so many bytes from an instant on.
    fn hold(&mut self, bytes: i128, from: TimeNs) {
        self.over = self.over.max(u64::try_from(-bytes).unwrap_or_default());
        let bytes = u64::try_from(bytes).unwrap_or_default();
        let open = self.pieces.last_mut().filter(|piece| piece.until == AFTER);
        if open.as_ref().is_some_and(|piece| bytes.abs_diff(piece.bytes) as f64 <= self.least) {
            return;
        }
        if let Some(piece) = open {
            piece.until = from;
        }
        if bytes as f64 > self.least {
            self.pieces.push(Piece { from, until: AFTER, bytes, operator: None });
        }
    }
}

/// Allocations joined to their releases.
struct Joined {
    pieces: Vec<Piece>,
    /// By call how much more they come to after it.
    changes: Vec<i64>,
    /// What was there before the first call beside what was released later; `None` where totals were not recorded.
    was_there: Option<u64>,
}

/// Joins allocations to their releases.
fn join(rank: Rank<'_>, calls: &[Call<'_>]) -> Joined {
    let mut callers: FxHashMap<LaneId, Callers<'_>> = FxHashMap::default();
    let mut live: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let mut gone: FxHashMap<u64, TimeNs> = FxHashMap::default();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut changes = Vec::with_capacity(calls.len());
    let mut released_from_before = 0;
    for call in calls {
        let mut change = call.args.bytes;
        let bytes = call.args.bytes.unsigned_abs();
        // Without addresses, what goes is taken to be the youngest of its size.
        let key = if call.args.address == 0 { bytes } else { call.args.address };
        if call.args.bytes > 0 {
            let caller = |lane| callers.entry(lane).or_insert_with(|| Callers::new(rank.graph, lane)).at(call.at);
            let operator = call.lane.and_then(caller);
            let there = live.entry(key).or_default();
            // An address that is given again was given back, though that was not recorded.
            if let Some(at) = there.pop_if(|_| call.args.address != 0) {
                pieces[at].until = call.at;
                change = change.saturating_sub_unsigned(pieces[at].bytes);
            }
            there.push(pieces.len());
            pieces.push(Piece { from: call.at, until: AFTER, bytes, operator });
        } else if let Some(at) = live.get_mut(&key).and_then(Vec::pop) {
            pieces[at].until = call.at;
            change = 0_i64.saturating_sub_unsigned(pieces[at].bytes);
        } else if let Some(&since) = gone.get(&key).filter(|_| call.args.address != 0) {
            // An address that goes back again was given since, though that was not recorded; totals hold it, where they are known.
            change = 0;
            if !call.args.on_device || call.args.total_allocated.is_none() {
                pieces.push(Piece { from: since, until: call.at, bytes, operator: None });
            }
        } else {
            released_from_before += bytes;
            pieces.push(Piece { from: BEFORE, until: call.at, bytes, operator: None });
        }
        if call.args.bytes <= 0 {
            gone.insert(key, call.at);
        }
        changes.push(change);
    }
    // On a host the profiler's total counts from where it began to record.
    let first = calls.first().filter(|call| call.args.on_device);
    let first = first.and_then(|call| Some((call.args.total_allocated?, call.args.bytes)));
    let was_there =
        first.map(|(total, bytes)| total.saturating_add_signed(-bytes).saturating_sub(released_from_before));
    Joined { pieces, changes, was_there }
}

/// What a buffer that a piece was holds.
///
/// # Arguments
/// `gradients`: sizes of those of the step before that nothing holds yet, and of this step, each with the operator that gave it.
fn buffer(
    rank: Rank<'_>,
    piece: &Piece,
    passes: &Passes,
    gradients: &mut [Vec<(u64, Option<OperatorId>)>; 2],
) -> Buffer {
    let graph = rank.graph;
    let phase = |time| passes.at(time);
    let mut operator = piece.operator;
    let gradients = &mut gradients[usize::from(piece.from >= TimeNs(0))];
    let mut is_gradient = || {
        let size = piece.bytes.div_ceil(GRAIN);
        let found = gradients.iter().position(|(gradient, _)| gradient.div_ceil(GRAIN) == size);
        found.map(|at| operator = operator.or(gradients.swap_remove(at).1)).is_some()
    };
    let born = piece.operator.map(|id| graph.operators[id.0 as usize].phase);
    let holds = match born {
        // What went before the window began tells nothing of the step, and the operators before it are not known either.
        None if piece.until < TimeNs(0) => Holds::Other,
        None if piece.from < TimeNs(0) => match phase(piece.until) {
            Phase::Backward => Holds::Activations,
            _ if passes.train() && is_gradient() => Holds::Gradients,
            _ => Holds::Other,
        },
        Some(Phase::Backward) => {
            let outlives = piece.until == AFTER || passes.is_behind_backward(piece.until);
            if outlives && is_gradient() { Holds::Gradients } else { Holds::Other }
        }
        Some(Phase::Optimizer) if piece.until == AFTER => Holds::Optimizer,
        None | Some(Phase::Optimizer | Phase::Data) => Holds::Other,
        Some(Phase::Forward | Phase::Other) if is_workspace(rank, piece) => Holds::Other,
        Some(Phase::Forward | Phase::Other) => Holds::Activations,
    };
    Buffer { holds, bytes: Bytes(piece.bytes), from: piece.from, until: piece.until, operator }
}

/// Whether a piece goes before the operator that computes with it is through.
fn is_workspace(rank: Rank<'_>, piece: &Piece) -> bool {
    let graph = rank.graph;
    let up = |id: &OperatorId| graph.operators[id.0 as usize].parent;
    let allocates = |id: &OperatorId| is_free(graph.names.get(graph.operators[id.0 as usize].name));
    let mut callers = std::iter::successors(piece.operator, up);
    callers.find(|id| !allocates(id)).is_some_and(|id| piece.until <= end(graph, id))
}

fn stays(holds: Holds, bytes: u64) -> Buffer {
    Buffer { holds, bytes: Bytes(bytes), from: BEFORE, until: AFTER, operator: None }
}

/// What was there before and stays, divided among what operators tell of: `bytes`, or no more than that where they are not known.
fn kept(bytes: Option<u64>, known: &Parameters, buffers: &[Buffer], trains: bool) -> Vec<Buffer> {
    let seen = total(buffers.iter().filter(|it| it.holds == Holds::Gradients).map(|it| it.bytes.0));
    let gradients = total(known.gradients.iter().copied()).saturating_sub(seen);
    let mut left = bytes.unwrap_or(u64::MAX);
    let mut take = |holds, wanted: u64| {
        let taken = wanted.min(left);
        left -= taken;
        stays(holds, taken)
    };
    let parameters = take(Holds::Parameters, known.total());
    let optimizer = take(Holds::Optimizer, known.optimizer);
    // Gradients that are neither given nor taken within the step are overwritten in place, where most are.
    let in_place = if trains && seen < gradients { gradients } else { 0 };
    let gradients = take(Holds::Gradients, in_place);
    let rest = take(Holds::Other, if bytes.is_some() { u64::MAX } else { 0 });
    vec![parameters, optimizer, gradients, rest]
}
