//! The command line: what may be asked for, parsed into types. Runs nothing.

mod analyses;
mod edits;
mod examples;
mod files;
mod models;
mod planning;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use analyses::{
    Algorithm, LayersArgs, OpsArgs, OpsGroup, OpsLevel, OpsOrder, OverheadsArgs, PathArgs, RooflineArgs, SimulateArgs,
};
pub use edits::{Edit, ScenarioArgs};
pub use files::{ExportArgs, ExportKind, GenerateArgs, RunArgs};
pub use models::{CalibrateArgs, CalibrateModel, DevicesAction, DevicesArgs, ValidateArgs, ValidateWhat};
pub use planning::{AdviseArgs, CompareArgs, CompareOrder, SweepArgs, TablesArgs};

/// Re-time a traced ML model: edit the model or the machine, see the iteration re-timed.
#[derive(Debug, Parser)]
#[command(name = "retime", version, about, after_help = examples::PROGRAM, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Traces to open on the screen: files, globs, or folders (all ranks in it)
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Step to model: its index from 0 as `info` lists them, `median`, or `all` (simulate, path, gaps, breakdown, layers)
    #[arg(
        long,
        value_name = "N",
        help_heading = "Input and output",
        default_value = "default",
        hide_default_value = true,
        global = true
    )]
    pub iteration: Iteration,
    /// Most memory to use, e.g. 4GiB; what needs more is refused. Default: three quarters of what this process may have
    #[arg(long, value_name = "SIZE", help_heading = "Input and output", global = true)]
    pub max_memory: Option<String>,
    /// A recording of the run that captured the graphs which the trace replays: their kernels get its operators; may be repeated
    #[arg(long, value_name = "TRACE", help_heading = "Input and output", global = true)]
    pub capture: Vec<PathBuf>,
    /// Write what is done, and how long it takes, to the end of FILE
    #[arg(long, value_name = "FILE", help_heading = "Input and output", global = true)]
    pub log: Option<PathBuf>,
    /// Theme of the screen: dark, light, high-contrast, colour-blind-safe, 16-colour, or one of your own
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
    /// Show on the screen what the algorithm of a paper says beside our own replay
    #[arg(long = "as", value_name = "PAPER", value_enum)]
    pub algorithm: Option<Algorithm>,
    /// Start over: do not resume the last session with these traces
    #[arg(long)]
    pub fresh: bool,
    /// What to do instead of opening the screen
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Which recorded step is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Iteration {
    /// The step with the lower median duration among those recorded whole.
    #[default]
    Default,
    /// The step at this index, from 0.
    Index(usize),
    /// Every step, one after the other.
    All,
}

impl std::str::FromStr for Iteration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" | "median" => Ok(Self::Default),
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Index).map_err(|_| "expected an index from 0, `median`, or `all`".to_owned()),
        }
    }
}

/// The commands without a screen.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What is in a trace: ranks, events, streams, iterations, shapes
    Info(TraceArgs),
    /// Re-time the iteration with edits applied
    #[command(visible_alias = "predict", after_help = examples::SIMULATE)]
    Simulate(SimulateArgs),
    /// The critical path of the (edited) iteration
    #[command(after_help = examples::PATH)]
    Path(PathArgs),
    /// Idle intervals of the device streams, longest first, each with its cause
    Gaps(ScenarioCommand),
    /// Operators or kernels with host and device time
    #[command(after_help = examples::OPS)]
    Ops(OpsArgs),
    /// The across-stack analyses: layers, layer types, kernels, stages; several runs become trimmed means
    Layers(LayersArgs),
    /// Kernels, operators or the model under the memory and communication rooflines; or machines alone
    #[command(after_help = examples::ROOFLINE)]
    Roofline(RooflineArgs),
    /// Device time per stream by kernel family, and idle time
    Breakdown(ScenarioCommand),
    /// Host overheads T1 to T5 per operator
    Overheads(OverheadsArgs),
    /// Which of two traces or scenarios is faster, and by which operators
    #[command(after_help = examples::COMPARE)]
    Compare(CompareArgs),
    /// Iteration time, throughput and memory over batch sizes or any other knob
    #[command(after_help = examples::SWEEP)]
    Sweep(SweepArgs),
    /// Every edit tried alone and the best together, what a goal takes, what the iteration is sensitive to
    #[command(after_help = examples::ADVISE)]
    Advise(AdviseArgs),
    /// Write the traces of a made-up multi-rank DLRM job, its embedding tables drawn at random
    #[command(after_help = examples::GENERATE)]
    Generate(GenerateArgs),
    /// Embedding tables by rank, and what other placements would take
    #[command(after_help = examples::TABLES)]
    Tables(TablesArgs),
    /// Write the (edited) timeline to a file
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Play a script of commands, one a line, with `expect` lines; no screen
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Known devices: list, show one, or check a file
    #[command(after_help = examples::DEVICES)]
    Devices(DevicesArgs),
    /// Fit cost models and collective curves of a device to measurements, into a device file
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(CalibrateArgs),
    /// How far replays and cost models are from what was measured
    Validate(ValidateArgs),
    /// The edits that `--step` and the screen's `:` understand, each with an example
    Transforms(OutputArgs),
    /// Shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The manual page, in roff, or that of one command: retime man simulate | man -l -
    Man {
        /// The command
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

/// How results are written.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Write one JSON object
    #[arg(long, conflicts_with = "csv", help_heading = "Input and output")]
    pub json: bool,
    /// Write comma-separated values
    #[arg(long, help_heading = "Input and output")]
    pub csv: bool,
}

/// Traces and an output format.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// Files, globs, or folders (all ranks in it); none = the bundled sample
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Simulate every rank on its own, also those that did the same
    #[arg(long, help_heading = "Input and output")]
    pub all_ranks: bool,
    /// The device of a trace that does not name its own; of `roofline` the one whose roofs are shown
    #[arg(long, value_name = "NAME", help_heading = "Input and output")]
    pub device: Option<String>,
    /// How to write the result
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Traces, edits and an output format.
#[derive(Clone, Debug, Args)]
pub struct ScenarioCommand {
    /// What to open and how to write
    #[command(flatten)]
    pub input: TraceArgs,
    /// The edits
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// What the trace does not record of its embedding tables and collectives (TOML); else `tables.toml` beside it
    #[arg(long = "facts", alias = "table-facts", value_name = "FILE", help_heading = "Edits")]
    pub table_facts: Option<PathBuf>,
    /// A second trace of the model at another batch size: `resize-batch` takes dimensions and times from both
    #[arg(long, value_name = "TRACE", help_heading = "Edits")]
    pub learn: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn edits(line: &str) -> Vec<Edit> {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Some(Command::Simulate(args)) => args.common.scenario.edits,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn edits_keep_the_order_they_were_given_in() {
        let step = |line: &str| Edit::Step(line.to_owned());
        let batch = |size: &str| Edit::Batch(size.to_owned());
        assert_eq!(
            edits("retime predict t.json --gpu H200 --batch 64 --step undo --gpu A100 --json"),
            [step("swap-gpu H200"), batch("64"), step("undo"), step("swap-gpu A100")]
        );
        let first = edits("retime simulate t.json --batch 64 --overheads mean");
        assert_eq!(first, [step("overheads mean"), batch("64")]);
        assert_eq!(edits("retime simulate t.json --overheads measured"), []);
    }

    #[test]
    fn a_path_without_a_command_opens_the_screen() {
        let cli = Cli::try_parse_from(["retime", "a.json", "b.json"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.traces.len(), 2);
    }
}
