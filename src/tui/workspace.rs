//! One opened trace: what was loaded, the scenario's history, the last good result, what the user looks at.

use std::sync::Arc;

use crate::cost::Prediction;
use crate::graph::LaneKind;
use crate::scenario::{History, Scenario};
use crate::session::{Loaded, Outcome, Sweep, SweepPoint};

use super::digest::Digest;
use super::effect::Effect;
use super::table::TableState;
use super::timeline::{Item, Paints, Picture, Scene, SearchIndex, Timeline};

/// A loaded trace with its pictures, as the loading thread hands it over.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The trace.
    pub loaded: Arc<Loaded>,
    /// Colours by kind.
    pub paints: Arc<Paints>,
    /// What can be searched for.
    pub index: Arc<SearchIndex>,
    /// Measured times.
    pub measured: Arc<Picture>,
    /// Times of the untouched replay.
    pub simulated: Arc<Picture>,
    /// Tables of the untouched replay.
    pub digest: Arc<Digest>,
}

/// Points of a sweep, as they come in.
#[derive(Clone, Debug, Default)]
pub struct SweepState {
    /// The request they answer.
    pub revision: u64,
    /// What has come in, in order of the knob.
    pub points: Vec<SweepPoint>,
    /// How many will come.
    pub expected: usize,
}

/// One trace with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Its number among the opened traces.
    pub number: usize,
    /// What was loaded.
    pub loaded: Arc<Loaded>,
    /// Colours by kind.
    pub paints: Arc<Paints>,
    /// What can be searched for.
    pub index: Arc<SearchIndex>,
    /// Measured times.
    pub measured: Arc<Picture>,
    /// Times of the last good result.
    pub simulated: Arc<Picture>,
    /// Tables of the last good result.
    pub digest: Arc<Digest>,
    /// The last good result.
    pub outcome: Arc<Outcome>,
    /// The scenario and its past.
    pub history: History,
    /// The steps that were last saved, or begun with.
    pub saved_steps: Vec<String>,
    /// The revision asked for last.
    pub wanted: u64,
    /// The chosen step.
    pub step: usize,
    /// The last edit as a line, for repeating.
    pub last_edit: Option<String>,
    /// The timeline.
    pub timeline: Timeline,
    /// The sweep over batch sizes.
    pub sweep: SweepState,
    /// Sorting, filter and cursor of the tables.
    pub table: TableState,
}

impl Workspace {
    /// A trace as it was loaded, with the steps to begin with.
    pub fn new(number: usize, opened: Opened, scenario: &Scenario) -> Self {
        let end = opened.measured.end.max(opened.simulated.end);
        let timeline = Timeline::new(&opened.loaded.graph, end);
        let outcome = Arc::clone(&opened.loaded.replay);
        Self {
            number,
            timeline,
            wanted: outcome.revision,
            outcome,
            loaded: opened.loaded,
            paints: opened.paints,
            index: opened.index,
            measured: opened.measured,
            simulated: opened.simulated,
            digest: opened.digest,
            history: History::new(scenario.clone()),
            saved_steps: scenario.steps.iter().map(ToString::to_string).collect(),
            step: 0,
            last_edit: None,
            sweep: SweepState::default(),
            table: TableState::default(),
        }
    }

    /// What the timeline is drawn from.
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            graph: &self.loaded.graph,
            measured: &self.measured,
            simulated: &self.simulated,
            paints: &self.paints,
            index: &self.index,
            resolved: &self.outcome.resolved,
            is_stale: self.is_stale(),
        }
    }

    /// What the timeline is drawn from, and its state to be changed.
    pub fn scene_and_timeline(&mut self) -> (Scene<'_>, &mut Timeline) {
        let is_stale = self.is_stale();
        let Self { loaded, measured, simulated, paints, index, outcome, timeline, .. } = self;
        let resolved = &outcome.resolved;
        (Scene { graph: &loaded.graph, measured, simulated, paints, index, resolved, is_stale }, timeline)
    }

    /// Whether the result shown is not that of the scenario in force.
    pub fn is_stale(&self) -> bool {
        self.wanted != self.outcome.revision
    }

    /// Asks for the result of the scenario in force.
    pub fn evaluate(&mut self) -> Vec<Effect> {
        self.wanted = self.history.revision();
        vec![Effect::Evaluate {
            work: self.number,
            revision: self.wanted,
            scenario: Arc::clone(self.history.current()),
        }]
    }

    /// Asks for the result of the steps to begin with: the untouched replay is shown until then.
    pub fn evaluate_anew(&mut self) -> Vec<Effect> {
        self.history.touch();
        self.evaluate()
    }

    /// Asks for a sweep over batch sizes on top of the scenario in force; nothing when that is known already.
    pub fn start_sweep(&mut self) -> Vec<Effect> {
        let Some(base) = self.base_batch() else { return Vec::new() };
        let revision = self.history.revision();
        if self.sweep.expected > 0 && self.sweep.revision == revision {
            return Vec::new();
        }
        let sweep = Sweep::batch_around(base);
        self.sweep = SweepState { revision, points: Vec::new(), expected: sweep.values.len() };
        vec![Effect::Sweep { work: self.number, revision, scenario: Arc::clone(self.history.current()), sweep }]
    }

    /// Takes a result; an overtaken one is shown too until the wanted one comes, as it is nearer.
    pub fn take(&mut self, outcome: Outcome, picture: Option<Arc<Picture>>, digest: Option<Arc<Digest>>) {
        if let Some(picture) = picture {
            self.timeline.reach(self.measured.end.max(picture.end));
            self.simulated = picture;
        }
        if let Some(digest) = digest {
            self.digest = digest;
        }
        self.outcome = Arc::new(outcome);
    }

    /// Takes a point of a sweep, in place of an earlier one: a sweep that an edit overtook begins again.
    pub fn take_point(&mut self, revision: u64, point: SweepPoint) {
        if revision == self.sweep.revision {
            let value = |point: &SweepPoint| point.value("batch").unwrap_or(0.0);
            self.sweep.points.retain(|known| value(known).total_cmp(&value(&point)).is_ne());
            self.sweep.points.push(point);
            self.sweep.points.sort_by(|a, b| value(a).total_cmp(&value(b)));
        }
    }

    /// The batch size as traced.
    pub fn base_batch(&self) -> Option<u64> {
        self.loaded.graph.batch_size
    }

    /// The batch size in force.
    pub fn batch(&self) -> Option<u64> {
        self.outcome.summary.batch.map(|(_, now)| now).or(self.base_batch())
    }

    /// Keeps the chosen step within the scenario.
    pub fn clamp_step(&mut self) {
        self.step = self.step.min(self.history.current().steps.len().saturating_sub(1));
    }

    /// How many steps differ from those saved or begun with.
    pub fn unsaved_steps(&self) -> usize {
        let now: Vec<String> = self.history.current().steps.iter().map(ToString::to_string).collect();
        if now == self.saved_steps { 0 } else { now.len().max(1) }
    }

    /// Where the simulated time of the selection comes from.
    pub fn prediction(&self, item: Item) -> Option<Prediction> {
        match item {
            Item::Task(node) => {
                let changes = &self.outcome.resolved.changes;
                let at = changes.binary_search_by_key(&node, |&(changed, _)| changed).ok()?;
                Some(changes[at].1)
            }
            Item::Added(index) => self.outcome.resolved.added.get(index as usize).map(|added| added.prediction),
            Item::Operator(_) => None,
        }
    }

    /// Whether any device work was recorded.
    pub fn has_device(&self) -> bool {
        self.loaded.graph.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }))
    }
}
