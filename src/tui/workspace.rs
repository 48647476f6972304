//! One opened trace: what was loaded, the scenario's history, the last good result, what the user looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::session::{DrawnOn, JobTables, Loaded, Outcome, SavedSession, sample};
use retime_core::cost::Prediction;
use retime_core::graph::{IterationChoice, LaneKind};
use retime_core::scenario::{History, NamedScenarios, Scenario, parse_step};
use retime_core::units::{DurNs, TimeNs};

use super::effect::Effect;
use super::listing::{Arrangement, Filter, Listing, Modelled};
use super::runner::{Analysis, Request};
use super::states::States;
use super::table::TableState;
use super::theme::Role;
use super::timeline::tracks::{self, Track};
use super::timeline::{DensityIndex, Item, Paints, Scene, SearchIndex, Timeline, iteration_figures};
use super::view_model::ViewModel;
use super::views::compare::CompareState;
use super::views::roofline::RooflineState;
use super::views::{AdviceState, Plans, SweepState};

/// A loaded trace with its densities, as the loading thread hands it over.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The trace.
    pub loaded: Arc<Loaded>,
    /// Colours by kind.
    pub paints: Arc<Paints>,
    /// What can be searched for.
    pub index: Arc<SearchIndex>,
    /// Measured times.
    pub measured: Arc<DensityIndex>,
    /// Times of the untouched replay.
    pub simulated: Arc<DensityIndex>,
    /// Tables of the untouched replay.
    pub view_model: Arc<ViewModel>,
    /// What the models say of the measured kernels.
    pub modelled: Arc<Modelled>,
    /// Device memory in use, per rank.
    pub memory: Arc<Vec<Track>>,
    /// Its embedding tables.
    pub tables: Arc<JobTables>,
    /// Rows of the tables as they are at first.
    pub listing: Listing,
    /// What tells its trace from others.
    pub fingerprint: String,
    /// Position of its iteration, where that is not the one chosen by itself.
    pub iteration: Option<usize>,
    /// What the user did to it before.
    pub session: Option<SavedSession>,
}

/// One trace with all that belongs to it.
#[derive(Debug)]
pub struct Workspace {
    /// Its number among the opened traces.
    pub number: usize,
    /// Whether other traces are compared with it: the bundled samples only where that was asked for.
    pub is_compared: bool,
    /// What tells its trace from others.
    pub fingerprint: String,
    /// Position of its iteration, where that is not the one chosen by itself.
    pub iteration: Option<usize>,
    /// What was loaded.
    pub loaded: Arc<Loaded>,
    /// Colours by kind.
    pub paints: Arc<Paints>,
    /// What can be searched for.
    pub index: Arc<SearchIndex>,
    /// Measured times.
    pub measured: Arc<DensityIndex>,
    /// Times of the last good result.
    pub simulated: Arc<DensityIndex>,
    /// Tables of the last good result.
    pub view_model: Arc<ViewModel>,
    /// What the models say of the measured kernels.
    pub modelled: Arc<Modelled>,
    /// Device memory in use, per rank.
    pub memory: Arc<Vec<Track>>,
    /// Its embedding tables.
    pub tables: Arc<JobTables>,
    /// The last good result.
    pub outcome: Arc<Outcome>,
    /// The scenario in force and its past.
    pub history: History,
    /// It and the others by name.
    pub named: NamedScenarios,
    /// Scenarios and traces side by side.
    pub compare: CompareState,
    /// The steps that were last saved, or begun with.
    pub saved_steps: Vec<String>,
    /// The revision asked for last.
    pub wanted: u64,
    /// The revision that the views show.
    drawn: u64,
    /// What its last session drew on.
    drew_on: DrawnOn,
    /// The chosen step.
    pub step: usize,
    /// The last edit as a line, for repeating.
    pub last_edit: Option<String>,
    /// The timeline.
    pub timeline: Timeline,
    /// The sweep over batch sizes.
    pub sweep: SweepState,
    /// Edits worth making.
    pub advice: AdviceState,
    /// The cursor of the table that was open last.
    pub table: TableState,
    /// The view of that table.
    table_of: &'static str,
    /// The cursors of the others, by view.
    other_tables: BTreeMap<&'static str, TableState>,
    /// Which tasks the tables are about, when not all.
    pub filter: Option<Filter>,
    /// How the tables are to be sorted and grouped.
    pub arrangement: Arrangement,
    /// The rows of the tables after sorting and filtering.
    pub listing: Listing,
    /// The rows asked for last.
    pub listing_wanted: u64,
    /// The rows that came last.
    pub listing_shown: u64,
    /// Rows of the operators that are not open or folded as at first.
    pub toggled: BTreeSet<String>,
    /// What views remember beside that.
    pub states: States,
    /// Other placements of its embedding tables.
    pub plans: Plans,
    /// The roofline.
    pub roofline: RooflineState,
}

impl Workspace {
    /// A trace as it was loaded, with the steps to begin with.
    pub fn new(number: usize, opened: Opened, scenario: &Scenario) -> Self {
        let timeline = Timeline::new(&opened.loaded.graph, [&opened.measured, &opened.simulated]);
        let outcome = Arc::clone(&opened.loaded.replay);
        let is_sample = opened.loaded.traces().any(|trace| sample::is_bundled(&trace.path));
        Self {
            number,
            is_compared: !is_sample,
            fingerprint: opened.fingerprint,
            iteration: opened.iteration,
            timeline,
            wanted: outcome.revision,
            drawn: outcome.revision,
            outcome,
            loaded: opened.loaded,
            paints: opened.paints,
            index: opened.index,
            measured: opened.measured,
            simulated: opened.simulated,
            view_model: opened.view_model,
            modelled: opened.modelled,
            memory: opened.memory,
            tables: opened.tables,
            plans: Plans::default(),
            history: History::new(scenario.clone()),
            named: NamedScenarios::default(),
            compare: CompareState::default(),
            saved_steps: scenario.steps.iter().map(ToString::to_string).collect(),
            drew_on: DrawnOn::default(),
            step: 0,
            last_edit: None,
            sweep: SweepState::default(),
            advice: AdviceState::default(),
            table: TableState::default(),
            table_of: "",
            other_tables: BTreeMap::new(),
            filter: None,
            arrangement: Arrangement::default(),
            listing: opened.listing,
            listing_wanted: 0,
            listing_shown: 0,
            toggled: BTreeSet::new(),
            states: States::default(),
            roofline: RooflineState::default(),
        }
    }

    /// Puts another iteration of the same traces in place of this one; the scenario and its past stay.
    pub fn reopen(&mut self, opened: Opened) {
        let mut fresh = Self::new(self.number, opened, &Scenario::default());
        fresh.history = self.history.clone();
        (fresh.named, fresh.compare.by) = (std::mem::take(&mut self.named), self.compare.by);
        fresh.saved_steps.clone_from(&self.saved_steps);
        (fresh.step, fresh.last_edit) = (self.step, self.last_edit.take());
        (fresh.arrangement, fresh.filter) = (self.arrangement, self.filter.take());
        fresh.toggled = std::mem::take(&mut self.toggled);
        (fresh.listing_wanted, fresh.listing_shown) = (self.listing_wanted, self.listing_wanted);
        *self = fresh;
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
            late: &self.view_model.late,
            origin: self.origin(),
            is_edited: self.is_edited(),
            is_stale: self.is_stale(),
        }
    }

    /// What the timeline is drawn from, and its state to be changed.
    pub fn scene_and_timeline(&mut self) -> (Scene<'_>, &mut Timeline) {
        let (is_stale, is_edited, origin) = (self.is_stale(), self.is_edited(), self.origin());
        let Self { loaded, measured, simulated, paints, index, outcome, timeline, view_model, .. } = self;
        let (resolved, late) = (&outcome.resolved, &*view_model.late);
        let graph = &loaded.graph;
        (Scene { graph, measured, simulated, paints, index, resolved, late, origin, is_edited, is_stale }, timeline)
    }

    /// The tracks of the rank that the cursor is on.
    pub fn tracks(&self) -> Vec<(String, Role, &Track)> {
        tracks::of_rank(self.scene(), &self.memory, self.timeline.lane)
    }

    /// Whether the result shown is not that of the scenario in force.
    pub fn is_stale(&self) -> bool {
        self.wanted != self.outcome.revision
    }

    /// Whether the views show the result of the scenario in force, as their rows are to be sorted and filtered.
    pub fn is_drawn(&self) -> bool {
        self.drawn == self.wanted && !self.is_stale() && !self.is_relisting()
    }

    /// Asks for the result of the scenario in force.
    pub fn evaluate(&mut self) -> Vec<Effect> {
        self.wanted = self.history.revision();
        let scenario = Arc::clone(self.history.current());
        if self.loaded.refolded(&scenario).is_some() {
            return vec![self.reopening(Some(scenario))];
        }
        vec![self.analyse(self.wanted, Analysis::Evaluate)]
    }

    /// Asks for an analysis of the scenario in force.
    pub fn analyse(&self, revision: u64, analysis: Analysis) -> Effect {
        let scenario = Arc::clone(self.history.current());
        Effect::Ask(Request::Analyse { work: self.number, revision, scenario, analysis })
    }

    /// Asks for the same iteration with those ranks simulated that a scenario needs; without one, with all.
    pub fn reopening(&self, scenario: Option<Arc<Scenario>>) -> Effect {
        self.reopening_at(self.iteration.map_or(IterationChoice::Default, IterationChoice::Index), scenario)
    }

    /// As [`reopening`](Self::reopening), with another iteration.
    pub fn reopening_at(&self, choice: IterationChoice, scenario: Option<Arc<Scenario>>) -> Effect {
        Effect::Ask(Request::Reopen { work: self.number, loaded: Arc::clone(&self.loaded), choice, scenario })
    }

    /// Asks for the result of the steps to begin with: the untouched replay is shown until then.
    pub fn evaluate_anew(&mut self) -> Vec<Effect> {
        self.history.touch();
        self.evaluate()
    }

    /// Takes a result; an overtaken one is shown too until the wanted one comes, as it is nearer.
    pub fn take(
        &mut self,
        outcome: Outcome,
        density: Option<Arc<DensityIndex>>,
        view_model: Option<Arc<ViewModel>>,
    ) -> Vec<Effect> {
        if let Some(density) = density {
            self.timeline.follow([&self.measured, &self.simulated], [&self.measured, &density]);
            self.simulated = density;
        }
        let has_digest = view_model.is_some();
        if has_digest {
            self.drawn = outcome.revision;
        }
        if let Some(view_model) = view_model {
            self.view_model = view_model;
        }
        self.outcome = Arc::new(outcome);
        if has_digest { self.relist() } else { Vec::new() }
    }

    /// The batch size as traced.
    pub fn base_batch(&self) -> Option<u64> {
        self.loaded.graph.batch_size
    }

    /// The batch size in force.
    pub fn batch(&self) -> Option<u64> {
        self.outcome.summary.batch.map(|(_, now)| now).or(self.base_batch())
    }

    /// Keeps the cursor of the table that was open and goes back to where the user was in that of `view`.
    pub fn change_table(&mut self, view: &'static str) {
        if self.table_of != view {
            let next = self.other_tables.remove(view).unwrap_or_default();
            self.other_tables.insert(self.table_of, std::mem::replace(&mut self.table, next));
            self.table_of = view;
        }
    }

    /// The view whose table was open last.
    pub fn table_of(&self) -> &'static str {
        self.table_of
    }

    /// Keeps the chosen step within the scenario.
    pub fn clamp_step(&mut self) {
        self.step = self.step.min(self.history.current().steps.len().saturating_sub(1));
    }

    /// Brings back what the user did to the trace before, but for the steps.
    pub fn resume(&mut self, session: &SavedSession) {
        if !session.scenarios.is_empty() || !session.scenario.name.is_empty() {
            self.named = NamedScenarios::restored(&session.scenarios, &session.scenario.name);
        }
        let scenario = (**self.history.current()).clone();
        // Each of its steps can be taken back.
        self.history = History::new(Scenario { steps: Vec::new(), ..scenario.clone() });
        for count in 1..=scenario.steps.len() {
            self.history.push(Scenario { steps: scenario.steps[..count].to_vec(), ..scenario.clone() });
        }
        self.drew_on.clone_from(&session.drawn_on);
        self.timeline.marks.clone_from(&session.marks);
        self.timeline.mark_names.clone_from(&session.mark_names);
        if let Some((from, to)) = session.window {
            self.timeline.show(from, to);
        }
    }

    /// What the user did to the trace, as it is saved.
    pub fn session(&self, view: &str) -> SavedSession {
        let Timeline { span, marks, mark_names, .. } = &self.timeline;
        let whole = Timeline::iteration([&self.measured, &self.simulated]);
        let window = (*span != whole).then_some((TimeNs(span.from as i64), TimeNs(span.to as i64)));
        SavedSession {
            trace: self.fingerprint.clone(),
            iteration: self.iteration,
            scenario: from_anywhere(self.current_scenario()),
            scenarios: self.other_scenarios().into_iter().map(from_anywhere).collect(),
            view: view.to_owned(),
            marks: marks.clone(),
            mark_names: mark_names.clone(),
            window,
            drawn_on: DrawnOn::of(&self.loaded).or(&self.drew_on),
        }
    }

    /// The scenario in force with its name.
    pub fn current_scenario(&self) -> Scenario {
        Scenario { name: self.named.current().to_owned(), ..(**self.history.current()).clone() }
    }

    /// All scenarios with their names, where there are several.
    fn other_scenarios(&self) -> Vec<Scenario> {
        let all = self.named.all(self.history.current());
        if all.len() == 1 {
            return Vec::new();
        }
        all.map(|(name, scenario)| Scenario { name: name.to_owned(), ..scenario.clone() }).collect()
    }

    /// Takes steps and marks away and shows the whole iteration.
    pub fn start_over(&mut self) {
        self.history.push(Scenario::default());
        self.timeline = Timeline::new(&self.loaded.graph, [&self.measured, &self.simulated]);
        self.clamp_step();
    }

    /// The steps in force, as lines.
    pub fn step_lines(&self) -> Vec<String> {
        self.history.current().steps.iter().map(ToString::to_string).collect()
    }

    /// How many steps differ from those saved or begun with.
    pub fn unsaved_steps(&self) -> usize {
        let now = self.step_lines();
        let waiting = self.named.all(self.history.current()).filter(|(name, _)| *name != self.named.current());
        let waiting: usize = waiting.map(|(_, scenario)| scenario.steps.len()).sum();
        waiting + if now == self.saved_steps { 0 } else { now.len().max(1) }
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

    /// What times before the edits are called: measured, or predicted where nothing was.
    pub fn origin(&self) -> &'static str {
        if self.loaded.predicted().is_some() { "predicted" } else { "measured" }
    }

    /// Whether a step of the scenario shown is in force.
    pub fn is_edited(&self) -> bool {
        self.outcome.steps.iter().any(|step| step.enabled)
    }

    /// The iteration before and after the edits, as all of the screen has it.
    pub fn iteration_figures(&self) -> (DurNs, DurNs) {
        iteration_figures(&self.loaded, &self.outcome)
    }

    /// The edited iteration: what shares of one rank's work are of.
    pub fn iteration(&self) -> DurNs {
        let (before, after) = self.iteration_figures();
        if self.is_edited() { after } else { before }
    }

    /// The edited iteration of all ranks together, whose work is summed: what shares of that are of.
    pub fn whole(&self) -> DurNs {
        DurNs(self.iteration().0.saturating_mul(self.loaded.graph.ranks.len().max(1) as i64).max(1))
    }

    /// Whether what is shown was typed or slid to and is not in force yet.
    pub fn is_preview(&self) -> bool {
        self.history.is_dragging("")
    }

    /// Whether any device work was recorded.
    pub fn has_device(&self) -> bool {
        self.loaded.graph.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }))
    }
}
/// Steps that name a file by its whole path: the program may be in another folder when they are taken up again.
fn from_anywhere(mut scenario: Scenario) -> Scenario {
    for step in scenario.steps.iter_mut().filter(|step| step.name() == "overheads") {
        let file = step.text(0).map(PathBuf::from).filter(|file| file.is_relative() && file.is_file());
        let whole = file.and_then(|file| std::path::absolute(file).ok());
        let named = whole.and_then(|whole| parse_step(&format!("overheads {}", whole.display())).ok());
        if let Some(mut named) = named {
            named.enabled = step.enabled;
            *step = named;
        }
    }
    scenario
}
