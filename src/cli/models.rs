//! Arguments of the commands about devices and models: `devices`, `calibrate`, `validate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{OutputArgs, TraceArgs};

/// Arguments of `devices`.
#[derive(Clone, Debug, Args)]
pub struct DevicesArgs {
    /// What to do; lists them without
    #[command(subcommand)]
    pub action: Option<DevicesAction>,
    /// How to write the result
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `devices` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum DevicesAction {
    /// List all profiles
    List(OutputArgs),
    /// All figures of one device with their sources
    Show {
        /// Its name
        name: String,
        /// How to write the result
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Check a device file, and list what of its devices (of all devices without a file) nobody measured, what is taken instead
    /// and how far off that is where it was measured
    Check {
        /// The file
        file: Option<PathBuf>,
        /// How to write the list
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// What `calibrate` makes of measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CalibrateModel {
    /// Parameters by kind of kernel.
    #[default]
    Fitted,
    /// `min(f(k, m, n), OI · M)`: rates of measured products, and the memory's roof.
    Parameterised,
    /// As fitted, with collectives as start, sigmoid and bandwidth by size of message.
    ThreeRegion,
}

/// Arguments of `calibrate`.
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Tables of measurements, plain or gzip: of kernels (microbench.py, NeuSight, aiconfigurator) or of collectives
    /// (nccl-tests, vidur, DeepBench); or of products alone, with columns m, n, k, seconds, and dtype where they are not of
    /// fp32
    #[arg(value_name = "CSV", required = true)]
    pub tables: Vec<PathBuf>,
    /// Device file to write
    #[arg(short, long, value_name = "DEVICE.toml")]
    pub out: PathBuf,
    /// The model: `fitted` by kind of kernel; `parameterised`, which keeps measured products and puts all else under the memory's
    /// roof; or `three-region`, in which collectives take a start, a sigmoid and a bandwidth instead of what was measured
    #[arg(long, value_enum, default_value_t = CalibrateModel::Fitted)]
    pub model: CalibrateModel,
    /// Fit only achieved arithmetic, bandwidth and start cost, to five or more matrix products
    #[arg(long)]
    pub quick: bool,
    /// Try the networks of the paper's grid (3-7 layers of 128-1024, two optimizers, seven rates) instead of three small ones:
    /// hours
    #[arg(long, conflicts_with = "quick")]
    pub paper_grid: bool,
    /// Which device of the tables, where they hold several; or the name of the result
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Known device whose figures hold where nothing was measured
    #[arg(long, value_name = "NAME")]
    pub inherits: Option<String>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// How to write the errors
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `validate`.
#[derive(Clone, Debug, Args)]
pub struct ValidateArgs {
    /// What to check
    #[command(subcommand)]
    pub what: ValidateWhat,
}

/// What `validate` can check.
#[derive(Clone, Debug, Subcommand)]
pub enum ValidateWhat {
    /// Replay error, unexplained time and response of every trace
    Replay(TraceArgs),
    /// Errors of the cost models on tables of measurements (CSV, plain or gzip, or folders of them) and on every kernel of traces;
    /// without any, the errors that the built-in models were shipped with; exit status 1 where a table that was named could not be
    /// used: it is listed, the others are checked
    Models(TraceArgs),
}
