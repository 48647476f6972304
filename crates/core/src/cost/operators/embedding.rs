//! FLOP and bytes of embedding lookups: `nn.Embedding`, `nn.EmbeddingBag` and FBGEMM's table-batched operators.

use crate::cost::reuse::Reuse;
use crate::cost::work::{Family, Shape, Work};
use crate::device::Precision;
use crate::graph::{DType, lookup_total_at};
use crate::units::{Bytes, Flop};

use super::args::{Args, elements};

/// A lookup of `batch` bags of `pooling` rows in each of `tables` tables of `[rows, dim]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookupSize {
    /// Bags per table.
    pub batch: u64,
    /// Rows of a table, mean over tables; 0 where not recorded.
    pub rows: u64,
    /// Tables looked up at once.
    pub tables: u64,
    /// Look-ups per bag, mean.
    pub pooling: f64,
    /// Elements per row.
    pub dim: u64,
}

/// Forward: one addition per row element beyond the first of each bag. Backward: a multiply and an add per
/// row element that is updated.
pub(crate) fn lookup_flop(size: &LookupSize, backward: bool) -> Flop {
    let bags = size.batch as f64 * size.tables as f64;
    let per_bag = if backward { 2.0 * size.pooling } else { (size.pooling - 1.0).max(0.0) };
    Flop(bags * per_bag * size.dim as f64)
}

/// Bytes read and written, ignoring that rows may repeat: indices of `index` bytes, one offset per bag, the rows
/// of `element` bytes (read, and written too in the backward pass) and the pooled rows.
pub(crate) fn lookup_bytes(size: &LookupSize, backward: bool, element: u64, index: u64) -> (Bytes, Bytes) {
    let (bags, row) = (size.batch as f64 * size.tables as f64, size.dim as f64 * element as f64);
    let rows = bags * size.pooling * row;
    let pooled = bags * row;
    let lists = bags * (size.pooling + 1.0) * index as f64;
    let (read, written) = if backward { (rows + pooled + lists, rows) } else { (rows + lists, pooled) };
    (Bytes(read as u64), Bytes(written as u64))
}

/// The work of a lookup, or with `backward` of its gradient.
pub fn lookup_work(size: &LookupSize, backward: bool, dtype: DType, index: DType) -> Work {
    let (read, written) = lookup_bytes(size, backward, dtype.size(), index.size());
    let &LookupSize { batch, rows, tables, pooling, dim } = size;
    let precision = if dtype == DType::Fp64 { Precision::Fp64 } else { Precision::Fp32 };
    let shape = Shape::Embedding { batch, rows, tables, pooling, dim, backward, reuse: Reuse::Uniform }.possible();
    Work { family: Family::Embedding, flop: lookup_flop(size, backward), read, written, precision, shape }
}

/// Elements per row assumed where neither the operator nor its gradient says: the usual size of a production table.
const UNRECORDED_DIM: u64 = 128;

/// The work of operator `name` (without namespace) when it is a lookup or the gradient of one.
pub(super) fn work(name: &str, args: Args<'_>) -> Option<Work> {
    let index = |at: usize| match args.dtype_at(at) {
        DType::Int32 => DType::Int32,
        _ => DType::Int64,
    };
    match name {
        "embedding_bag" | "_embedding_bag" | "_embedding_bag_forward_only" => {
            let size = bags(args.tensor(0)?, args.tensor(1)?, args.tensor(2))?;
            Some(lookup_work(&size, false, args.dtype_at(0), index(1)))
        }
        "embedding" => {
            let (table, indices) = (args.tensor(0)?, args.tensor(1)?);
            let size = LookupSize {
                batch: elements(indices),
                rows: *table.first()?,
                tables: 1,
                pooling: 1.0,
                dim: *table.last()?,
            };
            Some(lookup_work(&size, false, args.dtype_at(0), index(1)))
        }
        "embedding_dense_backward" | "embedding_backward" | "embedding_sparse_backward" => {
            let (grad, indices) = (args.tensor(0)?, args.tensor(1)?);
            let size = LookupSize {
                batch: elements(indices),
                rows: args.number(2).unwrap_or(0),
                tables: 1,
                pooling: 1.0,
                dim: *grad.last()?,
            };
            Some(lookup_work(&size, true, args.dtype_at(0), index(1)))
        }
        "_embedding_bag_dense_backward" | "_embedding_bag_sparse_backward" | "_embedding_bag_backward" => {
            let (grad, indices) = (args.tensor(0)?, args.tensor(1)?);
            let (&[batch, dim], count) = (grad.first_chunk::<2>()?, elements(indices));
            let rows = args.number(if name == "_embedding_bag_backward" { 6 } else { 5 }).unwrap_or(0);
            let size = LookupSize { batch, rows, tables: 1, pooling: ratio(count, batch), dim };
            Some(lookup_work(&size, true, args.dtype_at(0), index(1)))
        }
        _ => batched(name, args),
    }
}

fn ratio(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

fn bags(table: &[u64], indices: &[u64], offsets: Option<&[u64]>) -> Option<LookupSize> {
    let (&[rows, dim], count) = (table.first_chunk::<2>()?, elements(indices));
    let batch = match indices {
        [batch, _] => *batch,
        _ => offsets.map_or(count, elements),
    };
    Some(LookupSize { batch, rows, tables: 1, pooling: ratio(count, batch), dim })
}

/// FBGEMM's table-batched lookups, forward entry points. The list of offsets has `B·T + 1` entries and that of
/// dimensions `T + 1`.
fn batched(name: &str, args: Args<'_>) -> Option<Work> {
    let total_at = lookup_total_at(name)?;
    let weights = usize::from(!name.starts_with("dense"));
    // Arguments: [weights…], dimension offsets, total dimension, largest dimension, hash sizes, bits, indices, offsets.
    let dims_at = total_at - 1;
    let tables = args.tensor(dims_at)?.first()?.saturating_sub(1).max(1);
    let indices_at = dims_at + 5;
    let (indices, offsets) = (args.tensor(indices_at)?, args.tensor(indices_at + 1)?);
    let bags = elements(offsets).saturating_sub(1);
    if !bags.is_multiple_of(tables) {
        return None;
    }
    let batch = bags / tables;
    let weights_count = args.tensor(weights).map_or(0, elements);
    let recorded = args.number(total_at).map(|total| (total / tables).max(1));
    let dim = recorded.or_else(|| dim_by_rows(weights_count, args)).unwrap_or(UNRECORDED_DIM);
    let rows = weights_count / dim / tables;
    let size = LookupSize { batch, rows, tables, pooling: ratio(elements(indices), bags), dim };
    Some(lookup_work(&size, false, args.dtype_at(weights), args.dtype_at(indices_at)))
}

/// Argument of FBGEMM's lookups with the first state of the optimizer: of a row-wise one a number for each row.
const STATE_AT: usize = 20;

/// Elements per row as the state of a row-wise optimizer tells them: the mean, weighted by rows.
fn dim_by_rows(weights: u64, args: Args<'_>) -> Option<u64> {
    let rows = args.tensor(STATE_AT).map(elements).filter(|&rows| rows > 0 && rows < weights)?;
    Some((weights as f64 / rows as f64).round() as u64)
}

/// The gradient of a table-batched lookup: the sizes of its forward operator, with the dimension that the
/// gradient `[batch, total dimension]` tells.
pub(super) fn batched_backward(forward: &Work, gradient: Option<&[u64]>) -> Option<Work> {
    let Shape::Embedding { batch, rows, tables, pooling, dim, .. } = forward.shape else { return None };
    let recorded = gradient.and_then(|dims| dims.get(1)).map(|&total| (total / tables.max(1)).max(1));
    let size = LookupSize {
        batch,
        rows: rows.saturating_mul(dim) / recorded.unwrap_or(dim).max(1),
        tables,
        pooling,
        dim: recorded.unwrap_or(dim),
    };
    Some(lookup_work(&size, true, DType::Fp32, DType::Int64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bag_of_ten_rows_of_128_floats_reads_them_once() {
        let size = LookupSize { batch: 256, rows: 80_000, tables: 1, pooling: 10.0, dim: 128 };
        let (read, written) = lookup_bytes(&size, false, 4, 8);
        assert_eq!(read, Bytes(256 * 10 * 512 + 256 * 11 * 8));
        assert_eq!(written, Bytes(256 * 512));
        assert!((lookup_flop(&size, false).0 - 256.0 * 9.0 * 128.0).abs() < 1e-9);
    }

    #[test]
    fn empty_bags_and_empty_batches_have_no_negative_work() {
        for (batch, pooling) in [(256, 0.0), (0, 0.0), (0, 10.0)] {
            let size = LookupSize { batch, rows: 1, tables: 1, pooling, dim: 3 };
            for backward in [false, true] {
                assert!(lookup_flop(&size, backward).0 >= 0.0);
            }
        }
    }
}
