//! The what-if board: every edit that applies to a trace, each tried on top of a scenario.

mod candidates;
mod change;

use rayon::prelude::*;
use serde::Serialize;

use retime_core::scenario::{Scenario, Step};
use retime_core::units::{Bytes, DurNs};

use super::{Engine, ErrorBand, Loaded, Outcome};

pub use candidates::{candidates, number_of};
pub use change::Change;

/// What an edit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    /// The program: which kernels run, in which type, in which order.
    Code,
    /// Its numbers: batch, buckets, placements, ranks.
    Configuration,
    /// What it runs on.
    Hardware,
}

impl Section {
    /// All of them, in the order of the board.
    pub const ALL: [Self; 3] = [Self::Code, Self::Configuration, Self::Hardware];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Configuration => "configuration",
            Self::Hardware => "hardware",
        }
    }

    /// The section of steps together: the one that reaches furthest, hardware before configuration before code.
    pub fn of_all<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Self {
        steps.into_iter().map(Self::of).max().unwrap_or(Self::Code)
    }

    /// The section of a step.
    pub fn of(step: &Step) -> Self {
        match step.name() {
            "swap-gpu" | "swap-link" | "place-on" | "scale-device" => Self::Hardware,
            "resize-batch" | "bucket-size" | "scale-ranks" | "reshard-tables" | "accumulate" | "straggler"
            | "overheads" => Self::Configuration,
            _ => Self::Code,
        }
    }
}

/// Steps of which a scenario has one at most: another takes its place.
const ONE_OF_A_KIND: [&str; 6] =
    ["resize-batch", "swap-gpu", "swap-link", "place-on", "mixed-precision", "bucket-size"];

/// Puts `step` into `scenario`: in the place of another of its kind where there can be but one, else behind the rest.
pub fn put(scenario: &mut Scenario, step: Step) {
    let is_other = |known: &Step| known.name() == step.name();
    match scenario.steps.iter().position(is_other).filter(|_| ONE_OF_A_KIND.contains(&step.name())) {
        Some(at) => scenario.steps[at] = step,
        None => scenario.steps.push(step),
    }
}

/// An edit on top of a scenario, and what comes of it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The step as a line.
    pub line: String,
    /// What it changes.
    pub section: Section,
    /// The iteration with it.
    pub steady_ns: DurNs,
    /// On how many devices, those of ranks that are not loaded among them.
    pub devices: u32,
    /// Where that may lie.
    pub band: ErrorBand,
    /// Time per sample with it, as a share of that of the scenario without it.
    pub ratio: f64,
    /// The same at the far end of the band: what is sure.
    pub sure_ratio: f64,
    /// Device memory, where it can be told.
    pub memory_bytes: Option<Bytes>,
    /// Whether it fits the device, where both are known.
    pub fits: Option<bool>,
    /// The kernels and host parts that change, the largest change first.
    pub changes: Vec<Change>,
    /// The family that gains most, with what it takes less.
    pub most: Option<(&'static str, DurNs)>,
    /// Share of the device's time that it should have changed and no model covers.
    pub unmodelled_share: f64,
    /// Why it changes nothing.
    pub no_effect: Option<String>,
    /// What a reader has to know of it.
    pub remarks: Vec<String>,
}

impl Trial {
    /// Whether models cover enough of what it should change to tell a gain from a loss.
    pub fn is_modelled(&self) -> bool {
        is_modelled(self.unmodelled_share)
    }
}

/// Whether models cover enough of the device's time to tell a gain from a loss, where that share of it has none.
pub fn is_modelled(unmodelled_share: f64) -> bool {
    const MOST_UNMODELLED: f64 = 0.3;
    unmodelled_share <= MOST_UNMODELLED
}

/// Tries edits on top of one scenario.
#[derive(Debug)]
pub struct Trials<'a> {
    engine: &'a Engine,
    loaded: &'a Loaded,
    base: Outcome,
}

impl<'a> Trials<'a> {
    /// Evaluates `scenario` itself, which all trials are held against.
    pub fn new(engine: &'a Engine, loaded: &'a Loaded, scenario: &Scenario) -> Self {
        Self { engine, loaded, base: engine.evaluate(loaded, scenario, 0) }
    }

    /// How many edits are tried at a time.
    pub fn at_once(&self) -> usize {
        self.engine.at_once(self.base.resolved.added.len())
    }

    /// What comes of each line, on all cores, in order; lines that are no steps are left out.
    pub fn try_all(&self, lines: &[String]) -> Vec<Trial> {
        lines.par_iter().filter_map(|line| self.attempt(line)).collect()
    }

    fn attempt(&self, line: &str) -> Option<Trial> {
        let step = self.loaded.context.step(line).ok()?;
        let mut scenario = self.base.scenario.clone();
        let (section, line) = (Section::of(&step), step.to_string());
        put(&mut scenario, step);
        let at = scenario.steps.iter().position(|step| step.to_string() == line)?;
        let outcome = self.engine.evaluate(self.loaded, &scenario, 0);
        let (summary, told) = (&outcome.summary, &outcome.steps[at]);
        let mut band = summary.steady_band;
        band.widen(self.engine.assumed_change(self.loaded, &outcome, at));
        let per_sample = |time: DurNs, samples: f64| time.0 as f64 / samples.max(1e-9);
        let before = per_sample(self.base.summary.steady_ns, self.base.summary.samples()).max(1e-9);
        let changes = change::changes(self.loaded, &self.base, &outcome);
        Some(Trial {
            section,
            steady_ns: summary.steady_ns,
            devices: summary.job_ranks,
            ratio: per_sample(summary.steady_ns, summary.samples()) / before,
            sure_ratio: per_sample(band.high_ns, summary.samples()) / before,
            band,
            memory_bytes: summary.memory_bytes,
            fits: summary.fits,
            most: change::most(&changes),
            changes: changes.into_iter().take(change::KEPT).collect(),
            unmodelled_share: told.unhandled_share,
            no_effect: told.no_effect().map(str::to_owned),
            remarks: told.effects.iter().map(super::Told::line).collect(),
            line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::scenario::parse_step;

    #[test]
    fn a_scenario_has_one_batch_size_and_as_many_scalings_as_wanted() {
        let mut scenario = Scenario::parse(["resize-batch 64", "scale kind=kernel x0.5"]).unwrap();
        put(&mut scenario, parse_step("resize-batch 128").unwrap());
        put(&mut scenario, parse_step("scale kind=kernel x0.9").unwrap());
        let lines: Vec<String> = scenario.steps.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["resize-batch 128", "scale kind=kernel x0.5", "scale kind=kernel x0.9"]);
    }
}
