//! What changes around convolutions that an edit brings onto matrix units: libraries compute them as products of channels-last tensors
//! there, by one kernel a pass instead of the transforms of another algorithm, and change layouts where the model has channels first.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::kernel_name::{LayoutChange, layout_change, transforms_tiles};
use crate::cost::operators::operator_family;
use crate::cost::{Caller, Family, PlannedKernel, Work, is_plain_product, layout_changes};
use crate::device::{DeviceProfile, Precision};
use crate::graph::{LaneId, NodeId, OperatorId, TaskKind};
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
        let is_moved = has_moved(draft, product.operator, product.kernel)?;
        let Node::Traced(traced) = product.kernel else { return None };
        // What was planned never ran: no library chose its layout.
        let name = graph.names.get(graph.tasks[traced].name);
        let has_run = planned.iter().all(|kernel| kernel.name != name);
        (is_moved && has_run).then_some((product, planned))
    });
    moved.collect()
}

/// Whether an operator computes on matrix units now and did not where it was traced; `None` where that cannot be told.
///
/// # Arguments
/// `kernel`: one of its kernels, which says where it runs.
fn has_moved(draft: &Draft<'_>, id: OperatorId, kernel: Node) -> Option<bool> {
    let now = draft.planned(id)?.first()?.work.precision;
    let device = draft.device(draft.rank_of(draft.lane_of(kernel)))?;
    let is_other = draft.traced_precision(id).is_some_and(|was| was != now);
    Some(is_other && is_by_matrix_units(now, device))
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
    report.effects.extend(take_back(draft));
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
    let needs_none = |id: OperatorId, node: Node| has_moved(draft, id, node) == Some(false);
    let unneeded = present.iter().filter(|(id, nodes)| needs_none(**id, nodes[0]));
    let mut gone: Vec<Node> = unneeded.flat_map(|(_, nodes)| nodes).copied().collect();
    gone.sort_unstable();
    take_out(draft, &gone);
}

/// Lets convolutions that do not compute on matrix units any more launch the kernels again that gave way to products.
///
/// # Returns
/// What is said of those that stay products, as edits between did other things with them.
fn take_back(draft: &mut Draft<'_>) -> Option<Effect> {
    let (planned, followed) = (products_of(draft), followed(draft));
    let (mut back, mut gone, mut kept) = (Vec::new(), Vec::new(), 0);
    for (id, tasks) in draft.given_way() {
        let first = Node::Traced(tasks[0]);
        if has_moved(draft, id, first) != Some(false) {
            continue;
        }
        let kernels = planned.get(&id).map_or(&[][..], Vec::as_slice);
        let lanes: Vec<LaneId> = tasks.iter().map(|&node| draft.lane_of(Node::Traced(node))).collect();
        let is_free = kernels.iter().all(|kernel| !followed.contains(kernel));
        match factors_of_all(draft, kernels, &lanes) {
            Some(factors) if is_free && draft.planned(id).is_some_and(|planned| planned.len() == kernels.len()) => {
                back.push((id, factors));
                gone.extend(kernels);
            }
            _ => kept += 1,
        }
    }
    for (id, [of_kernels, of_calls]) in back {
        for node in draft.take_back(id).into_iter().map(Node::Traced) {
            let factor = if draft.kind_of(node).is_device() { of_kernels } else { of_calls };
            draft.stretch(node, factor / draft.factor_of(node));
        }
    }
    take_out(draft, &gone);
    let stay = || format!("{} stay products: steps between did more with them", count(kept, "convolution"));
    (kept > 0).then(|| Effect::assumption(stay()))
}

/// What edits multiply the time of all `kernels` by, which are on one of `lanes`, and that of their calls; `None` where that is not the same.
fn factors_of_all(draft: &Draft<'_>, kernels: &[Node], lanes: &[LaneId]) -> Option<[f64; 2]> {
    let state = |node: Node| {
        let of_call = draft.own_call_of(node).map_or(1.0, |call| draft.factor_of(call));
        (draft.lane_of(node), [draft.factor_of(node), of_call])
    };
    let (lane, factors) = state(*kernels.first()?);
    let is_same = kernels.iter().all(|&node| state(node) == (lane, factors));
    (is_same && lanes.contains(&lane)).then_some(factors)
}

/// The tasks whose work added ones repeat or do at once.
fn followed(draft: &Draft<'_>) -> FxHashSet<Node> {
    let sources = draft.added_tasks().map(|(_, added)| match &added.source {
        Source::Repeats(of) => std::slice::from_ref(of),
        Source::Merges(members, _) => members,
        _ => &[],
    });
    sources.flatten().copied().collect()
}

/// The products that edits let convolutions launch, by convolution, that are left.
fn products_of(draft: &Draft<'_>) -> FxHashMap<OperatorId, Vec<Node>> {
    let mut products: FxHashMap<OperatorId, Vec<Node>> = FxHashMap::default();
    for (node, added) in draft.added_tasks().filter(|(_, added)| matches!(added.source, Source::Planned(_))) {
        if let Some(id) = added.operator {
            products.entry(id).or_default().push(node);
        }
    }
    products
}

/// Takes kernels out, then their calls, which launch nothing that is left.
fn take_out(draft: &mut Draft<'_>, kernels: &[Node]) {
    for &node in kernels {
        draft.take_out(node);
    }
    for node in host_of(draft, kernels) {
        draft.take_out(node);
    }
}

/// Lets the convolutions that transforms compute be products: how many in the step. They are the first kernels of theirs in `moved` then.
fn as_products(draft: &mut Draft<'_>, moved: &mut [(Product, Vec<PlannedKernel>)]) -> usize {
    let kernels = Kernels::of(draft);
    let (mut gone, mut gave_way) = (Vec::new(), Vec::new());
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
        let traced = &kernels.0[&id];
        let calls = traced.iter().filter_map(|&node| match draft.own_call_of(Node::Traced(node))? {
            Node::Traced(call) if !draft.is_removed(call) => Some(call),
            _ => None,
        });
        gave_way.push((id, traced.iter().copied().chain(calls).collect::<Vec<_>>()));
        gone.extend(traced.iter().map(|&node| Node::Traced(node)));
    }
    take_out(draft, &gone);
    for (id, mut tasks) in gave_way {
        tasks.retain(|&node| draft.is_removed(node));
        draft.give_way(id, tasks);
    }
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
