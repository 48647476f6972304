//! What is written on a bar: layer and role, `Conv2d_1 wgrad`; without a layer the operator with its sizes, `addmm 512×4096`;
//! without an operator the short form of the kernel, `cutlass 128×128`.

use std::borrow::Cow;

use retime_core::cost::Family;
use retime_core::graph::{ExecutionGraph, NodeId, Operand, Operator, Phase, Task, TaskKind};
use retime_core::scenario::{AddedTask, KernelWork};

use crate::session::{short_name, telling_name};

use super::item::Item;
use super::scene::Scene;

/// What is written on the bar of `item`.
pub fn caption(scene: Scene<'_>, item: Item) -> String {
    match item {
        Item::Task(node) => of_task(scene.graph, &scene.resolved.works, node),
        Item::Operator(_) => short_name(scene.name(item)).to_owned(),
        Item::Added(number) => {
            scene.resolved.added.get(number as usize).map_or_else(String::new, |added| of_added(scene.graph, added))
        }
    }
}

pub(super) fn of_added(graph: &ExecutionGraph, added: &AddedTask) -> String {
    let operator = added.operator.and_then(|id| graph.operators.get(id.0 as usize));
    let name = kernel_name(&added.name);
    match operator.and_then(|operator| layer(graph, operator)) {
        Some(layer) => format!("{layer} {name}"),
        None => name.into_owned(),
    }
}

pub(super) fn of_task(graph: &ExecutionGraph, works: &KernelWork, node: NodeId) -> String {
    let Some(task) = graph.tasks.node_weight(node) else { return String::new() };
    let name = graph.names.get(task.name);
    match task.kind {
        TaskKind::Collective(id) => {
            let kind = graph.collectives.get(id.0 as usize).map(|collective| graph.names.get(collective.kind));
            kind.filter(|kind| !kind.is_empty()).unwrap_or(short_name(name)).to_owned()
        }
        TaskKind::Kernel => of_kernel(graph, task, name, works.family(graph, node)),
        _ => short_name(name).to_owned(),
    }
}

fn of_kernel(graph: &ExecutionGraph, task: &Task, name: &str, family: Family) -> String {
    let Some(operator) = task.operator.and_then(|id| graph.operators.get(id.0 as usize)) else {
        return kernel_name(name).into_owned();
    };
    let role = role(name, operator, graph, family);
    if let Some(layer) = layer(graph, operator) {
        return format!("{layer} {role}");
    }
    let own = operator_name(short_name(graph.names.get(operator.name)));
    if own.is_empty() || name.starts_with("triton_") {
        return kernel_name(name).into_owned();
    }
    // Of batched lookups the largest tensor is all their tables end to end.
    let told = Some(operator).filter(|_| !own.starts_with(BATCHED_LOOKUP));
    let sizes = told.and_then(|operator| sizes(graph, operator)).map_or(String::new(), |sizes| format!(" {sizes}"));
    let is_told = ["wgrad", "dgrad", "to NHWC", "to NCHW"].contains(&role.as_ref()) && !own.ends_with(&*role);
    match (is_told, own.strip_suffix(" bwd")) {
        (true, Some(layer)) => format!("{layer} {role}{sizes}"),
        (true, None) => format!("{own} {role}{sizes}"),
        (false, _) => format!("{own}{sizes}"),
    }
}

/// FBGEMM's lookups of several tables at once.
const BATCHED_LOOKUP: &str = "batched lookup";

/// An operator's name without that of the library, in the field's short form.
fn operator_name(name: &str) -> Cow<'_, str> {
    const LIBRARIES: [&str; 4] = ["cudnn_", "miopen_", "native_", "mkldnn_"];
    const SHORT: [(&str, &str); 7] = [
        ("max_pool2d_with_indices", "max_pool"),
        ("max_pool2d_with_indices_backward", "max_pool bwd"),
        ("convolution_backward_input", "conv dgrad"),
        ("convolution_backward_weight", "conv wgrad"),
        ("convolution_backward", "conv bwd"),
        ("convolution", "conv"),
        ("conv2d", "conv"),
    ];
    let name = name.trim_matches('_');
    if name.starts_with("split_embedding_codegen_lookup") || name.starts_with("dense_embedding_codegen_lookup") {
        return BATCHED_LOOKUP.into();
    }
    if name.starts_with("SplitLookupFunction") {
        return format!("{BATCHED_LOOKUP} bwd").into();
    }
    let name = LIBRARIES.iter().find_map(|library| name.strip_prefix(library)).unwrap_or(name);
    match (SHORT.iter().find(|(long, _)| *long == name), name.strip_suffix("_backward")) {
        (Some((_, short)), _) => (*short).into(),
        (None, Some(forward)) => format!("{forward} bwd").into(),
        (None, None) => name.into(),
    }
}

/// What a kernel does for its layer.
fn role<'a>(name: &str, operator: &Operator, graph: &'a ExecutionGraph, family: Family) -> Cow<'a, str> {
    const TOLD: [(&str, &str); 7] = [
        ("wgrad", "wgrad"),
        ("dgrad", "dgrad"),
        ("fprop", "fwd"),
        ("nchwToNhwc", "to NHWC"),
        ("nhwcToNchw", "to NCHW"),
        ("Nchw2Nhwc", "to NHWC"),
        ("Nhwc2Nchw", "to NCHW"),
    ];
    if let Some((_, role)) = TOLD.iter().find(|(part, _)| name.contains(part)) {
        return (*role).into();
    }
    let is_main = matches!(
        family,
        Family::Gemm | Family::Conv | Family::Attention | Family::Norm | Family::Pooling | Family::Embedding
    );
    match operator.phase {
        Phase::Forward if is_main => "fwd".into(),
        Phase::Backward if is_main => "bwd".into(),
        _ => operator_name(short_name(graph.names.get(operator.name))),
    }
}

/// The layer of an operator by the last parts of its module's path: `layer3.0.bn1`, `Conv2d_1`.
fn layer<'a>(graph: &'a ExecutionGraph, operator: &Operator) -> Option<&'a str> {
    const PARTS: usize = 3;
    let module = graph.names.get(operator.module);
    // A source line is no module.
    if module.is_empty() || module.contains(".py") {
        return None;
    }
    let last = module.rsplit(['/', ' ']).next().unwrap_or(module);
    let from = last.rmatch_indices('.').nth(PARTS - 1).map_or(0, |(at, _)| at + 1);
    last.get(from..).filter(|layer| !layer.is_empty())
}

/// `512×4096`: the sizes of the largest tensor that goes in.
fn sizes(graph: &ExecutionGraph, operator: &Operator) -> Option<String> {
    let operands = graph.operands.get(operator.operands?.0 as usize)?;
    let tensors = operands.inputs.iter().filter_map(|operand| match operand {
        Operand::Tensor { dims, .. } if !dims.is_empty() => Some(dims),
        _ => None,
    });
    let largest = tensors.max_by_key(|dims| dims.iter().copied().fold(1_u64, u64::saturating_mul))?;
    Some(largest.iter().map(u64::to_string).collect::<Vec<_>>().join("×"))
}

/// A kernel's name in short: what it computes, and the tile of a CUTLASS or cuBLAS kernel.
pub fn kernel_name(name: &str) -> Cow<'_, str> {
    let is_tiled = ["cutlass", "gemm", "xmma", "flash", "conv", "Cijk_"].iter().any(|part| name.contains(part));
    let Some(tile) = tile(name).filter(|_| is_tiled) else { return telling_name(name) };
    let what = match name {
        name if name.contains("wgrad") => "wgrad",
        name if name.contains("dgrad") => "dgrad",
        name if name.contains("fprop") => "conv",
        name if name.contains("flash") => "flash",
        name if name.contains("cutlass") => "cutlass",
        _ => "gemm",
    };
    // What adds up the parts of a product that was split along its depth.
    let part = if name.contains("execute_split_k_kernel") { " split-K" } else { "" };
    format!("{what}{part} {tile}").into()
}

/// The first two sizes of the form `128x64` in a name.
fn tile(name: &str) -> Option<String> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.into_iter().find_map(|word| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let mut sizes = digits.split('x').map(str::parse::<u32>);
        let (m, n) = (sizes.next()?.ok()?, sizes.next()?.ok()?);
        (m >= 16 && n >= 8).then(|| format!("{m}×{n}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_by_what_they_compute_and_their_tile() {
        let cases = [
            ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x256_16x3_nt_align4>(Params)", "cutlass 128×256"),
            ("sm80_xmma_wgrad_implicit_gemm_tf32_tilesize128x64x16_stage4", "wgrad 128×64"),
            ("ampere_sgemm_32x128_tn", "gemm 32×128"),
            ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN", "gemm 256×32"),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
            ("relu_kernel", "relu_kernel"),
        ];
        for (name, short) in cases {
            assert_eq!(kernel_name(name), short);
        }
    }

    #[test]
    fn operators_go_by_their_short_names() {
        let cases = [
            ("cudnn_convolution_backward_weight", "conv wgrad"),
            ("max_pool2d_with_indices_backward", "max_pool bwd"),
            ("threshold_backward", "threshold bwd"),
            ("add_", "add"),
            ("split_embedding_codegen_lookup_rowwise_adagrad_function", "batched lookup"),
            ("SplitLookupFunction_rowwise_adagrad_Op", "batched lookup bwd"),
        ];
        for (name, short) in cases {
            assert_eq!(operator_name(name), short);
        }
    }
}
