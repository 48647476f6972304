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
    /// 64-bit, matrix units; asked for products only.
    Fp64Matrix,
    /// 32-bit, vector units.
    Fp32,
    /// 32-bit, matrix units that round nothing; asked for products only ([`DeviceProfile::product_rate`]).
    Fp32Matrix,
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

impl Precision {
    /// All of them, in the order of the enum.
    pub const ALL: [Self; 10] = [
        Self::Fp64,
        Self::Fp64Matrix,
        Self::Fp32,
        Self::Fp32Matrix,
        Self::Tf32,
        Self::Fp16,
        Self::Fp16Tensor,
        Self::Bf16Tensor,
        Self::Fp8Tensor,
        Self::Int8Tensor,
    ];

    /// Its key in device files.
    pub fn key(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp64Matrix => "fp64_matrix",
            Self::Fp32 => "fp32",
            Self::Fp32Matrix => "fp32_matrix",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Fp16Tensor => "fp16_tensor",
            Self::Bf16Tensor => "bf16_tensor",
            Self::Fp8Tensor => "fp8_tensor",
            Self::Int8Tensor => "int8_tensor",
        }
    }

    /// The element type, as frameworks call it.
    pub fn type_name(self) -> &'static str {
        let key = self.key();
        key.split_once('_').map_or(key, |(name, _)| name)
    }

    /// Whether it runs on tensor (matrix) units.
    pub fn is_tensor(self) -> bool {
        matches!(
            self,
            Self::Fp64Matrix
                | Self::Fp32Matrix
                | Self::Tf32
                | Self::Fp16Tensor
                | Self::Bf16Tensor
                | Self::Fp8Tensor
                | Self::Int8Tensor
        )
    }

    /// What a device without units for this precision computes it with instead: the next in the chain
    /// of widening types, and at last plain fp32.
    fn fallback(self) -> Option<Self> {
        match self {
            Self::Fp8Tensor | Self::Int8Tensor => Some(Self::Fp16Tensor),
            Self::Fp16Tensor => Some(Self::Fp16),
            Self::Tf32 => Some(Self::Fp32Matrix),
            Self::Fp64Matrix => Some(Self::Fp64),
            Self::Bf16Tensor | Self::Fp64 | Self::Fp16 | Self::Fp32Matrix => Some(Self::Fp32),
            Self::Fp32 => None,
        }
    }
}

/// Bandwidth against transfer size in three regions: `t = t_start` up to `m1` bytes, `t = m / BW(m)` up to `m2`,
/// `t = t_start + m / bw_max` beyond, with `log10 BW(m) [GB/s] = height/(1 + e^(−steepness·(log2 m − midpoint))) + base`.
///
/// Source: Lin 2024 §IV-A, and the same authors' code for DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl BandwidthCurve {
    /// Time to move `bytes`, in µs: the three regions joined so that it is continuous and never falls as
    /// `bytes` grows. `bytes` below zero count as zero.
    pub fn time_us(&self, bytes: f64) -> f64 {
        self.transfer_us(bytes, 1.0)
    }

    /// Time of a transfer of `bytes` that puts `factor · bytes` on the bus, in µs (a collective; see
    /// [`time_us`](Self::time_us) for the rest).
    pub fn transfer_us(&self, bytes: f64, factor: f64) -> f64 {
        if bytes <= self.m1_bytes {
            return self.start_us;
        }
        let size = bytes.min(self.m2_bytes);
        let crest = self.crest_bytes().clamp(self.m1_bytes, size);
        let middle = factor * self.middle_us(size).max(self.middle_us(crest));
        self.start_us.max(middle) + factor * (bytes - size) / (self.max_gb_s * 1e3)
    }

    /// The three regions exactly as published, with their jumps (to reproduce the papers, not to predict);
    /// `factor · bytes` go over the bus.
    pub fn published_us(&self, bytes: f64, factor: f64) -> f64 {
        if bytes <= self.m1_bytes {
            self.start_us
        } else if bytes < self.m2_bytes {
            factor * self.middle_us(bytes)
        } else {
            self.start_us + factor * bytes / (self.max_gb_s * 1e3)
        }
    }

    fn middle_us(&self, bytes: f64) -> f64 {
        bytes / (self.bandwidth_gb_s(bytes) * 1e3)
    }

    /// Size from which the bandwidth grows faster than the size, so that `m / BW(m)` falls:
    /// where the slope `L·k·s(1−s)` of the sigmoid reaches `log10 2`; infinite when it never does.
    fn crest_bytes(&self) -> f64 {
        let slope = 2f64.log10() / (self.height * self.steepness);
        if !(0.0..0.25).contains(&slope) {
            return f64::INFINITY;
        }
        let s = f64::midpoint(1.0, -(1.0 - 4.0 * slope).sqrt());
        (self.midpoint + (s / (1.0 - s)).ln() / self.steepness).exp2()
    }

    /// `BW(m)` of the middle region in GB/s.
    pub fn bandwidth_gb_s(&self, bytes: f64) -> f64 {
        let x = bytes.max(1.0).log2();
        let sigmoid = self.height / (1.0 + (-self.steepness * (x - self.midpoint)).exp()) + self.base;
        10f64.powf(sigmoid).min(self.max_gb_s)
    }

    /// The curve of a memory `ratio` times as fast: large transfers scale, the start cost stays.
    #[must_use]
    pub fn scaled(&self, ratio: f64) -> Self {
        Self { max_gb_s: self.max_gb_s * ratio, height: self.height + ratio.log10(), ..*self }
    }
}

/// What blocks of threads share on one streaming multiprocessor or compute unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmLimits {
    /// Threads resident at once.
    pub threads: u32,
    /// Blocks resident at once.
    pub blocks: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Shared memory.
    pub shared: Bytes,
}

/// All figures of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProfile {
    /// Short name used in commands and files, e.g. `H100-SXM`.
    pub id: String,
    /// Devices it inherits figures from, the nearest first.
    pub lineage: Vec<String>,
    /// How far its figures lie from those of each of these, by id, see [`Self::apart`].
    pub(crate) distances: BTreeMap<String, f64>,
    /// Whether AMD makes it: its libraries are others than NVIDIA's.
    pub is_amd: bool,
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
    /// Share of the matrix units' peak that large 16-bit products reach, where somebody measured it.
    pub product_share: Option<f64>,
    /// What its multiprocessors hold, where known.
    pub sm_limits: Option<SmLimits>,
    /// Power of the board over what vector units at peak would need: W per nm of the process and TFLOP/s of fp32, where known.
    /// Arithmetic per joule grows about as the process shrinks, so cards of little power compute far below their peak.
    pub power_per_peak: Option<f64>,
    /// Where each figure is from: key → source.
    pub sources: BTreeMap<String, String>,
}

/// A process that is told of as large a share of a device's multiprocessors and memory has all of it: drivers keep some memory, and
/// boards have some multiprocessors off.
const WHOLE: f64 = 0.8;

/// The key of a device that nobody knows.
const UNKNOWN: &str = "unknown device";

/// Ends the key of a device whose figures edits multiplied.
pub const HYPOTHETICAL: &str = " hypothetical";

impl DeviceProfile {
    /// Whether it has at least as much as `other` of all that kernels run on that compute at `precision`, both being GPUs of one maker;
    /// they may start later on it.
    pub fn is_worse_in_nothing(&self, other: &Self, precision: Precision) -> bool {
        let gpus = [self, other].iter().all(|device| device.kind == DeviceKind::Gpu);
        gpus && self.is_amd == other.is_amd
            && [precision, Precision::Fp32].iter().all(|&it| self.peak_rate(it).0 >= other.peak_rate(it).0)
            && self.dram_bandwidth.0 >= other.dram_bandwidth.0
            && self.bandwidth().0 >= other.bandwidth().0
            && self.sm_count >= other.sm_count
            && self.l2 >= other.l2
            && self.l2_bandwidth.0 >= other.l2_bandwidth.0
    }

    /// Peak rate at `precision`: its own, or that of the type the device computes it with instead
    /// (fp8 → fp16 tensor → fp16 → fp32; bf16, tf32 and an unstated fp64 → fp32).
    pub fn peak_rate(&self, precision: Precision) -> FlopPerSec {
        let unit = self.unit(precision);
        unit.and_then(|unit| self.peak.get(&unit).copied()).unwrap_or(FlopPerSec(0.0))
    }

    /// The precision whose units compute at `precision`: its own, or those that take its place; `None` where none do.
    pub fn unit(&self, precision: Precision) -> Option<Precision> {
        std::iter::successors(Some(precision), |asked| asked.fallback()).find(|asked| self.peak.contains_key(asked))
    }

    /// `precision` as it is named on this device: fp32 for products has a name of its own only where it has units of its own.
    pub fn units_named(&self, precision: Precision) -> Precision {
        let has_none = precision == Precision::Fp32Matrix && !self.peak.contains_key(&precision);
        if has_none { Precision::Fp32 } else { precision }
    }

    /// Peak rate of matrix products at `precision`: AMD's matrix cores compute fp32 as such, so there products are faster
    /// than other arithmetic of that type.
    pub fn product_rate(&self, precision: Precision) -> FlopPerSec {
        self.peak_rate(if precision == Precision::Fp32 { Precision::Fp32Matrix } else { precision })
    }

    /// A device that was recorded as `name` with so much memory (0 where none that can be was recorded), and of which nothing else is
    /// known: no model tells anything of it. Its figures are those of `like`, which stand for nothing.
    #[must_use]
    pub fn unknown(name: &str, memory: Bytes, like: &Self) -> Self {
        Self {
            id: UNKNOWN.to_owned(),
            name: name.to_owned(),
            lineage: Vec::new(),
            distances: BTreeMap::new(),
            recorded_as: Vec::new(),
            kind: DeviceKind::Gpu,
            memory: if memory <= Bytes::MOST { memory } else { Bytes(0) },
            sm_limits: None,
            sources: BTreeMap::new(),
            ..like.clone()
        }
    }

    /// Whether its figures are its own.
    pub fn is_known(&self) -> bool {
        self.model_id() != UNKNOWN
    }

    /// The chip it is a variant of: the last that it inherits from, or itself.
    pub fn chip(&self) -> &str {
        self.lineage.last().unwrap_or(&self.id)
    }

    /// A device called `id` with all its figures, which inherits from it; itself where that is its name.
    #[must_use]
    pub fn heir(&self, id: &str) -> Self {
        if self.id == id {
            return self.clone();
        }
        let mut heir = self.clone();
        heir.distances.insert(self.id.clone(), 0.0);
        heir.lineage.insert(0, std::mem::replace(&mut heir.id, id.to_owned()));
        heir
    }

    /// What of it a process sees that was given a part only, e.g. an instance of MIG [NVIDIA: compute is divided by multiprocessors, and
    /// cache and bandwidth as memory is].
    ///
    /// # Arguments
    /// `sm_count`, `memory`: as recorded; 0 where they were not.
    ///
    /// # Returns
    /// `None` where it is the whole device. Without fewer multiprocessors, less memory is no slower one.
    pub fn part(&self, name: &str, sm_count: u32, memory: Bytes) -> Option<Self> {
        let share = |part: f64, all: f64| if part > 0.0 { (part / all.max(1.0)).min(1.0) } else { 1.0 };
        let compute = share(f64::from(sm_count), f64::from(self.sm_count));
        let holds = share(memory.0 as f64, self.memory.0 as f64);
        if self.kind != DeviceKind::Gpu || (compute >= WHOLE && holds >= WHOLE) {
            return None;
        }
        let mut part = self.heir(&format!("{} part", self.id));
        name.clone_into(&mut part.name);
        part.recorded_as = Vec::new();
        if holds < WHOLE {
            part.memory = memory;
        }
        if compute < WHOLE {
            part.sm_count = sm_count;
            part.peak.values_mut().for_each(|rate| rate.0 *= compute);
            let moves = if holds < WHOLE { holds } else { 1.0 };
            part.scale_memory_bandwidth(moves);
            part.l2 = Bytes((part.l2.0 as f64 * moves).round() as u64);
            part.l2_bandwidth.0 *= moves;
        }
        let apart = part.distance(self);
        part.distances.values_mut().for_each(|distance| *distance += apart);
        Some(part)
    }

    /// How far its figures lie from those of the device `id`, in powers of two of the one that differs most; `None` where it is neither
    /// that device nor inherits from it.
    pub fn apart(&self, id: &str) -> Option<f64> {
        if self.id == id {
            return Some(0.0);
        }
        self.distances.get(id).copied()
    }

    /// How far the figures that kernels run by lie from those of `other`, in powers of two of the one that differs most.
    pub(super) fn distance(&self, other: &Self) -> f64 {
        let figures = |device: &Self| {
            let peaks = Precision::ALL.map(|precision| device.peak.get(&precision).map_or(0.0, |rate| rate.0));
            let rest = [
                device.bandwidth().0,
                device.dram_bandwidth.0,
                device.l2_bandwidth.0,
                device.l2.0 as f64,
                f64::from(device.sm_count),
                device.kernel_start.0 as f64,
            ];
            peaks.into_iter().chain(rest).collect::<Vec<f64>>()
        };
        let apart = |(a, b): (f64, f64)| match (a > 0.0, b > 0.0) {
            (true, true) => (a / b).log2().abs(),
            (false, false) => 0.0,
            _ => f64::INFINITY,
        };
        figures(self).into_iter().zip(figures(other)).map(apart).fold(0.0, f64::max)
    }

    /// Its key without what marks a hypothetical one.
    pub fn model_id(&self) -> &str {
        self.id.strip_suffix(HYPOTHETICAL).unwrap_or(&self.id)
    }

    /// Multiplies every memory bandwidth figure by `ratio` (a hypothetical faster or slower memory).
    pub fn scale_memory_bandwidth(&mut self, ratio: f64) {
        self.dram_bandwidth.0 *= ratio;
        self.dram_bandwidth_measured = self.dram_bandwidth_measured.map(|rate| BytesPerSec(rate.0 * ratio));
        self.dram_curve = self.dram_curve.map(|curve| curve.scaled(ratio));
    }

    /// Memory bandwidth to compute with: measured where known, else theoretical.
    pub fn bandwidth(&self) -> BytesPerSec {
        self.dram_bandwidth_measured.unwrap_or(self.dram_bandwidth)
    }
}
