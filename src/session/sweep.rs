//! Sweeps: one scenario evaluated over the values of a knob, or of several.

mod edit;
mod slice;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use retime_core::analysis::layers::is_worthwhile;
use retime_core::engine::ErrorBand;
use retime_core::scenario::grammar::{Kind, Knob};
use retime_core::scenario::{Scenario, Step, nearest, parse_step, short, transforms};
use retime_core::units::{Bytes, DurNs};

use super::board::is_modelled;
pub use slice::{SweepSlice, slices};

/// A knob and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Name of the knob, e.g. `batch`, or the selector of the tasks whose time it scales.
    pub knob: String,
    /// The values, in rising order.
    pub values: Vec<f64>,
    /// A second knob: points are then those of a grid, with its values as columns.
    pub across: Option<Box<Sweep>>,
    /// The step that has the number which is varied.
    pub(crate) step: Step,
    /// Which of its arguments that is.
    pub(crate) argument: usize,
}

/// What a sweep can vary by name, with what each is; a selector is a knob too.
pub fn knobs() -> impl Iterator<Item = &'static Knob> {
    transforms().iter().flat_map(|grammar| grammar.knobs)
}

impl Sweep {
    /// A knob with these values: one of [`knobs`], the line of an edit but for its number (`resize-op family=gemm 4096->`), or a
    /// selector, also as `alpha SELECTOR`, which is scaled.
    ///
    /// # Errors
    /// There is no such knob, the selector cannot be read, or a value makes no step.
    pub fn new(knob: &str, values: Vec<f64>) -> Result<Self, String> {
        let first = values.first().copied().unwrap_or(1.0);
        let (line, argument) = match knobs().find(|known| known.name == knob) {
            Some(known) => (known.line.to_owned(), known.argument),
            None if edit::is_edit(knob) => edit::completed(knob, first)?,
            None => (format!("scale {} x{}", selector(knob), short(first)), 1),
        };
        match parse_step(&line) {
            Ok(step) => {
                let sweep = Self { knob: knob.to_owned(), values: Vec::new(), across: None, step, argument };
                let mut values: Vec<f64> = values.into_iter().map(|value| sweep.nearest(value)).collect();
                values.dedup();
                sweep.checked(values.clone())?;
                Ok(Self { values, ..sweep })
            }
            Err(_) if is_mistyped(knob) => Err(no_knob(knob)),
            Err(error) => Err(format!("`{line}`: {error}")),
        }
    }

    /// A knob by its name or a selector, over a range around what it is.
    ///
    /// # Errors
    /// The batch size is not known, or the selector cannot be read.
    pub fn around(knob: &str, batch: Option<u64>) -> Result<Self, String> {
        if edit::is_edit(knob) {
            return Self::new(knob, edit::values(knob)?);
        }
        let values = match knobs().find(|known| known.name == knob).map_or(FACTORS, |known| known.range) {
            "" => sizes_around(batch.ok_or("the batch size of this trace is not known")?),
            range => Self::parse_values(range)?,
        };
        Self::new(knob, values)
    }

    /// With few of the values, the first and the last among them: for the columns of a grid.
    #[must_use]
    pub fn coarse(self) -> Self {
        const FEW: usize = 5;
        let last = self.values.len().saturating_sub(1);
        let mut places: Vec<usize> = (0..FEW).map(|place| place * last / (FEW - 1)).collect();
        places.dedup();
        let values = places.into_iter().filter_map(|place| self.values.get(place).copied()).collect();
        Self { values, ..self }
    }

    /// Its knobs: one, or two of a grid.
    pub fn knobs(&self) -> Vec<Self> {
        let own = Self { across: None, ..self.clone() };
        std::iter::once(own).chain(self.across.as_deref().cloned()).collect()
    }

    /// Its points, each a value per knob, row by row.
    pub fn points(&self) -> Vec<Vec<f64>> {
        let knobs = self.knobs();
        grid(&knobs, 0..count(&knobs)).collect()
    }

    /// `values`, if each makes a step.
    ///
    /// # Errors
    /// Why one does not.
    pub fn checked(&self, values: Vec<f64>) -> Result<Vec<f64>, String> {
        let mut values: Vec<f64> = values.into_iter().map(|value| self.nearest(value)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let wrong = |&value: &f64| Some((value, self.step.with(self.argument, value).err()?));
        match values.iter().find_map(wrong) {
            Some((value, error)) => Err(format!("`{}`: {error}", self.line(value))),
            None => Ok(values),
        }
    }

    /// The value that it can have next to `value`: samples and ranks are whole.
    fn nearest(&self, value: f64) -> f64 {
        if matches!(self.kind(), Some(Kind::Whole(..))) { value.round() } else { value }
    }

    fn kind(&self) -> Option<Kind> {
        self.step.kind(self.argument)
    }

    /// What its values are, in a word.
    pub fn unit(&self) -> &'static str {
        let unit = if matches!(self.kind(), Some(Kind::Whole(..))) { "size" } else { "factor" };
        knobs().find(|known| known.name == self.knob).map_or(unit, |known| known.unit)
    }

    /// A value as people read it: `256`, `×0.5`.
    pub fn shown(&self, value: f64) -> String {
        let short = |digits: i32| (value * 10_f64.powi(digits)).round() / 10_f64.powi(digits);
        match self.kind() {
            Some(Kind::Whole(..)) => format!("{value:.0}"),
            Some(Kind::Factor(..)) => format!("×{}", short(3)),
            _ => short(1).to_string(),
        }
    }

    /// Whether values are factors of what is.
    pub fn is_factor(&self) -> bool {
        matches!(self.kind(), Some(Kind::Factor(..)))
    }

    /// From the first value to the last: `64..1024`, with their number where they do not double.
    pub fn range(&self) -> String {
        let (Some(&low), Some(&high)) = (self.values.first(), self.values.last()) else { return String::new() };
        let text = format!("{low}..{high}");
        let doubles = Self::parse_values(&text).is_ok_and(|values| values == self.values);
        if doubles { text } else { format!("{text}x{}", self.values.len()) }
    }

    /// The values, in order.
    pub fn values(&self) -> impl Iterator<Item = f64> + use<> {
        self.values.clone().into_iter()
    }

    /// The step for one value.
    pub fn line(&self, value: f64) -> String {
        self.step.line_with(self.argument, value)
    }

    /// The line of `step`, which has the knob, with another value.
    pub fn line_in(&self, step: &Step, value: f64) -> String {
        step.line_with(self.argument, value)
    }

    /// Whether both vary the same number, by whatever names.
    pub fn is_same_knob(&self, other: &Self) -> bool {
        let varies = self.value_in(&other.step).is_some() || other.value_in(&self.step).is_some();
        self.knob == other.knob || (self.argument == other.argument && varies)
    }

    /// The value that `step` gives the knob, if it has it. What the knob says nothing of may be anything.
    pub fn value_in(&self, step: &Step) -> Option<f64> {
        step.number(self.argument).filter(|_| step.is_but_for(&self.step, self.argument))
    }
}

/// Factors to try.
const FACTORS: &str = "0.25..4x9";

/// Batch sizes around `current`: a sixteenth of it to sixteen times it, doubling.
fn sizes_around(current: u64) -> Vec<f64> {
    let sizes = (-4..=4).map(|power| (current as f64 * 2_f64.powi(power)).round() as u64).filter(|&size| size > 0);
    sizes.collect::<BTreeSet<u64>>().into_iter().map(|size| size as f64).collect()
}

/// The selector of a knob without a name.
fn selector(knob: &str) -> &str {
    let alpha = knob.strip_prefix("alpha ").unwrap_or(knob);
    alpha.strip_prefix("of ").unwrap_or(alpha).trim()
}

/// Whether the knob is a single word that is none.
fn is_mistyped(knob: &str) -> bool {
    knob.chars().all(|letter| letter.is_alphanumeric() || "-_".contains(letter))
}

fn no_knob(knob: &str) -> String {
    let names: Vec<&str> = knobs().map(|known| known.name).collect();
    let near = nearest(&knob.replace('-', "_"), names.iter().copied());
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    format!(
        "no knob `{knob}`; {near}knobs are {}, a selector, e.g. family=gemm, or an edit but for its number, e.g. resize-op family=gemm 4096->",
        names.join(", ")
    )
}

/// How many combinations of the knobs' values there are.
pub fn count(knobs: &[Sweep]) -> usize {
    knobs.iter().fold(1, |count: usize, knob| count.saturating_mul(knob.values.len()))
}

/// The combinations of the knobs' values at these `places`, of which those of the last knob change fastest.
pub fn grid(knobs: &[Sweep], places: impl Iterator<Item = usize>) -> impl Iterator<Item = Vec<f64>> {
    places.map(|place| {
        let mut left = place;
        let mut values: Vec<f64> = Vec::with_capacity(knobs.len());
        for knob in knobs.iter().rev() {
            values.push(knob.values[left % knob.values.len()]);
            left /= knob.values.len();
        }
        values.reverse();
        values
    })
}

/// `scenario` with the knob at `value`: in the last step that has the knob, which keeps what else it says, or in a further step.
///
/// # Errors
/// The value makes no step.
pub fn put_value(scenario: &mut Scenario, sweep: &Sweep, value: f64) -> Result<(), String> {
    let at = place(scenario, sweep);
    let before = at.map_or(&sweep.step, |at| &scenario.steps[at]);
    let step = before.with(sweep.argument, value).map_err(|error| error.to_string())?;
    match at {
        Some(at) => scenario.steps[at] = step,
        None => scenario.steps.push(step),
    }
    Ok(())
}

/// The step that a knob takes the place of: a knob has one value.
pub fn place(scenario: &Scenario, sweep: &Sweep) -> Option<usize> {
    scenario.steps.iter().rposition(|step| step.enabled && sweep.value_in(step).is_some())
}

/// One evaluated value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Knob → value.
    pub knobs: BTreeMap<String, f64>,
    /// Iteration time, of the recorded window.
    pub simulated_ns: DurNs,
    /// What points are compared by, see [`Summary::steady_ns`](retime_core::engine::Summary::steady_ns).
    #[serde(default)]
    pub steady_ns: DurNs,
    /// Where `steady_ns` may lie.
    #[serde(default)]
    pub steady_band: ErrorBand,
    /// Samples per second of the job, all its ranks together; batches per second, one a rank and iteration, where their size is unknown.
    pub throughput: f64,
    /// As that, of one rank.
    #[serde(default)]
    pub throughput_per_rank: f64,
    /// Whether that counts batches, since their size is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_iterations: bool,
    /// Samples of a batch on average as a share of its size, where passes or ranks run on unlike ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_share: Option<f64>,
    /// Peak device memory, where it can be told.
    pub memory_bytes: Option<Bytes>,
    /// Whether it fits the device, where both are known.
    pub fits: Option<bool>,
    /// What most of the critical path is.
    pub path_kind: String,
    /// What the step could not do.
    pub unhandled: Vec<String>,
    /// The largest share of the device's time that a step should have changed and could not.
    #[serde(default)]
    pub unhandled_share: f64,
    /// Why a step of it is not done, so that there are no figures of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_done: Option<String>,
}

impl SweepPoint {
    /// The value of `knob`.
    pub fn value(&self, knob: &str) -> Option<f64> {
        self.knobs.get(knob).copied()
    }

    /// Whether its figures are such as an evaluation gives.
    pub fn is_sound(&self) -> bool {
        const MOST_SAMPLES: f64 = 1e15;
        const MOST_RANKS: f64 = 1e6;
        // Of the window and the period that repeats either may be longer, by what the one has and the other shares with its neighbours.
        const MOST_APART: i64 = 1_000;
        let (window, period) = (self.simulated_ns.0, self.steady_ns.0);
        let are_alike = window <= period.saturating_mul(MOST_APART) && period <= window.saturating_mul(MOST_APART);
        let least = if self.not_done.is_some() { DurNs::ZERO } else { DurNs(1) };
        let ErrorBand { low_ns, high_ns, .. } = self.steady_band;
        let samples = [self.throughput, self.throughput_per_rank].map(|rate| rate * self.steady_ns.secs());
        [self.simulated_ns, self.steady_ns].iter().all(|time| (least..=DurNs::LONGEST).contains(time))
            && low_ns >= DurNs::ZERO
            && high_ns <= DurNs::LONGEST
            && (low_ns..=high_ns).contains(&self.steady_ns)
            && samples.iter().all(|samples| (0.0..=MOST_SAMPLES).contains(samples))
            && are_alike
            && self.counts_its_samples()
            && (0.999 * self.throughput_per_rank..=MOST_RANKS * self.throughput_per_rank).contains(&self.throughput)
            && self.knobs.values().all(|value| (0.0..=f64::MAX).contains(value))
            && self.value("batch").is_none_or(|batch| batch >= 1.0)
            && self.memory_bytes.is_none_or(|bytes| bytes <= Bytes::MOST)
            && (0.0..=1.0).contains(&self.unhandled_share)
    }

    /// Whether throughput is that of whole batches of the size that it is swept over, else of whole samples, on each of whole ranks.
    fn counts_its_samples(&self) -> bool {
        const ROUNDING: f64 = 1e-9;
        let is_whole = |times: f64| times >= 1.0 - ROUNDING && (times - times.round()).abs() <= ROUNDING * times;
        let each = self.value("batch").filter(|_| !self.counts_iterations).unwrap_or(1.0);
        let batches = self.throughput_per_rank * self.steady_ns.secs() / (each * self.pass_share.unwrap_or(1.0));
        self.not_done.is_some() || (is_whole(batches) && is_whole(self.throughput / self.throughput_per_rank))
    }

    /// Throughput at the far and the near end of the iteration's band.
    pub fn throughput_range(&self) -> (f64, f64) {
        let at = |time: DurNs| time.rate_of(self.throughput * self.steady_ns.secs());
        (at(self.steady_band.high_ns), at(self.steady_band.low_ns))
    }
}

/// Whether models cover too little of what some point should change to tell which is the best.
pub fn has_unmodelled(points: &[SweepPoint]) -> bool {
    points.iter().any(|point| !is_modelled(point.unhandled_share))
}

/// The smallest batch size tried whose doubling is known to gain at most 5 % in throughput, among points that fit; where none is, the
/// largest of them if it gains more over the one before. None where neither is known, and where models cover too little.
///
/// Of twice a batch size that is no point itself it is known that it gains at most what its neighbours do.
pub fn optimal_batch(points: &[SweepPoint]) -> Option<u64> {
    if has_unmodelled(points) {
        return None;
    }
    let fitting = points.iter().filter(|point| point.fits != Some(false));
    let mut known: Vec<(f64, f64)> =
        fitting.filter_map(|point| Some((point.value("batch")?, point.throughput))).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at_most = |batch: f64| {
        let above = known.partition_point(|&(known, _)| known < batch);
        let &(high, fast) = known.get(above)?;
        let slow = above.checked_sub(1).filter(|_| high > batch).map_or(fast, |below| known[below].1);
        Some(slow.max(fast))
    };
    let gains_no_more =
        |&&(batch, own): &&(f64, f64)| at_most(2.0 * batch).is_some_and(|doubled| !is_worthwhile(own, doubled));
    let best = known.iter().find(gains_no_more);
    let last = known.last().filter(|last| matches!(known[..], [.., before, _] if is_worthwhile(before.1, last.1)));
    best.or(last).map(|&(batch, _)| batch as u64)
}

/// Whether doubling still gains at `batch`, as far as points tell: no larger one that fits was tried.
pub fn still_gains(points: &[SweepPoint], batch: u64) -> bool {
    let fitting = points.iter().filter(|point| point.fits != Some(false)).filter_map(|point| point.value("batch"));
    !points.is_empty() && fitting.fold(0.0, f64::max) <= batch as f64
}

/// The largest value of a knob whose point fits the device's memory, where some point does not.
pub fn memory_limit(points: &[SweepPoint], knob: &str) -> Option<f64> {
    let fitting = points.iter().filter(|point| point.fits == Some(true)).filter_map(|point| point.value(knob));
    fitting.max_by(f64::total_cmp).filter(|_| points.iter().any(|point| point.fits == Some(false)))
}

/// Whether there are points and none fits the device's memory.
pub fn none_fits(points: &[SweepPoint]) -> bool {
    !points.is_empty() && points.iter().all(|point| point.fits == Some(false))
}

/// Where most of the critical path becomes another kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathChange {
    /// The first value of the knob with the new kind.
    pub at: f64,
    /// What most of the path was.
    pub from: String,
    /// What it is from there on.
    pub to: String,
}

/// Where most of the critical path becomes another kind, over the points of one knob in order.
pub fn path_changes(points: &[SweepPoint], knob: &str) -> Vec<PathChange> {
    let change = |pair: &[SweepPoint]| {
        let (from, to) = (pair[0].path_kind.clone(), pair[1].path_kind.clone());
        Some(PathChange { at: pair[1].value(knob)?, from, to }).filter(|change| change.from != change.to)
    };
    points.windows(2).filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(batch: f64, throughput: f64, fits: Option<bool>) -> SweepPoint {
        SweepPoint {
            knobs: BTreeMap::from([("batch".to_owned(), batch)]),
            simulated_ns: DurNs(1),
            steady_ns: DurNs(1),
            throughput,
            steady_band: ErrorBand::default(),
            throughput_per_rank: throughput,
            counts_iterations: false,
            pass_share: None,
            memory_bytes: None,
            fits,
            path_kind: String::new(),
            unhandled: Vec::new(),
            unhandled_share: 0.0,
            not_done: None,
        }
    }

    fn batch(sizes: &[f64]) -> Sweep {
        Sweep::new("batch", sizes.to_vec()).unwrap()
    }

    #[test]
    fn the_optimal_batch_is_where_doubling_stops_paying() {
        let points = [point(64.0, 100.0, None), point(128.0, 180.0, None), point(256.0, 188.0, None)];
        assert_eq!(optimal_batch(&points), Some(128));
        let memory = [point(64.0, 100.0, None), point(128.0, 180.0, None), point(256.0, 360.0, Some(false))];
        assert_eq!(optimal_batch(&memory), Some(128));
        assert_eq!(optimal_batch(&points[..1]), None);
        let apart = [1.0, 8.0, 64.0, 512.0].map(|batch| point(batch, batch, None));
        assert_eq!((optimal_batch(&apart), still_gains(&apart, 512)), (Some(512), true), "all doublings known gain");
    }

    #[test]
    fn there_is_no_best_batch_where_models_cover_too_little_of_the_sweep() {
        let points = [64.0, 128.0, 256.0].map(|batch| SweepPoint { unhandled_share: 0.4, ..point(batch, batch, None) });
        assert!(has_unmodelled(&points));
        assert_eq!(optimal_batch(&points), None);
    }

    #[test]
    fn a_knob_has_one_value_in_a_scenario_and_keeps_what_was_said_of_the_trace() {
        let of = |lines: &[&str]| Scenario {
            steps: lines.iter().map(|line| parse_step(line).unwrap()).collect(),
            ..Scenario::default()
        };
        let lines = |scenario: &Scenario| scenario.steps.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut scenario = of(&["scale-device dram_bw x0.5", "resize-batch 64 from 32"]);
        put_value(&mut scenario, &Sweep::around("dram_bw", None).unwrap(), 2.0).unwrap();
        put_value(&mut scenario, &batch(&[]), 128.0).unwrap();
        put_value(&mut scenario, &Sweep::around("flops", None).unwrap(), 2.0).unwrap();
        assert_eq!(lines(&scenario), ["scale-device dram_bw x2", "resize-batch 128 from 32", "scale-device flops x2"]);
        assert!(put_value(&mut scenario, &batch(&[]), 0.0).is_err());
        let mut linked = of(&["scale-ranks 16 NVLink4"]);
        put_value(&mut linked, &Sweep::around("ranks", None).unwrap(), 64.0).unwrap();
        assert_eq!(lines(&linked), ["scale-ranks 64 NVLink4"]);
    }

    #[test]
    fn the_largest_batch_is_not_called_the_best() {
        let points = [point(64.0, 100.0, None), point(128.0, 180.0, None), point(256.0, 188.0, None)];
        assert!(!still_gains(&points, 128));
        assert!(still_gains(&points[..2], 128), "nothing larger was tried");
        let full = [point(64.0, 100.0, None), point(128.0, 180.0, None), point(256.0, 360.0, Some(false))];
        assert!(still_gains(&full, 128), "nothing larger fits");
    }

    #[test]
    fn twice_a_batch_may_lie_between_two_points() {
        let points = [point(64.0, 100.0, None), point(96.0, 103.0, None), point(160.0, 105.0, None)];
        assert_eq!(optimal_batch(&points), Some(64), "at 128 it is 105 at most");
        let far = [point(1.0, 249.0, None), point(16.0, 434.0, None)];
        assert_eq!((optimal_batch(&far), still_gains(&far, 16)), (Some(16), true), "at 2 it may be 434 as well");
        let flat =
            [point(1.0, 249.0, None), point(2.0, 334.0, None), point(16.0, 434.0, None), point(17.0, 435.0, None)];
        assert_eq!(optimal_batch(&flat), None, "neither 4 nor 34 was tried");
    }

    #[test]
    fn a_path_that_changes_kind_and_a_device_that_is_full_are_told() {
        let of = |batch, kind: &str, fits| SweepPoint { path_kind: kind.to_owned(), ..point(batch, 1.0, Some(fits)) };
        let points = [of(1.0, "host", true), of(2.0, "host", true), of(4.0, "kernel", false)];
        let change = PathChange { at: 4.0, from: "host".to_owned(), to: "kernel".to_owned() };
        assert_eq!(path_changes(&points, "batch"), [change]);
        assert_eq!(memory_limit(&points, "batch"), Some(2.0));
        assert_eq!(memory_limit(&points[..2], "batch"), None, "nothing tells where it ends");
        assert_eq!(memory_limit(&points[2..], "batch"), None, "none fits");
        assert!(none_fits(&points[2..]) && !none_fits(&points) && !none_fits(&[]));
    }

    #[test]
    fn a_grid_has_every_combination_row_by_row_and_few_columns() {
        let across = Box::new(Sweep::around("dram_bw", None).unwrap().coarse());
        assert_eq!((across.values.len(), across.values[0], across.values[4]), (5, 0.25, 4.0));
        let sweep = Sweep { across: Some(across), ..batch(&[8.0, 16.0]) };
        let points = sweep.points();
        assert_eq!((points.len(), &points[0], &points[9]), (10, &vec![8.0, 0.25], &vec![16.0, 4.0]));
        assert_eq!(batch(&[8.0, 16.0]).points(), [[8.0], [16.0]]);
        let many = vec![batch(&[8.0, 16.0, 32.0]); 50];
        assert_eq!(
            (count(&many), grid(&many, [usize::MAX].into_iter()).count()),
            (usize::MAX, 1),
            "none is made but those asked for"
        );
        assert_eq!(batch(&[8.0, 16.0]).coarse().values, [8.0, 16.0]);
    }

    #[test]
    fn a_knob_has_a_range_around_what_it_is() {
        assert_eq!(Sweep::around("batch", Some(32)).unwrap().range(), "2..512");
        assert_eq!(Sweep::around("dram_bw", None).unwrap().range(), "0.25..4x9");
        assert_eq!(Sweep::around("family=gemm", None).unwrap().line(0.5), "scale family=gemm x0.5");
        assert!(Sweep::around("batch", None).unwrap_err().contains("not known"));
        assert!(Sweep::around("colour=red", None).is_err());
        assert_eq!(batch(&[500.0, 622.6, 622.9, 776.2]).values, [500.0, 623.0, 776.0], "samples are whole");
        let whole = batch(&[1.0, 4.0]).checked(vec![1.0, 1.4, 2.2, 4.0]).unwrap();
        assert_eq!(whole, [1.0, 2.0, 4.0]);
    }
}
