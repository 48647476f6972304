//! What is computed about a scenario of a trace, found part by part; what is overtaken makes way.

use std::sync::Arc;

use crate::session::{
    Advice, AdvisedOption, Algorithm, Outcome, PublishedChange, Sharding, Sweep, SweepRun, Trials, advise_live,
};
use retime_core::engine::SoFar;
use retime_core::log::{self, Level};
use retime_core::scenario::tables::Sharder;

use crate::tui::timeline::DensityIndex;
use crate::tui::view_model::ViewModel;

use super::Trace;
use super::queue::Job;
use super::request::{Analysis, Finding, Reply};

impl Trace {
    /// Computes what `job` asks for.
    ///
    /// # Arguments
    /// `so_far`: what earlier jobs of this trace worked out.
    pub fn serve(&self, job: &Job, so_far: &mut SoFar<'_>) {
        match &job.analysis {
            Analysis::Evaluate => self.evaluate(job, so_far),
            Analysis::Gains(lines) => self.gains(job, lines),
            Analysis::Published(algorithm) => self.published(job, *algorithm),
            Analysis::Board(lines) => self.board(job, lines),
            Analysis::Sweep(sweep) => self.sweep(job, sweep),
            Analysis::Plans => self.plans(job, so_far),
            Analysis::Search => self.search(job, so_far),
            Analysis::Advise(target) => self.advise(job, *target),
        }
    }

    fn found(&self, job: &Job, finding: Finding) {
        self.host.send(Reply::Found { work: self.number, revision: job.revision, finding });
    }

    fn outcome(&self, job: &Job) -> Outcome {
        self.host.engine.evaluate(&self.loaded, &job.scenario, job.revision)
    }

    /// The result at once, then with what each step gains.
    fn evaluate(&self, job: &Job, so_far: &mut SoFar<'_>) {
        let outcome = self.host.engine.evaluate_on(so_far, &self.loaded, &job.scenario, job.revision);
        let density = log::timed(Level::Info, "timeline", || DensityIndex::simulated(&self.loaded, &outcome));
        let first = Box::new(outcome.clone());
        self.found(job, Finding::Outcome { outcome: first, density: Some(Arc::new(density)), view_model: None });
        let is_overtaken = || self.queue.is_overtaken(&job.analysis);
        let known = self.gains.lock().map(|gains| gains.clone()).unwrap_or_default();
        let found = self.host.engine.with_gains(&self.loaded, outcome, &known, &is_overtaken);
        if let (Some(found), Ok(mut gains)) = (&found, self.gains.lock()) {
            gains.clone_from(&found.steps);
        }
        let drawn = found.filter(|_| !is_overtaken()).and_then(|outcome| {
            let drawn = ViewModel::of(&self.host.engine, &self.loaded, &self.traced, &outcome, &is_overtaken);
            Some((outcome, drawn?))
        });
        if let Some((outcome, view_model)) = drawn {
            let view_model = Some(Arc::new(view_model));
            self.found(job, Finding::Outcome { outcome: Box::new(outcome), density: None, view_model });
        }
    }

    /// Tries the steps one by one; an edit of the scenario makes the rest worthless.
    fn gains(&self, job: &Job, lines: &[String]) {
        let outcome = self.outcome(job);
        for line in lines {
            if self.queue.is_overtaken(&job.analysis) {
                return;
            }
            let gain = self.host.engine.gain(&self.loaded, &outcome, line);
            self.found(job, Finding::Gain(line.clone(), gain));
        }
    }

    /// What a paper's algorithm says before and after the edits.
    fn published(&self, job: &Job, algorithm: Algorithm) {
        let change = PublishedChange::of(algorithm, &self.loaded, &self.outcome(job));
        self.found(job, Finding::Published(Box::new(change)));
    }

    /// Tries as many edits at a time as there are cores and memory for; a board that is overtaken goes on later with those that are left.
    fn board(&self, job: &Job, lines: &[String]) {
        let board = Trials::new(&self.host.engine, &self.loaded, &job.scenario);
        let at_once = board.at_once();
        for (round, some) in lines.chunks(at_once).enumerate() {
            if self.queue.is_overtaken(&job.analysis) {
                let analysis = Analysis::Board(lines[round * at_once..].to_vec());
                return self.queue.resume(Job { analysis, ..job.clone() });
            }
            self.found(job, Finding::Trials(board.try_all(some)));
        }
    }

    /// Evaluates as many points at a time as there are cores and memory for; a sweep that is overtaken goes on later with the points
    /// that are left.
    fn sweep(&self, job: &Job, sweep: &Sweep) {
        let knobs = sweep.knobs();
        let run = SweepRun::new(&self.host.engine, &self.loaded, &job.scenario, &knobs);
        let points = sweep.points();
        let columns = points.len() / sweep.values.len().max(1);
        let at_once = run.at_once();
        for (round, some) in points.chunks(at_once).enumerate() {
            if self.queue.is_overtaken(&job.analysis) {
                // What of a row is known already comes once more.
                let values = sweep.values[round * at_once / columns.max(1)..].to_vec();
                let analysis = Analysis::Sweep(Sweep { values, ..sweep.clone() });
                return self.queue.resume(Job { analysis, ..job.clone() });
            }
            for point in run.points(some) {
                self.found(job, Finding::Point(Box::new(point)));
            }
        }
    }

    fn plans(&self, job: &Job, so_far: &mut SoFar<'_>) {
        let sharding = Sharding::new(&self.loaded, &job.scenario);
        self.found(job, Finding::Plan(Box::new(sharding.traced())));
        for sharder in Sharder::ALL {
            self.evaluate_waiting(so_far);
            if self.queue.is_ended(&job.analysis) {
                return;
            }
            self.found(job, Finding::Plan(Box::new(sharding.by(sharder))));
        }
    }

    fn search(&self, job: &Job, so_far: &mut SoFar<'_>) {
        let sharding = Sharding::new(&self.loaded, &job.scenario);
        let plan = sharding.search(&mut |tried| {
            self.evaluate_waiting(so_far);
            self.found(job, Finding::Searched(tried));
            !self.queue.is_ended(&job.analysis)
        });
        self.found(job, Finding::Plan(Box::new(plan)));
    }

    /// Edits made meanwhile do not wait for long work, nor does that begin again.
    fn evaluate_waiting(&self, so_far: &mut SoFar<'_>) {
        if let Some(job) = self.queue.evaluation() {
            self.evaluate(&job, so_far);
        }
    }

    /// Finds advice, handing on options as they are found.
    fn advise(&self, job: &Job, target: Option<f64>) {
        let base = self.outcome(job);
        let is_overtaken = || self.queue.is_overtaken(&job.analysis);
        let some_more = |options: &[AdvisedOption]| {
            let advice = Advice { options: options.to_vec(), is_partial: true, ..Advice::default() };
            self.found(job, Finding::Advice(Arc::new(advice)));
        };
        match advise_live(&self.host.engine, &self.loaded, &base, target, &is_overtaken, &some_more) {
            Some(advice) => self.found(job, Finding::Advice(Arc::new(advice))),
            None => self.queue.resume(job.clone()),
        }
    }
}
