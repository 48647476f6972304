//! Norms and softmax: a block of threads goes over a row, and over it again once it knows its sums.
//!
//! `t = floor + max(traffic/used, clocks·rows/(SMs·clock) + FLOP/(share·peak))`. A row that is gone over again comes from the
//! cache as long as the rows of all blocks at work fit a share `s` of it, else from memory:
//! `bytes = read + written + again·read·miss`, `miss = 1/(1 + (s·L2/resident)⁶)`.

use crate::device::DeviceProfile;

use super::streaming::{self, arithmetic_us, traffic_us};
use super::{Parameter, START_US, parameter};
use crate::cost::work::{Family, Shape, Work};

const ROWS_PER_SM: usize = streaming::PARAMETERS.len();
const ROW_CLOCKS: usize = ROWS_PER_SM + 1;
const KEPT: usize = ROWS_PER_SM + 2;

pub(super) const PARAMETERS: [Parameter; KEPT + 1] = {
    let mut all = [parameter("", 1.0, 1.0, 1.0); KEPT + 1];
    let mut at = 0;
    while at < ROWS_PER_SM {
        all[at] = streaming::PARAMETERS[at];
        at += 1;
    }
    all[ROWS_PER_SM] = parameter("rows that fill a multiprocessor", 0.6, 0.01, 64.0);
    all[ROW_CLOCKS] = parameter("clocks of a multiprocessor per row", 300.0, 1.0, 5000.0);
    all[KEPT] = parameter("share of L2 that keeps rows at work", 0.5, 0.1, 4.0);
    all
};

/// Threads of a block that has a row [`PyTorch`: norms; softmax of rows beyond those that a warp holds].
const THREADS: (f64, f64) = (128.0, 512.0);
/// Threads of a multiprocessor where that is not known.
const SM_THREADS: f64 = 2048.0;
/// Longest row of a softmax that a warp holds in registers.
const HELD: u64 = 1024;

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let &Shape::Rows { rows, width } = &work.shape else { return streaming::time_us(work, device, p) };
    let sms = f64::from(device.sm_count.max(1));
    let rows = rows as f64;
    let is_norm = work.family == Family::Norm;
    // A softmax looks for the largest first, then for the sum.
    let (again, threads) = match is_norm {
        true => (1.0, THREADS.0),
        false if width > HELD => (2.0, THREADS.1),
        false => (0.0, THREADS.0),
    };
    let (read, written) = (work.read.0 as f64, work.written.0 as f64);
    let blocks = device.sm_limits.map_or(SM_THREADS, |limits| f64::from(limits.threads)) / threads;
    let resident = read / rows.max(1.0) * (blocks * sms).min(rows);
    let miss = 1.0 / (1.0 + (p[KEPT] * device.l2.0 as f64 / resident.max(1.0)).powi(6));
    let used = (rows / (sms * p[ROWS_PER_SM])).clamp(1.0 / sms, 1.0);
    let traffic = traffic_us(read * (1.0 + again * miss) + written, device, p) / used;
    // Warps have several rows to a block.
    let clocks = if again > 0.0 { p[ROW_CLOCKS] * rows / (sms * device.clock_mhz.max(1.0)) } else { 0.0 };
    p[START_US] + traffic.max(clocks + arithmetic_us(work, device, p))
}
