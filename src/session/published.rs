//! A paper's algorithm on an iteration as edited, beside our own replay.

use serde::Serialize;

use retime_core::analysis::edited::Edited;
use retime_core::analysis::published::{RankOps, aligned, one_device, recorded_ops, several_ranks};
use retime_core::units::DurNs;

use super::{Loaded, Outcome};

/// A published algorithm for an iteration's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Lin 2022, Algorithm 1: one thread and one stream.
    Lin2022,
    /// Lin 2024, Algorithm 1: ranks with a compute and a communication stream each.
    Lin2024,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Lin2022, Self::Lin2024];

    /// Its name, as people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lin2022 => "Lin 2022",
            Self::Lin2024 => "Lin 2024",
        }
    }

    /// Its name, as people type it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Lin2022 => "lin2022",
            Self::Lin2024 => "lin2024",
        }
    }
}

/// What the algorithm says.
#[derive(Clone, Debug, Serialize)]
pub struct Published {
    /// Which.
    pub algorithm: Algorithm,
    /// The iteration.
    pub simulated_ns: DurNs,
    /// Against the measured iteration, where no edit changes it.
    pub error: Option<f64>,
    /// Operators of the rank that takes longest.
    pub operators: usize,
    /// The kernels of all of them.
    pub kernels: usize,
    /// Host time between operators that the algorithm does not know.
    pub left_out_ns: DurNs,
    /// Device work without a recorded launch.
    pub not_launched_ns: DurNs,
    /// Every rank by itself.
    pub ranks: Vec<RankAlone>,
}

/// A rank by itself, as of the algorithm for one device.
#[derive(Clone, Debug, Serialize)]
pub struct RankAlone {
    rank: u32,
    simulated_ns: DurNs,
}

impl Published {
    /// The iteration of `outcome`.
    ///
    /// # Errors
    /// The ranks do not take part in the same collectives.
    ///
    /// # Complexity
    /// O(tasks · log tasks).
    pub fn of(algorithm: Algorithm, loaded: &Loaded, outcome: &Outcome, edited: &Edited) -> Result<Self, String> {
        let ranks = recorded_ops(edited, &outcome.resolved);
        let alone: Vec<DurNs> = ranks.iter().map(|rank| one_device(&rank.ops)).collect();
        let simulated_ns = match algorithm {
            Algorithm::Lin2022 => alone.iter().copied().max().unwrap_or_default(),
            Algorithm::Lin2024 => several_ranks(&aligned(&ranks)?),
        };
        let longest = ranks.iter().zip(&alone).max_by_key(|&(_, time)| time).map(|(rank, _)| rank);
        let none = RankOps::default();
        let longest = longest.unwrap_or(&none);
        let measured = outcome.summary.measured_ns;
        let is_untouched = outcome.steps.is_empty() && loaded.predicted().is_none() && measured.0 > 0;
        let parts = edited.graph.ranks.iter();
        Ok(Self {
            algorithm,
            simulated_ns,
            error: is_untouched.then(|| simulated_ns.0 as f64 / measured.0 as f64 - 1.0),
            operators: longest.ops.len(),
            kernels: longest.ops.iter().map(|op| op.kernels.len()).sum(),
            left_out_ns: longest.left_out,
            not_launched_ns: longest.not_launched,
            ranks: parts.zip(alone).map(|(part, simulated_ns)| RankAlone { rank: part.rank.0, simulated_ns }).collect(),
        })
    }
}

/// What an algorithm says of the traced iteration and of a scenario's.
#[derive(Debug)]
pub struct PublishedChange {
    /// Which.
    pub algorithm: Algorithm,
    /// Without the edits.
    pub before: Result<Published, String>,
    /// With them.
    pub after: Result<Published, String>,
}

impl PublishedChange {
    /// Of `outcome`.
    pub fn of(algorithm: Algorithm, loaded: &Loaded, outcome: &Outcome) -> Self {
        let said = |outcome: &Outcome| Published::of(algorithm, loaded, outcome, &Edited::of(&outcome.resolved));
        Self { algorithm, before: said(&loaded.replay), after: said(outcome) }
    }
}
