//! Each capture of a series of three or more, predicted from each two others.

use color_eyre::eyre::Result;

use retime::session::Engine;

use super::captures::{BATCH_LIMIT, BATCH_TARGET, LeftOut, Predicted};
use super::manifest::{Capture, event_cost_ns};
use super::{Answer, Constants, Row};

/// Against profiled and un-profiled times, and these from the un-profiled time of the first capture.
const FAMILIES: [&str; 3] =
    ["two traces, profiled", "two traces, un-profiled", "two traces, un-profiled, at equal speed"];

/// Checks all pairs; the guesses are the line through both, and the first of them.
///
/// # Errors
/// A capture's batch size is not known.
pub(crate) fn check(engine: &Engine, captures: &[Capture], answer: &mut Answer, left_out: &mut LeftOut) -> Result<()> {
    for from in captures {
        let cost = event_cost_ns(captures, from) * from.events();
        let of_series = |other: &&Capture| other.series() == from.series() && other.batch != from.batch;
        for second in captures.iter().filter(of_series) {
            let mut steps = from.steps.clone();
            for (step, other) in steps.iter_mut().zip(second.steps.iter().cycle()) {
                step.learn(other)?;
            }
            for to in captures.iter().filter(of_series).filter(|to| to.batch != second.batch) {
                let got = Predicted::of(engine, &steps, &format!("resize-batch {}", to.batch))?;
                let speed = from.wall_ns / (Predicted::of(engine, &from.steps, "")?.ns - cost);
                for (family, [cost, speed]) in FAMILIES.into_iter().zip([[0.0, 1.0], [cost, 1.0], [cost, speed]]) {
                    let row = row(family, [from, second, to], &got, [cost, speed]);
                    left_out.push(family, from, &row);
                    answer.rows.push(row);
                }
            }
        }
    }
    for family in FAMILIES {
        answer.sum_up(family, BATCH_TARGET);
    }
    Ok(())
}

fn row(family: &str, [from, second, to]: [&Capture; 3], got: &Predicted, [cost, speed]: [f64; 2]) -> Row {
    let is_profiled = family == FAMILIES[0];
    let time = |capture: &Capture| if is_profiled { capture.profiled_ns } else { capture.wall_ns };
    let check = format!("{}: {} and {} → {}", from.series(), from.batch, second.batch, to.batch);
    let [a, b, new] = [from, second, to].map(|capture| capture.batch as f64);
    let line = time(from) + (time(second) - time(from)) * (new - a) / (b - a);
    let (ns, band) = got.at(cost, speed);
    let row = Row::new(family, check, (time(to), ns), BATCH_LIMIT, (&from.id, Constants::HeldOut));
    let row = row.against(line, time(from)).within(band).over(from.steps.len());
    if is_profiled { row.of(got.parts(from, to)) } else { row }
}
