//! Arguments of the commands whose work is a file: `export`, `run`, `generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{OutputArgs, ScenarioCommand};

/// File formats that `export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportKind {
    /// Chrome-trace JSON, for Perfetto.
    Chrome,
    /// One row per task.
    Csv,
    /// One object per task.
    Json,
    /// A picture of the timeline.
    Svg,
    /// A report to paste into a pull request.
    Markdown,
    /// The report with the picture in one file.
    Html,
}

/// Arguments of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// What to open and edit
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// File format; without it the file's ending says: .svg, .md, .html, .csv, else chrome
    #[arg(long, value_enum)]
    pub format: Option<ExportKind>,
    /// File to write; a Chrome trace of several ranks becomes a file for each: rank0.FILE …, or in FILE where that is a folder
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The script
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,
    /// Traces to open first: files, globs, or folders; without any, those that the script opens, else the bundled sample
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// How to write the result
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `generate`.
#[derive(Clone, Debug, Args)]
pub struct GenerateArgs {
    /// Folder to write to; made if it is not there
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Ranks
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// Ranks that differ; the others are like these again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub kinds: Option<u32>,
    /// The tables and their ranks, instead of drawing them: a TOML with a `[[table]]` of rank, rows, dim and pooling for each, as
    /// `--facts` reads and this command writes it (tables.toml)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tables_per_rank", "kinds"])]
    pub tables: Option<PathBuf>,
    /// How often rows recur in a batch: statistics of dlrm_datasets (locality_stats JSON); without it every row is as likely
    #[arg(long, value_name = "FILE")]
    pub reuse: Option<PathBuf>,
    /// Elements per row; one of several is drawn for each table
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u64).range(1..=16_384))]
    pub dim: Vec<u64>,
    /// Widths of the MLP of dense features, their number first
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "256,512,256,64", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub bottom: Vec<u64>,
    /// Widths of the MLP after the interaction, but for the one output
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1024,512", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub top: Vec<u64>,
    /// Mean tables per rank
    #[arg(long, default_value_t = 13, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tables_per_rank: u32,
    /// Further hidden layers of 512 at the end of that MLP
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub layers: u32,
    /// Samples per rank and step
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub local_batch: u64,
    /// Steps
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub steps: u32,
    /// Of all draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The device of every rank
    #[arg(long, default_value = "V100", value_name = "NAME")]
    pub gpu: String,
    /// How to write what was made
    #[command(flatten)]
    pub written: OutputArgs,
}
