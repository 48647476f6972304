//! The measurement tables that are understood, told apart by their columns.

use crate::graph::DType;

use super::csv::{Row, Table};
use super::{FitError, Measurement};
use crate::cost::operators::{
    AttentionSize, ConvPass, ConvSize, GemmSize, LookupSize, attention_work, conv_work, gemm_work, lookup_work,
    movement_work, pointwise, rowwise,
};
use crate::cost::work::{Family, Shape, Work};
use crate::units::{Bytes, Flop};

/// The measurements in `text`: a table of microbench.py, NeuSight's operator tables, or aiconfigurator's GEMM and attention
/// tables. Rows of operators that no model covers are left out.
///
/// # Errors
/// An unknown header, or the first value that cannot be, with line and column.
pub fn measurements(text: &str) -> Result<Vec<Measurement>, FitError> {
    let table = Table::parse(text)?;
    let read: fn(&Row<'_>) -> Result<Option<Measurement>, FitError> = if table.has("time_us_median") {
        table.require(&["family", "op", "dtype", "device"])?;
        microbench
    } else if table.has("OPName") {
        table.require(&["Latency", "Device", "B"])?;
        neusight
    } else if table.has("gemm_dtype") {
        table.require(&["system", "m", "n", "k", "latency_ms"])?;
        aiconfigurator_gemm
    } else if table.has("isl") {
        table.require(&["system", "batch_size", "num_heads", "head_dim", "latency_ms"])?;
        aiconfigurator_attention
    } else {
        return Err(FitError::UnknownFormat);
    };
    table.rows().filter_map(|row| read(&row).transpose()).collect()
}

fn measured(work: Work, device: &str, us: f64) -> Option<Measurement> {
    (us > 0.0).then(|| Measurement { work, device: device.to_owned(), us })
}

/// NeuSight: fp32; `linear` and `bmm` write M×K and reduce over N; times of whole calls in ms.
fn neusight(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let op = row.text("OPName");
    let batch = row.size("B", 1)?;
    let work = match op {
        "linear" | "bmm" => {
            let (m, n, k) = (row.size("M", 1)?, row.size("K", 1)?, row.size("N", 1)?);
            let bias = if op == "linear" { n } else { 0 };
            gemm_work(GemmSize { batch, m, n, k }, DType::Fp32, false, bias)
        }
        "conv" => neusight_conv(row, batch)?,
        "ln" | "softmax" => {
            let family = if op == "ln" { Family::Norm } else { Family::Softmax };
            rows_work(family, batch, row.size("H", 1)?, DType::Fp32, false)
        }
        _ => {
            let count = batch * row.size("H", 1)?;
            let name = op.trim_end_matches('u');
            let inputs = if matches!(op, "add" | "div" | "mul" | "pow") { 2 } else { 1 };
            streaming_work(count * 4 * inputs, count * 4, count as f64 * pointwise::pointwise_flop_per_element(name))
        }
    };
    Ok(measured(work, row.text("Device"), row.number("Latency")? * 1e3))
}

fn neusight_conv(row: &Row<'_>, batch: u64) -> Result<Work, FitError> {
    let (side, taps) = (row.size("Input_Size", 1)?, row.size("Kernel_Szie", 1)?);
    let (stride, padding) = (row.size("Stride", 1)?.max(1), row.size("Padding", 0)?);
    let out = (side + 2 * padding).saturating_sub(taps) / stride + 1;
    let size = ConvSize {
        batch,
        channels_in: row.size("Input_Channel", 1)?,
        channels_out: row.size("Output_Channel", 1)?,
        in_area: side * side,
        out_h: out,
        out_w: out,
        r: taps,
        s: taps,
        stride,
        groups: 1,
    };
    Ok(conv_work(&size, ConvPass::Forward, DType::Fp32, false))
}

fn rows_work(family: Family, rows: u64, width: u64, dtype: DType, backward: bool) -> Work {
    let count = rows * width;
    let per_element = match family {
        Family::Softmax => rowwise::softmax_flop_per_element(backward),
        _ => rowwise::norm_flop_per_element(false, backward),
    };
    let read = count * dtype.size() * if backward { 2 } else { 1 };
    Work {
        family,
        flop: Flop(count as f64 * per_element),
        read: Bytes(read),
        written: Bytes(count * dtype.size()),
        precision: pointwise::vector_precision(dtype),
        shape: Shape::Rows { rows, width },
    }
}

fn streaming_work(read: u64, written: u64, flop: f64) -> Work {
    Work { flop: Flop(flop), ..movement_work(Family::Elementwise, read, written) }
}

fn aiconfigurator_gemm(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let dtype = match row.text("gemm_dtype") {
        "bfloat16" | "float16" | "half" => DType::Bf16,
        "fp8" => DType::Fp8,
        _ => return Ok(None),
    };
    let size = GemmSize { batch: 1, m: row.size("m", 1)?, n: row.size("n", 1)?, k: row.size("k", 1)? };
    Ok(measured(gemm_work(size, dtype, false, 0), row.text("system"), row.number("latency_ms")? * 1e3))
}

/// Prefill attention is causal, encoder attention is not. The `trtllm_mha` rows contradict one another and are left out, as are
/// those of the generic `triton` kernel (no framework's choice for training) and rows whose cache has another type than
/// the attention.
fn aiconfigurator_attention(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let dtype = match row.text("attn_dtype") {
        "bfloat16" => DType::Bf16,
        "fp8" => DType::Fp8,
        _ => return Ok(None),
    };
    let cache = row.text("kv_cache_dtype");
    if matches!(row.text("kernel_source"), "trtllm_mha" | "triton")
        || (!cache.is_empty() && cache != row.text("attn_dtype"))
    {
        return Ok(None);
    }
    let (length, heads) = (row.size("isl", 1)?, row.size("num_heads", 1)?);
    let size = AttentionSize {
        batch: row.size("batch_size", 1)?,
        heads,
        kv_heads: row.size("num_key_value_heads", heads)?,
        queries: length,
        keys: length,
        dim: row.size("head_dim", 64)?,
        causal: !cache.is_empty(),
    };
    Ok(measured(attention_work(&size, false, dtype), row.text("system"), row.number("latency_ms")? * 1e3))
}

/// microbench.py: times of kernels in µs; sizes by family.
fn microbench(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let (dtype, tf32) = match row.text("dtype") {
        "fp32" => (DType::Fp32, false),
        "tf32" => (DType::Fp32, true),
        "bf16" => (DType::Bf16, false),
        "fp16" => (DType::Fp16, false),
        _ => (DType::Int8, false),
    };
    let backward = row.text("pass").starts_with("bwd") || row.text("pass") == "backward";
    let work = match row.text("family") {
        "gemm" => {
            let size =
                GemmSize { batch: row.size("B", 1)?, m: row.size("M", 1)?, n: row.size("N", 1)?, k: row.size("K", 1)? };
            gemm_work(size, dtype, tf32, 0)
        }
        "layer_norm" => rows_work(Family::Norm, row.size("M", 1)?, row.size("N", 1)?, dtype, backward),
        "softmax" | "log_softmax" => rows_work(Family::Softmax, row.size("M", 1)?, row.size("N", 1)?, dtype, backward),
        "attention" => microbench_attention(row, dtype, backward)?,
        "conv2d" if !backward => microbench_conv(row, dtype, tf32)?,
        "embedding_bag" if row.text("op") == "embedding_bag" => microbench_lookup(row, dtype, backward)?,
        "elementwise" | "dropout" | "reduction" | "concat" | "transpose" | "broadcast" | "optimizer" | "pooling" => {
            let written = (row.size("numel", 0)? * dtype.size()).max(row.size("bytes", 0)? / 3);
            streaming_work(row.size("bytes", 0)?.saturating_sub(written), written, row.number("flops")?)
        }
        _ => return Ok(None),
    };
    Ok(measured(work, row.text("device"), row.number("time_us_median")?))
}

fn microbench_attention(row: &Row<'_>, dtype: DType, backward: bool) -> Result<Work, FitError> {
    let (heads, length) = (row.size("heads", 1)?, row.size("S", 1)?);
    let causal = matches!(row.text("causal"), "1" | "True" | "true");
    let (batch, dim) = (row.size("B", 1)?, row.size("D", 64)?);
    let size = AttentionSize { batch, heads, kv_heads: heads, queries: length, keys: length, dim, causal };
    Ok(attention_work(&size, backward, dtype))
}

fn microbench_conv(row: &Row<'_>, dtype: DType, tf32: bool) -> Result<Work, FitError> {
    let (h, w, taps) = (row.size("H", 1)?, row.size("W", 1)?, row.size("R", 1)?);
    let stride = row.size("stride", 1)?.max(1);
    let size = ConvSize {
        batch: row.size("B", 1)?,
        channels_in: row.size("C", 1)?,
        channels_out: row.size("K", 1)?,
        in_area: h * w,
        out_h: h.div_ceil(stride),
        out_w: w.div_ceil(stride),
        r: taps,
        s: taps,
        stride,
        groups: row.size("groups", 1)?.max(1),
    };
    Ok(conv_work(&size, ConvPass::Forward, dtype, tf32))
}

fn microbench_lookup(row: &Row<'_>, dtype: DType, backward: bool) -> Result<Work, FitError> {
    let size = LookupSize {
        batch: row.size("B", 1)?,
        rows: row.size("E", 1)?,
        tables: row.size("T", 1)?,
        pooling: row.number("L")?,
        dim: row.size("D", 1)?,
    };
    Ok(lookup_work(&size, backward, dtype, DType::Int64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neusights_products_reduce_over_the_column_called_n() {
        let text = "OPName,Latency,Device,B,M,N,K\nbmm,0.5,Tesla T4,3,27,21,390\n";
        let rows = measurements(text).unwrap();
        assert_eq!(rows[0].work.shape, Shape::Gemm { batch: 3, m: 27, n: 390, k: 21 });
        assert!((rows[0].us - 500.0).abs() < 1e-9);
    }

    #[test]
    fn contradictory_attention_rows_are_left_out() {
        let head = "system,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,latency_ms\n";
        let text = format!(
            "{head}b200_sxm,trtllm_mha,1,64,8,8,128,bfloat16,bfloat16,0.1\nh100_sxm,flash_attention,1,64,8,2,128,bfloat16,bfloat16,0.1\n"
        );
        let rows = measurements(&text).unwrap();
        assert_eq!(rows.len(), 1);
        assert!(matches!(rows[0].work.shape, Shape::Attention { causal: true, .. }));
    }

    #[test]
    fn tables_that_cannot_be_used_say_why() {
        let error = |text: &str| measurements(text).unwrap_err().to_string();
        assert!(error("a,b\n1,2\n").contains("unknown kind"));
        assert!(error("system,gemm_dtype,m,n,latency_ms\nx,fp8,1,1,1\n").contains("`k`"));
        assert!(error("system,gemm_dtype,m,n,k,latency_ms\nx,fp8,1,1,1,nan\n").contains("line 2"));
    }
}
