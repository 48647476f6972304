//! The model in rows: its layers, or their types or kernels, each with what lies inside, as measured and as simulated.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use retime_core::analysis::layers::{Layer, LayerKernel, LayerTable};
use retime_core::analysis::roofline::{Limit, Load};
use retime_core::graph::{NodeId, OperatorId};
use retime_core::units::DurNs;

use super::Sources;
use super::nested::Row;
use crate::tui::timeline::Item;

/// What makes kernels one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerGrouping {
    /// Layers in the order of execution, their kernels inside.
    #[default]
    Layer,
    /// Types of layers, their layers inside.
    Type,
    /// Kernels by name, their layers inside.
    Kernel,
}

impl LayerGrouping {
    /// All of them, in the order a key goes through them.
    pub const ALL: [Self; 3] = [Self::Layer, Self::Type, Self::Kernel];

    /// What one row is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layer => "layer",
            Self::Type => "type",
            Self::Kernel => "kernel",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
}

/// What rows of layers are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerOrder {
    /// As they are executed.
    #[default]
    Execution,
    /// The longest first.
    Time,
    /// The most changed first.
    Change,
}

impl LayerOrder {
    /// All of them, in the order a key goes through them.
    pub const ALL: [Self; 3] = [Self::Execution, Self::Time, Self::Change];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Time => "time",
            Self::Change => "change",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
}

/// The model, a layer, a kernel, or several of them.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerGroup {
    /// What it is called.
    pub label: String,
    path: String,
    /// How far it is indented.
    pub depth: usize,
    end: usize,
    /// Shape of the first tensor of a layer, where recorded.
    pub shape: Vec<u64>,
    /// Kernels after the edits.
    pub count: usize,
    /// Kernel time as measured.
    pub before: DurNs,
    /// Kernel time as simulated; the measured one without edits.
    pub after: DurNs,
    /// Host time of layers beside that of their kernels, after the edits.
    pub host: DurNs,
    /// What the kernels write, after the edits.
    pub written: u64,
    /// FLOP and traffic after the edits.
    pub load: Load,
    /// What bounds most of its time; `None` where no work is known.
    pub bound: Option<Limit>,
    /// Occupancy weighted by time; `None` where no launch was recorded.
    pub occupancy: Option<f64>,
    /// What stands for it on the timeline.
    pub item: Option<Item>,
    first: usize,
}

impl Row for LayerGroup {
    fn path(&self) -> &str {
        &self.path
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn end(&self) -> usize {
        self.end
    }

    fn is_open(&self) -> bool {
        self.depth == 0
    }
}

/// The rows, each with those inside it behind it; the first is the model.
///
/// # Complexity
/// O(kernels · log kernels).
pub fn rows(sources: &Sources, is_seen: &dyn Fn(NodeId) -> bool) -> Vec<LayerGroup> {
    let model = &sources.view_model;
    let is_edited = sources.outcome.steps.iter().any(|step| step.enabled);
    let before = &*model.traced.layers;
    let after = if is_edited { &model.layers } else { before };
    let traced = sources.loaded.graph.tasks.node_count();
    let (names, grouping) = (names([before, after]), sources.arrangement.layers);
    let mut tree = Tree { traced, grouping, names, nodes: Vec::new(), places: FxHashMap::default() };
    for (table, is_after) in [(before, false), (after, true)] {
        for kernel in table.kernels.iter().filter(|kernel| is_seen(kernel.node)) {
            tree.add(table, kernel, is_after);
        }
    }
    if sources.filter.is_none() {
        tree.add_host_time(after);
    }
    tree.flattened(sources.arrangement.layer_order)
}

/// What layers are called: those of one name are numbered as they are executed.
fn names(tables: [&LayerTable; 2]) -> FxHashMap<OperatorId, String> {
    let layers = tables.into_iter().flat_map(|table| &table.layers);
    let mut calls: Vec<(OperatorId, &str)> =
        layers.map(|layer| (layer.operator, layer.name.trim_start_matches("aten::"))).collect();
    calls.sort_unstable();
    calls.dedup();
    let mut count: FxHashMap<&str, usize> = FxHashMap::default();
    for (_, name) in &calls {
        *count.entry(name).or_default() += 1;
    }
    let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
    let mut named = |name| {
        let place = seen.entry(name).or_insert(0);
        *place += 1;
        if count[name] > 1 { format!("{name} #{}", *place - 1) } else { name.to_owned() }
    };
    calls.iter().map(|&(operator, name)| (operator, named(name))).collect()
}

struct Node {
    group: LayerGroup,
    children: Vec<usize>,
    /// Time bound by each limit, and time with a known occupancy, weighted by it.
    bounds: BTreeMap<Limit, f64>,
    occupied: (f64, f64),
    /// Layers whose own figures are in it, some more than once.
    layers: Vec<usize>,
}

struct Tree<'a> {
    traced: usize,
    grouping: LayerGrouping,
    names: FxHashMap<OperatorId, String>,
    nodes: Vec<Node>,
    places: FxHashMap<(Option<usize>, Key<'a>), usize>,
}

/// What the row of kernels is called that no layer launched.
const OUTSIDE: &str = "outside layers";

/// What tells a row from others inside the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Model,
    Layer(OperatorId),
    Name(&'a str),
}

impl<'a> Tree<'a> {
    /// Counts a kernel in the rows from the model down to it.
    fn add(&mut self, table: &'a LayerTable, kernel: &'a LayerKernel, is_after: bool) {
        let layer = kernel.layer.and_then(|at| table.layers.get(at));
        let mut parent = None;
        for key in self.keys(layer, kernel).into_iter().flatten() {
            let at = self.child(parent, key, layer);
            self.count(at, kernel, layer, is_after);
            parent = Some(at);
        }
    }

    /// The rows of a kernel, from the outermost inwards.
    fn keys(&self, layer: Option<&'a Layer>, kernel: &'a LayerKernel) -> [Option<Key<'a>>; 4] {
        let of_layer = || layer.map_or(Key::Name(OUTSIDE), |layer| Key::Layer(layer.operator));
        let of_kind = || Key::Name(layer.map_or(OUTSIDE, |layer| &layer.kind));
        let of_kernel = Key::Name(&kernel.name);
        let [first, second, third] = match self.grouping {
            LayerGrouping::Layer => [Some(of_layer()), Some(of_kernel), None],
            LayerGrouping::Type => [Some(of_kind()), Some(of_layer()), Some(of_kernel)],
            LayerGrouping::Kernel => [Some(of_kernel), Some(of_layer()), None],
        };
        [Some(Key::Model), first, second, third]
    }

    /// The row of `key` inside `parent`; `layer` is called as it is.
    fn child(&mut self, parent: Option<usize>, key: Key<'a>, layer: Option<&Layer>) -> usize {
        if let Some(&at) = self.places.get(&(parent, key)) {
            return at;
        }
        let (above, depth) = parent.map_or(("layers", 0), |parent| {
            let group = &self.nodes[parent].group;
            (group.path.as_str(), group.depth + 1)
        });
        let name = |name: &str| (name.to_owned(), format!("{above}\u{1f}{name}"));
        let (label, path) = match key {
            Key::Model => name("model"),
            Key::Name(own) => name(own),
            Key::Layer(operator) => {
                let own = layer.map_or(OUTSIDE, |layer| &layer.name);
                let label = self.names.get(&operator).cloned().unwrap_or_else(|| own.to_owned());
                (label, format!("{above}\u{1f}{own} {}", operator.0))
            }
        };
        let at = self.nodes.len();
        let group = LayerGroup {
            label,
            path,
            depth,
            end: 0,
            shape: Vec::new(),
            count: 0,
            before: DurNs::ZERO,
            after: DurNs::ZERO,
            host: DurNs::ZERO,
            written: 0,
            load: Load::default(),
            bound: None,
            occupancy: None,
            item: None,
            first: at,
        };
        let (bounds, layers) = (BTreeMap::new(), Vec::new());
        self.nodes.push(Node { group, children: Vec::new(), bounds, occupied: (0.0, 0.0), layers });
        if let Some(parent) = parent {
            self.nodes[parent].children.push(at);
        }
        self.places.insert((parent, key), at);
        at
    }

    fn count(&mut self, at: usize, kernel: &LayerKernel, layer: Option<&Layer>, is_after: bool) {
        let is_of_layer = self.is_layer(self.nodes[at].group.depth);
        let traced = self.traced;
        let node = &mut self.nodes[at];
        let group = &mut node.group;
        if let Some(layer) = layer.filter(|_| is_of_layer) {
            group.shape.clone_from(&layer.shape);
            group.item = Some(Item::Operator(layer.operator));
        } else if group.item.is_none() {
            let number = kernel.node.index();
            group.item = Some(number.checked_sub(traced).map_or(Item::Task(kernel.node), |at| Item::Added(at as u32)));
        }
        if !is_after {
            group.before += kernel.duration_ns;
            return;
        }
        group.after += kernel.duration_ns;
        group.count += 1;
        group.load.flop += kernel.load.flop;
        group.load.bytes += kernel.load.bytes;
        group.load.seconds += kernel.load.seconds;
        if let Some(bound) = kernel.bound {
            *node.bounds.entry(bound).or_insert(0.0) += kernel.load.seconds;
        }
        if let Some(occupancy) = kernel.occupancy {
            node.occupied.0 += occupancy * kernel.load.seconds;
            node.occupied.1 += kernel.load.seconds;
        }
        let is_another = |layer: &&Layer| node.layers.last() != Some(&layer.index);
        if let Some(layer) = layer.filter(is_another)
            && !self.is_inside_layer(self.nodes[at].group.depth)
        {
            self.nodes[at].layers.push(layer.index);
        }
    }

    /// Whether rows of that depth are single layers.
    fn is_layer(&self, depth: usize) -> bool {
        depth == if self.grouping == LayerGrouping::Layer { 1 } else { 2 }
    }

    /// Whether rows of that depth are kernels, to which the host's time of a layer does not belong.
    fn is_inside_layer(&self, depth: usize) -> bool {
        match self.grouping {
            LayerGrouping::Layer => depth >= 2,
            LayerGrouping::Type => depth >= 3,
            LayerGrouping::Kernel => depth >= 1,
        }
    }

    /// Adds what is known of whole layers only.
    fn add_host_time(&mut self, table: &LayerTable) {
        for node in &mut self.nodes {
            node.layers.sort_unstable();
            node.layers.dedup();
            for layer in node.layers.iter().filter_map(|&at| table.layers.get(at)) {
                node.group.host += layer.latency_ns - layer.kernel_ns;
                node.group.written = node.group.written.saturating_add(layer.memory_bytes);
            }
        }
    }

    fn flattened(mut self, order: LayerOrder) -> Vec<LayerGroup> {
        for node in &mut self.nodes {
            let most = node.bounds.iter().max_by(|a, b| a.1.total_cmp(b.1));
            node.group.bound = most.map(|(&bound, _)| bound);
            node.group.occupancy = (node.occupied.1 > 0.0).then(|| node.occupied.0 / node.occupied.1);
        }
        let mut rows = Vec::with_capacity(self.nodes.len());
        if !self.nodes.is_empty() {
            self.emit(0, order, &mut rows);
        }
        rows
    }

    fn emit(&mut self, at: usize, order: LayerOrder, rows: &mut Vec<LayerGroup>) {
        let place = rows.len();
        rows.push(self.nodes[at].group.clone());
        let mut children = std::mem::take(&mut self.nodes[at].children);
        children.sort_by_key(|&child| {
            let group = &self.nodes[child].group;
            let key = match order {
                LayerOrder::Execution => 0,
                LayerOrder::Time => -group.after.0,
                LayerOrder::Change => -(group.after - group.before).abs().0,
            };
            (key, group.first)
        });
        for child in children {
            self.emit(child, order, rows);
        }
        rows[place].end = rows.len();
    }
}
