//! The state of the sweep: the knob that was chosen, and points as they come in.

use crate::session::{Sweep, SweepPoint, put_value};
use crate::tui::effect::Effect;
use crate::tui::runner::Analysis;
use crate::tui::workspace::Workspace;
use retime_core::scenario::Scenario;

/// What the drag along a sweep is called.
const PREVIEW: &str = "sweep";

/// Points of a sweep, as they come in.
#[derive(Clone, Debug, Default)]
pub struct SweepState {
    /// The request they answer.
    pub revision: u64,
    /// What has come in, in order of the knob.
    pub points: Vec<SweepPoint>,
    /// Those of which there are no figures.
    pub not_done: Vec<SweepPoint>,
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
    /// How many have come in.
    pub fn count(&self) -> usize {
        self.points.len() + self.not_done.len()
    }

    /// What is said of those that are not done.
    pub fn left_out(&self) -> Option<String> {
        let why = self.not_done.first()?.not_done.as_deref()?;
        Some(format!(" · {} not done: {why}", self.not_done.len()))
    }

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

impl Workspace {
    /// The knob to turn and how far: the one chosen, else the batch size where it is known.
    pub fn wanted_sweep(&self) -> Option<Sweep> {
        self.sweep.chosen.clone().or_else(|| Sweep::around("batch", self.base_batch()).ok())
    }

    /// Asks for a sweep on top of the scenario in force; nothing when that is known already.
    pub fn start_sweep(&mut self) -> Vec<Effect> {
        let Some(sweep) = self.wanted_sweep() else { return Vec::new() };
        if self.is_on_sweep() {
            return Vec::new();
        }
        let revision = self.history.revision();
        if self.sweep.shown.as_ref() == Some(&sweep) && self.sweep.revision == revision {
            return Vec::new();
        }
        let (shown, chosen) = (Some(sweep.clone()), self.sweep.chosen.take());
        let expected = sweep.points().len();
        let column = self.sweep.column.min(sweep.across.as_ref().map_or(0, |across| across.values.len() - 1));
        self.sweep = SweepState { revision, expected, shown, chosen, column, ..SweepState::default() };
        vec![self.analyse(revision, Analysis::Sweep(sweep))]
    }

    /// Puts the cursor on the value in force until it is moved.
    fn rest_on_present(&mut self) {
        let is_open = self.table_of() == super::OPENER.name && !self.is_on_sweep();
        let Some(knob) = self.sweep.shown.as_ref().filter(|knob| is_open && knob.across.is_none()) else { return };
        let Some(present) = super::in_force(self, knob) else { return };
        let is_present = |point: &SweepPoint| point.value(&knob.knob) == Some(present);
        self.table.cursor = self.sweep.points.iter().position(is_present).unwrap_or(self.table.cursor);
    }

    /// Whether a value of the sweep is looked at that is not in force.
    pub fn is_on_sweep(&self) -> bool {
        self.history.is_dragging(PREVIEW)
    }

    /// Shows the chosen values in all views.
    pub fn preview_sweep(&mut self) -> Vec<Effect> {
        let chosen = self.sweep.shown.as_ref().zip(self.sweep.point(self.table.cursor));
        let Some((shown, point)) = chosen else { return Vec::new() };
        let mut scenario = Scenario::clone(self.history.current());
        for knob in shown.knobs() {
            let value = point.value(&knob.knob);
            // A value that makes no step is none to look at.
            if value.is_none_or(|value| put_value(&mut scenario, &knob, value).is_err()) {
                return Vec::new();
            }
        }
        let revision = self.history.revision();
        if self.loaded.refolded(&scenario).is_none() {
            self.history.drag(PREVIEW, scenario);
        }
        if self.history.revision() == revision { Vec::new() } else { self.evaluate() }
    }

    /// Takes back what was only looked at.
    pub fn leave_sweep(&mut self) -> Vec<Effect> {
        if !(self.is_on_sweep() && self.history.cancel()) {
            return Vec::new();
        }
        // The points are those of the scenario that is in force again.
        self.sweep.revision = self.history.revision();
        self.clamp_step();
        self.evaluate()
    }

    /// Takes a point of a sweep, in place of an earlier one: a sweep that an edit overtook begins again.
    pub fn take_point(&mut self, revision: u64, point: SweepPoint) {
        // Points of another knob, or beyond its range, are left over from what was wanted before.
        let wanted = self.sweep.shown.as_ref().filter(|_| revision == self.sweep.revision);
        let knobs = wanted.map(Sweep::knobs).unwrap_or_default();
        let of_knob = |sweep: &Sweep| point.value(&sweep.knob).is_some_and(|value| sweep.values.contains(&value));
        if point.knobs.len() == knobs.len() && !knobs.is_empty() && knobs.iter().all(of_knob) {
            let of = if point.not_done.is_some() { &mut self.sweep.not_done } else { &mut self.sweep.points };
            of.retain(|known| known.knobs != point.knobs);
            of.push(point);
            let order = |a: &SweepPoint, b: &SweepPoint| {
                let of_knob = |knob: &Sweep| a.value(&knob.knob)?.partial_cmp(&b.value(&knob.knob)?);
                knobs.iter().filter_map(of_knob).fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            };
            self.sweep.points.sort_by(order);
            self.rest_on_present();
        }
    }
}
