//! What nobody measured of a device, how it is come by instead, and how far off that is on the devices where it was measured.

use std::collections::BTreeSet;

use super::catalog::Catalog;
use super::profile::{DeviceKind, DeviceProfile, Precision};

/// Share of theoretical memory bandwidth that is taken where nobody measured it: the mean of the devices of the catalog that
/// were measured. The mean of the nearest generation errs more, 11 against 8 %, with each device left out in turn.
pub const UNMEASURED_BANDWIDTH: f64 = 0.82;

/// A figure that stands on something else than a measurement or the vendor's word for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// Its key in device files.
    pub figure: String,
    /// What is taken instead.
    pub instead: String,
    /// How far off that is, where it can be told.
    pub error: Option<LeftOut>,
}

/// Mean absolute relative error on measured devices, each from the mean of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut {
    /// The error.
    pub error: f64,
    /// Devices.
    pub n: usize,
}

impl LeftOut {
    /// Of `values`, one of each device; `None` of fewer than two.
    fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let sum: f64 = values.iter().sum();
        let miss = |value: &f64| ((sum - value) / (n as f64 - 1.0) / value - 1.0).abs();
        (n > 1).then(|| Self { error: values.iter().map(miss).sum::<f64>() / n as f64, n })
    }
}

impl Catalog {
    /// GPUs with figures of their own whose figure `key` somebody measured.
    fn measured(&self, key: &str) -> impl Iterator<Item = &DeviceProfile> {
        let is_own = |device: &&DeviceProfile| device.kind == DeviceKind::Gpu && device.lineage.is_empty();
        let is_measured = move |device: &&DeviceProfile| {
            device.sources.get(key).is_some_and(|source| !is_derived(source) && !is_general(source))
        };
        self.iter().map(AsRef::as_ref).filter(is_own).filter(is_measured)
    }

    fn left_out(&self, key: &str, of: impl Fn(&DeviceProfile) -> Option<f64>) -> Option<LeftOut> {
        LeftOut::of(&self.measured(key).filter_map(of).collect::<Vec<_>>())
    }

    /// What of `device` was not measured, in the order of importance.
    pub fn derived(&self, device: &DeviceProfile) -> Vec<Derived> {
        let mut list = Vec::new();
        let mut add = |figure: &str, instead: String, error| {
            list.push(Derived { figure: figure.to_owned(), instead, error });
        };
        let source = |key: &str| device.sources.get(key).map_or("", String::as_str);
        let share = |device: &DeviceProfile| Some(device.dram_bandwidth_measured?.0 / device.dram_bandwidth.0);
        match device.dram_bandwidth_measured {
            None => {
                let instead = format!("{UNMEASURED_BANDWIDTH} × dram_gb_s, the mean share of measured devices");
                add("dram_measured_gb_s", instead, self.left_out("dram_measured_gb_s", share));
            }
            Some(_) if is_derived(source("dram_measured_gb_s")) => {
                let instead = source("dram_measured_gb_s").to_owned();
                add("dram_measured_gb_s", instead, self.left_out("dram_measured_gb_s", share));
            }
            Some(_) => {}
        }
        if device.kind != DeviceKind::Gpu {
            return list;
        }
        if device.dram_curve.is_none() || is_derived(source("dram_curve")) {
            let own = source("dram_curve");
            let instead = if own.is_empty() { "kernel_start_us + bytes / measured bandwidth" } else { own };
            add("dram_curve", instead.to_owned(), None);
        }
        if is_derived(source("l2_gb_s")) {
            let ratio = |device: &DeviceProfile| Some(device.l2_bandwidth.0 / device.dram_bandwidth.0);
            let measured =
                |device: &DeviceProfile| ratio(device).filter(|_| source_of(device, "l2_gb_s").contains("measured"));
            add("l2_gb_s", source("l2_gb_s").to_owned(), self.left_out("l2_gb_s", measured));
        }
        if is_derived(source("kernel_start_us")) {
            let start = |device: &DeviceProfile| Some(device.kernel_start.0 as f64);
            add("kernel_start_us", source("kernel_start_us").to_owned(), self.left_out("kernel_start_us", start));
        }
        if is_derived(source("launch_latency_us")) || is_general(source("launch_latency_us")) {
            let instead = format!("{}; a trace's own gaps take its place", source("launch_latency_us"));
            add("launch_latency_us", instead, None);
        }
        for (precision, taken) in peaks(device) {
            add(&format!("peak_tflops.{}", precision.key()), format!("as {}", taken.key()), None);
        }
        if device.peer_link.0 <= 0.0 {
            add("peer_link_gb_s", "has none: host_link_gb_s".to_owned(), None);
        }
        if device.sm_limits.is_none() {
            add("sm_threads", "no occupancy is told".to_owned(), None);
        }
        if device.power_per_peak.is_none() {
            add("board_w", "vector products are not limited by power".to_owned(), None);
        }
        list
    }
}

fn source_of<'a>(device: &'a DeviceProfile, key: &str) -> &'a str {
    device.sources.get(key).map_or("", String::as_str)
}

/// Whether a source says that nobody measured this figure of this device.
fn is_derived(source: &str) -> bool {
    source.starts_with("assumed") || source.starts_with("inherited, scaled")
}

/// Whether a source is one figure for all devices.
fn is_general(source: &str) -> bool {
    source == "Lin 2022 algorithm 1"
}

/// Precisions without a peak of their own, with the one that is taken.
fn peaks(device: &DeviceProfile) -> BTreeSet<(Precision, Precision)> {
    let missing = Precision::ALL.into_iter().filter(|precision| !device.peak.contains_key(precision));
    let taken = |precision: Precision| {
        let rate = device.peak_rate(precision);
        device.peak.iter().find(|(_, peak)| peak.0.to_bits() == rate.0.to_bits()).map(|(taken, _)| (precision, *taken))
    };
    // Some makers have matrix units for plain fp32, some chips for fp64; elsewhere nothing is missing.
    let is_extra = |precision: &Precision| matches!(precision, Precision::Fp32Matrix | Precision::Fp64Matrix);
    missing.filter(|precision| !is_extra(precision)).filter_map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_taken_for_unmeasured_memories_is_the_mean_of_the_measured() {
        let catalog = Catalog::builtin().unwrap();
        let shares: Vec<f64> = catalog
            .measured("dram_measured_gb_s")
            .filter_map(|device| Some(device.dram_bandwidth_measured?.0 / device.dram_bandwidth.0))
            .collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(shares.len() >= 10 && (mean - UNMEASURED_BANDWIDTH).abs() < 0.005, "{mean} of {}", shares.len());
        let left_out = LeftOut::of(&shares).unwrap();
        assert!(left_out.error < 0.1, "{}", left_out.error);
    }

    #[test]
    fn each_left_out_is_held_against_the_mean_of_the_others() {
        let left_out = LeftOut::of(&[1.0, 2.0, 3.0]).unwrap();
        assert!((left_out.error - (1.5 + 0.0 + 0.5) / 3.0).abs() < 1e-12 && left_out.n == 3);
        assert!(LeftOut::of(&[1.0]).is_none());
    }

    #[test]
    fn what_was_measured_is_not_listed() {
        let catalog = Catalog::builtin().unwrap();
        let figures = |id: &str| -> Vec<String> {
            catalog.derived(catalog.find(id).unwrap()).into_iter().map(|derived| derived.figure).collect()
        };
        assert!(!figures("V100").contains(&"dram_measured_gb_s".to_owned()));
        assert!(figures("H100-SXM").contains(&"dram_measured_gb_s".to_owned()));
        assert!(figures("T4").contains(&"peak_tflops.bf16_tensor".to_owned()));
        assert!(figures("T4").contains(&"l2_gb_s".to_owned()) && !figures("P100").contains(&"l2_gb_s".to_owned()));
    }

    /// Lanes of fp32 in a multiprocessor: what sheets print is lanes · 2 · clock.
    #[test]
    fn peaks_of_vector_units_agree_with_multiprocessors_and_clocks() {
        for device in Catalog::builtin().unwrap().iter().filter(|device| device.kind == DeviceKind::Gpu) {
            let flop = device.peak_rate(Precision::Fp32).0 / (f64::from(device.sm_count) * device.clock_mhz * 1e6);
            let nearest = [128.0, 256.0].into_iter().map(|lanes: f64| (flop / lanes - 1.0).abs()).fold(1.0, f64::min);
            // Sheets give the Quadro GV100 the rate of a lower clock, and GB200 and GB300 none; theirs is that of the B200.
            let slack = if matches!(&*device.id, "GV100" | "GB200" | "GB300") { 0.12 } else { 0.04 };
            assert!(nearest < slack, "{}: {flop} FLOP per multiprocessor and cycle", device.id);
        }
    }

    #[test]
    fn tensor_units_double_as_types_halve() {
        for device in Catalog::builtin().unwrap().iter() {
            let peak = |precision| device.peak.get(&precision).map(|rate| rate.0);
            let ratio = |wide, narrow| Some(peak(narrow)? / peak(wide)?);
            if device.id.starts_with("MI1") {
                continue;
            }
            for (wide, narrow, most) in [
                (Precision::Tf32, Precision::Bf16Tensor, 4.1),
                (Precision::Bf16Tensor, Precision::Fp8Tensor, 2.05),
                (Precision::Fp16Tensor, Precision::Bf16Tensor, 1.001),
            ] {
                if let Some(ratio) = ratio(wide, narrow) {
                    assert!((0.999..most).contains(&ratio), "{} {}: {ratio}", device.id, narrow.key());
                }
            }
        }
    }
}
