//! Arguments of the commands that look at one iteration: `simulate`, `path`, `ops`, `layers`, `roofline`, `overheads`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ScenarioCommand, TraceArgs};

/// The critical path.
#[derive(Clone, Debug, Args)]
pub struct PathArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// The path through the times as measured, instead of the simulated ones; without edits only
    #[arg(long)]
    pub measured: bool,
    /// Also every task of the iteration with its slack: how much longer it could take at no cost
    #[arg(long)]
    pub slack: bool,
}

/// What `ops` lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OpsLevel {
    /// The whole model.
    Model,
    /// Modules.
    Module,
    /// Top-level operators.
    #[default]
    Op,
    /// Kernels.
    Kernel,
}

/// How `ops` groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OpsGroup {
    /// By name.
    #[default]
    Name,
    /// By kernel family.
    Family,
    /// By stream.
    Stream,
    /// By module.
    Module,
}

/// A published algorithm for an iteration's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// Lin 2022, Algorithm 1: one thread and one stream.
    Lin2022,
    /// Lin 2024, Algorithm 1: ranks with a compute and a communication stream each.
    Lin2024,
}

/// Arguments of `simulate`.
#[derive(Clone, Debug, Args)]
pub struct SimulateArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// Beside our own replay, the algorithm of a paper on the same kernels and host overheads
    #[arg(long = "as", value_name = "PAPER", value_enum)]
    pub algorithm: Option<Algorithm>,
}

/// Arguments of `ops`.
#[derive(Clone, Debug, Args)]
pub struct OpsArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// What a row is
    #[arg(long, value_enum, default_value_t)]
    pub level: OpsLevel,
    /// How rows are grouped
    #[arg(long, value_enum, default_value_t)]
    pub by: OpsGroup,
    /// Only what this selector selects, e.g. "name~embedding & kind=kernel"
    #[arg(long, value_name = "SELECTOR")]
    pub select: Option<String>,
    /// Order of the rows, the largest first; names from A
    #[arg(long, value_enum, default_value_t)]
    pub sort: OpsOrder,
}

/// What orders the rows of `ops`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OpsOrder {
    /// Device time, then host time.
    #[default]
    Device,
    /// Host time.
    Host,
    /// How many.
    Count,
    /// Arithmetic.
    Flop,
    /// Memory traffic.
    Bytes,
    /// How much slower than predicted.
    Deviation,
    /// Name.
    Name,
}

/// Arguments of `layers`.
#[derive(Clone, Debug, Args)]
pub struct LayersArgs {
    /// The runs, the edits on each of them, and how to write; with `--iteration all` every step is a run, with
    /// `--batch 1..256` every size. Runs of another model, on another device or recorded in other detail stand side by side
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// Take the largest batch within this latency as the optimal one
    #[arg(long, value_name = "MS", value_parser = latency)]
    pub latency_ms: Option<f64>,
    /// Show these analyses instead of the overview, e.g. 2,11: 1 batch sizes, 2 layers, 3 latency and 4 memory in order, 5 count,
    /// 6 latency and 7 memory by type, 8 kernels, 9 their roofline, 10 kernels by name and 11 by layer, 12 FLOP and bytes of
    /// layers, 13 their host time, 14 their roofline, 15 models side by side; --csv writes the first, else the layers
    #[arg(long, value_name = "1…15", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=15))]
    pub analysis: Vec<u8>,
    /// Rows of each table for people
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
}

/// Arguments of `roofline`.
#[derive(Clone, Debug, Args)]
pub struct RooflineArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// What a point is
    #[arg(long, value_enum, default_value_t = OpsLevel::Kernel)]
    pub level: OpsLevel,
    /// Peak arithmetic rate of a hypothetical device
    #[arg(long, value_name = "TFLOPS")]
    pub peak: Option<f64>,
    /// Its memory bandwidth
    #[arg(long, value_name = "GB/S")]
    pub bandwidth: Option<f64>,
    /// Its network bandwidth
    #[arg(long, value_name = "GB/S")]
    pub network: Option<f64>,
    /// Show machines alone, without a trace: a device's NAME, or a made-up [LABEL=]GFLOPS,MEMORY,NETWORK in GB/s; several are laid
    /// over one another
    #[arg(long, value_name = "SYSTEM")]
    pub system: Vec<String>,
    /// Show seven distributed algorithms under the same roofs
    #[arg(long)]
    pub algorithms: bool,
    /// Show one of them; may be repeated
    #[arg(long, value_parser = ["summa", "dgemv", "ddot", "fft", "stencil", "mst", "dijkstra"], value_name = "NAME")]
    pub algorithm: Vec<String>,
    /// Their problem size, or a range of doublings: 1048576, 256..536870912. Default: the sizes of the paper they come from
    #[arg(long, value_name = "N")]
    pub size: Option<String>,
    /// Their processes. Default: 121 for SUMMA, else 128
    #[arg(long, value_name = "P")]
    pub processes: Option<f64>,
    /// With --system: measured runs, a CSV with name, flop, bytes, seconds and, if any, network_bytes and system
    #[arg(long, value_name = "CSV")]
    pub points: Option<PathBuf>,
    /// With --system: draw both rooflines into a new file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// A latency in ms that an iteration may have.
fn latency(text: &str) -> Result<f64, String> {
    const MOST: f64 = 1e9;
    let ms = text.parse().ok().filter(|ms| (0.0..=MOST).contains(ms));
    ms.ok_or_else(|| format!("expected a time in ms from 0 to {MOST}"))
}

/// Arguments of `overheads`.
#[derive(Clone, Debug, Args)]
pub struct OverheadsArgs {
    /// What to open and how to write
    #[command(flatten)]
    pub input: TraceArgs,
    /// Save the statistics as a JSON database
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Merge these databases in; without a trace, with one another
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub merge: Vec<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}
