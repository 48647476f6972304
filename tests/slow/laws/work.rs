//! Laws of a kernel's work under an edit: its arithmetic and traffic are those of the tensors that the edit leaves.

use rayon::prelude::*;
use retime::session::Outcome;
use retime_core::cost::{Family, Provenance, Shape, Work};
use retime_core::graph::NodeId;

use super::Violation;
use super::subject::Subject;
use crate::support::edits::LINES;

pub const LAWS: &[&str] = &[OWN, RATIO];

const OWN: &str = "the FLOP of an edited product are not those of its sizes";
const RATIO: &str = "the FLOP or bytes of an edited kernel do not follow its tensors";

/// What rounding of sizes and counts in floating point may be off by.
const ROUNDING: f64 = 1e-6;

pub fn violations(subject: &Subject) -> Vec<Violation> {
    let own = LINES.par_iter().filter_map(|line| own(subject, line));
    let mut found: Vec<Violation> = own.collect();
    found.extend(edits(subject).par_iter().filter_map(|edit| follows(subject, edit)).collect::<Vec<_>>());
    found
}

/// The kernels that a model predicts anew, each with its work before and after.
fn edited<'a>(subject: &'a Subject, outcome: &'a Outcome) -> impl Iterator<Item = (NodeId, &'a Work, &'a Work)> {
    let (before, after) = (&subject.loaded.replay.resolved.works, &outcome.resolved.works);
    let predicted = outcome.resolved.changes.iter().filter(|(_, of)| of.provenance != Provenance::Unmodelled);
    predicted.filter_map(|&(node, _)| Some((node, before.work(node)?, after.work(node)?)))
}

/// FLOP of a product by its sizes; `None` for other work.
fn flop_of_sizes(work: &Work) -> Option<f64> {
    let product = |sizes: &[u64]| sizes.iter().map(|&size| size as f64).product::<f64>();
    match work.shape {
        Shape::Gemm { batch, m, n, k } => Some(2.0 * product(&[batch, m, n, k])),
        Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, groups, .. } => {
            Some(2.0 * product(&[batch, channels_in, channels_out, out_h, out_w, r, s]) / groups.max(1) as f64)
        }
        _ => None,
    }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
}

fn own(subject: &Subject, line: &str) -> Option<Violation> {
    let outcome = subject.outcome(&[line])?;
    let is_own = |work: &Work| flop_of_sizes(work).is_none_or(|sizes| is_near(sizes, work.flop.0));
    let (node, _, work) = edited(subject, &outcome).find(|&(_, before, after)| is_own(before) && !is_own(after))?;
    let shown = format!("{}: {:.6e} FLOP of {:?}", subject.task_name(node), work.flop.0, work.shape);
    Some(subject.violation(OWN, line, shown))
}

/// An edit and what it may do to one size of a tensor.
struct Edit {
    line: String,
    /// Sizes are as they were, or this many times that.
    times: f64,
    /// Bytes of an element are at least this share of what they were.
    element: f64,
}

fn edits(subject: &Subject) -> Vec<Edit> {
    let edit = |line: String, times: f64, element: f64| Edit { line, times, element };
    let batch = subject.graph().batch_size.into_iter();
    let mut all: Vec<Edit> =
        batch.flat_map(|batch| [2, 4].map(|by| edit(format!("resize-batch {}", batch * by), by as f64, 1.0))).collect();
    all.push(edit("resize-op family=gemm 1024->2048".to_owned(), 2.0, 1.0));
    all.push(edit("resize-op family=gemm 512->1536".to_owned(), 3.0, 1.0));
    all.push(edit("mixed-precision bf16".to_owned(), 1.0, 0.5));
    let same = ["swap-gpu V100", "swap-gpu H200", "scale-device flops x0.5", "accumulate 3", "scale-ranks 64"];
    all.extend(same.map(|line| edit(line.to_owned(), 1.0, 1.0)));
    all
}

/// Sizes are multiplied or are not: so FLOP are multiplied by a power of that, and bytes by no more than FLOP were, nor by less
/// than the sizes' least and the elements' least.
fn follows(subject: &Subject, edit: &Edit) -> Option<Violation> {
    let outcome = subject.outcome(&[&edit.line])?;
    let is_right = |before: &Work, after: &Work| {
        let ratio = after.flop.0 / before.flop.0;
        let is_product = matches!(before.family, Family::Gemm | Family::Conv | Family::Attention);
        let is_power = (0..4).any(|power| is_near(ratio, edit.times.powi(power)));
        let bytes = after.bytes().0 as f64 / before.bytes().0.max(1) as f64;
        let most = edit.times.powi(3).max(1.0) * (1.0 + 1e-3);
        let is_bytes = before.bytes().0 < 4096 || (edit.element * (1.0 - 1e-3)..=most).contains(&bytes);
        (before.flop.0 == 0.0 || !is_product || is_power) && is_bytes
    };
    let (node, before, after) = edited(subject, &outcome).find(|&(_, before, after)| !is_right(before, after))?;
    let shown = format!("{}: {before:?} becomes {after:?}", subject.task_name(node));
    Some(subject.violation(RATIO, &edit.line, shown))
}
