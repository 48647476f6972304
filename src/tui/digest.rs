//! What the tables show, drawn from a result once: the critical path and the gaps.
//!
//! Computed off the screen's thread; views only format it.

use crate::analysis::critical_path::{CriticalPath, Run};
use crate::analysis::gaps::{self, Gap, Sources};
use crate::analysis::lanes::Times;
use crate::session::Outcome;
use crate::units::DurNs;

/// Everything that tables show of one result.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// The critical path of the slowest rank, in order of time, noise folded.
    pub path: Vec<Run>,
    /// The same, longest first.
    pub path_by_length: Vec<Run>,
    /// Its time by kind, most first.
    pub path_kinds: Vec<(&'static str, DurNs)>,
    /// Idle intervals of streams, longest first.
    pub gaps: Vec<Gap>,
}

/// Segments of the path below this share of the iteration are folded into what is before them.
const TINY: i64 = 10_000;
/// Gaps below this share of the iteration are left out.
const SHORT: i64 = 1_000;

impl Digest {
    /// Draws it from `outcome`.
    ///
    /// # Complexity
    /// O(tasks + length of the chains of all gaps).
    pub fn of(outcome: &Outcome) -> Self {
        let (resolved, schedule) = (&outcome.resolved, &outcome.schedule);
        let (graph, timed) = (&*resolved.graph, &*resolved.timed);
        let times = Times::Simulated { timed, schedule };
        let path = CriticalPath::of_job(graph, timed, schedule, times);
        let mut kinds: Vec<(&'static str, DurNs)> = path.by_kind().into_iter().collect();
        kinds.sort_by_key(|&(kind, total)| (std::cmp::Reverse(total), kind));
        let runs = path.folded(DurNs(path.length.0 / TINY));
        let mut by_length = runs.clone();
        by_length.sort_by_key(|run| (std::cmp::Reverse(run.segment.duration), run.segment.start));
        let shortest = DurNs((outcome.summary.simulated_ns.0 / SHORT).max(1));
        Self {
            path: runs,
            path_by_length: by_length,
            path_kinds: kinds,
            gaps: gaps::gaps(&Sources { graph, timed, schedule, times }, shortest),
        }
    }
}
