//! Fused attention in blocks of queries.
//!
//! `t = floor + max(waves · block time, bytes/BW)`: a block of queries of one head walks over all its keys, with a causal mask over those
//! before it; beside two products each score takes an exponential.

use crate::device::DeviceProfile;

use super::gemm::Rates;
use super::{BANDWIDTH, COMPUTE, Parameter, START_US, parameter, waves};
use crate::cost::work::{Shape, Work};

const KEY_PROLOGUE: usize = 3;
const SLACK: usize = 4;
const EXPONENTIALS: usize = 5;
const CAUSAL: usize = 6;
const QUERIES: usize = 7;
const BACKWARD: usize = 8;
/// Exponentials of a multiprocessor in a clock: a quarter of a warp's lanes on each of its four parts [CUDA C++ Programming Guide, throughput
/// of native instructions]; as many on a compute unit of CDNA.
const EXPONENTIALS_A_CLOCK: f64 = 16.0;
/// Elements of a head that are multiplied together.
const FRAGMENT: f64 = 32.0;

pub(super) const PARAMETERS: [Parameter; 9] = [
    parameter("compute share of peak", 0.55, 0.03, 1.2),
    parameter("bandwidth share of peak", 0.8, 0.02, 1.5),
    parameter("floor µs", 5.0, 0.3, 150.0),
    parameter("prologue keys", 128.0, 1.0, 2000.0),
    parameter("wave slack", 0.5, 0.001, 1.0),
    parameter("share of softmax that products do not hide", 0.5, 0.05, 1.5),
    parameter("cost of the diagonal under a causal mask, blocks", 1.0, 0.01, 4.0),
    parameter("queries of a block", 128.0, 16.0, 512.0),
    parameter("rate of the gradient over forward", 0.75, 0.2, 1.2),
];

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let &Shape::Attention { batch, heads, queries, keys, dim, causal, backward } = &work.shape else {
        return p[START_US];
    };
    let rates = Rates::of(work, device, p[COMPUTE], p[BANDWIDTH]);
    let [batch, heads, queries, keys, dim] = [batch, heads, queries, keys, dim].map(|size| size as f64);
    let block = p[QUERIES];
    let blocks = batch * heads * (queries / block).ceil();
    let mean_keys =
        if causal && queries <= keys { keys - queries / 2.0 + p[CAUSAL] * block.min(queries) / 2.0 } else { keys };
    // Heads are padded to whole fragments of the tensor cores' tiles.
    let dim = FRAGMENT * (dim / FRAGMENT).ceil();
    let (products, pass) = if backward { (10.0, p[BACKWARD]) } else { (4.0, 1.0) };
    let scores = block * (mean_keys + p[KEY_PROLOGUE]);
    let softmax_us = p[EXPONENTIALS] * scores / (EXPONENTIALS_A_CLOCK * device.clock_mhz.max(1.0));
    let block_us = (products * scores * dim / rates.per_sm + softmax_us) / pass;
    let traffic = work.bytes().0 as f64 / rates.dram;
    p[START_US] + (waves(blocks, rates.sms, p[SLACK]) * block_us).max(traffic)
}
