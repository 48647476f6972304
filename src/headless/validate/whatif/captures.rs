//! Captures of one model at several batch sizes, with and without batched lookups: one predicted from the others.
//!
//! Every step that was recorded for its times is predicted from; the median of the predictions counts, as the median of the
//! steps does for what was measured.

use std::collections::BTreeMap;
use std::path::Path;

use color_eyre::eyre::Result;

use crate::cost::Family;
use crate::scenario::Scenario;
use crate::session::{Engine, Loaded};

use super::answer::Calibration;
use super::manifest::{Capture, event_cost_ns, open};
use super::{Answer, Constants, Row};

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
    let mut left_out = LeftOut::default();
    batches(engine, &captures, answer, &mut left_out)?;
    learned(engine, &captures, answer, &mut left_out)?;
    answer.left_out = left_out.calibration();
    fused(engine, &captures, answer)
}

/// Iterations in ns, with the band stated.
#[derive(Clone, Copy, Debug)]
struct Predicted {
    ns: f64,
    band: [f64; 2],
}

impl Predicted {
    fn less(self, ns: f64) -> Self {
        Self { ns: self.ns - ns, band: self.band.map(|end| end - ns) }
    }
}

/// What `line` makes of the recorded steps.
fn predicted(engine: &Engine, steps: &[Loaded], line: &str) -> Result<Predicted> {
    let scenario = Scenario::parse([line].into_iter().filter(|line| !line.is_empty()))?;
    let summaries: Vec<_> = steps.iter().map(|step| engine.evaluate(step, &scenario, 0).summary).collect();
    let median = |of: &dyn Fn(&crate::session::Summary) -> i64| {
        let mut values: Vec<i64> = summaries.iter().map(of).collect();
        values.sort_unstable();
        values.get(values.len() / 2).map_or(f64::NAN, |&ns| ns as f64)
    };
    let band = [median(&|summary| summary.error_band.low_ns.0), median(&|summary| summary.error_band.high_ns.0)];
    Ok(Predicted { ns: median(&|summary| summary.simulated_ns.0), band })
}

/// Series whose captures some constant of the host's model was chosen on: products on perceptrons, cold caches and pages of tables on
/// both recommenders too.
const FITTED_ON: [&str; 3] = ["mlp-fp32-cpu", "dlrm-ddp-fp32-cpu", "dlrm-ddp-fused-fp32-cpu"];

fn constants(capture: &Capture) -> Constants {
    if FITTED_ON.contains(&capture.series().as_str()) { Constants::Seen } else { Constants::HeldOut }
}

/// Errors by what is predicted (how, and against which times) and by kind of model.
#[derive(Debug, Default)]
struct LeftOut(Vec<(String, String, f64)>);

impl LeftOut {
    fn push(&mut self, how: &str, capture: &Capture, row: &Row) {
        let how = if how.ends_with("un-profiled") { "un-profiled" } else { "profiled" };
        let how = format!("{} {how}", row.family.split([' ', ',']).next().unwrap_or_default());
        self.0.push((how, capture.model.clone(), (row.got / row.expected).ln()));
    }

    /// How often the errors of one kind of model lie within what the others' say is one standard deviation.
    fn calibration(&self) -> Option<Calibration> {
        let inside = |(how, model, error): &(String, String, f64)| {
            let others = self.0.iter().filter(|other| other.0 == *how && other.1 != *model);
            let squares: Vec<f64> = others.map(|other| other.2.powi(2)).collect();
            let sigma = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
            (!squares.is_empty()).then_some(error.abs() <= sigma)
        };
        Calibration::of(&self.0.iter().filter_map(inside).collect::<Vec<_>>())
    }
}

fn batches(engine: &Engine, captures: &[Capture], answer: &mut Answer, left_out: &mut LeftOut) -> Result<()> {
    let mut series: BTreeMap<String, Vec<&Capture>> = BTreeMap::new();
    for capture in captures {
        series.entry(capture.series()).or_default().push(capture);
    }
    let mut quiet: [Vec<Row>; 2] = Default::default();
    for (name, mut members) in series.into_iter().filter(|(_, members)| members.len() > 1) {
        members.sort_by_key(|capture| capture.batch);
        let (profiled, wall) = (format!("batch {name}, profiled"), format!("batch {name}, un-profiled"));
        for from in &members {
            let cost = event_cost_ns(captures, &from.model) * from.events();
            let own = predicted(engine, &from.steps, "")?.ns - cost;
            let row = (from.wall_ns, own);
            let check = format!("{} → {}", from.batch, from.batch);
            answer.rows.push(Row::new("profiler's cost taken off", check, row, BATCH_LIMIT, &from.id));
            for to in members.iter().filter(|to| to.batch != from.batch) {
                let got = predicted(engine, &from.steps, &format!("resize-batch {}", to.batch))?;
                let kinds = [
                    (&profiled, got, [to, from].map(|capture| capture.profiled_ns)),
                    (&wall, got.less(cost), [to, from].map(|capture| capture.wall_ns)),
                ];
                for ((family, got, [expected, before]), quiet) in kinds.into_iter().zip(&mut quiet) {
                    let check = format!("{} → {}", from.batch, to.batch);
                    let scaled = before * to.batch as f64 / from.batch as f64;
                    let row = Row::new(family.as_str(), check, (expected, got.ns), BATCH_LIMIT, &from.id);
                    let row = row.against(scaled, before).within(got.band).by(constants(from));
                    left_out.push(family, from, &row);
                    if from.quiet && to.quiet {
                        quiet.push(row.clone());
                    }
                    answer.rows.push(row);
                }
            }
        }
        answer.sum_up(&profiled, BATCH_TARGET);
        answer.sum_up(&wall, BATCH_TARGET);
    }
    answer.sum_up("profiler's cost taken off", BATCH_TARGET);
    answer.sum_up_rows("batch, quiet captures, profiled", &quiet[0], BATCH_TARGET);
    answer.sum_up_rows("batch, quiet captures, un-profiled", &quiet[1], BATCH_TARGET);
    Ok(())
}

/// Each capture of a series of three or more, predicted from each two others; the guesses are the line through both, and the
/// first of them.
fn learned(engine: &Engine, captures: &[Capture], answer: &mut Answer, left_out: &mut LeftOut) -> Result<()> {
    for (family, profiled) in [("two traces, profiled", true), ("two traces, un-profiled", false)] {
        let time = |capture: &Capture| if profiled { capture.profiled_ns } else { capture.wall_ns };
        for from in captures {
            let cost = if profiled { 0.0 } else { event_cost_ns(captures, &from.model) * from.events() };
            let of_series = |other: &&Capture| other.series() == from.series() && other.batch != from.batch;
            for second in captures.iter().filter(of_series) {
                let mut steps = from.steps.clone();
                for (step, other) in steps.iter_mut().zip(second.steps.iter().cycle()) {
                    step.learn(other)?;
                }
                for to in captures.iter().filter(of_series).filter(|to| to.batch != second.batch) {
                    let got = predicted(engine, &steps, &format!("resize-batch {}", to.batch))?.less(cost);
                    let check = format!("{}: {} and {} → {}", from.series(), from.batch, second.batch, to.batch);
                    let [a, b, new] = [from, second, to].map(|capture| capture.batch as f64);
                    let line = time(from) + (time(second) - time(from)) * (new - a) / (b - a);
                    let row = Row::new(family, check, (time(to), got.ns), BATCH_LIMIT, &from.id);
                    left_out.push(family, from, &row);
                    answer.rows.push(row.against(line, time(from)).within(got.band).by(constants(from)));
                }
            }
        }
        answer.sum_up(family, BATCH_TARGET);
    }
    Ok(())
}

/// Gains of batching lookups: the right sign and half to one and a half times the true one. Both captures do the same
/// matrix products; where those took longer in one, the machine was slower, and so was all else: the last kind of rows takes
/// that out.
fn fused(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    const KINDS: [&str; 3] = ["profiled", "un-profiled", "profiled, at equal speed"];
    for unfused in captures {
        let sibling = |other: &&Capture| other.batch == unfused.batch && other.id.replace("-fused", "") == unfused.id;
        let Some(fused) = captures.iter().find(|other| other.id != unfused.id && sibling(other)) else { continue };
        let before = predicted(engine, &unfused.steps, "")?.ns;
        let after = predicted(engine, &unfused.steps, "fuse-embedding-bags")?;
        let gain = Predicted { ns: before - after.ns, band: after.band.map(|end| before - end) };
        let fewer = (unfused.events() - fused.events()) * event_cost_ns(captures, &unfused.model);
        let speed = products_ns(fused) / products_ns(unfused);
        let rows = [
            (unfused.profiled_ns - fused.profiled_ns, gain),
            (unfused.wall_ns - fused.wall_ns, gain.less(fewer)),
            (unfused.profiled_ns * speed - fused.profiled_ns, gain),
        ];
        for (kind, (expected, gain)) in KINDS.into_iter().zip(rows) {
            answer.rows.push(gain_row(kind, unfused, expected, gain));
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

fn gain_row(kind: &str, unfused: &Capture, expected: f64, gain: Predicted) -> Row {
    const BAND: std::ops::RangeInclusive<f64> = 0.5..=1.5;
    let check = format!("batch {}", unfused.batch);
    let mut row =
        Row::new(family(kind), check, (expected, gain.ns), 0.5, &unfused.id).within(gain.band).by(constants(unfused));
    row.status = if BAND.contains(&(gain.ns / expected)) { "pass" } else { "fail" };
    row
}

/// What matrix products took, the median over steps, in ns.
fn products_ns(capture: &Capture) -> f64 {
    let sum = |step: &Loaded| {
        let tasks = step.graph.tasks.node_indices();
        let products = tasks.filter(|&node| step.base.family(node) == Some(Family::Gemm));
        products.map(|node| step.graph.tasks[node].duration.0).sum::<i64>()
    };
    let mut sums: Vec<i64> = capture.steps.iter().map(sum).collect();
    sums.sort_unstable();
    sums.get(sums.len() / 2).map_or(f64::NAN, |&ns| ns as f64)
}
