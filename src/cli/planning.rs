//! Arguments of the commands that weigh one edit against another: `sweep`, `advise`, `compare`, `tables`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::{OutputArgs, ScenarioArgs, ScenarioCommand};

/// Arguments of `sweep`.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// A knob and its values, e.g. `--knob dram_bw 0.5..4x10`; several knobs make a grid. `--batch 64..16384` doubles.
    /// Knobs: batch, ranks, bucket, accumulate, dram_bw, flops, link, host_link, a selector,
    /// whose tasks are scaled, or an edit but for its number: `--knob "resize-op family=gemm 4096->" 2048,4096,8192`
    #[arg(long, value_names = ["NAME", "RANGE"], num_args = 2, action = ArgAction::Append)]
    pub knob: Vec<String>,
    /// Only every N-th point from the I-th on, I from 1; the parts are put together by --merge
    #[arg(long, value_name = "I/N", conflicts_with = "merge")]
    pub shard: Option<String>,
    /// Put these answers (JSON) of shards together instead of computing
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub merge: Vec<PathBuf>,
}

/// Arguments of `advise`.
#[derive(Clone, Debug, Args)]
pub struct AdviseArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// Time to save, e.g. -20%: the fewest steps that do, and the factor of each class of tasks
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub target: Option<String>,
}

/// What orders the rows of `compare`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareOrder {
    /// Device time, or host time without a device.
    #[default]
    Time,
    /// Time on host threads.
    Host,
    /// Time on the critical path of the recorded window: differences add up to that of its length.
    Path,
    /// Calls.
    Count,
    /// Name.
    Name,
}

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// A trace (file or folder), or a scenario file (.toml)
    pub a: PathBuf,
    /// Others; without any, A with edits is compared with A without. Scenarios are applied to the first trace; against
    /// further traces the first, with the edits, is a prediction and scored
    #[arg(value_name = "B")]
    pub others: Vec<PathBuf>,
    /// The trace that scenario files are applied to where none is named before; without it the bundled sample
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    pub on: Vec<PathBuf>,
    /// A row for each call in order, instead of one for each operator
    #[arg(long)]
    pub calls: bool,
    /// Order of the rows, the largest difference first; `name` from A
    #[arg(long, value_enum, default_value_t)]
    pub sort: CompareOrder,
    /// Rows for people; programs get all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Write all sides as a report too: FILE.md or FILE.html
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Edits: of B without a second trace, of A against what was measured in B; under both scenarios
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// How to write the result
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `tables`.
#[derive(Clone, Debug, Args)]
pub struct TablesArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// Sharder to try, `best` for a search, or `all`
    #[arg(long, value_name = "NAME")]
    pub sharder: Option<String>,
    /// Most bytes of tables on a rank, e.g. 12GiB; without it the device's memory
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
}
