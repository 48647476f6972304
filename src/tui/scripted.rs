//! The screen without a terminal: keys in, frames out, effects carried out at once. For tests and scripts.

use std::sync::Arc;

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use crate::session::{Engine, Loaded, Played, Sharding, SweepRun};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::scenario::transforms::Sharder;

use super::app::{App, Style};
use super::compare::Compared;
use super::effect::Effect;
use super::key::Press;
use super::listing::Listing;
use super::load;
use super::message::Level;
use super::update::{Event, update};
use super::views;

/// A screen that is played without a terminal.
#[derive(Debug)]
pub struct ScriptedScreen {
    app: App,
    engine: Arc<Engine>,
    build: BuildOptions,
    loaded: Vec<Arc<Loaded>>,
    waiting: Vec<Effect>,
    /// Whether the program has been left.
    pub has_quit: bool,
    /// What was copied last.
    pub copied: Option<String>,
}

impl ScriptedScreen {
    /// A screen of `size` with these traces open and the steps of `scenario` in force.
    pub fn new(engine: Arc<Engine>, loaded: Vec<Loaded>, scenario: &Scenario, style: &Style, size: Size) -> Self {
        let mut app = App::new(style, size);
        app.devices = load::device_lines(&engine);
        let opened: Vec<_> = loaded.into_iter().map(|loaded| load::opened(loaded, None)).collect();
        let loaded = opened.iter().map(|opened| Arc::clone(&opened.loaded)).collect();
        let build = BuildOptions::default();
        let mut scripted = Self { app, engine, build, loaded, waiting: Vec::new(), has_quit: false, copied: None };
        scripted.take(Event::Loaded(opened, scenario.clone()));
        scripted
    }

    /// Presses keys: characters as they are, others by name in angle brackets (`b<right><enter>`, `<lt>` for `<`). The
    /// mouse is moved the same way, by cells from 0: `<click:10,5>`, `<wheel-up:10,5>`, `<drag:10,5,20,5>`.
    ///
    /// # Errors
    /// A name that is no key.
    pub fn press(&mut self, keys: &str) -> Result<(), String> {
        let mut rest = keys;
        while let Some(c) = rest.chars().next() {
            let (name, after) = match rest.strip_prefix('<').and_then(|inner| inner.split_once('>')) {
                Some(("lt", after)) => ("<", after),
                Some((name, after)) => (name, after),
                None => rest.split_at(c.len_utf8()),
            };
            rest = after;
            if let Some(pointed) = pointed(name) {
                for event in pointed {
                    self.take(Event::Mouse(event));
                }
                continue;
            }
            let press: Press = if name == " " { "space".parse()? } else { name.parse()? };
            self.take(Event::Key(press.event()));
        }
        Ok(())
    }

    /// Presses and lets go of the mouse button at a column and row.
    pub fn click(&mut self, at: (u16, u16)) {
        self.drag(at, at);
    }

    /// Presses the mouse button at a column and row and lets go of it at another.
    pub fn drag(&mut self, from: (u16, u16), to: (u16, u16)) {
        let mut kinds = vec![(MouseEventKind::Down(MouseButton::Left), from)];
        if from != to {
            kinds.push((MouseEventKind::Drag(MouseButton::Left), to));
        }
        kinds.push((MouseEventKind::Up(MouseButton::Left), to));
        for (kind, (column, row)) in kinds {
            self.take(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        }
    }

    /// Lets everything that was asked for be computed.
    pub fn settle(&mut self) {
        while !self.waiting.is_empty() {
            for effect in std::mem::take(&mut self.waiting) {
                self.carry_out(effect);
            }
        }
    }

    /// Plays the script in a file to its end.
    ///
    /// # Returns
    /// What came of each line.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn source(&mut self, file: &str) -> Result<Vec<Played>, String> {
        let before = self.app.messages.len();
        let effects = super::command::run_line(&mut self.app, &format!("source {file}"))?;
        self.waiting.extend(effects);
        self.settle();
        let played = std::mem::take(&mut self.app.played);
        match self.app.messages.get(before) {
            Some(message) if played.is_empty() && message.level == Level::Error => Err(message.text.clone()),
            _ => Ok(played),
        }
    }

    /// What opens further traces models these iterations.
    pub fn set_build(&mut self, build: BuildOptions) {
        self.build = build;
    }

    /// Gives the screen another size.
    pub fn resize(&mut self, size: Size) {
        self.take(Event::Resize(size));
    }

    /// What is on the screen.
    pub fn draw(&self) -> Buffer {
        views::draw(&self.app, self.app.size)
    }

    fn take(&mut self, event: Event) {
        let effects = update(&mut self.app, event);
        self.waiting.extend(effects);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Quit | Effect::CancelLoading => self.has_quit = true,
            Effect::Copy(text) => self.copied = Some(text),
            Effect::Open(paths) => {
                let options = retime_core::trace::OpenOptions::default();
                match load::open(&self.engine, &load::Open::Paths(paths), (&options, &self.build), None) {
                    Ok(opened) => {
                        self.loaded.extend(opened.iter().map(|opened| Arc::clone(&opened.loaded)));
                        self.take(Event::Loaded(opened, Scenario::default()));
                    }
                    Err(reason) => self.take(Event::Failed(reason)),
                }
            }
            Effect::Export { .. } | Effect::Write { .. } | Effect::Append { .. } | Effect::Read { .. } => {
                let loaded = |work: usize| self.loaded.get(work).cloned();
                if let Some(event) = load::files(&self.engine, loaded, effect) {
                    self.take(event);
                }
            }
            Effect::Suspend
            | Effect::Redraw
            | Effect::Mouse(_)
            | Effect::StopSearch { .. }
            | Effect::StopAdvice { .. } => {}
            Effect::Evaluate { work, revision, scenario } => self.evaluate(work, revision, &scenario),
            Effect::List { work, ticket, sources } => {
                let listing = Listing::of(&sources).map(Box::new);
                self.take(Event::Listed { work, ticket, listing });
            }
            Effect::Reopen { work, choice, scenario } => {
                let Some(loaded) = self.loaded.get(work).cloned() else { return };
                let build = BuildOptions { iteration: choice };
                let opened = load::reopen(&self.engine, &loaded, scenario.as_deref(), &build);
                self.take(Event::Reopened { work, opened });
            }
            Effect::Learn { work, path } => {
                let Some(loaded) = self.loaded.get(work).cloned() else { return };
                let opened = load::learn(&self.engine, &loaded, path);
                self.take(Event::Learned { work, opened });
            }
            Effect::Renew { work } => {
                if let (Some(old), Some(fresh)) = (self.loaded.get_mut(work), self.app.works.get(work)) {
                    *old = Arc::clone(&fresh.loaded);
                }
            }
            Effect::Gains { work, revision, scenario, lines } => self.try_gains(work, revision, &scenario, lines),
            Effect::Plans { work, revision, scenario } => self.plans(work, revision, &scenario, false),
            Effect::Search { work, revision, scenario } => self.plans(work, revision, &scenario, true),
            Effect::Compare { work, sources, reference } => {
                let compared = Box::new(Compared::of(&self.engine, sources, reference));
                self.take(Event::Compared { work, compared });
            }
            Effect::Advise { work, revision, scenario, target } => {
                let Some(loaded) = self.loaded.get(work).cloned() else { return };
                let base = self.engine.evaluate(&loaded, &scenario, revision);
                if let Some(advice) = self.engine.advise(&loaded, &base, target, &|| false) {
                    self.take(Event::Advice { work, revision, advice: Box::new(advice) });
                }
            }
            Effect::Sweep { work, revision, scenario, sweep } => {
                let Some(loaded) = self.loaded.get(work).cloned() else { return };
                let knobs = sweep.knobs();
                for point in SweepRun::new(&self.engine, &loaded, &scenario, &knobs).points(&sweep.points()) {
                    self.take(Event::Point { work, revision, point: Box::new(point) });
                }
            }
        }
    }

    fn try_gains(&mut self, work: usize, revision: u64, scenario: &Scenario, lines: Vec<String>) {
        let Some(loaded) = self.loaded.get(work).cloned() else { return };
        let outcome = self.engine.evaluate(&loaded, scenario, revision);
        for line in lines {
            let gain = self.engine.gain(&loaded, &outcome, &line);
            self.take(Event::Gain { work, revision, line, gain });
        }
    }

    fn plans(&mut self, work: usize, revision: u64, scenario: &Scenario, search: bool) {
        let Some(loaded) = self.loaded.get(work).cloned() else { return };
        let sharding = Sharding::new(&loaded, scenario);
        let plans = if search {
            vec![sharding.best()]
        } else {
            std::iter::once(sharding.traced()).chain(Sharder::ALL.map(|sharder| sharding.by(sharder))).collect()
        };
        for plan in plans {
            self.take(Event::Plan { work, revision, plan: Box::new(plan) });
        }
    }

    fn evaluate(&mut self, work: usize, revision: u64, scenario: &Scenario) {
        let Some(loaded) = self.loaded.get(work).cloned() else { return };
        let first = self.engine.evaluate(&loaded, scenario, revision);
        let mut last = u64::MAX;
        let second = self.engine.with_gains(&loaded, first.clone(), &|| false);
        for outcome in std::iter::once(first).chain(second) {
            let reply = crate::session::Reply::Outcome(Box::new(outcome));
            if let Some(event) = load::event_of(work, reply, &mut last) {
                self.take(event);
            }
        }
    }
}

/// The mouse's events of a name such as `click:10,5`; `None` for the name of a key.
fn pointed(name: &str) -> Option<Vec<MouseEvent>> {
    let (what, cells) = name.split_once(':')?;
    let cells: Vec<u16> = cells.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    let at = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    let button = MouseButton::Left;
    match (what, cells.as_slice()) {
        ("click", &[x, y]) => Some(vec![at(MouseEventKind::Down(button), x, y), at(MouseEventKind::Up(button), x, y)]),
        ("wheel-up", &[x, y]) => Some(vec![at(MouseEventKind::ScrollUp, x, y)]),
        ("wheel-down", &[x, y]) => Some(vec![at(MouseEventKind::ScrollDown, x, y)]),
        ("drag", &[x, y, to_x, to_y]) => Some(vec![
            at(MouseEventKind::Down(button), x, y),
            at(MouseEventKind::Drag(button), to_x, to_y),
            at(MouseEventKind::Up(button), to_x, to_y),
        ]),
        _ => None,
    }
}
