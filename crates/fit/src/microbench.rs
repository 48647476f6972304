//! Tables of microbench.py: times of kernels in µs; sizes by family.

use std::collections::BTreeMap;

use serde::Serialize;

use super::csv::{Row, Table};
use super::lookups::with_reuse;
use super::rows::{measured, rows_work, streaming_work};
use super::{FitError, Measurement};
use retime_core::cost::domain::Domain;
use retime_core::cost::operators::{
    AttentionSize, ConvPass, ConvSize, GemmSize, LookupSize, attention_work, conv_work, gemm_work, lookup_work,
};
use retime_core::cost::reuse::REUSE_BINS;
use retime_core::cost::reuse::Reuse;
use retime_core::cost::scale::ScaleKind;
use retime_core::cost::work::{Family, Route, Shape, Work};
use retime_core::graph::DType;
use retime_core::units::{Bytes, Flop};

/// What a row of the table is to calibration.
enum Read {
    Measured(Work),
    /// Not used, with the reason.
    Left(&'static str),
}

/// How the rows of one family of a table are used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FamilyUse {
    /// The family, as the table names it.
    pub family: String,
    /// What its rows are fitted as; the reason where they are not.
    pub fitted_as: String,
    /// Whether they are used.
    pub is_used: bool,
    /// How many.
    pub rows: usize,
}

/// The measurement in `row`; `None` of one that is not used.
pub(super) fn microbench(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    match read(row)? {
        Read::Measured(work) => Ok(measured(work, row, "device", row.positive("time_us_median")?)),
        Read::Left(_) => Ok(None),
    }
}

/// How the rows of each family of `table` are used, in order of family.
///
/// # Errors
/// The first value that cannot be, with line and column.
pub(super) fn families(table: &Table) -> Result<Vec<FamilyUse>, FitError> {
    let mut counts: BTreeMap<(String, String, bool), usize> = BTreeMap::new();
    for row in table.rows() {
        let (fitted_as, is_used) = match read(&row)? {
            Read::Measured(work) => (fitted_as(&work), true),
            Read::Left(reason) => (reason, false),
        };
        *counts.entry((row.text("family").to_owned(), fitted_as.to_owned(), is_used)).or_default() += 1;
    }
    let one = |((family, fitted_as, is_used), rows)| FamilyUse { family, fitted_as, is_used, rows };
    Ok(counts.into_iter().map(one).collect())
}

/// The name of the fit that `work` goes to.
fn fitted_as(work: &Work) -> &'static str {
    match (ScaleKind::of(work), Domain::of(work), &work.shape) {
        (Some(kind), ..) => kind.name(),
        (None, Some(domain), _) => domain.name(),
        (None, None, Shape::Copy { .. }) => "copies",
        _ => "nothing",
    }
}

const SEVERAL_KERNELS: &str = "several kernels a call; each kernel of a trace is priced by its own work";

/// The type of numbers in column `dtype`, and whether products round it to 19 bits.
///
/// # Errors
/// A type that no fit is of.
pub(super) fn row_type(row: &Row<'_>) -> Result<(DType, bool), FitError> {
    Ok(match row.text("dtype") {
        "fp32" | "float32" => (DType::Fp32, false),
        "tf32" => (DType::Fp32, true),
        "bf16" | "bfloat16" => (DType::Bf16, false),
        "fp16" | "float16" => (DType::Fp16, false),
        "fp8" => (DType::Fp8, false),
        "u8" | "int8" | "" => (DType::Int8, false),
        other => {
            let (line, value, expected) = (row.line, other.to_owned(), "fp32, tf32, bf16, fp16, fp8, int8 and u8");
            return Err(FitError::BadWord { line, column: "dtype", value, expected });
        }
    })
}

fn read(row: &Row<'_>) -> Result<Read, FitError> {
    let (dtype, tf32) = row_type(row)?;
    let backward = row.text("pass").starts_with("bwd") || row.text("pass") == "backward";
    let kernels = row.size("n_kernels", 1)?;
    let several = kernels > 1;
    let work = match row.text("family") {
        "layer_norm" | "batch_norm" | "softmax" | "log_softmax" | "attention" | "conv2d" if several => {
            return Ok(Read::Left(SEVERAL_KERNELS));
        }
        // A product that splits its inner dimension sums up the parts in a second kernel; other kernels beside it are not its own.
        "gemm" if kernels > 2 || several && row.text("op") == "addmm" => return Ok(Read::Left(SEVERAL_KERNELS)),
        "gemm" => {
            let size =
                GemmSize { batch: row.size("B", 1)?, m: row.size("M", 1)?, n: row.size("N", 1)?, k: row.size("K", 1)? };
            gemm_work(size, dtype, tf32, 0)
        }
        "layer_norm" => rows_work(Family::Norm, row.size("M", 1)?, row.size("N", 1)?, dtype, backward),
        "batch_norm" => {
            let width = row.size("B", 1)? * row.size("H", 1)? * row.size("W", 1)?;
            rows_work(Family::Norm, row.size("C", 1)?, width, dtype, backward)
        }
        "softmax" | "log_softmax" => rows_work(Family::Softmax, row.size("M", 1)?, row.size("N", 1)?, dtype, backward),
        "attention" => attention(row, dtype, backward)?,
        "conv2d" => conv(row, dtype, tf32)?,
        "embedding_bag" | "embedding" if row.text("pass") == "fwd" => lookup(row, dtype, false)?,
        "embedding_bag" if row.text("pass") == "update" => lookup(row, dtype, true)?,
        "embedding_bag" if row.text("grad") == "sparse" => streaming(row, dtype, false)?,
        "embedding_bag" | "embedding" => {
            return Ok(Read::Left("dense gradients clear the whole table first: two kernels a call"));
        }
        "memcpy" => copy(row)?,
        "optimizer" | "loss" if several => return Ok(Read::Left(SEVERAL_KERNELS)),
        "pooling" if backward && row.text("op").starts_with("max_pool") => pooled(row, dtype)?,
        "concat" | "transpose" | "broadcast" | "tril" if !several => strided(&streaming(row, dtype, false)?, dtype),
        "concat" | "transpose" | "broadcast" | "tril" => return Ok(Read::Left(SEVERAL_KERNELS)),
        "elementwise" | "dropout" | "optimizer" | "pooling" | "loss" => streaming(row, dtype, false)?,
        "reduction" => streaming(row, dtype, true)?,
        _ => return Ok(Read::Left("no model covers this family")),
    };
    Ok(Read::Measured(work))
}

/// `work` with its elements found one by one.
fn strided(work: &Work, dtype: DType) -> Work {
    Work { shape: Shape::Strided { elements: work.written.0.div_ceil(dtype.size()) }, ..work.clone() }
}

/// The gradient of max pooling: it searches the windows of each element of the input.
fn pooled(row: &Row<'_>, dtype: DType) -> Result<Work, FitError> {
    let elements = row.size("B", 1)? * row.size("C", 1)? * row.size("H", 1)? * row.size("W", 1)?;
    let work = streaming(row, dtype, false)?;
    Ok(Work { family: Family::Pooling, shape: Shape::Strided { elements }, ..work })
}

fn streaming(row: &Row<'_>, dtype: DType, is_reduction: bool) -> Result<Work, FitError> {
    let bytes = row.size("bytes", 0)?;
    if is_reduction {
        let work = streaming_work(bytes, 0, row.number("flops")?);
        return Ok(Work { family: Family::Reduction, ..work });
    }
    let count = row.size("count", 1)?.max(1);
    let written = (row.size("numel", 0)? * count * dtype.size()).max(bytes / 3).min(bytes);
    Ok(streaming_work(bytes - written, written, row.number("flops")?))
}

fn copy(row: &Row<'_>) -> Result<Work, FitError> {
    let bytes = Bytes(row.size("numel", 0)?);
    let pinned = match row.text("pinned") {
        "1" | "True" | "true" => Some(true),
        "0" | "False" | "false" => Some(false),
        _ => None,
    };
    let route = match row.text("op") {
        "memcpy_h2d" => Route::HostToDevice,
        "memcpy_d2h" => Route::DeviceToHost,
        _ => Route::DeviceToDevice,
    };
    Ok(Work {
        family: Family::Transfer,
        flop: Flop(0.0),
        read: bytes,
        written: bytes,
        precision: retime_core::device::Precision::Fp32,
        shape: Shape::Copy { route, pinned },
    })
}

fn attention(row: &Row<'_>, dtype: DType, backward: bool) -> Result<Work, FitError> {
    let (heads, length) = (row.size("heads", 1)?, row.size("S", 1)?);
    let causal = matches!(row.text("causal"), "1" | "True" | "true");
    let (batch, dim) = (row.size("B", 1)?, row.size("D", 64)?);
    let size = AttentionSize { batch, heads, kv_heads: heads, queries: length, keys: length, dim, causal };
    Ok(attention_work(&size, backward, dtype))
}

fn conv(row: &Row<'_>, dtype: DType, tf32: bool) -> Result<Work, FitError> {
    let (h, w, taps) = (row.size("H", 1)?, row.size("W", 1)?, row.size("R", 1)?);
    let stride = row.size("stride", 1)?.max(1);
    let pass = match row.text("pass") {
        "dgrad" => ConvPass::InputGradient,
        "wgrad" => ConvPass::WeightGradient,
        _ => ConvPass::Forward,
    };
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
    Ok(conv_work(&size, pass, dtype, tf32))
}

fn lookup(row: &Row<'_>, dtype: DType, backward: bool) -> Result<Work, FitError> {
    // Several tables are one of all their rows, each bag of it.
    let tables = row.size("T", 1)?;
    let size = LookupSize {
        batch: row.size("B", 1)?.saturating_mul(tables),
        rows: row.size("E", 1)?.saturating_mul(tables),
        tables: 1,
        pooling: row.size("L", 1)? as f64,
        dim: row.size("D", 1)?,
    };
    Ok(with_reuse(lookup_work(&size, backward, dtype, DType::Int64), reuse(row)?))
}

/// Shares of look-ups by reuse factor, in the columns of that name; uniform where they are empty.
const REUSE: [&str; REUSE_BINS] = [
    "rf0", "rf1", "rf2", "rf3", "rf4", "rf5", "rf6", "rf7", "rf8", "rf9", "rf10", "rf11", "rf12", "rf13", "rf14",
    "rf15", "rf16",
];

fn reuse(row: &Row<'_>) -> Result<Reuse, FitError> {
    if row.text(REUSE[0]).is_empty() {
        return Ok(Reuse::Uniform);
    }
    let mut shares = [0.0; REUSE_BINS];
    for (share, column) in shares.iter_mut().zip(REUSE) {
        *share = row.number(column)?;
    }
    Ok(Reuse::Histogram(Box::new(shares)))
}
