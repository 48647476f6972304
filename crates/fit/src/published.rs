//! Published tables with several measurements a row: DeepBench's convolutions and products, vidur's layers of language models.

use super::csv::Row;
use super::rows::{rows_work, streaming_work};
use super::{FitError, Measurement};
use retime_core::cost::operators::pointwise::pointwise_flop_per_element;
use retime_core::cost::operators::{ConvPass, ConvSize, GemmSize, conv_work, gemm_work};
use retime_core::cost::work::{Family, Work};
use retime_core::graph::DType;

/// The device of a DeepBench row in the catalog's words.
fn deepbench_device(row: &Row<'_>) -> String {
    let name = row.text("gpu");
    name.trim_start_matches("NV_").trim_start_matches("AMD_").to_owned()
}

/// `FP32`; `FP16 ip, Mixed math` multiplies on tensor cores. The others (16-bit storage with 32-bit arithmetic, 8-bit
/// inference) have no precision of ours.
fn deepbench_dtype(row: &Row<'_>) -> Option<DType> {
    match row.text("precision") {
        "FP32" => Some(DType::Fp32),
        text if text.starts_with("FP16 ip") => Some(DType::Fp16),
        _ => None,
    }
}

fn kept(work: Work, row: &Row<'_>, device: &str, column: &'static str) -> Option<Measurement> {
    // A pass that the library did not have is blank or `N/A`.
    let us = row.number(column).ok().filter(|ms| *ms > 0.0)? * 1e3;
    Some(Measurement::of_kernel(work, device, us, row.line))
}

/// Sizes are those of BLAS, column-major: the result is M×N, whichever way it lies.
pub(super) fn deepbench_gemm(row: &Row<'_>) -> Result<Vec<Measurement>, FitError> {
    let Some(dtype) = deepbench_dtype(row) else { return Ok(Vec::new()) };
    // In rows of ours, the row-major ones, M and N change places.
    let size = GemmSize { batch: 1, m: row.size("N", 1)?, n: row.size("M", 1)?, k: row.size("K", 1)? };
    let work = gemm_work(size, dtype, false, 0);
    Ok(kept(work, row, &deepbench_device(row), "time_ms").into_iter().collect())
}

pub(super) fn deepbench_conv(row: &Row<'_>) -> Result<Vec<Measurement>, FitError> {
    let Some(dtype) = deepbench_dtype(row) else { return Ok(Vec::new()) };
    let (w, h) = (row.size("W", 1)?, row.size("H", 1)?);
    let (s, r) = (row.size("filter_w", 1)?, row.size("filter_h", 1)?);
    let (stride_w, stride_h) = (row.size("stride_w", 1)?.max(1), row.size("stride_h", 1)?.max(1));
    let out = |side: u64, pad: u64, taps: u64, stride: u64| (side + 2 * pad).saturating_sub(taps) / stride + 1;
    let size = ConvSize {
        batch: row.size("N", 1)?,
        channels_in: row.size("C", 1)?,
        channels_out: row.size("K", 1)?,
        in_area: w * h,
        out_h: out(h, row.size("pad_h", 0)?, r, stride_h),
        out_w: out(w, row.size("pad_w", 0)?, s, stride_w),
        r,
        s,
        stride: stride_w.max(stride_h),
        groups: 1,
    };
    let passes = [
        (ConvPass::Forward, "fwd_ms"),
        (ConvPass::InputGradient, "bwd_inputs_ms"),
        (ConvPass::WeightGradient, "bwd_params_ms"),
    ];
    let device = deepbench_device(row);
    let found =
        passes.into_iter().map(|(pass, column)| kept(conv_work(&size, pass, dtype, false), row, &device, column));
    Ok(found.flatten().collect())
}

/// fp16 layers of a transformer over `num_tokens` tokens, each rank with its share of heads and hidden width.
pub(super) fn vidur_layers(row: &Row<'_>) -> Result<Vec<Measurement>, FitError> {
    let (tokens, ranks) = (row.size("num_tokens", 1)?, row.size("num_tensor_parallel_workers", 1)?.max(1));
    let (heads, kv_heads, width) = (row.size("n_head", 1)?.max(1), row.size("n_kv_head", 1)?, row.size("n_embd", 1)?);
    let hidden = row.size("n_expanded_embd", 1)?;
    let head = width / heads;
    let gated = if row.text("use_gated_mlp") == "True" { 2 } else { 1 };
    let product = |n: u64, k: u64| gemm_work(GemmSize { batch: 1, m: tokens, n, k }, DType::Fp16, false, 0);
    let norm = || rows_work(Family::Norm, tokens, width, DType::Fp16, false);
    let activated = tokens * hidden / ranks * 2;
    // A gated block multiplies by the gate; the one without is phi-2's.
    let act = if gated == 2 { pointwise_flop_per_element("silu") + 1.0 } else { pointwise_flop_per_element("gelu") };
    let act_flop = (activated / 2) as f64 * act;
    let layers = [
        (product((heads + 2 * kv_heads) * head / ranks, width), "attn_pre_proj_ms"),
        (product(width, width / ranks), "attn_post_proj_ms"),
        (product(gated * hidden / ranks, width), "mlp_up_proj_ms"),
        (product(width, hidden / ranks), "mlp_down_proj_ms"),
        (norm(), "input_layernorm_ms"),
        (norm(), "post_attention_layernorm_ms"),
        (streaming_work(gated * activated, activated, act_flop), "mlp_act_ms"),
        (streaming_work(4 * tokens * width, 2 * tokens * width, (tokens * width) as f64), "add_ms"),
    ];
    // A block whose attention and MLP stand side by side has one norm, and adds the results of both to its input: two kernels.
    let is_parallel = row.text("post_attention_layernorm_ms").is_empty();
    let one = |(work, column): (Work, &'static str)| {
        let found = kept(work, row, row.text("gpu"), column)?;
        let kernels = if column == "add_ms" && is_parallel { 2.0 } else { 1.0 };
        Some(Measurement { us: found.us / kernels, ..found })
    };
    Ok(layers.into_iter().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::super::measurements;
    use retime_core::cost::work::Shape;

    #[test]
    fn a_deepbench_convolution_is_up_to_three_measurements() {
        let text = "gpu,suite,precision,W,H,C,N,K,filter_w,filter_h,pad_w,pad_h,stride_w,stride_h,fwd_ms,bwd_inputs_ms,bwd_params_ms\n\
            NV_V100,train,FP32,224,112,3,8,64,7,5,3,2,2,1,0.5,N/A*,0.25\n\
            NV_P100,train,Psuedo FP16,224,112,3,8,64,7,5,3,2,2,1,0.5,1,1\n";
        let rows = measurements(text).unwrap();
        assert_eq!(rows.len(), 2);
        assert!(matches!(rows[0].work.shape, Shape::Conv { out_h: 112, out_w: 112, r: 5, s: 7, stride: 2, .. }));
        assert_eq!((rows[1].device.as_str(), rows[1].us), ("V100", 250.0));
    }

    #[test]
    fn a_vidur_row_is_the_layers_of_one_rank() {
        let text = "gpu,attn_pre_proj_ms,attn_post_proj_ms,mlp_up_proj_ms,mlp_down_proj_ms,input_layernorm_ms,post_attention_layernorm_ms,mlp_act_ms,add_ms,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,num_tokens,num_tensor_parallel_workers\n\
            a40,3,1,6,3,0.1,0.1,0.4,,32,8,4096,11008,True,64,2\n";
        let rows = measurements(text).unwrap();
        assert_eq!(rows.len(), 7);
        assert_eq!(rows[0].work.shape, Shape::Gemm { batch: 1, m: 64, n: 3072, k: 4096 });
        assert_eq!(rows[2].work.shape, Shape::Gemm { batch: 1, m: 64, n: 11008, k: 4096 });
    }

    #[test]
    fn a_block_with_one_norm_adds_twice() {
        let text = |norm: &str| {
            format!(
                "gpu,num_tensor_parallel_workers,num_tokens,n_head,n_kv_head,n_embd,n_expanded_embd,post_attention_layernorm_ms,add_ms\na40,1,64,32,32,2560,10240,{norm},0.01\n"
            )
        };
        let add = |norm: &str| measurements(&text(norm)).unwrap().pop().unwrap();
        assert!((add("").us - 5.0).abs() < 1e-9 && (add("0.02").us - 10.0).abs() < 1e-9);
        assert_eq!(add("").work, add("0.02").work);
    }
}
