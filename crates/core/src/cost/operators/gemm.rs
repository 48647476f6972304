//! FLOP and bytes of matrix products.

use crate::cost::work::{Family, Shape, Work};
use crate::device::Precision;
use crate::graph::DType;
use crate::units::{Bytes, Flop};

use super::args::{Args, elements};

/// Sizes of `batch` products `[m, k] × [k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmSize {
    /// Independent products.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of each dot product.
    pub k: u64,
}

/// `2·batch·m·n·k`: a multiply and an add for each product.
pub fn gemm_flop(size: GemmSize) -> Flop {
    Flop(2.0 * size.batch as f64 * size.m as f64 * size.n as f64 * size.k as f64)
}

/// Bytes read (both factors once) and written (the result once), for elements of `element` bytes and
/// result elements of `result` bytes.
pub(crate) fn gemm_bytes(size: GemmSize, element: u64, result: u64) -> (Bytes, Bytes) {
    let factors = size.m.saturating_mul(size.k).saturating_add(size.k.saturating_mul(size.n));
    let product = size.m.saturating_mul(size.n);
    let bytes = |count: u64, each: u64| Bytes(size.batch.saturating_mul(count).saturating_mul(each));
    (bytes(factors, element), bytes(product, result))
}

/// How tensor cores, or else vector units, compute a product of `dtype`: fp32 stays fp32 unless the
/// kernel's name says tf32.
pub(crate) fn gemm_precision(dtype: DType, tf32: bool) -> Precision {
    match dtype {
        DType::Fp64 => Precision::Fp64Matrix,
        DType::Fp16 => Precision::Fp16Tensor,
        DType::Bf16 => Precision::Bf16Tensor,
        DType::Fp8 => Precision::Fp8Tensor,
        DType::Int8 => Precision::Int8Tensor,
        _ if tf32 => Precision::Tf32,
        _ => Precision::Fp32,
    }
}

/// Multiply-adds of real numbers in one of `dtype`: a product of complex numbers takes four.
fn real_products(dtype: DType) -> f64 {
    if dtype == DType::Complex64 { 4.0 } else { 1.0 }
}

/// The work of one product of `dtype`; a `bias` of that many elements is read as well.
pub fn gemm_work(size: GemmSize, dtype: DType, tf32: bool, bias: u64) -> Work {
    let result = if dtype == DType::Fp8 || dtype == DType::Int8 { 2 } else { dtype.size() };
    let (read, written) = gemm_bytes(size, dtype.size(), result);
    let GemmSize { batch, m, n, k } = size;
    Work {
        family: Family::Gemm,
        flop: Flop(gemm_flop(size).0 * real_products(dtype)),
        read: read + Bytes(bias.saturating_mul(dtype.size())),
        written,
        precision: gemm_precision(dtype, tf32),
        shape: Shape::Gemm { batch, m, n, k }.possible(),
    }
}

/// The work of operator `name` (without `aten::`), when it is a product with recorded sizes.
pub(super) fn work(name: &str, args: Args<'_>, tf32: bool) -> Option<Work> {
    let (first, bias) = match name {
        "addmm" | "baddbmm" | "addbmm" | "addmv" | "_addmm_activation" => (1, args.tensor(0).map_or(0, elements)),
        "mm" | "bmm" | "matmul" | "mv" | "dot" | "vdot" | "_scaled_mm" | "_int_mm" | "_mm" | "tensordot" => (0, 0),
        "linear" | "mkldnn_linear" | "_linear" => {
            let (input, weight) = (args.tensor(0)?, args.tensor(1)?);
            let bias = args.tensor(2).map_or(0, elements);
            let work = gemm_work(linear_size(input, weight)?, args.dtype_at(0), tf32, bias);
            return Some(with_narrow(work, weight, args.dtype_at(1), args.dtype_at(0)));
        }
        "einsum" => {
            let list = args.list(1)?;
            let size = einsum_size(args.value(0)?, list.first()?, list.get(1)?)?;
            return Some(gemm_work(size, args.dtype(), tf32, 0));
        }
        _ => return None,
    };
    let (input, weight) = (args.tensor(first)?, args.tensor(first + 1)?);
    let work = gemm_work(matmul_size(input, weight)?, args.dtype_at(first), tf32, bias);
    Some(with_narrow(work, weight, args.dtype_at(first + 1), args.dtype_at(first)))
}

/// Whether the factors of operator `name` (without `aten::`) have as many columns as rows, or either is not recorded; others fit
/// anything.
pub(super) fn fits(name: &str, args: Args<'_>) -> bool {
    let (first, is_linear) = match name {
        "addmm" | "baddbmm" | "addbmm" | "addmv" | "_addmm_activation" => (1, false),
        "mm" | "bmm" | "matmul" | "mv" | "dot" | "vdot" | "_mm" => (0, false),
        "linear" => (0, true),
        _ => return true,
    };
    let (Some(input), Some(weight)) = (args.tensor(first), args.tensor(first + 1)) else { return false };
    let rows = if is_linear { weight.len().checked_sub(1) } else { weight.len().max(2).checked_sub(2) };
    let is_matrix = match name {
        "mm" | "addmm" => input.len() == 2 && weight.len() == 2,
        "linear" => input.len() > 1,
        _ => true,
    };
    is_matrix && input.last().is_some_and(|columns| rows.and_then(|at| weight.get(at)) == Some(columns))
}

/// `work` with a second factor stored in fewer bits than the first: read as it is stored, widened by the kernel that multiplies.
fn with_narrow(work: Work, weight: &[u64], stored: DType, computed: DType) -> Work {
    if stored.bits() >= computed.bits() {
        return work;
    }
    let less = computed.bytes(elements(weight)).0 - stored.bytes(elements(weight)).0;
    Work { read: Bytes(work.read.0.saturating_sub(less)), ..work }
}

/// `[…, k]` times a weight of `[n, k]`.
fn linear_size(input: &[u64], weight: &[u64]) -> Option<GemmSize> {
    let (&k, rows) = input.split_last()?;
    let n = if weight.len() == 1 { 1 } else { *weight.first()? };
    Some(GemmSize { batch: 1, m: elements(rows), n, k })
}

/// Sizes of `a × b` under the rules of `torch.matmul`: vectors are promoted, leading dimensions broadcast;
/// a two-dimensional `b` makes one product of all rows of `a`.
pub(crate) fn matmul_size(a: &[u64], b: &[u64]) -> Option<GemmSize> {
    let (&k, rows) = a.split_last()?;
    match *b {
        [_] => Some(GemmSize { batch: 1, m: elements(rows), n: 1, k }),
        [_, n] => Some(GemmSize { batch: 1, m: elements(rows), n, k }),
        [ref batch @ .., _, n] => {
            let (&m, own) = rows.split_last().unwrap_or((&1, &[]));
            Some(GemmSize { batch: elements(batch).max(elements(own)), m, n, k })
        }
        [] => None,
    }
}

/// Sizes of the einsum `equation` (`bij,bjk->bik`) of two operands: labels of the result and of both are
/// batch, of the result and one are m or n, of both only are k. Ellipses are not handled.
pub(crate) fn einsum_size(equation: &str, a: &[u64], b: &[u64]) -> Option<GemmSize> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let (inputs, output) = equation.split_once("->")?;
    let (left, right) = inputs.split_once(',')?;
    if left.chars().count() != a.len() || right.chars().count() != b.len() || right.contains(',') {
        return None;
    }
    let mut size = GemmSize { batch: 1, m: 1, n: 1, k: 1 };
    for (label, &dim) in left.chars().zip(a) {
        let target = match (right.contains(label), output.contains(label)) {
            (true, true) => &mut size.batch,
            (true, false) => &mut size.k,
            (false, _) => &mut size.m,
        };
        *target = target.saturating_mul(dim);
    }
    let own = right.chars().zip(b).filter(|(label, _)| !left.contains(*label));
    size.n = own.fold(1, |n, (_, &dim)| n.saturating_mul(dim));
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_counts_two_flop_per_multiply_add_and_each_matrix_once() {
        let size = GemmSize { batch: 1, m: 128, n: 50, k: 784 };
        // Cardwell 2019 §3.8: 5 017 600... is m·n·k for a 128×784 by 784×50 product, so twice that in FLOP.
        assert!((gemm_flop(size).0 - 2.0 * 5_017_600.0).abs() < 1e-9);
        assert_eq!(gemm_bytes(size, 4, 4), (Bytes(4 * (128 * 784 + 784 * 50)), Bytes(4 * 128 * 50)));
    }

    #[test]
    fn a_weight_in_fewer_bits_is_read_as_it_is_stored_and_computed_with_as_before() {
        use crate::graph::{Operand, Operands};
        let tensor = |dims: &[u64], dtype| Operand::tensor(dims.to_vec(), Some(dtype));
        let product = |stored| {
            let inputs = vec![tensor(&[2, 64], DType::Bf16), tensor(&[32, 64], stored)];
            let operands = Operands { inputs, outputs: Vec::new() };
            work("linear", Args::with_default(&operands, DType::Fp32), false).unwrap()
        };
        let wide = product(DType::Bf16);
        for (stored, bytes) in [(DType::Int8, 32 * 64), (DType::Int4, 32 * 64 / 2)] {
            let narrow = product(stored);
            assert_eq!(narrow.read, Bytes(2 * 2 * 64 + bytes));
            assert_eq!(Work { read: wide.read, ..narrow }, wide);
        }
    }

    #[test]
    fn complex_numbers_take_four_products_of_real_ones() {
        let size = GemmSize { batch: 1, m: 16, n: 32, k: 64 };
        let work = |dtype| gemm_work(size, dtype, false, 0);
        let (complex, real) = (work(DType::Complex64), work(DType::Fp32));
        assert!((complex.flop.0 / real.flop.0 - 4.0).abs() < 1e-12);
        assert_eq!((complex.precision, complex.bytes()), (real.precision, Bytes(2 * real.bytes().0)));
    }

    #[test]
    fn matmul_broadcasts_like_torch() {
        let size = |a: &[u64], b: &[u64]| matmul_size(a, b).map(|s| (s.batch, s.m, s.n, s.k));
        assert_eq!(size(&[1024, 96, 50], &[50, 15]), Some((1, 98_304, 15, 50)));
        assert_eq!(size(&[8, 12, 64, 32], &[8, 12, 32, 64]), Some((96, 64, 64, 32)));
        assert_eq!(size(&[64, 32], &[8, 32, 16]), Some((8, 64, 16, 32)));
        assert_eq!(size(&[7], &[7]), Some((1, 1, 1, 7)));
        assert_eq!(size(&[], &[7]), None);
    }

    #[test]
    fn einsum_labels_are_sorted_into_batch_m_n_k() {
        let size = einsum_size("bij, bjk -> bik", &[4, 2, 3], &[4, 3, 5]);
        assert_eq!(size, Some(GemmSize { batch: 4, m: 2, n: 5, k: 3 }));
        assert_eq!(einsum_size("...ij,jk->...ik", &[4, 2, 3], &[3, 5]), None);
    }
}
