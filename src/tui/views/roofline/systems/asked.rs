//! Which machines are asked for, as it is typed, and what was found of them.

use retime_core::analysis::roofline::{
    AlgorithmPoint, AlgorithmSeries, DistributedAlgorithm, Limit, MeasuredPoint, MeasuredRun, System, SystemRoofline,
};
use retime_core::device::Catalog;
use retime_core::intern::printable;

/// What is shown of machines without a trace.
#[derive(Debug, Default)]
pub struct SystemsState {
    /// What was asked for last.
    asked: Asked,
    /// What was found, in the order in which it was asked for.
    pub found: Vec<SystemRoofline>,
}

/// A question about machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    systems: Vec<System>,
    series: AlgorithmSeries,
    /// A file of measured runs.
    pub points: Option<String>,
}

/// What may follow the systems, as on the command line.
pub const OPTIONS: [(&str, &str); 5] = [
    ("--algorithms", "all seven distributed algorithms, as when none is named"),
    ("--algorithm", "one of them; may be repeated"),
    ("--size", "their size, or a range of doublings: 256..1048576"),
    ("--processes", "how many processes they run on"),
    ("--points", "measured runs: a CSV with name, flop, bytes, seconds, network_bytes"),
];

impl Asked {
    /// `SYSTEM… [--algorithm NAME]… [--size N] [--processes P] [--points CSV]`, as the command line takes it.
    ///
    /// # Errors
    /// What cannot be read, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut asked = Self::default();
        let text = format!(" {text}");
        let mut options = text.split(" --");
        let mut systems: Vec<&str> = options.next().unwrap_or_default().split_whitespace().collect();
        let mut is_all = false;
        for option in options.filter(|option| !option.trim().is_empty()) {
            let (name, value) = option.split_once(' ').map_or((option, ""), |(name, value)| (name, value.trim()));
            match (name, value) {
                ("algorithms", "") => is_all = true,
                ("system" | "algorithm" | "size" | "processes" | "points", "") => {
                    return Err(format!("--{name} needs a value"));
                }
                ("system", value) => systems.extend(value.split_whitespace()),
                ("algorithm", value) => asked.series.algorithms.push(DistributedAlgorithm::find(value)?),
                ("size", value) => asked.series.sizes = Some(value.parse()?),
                ("processes", value) => {
                    let processes = value.parse().ok().filter(|count: &f64| count.is_finite() && *count >= 1.0);
                    asked.series.processes = Some(processes.ok_or("--processes: expected a number from 1")?);
                }
                ("points", value) => asked.points = Some(value.to_owned()),
                _ => {
                    let known = OPTIONS.map(|(option, _)| option).join(", ");
                    return Err(format!("--{option}: expected {known}"));
                }
            }
        }
        let all = DistributedAlgorithm::ALL;
        let named = std::mem::take(&mut asked.series.algorithms);
        let is_shown = |algorithm: &DistributedAlgorithm| is_all || named.is_empty() || named.contains(algorithm);
        asked.series.algorithms = all.into_iter().filter(is_shown).collect();
        let systems: Result<Vec<System>, String> = systems.into_iter().map(str::parse).collect();
        asked.systems = systems?;
        if asked.systems.is_empty() {
            return Err("name a system: a device, or [LABEL=]GFLOPS,MEMORY,NETWORK in GB/s".to_owned());
        }
        Ok(asked)
    }
}

impl SystemsState {
    /// Answers `asked` without measured runs.
    ///
    /// # Errors
    /// A system is not in the catalog; then what was shown stays.
    pub fn ask(&mut self, asked: Asked, catalog: &Catalog) -> Result<(), String> {
        self.found = found(&asked, catalog, &[])?;
        self.asked = asked;
        Ok(())
    }

    /// Answers what was asked last with measured runs.
    ///
    /// # Returns
    /// What there is to say about them.
    ///
    /// # Errors
    /// None of them ran on any of the systems.
    pub fn measure(&mut self, runs: &[MeasuredRun], catalog: &Catalog) -> Result<Option<String>, String> {
        self.found = found(&self.asked, catalog, runs)?;
        let ran_here = |run: &&MeasuredRun| {
            run.system.as_ref().is_none_or(|system| self.found.iter().any(|found| found.system == *system))
        };
        match (runs.iter().filter(ran_here).count(), runs.len()) {
            (_, 0) => Err("the table holds no runs".to_owned()),
            (0, _) => Err("none of the runs is of the systems shown: their column `system` names others".to_owned()),
            (shown, all) if shown < all => Ok(Some(format!("{shown} of {all} runs: the others name another system"))),
            _ => Ok(None),
        }
    }

    /// All points, the systems one after another.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        self.found.iter().enumerate().flat_map(|(at, system)| entries(at, system)).collect()
    }
}

fn found(asked: &Asked, catalog: &Catalog, runs: &[MeasuredRun]) -> Result<Vec<SystemRoofline>, String> {
    let each = |system| SystemRoofline::of(system, catalog, &asked.series, runs).map_err(|error| error.to_string());
    asked.systems.iter().map(each).collect()
}

/// A point under the roofs of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// Position of its system.
    pub at: usize,
    /// Its system.
    pub system: &'a SystemRoofline,
    /// What it is.
    pub name: String,
    /// The sign that stands for it.
    pub sign: &'static str,
    /// Its size and processes; a measured run has none.
    pub size: Option<(f64, f64)>,
    /// FLOP per byte of memory traffic.
    pub intensity: f64,
    /// FLOP per byte of network traffic; `None` without any.
    pub communication_intensity: Option<f64>,
    /// FLOP per second that a run reached.
    pub reached: Option<f64>,
    /// FLOP per second under all three roofs.
    pub attainable: f64,
    /// Which roof it lies under.
    pub bound: Limit,
}

impl Entry<'_> {
    /// How high it is drawn: what it reached, else what it could.
    pub fn rate(&self) -> f64 {
        self.reached.unwrap_or(self.attainable)
    }

    /// FLOP per second without the network's roof.
    pub fn by_memory(&self) -> f64 {
        self.system.roofs.attainable(self.intensity, f64::INFINITY).0
    }

    /// Whether `other` is of the same series.
    pub fn continues(&self, other: &Self) -> bool {
        self.at == other.at && self.name == other.name
    }
}

fn entries(at: usize, system: &SystemRoofline) -> impl Iterator<Item = Entry<'_>> {
    let algorithm = move |point: &AlgorithmPoint| Entry {
        at,
        system,
        name: point.name.to_owned(),
        sign: sign(point.algorithm),
        size: Some((point.size, point.processes)),
        intensity: point.intensity,
        communication_intensity: point.communication_intensity,
        reached: None,
        attainable: point.attainable,
        bound: point.bound,
    };
    let measured = move |point: &MeasuredPoint| Entry {
        at,
        system,
        name: printable(&point.name),
        sign: "●",
        size: None,
        intensity: point.intensity,
        communication_intensity: point.communication_intensity,
        reached: Some(point.throughput),
        attainable: point.attainable,
        bound: point.bound,
    };
    system.algorithms.iter().map(algorithm).chain(system.points.iter().map(measured))
}

/// The letter of an algorithm, so that colours are free for systems.
fn sign(algorithm: DistributedAlgorithm) -> &'static str {
    match algorithm {
        DistributedAlgorithm::Summa => "S",
        DistributedAlgorithm::Dgemv => "V",
        DistributedAlgorithm::Ddot => "D",
        DistributedAlgorithm::Fft => "F",
        DistributedAlgorithm::Stencil => "T",
        DistributedAlgorithm::SpanningTree => "M",
        DistributedAlgorithm::Dijkstra => "J",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reads_as_on_the_command_line() {
        let asked =
            Asked::parse("Karst mine=22,13.9,1.2 --algorithm fft --size 256..1024 --points my runs.csv").unwrap();
        assert_eq!(asked.systems.len(), 2);
        assert_eq!(asked.series.algorithms, [DistributedAlgorithm::Fft]);
        assert_eq!(asked.series.sizes.unwrap().0, [256.0, 512.0, 1024.0]);
        assert_eq!(asked.points.as_deref(), Some("my runs.csv"));
        let asked = Asked::parse("--system Karst --system Big-Red-II --algorithms").unwrap();
        assert_eq!((asked.systems.len(), asked.series.algorithms.len()), (2, 7));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, said) in [
            ("--algorithm fft", "name a system"),
            ("Karst --algorithm sort", "no algorithm `sort`: summa"),
            ("Karst --size", "--size needs a value"),
            ("Karst --size 0", "expected a size from 4"),
            ("Karst --processes 0", "a number from 1"),
            ("Karst --colour red", "expected --algorithms"),
            ("1,2", "three numbers from"),
            ("1e308,1,1", "three numbers from"),
        ] {
            let error = Asked::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
