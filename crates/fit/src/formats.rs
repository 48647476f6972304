//! The measurement tables that are understood, told apart by their columns.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use retime_core::graph::DType;

use super::csv::{Row, Table};
use super::inconsistent::mark_inconsistent;
use super::microbench::{FamilyUse, families, microbench, row_type};
use super::published;
use super::rows::{measured, rows_work, streaming_work};
use super::{FitError, Measurement, Timed, serving};
use retime_core::cost::models::FIRST_RUN;
use retime_core::cost::operators::{
    AttentionSize, ConvPass, ConvSize, GemmSize, attention_work, conv_work, gemm_work, pointwise,
};
use retime_core::cost::work::{Family, Work};

/// Reads the measurements of one row.
type Several = fn(&Row<'_>) -> Result<Vec<Measurement>, FitError>;

/// How the rows of each family of a table of microbench.py are used; nothing of other tables.
///
/// # Errors
/// The first value that cannot be, with line and column.
pub(super) fn family_uses(text: &str) -> Result<Vec<FamilyUse>, FitError> {
    let table = Table::parse(text)?;
    if table.has("time_us_median") && table.has("family") { families(&table) } else { Ok(Vec::new()) }
}

const MICROBENCH: &[&str] = &["time_us_median", "family", "op", "dtype", "device"];
const NEUSIGHT: &[&str] = &["OPName", "Latency", "Device", "B"];
const AICONFIGURATOR: &[&str] = &["gemm_dtype", "system", "m", "n", "k", "latency_ms"];
const XLA: &[&str] = &["target", "dtypes", "b", "m", "n", "k", "time_us"];
const DEEPBENCH: &[&str] = &["transA", "gpu", "precision", "M", "N", "K", "time_ms"];

/// What is read of a table of products alone.
const PRODUCTS: [&str; 6] = ["device", "m", "n", "k", "dtype", "seconds"];

fn is_of_products(table: &Table) -> bool {
    table.has("seconds") && table.has("m")
}

/// Whether any row of a table of products says its type of numbers.
fn tells_types(table: &Table) -> bool {
    table.has("dtype") && table.rows().any(|row| !is_untyped(&row))
}

fn is_untyped(row: &Row<'_>) -> bool {
    row.text("dtype").is_empty()
}

/// What of the table `text` none of its measurements, `read`, says: rows that no model covers, and columns of a table of products
/// alone that are none of its own. Tables of microbench.py say it by family.
///
/// # Errors
/// The table cannot be read.
pub(super) fn left_out(text: &str, read: &[Measurement]) -> Result<Vec<String>, FitError> {
    let table = Table::parse(text)?;
    if table.has("time_us_median") {
        return Ok(Vec::new());
    }
    let lines: BTreeSet<usize> = read.iter().map(|row| row.line).collect();
    let untyped =
        if is_of_products(&table) && tells_types(&table) { table.rows().filter(is_untyped).count() } else { 0 };
    let (all, used) = (table.rows().count(), lines.len() + untyped);
    let of_rows = |count: usize, why: &str| (count > 0).then(|| format!("{count} of {all} rows: {why}"));
    let rows = [
        of_rows(all.saturating_sub(used), "no model covers them"),
        of_rows(untyped, "no type of numbers, which others have"),
    ];
    let mut columns: Vec<String> = Vec::new();
    if is_of_products(&table) {
        let others = table.columns().filter(|column| !PRODUCTS.contains(column));
        columns.extend(others.map(|column| format!("column `{column}`: products have {}", PRODUCTS.join(", "))));
    }
    Ok(rows.into_iter().flatten().chain(columns).collect())
}

/// Why a table is of no known format: the column that it lacks of the one that it is most like.
fn unknown(table: &Table) -> FitError {
    let formats = [
        ("microbench.py", MICROBENCH),
        ("NeuSight", NEUSIGHT),
        ("aiconfigurator", AICONFIGURATOR),
        ("DeepBench", DEEPBENCH),
        ("XLA", XLA),
    ];
    let like = |columns: &[&str]| columns.iter().filter(|column| table.has(column)).count();
    let nearest = formats.into_iter().max_by_key(|(_, columns)| 100 * like(columns) / columns.len());
    let nearest = nearest.filter(|(_, columns)| 2 * like(columns) > columns.len());
    let lacking =
        nearest.and_then(|(format, columns)| Some((format, columns.iter().find(|column| !table.has(column))?)));
    lacking.map_or(FitError::UnknownFormat, |(format, column)| FitError::NearlyKnown { format, column })
}

/// The measurements in `text`: a table of microbench.py, NeuSight's operator tables, aiconfigurator's GEMM and attention
/// tables, XLA's products, DeepBench's products and convolutions, vidur's layers, or
/// LLMServingSim's attention. Rows of operators that no model covers are left out.
///
/// # Errors
/// An unknown header, or the first value that cannot be, with line and column.
pub fn measurements(text: &str) -> Result<Vec<Measurement>, FitError> {
    let table = Table::parse(text)?;
    let several: Option<Several> = if table.has("transA") {
        table.require(DEEPBENCH)?;
        Some(published::deepbench_gemm)
    } else if table.has("bwd_params_ms") {
        table.require(&["gpu", "precision", "W", "H", "C", "N", "K", "filter_w", "filter_h", "fwd_ms"])?;
        Some(published::deepbench_conv)
    } else if table.has("num_tensor_parallel_workers") {
        table.require(&["gpu", "num_tokens", "n_head", "n_kv_head", "n_embd", "n_expanded_embd"])?;
        Some(published::vidur_layers)
    } else if serving::is_of_frameworks(&table) {
        table.require(&["system", "m", "n", "k"])?;
        Some(serving::products)
    } else {
        None
    };
    if let Some(read) = several {
        let rows: Vec<Vec<Measurement>> = table.rows().map(|row| read(&row)).collect::<Result<_, _>>()?;
        return Ok(rows.into_iter().flatten().collect());
    }
    let read: fn(&Row<'_>) -> Result<Option<Measurement>, FitError> = if is_of_products(&table) {
        table.require(&["m", "n", "k", "seconds"])?;
        if tells_types(&table) { typed_product } else { plain_product }
    } else if table.has("time_us_median") {
        table.require(MICROBENCH)?;
        microbench
    } else if table.has("OPName") {
        table.require(NEUSIGHT)?;
        neusight
    } else if table.has("gemm_dtype") {
        table.require(AICONFIGURATOR)?;
        aiconfigurator_gemm
    } else if table.has("dtypes") {
        table.require(XLA)?;
        xla_gemm
    } else if table.has("prefill_chunk_size") {
        table.require(&[
            "gpu",
            "tp_size",
            "n_embd",
            "n_q_head",
            "n_kv_head",
            "is_prefill",
            "batch_size",
            "median_ms",
        ])?;
        serving::of_prompts
    } else if table.has("kv_prefill") {
        table.require(&["gpu", "model", "tp_size", "prefill_chunk", "n_decode", "kv_decode", "time_us"])?;
        serving::of_either_kind
    } else if table.has("step") && !table.has("isl") {
        table.require(&["system", "batch_size", "num_heads", "head_dim", "window_size", "latency_ms"])?;
        aiconfigurator_decode
    } else if table.has("isl") {
        table.require(&["system", "batch_size", "num_heads", "head_dim", "latency_ms"])?;
        aiconfigurator_attention
    } else {
        return Err(unknown(&table));
    };
    let mut rows: Vec<Measurement> = table.rows().filter_map(|row| read(&row).transpose()).collect::<Result<_, _>>()?;
    if table.has("isl") {
        mark_inconsistent(&mut rows);
    }
    Ok(if table.has("cache") { cache_states_joined(rows) } else { rows })
}

/// A product of 32-bit floats, in a table that tells no types of numbers.
fn plain_product(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    product(row, (DType::Fp32, false))
}

/// A product of the type of numbers that its row says; none of a row that says none, since it may be of any.
fn typed_product(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    if is_untyped(row) { Ok(None) } else { product(row, row_type(row)?) }
}

fn product(row: &Row<'_>, (dtype, tf32): (DType, bool)) -> Result<Option<Measurement>, FitError> {
    let size = GemmSize { batch: 1, m: row.count("m")?, n: row.count("n")?, k: row.count("k")? };
    let work = gemm_work(size, dtype, tf32, 0);
    Ok(measured(work, row, "device", 1e6 * row.positive("seconds")?))
}

/// One measurement per kernel, the geometric mean of its times with cold and with warm caches: inside a model some of what a
/// kernel reads was just written, and some was not.
fn cache_states_joined(rows: Vec<Measurement>) -> Vec<Measurement> {
    let mut joined: Vec<(Measurement, f64)> = Vec::new();
    for row in rows {
        match joined.last_mut() {
            Some((last, count)) if last.work == row.work && last.device == row.device => {
                last.us = ((last.us.ln() * *count + row.us.ln()) / (*count + 1.0)).exp();
                *count += 1.0;
            }
            _ => joined.push((row, 1.0)),
        }
    }
    joined.into_iter().map(|(row, _)| row).collect()
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
    let whole = measured(work, row, "Device", row.number("Latency")? * 1e3);
    Ok(whole.map(|own| Measurement { timed: Timed::Call, launched: launched(row), ..own }))
}

/// Kernel, grid and block.
fn launched(row: &Row<'_>) -> Option<u64> {
    let kernel = row.text("Kernel Name");
    let sizes = ["Grid x", "Grid y", "Grid z", "Block x", "Block y", "Block z"].map(|column| row.text(column));
    (!kernel.is_empty() && sizes.iter().all(|size| !size.is_empty())).then(|| {
        let mut hasher = FxHasher::default();
        (kernel, sizes).hash(&mut hasher);
        hasher.finish()
    })
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

fn aiconfigurator_gemm(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let dtype = match row.text("gemm_dtype") {
        "bfloat16" | "float16" | "half" => DType::Bf16,
        "fp8" => DType::Fp8,
        _ => return Ok(None),
    };
    let size = GemmSize { batch: 1, m: row.size("m", 1)?, n: row.size("n", 1)?, k: row.size("k", 1)? };
    let found = measured(gemm_work(size, dtype, false, 0), row, "system", row.number("latency_ms")? * 1e3);
    let timed = if dtype == DType::Fp8 { Timed::Quantised } else { Timed::Kernels };
    Ok(found.map(|found| Measurement { timed, ..found }))
}

/// A product of XLA's tables, whose kernels did not just run: what that costs is taken off, so that rows of all tables say the same. In 32
/// bits its factors are rounded. Of products in 8 bits those of one format are taken. Left out are those that give more bits than others
/// of their kind.
fn xla_gemm(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let (dtype, rounds) = match row.text("dtypes") {
        "bf16xbf16->bf16" => (DType::Bf16, false),
        "f32xf32->f32" => (DType::Fp32, true),
        "f8e4m3fnxf8e4m3fn->bf16" | "f8e4m3fnuzxf8e4m3fnuz->bf16" => (DType::Fp8, false),
        _ => return Ok(None),
    };
    let size = GemmSize { batch: row.size("b", 1)?, m: row.size("m", 1)?, n: row.size("n", 1)?, k: row.size("k", 1)? };
    let us = row.number("time_us")? - FIRST_RUN.secs() * 1e6;
    Ok(measured(gemm_work(size, dtype, rounds, 0), row, "target", us))
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
    Ok(measured(attention_work(&size, false, dtype), row, "system", row.number("latency_ms")? * 1e3))
}

/// A decoding step: one query per sequence over the `step` tokens before it and itself. Rows with a window, with a cache of another
/// type than the attention, and those of the generic `triton` kernel are left out.
fn aiconfigurator_decode(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let is_other = row.text("attn_dtype") != "bfloat16" || row.text("kv_cache_dtype") != "bfloat16";
    if is_other || row.size("window_size", 0)? > 0 || row.text("kernel_source") == "triton" {
        return Ok(None);
    }
    let heads = row.size("num_heads", 1)?;
    let size = AttentionSize {
        batch: row.size("batch_size", 1)?,
        heads,
        kv_heads: row.size("num_key_value_heads", heads)?,
        queries: 1,
        keys: row.size("step", 1)?.saturating_add(1),
        dim: row.size("head_dim", 128)?,
        causal: true,
    };
    Ok(measured(attention_work(&size, false, DType::Bf16), row, "system", row.number("latency_ms")? * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::work::Shape;

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
        assert!(error("m,n,k,seconds\n64.5,1,1,1\n").contains("column `m`"));
        assert!(error("m,n,k,dtype,seconds\n64,1,1,fp12,1\n").contains("fp12"));
    }

    #[test]
    fn products_are_of_the_type_that_their_row_says() {
        let text =
            "m,n,k,dtype,seconds,who\n8,8,8,fp16,1,a\n8,8,8,fp32,1,a\n8,8,8,,1,a\n8,8,8,tf32,1,a\n8,8,8,float16,1,a\n";
        let rows = measurements(text).unwrap();
        let precisions: Vec<&str> = rows.iter().map(|row| row.work.precision.type_name()).collect();
        assert_eq!(precisions, ["fp16", "fp32", "tf32", "fp16"]);
        let said = left_out(text, &rows).unwrap();
        assert!(said.len() == 2 && said[1].contains("`who`"), "{said:?}");
        assert_eq!(said[0], "1 of 5 rows: no type of numbers, which others have");
        let none = "m,n,k,dtype,seconds\n8,8,8,,1\n";
        let rows = measurements(none).unwrap();
        assert_eq!((rows[0].work.precision.type_name(), left_out(none, &rows).unwrap().len()), ("fp32", 0));
    }

    #[test]
    fn rows_that_no_model_covers_are_counted() {
        let text = "system,gemm_dtype,m,n,k,latency_ms\nx,fp8,8,8,8,1\nx,int4,8,8,8,1\n";
        let said = left_out(text, &measurements(text).unwrap()).unwrap();
        assert_eq!(said, ["1 of 2 rows: no model covers them"]);
    }
}
