//! Bytes of operators that only move data: copies, concatenation, indexing, fills, sorting.

use crate::cost::work::{Family, Picking, Shape, Work};
use crate::device::Precision;
use crate::graph::{DType, Operands};
use crate::units::{Bytes, Flop};

use super::args::{Args, elements, sum};

/// Work without arithmetic.
pub fn movement_work(family: Family, read: u64, written: u64) -> Work {
    let (read, written) = (Bytes(read), Bytes(written));
    Work { family, flop: Flop(0.0), read, written, precision: Precision::Fp32, shape: Shape::Plain }
}

/// Passes over the data of a radix sort of keys of `key` bytes, eight bits at a time.
pub(crate) fn sort_passes(key: u64) -> u64 {
    key
}

/// The work of operator `name` (without namespace and trailing underscore), when it only moves data.
pub(super) fn work(name: &str, args: Args<'_>) -> Option<Work> {
    let size = |at: usize| args.stored(at).map(|count| count.saturating_mul(args.dtype_at(at).size()));
    let moved = |read: u64, written: u64| Some(movement_work(Family::Movement, read, written));
    match name {
        "copy" => moved(size(1)?, size(0)?),
        "cat" | "stack" | "concat" | "_cat" => {
            let total = sum(args.list(0)?.iter().map(|dims| elements(dims)));
            let bytes = total.saturating_mul(args.dtype().size());
            moved(bytes, bytes)
        }
        "clone"
        | "contiguous"
        | "_to_copy"
        | "to"
        | "repeat"
        | "roll"
        | "flip"
        | "tril"
        | "triu"
        | "cumsum"
        | "cumprod"
        | "_reshape_copy"
        | "constant_pad_nd"
        | "pad"
        | "permute_pooled_embs"
        | "permute_pooled_embs_auto_grad"
        | "nan_to_num"
        | "masked_fill"
        | "_local_scalar_dense" => {
            let written = args.output().map(|dims| elements(dims).saturating_mul(args.dtype().size()));
            moved(size(0)?, written.unwrap_or(size(0)?))
        }
        "im2col" | "col2im" => {
            let unfolded =
                args.output().map(elements).or_else(|| if name == "im2col" { columns(args) } else { folded(args) });
            moved(size(0)?, unfolded?.saturating_mul(args.dtype().size()))
        }
        "upsample_nearest1d" | "upsample_nearest2d" | "upsample_bilinear2d" => {
            moved(size(0)?, resampled(args, 1)?.saturating_mul(args.dtype().size()))
        }
        "upsample_nearest1d_backward" | "upsample_nearest2d_backward" | "upsample_bilinear2d_backward" => {
            moved(size(0)?, resampled(args, 2)?.saturating_mul(args.dtype().size()))
        }
        "repeat_interleave" => {
            let repeats = args.number(1).filter(|_| args.count() > 2).unwrap_or(1);
            let written = args.output().map(|dims| elements(dims).saturating_mul(args.dtype().size()));
            moved(size(0)?, written.unwrap_or(size(0)?.saturating_mul(repeats)))
        }
        "fill" | "zero" | "zeros_like" | "ones_like" | "full_like" | "zeros" | "ones" | "full" | "arange" | "eye" => {
            let own = args.output().or_else(|| args.dims(0)).map(elements);
            let sized = || {
                args.numbers(0)
                    .map(|dims| dims.iter().fold(1, |count: u64, dim| count.saturating_mul(dim.unsigned_abs())))
            };
            moved(0, own.or_else(sized)?.saturating_mul(args.dtype().size()))
        }
        "slice_backward" | "select_backward" | "gather_backward" => moved(size(0)?, size(0)?.saturating_mul(2)),
        "sort" | "topk" | "unique" | "_unique2" | "unique_consecutive" | "argsort" => {
            let (count, key) = (elements(args.tensor(0)?), args.dtype_at(0).size());
            let pass = count.saturating_mul(key + 8).saturating_mul(if name == "topk" { 1 } else { sort_passes(key) });
            moved(pass, pass)
        }
        _ => indexing(name, args),
    }
}

/// Elements of an image `[batch, channels, h, w]` unfolded into a column for each place of the window, which the arguments describe:
/// its size, the distance of its elements, what is added around the image, and the steps that it takes.
fn columns(args: Args<'_>) -> Option<u64> {
    let (planes, sides) = args.tensor(0)?.split_last_chunk::<2>()?;
    let numbers = |at: usize, axis: usize| {
        let list = args.numbers(at)?;
        list.get(axis).or(list.first()).map(|number| number.unsigned_abs())
    };
    (0..sides.len()).try_fold(elements(planes), |count: u64, axis| {
        let (window, apart, around) = (numbers(1, axis)?, numbers(2, axis)?, numbers(3, axis)?);
        let spare = (sides[axis].saturating_add(around.saturating_mul(2)))
            .saturating_sub(apart.saturating_mul(window.saturating_sub(1)).saturating_add(1));
        let places = spare / numbers(4, axis)?.max(1) + 1;
        Some(count.saturating_mul(window).saturating_mul(places))
    })
}

/// Elements of the image that columns `[batch, channels · window, places]` are added up to.
fn folded(args: Args<'_>) -> Option<u64> {
    let &[batch, rows, _] = args.tensor(0)?.first_chunk::<3>()?;
    let product =
        |at: usize| Some(args.numbers(at)?.iter().fold(1, |all: u64, side| all.saturating_mul(side.unsigned_abs())));
    Some(batch.saturating_mul(rows / product(2)?.max(1)).saturating_mul(product(1)?))
}

/// Elements of an image after it was resampled: as recorded, by the wanted size in argument `at`, or by factors behind it; as many as
/// before where none of them was recorded.
fn resampled(args: Args<'_>, at: usize) -> Option<u64> {
    let dims = args.tensor(0)?;
    if let Some(output) = args.output() {
        return Some(elements(output));
    }
    let (planes, sides) = dims.split_at_checked(2)?;
    // The gradient's wanted size has the planes in front.
    let wanted = args.numbers(at).and_then(|list| Some(list.get(list.len().checked_sub(sides.len())?..)?.to_vec()));
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        return Some(wanted.iter().fold(elements(planes), |count, side| count.saturating_mul(side.unsigned_abs())));
    }
    let factors = (at + 1..args.count()).find_map(|at| args.factors(at).filter(|found| found.len() == sides.len()));
    let factor: f64 = factors.map_or(1.0, |factors| factors.iter().product());
    Some((elements(dims) as f64 * factor) as u64)
}

/// How many places a list of index tensors picks, and the elements of each: those of dimensions without an index, which is empty in
/// the list.
fn picks(source: &[u64], indices: &[&[u64]]) -> (u64, u64) {
    let is_picked = |at: usize| indices.get(at).is_some_and(|dims| !dims.is_empty());
    let rest = source.iter().enumerate().filter(|&(at, _)| !is_picked(at));
    let each = rest.fold(1, |count: u64, (_, &dim)| count.saturating_mul(dim));
    let count = indices.iter().filter(|dims| !dims.is_empty()).map(|dims| elements(dims)).max();
    (count.unwrap_or(1), each)
}

/// Elements of a row that `values` have for each place of `source`: of the last dimensions, which both have alike.
fn row(source: &[u64], values: &[u64]) -> u64 {
    let within = source.len().saturating_sub(1);
    let last = source.iter().rev().zip(values.iter().rev()).take(within).take_while(|(one, other)| one == other);
    last.fold(1, |width: u64, (&dim, _)| width.saturating_mul(dim))
}

/// `work` on `count` elements in the rows that `places` entries of a list pick.
fn picked(work: &Work, (places, count): (u64, u64), picking: Picking) -> Work {
    Work { shape: Shape::Picked { rows: places, width: count / places.max(1), picking }, ..work.clone() }
}

/// Operators that pick or place elements by an index tensor.
fn indexing(name: &str, args: Args<'_>) -> Option<Work> {
    let moved = |count: u64, dtype: DType, indices: u64, times: u64| {
        let bytes = count.saturating_mul(dtype.size());
        Some(movement_work(
            Family::Movement,
            bytes.saturating_mul(times).saturating_add(indices.saturating_mul(8)),
            bytes,
        ))
    };
    let source = args.tensor(0)?;
    let dtype = args.dtype_at(0);
    match name {
        "index_select" => {
            let picked = elements(args.tensor(2)?);
            let axis = args.numbers(1).and_then(|axes| axes.first().copied()).unwrap_or(0);
            let along = usize::try_from(axis).ok().and_then(|axis| source.get(axis)).copied().unwrap_or(1);
            moved((elements(source) / along.max(1)).saturating_mul(picked), dtype, picked, 1)
        }
        "gather" => {
            let (count, places) = (elements(args.tensor(2)?), args.stored(2)?);
            let work = moved(count, dtype, places, 1)?;
            // Whole rows are picked where each entry of the list is expanded over one.
            Some(if places < count { picked(&work, (places, count), Picking::Copied) } else { work })
        }
        "scatter" | "scatter_add" | "scatter_reduce" => moved(elements(args.tensor(2)?), dtype, args.stored(2)?, 2),
        "index_add" => {
            let (count, places) = (elements(args.tensor(3)?), elements(args.tensor(2)?));
            Some(picked(&moved(count, dtype, places, 2)?, (places, count), Picking::Added))
        }
        "index_copy" => moved(elements(args.tensor(3)?), dtype, elements(args.tensor(2)?), 2),
        "index" | "_unsafe_index" => {
            let (indices, each) = picks(source, &args.list(1)?);
            moved(args.output().map_or(indices.saturating_mul(each), elements), dtype, indices, 1)
        }
        "_index_put_impl" | "index_put" | "_unsafe_index_put" => {
            let lists = args.list(1).unwrap_or_default();
            let (count, each) = picks(source, &lists);
            let placed = args.tensor(2).map_or(count.saturating_mul(each), elements);
            // Where it adds to them, the old values are read as well.
            let adds = args.truth(3) == Some(true);
            let places = sum(lists.iter().filter(|dims| !dims.is_empty()).map(|dims| elements(dims)));
            let work = moved(placed, dtype, places, 1 + u64::from(adds))?;
            let width = args.tensor(2).map_or(each, |values| row(source, values));
            Some(if adds { picked(&work, (placed / width.max(1), placed), Picking::AddedInOrder) } else { work })
        }
        // Keys and values go to their places in the cache; queries and keys are turned in place.
        "reshape_and_cache_flash" => pair(args, 0),
        "rotary_embedding" => pair(args, 1),
        "permute_2D_sparse_data"
        | "permute_sparse_features"
        | "asynchronous_complete_cumsum"
        | "bounds_check_indices"
        | "offsets_range"
        | "block_bucketize_sparse_features"
        | "jagged_to_padded_dense"
        | "expand_into_jagged_permute"
        | "recat_embedding_grad_output_mixed_D_batch"
        | "permute_1D_sparse_data"
        | "segment_sum_csr"
        | "bucketize"
        | "FloatToHFP8Quantized"
        | "HFP8QuantizedToFloat"
        | "FloatToFP8RowwiseQuantized"
        | "FP8RowwiseQuantizedToFloat"
        | "FloatToBfloat16Quantized"
        | "Bfloat16QuantizedToFloat"
        | "static_scaled_fp8_quant" => {
            let all = args.bytes();
            Some(movement_work(Family::Movement, all, all))
        }
        _ => None,
    }
}

/// What `kernel` moves of a batch of sparse features that `operator` puts in another order: the lengths of its bags (the second
/// argument), which are scanned too, or their indices (the third). `None` for anything else.
pub(crate) fn permuted_bytes(operator: &str, kernel: &str, args: &Operands) -> Option<Bytes> {
    let is_permutation = operator.contains("permute_") && operator.contains("sparse");
    let args = Args::with_default(args, DType::Fp32);
    let size = |at: usize| args.tensor(at).map(|dims| elements(dims).saturating_mul(args.dtype_at(at).size()));
    let moved = match kernel {
        _ if !is_permutation => None,
        _ if kernel.contains("lengths") || kernel.contains("Scan") => size(1),
        _ if kernel.contains("indices") || kernel.contains("data") => size(2),
        _ => None,
    };
    moved.map(Bytes)
}

/// Two tensors from argument `at` are read and written.
fn pair(args: Args<'_>, at: usize) -> Option<Work> {
    let size = |at: usize| args.tensor(at).map(|dims| elements(dims).saturating_mul(args.dtype_at(at).size()));
    let bytes = size(at)?.saturating_add(size(at + 1).unwrap_or(0));
    Some(movement_work(Family::Movement, bytes, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::{list, operands};
    use crate::graph::Operand;

    #[test]
    fn concatenation_reads_and_writes_every_part_once() {
        let args = Operands { inputs: vec![list(&[&[16, 8], &[16, 24]])], outputs: vec![] };
        let work = work("cat", Args::new(&args)).unwrap();
        assert_eq!((work.read, work.written), (Bytes(4 * 16 * 32), Bytes(4 * 16 * 32)));
    }

    #[test]
    fn rows_that_are_put_in_order_are_those_of_the_last_dimensions() {
        let put = |source: &[u64], values: &[u64]| {
            let tensor = |dims: &[u64]| Operand::strided(dims.to_vec(), &[], Some(DType::Fp32));
            let value = |text: &str| Operand::Value(text.into());
            let inputs = vec![tensor(source), value(""), tensor(values), value("True"), value("False")];
            let operands = Operands { inputs, ..Operands::default() };
            work("_index_put_impl", Args::new(&operands)).unwrap().shape
        };
        let picking = Picking::AddedInOrder;
        assert_eq!(put(&[8, 27, 27], &[8, 351]), Shape::Picked { rows: 8 * 351, width: 1, picking });
        assert_eq!(put(&[1000, 64], &[512, 64]), Shape::Picked { rows: 512, width: 64, picking });
        assert_eq!(put(&[512], &[512]), Shape::Picked { rows: 512, width: 1, picking });
    }

    #[test]
    fn an_expanded_list_of_places_is_read_once() {
        let tensor = |dims: &[u64], strides: &[i64], dtype| Operand::strided(dims.to_vec(), strides, Some(dtype));
        let inputs = vec![
            tensor(&[2048, 64], &[64, 1], DType::Fp32),
            Operand::Value("0".into()),
            tensor(&[20_480, 64], &[1, 0], DType::Int64),
        ];
        let args = Operands { inputs, outputs: vec![] };
        let work = work("gather", Args::new(&args)).unwrap();
        assert_eq!((work.read, work.written), (Bytes(20_480 * (64 * 4 + 8)), Bytes(20_480 * 64 * 4)));
        assert_eq!(work.shape, Shape::Picked { rows: 20_480, width: 64, picking: Picking::Copied });
    }

    #[test]
    fn kernels_that_permute_sparse_features_move_lengths_or_indices() {
        let args = operands(&[&[984], &[984, 1024], &[15_901_872]]);
        let bytes = |operator: &str, kernel: &str| permuted_bytes(operator, kernel, &args).map(|bytes| bytes.0);
        let operator = "fbgemm::permute_sparse_features";
        assert_eq!(bytes(operator, "permute_2D_lengths_kernel<int>"), Some(4 * 984 * 1024));
        assert_eq!(bytes(operator, "cub::DeviceScanKernel"), Some(4 * 984 * 1024));
        assert_eq!(bytes(operator, "permute_indices_weights_kernel<false, int>"), Some(4 * 15_901_872));
        assert_eq!(bytes("aten::add", "permute_2D_lengths_kernel<int>"), None);
    }

    #[test]
    fn resampling_writes_the_wanted_size_and_its_gradient_the_former() {
        use crate::cost::operators::tests::value;
        let image = |dims: &[u64], values: &[&str]| {
            let mut args = operands(&[dims]);
            args.inputs.extend(values.iter().map(|text| value(text)));
            args
        };
        let written = |name, args: &Operands| work(name, Args::new(args)).unwrap().written.0;
        let (small, large): (&[u64], &[u64]) = (&[8, 64, 56, 56], &[8, 64, 112, 112]);
        let bytes = |dims: &[u64]| 4 * elements(dims);
        assert_eq!(written("upsample_bilinear2d", &image(small, &["[112, 112]", "False", "", ""])), bytes(large));
        assert_eq!(written("upsample_nearest2d", &image(small, &["", "[2.0, 2.0]"])), bytes(large));
        let backward = image(large, &["[112, 112]", "[8, 64, 56, 56]", "False"]);
        assert_eq!(written("upsample_bilinear2d_backward", &backward), bytes(small));
        assert_eq!(written("repeat_interleave", &image(small, &["4", "1", ""])), 4 * bytes(small));
    }

    #[test]
    fn a_fill_only_writes() {
        let work = work("fill", Args::new(&operands(&[&[45, 2]]))).unwrap();
        assert_eq!((work.read, work.written), (Bytes(0), Bytes(360)));
    }

    #[test]
    fn indexing_moves_whole_rows_and_says_nothing_without_indices() {
        let mut args = operands(&[&[8192, 2880]]);
        assert_eq!(work("index", Args::new(&args)), None);
        args.inputs.push(list(&[&[46]]));
        assert_eq!(work("index", Args::new(&args)).unwrap().written, Bytes(46 * 2880 * 4));
        args.inputs[1] = list(&[&[], &[46]]);
        assert_eq!(work("index", Args::new(&args)).unwrap().written, Bytes(46 * 8192 * 4));
    }

    #[test]
    fn a_fill_of_one_number_writes_one() {
        let args = operands(&[&[]]);
        assert_eq!(work("fill", Args::new(&args)).unwrap().written, Bytes(4));
    }

    #[test]
    fn index_select_moves_the_picked_rows() {
        let mut args = operands(&[&[151_936, 1024]]);
        args.inputs.push(crate::cost::operators::tests::value("0"));
        args.inputs.push(operands(&[&[8944]]).inputs.remove(0));
        let work = work("index_select", Args::new(&args)).unwrap();
        assert_eq!(work.written, Bytes(8944 * 1024 * 4));
    }
}
