//! What an operator that an edit adds takes the host around its calls.

use std::sync::Arc;

use crate::cost::{OverheadKind, Prediction, Provenance};
use crate::graph::{HostPart, TaskKind};
use crate::scenario::draft::{Added, Draft, Node, Source};
use crate::units::{Bytes, DurNs};

use super::kernel::{self, Side};

/// An operator's own host time before its first call (T2) and after its last (T3), from the database of overheads.
#[derive(Debug)]
pub(super) struct CallerTime {
    name: Arc<str>,
    before: Option<Prediction>,
    after: Option<Prediction>,
}

impl CallerTime {
    /// That of the operator `name`, which takes the host as long as the operator `like` does.
    pub(super) fn of(draft: &Draft<'_>, name: &str, like: &str) -> Self {
        let time = |kind| {
            let found = draft.context().overheads.get(kind, like)?;
            let error = if found.mean_us > 0.0 { (found.std_us / found.mean_us) as f32 } else { 1.0 };
            let (duration, provenance) = (DurNs::from_us_f64(found.mean_us), Provenance::Absolute);
            Some(Prediction { duration, provenance, model: "overheads", error, extrapolated: false })
        };
        Self { name: name.into(), before: time(OverheadKind::T2), after: time(OverheadKind::T3) }
    }

    /// Puts it around the calls from `first` to `last`.
    pub(super) fn add(&self, draft: &mut Draft<'_>, (first, last): (Node, Node)) {
        self.host(draft, (first, Side::Before), (HostPart::BeforeLaunch, self.before));
        self.host(draft, (last, Side::After), (HostPart::AfterLaunch, self.after));
    }

    /// Its own host time on one side of a call.
    fn host(&self, draft: &mut Draft<'_>, (call, side): (Node, Side), (part, time): (HostPart, Option<Prediction>)) {
        let Some(prediction) = time else { return };
        let (lane, operator, after) = (draft.lane_of(call), draft.operator_of(call), draft.beside(call));
        let (name, source, caller) = (self.name.clone(), Source::Given, Some(self.name.clone()));
        let (kind, bytes, members) = (TaskKind::Host(part), Bytes(0), Vec::new());
        let price = prediction.into();
        let added = Added { name, kind, lane, operator, bytes, work: None, price, members, source, caller, after };
        let node = Node::Added(draft.add(added));
        kernel::put(draft, call, side, node, DurNs::ZERO);
    }
}
