//! Made-up multi-rank DLRM jobs: tables drawn at random, placed on ranks, and the traces a profiler would have written
//! of them. For tests and benches of many ranks; every file says that its times were predicted.

mod kineto;
mod locality;
mod model;
mod timeline;

use std::fmt::Write;
use std::path::Path;

use retime_core::cost::{CostModels, Reuse};
use retime_core::device::{DeviceProfile, LinkProfile};
use retime_core::scenario::tables::{TableFact, TableFacts};
use retime_core::units::Bytes;

use super::{Engine, Overwrite, SessionError, write_files};
use retime_core::engine::TABLE_FACTS_FILE;

pub use locality::measured_reuse;
pub use model::{Collective, Operator};

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobSpec {
    /// Ranks.
    pub ranks: u32,
    /// How many ranks differ: those beyond have the tables of these again.
    pub kinds: u32,
    /// Mean tables per rank; each draw is within ±30 % of it [Lin24 §V-B uses 13].
    pub tables_per_rank: u32,
    /// Further hidden layers of the MLP after the interaction: the more, the more tasks.
    pub layers: u32,
    /// Samples per rank and step.
    pub local_batch: u64,
    /// Recorded steps.
    pub steps: u32,
    /// Of all draws.
    pub seed: u64,
}

impl Default for JobSpec {
    fn default() -> Self {
        Self { ranks: 8, kinds: u32::MAX, tables_per_rank: 13, layers: 0, local_batch: 512, steps: 3, seed: 0 }
    }
}

/// The model around the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Elements per row; where there are several, one is drawn for each table.
    pub dims: Vec<u64>,
    /// Widths of the MLP of dense features, their number first.
    pub bottom: Vec<u64>,
    /// Widths of the MLP after the interaction, but for the one output.
    pub top: Vec<u64>,
    /// Which rows of a table a batch looks up.
    pub reuse: Reuse,
}

impl Default for Network {
    fn default() -> Self {
        Self { dims: vec![64], bottom: vec![256, 512, 256, 64], top: vec![1024, 512], reuse: Reuse::Uniform }
    }
}

/// An embedding table.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticTable {
    /// Rows.
    pub rows: u64,
    /// Elements per row.
    pub dim: u64,
    /// Look-ups per bag.
    pub pooling: f64,
    /// Which rows a batch looks up.
    pub reuse: Reuse,
}

impl SyntheticTable {
    fn bytes(&self) -> u64 {
        self.rows * self.dim * 4
    }
}

/// Share of a device's memory that the tables of a rank may fill [Lin24 §V-B].
const MEMORY_SHARE: f64 = 0.8;
/// Beyond these a table told of is a mistake, and products of its sizes overflow.
const MOST_TABLES: usize = 100_000;
const MOST_ROWS: u64 = 1 << 31;
const MOST_DIM: u64 = 1 << 12;
const MOST_POOLING: f64 = 1e5;
const ROWS: (f64, f64) = (1e4, 1e7);
const POOLING: (f64, f64) = (1.0, 50.0);

/// Where the job runs.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Cost models.
    pub models: &'a CostModels,
    /// Every rank's device.
    pub device: &'a DeviceProfile,
    /// Between all of them.
    pub link: &'a LinkProfile,
}

impl<'a> Machine<'a> {
    /// Devices called `gpu`, with the link that `engine` knows between such.
    ///
    /// # Errors
    /// The device is unknown or has no link.
    pub fn of(engine: &'a Engine, gpu: &str) -> Result<Self, SessionError> {
        let device = engine.catalog.find(gpu)?;
        let link = engine.models.links().of_device(device);
        let link = link.ok_or_else(|| SessionError::NoLink(device.id.clone()))?;
        Ok(Self { models: &engine.models, device, link })
    }
}

/// A job: its tables and the rank of each.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticJob {
    /// What was drawn.
    pub spec: JobSpec,
    /// The model around the tables.
    pub network: Network,
    /// In order.
    pub tables: Vec<SyntheticTable>,
    /// The rank of each table.
    pub placement: Vec<usize>,
}

impl SyntheticJob {
    /// Draws tables for `network` and deals them in order, so many to each rank as were drawn for it.
    pub fn draw(spec: JobSpec, network: Network, memory_bytes: u64) -> Self {
        let mut random = Random(spec.seed);
        let (mut tables, mut placement) = (Vec::new(), Vec::new());
        for rank in 0..spec.ranks.min(spec.kinds) as usize {
            let count = (f64::from(spec.tables_per_rank) * random.between(0.7, 1.3)).round().max(1.0) as usize;
            let mut room = (memory_bytes as f64 * MEMORY_SHARE) as u64;
            for _ in 0..count {
                let drawn = random.log_between(ROWS) as u64;
                let dim = random.one_of(&network.dims);
                let rows = drawn.min(room / (dim * 4) / 2).max(1);
                let pooling = random.log_between(POOLING).round();
                let table = SyntheticTable { rows, dim, pooling, reuse: network.reuse.clone() };
                room = room.saturating_sub(table.bytes());
                tables.push(table);
                placement.push(rank);
            }
        }
        let (own, first): (Vec<(SyntheticTable, usize)>, u32) =
            (tables.iter().cloned().zip(placement.iter().copied()).collect(), spec.kinds);
        for rank in first..spec.ranks {
            let again = own.iter().filter(|(_, at)| *at == (rank % first) as usize);
            tables.extend(again.clone().map(|(table, _)| table.clone()));
            placement.extend(again.map(|_| rank as usize));
        }
        Self { spec, network, tables, placement }
    }

    /// The job of the tables that `facts` tell of, on the ranks that they name; dims and look-ups that are not told are those of
    /// `network`.
    ///
    /// # Errors
    /// The table that cannot be used, and why.
    pub fn of_tables(spec: JobSpec, network: Network, facts: &TableFacts) -> Result<Self, String> {
        let mut job = Self { spec, network, tables: Vec::new(), placement: Vec::new() };
        if facts.tables.len() > MOST_TABLES {
            return Err(format!("more than {MOST_TABLES} tables"));
        }
        for (at, fact) in facts.tables.iter().enumerate() {
            let (table, rank) = job.told(fact).map_err(|reason| format!("table {}: {reason}", at + 1))?;
            job.tables.push(table);
            job.placement.push(rank);
        }
        if job.tables.is_empty() { Err("there is no table".to_owned()) } else { Ok(job) }
    }

    fn told(&self, fact: &TableFact) -> Result<(SyntheticTable, usize), String> {
        let rank = fact.rank.filter(|rank| *rank < self.spec.ranks);
        let rank = rank.ok_or_else(|| format!("needs a `rank` below {}", self.spec.ranks))?;
        let (rows, pooling) = fact.rows.zip(fact.pooling).ok_or("needs `rows` and `pooling`")?;
        let dim = fact.dim.or(self.network.dims.first().copied()).ok_or("needs `dim`")?;
        let is_possible = rows <= MOST_ROWS && dim <= MOST_DIM && pooling <= MOST_POOLING;
        let reuse = fact.reuse().unwrap_or_else(|| self.network.reuse.clone());
        let table = SyntheticTable { rows, dim, pooling, reuse };
        if is_possible { Ok((table, rank as usize)) } else { Err("is larger than any table".to_owned()) }
    }

    /// Samples of all ranks per step.
    pub fn batch(&self) -> u64 {
        self.spec.local_batch * u64::from(self.spec.ranks)
    }

    /// The operators of one step of every rank, in program order; all ranks have equally many.
    pub fn operators(&self, machine: Machine<'_>) -> Vec<Vec<Operator>> {
        model::operators(self, machine)
    }

    /// Writes the trace of every rank, as JSON with what it was predicted for, and the facts about the tables into `folder`, which is
    /// made where it is not there.
    ///
    /// # Errors
    /// A file exists, or it or the folder cannot be written.
    pub fn write(&self, folder: &Path, machine: Machine<'_>) -> Result<(), SessionError> {
        let operators = self.operators(machine);
        let timelines = timeline::schedule(&operators, self.spec.steps);
        // Not before there is something to write: whoever interrupts the work finds no empty folder.
        let fail =
            |reason: &str| Err(SessionError::Write { path: folder.display().to_string(), reason: reason.to_owned() });
        let is_new = !folder.exists();
        if !is_new && !folder.is_dir() {
            return fail("is no folder; name a new or empty one");
        }
        if !is_new && std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()) {
            return fail("holds files, with which these would be no job; name a new or empty folder");
        }
        std::fs::create_dir_all(folder)
            .map_err(|error| SessionError::Write { path: folder.display().to_string(), reason: error.to_string() })?;
        let about = format!("made-up DLRM, seed {}, on {}", self.spec.seed, machine.device.id);
        let trace = |(rank, spans): (usize, &Vec<timeline::Placed<'_>>)| {
            (folder.join(format!("rank{rank}.pt.trace.json")), kineto::trace(self, rank, spans, machine, &about))
        };
        let facts = (folder.join(TABLE_FACTS_FILE), self.facts().into_bytes());
        let written = write_files(timelines.iter().enumerate().map(trace).chain([facts]), Overwrite::forced(false));
        if written.is_err() && is_new {
            let _ = std::fs::remove_dir(folder);
        }
        written
    }

    /// About what writing it takes in memory: the operators of all ranks, when each runs in every step, and the text of one rank.
    pub fn memory_needed(&self, machine: Machine<'_>) -> Bytes {
        const OPERATOR: u64 = 400;
        const PLACED: u64 = 150;
        const TEXT: u64 = 2 * 1200;
        let operators = |layers| -> u64 {
            let few = Self { spec: JobSpec { layers, ..self.spec }, ..self.clone() };
            few.operators(machine).iter().map(|rank| rank.len() as u64).sum()
        };
        let (without, layers, steps) = (operators(0), u64::from(self.spec.layers), u64::from(self.spec.steps));
        let all = without + layers.saturating_mul(operators(1).saturating_sub(without));
        let of_a_rank = all / u64::from(self.spec.ranks.max(1)) * steps;
        Bytes(all.saturating_mul(OPERATOR + steps * PLACED).saturating_add(of_a_rank.saturating_mul(TEXT)))
    }

    /// The facts about its tables that batched look-ups do not record, as a file that `--facts` reads.
    pub fn facts(&self) -> String {
        let mut text = String::new();
        for (table, rank) in self.tables.iter().zip(&self.placement) {
            let SyntheticTable { rows, dim, pooling, reuse } = table;
            let _ = writeln!(text, "[[table]]\nrank = {rank}\nrows = {rows}\ndim = {dim}\npooling = {pooling:?}");
            let _ = match reuse {
                Reuse::Uniform => Ok(()),
                Reuse::Zipf(exponent) => writeln!(text, "zipf = {exponent:?}"),
                Reuse::Unique(share) => writeln!(text, "unique = {share:?}"),
                Reuse::Histogram(bins) => writeln!(text, "histogram = {bins:?}"),
            };
            text.push('\n');
        }
        text
    }
}

/// A reproducible sequence: SplitMix64 [Steele, Lea, Flood 2014].
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// One of `values`; no draw where there is one.
    fn one_of(&mut self, values: &[u64]) -> u64 {
        match values {
            [] => 1,
            [only] => *only,
            several => several[(self.unit() * several.len() as f64) as usize],
        }
    }

    /// Uniform in its logarithm.
    fn log_between(&mut self, (low, high): (f64, f64)) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_repeat_and_keep_their_limits() {
        let spec = JobSpec { ranks: 16, seed: 7, ..JobSpec::default() };
        let draw = |spec| SyntheticJob::draw(spec, Network { dims: vec![32, 64, 128], ..Network::default() }, 16 << 30);
        let job = draw(spec);
        assert_eq!(job, draw(spec));
        assert_ne!(job, draw(JobSpec { seed: 8, ..spec }));
        for dim in [32, 64, 128] {
            assert!(job.tables.iter().any(|table| table.dim == dim), "{dim}");
        }
        for rank in 0..16 {
            let own = || job.tables.iter().zip(&job.placement).filter(|&(_, &at)| at == rank).map(|(table, _)| table);
            assert!((9..=17).contains(&own().count()));
            assert!(own().map(SyntheticTable::bytes).sum::<u64>() <= (16_u64 << 30) * 8 / 10);
            assert!(own().all(|table| (1.0..=50.0).contains(&table.pooling)));
        }
    }

    #[test]
    fn the_tables_of_a_job_are_the_job_again() {
        let spec = JobSpec { ranks: 2, ..JobSpec::default() };
        let network = Network { dims: vec![32, 128], reuse: Reuse::Unique(0.25), ..Network::default() };
        let job = SyntheticJob::draw(spec, network.clone(), 16 << 30);
        let facts = TableFacts::from_toml(&job.facts()).unwrap();
        assert_eq!(SyntheticJob::of_tables(spec, network.clone(), &facts), Ok(job));
        let refused = |text: &str| {
            SyntheticJob::of_tables(spec, network.clone(), &TableFacts::from_toml(text).unwrap()).unwrap_err()
        };
        assert_eq!(refused(""), "there is no table");
        assert_eq!(refused("[[table]]\nrank = 2\nrows = 5\npooling = 1.0"), "table 1: needs a `rank` below 2");
        assert_eq!(refused("[[table]]\nrank = 0\nrows = 5"), "table 1: needs `rows` and `pooling`");
        let huge = "[[table]]\nrank = 0\nrows = 9000000000\npooling = 1.0";
        assert_eq!(refused(huge), "table 1: is larger than any table");
    }
}
