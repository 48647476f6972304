//! Playing scripts: line after line, each when everything before it has been computed.

use std::collections::VecDeque;

use crate::session::{Expectation, Played, ScriptLine, Status, Verdict};

use super::app::App;
use super::command::run_line;
use super::effect::Effect;
use super::message::Message;
use super::overlay::{Confirm, Overlay};

/// A script that is being played.
#[derive(Debug)]
pub struct Script {
    /// The file it was read from.
    pub file: String,
    rest: VecDeque<ScriptLine>,
    played: Vec<Played>,
    /// Steps without effect that were said or expected already.
    idle: Vec<String>,
    /// The script whose line plays this one.
    outer: Option<Box<Self>>,
}

/// Most scripts that play one another.
const DEPTH: usize = 16;
/// Most lines of all scripts that are played together: a few that play one another again and again never end.
const MOST_LINES: usize = 100_000;

impl Script {
    /// Has the lines of `file` played next; the script that is being played goes on after them.
    ///
    /// # Errors
    /// It would play itself, or too many play one another.
    pub fn start(app: &mut App, file: String, lines: Vec<ScriptLine>) -> Result<(), String> {
        let playing = || std::iter::successors(app.script.as_ref(), |script| script.outer.as_deref());
        if playing().any(|script| script.file == file) {
            return Err(format!("{file} would play itself"));
        }
        if playing().count() >= DEPTH {
            return Err(format!("{file}: more than {DEPTH} scripts play one another"));
        }
        let played: usize = playing().map(|script| script.played.len()).sum();
        if played + lines.len() > MOST_LINES {
            return Err(format!("{file}: more than {MOST_LINES} lines in all"));
        }
        let outer = app.script.take().map(Box::new);
        let idle = outer.as_ref().map(|outer| outer.idle.clone()).unwrap_or_default();
        app.script = Some(Self { file, rest: lines.into(), played: Vec::new(), idle, outer });
        Ok(())
    }

    /// The last line turned out not to have worked after all: nothing more is played.
    pub fn fail(&mut self, reason: String) {
        self.rest.clear();
        if let Some(last) = self.played.last_mut() {
            last.status = Status::Error;
            last.message = Some(reason);
        }
    }

    /// The program is left: no line of it, or of one that plays it, is played any more.
    fn leave(&mut self) {
        let mut script = Some(self);
        while let Some(one) = script {
            one.rest.clear();
            script = one.outer.as_deref_mut();
        }
    }

    /// Whether the next line expects that a step has no effect.
    fn expects_no_effect(&self) -> bool {
        let expected = self.rest.front().and_then(|line| line.text.strip_prefix("expect "));
        expected.and_then(|text| Expectation::parse(text).ok()).is_some_and(|expected| expected.is_of_no_effect())
    }

    /// The last line fails if a step came to have no effect by it, and the next line does not expect that.
    fn note_idle(&mut self, idle: Vec<(String, String)>) {
        let new = idle.iter().find(|(step, _)| !self.idle.contains(step));
        if let (Some((step, why)), Some(last)) = (new.filter(|_| !self.expects_no_effect()), self.played.last_mut())
            && matches!(last.status, Status::Done | Status::Holds)
        {
            last.status = Status::Fails;
            last.expected = Some("an effect".to_owned());
            last.got = Some(format!("none of {step}: {why}"));
        }
        self.idle = idle.into_iter().map(|(step, _)| step).collect();
    }
}

/// Steps in force of the trace that is shown that have no effect, each with why.
fn idle_steps(app: &App) -> Vec<(String, String)> {
    let Some(work) = app.workspace().filter(|work| !work.is_stale()) else { return Vec::new() };
    work.outcome.without_effect().map(|(step, why)| (step.transform.clone(), why.to_owned())).collect()
}

/// Plays lines up to one that asks for something, which has to be waited for.
pub fn pump(app: &mut App) -> Vec<Effect> {
    let mut effects = Vec::new();
    while app.is_settled() && !effects.iter().any(|effect| matches!(effect, Effect::Ask(_))) {
        let idle = idle_steps(app);
        let Some(script) = &mut app.script else { break };
        script.note_idle(idle);
        match script.rest.pop_front() {
            Some(line) => effects.extend(play(app, line)),
            None => finish(app),
        }
    }
    effects
}

fn play(app: &mut App, line: ScriptLine) -> Vec<Effect> {
    let nested = app.script.take();
    let (ran, verdict) = (run_line(app, &line.text), app.verdict.take());
    let (effects, error) = match ran.map(|effects| (effects, asked(app))) {
        Ok((_, Some(asked))) => (Vec::new(), Some(asked)),
        Ok((effects, None)) => (effects, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let played = played(app, line, verdict, error);
    app.script = nested;
    if let Some(script) = &mut app.script {
        if played.status == Status::Error {
            script.rest.clear();
        }
        script.played.push(played);
        if effects.iter().any(|effect| matches!(effect, Effect::Quit)) {
            script.leave();
        }
    }
    effects
}

/// What waits for an answer that no script gives, with the line that needs none; it is closed.
fn asked(app: &mut App) -> Option<String> {
    match app.overlay.take_if(|overlay| matches!(overlay, Overlay::Prompt(_) | Overlay::Confirm(_)))? {
        Overlay::Confirm(Confirm { question, yes }) => {
            Some(format!("{question} No script answers; `{yes}` asks nothing"))
        }
        _ => Some("more is asked for; say all of it on the line".to_owned()),
    }
}

fn played(app: &App, line: ScriptLine, verdict: Option<Verdict>, error: Option<String>) -> Played {
    let status = match (&verdict, &error) {
        (Some(verdict), _) if verdict.holds => Status::Holds,
        (Some(_), _) => Status::Fails,
        (None, Some(_)) => Status::Error,
        (None, None) => Status::Done,
    };
    let (expected, got) = verdict.map(|verdict| (verdict.expected, verdict.got)).unzip();
    let simulated_ns = app.workspace().filter(|work| !work.is_stale()).map(|work| work.outcome.summary.simulated_ns);
    let message = error.filter(|_| status == Status::Error);
    let command = shortened(line.text);
    let message = message.map(shortened);
    Played { file: None, line: line.number, command, status, expected, got, message, simulated_ns }
}

/// Longest line that is told whole.
const LONGEST_LINE: usize = 1_000;

/// A line as a person reads it: of an endless one the beginning.
fn shortened(text: String) -> String {
    if text.chars().nth(LONGEST_LINE).is_none() {
        return text;
    }
    text.chars().take(LONGEST_LINE - 1).chain(['…']).collect()
}

/// Says how it went, and keeps what was played.
fn finish(app: &mut App) {
    let Some(script) = app.script.take() else { return };
    if let Some(mut outer) = script.outer {
        if script.played.iter().any(|line| line.status == Status::Error) {
            outer.rest.clear();
        }
        outer.idle = script.idle;
        let file = Some(script.file);
        outer.played.extend(script.played.into_iter().map(|line| Played { file: line.file.or(file.clone()), ..line }));
        app.script = Some(*outer);
        return;
    }
    let complaints: Vec<String> = script.played.iter().filter_map(Played::complaint).collect();
    for complaint in complaints.iter().rev() {
        app.say(Message::error(format!("{}, {complaint}", script.file)));
    }
    if complaints.is_empty() {
        let lines = if script.played.len() == 1 { "1 line" } else { &format!("{} lines", script.played.len()) };
        app.say(Message::note(format!("{}: {lines} played, everything as expected", script.file)));
    }
    app.played = script.played;
}
