//! Operators: the framework calls that host time and kernels belong to.

use std::ops::Range;

use crate::intern::NameId;
use crate::trace::EventId;
use crate::units::{DurNs, TimeNs};

use super::{LaneId, OperandsId};

/// A row of [`ExecutionGraph::operators`](super::ExecutionGraph::operators).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(pub u32);

/// Where the batched lookup is that the gradient of `forward` belongs to: below that operator, or soon after it, since older traces
/// give the lookup's sequence number to an operator that prepares its arguments.
pub(crate) fn lookup_range(operators: &[Operator], forward: OperatorId) -> Range<usize> {
    const NEARBY: u32 = 8;
    let first = forward.0 as usize;
    let below = operators.get(first).map_or(forward.0, |operator| operator.subtree_end.0);
    let end = below.max(forward.0.saturating_add(NEARBY)) as usize;
    first.min(operators.len())..end.min(operators.len())
}

/// Which argument of FBGEMM's operator `name` (without namespace) has the elements of a row of all its tables together; `None` for
/// other operators than batched lookups.
pub(crate) fn lookup_total_at(name: &str) -> Option<usize> {
    const STARTS: [(&str, usize); 2] = [("split_embedding_codegen_lookup", 7), ("dense_embedding_codegen_lookup", 3)];
    STARTS.iter().find(|(start, _)| name.starts_with(start)).map(|&(_, at)| at)
}

/// The part of training an operator belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Forward pass, or inference.
    Forward,
    /// Backward pass.
    Backward,
    /// Optimizer step and zeroing of gradients.
    Optimizer,
    /// Data loading and input copies.
    Data,
    /// Anything else.
    #[default]
    Other,
}

impl Phase {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Forward, Self::Backward, Self::Optimizer, Self::Data, Self::Other];

    /// Its name in selectors and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Data => "data",
            Self::Other => "other",
        }
    }

    /// The part of training that an annotation's name says; `None` where it says none.
    pub fn of_annotation(name: &str) -> Option<Self> {
        const LOADS: [&str; 5] = ["dataloader", "data_loader", "load_batch", "copy_batch", "wait_for_batch"];
        let lower = name.to_ascii_lowercase();
        let has = |part: &str| lower.contains(part);
        if has("optimizer") || has("zero_grad") {
            Some(Self::Optimizer)
        } else if LOADS.iter().any(|part| has(part)) {
            Some(Self::Data)
        } else if has("backward") {
            Some(Self::Backward)
        } else {
            has("forward").then_some(Self::Forward)
        }
    }
}

/// One operator call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operator {
    /// Its name, e.g. `aten::addmm`.
    pub name: NameId,
    /// The operator it was called from; `None` at top level.
    pub parent: Option<OperatorId>,
    /// One past the last operator of its subtree: its subtree is `id..subtree_end`.
    pub subtree_end: OperatorId,
    /// The thread it ran on.
    pub lane: LaneId,
    /// The traced event.
    pub event: EventId,
    /// Measured start, from the window's start of its rank.
    pub start: TimeNs,
    /// Measured length.
    pub dur: DurNs,
    /// Its arguments, when recorded.
    pub operands: Option<OperandsId>,
    /// Part of training.
    pub phase: Phase,
    /// The forward operator of a backward one, where known.
    pub forward: Option<OperatorId>,
    /// Module path or source line where recorded; empty otherwise.
    pub module: NameId,
    /// The copy between host and device that it is, where the trace tells that.
    pub transfer: Option<Transfer>,
}

/// A copy of a tensor between the memory of the host and that of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Whether the host's is the target.
    pub to_host: bool,
    /// Whether the program asked the host to wait for it.
    pub is_waited_for: bool,
}

/// The name of a backward operator without that of the engine which ran it; any other as it is.
pub fn without_engine(name: &str) -> &str {
    name.strip_prefix("autograd::engine::evaluate_function: ").unwrap_or(name)
}
