//! The kernels that operators of a draft would launch on a GPU.

use crate::cost::{Caller, PlannedKernel, Provenance, Work, planned_kernels};
use crate::graph::{OperatorId, TaskKind};

use super::{AddedId, Draft, Node, Source};

/// The kernels of operator `id` with its arguments as they are now; `None` when its work is not known.
fn kernels_of(draft: &Draft<'_>, id: OperatorId) -> Option<Vec<PlannedKernel>> {
    let graph = draft.graph();
    let operator = graph.operators.get(id.0 as usize)?;
    let caller = |id: OperatorId| Caller {
        operator: graph.operators.get(id.0 as usize).map_or("", |operator| graph.names.get(operator.name)),
        operands: draft.operands(id),
    };
    planned_kernels(caller(id), operator.forward.map(caller), operator.phase)
}

/// Makes the work and time of added tasks follow the operators and tasks that they come from.
pub(super) fn follow_operands(draft: &mut Draft<'_>) {
    for at in 0..draft.added().len() {
        let (source, node) = (draft.added()[at].source.clone(), Node::Added(AddedId(at as u32)));
        let Some(work) = followed(draft, at, &source).filter(|work| draft.work_of(node) != Some(work)) else {
            continue;
        };
        // What was never measured is predicted anew; what was takes the ratio.
        let was_measured = draft.price_of(node).provenance == Provenance::Measured;
        let is_planned = match source {
            Source::Planned(_) | Source::Cast(_) => true,
            Source::Like(..) => !was_measured,
            Source::Given | Source::Repeats(_) | Source::Merges(..) => false,
        };
        let absolute = if is_planned { draft.price_new(&work, draft.rank_of(draft.lane_of(node))) } else { None };
        draft.set_work_of(node, work);
        if let Some(prediction) = absolute {
            draft.set_price(node, prediction);
        }
    }
}

fn followed(draft: &Draft<'_>, at: usize, source: &Source) -> Option<Work> {
    let added = &draft.added()[at];
    match *source {
        Source::Planned(number) if added.kind == TaskKind::Kernel => {
            Some(kernels_of(draft, added.operator?)?.into_iter().nth(number as usize)?.work)
        }
        Source::Like(ref operator, id, number) => {
            let caller = Caller { operator, operands: draft.operands(id) };
            let phase = draft.graph().operators.get(id.0 as usize)?.phase;
            Some(planned_kernels(caller, None, phase)?.into_iter().nth(number as usize)?.work)
        }
        _ => draft.followed(source),
    }
}
