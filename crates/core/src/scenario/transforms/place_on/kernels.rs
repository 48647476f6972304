//! What an operator puts on the device: its kernels, or the copy and wait of an operator that hands a number to the host.

use crate::cost::{Caller, Launch, Prediction, Work, planned_kernels, work_of};
use crate::device::DeviceKind;
use crate::graph::{NodeId, Operator, OperatorId, Phase, TaskKind, Transfer};
use crate::scenario::draft::{Draft, Source};
use crate::units::Bytes;

use super::inputs::Input;

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
    /// What its work follows.
    pub(super) source: Source,
    /// Whether the host waits for it.
    pub(super) blocks: bool,
}

/// Which argument of `aten::copy_` is copied.
const COPIED: u16 = 1;
/// Bytes of a number that the host reads back.
const SCALAR: Bytes = Bytes(8);

/// What `operator` puts on the device of rank `rank`; nothing for views and allocations.
///
/// # Arguments
/// `own`: a task of the operator with its work, which the operator's arguments do not show (merged calls, sparse updates).
pub(super) fn pieces(draft: &Draft<'_>, operator: OperatorId, rank: usize, own: Option<(NodeId, Work)>) -> Vec<Piece> {
    let graph = draft.graph();
    let Some(this) = graph.operators.get(operator.0 as usize) else { return Vec::new() };
    let name = graph.names.get(this.name);
    if name.ends_with("_local_scalar_dense") {
        return vec![read_back(draft, rank)];
    }
    let launched = draft.device(rank).is_some_and(|device| device.kind == DeviceKind::Gpu);
    if let Some(transfer) = this.transfer.filter(|_| launched) {
        return transferred(draft, operator, transfer, rank).into_iter().collect();
    }
    let forward = forward_of(draft, this).map(|id| caller(draft, id));
    let instead =
        |name, (node, work)| vec![Piece { source: Source::InsteadOf(node), ..piece(draft, name, Some(work), rank) }];
    match (planned_kernels(caller(draft, operator), forward, this.phase), own) {
        (Some(planned), Some(own)) if planned.len() == 1 => instead(planned[0].name, own),
        (Some(planned), _) => {
            let numbered = planned.into_iter().zip(0..);
            numbered
                .map(|(kernel, at)| {
                    let source = Source::Planned(at);
                    Piece { source, ..piece(draft, kernel.name, Some(kernel.work), rank) }
                })
                .collect()
        }
        (None, Some(own)) => instead(name, own),
        (None, None) => vec![piece(draft, name, None, rank)],
    }
}

/// The copy of an input to the device of rank `rank`, from memory that is not pinned, for which the host waits; none where it has
/// no size.
pub(super) fn input_copy(draft: &Draft<'_>, input: Input, rank: usize) -> Option<Piece> {
    copy_of(draft, input, (Source::INPUT_COPY, true), rank)
}

/// The copy between host and device that an operator is, from or to pinned memory where the host does not wait for it; none where it has
/// no size.
fn transferred(draft: &Draft<'_>, operator: OperatorId, transfer: Transfer, rank: usize) -> Option<Piece> {
    let name = match transfer {
        Transfer { to_host: false, is_waited_for: true } => Source::INPUT_COPY,
        Transfer { to_host: false, is_waited_for: false } => Source::PINNED_COPY,
        Transfer { to_host: true, is_waited_for: true } => Source::READ_BACK,
        Transfer { to_host: true, is_waited_for: false } => Source::PINNED_READ_BACK,
    };
    copy_of(draft, Input { operator, argument: COPIED }, (name, transfer.is_waited_for), rank)
}

/// The copy of that name of an argument, and whether the host waits for it.
fn copy_of(draft: &Draft<'_>, of: Input, (name, blocks): (&'static str, bool), rank: usize) -> Option<Piece> {
    let source = Source::Copied(of.operator, of.argument, name);
    let work = draft.followed(&source)?;
    let (kind, bytes) = (TaskKind::Memcpy, work.written);
    let copy = piece(draft, name, Some(work), rank);
    Some(Piece { kind, call: "cudaMemcpyAsync", bytes, blocks, source, ..copy })
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
    let prediction = priced.unwrap_or_else(|| draft.shortest_kernel(rank));
    let (name, call) = (name.to_owned(), "cudaLaunchKernel");
    let (kind, bytes, source) = (TaskKind::Kernel, Bytes(0), Source::Given);
    Piece { name, kind, call, bytes, work, prediction, source, blocks: false }
}

fn read_back(draft: &Draft<'_>, rank: usize) -> Piece {
    let name = Source::READ_BACK;
    let launch = Launch { kind: TaskKind::Memcpy, name, bytes: SCALAR, ranks: 0, phase: Phase::Other };
    let copy = piece(draft, name, work_of(&launch, &[], None), rank);
    Piece { kind: TaskKind::Memcpy, call: "cudaMemcpyAsync", bytes: SCALAR, blocks: true, ..copy }
}
