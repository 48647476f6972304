//! Sizes of a piece of work as numbers that trees can ask about, by domain.

use crate::device::DeviceProfile;

use super::domain::Domain;
use super::operators::kv_heads;
use super::work::{Shape, Work};

fn log(value: f64) -> f32 {
    value.max(1e-3).log2() as f32
}

/// Logarithms of the plain sizes of `work`: what the range of a fit is stated in.
pub fn sizes(domain: Domain, work: &Work) -> Vec<f32> {
    let logs = |sizes: &[u64]| sizes.iter().map(|&size| log(size as f64)).collect();
    match (&work.shape, domain) {
        (&Shape::Gemm { batch, m, n, k }, _) => logs(&[batch, m, n, k]),
        (&Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, .. }, _) => {
            logs(&[batch, channels_in, channels_out, out_h * out_w, r * s])
        }
        (&Shape::Attention { batch, heads, keys, dim, .. }, Domain::Decode) => {
            [batch as f64, heads as f64, kv_heads(work), keys as f64, dim as f64].map(log).to_vec()
        }
        (&Shape::Attention { batch, heads, queries, keys, dim, .. }, _) => logs(&[batch, heads, queries, keys, dim]),
        (&Shape::Rows { rows, width }, Domain::Norm | Domain::Softmax) => logs(&[rows, width]),
        _ => vec![log(work.bytes().0 as f64)],
    }
}

/// The powers of two beside `size`, no further than the `range` of logarithms measured, each with its share by how near it is.
pub(super) fn doubled_beside(size: u64, range: (f32, f32)) -> [(u64, f64); 2] {
    let [least, most] = [range.0, range.1].map(|log| f64::from(log).exp2().round() as u64);
    let within = |size: u64| size.clamp(least.min(most).max(1), most.max(1));
    let size = within(size);
    let below = 1 << size.ilog2();
    let (below, above) = (within(below), within(if below < size { 2 * below } else { size }));
    let logs = [below, size, above].map(|size| (size as f64).log2());
    let share = if above > below { (logs[1] - logs[0]) / (logs[2] - logs[0]) } else { 0.0 };
    [(below, 1.0 - share), (above, share)]
}

/// Room for the features of any domain.
const MOST: usize = 48;

/// Features of `work`; the sizes first. `structured_us` is what the structured model says.
pub fn features(domain: Domain, work: &Work, device: &DeviceProfile, structured_us: f64) -> Vec<f32> {
    let mut list = Vec::with_capacity(MOST);
    list.extend(sizes(domain, work));
    let sms = f64::from(device.sm_count.max(1));
    match (&work.shape, domain) {
        (&Shape::Gemm { batch, m, n, k }, _) => products(&mut list, [batch, m, n, k], sms),
        (&Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, .. }, _) => {
            let area = out_h * out_w;
            list.extend([stride, groups].map(|dim| log(dim as f64)));
            list.extend([f32::from(u8::from(work.precision.is_tensor())), log(work.written.0 as f64)]);
            products(
                &mut list,
                [groups, batch * area, channels_out / groups.max(1), channels_in * r * s / groups.max(1)],
                sms,
            );
            list.extend([(out_h % 4) as f32, (out_w % 4) as f32, (channels_in % 32) as f32, log(out_h as f64)]);
            let tiles = (batch * out_h.div_ceil(4) * out_w.div_ceil(4)) as f64;
            list.extend([
                log(tiles),
                log((channels_in * channels_out) as f64),
                log((batch * area * channels_in) as f64),
            ]);
        }
        (&Shape::Attention { batch, heads, queries, keys, .. }, Domain::Decode) => {
            let blocks = batch as f64 * kv_heads(work) / sms;
            list.extend([log(blocks), (blocks.ceil() / blocks.max(1e-9)).min(4.0) as f32]);
            list.extend([log((heads * queries) as f64 / kv_heads(work)), log(batch as f64 * keys as f64)]);
        }
        (&Shape::Attention { batch, heads, queries, keys, causal, backward, .. }, _) => {
            list.extend([f32::from(u8::from(causal)), f32::from(u8::from(backward))]);
            let blocks = (batch * heads * queries.div_ceil(128)) as f64 / sms;
            list.extend([log(blocks), (blocks.ceil() / blocks.max(1e-9)).min(4.0) as f32]);
            list.push(log((batch * queries) as f64));
            list.push(log((batch * keys) as f64));
        }
        (&Shape::Rows { rows, width }, Domain::Norm | Domain::Softmax) => {
            list.extend([width.trailing_zeros().min(8) as f32, (width % 4) as f32, log(rows as f64 / sms)]);
            // A block of threads per row leaves lanes idle at the end of each pass over it.
            list.extend([32, 128, 1024].map(|lanes| waste(width, lanes)));
            list.push((rows as f64 / sms).fract() as f32);
            // Warps that keep a row in registers are compiled for powers of two.
            list.push((width.next_power_of_two() as f64 / width.max(1) as f64) as f32);
            list.push(log((rows * width.next_power_of_two()) as f64));
        }
        _ => {}
    }
    list.extend([log(work.bytes().0 as f64), log(work.flop.0), log(work.intensity())]);
    list.push(log(work.read.0 as f64 / (work.written.0 as f64).max(1.0)));
    list.push(log(structured_us));
    list
}

/// Size of what is computed over what is asked, in tiles of `tile`.
fn waste(size: u64, tile: u64) -> f32 {
    ((size.div_ceil(tile) * tile) as f32 / size.max(1) as f32).min(16.0)
}

/// How a product's sizes fall on tiles, waves and vector widths.
fn products(list: &mut Vec<f32>, [batch, m, n, k]: [u64; 4], sms: f64) {
    for (tm, tn) in [(256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (32, 64)] {
        let tiles = (m.div_ceil(tm) * n.div_ceil(tn) * batch) as f64 / sms;
        list.push((tiles.ceil() / tiles.max(1e-9)).min(8.0) as f32);
    }
    list.extend([32, 128, 256].map(|tile| waste(m, tile)));
    list.extend([32, 128, 256].map(|tile| waste(n, tile)));
    list.push(waste(k, 32));
    list.push(log((m.div_ceil(128) * n.div_ceil(128) * batch) as f64 / sms));
    list.push(log((m.div_ceil(64) * n.div_ceil(64) * batch) as f64 / sms));
    list.extend([m, n, k].map(|size| size.trailing_zeros().min(8) as f32));
    list.extend([log(m as f64 / n.max(1) as f64), log(m.min(n) as f64), log((m * n) as f64), log((n * k) as f64)]);
    list.extend([log((m * k) as f64), log(k as f64 * k as f64 / (m * n).max(1) as f64)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_between_two_rows_of_a_table_has_a_share_of_each() {
        let table = (0.0, 14.0);
        assert_eq!(doubled_beside(512, table), [(512, 1.0), (512, 0.0)]);
        let [(below, most), (above, rest)] = doubled_beside(600, table);
        assert_eq!((below, above), (512, 1024));
        assert!((most + rest - 1.0).abs() < 1e-12 && most > rest);
        assert_eq!(
            doubled_beside(1 << 20, table),
            [(1 << 14, 1.0), (1 << 14, 0.0)],
            "what lies beyond is told by the last"
        );
    }
}
