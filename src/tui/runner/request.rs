//! What the screen asks to be computed, read or written, and what comes of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::session::{
    Advice, Algorithm, ExportFormat, Loaded, Outcome, PublishedChange, ShardingPlan, Sweep, SweepPoint, Trial,
};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;
use retime_core::units::DurNs;

use crate::tui::listing::{Listing, Sources};
use crate::tui::load::{Open, Second};
use crate::tui::timeline::DensityIndex;
use crate::tui::view_model::ViewModel;
use crate::tui::views::compare::{Compared, SideSource};
use crate::tui::workspace::Opened;

/// What is computed about a scenario of an opened trace, the most urgent first.
#[derive(Clone, Debug)]
pub enum Analysis {
    /// Its iteration; then what each of its steps gains.
    Evaluate,
    /// What each of these steps takes off the iteration on top of it.
    Gains(Vec<String>),
    /// What a paper's algorithm says of it.
    Published(Algorithm),
    /// What comes of each of these edits on top of it.
    Board(Vec<String>),
    /// The iteration over the values of a knob.
    Sweep(Sweep),
    /// The traced placement of embedding tables and that of every sharder.
    Plans,
    /// A better placement than any of those.
    Search,
    /// Edits that make it faster, with a goal those that save this share of the time.
    Advise(Option<f64>),
}

impl Analysis {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// Its place in the order of urgency.
    pub fn place(&self) -> usize {
        match self {
            Self::Evaluate => 0,
            Self::Gains(_) => 1,
            Self::Published(_) => 2,
            Self::Board(_) => 3,
            Self::Sweep(_) => 4,
            Self::Plans => 5,
            Self::Search => 6,
            Self::Advise(_) => 7,
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Request {
    /// Compute something about a scenario of trace `work`, in place of an earlier request for the same that has not
    /// started.
    Analyse {
        /// Which trace.
        work: usize,
        /// Comes back with everything that is found.
        revision: u64,
        /// The scenario.
        scenario: Arc<Scenario>,
        /// What to compute.
        analysis: Analysis,
    },
    /// End an analysis of trace `work` with what it has found.
    Stop {
        /// Which trace.
        work: usize,
        /// What was asked for.
        analysis: Analysis,
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
    /// Compute columns to compare.
    Compare {
        /// Which trace they are shown for.
        work: usize,
        /// What they are computed from.
        sources: Vec<SideSource>,
        /// Position of the one that the others are held against.
        reference: usize,
    },
    /// Open traces.
    Open {
        /// Which.
        open: Open,
        /// How they are read.
        options: OpenOptions,
        /// Which iteration is modelled.
        build: BuildOptions,
        /// Steps to begin with.
        scenario: Scenario,
    },
    /// Model another iteration, or other ranks, of trace `work`.
    Reopen {
        /// Which trace.
        work: usize,
        /// It.
        loaded: Arc<Loaded>,
        /// Which iteration.
        choice: IterationChoice,
        /// The scenario whose ranks are simulated; without one, all are.
        scenario: Option<Arc<Scenario>>,
    },
    /// Let trace `work` draw on a second one.
    Join {
        /// Which trace.
        work: usize,
        /// It.
        loaded: Arc<Loaded>,
        /// The second one.
        path: PathBuf,
        /// What that one is.
        second: Second,
    },
    /// Read a file.
    Read {
        /// Which.
        path: PathBuf,
        /// What it is read for.
        reading: Reading,
    },
    /// Write an outcome to a file.
    Export {
        /// Its trace.
        loaded: Arc<Loaded>,
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
    /// Begin a script that is recorded, in a new file.
    Record(PathBuf),
    /// End a script that is recorded, and see that all of it is in its file.
    EndRecording(Recording),
    /// Add a line to a recorded script.
    Append {
        /// The script.
        path: PathBuf,
        /// The line.
        line: String,
    },
}

/// A script that commands are recorded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Its file.
    pub path: PathBuf,
    /// What was recorded so far.
    pub lines: Vec<String>,
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
    Compared,
    /// Measured runs for the machines that are shown.
    Runs,
}

/// Something that an analysis has found.
#[derive(Debug)]
pub enum Finding {
    /// The scenario's result. Comes twice: at once with its density, then with the steps' gains and the tables.
    Outcome {
        /// The result.
        outcome: Box<Outcome>,
        /// Its times, with the first answer.
        density: Option<Arc<DensityIndex>>,
        /// Its tables, with the second.
        view_model: Option<Arc<ViewModel>>,
    },
    /// What one more step takes off the iteration.
    Gain(String, DurNs),
    /// What a paper's algorithm says of the traced iteration and of the scenario's.
    Published(Box<PublishedChange>),
    /// What came of some edits of the board.
    Trials(Vec<Trial>),
    /// One more point of a sweep.
    Point(Box<SweepPoint>),
    /// One more placement of embedding tables; that of a search comes last.
    Plan(Box<ShardingPlan>),
    /// Placements that the search has tried so far.
    Searched(usize),
    /// Edits that make the scenario faster.
    Advice(Arc<Advice>),
}

/// What comes of a request. Reasons for a failure are one line.
#[derive(Debug)]
pub enum Reply {
    /// Part of an analysis of trace `work`.
    Found {
        /// Which trace.
        work: usize,
        /// Of which request.
        revision: u64,
        /// What was found.
        finding: Finding,
    },
    /// The rows of the tables of trace `work`.
    Listed {
        /// Which trace.
        work: usize,
        /// Of which request.
        ticket: u64,
        /// The rows.
        listing: Result<Box<Listing>, String>,
    },
    /// Columns to compare.
    Compared {
        /// Which trace they are shown for.
        work: usize,
        /// The columns.
        compared: Box<Compared>,
    },
    /// Traces were opened, with the steps to begin with.
    Opened(Result<Vec<Opened>, String>, Scenario),
    /// Another iteration, or other ranks, of trace `work` are modelled.
    Reopened(usize, Result<Box<Opened>, String>),
    /// Trace `work` draws on a second one.
    Joined(usize, Result<Box<Opened>, String>),
    /// A file was read.
    Read {
        /// Its name.
        file: String,
        /// What is in it.
        text: Result<String, String>,
        /// What it was read for.
        reading: Reading,
    },
    /// A script that is recorded was begun.
    Recording(Result<PathBuf, String>),
    /// A file was written: what to say about it, and the steps that are in it.
    Written(Result<String, String>, Option<SavedSteps>),
}
