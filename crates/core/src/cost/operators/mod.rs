//! FLOP and bytes of operators from their arguments, one file per kind of operator.
//!
//! Knows no kernel names (see `classify`) and no device.

mod args;
pub mod attention;
pub mod conv;
pub mod embedding;
pub mod gemm;
pub mod movement;
pub mod pointwise;
pub mod rowwise;

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{DType, Operand, Operands, asked_gradients};

use super::work::{Family, Work};
use args::Args;
pub use attention::{AttentionSize, attention_work};
pub(crate) use attention::{attention_forward, kv_heads, with_one_query, with_sequences};
pub use conv::{ConvPass, ConvSize, conv_flop, conv_work};
pub(crate) use conv::{product as conv_product, with_images, with_whole_channels};
pub use embedding::{LookupSize, lookup_work};
pub(super) use gemm::gemm_bytes;
pub(crate) use gemm::gemm_precision;
pub use gemm::{GemmSize, gemm_flop, gemm_work};
pub use movement::movement_work;
pub(crate) use movement::permuted_bytes;

/// How to read an operator's arguments where they leave something open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Element type of tensors that recorded none.
    pub dtype: DType,
    /// Whether fp32 products run in tf32.
    pub tf32: bool,
    /// Whether the kernel sums columns that lie side by side.
    pub columns: bool,
}

/// An operator's name without namespace: `aten::add_` → `add_`.
pub fn bare(operator: &str) -> &str {
    operator.rsplit("::").next().unwrap_or(operator)
}

/// Whether `operands`, recorded of another operator, can be those of `operator`: asked of products alone, whose factors have to meet.
pub(crate) fn fits(operator: &str, operands: &Operands) -> bool {
    gemm::fits(bare(operator), Args::with_default(operands, DType::Fp32))
}

/// The work of `operator` as one piece; `None` for operators that are not covered or whose sizes were not recorded.
pub fn operator_work(operator: &str, operands: &Operands, reading: Reading) -> Option<Work> {
    let name = bare(operator);
    let in_place = name.trim_end_matches('_');
    let args = Args::with_default(operands, reading.dtype);
    match operator_family(operator)? {
        Family::Gemm => gemm::work(name, args, reading.tf32 || rounds_to_tf32(operands)),
        Family::Conv => {
            let [first, ..] = conv_passes(name, operands)[..] else { return None };
            conv::pass_work(name, args, first, reading.tf32 || rounds_to_tf32(operands))
        }
        Family::Attention => attention::work(name, args),
        Family::Embedding => embedding::work(name, args),
        Family::Norm | Family::Softmax | Family::Reduction => rowwise::work(name, args, reading.columns),
        Family::Dropout | Family::Elementwise => pointwise::elementwise(name, args),
        Family::Pooling => pointwise::pooling(name, args),
        Family::Movement => movement::work(in_place, args),
        Family::Optimizer => pointwise::optimizer(name, args),
        Family::Transfer | Family::Collective | Family::Other => None,
    }
}

/// The argument that an edit gives to products which are to round 32-bit floats to 19 bits.
pub(crate) const TF32_ARGUMENT: &str = "products=tf32";

/// Whether an edit told the product of `operands` to round to tf32.
pub(crate) fn rounds_to_tf32(operands: &Operands) -> bool {
    operands.inputs.iter().any(|operand| matches!(operand, Operand::Value(text) if &**text == TF32_ARGUMENT))
}

/// The passes that the convolution operator `name` computes on these arguments.
pub(crate) fn conv_passes(name: &str, operands: &Operands) -> Vec<ConvPass> {
    if !name.contains("backward") {
        return vec![ConvPass::Forward];
    }
    let (input, weight) = asked_gradients(operands);
    let passes = [(input, ConvPass::InputGradient), (weight, ConvPass::WeightGradient)];
    passes.into_iter().filter(|&(asked, _)| asked).map(|(_, pass)| pass).collect()
}

/// One pass of the convolution that `operator` computes.
pub(crate) fn conv_pass_work(operator: &str, operands: &Operands, pass: ConvPass, reading: Reading) -> Option<Work> {
    let args = Args::with_default(operands, reading.dtype);
    conv::pass_work(bare(operator), args, pass, reading.tf32 || rounds_to_tf32(operands))
}

/// The gradient of a table-batched lookup whose forward operator is `forward`; `gradient` holds the arguments of
/// the backward operator, whose first is the gradient `[batch, total dimension]`.
pub(crate) fn batched_lookup_backward(forward: (&str, &Operands), gradient: Option<&Operands>) -> Option<Work> {
    let work = embedding::work(bare(forward.0), Args::with_default(forward.1, DType::Fp32))?;
    embedding::batched_backward(&work, gradient.and_then(|operands| operands.dims(0)))
}

/// The work of any operator taken as element-wise on its largest argument: what a kernel does whose name says so. What such an
/// operator (a compiled kernel, say) makes of its other arguments is not known, so nothing broadcasts.
pub(crate) fn as_elementwise(operator: &str, operands: &Operands, reading: Reading) -> Option<Work> {
    pointwise::of_largest(bare(operator), Args::with_default(operands, reading.dtype))
}

/// The family of an operator by its name alone.
pub fn operator_family(operator: &str) -> Option<Family> {
    let name = bare(operator);
    let stem = name.trim_end_matches('_').trim_end_matches("_backward");
    let place = |name: &str| PLACES.get(name).copied();
    let exact = place(stem).into_iter().chain(place(name)).min();
    exact.map(|place| FAMILIES[place].0).or_else(|| family_by_part(name))
}

/// In which of [`FAMILIES`] a name is; the first one counts. It is asked for every operator of a trace.
static PLACES: LazyLock<FxHashMap<&str, usize>> = LazyLock::new(|| {
    let listed =
        FAMILIES.iter().enumerate().flat_map(|(place, (_, names))| names.split(' ').map(move |name| (name, place)));
    let mut places = FxHashMap::default();
    for (name, place) in listed {
        places.entry(name).or_insert(place);
    }
    places
});

/// Operators whose cost is known, without their namespace.
pub fn known_operators() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|(_, names)| names.split(' '))
}

/// Operators by family, in-place and `_backward` forms included unless listed themselves.
const FAMILIES: [(Family, &str); 9] = [
    (
        Family::Gemm,
        "mm bmm addmm baddbmm addbmm addmv mv dot vdot matmul linear mkldnn_linear _linear einsum tensordot \
         _scaled_mm _int_mm _addmm_activation",
    ),
    (
        Family::Elementwise,
        "add sub rsub mul div divide multiply subtract true_divide floor_divide remainder fmod neg abs sign square sqrt \
         rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p pow sin cos tan tanh sigmoid relu relu6 leaky_relu elu selu \
         gelu silu mish softplus hardtanh hardswish hardsigmoid threshold clamp clamp_min clamp_max logit erf where eq ne lt \
         le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not isneginf isnan isinf \
         isfinite maximum minimum addcmul addcdiv lerp ceil floor round trunc nan_to_num sgn log_sigmoid_forward \
         log_sigmoid uniform normal random exponential mse_loss_backward smooth_l1_loss_backward l1_loss_backward \
         binary_cross_entropy_backward glu swiglu silu_and_mul gelu_and_mul convex_sum mul_out",
    ),
    (
        Family::Reduction,
        "sum mean max min amax amin argmax argmin all any prod norm linalg_vector_norm var std var_mean std_mean logsumexp \
         count_nonzero mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits \
         nll_loss_forward nll_loss nll_loss_nd nll_loss2d_forward cross_entropy_loss kl_div median",
    ),
    (
        Family::Softmax,
        "softmax _softmax log_softmax _log_softmax _safe_softmax _softmax_backward_data _log_softmax_backward_data",
    ),
    (Family::Dropout, "native_dropout dropout _fused_dropout bernoulli feature_dropout"),
    (
        Family::Movement,
        "copy cat stack concat _cat clone contiguous _to_copy to repeat roll flip tril triu cumsum cumprod constant_pad_nd pad \
         fill zero zeros_like ones_like full_like zeros ones full arange eye slice_backward select_backward gather_backward \
         sort topk unique _unique2 unique_consecutive argsort index_select gather scatter scatter_add scatter_reduce index_add \
         index_copy index _unsafe_index _index_put_impl index_put _unsafe_index_put masked_fill im2col col2im \
         permute_2D_sparse_data permute_sparse_features permute_1D_sparse_data asynchronous_complete_cumsum \
         bounds_check_indices offsets_range block_bucketize_sparse_features jagged_to_padded_dense bucketize \
         expand_into_jagged_permute recat_embedding_grad_output_mixed_D_batch segment_sum_csr repeat_interleave \
         permute_pooled_embs permute_pooled_embs_auto_grad FloatToHFP8Quantized HFP8QuantizedToFloat \
         FloatToFP8RowwiseQuantized FP8RowwiseQuantizedToFloat FloatToBfloat16Quantized Bfloat16QuantizedToFloat \
         reshape_and_cache_flash rotary_embedding static_scaled_fp8_quant _local_scalar_dense upsample_nearest1d \
         upsample_nearest2d upsample_bilinear2d nll_loss_backward nll_loss2d_backward",
    ),
    (Family::Attention, "scaled_dot_product_attention unified_attention_with_output"),
    (Family::Embedding, "embedding embedding_dense embedding_sparse"),
    (
        Family::Collective,
        "record_param_comms allreduce alltoall alltoall_base allgather _allgather_base reduce_scatter _reduce_scatter_base \
         broadcast barrier all_reduce all_to_all_single all_gather all_gather_into_tensor reduce_scatter_tensor \
         multimem_all_reduce send recv",
    ),
];

/// Families recognised by a part of the name.
fn family_by_part(name: &str) -> Option<Family> {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    Some(match name {
        _ if name.starts_with("_foreach_") || name.starts_with("_fused_ad") || name.starts_with("_fused_sgd") => {
            Family::Optimizer
        }
        _ if has(&["flash_attention", "efficient_attention", "cudnn_attention"]) => Family::Attention,
        _ if has(&["conv1d", "conv2d", "conv3d", "convolution"]) => Family::Conv,
        _ if has(&["batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm"]) => Family::Norm,
        _ if has(&[
            "embedding_bag",
            "embedding_codegen",
            "embedding_backward_codegen",
            "SplitLookupFunction",
            "SplitNoDense",
        ]) =>
        {
            Family::Embedding
        }
        _ if has(&["max_pool", "avg_pool"]) => Family::Pooling,
        _ if has(&["multi_tensor_adam", "multi_tensor_sgd", "multi_tensor_l2norm"]) => Family::Optimizer,
        _ => return None,
    })
}

/// Whether `operator` only changes how memory is looked at, allocates it, or asks something: no device work of its own.
pub fn is_free(operator: &str) -> bool {
    const FREE: &str = "view _unsafe_view reshape _reshape_alias as_strided t transpose permute expand expand_as unsqueeze squeeze \
        slice select narrow split split_with_sizes chunk unbind unfold flatten unflatten detach detach_ alias movedim numpy_T \
        empty empty_like empty_strided new_empty resize_ resize_as_ set_ result_type item is_nonzero resolve_conj \
        resolve_neg lift_fresh record_stream _indices _values _nnz sparse_dim is_coalesced broadcast_tensors view_as \
        view_as_real view_as_complex size numel dim is_pinned _nnpack_available scalar_tensor _has_compatible_shallow_copy_type \
        swapaxes mT diagonal AccumulateGrad _sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims_and_tensors";
    static KNOWN: LazyLock<FxHashSet<&str>> = LazyLock::new(|| FREE.split_whitespace().collect());
    KNOWN.contains(bare(operator))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::graph::Operand;

    pub(crate) fn tensor(dims: &[u64]) -> Operand {
        Operand::tensor(dims.to_vec(), Some(DType::Fp32))
    }

    pub(crate) fn operands(shapes: &[&[u64]]) -> Operands {
        Operands { inputs: shapes.iter().map(|dims| tensor(dims)).collect(), outputs: Vec::new() }
    }

    pub(crate) fn list(shapes: &[&[u64]]) -> Operand {
        Operand::TensorList(shapes.iter().map(|dims| tensor(dims)).collect())
    }

    pub(crate) fn value(text: &str) -> Operand {
        Operand::Value(text.to_owned())
    }

    fn flop(operator: &str, operands: &Operands) -> f64 {
        operator_work(operator, operands, Reading::default()).unwrap().flop.0
    }

    #[test]
    fn a_linear_layer_is_the_same_work_under_all_its_names() {
        let addmm = operands(&[&[512], &[1024, 1705], &[1705, 512]]);
        let linear = operands(&[&[1024, 1705], &[512, 1705], &[512]]);
        assert!((flop("aten::addmm", &addmm) - 2.0 * 1024.0 * 1705.0 * 512.0).abs() < 1.0);
        let bytes = |name, args| operator_work(name, args, Reading::default()).unwrap().bytes();
        assert_eq!(bytes("aten::addmm", &addmm), bytes("aten::linear", &linear));
    }

    #[test]
    fn a_convolution_takes_its_output_size_from_stride_and_padding() {
        let mut args = operands(&[&[2, 3, 64, 64], &[64, 3, 7, 7]]);
        args.inputs.extend(["", "[2, 2]", "[3, 3]", "[1, 1]", "1"].map(value));
        let work = operator_work("aten::conv2d", &args, Reading::default()).unwrap();
        assert!((work.flop.0 - 2.0 * 2.0 * 64.0 * 32.0 * 32.0 * 3.0 * 49.0).abs() < 1.0);
        assert_eq!(work.written.0, 2 * 64 * 32 * 32 * 4);
    }

    #[test]
    fn a_convolution_gradient_takes_its_output_size_from_the_gradient() {
        let args = operands(&[&[2, 2048, 2, 2], &[2, 512, 2, 2], &[2048, 512, 1, 1]]);
        let all = conv_pass_work("aten::convolution_backward", &args, ConvPass::WeightGradient, Reading::default());
        let work = all.unwrap();
        assert!((work.flop.0 - 2.0 * 2.0 * 2048.0 * 4.0 * 512.0).abs() < 1.0);
        assert_eq!(work.written.0, 2048 * 512 * 4);
    }

    #[test]
    fn table_batched_lookups_count_bags_from_the_offsets() {
        let lengths: [&[u64]; 14] =
            [&[0], &[640_649_648], &[0], &[0, 0], &[3], &[3], &[4], &[], &[], &[4], &[], &[768], &[385], &[]];
        let mut args = operands(&lengths);
        for at in [7, 8, 10, 13] {
            args.inputs[at] = value(if at == 7 { "48" } else { "" });
        }
        let name = "fbgemm::split_embedding_codegen_lookup_adagrad_function";
        let work = operator_work(name, &args, Reading::default()).unwrap();
        let crate::cost::Shape::Embedding { batch, tables, pooling, dim, .. } = work.shape else { panic!("{work:?}") };
        assert_eq!((batch, tables, dim), (128, 3, 16));
        assert!((pooling - 2.0).abs() < 1e-12);
        let gradient = batched_lookup_backward((name, &args), Some(&operands(&[&[128, 48]]))).unwrap();
        assert!(gradient.written > work.written);
    }

    /// An operator with its arguments, and what it does as worked out by hand: FLOP, bytes read, bytes written.
    struct Worked {
        operator: &'static str,
        operands: Operands,
        flop: f64,
        read: u64,
        written: u64,
    }

    fn worked(operator: &'static str, operands: Operands, flop: f64, read: u64, written: u64) -> Worked {
        Worked { operator, operands, flop, read, written }
    }

    fn with(mut operands: Operands, values: &[&str]) -> Operands {
        operands.inputs.extend(values.iter().map(|text| value(text)));
        operands
    }

    /// `count` lists of one tensor of 1000.
    fn lists(count: usize) -> Operands {
        Operands { inputs: vec![list(&[&[1000]]); count], outputs: Vec::new() }
    }

    fn of_indices(mut operands: Operands, lengths: &[u64]) -> Operands {
        let indices = |length: &u64| Operand::tensor(vec![*length], Some(DType::Int64));
        operands.inputs.extend(lengths.iter().map(indices));
        operands
    }

    #[test]
    fn every_family_agrees_with_what_was_worked_out_by_hand() {
        let one = || operands(&[&[64, 100]]);
        let pair = || operands(&[&[64, 100], &[64, 100]]);
        let parts = Operands { inputs: vec![list(&[&[64, 100], &[64, 28]])], outputs: Vec::new() };
        let heads = operands(&[&[1, 2, 8, 4], &[1, 2, 8, 4], &[1, 2, 8, 4]]);
        let table = || operands(&[&[1000, 16]]);
        let image = with(operands(&[&[8, 64, 56, 56]]), &["[3, 3]", "[1, 1]", "[1, 1]", "[1, 1]"]);
        let inputs = [one().inputs, vec![list(&[&[5]])], operands(&[&[5, 100]]).inputs];
        let placed = with(Operands { inputs: inputs.concat(), outputs: Vec::new() }, &["False"]);
        let all = [
            // 2·M·N·K; A 64 × 32, B 32 × 16, result 64 × 16.
            worked("aten::mm", operands(&[&[64, 32], &[32, 16]]), 65_536.0, 4 * (2048 + 512), 4 * 1024),
            worked("aten::bmm", operands(&[&[8, 64, 32], &[8, 32, 16]]), 524_288.0, 32 * (2048 + 512), 32 * 1024),
            // 1 FLOP an element; both read, one written.
            worked("aten::add", pair(), 6400.0, 51_200, 25_600),
            worked("aten::relu", one(), 6400.0, 25_600, 25_600),
            worked("aten::gelu", one(), 28.0 * 6400.0, 25_600, 25_600),
            // The mask has a byte an element.
            worked("aten::native_dropout", one(), 12_800.0, 25_600, 25_600 + 6400),
            // Rows of 100: 8 FLOP an element; scale and shift, of 100 elements each, beside; of 8 channels each.
            worked("aten::native_layer_norm", one(), 51_200.0, 25_600 + 2 * 100 * 4, 25_600),
            worked("aten::native_batch_norm", operands(&[&[4, 8, 5, 5]]), 6400.0, 3200 + 2 * 8 * 4, 3200),
            worked("aten::_softmax", with(one(), &["-1"]), 12.0 * 6400.0, 25_600, 25_600),
            worked("aten::_softmax_backward_data", with(pair(), &["-1"]), 12_800.0, 76_800, 25_600),
            // All read, one number written.
            worked("aten::sum", one(), 6400.0, 25_600, 4),
            worked("aten::mse_loss", pair(), 19_200.0, 51_200, 4),
            worked("aten::binary_cross_entropy", pair(), 44_800.0, 51_200, 4),
            // Without reduction a loss an element.
            worked("aten::mse_loss", with(pair(), &["0"]), 19_200.0, 51_200, 25_600),
            worked("aten::mse_loss_backward", operands(&[&[1], &[64, 100], &[64, 100]]), 6400.0, 51_204, 25_600),
            worked(
                "aten::mse_loss_backward",
                operands(&[&[1], &[64, 100], &[64, 100], &[64, 100]]),
                6400.0,
                51_204,
                25_600,
            ),
            // Each part read and written once.
            worked("aten::cat", parts, 0.0, 4 * 8192, 4 * 8192),
            worked("aten::copy_", pair(), 0.0, 25_600, 25_600),
            worked("aten::contiguous", operands(&[&[100, 64]]), 0.0, 25_600, 25_600),
            worked("aten::tril", one(), 0.0, 25_600, 25_600),
            worked("aten::zero_", one(), 0.0, 0, 25_600),
            // 5 of the 64 rows, and their 64-bit numbers.
            worked("aten::index_select", of_indices(with(one(), &["0"]), &[5]), 0.0, 5 * 400 + 40, 5 * 400),
            // 100 bags of 3 rows of 16 floats, 64-bit indices and offsets.
            worked("aten::_embedding_bag", of_indices(table(), &[300, 100]), 3200.0, 300 * 64 + 400 * 8, 6400),
            worked("aten::embedding", of_indices(table(), &[300]), 0.0, 300 * 64 + 300 * 16, 300 * 64),
            // Q, K, V of 2 heads × 8 × 4: two products of 2·8·8·4 FLOP a head.
            worked("aten::scaled_dot_product_attention", heads, 2.0 * 2.0 * 512.0, 3 * 256, 256),
            // Parameters, gradients and states read; all but the gradients written back.
            worked("aten::_fused_adam_", lists(4), 16_000.0, 16_000, 12_000),
            worked("aten::_fused_sgd_", lists(3), 4000.0, 12_000, 8000),
            worked("aten::_fused_adagrad_", lists(3), 7000.0, 12_000, 8000),
            worked("aten::_foreach_add_", lists(2), 1000.0, 8000, 4000),
            worked("aten::_foreach_addcdiv_", lists(3), 2000.0, 12_000, 4000),
            // A norm for each tensor.
            worked("aten::_foreach_norm", lists(1), 1000.0, 4000, 4),
            // Windows of 3 × 3 around each of 56 × 56 places.
            worked("aten::im2col", image, 0.0, 4 * 8 * 64 * 3136, 9 * 4 * 8 * 64 * 3136),
            // 5 rows of 100 read and written, and the numbers of 5 rows.
            worked("aten::index_put_", placed, 0.0, 5 * 400 + 40, 5 * 400),
        ];
        for Worked { operator, operands, flop, read, written } in all {
            let work = operator_work(operator, &operands, Reading::default());
            let found = work.as_ref().map(|work| (work.flop.0, work.read.0, work.written.0));
            assert_eq!(found, Some((flop, read, written)), "{operator}");
        }
    }

    #[test]
    fn empty_and_endless_arguments_are_never_a_fault() {
        let check = |operator: &str, shape: &[u64]| {
            if let Some(work) = operator_work(operator, &operands(&[shape; 8]), Reading::default()) {
                assert!(work.flop.0.is_finite() && work.flop.0 >= 0.0, "{operator} {shape:?}");
            }
        };
        let kinds = "mm bmm einsum conv2d convolution_backward scaled_dot_product_attention native_layer_norm _softmax sum add native_dropout \
             max_pool2d_with_indices max_pool2d_with_indices_backward adaptive_avg_pool2d copy_ index_select gather sort fill embedding_bag embedding";
        for operator in kinds.split_whitespace().map(|name| format!("aten::{name}")) {
            for shape in [&[0u64, 0][..], &[0, 5, 0], &[5], &[u64::MAX, u64::MAX], &[u64::MAX; 3], &[u64::MAX; 4]] {
                check(&operator, shape);
            }
        }
    }
}
