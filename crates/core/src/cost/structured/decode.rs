//! Attention of a few queries per sequence over many keys: a decoding step.
//!
//! Keys and values are read once; where sequences and heads are fewer than the device has room for, each is split along its keys.
//! `t = floor + waves(B·H_kv·s) · (K/s + prologue) · slots · max(bytes of a key / BW, 4·rows·D / peak) + s · q / BW`: a tile has as
//! many rows as tensor cores take, however few queries there are.

use crate::device::DeviceProfile;

use super::{BANDWIDTH, COMPUTE, Parameter, START_US, parameter, waves};
use crate::cost::operators::kv_heads;
use crate::cost::work::{Shape, Work};

const KEYS_OF_SPLIT: usize = 3;
const KEY_PROLOGUE: usize = 4;
const SLACK: usize = 5;
const QUERY_COST: usize = 6;
const BLOCKS_PER_SM: usize = 7;
pub(super) const CACHE_RATE: usize = 8;
const TILE_ROWS: usize = 9;
/// Splits whose results are combined at a cost; more are combined while others run.
const COMBINED: f64 = 8.0;

pub(super) const PARAMETERS: [Parameter; 10] = [
    parameter("compute share of peak", 0.5, 0.03, 1.2),
    parameter("bandwidth share of peak", 0.85, 0.02, 1.5),
    parameter("floor µs", 6.0, 0.3, 150.0),
    parameter("least keys of a split", 256.0, 8.0, 4096.0),
    parameter("prologue keys", 80.0, 0.1, 2000.0),
    parameter("wave slack", 0.4, 0.001, 1.0),
    parameter("cost of queries and results, in times that they cross memory", 1.5, 0.01, 20.0),
    parameter("blocks that run on a multiprocessor at once", 0.6, 0.2, 8.0),
    parameter("rate from the cache over that from memory", 1.5, 1.0, 8.0),
    parameter("rows of a tile, which the queries of a group of heads fill in part", 64.0, 8.0, 128.0),
];

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let &Shape::Attention { batch, heads, queries, keys, dim, .. } = &work.shape else {
        return p[START_US];
    };
    let blocks = batch as f64 * kv_heads(work);
    let (keys, sms) = (keys as f64, f64::from(device.sm_count.max(1)));
    let peak = 1e-6 * device.dram_bandwidth.0.max(1.0);
    let queries_bytes = work.written.0 as f64;
    let cached = work.read.0 as f64 - queries_bytes;
    // What the cache still holds of keys and values when they are read again; nothing of twice its size.
    let share = (2.0 - cached / (device.l2.0 as f64).max(1.0)).clamp(0.0, 1.0);
    let dram = peak * p[BANDWIDTH] / (1.0 - share + share / p[CACHE_RATE]);
    let slots = (sms * p[BLOCKS_PER_SM]).max(1.0);
    let splits = (slots / blocks.max(1.0)).floor().min((keys / p[KEYS_OF_SPLIT]).floor()).max(1.0);
    let key_bytes = cached / (blocks * keys).max(1.0);
    let rows = (heads as f64 * queries as f64 / kv_heads(work)).max(p[TILE_ROWS]);
    let rate = 1e-6 * device.product_rate(work.precision).0.max(1.0) * p[COMPUTE];
    let key_us = (key_bytes / dram).max(4.0 * rows * dim as f64 / rate);
    let block_us = (keys / splits + p[KEY_PROLOGUE]) * key_us * slots;
    let combined = p[QUERY_COST] * splits.min(COMBINED) * 2.0 * queries_bytes / peak;
    p[START_US] + waves(blocks * splits, slots, p[SLACK]) * block_us + combined
}
