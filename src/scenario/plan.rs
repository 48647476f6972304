//! The kernels that operators of a draft would launch on a GPU.

use crate::cost::{Caller, PlannedKernel, Work, planned_kernels};
use crate::graph::{OperatorId, TaskKind};

use super::draft::Draft;

/// The kernels of operator `id` with its arguments as they are now; `None` when its work is not known.
pub(super) fn kernels_of(draft: &Draft<'_>, id: OperatorId) -> Option<Vec<PlannedKernel>> {
    let graph = draft.graph();
    let operator = graph.operators.get(id.0 as usize)?;
    let caller = |id: OperatorId| Caller {
        operator: graph.operators.get(id.0 as usize).map_or("", |operator| graph.names.get(operator.name)),
        operands: draft.operands(id),
    };
    planned_kernels(caller(id), operator.forward.map(caller), operator.phase)
}

/// Makes the work and time of added kernels follow their operators' arguments.
pub(super) fn follow_operands(draft: &mut Draft<'_>) {
    let renewed: Vec<(usize, Work)> = draft
        .added()
        .iter()
        .enumerate()
        .filter_map(|(at, added)| {
            let kernel = added.planned.filter(|_| added.kind == TaskKind::Kernel)?;
            let work = kernels_of(draft, added.operator?)?.into_iter().nth(kernel as usize)?.work;
            (added.work.as_ref() != Some(&work)).then_some((at, work))
        })
        .collect();
    for (at, work) in renewed {
        let rank = draft.rank_of(draft.added()[at].lane);
        if let Some(prediction) = draft.price_new(&work, rank) {
            let added = &mut draft.added[at];
            (added.work, added.prediction) = (Some(work), prediction);
        }
    }
}
