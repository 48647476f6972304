//! Kernels bound by streaming memory.
//!
//! `t = floor + max(bytes_DRAM/BW + bytes_L2/(l2·BW), FLOP/(share·peak))`, where the share of the traffic that fits the last-level cache
//! comes from there.

use crate::device::DeviceProfile;

use super::{BANDWIDTH, COMPUTE, Parameter, START_US, parameter};
use crate::cost::work::Work;

pub(super) const L2: usize = 3;
pub(super) const RESIDENT: usize = 4;

pub(super) const PARAMETERS: [Parameter; 5] = [
    parameter("compute share of peak", 0.5, 0.01, 4.0),
    parameter("bandwidth share of peak", 0.87, 0.1, 1.5),
    parameter("floor µs", 2.0, 0.3, 150.0),
    parameter("L2 over DRAM bandwidth", 2.0, 1.0, 12.0),
    parameter("share of L2 that stays resident", 0.5, 0.02, 2.0),
];

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let traffic = traffic_us(work.bytes().0 as f64, device, p);
    p[START_US] + traffic.max(arithmetic_us(work, device, p))
}

/// Time of `bytes` that cache and memory share.
pub(super) fn traffic_us(bytes: f64, device: &DeviceProfile, p: &[f64]) -> f64 {
    let dram = 1e-6 * device.dram_bandwidth.0.max(1.0) * p[BANDWIDTH];
    let resident = (device.l2.0 as f64 * p[RESIDENT]).min(bytes);
    // Once the data is larger than the cache, streaming evicts it before it is used again.
    let hit = if bytes > 0.0 { (resident / bytes).powi(2) } else { 0.0 };
    bytes * (1.0 - hit) / dram + bytes * hit / (dram * p[L2])
}

pub(super) fn arithmetic_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    1e6 * work.flop.0 / (device.peak_rate(work.precision).0.max(1.0) * p[COMPUTE])
}
