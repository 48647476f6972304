//! What is known while walking through a model: shapes of parameters, and shapes of activations with their batch dimension.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::Family;
use crate::cost::operators::{bare, operator_family};
use crate::graph::{DType, ExecutionGraph, Operand, Operands, OperatorId, Phase};

use super::rules::is_sparse_feature;

/// Shapes seen so far.
pub(super) struct Environment<'a> {
    pub(super) graph: &'a ExecutionGraph,
    /// The batch of the current operator's pass.
    pub(super) batch: u64,
    /// That of a pass of which no other is known.
    usual: u64,
    parameters: FxHashSet<Vec<u64>>,
    /// Activations by shape, with the dimension that carries the batch.
    live: FxHashMap<Vec<u64>, usize>,
    /// Shapes that activations have with the batch folded into the second dimension, as instance norms do: `[1, batch·channels, …]`.
    folded: FxHashSet<Vec<u64>>,
    /// What look-ups are given.
    lookups: Lookups,
    /// By operator: whether it or one around it accumulates gradients.
    accumulates: Vec<bool>,
    pub(super) current: OperatorId,
}

impl<'a> Environment<'a> {
    pub(super) fn new(graph: &'a ExecutionGraph, batch: u64) -> Self {
        let lookups = Lookups::of(graph, batch);
        let mut parameters = FxHashSet::default();
        // Those first that have a role in a pass: what an update has besides them may be the rows of a look-up's gradient.
        for of_update in [false, true] {
            for operator in graph.operators.iter().filter(|it| (it.phase == Phase::Optimizer) == of_update) {
                let row = operator.operands.and_then(|id| graph.operands.get(id.0 as usize));
                let Some(operands) = row else { continue };
                let name = bare(graph.names.get(operator.name));
                for dims in parameters_of(name, operands, operator.phase) {
                    if of_update && !parameters.contains(dims) && lookups.row(dims).is_some() {
                        continue;
                    }
                    if let &[rows, columns] = dims {
                        parameters.insert(vec![columns, rows]);
                    }
                    parameters.insert(dims.to_vec());
                }
            }
        }
        let accumulates = Vec::with_capacity(graph.operators.len());
        let (live, folded) = (FxHashMap::default(), FxHashSet::default());
        Self { graph, batch, usual: batch, parameters, live, folded, lookups, accumulates, current: OperatorId(0) }
    }

    /// Goes on to operator `id`; operators come in order.
    pub(super) fn enter(&mut self, id: OperatorId) {
        let operator = &self.graph.operators[id.0 as usize];
        let around = operator.parent.is_some_and(|parent| self.accumulates.get(parent.0 as usize) == Some(&true));
        let name = self.graph.names.get(operator.name);
        self.accumulates.push(around || name.contains("AccumulateGrad") || name.contains("copy_bucket_to_grad"));
        self.current = id;
        let own = self.graph.batch_of(id).filter(|_| self.graph.batch_size == Some(self.usual));
        self.batch = own.unwrap_or(self.usual);
    }

    pub(super) fn phase(&self) -> Phase {
        self.graph.operators[self.current.0 as usize].phase
    }

    /// Whether the current operator works on parameters or their gradients only.
    pub(super) fn is_update(&self) -> bool {
        self.phase() == Phase::Optimizer || self.accumulates[self.current.0 as usize]
    }

    pub(super) fn is_parameter(&self, dims: &[u64]) -> bool {
        self.parameters.contains(dims)
    }

    /// The dimension of the rows that look-ups were given, of a tensor with a row or an index for each of them that is no parameter:
    /// their gradient.
    pub(super) fn row_of_lookups(&self, dims: &[u64]) -> Option<usize> {
        self.lookups.row(dims).filter(|_| !self.is_parameter(dims))
    }

    /// Whether a tensor has an index for each row that was looked up.
    pub(super) fn indexes_lookups(&self, operand: &Operand) -> bool {
        let is_list = |dims: &[u64]| matches!(dims, &[length] if self.lookups.has(length));
        operand.dtype().is_some_and(DType::is_integer) && operand.dims().is_some_and(is_list)
    }

    /// Notes an activation.
    pub(super) fn insert(&mut self, dims: Vec<u64>, dim: usize) {
        if let (&[first, second, ref rest @ ..], 0) = (dims.as_slice(), dim)
            && first > 1
            && !rest.is_empty()
        {
            self.folded.insert([&[1, first.saturating_mul(second)], rest].concat());
        }
        self.live.insert(dims, dim);
    }

    /// Whether a dimension is a multiple of the batch.
    pub(super) fn divides(&self, dim: u64) -> bool {
        dim > 0 && dim.is_multiple_of(self.batch.max(1))
    }

    /// The dimension of a tensor that carries the batch: as known from where it came from, else the outermost
    /// multiple of the batch where it is no parameter.
    pub(super) fn dimension(&self, dims: &[u64], dtype: Option<DType>) -> Option<usize> {
        if dims.is_empty() || self.is_update() {
            return None;
        }
        if let Some(&dim) = self.live.get(dims) {
            return Some(dim);
        }
        if self.is_parameter(dims) && !dtype.is_some_and(DType::is_integer) {
            return None;
        }
        match dims {
            // A flat list of floats may be anything, a bucket of gradients say, unless it is as long as the batch.
            [only] if is_float(dtype) => {
                let fits = *only == self.batch || self.phase() == Phase::Forward && self.divides(*only);
                fits.then_some(0)
            }
            [only] if self.lookups.lengths.contains(only) => Some(0),
            [first, ..] if self.divides(*first) => Some(0),
            _ if self.folded.contains(dims) => Some(1),
            // Lengths of the lists that look-ups are given, by feature.
            _ if !self.lookups.lengths.is_empty() && dtype.is_some_and(DType::is_integer) => {
                dims.iter().position(|&dim| self.batch > 1 && self.divides(dim))
            }
            _ => dims.iter().position(|&dim| dim == self.batch && self.batch > 1),
        }
    }
}

/// The lists of indices that look-ups are given.
#[derive(Debug, Default)]
struct Lookups {
    /// Lengths of the lists that are longer than a batch, of the operators that prepare them too.
    lengths: FxHashSet<u64>,
    /// The length of a list with one index for each sample, and the width of the rows that it looks up.
    single: FxHashSet<[u64; 2]>,
}

impl Lookups {
    fn of(graph: &ExecutionGraph, batch: u64) -> Self {
        let mut found = Self::default();
        for operator in &graph.operators {
            let name = graph.names.get(operator.name);
            let is_lookup = operator_family(name) == Some(Family::Embedding);
            let takes = is_lookup || is_sparse_feature(bare(name));
            let Some(operands) = operator.operands.filter(|_| takes).and_then(|id| graph.operands.get(id.0 as usize))
            else {
                continue;
            };
            let is_index = |operand: &&Operand| operand.dtype().is_some_and(DType::is_integer);
            let length = |operand: &Operand| match operand.dims() {
                Some(&[length]) => Some(length),
                _ => None,
            };
            let lists = operands.inputs.iter().filter(is_index).filter_map(length);
            found.lengths.extend(lists.filter(|&length| length > batch));
            let indices = operands.inputs.get(1).filter(|it| is_lookup && is_index(it)).and_then(length);
            if let (Some(&[_, width]), Some(length)) = (operands.dims(0), indices.filter(|&length| length == batch)) {
                found.single.insert([length, width]);
            }
        }
        found
    }

    /// Whether a list of indices is that long.
    fn has(&self, length: u64) -> bool {
        self.lengths.contains(&length) || self.single.iter().any(|&[one, _]| one == length)
    }

    /// The dimension of the rows that were looked up: of `[rows, width]`, or of `[1, rows]`.
    fn row(&self, dims: &[u64]) -> Option<usize> {
        let &[first, second] = dims else { return None };
        if self.single.contains(&[first, second]) {
            return Some(0);
        }
        let at = usize::from(first == 1);
        self.lengths.contains(&[first, second][at]).then_some(at)
    }
}

fn is_float(dtype: Option<DType>) -> bool {
    dtype.is_none_or(|dtype| matches!(dtype, DType::Fp64 | DType::Fp32 | DType::Fp16 | DType::Bf16 | DType::Fp8))
}

/// The arguments that are parameters by their role.
pub(super) fn parameters_of<'o>(name: &str, operands: &'o Operands, phase: Phase) -> Vec<&'o [u64]> {
    let at = |indices: &[usize]| -> Vec<&[u64]> {
        indices.iter().filter_map(|&at| operands.dims(at)).filter(|dims| !dims.is_empty()).collect()
    };
    match name {
        _ if phase == Phase::Optimizer => all(operands),
        // The pass for the weight takes the input where the others take the weight.
        _ if name.contains("conv") && name.contains("backward_weight") => Vec::new(),
        _ if name.contains("conv") && name.contains("backward") => at(&[2]),
        _ if name.contains("conv") => at(&[1, 2]),
        "addmm" if phase == Phase::Forward => at(&[0, 2]),
        "batch_norm" | "cudnn_batch_norm" | "native_batch_norm" | "miopen_batch_norm" => at(&[1, 2, 3, 4]),
        "layer_norm" | "native_layer_norm" => at(&[2, 3]),
        "linear" | "group_norm" | "native_group_norm" | "rms_norm" => at(&[1, 2]),
        "embedding" | "embedding_bag" | "_embedding_bag" | "_embedding_bag_forward_only" => at(&[0]),
        // All tables in a row: on the device, in the host's memory, and those of the cache.
        _ if name.contains("embedding_codegen_lookup") => at(if name.starts_with("dense") { &[0] } else { &[0, 1, 2] }),
        _ => Vec::new(),
    }
}

/// All tensors but lists of indices.
fn all(operands: &Operands) -> Vec<&[u64]> {
    let mut shapes = Vec::new();
    for operand in operands.inputs.iter().filter(|operand| !operand.dtype().is_some_and(DType::is_integer)) {
        match operand {
            Operand::Tensor { dims, .. } if !dims.is_empty() => shapes.push(dims.as_slice()),
            Operand::TensorList(list) => shapes.extend(list.iter().filter_map(Operand::dims)),
            _ => {}
        }
    }
    shapes
}
