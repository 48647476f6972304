//! `insert kernel NAME TIME after SELECTOR`: a kernel that was not there, with its launch.

use std::sync::Arc;

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::visit::EdgeRef;

use crate::cost::{Prediction, Provenance};
use crate::graph::{Dependency, DependencyKind, NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Added, Draft, Node};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::{Bytes, DurNs};

use super::report::count;

/// Adds a kernel after each selected one, on its stream, launched right after it.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertKernel {
    /// Its name.
    pub kernel: String,
    /// Its time.
    pub duration: DurNs,
    /// The kernels after which it runs.
    pub after: Selector,
    written: String,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "insert",
    usage: "insert kernel NAME TIME after SELECTOR",
    help: "adds a kernel of a given time after each selected one, with a launch like that one's",
    example: "insert kernel my_kernel 35us after name~addmm & kind=kernel",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let what = words.expect("`kernel`")?;
    if what.text != "kernel" {
        return Err(StepError::unknown(what.column, "thing to insert", what.text, ["kernel"]));
    }
    let kernel = words.expect("the kernel's name")?.text.to_owned();
    let time = words.expect("its time, e.g. 35us")?;
    let duration = duration(time)?;
    let keyword = words.expect("`after`")?;
    if keyword.text != "after" {
        return Err(StepError::at(keyword.column, format!("`{}`: expected `after`", keyword.text)));
    }
    let rest = words.rest();
    let after = Selector::parse_at(rest.text, rest.column)?;
    Ok(Arc::new(InsertKernel { kernel, duration, after, written: time.text.to_owned() }))
}

/// A time with its unit.
fn duration(word: Word<'_>) -> Result<DurNs, StepError> {
    let split = word.text.find(|c: char| c.is_alphabetic()).unwrap_or(word.text.len());
    let (digits, unit) = word.text.split_at(split);
    let factor = match unit {
        "ns" => Some(1.0),
        "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    };
    match (digits.parse::<f64>(), factor) {
        (Ok(value), Some(factor)) if (0.0..=1e13).contains(&(value * factor)) => {
            Ok(DurNs((value * factor).round() as i64))
        }
        _ => Err(StepError::at(word.column, format!("`{}`: expected a time with its unit, e.g. 35us", word.text))),
    }
}

impl Transform for InsertKernel {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn line(&self) -> String {
        format!("{} kernel {} {} after {}", SPEC.name, self.kernel, self.written, self.after)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        let device = |&node: &NodeId| graph.tasks[node].kind.is_device();
        let places: Vec<NodeId> = self.after.select_in(draft).into_iter().filter(device).collect();
        if places.is_empty() {
            return StepReport::nothing(format!("no device work matches {}", self.after));
        }
        for &node in &places {
            self.insert(draft, node);
        }
        let summary = format!("{} of {} inserted", count(places.len(), "kernel"), self.duration);
        StepReport { changed: places.len(), summary, ..StepReport::default() }
    }
}

impl InsertKernel {
    fn insert(&self, draft: &mut Draft<'_>, node: NodeId) {
        let graph = draft.graph();
        let given = Prediction {
            duration: self.duration,
            provenance: Provenance::Absolute,
            model: "given",
            error: 0.0,
            extrapolated: false,
        };
        let kernel = Node::Added(draft.add(added(draft, self.kernel.clone(), TaskKind::Kernel, node, given)));
        // What followed on the stream follows the new kernel, at the same distance.
        let mut gap = DurNs::ZERO;
        for edge in graph.tasks.edges_directed(node, Outgoing) {
            let dependency = *edge.weight();
            if matches!(dependency.kind, DependencyKind::Stream | DependencyKind::HostWait | DependencyKind::StepEnd) {
                draft.cut(edge.id());
                draft.connect(kernel, Node::Traced(edge.target()), dependency);
            }
            if dependency.kind == DependencyKind::Stream {
                gap = dependency.lag;
            }
        }
        draft.connect(Node::Traced(node), kernel, Dependency::on_end(DependencyKind::Stream, gap));
        let launch =
            graph.tasks.edges_directed(node, Incoming).find(|edge| edge.weight().kind == DependencyKind::Launch);
        let Some(launch) = launch else { return };
        let (call, lag) = (launch.source(), *launch.weight());
        if graph.tasks[call].kind != TaskKind::Runtime {
            return;
        }
        let own = draft.price(call);
        let name = graph.names.get(graph.tasks[call].name).to_owned();
        let again = Node::Added(draft.add(added(draft, name, TaskKind::Runtime, call, own)));
        for edge in graph.tasks.edges_directed(call, Outgoing).filter(|e| e.weight().kind == DependencyKind::Program) {
            draft.cut(edge.id());
            draft.connect(again, Node::Traced(edge.target()), *edge.weight());
        }
        draft.connect(Node::Traced(call), again, Dependency::on_end(DependencyKind::Program, DurNs::ZERO));
        draft.connect(again, kernel, lag);
    }
}

fn added(draft: &Draft<'_>, name: String, kind: TaskKind, beside: NodeId, prediction: Prediction) -> Added {
    let task = &draft.graph().tasks[beside];
    Added {
        name,
        kind,
        lane: task.lane,
        operator: task.operator,
        bytes: Bytes(0),
        work: None,
        prediction,
        members: Vec::new(),
        planned: None,
        after: beside,
    }
}
