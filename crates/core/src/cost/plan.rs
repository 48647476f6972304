//! Which kernels a framework launches for an operator: for models that were never run on a GPU.
//!
//! The inverse of `classify`, where a kernel is given and its part of the operator's work is looked for.

use crate::graph::{Phase, TaskKind};
use crate::units::Bytes;

use super::classify::{Caller, Launch, work_of};
use super::kernel_name;
use super::operators::{bare, conv_passes};
use super::work::Work;

/// A kernel that an operator would launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedKernel {
    /// A name that says what it does; `classify` reads it like a recorded one.
    pub name: &'static str,
    /// What it has to do.
    pub work: Work,
}

/// Kernels by operator, where there is not exactly one.
const SEVERAL: [(&str, &[&str]); 7] = [
    ("convolution_backward", &["conv_dgrad_implicit_gemm", "conv_wgrad_implicit_gemm"]),
    ("_slow_conv2d_backward", &["conv_dgrad_implicit_gemm", "conv_wgrad_implicit_gemm"]),
    ("native_layer_norm_backward", &["layer_norm_grad_input_kernel", "GammaBetaBackwardCUDAKernel"]),
    ("embedding_dense_backward", &["DeviceRadixSort_kernel", "embedding_backward_kernel"]),
    ("_embedding_bag_dense_backward", &["DeviceRadixSort_kernel", "embedding_bag_backward_kernel"]),
    ("_embedding_bag_sparse_backward", &["embedding_bag_backward_kernel"]),
    ("embedding_sparse_backward", &[]),
];

/// The kernels that the leaf operator `caller` launches in `phase`; `forward` is its forward operator, where known.
///
/// Empty for operators without device work (views, allocations); `None` when its work is not known.
pub(crate) fn planned_kernels(
    caller: Caller<'_>,
    forward: Option<Caller<'_>>,
    phase: Phase,
) -> Option<Vec<PlannedKernel>> {
    if super::operators::is_free(caller.operator) {
        return Some(Vec::new());
    }
    let bare = bare(caller.operator);
    let several = SEVERAL.iter().find(|(operator, _)| *operator == bare).map(|&(_, kernels)| kernels);
    let one = |name: &'static str, kind| {
        let launch = Launch { kind, name, bytes: Bytes(0), ranks: 0, phase };
        work_of(&launch, &[caller], forward).map(|work| PlannedKernel { name, work })
    };
    let is_asked = |name: &&&str| match (kernel_name::conv_pass(name), caller.operands) {
        (Some(pass), Some(operands)) => conv_passes(bare, operands).contains(&pass),
        _ => true,
    };
    match several {
        Some(names) => names.iter().filter(is_asked).map(|&name| one(name, TaskKind::Kernel)).collect(),
        None => {
            one("", TaskKind::Compute).map(|kernel| vec![PlannedKernel { name: kernel.work.family.name(), ..kernel }])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::operands;
    use crate::cost::work::Family;

    #[test]
    fn a_convolution_gradient_launches_one_kernel_for_each_gradient() {
        let args = operands(&[&[32, 64, 28, 28], &[32, 128, 28, 28], &[64, 128, 1, 1]]);
        let caller = Caller { operator: "aten::convolution_backward", operands: Some(&args) };
        let kernels = planned_kernels(caller, None, Phase::Backward).unwrap();
        assert_eq!(kernels.len(), 2);
        assert!((kernels[0].work.flop.0 - kernels[1].work.flop.0).abs() < 1.0);
        assert_ne!(kernels[0].work.written, kernels[1].work.written);
    }

    #[test]
    fn a_gradient_that_was_not_asked_for_is_not_computed() {
        let mut args = operands(&[&[32, 64, 28, 28], &[32, 128, 28, 28], &[64, 128, 1, 1]]);
        args.inputs.push(crate::cost::operators::tests::value("[false, true, false]"));
        let caller = Caller { operator: "aten::convolution_backward", operands: Some(&args) };
        let kernels = planned_kernels(caller, None, Phase::Backward).unwrap();
        assert_eq!(kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>(), ["conv_wgrad_implicit_gemm"]);
    }

    #[test]
    fn views_launch_nothing_and_unknown_operators_are_not_guessed() {
        let args = operands(&[&[4, 4]]);
        let plan = |operator| planned_kernels(Caller { operator, operands: Some(&args) }, None, Phase::Forward);
        assert_eq!(plan("aten::view"), Some(Vec::new()));
        assert_eq!(plan("mylib::mystery"), None);
        assert_eq!(plan("aten::relu").unwrap()[0].work.family, Family::Elementwise);
    }
}
