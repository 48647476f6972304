//! What the views show, drawn from a result once: the critical path, the gaps, the points of the roofline.
//!
//! Computed off the screen's thread; views only format it.

use std::sync::{Arc, OnceLock};

use crate::session::{Communication, Engine, LayerStudy, Loaded, MemoryChange, Outcome, layer_table, recorded};
use retime_core::analysis::critical_path::{CriticalPath, Run};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::gaps::{self, Survey};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::layers::{self, LayerTable};
use retime_core::analysis::operators::Level;
use retime_core::analysis::roofline::{Place, Point, left_out, on_other_devices, points_at};
use retime_core::analysis::sources::Sources;
use retime_core::device::DeviceProfile;
use retime_core::graph::{ExecutionGraph, Rank};
use retime_core::log::{self, Level as LogLevel};
use retime_core::units::DurNs;

/// What tables show of the trace, whatever is edited.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// The critical path of the slowest rank, as replayed.
    pub path: Arc<CriticalPath>,
    /// The work under the roofs of the device it ran on, with measured times.
    pub rooflines: Arc<Rooflines>,
    /// Layers and kernels as measured.
    pub layers: Arc<LayerTable>,
}

impl Traced {
    /// Of the untouched replay.
    ///
    /// # Complexity
    /// O(tasks · log tasks).
    pub fn of(loaded: &Loaded) -> Self {
        let traced = Edited::of(&loaded.replay.resolved);
        Self {
            path: Arc::new(replayed_path(loaded)),
            rooflines: Arc::new(Rooflines::of(&loaded.replay, &traced, Times::Measured)),
            layers: Arc::new(layer_table(loaded, &loaded.replay, &traced, Times::Measured)),
        }
    }
}

/// Everything that tables show of one result.
#[derive(Clone, Debug, Default)]
pub struct ViewModel {
    /// What no edit changes.
    pub traced: Traced,
    /// Whether anything is edited.
    is_edited: bool,
    /// The critical path of the slowest rank after them.
    pub after: CriticalPath,
    /// The same in order of time, noise folded.
    pub path: Vec<Run>,
    /// Idle intervals of streams, longest first.
    pub idle: Survey,
    /// The graph that all of it is about: added tasks are nodes behind the traced ones.
    graph: Option<Arc<ExecutionGraph>>,
    /// Its work under the roofs of the first rank's device.
    pub rooflines: Rooflines,
    /// What the fullest rank holds, before and after.
    pub memory: MemoryChange,
    /// Layers and kernels as simulated; empty without edits.
    pub layers: LayerTable,
    /// The analyses of those that are shown, once they are asked for.
    study: OnceLock<Option<LayerStudy>>,
    /// Its ranks and collectives.
    pub communication: Communication,
    /// The ranks whose lateness costs the job much.
    pub late: Vec<Rank>,
}

/// Work under the roofs of a device.
#[derive(Clone, Debug, Default)]
pub struct Rooflines {
    /// The device of the first rank.
    pub device: Option<Arc<DeviceProfile>>,
    /// How many tasks were traced: the nodes from this one on stand for added tasks.
    pub traced: usize,
    /// Which ranks' work is left out, in words, where some ran on other devices.
    pub left_out: Option<String>,
    points: [Vec<Point>; 4],
}

impl Rooflines {
    /// What a point can be, in the order of the points.
    pub const LEVELS: [Level; 4] = [Level::Kernel, Level::Operator, Level::Module, Level::Model];

    fn of(outcome: &Outcome, edited: &Edited, times: Times<'_>) -> Self {
        let resolved = &outcome.resolved;
        let Some(device) = resolved.devices.first().cloned() else { return Self::default() };
        let beside = on_other_devices(&resolved.devices);
        let place = Place { device: &device, factors: [1.0; 3], beside: &beside };
        let points = points_at((&edited.graph, &edited.works), times, &place, Self::LEVELS);
        let left_out = left_out(&beside, &device);
        Self { traced: resolved.graph.tasks.node_count(), left_out, points, device: Some(device) }
    }

    /// Where `point`, which is of an edit of the same trace, was before it: the point of the same name, or of the name that
    /// its longest kernel was traced under.
    pub fn origin_of(&self, point: &Point, level: Level, graph: &ExecutionGraph) -> Option<&Point> {
        let named = |name: &str| self.at(level).iter().find(|known| known.label == name);
        let traced = (level == Level::Kernel && point.example.index() < self.traced)
            .then(|| graph.names.get(graph.tasks[point.example].name));
        traced.and_then(named).or_else(|| named(&point.label))
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
/// So many gaps are shown, however short they are.
const GAPS: usize = 100;

impl ViewModel {
    /// Draws it from `outcome`; `None` once that is overtaken.
    ///
    /// # Complexity
    /// O(tasks + length of the chains of all gaps), and a simulation for each rank that comes last somewhere.
    pub fn of(
        engine: &Engine,
        loaded: &Loaded,
        traced: &Traced,
        outcome: &Outcome,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Option<Self> {
        log::timed(LogLevel::Info, "views", || Self::drawn((engine, loaded), traced, outcome, is_overtaken))
    }

    fn drawn(
        (engine, loaded): (&Engine, &Loaded),
        traced: &Traced,
        outcome: &Outcome,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let edited = Edited::of(&outcome.resolved);
        let (graph, timed, schedule) = (&*edited.graph, &*edited.timed, &*outcome.schedule);
        let times = Times::Simulated { timed, schedule };
        let sources = Sources { graph, works: &edited.works, timed, schedule, times };
        let after = CriticalPath::of_job(&sources);
        let shortest = DurNs((outcome.summary.simulated_ns.0 / SHORT).max(1));
        let is_edited = outcome.steps.iter().any(|step| step.enabled);
        if is_overtaken() {
            return None;
        }
        let layers = || if is_edited { layer_table(loaded, outcome, &edited, times) } else { LayerTable::default() };
        let gaps = || gaps::survey(&sources, shortest, GAPS);
        let ((rooflines, idle), layers) = rayon::join(|| (Rooflines::of(outcome, &edited, times), gaps()), layers);
        if is_overtaken() {
            return None;
        }
        let communication = Communication::on(engine, loaded, outcome, &edited);
        Some(Self {
            traced: traced.clone(),
            is_edited,
            path: after.folded(DurNs(after.length.0 / TINY)),
            rooflines,
            memory: MemoryChange::of(loaded, outcome),
            layers,
            study: OnceLock::new(),
            late: communication.ranks.iter().filter(|rank| rank.is_late()).map(|rank| Rank(rank.rank)).collect(),
            communication,
            idle,
            graph: Some(Arc::clone(&edited.graph)),
            after,
        })
    }

    /// The work before the edits under its roofs; `None` without edits.
    pub fn rooflines_before(&self) -> Option<&Rooflines> {
        Some(&*self.traced.rooflines).filter(|_| self.is_edited)
    }

    /// The analyses of layers and kernels as simulated, without edits as measured; worked out the first time.
    pub fn study(&self, loaded: &Loaded) -> Option<&LayerStudy> {
        let ask = || {
            let table = if self.is_edited { &self.layers } else { &*self.traced.layers };
            let device = self.rooflines.device.as_deref()?;
            let run =
                layers::Run { name: loaded.title.clone(), device, recorded: recorded(loaded), table: table.clone() };
            LayerStudy::of(&[run], None)
        };
        self.study.get_or_init(ask).as_ref()
    }

    /// The graph that it is about.
    pub fn graph<'a>(&'a self, loaded: &'a Loaded) -> &'a ExecutionGraph {
        self.graph.as_deref().unwrap_or(&loaded.graph)
    }
}

/// The critical path of the traced iteration as replayed: what was measured of a collective has its wait for the last rank in it, which the path
/// knows apart, as it does after the edits.
fn replayed_path(loaded: &Loaded) -> CriticalPath {
    let (resolved, schedule) = (&loaded.replay.resolved, &loaded.replay.schedule);
    let times = Times::Simulated { timed: &resolved.timed, schedule };
    let (graph, works, timed) = (&*resolved.graph, &*resolved.works, &*resolved.timed);
    CriticalPath::of_job(&Sources { graph, works, timed, schedule, times })
}
