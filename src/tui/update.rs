//! Event → new state and effects. Nothing here waits, reads a clock or draws.

use std::sync::Arc;

use crossterm::event::{KeyEvent, KeyEventKind, KeyModifiers, MouseEvent};
use ratatui::layout::Size;

use crate::session::{Outcome, SavedSession, StepOutcome};
use retime_core::graph::{CAPTURED, ExecutionGraph};
use retime_core::intern::printable;
use retime_core::scenario::{EffectKind, Scenario};

use super::app::{App, Focus, Saving};
use super::command::{self, Pane, run_line};
use super::effect::Effect;
use super::input::{overlay_key, overlay_paste};
use super::key::{CHANGED, ChangedKey, KeyPress};
use super::listing::Listing;
use super::message::{Level, Message, NO_TRACE};
use super::overlay::Overlay;
use super::runner::{Finding, Recording, Reply, SavedSteps};
use super::script;
use super::timeline::DensityIndex;
use super::view_model::ViewModel;
use super::views;
use super::views::compare::{ColumnKind, Compared};
use super::workspace::{Opened, Workspace};

/// What happened outside.
#[derive(Debug)]
pub enum Event {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Text pasted by the terminal.
    Paste(String),
    /// The terminal has another size.
    Resize(Size),
    /// Time has passed, while something shows it.
    Tick,
    /// Something that was asked for.
    Reply(Reply),
    /// A request has been served, whatever came of it.
    Served,
    /// Everything that was asked for has been computed, read or written: a script may go on.
    Idle,
    /// Sessions cannot be saved, with the reason in one line, or can be again.
    Saving(Result<(), String>),
    /// The program was told to suspend by a signal.
    Suspend,
    /// The program was told to stop: by the signal of that number, or the terminal is gone.
    Stop(Option<i32>),
}

/// Brings `app` up to date with `event`; a script plays on when there is nothing more to wait for.
pub fn update(app: &mut App, event: Event) -> Vec<Effect> {
    let is_idle = matches!(event, Event::Idle);
    let mut effects = apply(app, event);
    views::sum_range(app);
    effects.extend(views::header::published::ask(app));
    if is_idle {
        effects.extend(script::pump(app));
    }
    effects
}

fn apply(app: &mut App, event: Event) -> Vec<Effect> {
    let ran = match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => Ok(Vec::new()),
        Event::Key(key) => {
            app.forget();
            // What goes wrong while a line is typed stays until it can be read.
            let is_typed = matches!(app.overlay, Some(Overlay::Prompt(_)));
            app.status.take_if(|status| !(is_typed && status.level == Level::Error));
            key_pressed(app, key)
        }
        Event::Mouse(mouse) if app.loading.is_none() => command::click(app, mouse),
        Event::Paste(text) => Ok(pasted(app, &text)),
        Event::Resize(size) => {
            app.size = size;
            app.fit_extent();
            Ok(Vec::new())
        }
        Event::Tick => {
            if let Some(loading) = &mut app.loading {
                loading.tick();
            }
            Ok(Vec::new())
        }
        Event::Reply(reply) => replied(app, reply),
        Event::Saving(Ok(())) => {
            app.saving = Saving::On;
            app.say(Message::note("this session saves itself again"));
            Ok(Vec::new())
        }
        Event::Saving(Err(reason)) => {
            app.saving = Saving::Failed;
            Err(format!("this session does not save itself: {reason}"))
        }
        Event::Suspend => Ok(vec![Effect::Suspend]),
        Event::Stop(_) => Ok(vec![Effect::Quit]),
        Event::Mouse(_) | Event::Served | Event::Idle => Ok(Vec::new()),
    };
    let effects = ran.unwrap_or_else(|error| {
        app.say(Message::error(error));
        Vec::new()
    });
    app.keep_row_in_sight();
    effects
}

/// Takes what came of a request.
fn replied(app: &mut App, reply: Reply) -> command::CommandResult {
    match reply {
        Reply::Found { work, revision, finding } => Ok(found(app, work, revision, finding)),
        Reply::Listed { work, ticket, listing } => listed(app, work, ticket, listing),
        Reply::Compared { work, compared } => Ok(compared_with(app, work, *compared)),
        Reply::Opened(Ok(opened), scenario) => Ok(loaded(app, opened, &scenario)),
        Reply::Opened(Err(reason), _) => not_opened(app, reason),
        Reply::Reopened(work, opened) => reopened(app, work, opened),
        Reply::Joined(work, opened) => {
            app.busy = app.busy.saturating_sub(1);
            reopened(app, work, opened).map_err(|error| failed(app, error))
        }
        Reply::Read { file, text, reading } => {
            app.busy = app.busy.saturating_sub(1);
            text.and_then(|text| command::take(app, &file, &text, reading)).map_err(|error| failed(app, error))
        }
        Reply::Recording(begun) => {
            app.busy = app.busy.saturating_sub(1);
            let path = begun.map_err(|error| failed(app, error))?;
            app.say(Message::note(format!("recording to {}; :record stops", path.display())));
            app.recording = Some(Recording { path, lines: Vec::new() });
            Ok(Vec::new())
        }
        Reply::Written(result, saved) => {
            app.busy = app.busy.saturating_sub(1);
            result.map_err(|error| failed(app, error)).map(|said| written(app, said, saved))
        }
    }
}

/// Takes part of an analysis: the result itself, or what views show beyond it.
fn found(app: &mut App, number: usize, revision: u64, finding: Finding) -> Vec<Effect> {
    if let Finding::Outcome { outcome, density, view_model } = finding {
        return evaluated(app, number, *outcome, density, view_model);
    }
    let Some(work) = app.workspaces.get_mut(number) else { return Vec::new() };
    if let Finding::Published(change) = finding {
        views::header::published::take(work, revision, *change);
        return Vec::new();
    }
    let said: Vec<String> = views::ALL.into_iter().filter_map(|view| view.take(work, revision, &finding)).collect();
    for text in said {
        app.say(Message::note(text));
    }
    Vec::new()
}

/// A trace could not be opened: without another one, or a script that may expect it, there is nothing to show.
fn not_opened(app: &mut App, reason: String) -> Result<Vec<Effect>, String> {
    app.loading = None;
    if app.workspaces.is_empty() && app.script.is_none() {
        app.failure = Some(reason);
        return Ok(vec![Effect::Quit]);
    }
    app.compared_with = None;
    app.busy = app.busy.saturating_sub(1);
    Err(failed(app, reason))
}

/// Takes columns; what has changed meanwhile is asked for.
fn compared_with(app: &mut App, work: usize, compared: Compared) -> Vec<Effect> {
    if let Some(work) = app.workspaces.get_mut(work) {
        work.take_compared(compared);
    }
    if app.shows(&views::Compare) { app.start_compare() } else { Vec::new() }
}

/// Says what was written, and takes the steps in it for saved.
fn written(app: &mut App, said: String, saved: Option<SavedSteps>) -> Vec<Effect> {
    app.say(Message::note(said));
    if let Some(saved) = saved
        && let Some(work) = app.workspaces.get_mut(saved.work)
    {
        work.saved_steps = saved.steps;
    }
    Vec::new()
}

/// Ends a script whose last line asked for what failed.
fn failed(app: &mut App, error: String) -> String {
    if let Some(script) = &mut app.script {
        script.fail(error.clone());
    }
    error
}

fn key_pressed(app: &mut App, key: KeyEvent) -> command::CommandResult {
    if app.overlay.is_some() {
        return overlay_key(app, key);
    }
    let view = app.view;
    let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    if is_plain
        && app.focus == Focus::View
        && let Some(ran) = view.type_key(app, key)
    {
        return ran;
    }
    let press = KeyPress::from(key);
    let Some(line) = app.keymap.get(app.pane(), press).map(str::to_owned) else {
        if !app.regions().is_bare {
            app.say(Message::note(format!("{press} does nothing here: ? lists the keys")));
        }
        return Ok(Vec::new());
    };
    let name = line.split(' ').next().unwrap_or("");
    let is_shown = app.shows(&views::board::WhatIf) || !app.regions().is_bare;
    let is_taken = name == "back" || views::BARE_COMMANDS.iter().any(|&(taken, _)| taken == name);
    if !is_shown && !is_taken {
        return Err("no room for that at this size".to_owned());
    }
    let pane = app.pane();
    let ran = run_line(app, &line);
    match changed(app, pane, press) {
        Some(now) => ran.map_err(|error| format!("{error} · {now}")),
        None => ran,
    }
}

/// Says once of a key that it did something else in the first version; `Some` where that is to be said with an error.
fn changed(app: &mut App, pane: Pane, press: KeyPress) -> Option<&'static str> {
    let is_it = |known: &&ChangedKey| known.pane == pane && known.key.parse() == Ok(press);
    let known = CHANGED.iter().find(is_it).filter(|known| app.told_keys.insert(known.now))?;
    let before = app.status.as_ref().map_or(String::new(), |status| format!("{} · ", status.text));
    app.status = Some(Message::note(format!("{before}{}", known.now)));
    Some(known.now)
}

fn pasted(app: &mut App, text: &str) -> Vec<Effect> {
    let line = text.lines().next().unwrap_or("").chars().filter(|c| !c.is_control());
    overlay_paste(app, &line.collect::<String>())
}

fn loaded(app: &mut App, opened: Vec<Opened>, scenario: &Scenario) -> Vec<Effect> {
    app.loading = None;
    let first = app.workspaces.len();
    if first > 0 || app.script.is_some() {
        app.busy = app.busy.saturating_sub(1);
    }
    app.shown = first;
    for (number, mut opened) in opened.into_iter().enumerate() {
        let twin = app.workspaces.iter().position(|work| work.fingerprint == opened.fingerprint);
        let session = opened.session.take().filter(|_| scenario.steps.is_empty() && twin.is_none());
        let steps = session.as_ref().map_or(scenario, |session| &session.scenario);
        app.workspaces.push(Workspace::new(first + number, opened, steps));
        if let Some(twin) = twin {
            let (number, twin) = (first + number + 1, twin + 1);
            app.say(Message::note(format!("trace {number} is trace {twin} once more: its edits are not saved")));
        }
        if let Some(session) = session {
            resume(app, first + number, &session);
        }
    }
    let beside = app.compared_with.take();
    app.shown = beside.unwrap_or(first).min(app.workspaces.len().saturating_sub(1));
    if app.workspaces.len() > first + 1 && app.script.is_none() && beside.is_none() {
        let _ = run_line(app, "trace");
    }
    if app.status.as_ref().is_some_and(|status| status.text == NO_TRACE) {
        app.status = None;
    }
    let odd = app.workspace().map_or(0, |work| {
        let diagnostics = work.loaded.diagnostics();
        diagnostics.sorted().iter().filter(|d| d.severity > retime_core::diagnostic::Severity::Note).count()
    });
    if odd > 0 && app.status.is_none() {
        let kinds = if odd == 1 { "1 warning".to_owned() } else { format!("{odd} warnings") };
        app.status = Some(Message::note(format!("{kinds} about this trace: f2 shows them")));
    }
    app.fit_extent();
    let edited = app.workspaces[first..].iter_mut().filter(|work| !work.history.current().steps.is_empty());
    let mut effects: Vec<Effect> = edited.flat_map(Workspace::evaluate_anew).collect();
    if let Some(home) = beside {
        app.view = &views::Compare;
        app.workspaces[first..].iter_mut().for_each(|work| work.is_compared = true);
        if let Some(work) = app.workspaces.get_mut(home) {
            work.compare.chosen = ColumnKind::Trace(first);
        }
        effects.extend(app.start_compare());
    } else {
        // A view that was opened before there was a trace.
        effects.extend(app.start_background());
    }
    effects
}

/// Brings back what the user did to a trace before, and says so.
fn resume(app: &mut App, number: usize, session: &SavedSession) {
    let Some(work) = app.workspaces.get_mut(number) else { return };
    work.resume(session);
    if number == app.shown {
        let view = views::find(&session.view);
        let is_unknown = view.is_none() && !session.view.is_empty();
        let without = if is_unknown {
            format!(", without its view `{}`, which is unknown", printable(&session.view))
        } else {
            String::new()
        };
        app.view = view.unwrap_or(app.view);
        let about = session.about(&work.loaded);
        app.say(Message::note(format!(
            "resumed your last session with this trace: {about}{without}; :fresh starts over"
        )));
    }
}

/// Puts another iteration in place of the one shown; the scenario stays in force.
fn reopened(app: &mut App, number: usize, opened: Result<Box<Opened>, String>) -> command::CommandResult {
    let opened = opened?;
    let Some(work) = app.workspaces.get_mut(number) else { return Ok(Vec::new()) };
    let iteration = work.loaded.graph.ranks.first().map(|part| part.iteration.clone());
    let before = (work.loaded.graph.ranks.len(), iteration, work.loaded.context.batch_scaling.clone());
    let captures = work.loaded.captures.clone();
    work.reopen(*opened);
    let (graph, part) = (&work.loaded.graph, work.loaded.graph.ranks.first());
    let name = part.map_or(String::new(), |part| part.iteration.clone());
    let learned = work
        .loaded
        .context
        .batch_scaling
        .as_ref()
        .filter(|scaling| before.2.as_ref().is_none_or(|old| !Arc::ptr_eq(old, scaling)));
    let captured = work.loaded.captures.as_ref().filter(|one| captures.is_none_or(|old| !Arc::ptr_eq(&old, one)));
    let said = if let Some(told) = captured.and_then(|_| captured_operators(graph)) {
        told
    } else if let Some(scaling) = learned {
        let is_unmeasured = work.loaded.learned_from.as_ref().is_some_and(|second| second.unmeasured.is_some());
        let unmeasured = if is_unmeasured { ", whose times are predicted" } else { "" };
        format!("resize-batch now goes by this trace and that at batch {}{unmeasured}", scaling.other_batch())
    } else if before.1.as_ref() == Some(&name) && before.0 != graph.ranks.len() {
        format!("{} of {} ranks are simulated now", graph.ranks.len(), graph.rank_count())
    } else {
        format!("{name} is modelled now")
    };
    let mut effects = work.evaluate_anew();
    effects.extend(work.relist());
    app.say(Message::note(said));
    app.fit_extent();
    Ok(effects)
}

/// How many kernels of replayed graphs have operators now.
fn captured_operators(graph: &ExecutionGraph) -> Option<String> {
    let found = graph.diagnostics.sorted().into_iter().find(|one| one.code == CAPTURED)?;
    Some(found.message.clone())
}

fn evaluated(
    app: &mut App,
    work: usize,
    outcome: Outcome,
    density: Option<Arc<DensityIndex>>,
    view_model: Option<Arc<ViewModel>>,
) -> Vec<Effect> {
    let revision = outcome.revision;
    let Some(work) = app.workspaces.get_mut(work) else { return Vec::new() };
    let is_of_this_graph = Arc::ptr_eq(&outcome.resolved.graph, &work.loaded.graph);
    if revision < work.outcome.revision || !is_of_this_graph {
        return Vec::new();
    }
    let is_wanted = revision == work.wanted;
    let first = outcome.steps.iter().filter(|step| step.enabled).find_map(mention);
    let is_first = density.is_some();
    let effects = work.take(outcome, density, view_model);
    if let Some(text) = first.filter(|_| is_wanted && is_first) {
        app.mention(Message::note(text));
    }
    if is_wanted && !is_first && app.overlay.is_none() {
        return effects.into_iter().chain(app.start_background()).collect();
    }
    effects
}

/// What a step has to say as soon as its result is there.
fn mention(step: &StepOutcome) -> Option<String> {
    let why = step.no_effect().map(|why| format!("{} has no effect: {why}", step.transform));
    let is_kept = step.effects.iter().any(|told| told.kind == EffectKind::NotModelled);
    why.or_else(|| is_kept.then(|| format!("{} leaves some work as it was: f2 says which", step.transform)))
}

/// Takes rows; what the open view shows beyond them is asked for.
fn listed(app: &mut App, work: usize, ticket: u64, listing: Result<Box<Listing>, String>) -> command::CommandResult {
    let Some(work) = app.workspaces.get_mut(work) else { return Ok(Vec::new()) };
    work.take_listing(ticket, listing).map_err(|error| failed(app, error))?;
    Ok(if app.overlay.is_none() { app.start_background() } else { Vec::new() })
}
