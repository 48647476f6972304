//! Captures of one model at several batch sizes, with and without batched lookups: one predicted from the others.

use std::collections::BTreeMap;
use std::path::Path;

use color_eyre::eyre::Result;

use crate::scenario::Scenario;
use crate::session::Engine;

use super::manifest::{Capture, event_cost_ns, open};
use super::{Answer, Row, Summary};

/// Geometric mean that batch what-ifs are to reach on quiet captures.
const BATCH_TARGET: f64 = 0.05;
/// A single prediction that counts as met.
const BATCH_LIMIT: f64 = 0.10;

/// Checks all captures that the manifest at `path` lists.
///
/// # Errors
/// See [`open`].
pub(super) fn check(engine: &Engine, path: &Path, answer: &mut Answer) -> Result<()> {
    let captures = open(engine, path)?;
    batches(engine, &captures, answer)?;
    learned(engine, &captures, answer)?;
    fused(engine, &captures, answer)
}

/// The iteration that `lines` make of `capture`, in ns.
fn predicted(engine: &Engine, capture: &Capture, lines: &[String]) -> Result<f64> {
    let scenario = Scenario::parse(lines.iter().map(String::as_str))?;
    Ok(engine.period(&capture.loaded, &scenario).0 as f64)
}

fn batches(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    let mut series: BTreeMap<String, Vec<&Capture>> = BTreeMap::new();
    for capture in captures {
        series.entry(capture.series()).or_default().push(capture);
    }
    let mut quiet: [Vec<f64>; 2] = Default::default();
    for (name, mut members) in series.into_iter().filter(|(_, members)| members.len() > 1) {
        members.sort_by_key(|capture| capture.batch);
        let (profiled, wall) = (format!("batch {name}, profiled"), format!("batch {name}, un-profiled"));
        for from in &members {
            let cost = event_cost_ns(captures, &from.model) * from.events();
            for to in &members {
                let check = format!("{} → {}", from.batch, to.batch);
                let is_other = from.batch != to.batch;
                let lines: Vec<String> = is_other.then(|| format!("resize-batch {}", to.batch)).into_iter().collect();
                let got = predicted(engine, from, &lines)?;
                if !is_other {
                    let row = (to.wall_ns, got - cost);
                    answer.rows.push(Row::new("profiler's cost taken off", check, row, BATCH_LIMIT, &from.id));
                    continue;
                }
                let pairs = [(to.profiled_ns, got), (to.wall_ns, got - cost)];
                for ((family, pair), logs) in [&profiled, &wall].into_iter().zip(pairs).zip(&mut quiet) {
                    if from.quiet && to.quiet {
                        logs.push((pair.1 / pair.0).ln());
                    }
                    answer.rows.push(Row::new(family.as_str(), check.clone(), pair, BATCH_LIMIT, &from.id));
                }
            }
        }
        answer.sum_up(&profiled, BATCH_TARGET);
        answer.sum_up(&wall, BATCH_TARGET);
    }
    answer.sum_up("profiler's cost taken off", BATCH_TARGET);
    answer.sum_up_logs("batch, quiet captures, profiled", &quiet[0], BATCH_TARGET);
    answer.sum_up_logs("batch, quiet captures, un-profiled", &quiet[1], BATCH_TARGET);
    Ok(())
}

/// Each capture of a series of three or more, predicted from each two others.
fn learned(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    for (family, profiled) in [("two traces, profiled", true), ("two traces, un-profiled", false)] {
        for from in captures {
            let cost = if profiled { 0.0 } else { event_cost_ns(captures, &from.model) * from.events() };
            let of_series = |other: &&Capture| other.series() == from.series() && other.batch != from.batch;
            for second in captures.iter().filter(of_series) {
                let mut loaded = from.loaded.clone();
                loaded.learn(&second.loaded)?;
                for to in captures.iter().filter(of_series).filter(|to| to.batch != second.batch) {
                    let scenario = Scenario::parse([format!("resize-batch {}", to.batch).as_str()])?;
                    let got = engine.period(&loaded, &scenario).0 as f64 - cost;
                    let expected = if profiled { to.profiled_ns } else { to.wall_ns };
                    let check = format!("{}: {} and {} → {}", from.series(), from.batch, second.batch, to.batch);
                    answer.rows.push(Row::new(family, check, (expected, got), BATCH_LIMIT, &from.id));
                }
            }
        }
        answer.sum_up(family, BATCH_TARGET);
    }
    Ok(())
}

/// Gains of batching lookups: the right sign and half to one and a half times the true one.
fn fused(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    const BAND: std::ops::RangeInclusive<f64> = 0.5..=1.5;
    const LINE: &str = "fuse-embedding-bags";
    for (family, profiled) in [("fused bags' gain, profiled", true), ("fused bags' gain, un-profiled", false)] {
        let (mut met, mut n) = (0, 0);
        for unfused in captures {
            let sibling =
                |other: &&Capture| other.batch == unfused.batch && other.id.replace("-fused", "") == unfused.id;
            let Some(fused) = captures.iter().find(|other| other.id != unfused.id && sibling(other)) else { continue };
            let gain = predicted(engine, unfused, &[])? - predicted(engine, unfused, &[LINE.to_owned()])?;
            let fewer = (unfused.events() - fused.events()) * event_cost_ns(captures, &unfused.model);
            let (expected, got) = if profiled {
                (unfused.profiled_ns - fused.profiled_ns, gain)
            } else {
                (unfused.wall_ns - fused.wall_ns, gain - fewer)
            };
            let mut row = Row::new(family, format!("batch {}", unfused.batch), (expected, got), 0.5, &unfused.id);
            row.status = if BAND.contains(&(got / expected)) { "pass" } else { "fail" };
            met += usize::from(row.status == "pass");
            n += 1;
            answer.rows.push(row);
        }
        if n > 0 {
            let got = met as f64 / n as f64;
            let status = if met == n { "pass" } else { "fail" };
            let check = format!("{family}: share within half to 1.5×");
            answer.summaries.push(Summary { check, n, got, expected: 1.0, bias: None, status });
        }
    }
    Ok(())
}
