//! FLOP and bytes of fused attention.

use crate::cost::work::{Family, Shape, Work};
use crate::graph::DType;
use crate::units::{Bytes, Flop};

use super::args::Args;
use super::gemm::gemm_precision;

/// Attention of `heads` heads of `[queries, dim]` over `keys` keys in `kv_heads` heads, for `batch` sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionSize {
    /// Sequences.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads (fewer than `heads` when groups of queries share them).
    pub kv_heads: u64,
    /// Query length.
    pub queries: u64,
    /// Key length.
    pub keys: u64,
    /// Head dimension.
    pub dim: u64,
    /// Whether later keys are masked.
    pub causal: bool,
}

/// `4·B·H·Q·K·D`: two products of `[Q, D] × [D, K]` shape; a causal mask leaves the half of a square; the gradient
/// takes five products instead of two.
pub(crate) fn attention_flop(size: &AttentionSize, backward: bool) -> Flop {
    let pairs = if size.causal && size.queries <= size.keys {
        size.queries as f64 * (size.keys as f64 - size.queries as f64 / 2.0 + 0.5)
    } else {
        size.queries as f64 * size.keys as f64
    };
    let forward = 4.0 * size.batch as f64 * size.heads as f64 * pairs * size.dim as f64;
    Flop(if backward { 2.5 * forward } else { forward })
}

/// Forward reads Q, K, V and writes O; backward reads those, O and its gradient and writes three gradients.
/// The scores never leave the chip.
pub(crate) fn attention_bytes(size: &AttentionSize, backward: bool, element: u64) -> (Bytes, Bytes) {
    let per_length = size.batch.saturating_mul(size.dim).saturating_mul(element);
    let q = per_length.saturating_mul(size.heads).saturating_mul(size.queries);
    let kv = per_length.saturating_mul(size.kv_heads).saturating_mul(size.keys).saturating_mul(2);
    let (q, kv) = (Bytes(q), Bytes(kv));
    if backward { (q + q + q + kv, q + kv) } else { (q + kv, q) }
}

/// The work of fused attention of `dtype`, or with `backward` of its gradient.
pub fn attention_work(size: &AttentionSize, backward: bool, dtype: DType) -> Work {
    let (read, written) = attention_bytes(size, backward, dtype.size());
    let &AttentionSize { batch, heads, queries, keys, dim, causal, .. } = size;
    let shape = Shape::Attention { batch, heads, queries, keys, dim, causal, backward }.possible();
    let precision = gemm_precision(dtype, false);
    Work { family: Family::Attention, flop: attention_flop(size, backward), read, written, precision, shape }
}

/// Heads of keys and values of a forward pass: what is read besides queries tells, which take as many bytes as results.
pub(crate) fn kv_heads(work: &Work) -> f64 {
    let Shape::Attention { batch, heads, queries, keys, dim, .. } = work.shape else { return 0.0 };
    let size = |heads: u64, length: u64| [batch, heads, length, dim].map(|size| size as f64).iter().product::<f64>();
    let element = work.written.0 as f64 / size(heads, queries).max(1.0);
    let per_head = 2.0 * element * size(1, keys);
    (work.read.0.saturating_sub(work.written.0) as f64 / per_head.max(1.0)).max(1.0)
}

/// The forward pass `work` of attention with one query to a sequence; other work as it is.
pub(crate) fn with_one_query(work: &Work) -> Work {
    let mut one = work.clone();
    if let Shape::Attention { queries, backward: false, .. } = &mut one.shape {
        let all = std::mem::replace(queries, 1).max(1);
        let cached = work.read.0.saturating_sub(work.written.0);
        one.written = Bytes(work.written.0 / all);
        one.read = Bytes(cached) + one.written;
        one.flop = Flop(work.flop.0 / all as f64);
    }
    one
}

/// The forward pass `work` of attention of `batch` sequences over `keys` keys each; other work as it is.
pub(crate) fn with_sequences(work: &Work, (sequences, length): (u64, u64)) -> Work {
    let mut changed = work.clone();
    if let Shape::Attention { batch, keys, backward: false, .. } = &mut changed.shape {
        let times = |bytes: u64, (now, then): (u64, u64)| bytes / then.max(1) * now;
        let cached = work.read.0.saturating_sub(work.written.0);
        changed.written = Bytes(times(work.written.0, (sequences, *batch)));
        changed.read = Bytes(times(times(cached, (sequences, *batch)), (length, *keys))) + changed.written;
        let more = [(sequences, *batch), (length, *keys)].map(|(now, then)| now as f64 / then.max(1) as f64);
        changed.flop = Flop(work.flop.0 * more[0] * more[1]);
        (*batch, *keys) = (sequences, length);
    }
    changed
}

/// The forward pass whose gradient `gradient` is; other work as it is.
pub(crate) fn attention_forward(gradient: &Work) -> Work {
    let mut work = gradient.clone();
    if let Shape::Attention { backward: backward @ true, .. } = &mut work.shape {
        *backward = false;
        // Of Q and O bytes q, of K and V together kv: the gradient reads 3q + kv and writes q + kv.
        let q = gradient.read.0.saturating_sub(gradient.written.0) / 2;
        (work.read, work.written) = (gradient.written, Bytes(q));
        work.flop = Flop(gradient.flop.0 / 2.5);
    }
    work
}

/// Order of the dimensions of Q, K and V.
#[derive(Clone, Copy)]
enum Layout {
    HeadsFirst,
    LengthFirst,
}

/// The work of operator `name` (without `aten::`), when it is fused attention with recorded sizes.
pub(super) fn work(name: &str, args: Args<'_>) -> Option<Work> {
    let backward = name.contains("backward");
    let (layout, causal_at) = match name {
        "scaled_dot_product_attention" => (Layout::HeadsFirst, 5),
        "_scaled_dot_product_flash_attention" | "_scaled_dot_product_flash_attention_for_cpu" => {
            (Layout::HeadsFirst, 4)
        }
        "_scaled_dot_product_efficient_attention" | "_scaled_dot_product_cudnn_attention" => (Layout::HeadsFirst, 6),
        "_scaled_dot_product_flash_attention_backward" | "_scaled_dot_product_efficient_attention_backward" => {
            (Layout::HeadsFirst, 11)
        }
        "_scaled_dot_product_flash_attention_for_cpu_backward" => (Layout::HeadsFirst, 7),
        "_cudnn_attention_forward" => (Layout::HeadsFirst, 10),
        "_scaled_dot_product_cudnn_attention_backward" | "_cudnn_attention_backward" => (Layout::HeadsFirst, 14),
        "_flash_attention_forward" => (Layout::LengthFirst, 8),
        "_flash_attention_backward" => (Layout::LengthFirst, 11),
        "_efficient_attention_forward" => (Layout::LengthFirst, 9),
        "_efficient_attention_backward" => (Layout::LengthFirst, 14),
        _ => return None,
    };
    let first = usize::from(backward);
    // 1 and 2 are triangles from the first and from the last key.
    let causal = args.value(causal_at).is_some_and(|value| matches!(value.trim(), "True" | "true" | "1" | "2"));
    let mut size = size(args.tensor(first)?, args.tensor(first + 1)?, layout, causal)?;
    if let Some(values) = args.tensor(first + 2).and_then(<[u64]>::last) {
        // Queries and keys of one size, values of another: FLOP and bytes are those of the mean.
        size.dim = size.dim.saturating_add(*values).div_ceil(2);
    }
    Some(attention_work(&size, backward, args.dtype_at(first)))
}

fn size(query: &[u64], key: &[u64], layout: Layout, causal: bool) -> Option<AttentionSize> {
    let (batch, q, k) = match (query, key) {
        (&[batch, a, b, dim], &[_, c, d, _]) => (batch, [a, b, dim], [c, d]),
        // Sequences of several lengths, packed: one sequence of the mean is not known, so of all of them.
        (&[a, b, dim], &[c, d, _]) => (1, [a, b, dim], [c, d]),
        _ => return None,
    };
    let (heads, queries, kv_heads, keys) = match layout {
        Layout::HeadsFirst => (q[0], q[1], k[0], k[1]),
        Layout::LengthFirst => (q[1], q[0], k[1], k[0]),
    };
    Some(AttentionSize { batch, heads, kv_heads, queries, keys, dim: q[2], causal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::{operands, value};

    const SIZE: AttentionSize =
        AttentionSize { batch: 2, heads: 8, kv_heads: 8, queries: 128, keys: 128, dim: 64, causal: false };

    #[test]
    fn values_of_another_size_than_keys_count_as_they_are() {
        let args = operands(&[&[4, 12, 100, 64], &[4, 12, 300, 64], &[4, 12, 300, 80]]);
        let found = work("_scaled_dot_product_efficient_attention", Args::new(&args)).unwrap();
        assert!((found.flop.0 - 414_720_000.0).abs() < 1.0, "{found:?}");
        assert_eq!(found.bytes().0, 4 * 4 * 12 * (100 * (64 + 80) + 300 * (64 + 80)));
    }

    #[test]
    fn a_log_sum_that_is_asked_for_is_no_causal_mask() {
        let mut args = operands(&[&[16, 12, 128, 64], &[16, 12, 128, 64], &[16, 12, 128, 64]]);
        args.inputs.extend(["", "", "", "128", "128", "True", "0.1", "False"].map(value));
        let flop = |args: &_| work("_cudnn_attention_forward", Args::new(args)).unwrap().flop.0;
        assert!((flop(&args) - 4.0 * 16.0 * 12.0 * 128.0 * 128.0 * 64.0).abs() < 1.0);
        args.inputs[10] = value("True");
        assert!(flop(&args) < 0.51 * 4.0 * 16.0 * 12.0 * 128.0 * 128.0 * 64.0);
    }

    #[test]
    fn attention_is_two_products_forward_and_five_backward() {
        assert!((attention_flop(&SIZE, false).0 - 2.0 * 2.0 * 8.0 * 2.0 * 128.0 * 128.0 * 64.0).abs() < 1e-6);
        assert!((attention_flop(&SIZE, true).0 / attention_flop(&SIZE, false).0 - 2.5).abs() < 1e-12);
    }

    #[test]
    fn a_causal_mask_leaves_the_triangle_with_its_diagonal() {
        let causal = attention_flop(&AttentionSize { causal: true, ..SIZE }, false).0;
        assert!((causal / attention_flop(&SIZE, false).0 - (128.0 * 129.0 / 2.0) / (128.0 * 128.0)).abs() < 1e-12);
        let one = AttentionSize { causal: true, queries: 1, ..SIZE };
        let decode = attention_flop(&AttentionSize { causal: false, ..one }, false);
        assert!((attention_flop(&one, false).0 - decode.0).abs() < 1e-6);
    }

    #[test]
    fn the_gradient_tells_its_forward_pass() {
        let shared = AttentionSize { kv_heads: 2, ..SIZE };
        let gradient = attention_work(&shared, true, DType::Bf16);
        assert_eq!(attention_forward(&gradient), attention_work(&shared, false, DType::Bf16));
    }

    #[test]
    fn other_sequences_and_a_single_query_leave_the_rest_as_it_is() {
        let few = AttentionSize { kv_heads: 2, queries: 4, keys: 500, ..SIZE };
        let work = attention_work(&few, false, DType::Bf16);
        let one = attention_work(&AttentionSize { queries: 1, ..few }, false, DType::Bf16);
        let found = with_one_query(&work);
        assert_eq!((found.read, found.written, &found.shape), (one.read, one.written, &one.shape));
        let more = attention_work(&AttentionSize { batch: 4, keys: 512, ..few }, false, DType::Bf16);
        let found = with_sequences(&work, (4, 512));
        assert_eq!((found.read, found.written, &found.shape), (more.read, more.written, &more.shape));
        assert!((found.flop.0 / more.flop.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_read_tells_the_heads_of_keys() {
        for kv in [1, 2, 8] {
            let work =
                attention_work(&AttentionSize { kv_heads: kv, queries: 1, keys: 8_192, ..SIZE }, false, DType::Bf16);
            assert!((kv_heads(&work) - kv as f64).abs() < 1e-9, "{kv}");
        }
    }

    #[test]
    fn shared_key_heads_are_read_once() {
        let shared = AttentionSize { kv_heads: 2, ..SIZE };
        let tensor = 2 * 128 * 64 * 2;
        assert_eq!(attention_bytes(&shared, false, 2), (Bytes(tensor * 8 + 2 * tensor * 2), Bytes(tensor * 8)));
    }
}
