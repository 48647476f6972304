//! FLOP and bytes of element-wise arithmetic, dropout, pooling and optimizer updates.

use crate::cost::work::{Family, Shape, Work};
use crate::device::Precision;
use crate::graph::DType;
use crate::units::{Bytes, Flop};

use super::args::{Args, elements, sum};

/// How vector units compute on `dtype`: half precision is loaded as such but computed in fp32.
pub fn vector_precision(dtype: DType) -> Precision {
    match dtype {
        DType::Fp64 | DType::Int64 => Precision::Fp64,
        _ => Precision::Fp32,
    }
}

/// FLOP per element of element-wise operator `name`, without `aten::` and trailing underscore: fp32 instructions of the device's
/// library functions, a fused multiply-add being two, to the nearest handful.
///
/// The constants of [Lin 2022] for functions (`gelu` 175, `tanh` and `pow` 180) are above what runs: at two bytes an element an H100
/// streams 0.8·10¹² elements a second through them, of which its fp32 units could do 85 FLOP each.
pub fn pointwise_flop_per_element(name: &str) -> f64 {
    match name {
        "pow" => 60.0,
        "mish" => 50.0,
        "gelu_backward" => 45.0,
        "softplus" | "log_sigmoid_forward" => 30.0,
        "gelu" => 28.0,
        "erf" => 24.0,
        "tanh" | "log" | "log2" | "log1p" | "sin" | "cos" | "logit" => 20.0,
        "silu_backward" => 17.0,
        "sigmoid" | "silu" | "elu" | "softplus_backward" => 12.0,
        "exp" | "exp2" | "rsqrt" | "sqrt" | "reciprocal" => 8.0,
        "binary_cross_entropy_backward" | "elu_backward" => 4.0,
        // From the result of the forward pass.
        "tanh_backward" | "sigmoid_backward" => 3.0,
        "addcmul" | "addcdiv" | "lerp" | "native_dropout" | "dropout" | "native_dropout_backward" => 2.0,
        "_copy" | "copy" => 0.0,
        _ => 1.0,
    }
}

/// `k² − 1` comparisons or additions per output element of a pooling window of `window` elements.
pub(crate) fn pooling_flop_per_output(window: u64) -> f64 {
    window.saturating_sub(1) as f64
}

/// FLOP per parameter of a fused optimizer step, counted from its update rule.
pub(crate) fn optimizer_flop_per_parameter(name: &str) -> f64 {
    match name {
        _ if name.contains("adam") || name.contains("lamb") => 16.0,
        _ if name.contains("adagrad") => 7.0,
        _ => 4.0,
    }
}

/// Operators of one tensor: another one among their arguments is where the result goes.
const UNARY: [&str; 40] = [
    "abs",
    "bitwise_not",
    "ceil",
    "celu",
    "clamp",
    "clamp_max",
    "clamp_min",
    "cos",
    "elu",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "isnan",
    "leaky_relu",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "mish",
    "nan_to_num",
    "neg",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "sqrt",
    "tanh",
];

/// Operators of two tensors at most.
const BINARY: [&str; 12] = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "div",
    "fmod",
    "maximum",
    "minimum",
    "mul",
    "pow",
    "remainder",
    "sub",
];

/// Bytes that `name` reads: its tensors once, without the one that the result is put in.
fn read_bytes(name: &str, args: Args<'_>) -> u64 {
    let operands = match name {
        _ if UNARY.contains(&name) => 1,
        _ if BINARY.contains(&name) => 2,
        "mse_loss_backward" | "l1_loss_backward" | "smooth_l1_loss_backward" => 3,
        _ => usize::MAX,
    };
    args.bytes_of_first(operands)
}

/// The work of an element-wise operator: every tensor it works on is read once, a result as large as they broadcast to is written.
pub(super) fn elementwise(name: &str, args: Args<'_>) -> Option<Work> {
    Some(of_elements(name, args, elements(&args.broadcast()?)))
}

/// As [`elementwise`], with a result as large as the largest tensor.
pub(super) fn of_largest(name: &str, args: Args<'_>) -> Option<Work> {
    let tensors = args.tensors();
    let touched = |(dims, dtype): &(&[u64], DType)| (touched(args, dims), *dtype);
    let touched: Vec<(u64, DType)> = tensors.iter().map(touched).collect();
    let &(count, dtype) = touched.iter().max_by_key(|(count, _)| *count)?;
    let all = of_elements(name, args, count);
    if touched.iter().zip(&tensors).all(|((count, _), (dims, _))| *count == elements(dims)) {
        return Some(all);
    }
    let read = sum(touched.iter().map(|(count, dtype)| count.saturating_mul(dtype.size())));
    Some(Work { read: Bytes(read), written: Bytes(count.saturating_mul(dtype.size())), ..all })
}

/// Elements of a tensor of `dims` that a compiled kernel touches: of a table the rows that a list of whole numbers picks, where another
/// tensor is as large as those.
fn touched(args: Args<'_>, dims: &[u64]) -> u64 {
    let &[rows, width] = dims else { return elements(dims) };
    let tensors = args.tensors();
    let lists = tensors.iter().filter(|(list, dtype)| list.len() == 1 && dtype.is_integer());
    let is_picked = |&count: &u64| {
        let picked = count.saturating_mul(width);
        count < rows && tensors.iter().any(|(other, _)| other.last() == Some(&width) && elements(other) == picked)
    };
    let picked = lists.map(|(list, _)| elements(list)).find(is_picked);
    picked.map_or(elements(dims), |count| count.saturating_mul(width))
}

fn of_elements(name: &str, args: Args<'_>, count: u64) -> Work {
    let bare = name.trim_end_matches('_');
    let dtype = args.dtype();
    let (read, written) = match bare {
        "native_dropout" | "_fused_dropout" => (args.bytes(), count.saturating_mul(dtype.size() + 1)),
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "logical_and" | "logical_or" | "isneginf" | "isnan" => {
            (args.bytes(), count)
        }
        "bernoulli" | "uniform" | "normal" | "random" | "exponential" => (0, count.saturating_mul(dtype.size())),
        _ => (read_bytes(bare, args), count.saturating_mul(dtype.size())),
    };
    let family = if bare.contains("dropout") || bare == "bernoulli" { Family::Dropout } else { Family::Elementwise };
    Work {
        family,
        flop: Flop(count as f64 * pointwise_flop_per_element(bare)),
        read: Bytes(read),
        written: Bytes(written),
        precision: vector_precision(dtype),
        shape: Shape::Plain,
    }
}

/// The work of a pooling operator. Backward has the gradient of the output first and the input second.
pub(super) fn pooling(name: &str, args: Args<'_>) -> Option<Work> {
    let backward = name.contains("backward");
    let dtype = args.dtype();
    let input = elements(args.tensor(usize::from(backward))?);
    let output = if backward { elements(args.tensor(0)?) } else { pooled(name, args, input) };
    let indices = if name.contains("with_indices") { output.saturating_mul(8) } else { 0 };
    let window =
        (input / output.max(1)).max(args.numbers(1 + usize::from(backward)).map_or(1, |kernel| window(name, &kernel)));
    let (large, small) = (input.saturating_mul(dtype.size()), output.saturating_mul(dtype.size()));
    let small = small.saturating_add(indices);
    let (read, written) = if backward { (small, large) } else { (large, small) };
    // Each element of the input looks for the windows whose largest it was.
    let searches = backward && name.contains("max_pool");
    let shape = if searches { Shape::Strided { elements: input } } else { Shape::Plain };
    Some(Work {
        family: Family::Pooling,
        flop: Flop(output as f64 * pooling_flop_per_output(window)),
        read: Bytes(read),
        written: Bytes(written),
        precision: vector_precision(dtype),
        shape,
    })
}

fn window(name: &str, kernel: &[i64]) -> u64 {
    let size = kernel.iter().fold(1, |size: u64, side| size.saturating_mul(side.unsigned_abs()));
    if name.contains("adaptive") { 1 } else { size.saturating_mul(if kernel.len() == 1 { size } else { 1 }) }
}

/// Output elements: recorded, from the wanted size of adaptive pooling, or from how often the window fits along each axis; where no window
/// was recorded from stride 2, the usual.
fn pooled(name: &str, args: Args<'_>, input: u64) -> u64 {
    if let Some(output) = args.output() {
        return elements(output);
    }
    let Some(dims) = args.tensor(0) else { return input };
    // Of one, two or three axes, behind channels and, but for a single image, a batch.
    let axes = (1..=3).find(|axes| name.contains(&format!("{axes}d"))).unwrap_or(2).min(dims.len());
    let (planes, sizes) = dims.split_at(dims.len() - axes);
    let planes = elements(planes);
    let wanted_at = if name.contains("fractional") { 2 } else { 1 };
    if name.contains("adaptive") || name.contains("fractional") {
        let wanted = args.numbers(wanted_at).filter(|list| !list.is_empty()).unwrap_or_else(|| vec![1]);
        return wanted.iter().fold(planes, |count, dim| count.saturating_mul(dim.unsigned_abs()));
    }
    let window = PoolingWindow::of(name, args);
    let sizes = sizes.iter().enumerate();
    sizes.fold(planes, |product, (axis, &size)| product.saturating_mul(window.fits(axis, size)))
}

/// What a pooling operator without recorded result says of its window. Of each list one number is of all axes.
struct PoolingWindow {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    /// Whether a window may reach beyond the padded input.
    ceil: bool,
}

impl PoolingWindow {
    fn of(name: &str, args: Args<'_>) -> Self {
        let list = |at: usize| args.numbers(at).unwrap_or_default();
        // Largest values have a dilation before the rounding, means have none.
        let (dilation, ceil) = if name.contains("max_pool") { (list(4), 5) } else { (Vec::new(), 4) };
        let ceil = args.truth(ceil).unwrap_or(false);
        Self { kernel: list(1), stride: list(2), padding: list(3), dilation, ceil }
    }

    /// At how many places of an axis of `size` it fits.
    fn fits(&self, axis: usize, size: u64) -> u64 {
        let of = |list: &[i64]| list.get(axis).or_else(|| list.first()).map(|number| number.unsigned_abs());
        let kernel = of(&self.kernel).filter(|&kernel| kernel > 0);
        let stride = of(&self.stride).or(kernel).unwrap_or(2).max(1);
        let Some(kernel) = kernel else { return size.div_ceil(stride) };
        let padding = of(&self.padding).unwrap_or(0);
        let span = (kernel - 1).saturating_mul(of(&self.dilation).unwrap_or(1).max(1)).saturating_add(1);
        let room = size.saturating_add(padding.saturating_mul(2)).saturating_sub(span);
        if !self.ceil {
            return room / stride + 1;
        }
        let places = room.div_ceil(stride) + 1;
        // The last window begins within the input or what pads it before.
        places - u64::from((places - 1).saturating_mul(stride) >= size.saturating_add(padding))
    }
}

/// The work of a multi-tensor or fused optimizer operator over lists of tensors.
pub(super) fn optimizer(name: &str, args: Args<'_>) -> Option<Work> {
    let first = args.list(0)?;
    let count = sum(first.iter().map(|dims| elements(dims)));
    let dtype = args.dtype();
    let one = count.saturating_mul(dtype.size());
    let fused = name.starts_with("_fused_") || name.contains("multi_tensor");
    let lists = (0..4)
        .filter(|&at| args.list(at).is_some_and(|list| list.len() == first.len() && !list[0].is_empty()))
        .count() as u64;
    let lists = lists.max(1);
    // A fused step reads gradients and state and writes back parameters and state; the others write their first list.
    let (read, written) = if fused {
        (one.saturating_mul(lists), one.saturating_mul(lists.saturating_sub(1).max(1)))
    } else if name.contains("norm") {
        (args.bytes(), (first.len() as u64).saturating_mul(dtype.size()))
    } else {
        (args.bytes(), one)
    };
    let per_parameter = if fused {
        optimizer_flop_per_parameter(name)
    } else {
        pointwise_flop_per_element(name.trim_start_matches("_foreach_").trim_end_matches('_'))
    };
    Some(Work {
        family: Family::Optimizer,
        flop: Flop(count as f64 * per_parameter),
        read: Bytes(read),
        written: Bytes(written),
        precision: vector_precision(dtype),
        shape: Shape::Plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::tests::{list, operands, value};

    #[test]
    fn adding_a_bias_reads_both_and_writes_the_larger() {
        let args = operands(&[&[1024, 96, 15], &[15]]);
        let work = elementwise("add_", Args::new(&args)).unwrap();
        assert_eq!((work.read, work.written), (Bytes(4 * (1024 * 96 * 15 + 15)), Bytes(4 * 1024 * 96 * 15)));
        assert!((work.flop.0 - 1024.0 * 96.0 * 15.0).abs() < 1e-9);
    }

    #[test]
    fn a_compiled_kernel_writes_no_more_than_its_largest_argument() {
        let args = operands(&[&[4096, 1, 64], &[1, 512, 64], &[512, 64]]);
        let work = of_largest("triton_poi_fused_add_mul_0", Args::new(&args)).unwrap();
        assert_eq!(work.written, Bytes(4 * 4096 * 64));
        assert_eq!(elementwise("add", Args::new(&args)).unwrap().written, Bytes(4 * 4096 * 512 * 64));
    }

    #[test]
    fn a_compiled_kernel_reads_of_a_table_the_rows_that_it_picks() {
        let mut args = operands(&[&[201_088, 2880], &[131_072, 64], &[8192, 2880]]);
        let list = crate::graph::Operand::tensor(vec![8192], Some(DType::Int32));
        args.inputs.insert(0, list);
        let work = of_largest("triton_poi_fused_0", Args::new(&args)).unwrap();
        let rows = 8192 * 2880 * 4;
        assert_eq!((work.read, work.written), (Bytes(8192 * 4 + 131_072 * 64 * 4 + 2 * rows), Bytes(rows)));
        assert!((work.flop.0 - 8192.0 * 2880.0).abs() < 1e-9);
    }

    #[test]
    fn relu_moves_two_words_per_element_and_multiplication_three() {
        let relu = elementwise("relu", Args::new(&operands(&[&[1000]]))).unwrap();
        let product = elementwise("mul", Args::new(&operands(&[&[1000], &[1000]]))).unwrap();
        assert_eq!((relu.bytes(), product.bytes()), (Bytes(8000), Bytes(12_000)));
    }

    #[test]
    fn the_tensor_that_a_result_is_put_in_is_not_read() {
        let bytes = |name: &str, sizes: &[&[u64]]| elementwise(name, Args::new(&operands(sizes))).unwrap().bytes();
        assert_eq!(bytes("clamp_min_", &[&[1000], &[], &[1000]]), Bytes(8000));
        assert_eq!(bytes("mul", &[&[1000], &[1000], &[1000]]), Bytes(12_000));
        assert_eq!(bytes("addcmul", &[&[1000], &[1000], &[1000]]), Bytes(16_000));
    }

    #[test]
    fn max_pooling_three_by_three_stride_two_halves_both_axes() {
        let mut args = operands(&[&[2, 64, 32, 32]]);
        args.inputs.extend([value("[3, 3]"), value("[2, 2]"), value("[1, 1]")]);
        let work = pooling("max_pool2d_with_indices", Args::new(&args)).unwrap();
        assert!((work.flop.0 - 2.0 * 64.0 * 256.0 * 8.0).abs() < 1e-9);
        assert_eq!(work.written, Bytes(2 * 64 * 256 * (4 + 8)));
    }

    #[test]
    fn a_window_is_put_where_it_fits() {
        let written = |name: &str, size: u64, numbers: &[&str]| {
            let mut args = operands(&[&[1, 10, size, size]]);
            args.inputs.extend(numbers.iter().map(|number| value(number)));
            pooling(name, Args::new(&args)).unwrap().written.0 / 40
        };
        assert_eq!(written("avg_pool2d", 7, &["[7, 7]", "[1, 1]", "[0, 0]"]), 1);
        assert_eq!(written("avg_pool2d", 8, &["[2, 2]", "[]", "0"]), 16, "without a stride windows do not overlap");
        assert_eq!(written("max_pool2d", 224, &["3", "2", "0"]), 111 * 111);
        assert_eq!(written("max_pool2d", 224, &["3", "2", "0", "1", "True"]), 112 * 112);
        assert_eq!(written("avg_pool2d", 5, &["2", "2", "0", "True"]), 9);
        assert_eq!(written("max_pool2d", 9, &["3", "1", "0", "2", "False"]), 25, "its taps are two apart");
        assert_eq!(written("max_pool2d", 2, &["9", "1", "0"]), 1, "a damaged window");
        assert_eq!(written("max_pool2d", 9, &[]), 25, "nothing recorded");
        assert_eq!(written("fractional_max_pool2d", 9, &["[2, 2]", "[4, 4]"]), 16);
        let mut image = operands(&[&[10, 9, 9]]);
        image.inputs.extend(["3", "3"].map(value));
        assert_eq!(pooling("max_pool2d", Args::new(&image)).unwrap().written.0, 40 * 9, "a single image");
    }

    #[test]
    fn a_fused_adam_step_reads_four_lists_and_writes_three() {
        let tensors: &[&[u64]] = &[&[1000], &[24]];
        let args = crate::graph::Operands {
            inputs: vec![list(tensors), list(tensors), list(tensors), list(tensors)],
            outputs: vec![],
        };
        let work = optimizer("_fused_adam_", Args::new(&args)).unwrap();
        assert_eq!((work.read, work.written), (Bytes(4 * 4 * 1024), Bytes(3 * 4 * 1024)));
    }
}
