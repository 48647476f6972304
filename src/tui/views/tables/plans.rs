//! Other placements of a trace's embedding tables: what is asked of the worker and what has come in.

use crate::session::{ShardingPlan, judge};
use retime_core::scenario::placements::without_plans;
use retime_core::scenario::tables::TablePlacement;

use crate::tui::effect::Effect;
use crate::tui::runner::{Analysis, Request};
use crate::tui::workspace::Workspace;

/// Plans as they come in.
#[derive(Clone, Debug, Default)]
pub struct Plans {
    /// The request they answer.
    pub revision: u64,
    /// The steps they come on top of; `None` before anything was asked for.
    pub on_top_of: Option<Vec<String>>,
    /// What has come in, compared with each other: `traced`, the sharders, `best`.
    pub known: Vec<ShardingPlan>,
    /// Placements that the running search has tried; `None` when none runs.
    pub searching: Option<usize>,
}

impl Plans {
    /// The plan of that name.
    pub fn of(&self, name: &str) -> Option<&ShardingPlan> {
        self.known.iter().find(|plan| plan.sharder == name)
    }
}

impl Workspace {
    /// Whether something is being computed that a script has to wait for.
    pub fn is_computing(&self) -> bool {
        self.is_stale() || self.is_relisting() || self.compare.is_asked || self.plans.searching.is_some()
    }

    /// Where the scenario in force puts each table that can move, by position of the rank.
    pub fn placements(&self) -> Vec<TablePlacement> {
        self.tables.wanted(&self.loaded, self.history.current())
    }

    /// The steps that plans come on top of.
    fn under_plans(&self) -> Vec<String> {
        let steps = without_plans(self.history.current()).steps;
        steps.iter().filter(|step| step.enabled).map(ToString::to_string).collect()
    }

    /// Asks for the sharders' plans on top of the scenario in force; nothing when they are known already.
    pub fn start_plans(&mut self) -> Vec<Effect> {
        let lines = self.under_plans();
        if self.tables.immovable(self.loaded.graph.ranks.len()).is_some()
            || self.plans.on_top_of.as_ref() == Some(&lines)
        {
            return Vec::new();
        }
        let mut effects = if self.plans.searching.is_some() { self.stop_search() } else { Vec::new() };
        let revision = self.history.revision();
        self.plans = Plans { revision, on_top_of: Some(lines), ..Plans::default() };
        effects.push(self.analyse(revision, Analysis::Plans));
        effects
    }

    /// Starts the search for a better placement.
    ///
    /// # Errors
    /// No table can move, or a search is running.
    pub fn start_search(&mut self) -> Result<Vec<Effect>, String> {
        if let Some(why) = self.tables.immovable(self.loaded.graph.ranks.len()) {
            return Err(why.to_owned());
        }
        let mut effects = self.start_plans();
        if self.plans.searching.is_some() {
            return Err("the search is running: esc ends it".to_owned());
        }
        self.plans.searching = Some(0);
        effects.push(self.analyse(self.plans.revision, Analysis::Search));
        Ok(effects)
    }

    /// Ends the search: what it has found so far comes in as its plan.
    pub fn stop_search(&mut self) -> Vec<Effect> {
        self.plans.searching = None;
        vec![Effect::Ask(Request::Stop { work: self.number, analysis: Analysis::Search })]
    }

    /// Takes a plan in place of an earlier one of its name.
    ///
    /// # Returns
    /// What to say about it, when a search has ended with it.
    pub fn take_plan(&mut self, revision: u64, plan: ShardingPlan) -> Option<String> {
        let plans = &mut self.plans;
        if revision != plans.revision {
            return None;
        }
        let time = plan.steady_ns.filter(|_| plan.sharder == "best");
        if plan.sharder == "best" {
            plans.searching = None;
        }
        match plans.known.iter_mut().find(|known| known.sharder == plan.sharder) {
            Some(known) => *known = plan,
            None => plans.known.push(plan),
        }
        judge(&mut plans.known);
        time.map(|time| format!("the best placement found takes {time}: `plan best` puts it in force"))
    }

    /// Takes how far the search has come.
    pub fn take_progress(&mut self, revision: u64, tried: usize) {
        if revision == self.plans.revision && self.plans.searching.is_some() {
            self.plans.searching = Some(tried);
        }
    }
}
