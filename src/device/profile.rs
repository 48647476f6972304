//! One device's figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, BytesPerSec, DurNs, FlopPerSec};

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A GPU.
    Gpu,
    /// A CPU.
    Cpu,
    /// Anything else that computes (processing in memory, a cluster).
    Other,
}

/// How a kernel computes: the key of a device's peak rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 64-bit, vector units.
    Fp64,
    /// 32-bit, vector units.
    Fp32,
    /// 32-bit data, tensor cores in tf32.
    Tf32,
    /// 16-bit, vector units.
    Fp16,
    /// 16-bit IEEE on tensor cores.
    Fp16Tensor,
    /// bfloat16 on tensor cores.
    Bf16Tensor,
    /// 8-bit float on tensor cores.
    Fp8Tensor,
    /// 8-bit integers on tensor cores.
    Int8Tensor,
}

/// Bandwidth against transfer size in three regions: `t = t_start` up to `m1` bytes, `t = m / BW(m)` up to `m2`,
/// `t = t_start + m / bw_max` beyond, with `log10 BW(m) [GB/s] = height/(1 + e^(−steepness·(log2 m − midpoint))) + base`.
///
/// Source: Lin 2024 §IV-A, and the same authors' code for DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandwidthCurve {
    /// Time of the smallest transfer in µs.
    pub start_us: f64,
    /// Largest size in bytes that still takes `start_us`.
    pub m1_bytes: f64,
    /// Size in bytes from which the bandwidth is `max_gb_s`.
    pub m2_bytes: f64,
    /// Bandwidth of large transfers in GB/s.
    pub max_gb_s: f64,
    /// `L` of the sigmoid.
    pub height: f64,
    /// `x₀` of the sigmoid.
    pub midpoint: f64,
    /// `k` of the sigmoid.
    pub steepness: f64,
    /// `b` of the sigmoid.
    pub base: f64,
}

/// All figures of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProfile {
    /// Short name used in commands and files, e.g. `H100-SXM`.
    pub id: String,
    /// Full name.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Substrings of the names that drivers report for it, lower case.
    pub recorded_as: Vec<String>,
    /// Peak arithmetic rates by how a kernel computes.
    pub peak: BTreeMap<Precision, FlopPerSec>,
    /// Streaming multiprocessors, compute units, cores or processing elements.
    pub sm_count: u32,
    /// Boost clock in MHz.
    pub clock_mhz: f64,
    /// Last-level cache.
    pub l2: Bytes,
    /// Its bandwidth.
    pub l2_bandwidth: BytesPerSec,
    /// Device memory.
    pub memory: Bytes,
    /// Theoretical memory bandwidth.
    pub dram_bandwidth: BytesPerSec,
    /// Best measured memory bandwidth, where there is a measurement.
    pub dram_bandwidth_measured: Option<BytesPerSec>,
    /// Measured bandwidth by size, where there is a fit.
    pub dram_curve: Option<BandwidthCurve>,
    /// Host link bandwidth, one direction.
    pub host_link: BytesPerSec,
    /// Device-to-device link bandwidth per device, one direction; zero without one.
    pub peer_link: BytesPerSec,
    /// Time from the end of a launch call to the start of its kernel on an idle stream.
    pub launch_latency: DurNs,
    /// Fixed device-side cost of any kernel.
    pub kernel_start: DurNs,
    /// Where each figure is from: key → source.
    pub sources: BTreeMap<String, String>,
}

impl DeviceProfile {
    /// Memory bandwidth to compute with: measured where known, else theoretical.
    pub fn bandwidth(&self) -> BytesPerSec {
        self.dram_bandwidth_measured.unwrap_or(self.dram_bandwidth)
    }
}
