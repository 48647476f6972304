//! The screen without a terminal: keys in, frames out, requests served in turn. For tests and scripts.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use crate::session::{Engine, Loaded, Played};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;

use super::app::{App, Style};
use super::effect::Effect;
use super::key::KeyPress;
use super::load;
use super::message::Level;
use super::runner::{Job, Reading, Reply, Runner, Trace};
use super::update::{Event, update};
use super::views;

/// A screen that is played without a terminal.
#[derive(Debug)]
pub struct ScriptedScreen {
    app: App,
    runner: Runner,
    replies: Receiver<Event>,
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
        app.take_devices(&engine);
        let opened: Vec<_> = loaded.into_iter().map(|loaded| load::opened(&engine, loaded, None)).collect();
        let (sender, replies) = mpsc::channel();
        let runner = Runner::in_turn(engine, sender);
        let mut scripted = Self { app, runner, replies, waiting: Vec::new(), has_quit: false, copied: None };
        scripted.take(Event::Reply(Reply::Opened(Ok(opened), scenario.clone())));
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
            let press: KeyPress = if name == " " { "space".parse()? } else { name.parse()? };
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
        let mut next = self.advance();
        while let Some((trace, job)) = next {
            let (mut so_far, mut job) = (trace.so_far(), job);
            next = loop {
                trace.serve(&job, &mut so_far);
                match self.advance() {
                    Some((other, further)) if Arc::ptr_eq(&other, &trace) => job = further,
                    other => break other,
                }
            };
        }
    }

    /// Carries out what waits and takes in what comes of it, up to something that is to be computed about a trace; `None` once nothing
    /// is.
    fn advance(&mut self) -> Option<(Arc<Trace>, Job)> {
        loop {
            while let Ok(event) = self.replies.try_recv() {
                self.take(event);
            }
            for effect in std::mem::take(&mut self.waiting) {
                self.carry_out(effect);
            }
            if self.runner.serve_request() {
                continue;
            }
            if let Some(next) = self.runner.next_job() {
                return Some(next);
            }
            while let Ok(event) = self.replies.try_recv() {
                self.take(event);
            }
            if self.waiting.is_empty() && self.app.script.is_some() {
                self.take(Event::Idle);
            }
            if self.waiting.is_empty() {
                return None;
            }
        }
    }

    /// Plays the script `text`, which was read from `file`, to its end. It is not read again: a pipe gives it once.
    ///
    /// # Returns
    /// What came of each line.
    ///
    /// # Errors
    /// It cannot be begun.
    pub fn source(&mut self, file: &str, text: &str) -> Result<Vec<Played>, String> {
        let before = self.app.messages.len();
        self.app.busy += 1;
        self.take(Event::Reply(Reply::Read {
            file: file.to_owned(),
            text: Ok(text.to_owned()),
            reading: Reading::Script,
        }));
        self.settle();
        let played = std::mem::take(&mut self.app.played);
        if self.app.script.take().is_some() {
            return Err("the script came to no end: a line of it was not answered".to_owned());
        }
        match self.app.messages.get(before) {
            Some(message) if played.is_empty() && message.level == Level::Error => Err(message.text.clone()),
            _ => Ok(played),
        }
    }

    /// What opens further traces models these iterations.
    pub fn set_build(&mut self, build: BuildOptions) {
        self.app.build = build;
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
        self.runner.follow(&self.app.workspaces);
        self.waiting.extend(effects);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Quit => self.has_quit = true,
            Effect::Copy(text) => self.copied = Some(text),
            Effect::Ask(request) => self.runner.request(request),
            Effect::Suspend | Effect::Redraw | Effect::Mouse(_) => {}
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
