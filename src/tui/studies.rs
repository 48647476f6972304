//! What is worked out beside the scenario in force: points of a sweep, advice, what edits gain against gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::session::{Advice, Sweep, SweepPoint};
use retime_core::analysis::gaps::{Gap, candidate_steps};
use retime_core::units::DurNs;

use super::effect::Effect;
use super::runner::{Analysis, Request};
use super::workspace::Workspace;

/// Points of a sweep, as they come in.
#[derive(Clone, Debug, Default)]
pub struct SweepState {
    /// The request they answer.
    pub revision: u64,
    /// What has come in, in order of the knob.
    pub points: Vec<SweepPoint>,
    /// How many will come.
    pub expected: usize,
    /// The knob that the points are of.
    pub shown: Option<Sweep>,
    /// The knob that was chosen; the batch size where none was.
    pub chosen: Option<Sweep>,
    /// The chosen column of a grid.
    pub column: usize,
}

impl SweepState {
    /// The point in row `row` of the view, of a grid in the chosen column.
    pub fn point(&self, row: usize) -> Option<&SweepPoint> {
        let shown = self.shown.as_ref()?;
        let Some(across) = &shown.across else { return self.points.get(row) };
        self.at(*shown.values.get(row)?, *across.values.get(self.column)?)
    }

    /// The point of a grid with these values of its knobs.
    pub fn at(&self, row: f64, column: f64) -> Option<&SweepPoint> {
        let shown = self.shown.as_ref()?;
        let across = shown.across.as_ref()?;
        let is_it =
            |point: &&SweepPoint| point.value(&shown.knob) == Some(row) && point.value(&across.knob) == Some(column);
        self.points.iter().find(is_it)
    }
}

/// Advice, as it was last given.
#[derive(Clone, Debug, Default)]
pub struct AdviceState {
    /// The request it answers.
    pub revision: u64,
    /// What was asked for last.
    pub wanted: Option<u64>,
    /// Whether more options are being looked for.
    pub is_looking: bool,
    /// The share of the time to save, where there is a goal.
    pub target: Option<f64>,
    /// The advice.
    pub advice: Option<Arc<Advice>>,
}

/// Steps tried on top of a scenario, each with what it takes off the iteration.
#[derive(Clone, Debug, Default)]
pub struct Gains {
    /// The request they answer; `None` before the first.
    pub revision: Option<u64>,
    /// How many were asked for.
    pub expected: usize,
    /// What has come in.
    pub of_line: BTreeMap<String, DurNs>,
}

impl Workspace {
    /// Asks what the steps that may close the longest gaps gain; nothing when that is known already.
    pub fn try_against_gaps(&mut self) -> Vec<Effect> {
        const GAPS: usize = 24;
        let revision = self.history.revision();
        if self.is_stale() || self.is_relisting() || self.gains.revision == Some(revision) {
            return Vec::new();
        }
        let mut lines: Vec<String> = Vec::new();
        let of_gaps = self.listing.gaps().map(|gap| candidate_steps(&self.loaded.graph, gap));
        for line in of_gaps.filter(|lines| !lines.is_empty()).take(GAPS).flatten() {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        self.gains = Gains { revision: Some(revision), expected: lines.len(), of_line: BTreeMap::new() };
        if lines.is_empty() { Vec::new() } else { vec![self.analyse(revision, Analysis::Gains(lines))] }
    }

    /// Takes what a step gains.
    pub fn take_gain(&mut self, revision: u64, line: String, gain: DurNs) {
        if self.gains.revision == Some(revision) {
            self.gains.of_line.insert(line, gain);
        }
    }

    /// Whether every step that may close a gap was tried on the scenario in force.
    pub fn gains_are_known(&self) -> bool {
        let is_current = self.gains.revision == Some(self.history.revision());
        is_current && self.gains.of_line.len() == self.gains.expected
    }

    /// The steps that shorten `gap` with what each takes off the iteration, most first.
    pub fn closing(&self, gap: &Gap) -> Vec<(String, DurNs)> {
        if self.gains.revision != Some(self.history.revision()) {
            return Vec::new();
        }
        let tried = candidate_steps(&self.loaded.graph, gap).into_iter();
        let known = tried.filter_map(|line| self.gains.of_line.get(&line).map(|&gain| (line, gain)));
        let mut closing: Vec<(String, DurNs)> = known.filter(|(_, gain)| gain.0 > 0).collect();
        closing.sort_by_key(|(line, gain)| (std::cmp::Reverse(*gain), line.clone()));
        closing
    }

    /// The knob to turn and how far: the one chosen, else the batch size where it is known.
    pub fn wanted_sweep(&self) -> Option<Sweep> {
        self.sweep.chosen.clone().or_else(|| Sweep::around("batch", self.base_batch()).ok())
    }

    /// As [`start_sweep`](Self::start_sweep), over batch sizes.
    pub fn start_batch_sweep(&mut self) -> Vec<Effect> {
        self.sweep.chosen = self.sweep.chosen.take().filter(|sweep| sweep.knob == "batch" && sweep.across.is_none());
        self.start_sweep()
    }

    /// Asks for a sweep on top of the scenario in force; nothing when that is known already.
    pub fn start_sweep(&mut self) -> Vec<Effect> {
        let Some(sweep) = self.wanted_sweep() else { return Vec::new() };
        let revision = self.history.revision();
        if self.sweep.shown.as_ref() == Some(&sweep) && self.sweep.revision == revision {
            return Vec::new();
        }
        let (shown, chosen) = (Some(sweep.clone()), self.sweep.chosen.take());
        let expected = sweep.points().len();
        let column = self.sweep.column.min(sweep.across.as_ref().map_or(0, |across| across.values.len() - 1));
        self.sweep = SweepState { revision, points: Vec::new(), expected, shown, chosen, column };
        vec![self.analyse(revision, Analysis::Sweep(sweep))]
    }

    /// Asks for advice on top of the scenario in force; nothing when that is known or asked for already.
    pub fn start_advice(&mut self) -> Vec<Effect> {
        let revision = self.history.revision();
        if self.advice.wanted == Some(revision) {
            return Vec::new();
        }
        self.advice.wanted = Some(revision);
        self.advice.is_looking = true;
        vec![self.analyse(revision, Analysis::Advise(self.advice.target))]
    }

    /// Takes another goal; advice is then asked for anew.
    pub fn set_goal(&mut self, target: Option<f64>) {
        (self.advice.target, self.advice.wanted) = (target, None);
    }

    /// Looks for no more options; what was found stays.
    pub fn stop_advice(&mut self) -> Vec<Effect> {
        (self.advice.is_looking, self.advice.wanted) = (false, None);
        vec![Effect::Ask(Request::Stop { work: self.number, analysis: Analysis::Advise(None) })]
    }

    /// Takes advice, unless other was asked for since.
    pub fn take_advice(&mut self, revision: u64, advice: Advice) {
        if self.advice.wanted == Some(revision) {
            self.advice.revision = revision;
            self.advice.is_looking &= advice.is_partial;
            self.advice.advice = Some(Arc::new(advice));
        }
    }

    /// Takes a point of a sweep, in place of an earlier one: a sweep that an edit overtook begins again.
    pub fn take_point(&mut self, revision: u64, point: SweepPoint) {
        // Points of another knob, or beyond its range, are left over from what was wanted before.
        let wanted = self.sweep.shown.as_ref().filter(|_| revision == self.sweep.revision);
        let knobs = wanted.map(Sweep::knobs).unwrap_or_default();
        let of_knob = |sweep: &Sweep| point.value(&sweep.knob).is_some_and(|value| sweep.values.contains(&value));
        if point.knobs.len() == knobs.len() && !knobs.is_empty() && knobs.iter().all(of_knob) {
            self.sweep.points.retain(|known| known.knobs != point.knobs);
            self.sweep.points.push(point);
            let order = |a: &SweepPoint, b: &SweepPoint| {
                let of_knob = |knob: &Sweep| a.value(&knob.knob)?.partial_cmp(&b.value(&knob.knob)?);
                knobs.iter().filter_map(of_knob).fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            };
            self.sweep.points.sort_by(order);
        }
    }
}
