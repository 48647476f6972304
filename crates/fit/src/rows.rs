//! What rows of different measurement tables say in common: a time, and the work of kernels over rows or streams of bytes.

use super::Measurement;
use super::csv::Row;
use retime_core::cost::operators::{movement_work, pointwise, rowwise};
use retime_core::cost::work::{Family, Shape, Work};
use retime_core::graph::DType;
use retime_core::units::{Bytes, Flop};

/// A kernel that took `us` on the device that column `device` names; none where that is no time.
pub(super) fn measured(work: Work, row: &Row<'_>, device: &str, us: f64) -> Option<Measurement> {
    (us > 0.0).then(|| Measurement::of_kernel(work, row.text(device), us, row.line))
}

/// A norm or softmax over `rows` rows of `width` elements.
pub(super) fn rows_work(family: Family, rows: u64, width: u64, dtype: DType, backward: bool) -> Work {
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

/// A kernel that reads and writes so many bytes one after the other, with so many FLOP.
pub(super) fn streaming_work(read: u64, written: u64, flop: f64) -> Work {
    Work { flop: Flop(flop), ..movement_work(Family::Elementwise, read, written) }
}
