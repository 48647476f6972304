//! Serves what the screen asks for, so that the screen never waits: on threads for a user, one request after the other
//! for a script. Both compute alike.

mod analyses;
mod queue;
mod request;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::session::{
    Engine, Exported, Loaded, Overwrite, SessionError, Sessions, StepOutcome, append, begin_recording, end_recording,
    export_to, give_back_memory, opened_again, read_text, write_new,
};
use retime_core::engine::SoFar;
use retime_core::graph::BuildOptions;
use retime_core::scenario::SavedScenario;

use super::listing::Listing;
use super::load;
use super::update::Event;
use super::view_model::Traced;
use super::views::compare::Compared;
use super::workspace::Workspace;
use queue::Queue;

pub use queue::Job;
pub use request::{Analysis, Finding, Reading, Recording, Reply, Request, SavedSteps};

/// Where requests are served.
#[derive(Debug)]
enum Served {
    /// Each on a thread; the analyses of a trace on one of its own. With how many are being served.
    OnThreads(Arc<AtomicUsize>),
    /// By the caller, one at a time.
    InTurn(VecDeque<Request>),
}

/// Serves requests; replies are sent as events.
#[derive(Debug)]
pub struct Runner {
    host: Host,
    traces: Vec<OpenTrace>,
    served: Served,
}

/// What requests are served with.
#[derive(Clone, Debug)]
struct Host {
    engine: Arc<Engine>,
    sessions: Option<Sessions>,
    sender: Sender<Event>,
}

/// An opened trace with what is still to be computed about it.
#[derive(Debug)]
pub struct Trace {
    host: Host,
    number: usize,
    loaded: Arc<Loaded>,
    traced: Traced,
    queue: Queue,
    /// The steps that were evaluated last, with what they gain.
    gains: Mutex<Vec<StepOutcome>>,
}

/// Dropping it ends what is computed about the trace.
#[derive(Debug)]
struct OpenTrace(Arc<Trace>);

impl Drop for OpenTrace {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

impl Runner {
    /// One that serves on threads; opened traces resume what `sessions` has of them.
    pub fn on_threads(engine: Arc<Engine>, sessions: Option<Sessions>, sender: Sender<Event>) -> Self {
        let served = Served::OnThreads(Arc::default());
        Self { host: Host { engine, sessions, sender }, traces: Vec::new(), served }
    }

    /// One that serves when told to.
    pub fn in_turn(engine: Arc<Engine>, sender: Sender<Event>) -> Self {
        let host = Host { engine, sessions: None, sender };
        Self { host, traces: Vec::new(), served: Served::InTurn(VecDeque::new()) }
    }

    /// Takes note of the opened traces: what was to be computed about one that was built anew is of no use.
    pub fn follow(&mut self, workspaces: &[Workspace]) {
        for work in workspaces {
            match self.traces.get(work.number) {
                Some(trace) if Arc::ptr_eq(&trace.0.loaded, &work.loaded) => {}
                Some(_) => self.traces[work.number] = self.trace(work),
                None => self.traces.push(self.trace(work)),
            }
        }
    }

    fn trace(&self, work: &Workspace) -> OpenTrace {
        let (host, loaded) = (self.host.clone(), Arc::clone(&work.loaded));
        let traced = work.view_model.traced.clone();
        let trace = Arc::new(Trace {
            host,
            number: work.number,
            loaded,
            traced,
            queue: Queue::default(),
            gains: Mutex::default(),
        });
        if matches!(self.served, Served::OnThreads(_)) {
            let trace = Arc::clone(&trace);
            thread::spawn(move || {
                trace.loaded.base.warm();
                let mut so_far = trace.so_far();
                while let Some(job) = trace.queue.wait() {
                    trace.serve(&job, &mut so_far);
                    trace.queue.served();
                    trace.host.served();
                }
            });
        }
        OpenTrace(trace)
    }

    /// Takes a request. Lines of a script that is recorded are written at once, so that they stay in order.
    pub fn request(&mut self, request: Request) {
        match (request, &mut self.served) {
            (Request::Analyse { work, revision, scenario, analysis }, _) => {
                if let Some(trace) = self.traces.get(work) {
                    trace.0.queue.ask(Job { revision, scenario, analysis });
                }
            }
            (Request::Stop { work, analysis }, _) => {
                if let Some(trace) = self.traces.get(work) {
                    trace.0.queue.stop(&analysis);
                }
            }
            (
                request @ (Request::Write { .. }
                | Request::Append { .. }
                | Request::Record(_)
                | Request::EndRecording(_)),
                _,
            ) => self.host.serve(request),
            (request, Served::InTurn(waiting)) => waiting.push_back(request),
            (request, Served::OnThreads(count)) => {
                let (host, count) = (self.host.clone(), Arc::clone(count));
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    host.serve(request);
                    count.fetch_sub(1, Ordering::SeqCst);
                    host.served();
                });
            }
        }
    }

    /// Whether everything that was asked for has been served: what came of it was sent before.
    pub fn is_idle(&self) -> bool {
        let is_served = match &self.served {
            Served::OnThreads(count) => count.load(Ordering::SeqCst) == 0,
            Served::InTurn(waiting) => waiting.is_empty(),
        };
        is_served && self.traces.iter().all(|trace| trace.0.queue.is_idle())
    }

    /// Serves one request of those that wait to be served in turn; false when there is none.
    pub fn serve_request(&mut self) -> bool {
        let Served::InTurn(waiting) = &mut self.served else { return false };
        let request = waiting.pop_front();
        request.map(|request| self.host.serve(request)).is_some()
    }

    /// What is to be computed next about a trace, in turn.
    pub fn next_job(&self) -> Option<(Arc<Trace>, Job)> {
        let in_turn = matches!(self.served, Served::InTurn(_)).then_some(&self.traces);
        in_turn?.iter().find_map(|trace| Some((Arc::clone(&trace.0), trace.0.queue.next()?)))
    }
}

impl Trace {
    /// Nothing worked out yet, for jobs that are served one after the other.
    pub fn so_far(&self) -> SoFar<'_> {
        SoFar::new(&self.loaded)
    }
}

impl Host {
    /// Nobody waits for a reply once the screen is gone.
    fn send(&self, reply: Reply) {
        let _ = self.sender.send(Event::Reply(reply));
    }

    /// Wakes the screen: a script may be waiting for what was served last.
    fn served(&self) {
        let _ = self.sender.send(Event::Served);
    }

    fn serve(&self, request: Request) {
        if let Some(reply) = self.reply(request) {
            self.send(reply);
        }
    }

    /// What comes of a request; `None` where success says nothing.
    fn reply(&self, request: Request) -> Option<Reply> {
        let engine = &self.engine;
        Some(match request {
            // Wait in the queue of their trace.
            Request::Analyse { .. } | Request::Stop { .. } => return None,
            Request::List { work, ticket, sources } => {
                Reply::Listed { work, ticket, listing: Listing::of(&sources).map(Box::new) }
            }
            Request::Compare { work, sources, reference } => {
                Reply::Compared { work, compared: Box::new(Compared::of(engine, sources, reference)) }
            }
            Request::Open { open, options, build, scenario } => {
                give_back_memory(); // What is free would count as held.
                Reply::Opened(load::open(engine, &open, (&options, &build), self.sessions.as_ref()), scenario)
            }
            Request::Reopen { work, loaded, choice, scenario } => {
                let build = BuildOptions { iteration: choice };
                Reply::Reopened(work, load::reopen(engine, &loaded, scenario.as_deref(), &build))
            }
            Request::Join { work, loaded, path, second } => {
                Reply::Joined(work, load::join(engine, &loaded, path, second))
            }
            Request::Read { path, reading } => {
                let text = read_text(&path).map_err(|error| error.to_string());
                Reply::Read { file: path.display().to_string(), text, reading }
            }
            Request::Write { path, text, force, saves } => {
                // Steps may take the place of steps that were loaded.
                let is_earlier = |there: &str| saves.is_some() && SavedScenario::from_toml(there).is_ok();
                let over = Overwrite { force, renews: &is_earlier };
                Reply::Written(written(&path, write_new(&path, text.as_bytes(), over)), saves)
            }
            Request::Record(path) => {
                let begun = begin_recording(&path).map_err(|error| error.to_string());
                Reply::Recording(begun.map(|()| path))
            }
            Request::EndRecording(Recording { path, lines }) => {
                let ended = end_recording(&path, &lines).map_err(|error| error.to_string());
                Reply::Written(ended.map(|()| format!("recorded to {}", path.display())), None)
            }
            Request::Append { path, line } => Reply::Written(Err(append(&path, &line).err()?.to_string()), None),
            Request::Export { loaded, outcome, sources, format, path, force } => {
                let compared = (sources.len() > 1).then(|| Compared::of(engine, sources, 0));
                let board = compared.as_ref().map(|compared| &compared.board);
                let exported = Exported { loaded: &loaded, outcome: &outcome, board };
                let result = export_to(engine, &path, exported, format, force);
                let name = |file: &PathBuf| file.display().to_string();
                let said = result.map(|(files, _)| {
                    let other = opened_again(engine, &files, &outcome, format);
                    let other = other.map_or(String::new(), |other| format!("; {other}"));
                    format!("wrote {}{other}", files.iter().map(name).collect::<Vec<_>>().join(", "))
                });
                Reply::Written(said.map_err(|error| error.to_string()), None)
            }
        })
    }
}

fn written(path: &Path, result: Result<(), SessionError>) -> Result<String, String> {
    result.map(|()| format!("wrote {}", path.display())).map_err(|error| error.to_string())
}
