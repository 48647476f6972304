//! Machines without a trace: their roofs, with distributed algorithms over sizes and measured runs under them
//! [Cardwell 2019 ch. 2].

use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::Serialize;

use crate::device::{Catalog, Precision, UnknownDevice};
use crate::units::{BytesPerSec, FlopPerSec};

use super::{DistributedAlgorithm, Limit, Load, MachineCache, Roofs};

/// A machine: known, or made up by three figures.
#[derive(Clone, Debug, PartialEq)]
pub enum System {
    /// A device by its name.
    Named(String),
    /// Roofs that are given.
    Made {
        /// What it is called.
        label: String,
        /// GFLOP/s, and GB/s of memory and of the network.
        figures: [f64; 3],
    },
}

/// What figures of made-up systems can be, a whole cluster's among them: all that is worked out from them is finite.
pub const FIGURES: RangeInclusive<f64> = 1e-6..=1e12;

impl FromStr for System {
    type Err = String;

    /// `NAME`, or `[LABEL=]GFLOPS,MEMORY,NETWORK` with bandwidths in GB/s.
    fn from_str(text: &str) -> Result<Self, String> {
        let (label, figures) = text.split_once('=').unwrap_or((text, text));
        if !figures.contains(',') {
            return Ok(Self::Named(text.to_owned()));
        }
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|value| FIGURES.contains(value));
        let figures: Option<Vec<f64>> = figures.split(',').map(number).collect();
        let Some(&figures) = figures.as_deref().and_then(|figures| <&[f64; 3]>::try_from(figures).ok()) else {
            let expected = "expected GFLOPS,MEMORY,NETWORK: three numbers from 1e-6 to 1e12, bandwidths in GB/s";
            return Err(format!("`{text}`: {expected}"));
        };
        Ok(Self::Made { label: label.to_owned(), figures })
    }
}

impl System {
    /// Its name and its roofs: of a device those of double precision.
    ///
    /// # Errors
    /// `catalog` knows no device of that name.
    pub fn roofs(&self, catalog: &Catalog) -> Result<(String, Roofs), UnknownDevice> {
        Ok(match self {
            Self::Named(name) => {
                let device = catalog.find(name)?;
                (device.id.clone(), Roofs::of(device, Precision::Fp64))
            }
            Self::Made { label, figures } => {
                let [peak, memory, network] = figures.map(|figure| figure * 1e9);
                let (peak, network) = (FlopPerSec(peak), Some(BytesPerSec(network)));
                (label.clone(), Roofs { peak, memory: BytesPerSec(memory), network })
            }
        })
    }
}

/// Problem sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Vec<f64>);

impl FromStr for Sizes {
    type Err = String;

    /// One size, or a range of doublings.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|value| (4.0..=1e15).contains(value));
        let wrong = || format!("`{text}`: expected a size from 4, or a range of doublings such as 256..1048576");
        let Some((least, most)) = text.split_once("..") else { return Ok(Self(vec![number(text).ok_or_else(wrong)?])) };
        let (least, most) = number(least).zip(number(most)).filter(|(least, most)| least <= most).ok_or_else(wrong)?;
        Ok(Self(std::iter::successors(Some(least), |size| Some(2.0 * size)).take_while(|size| *size <= most).collect()))
    }
}

/// Which algorithms are put under the roofs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmSeries {
    /// They.
    pub algorithms: Vec<DistributedAlgorithm>,
    /// Of which sizes; without any those that the thesis ran.
    pub sizes: Option<Sizes>,
    /// On how many processes; without a number as many as the thesis ran them on.
    pub processes: Option<f64>,
}

/// Edges of each vertex of the graphs that the algorithms work on.
const EDGES_PER_VERTEX: f64 = 16.0;

impl AlgorithmSeries {
    /// Each algorithm at each size under `roofs`.
    pub fn under(&self, roofs: &Roofs) -> Vec<AlgorithmPoint> {
        let each = |&algorithm: &DistributedAlgorithm| {
            let processes = self.processes.unwrap_or_else(|| algorithm.processes());
            let sizes = self.sizes.as_ref().map_or_else(|| algorithm.sizes(), |sizes| sizes.0.clone());
            let points = sizes.into_iter().map(move |size| AlgorithmPoint::of(algorithm, size, processes, roofs));
            // Where there are more processes than elements, nothing is left for each.
            points.filter(|point| point.attainable_by_memory > 0.0 && point.attainable > 0.0).collect::<Vec<_>>()
        };
        self.algorithms.iter().flat_map(each).collect()
    }
}

/// A distributed algorithm of one size under some roofs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlgorithmPoint {
    /// Which.
    #[serde(skip)]
    pub algorithm: DistributedAlgorithm,
    /// Its name.
    pub name: &'static str,
    /// What its intensities are worked out for, as [`DistributedAlgorithm::intensities`] has it.
    pub size: f64,
    /// How many share it.
    pub processes: f64,
    /// FLOP per byte of memory traffic.
    pub intensity: f64,
    /// FLOP per byte of network traffic; `None` on one process.
    pub communication_intensity: Option<f64>,
    /// FLOP per second under all three roofs.
    pub attainable: f64,
    /// FLOP per second without the network's roof.
    pub attainable_by_memory: f64,
    /// Which roof it lies under.
    pub bound: Limit,
}

impl AlgorithmPoint {
    fn of(algorithm: DistributedAlgorithm, size: f64, processes: f64, roofs: &Roofs) -> Self {
        let found = algorithm.intensities(size, processes, EDGES_PER_VERTEX, MachineCache::THESIS);
        Self {
            algorithm,
            name: algorithm.name(),
            size,
            processes,
            intensity: found.memory,
            communication_intensity: Some(found.network).filter(|value| value.is_finite()),
            attainable: roofs.attainable(found.memory, found.network).0,
            attainable_by_memory: roofs.attainable(found.memory, f64::INFINITY).0,
            bound: roofs.limit(found.memory, found.network),
        }
    }
}

/// A measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRun {
    /// What it is called.
    pub name: String,
    /// What it ran on; without one it is held against every system.
    pub system: Option<String>,
    /// What it did.
    pub load: Load,
}

/// A measured run under some roofs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// What it is called.
    pub name: String,
    /// What it did.
    #[serde(flatten)]
    pub load: Load,
    /// FLOP per byte of memory traffic.
    pub intensity: f64,
    /// FLOP per byte of network traffic; `None` without any.
    pub communication_intensity: Option<f64>,
    /// FLOP per second reached.
    pub throughput: f64,
    /// FLOP per second that the roofs allow at these intensities.
    pub attainable: f64,
    /// Which roof it lies under.
    pub bound: Limit,
}

impl MeasuredPoint {
    fn of(run: &MeasuredRun, roofs: &Roofs) -> Self {
        let load = run.load;
        let (intensity, communication) = (load.intensity(), load.communication_intensity());
        Self {
            name: run.name.clone(),
            load,
            intensity,
            communication_intensity: Some(communication).filter(|value| value.is_finite()),
            throughput: load.throughput().0,
            attainable: roofs.attainable(intensity, communication).0,
            bound: load.limit(roofs),
        }
    }
}

/// How far the roofs lie from what was measured [Cardwell 2019 eq. 2.6 and Table 2.6].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoofErrors {
    /// Mean of `|measured − predicted| / measured` under peak and memory.
    pub by_memory: f64,
    /// The same under the network's roof, too.
    pub by_communication: f64,
    /// The share of the former that the network's roof takes off.
    pub nearer: f64,
}

impl RoofErrors {
    /// Over the points that took time; `None` without any.
    fn of(points: &[MeasuredPoint], roofs: &Roofs) -> Option<Self> {
        let timed: Vec<&MeasuredPoint> = points.iter().filter(|point| point.throughput > 0.0).collect();
        let mean = |predicted: &dyn Fn(&MeasuredPoint) -> f64| {
            let off = timed.iter().map(|point| (point.throughput - predicted(point)).abs() / point.throughput);
            off.sum::<f64>() / timed.len() as f64
        };
        if timed.is_empty() {
            return None;
        }
        let by_memory = mean(&|point| roofs.attainable(point.intensity, f64::INFINITY).0);
        let by_communication = mean(&|point| point.attainable);
        let nearer = if by_memory > 0.0 { 1.0 - by_communication / by_memory } else { 0.0 };
        Some(Self { by_memory, by_communication, nearer })
    }
}

/// A machine with what lies under its roofs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemRoofline {
    /// Its name.
    pub system: String,
    /// FLOP per byte from which memory does not limit.
    pub ridge: f64,
    /// FLOP per network byte from which the network does not limit.
    pub network_ridge: Option<f64>,
    /// Its roofs.
    pub roofs: Roofs,
    /// Algorithms, the sizes of one after another.
    pub algorithms: Vec<AlgorithmPoint>,
    /// Runs that were measured on it, or on no system in particular.
    pub points: Vec<MeasuredPoint>,
    /// Mean absolute errors over the measured points, where there are any.
    pub errors: Option<RoofErrors>,
}

impl SystemRoofline {
    /// What `series` and `runs` are under the roofs of `system`.
    ///
    /// # Errors
    /// `catalog` does not know it.
    pub fn of(
        system: &System,
        catalog: &Catalog,
        series: &AlgorithmSeries,
        runs: &[MeasuredRun],
    ) -> Result<Self, UnknownDevice> {
        let (name, roofs) = system.roofs(catalog)?;
        let own = runs.iter().filter(|run| run.system.as_ref().is_none_or(|system| *system == name));
        let points: Vec<MeasuredPoint> = own.map(|run| MeasuredPoint::of(run, &roofs)).collect();
        Ok(Self {
            system: name,
            ridge: roofs.ridge(),
            network_ridge: roofs.network_ridge(),
            algorithms: series.under(&roofs),
            errors: RoofErrors::of(&points, &roofs),
            points,
            roofs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_names_or_three_figures() {
        assert_eq!("Karst".parse(), Ok(System::Named("Karst".into())));
        let made: System = "mine=22,13.9,1.2".parse().unwrap();
        assert_eq!(made, System::Made { label: "mine".into(), figures: [22.0, 13.9, 1.2] });
        assert!("22,13".parse::<System>().is_err() && "a=1,0,1".parse::<System>().is_err());
    }

    #[test]
    fn sizes_double() {
        assert_eq!("256..1100".parse(), Ok(Sizes(vec![256.0, 512.0, 1024.0])));
        assert!("9..4".parse::<Sizes>().is_err() && "nan".parse::<Sizes>().is_err());
    }
}
