//! What `--help` ends with: examples that run as they stand on the bundled traces, and how lines are written.

/// Of the program.
pub const PROGRAM: &str = "\
Examples:
  retime                                     the bundled sample on the screen; ? lists the keys
  retime trace.json.gz                       your own; one file per rank, or their folder, is one job
  retime simulate trace.json.gz --batch 1024 --gpu H200
  retime gaps trace.json.gz                  why the device was idle, and what would close it
  retime advise trace.json.gz                edits worth making

Without a command the screen opens; without a trace it opens the bundled sample.
Times are in integer nanoseconds and shares are fractions in --json. Settings, themes and keys: $XDG_CONFIG_HOME/retime.
Exit status: 0 fine; 1 could not do it; 2 wrong usage; 3 an expectation failed.";

/// Of `simulate`.
pub const SIMULATE: &str = "\
Examples:
  retime simulate trace.json.gz --batch 1024 --gpu H200
  retime simulate trace.json.gz --step 'scale family=gemm & phase=backward x0.5' --step fuse-optimizer
  retime simulate trace.json.gz --iteration all --json
  retime simulate trace.json.gz --as lin2022                    the paper's algorithm beside ours

`retime transforms` lists the edits with an example of each; `scale`, `remove` and others take a selector:
kind, name, kernel, module, family, phase, rank, stream, dur … joined by & | ! and parentheses.";

/// Of `path`.
pub const PATH: &str = "\
Kinds of host time: T1 between operators, T2 in an operator before its launch, T3 after its last launch, T4 the runtime
call itself, T5 inside an operator that launches nothing.";

/// Of `ops`.
pub const OPS: &str = "\
Examples:
  retime ops trace.json.gz --level kernel --sort deviation      kernels slower than their model says
  retime ops trace.json.gz --select 'phase=backward & dur>50us'";

/// Of `sweep`.
pub const ROOFLINE: &str = "\
Examples:
  retime roofline trace.json.gz --device H200
  retime roofline --system Big-Red-II --system Karst --system Jetstream --algorithm fft --size 256..536870912
  retime roofline --system mine=22,13.9,1.2 --algorithms --size 1048576 --svg mine.svg";

pub const SWEEP: &str = "\
Examples:
  retime sweep trace.json.gz --batch 64..4096                   doubling
  retime sweep trace.json.gz --knob dram_bw 0.5..4x10           ten values
  retime sweep trace.json.gz --batch 64..4096 --knob 'family=gemm' 1,0.5
  retime sweep trace.json.gz --batch 64..4096 --shard 1/4 --json > part1.json";

/// Of `compare`.
pub const COMPARE: &str = "\
Examples:
  retime compare before.json.gz after.json.gz                   which is faster beyond the error, and by what
  retime compare trace.json.gz --gpu H200                       with the edit against without
  retime compare old.json.gz new.json.gz --batch 256            what a prediction was worth
  retime compare a.toml b.toml --on trace.json.gz               two scenarios";

/// Of `advise`.
pub const ADVISE: &str = "\
Examples:
  retime advise trace.json.gz
  retime advise trace.json.gz --gpu H200 --target -20%          what else, on that device, saves a fifth";

/// Of `generate`.
pub const GENERATE: &str = "\
Examples:
  retime generate --ranks 8 --tables-per-rank 13 --seed 1 -o job/
  retime tables job/ --sharder all                              the sharders on the job's tables

Rows and look-ups per bag of each table are drawn evenly in their logarithm; rows have 64 elements. tables.toml beside the
traces holds what was drawn. Times are predictions for the device of --gpu, and the traces say so.";

/// Of `tables`.
pub const TABLES: &str = "\
Examples:
  retime tables folder/                                         one trace per rank
  retime tables folder/ --sharder all                           the sharders side by side, and the best that is found
  retime tables folder/ --step 'reshard-tables t3:r1'";

/// Of `export`.
pub const EXPORT: &str = "\
Examples:
  retime export trace.json.gz --gpu H200 -o edited.json         opens in Perfetto, and in retime
  retime export trace.json.gz --batch 1024 -o report.md         or .html, .svg, .csv";

/// Of `devices`.
pub const DEVICES: &str = "\
Examples:
  retime devices show H100                                      all figures, each with its source
  retime devices check mine.toml                                what a file says, and what it leaves unmeasured

A device of your own is a file in $XDG_CONFIG_HOME/retime/devices: a known one and what differs, each figure by the
name that `devices show` lists it under:

  [H100-overclocked]
  inherits = \"H100\"
  [H100-overclocked.figures]
  clock_mhz = 2100
  dram_gb_s = 3700
  [H100-overclocked.peak_tflops]
  bf16_tensor = 1050
  [H100-overclocked.sources]
  default = \"our machine room\"";

/// Of `calibrate`.
pub const CALIBRATE: &str = "\
Examples:
  retime calibrate microbench.csv --inherits A100-80 -o mine.toml
  retime calibrate --quick gemm.csv --inherits H100-SXM --device MyGPU -o mine.toml

Files in $XDG_CONFIG_HOME/retime/devices are known by their devices' names from then on.";

/// Of `run`.
pub const RUN: &str = "\
A script is plain text, one command of the screen's `:` prompt a line; lines that begin with # say nothing:

  open trace.json.gz
  expect replay_error within 1%
  step scale kind=T1 x0.5
  batch 4096
  expect iteration < 40ms
  export! report.md

Figures: iteration, window, measured, base, gain, replay, replay_error, unexplained, not-modelled, gpu_busy, gpu_active,
kernel_only, memory, batch, ranks. Tests: <, <=, >, >=, =, within PERCENT [of VALUE]. A step that has no effect fails,
unless the line after it is `expect no-effect`. On the screen, :record FILE writes such a script and :source FILE plays
one. Exit status 3 when an expectation fails, 1 when a line cannot be carried out.";
