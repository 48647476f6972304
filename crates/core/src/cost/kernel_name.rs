//! What a kernel's name says: its family, its part in its operator's work, and how it computes.
//!
//! Names are those of NVIDIA (cuBLAS, cuDNN, CUTLASS), AMD (rocBLAS, MIOpen, CK), PyTorch, FBGEMM, vLLM and Triton kernels.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::device::Precision;
use crate::graph::DType;

use super::operators::{ConvPass, gemm_precision, operator_family};
use super::work::Family;

/// A kernel's part in the work of its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The product, lookup or loop itself.
    Main,
    /// Adds up the parts of a product that was split along its reduction.
    SplitReduction,
    /// Changes layout or transforms operands (NCHW ↔ NHWC, Winograd transforms, im2col).
    Layout,
    /// Sorts, scans or counts indices.
    Indices,
    /// Finds the mean and variance of each row before it is normalised.
    Moments,
    /// Brings the mean and variance of each channel up to date.
    Statistics,
    /// Sums gradients of per-column parameters (scale and shift of a norm).
    ParameterGradient,
}

/// Family → parts of names that show it; the first match in order counts.
const FAMILY_PARTS: [(Family, &[&str]); 14] = [
    (
        Family::Collective,
        &["nccl", "rccl", "allreduce", "all_reduce", "cross_device_reduce", "allgather", "reducescatter"],
    ),
    (Family::Transfer, &["memcpy", "memset", "copybuffer", "fillbuffer"]),
    (Family::Optimizer, &["multi_tensor_apply", "multitensorapply", "fusedadam", "fused_adam"]),
    (Family::Attention, &["flash", "fmha", "attention", "sdpa", "attn"]),
    (Family::Embedding, &["embedding", "embeddingbag"]),
    (
        Family::Conv,
        &[
            "conv2d",
            "convolve",
            "convolution",
            "dgrad",
            "wgrad",
            "fprop",
            "winograd",
            "implicit_gemm",
            "miopen",
            "igemm_",
            "conv_",
            "_conv",
            "im2col",
            "im2d2col",
            "im3d2col",
            "col2im",
            "nchwtonhwc",
            "nhwctonchw",
            "cudnn::cnn",
            "conv_depthwise",
            "bgrad",
            "addpadding",
            "scudnn",
            "884cudnn",
            "1688cudnn",
            "16816cudnn",
        ],
    ),
    (
        Family::Norm,
        &[
            "batch_norm",
            "batchnorm",
            "bn_fw",
            "bn_bw",
            "layer_norm",
            "layernorm",
            "rms_norm",
            "rmsnorm",
            "group_norm",
            "gammabeta",
        ],
    ),
    (Family::Softmax, &["softmax"]),
    (Family::Dropout, &["dropout"]),
    (
        Family::Gemm,
        &[
            "gemm",
            "cijk_",
            "cutlass",
            "gemv",
            "nvjet",
            "splitkreduce",
            "splitk_reduce",
            "matmul",
            "wmma",
            "ampere_s",
            "volta_s",
            "s16816",
            "s1688",
            "h884",
            "triton_mm",
            "triton_tem_fused_mm",
            "dot_kernel",
            "bmm_mxe",
            "bmm_e4m3_",
            "bmm_e2m1_",
            "bmm_bfloat16_",
            "bmm_fp16_",
        ],
    ),
    (Family::Pooling, &["pool"]),
    (
        Family::Movement,
        &[
            "catarray",
            "direct_copy",
            "copy",
            "transpose",
            "index",
            "gather",
            "scatter",
            "fillfunctor",
            "tril",
            "triu",
            "sort",
            "scan",
            "arange",
            "fill_",
        ],
    ),
    (Family::Reduction, &["reduce", "loss", "argmax", "triton_red", "triton_per", "norm_kernel"]),
    (Family::Elementwise, &["elementwise", "triton_poi", "pointwise", "unrolled", "binaryfunctor"]),
];

/// Finds all parts of [`FAMILY_PARTS`] at once, and the family of each; nothing where they cannot be built.
static PARTS: LazyLock<(Option<AhoCorasick>, Vec<Family>)> = LazyLock::new(|| {
    let parts = FAMILY_PARTS.iter().flat_map(|&(family, parts)| parts.iter().map(move |part| (*part, family)));
    let (parts, families): (Vec<&str>, Vec<Family>) = parts.unzip();
    (AhoCorasick::builder().ascii_case_insensitive(true).build(parts).ok(), families)
});

/// The family that `kernel`'s name shows.
///
/// # Complexity
/// O(length of the name).
pub(crate) fn kernel_family(kernel: &str) -> Option<Family> {
    let (parts, families) = &*PARTS;
    let found = parts.as_ref()?.find_overlapping_iter(kernel).map(|found| found.pattern().as_usize()).min()?;
    families.get(found).copied()
}

/// The family of a kernel that an edit put beside the operator which launched it, by the name that the edit gave it: of an operator, or
/// of a cast. So it is read in an exported iteration.
pub fn family_beside(kernel: &str) -> Option<Family> {
    let operator = || kernel.starts_with("aten::").then(|| operator_family(kernel)).flatten();
    kernel.starts_with("cast ").then_some(Family::Elementwise).or_else(operator)
}

/// The part of `kernel` in the work of an operator of `family`.
pub fn role(kernel: &str, family: Family) -> Role {
    let name = kernel.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match family {
        Family::Gemm | Family::Conv
            if has(&[
                "splitkreduce",
                "splitk_reduce",
                "reducesplitk",
                "execute_split_k",
                "reduce_kernel",
                "reduce_wgrad",
                "postgsu",
            ]) =>
        {
            Role::SplitReduction
        }
        Family::Conv if unfolds(kernel) => Role::Layout,
        // Mangled names hold those of all their parts.
        Family::Conv if has(&["implicitgemm"]) => Role::Main,
        Family::Conv
            if has(&[
                "addpadding",
                "nchwtonhwc",
                "nhwctonchw",
                "nchwtofolded",
                "transpose",
                "col2im",
                "subtensorop",
                "elementwise",
                "transform",
            ]) =>
        {
            Role::Layout
        }
        Family::Conv
            if name.contains("winograd")
                && has(&["data", "output", "filter"])
                && has(&["winogradforward", "winogradw"]) =>
        {
            Role::Layout
        }
        Family::Gemm
            if has(&["elementwise", "copy", "transpose", "fill", "scal_kernel", "epilogue::impl"])
                && !has(&["gemm", "cijk"]) =>
        {
            Role::Layout
        }
        Family::Attention if has(&["dot_do_o", "convert_dq", "preprocess", "combine", "seed", "fill"]) => Role::Layout,
        Family::Embedding
            if has(&[
                "sort",
                "scan",
                "offset2bag",
                "linearize",
                "find_long",
                "unique",
                "krn_",
                "cub::",
                "thrust",
                "split_segment",
                "delta_or",
            ]) =>
        {
            Role::Indices
        }
        Family::Norm if has(&["rowwisemoments", "collect_statistics", "spatialmeanvariance"]) => Role::Moments,
        Family::Norm if has(&["update_stats", "gather_statistics", "reduce_statistics"]) => Role::Statistics,
        Family::Norm if has(&["gammabeta", "gamma_beta", "dgamma", "finalize", "spatialdscaledbias"]) => {
            Role::ParameterGradient
        }
        _ => Role::Main,
    }
}

/// Whether `kernel` unfolds an image into a matrix with a column for each result (`im2col`, of MIOpen `Im2d2Col`).
pub(crate) fn unfolds(kernel: &str) -> bool {
    let name = kernel.to_ascii_lowercase();
    ["im2col", "im2d2col", "im3d2col"].iter().any(|part| name.contains(part))
}

/// Whether `kernel` only prepares the state of a scan or sort, or adds up what blocks of a norm over lists found: a few bytes for
/// each block.
pub(crate) fn is_setup(kernel: &str) -> bool {
    let parts = [
        "DeviceScanInitKernel",
        "DeviceCompactInitKernel",
        "RadixSortExclusiveSum",
        "lpnorm_cleanup",
        // Of batch norms of MIOpen: the sums of all blocks become a mean and a variance, or gradients, of each channel.
        "SpatialFinalMeanVariance",
        "SpatialFinalDScaleDBias",
    ];
    parts.iter().any(|part| kernel.contains(part))
}

/// Which way a kernel of cuDNN changes the layout of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LayoutChange {
    /// Channels become the innermost dimension.
    ToChannelsLast,
    /// Channels become the second dimension.
    ToChannelsFirst,
}

impl LayoutChange {
    /// What a kernel is called that an edit adds.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ToChannelsLast => "change layout to channels last",
            Self::ToChannelsFirst => "change layout to channels first",
        }
    }
}

/// The change of layout that `kernel` makes, if that is what it does.
pub(crate) fn layout_change(kernel: &str) -> Option<LayoutChange> {
    let is_one = |parts: [&str; 2]| parts.iter().any(|part| kernel.contains(part));
    if is_one(["nchwToNhwc", LayoutChange::ToChannelsLast.name()]) {
        Some(LayoutChange::ToChannelsLast)
    } else {
        is_one(["nhwcToNchw", LayoutChange::ToChannelsFirst.name()]).then_some(LayoutChange::ToChannelsFirst)
    }
}

/// Whether `kernel` copies a tensor of a convolution into one with more channels, or back.
pub(crate) fn pads_channels(kernel: &str) -> bool {
    kernel.contains("AddPadding")
}

/// Whether `kernel` computes the gradient of a convolution's weights.
pub(crate) fn is_weight_gradient(kernel: &str) -> bool {
    kernel.contains("wgrad") && !kernel.contains("init_device_workspace")
}

/// Whether `kernel` transforms tiles of a convolution's tensors into spectra.
pub(crate) fn is_spectrum(kernel: &str) -> bool {
    kernel.contains("fft2d_r2c")
}

/// Whether `kernel` of a convolution transforms tiles (Winograd, FFT), or computes with transformed ones: what libraries do on vector
/// units, or without.
pub(crate) fn transforms_tiles(kernel: &str) -> bool {
    let of_winograd = kernel.contains("winograd") && !kernel.contains("miopen");
    of_winograd || kernel.contains("fft2d_")
}

/// Whether `kernel` works out the place of every element for itself instead of walking over vectors of them: what `PyTorch`
/// launches for operands that are broadcast, permuted, concatenated or picked by index.
pub(crate) fn is_strided(kernel: &str) -> bool {
    const WALKS: [&str; 5] = ["vectorized_", "unrolled_", "multi_tensor", "reduce_kernel", "legacy::"];
    const FINDS: [&str; 4] = ["elementwise_kernel", "CatArray", "indexSelect", "index_elementwise"];
    let has = |parts: &[&str]| parts.iter().any(|part| kernel.contains(part));
    has(&FINDS) && !has(&WALKS)
}

/// Whether `kernel` is a reduction of `PyTorch` with several results a thread, the second number of its name: their values lie side
/// by side, those of one result do not.
pub(crate) fn sums_columns(kernel: &str) -> bool {
    ["reduce_kernel<128, 4,", "reduce_kernel<256, 2,"].iter().any(|part| kernel.contains(part))
}

/// Whether `kernel` sorts, scans or compacts a list: blocks of threads wait for those before them.
pub(crate) fn is_chained(kernel: &str) -> bool {
    const CHAINED: [&str; 8] = [
        "DeviceRadixSortOnesweep",
        "DeviceRadixSortSingleTile",
        "DeviceScanKernel",
        "DeviceScanByKeyKernel",
        "DeviceReduceByKeyKernel",
        "DeviceSelectSweepKernel",
        "linearize_index",
        "bounds_check_indices",
    ];
    CHAINED.iter().any(|part| kernel.contains(part))
}

/// Which product of a convolution layer `kernel` computes, when its name says so.
pub(crate) fn conv_pass(kernel: &str) -> Option<ConvPass> {
    let name = kernel.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["wgrad", "bwdweight", "bwd_weight", "backward_weight", "_wrw", "wrw_"]) {
        Some(ConvPass::WeightGradient)
    } else if has(&["dgrad", "bwddata", "bwd_data", "backward_data", "_bwd_", "igemm_bwd"]) {
        Some(ConvPass::InputGradient)
    } else if has(&["fprop", "_fwd", "forward"]) && !name.contains("winograd") {
        Some(ConvPass::Forward)
    } else {
        None
    }
}

/// Whether `kernel` computes fp32 products in tf32.
pub(crate) fn is_tf32(kernel: &str) -> bool {
    let name = kernel.to_ascii_lowercase();
    ["tf32", "_s1688", "tensorop_s1688", "xf32"].iter().any(|part| name.contains(part))
}

/// How `kernel`, of `family`, computes by its name: on matrix units in the narrowest type that is there (products of FP4 and FP8
/// factors run on units for FP8), attention in 16 bits where nothing says otherwise.
pub(crate) fn units_of(kernel: &str, family: Family) -> Precision {
    let name = kernel.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let in_16_bits = family == Family::Attention && !has(&["f32", "float>", "float,"])
        || has(&["mfma", "wmma", "hmma", "nvjet_h", "s16816", "h16816"]);
    let is_bf16 = has(&["bfloat16", "nvjet_t"]);
    match dtype(kernel) {
        _ if has(&["e4m3", "e5m2", "fp8", "float8", "e2m1", "fp4", "nvjet_q", "_f8"]) => Precision::Fp8Tensor,
        Some(named) if !is_bf16 => gemm_precision(named, false),
        _ if is_bf16 => Precision::Bf16Tensor,
        _ if is_tf32(kernel) || name.contains("nvjet_s") => Precision::Tf32,
        _ if in_16_bits => Precision::Fp16Tensor,
        _ => Precision::Fp32,
    }
}

/// The element type that `kernel`'s name shows, for operators whose types were not recorded.
pub fn dtype(kernel: &str) -> Option<DType> {
    let has = |parts: &[&str]| parts.iter().any(|part| kernel.contains(part));
    if has(&["BFloat16", "bf16", "_bf16_", "BBS", "_BB", "OpaqueType<2"]) {
        Some(DType::Bf16)
    } else if has(&["Half", "half", "f16f16", "h16816", "h884", "hgemm", "_HHS", "fp16"]) {
        Some(DType::Fp16)
    } else if has(&["double", "dgemm"]) {
        Some(DType::Fp64)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_prepare_a_scan_or_sort_are_known() {
        assert!(is_setup(
            "void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(cub::ScanTileState<int, true>, int)"
        ));
        assert!(is_setup(
            "void cub::DeviceRadixSortExclusiveSumKernel<cub::DeviceRadixSortPolicy<long, int, int>, int>(int*)"
        ));
        assert!(!is_setup("void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int> >(int*, int*)"));
    }

    #[test]
    fn kernel_names_show_their_family() {
        for (kernel, family) in [
            ("ampere_sgemm_128x64_tn", Family::Gemm),
            ("Cijk_Ailk_Bljk_BBS_BH_MT64x64x64", Family::Gemm),
            ("nvjet_tst_192x192_64x4_2x1_v_bz_TNN", Family::Gemm),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", Family::Collective),
            ("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", Family::Conv),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >",
                Family::Elementwise,
            ),
            ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 2>", Family::Movement),
            ("pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >", Family::Attention),
            ("split_embedding_codegen_forward_unweighted_kernel<float, float>", Family::Embedding),
            ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", Family::Norm),
            ("softmax_warp_forward<float, float, float, 10, true, false>", Family::Softmax),
            ("triton_poi_fused_add_relu_0", Family::Elementwise),
            ("Memcpy HtoD (Pinned -> Device)", Family::Transfer),
        ] {
            assert_eq!(kernel_family(kernel), Some(family), "{kernel}");
        }
        assert_eq!(kernel_family("my_custom_thing"), None);
    }

    #[test]
    fn auxiliary_kernels_are_told_from_the_main_one() {
        assert_eq!(role("void splitKreduce_kernel<32, 16, int, float>", Family::Gemm), Role::SplitReduction);
        let split = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_execute_split_k_kernel__5x_cublas";
        assert_eq!(role(split, Family::Gemm), Role::SplitReduction);
        let weights = "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*, void const*, float, int, int)";
        assert_eq!(role(weights, Family::Conv), Role::SplitReduction);
        assert_eq!(role("ampere_sgemm_128x64_tn", Family::Gemm), Role::Main);
        assert_eq!(role("cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", Family::Conv), Role::Layout);
        assert_eq!(role("void cudnn::ops::nchwToNhwcKernel<float, float>", Family::Conv), Role::Layout);
        assert_eq!(role("DeviceRadixSortSingleTileKernel", Family::Embedding), Role::Indices);
    }

    #[test]
    fn kernels_of_broadcast_operands_are_told_from_those_over_vectors() {
        let strided = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<direct_copy> >";
        assert!(is_strided(strided));
        assert!(is_strided("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 3>"));
        assert!(!is_strided("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"));
        assert!(!is_strided("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>"));
    }

    #[test]
    fn the_pass_of_a_convolution_is_in_the_name() {
        assert_eq!(conv_pass("sm80_xmma_wgrad_implicit_gemm_indexed"), Some(ConvPass::WeightGradient));
        assert_eq!(conv_pass("void cudnn::cnn::dgrad2d_alg1_1<float>"), Some(ConvPass::InputGradient));
        assert_eq!(conv_pass("ampere_scudnn_128x64_relu_small_nn_v1"), None);
    }
}
