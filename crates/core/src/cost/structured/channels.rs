//! Batch norm by the framework's own kernels: a block of threads to a channel, whose threads go over the images' rows of it one
//! element after another.
//!
//! `t = start + max(trips · max(wait, issue · channels/SMs) / clock, bytes / bandwidth)` of the statistics or of the gradient, which reads
//! twice what the cache does not keep; applying them is a stream of bytes in blocks of an image's channel.

use crate::cost::work::{Shape, Work};
use crate::device::DeviceProfile;

use super::access::PICKED;
use super::reduction::TRIP;

/// Threads of a block.
const THREADS: u64 = 512;
/// Threads of a block along the elements of an image's channel: the fewest of these that hold them.
const ALONG: [u64; 5] = [32, 64, 128, 256, 512];

/// Clocks in which a thread has an element of the statistics, of the gradient: one trip to memory; the trips of two passes and their sums
/// [kernels of ResNet-50 in bf16 on H100, batch 32: 430 and 1 080].
const WAIT: (f64, f64) = (TRIP, 2.5 * TRIP);
/// Clocks of a multiprocessor for the instructions of a block's trip [the same kernels: 270 and 590].
const ISSUE: (f64, f64) = (270.0, 590.0);
/// What of a trip memory adds where the second-level cache does not keep the tensors [the same kernels: 0.5 to 0.8].
const FROM_MEMORY: f64 = 0.6;
/// Share of the second-level cache that keeps them.
const KEPT: f64 = 0.5;

/// Time in µs; `None` of other work.
pub(crate) fn channels_us(work: &Work, device: &DeviceProfile) -> Option<f64> {
    let &Shape::Channels { images, channels, area } = &work.shape else { return None };
    let (read, written) = (work.read.0 as f64, work.written.0 as f64);
    let is_gradient = read > 1.5 * written && written * 4.0 > read;
    let (wait, issue) = if is_gradient { (WAIT.1, ISSUE.1) } else { (WAIT.0, ISSUE.0) };
    let kept = KEPT * device.l2.0 as f64 / read.max(1.0);
    let missed = 1.0 / (1.0 + kept.powi(6));
    let wait = wait * (1.0 + FROM_MEMORY * missed);
    let blocks = channels as f64 / f64::from(device.sm_count.max(1));
    let gone_over = trips(images, area) as f64 * wait.max(issue * blocks) / device.clock_mhz.max(1.0);
    let bytes = if is_gradient { read * (1.0 + missed) + written } else { read };
    let streamed = 1e6 * bytes / device.dram_bandwidth.0.max(1.0);
    // Statistics alone write two numbers a channel.
    let applied = if is_gradient || written * 4.0 < read { 0.0 } else { applied_us(work, device) };
    Some(device.kernel_start.secs() * 1e6 + gone_over.max(streamed) + applied)
}

/// Applying the statistics of `work`, a kernel of its own.
fn applied_us(work: &Work, device: &DeviceProfile) -> f64 {
    let &Shape::Channels { images, channels, .. } = &work.shape else { return 0.0 };
    let per_us = PICKED * f64::from(device.sm_count.max(1)) * device.clock_mhz.max(1.0);
    let streamed = 1e6 * work.bytes().0 as f64 / device.dram_bandwidth.0.max(1.0);
    device.kernel_start.secs() * 1e6 + streamed.max(images as f64 * channels as f64 / per_us)
}

/// Elements that a thread goes over one after another: its columns of `area` of its share of the `images`.
fn trips(images: u64, area: u64) -> u64 {
    let along = ALONG.into_iter().find(|&threads| area <= threads).unwrap_or(THREADS);
    let most = 1 << images.max(1).ilog2();
    images.div_ceil((THREADS / along).min(most)).saturating_mul(area.div_ceil(along))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::work::Family;
    use crate::device::{Catalog, Precision};
    use crate::units::{Bytes, Flop};

    /// `[32, channels, side, side]` in 16 bits, `read` tensors read and one written where it `writes`.
    fn norm(channels: u64, side: u64, read: u64, writes: bool) -> Work {
        let tensor = 32 * channels * side * side * 2;
        Work {
            family: Family::Norm,
            flop: Flop(tensor as f64),
            read: Bytes(read * tensor),
            written: Bytes(if writes { tensor } else { channels * 8 }),
            precision: Precision::Fp32,
            shape: Shape::Channels { images: 32, channels, area: side * side },
        }
    }

    #[test]
    fn kernels_of_an_h200_take_what_the_model_says() {
        // ResNet-50 in bf16 at batch 32 on H200, of which nothing was fitted, in µs.
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("H200").unwrap();
        for (work, measured) in [(norm(64, 56, 2, true), 152.0), (norm(1024, 14, 2, true), 42.0)] {
            let us = channels_us(&work, device).unwrap();
            assert!((us / measured - 1.0).abs() < 0.25, "{us} {measured}");
        }
    }

    #[test]
    fn few_channels_take_as_long_as_one() {
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("A100-40").unwrap();
        let time = |channels| channels_us(&norm(channels, 28, 1, false), device).unwrap();
        assert!((time(16) / time(64) - 1.0).abs() < 0.01);
        assert!(time(1024) > 4.0 * time(64));
    }
}
