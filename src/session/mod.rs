//! What a front end holds: opened traces with their graphs, evaluated scenarios, background work, files to write.
//!
//! Knows no screen and no command line; both are built on it.

mod advise;
mod board;
mod ceiling;
mod communication;
mod compare;
mod drawn_on;
mod error;
mod expectation;
mod export;
mod files;
mod job_tables;
mod keeper;
mod layer_study;
mod layers;
mod lock;
mod log;
mod measured_runs;
mod memory_change;
mod published;
mod roofline_figure;
pub mod sample;
mod saved;
mod script;
mod sharding;
mod short_name;
mod steps;
mod sweep;
mod sweep_run;
pub mod synthetic;
mod waiting;
mod writing;

pub use retime_core::engine::{
    DeviceTime, Engine, EngineError, ErrorBand, LaneLabels, Loaded, Outcome, PeriodShift, RankSummary, StepOutcome,
    Straggler, Summary, TaskRow, Timeline, Told, read_overheads, read_table_facts, read_text,
};
pub use retime_core::memory::{KindBytes, MemorySummary, RankMemorySummary};

pub use advise::{Advice, AdvisedOption, Goal, Sensitivity, advise, advise_live, alike, parse_target};
pub use board::{Change, Section, Trial, Trials, candidates, number_of, put};
pub use ceiling::{default_max_memory, give_back_memory, return_large_blocks};
pub use communication::{CollectiveReport, Communication, LateReason, Participation, RankReport};
pub use compare::{
    Column, ComparedKind, ComparedRow, Comparison, ComparisonTable, ComparisonTableRow, Contribution, DiffStatus,
    Difference, Faster, Score, Side, SideFigures,
};
pub use drawn_on::{DrawnOn, learn};
pub use error::SessionError;
pub use expectation::{Expectation, Verdict};
pub use export::{ExportFormat, Exported, escaped, export, export_comparison, export_to, opened_again};
pub use files::{column_for_people, csv_field, folders_of_traces, read_table, tables_in, why_not_on_screen};
pub use job_tables::{JobTables, RankLoad};
pub use keeper::Keeper;
pub use layer_study::{ANALYSES, LayerStudy, StudyTable, study_title};
pub use layers::{first_trace, layer_table, recorded};
pub use log::{log_failure, log_to};
pub use measured_runs::measured_runs;
pub use memory_change::{HeldGroup, MemoryChange, MemoryOverTime};
pub use published::{Algorithm, Published, PublishedChange};
pub use roofline_figure::{Figure, FigurePoint, FigureSystem, roofline_figure};
pub use saved::{SavedSession, Sessions, chosen_iteration, is_fingerprint, trace_fingerprint};
pub use script::{Played, ScriptLine, Status, script_lines};
pub use sharding::{Pick, SEARCH_BUDGET, Sharding, ShardingPlan, judge};
pub use short_name::{name_for_people, short_name, telling_name};
pub use steps::read_scenario;
pub use sweep::{
    PathChange, Sweep, SweepPoint, SweepSlice, count, grid, has_unmodelled, knobs, memory_limit, none_fits,
    optimal_batch, path_changes, place, put_value, slices, still_gains,
};
pub use sweep_run::SweepRun;
pub use waiting::let_signals_wait;
pub use writing::{Overwrite, append, begin_recording, end_recording, is_same_file, write_files, write_new};
