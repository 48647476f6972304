//! Attention of a few queries per sequence over many keys: a decoding step.
//!
//! Keys and values are read once; where sequences and heads are fewer than the device has room for, each is split along its keys, into
//! parts of no less than some length. A library weighs how many parts fill the device, so that neither one key nor one sequence more
//! changes that by a whole part: `s = max(1, min(slots/(B·H_kv), K/part))` is no whole number.
//! `t = floor + waves(B·H_kv·s) · (K/s + prologue) · slots · max(bytes of a key / BW, 4·rows·D / peak) + s · q / BW`, the rows being
//! the queries of a group of heads.

use crate::device::DeviceProfile;

use super::{BANDWIDTH, COMPUTE, Parameter, START_US, parameter, waves};
use crate::cost::operators::kv_heads;
use crate::cost::work::{Shape, Work};

const KEYS_OF_SPLIT: usize = 3;
const KEY_PROLOGUE: usize = 4;
const SLACK: usize = 5;
const QUERY_COST: usize = 6;
const BLOCKS_PER_SM: usize = 7;
const CACHE_RATE: usize = 8;
/// Splits whose results are combined at a cost; more are combined while others run.
const COMBINED: f64 = 8.0;

pub(super) const PARAMETERS: [Parameter; 9] = [
    // Attention in blocks of queries, on the same units, reaches more than half on every GPU that was measured; a kernel that seems to
    // reach less waits for its keys.
    parameter("compute share of peak", 0.6, 0.5, 1.2),
    parameter("bandwidth share of peak", 0.85, 0.02, 1.0),
    parameter("floor µs", 6.0, 0.3, 150.0),
    parameter("least keys of a split", 256.0, 8.0, 4096.0),
    parameter("prologue keys", 80.0, 0.1, 2000.0),
    parameter("wave slack", 0.4, 0.001, 1.0),
    parameter("cost of queries and results, in times that they cross memory", 1.5, 0.01, 20.0),
    parameter("blocks that run on a multiprocessor at once", 0.6, 0.2, 8.0),
    parameter("share of the cache's rate", 0.4, 0.05, 1.5),
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
    let memory = peak * p[BANDWIDTH];
    let cache = (1e-6 * device.l2_bandwidth.0 * p[CACHE_RATE]).max(memory);
    let rate_of_keys = 1.0 / ((1.0 - share) / memory + share / cache);
    let slots = (sms * p[BLOCKS_PER_SM]).max(1.0);
    let splits = (slots / blocks.max(1.0)).min(keys / p[KEYS_OF_SPLIT]).max(1.0);
    let key_bytes = cached / (blocks * keys).max(1.0);
    let rows = heads as f64 * queries as f64 / kv_heads(work);
    let rate = 1e-6 * device.product_rate(work.precision).0.max(1.0) * p[COMPUTE];
    let key_us = (key_bytes / rate_of_keys).max(4.0 * rows * dim as f64 / rate);
    let block_us = (keys / splits + p[KEY_PROLOGUE]) * key_us * slots;
    let combined = p[QUERY_COST] * splits.min(COMBINED) * 2.0 * queries_bytes / peak;
    // Rounding must not make a second wave of parts that fill the device.
    let parts = if splits > 1.0 { (blocks * splits).min(slots) } else { blocks };
    p[START_US] + waves(parts, slots, p[SLACK]) * block_us + combined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{AttentionSize, attention_work};
    use crate::device::Catalog;
    use crate::graph::DType;

    #[test]
    fn parts_of_keys_are_no_whole_number() {
        let catalog = Catalog::builtin().unwrap();
        let p = PARAMETERS.map(|parameter| parameter.default);
        for device in ["H100-SXM", "L40S", "MI300X", "T4"].map(|id| catalog.find(id).unwrap()) {
            let us = |batch, keys| {
                let size = AttentionSize { batch, heads: 32, kv_heads: 8, queries: 1, keys, dim: 128, causal: true };
                time_us(&attention_work(&size, false, DType::Bf16), device, &p)
            };
            for step in 1..600 {
                assert!(us(2, step + 1) >= us(2, step), "{step} keys on {}", device.id);
                assert!(us(step + 1, 700) >= us(step, 700), "{step} sequences on {}", device.id);
            }
        }
    }

    #[test]
    fn keys_come_from_memory_however_few_queries_share_them() {
        let catalog = Catalog::builtin().unwrap();
        let p = PARAMETERS.map(|parameter| parameter.default);
        let us = |id: &str| {
            let size =
                AttentionSize { batch: 64, heads: 32, kv_heads: 8, queries: 1, keys: 8192, dim: 128, causal: true };
            let device = catalog.find(id).unwrap();
            time_us(&attention_work(&size, false, DType::Bf16), device, &p) - p[START_US]
        };
        assert!((us("H200") / us("H100-SXM") * 4800.0 / 3352.0 - 1.0).abs() < 0.01);
    }
}
