//! `remove-sync [SELECTOR]`: host waits that no data needs go.

use std::sync::Arc;

use crate::cost::{Route, Shape};
use crate::graph::{DependencyKind, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, DraftEdge, Node, NodeSet};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};

use super::report::{OVERLAP_DOUBT, count};

/// Lets the host go on where it waited for the device without needing a result.
#[derive(Clone, Debug, PartialEq)]
struct RemoveSync {
    /// Which waiting calls; all without one.
    selector: Option<Selector>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "remove-sync",
    help: "lets the host go on where it waited for the device and no copy to the host needs it",
    example: "remove-sync name~DeviceSynchronize",
    forms: &[Form {
        arguments: &[Argument::selector().optional()],
        build: |given| Some(Arc::new(RemoveSync { selector: given.get(0)? })),
    }],
    knobs: &[],
};

impl Transform for RemoveSync {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let chosen: Option<NodeSet> =
            self.selector.as_ref().map(|selector| selector.select_all(draft).into_iter().collect());
        let joints: Vec<Node> = draft.nodes().filter(|&node| draft.kind_of(node) == TaskKind::Joint).collect();
        let (mut waits, mut needed) = (0, 0);
        for joint in joints {
            let into = draft.edges_into(joint).collect::<Vec<_>>();
            let is_call = |edge: &&DraftEdge| {
                edge.kind() == DependencyKind::Program && draft.kind_of(edge.from) == TaskKind::Runtime
            };
            let Some(call) = into.iter().find(is_call).map(|edge| edge.from) else { continue };
            if chosen.as_ref().is_some_and(|chosen| !chosen.contains(call)) {
                continue;
            }
            let is_wait =
                |edge: &&DraftEdge| matches!(edge.kind(), DependencyKind::HostWait | DependencyKind::HiddenWait);
            let (data, idle): (Vec<&DraftEdge>, Vec<&DraftEdge>) =
                into.iter().filter(is_wait).partition(|edge| gives_data(draft, edge.from, call));
            needed += usize::from(!data.is_empty());
            waits += usize::from(!idle.is_empty());
            for edge in idle {
                draft.disconnect(edge);
            }
        }
        if waits == 0 {
            return StepReport::nothing(format!("no wait without need found; {needed} wait for a copy to the host"));
        }
        let mut report =
            StepReport { changed: waits, summary: format!("{} gone", count(waits, "wait")), ..StepReport::default() };
        report.say(Effect::assumed("what then runs beside other work keeps its time", OVERLAP_DOUBT));
        if needed > 0 {
            report.say(Effect::note(format!("{} stay: they wait for a copy to the host", count(needed, "wait"))));
        }
        report
    }
}

/// Whether the host waits for data: a copy to the host, or a copying call for its own copy.
fn gives_data(draft: &mut Draft<'_>, work: Node, call: Node) -> bool {
    let shape = draft.work_of(work).map(|work| &work.shape);
    matches!(shape, Some(Shape::Copy { route: Route::DeviceToHost, .. })) || draft.call_of(work) == Some(call)
}
