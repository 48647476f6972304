//! `simulate --as`: a paper's algorithm on the same iteration, beside our own replay.

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::Algorithm;
use retime_core::analysis::published::{RankOps, aligned, one_device, recorded_ops, several_ranks};
use retime_core::units::{DurNs, Percent};

use super::opened::Opened;

/// What the algorithm says.
#[derive(Debug, Serialize)]
pub struct Published {
    algorithm: Algorithm,
    simulated_ns: DurNs,
    /// Against the measured iteration, where no edit changes it.
    error: Option<f64>,
    /// Operators of the rank that takes longest, and the kernels of all of them.
    operators: usize,
    kernels: usize,
    /// Host time between operators that the algorithm does not know, and device work without a recorded launch.
    left_out_ns: DurNs,
    not_launched_ns: DurNs,
    ranks: Vec<Rank>,
}

#[derive(Debug, Serialize)]
struct Rank {
    rank: u32,
    /// By itself, as of the algorithm for one device.
    simulated_ns: DurNs,
}

impl Published {
    /// The iteration of `opened`, edits applied.
    ///
    /// # Errors
    /// The ranks do not take part in the same collectives.
    pub fn of(algorithm: Algorithm, opened: &Opened) -> Result<Self> {
        let ranks = recorded_ops(&opened.edited, &opened.outcome.resolved);
        let alone: Vec<DurNs> = ranks.iter().map(|rank| one_device(&rank.ops)).collect();
        let simulated_ns = match algorithm {
            Algorithm::Lin2022 => alone.iter().copied().max().unwrap_or_default(),
            Algorithm::Lin2024 => several_ranks(&aligned(&ranks).map_err(|why| eyre!("--as lin2024: {why}"))?),
        };
        let longest = ranks.iter().zip(&alone).max_by_key(|&(_, time)| time).map(|(rank, _)| rank);
        let none = RankOps::default();
        let longest = longest.unwrap_or(&none);
        let measured = opened.outcome.summary.measured_ns;
        let is_untouched = opened.outcome.steps.is_empty() && opened.loaded.predicted().is_none() && measured.0 > 0;
        let parts = opened.edited.graph.ranks.iter();
        Ok(Self {
            algorithm,
            simulated_ns,
            error: is_untouched.then(|| simulated_ns.0 as f64 / measured.0 as f64 - 1.0),
            operators: longest.ops.len(),
            kernels: longest.ops.iter().map(|op| op.kernels.len()).sum(),
            left_out_ns: longest.left_out,
            not_launched_ns: longest.not_launched,
            ranks: parts.zip(alone).map(|(part, simulated_ns)| Rank { rank: part.rank.0, simulated_ns }).collect(),
        })
    }

    /// For people.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn describe(&self, out: &mut dyn Write) -> io::Result<()> {
        let error = self.error.map_or(String::new(), |error| format!(" ({:+.2} of the measured)", Percent(error)));
        let name = self.algorithm.name();
        writeln!(out, "  {name:<11} {}{error}: its Algorithm 1 on the same kernels and overheads", self.simulated_ns)?;
        writeln!(
            out,
            "              over {} operators and {} kernels of the longest rank",
            self.operators, self.kernels
        )?;
        if self.left_out_ns > DurNs::ZERO {
            writeln!(out, "              without {} between operators that is too long for T1", self.left_out_ns)?;
        }
        if self.not_launched_ns > DurNs::ZERO {
            writeln!(out, "              with {} of device work whose launch was not recorded", self.not_launched_ns)?;
        }
        Ok(())
    }
}
