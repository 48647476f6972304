//! Gains of batching lookups, against captures that batch them.

use color_eyre::eyre::Result;

use retime::session::{Engine, Loaded};
use retime_core::cost::Family;

use super::answer::{MET, MISSED};
use super::captures::Predicted;
use super::manifest::{Capture, event_cost_ns};
use super::reasons::Floor;
use super::{Answer, Constants, Row, median};

const KINDS: [&str; 3] = ["profiled", "un-profiled", "profiled, at equal speed"];

/// Holds predicted gains to the right sign and half to one and a half times the true one. Both captures do the same
/// matrix products; where those took longer in one, the machine was slower, and so was all else: the last kind of rows takes
/// that out.
///
/// # Errors
/// None of its own: the edit's line is known.
pub(crate) fn check(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    for unfused in captures.iter().filter(|capture| !capture.id.contains(FUSED)) {
        let Some(fused) = sibling(captures, unfused) else { continue };
        let before = Predicted::of(engine, &unfused.steps, "")?.ns;
        let after = Predicted::of(engine, &unfused.steps, "fuse-embedding-bags")?;
        let (gain, band) = (before - after.ns, after.band.map(|end| before - end));
        let fewer = (unfused.events() - fused.events()) * event_cost_ns(captures, unfused);
        let speed = products_ns(fused) / products_ns(unfused);
        let rows = [
            (unfused.profiled_ns - fused.profiled_ns, 0.0),
            (unfused.wall_ns - fused.wall_ns, fewer),
            (unfused.profiled_ns * speed - fused.profiled_ns, 0.0),
        ];
        for (kind, (expected, less)) in KINDS.into_iter().zip(rows) {
            let row = row(kind, unfused, (expected, gain - less), band.map(|end| end - less));
            answer.rows.push(if kind == KINDS[0] { row.of(after.parts(unfused, fused)) } else { row });
        }
    }
    for kind in KINDS {
        answer.sum_up_gains(&family(kind), &format!("{}: share within half to 1.5×", family(kind)));
    }
    Ok(())
}

fn family(kind: &str) -> String {
    format!("fused bags' gain, {kind}")
}

fn row(kind: &str, unfused: &Capture, (expected, gain): (f64, f64), band: [f64; 2]) -> Row {
    const BAND: std::ops::RangeInclusive<f64> = 0.5..=1.5;
    let check = format!("batch {}", unfused.batch);
    let source = (unfused.id.as_str(), Constants::HeldOut);
    let mut row = Row::new(family(kind), check, (expected, gain), 0.5, source).within(band).over(unfused.steps.len());
    row.status = if BAND.contains(&(gain / expected)) { MET } else { MISSED };
    row
}

/// In the ids of captures that batch lookups.
const FUSED: &str = "-fused";

/// The capture that differs from one in nothing but whether it batches lookups.
fn sibling<'c>(captures: &'c [Capture], capture: &Capture) -> Option<&'c Capture> {
    let plain = |other: &Capture| other.id.replace(FUSED, "");
    captures.iter().find(|other| other.id != capture.id && plain(other) == plain(capture))
}

/// How far the matrix products of captures with and without batched lookups are apart, which are the same.
pub(crate) fn products_differ(captures: &[Capture]) -> impl Iterator<Item = Floor> {
    let unfused = captures.iter().filter(|capture| !capture.id.contains(FUSED));
    let pairs = unfused.filter_map(|capture| Some((capture, sibling(captures, capture)?)));
    let logs: Vec<f64> = pairs.map(|(one, other)| (products_ns(other) / products_ns(one)).ln().abs()).collect();
    let (n, what) = (logs.len(), "the same products in two captures differ");
    let error = (logs.iter().sum::<f64>() / n.max(1) as f64).exp_m1();
    let floor = |ending| Floor { ending, what, error, n };
    [", profiled", ", un-profiled"].map(floor).into_iter().filter(|floor| floor.n > 0)
}

/// What matrix products took, the median over steps, in ns.
fn products_ns(capture: &Capture) -> f64 {
    let sum = |step: &Loaded| {
        let tasks = step.graph.tasks.node_indices();
        let products = tasks.filter(|&node| step.base.family(node) == Some(Family::Gemm));
        products.map(|node| step.graph.tasks[node].duration.0).sum::<i64>() as f64
    };
    median(&mut capture.steps.iter().map(sum).collect::<Vec<f64>>())
}
