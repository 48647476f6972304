//! The timeline as bars: per lane a measured and a simulated row over one axis. Pixels of time, no colours, no file format.

use std::ops::Range;

use rustc_hash::FxHashSet;

use crate::session::{LaneLabels, Outcome};
use retime_core::analysis::critical_path::{CriticalPath, SegmentKind};
use retime_core::analysis::density::Density;
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::{Times, densities};
use retime_core::analysis::sources::Sources;
use retime_core::graph::{ExecutionGraph, LaneKind, NodeId, Rank, RankPart};
use retime_core::scenario::KernelWork;
use retime_core::units::{DurNs, TimeNs};

/// Bars that end within this many pixels of the one before are drawn with it.
const FINEST: f64 = 0.25;

/// One or more tasks next to each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    /// Where it lies, in pixels from the axis' start.
    pub x: Range<f64>,
    /// Kind of its first task, as on the critical path.
    pub kind: &'static str,
    /// Name of its first task.
    pub name: String,
    /// Time of all its tasks.
    pub time: DurNs,
    /// How many tasks.
    pub count: usize,
    /// Whether one of them lies on the critical path.
    pub critical: bool,
}

/// A lane with its two rows.
#[derive(Debug)]
pub(super) struct LaneBars {
    pub label: String,
    pub measured: Vec<Bar>,
    pub simulated: Vec<Bar>,
}

/// All lanes over one axis.
#[derive(Debug)]
pub(super) struct Picture {
    /// Length of the axis.
    pub span: DurNs,
    pub lanes: Vec<LaneBars>,
}

/// Where times of one rank fall on the axis.
#[derive(Clone, Copy)]
struct Axis {
    zero: TimeNs,
    pixels_per_ns: f64,
}

impl Axis {
    fn x(self, time: TimeNs) -> f64 {
        time.since(self.zero).0 as f64 * self.pixels_per_ns
    }
}

impl Picture {
    /// The iteration of `outcome`, `width` pixels long. Each rank's measured row begins where its simulated one does.
    pub fn of(outcome: &Outcome, width: f64) -> Self {
        let edited = Edited::of(&outcome.resolved);
        let (graph, timed, schedule) = (&*edited.graph, &*edited.timed, &*outcome.schedule);
        let simulated = Times::Simulated { timed, schedule };
        let works = &*edited.works;
        let path = CriticalPath::of_job(&Sources { graph, works, timed, schedule, times: simulated });
        let critical: FxHashSet<NodeId> = path.segments.iter().map(|segment| segment.node).collect();
        let begin = |part: &RankPart| simulated.period(graph, part).start;
        let zero = graph.ranks.iter().map(begin).min().unwrap_or_default();
        let length = |part: &RankPart| {
            let own = simulated.period(graph, part);
            own.end.since(zero).max(own.start.since(zero) + part.measured)
        };
        let span = graph.ranks.iter().map(length).max().unwrap_or_default().max(DurNs(1));
        let pixels_per_ns = width / span.0 as f64;
        let rows = [densities(graph, Times::Measured), densities(graph, simulated)];
        let labels = LaneLabels::of(graph);
        let lane = |index: usize| {
            let lane = &graph.lanes[index];
            let part = graph.part_of(lane.rank)?;
            let late = begin(part).since(zero);
            let row = |times: Times<'_>, density: &Density| {
                let period = times.period(graph, part);
                let axis = Axis { zero: period.start - late, pixels_per_ns };
                bars((graph, works), density, &period, axis, &critical)
            };
            let measured = row(Times::Measured, &rows[0][index]);
            let simulated = row(simulated, &rows[1][index]);
            let is_shown = lane.kind != LaneKind::Virtual && (!measured.is_empty() || !simulated.is_empty());
            is_shown.then(|| LaneBars { label: label(graph, lane.rank, &labels.label(lane)), measured, simulated })
        };
        Self { span, lanes: (0..graph.lanes.len()).filter_map(lane).collect() }
    }
}

fn label(graph: &ExecutionGraph, rank: Rank, lane: &str) -> String {
    if graph.ranks.len() > 1 { format!("r{} {lane}", rank.0) } else { lane.to_owned() }
}

fn bars(
    (graph, works): (&ExecutionGraph, &KernelWork),
    density: &Density,
    period: &Range<TimeNs>,
    axis: Axis,
    critical: &FxHashSet<NodeId>,
) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for piece in density.visible(period.clone()) {
        let node = NodeId::new(piece.key as usize);
        let Some(kind) = SegmentKind::of(graph, works, node).map(SegmentKind::name) else { continue };
        let (start, end) = (piece.start.max(period.start), piece.end.min(period.end));
        let x = axis.x(start)..axis.x(end);
        let (time, critical) = (end.since(start), critical.contains(&node));
        match bars.last_mut() {
            Some(last) if x.end - last.x.end < FINEST || (last.kind == kind && joins(last, &x, critical)) => {
                last.x.end = x.end;
                last.time += time;
                last.count += 1;
                last.critical |= critical;
            }
            _ => {
                let name = graph.names.get(graph.tasks[node].name).to_owned();
                bars.push(Bar { x, kind, name, time, count: 1, critical });
            }
        }
    }
    bars
}

/// Whether a task is too short to be seen by itself next to one of its kind.
fn joins(last: &Bar, x: &Range<f64>, critical: bool) -> bool {
    x.start - last.x.end < FINEST && x.end - x.start < 2.0 && last.critical == critical
}
