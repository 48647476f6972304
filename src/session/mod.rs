//! What a front end holds: opened traces with their graphs, evaluated scenarios, background work, files to write.
//!
//! Knows no screen and no command line; both are built on it.

mod advise;
mod communication;
mod compare;
mod databases;
mod engine;
mod error;
mod expectation;
mod export;
mod files;
mod job_tables;
mod keeper;
mod loaded;
pub mod memory;
mod outcome;
pub mod sample;
mod saved;
mod script;
mod sharding;
mod steps;
mod summary;
mod sweep;
mod sweep_run;
pub mod synthetic;
mod table_facts;
mod untimed;

pub use advise::{Advice, AdvisedOption, Goal, Sensitivity, alike, parse_target};
pub use communication::{CollectiveReport, Communication, Participation, RankReport, Why};
pub use compare::{
    Board, BoardRow, Column, ComparedKind, ComparedRow, Comparison, Contribution, Difference, Faster, Presence, Score,
    Side, SideFigures,
};
pub use databases::read as read_overheads;
pub use engine::Engine;
pub use error::SessionError;
pub use expectation::{Expectation, Verdict};
pub use export::{ExportFormat, Exported, TaskRow, Timeline, export_comparison, lane_label};
pub use files::{append, csv_field, folders_of_traces, read_table, read_text, tables_in, write_new};
pub use job_tables::{JobTables, RankLoad};
pub use keeper::Keeper;
pub use loaded::Loaded;
pub use memory::{KindBytes, MemorySummary, RankMemorySummary};
pub use outcome::{Outcome, StepOutcome};
pub use saved::{SavedSession, Sessions, chosen_iteration, trace_fingerprint};
pub use script::{Played, ScriptLine, Status, script_lines};
pub use sharding::{Pick, SEARCH_BUDGET, Sharding, ShardingPlan, judge};
pub use summary::{Cut, ErrorBand, RankSummary, Straggler, Summary};
pub use sweep::{
    Along, PathChange, Sweep, SweepPoint, along, grid, is_mostly_unhandled, memory_limit, none_fits, optimal_batch,
    path_changes, place, still_gains,
};
pub use sweep_run::SweepRun;
pub use table_facts::read_table_facts;
