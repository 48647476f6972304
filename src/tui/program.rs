//! The program around the screen: threads that send events, effects that are carried out, one frame per batch of events.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use color_eyre::eyre::{Result, eyre};
use ratatui::layout::Size;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::session::{Engine, Keeper, Loaded, Request, Sessions, Worker};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;

use super::app::{App, Style};
use super::compare::{Compared, SideSource};
use super::effect::Effect;
use super::listing::{Listing, Sources};
use super::load::{self, Open};
use super::loading::Loading;
use super::terminal::Screen;
use super::update::{Event, update};
use super::views;
use super::workspace::Workspace;

/// What to open, and how it is to look.
#[derive(Clone, Debug)]
pub struct Start {
    /// The traces.
    pub open: Open,
    /// Devices and models.
    pub engine: Arc<Engine>,
    /// Which iteration to model.
    pub build: BuildOptions,
    /// Steps to begin with.
    pub scenario: Scenario,
    /// Look and keys.
    pub style: Style,
    /// Where sessions save themselves, if anywhere.
    pub sessions: Option<Sessions>,
    /// Whether to begin anew where a session was saved.
    pub is_fresh: bool,
}

/// Time between frames while something moves by itself.
const TICK: Duration = Duration::from_millis(50);

/// Messages between the threads.
enum Signal {
    Event(Event),
    /// Told to stop by a signal of this number.
    Stop(i32),
    /// Told to suspend.
    Suspend,
}

/// Runs the screen until the user leaves.
///
/// # Errors
/// Nothing could be loaded, or the terminal cannot be used. It is given back in any case.
pub fn run(start: Start) -> Result<()> {
    let Start { open, engine, build, scenario, style, sessions, is_fresh } = start;
    let (sender, receiver) = mpsc::channel();
    watch_signals(sender.clone())?;
    let mut screen = Screen::take()?;
    let mut app = App::new(&style, screen.size()?);
    app.devices = load::device_lines(&engine);
    let report = sender.clone();
    let report = move |reason| _ = report.send(Signal::Event(Event::NotKept(reason)));
    let keeper = sessions.clone().map(|sessions| Keeper::start(sessions, report));
    app.is_kept = keeper.is_some();
    let sessions = sessions.filter(|_| !is_fresh);
    let mut program = Program { engine, build, sender, workers: Vec::new(), stopped_by: None, sessions, keeper };
    program.begin(&mut app, open, scenario);
    let result = program.turn(&mut app, &mut screen, &receiver);
    drop(screen);
    program.keep(&app);
    if let Some(Err(reason)) = program.keeper.map(Keeper::finish) {
        eprintln!("retime: the session is not saved: {reason}");
    }
    if let Some(signal) = program.stopped_by {
        signal_hook::low_level::emulate_default_handler(signal)?;
    }
    result?;
    match app.failure {
        Some(reason) => Err(eyre!(reason)),
        None => Ok(()),
    }
}

struct Program {
    engine: Arc<Engine>,
    build: BuildOptions,
    sender: Sender<Signal>,
    workers: Vec<Worker>,
    stopped_by: Option<i32>,
    /// Sessions to resume.
    sessions: Option<Sessions>,
    keeper: Option<Keeper>,
}

impl Program {
    /// Starts reading keys and loading.
    fn begin(&self, app: &mut App, open: Open, scenario: Scenario) {
        read_input(self.sender.clone());
        self.open(app, open, scenario);
    }

    /// Loads off the screen's thread.
    fn open(&self, app: &mut App, open: Open, scenario: Scenario) {
        let build = self.build;
        let options = retime_core::trace::OpenOptions::default();
        app.loading = Some(Loading::new(open.title(), Arc::clone(&options.progress)));
        let (sender, engine, sessions) = (self.sender.clone(), Arc::clone(&self.engine), self.sessions.clone());
        thread::spawn(move || {
            let event = match load::open(&engine, &open, (&options, &build), sessions.as_ref()) {
                Ok(opened) => Event::Loaded(opened, scenario),
                Err(reason) => Event::Failed(reason),
            };
            let _ = sender.send(Signal::Event(event));
        });
    }

    /// Reads or writes a file off the screen's thread.
    fn in_background(&self, app: &App, effect: Effect) {
        let loaded: Vec<Arc<Loaded>> = app.works.iter().map(|work| Arc::clone(&work.loaded)).collect();
        let (sender, engine) = (self.sender.clone(), Arc::clone(&self.engine));
        thread::spawn(move || {
            if let Some(event) = load::files(&engine, |work| loaded.get(work).cloned(), effect) {
                let _ = sender.send(Signal::Event(event));
            }
        });
    }

    /// Takes events until told to quit: all that are waiting, then one frame.
    fn turn(&mut self, app: &mut App, screen: &mut Screen, receiver: &Receiver<Signal>) -> io::Result<()> {
        loop {
            screen.draw(|buffer| views::render(app, buffer.area, buffer))?;
            let first = match receiver.recv_timeout(TICK) {
                Ok(signal) => signal,
                Err(RecvTimeoutError::Timeout) if app.loading.is_some() => Signal::Event(Event::Tick),
                Err(RecvTimeoutError::Timeout) => {
                    self.keep(app);
                    match receiver.recv() {
                        Ok(signal) => signal,
                        Err(_) => return Ok(()),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            for signal in std::iter::once(first).chain(receiver.try_iter()) {
                if !self.take(app, screen, signal)? {
                    return Ok(());
                }
            }
        }
    }

    /// Takes one signal; false when it is time to leave.
    fn take(&mut self, app: &mut App, screen: &mut Screen, signal: Signal) -> io::Result<bool> {
        let effects = match signal {
            Signal::Event(event) => {
                if matches!(event, Event::Resize(_)) {
                    screen.clear()?;
                }
                update(app, event)
            }
            Signal::Suspend => vec![Effect::Suspend],
            Signal::Stop(number) => {
                self.stopped_by = Some(number);
                return Ok(false);
            }
        };
        self.start_workers(app);
        for effect in effects {
            if !self.carry_out(app, screen, effect)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn carry_out(&mut self, app: &mut App, screen: &mut Screen, effect: Effect) -> io::Result<bool> {
        match effect {
            Effect::Quit => return Ok(false),
            Effect::Suspend => {
                screen.suspend()?;
                app.size = screen.size()?;
            }
            Effect::Redraw => screen.clear()?,
            Effect::Mouse(is_on) => screen.set_mouse(is_on)?,
            Effect::Copy(text) => screen.copy(&text)?,
            Effect::CancelLoading => {
                if let Some(loading) = &app.loading {
                    loading.progress.cancel();
                }
                return Ok(!app.works.is_empty());
            }
            Effect::Open(paths) => self.open(app, Open::Paths(paths), Scenario::default()),
            Effect::Append { .. } | Effect::Write { .. } => {
                if let Some(event) = load::files(&self.engine, |_| None, effect) {
                    let _ = self.sender.send(Signal::Event(event));
                }
            }
            Effect::Export { .. } | Effect::Read { .. } => self.in_background(app, effect),
            Effect::Evaluate { work, revision, scenario } => {
                self.ask(work, Request::Evaluate { revision, scenario: (*scenario).clone() });
            }
            Effect::List { work, ticket, sources } => self.list(work, ticket, sources),
            Effect::Reopen { work, choice, scenario } => {
                self.reopen(app, work, scenario, BuildOptions { iteration: choice });
            }
            Effect::Learn { work, path } => self.learn(app, work, path),
            Effect::Renew { work } => {
                if let (Some(old), Some(fresh)) = (self.workers.get_mut(work), app.works.get(work)) {
                    *old = new_worker(&self.engine, &self.sender, fresh);
                }
            }
            Effect::Gains { work, revision, scenario, lines } => {
                self.ask(work, Request::Gains { revision, scenario: (*scenario).clone(), lines });
            }
            Effect::Plans { work, revision, scenario } => {
                self.ask(work, Request::Plans { revision, scenario: (*scenario).clone() });
            }
            Effect::Search { work, revision, scenario } => {
                self.ask(work, Request::Search { revision, scenario: (*scenario).clone() });
            }
            Effect::StopSearch { work } => self.ask(work, Request::StopSearch),
            Effect::Compare { work, sources, reference } => self.compare(work, sources, reference),
            Effect::StopAdvice { work } => self.ask(work, Request::StopAdvice),
            Effect::Advise { work, revision, scenario, target } => {
                self.ask(work, Request::Advise { revision, scenario: (*scenario).clone(), target });
            }
            Effect::Sweep { work, revision, scenario, sweep } => {
                self.ask(work, Request::Sweep { revision, scenario: (*scenario).clone(), sweep });
            }
        }
        Ok(true)
    }

    /// Sorts and filters off the screen's thread.
    fn list(&self, work: usize, ticket: u64, sources: Box<Sources>) {
        let sender = self.sender.clone();
        thread::spawn(move || {
            let listing = Listing::of(&sources).map(Box::new);
            let _ = sender.send(Signal::Event(Event::Listed { work, ticket, listing }));
        });
    }

    /// Computes columns off the screen's thread.
    fn compare(&self, work: usize, sources: Vec<SideSource>, reference: usize) {
        let (sender, engine) = (self.sender.clone(), Arc::clone(&self.engine));
        thread::spawn(move || {
            let compared = Box::new(Compared::of(&engine, sources, reference));
            let _ = sender.send(Signal::Event(Event::Compared { work, compared }));
        });
    }

    fn ask(&self, work: usize, request: Request) {
        if let Some(worker) = self.workers.get(work) {
            worker.request(request);
        }
    }

    /// Has the sessions that changed written.
    fn keep(&mut self, app: &App) {
        let Some(keeper) = &mut self.keeper else { return };
        for work in &app.works {
            if let Some(session) = app.session(work.number, keeper.known(&work.fingerprint)) {
                keeper.keep(session);
            }
        }
    }

    /// One worker per opened trace, with a thread that turns its replies into pictures; and its session as it began.
    fn start_workers(&mut self, app: &App) {
        while self.workers.len() < app.works.len() {
            let number = self.workers.len();
            if let (Some(keeper), Some(session)) = (&mut self.keeper, app.session(number, None)) {
                keeper.begin(session);
            }
            self.workers.push(new_worker(&self.engine, &self.sender, &app.works[number]));
        }
    }

    /// Opens a second trace of a model off the screen's thread.
    fn learn(&self, app: &App, work: usize, path: PathBuf) {
        let Some(loaded) = app.works.get(work).map(|work| Arc::clone(&work.loaded)) else { return };
        let (sender, engine) = (self.sender.clone(), Arc::clone(&self.engine));
        thread::spawn(move || {
            let opened = load::learn(&engine, &loaded, path);
            let _ = sender.send(Signal::Event(Event::Learned { work, opened }));
        });
    }

    /// Models another iteration, or other ranks, off the screen's thread.
    fn reopen(&self, app: &App, work: usize, scenario: Option<Arc<Scenario>>, build: BuildOptions) {
        let Some(loaded) = app.works.get(work).map(|work| Arc::clone(&work.loaded)) else { return };
        let (sender, engine) = (self.sender.clone(), Arc::clone(&self.engine));
        thread::spawn(move || {
            let opened = load::reopen(&engine, &loaded, scenario.as_deref(), &build);
            let _ = sender.send(Signal::Event(Event::Reopened { work, opened }));
        });
    }
}

/// A worker on an opened trace, whose answers become events.
fn new_worker(engine: &Arc<Engine>, sender: &Sender<Signal>, work: &Workspace) -> Worker {
    let sender = sender.clone();
    let deliver = move |event| {
        let _ = sender.send(Signal::Event(event));
    };
    load::worker(engine, Arc::clone(&work.loaded), work.number, deliver)
}

/// Signals that end or suspend the program become messages.
fn watch_signals(sender: Sender<Signal>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGTSTP])?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let message = if signal == SIGTSTP { Signal::Suspend } else { Signal::Stop(signal) };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Keys, mouse, pastes and sizes become events.
fn read_input(sender: Sender<Signal>) {
    thread::spawn(move || {
        loop {
            let event = match crossterm::event::read() {
                Ok(crossterm::event::Event::Key(key)) => Event::Key(key),
                Ok(crossterm::event::Event::Mouse(mouse)) => Event::Mouse(mouse),
                Ok(crossterm::event::Event::Paste(text)) => Event::Paste(text),
                Ok(crossterm::event::Event::Resize(width, height)) => Event::Resize(Size { width, height }),
                Ok(_) => continue,
                Err(_) => Event::Stop,
            };
            let is_last = matches!(event, Event::Stop);
            if sender.send(Signal::Event(event)).is_err() || is_last {
                return;
            }
        }
    });
}
