//! Expression → the tasks it selects: what depends on names or operators is decided once per name or operator.

use rayon::prelude::*;

use crate::cost::Family;
use crate::graph::{ExecutionGraph, HostPart, LaneId, LaneKind, NodeId, Operator, OperatorId, Phase, TaskKind};
use crate::intern::NameId;
use crate::scenario::base::Base;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::inputs::{is_input, is_traced_input};

use super::field::Field;
use super::parse::{Expression, Test};

/// Fewer tasks than this are not worth another core.
const LEAST: usize = 1 << 14;

/// The selected traced tasks of an untouched graph in order; joints and markers never are.
pub(super) fn select(expression: &Expression, base: &Base) -> Vec<NodeId> {
    let compiled = compile(expression, base, None);
    traced(&compiled, base, None).collect()
}

/// The selected tasks of a draft that are there: traced ones, then those that edits added, in order.
pub(super) fn select_all(expression: &Expression, draft: &Draft<'_>) -> Vec<Node> {
    let compiled = compile(expression, draft.base(), Some(draft));
    let mut chosen: Vec<Node> = traced(&compiled, draft.base(), Some(draft)).map(Node::Traced).collect();
    let works = |node: &Node| draft.kind_of(*node).is_work();
    let added = draft.added_nodes().filter(works).filter(|&node| holds(&compiled, &Subject::added(draft, node)));
    chosen.extend(added);
    chosen
}

fn traced<'a>(
    compiled: &'a Compiled,
    base: &'a Base,
    draft: Option<&'a Draft<'a>>,
) -> impl ParallelIterator<Item = NodeId> {
    let graph: &ExecutionGraph = base.graph();
    let is_there =
        move |node: NodeId| graph.tasks[node].kind.is_work() && !draft.is_some_and(|draft| draft.is_removed(node));
    let nodes = (0..graph.tasks.node_count()).into_par_iter().with_min_len(LEAST).map(NodeId::new);
    nodes.filter(move |&node| is_there(node) && holds(compiled, &Subject::traced(base, draft, node)))
}

/// Whether a term on ranks holds for one of two and not for the other.
pub(super) fn tells_apart(expression: &Expression, a: u32, b: u32) -> bool {
    let any = |parts: &[Expression]| parts.iter().any(|part| tells_apart(part, a, b));
    match expression {
        Expression::All(parts) | Expression::Any(parts) => any(parts),
        Expression::Not(part) => tells_apart(part, a, b),
        Expression::Term(Field::Rank, test) => matches(test, &a.to_string()) != matches(test, &b.to_string()),
        Expression::Term(..) | Expression::Everything | Expression::Predicted => false,
    }
}

/// A task that is held against an expression.
struct Subject<'a> {
    node: Node,
    kind: TaskKind,
    operator: Option<OperatorId>,
    name: Name<'a>,
    /// The operator whose task it is where an edit added that beside a traced one, or put it in the place of that, and that one.
    caller: Option<(&'a str, Option<OperatorId>)>,
    base: &'a Base,
    draft: Option<&'a Draft<'a>>,
}

/// A task's name: one of the trace's, or its own.
enum Name<'a> {
    Traced(NameId),
    Own(&'a str),
}

impl<'a> Subject<'a> {
    fn traced(base: &'a Base, draft: Option<&'a Draft<'a>>, node: NodeId) -> Self {
        let task = &base.graph().tasks[node];
        let (node, name) = (Node::Traced(node), Name::Traced(task.name));
        let caller = draft.and_then(|draft| draft.replaced_by(node)).map(|(caller, place)| (caller, Some(place)));
        Self { node, kind: task.kind, operator: task.operator, name, caller, base, draft }
    }

    fn added(draft: &'a Draft<'a>, node: Node) -> Self {
        let (kind, operator) = (draft.kind_of(node), draft.operator_of(node));
        let caller = draft.caller_of(node).map(|caller| (caller, operator));
        let name = Name::Own(draft.name_of(node));
        Self { node, kind, operator, name, caller, base: draft.base(), draft: Some(draft) }
    }

    fn is_called(&self, names: &[bool], test: &Test) -> bool {
        match self.name {
            // Host work is called as its operator is, in whose place another one is now.
            Name::Traced(_) if self.caller.is_some() && !self.kind.is_device() => false,
            Name::Traced(name) => at(names, name),
            Name::Own(name) => matches(test, name),
        }
    }

    /// Whether it is of an operator by name: one of an edit is beside the traced operator or in its place, within those around that.
    fn is_of(&self, operators: &[bool], test: &Test) -> bool {
        let is = |id: OperatorId| operators.get(id.0 as usize) == Some(&true);
        match self.caller {
            None => self.operator.is_some_and(is),
            Some((caller, place)) => {
                let parent = |id: OperatorId| self.base.graph().operators.get(id.0 as usize)?.parent;
                matches(test, caller) || place.and_then(parent).is_some_and(is)
            }
        }
    }

    fn lane(&self) -> Option<LaneId> {
        match (self.draft, self.node) {
            (Some(draft), node) => Some(draft.lane_of(node)),
            (None, Node::Traced(node)) => Some(self.base.graph().tasks[node].lane),
            (None, Node::Added(_)) => None,
        }
    }

    fn family(&self) -> Option<Family> {
        match (self.draft, self.node) {
            (Some(draft), node) => draft.family_of(node),
            (None, Node::Traced(node)) => self.base.family(node),
            (None, Node::Added(_)) => None,
        }
    }

    fn bytes(&self) -> u64 {
        let (work, own) = match (self.draft, self.node) {
            (Some(draft), node) => (draft.work_of(node), draft.bytes_of(node).0),
            (None, Node::Traced(node)) => (self.base.work(node), self.base.graph().tasks[node].bytes.0),
            (None, Node::Added(_)) => (None, 0),
        };
        if own > 0 { own } else { work.map_or(0, |work| work.bytes().0) }
    }

    fn is_input(&self) -> bool {
        match (self.draft, self.node) {
            (Some(draft), node) => is_input(self.kind, draft.work_of(node), draft.bytes_of(node)),
            (None, Node::Traced(node)) => is_traced_input(self.base, node),
            (None, Node::Added(_)) => false,
        }
    }

    /// The traced duration; of an added task what it takes.
    fn duration(&self) -> f64 {
        match (self.node, self.draft) {
            (Node::Traced(node), _) => self.base.graph().tasks[node].measured.0 as f64,
            (node, Some(draft)) => draft.price_of(node).duration.0 as f64,
            (Node::Added(_), None) => 0.0,
        }
    }

    fn is_predicted(&self) -> bool {
        match self.node {
            Node::Traced(node) => {
                self.base.graph().is_predicted || self.draft.is_some_and(|draft| draft.is_touched(node))
            }
            Node::Added(_) => true,
        }
    }
}

/// An expression with its tests on names, lanes and operators already decided.
enum Compiled {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Everything,
    Predicted,
    /// By name of the task itself, or by its operator.
    Named(Vec<bool>, Vec<bool>, Test),
    /// By operator only.
    Operator(Vec<bool>),
    /// By the part of training of its operator; outside of operators by the name of the annotation around host time, and,
    /// where it is asked for, input that is copied.
    Phase {
        operators: Vec<bool>,
        names: Vec<bool>,
        inputs: bool,
    },
    /// By name, device work only.
    Kernel(Vec<bool>, Test),
    Lane(Vec<bool>),
    Kind(fn(TaskKind, bool) -> bool),
    Family(Option<Family>),
    Number(Field, Test),
}

fn compile(expression: &Expression, base: &Base, draft: Option<&Draft<'_>>) -> Compiled {
    let each = |parts: &[Expression]| parts.iter().map(|part| compile(part, base, draft)).collect();
    match expression {
        Expression::All(parts) => Compiled::All(each(parts)),
        Expression::Any(parts) => Compiled::Any(each(parts)),
        Expression::Not(part) => Compiled::Not(Box::new(compile(part, base, draft))),
        Expression::Everything => Compiled::Everything,
        Expression::Predicted => Compiled::Predicted,
        Expression::Term(field, test) => term(*field, test, base, draft),
    }
}

fn term(field: Field, test: &Test, base: &Base, draft: Option<&Draft<'_>>) -> Compiled {
    let graph: &ExecutionGraph = base.graph();
    let by_name = || -> Vec<bool> { graph.names.iter().map(|(_, name)| matches(test, name)).collect() };
    match (field, test) {
        (Field::Name, _) => {
            let names = by_name();
            let operators = inherited(base, |operator| at(&names, operator.name));
            Compiled::Named(names, operators, test.clone())
        }
        (Field::Kernel, _) => Compiled::Kernel(by_name(), test.clone()),
        (Field::Module, _) => {
            let names = by_name();
            Compiled::Operator(inherited(base, |operator| operator.module != NameId(0) && at(&names, operator.module)))
        }
        (Field::Phase, _) => phase(test, base),
        (Field::Dtype, _) => Compiled::Operator(dtypes(graph, test)),
        (Field::Rank | Field::Device | Field::Stream | Field::Thread, _) => {
            Compiled::Lane(lanes(field, test, graph, draft))
        }
        (Field::Kind, Test::Is(kind)) => Compiled::Kind(of_kind(kind)),
        (Field::Family, Test::Is(name)) => {
            Compiled::Family(Family::ALL.into_iter().find(|family| family.name() == name))
        }
        _ => Compiled::Number(field, test.clone()),
    }
}

/// Only data loading takes host time outside of operators that belongs to one part of training.
fn phase(test: &Test, base: &Base) -> Compiled {
    let graph = base.graph();
    let chosen = Phase::ALL.map(|phase| matches(test, phase.name()));
    let operators = base.phases().iter().map(|&phase| chosen[phase as usize]).collect();
    let inputs = matches(test, Phase::Data.name());
    let loads = |name: &str| inputs && Phase::of_annotation(name) == Some(Phase::Data);
    Compiled::Phase { operators, names: graph.names.iter().map(|(_, name)| loads(name)).collect(), inputs }
}

/// Whether a term of `expression`, none that is denied, is about `name`.
pub(super) fn asks_for(expression: &Expression, name: &str) -> bool {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => parts.iter().any(|part| asks_for(part, name)),
        Expression::Term(Field::Name, test) => matches(test, name),
        Expression::Not(_) | Expression::Everything | Expression::Predicted | Expression::Term(..) => false,
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

/// For each operator, whether it or one around it is `chosen`. The first of the framework's nodes of the backward pass that needs what a part
/// of the forward pass gave runs that again, and is not around it; a node of the user's own is around all that it does.
fn inherited(base: &Base, chosen: impl Fn(&Operator) -> bool) -> Vec<bool> {
    let graph: &ExecutionGraph = base.graph();
    let of = |id: OperatorId| &graph.operators[id.0 as usize];
    let mut all: Vec<bool> = Vec::with_capacity(graph.operators.len());
    for (id, operator) in (0..).map(OperatorId).zip(&graph.operators) {
        let runs_again = operator.phase == Phase::Backward && base.recomputed().begins_again(graph, id);
        let mut outer = operator.parent;
        let is_own = |node: OperatorId| graph.names.get(of(node).name).ends_with(|last: char| last.is_ascii_digit());
        while let Some(node) = outer.filter(|&node| runs_again && of(node).phase == Phase::Backward && is_own(node)) {
            outer = of(node).parent;
        }
        all.push(chosen(operator) || outer.is_some_and(|outer| all.get(outer.0 as usize) == Some(&true)));
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

fn lanes(field: Field, test: &Test, graph: &ExecutionGraph, draft: Option<&Draft<'_>>) -> Vec<bool> {
    let recorded = |lane: &crate::graph::Lane| {
        let part = graph.part_of(lane.rank)?;
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
    let added = draft.map(|draft| draft.structure.lanes.iter().map(|(lane, _)| lane)).into_iter().flatten();
    graph.lanes.iter().chain(added).map(lane_matches).collect()
}

fn holds(compiled: &Compiled, subject: &Subject<'_>) -> bool {
    let by_operator =
        |table: &[bool]| subject.operator.is_some_and(|operator| table.get(operator.0 as usize) == Some(&true));
    match compiled {
        Compiled::All(parts) => parts.iter().all(|part| holds(part, subject)),
        Compiled::Any(parts) => parts.iter().any(|part| holds(part, subject)),
        Compiled::Not(part) => !holds(part, subject),
        Compiled::Everything => true,
        Compiled::Predicted => subject.is_predicted(),
        Compiled::Named(names, operators, test) => subject.is_called(names, test) || subject.is_of(operators, test),
        Compiled::Operator(table) => by_operator(table),
        Compiled::Phase { operators, names, inputs } => match (subject.operator, &subject.name) {
            (Some(_), _) => by_operator(operators),
            (None, Name::Traced(name)) if matches!(subject.kind, TaskKind::Host(_)) => at(names, *name),
            (None, _) => *inputs && subject.is_input(),
        },
        Compiled::Kernel(names, test) => subject.kind.is_device() && subject.is_called(names, test),
        Compiled::Lane(table) => subject.lane().is_some_and(|lane| table.get(lane.0 as usize) == Some(&true)),
        Compiled::Kind(is_kind) => is_kind(subject.kind, subject.operator.is_some()),
        Compiled::Family(family) => family.is_some() && subject.family() == *family,
        Compiled::Number(Field::Dur, test) => number(test, subject.duration()),
        Compiled::Number(Field::Bytes, test) => subject.kind.is_device() && number(test, subject.bytes() as f64),
        Compiled::Number(..) => false,
    }
}

fn number(test: &Test, value: f64) -> bool {
    matches!(test, Test::Number(comparison, bound) if comparison.holds(value, *bound))
}

/// Whether a task, which an operator did or not, is of `kind`, which is in lower case.
fn of_kind(kind: &str) -> fn(TaskKind, bool) -> bool {
    use HostPart::{AfterLaunch, BeforeLaunch, Between, Inside};
    match kind {
        "op" => |_, in_operator| in_operator,
        "host" => |task, _| matches!(task, TaskKind::Host(_)),
        "compute" => |task, _| task == TaskKind::Compute,
        "runtime" | "t4" => |task, _| task == TaskKind::Runtime,
        "kernel" => |task, _| matches!(task, TaskKind::Kernel | TaskKind::Unrecorded),
        "unrecorded" => |task, _| task == TaskKind::Unrecorded,
        "memcpy" => |task, _| task == TaskKind::Memcpy,
        "memset" => |task, _| task == TaskKind::Memset,
        "collective" => |task, _| matches!(task, TaskKind::Collective(_)),
        "device" => |task, _| task.is_device(),
        "t1" => |task, _| task == TaskKind::Host(Between),
        "t2" => |task, _| task == TaskKind::Host(BeforeLaunch),
        "t3" => |task, _| task == TaskKind::Host(AfterLaunch),
        "t5" => |task, _| task == TaskKind::Host(Inside),
        _ => |_, _| false,
    }
}
