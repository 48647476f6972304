//! Every lane's rows as density indices, for one set of times. Built off the screen's thread.

use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::session::{Loaded, Outcome};
use crate::tui::composition::{Composition, CriticalTasks, PathTask};
use crate::tui::theme::Paint;
use retime_core::analysis;
use retime_core::analysis::density::{Density, Interval};
use retime_core::cost::work::Family;
use retime_core::graph::{
    Copies, CopyStep, ExecutionGraph, LaneId, NodeId, Operator, OperatorId, Phase, Task, TaskKind,
};
use retime_core::intern::NameId;
use retime_core::scenario::{KernelWork, Resolved};
use retime_core::sim::Schedule;
use retime_core::units::{DurNs, TimeNs};

use super::item::Item;
use super::kernels::{self, KernelSum};
use super::lane_label::lane_labels;
use super::tracks::{Track, memory_simulated, queues};

/// When tasks ran.
#[derive(Clone, Copy, Debug)]
enum Times<'a> {
    Measured,
    Simulated(&'a Resolved, &'a Schedule),
}

/// One lane: its rows, outermost first, and when the critical path runs on it.
#[derive(Clone, Debug, Default)]
pub struct LaneDensity {
    /// Operators and calls by depth; a stream has one row.
    pub rows: Vec<Density>,
    /// The critical path's part.
    pub critical: Density,
}

/// All lanes, in the order of the graph's lanes. Simulated times are moved so that the drawn iteration begins where the
/// measured one does.
#[derive(Clone, Debug, Default)]
pub struct DensityIndex {
    /// The lanes.
    pub lanes: Vec<LaneDensity>,
    /// Start and end of every operator.
    operators: Vec<(TimeNs, TimeNs)>,
    /// Start and end of every task of the graph.
    tasks: Vec<(TimeNs, TimeNs)>,
    /// Start and end of every task that the scenario added.
    added: Vec<(TimeNs, TimeNs)>,
    /// For each rank the work of all its host threads, without waits for the device.
    pub hosts: Vec<Density>,
    /// By lane whether its work lies elsewhere than measured, by so much that it is seen.
    pub changed: Vec<bool>,
    /// For each rank how much was launched and had not begun.
    pub queues: Vec<Track>,
    /// For each rank the memory that it holds; of simulated times only.
    pub memory: Vec<Track>,
    /// The first start of all.
    pub start: TimeNs,
    /// The last end of all.
    pub end: TimeNs,
    /// The drawn iteration: it ends with the last rank's step and is as long as the header says.
    pub period: Range<TimeNs>,
    /// By how much its times are moved against those of the schedule.
    pub shift: DurNs,
    /// What the devices spend it on; of simulated times only.
    pub kernels: Vec<KernelSum>,
    /// What the iteration is made of.
    pub composition: Composition,
}

impl DensityIndex {
    /// As the trace has it, with the critical path of its replay.
    pub fn measured(loaded: &Loaded) -> Self {
        Self::build(loaded, &loaded.replay, Times::Measured)
    }

    /// As the simulator says of a scenario.
    pub fn simulated(loaded: &Loaded, outcome: &Outcome) -> Self {
        Self::build(loaded, outcome, Times::Simulated(&outcome.resolved, &outcome.schedule))
    }

    /// # Complexity
    /// O(tasks + operators · log).
    fn build(loaded: &Loaded, outcome: &Outcome, times: Times<'_>) -> Self {
        let graph = &*outcome.resolved.graph;
        let (period, shift) = times.placed(loaded, outcome);
        let along_path = || {
            let path = CriticalTasks::of(outcome);
            let composition = Composition::along(outcome, &path);
            (path, composition)
        };
        let ((path, composition), filled) = rayon::join(along_path, || Filled::of(graph, times, shift));
        let Filled { lanes, hosts, tasks, operators, added } = filled;
        let mut critical: Vec<Vec<Interval>> = vec![Vec::new(); lanes.len()];
        for &(_, task) in &path.tasks {
            let (lane, of_task) = match task {
                PathTask::Traced(node) => (times.lane(graph, node), tasks[node.index()]),
                PathTask::Added(number) => (outcome.resolved.added[number as usize].lane, added[number as usize]),
            };
            critical[lane.0 as usize].push(interval(of_task, 0));
        }
        let all = || tasks.iter().chain(&added).filter(|(start, end)| end > start);
        let (start, end) = (all().map(|times| times.0).min(), all().map(|times| times.1).max());
        let mut density = Self {
            operators,
            tasks,
            added,
            start: start.unwrap_or_default(),
            end: end.unwrap_or_default(),
            period,
            shift,
            composition,
            ..Self::default()
        };
        let lane_count = lanes.len();
        let rows = || -> (Vec<LaneDensity>, Vec<Density>) {
            let lanes = lanes.into_par_iter().zip(critical).map(|(rows, critical)| LaneDensity {
                rows: rows.into_par_iter().map(Density::build).collect(),
                critical: Density::build(critical),
            });
            (lanes.collect(), hosts.into_par_iter().map(Density::build).collect())
        };
        let summed = || {
            let iteration = density.period.end.since(density.period.start);
            (density.summed(loaded, outcome, times), changed(times, &density.tasks, lane_count, iteration))
        };
        let ((lanes, hosts), (summed, changed)) = rayon::join(rows, summed);
        (density.lanes, density.hosts, density.changed) = (lanes, hosts, changed);
        (density.queues, density.memory, density.kernels) = summed;
        density
    }

    /// What is launched and waits, the memory that is held, and what the devices do; the last two of simulated times only.
    fn summed(&self, loaded: &Loaded, outcome: &Outcome, times: Times<'_>) -> (Vec<Track>, Vec<Track>, Vec<KernelSum>) {
        let graph = &*outcome.resolved.graph;
        let Times::Simulated(resolved, schedule) = times else { return (queues(graph, self), Vec::new(), Vec::new()) };
        // Device work of the step lies between the end of the step before and its own.
        let end = self.period.start + iteration_figures(loaded, outcome).0;
        let is_chosen = |task: &Task| task.measured_start >= end - graph.measured && task.measured_end() <= end;
        let kernels = || kernels::sums(graph, (resolved, schedule), loaded, is_chosen);
        let memory = || memory_simulated(resolved, schedule, self.shift);
        let (queues, (memory, kernels)) = rayon::join(|| queues(graph, self), || rayon::join(memory, kernels));
        (queues, memory, kernels)
    }

    /// When `item` starts and ends; `None` when it does not take place.
    pub fn times(&self, item: Item) -> Option<(TimeNs, TimeNs)> {
        let times = match item {
            Item::Task(node) => self.tasks.get(node.index()),
            Item::Operator(id) => self.operators.get(id.0 as usize),
            Item::Added(number) => self.added.get(number as usize),
        };
        times.copied().filter(|(start, end)| end > start)
    }

    /// The depth of the row in which `item` is drawn on `lane`.
    pub fn depth_of(&self, lane: usize, item: Item) -> Option<usize> {
        let (start, _) = self.times(item)?;
        let rows = &self.lanes.get(lane)?.rows;
        rows.iter().position(|row| row.at(start).is_some_and(|piece| piece.key == item.key()))
    }
}

/// What is drawn, row by row, before it is indexed.
struct Filled {
    /// By lane and depth.
    lanes: Vec<Vec<Vec<Interval>>>,
    /// By rank.
    hosts: Vec<Vec<Interval>>,
    tasks: Vec<(TimeNs, TimeNs)>,
    operators: Vec<(TimeNs, TimeNs)>,
    added: Vec<(TimeNs, TimeNs)>,
}

impl Filled {
    fn of(graph: &ExecutionGraph, times: Times<'_>, shift: DurNs) -> Self {
        let moved = |(start, end): (TimeNs, TimeNs)| (start + shift, end + shift);
        let mut tasks: Vec<(TimeNs, TimeNs)> =
            graph.tasks.node_indices().map(|node| moved(times.of(graph, node))).collect();
        let mut hosts = host_work(graph, &tasks);
        if matches!(times, Times::Simulated(..)) {
            stretch_waits(graph, &mut tasks);
            begin_at_arrival(graph, &mut tasks);
        }
        let operators = match times {
            Times::Measured => graph.operators.iter().map(|op| (op.start, op.start + op.dur)).collect(),
            Times::Simulated(..) => operator_times(graph, &tasks),
        };
        let lane_count = graph.lanes.len() + times.resolved().map_or(0, |resolved| resolved.added_lanes.len());
        let mut lanes: Vec<Vec<Vec<Interval>>> = vec![Vec::new(); lane_count];
        let depths = fill_operators(graph, &operators, &mut lanes);
        fill_tasks(graph, &tasks, (&depths, times), &mut lanes);
        let added = fill_added((times, shift), &mut lanes, &mut hosts);
        Self { lanes, hosts, tasks, operators, added }
    }
}

impl<'a> Times<'a> {
    fn resolved(self) -> Option<&'a Resolved> {
        match self {
            Self::Measured => None,
            Self::Simulated(resolved, _) => Some(resolved),
        }
    }

    /// The drawn iteration, and by how much these times are moved so that it begins where the measured one does.
    fn placed(self, loaded: &Loaded, outcome: &Outcome) -> (Range<TimeNs>, DurNs) {
        let graph = &*outcome.resolved.graph;
        let ends = |times: analysis::lanes::Times<'_>| {
            graph.ranks.iter().map(|part| times.period(graph, part).end).max().unwrap_or_default()
        };
        let (before, after) = iteration_figures(loaded, outcome);
        let begin = ends(analysis::lanes::Times::Measured) - before;
        match self {
            Self::Measured => (begin..begin + before, DurNs::ZERO),
            Self::Simulated(resolved, schedule) => {
                let timed = &*resolved.timed;
                let end = ends(analysis::lanes::Times::Simulated { timed, schedule });
                (begin..begin + after, (begin + after).since(end))
            }
        }
    }

    /// Where a task runs.
    fn lane(self, graph: &ExecutionGraph, node: NodeId) -> LaneId {
        self.resolved().map_or(graph.tasks[node].lane, |resolved| resolved.lane(node))
    }

    fn of(self, graph: &ExecutionGraph, node: NodeId) -> (TimeNs, TimeNs) {
        match self {
            Self::Measured => (graph.tasks[node].measured_start, graph.tasks[node].measured_end()),
            Self::Simulated(resolved, schedule) => match resolved.timed.task_if_kept(node) {
                Some(task) => (schedule.start(&resolved.timed, task), schedule.end(task)),
                None => (TimeNs(0), TimeNs(0)),
            },
        }
    }
}

/// The iteration before and after the edits of `outcome`, as header, ribbon and drawing have it: the period at which the step
/// repeats, where that is told apart from the recorded one.
pub fn iteration_figures(loaded: &Loaded, outcome: &Outcome) -> (DurNs, DurNs) {
    let base = &loaded.replay.summary;
    let before = if base.both_named().is_some() { base.base_steady_ns } else { base.measured_ns };
    (before, outcome.summary.steady_ns)
}

/// By rank what its host threads do, each task without the part in which it waits for the device.
fn host_work(graph: &ExecutionGraph, tasks: &[(TimeNs, TimeNs)]) -> Vec<Vec<Interval>> {
    let mut hosts: Vec<Vec<Interval>> = vec![Vec::new(); graph.ranks.len()];
    let places: Vec<Option<usize>> = graph.lanes.iter().map(|lane| graph.place_of(lane.rank)).collect();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let Some(place) = places[task.lane.0 as usize].filter(|_| task.kind.is_work() && !task.kind.is_device()) else {
            continue;
        };
        let (start, end) = tasks[node.index()];
        let end = if task.kind == TaskKind::Runtime { end.min(start + task.duration) } else { end };
        hosts[place].push(interval((start, end), Item::Task(node).key()));
    }
    hosts
}

/// Which lanes have a task that lies on another lane than measured, or elsewhere by more than a small part of the iteration, or device
/// work that takes another time.
fn changed(times: Times<'_>, tasks: &[(TimeNs, TimeNs)], lanes: usize, iteration: DurNs) -> Vec<bool> {
    const SEEN: f64 = 0.005;
    const OTHER: f64 = 0.01;
    let mut changed = vec![false; lanes];
    let Times::Simulated(resolved, _) = times else { return changed };
    let graph = &*resolved.graph;
    let seen = iteration.scale(SEEN);
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let (start, end) = tasks[node.index()];
        let lane = times.lane(graph, node);
        let is_moved = lane != task.lane
            || task.measured_start.since(start).abs() > seen
            || task.measured_end().since(end).abs() > seen;
        let change = (end.since(start) - task.measured).abs();
        let is_other = task.kind.is_device() && change > task.measured.scale(OTHER);
        if task.kind.is_work() && task.measured > DurNs::ZERO && (is_moved || is_other) {
            changed[task.lane.0 as usize] = true;
            changed[lane.0 as usize] = true;
        }
    }
    for added in &resolved.added {
        changed[added.lane.0 as usize] = true;
    }
    changed
}

/// Lets calls that wait for the device last until their thread goes on: a task's own duration has no waiting in it.
fn stretch_waits(graph: &ExecutionGraph, tasks: &mut [(TimeNs, TimeNs)]) {
    let mut waiting: Vec<Option<usize>> = vec![None; graph.lanes.len()];
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let (start, end) = tasks[node.index()];
        if task.kind.is_device() || task.lane.0 as usize >= waiting.len() {
            continue;
        }
        let lane = &mut waiting[task.lane.0 as usize];
        if let Some(call) = lane.take_if(|_| end > start || task.kind == TaskKind::Joint) {
            tasks[call].1 = tasks[call].1.max(start);
        }
        if task.kind == TaskKind::Runtime && task.measured > task.duration && end > start {
            *lane = Some(node.index());
        }
    }
}

/// Lets the kernels of collectives run from when their rank is there, as those recorded do: the simulator's begin with the transfer.
fn begin_at_arrival(graph: &ExecutionGraph, tasks: &mut [(TimeNs, TimeNs)]) {
    for (member, arrival) in graph.collectives.iter().flat_map(|it| it.members.iter().zip(&it.arrivals)) {
        let (there, (start, end)) = (tasks[arrival.index()].1, tasks[member.index()]);
        if end > start {
            tasks[member.index()].0 = start.min(there);
        }
    }
}

/// Adds the tasks of the scenario to their lanes; start and end of each.
fn fill_added(
    (times, shift): (Times<'_>, DurNs),
    lanes: &mut [Vec<Vec<Interval>>],
    hosts: &mut [Vec<Interval>],
) -> Vec<(TimeNs, TimeNs)> {
    let Times::Simulated(resolved, schedule) = times else { return Vec::new() };
    let graph = &*resolved.graph;
    let mut all = Vec::with_capacity(resolved.added.len());
    for (number, added) in resolved.added.iter().enumerate() {
        let times = (schedule.start(&resolved.timed, added.task) + shift, schedule.end(added.task) + shift);
        let rank = graph.lanes.get(added.lane.0 as usize).map(|lane| lane.rank);
        let place = rank.and_then(|rank| graph.place_of(rank));
        if let Some(place) = place.filter(|_| added.kind.is_work() && !added.kind.is_device()) {
            hosts[place].push(interval(times, Item::Added(number as u32).key()));
        }
        let depth = u16::from(!added.kind.is_device());
        if let Some(rows) = lanes.get_mut(added.lane.0 as usize).filter(|_| added.kind.is_work()) {
            push(rows, depth, interval(times, Item::Added(number as u32).key()));
        }
        all.push(times);
    }
    all
}

fn interval((start, end): (TimeNs, TimeNs), key: u32) -> Interval {
    Interval { start, end, key }
}

/// Operators from the first start to the last end of their host tasks, children included.
fn operator_times(graph: &ExecutionGraph, tasks: &[(TimeNs, TimeNs)]) -> Vec<(TimeNs, TimeNs)> {
    const NEVER: (TimeNs, TimeNs) = (TimeNs(i64::MAX), TimeNs(i64::MIN));
    let mut times = vec![NEVER; graph.operators.len()];
    let widen = |times: &mut (TimeNs, TimeNs), by: (TimeNs, TimeNs)| {
        *times = (times.0.min(by.0), times.1.max(by.1));
    };
    for (task, &of_task) in graph.tasks.node_weights().zip(tasks) {
        let Some(id) = task.operator.filter(|_| !task.kind.is_device() && of_task.1 > of_task.0) else { continue };
        let index = id.0 as usize;
        if graph.operators.get(index).is_some_and(|operator| operator.lane == task.lane) {
            widen(&mut times[index], of_task);
        }
    }
    for index in (0..times.len()).rev() {
        let own = times[index];
        if let Some(parent) = graph.operators[index].parent {
            widen(&mut times[parent.0 as usize], own);
        }
    }
    times.into_iter().map(|times| if times == NEVER { (TimeNs(0), TimeNs(0)) } else { times }).collect()
}

/// Adds operators to their lanes; the depth of each.
fn fill_operators(graph: &ExecutionGraph, times: &[(TimeNs, TimeNs)], lanes: &mut [Vec<Vec<Interval>>]) -> Vec<u16> {
    let mut depths = vec![0_u16; graph.operators.len()];
    for (index, operator) in graph.operators.iter().enumerate() {
        let depth = operator.parent.map_or(0, |parent| depths[parent.0 as usize].saturating_add(1));
        depths[index] = depth;
        let key = Item::Operator(OperatorId(index as u32)).key();
        push(&mut lanes[operator.lane.0 as usize], depth, interval(times[index], key));
    }
    depths
}

/// Adds device work to its streams and calls below the operators that made them.
fn fill_tasks(
    graph: &ExecutionGraph,
    times: &[(TimeNs, TimeNs)],
    (depths, edited): (&[u16], Times<'_>),
    lanes: &mut [Vec<Vec<Interval>>],
) {
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let depth = match task.kind {
            kind if kind.is_device() => 0,
            TaskKind::Runtime => task.operator.map_or(0, |id| depths[id.0 as usize].saturating_add(1)),
            _ => continue,
        };
        let lane = edited.lane(graph, node).0 as usize;
        push(&mut lanes[lane], depth, interval(times[node.index()], Item::Task(node).key()));
    }
}

fn push(rows: &mut Vec<Vec<Interval>>, depth: u16, interval: Interval) {
    let depth = depth as usize;
    if rows.len() <= depth {
        rows.resize(depth + 1, Vec::new());
    }
    rows[depth].push(interval);
}

/// The paint of every task and operator.
#[derive(Clone, Debug, Default)]
pub struct Paints {
    tasks: Vec<Paint>,
    operators: Vec<Paint>,
    /// By task, then by operator, whether it is of another step than the chosen one.
    neighbours: [Vec<bool>; 2],
    /// What each lane is called.
    pub labels: Vec<String>,
}

impl Paints {
    /// # Complexity
    /// O(tasks + operators); families of kernels whose work is not known are found once per pair of kernel and operator name.
    pub fn new(graph: &ExecutionGraph, works: &KernelWork) -> Self {
        let mut known: FxHashMap<(NameId, NameId, bool), Family> = FxHashMap::default();
        let mut by_name = |node: NodeId| {
            let task = &graph.tasks[node];
            let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
            let name = operator.map(|operator| operator.name).unwrap_or_default();
            let is_optimizer = operator.is_some_and(|operator| operator.phase == Phase::Optimizer);
            *known.entry((task.name, name, is_optimizer)).or_insert_with(|| works.family(graph, node))
        };
        let paint = |node: NodeId| match graph.tasks[node].kind {
            TaskKind::Collective(_) => Paint::Collective,
            TaskKind::Memcpy | TaskKind::Memset => Paint::Transfer,
            TaskKind::Kernel => Paint::from(works.work(node).map_or_else(|| by_name(node), |work| work.family)),
            _ => Paint::Call,
        };
        let copies = Copies::of(graph);
        let steps = graph.tasks.node_indices().map(|node| copies.step(node) != CopyStep::Chosen);
        let outside = |operator: &Operator| {
            let rank = graph.lanes[operator.lane.0 as usize].rank;
            let part = graph.part_of(rank);
            part.is_some_and(|part| !(part.iteration_start..part.iteration_end).contains(&operator.start))
        };
        Self {
            neighbours: [steps.collect(), graph.operators.iter().map(outside).collect()],
            tasks: graph.tasks.node_indices().map(paint).collect(),
            operators: graph.operators.iter().map(|operator| Paint::from(operator.phase)).collect(),
            labels: lane_labels(graph),
        }
    }

    /// Whether `item` belongs to the step before the chosen one or to the one after it.
    pub fn is_neighbour(&self, item: Item) -> bool {
        let flag = match item {
            Item::Task(node) => self.neighbours[0].get(node.index()),
            Item::Operator(id) => self.neighbours[1].get(id.0 as usize),
            Item::Added(_) => None,
        };
        flag.copied().unwrap_or(false)
    }

    /// The paint of `item`.
    pub fn of(&self, item: Item) -> Paint {
        let paint = match item {
            Item::Task(node) => self.tasks.get(node.index()),
            Item::Operator(id) => self.operators.get(id.0 as usize),
            Item::Added(_) => None,
        };
        paint.copied().unwrap_or(Paint::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::session::{Engine, sample};
    use retime_core::graph::BuildOptions;
    use retime_core::scenario::Scenario;
    use retime_core::trace::OpenOptions;

    /// Cells that an iteration takes on a screen of the design size.
    const CELLS: i64 = 88;
    const EDITS: [&[&str]; 4] =
        [&[], &["scale kind=kernel x0.5"], &["scale kind=kernel x3"], &["swap-gpu H200", "scale kind=host x0.5"]];

    /// The last end of what belongs to the chosen step.
    fn last_end(density: &DensityIndex, paints: &Paints, graph: &ExecutionGraph) -> TimeNs {
        let own = |node: &NodeId| graph.tasks[*node].kind.is_work() && !paints.is_neighbour(Item::Task(*node));
        let tasks = graph.tasks.node_indices().filter(own).filter_map(|node| density.times(Item::Task(node)));
        let added = density.added.iter().copied();
        tasks.chain(added).map(|(_, end)| end).max().unwrap_or_default()
    }

    fn holds(engine: &Engine, loaded: &Loaded, edits: &[&str]) {
        let (paints, scenario) = (
            Paints::new(&loaded.graph, &loaded.replay.resolved.works),
            Scenario::parse(edits.iter().copied()).unwrap(),
        );
        let outcome = engine.evaluate(loaded, &scenario, 0);
        let (before, after) = iteration_figures(loaded, &outcome);
        let measured = DensityIndex::measured(loaded);
        let simulated = DensityIndex::simulated(loaded, &outcome);
        assert_eq!(measured.period.start, simulated.period.start, "both begin at the left edge");
        for (density, figure) in [(&measured, before), (&simulated, after)] {
            let length = density.period.end.since(density.period.start);
            assert_eq!(length, figure, "{} {edits:?}: what is drawn is what the header says", loaded.title);
            let last = last_end(density, &paints, &outcome.resolved.graph);
            let cell = DurNs(figure.0 / CELLS);
            let off = last.since(density.period.end);
            assert!(off.abs() <= cell, "{} {edits:?}: the last bar ends {off} off {figure}", loaded.title);
        }
    }

    #[test]
    fn the_last_bar_of_the_iteration_ends_at_the_figure_of_the_header() {
        let engine = Engine::builtin().unwrap();
        for sample in sample::ALL {
            let loaded = sample.load(&engine, &BuildOptions::default()).unwrap();
            for edits in &EDITS {
                holds(&engine, &loaded, edits);
            }
        }
    }

    #[test]
    fn a_stream_that_work_was_moved_to_is_drawn_as_simulated() {
        let (engine, build) = (Engine::builtin().unwrap(), BuildOptions::default());
        let mut all = vec![sample::find("dlrm-on-v100").unwrap().load(&engine, &build).unwrap()];
        // Its copy begins on the other stream about when it was measured.
        let shared = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces/timesformer-h100");
        if shared.exists() {
            all.extend(engine.load(&[shared], &OpenOptions::default(), &build).unwrap());
        }
        for loaded in &all {
            let outcome = engine.evaluate(loaded, &Scenario::parse(["prefetch-input"]).unwrap(), 0);
            let simulated = DensityIndex::simulated(loaded, &outcome);
            let own = &simulated.changed[loaded.graph.lanes.len()..];
            assert!(!own.is_empty() && own.iter().all(|is_changed| *is_changed), "{}: {own:?}", loaded.title);
        }
    }

    #[test]
    fn header_and_drawing_agree_where_a_step_does_not_repeat_as_recorded() {
        let file = |name: &str| {
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces/resnet50-v100-dataloader").join(name)
        };
        let engine = Engine::builtin().unwrap();
        for name in ["workers0.pt.trace.json.gz", "workers4.pt.trace.json.gz"] {
            let path = file(name);
            if !path.exists() {
                continue;
            }
            let loaded = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap();
            holds(&engine, &loaded[0], &["resize-batch 64"]);
            for edits in &EDITS {
                holds(&engine, &loaded[0], edits);
            }
        }
    }
}
