//! The last step of reading: events in order of start, counted from the first, without those whose clock was damaged.

use super::{EventId, Trace, device_clock};
use crate::diagnostic::Severity;
use crate::units::DurNs;

/// No profile lasts longer: a length beyond it was never measured, and a start further than it from most others neither.
pub(super) const DAY: DurNs = DurNs(86_400_000_000_000);

/// Puts the events of `trace`, which has at least one, in order; their first start becomes time 0 and moves the origin.
pub(super) fn settle(trace: &mut Trace) {
    sort(trace);
    leave_out_strays(trace);
    if device_clock::take_out(trace) {
        sort(trace);
    }
    let first = trace.events.start(EventId(0));
    trace.events.rebase(first);
    trace.memory.for_each_value(|row| row.at.0 = row.at.0.saturating_sub(first.0));
    trace.origin.0 = trace.origin.0.saturating_add(first.0);
    give_back_room(trace);
}

fn sort(trace: &mut Trace) {
    let Some(order) = trace.events.sort_by_start() else { return };
    let mut new_of_old = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        new_of_old[*old as usize] = new as u32;
    }
    let Trace { operators, kernels, works, copies, launched, collectives, syncs, memory, .. } = trace;
    rayon::scope(|scope| {
        scope.spawn(|_| operators.renumber(&new_of_old));
        scope.spawn(|_| kernels.renumber(&new_of_old));
        scope.spawn(|_| works.renumber(&new_of_old));
        scope.spawn(|_| copies.renumber(&new_of_old));
        scope.spawn(|_| launched.renumber(&new_of_old));
        scope.spawn(|_| collectives.renumber(&new_of_old));
        scope.spawn(|_| syncs.renumber(&new_of_old));
        scope.spawn(|_| memory.renumber(&new_of_old));
    });
}

/// Leaves out events that lie more than a day from most others, where they are few or no profile could last so long: a start of 0
/// among times since 1970 would stretch the timeline over decades. What was predicted was timed by no clock.
fn leave_out_strays(trace: &mut Trace) {
    if trace.predicted.is_some() || trace.untimed {
        return;
    }
    let count = trace.events.len();
    let middle = trace.events.start(EventId(count as u32 / 2));
    let is_near = |&id: &EventId| trace.events.start(id).since(middle).abs() <= DAY;
    let Some(first) = trace.events.ids().find(is_near) else { return };
    let last = trace.events.ids().rfind(is_near).unwrap_or(first);
    let near = first.0 as usize..last.0 as usize + 1;
    let strays = count - near.len();
    let whole = trace.events.start(EventId(count as u32 - 1)).since(trace.events.start(EventId(0)));
    if strays == 0 || (4 * strays >= count && whole < DurNs::LONGEST) {
        return;
    }
    let stray = if first.0 > 0 { EventId(0) } else { EventId(count as u32 - 1) };
    let place = Some(format!("at {} ns", trace.events.start(stray).0));
    trace.skipped_events += strays as u64;
    trace.diagnostics.add_many(Severity::Warning, "stray-time", "", place, strays as u64, || {
        "an event starts more than a day from most others, as one with a damaged clock does; skipped".to_owned()
    });
    trace.events.keep(near.clone());
    trace.operators.keep(&near);
    trace.kernels.keep(&near);
    trace.works.keep(&near);
    trace.copies.keep(&near);
    trace.launched.keep(&near);
    trace.collectives.keep(&near);
    trace.syncs.keep(&near);
    trace.memory.keep(&near);
}

/// A finished trace grows no more.
fn give_back_room(trace: &mut Trace) {
    trace.names.shrink_to_fit();
    trace.events.shrink_to_fit();
    trace.tensor_args.shrink_to_fit();
    trace.operators.shrink_to_fit();
    trace.kernels.shrink_to_fit();
    trace.works.shrink_to_fit();
    trace.copies.shrink_to_fit();
    trace.launched.shrink_to_fit();
    trace.collectives.shrink_to_fit();
    trace.syncs.shrink_to_fit();
    trace.memory.shrink_to_fit();
}
