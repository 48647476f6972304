//! What is still to be computed about one trace: of each analysis the request made last, the most urgent first.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use retime_core::scenario::Scenario;

use super::request::Analysis;

/// An analysis of a scenario.
#[derive(Clone, Debug)]
pub struct Job {
    /// Comes back with everything that is found.
    pub revision: u64,
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// What to compute.
    pub analysis: Analysis,
}

#[derive(Debug, Default)]
struct Wanted {
    jobs: [Option<Job>; Analysis::COUNT],
    stopped: [bool; Analysis::COUNT],
    /// Whether the job that was taken last is still computed.
    is_serving: bool,
    is_closed: bool,
}

impl Wanted {
    fn next(&mut self) -> Option<Job> {
        let place = self.jobs.iter().position(Option::is_some)?;
        self.jobs[place].take()
    }
}

/// Shared by those who ask and the one that computes.
#[derive(Debug, Default)]
pub struct Queue {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

impl Queue {
    fn with<T>(&self, act: impl FnOnce(&mut Wanted) -> T) -> T {
        let result = act(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
        result
    }

    /// Asks for `job` in place of an earlier one of its kind that has not started.
    pub fn ask(&self, job: Job) {
        self.with(|wanted| {
            let place = job.analysis.place();
            wanted.stopped[place] = false;
            wanted.jobs[place] = Some(job);
        });
    }

    /// Ends an analysis. One that waits is still served, finds itself ended and gives what it has.
    pub fn stop(&self, analysis: &Analysis) {
        let place = analysis.place();
        self.with(|wanted| wanted.stopped[place] = true);
    }

    /// Nothing more is computed.
    pub fn close(&self) {
        self.with(|wanted| wanted.is_closed = true);
    }

    /// The next job, if any waits.
    pub fn next(&self) -> Option<Job> {
        self.with(Wanted::next)
    }

    /// Waits for the next job; `None` once the queue is closed.
    pub fn wait(&self) -> Option<Job> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if wanted.is_closed {
                return None;
            }
            if let Some(job) = wanted.next() {
                wanted.is_serving = true;
                return Some(job);
            }
            wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The job that was waited for has been computed.
    pub fn served(&self) {
        self.with(|wanted| wanted.is_serving = false);
    }

    /// Whether nothing is computed or waits to be.
    pub fn is_idle(&self) -> bool {
        self.with(|wanted| !wanted.is_serving && wanted.jobs.iter().all(Option::is_none))
    }

    /// An evaluation that waits, for those who let it go first and go on.
    pub fn evaluation(&self) -> Option<Job> {
        self.with(|wanted| wanted.jobs[Analysis::Evaluate.place()].take())
    }

    /// Whether an analysis is to make way for a newer one of its kind or for one that is more urgent.
    pub fn is_overtaken(&self, analysis: &Analysis) -> bool {
        let place = analysis.place();
        self.with(|wanted| wanted.jobs[..place].iter().any(Option::is_some)) || self.is_ended(analysis)
    }

    /// Whether an analysis is over for good: stopped, or asked for anew.
    pub fn is_ended(&self, analysis: &Analysis) -> bool {
        let place = analysis.place();
        self.with(|wanted| wanted.is_closed || wanted.stopped[place] || wanted.jobs[place].is_some())
    }

    /// Puts a job that was overtaken back in line, unless it is over.
    pub fn resume(&self, job: Job) {
        if !self.is_ended(&job.analysis) {
            self.ask(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(revision: u64, analysis: Analysis) -> Job {
        Job { revision, scenario: Arc::default(), analysis }
    }

    fn served(queue: &Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.next()).map(|job| job.revision).collect()
    }

    #[test]
    fn the_last_of_each_analysis_is_served_the_most_urgent_first() {
        let queue = Queue::default();
        queue.ask(job(1, Analysis::Advise(None)));
        queue.ask(job(2, Analysis::Plans));
        queue.ask(job(3, Analysis::Evaluate));
        queue.ask(job(4, Analysis::Evaluate));
        assert_eq!(served(&queue), [4, 2, 1]);
    }

    #[test]
    fn what_is_overtaken_goes_on_later_and_what_is_stopped_does_not() {
        let queue = Queue::default();
        let advice = job(1, Analysis::Advise(None));
        assert!(!queue.is_overtaken(&advice.analysis));
        queue.ask(job(2, Analysis::Evaluate));
        assert!(queue.is_overtaken(&advice.analysis) && !queue.is_ended(&advice.analysis));
        assert!(!queue.is_overtaken(&Analysis::Gains(Vec::new())) || queue.evaluation().is_some());
        queue.resume(advice.clone());
        assert_eq!(served(&queue), [1]);
        queue.stop(&advice.analysis);
        queue.resume(advice);
        assert_eq!(served(&queue), [0; 0]);
        let search = job(3, Analysis::Search);
        queue.ask(search.clone());
        queue.stop(&search.analysis);
        assert_eq!(served(&queue), [3]);
        assert!(queue.is_ended(&search.analysis));
        queue.ask(search.clone());
        assert_eq!(served(&queue), [3]);
        assert!(!queue.is_ended(&search.analysis));
    }
}
