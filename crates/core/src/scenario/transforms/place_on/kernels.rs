//! What an operator puts on the device: its kernels, or the copy and wait of an operator that hands a number to the host.

use crate::cost::{Caller, Launch, Prediction, Provenance, Work, planned_kernels, work_of};
use crate::graph::{Operator, OperatorId, Phase, TaskKind};
use crate::scenario::draft::Draft;
use crate::units::Bytes;

/// One piece of device work, not yet placed.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Its name.
    pub(super) name: String,
    /// A kernel or a copy.
    pub(super) kind: TaskKind,
    /// The call that launches it.
    pub(super) call: &'static str,
    /// Bytes of a copy.
    pub(super) bytes: Bytes,
    /// What it has to do, where that is known.
    pub(super) work: Option<Work>,
    /// What it takes.
    pub(super) prediction: Prediction,
    /// Which of its operator's kernels it is, where it follows that operator's arguments.
    pub(super) planned: Option<u16>,
    /// Whether the host waits for it.
    pub(super) blocks: bool,
}

/// Bytes of a number that the host reads back.
const SCALAR: Bytes = Bytes(8);

/// What `operator` puts on the device of rank `rank`; nothing for views and allocations.
///
/// # Arguments
/// `own`: the work of the operator's first task where its arguments do not show it (merged calls, sparse updates).
pub(super) fn pieces(draft: &Draft<'_>, operator: OperatorId, rank: usize, own: Option<Work>) -> Vec<Piece> {
    let graph = draft.graph();
    let Some(this) = graph.operators.get(operator.0 as usize) else { return Vec::new() };
    let name = graph.names.get(this.name);
    if name.ends_with("_local_scalar_dense") {
        return vec![read_back(draft, rank)];
    }
    let forward = forward_of(draft, this).map(|id| caller(draft, id));
    match (planned_kernels(caller(draft, operator), forward, this.phase), own) {
        (Some(planned), Some(own)) if planned.len() == 1 => vec![piece(draft, planned[0].name, Some(own), rank)],
        (Some(planned), _) => {
            let numbered = planned.into_iter().zip(0..);
            numbered
                .map(|(kernel, at)| Piece { planned: Some(at), ..piece(draft, kernel.name, Some(kernel.work), rank) })
                .collect()
        }
        (None, own) => vec![piece(draft, name, own, rank)],
    }
}

fn caller<'d>(draft: &'d Draft<'_>, id: OperatorId) -> Caller<'d> {
    let graph = draft.graph();
    let name = graph.operators.get(id.0 as usize).map_or("", |operator| graph.names.get(operator.name));
    Caller { operator: name, operands: draft.operands(id) }
}

/// The forward operator of this one or of what called it.
fn forward_of(draft: &Draft<'_>, operator: &Operator) -> Option<OperatorId> {
    let operators = &draft.graph().operators;
    let up = |at: &&Operator| operators.get(at.parent?.0 as usize);
    std::iter::successors(Some(operator), up).find_map(|at| at.forward)
}

fn piece(draft: &Draft<'_>, name: &str, work: Option<Work>, rank: usize) -> Piece {
    let priced = work.as_ref().and_then(|work| draft.price_new(work, rank));
    let prediction = priced.unwrap_or_else(|| shortest(draft, rank));
    let (name, call) = (name.to_owned(), "cudaLaunchKernel");
    Piece { name, kind: TaskKind::Kernel, call, bytes: Bytes(0), work, prediction, planned: None, blocks: false }
}

/// A kernel that nothing is known of takes at least what every kernel takes.
fn shortest(draft: &Draft<'_>, rank: usize) -> Prediction {
    let duration = draft.device(rank).map(|device| device.kernel_start).unwrap_or_default();
    Prediction { duration, provenance: Provenance::Unmodelled, model: "", error: 1.0, extrapolated: true }
}

fn read_back(draft: &Draft<'_>, rank: usize) -> Piece {
    let name = "Memcpy DtoH (Device -> Pageable)";
    let launch = Launch { kind: TaskKind::Memcpy, name, bytes: SCALAR, ranks: 0, phase: Phase::Other };
    let copy = piece(draft, name, work_of(&launch, &[], None), rank);
    Piece { kind: TaskKind::Memcpy, call: "cudaMemcpyAsync", bytes: SCALAR, blocks: true, ..copy }
}
