//! FLOP and bytes of operators that work row by row: norms, softmax, reductions and losses.

use crate::cost::work::{Family, Shape, Work};
use crate::graph::DType;
use crate::units::{Bytes, Flop};

use super::args::{Args, elements};
use super::pointwise::vector_precision;

/// FLOP per element of a norm: mean 1, variance 3, normalising 2, scale and shift 2; an RMS norm has neither
/// mean nor shift. The gradient needs two sums of products more, about 1.75 times as much.
pub fn norm_flop_per_element(rms: bool, backward: bool) -> f64 {
    let forward = if rms { 5.0 } else { 8.0 };
    if backward { 1.75 * forward } else { forward }
}

/// FLOP per element of softmax: 12 forward (the maximum, a difference, an exponential of 8, the sum, a quotient), in place of the 174
/// of [Lin 2022], and 2 backward.
pub fn softmax_flop_per_element(backward: bool) -> f64 {
    if backward { 2.0 } else { 12.0 }
}

/// FLOP per element of a loss or reduction `name` [Lin 2022, authors' constants; 1 where they have none].
pub(crate) fn reduction_flop_per_element(name: &str) -> f64 {
    match name {
        "binary_cross_entropy" | "binary_cross_entropy_with_logits" => 7.0,
        "mse_loss" => 3.0,
        "var" | "std" | "var_mean" | "std_mean" => 4.0,
        "linalg_vector_norm" | "norm" => 2.0,
        "logsumexp" => 11.0,
        _ => 1.0,
    }
}

/// A row-wise operator: `rows × width` elements, as many tensors of that size read and written as said.
struct Rowwise {
    family: Family,
    rows: u64,
    width: u64,
    flop_per_element: f64,
    read: u64,
    written: u64,
    extra: u64,
}

impl Rowwise {
    fn work(&self, dtype: DType) -> Work {
        let count = self.rows.saturating_mul(self.width);
        let bytes = |tensors: u64| Bytes(count.saturating_mul(tensors).saturating_mul(dtype.size()));
        Work {
            family: self.family,
            flop: Flop(count as f64 * self.flop_per_element),
            read: bytes(self.read) + Bytes(self.extra),
            written: bytes(self.written),
            precision: vector_precision(dtype),
            shape: Shape::Rows { rows: self.rows, width: self.width }.possible(),
        }
    }
}

/// The work of operator `name` (without namespace), when it is a norm, softmax, reduction or loss; `columns` where the
/// kernel's name says that it sums those.
pub(super) fn work(name: &str, args: Args<'_>, columns: bool) -> Option<Work> {
    norm(name, args).or_else(|| softmax(name, args)).or_else(|| reduction(name, args, columns))
}

fn norm(name: &str, args: Args<'_>) -> Option<Work> {
    let backward = name.contains("backward");
    let rms = name.contains("rms");
    let by_channel = name.contains("batch_norm");
    if !(by_channel || rms || name.contains("layer_norm") || name.contains("group_norm")) {
        return None;
    }
    let dims = args.tensor(0)?;
    let (rows, width) = if by_channel { channels(dims) } else { rows_of(dims, name, args) };
    let added = u64::from(name.contains("fused_add"));
    let (read, written) = if backward { (2, 1) } else { (1 + added, 1 + added) };
    let flop_per_element = norm_flop_per_element(rms, backward);
    // Scale and shift: of a channel, or of an element of a row.
    let scaled = if by_channel || name.contains("group_norm") { dims.get(1) } else { dims.last() };
    let extra = scaled.copied().unwrap_or(1).saturating_mul(2 * args.dtype().size());
    Some(Rowwise { family: Family::Norm, rows, width, flop_per_element, read, written, extra }.work(args.dtype_at(0)))
}

fn channels(dims: &[u64]) -> (u64, u64) {
    let channels = dims.get(1).copied().unwrap_or(1);
    (channels, elements(dims) / channels.max(1))
}

/// Rows and width of a norm over the last dimension, or for a group norm over a group of channels.
fn rows_of(dims: &[u64], name: &str, args: Args<'_>) -> (u64, u64) {
    let groups = if name.contains("group_norm") { args.number(1).or_else(|| args.number(6)) } else { None };
    let width = match groups {
        Some(groups) => elements(&dims[1..]) / groups.max(1),
        None => dims.last().copied().unwrap_or(1),
    };
    (elements(dims) / width.max(1), width)
}

fn softmax(name: &str, args: Args<'_>) -> Option<Work> {
    if !matches!(
        name,
        "softmax"
            | "_softmax"
            | "log_softmax"
            | "_log_softmax"
            | "_safe_softmax"
            | "_softmax_backward_data"
            | "_log_softmax_backward_data"
    ) {
        return None;
    }
    let backward = name.contains("backward");
    let dims = args.tensor(0)?;
    let axis = args.numbers(if backward { 2 } else { 1 }).and_then(|axes| axes.first().copied()).unwrap_or(-1);
    let axis = usize::try_from(if axis < 0 { axis + dims.len() as i64 } else { axis }).ok()?;
    let width = dims.get(axis).copied().unwrap_or(1);
    let rows = elements(dims) / width.max(1);
    let flop_per_element = softmax_flop_per_element(backward);
    // The gradient reads the output, its gradient and the output once more [Lin 2022: 3R1W].
    let read = if backward { 3 } else { 1 };
    let shape = Rowwise { family: Family::Softmax, rows, width, flop_per_element, read, written: 1, extra: 0 };
    Some(shape.work(args.dtype_at(0)))
}

/// Operators that read their tensors and write next to nothing.
const REDUCTIONS: [&str; 32] = [
    "sum",
    "mean",
    "max",
    "min",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "all",
    "any",
    "prod",
    "norm",
    "linalg_vector_norm",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "logsumexp",
    "count_nonzero",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "nll_loss_forward",
    "nll_loss",
    "nll_loss2d_forward",
    "cross_entropy_loss",
    "kl_div",
    "nll_loss_nd",
    "median",
];

fn reduction(name: &str, args: Args<'_>, columns: bool) -> Option<Work> {
    if !REDUCTIONS.contains(&name) {
        return None;
    }
    if name.starts_with("nll_loss") {
        return likelihood(args);
    }
    let tensors = args.tensors();
    let (largest, dtype) = tensors.iter().max_by_key(|(dims, _)| elements(dims))?;
    let count = elements(largest);
    if is_unreduced(name, args) {
        let loss = Flop(count as f64 * reduction_flop_per_element(name));
        let (read, written) = (Bytes(args.bytes()), Bytes(count.saturating_mul(dtype.size())));
        let precision = vector_precision(*dtype);
        return Some(Work { family: Family::Reduction, flop: loss, read, written, precision, shape: Shape::Plain });
    }
    let axes = if columns { None } else { reduced_axes(name, args, largest.len()) };
    let shape = reduced(largest, axes, columns);
    let results = match shape {
        Shape::Columns { columns, .. } => columns,
        Shape::Rows { rows, .. } => rows,
        _ => 1,
    };
    let written = args.output().map_or(results, elements).saturating_mul(dtype.size());
    Some(Work {
        family: Family::Reduction,
        flop: Flop(count as f64 * reduction_flop_per_element(name)),
        read: Bytes(args.bytes()),
        written: Bytes(written),
        precision: vector_precision(*dtype),
        shape: shape.possible(),
    })
}

/// Whether a loss is asked for of each element: without reduction.
fn is_unreduced(name: &str, args: Args<'_>) -> bool {
    let at = match name {
        "mse_loss" | "l1_loss" | "smooth_l1_loss" | "huber_loss" | "kl_div" => 2,
        "binary_cross_entropy" => 3,
        "binary_cross_entropy_with_logits" => 4,
        _ => return false,
    };
    args.number(at) == Some(0)
}

/// Which dimensions of `rank` operator `name` reduces, where its arguments say so: those that it names, of losses and of
/// operators without more than a tensor and a number all.
fn reduced_axes(name: &str, args: Args<'_>, rank: usize) -> Option<Vec<usize>> {
    let is_loss = name.ends_with("_loss") || name.starts_with("binary_cross_entropy") || name == "kl_div";
    if is_loss || args.count() <= 2 {
        return Some((0..rank).collect());
    }
    let at = if name.ends_with("norm") { 2 } else { 1 };
    let axes = args.numbers(at)?;
    let from_front = |axis: i64| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok();
    let axes: Option<Vec<usize>> = axes.into_iter().map(from_front).collect();
    let axes = axes.filter(|axes| axes.iter().all(|&axis| axis < rank))?;
    Some(if axes.is_empty() { (0..rank).collect() } else { axes })
}

/// The shape of a reduction of `dims` over `axes`; where those are not known over all but the last dimension if it sums
/// `columns`, else over the last.
fn reduced(dims: &[u64], axes: Option<Vec<usize>>, columns: bool) -> Shape {
    let last = dims.len().saturating_sub(1);
    let axes = axes.unwrap_or_else(|| if columns { (0..last).collect() } else { vec![last] });
    let (within, beside): (Vec<_>, Vec<_>) = (0..dims.len()).partition(|axis| axes.contains(axis));
    let product = |of: &[usize]| of.iter().fold(1, |all: u64, &axis| all.saturating_mul(dims[axis]));
    let (values, results) = (product(&within), product(&beside));
    if axes.contains(&last) || dims.is_empty() {
        Shape::Rows { rows: results, width: values }
    } else {
        Shape::Columns { rows: values, columns: results }
    }
}

/// Negative log likelihood: of every row of log-probabilities the one that the second argument names.
fn likelihood(args: Args<'_>) -> Option<Work> {
    let (rows, dtype) = (elements(args.tensor(1)?), args.dtype_at(0));
    let read = rows.saturating_mul(dtype.size() + args.dtype_at(1).size());
    Some(Work {
        family: Family::Reduction,
        flop: Flop(rows as f64),
        read: Bytes(read),
        written: Bytes(args.output().map_or(1, elements).saturating_mul(dtype.size())),
        precision: vector_precision(dtype),
        shape: Shape::Rows { rows: 1, width: rows }.possible(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::{operands, value};

    #[test]
    fn layer_norm_reads_and_writes_its_input_once() {
        let args = operands(&[&[4, 197, 768]]);
        let work = work("native_layer_norm", Args::new(&args), false).unwrap();
        assert_eq!(work.shape, Shape::Rows { rows: 788, width: 768 });
        assert_eq!(work.written, Bytes(4 * 197 * 768 * 4));
        assert!((work.flop.0 - 8.0 * 788.0 * 768.0).abs() < 1e-6);
    }

    #[test]
    fn a_likelihood_reads_one_number_of_each_row() {
        let mut args = operands(&[&[8192, 50_257]]);
        let target = crate::graph::Operand::tensor(vec![8192], Some(DType::Int64));
        args.inputs.push(target);
        let work = work("nll_loss_forward", Args::new(&args), false).unwrap();
        assert_eq!((work.read, work.written), (Bytes(8192 * (4 + 8)), Bytes(4)));
    }

    #[test]
    fn batch_norm_has_a_row_per_channel() {
        let args = operands(&[&[32, 64, 56, 56]]);
        let work = work("native_batch_norm", Args::new(&args), false).unwrap();
        assert_eq!(work.shape, Shape::Rows { rows: 64, width: 32 * 56 * 56 });
    }

    #[test]
    fn softmax_takes_its_axis_from_the_arguments() {
        let mut args = operands(&[&[8, 100, 16]]);
        args.inputs.push(value("1"));
        let work = work("_softmax", Args::new(&args), false).unwrap();
        assert_eq!(work.shape, Shape::Rows { rows: 128, width: 100 });
    }

    #[test]
    fn reductions_keep_what_they_do_not_reduce() {
        let mut args = operands(&[&[1024, 96]]);
        args.inputs.extend([value("[0]"), value("True"), value("")]);
        let sum = work("sum", Args::new(&args), false).unwrap();
        assert_eq!((sum.shape, sum.written), (Shape::Columns { rows: 1024, columns: 96 }, Bytes(96 * 4)));
        args.inputs[1] = value("[-1]");
        let sum = work("sum", Args::new(&args), false).unwrap();
        assert_eq!((sum.shape, sum.written), (Shape::Rows { rows: 1024, width: 96 }, Bytes(1024 * 4)));
        args.inputs[1] = value("");
        let sum = work("sum", Args::new(&args), true).unwrap();
        assert_eq!(sum.shape, Shape::Columns { rows: 1024, columns: 96 });
        let whole = work("mean", Args::new(&operands(&[&[1024, 96]])), false).unwrap();
        assert_eq!((whole.shape, whole.written), (Shape::Rows { rows: 1, width: 1024 * 96 }, Bytes(4)));
    }
}
