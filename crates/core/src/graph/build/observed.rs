//! One trace as the rules see it: threads, calls, device work, and everything estimated from them, over the whole trace.
//!
//! Measured times only; tasks and edges are made from it in `emit`.

use std::ops::Range;

use crate::trace::Trace;

use super::activities::{Activities, Activity};
use super::constants::ReplayConstants;
use super::events::EventWait;
use super::hidden::HiddenWait;
use super::late::Late;
use super::sync::Wait;
use super::threads::Threads;
use super::{events, follow, late, launch, queue, sync};
use crate::units::{DurNs, TimeNs};

/// A trace with its estimated constants and inferred dependencies.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    /// The trace.
    pub(super) trace: &'a Trace,
    /// Its host side.
    pub(super) threads: Threads,
    /// Its device side.
    pub(super) activities: Activities,
    /// The part of the trace that constants are estimated from.
    pub(super) fit: Range<TimeNs>,
    /// Its constants.
    pub(super) constants: ReplayConstants,
    /// Calls that wait for device work (rules 4 to 6), by call.
    pub(super) waits: Vec<Wait>,
    /// Launches that the queue may hold back (rule 7), by call: the target is the one older work.
    pub(super) queue: Vec<Wait>,
    /// Waits of streams for events of other streams (rule 9), by work.
    pub(super) event_waits: Vec<EventWait>,
    /// Late starts with their causes (rule 10), by work.
    pub(super) late: Vec<Late>,
    /// Waits that no call shows (rule 14), by thread and start; found when all ranks are read.
    pub(super) hidden: Vec<HiddenWait>,
}

impl<'a> Observed<'a> {
    /// Reads a trace and applies rules 2 to 11 to its measured times, with the constants of the part `fit`.
    ///
    /// # Complexity
    /// O(events + work · streams · log work).
    pub(super) fn read(trace: &'a Trace, fit: Range<TimeNs>) -> Self {
        let (threads, mut activities) = rayon::join(|| Threads::read(trace), || Activities::read(trace));
        activities.join(trace, &threads);
        let mut observed = Self {
            trace,
            threads,
            activities,
            fit,
            constants: ReplayConstants::default(),
            waits: Vec::new(),
            queue: Vec::new(),
            event_waits: Vec::new(),
            late: Vec::new(),
            hidden: Vec::new(),
        };
        observed.event_waits = events::find(&observed);
        launch::estimate(&mut observed);
        follow::estimate(&mut observed);
        events::estimate(&mut observed);
        sync::apply(&mut observed);
        queue::apply(&mut observed);
        observed.late = late::find(&observed);
        observed
    }

    /// Whether what starts at `time` may be a sample of a constant.
    pub(super) fn is_sample(&self, time: TimeNs) -> bool {
        self.fit.contains(&time)
    }

    /// Whether device work is launched through HIP.
    pub(super) fn is_hip(&self) -> bool {
        let launches = self.threads.calls.iter().find(|call| call.class.launches());
        launches.is_some_and(|call| self.trace.names.get(self.trace.events.name(call.event)).starts_with("hip"))
    }

    /// The late start of one piece of work.
    pub(super) fn late_of(&self, activity: u32) -> Option<&Late> {
        self.late.binary_search_by_key(&activity, |late| late.activity).ok().map(|at| &self.late[at])
    }

    /// An activity.
    pub(super) fn activity(&self, index: u32) -> &Activity {
        &self.activities.list[index as usize]
    }

    /// The work before `activity` on its stream, with the gap measured between the two.
    pub(super) fn previous(&self, activity: &Activity) -> Option<(&Activity, DurNs)> {
        let previous = self.activity(activity.previous?);
        Some((previous, activity.start.since(previous.end)))
    }

    /// The waits for events of one piece of work.
    pub(super) fn event_waits_of(&self, activity: u32) -> &[EventWait] {
        let from = self.event_waits.partition_point(|wait| wait.activity < activity);
        let to = self.event_waits.partition_point(|wait| wait.activity <= activity);
        &self.event_waits[from..to]
    }
}
