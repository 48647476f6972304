//! Kernels bound by streaming memory, row by row or not.
//!
//! `t = floor + max(bytes_DRAM/BW + bytes_L2/(l2·BW), FLOP/(share·peak)) / used`, where the share of the traffic that fits the
//! last-level cache comes from there, and `used` is the part of the multiprocessors that the rows fill.

use crate::device::DeviceProfile;

use super::{BANDWIDTH, COMPUTE, FLOOR_US, Parameter, parameter};
use crate::cost::work::{Family, Shape, Work};

const L2: usize = 3;
const RESIDENT: usize = 4;
const ROWS_PER_SM: usize = 5;
const WIDE_ROW: usize = 6;

pub(super) const PARAMETERS: [Parameter; 7] = [
    parameter("compute share of peak", 0.5, 0.01, 4.0),
    parameter("bandwidth share of peak", 0.87, 0.1, 1.5),
    parameter("floor µs", 2.0, 0.3, 150.0),
    parameter("L2 over DRAM bandwidth", 2.0, 1.0, 12.0),
    parameter("share of L2 that stays resident", 0.5, 0.02, 2.0),
    parameter("rows that fill a multiprocessor", 1.0, 0.01, 64.0),
    parameter("extra traffic of rows beyond 4096 elements", 0.01, 0.001, 2.0),
];

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let sms = f64::from(device.sm_count.max(1));
    let dram = 1e-6 * device.dram_bandwidth.0.max(1.0) * p[BANDWIDTH];
    let mut bytes = work.bytes().0 as f64;
    let mut used = 1.0;
    // Reductions of few rows divide a row among multiprocessors; norms and softmax do not.
    if let (Shape::Rows { rows, width }, Family::Norm | Family::Softmax) = (&work.shape, work.family) {
        let (rows, width) = (*rows, *width);
        used = (rows as f64 / (sms * p[ROWS_PER_SM])).clamp(1.0 / sms, 1.0);
        if width > 4096 {
            bytes *= 1.0 + p[WIDE_ROW];
        }
    }
    let resident = (device.l2.0 as f64 * p[RESIDENT]).min(bytes);
    // Once the data is larger than the cache, streaming evicts it before it is used again.
    let hit = if bytes > 0.0 { (resident / bytes).powi(2) } else { 0.0 };
    let traffic = bytes * (1.0 - hit) / dram + bytes * hit / (dram * p[L2]);
    let arithmetic = 1e6 * work.flop.0 / (device.peak_rate(work.precision).0.max(1.0) * p[COMPUTE]);
    p[FLOOR_US] + traffic.max(arithmetic) / used
}
