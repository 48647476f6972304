//! Sizes of a piece of work as numbers that trees can ask about, by domain.

use crate::device::DeviceProfile;

use super::domain::Domain;
use super::work::{Shape, Work};

/// How many of a domain's features are plain sizes: the range of a fit is theirs.
pub fn size_count(domain: Domain) -> usize {
    match domain {
        Domain::Linear | Domain::BatchedGemm | Domain::Gemm16 | Domain::Gemm8 => 4,
        Domain::Norm | Domain::Softmax => 2,
        Domain::Streaming => 1,
        Domain::Conv | Domain::Attention => 5,
    }
}

fn log(value: f64) -> f32 {
    value.max(1e-3).log2() as f32
}

/// Features of `work`; the sizes first. `structured_us` is what the structured model says.
pub fn features(domain: Domain, work: &Work, device: &DeviceProfile, structured_us: f64) -> Vec<f32> {
    let mut list = Vec::with_capacity(24);
    let sms = f64::from(device.sm_count.max(1));
    match (&work.shape, domain) {
        (&Shape::Gemm { batch, m, n, k }, _) => gemm(&mut list, [batch, m, n, k], sms),
        (&Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups }, _) => {
            let area = out_h * out_w;
            list.extend([batch, channels_in, channels_out, area, r * s].map(|dim| log(dim as f64)));
            list.extend([stride, groups].map(|dim| log(dim as f64)));
            products(
                &mut list,
                [groups, batch * area, channels_out / groups.max(1), channels_in * r * s / groups.max(1)],
                sms,
            );
            list.extend([(out_h % 4) as f32, (out_w % 4) as f32]);
            let tiles = (batch * out_h.div_ceil(4) * out_w.div_ceil(4)) as f64;
            list.push(log(tiles));
        }
        (&Shape::Attention { batch, heads, queries, keys, dim, causal, backward }, _) => {
            list.extend([batch, heads, queries, keys, dim].map(|size| log(size as f64)));
            list.extend([f32::from(u8::from(causal)), f32::from(u8::from(backward))]);
            let blocks = (batch * heads * queries.div_ceil(128)) as f64 / sms;
            list.extend([log(blocks), (blocks.ceil() / blocks.max(1e-9)).min(4.0) as f32]);
            list.push(log((batch * queries) as f64));
            list.push(log((batch * keys) as f64));
        }
        (&Shape::Rows { rows, width }, Domain::Norm | Domain::Softmax) => {
            list.extend([log(rows as f64), log(width as f64)]);
            list.extend([width.trailing_zeros().min(8) as f32, (width % 4) as f32, log(rows as f64 / sms)]);
        }
        _ => list.push(log(work.bytes().0 as f64)),
    }
    list.extend([log(work.bytes().0 as f64), log(work.flop.0), log(work.intensity())]);
    list.push(log(work.read.0 as f64 / (work.written.0 as f64).max(1.0)));
    list.push(log(structured_us));
    list
}

fn gemm(list: &mut Vec<f32>, sizes: [u64; 4], sms: f64) {
    list.extend(sizes.map(|size| log(size as f64)));
    products(list, sizes, sms);
}

/// How a product's sizes fall on tiles, waves and vector widths.
fn products(list: &mut Vec<f32>, [batch, m, n, k]: [u64; 4], sms: f64) {
    for (tm, tn) in [(128, 128), (64, 64), (256, 128)] {
        let tiles = (m.div_ceil(tm) * n.div_ceil(tn) * batch) as f64 / sms;
        list.push((tiles.ceil() / tiles.max(1e-9)).min(8.0) as f32);
    }
    let waste = |size: u64, tile: u64| (size.div_ceil(tile) * tile) as f32 / size.max(1) as f32;
    list.extend([waste(m, 128).min(16.0), waste(n, 128).min(16.0)]);
    list.push(log((m.div_ceil(128) * n.div_ceil(128) * batch) as f64 / sms));
    list.extend([n, k].map(|size| size.trailing_zeros().min(8) as f32));
    list.extend([log(m as f64 / n.max(1) as f64), log((m.min(n)) as f64), log((m * n) as f64)]);
}
