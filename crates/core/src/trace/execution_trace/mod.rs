//! PyTorch Execution Traces: which operators ran in a step, with shapes, types and the identity of every tensor; no times.
//!
//! Schemas 1.0.1 (flat) to 1.1.1-chakra.0.0.4 (nested) become one form.

mod builder;
mod collective;
mod layout;
mod lists;
mod parents;

use std::path::PathBuf;

use super::CollectiveArgs;
use crate::diagnostic::Diagnostics;
use crate::intern::{NameId, NameTable};

pub use builder::Builder;
pub(in crate::trace) use layout::tensors;

/// A row of [`ExecutionTrace::nodes`]; rows follow the order in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtNodeIndex(pub u32);

/// A row of [`ExecutionTrace::tensors`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorIndex(pub u32);

/// What one process ran in one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExecutionTrace {
    /// Where it was read from; for a member of an archive `archive.tar.gz:member`.
    pub path: PathBuf,
    /// As recorded, e.g. `1.1.1-chakra.0.0.4`.
    pub schema: String,
    /// Process id, when recorded.
    pub pid: Option<i64>,
    /// Rank, when a process group of it was recorded.
    pub rank: Option<u32>,
    /// Every distinct text.
    pub names: NameTable,
    /// The nodes, as in the file.
    pub nodes: Vec<EtNode>,
    /// Arguments and results of all nodes, in runs.
    pub values: Vec<EtValue>,
    /// Distinct tensors as referred to.
    pub tensors: Vec<EtTensor>,
    /// Collectives by node, in order.
    pub collectives: Vec<(EtNodeIndex, CollectiveArgs)>,
    /// Nodes that could not be used, counted by reason in `diagnostics`.
    pub skipped_nodes: u64,
    /// What was odd, and what was done about it.
    pub diagnostics: Diagnostics,
}

/// A node: an operator, or a range around operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtNode {
    /// Its id in the file; ids need not be dense.
    pub id: u64,
    /// The node that contains it, by id; 0 for none.
    pub parent: u64,
    /// Its name, e.g. `aten::addmm`.
    pub name: NameId,
    /// Equals the profiler's `Record function id` where both ran together; 0 = none.
    pub rf_id: u32,
    /// Joins backward to forward; -1 = none.
    pub seq_id: i64,
    /// The forward node of a backward node, by id; 0 = none.
    pub fw_parent: u64,
    /// Thread, counted 1, 2, … (not the system's).
    pub tid: u32,
    /// Thread of the forward node; 0 = none.
    pub fw_tid: u32,
    /// PyTorch's record scope: 0 operator, 1 backward, 7 user scope …
    pub scope: u32,
    /// Operator schema; empty for ranges.
    pub op_schema: NameId,
    /// Arguments.
    pub inputs: EtArguments,
    /// Results.
    pub outputs: EtArguments,
}

/// Arguments or results of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtArguments {
    /// First of its run in [`ExecutionTrace::values`].
    pub first: u32,
    /// Length of the run.
    pub count: u32,
    /// JSON text of the sizes, one per value, e.g. `[[256],[16,13],[]]`.
    pub shapes: NameId,
    /// JSON text of the types, one per value, e.g. `["Tensor(float)","Int"]`.
    pub types: NameId,
    /// JSON text of the strides (schema 1.1.1); empty where absent.
    pub strides: NameId,
}

/// One argument or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtValue {
    /// A tensor.
    Tensor(TensorIndex),
    /// A list of tensors: this many of the values that follow directly belong to it.
    List(u32),
    /// Anything else, as JSON text.
    Text(NameId),
}

/// A tensor as a node refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtTensor {
    /// Identity of the tensor.
    pub id: u64,
    /// Identity of its storage: views of one storage share it.
    pub storage: u64,
    /// Offset into the storage, in elements.
    pub offset: u64,
    /// Number of elements.
    pub elements: u64,
    /// Bytes per element.
    pub element_size: u32,
    /// Device, e.g. `cuda:0`.
    pub device: NameId,
}

impl ExecutionTrace {
    /// The arguments or results `run`; members of a list follow its [`EtValue::List`].
    pub fn values_of(&self, run: &EtArguments) -> &[EtValue] {
        let first = run.first as usize;
        self.values.get(first..first + run.count as usize).unwrap_or_default()
    }

    /// The tensor at `index`.
    pub fn tensor(&self, index: TensorIndex) -> Option<&EtTensor> {
        self.tensors.get(index.0 as usize)
    }
}
