//! `simulate --as`: a paper's algorithm on the same iteration, beside our own replay.

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};

use crate::cli;
use crate::session::{Algorithm, Published};
use retime_core::units::{DurNs, Percent};

use super::opened::Opened;

/// The algorithm that is asked for.
pub const fn algorithm(wanted: cli::Algorithm) -> Algorithm {
    match wanted {
        cli::Algorithm::Lin2022 => Algorithm::Lin2022,
        cli::Algorithm::Lin2024 => Algorithm::Lin2024,
    }
}

/// What an algorithm says of the iteration of `opened`, edits applied.
///
/// # Errors
/// The ranks do not take part in the same collectives.
pub fn published(wanted: cli::Algorithm, opened: &Opened) -> Result<Published> {
    let algorithm = algorithm(wanted);
    Published::of(algorithm, &opened.loaded, &opened.outcome, &opened.edited)
        .map_err(|why| eyre!("--as {}: {why}", algorithm.key()))
}

/// For people.
///
/// # Errors
/// Standard output cannot be written.
pub fn describe(published: &Published, out: &mut dyn Write) -> io::Result<()> {
    let error = published.error.map_or(String::new(), |error| format!(" ({:+.2} of the measured)", Percent(error)));
    let (name, time) = (published.algorithm.name(), published.simulated_ns);
    writeln!(out, "  {name:<11} {time}{error}: its Algorithm 1 on the same kernels and overheads")?;
    writeln!(
        out,
        "              over {} operators and {} kernels of the longest rank",
        published.operators, published.kernels
    )?;
    if published.left_out_ns > DurNs::ZERO {
        writeln!(out, "              without {} between operators that is too long for T1", published.left_out_ns)?;
    }
    if published.not_launched_ns > DurNs::ZERO {
        writeln!(out, "              with {} of device work whose launch was not recorded", published.not_launched_ns)?;
    }
    Ok(())
}
