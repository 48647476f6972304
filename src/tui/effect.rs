//! What an update asks of the world outside.

use std::path::PathBuf;
use std::sync::Arc;

use crate::session::{ExportFormat, Outcome, Sweep};
use retime_core::graph::IterationChoice;
use retime_core::scenario::Scenario;

use super::compare::SideSource;
use super::listing::Sources;

/// Done by the program after an update, never by the update.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Give the terminal back and stop until continued.
    Suspend,
    /// Forget what is on the screen and draw all of it.
    Redraw,
    /// Capture the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Put text on the clipboard (OSC 52).
    Copy(String),
    /// Stop loading.
    CancelLoading,
    /// Open more traces.
    Open(Vec<PathBuf>),
    /// Write an outcome of trace `work` to a file.
    Export {
        /// Which trace.
        work: usize,
        /// What to write.
        outcome: Arc<Outcome>,
        /// What stands beside it in a report.
        sources: Vec<SideSource>,
        /// As what.
        format: ExportFormat,
        /// Where to.
        path: PathBuf,
        /// Whether an existing file may be replaced.
        force: bool,
    },
    /// Write a text to a file.
    Write {
        /// Where to.
        path: PathBuf,
        /// What.
        text: String,
        /// Whether an existing file may be replaced.
        force: bool,
        /// The steps that are in it, where it is a scenario file.
        saves: Option<SavedSteps>,
    },
    /// Add a line to a recorded script.
    Append {
        /// The script.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// Read a file.
    Read {
        /// Which.
        path: PathBuf,
        /// What it is read for.
        reading: Reading,
    },
    /// Re-time a scenario of trace `work`.
    Evaluate {
        /// Which trace.
        work: usize,
        /// Comes back with the result.
        revision: u64,
        /// What to evaluate.
        scenario: Arc<Scenario>,
    },
    /// Sort and filter the tables of trace `work`.
    List {
        /// Which trace.
        work: usize,
        /// Comes back with the rows.
        ticket: u64,
        /// What they are made from.
        sources: Box<Sources>,
    },
    /// Model another iteration, or other ranks, of trace `work`.
    Reopen {
        /// Which trace.
        work: usize,
        /// Which iteration.
        choice: IterationChoice,
        /// The scenario whose ranks are simulated; without one, all are.
        scenario: Option<Arc<Scenario>>,
    },
    /// Let trace `work` learn from a second trace of its model at another batch size.
    Learn {
        /// Which trace.
        work: usize,
        /// The second one.
        path: PathBuf,
    },
    /// The graph of trace `work` is another: what computed on the old one is of no use.
    Renew {
        /// Which trace.
        work: usize,
    },
    /// Find out what each of some steps would gain.
    Gains {
        /// Which trace.
        work: usize,
        /// Comes back with each gain.
        revision: u64,
        /// What the steps are added to.
        scenario: Arc<Scenario>,
        /// The steps, each as a line.
        lines: Vec<String>,
    },
    /// Evaluate the sharders' placements of embedding tables.
    Plans {
        /// Which trace.
        work: usize,
        /// Comes back with each plan.
        revision: u64,
        /// What the plans come on top of.
        scenario: Arc<Scenario>,
    },
    /// Search for a better placement than theirs.
    Search {
        /// Which trace.
        work: usize,
        /// Comes back with the progress and with the plan.
        revision: u64,
        /// What the plans come on top of.
        scenario: Arc<Scenario>,
    },
    /// End the search with what it has found.
    StopSearch {
        /// Of which trace.
        work: usize,
    },
    /// Compute columns to compare.
    Compare {
        /// Which trace they are shown for.
        work: usize,
        /// What they are computed from.
        sources: Vec<SideSource>,
        /// Position of the one that the others are held against.
        reference: usize,
    },
    /// Look for no more advice.
    StopAdvice {
        /// Of which trace.
        work: usize,
    },
    /// Find edits that make a scenario faster.
    Advise {
        /// Which trace.
        work: usize,
        /// Comes back with the advice.
        revision: u64,
        /// On top of what.
        scenario: Arc<Scenario>,
        /// The share of the time to save, where there is a goal.
        target: Option<f64>,
    },
    /// Evaluate a scenario over the values of a knob.
    Sweep {
        /// Which trace.
        work: usize,
        /// Comes back with each point.
        revision: u64,
        /// What the knob is applied to.
        scenario: Arc<Scenario>,
        /// The knob.
        sweep: Sweep,
    },
}

/// The steps of a trace that are in a file, once that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSteps {
    /// Which trace.
    pub work: usize,
    /// Its steps, as lines.
    pub steps: Vec<String>,
}

/// What a file is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Commands to play.
    Script,
    /// Steps to put in force.
    Scenario {
        /// Even if they were made for another trace.
        force: bool,
    },
    /// A scenario to compare with.
    Beside,
}
