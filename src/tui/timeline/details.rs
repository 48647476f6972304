//! What there is to say about an item: times, shapes, operator, where its simulated time comes from.

use retime_core::cost::{Prediction, Provenance};
use retime_core::graph::{ExecutionGraph, NodeId, Operand, Operands, Operator, OperatorId, Task, TaskKind};
use retime_core::units::{DurNs, TimeNs};

use super::item::Item;
use super::rows::Side;
use super::scene::Scene;
use crate::session::short_name;

/// A line of the details: what, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// What is said.
    pub label: &'static str,
    /// The value.
    pub value: String,
}

fn detail(label: &'static str, value: impl Into<String>) -> Detail {
    Detail { label, value: value.into() }
}

/// The full name of `item` and what there is to say about it, the most important first.
pub fn describe(scene: Scene<'_>, item: Item, prediction: Option<Prediction>) -> (String, Vec<Detail>) {
    let mut details = vec![detail("time", durations(scene, item))];
    match item {
        Item::Task(node) => task_details(scene, node, prediction, &mut details),
        Item::Operator(id) => operator_details(scene, id, &mut details),
        Item::Added(number) => added_details(scene, number, prediction, &mut details),
    }
    if let Some(lane) = scene.lane_of(item) {
        let times = scene.measured.times(item).or_else(|| scene.simulated.times(item));
        let start = times.map_or(TimeNs(0), |(start, _)| start);
        let place = scene.lane_label(lane.0 as usize);
        details.push(detail("where", format!("{place}, at {}", scene.since_begin(start))));
    }
    (scene.name(item).to_owned(), details)
}

/// What the chosen item is, in one sentence.
pub fn sentence(scene: Scene<'_>, item: Item, prediction: Option<Prediction>) -> String {
    let graph = scene.graph;
    let task = match item {
        Item::Task(node) => graph.tasks.node_weight(node),
        _ => None,
    };
    let operator = match item {
        Item::Task(_) => task.and_then(|task| task.operator),
        Item::Operator(id) => Some(id),
        Item::Added(number) => scene.resolved.added.get(number as usize).and_then(|added| added.operator),
    };
    let operator = operator.and_then(|id| graph.operators.get(id.0 as usize));
    let kind = match (item, task) {
        (Item::Task(node), Some(_)) => kind_name(scene, node),
        (Item::Operator(_), _) => "operator".to_owned(),
        _ => "kernel that an edit adds".to_owned(),
    };
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    let phase = operator.map_or(String::new(), |operator| format!(" of the {} pass", operator.phase.name()));
    let of = operator.and_then(|operator| {
        let module = graph.names.get(operator.module);
        let name = if module.is_empty() { short_name(graph.names.get(operator.name)) } else { module };
        (!name.is_empty()).then(|| format!(", launched for {name}"))
    });
    let shapes = operator.and_then(|operator| graph.operands.get(operator.operands?.0 as usize)).map(shapes);
    let shapes = shapes.filter(|shapes| !shapes.is_empty()).map_or(String::new(), |shapes| format!(" on {shapes}"));
    let source = prediction.map_or(String::new(), |prediction| format!(" ({})", predicted(prediction)));
    let caption = scene.caption(item);
    format!(
        "{caption} is {article} {kind}{phase}{}{shapes}; it takes {}{source}",
        of.unwrap_or_default(),
        durations(scene, item)
    )
}

/// `18.4 µs → 30.1 µs (×1.64)`.
fn durations(scene: Scene<'_>, item: Item) -> String {
    let length = |side| scene.side(side).times(item).map(|(start, end): (TimeNs, TimeNs)| end.since(start));
    match (length(Side::Measured), length(Side::Simulated)) {
        (Some(measured), Some(simulated)) if measured == simulated => format!("{measured} measured and simulated"),
        (Some(measured), Some(simulated)) => {
            let ratio = simulated.0 as f64 / measured.0.max(1) as f64;
            format!("{measured} → {simulated} (×{ratio:.2})")
        }
        (Some(measured), None) => format!("{measured} measured, not in the simulation"),
        (None, Some(simulated)) => format!("{simulated} simulated"),
        (None, None) => "takes no time".to_owned(),
    }
}

fn added_details(scene: Scene<'_>, number: u32, prediction: Option<Prediction>, details: &mut Vec<Detail>) {
    let Some(added) = scene.resolved.added.get(number as usize) else { return };
    if let Some(prediction) = prediction {
        details.push(detail("source", predicted(prediction)));
    }
    details.push(detail("kind", format!("added by the scenario, in place of {} tasks", added.members.len())));
    if let Some(id) = added.operator {
        details.push(detail("operator", call_path(scene.graph, id)));
    }
}

fn task_details(scene: Scene<'_>, node: NodeId, prediction: Option<Prediction>, details: &mut Vec<Detail>) {
    let Some(task) = scene.graph.tasks.node_weight(node) else { return };
    details.push(detail("source", source(scene, task, prediction)));
    let kind = kind_name(scene, node);
    let bytes = scene.resolved.works.carried(scene.graph, node);
    let size = if bytes.0 > 0 { format!("{kind}, {bytes}") } else { kind };
    details.push(detail("kind", size));
    if let Some((id, operator)) = task.operator.and_then(|id| Some((id, scene.graph.operators.get(id.0 as usize)?))) {
        details.push(detail("operator", call_path(scene.graph, id)));
        push_operands(scene.graph, operator, details);
    }
    if let Some(partner) = scene.partner(Item::Task(node)) {
        let name = short_name(scene.name(partner));
        let gap = match (scene.measured.times(Item::Task(node)), scene.measured.times(partner)) {
            (Some(a), Some(b)) => format!(", {} apart", DurNs(a.0.since(b.0).0.abs())),
            _ => String::new(),
        };
        let label = if task.kind.is_device() { "launched by" } else { "launches" };
        details.push(detail(label, format!("{name}{gap}  (enter)")));
    }
}

/// Where the simulated duration comes from.
fn source(scene: Scene<'_>, task: &Task, prediction: Option<Prediction>) -> String {
    let Some(prediction) = prediction else {
        let origin = if scene.graph.is_predicted { "predicted" } else { "measured" };
        return if task.measured == task.duration {
            origin.to_owned()
        } else {
            format!("{origin}, {} of it its own", task.duration)
        };
    };
    predicted(prediction)
}

/// What a cost model is called in a sentence.
pub fn model_name(model: &str) -> &str {
    if model == "structured-unseen" { "shared-parameter" } else { model }
}

fn predicted(prediction: Prediction) -> String {
    let error = f64::from(prediction.error) * 100.0;
    let beyond = if prediction.extrapolated { ", beyond its fitted range" } else { "" };
    match prediction.provenance {
        Provenance::Measured => "measured".to_owned(),
        Provenance::Anchored if prediction.is_by_roofs() => {
            format!("no model covers it: measured × ratio of the roofs of both devices, ±{error:.0} %")
        }
        Provenance::Anchored => {
            format!("measured × {} model's ratio, ±{error:.0} %{beyond}", model_name(prediction.model))
        }
        Provenance::Absolute => format!("{} model alone, ±{error:.0} %{beyond}", model_name(prediction.model)),
        Provenance::Unmodelled => "changed, but no model covers it: measured time kept".to_owned(),
    }
}

fn kind_name(scene: Scene<'_>, node: NodeId) -> String {
    match scene.graph.tasks[node].kind {
        TaskKind::Kernel => format!("{} kernel", scene.resolved.works.family(scene.graph, node).name()),
        TaskKind::Memcpy => "copy".to_owned(),
        TaskKind::Memset => "memset".to_owned(),
        TaskKind::Runtime => "runtime call".to_owned(),
        TaskKind::Compute => "host computation".to_owned(),
        TaskKind::Host(_) => "host time".to_owned(),
        TaskKind::Collective(id) => {
            let collective = scene.graph.collectives.get(id.0 as usize);
            collective.map_or("collective".to_owned(), |collective| {
                let kind = scene.graph.names.get(collective.kind);
                match collective.group_size {
                    0 => kind.to_owned(),
                    ranks => format!("{kind} over {ranks} ranks"),
                }
            })
        }
        TaskKind::Unrecorded => "device work that was not recorded".to_owned(),
        TaskKind::Joint | TaskKind::StepEnd => "marker".to_owned(),
    }
}

fn operator_details(scene: Scene<'_>, id: OperatorId, details: &mut Vec<Detail>) {
    let Some(operator) = scene.graph.operators.get(id.0 as usize) else { return };
    details.push(detail("kind", format!("operator, {}", operator.phase.name())));
    push_operands(scene.graph, operator, details);
    if let Some(parent) = operator.parent {
        details.push(detail("inside", call_path(scene.graph, parent)));
    }
    let inside = operator.subtree_end.0.saturating_sub(id.0 + 1);
    if inside > 0 {
        let operators = if inside == 1 { "operator" } else { "operators" };
        details.push(detail("contains", format!("{inside} {operators}")));
    }
}

fn push_operands(graph: &ExecutionGraph, operator: &Operator, details: &mut Vec<Detail>) {
    if let Some(operands) = operator.operands.and_then(|id| graph.operands.get(id.0 as usize)) {
        let shapes = shapes(operands);
        if !shapes.is_empty() {
            details.push(detail("shapes", shapes));
        }
    }
    let module = graph.names.get(operator.module);
    if !module.is_empty() {
        details.push(detail("module", module));
    }
}

/// `[64,3,224,224] fp32 · [64,3,3,3] fp32`.
fn shapes(operands: &Operands) -> String {
    const MOST: usize = 4;
    let shown = operands.inputs.iter().filter_map(|operand| match operand {
        Operand::Tensor { dims, dtype, .. } => {
            let sizes: Vec<String> = dims.iter().map(u64::to_string).collect();
            let dtype = dtype.map_or("", |dtype| dtype.name());
            Some(format!("[{}] {dtype}", sizes.join(",")).trim_end().to_owned())
        }
        Operand::TensorList(list) => Some(format!("{} tensors", list.len())),
        Operand::Value(_) => None,
    });
    let all: Vec<String> = shown.collect();
    let more = if all.len() > MOST { " …" } else { "" };
    format!("{}{more}", all[..all.len().min(MOST)].join(" · "))
}

/// The operators around `id`, innermost last.
fn call_path(graph: &ExecutionGraph, id: OperatorId) -> String {
    const MOST: usize = 3;
    let parent = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
    let name = |id: OperatorId| {
        graph.operators.get(id.0 as usize).map_or("", |operator| short_name(graph.names.get(operator.name)))
    };
    let mut names: Vec<&str> = std::iter::successors(Some(id), parent).take(MOST).map(name).collect();
    names.reverse();
    names.join(" › ")
}
