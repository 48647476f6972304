//! Expression → the tasks it selects: what depends on names or operators is decided once per name or operator.

use crate::graph::{ExecutionGraph, HostPart, LaneKind, NodeId, Operator, TaskKind};
use crate::intern::NameId;
use crate::scenario::base::Base;
use crate::scenario::draft::Draft;

use super::field::Field;
use super::parse::{Expression, Test};

/// The selected tasks in order; joints and markers never are.
pub(super) fn select(expression: &Expression, base: &Base, draft: Option<&Draft<'_>>) -> Vec<NodeId> {
    let graph: &ExecutionGraph = base.graph();
    let compiled = compile(expression, base);
    let there =
        |node: &NodeId| graph.tasks[*node].kind.is_work() && !draft.is_some_and(|draft| draft.is_removed(*node));
    graph.tasks.node_indices().filter(there).filter(|&node| holds(&compiled, base, draft, node)).collect()
}

/// An expression with its tests on names, lanes and operators already decided.
enum Compiled {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Everything,
    Predicted,
    /// By name of the task itself, or by its operator.
    Named(Vec<bool>, Vec<bool>),
    /// By operator only.
    Operator(Vec<bool>),
    /// By name, device work only.
    Kernel(Vec<bool>),
    Lane(Vec<bool>),
    Kind(String),
    Family(String),
    Number(Field, Test),
}

fn compile(expression: &Expression, base: &Base) -> Compiled {
    let graph: &ExecutionGraph = base.graph();
    let each = |parts: &[Expression]| parts.iter().map(|part| compile(part, base)).collect();
    match expression {
        Expression::All(parts) => Compiled::All(each(parts)),
        Expression::Any(parts) => Compiled::Any(each(parts)),
        Expression::Not(part) => Compiled::Not(Box::new(compile(part, base))),
        Expression::Everything => Compiled::Everything,
        Expression::Predicted => Compiled::Predicted,
        Expression::Term(field, test) => term(*field, test, graph),
    }
}

fn term(field: Field, test: &Test, graph: &ExecutionGraph) -> Compiled {
    let by_name = || -> Vec<bool> { graph.names.iter().map(|(_, name)| matches(test, name)).collect() };
    match (field, test) {
        (Field::Name, _) => {
            let names = by_name();
            let operators = inherited(graph, |operator| at(&names, operator.name));
            Compiled::Named(names, operators)
        }
        (Field::Kernel, _) => Compiled::Kernel(by_name()),
        (Field::Module, _) => {
            let names = by_name();
            Compiled::Operator(inherited(graph, |operator| operator.module != NameId(0) && at(&names, operator.module)))
        }
        (Field::Phase, _) => {
            Compiled::Operator(graph.operators.iter().map(|operator| matches(test, operator.phase.name())).collect())
        }
        (Field::Dtype, _) => Compiled::Operator(dtypes(graph, test)),
        (Field::Rank | Field::Device | Field::Stream | Field::Thread, _) => Compiled::Lane(lanes(field, test, graph)),
        (Field::Kind, Test::Is(kind)) => Compiled::Kind(kind.clone()),
        (Field::Family, Test::Is(family)) => Compiled::Family(family.clone()),
        _ => Compiled::Number(field, test.clone()),
    }
}

fn at(table: &[bool], name: NameId) -> bool {
    table.get(name.0 as usize).copied().unwrap_or(false)
}

fn matches(test: &Test, text: &str) -> bool {
    match test {
        Test::Is(wanted) => text.to_lowercase() == *wanted,
        Test::Like(regex) => regex.is_match(text),
        Test::Number(comparison, bound) => text.parse().is_ok_and(|value: f64| comparison.holds(value, *bound)),
    }
}

/// For each operator, whether it or one around it is `chosen`.
fn inherited(graph: &ExecutionGraph, chosen: impl Fn(&Operator) -> bool) -> Vec<bool> {
    let mut all: Vec<bool> = Vec::with_capacity(graph.operators.len());
    for operator in &graph.operators {
        let outer = operator.parent.is_some_and(|parent| all.get(parent.0 as usize) == Some(&true));
        all.push(outer || chosen(operator));
    }
    all
}

/// For each operator, whether its arguments (else those of the one around it) are of a type.
fn dtypes(graph: &ExecutionGraph, test: &Test) -> Vec<bool> {
    let mut all: Vec<bool> = Vec::with_capacity(graph.operators.len());
    for operator in &graph.operators {
        let own = operator.operands.and_then(|id| graph.operands.get(id.0 as usize)?.dtype());
        let outer = || operator.parent.is_some_and(|parent| all.get(parent.0 as usize) == Some(&true));
        let is = own.map_or_else(outer, |dtype| matches(test, dtype.name()));
        all.push(is);
    }
    all
}

fn lanes(field: Field, test: &Test, graph: &ExecutionGraph) -> Vec<bool> {
    let recorded = |lane: &crate::graph::Lane| {
        let part = graph.ranks.iter().find(|part| part.rank == lane.rank)?;
        part.device.as_ref().map(|device| device.name.as_str())
    };
    let lane_matches = |lane: &crate::graph::Lane| match (field, lane.kind) {
        (Field::Rank, _) => matches(test, &lane.rank.0.to_string()),
        (Field::Stream, LaneKind::Stream { stream, .. }) => matches(test, &stream.to_string()),
        (Field::Device, LaneKind::Stream { device, .. }) => {
            matches(test, &device.to_string()) || recorded(lane).is_some_and(|name| matches(test, name))
        }
        (Field::Thread, LaneKind::Thread { tid }) => {
            matches(test, &tid.to_string()) || matches(test, graph.names.get(lane.name))
        }
        _ => false,
    };
    graph.lanes.iter().map(lane_matches).collect()
}

fn holds(compiled: &Compiled, base: &Base, draft: Option<&Draft<'_>>, node: NodeId) -> bool {
    let task = &base.graph().tasks[node];
    let by_operator =
        |table: &[bool]| task.operator.is_some_and(|operator| table.get(operator.0 as usize) == Some(&true));
    match compiled {
        Compiled::All(parts) => parts.iter().all(|part| holds(part, base, draft, node)),
        Compiled::Any(parts) => parts.iter().any(|part| holds(part, base, draft, node)),
        Compiled::Not(part) => !holds(part, base, draft, node),
        Compiled::Everything => true,
        Compiled::Predicted => draft.is_some_and(|draft| draft.is_touched(node)),
        Compiled::Named(names, operators) => at(names, task.name) || by_operator(operators),
        Compiled::Operator(table) => by_operator(table),
        Compiled::Kernel(names) => task.kind.is_device() && at(names, task.name),
        Compiled::Lane(table) => table.get(task.lane.0 as usize) == Some(&true),
        Compiled::Kind(kind) => is_kind(task.kind, task.operator.is_some(), kind),
        Compiled::Family(family) => {
            let now = draft.map_or_else(|| base.family(node), |draft| draft.family(node));
            now.is_some_and(|now| now.name() == family)
        }
        Compiled::Number(Field::Dur, test) => number(test, task.measured.0 as f64),
        Compiled::Number(Field::Bytes, test) => {
            let work = draft.map_or_else(|| base.work(node), |draft| draft.work(node));
            let bytes = if task.bytes.0 > 0 { task.bytes.0 } else { work.map_or(0, |work| work.bytes().0) };
            task.kind.is_device() && number(test, bytes as f64)
        }
        Compiled::Number(..) => false,
    }
}

fn number(test: &Test, value: f64) -> bool {
    matches!(test, Test::Number(comparison, bound) if comparison.holds(value, *bound))
}

/// # Arguments
/// `kind`: in lower case.
fn is_kind(task: TaskKind, in_operator: bool, kind: &str) -> bool {
    use HostPart::{AfterLaunch, BeforeLaunch, Between, Inside};
    match kind {
        "op" => matches!(task, TaskKind::Host(_) | TaskKind::Compute) && in_operator,
        "host" => matches!(task, TaskKind::Host(_)),
        "compute" => task == TaskKind::Compute,
        "runtime" | "t4" => task == TaskKind::Runtime,
        "kernel" => task == TaskKind::Kernel,
        "memcpy" => task == TaskKind::Memcpy,
        "memset" => task == TaskKind::Memset,
        "collective" => matches!(task, TaskKind::Collective(_)),
        "device" => task.is_device(),
        "t1" => task == TaskKind::Host(Between),
        "t2" => task == TaskKind::Host(BeforeLaunch),
        "t3" => task == TaskKind::Host(AfterLaunch),
        "t5" => task == TaskKind::Host(Inside),
        _ => false,
    }
}
