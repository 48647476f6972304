//! Published tables of another laboratory for GPUs that the fits know: attention in serving, and products in several frameworks.

use super::csv::{Row, Table};
use super::{FitError, Measurement};
use retime_core::cost::operators::{AttentionSize, GemmSize, attention_work, gemm_work};
use retime_core::graph::DType;

/// Frameworks whose columns are times of products in ms, by how the columns begin. Not sglang, whose times the fits know.
const FRAMEWORKS: [&str; 2] = ["trtllm_", "vllm_"];

/// Whether `table` is of products in several frameworks.
pub(super) fn is_of_frameworks(table: &Table) -> bool {
    !table.has("gemm_dtype") && table.columns().any(is_framework)
}

fn is_framework(column: &str) -> bool {
    FRAMEWORKS.iter().any(|name| column.starts_with(name))
}

/// A product in 16 bits as each framework ran it.
pub(super) fn products(row: &Row<'_>) -> Result<Vec<Measurement>, FitError> {
    let size = GemmSize { batch: 1, m: row.size("m", 1)?, n: row.size("n", 1)?, k: row.size("k", 1)? };
    let work = gemm_work(size, DType::Bf16, false, 0);
    // What a framework did not measure is blank.
    let times = row.columns().filter(|column| is_framework(column)).filter_map(|column| row.text(column).parse().ok());
    Ok(times
        .filter(|ms: &f64| ms.is_finite() && *ms > 0.0)
        .map(|ms| Measurement::of_kernel(work.clone(), row.text("system"), 1e3 * ms, row.line))
        .collect())
}

/// Heads, heads of keys and values, and elements of a head, of a model's public configuration.
fn heads(model: &str) -> Option<(u64, u64, u64)> {
    [("Llama-3.1-8B", (32, 8, 128)), ("Qwen3-30B-A3B", (32, 4, 128))]
        .into_iter()
        .find_map(|(name, heads)| model.starts_with(name).then_some(heads))
}

fn attention(row: &Row<'_>, size: AttentionSize, us: f64) -> Option<Measurement> {
    let work = attention_work(&size, false, DType::Bf16);
    (us > 0.0 && size.batch > 0 && size.queries > 0)
        .then(|| Measurement::of_kernel(work, row.text("gpu"), us, row.line))
}

/// A rank's share of attention over a chunk of a prompt, whose cache ends with the chunk. Rows of sequences that each add a token are left out:
/// beyond one sequence they take less than reading each one's cache at the memory's rate does.
pub(super) fn of_prompts(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    if row.text("is_prefill") != "True" {
        return Ok(None);
    }
    let (ranks, all) = (row.size("tp_size", 1)?.max(1), row.size("n_q_head", 1)?.max(1));
    let size = AttentionSize {
        batch: row.size("batch_size", 1)?,
        heads: all / ranks,
        kv_heads: (row.size("n_kv_head", 1)? / ranks).max(1),
        queries: row.size("prefill_chunk_size", 0)?,
        keys: row.size("kv_cache_size", 0)?,
        dim: row.size("n_embd", 1)? / all,
        causal: true,
    };
    Ok(attention(row, size, 1e3 * row.number("median_ms")?))
}

/// A rank's share of attention over one chunk of a prompt, or over sequences that each add a token; rows that mix both are left out.
pub(super) fn of_either_kind(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let (chunk, sequences) = (row.size("prefill_chunk", 0)?, row.size("n_decode", 0)?);
    let Some((heads, kv_heads, dim)) = heads(row.text("model")).filter(|_| chunk == 0 || sequences == 0) else {
        return Ok(None);
    };
    let ranks = row.size("tp_size", 1)?.max(1);
    let (batch, queries, cached) = match chunk {
        0 => (sequences, 1, row.size("kv_decode", 0)?),
        _ => (1, chunk, row.size("kv_prefill", 0)?),
    };
    let keys = cached.saturating_add(queries);
    let (heads, kv_heads) = (heads / ranks, (kv_heads / ranks).max(1));
    let size = AttentionSize { batch, heads, kv_heads, queries, keys, dim, causal: true };
    Ok(attention(row, size, row.number("time_us")?))
}

#[cfg(test)]
mod tests {
    use super::super::measurements;
    use retime_core::cost::work::Shape;

    #[test]
    fn rows_that_mix_prompts_and_steps_are_left_out() {
        let head = "gpu,model,tp_size,prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
        let rows = "RTX4090,Llama-3.1-8B,2,0,0,4,15,9\nRTX4090,Llama-3.1-8B,1,64,0,0,0,9\nRTX4090,Llama-3.1-8B,1,64,0,4,15,9\n";
        let found = measurements(&format!("{head}{rows}")).unwrap();
        let shapes: Vec<_> = found.iter().map(|row| &row.work.shape).collect();
        assert!(matches!(shapes[0], Shape::Attention { batch: 4, heads: 16, queries: 1, keys: 16, dim: 128, .. }));
        assert!(matches!(shapes[1], Shape::Attention { batch: 1, heads: 32, queries: 64, keys: 64, causal: true, .. }));
        assert_eq!(shapes.len(), 2);
    }

    #[test]
    fn each_framework_of_a_product_is_a_measurement() {
        let found = measurements("system,m,n,k,sglang_1,trtllm_2,vllm_3,vllm_4\nh100_sxm,2,3,4,9,0.5,,0.25\n").unwrap();
        let us: Vec<f64> = found.iter().map(|row| row.us).collect();
        assert_eq!(us, [500.0, 250.0]);
        assert!(matches!(found[0].work.shape, Shape::Gemm { batch: 1, m: 2, n: 3, k: 4 }));
    }
}
