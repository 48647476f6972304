//! Captures of one model at several batch sizes: one predicted from another.
//!
//! Every step that was recorded for its times is predicted from; the median of the predictions counts, as the median of the
//! steps does for what was measured.

use std::collections::BTreeMap;
use std::path::PathBuf;

use color_eyre::eyre::Result;

use retime::session::{Engine, Loaded, Outcome};
use retime_core::scenario::Scenario;

use super::answer::Calibration;
use super::manifest::{Capture, event_cost_ns, open};
use super::operators::{self, Part};
use super::reasons::Floor;
use super::{Answer, Constants, Row, fused, learned, median, untimed, variants};

/// Geometric mean that batch what-ifs are to reach on quiet captures.
pub(crate) const BATCH_TARGET: f64 = 0.05;
/// A single prediction that counts as met.
pub(crate) const BATCH_LIMIT: f64 = 0.10;

/// Checks all captures that the manifests at `paths` list.
///
/// # Errors
/// See [`open`].
pub(crate) fn check(engine: &Engine, paths: &[PathBuf], answer: &mut Answer) -> Result<()> {
    let captures = open(engine, paths)?;
    let mut left_out = LeftOut::default();
    repeated(&captures, answer);
    answer.floors.extend(fused::products_differ(&captures));
    own(engine, &captures, answer)?;
    batches(engine, &captures, answer, &mut left_out)?;
    learned::check(engine, &captures, answer, &mut left_out)?;
    answer.left_out = left_out.calibration();
    fused::check(engine, &captures, answer)?;
    untimed::check(engine, &captures, answer);
    variants::check(engine, &captures, answer)
}

/// Iterations in ns, with the band stated for another recording.
#[derive(Clone, Debug)]
pub(crate) struct Predicted {
    pub(crate) ns: f64,
    pub(crate) band: [f64; 2],
    /// Of each step.
    outcomes: Vec<Outcome>,
}

impl Predicted {
    /// What `line` makes of the recorded steps.
    ///
    /// # Errors
    /// `line` is no step.
    pub(crate) fn of(engine: &Engine, steps: &[Loaded], line: &str) -> Result<Self> {
        let scenario = Scenario::parse([line].into_iter().filter(|line| !line.is_empty()))?;
        let outcomes: Vec<Outcome> = steps.iter().map(|step| engine.evaluate(step, &scenario, 0)).collect();
        let middle = |of: &dyn Fn(&Outcome) -> i64| {
            median(&mut outcomes.iter().map(|outcome| of(outcome) as f64).collect::<Vec<f64>>())
        };
        let band = [
            middle(&|outcome| outcome.summary.another_run().band.low_ns.0),
            middle(&|outcome| outcome.summary.another_run().band.high_ns.0),
        ];
        Ok(Self { ns: middle(&|outcome| outcome.summary.steady_ns.0), band, outcomes })
    }

    /// The iteration and its band, without `cost` and at another speed.
    pub(crate) fn at(&self, cost: f64, speed: f64) -> (f64, [f64; 2]) {
        let changed = |ns: f64| (ns - cost) * speed;
        (changed(self.ns), self.band.map(changed))
    }

    /// Median time with work on the device, in ns.
    pub(crate) fn device_ns(&self) -> f64 {
        let active = |outcome: &Outcome| outcome.summary.gpu_active_ns.0 as f64;
        median(&mut self.outcomes.iter().map(active).collect::<Vec<f64>>())
    }

    /// Operator by operator, against what was measured.
    pub(crate) fn parts<'c>(&self, from: &'c Capture, to: &'c Capture) -> Vec<Part> {
        let replays = |capture: &'c Capture| capture.steps.iter().map(|step| &*step.replay);
        operators::parts(replays(from), &self.outcomes, replays(to))
    }
}

/// Errors by what is predicted (how, and against which times) and by kind of model.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Vec<(String, String, f64)>);

impl LeftOut {
    pub(crate) fn push(&mut self, how: &str, capture: &Capture, row: &Row) {
        let how = if how.contains("un-profiled") { "un-profiled" } else { "profiled" };
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

/// How far captures of the same are apart: the least error that any prediction of one from another has.
fn repeated(captures: &[Capture], answer: &mut Answer) {
    for (at, ending) in [(0, "un-profiled"), (1, ", profiled")] {
        let pairs = captures.iter().flat_map(|capture| {
            let rounds = capture.rounds.iter().map(move |round| round[at]);
            rounds.clone().enumerate().flat_map(move |(index, a)| rounds.clone().skip(index + 1).map(move |b| a / b))
        });
        let logs: Vec<f64> = pairs.map(|ratio| ratio.ln().abs()).collect();
        if !logs.is_empty() {
            let error = (logs.iter().sum::<f64>() / logs.len() as f64).exp_m1();
            answer.floors.push(Floor { ending, what: "equal captures differ", error, n: logs.len() });
        }
    }
}

/// Each capture's un-profiled time from its own profiled steps: what the profiler costs, and how the machine's speed changed
/// in between.
fn own(engine: &Engine, captures: &[Capture], answer: &mut Answer) -> Result<()> {
    const FAMILY: &str = "profiler's cost taken off";
    let mut logs = 0.0;
    for capture in captures {
        let cost = event_cost_ns(captures, capture) * capture.events();
        let row = (capture.wall_ns, Predicted::of(engine, &capture.steps, "")?.ns - cost);
        logs += (row.1 / row.0).ln().abs();
        // The cost is that of other models' captures.
        let source = (capture.id.as_str(), Constants::HeldOut);
        let row = Row::new(FAMILY, format!("{0} → {0}", capture.batch), row, BATCH_LIMIT, source);
        answer.rows.push(row.over(capture.steps.len()));
    }
    answer.sum_up(FAMILY, BATCH_TARGET);
    let error = (logs / captures.len().max(1) as f64).exp_m1();
    let what = "captures predict their own un-profiled times off";
    answer.floors.push(Floor { ending: "un-profiled", what, error, n: captures.len() });
    Ok(())
}

/// Against profiled and un-profiled times; and against these from the un-profiled time of the capture that is predicted from, so
/// that the machine's speed under its profiled steps cancels.
const KINDS: [&str; 3] = ["profiled", "un-profiled", "un-profiled, at equal speed"];

fn batches(engine: &Engine, captures: &[Capture], answer: &mut Answer, left_out: &mut LeftOut) -> Result<()> {
    let mut series: BTreeMap<String, Vec<&Capture>> = BTreeMap::new();
    for capture in captures {
        series.entry(capture.series()).or_default().push(capture);
    }
    let (mut quiet, mut every): ([Vec<Row>; 3], [Vec<Row>; 3]) = Default::default();
    for (name, mut members) in series.into_iter().filter(|(_, members)| members.len() > 1) {
        members.sort_by_key(|capture| capture.batch);
        for from in &members {
            let cost = event_cost_ns(captures, from) * from.events();
            let speed = from.wall_ns / (Predicted::of(engine, &from.steps, "")?.ns - cost);
            for to in members.iter().filter(|to| to.batch != from.batch) {
                let got = Predicted::of(engine, &from.steps, &format!("resize-batch {}", to.batch))?;
                for (kind, row) in rows(&name, (from, to), &got, [cost, speed]).into_iter().enumerate() {
                    left_out.push(KINDS[kind], from, &row);
                    if from.quiet && to.quiet {
                        quiet[kind].push(row.clone());
                    }
                    every[kind].push(row.clone());
                    answer.rows.push(row);
                }
            }
        }
        for kind in KINDS {
            answer.sum_up(&format!("batch {name}, {kind}"), BATCH_TARGET);
        }
    }
    for (kind, (quiet, every)) in KINDS.into_iter().zip(quiet.iter().zip(&every)) {
        answer.sum_up_rows(&format!("batch, quiet captures, {kind}"), quiet, BATCH_TARGET);
        answer.sum_up_rows(&format!("batch, all captures, {kind}"), every, BATCH_TARGET);
    }
    Ok(())
}

/// One prediction against all kinds of times, in the order of [`KINDS`].
fn rows(name: &str, (from, to): (&Capture, &Capture), got: &Predicted, [cost, speed]: [f64; 2]) -> [Row; 3] {
    let [profiled, wall] = [[to.profiled_ns, from.profiled_ns, 0.0, 1.0], [to.wall_ns, from.wall_ns, cost, 1.0]];
    let equal = [to.wall_ns, from.wall_ns, cost, speed];
    let mut kinds = KINDS.into_iter();
    [profiled, wall, equal].map(|[expected, before, cost, speed]| {
        let kind = kinds.next().unwrap_or_default();
        let (ns, band) = got.at(cost, speed);
        let check = format!("{} → {}", from.batch, to.batch);
        let scaled = before * to.batch as f64 / from.batch as f64;
        let source = (from.id.as_str(), Constants::HeldOut);
        let row = Row::new(format!("batch {name}, {kind}"), check, (expected, ns), BATCH_LIMIT, source);
        let row = row.against(scaled, before).within(band).over(from.steps.len());
        if kind == KINDS[0] { row.of(got.parts(from, to)) } else { row }
    })
}
