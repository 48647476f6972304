//! Made-up multi-rank DLRM jobs: tables drawn at random, placed on ranks, and the traces a profiler would have written
//! of them. For tests and benches of many ranks; every file says that its times were predicted.

mod kineto;
mod model;
mod timeline;

use std::fmt::Write;
use std::path::Path;

use retime_core::cost::CostModels;
use retime_core::device::{DeviceProfile, LinkProfile};

use super::{Engine, Overwrite, SessionError, write_files};
use retime_core::engine::TABLE_FACTS_FILE;

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

/// An embedding table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticTable {
    /// Rows.
    pub rows: u64,
    /// Look-ups per bag.
    pub pooling: u64,
}

/// Elements per row of every table.
pub const DIM: u64 = 64;

/// Share of a device's memory that the tables of a rank may fill [Lin24 §V-B].
const MEMORY_SHARE: f64 = 0.8;
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
        let link = engine.models.links().of_device(&device.id);
        let link = link.ok_or_else(|| SessionError::NoLink(device.id.clone()))?;
        Ok(Self { models: &engine.models, device, link })
    }
}

/// A job: its tables and the rank of each.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticJob {
    /// What was drawn.
    pub spec: JobSpec,
    /// In order.
    pub tables: Vec<SyntheticTable>,
    /// The rank of each table.
    pub placement: Vec<usize>,
}

impl SyntheticJob {
    /// Draws tables and deals them in order, so many to each rank as were drawn for it.
    pub fn draw(spec: JobSpec, memory_bytes: u64) -> Self {
        let mut random = Random(spec.seed);
        let (mut tables, mut placement) = (Vec::new(), Vec::new());
        for rank in 0..spec.ranks.min(spec.kinds) as usize {
            let count = (f64::from(spec.tables_per_rank) * random.between(0.7, 1.3)).round().max(1.0) as usize;
            let mut room = (memory_bytes as f64 * MEMORY_SHARE) as u64;
            for _ in 0..count {
                let drawn = random.log_between(ROWS) as u64;
                let rows = drawn.min(room / (DIM * 4) / 2).max(1);
                room = room.saturating_sub(rows * DIM * 4);
                tables.push(SyntheticTable { rows, pooling: random.log_between(POOLING).round() as u64 });
                placement.push(rank);
            }
        }
        let (own, first): (Vec<(SyntheticTable, usize)>, u32) =
            (tables.iter().copied().zip(placement.iter().copied()).collect(), spec.kinds);
        for rank in first..spec.ranks {
            let again = own.iter().filter(|&&(_, at)| at == (rank % first) as usize);
            tables.extend(again.clone().map(|&(table, _)| table));
            placement.extend(again.map(|_| rank as usize));
        }
        Self { spec, tables, placement }
    }

    /// Samples of all ranks per step.
    pub fn batch(&self) -> u64 {
        self.spec.local_batch * u64::from(self.spec.ranks)
    }

    /// The operators of one step of every rank, in program order; all ranks have equally many.
    pub fn operators(&self, machine: Machine<'_>) -> Vec<Vec<Operator>> {
        model::operators(self, machine)
    }

    /// The trace of every rank, as JSON, with what each was predicted for.
    pub fn traces(&self, machine: Machine<'_>) -> Vec<Vec<u8>> {
        let operators = self.operators(machine);
        let timelines = timeline::schedule(&operators, self.spec.steps);
        let about = format!("made-up DLRM, seed {}, on {}", self.spec.seed, machine.device.id);
        timelines.iter().enumerate().map(|(rank, spans)| kineto::trace(self, rank, spans, machine, &about)).collect()
    }

    /// Writes the trace of every rank and the facts about the tables into `folder`, which is made where it is not there.
    ///
    /// # Errors
    /// A file exists, or it or the folder cannot be written.
    pub fn write(&self, folder: &Path, machine: Machine<'_>) -> Result<(), SessionError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| SessionError::Write { path: folder.display().to_string(), reason: error.to_string() })?;
        let traces = self.traces(machine).into_iter().enumerate();
        let mut files: Vec<_> =
            traces.map(|(rank, trace)| (folder.join(format!("rank{rank}.pt.trace.json")), trace)).collect();
        files.push((folder.join(TABLE_FACTS_FILE), self.facts().into_bytes()));
        write_files(&files, Overwrite::default())
    }

    /// The facts about its tables that batched look-ups do not record, as a file that `--facts` reads.
    pub fn facts(&self) -> String {
        let mut text = String::new();
        for (table, rank) in self.tables.iter().zip(&self.placement) {
            let SyntheticTable { rows, pooling } = table;
            let _ = writeln!(text, "[[table]]\nrank = {rank}\nrows = {rows}\ndim = {DIM}\npooling = {pooling}.0\n");
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
        let job = SyntheticJob::draw(spec, 16 << 30);
        assert_eq!(job, SyntheticJob::draw(spec, 16 << 30));
        assert_ne!(job, SyntheticJob::draw(JobSpec { seed: 8, ..spec }, 16 << 30));
        for rank in 0..16 {
            let own = || job.tables.iter().zip(&job.placement).filter(|&(_, &at)| at == rank).map(|(table, _)| table);
            assert!((9..=17).contains(&own().count()));
            assert!(own().map(|table| table.rows * DIM * 4).sum::<u64>() <= (16_u64 << 30) * 8 / 10);
            assert!(own().all(|table| (1..=50).contains(&table.pooling)));
        }
    }
}
