//! The program around the screen: events are taken, effects carried out, one frame per batch of events.

use std::io::{self, Write, stderr};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use crate::session::{Algorithm, Engine, Keeper, Sessions, give_back_memory};
use color_eyre::eyre::{Result, eyre};
use retime_core::graph::BuildOptions;
use retime_core::intern::printable;
use retime_core::log::{self, Level};
use retime_core::scenario::Scenario;

use super::app::{App, Saving, Style};
use super::effect::Effect;
use super::inbox::Inbox;
use super::load::Open;
use super::message::Message;
use super::runner::Runner;
use super::terminal::Screen;
use super::update::{Event, update};
use super::views;

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
    /// Whose algorithm is shown beside our own replay.
    pub algorithm: Option<Algorithm>,
    /// Files of the user's that cannot be used, and why.
    pub left_out: Vec<String>,
}

/// Time between frames while something moves by itself.
const TICK: Duration = Duration::from_millis(50);

/// Longest time between an edit and its being kept while keys keep coming.
const KEEP: Duration = Duration::from_millis(500);

/// After so long without an event, memory that was freed goes back to the system.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the screen until the user leaves.
///
/// # Errors
/// Nothing could be loaded, or the terminal cannot be used. It is given back in any case.
pub fn run(start: Start) -> Result<()> {
    let Start { open, engine, build, scenario, style, sessions, is_fresh, algorithm, left_out } = start;
    let (sender, inbox) = Inbox::open()?;
    let mut screen = Screen::take()?;
    let mut app = App::new(&style, screen.size()?);
    app.take_devices(&engine);
    for reason in left_out {
        app.say(Message::error(format!("left out: {reason}")));
    }
    let report = sender.clone();
    let report = move |reason| _ = report.send(Event::Saving(reason));
    let keeper = sessions.clone().map(|sessions| Keeper::start(sessions, report));
    app.saving = if keeper.is_some() { Saving::On } else { Saving::Off };
    let sessions = sessions.filter(|_| !is_fresh);
    let runner = Runner::on_threads(engine, sessions, sender.clone());
    let mut program = Program { runner, stopped_by: None, keeper };
    inbox.read_input(sender);
    (app.build, app.algorithm) = (build, algorithm);
    let opening = app.open(open, scenario);
    let played = panic::catch_unwind(AssertUnwindSafe(|| {
        program.carry_out(&mut app, &mut screen, opening).and_then(|_| program.turn(&mut app, &mut screen, &inbox))
    }));
    // Before anything is written to a terminal that may be gone, and whatever went wrong.
    program.keep(&app);
    let kept = program.keeper.map(Keeper::finish);
    drop(screen);
    if let Some(Err(reason)) = kept {
        let _ = writeln!(stderr(), "retime: the session is not saved: {}", printable(&reason));
    }
    if let Some(signal) = program.stopped_by {
        signal_hook::low_level::emulate_default_handler(signal)?;
    }
    played.unwrap_or_else(|fault| panic::resume_unwind(fault))?;
    match app.failure {
        Some(reason) => Err(eyre!(reason)),
        None => Ok(()),
    }
}

struct Program {
    runner: Runner,
    stopped_by: Option<i32>,
    keeper: Option<Keeper>,
}

impl Program {
    /// Takes events until told to quit: those that are waiting, as many as there is time for, then one frame.
    fn turn(&mut self, app: &mut App, screen: &mut Screen, inbox: &Inbox) -> io::Result<()> {
        let mut kept = Instant::now();
        loop {
            if kept.elapsed() > KEEP {
                self.keep(app);
                kept = Instant::now();
            }
            log::timed(Level::Debug, "draw", || screen.draw(|buffer| views::render(app, buffer.area, buffer)))?;
            let mut next = match inbox.next(Some(TICK)) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) if app.loading.is_some() => Some(Event::Tick),
                Err(RecvTimeoutError::Timeout) if self.may_play_on(app) => Some(Event::Idle),
                Err(RecvTimeoutError::Timeout) => {
                    self.keep(app);
                    inbox.next(Some(PAUSE)).ok().or_else(|| {
                        thread::spawn(give_back_memory);
                        inbox.next(None).ok()
                    })
                }
                Err(RecvTimeoutError::Disconnected) => None,
            };
            if next.is_none() {
                return Ok(());
            }
            let began = Instant::now();
            while let Some(event) = next {
                if !self.take(app, screen, event)? {
                    return Ok(());
                }
                next = if began.elapsed() < TICK { self.waiting(app, inbox) } else { None };
            }
        }
    }

    /// The next event that waits: where none does, a script may go on once all it asked for is there.
    fn waiting(&self, app: &App, inbox: &Inbox) -> Option<Event> {
        let may_play_on = self.may_play_on(app);
        inbox.waiting().or_else(|| may_play_on.then_some(Event::Idle))
    }

    fn may_play_on(&self, app: &App) -> bool {
        app.script.is_some() && self.runner.is_idle() && app.is_settled()
    }

    /// Takes one event; false when it is time to leave.
    fn take(&mut self, app: &mut App, screen: &mut Screen, event: Event) -> io::Result<bool> {
        match event {
            Event::Stop(Some(signal)) => self.stopped_by = Some(signal),
            Event::Resize(_) => screen.clear()?,
            _ => {}
        }
        let known = app.workspaces.len();
        let effects = update(app, event);
        self.runner.follow(&app.workspaces);
        self.begin_sessions(app, known);
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
            Effect::Ask(request) => self.runner.request(request),
        }
        Ok(true)
    }

    /// Has the sessions that changed written.
    fn keep(&mut self, app: &App) {
        let Some(keeper) = &mut self.keeper else { return };
        for work in &app.workspaces {
            if let Some(session) = app.session(work.number, keeper.known(&work.fingerprint)) {
                keeper.keep(session);
            }
        }
    }

    /// Takes note of the sessions of traces opened since there were `known`, as they began.
    fn begin_sessions(&mut self, app: &App, known: usize) {
        let Some(keeper) = &mut self.keeper else { return };
        (known..app.workspaces.len())
            .filter_map(|number| app.session(number, None))
            .for_each(|session| keeper.begin(session));
    }
}
