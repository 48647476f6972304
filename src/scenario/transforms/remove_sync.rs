//! `remove-sync [SELECTOR]`: host waits that no data needs go.

use std::sync::Arc;

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;

use crate::cost::{Route, Shape};
use crate::graph::{DependencyKind, NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::Words;
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

use super::report::count;

/// Lets the host go on where it waited for the device without needing a result.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoveSync {
    /// Which waiting calls; all without one.
    pub selector: Option<Selector>,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "remove-sync",
    usage: "remove-sync [SELECTOR]",
    help: "lets the host go on where it waited for the device and no copy to the host needs it",
    example: "remove-sync name~DeviceSynchronize",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let rest = words.rest();
    let selector = (!rest.text.is_empty()).then(|| Selector::parse_at(rest.text, rest.column)).transpose()?;
    Ok(Arc::new(RemoveSync { selector }))
}

impl Transform for RemoveSync {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        self.selector.iter().collect()
    }

    fn line(&self) -> String {
        self.selector.as_ref().map_or_else(|| SPEC.name.to_owned(), |selector| format!("{} {selector}", SPEC.name))
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        let chosen = self.selector.as_ref().map(|selector| selector.select_in(draft));
        let is_chosen = |call: NodeId| chosen.as_ref().is_none_or(|chosen| chosen.binary_search(&call).is_ok());
        let (mut edges, mut waits, mut needed) = (Vec::new(), 0, 0);
        for joint in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Joint) {
            let call = graph.tasks.edges_directed(joint, Incoming).find(|edge| {
                edge.weight().kind == DependencyKind::Program && graph.tasks[edge.source()].kind == TaskKind::Runtime
            });
            let Some(call) = call.map(|edge| edge.source()).filter(|&call| is_chosen(call)) else { continue };
            let is_wait = |kind| matches!(kind, DependencyKind::HostWait | DependencyKind::HiddenWait);
            let into: Vec<_> =
                graph.tasks.edges_directed(joint, Incoming).filter(|e| is_wait(e.weight().kind)).collect();
            let (data, idle): (Vec<_>, Vec<_>) =
                into.into_iter().partition(|edge| gives_data(draft, edge.source(), call));
            needed += usize::from(!data.is_empty());
            waits += usize::from(!idle.is_empty());
            edges.extend(idle.iter().map(EdgeRef::id));
        }
        for edge in edges {
            draft.cut(edge);
        }
        if waits == 0 {
            return StepReport::nothing(format!("no wait without need found; {needed} wait for a copy to the host"));
        }
        let mut report =
            StepReport { changed: waits, summary: format!("{} gone", count(waits, "wait")), ..StepReport::default() };
        if needed > 0 {
            report.unhandled.push(format!("{} stay: they wait for a copy to the host", count(needed, "wait")));
        }
        report
    }
}

/// Whether the host waits for data: a copy to the host, or a copying call for its own copy.
fn gives_data(draft: &Draft<'_>, work: NodeId, call: NodeId) -> bool {
    let to_host =
        matches!(draft.base().work(work).map(|work| &work.shape), Some(Shape::Copy { route: Route::DeviceToHost }));
    to_host || draft.graph().launch_of(work) == Some(call)
}
