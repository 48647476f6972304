//! A kernel in its place → its [`Work`]: which operator it belongs to, which part of that operator's work it does.
//!
//! Knows no device. [`work_of_task`] is for tasks of a graph; [`work_of`] for anything else.

use crate::graph::{DType, ExecutionGraph, Operands, OperatorId, Phase, Task, TaskKind, lookup_range};
use crate::units::{Bytes, Flop};

use super::conv_kernel;
use super::kernel_name::{self, Role};
use super::operators::{self, Reading};
use super::parts::{Part, divided, has_helpers};
use super::work::{CollectiveKind, Family, Picking, Route, Shape, Work};

/// An operator with its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Its name, e.g. `aten::addmm`.
    pub operator: &'a str,
    /// Its arguments, when recorded.
    pub operands: Option<&'a Operands>,
}

/// What is known of a kernel, copy or host computation besides its operators.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// What it is.
    pub kind: TaskKind,
    /// Name of the kernel, copy or collective; for a host computation that of the operator.
    pub name: &'a str,
    /// Bytes of a copy, fill or collective.
    pub bytes: Bytes,
    /// Ranks of a collective; 0 elsewhere.
    pub ranks: u32,
    /// Part of training.
    pub phase: Phase,
}

/// The family of a launch: what its kernel's name shows for auxiliary kernels, else its innermost known
/// operator's, else the kernel's.
pub fn classify(launch: &Launch<'_>, callers: &[Caller<'_>]) -> Family {
    match launch.kind {
        TaskKind::Memcpy | TaskKind::Memset => return Family::Transfer,
        TaskKind::Collective(_) => return Family::Collective,
        _ => {}
    }
    let own = kernel_name::kernel_family(launch.name).filter(|_| launch.kind == TaskKind::Kernel);
    let operator = callers.iter().find_map(|caller| operators::operator_family(caller.operator));
    let family = match (operator, own) {
        (Some(family), Some(own)) => settle(family, own, launch.name),
        (family, own) => family.or(own).unwrap_or(Family::Other),
    };
    if launch.phase == Phase::Optimizer && family == Family::Elementwise { Family::Optimizer } else { family }
}

/// Between what the operator and what the kernel says.
fn settle(operator: Family, kernel: Family, name: &str) -> Family {
    match kernel_name::role(name, operator) {
        Role::Layout | Role::Indices => Family::Movement,
        Role::SplitReduction | Role::ParameterGradient => Family::Reduction,
        Role::Main if kernel == Family::Collective => kernel,
        // What a loss does of each element, before its reduction.
        Role::Main if (operator, kernel) == (Family::Reduction, Family::Elementwise) => kernel,
        Role::Main | Role::Moments | Role::Statistics => operator,
    }
}

/// The work of a launch made by `callers`, innermost first. `forward` is the forward operator of a backward one, where known.
///
/// `None` when neither sizes nor bytes tell: such a task keeps its measured time.
pub fn work_of(launch: &Launch<'_>, callers: &[Caller<'_>], forward: Option<Caller<'_>>) -> Option<Work> {
    work_of_part(launch, Part::default(), callers, forward)
}

fn work_of_part(launch: &Launch<'_>, part: Part, callers: &[Caller<'_>], forward: Option<Caller<'_>>) -> Option<Work> {
    let mut work = match launch.kind {
        TaskKind::Memcpy | TaskKind::Memset => copy_work(launch),
        TaskKind::Collective(_) => collective_work(launch, CollectiveKind::parse(launch.name)?),
        TaskKind::Kernel | TaskKind::Compute => kernel_work(launch, part, callers, forward)?,
        _ => return None,
    };
    if launch.phase == Phase::Optimizer && work.family == Family::Elementwise {
        work.family = Family::Optimizer;
    }
    Some(work)
}

/// The work of a copy or fill of `launch.bytes`; its route and the kind of host memory are read from the name (`Memcpy HtoD (Pinned -> Device)`).
fn copy_work(launch: &Launch<'_>) -> Work {
    let route = match launch.name {
        _ if launch.kind == TaskKind::Memset => Route::Fill,
        name if name.contains("HtoD") || name.contains("HostToDevice") => Route::HostToDevice,
        name if name.contains("DtoH") || name.contains("DeviceToHost") => Route::DeviceToHost,
        name if name.contains("PtoP") || name.contains("Peer") => Route::PeerToPeer,
        _ => Route::DeviceToDevice,
    };
    let read = if route == Route::Fill { 0 } else { launch.bytes.0 };
    let pinned = match launch.name {
        _ if !route.is_of_host() => None,
        name if name.contains("Pinned") => Some(true),
        name => name.contains("Pageable").then_some(false),
    };
    Work { shape: Shape::Copy { route, pinned }, ..operators::movement_work(Family::Transfer, read, launch.bytes.0) }
}

/// The work of a collective of `kind` with messages of `launch.bytes`.
fn collective_work(launch: &Launch<'_>, kind: CollectiveKind) -> Work {
    let shape = Shape::Collective { kind, ranks: launch.ranks };
    Work { shape, ..operators::movement_work(Family::Collective, launch.bytes.0, launch.bytes.0) }
}

fn kernel_work(launch: &Launch<'_>, part: Part, callers: &[Caller<'_>], forward: Option<Caller<'_>>) -> Option<Work> {
    let named = launch.kind == TaskKind::Kernel;
    if !named && callers.first().is_some_and(|caller| operators::is_free(caller.operator)) {
        return None;
    }
    let own = kernel_name::kernel_family(launch.name).filter(|_| named);
    let reading = Reading {
        dtype: kernel_name::dtype(launch.name).unwrap_or_default(),
        tf32: named && kernel_name::is_tf32(launch.name),
        columns: named && kernel_name::sums_columns(launch.name),
    };
    let innermost = callers.first().and_then(|caller| operators::operator_family(caller.operator));
    let beside = kernel_name::family_beside(launch.name).filter(|_| named);
    for (depth, caller) in callers.iter().enumerate() {
        let Some(whole) = caller_work(caller, own, forward, reading) else { continue };
        if beside.is_some_and(|family| family != whole.family) {
            return None;
        }
        // An outer operator stands for the kernel only when the kernel's name, or the operator that launched it, says the
        // same family.
        if depth == 0 || [own, innermost].contains(&Some(whole.family)) || !named {
            return part_of(whole, launch.name, part, caller, reading, named);
        }
    }
    None
}

fn caller_work(
    caller: &Caller<'_>,
    own: Option<Family>,
    forward: Option<Caller<'_>>,
    reading: Reading,
) -> Option<Work> {
    if is_batched_lookup_backward(caller.operator) {
        let forward = forward?;
        return operators::batched_lookup_backward((forward.operator, forward.operands?), caller.operands);
    }
    let operands = caller.operands?;
    let known = operators::operator_work(caller.operator, operands, reading);
    let by_kernel = || match own {
        Some(Family::Elementwise | Family::Reduction | Family::Movement)
            if operators::operator_family(caller.operator).is_none() && !operands.inputs.is_empty() =>
        {
            operators::as_elementwise(caller.operator, operands, reading)
        }
        _ => None,
    };
    known.or_else(by_kernel)
}

fn is_batched_lookup_backward(operator: &str) -> bool {
    operator.contains("SplitLookupFunction") || operator.contains("embedding_backward_codegen")
}

/// What the kernel `name` does of the `whole` work of its operator; `None` of one beside the kernel that computes whose name does
/// not tell.
fn part_of(whole: Work, name: &str, part: Part, caller: &Caller<'_>, reading: Reading, named: bool) -> Option<Work> {
    let chained = named && kernel_name::is_chained(name);
    let shape = if chained { Shape::Chained } else { Shape::Plain };
    let auxiliary = |family, read: Bytes, written: Bytes| Work {
        shape: shape.clone(),
        ..operators::movement_work(family, read.0, written.0)
    };
    if whole.family == Family::Conv {
        let of_kernel = |whole| conv_kernel::work(whole, name, part, caller, reading);
        return if named { of_kernel(whole) } else { Some(conv_kernel::all_passes(whole, caller, reading)) };
    }
    if named && kernel_name::is_setup(name) {
        return Some(auxiliary(Family::Movement, Bytes(0), Bytes(0)));
    }
    if let Some(bytes) = caller.operands.and_then(|args| operators::permuted_bytes(caller.operator, name, args)) {
        return Some(auxiliary(Family::Movement, bytes, bytes));
    }
    let own = match if named { kernel_name::role(name, whole.family) } else { Role::Main } {
        Role::Main if named && kernel_name::is_strided(name) => strided(whole, caller, reading),
        Role::Main if chained && whole.family == Family::Movement => Work { shape, ..whole },
        Role::Main if whole.family == Family::Embedding && name.contains("_per_row_") => half_of_rows(whole),
        Role::Main
            if whole.family == Family::Reduction && kernel_name::kernel_family(name) == Some(Family::Elementwise) =>
        {
            let dtype = caller.operands.and_then(Operands::dtype).unwrap_or(reading.dtype);
            each_element(whole, dtype)
        }
        Role::Main if part.beside && has_helpers(whole.family) => return None,
        Role::Main if named && whole.family == Family::Norm => by_channels(whole, name, caller),
        Role::Main => whole,
        Role::SplitReduction => summed(&whole),
        Role::Layout => auxiliary(Family::Movement, whole.written, whole.written),
        // Each pass of a sort or scan goes over all indices.
        Role::Indices => {
            let bytes = if name.contains("InitKernel") { Bytes(0) } else { indices_of(&whole) };
            return Some(auxiliary(Family::Movement, bytes, bytes));
        }
        Role::ParameterGradient => Work { written: Bytes(0), ..whole },
        Role::Moments => moments(by_channels(whole, name, caller)),
        // Of each channel two sums, and its mean and variance as they were and as they are, in 32 bits.
        Role::Statistics => {
            let channels = caller.operands.and_then(|args| args.dims(0)?.get(1).copied()).unwrap_or_default();
            let [read, written] = [4, 4].map(|numbers| Bytes(channels.saturating_mul(numbers * DType::Fp32.size())));
            return Some(auxiliary(Family::Movement, read, written));
        }
    };
    Some(divided(own, part.of))
}

/// Adding up the parts of a product that was split along its inner dimension.
pub(super) fn summed(whole: &Work) -> Work {
    operators::movement_work(Family::Reduction, whole.written.0.saturating_mul(2), whole.written.0)
}

/// What a loss computes of each element before its reduction: a tensor as large as an argument.
fn each_element(whole: Work, dtype: DType) -> Work {
    let elements = match whole.shape {
        Shape::Rows { rows: a, width: b } | Shape::Columns { rows: a, columns: b } => a.saturating_mul(b),
        _ => return whole,
    };
    let written = Bytes(elements.saturating_mul(dtype.size()));
    Work { family: Family::Elementwise, written, shape: Shape::Plain, ..whole }
}

/// A batch norm by the framework's own kernels, which go over a channel by a block of threads: those that say so, and all in bf16, which
/// cuDNN's are not compiled for.
fn by_channels(whole: Work, name: &str, caller: &Caller<'_>) -> Work {
    let (Shape::Rows { .. }, Some(operands)) = (&whole.shape, caller.operands) else { return whole };
    // Where channels lie side by side, blocks share them.
    let is_apart = !["channels_last", "nhwc"].iter().any(|layout| name.contains(layout));
    let is_own = name.contains("native::batch_norm_");
    let input = operands.inputs.first();
    let is_replaced = name.contains("cudnn::b") && input.is_some_and(|input| input.dtype() == Some(DType::Bf16));
    let Some((&[images, channels], area)) = operands.dims(0).and_then(<[u64]>::split_first_chunk) else { return whole };
    if !(is_apart && caller.operator.contains("batch_norm") && (is_own || is_replaced)) {
        return whole;
    }
    let area = area.iter().fold(1, |all: u64, &side| all.saturating_mul(side));
    let applies = name.contains("transform_input");
    let shape = if applies {
        Shape::Picked { rows: images.saturating_mul(channels), width: area, picking: Picking::Copied }
    } else {
        Shape::Channels { images, channels, area }
    };
    Work { shape, ..whole }
}

/// The first half of a norm: reads everything, writes two numbers of 32 bits a row.
fn moments(whole: Work) -> Work {
    let (Shape::Rows { rows, .. } | Shape::Channels { channels: rows, .. }) = whole.shape else { return whole };
    Work { flop: Flop(whole.flop.0 / 2.0), written: Bytes(rows.saturating_mul(2 * 4)), ..whole }
}

/// Half of a lookup's gradient: FBGEMM gives rows looked up often to blocks and the others to warps, in two kernels, and
/// which are which is not recorded.
fn half_of_rows(whole: Work) -> Work {
    let half = |bytes: Bytes| Bytes(bytes.0 / 2);
    let mut work =
        Work { flop: Flop(whole.flop.0 / 2.0), read: half(whole.read), written: half(whole.written), ..whole };
    if let Shape::Embedding { pooling, .. } = &mut work.shape {
        *pooling /= 2.0;
    }
    work
}

/// `whole` with its elements found one by one, where it is element-wise or moves data.
fn strided(whole: Work, caller: &Caller<'_>, reading: Reading) -> Work {
    let streams = matches!(whole.family, Family::Elementwise | Family::Movement) && whole.shape == Shape::Plain;
    let dtype = caller.operands.and_then(Operands::dtype).unwrap_or(reading.dtype);
    if !streams || whole.written.0 == 0 {
        return whole;
    }
    Work { shape: Shape::Strided { elements: whole.written.0.div_ceil(dtype.size()) }, ..whole }
}

/// Bytes of a lookup's index and offset lists (64-bit).
fn indices_of(lookup: &Work) -> Bytes {
    let Shape::Embedding { batch, tables, pooling, .. } = lookup.shape else { return lookup.written };
    Bytes((batch as f64 * tables as f64 * (pooling + 1.0) * DType::Int64.size() as f64) as u64)
}

/// The work of `task`, which is `part` of its operator's kernels of its kind, with each operator's arguments as `operands_of` gives them: the recorded ones, or those of
/// an edited model.
pub fn work_of_task<'a>(
    graph: &'a ExecutionGraph,
    task: &Task,
    part: Part,
    operands_of: impl Fn(OperatorId) -> Option<&'a Operands>,
) -> Option<Work> {
    let callers = callers_of(graph, task, &operands_of);
    let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
    let forward = ancestors(graph, task.operator).find_map(|id| graph.operators[id.0 as usize].forward);
    let forward = forward.map(|id| innermost_lookup(graph, id, &operands_of));
    let launch = launch_of(graph, task, operator.map_or(Phase::Other, |operator| operator.phase));
    work_of_part(&launch, part, &callers, forward)
}

/// The family of `task`, by names alone.
pub fn family_of_task(graph: &ExecutionGraph, task: &Task) -> Family {
    let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
    let launch = launch_of(graph, task, operator.map_or(Phase::Other, |operator| operator.phase));
    classify(&launch, &callers_of(graph, task, &|_| None))
}

fn launch_of<'a>(graph: &'a ExecutionGraph, task: &Task, phase: Phase) -> Launch<'a> {
    let (name, bytes, ranks) = match task.kind {
        TaskKind::Collective(id) => match graph.collectives.get(id.0 as usize) {
            Some(collective) => (graph.names.get(collective.kind), collective.bytes, collective.group_size),
            None => (graph.names.get(task.name), task.bytes, 0),
        },
        _ => (graph.names.get(task.name), task.bytes, 0),
    };
    Launch { kind: task.kind, name, bytes, ranks, phase }
}

/// How far up the call tree a kernel's work is looked for.
const MAX_ANCESTORS: usize = 6;

fn ancestors(graph: &ExecutionGraph, from: Option<OperatorId>) -> impl Iterator<Item = OperatorId> {
    let parent = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
    std::iter::successors(from, parent).take(MAX_ANCESTORS)
}

fn callers_of<'a>(
    graph: &'a ExecutionGraph,
    task: &Task,
    operands_of: &impl Fn(OperatorId) -> Option<&'a Operands>,
) -> Vec<Caller<'a>> {
    ancestors(graph, task.operator).map(|id| caller_at(graph, id, operands_of)).collect()
}

fn caller_at<'a>(
    graph: &'a ExecutionGraph,
    id: OperatorId,
    operands_of: &impl Fn(OperatorId) -> Option<&'a Operands>,
) -> Caller<'a> {
    let name = graph.operators.get(id.0 as usize).map_or("", |operator| graph.names.get(operator.name));
    Caller { operator: name, operands: operands_of(id) }
}

/// The lookup inside forward operator `id` or right after it, or `id` itself.
fn innermost_lookup<'a>(
    graph: &'a ExecutionGraph,
    id: OperatorId,
    operands_of: &impl Fn(OperatorId) -> Option<&'a Operands>,
) -> Caller<'a> {
    let mut nearby = lookup_range(&graph.operators, id).map(|at| caller_at(graph, OperatorId(at as u32), operands_of));
    let lookup = nearby.find(|caller| caller.operands.is_some() && caller.operator.contains("codegen_lookup"));
    lookup.unwrap_or_else(|| caller_at(graph, id, operands_of))
}

impl CollectiveKind {
    /// The kind that a recorded collective or kernel name stands for (`all-reduce`, `_allgather_base`,
    /// `ncclDevKernel_AllReduce_Sum_f32_RING_LL`); `None` when it says nothing.
    pub fn parse(name: &str) -> Option<Self> {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        let parts = [
            ("allreduce", Self::AllReduce),
            ("alltoall", Self::AllToAll),
            ("all2all", Self::AllToAll),
            ("allgather", Self::AllGather),
            ("reducescatter", Self::ReduceScatter),
            ("broadcast", Self::Broadcast),
            ("sendrecv", Self::SendRecv),
            ("barrier", Self::Barrier),
            ("send", Self::SendRecv),
            ("recv", Self::SendRecv),
            ("reduce", Self::Reduce),
        ];
        parts.iter().find(|(part, _)| name.contains(part)).map(|&(_, kind)| kind)
    }
}

impl Work {
    /// The work of two pieces done by one kernel: arithmetic adds up, and what the first writes and the second
    /// reads stays on the chip [Kakrannava §IV, fused layers].
    #[must_use]
    pub(crate) fn fused_with(&self, next: &Self) -> Self {
        let kept = self.written.0.min(next.read.0);
        Self {
            family: self.family,
            flop: Flop(self.flop.0 + next.flop.0),
            read: Bytes(self.read.0.saturating_add(next.read.0 - kept)),
            written: Bytes((self.written.0 - kept).saturating_add(next.written.0)),
            precision: self.precision,
            shape: self.shape.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::operands;

    fn kernel(name: &str) -> Launch<'_> {
        Launch { kind: TaskKind::Kernel, name, bytes: Bytes(0), ranks: 0, phase: Phase::Forward }
    }

    #[test]
    fn a_split_product_gives_the_arithmetic_to_the_main_kernel_only() {
        let args = operands(&[&[64, 4096], &[4096, 64]]);
        let callers = [Caller { operator: "aten::mm", operands: Some(&args) }];
        let main = work_of(&kernel("ampere_sgemm_32x32_sliced1x4_nn"), &callers, None).unwrap();
        let split = work_of(&kernel("void splitKreduce_kernel<32, 16, int, float>"), &callers, None).unwrap();
        assert!(main.flop.0 > 0.0 && split.flop.0 == 0.0);
        assert_eq!((split.family, split.written), (Family::Reduction, Bytes(64 * 64 * 4)));
    }

    #[test]
    fn the_two_halves_of_a_convolution_gradient_differ_in_bytes() {
        let args = operands(&[&[32, 64, 28, 28], &[32, 128, 28, 28], &[64, 128, 1, 1]]);
        let callers = [Caller { operator: "aten::convolution_backward", operands: Some(&args) }];
        let data = work_of(&kernel("sm80_xmma_dgrad_implicit_gemm"), &callers, None).unwrap();
        let weight = work_of(&kernel("sm80_xmma_wgrad_implicit_gemm"), &callers, None).unwrap();
        assert!((data.flop.0 - weight.flop.0).abs() < 1.0);
        assert_eq!(data.written, Bytes(32 * 128 * 28 * 28 * 4));
        assert_eq!(weight.written, Bytes(64 * 128 * 4));
    }

    #[test]
    fn moments_of_a_norm_are_two_numbers_a_row() {
        let args = operands(&[&[8, 256, 64, 64]]);
        let callers = [Caller { operator: "aten::native_batch_norm", operands: Some(&args) }];
        let name =
            "void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, float, float, float, int>";
        let work = work_of(&kernel(name), &callers, None).unwrap();
        assert_eq!((work.family, work.written), (Family::Norm, Bytes(256 * 8)));
        assert_eq!(work.read, Bytes(8 * 256 * 64 * 64 * 4 + 2 * 256 * 4));
    }

    #[test]
    fn statistics_of_a_batch_norm_are_of_its_channels_whatever_the_batch() {
        let name =
            "void at::native::unrolled_elementwise_kernel_for_multi_outputs<3, batch_norm_update_stats_and_invert>";
        for batch in [8, 64] {
            let args = operands(&[&[batch, 256, 64, 64]]);
            let callers = [Caller { operator: "aten::native_batch_norm", operands: Some(&args) }];
            let work = work_of(&kernel(name), &callers, None).unwrap();
            assert_eq!((work.flop.0, work.read, work.written), (0.0, Bytes(4 * 256 * 4), Bytes(4 * 256 * 4)));
        }
    }

    #[test]
    fn an_outer_operator_explains_only_kernels_of_its_family() {
        let args = operands(&[&[1024, 512], &[256, 512], &[256]]);
        let callers = [
            Caller { operator: "aten::copy_", operands: None },
            Caller { operator: "aten::linear", operands: Some(&args) },
        ];
        assert!(work_of(&kernel("void at::native::elementwise_kernel<direct_copy>"), &callers, None).is_none());
        assert_eq!(work_of(&kernel("ampere_sgemm_64x64_tn"), &callers, None).unwrap().family, Family::Gemm);
    }

    #[test]
    fn half_precision_is_read_from_the_kernel_when_the_types_were_not_recorded() {
        let mut args = operands(&[&[64, 64], &[64, 64]]);
        for operand in &mut args.inputs {
            *operand = crate::graph::Operand::tensor(vec![64, 64], None);
        }
        let callers = [Caller { operator: "aten::mm", operands: Some(&args) }];
        let work = work_of(&kernel("ampere_bf16_s16816gemm_bf16_64x64"), &callers, None).unwrap();
        assert_eq!(work.precision, crate::device::Precision::Bf16Tensor);
        assert_eq!(work.written, Bytes(64 * 64 * 2));
    }

    #[test]
    fn collective_kinds_are_read_from_recorded_and_kernel_names() {
        for (name, kind) in [
            ("all-reduce", CollectiveKind::AllReduce),
            ("_allgather_base", CollectiveKind::AllGather),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", CollectiveKind::SendRecv),
            ("ncclDevKernel_ReduceScatter_Sum_bf16", CollectiveKind::ReduceScatter),
            ("all_to_allv", CollectiveKind::AllToAll),
        ] {
            assert_eq!(CollectiveKind::parse(name), Some(kind), "{name}");
        }
        assert_eq!(CollectiveKind::parse("wait"), None);
    }

    #[test]
    fn fusing_keeps_the_ends() {
        let args = operands(&[&[1000]]);
        let callers = [Caller { operator: "aten::relu", operands: Some(&args) }];
        let one = work_of(&kernel("vectorized_elementwise_kernel"), &callers, None).unwrap();
        let fused = one.fused_with(&one);
        assert_eq!((fused.read, fused.written), (one.read, one.written));
        assert!((fused.flop.0 - 2.0 * one.flop.0).abs() < 1e-9);
    }
}
