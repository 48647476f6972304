//! What the views show, drawn from a result once: the critical path, the gaps, the points of the roofline.
//!
//! Computed off the screen's thread; views only format it.

use std::sync::Arc;

use crate::session::{Communication, Engine, Loaded, Outcome};
use retime_core::analysis::critical_path::{CriticalPath, Run};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::gaps::{self, Gap, Sources};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::operators::Level;
use retime_core::analysis::roofline::{Place, Point, points_at};
use retime_core::device::DeviceProfile;
use retime_core::units::DurNs;

/// Everything that tables show of one result.
#[derive(Clone, Debug, Default)]
pub struct ViewModel {
    /// The critical path of the slowest rank, in order of time, noise folded.
    pub path: Vec<Run>,
    /// The same, longest first.
    pub path_by_length: Vec<Run>,
    /// Its time by kind, most first.
    pub path_kinds: Vec<(&'static str, DurNs)>,
    /// Idle intervals of streams, longest first.
    pub gaps: Vec<Gap>,
    /// Its work under the roofs of the first rank's device.
    pub rooflines: Rooflines,
    /// Its ranks and collectives.
    pub communication: Communication,
}

/// Work under the roofs of a device.
#[derive(Clone, Debug, Default)]
pub struct Rooflines {
    /// The device of the first rank.
    pub device: Option<Arc<DeviceProfile>>,
    /// How many tasks were traced: the nodes from this one on stand for added tasks.
    pub traced: usize,
    points: [Vec<Point>; 4],
}

impl Rooflines {
    /// What a point can be, in the order of the points.
    pub const LEVELS: [Level; 4] = [Level::Kernel, Level::Operator, Level::Module, Level::Model];

    fn of(outcome: &Outcome, edited: &Edited) -> Self {
        let resolved = &outcome.resolved;
        let Some(device) = resolved.devices.first().cloned() else { return Self::default() };
        let times = Times::Simulated { timed: &edited.timed, schedule: &outcome.schedule };
        let place = Place { device: &device, factors: [1.0; 3] };
        let points = points_at((&edited.graph, &edited.works), times, &place, Self::LEVELS);
        Self { traced: resolved.graph.tasks.node_count(), points, device: Some(device) }
    }

    /// The points at `level`, the longest first.
    pub fn at(&self, level: Level) -> &[Point] {
        let at = Self::LEVELS.iter().position(|&known| known == level);
        at.map_or(&[], |at| &self.points[at])
    }

    /// Whether anything crosses a network.
    pub fn has_network(&self) -> bool {
        self.at(Level::Model).iter().any(|point| point.load.network_bytes > 0.0)
    }
}

/// Segments of the path below this share of the iteration are folded into what is before them.
const TINY: i64 = 10_000;
/// Gaps below this share of the iteration are left out.
const SHORT: i64 = 1_000;

impl ViewModel {
    /// Draws it from `outcome`.
    ///
    /// # Complexity
    /// O(tasks + length of the chains of all gaps), and a simulation for each rank that comes last somewhere.
    pub fn of(engine: &Engine, loaded: &Loaded, outcome: &Outcome) -> Self {
        let (resolved, schedule) = (&outcome.resolved, &outcome.schedule);
        let (graph, timed) = (&*resolved.graph, &*resolved.timed);
        let times = Times::Simulated { timed, schedule };
        let edited = Edited::of(resolved);
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
            rooflines: Rooflines::of(outcome, &edited),
            communication: Communication::on(engine, loaded, outcome, &edited),
            gaps: gaps::gaps(&Sources { graph, timed, schedule, times }, shortest),
        }
    }
}
