//! What changes around convolutions that an edit brings onto matrix units: libraries compute them as products of channels-last tensors
//! there, by one kernel a pass instead of the transforms of another algorithm, and change layouts where the model has channels first.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::kernel_name::{LayoutChange, layout_change, transforms_tiles};
use crate::cost::operators::operator_family;
use crate::cost::{Caller, Family, PlannedKernel, Work, is_plain_product, layout_changes};
use crate::device::{DeviceProfile, Precision};
use crate::graph::{NodeId, OperatorId, TaskKind};
use crate::intern::NameId;
use crate::scenario::draft::{Draft, Node, Source};
use crate::scenario::effect::Effect;
use crate::scenario::transform::StepReport;

use super::kernel::{self, NewKernel, Side};
use super::products::{Product, products};
use super::remove::host_of;
use super::report::count;

/// What is said of changes of layout that an edit adds.
const LAYOUTS: &str = "convolutions of tensors with channels first are taken to put them last around matrix units and the result back, as \
                       cuDNN does; a model in channels last needs none of it";
/// What is said where the algorithm changes.
const ALGORITHM: &str =
    "on matrix units convolutions are taken to be computed as products, not by the transforms that were recorded";

/// The kernels of each operator that are left.
struct Kernels(FxHashMap<OperatorId, Vec<NodeId>>);

impl Kernels {
    fn of(draft: &Draft<'_>) -> Self {
        let graph = draft.graph();
        let mut of: FxHashMap<OperatorId, Vec<NodeId>> = FxHashMap::default();
        for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel) {
            if let Some(id) = graph.tasks[node].operator.filter(|_| !draft.is_removed(node)) {
                of.entry(id).or_default().push(node);
            }
        }
        Self(of)
    }

    fn names<'d>(&self, draft: &Draft<'d>, id: OperatorId) -> impl Iterator<Item = &'d str> {
        let graph = draft.graph();
        self.0.get(&id).into_iter().flatten().map(|&node| graph.names.get(graph.tasks[node].name))
    }

    /// Those of the changes around an operator, by their numbers, that it has no kernel for; of one that has some, the last ones are taken
    /// to be there.
    fn missing(&self, draft: &Draft<'_>, id: OperatorId, all: &[LayoutChange]) -> Vec<usize> {
        let recorded: Vec<LayoutChange> = self.names(draft, id).filter_map(layout_change).collect();
        let count = |ways: &[LayoutChange], way| ways.iter().filter(|&&other| other == way).count();
        (0..all.len()).filter(|&at| count(&all[at..], all[at]) > count(&recorded, all[at])).collect()
    }
}

/// The convolutions that compute on matrix units now and did not where they were traced, each with the kernels that it takes there.
fn moved(draft: &Draft<'_>) -> Vec<(Product, Vec<PlannedKernel>)> {
    let graph = draft.graph();
    let mut convolves: FxHashMap<NameId, bool> = FxHashMap::default();
    for name in graph.operators.iter().map(|operator| operator.name) {
        convolves.entry(name).or_insert_with(|| operator_family(graph.names.get(name)) == Some(Family::Conv));
    }
    if !convolves.values().any(|&convolves| convolves) {
        return Vec::new();
    }
    let products = products(draft, |_, id| convolves[&graph.operators[id.0 as usize].name]);
    let moved = products.into_iter().filter_map(|product| {
        let planned = draft.planned(product.operator)?;
        let now = planned.first()?.work.precision;
        let device = draft.device(draft.rank_of(draft.lane_of(product.kernel)))?;
        let is_moved = is_by_matrix_units(now, device);
        let Node::Traced(traced) = product.kernel else { return None };
        // What was planned never ran: no library chose its layout.
        let name = graph.names.get(graph.tasks[traced].name);
        let has_run = planned.iter().all(|kernel| kernel.name != name);
        let is_other = draft.traced_precision(product.operator).is_some_and(|was| was != now);
        (is_moved && is_other && has_run).then_some((product, planned))
    });
    moved.collect()
}

fn is_by_matrix_units(precision: Precision, device: &DeviceProfile) -> bool {
    precision.is_tensor() && device.unit(precision) == Some(precision)
}

/// Whether the model keeps channels last: its norms and poolings say so, which work in the layout they are given.
fn has_channels_last(draft: &Draft<'_>) -> bool {
    let graph = draft.graph();
    let says_so = |name: &str| ["nhwc", "channels_last"].iter().any(|part| name.to_ascii_lowercase().contains(part));
    graph.tasks.node_indices().any(|node| {
        let task = &graph.tasks[node];
        let is_told = task.kind == TaskKind::Kernel && says_so(graph.names.get(task.name));
        is_told && matches!(draft.family(node), Some(Family::Norm | Family::Pooling))
    })
}

/// Gives the convolutions that came onto matrix units the kernels that they take there; says so in `report`.
pub(super) fn settle(draft: &mut Draft<'_>, report: &mut StepReport) {
    let present = layouts(draft);
    withdraw(draft, &present);
    let mut moved = moved(draft);
    moved.retain(|(product, _)| !present.contains_key(&product.operator));
    if moved.is_empty() {
        return;
    }
    let products = as_products(draft, &mut moved);
    if products > 0 {
        report.changed += products;
        report.summary = format!("{}, {} as products", report.summary, count(products, "convolution"));
        report.say(Effect::assumption(ALGORITHM));
    }
    let layouts = if has_channels_last(draft) { 0 } else { add_layouts(draft, &moved) };
    if layouts > 0 {
        report.changed += layouts;
        report.summary = format!("{}, {}", report.summary, count(layouts, "layout change"));
        report.say(Effect::assumption(LAYOUTS));
    }
}

/// The changes of layout that edits added, by convolution.
fn layouts(draft: &Draft<'_>) -> FxHashMap<OperatorId, Vec<Node>> {
    let mut layouts: FxHashMap<OperatorId, Vec<Node>> = FxHashMap::default();
    for (node, added) in draft.added_tasks() {
        if let Source::Layout(operator, _) = added.source {
            layouts.entry(operator).or_default().push(node);
        }
    }
    layouts
}

/// Takes out the changes of layout around convolutions that do not compute on matrix units any more.
fn withdraw(draft: &mut Draft<'_>, present: &FxHashMap<OperatorId, Vec<Node>>) {
    let needs_none = |id: OperatorId, node: Node| {
        let now = draft.planned(id).and_then(|planned| Some(planned.first()?.work.precision));
        let device = draft.device(draft.rank_of(draft.lane_of(node)));
        now.zip(device).is_some_and(|(now, device)| !is_by_matrix_units(now, device))
    };
    let unneeded = present.iter().filter(|(id, nodes)| needs_none(**id, nodes[0]));
    let mut gone: Vec<Node> = unneeded.flat_map(|(_, nodes)| nodes).copied().collect();
    gone.sort_unstable();
    take_out(draft, &gone);
}

/// Takes kernels out with their calls.
fn take_out(draft: &mut Draft<'_>, kernels: &[Node]) {
    for node in kernels.iter().copied().chain(host_of(draft, kernels)) {
        draft.take_out(node);
    }
}

/// Lets the convolutions that transforms compute be products: how many in the step. They are the first kernels of theirs in `moved` then.
fn as_products(draft: &mut Draft<'_>, moved: &mut [(Product, Vec<PlannedKernel>)]) -> usize {
    let kernels = Kernels::of(draft);
    let mut gone = Vec::new();
    let mut changed = 0;
    for (product, planned) in moved {
        let id = product.operator;
        let rank = draft.rank_of(draft.lane_of(product.kernel));
        let is_known = planned.iter().all(|kernel| draft.price_new(&kernel.work, rank).is_some());
        if !is_known || !kernels.names(draft, id).any(transforms_tiles) {
            continue;
        }
        changed += usize::from(draft.is_in_step(product.kernel));
        let first = product.kernel;
        for (at, PlannedKernel { name, work }) in planned.drain(..).enumerate() {
            let source = Source::Planned(at as u16);
            product.kernel = add(draft, (first, Side::Before), (name, id, source, work)).unwrap_or(product.kernel);
        }
        gone.extend(kernels.0[&id].iter().map(|&node| Node::Traced(node)));
    }
    take_out(draft, &gone);
    changed
}

/// Adds the changes of layout that convolutions have no kernel for: how many in the step.
fn add_layouts(draft: &mut Draft<'_>, moved: &[(Product, Vec<PlannedKernel>)]) -> usize {
    let kernels = Kernels::of(draft);
    let mut added = 0;
    for (product, _) in moved {
        let graph = draft.graph();
        let operator = graph.names.get(graph.operators[product.operator.0 as usize].name);
        let caller = Caller { operator, operands: draft.operands(product.operator) };
        if is_plain_product(&caller) {
            continue;
        }
        let changes = layout_changes(&caller);
        let ways: Vec<LayoutChange> = changes.iter().map(|(way, _)| *way).collect();
        for at in kernels.missing(draft, product.operator, &ways) {
            let (change, work) = changes[at].clone();
            let (name, is_before) = (change.name(), change == LayoutChange::ToChannelsLast);
            let side = if is_before { Side::Before } else { Side::After };
            let source = Source::Layout(product.operator, at as u16);
            let is_added = add(draft, (product.kernel, side), (name, product.operator, source, work)).is_some();
            added += usize::from(is_added && draft.is_in_step(product.kernel));
        }
    }
    added
}

/// Adds a kernel of an operator beside `at`; `None` where no model tells what it takes.
fn add(
    draft: &mut Draft<'_>,
    (at, side): (Node, Side),
    (name, operator, source, work): (&str, OperatorId, Source, Work),
) -> Option<Node> {
    let prediction = draft.price_new(&work, draft.rank_of(draft.lane_of(at)))?;
    let (name, operator, work) = (name.into(), Some(operator), Some(Arc::new(work)));
    let new = NewKernel { name, operator, work, prediction, source, caller: None, call_at: None };
    Some(kernel::place(draft, at, side, new).kernel)
}
