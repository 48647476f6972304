//! Kernels that copy a tensor to another type, which edits of precision add where types meet.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{Prediction, Work};
use crate::scenario::draft::{Cast, Draft, Node, Source};

use super::caller_time::CallerTime;
use super::kernel::{self, NewKernel, Side};

/// Casts of one name, with what is known of those of each size.
pub(super) struct Casts {
    name: Arc<str>,
    caller: Arc<str>,
    time: CallerTime,
    /// By elements and rank.
    known: FxHashMap<(u64, usize), Option<Priced>>,
}

/// What a cast has to do, and what that takes.
type Priced = (Arc<Work>, Prediction);

impl Casts {
    pub(super) fn named(draft: &Draft<'_>, name: &str) -> Self {
        const CALLER: &str = "aten::_to_copy";
        Self {
            name: name.into(),
            caller: CALLER.into(),
            time: CallerTime::of(draft, CALLER, "aten::to"),
            known: FxHashMap::default(),
        }
    }

    /// Adds a kernel that casts an argument, beside a kernel that is there; `false` where there is nothing to cast.
    pub(super) fn add(&mut self, draft: &mut Draft<'_>, (at, side): (Node, Side), cast: Cast) -> bool {
        let Some(elements) = cast.elements(draft).filter(|&elements| elements > 0) else { return false };
        let rank = draft.rank_of(draft.lane_of(at));
        let priced = self.known.entry((elements, rank)).or_insert_with(|| {
            let work = cast.work(elements);
            let price = draft.price_new(&work, rank)?;
            Some((Arc::new(work), price))
        });
        let Some((work, prediction)) = priced.clone() else { return false };
        let (name, caller, work) = (self.name.clone(), Some(self.caller.clone()), Some(work));
        let (operator, source) = (draft.operator_of(at), Source::Cast(cast));
        let new = NewKernel { name, operator, work, prediction, source, caller, call_at: None };
        if let Some(call) = kernel::place(draft, at, side, new).call {
            self.time.add(draft, (call, call));
        }
        true
    }
}
