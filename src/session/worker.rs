//! One background thread that computes the latest wanted scenario, so that no front end ever waits.
//!
//! A request that has not started when a newer one of its kind arrives is dropped; evaluations come first, then gains,
//! then sweeps, then plans, advice last.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use retime_core::scenario::Scenario;
use retime_core::scenario::transforms::Sharder;
use retime_core::units::DurNs;

use super::{Advice, AdvisedOption, Engine, Loaded, Outcome, Sharding, ShardingPlan, Sweep, SweepPoint, SweepRun};

/// What may be asked of the worker.
#[derive(Clone, Debug)]
pub enum Request {
    /// Evaluate a scenario.
    Evaluate {
        /// Comes back with the answer.
        revision: u64,
        /// What to evaluate.
        scenario: Scenario,
    },
    /// Find edits that make a scenario faster.
    Advise {
        /// Comes back with the advice.
        revision: u64,
        /// On top of what.
        scenario: Scenario,
        /// The share of the time to save, where there is a goal.
        target: Option<f64>,
    },
    /// Evaluate a scenario over the values of a knob.
    Sweep {
        /// Comes back with each point.
        revision: u64,
        /// What the knob is applied to.
        scenario: Scenario,
        /// The knob and its values.
        sweep: Sweep,
    },
    /// What each of some steps takes off the iteration on top of a scenario.
    Gains {
        /// Comes back with each gain.
        revision: u64,
        /// What the steps are added to.
        scenario: Scenario,
        /// The steps, each as a line.
        lines: Vec<String>,
    },
    /// Evaluate the traced placement of embedding tables and that of every sharder.
    Plans {
        /// Comes back with each plan.
        revision: u64,
        /// What the plans come on top of.
        scenario: Scenario,
    },
    /// Search for a better placement than any of those.
    Search {
        /// Comes back with the progress and with the plan.
        revision: u64,
        /// What the plans come on top of.
        scenario: Scenario,
    },
    /// End the search with what it has found.
    StopSearch,
    /// Look for no more advice.
    StopAdvice,
}

/// What the worker answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A scenario's result. Comes twice: at once without the steps' gains, then with them.
    Outcome(Box<Outcome>),
    /// One more point of a sweep.
    Point {
        /// Of which request.
        revision: u64,
        /// The point.
        point: SweepPoint,
    },
    /// What one more step takes off the iteration.
    Gain {
        /// Of which request.
        revision: u64,
        /// The step.
        line: String,
        /// How much shorter the iteration is with it.
        gain: DurNs,
    },
    /// One more placement of embedding tables; that of a search comes last.
    Plan {
        /// Of which request.
        revision: u64,
        /// The plan.
        plan: ShardingPlan,
    },
    /// How far the search has come.
    Searching {
        /// Of which request.
        revision: u64,
        /// Placements tried so far.
        tried: usize,
    },
    /// Edits that make a scenario faster.
    Advice {
        /// Of which request.
        revision: u64,
        /// The advice.
        advice: Box<Advice>,
    },
    /// All points of a sweep were sent.
    SweepDone {
        /// Of which request.
        revision: u64,
    },
}

#[derive(Debug, Default)]
struct Wanted {
    evaluate: Option<(u64, Scenario)>,
    gains: Option<(u64, Scenario, Vec<String>)>,
    sweep: Option<(u64, Scenario, Sweep)>,
    plans: Option<(u64, Scenario)>,
    search: Option<(u64, Scenario)>,
    stop_search: bool,
    advise: Option<(u64, Scenario, Option<f64>)>,
    stop_advice: bool,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Wanted) -> T) -> T {
        let result = act(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
        result
    }

    /// Waits for the next request, an evaluation before a sweep; `None` when told to stop.
    fn next(&self) -> Option<Request> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if wanted.stop {
                return None;
            }
            if let Some((revision, scenario)) = wanted.evaluate.take() {
                return Some(Request::Evaluate { revision, scenario });
            }
            if let Some((revision, scenario, lines)) = wanted.gains.take() {
                return Some(Request::Gains { revision, scenario, lines });
            }
            if let Some((revision, scenario, sweep)) = wanted.sweep.take() {
                return Some(Request::Sweep { revision, scenario, sweep });
            }
            if let Some((revision, scenario)) = wanted.plans.take() {
                return Some(Request::Plans { revision, scenario });
            }
            if let Some((revision, scenario)) = wanted.search.take() {
                wanted.stop_search = false;
                return Some(Request::Search { revision, scenario });
            }
            if let Some((revision, scenario, target)) = wanted.advise.take() {
                wanted.stop_advice = false;
                return Some(Request::Advise { revision, scenario, target });
            }
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether what is being computed has been overtaken.
    fn is_overtaken(&self) -> bool {
        self.with(|wanted| wanted.stop || wanted.evaluate.is_some())
    }

    fn is_advice_overtaken(&self) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = wanted.evaluate.is_some() || wanted.advise.is_some() || wanted.sweep.is_some();
        wanted.stop
            || wanted.stop_advice
            || newer
            || wanted.gains.is_some()
            || wanted.plans.is_some()
            || wanted.search.is_some()
    }

    fn is_sweep_overtaken(&self) -> bool {
        self.with(|wanted| wanted.stop || wanted.evaluate.is_some() || wanted.gains.is_some() || wanted.sweep.is_some())
    }
}

/// Handle of the background thread; dropping it stops the thread after the evaluation at hand.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
}

impl Worker {
    /// Starts a worker on `loaded`. `deliver` gets each reply on the worker's own thread.
    pub fn start(engine: Arc<Engine>, loaded: Arc<Loaded>, deliver: impl Fn(Reply) + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let work = Work { engine, loaded, shared: Arc::clone(&shared), deliver: Box::new(deliver) };
        thread::spawn(move || {
            work.loaded.base.warm();
            while let Some(request) = work.shared.next() {
                work.serve(request);
            }
        });
        Self { shared }
    }

    /// Asks for `request` in place of an earlier one of its kind that has not started.
    pub fn request(&self, request: Request) {
        self.shared.with(|wanted| match request {
            Request::Evaluate { revision, scenario } => wanted.evaluate = Some((revision, scenario)),
            Request::Advise { revision, scenario, target } => wanted.advise = Some((revision, scenario, target)),
            Request::Sweep { revision, scenario, sweep } => wanted.sweep = Some((revision, scenario, sweep)),
            Request::Gains { revision, scenario, lines } => wanted.gains = Some((revision, scenario, lines)),
            Request::Plans { revision, scenario } => wanted.plans = Some((revision, scenario)),
            Request::Search { revision, scenario } => wanted.search = Some((revision, scenario)),
            Request::StopSearch => (wanted.search, wanted.stop_search) = (None, true),
            Request::StopAdvice => (wanted.advise, wanted.stop_advice) = (None, true),
        });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.with(|wanted| wanted.stop = true);
    }
}

struct Work {
    engine: Arc<Engine>,
    loaded: Arc<Loaded>,
    shared: Arc<Shared>,
    deliver: Box<dyn Fn(Reply) + Send>,
}

impl Work {
    fn serve(&self, request: Request) {
        match request {
            Request::Evaluate { revision, scenario } => {
                let outcome = self.engine.evaluate(&self.loaded, &scenario, revision);
                (self.deliver)(Reply::Outcome(Box::new(outcome.clone())));
                let overtaken = || self.shared.is_overtaken();
                if let Some(outcome) = self.engine.with_gains(&self.loaded, outcome, &overtaken) {
                    (self.deliver)(Reply::Outcome(Box::new(outcome)));
                }
            }
            Request::Gains { revision, scenario, lines } => self.serve_gains(revision, &scenario, lines),
            Request::Advise { revision, scenario, target } => self.advise(revision, scenario, target),
            Request::Sweep { revision, scenario, sweep } => self.sweep(revision, &scenario, &sweep),
            Request::Plans { revision, scenario } => self.plans(revision, &scenario),
            Request::Search { revision, scenario } => self.search(revision, &scenario),
            Request::StopSearch | Request::StopAdvice => {}
        }
    }

    /// Evaluates as many points at a time as there are cores; what is overtaken goes back in line with the points that
    /// are left.
    fn sweep(&self, revision: u64, scenario: &Scenario, sweep: &Sweep) {
        let knobs = sweep.knobs();
        let run = SweepRun::new(&self.engine, &self.loaded, scenario, &knobs);
        let points = sweep.points();
        let columns = points.len() / sweep.values.len().max(1);
        let at_once = rayon::current_num_threads().max(1);
        for (round, some) in points.chunks(at_once).enumerate() {
            if self.shared.is_sweep_overtaken() {
                // What of a row is known already comes once more.
                let values = sweep.values[round * at_once / columns.max(1)..].to_vec();
                return self.resume_later(revision, scenario.clone(), &Sweep { values, ..sweep.clone() });
            }
            for point in run.points(some) {
                (self.deliver)(Reply::Point { revision, point });
            }
        }
        (self.deliver)(Reply::SweepDone { revision });
    }

    fn plans(&self, revision: u64, scenario: &Scenario) {
        let sharding = Sharding::new(&self.loaded, scenario);
        (self.deliver)(Reply::Plan { revision, plan: sharding.traced() });
        for sharder in Sharder::ALL {
            self.evaluate_waiting();
            if self.shared.with(|wanted| wanted.stop || wanted.plans.is_some()) {
                return;
            }
            (self.deliver)(Reply::Plan { revision, plan: sharding.by(sharder) });
        }
    }

    fn search(&self, revision: u64, scenario: &Scenario) {
        let sharding = Sharding::new(&self.loaded, scenario);
        let plan = sharding.search(&mut |tried| {
            self.evaluate_waiting();
            (self.deliver)(Reply::Searching { revision, tried });
            !self.shared.with(|wanted| wanted.stop || wanted.stop_search || wanted.search.is_some())
        });
        (self.deliver)(Reply::Plan { revision, plan });
    }

    /// Edits made meanwhile do not wait for long work, nor does that begin again.
    fn evaluate_waiting(&self) {
        if let Some((revision, scenario)) = self.shared.with(|wanted| wanted.evaluate.take()) {
            self.serve(Request::Evaluate { revision, scenario });
        }
    }

    /// Tries the steps one by one; an edit of the scenario makes the rest worthless.
    fn serve_gains(&self, revision: u64, scenario: &Scenario, lines: Vec<String>) {
        let outcome = self.engine.evaluate(&self.loaded, scenario, revision);
        for line in lines {
            if self.shared.is_overtaken() {
                return;
            }
            let gain = self.engine.gain(&self.loaded, &outcome, &line);
            (self.deliver)(Reply::Gain { revision, line, gain });
        }
    }

    /// Finds advice, handing on options as they are found; what is overtaken goes back in line, unless newer advice is wanted.
    fn advise(&self, revision: u64, scenario: Scenario, target: Option<f64>) {
        let base = self.engine.evaluate(&self.loaded, &scenario, revision);
        let shared = &self.shared;
        let overtaken = || shared.is_advice_overtaken();
        let found = |options: &[AdvisedOption]| {
            let advice = Advice { options: options.to_vec(), is_partial: true, ..Advice::default() };
            (self.deliver)(Reply::Advice { revision, advice: Box::new(advice) });
        };
        match self.engine.advise_live(&self.loaded, &base, target, &overtaken, &found) {
            Some(advice) => (self.deliver)(Reply::Advice { revision, advice: Box::new(advice) }),
            None => self.shared.with(|wanted| {
                if !wanted.stop_advice {
                    wanted.advise.get_or_insert((revision, scenario, target));
                }
            }),
        }
    }

    /// Puts a sweep that an evaluation overtook back in line, unless a newer sweep is there.
    fn resume_later(&self, revision: u64, scenario: Scenario, sweep: &Sweep) {
        self.shared.with(|wanted| {
            wanted.sweep.get_or_insert_with(|| (revision, scenario, sweep.clone()));
        });
    }
}
