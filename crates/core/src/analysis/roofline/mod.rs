//! Rooflines: what a device can attain at an arithmetic intensity, for memory and for the network.
//!
//! Knows no trace; [`points`] puts an iteration's kernels, operators or model on the plot.

mod algorithms;
mod points;
mod system;

use serde::Serialize;

use crate::device::{DeviceProfile, Precision};
use crate::units::{BytesPerSec, FlopPerSec};

pub use algorithms::{DistributedAlgorithm, Intensities, MachineCache};
pub use points::{Place, Point, dominant_precision, left_out, on_other_devices, points, points_at, unknown};
pub use system::{
    AlgorithmPoint, AlgorithmSeries, FIGURES, MeasuredPoint, MeasuredRun, RoofErrors, Sizes, System, SystemRoofline,
};

/// What limits work on a machine with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Arithmetic.
    Compute,
    /// Memory traffic.
    Memory,
    /// Network traffic.
    Network,
    /// Elements that are fetched one by one: neither roof is reached, whatever it is.
    Accesses,
    /// Neither arithmetic nor traffic was recorded.
    Unknown,
}

impl Limit {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Accesses => "accesses",
            Self::Unknown => "unknown",
        }
    }
}

/// The three roofs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Roofs {
    /// Peak arithmetic rate.
    #[serde(rename = "peak_flop_per_s")]
    pub peak: FlopPerSec,
    /// Peak memory bandwidth.
    #[serde(rename = "memory_bytes_per_s")]
    pub memory: BytesPerSec,
    /// Peak network bandwidth; `None` without a network.
    #[serde(rename = "network_bytes_per_s")]
    pub network: Option<BytesPerSec>,
}

impl Roofs {
    /// The theoretical roofs of `device` at `precision`: nothing measured can lie above them.
    pub fn of(device: &DeviceProfile, precision: Precision) -> Self {
        Self {
            peak: device.peak_rate(precision),
            memory: device.dram_bandwidth,
            network: Some(device.peer_link).filter(|link| link.0 > 0.0),
        }
    }

    /// The least intensity, in FLOP per byte of memory traffic, that can reach the peak: `peak / BW` [Li 2019 §4.3].
    pub fn ridge(&self) -> f64 {
        self.peak.0 / self.memory.0
    }

    /// The least communication intensity, in FLOP per byte of network traffic, that can reach the peak.
    pub fn network_ridge(&self) -> Option<f64> {
        self.network.map(|network| self.peak.0 / network.0)
    }

    /// `min(peak, BW·OI, net_BW·CAI)` [Cardwell 2019 eq. 2.5].
    ///
    /// # Arguments
    /// `intensity`: FLOP per byte of memory traffic; `communication`: FLOP per byte of network traffic. Infinite where
    /// there is no such traffic.
    pub fn attainable(&self, intensity: f64, communication: f64) -> FlopPerSec {
        let under_memory = bounded(self.memory, intensity);
        let under_network = self.network.map_or(f64::INFINITY, |network| bounded(network, communication));
        FlopPerSec(self.peak.0.min(under_memory).min(under_network))
    }

    /// Which of the three it is; work at a ridge is limited by arithmetic.
    pub fn limit(&self, intensity: f64, communication: f64) -> Limit {
        let attainable = self.attainable(intensity, communication).0;
        if attainable >= self.peak.0 {
            Limit::Compute
        } else if attainable >= bounded(self.memory, intensity) {
            Limit::Memory
        } else {
            Limit::Network
        }
    }
}

/// `rate · intensity`, infinite where there is no traffic.
fn bounded(rate: BytesPerSec, intensity: f64) -> f64 {
    if intensity.is_finite() { rate.0 * intensity } else { f64::INFINITY }
}

/// Arithmetic and traffic of something that took some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// FLOP.
    pub flop: f64,
    /// Bytes of memory traffic.
    pub bytes: f64,
    /// Bytes that crossed the network from or to one device.
    pub network_bytes: f64,
    /// Time in seconds.
    pub seconds: f64,
}

impl Load {
    /// FLOP per byte of memory traffic; infinite without traffic, zero without either.
    pub fn intensity(&self) -> f64 {
        per_byte(self.flop, self.bytes)
    }

    /// FLOP per byte of network traffic; infinite without any.
    pub fn communication_intensity(&self) -> f64 {
        if self.network_bytes > 0.0 { self.flop / self.network_bytes } else { f64::INFINITY }
    }

    /// FLOP per second.
    pub fn throughput(&self) -> FlopPerSec {
        FlopPerSec(if self.seconds > 0.0 { self.flop / self.seconds } else { 0.0 })
    }

    /// What limits it under `roofs`.
    pub fn limit(&self, roofs: &Roofs) -> Limit {
        roofs.limit(self.intensity(), self.communication_intensity())
    }

    /// The shortest time under `roofs`, in seconds: arithmetic, memory and network overlap.
    pub fn least_seconds(&self, roofs: &Roofs) -> f64 {
        let network = roofs.network.map_or(0.0, |network| self.network_bytes / network.0);
        (self.flop / roofs.peak.0).max(self.bytes / roofs.memory.0).max(network)
    }
}

fn per_byte(flop: f64, bytes: f64) -> f64 {
    match (flop > 0.0, bytes > 0.0) {
        (_, true) => flop / bytes,
        (true, false) => f64::INFINITY,
        (false, false) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V100: Roofs = Roofs { peak: FlopPerSec(15.7e12), memory: BytesPerSec(900e9), network: None };

    #[test]
    fn the_ridge_of_a_v100_and_a_kernel_above_it() {
        assert!((V100.ridge() - 17.444).abs() < 1e-3);
        let mib = f64::from(1 << 20);
        let kernel = Load { flop: 77.42e9, bytes: (40.33 + 43.86) * mib, network_bytes: 0.0, seconds: 6.04e-3 };
        assert!((kernel.intensity() - 877.0).abs() < 0.1);
        assert!((kernel.throughput().0 - 12.818e12).abs() < 1e9);
        assert_eq!(kernel.limit(&V100), Limit::Compute);
        assert!((kernel.least_seconds(&V100) - 77.42e9 / 15.7e12).abs() < 1e-12);
    }

    #[test]
    fn the_lowest_of_three_planes_limits() {
        let karst = Roofs { peak: FlopPerSec(22e9), memory: BytesPerSec(13.9e9), network: Some(BytesPerSec(1.2e9)) };
        assert_eq!(karst.limit(10.0, 100.0), Limit::Compute);
        assert_eq!(karst.limit(1.0, 100.0), Limit::Memory);
        assert_eq!(karst.limit(1.0, 2.0), Limit::Network);
        assert!((karst.attainable(1.0, 2.0).0 - 2.4e9).abs() < 1.0);
        assert!((karst.attainable(1.0, f64::INFINITY).0 - 13.9e9).abs() < 1.0);
        assert!((karst.network_ridge().unwrap() - 22.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn work_without_traffic_or_time_has_no_wild_figures() {
        let nothing = Load::default();
        assert_eq!((nothing.intensity(), nothing.throughput().0), (0.0, 0.0));
        assert!(Load { flop: 1.0, ..nothing }.intensity().is_infinite());
        assert_eq!(nothing.limit(&V100), Limit::Memory);
    }
}
