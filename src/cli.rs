//! The command line: what may be asked for, parsed into types. Runs nothing.

use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Args, Command as ClapCommand, FromArgMatches, Parser, Subcommand, ValueEnum};

const AFTER_HELP: &str = "Exit status: 0 fine; 1 could not do it; 2 wrong usage; 3 an expectation failed.\n\
    Without a command the screen opens; without a trace it opens the bundled sample.";

const SCRIPT_HELP: &str = "A script is plain text, one command of the screen's `:` prompt a line; lines that begin with # say nothing:\n\n\
    \x20 open trace.json.gz\n\
    \x20 expect replay_error within 1%\n\
    \x20 step scale kind=T1 x0.5\n\
    \x20 batch 4096\n\
    \x20 expect iteration < 40ms\n\
    \x20 export! report.md\n\n\
    Figures: iteration, measured, base, gain, replay_error, unexplained, unmodelled, gpu_busy, gpu_active, kernel_only,\n\
    memory, batch, ranks. Tests: <, <=, >, >=, =, within PERCENT [of VALUE]. On the screen, :record FILE writes such a\n\
    script and :source FILE plays one. Exit status 3 when an expectation fails, 1 when a line cannot be carried out.";

/// Re-time a traced ML model: edit the model or the machine, see the iteration re-timed.
#[derive(Debug, Parser)]
#[command(name = "retime", version, about, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Traces to open on the screen: files, globs, or folders (all ranks in it)
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Iteration to model: an index from 0, `median`, or `all` (simulate, path, gaps, breakdown)
    #[arg(long, value_name = "N", default_value = "default", hide_default_value = true, global = true)]
    pub iteration: Iteration,
    /// Theme of the screen: dark, light, high-contrast, colour-blind-safe, 16-colour, or one of your own
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
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
    #[command(visible_alias = "predict")]
    Simulate(ScenarioCommand),
    /// The critical path of the (edited) iteration
    Path(PathArgs),
    /// Idle intervals of the device streams, longest first, each with its cause
    Gaps(ScenarioCommand),
    /// Operators or kernels with host and device time
    Ops(OpsArgs),
    /// The across-stack analyses: layers, layer types, kernels, stages; several runs become trimmed means
    Layers(LayersArgs),
    /// Kernels, operators or the model under the memory and communication rooflines
    Roofline(RooflineArgs),
    /// Device time per stream by kernel family, and idle time
    Breakdown(ScenarioCommand),
    /// Host overheads T1 to T5 per operator
    Overheads(OverheadsArgs),
    /// Which of two traces or scenarios is faster, and by which operators
    Compare(CompareArgs),
    /// Iteration time and throughput over batch sizes
    Sweep(SweepArgs),
    /// Every edit tried alone and the best together, what a goal takes, what the iteration is sensitive to
    Advise(AdviseArgs),
    /// Write the traces of a made-up multi-rank DLRM job
    #[command(hide = true)]
    Generate(GenerateArgs),
    /// Embedding tables by rank, and what other placements would take
    Tables(TablesArgs),
    /// Write the (edited) timeline to a file
    Export(ExportArgs),
    /// Play a script of commands, one a line, with `expect` lines; no screen
    #[command(after_help = SCRIPT_HELP)]
    Run(RunArgs),
    /// Known devices: list, show one, or check a file
    Devices(DevicesArgs),
    /// Fit cost models and collective curves of a device to measurements, into a device file
    Calibrate(CalibrateArgs),
    /// Check the replay of traces against what was measured
    Validate(ValidateArgs),
    /// List the edits that `--step` understands
    Transforms(OutputArgs),
    /// Shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The manual page, in roff
    Man,
}

/// How results are written.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Write one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Write comma-separated values
    #[arg(long)]
    pub csv: bool,
}

/// Traces and an output format.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// Files, globs, or folders (all ranks in it); none = the bundled sample
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
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
    /// What the trace does not record of its embedding tables (TOML); else `tables.toml` beside it
    #[arg(long, value_name = "FILE")]
    pub table_facts: Option<PathBuf>,
    /// A second trace of the model at another batch size: `resize-batch` takes dimensions and times from both
    #[arg(long, value_name = "TRACE")]
    pub learn: Option<PathBuf>,
}

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

/// One edit as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A step in its one-line form.
    Step(String),
    /// A scenario file whose steps follow.
    File(PathBuf),
}

/// Edits in the order they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioArgs {
    /// In order.
    pub edits: Vec<Edit>,
    /// Go on where it would refuse: use a scenario file of another trace, replace an existing file.
    pub force: bool,
}

impl FromArgMatches for ScenarioArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, Edit)> = Vec::new();
        let mut gather = |id: &str, edit: &dyn Fn(&str) -> Edit| {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            found.extend(matches.indices_of(id).into_iter().flatten().zip(values.map(|value| edit(value))));
        };
        gather("step", &|value| Edit::Step(value.to_owned()));
        gather("batch", &|value| Edit::Step(format!("resize-batch {value}")));
        gather("gpu", &|value| Edit::Step(format!("swap-gpu {value}")));
        gather("scenario", &|value| Edit::File(PathBuf::from(value)));
        found.sort_by_key(|&(index, _)| index);
        let overheads = matches.get_one::<String>("overheads").filter(|&source| source != "measured");
        let first = overheads.map(|source| Edit::Step(format!("overheads {source}")));
        let edits = first.into_iter().chain(found.into_iter().map(|(_, edit)| edit)).collect();
        Ok(Self { edits, force: matches.get_flag("force") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ScenarioArgs {
    fn augment_args(command: ClapCommand) -> ClapCommand {
        let edit = |id: &'static str, value: &'static str, help: &'static str| {
            clap::Arg::new(id).long(id).value_name(value).help(help).action(ArgAction::Append)
        };
        command
            .arg(edit("step", "LINE", "An edit, e.g. \"scale kind=kernel x0.5\"; may be repeated, applied in order"))
            .arg(edit("batch", "N", "Short for --step \"resize-batch N\""))
            .arg(edit("gpu", "NAME", "Short for --step \"swap-gpu NAME\""))
            .arg(clap::Arg::new("overheads").long("overheads").value_name("SOURCE").help(
                "Host overheads T1 to T5: measured (each call's own), mean (of its operator), or a file of \
                     `overheads --save`; short for a first --step \"overheads SOURCE\"",
            ))
            .arg(edit("scenario", "FILE", "The steps of a scenario file; one made for another trace needs --force"))
            .arg(
                clap::Arg::new("force")
                    .long("force")
                    .action(ArgAction::SetTrue)
                    .help("Use a scenario file of another trace and say what matched; replace an existing file"),
            )
    }

    fn augment_args_for_update(command: ClapCommand) -> ClapCommand {
        Self::augment_args(command)
    }
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
    /// The runs, and how to write
    #[command(flatten)]
    pub input: TraceArgs,
    /// Take the largest batch within this latency as the optimal one
    #[arg(long, value_name = "MS")]
    pub latency_ms: Option<f64>,
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
    /// Roofs of this device instead of the trace's own
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Peak arithmetic rate of a hypothetical device
    #[arg(long, value_name = "TFLOPS")]
    pub peak: Option<f64>,
    /// Its memory bandwidth
    #[arg(long, value_name = "GB/S")]
    pub bandwidth: Option<f64>,
    /// Its network bandwidth
    #[arg(long, value_name = "GB/S")]
    pub network: Option<f64>,
    /// Show seven distributed algorithms under the same roofs
    #[arg(long)]
    pub algorithms: bool,
    /// Their problem size
    #[arg(long, value_name = "N", default_value_t = 4096.0)]
    pub size: f64,
    /// Their processes
    #[arg(long, value_name = "P", default_value_t = 128.0)]
    pub processes: f64,
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
    /// Merge these databases in first
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub merge: Vec<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `sweep`.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// A knob and its values, e.g. `--knob dram_bw 0.5..4x10`; several knobs make a grid. `--batch 64..16384` doubles.
    /// Knobs: batch, ranks, bucket, accumulate, dram_bw, flops, link, host_link, or a selector, whose tasks are scaled
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

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// A trace (file or folder), or a scenario file (.toml)
    pub a: PathBuf,
    /// Another; without it A with edits is compared with A without. Of a scenario and a trace the one is applied to the other
    pub b: Option<PathBuf>,
    /// The trace that two scenario files are applied to; without it the bundled sample
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    pub on: Vec<PathBuf>,
    /// A row for each call in order, instead of one for each operator
    #[arg(long)]
    pub calls: bool,
    /// Edits: of B without a second trace, of A against what was measured in B; under both scenarios
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// How to write the result
    #[command(flatten)]
    pub output: OutputArgs,
}

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

/// Arguments of `tables`.
#[derive(Clone, Debug, Args)]
pub struct TablesArgs {
    /// What to open, edit and write
    #[command(flatten)]
    pub common: ScenarioCommand,
    /// Sharder to try, `best` for a search, or `all`
    #[arg(long, value_name = "NAME")]
    pub sharder: Option<String>,
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
    /// Mean tables per rank
    #[arg(long, default_value_t = 13, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tables_per_rank: u32,
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
}

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
    /// Check a device file
    Check {
        /// The file
        file: PathBuf,
    },
}

/// Arguments of `calibrate`.
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// Tables of measurements, plain or gzip: of kernels (microbench.py, NeuSight, aiconfigurator) or of collectives
    /// (nccl-tests, vidur, DeepBench)
    #[arg(value_name = "CSV", required = true)]
    pub tables: Vec<PathBuf>,
    /// Device file to write
    #[arg(short, long, value_name = "DEVICE.toml")]
    pub out: PathBuf,
    /// Fit only achieved arithmetic, bandwidth and floor, to five or more matrix products
    #[arg(long)]
    pub quick: bool,
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
    /// Errors of the cost models on tables of measurements (CSV, plain or gzip)
    Models(TraceArgs),
    /// Edits against measurements: a manifest of captures, or folders with captures, trace pairs and published times
    Whatif(TraceArgs),
    /// The figures of the papers that the models are from, against what the models here give
    Papers(PapersArgs),
}

/// Arguments of `validate papers`.
#[derive(Clone, Debug, Args)]
pub struct PapersArgs {
    /// A table of end-to-end errors read off Lin 2022 Fig. 9 (columns `gpu`, `err_gpu_active_pct`, `err_e2e_pct`,
    /// `err_e2e_shared_overheads_pct`), to be summed up beside Table V
    #[arg(long, value_name = "CSV")]
    pub figures: Option<PathBuf>,
    /// How to write the result
    #[command(flatten)]
    pub output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn edits(line: &str) -> Vec<Edit> {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Some(Command::Simulate(args)) => args.scenario.edits,
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
        assert_eq!(
            edits("retime predict t.json --gpu H200 --batch 64 --step undo --gpu A100 --json"),
            [step("swap-gpu H200"), step("resize-batch 64"), step("undo"), step("swap-gpu A100")]
        );
        let first = edits("retime simulate t.json --batch 64 --overheads mean");
        assert_eq!(first, [step("overheads mean"), step("resize-batch 64")]);
        assert_eq!(edits("retime simulate t.json --overheads measured"), []);
    }

    #[test]
    fn a_path_without_a_command_opens_the_screen() {
        let cli = Cli::try_parse_from(["retime", "a.json", "b.json"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.traces.len(), 2);
    }
}
