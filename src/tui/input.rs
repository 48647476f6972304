//! Keys while an overlay is open: what each kind of overlay makes of them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use retime_core::scenario::Scenario;

use super::app::App;
use super::command::{CommandResult, moved, run_line};
use super::effect::Effect;
use super::overlay::{Overlay, Prompt, Purpose, complete};
use super::theme::Theme;

/// Lets the open overlay have `key`.
pub fn overlay_key(app: &mut App, key: KeyEvent) -> CommandResult {
    let is_cancel = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let Some(overlay) = app.overlay.take() else { return Ok(Vec::new()) };
    match overlay {
        Overlay::Prompt(prompt) if key.code == KeyCode::Esc || is_cancel => Ok(taken_back(app, &prompt)),
        Overlay::Picker(picker) if key.code == KeyCode::Esc || is_cancel => {
            app.theme = picker.theme_before.unwrap_or_else(|| app.theme.clone());
            Ok(Vec::new())
        }
        _ if key.code == KeyCode::Esc || is_cancel => Ok(Vec::new()),
        Overlay::Prompt(prompt) => prompt_key(app, prompt, key),
        Overlay::Picker(picker) => picker_key(app, picker, key),
        Overlay::Confirm(confirm) => match key.code {
            KeyCode::Char('y' | 'Y') | KeyCode::Enter => run_line(app, confirm.yes),
            KeyCode::Char('n' | 'N' | 'q') => Ok(Vec::new()),
            _ => {
                app.overlay = Some(Overlay::Confirm(confirm));
                Ok(Vec::new())
            }
        },
        Overlay::Help { scroll } => {
            app.overlay = scrolled(scroll, key).map(|scroll| Overlay::Help { scroll });
            Ok(Vec::new())
        }
        Overlay::Why { scroll } => {
            app.overlay = scrolled(scroll, key).map(|scroll| Overlay::Why { scroll });
            Ok(Vec::new())
        }
        Overlay::Messages { scroll } => {
            app.overlay = scrolled(scroll, key).map(|scroll| Overlay::Messages { scroll });
            Ok(Vec::new())
        }
    }
}

/// Lets the open overlay have a pasted line; what it means is worked out once for all of it.
pub fn overlay_paste(app: &mut App, line: &str) -> Vec<Effect> {
    match app.overlay.take() {
        Some(Overlay::Prompt(mut prompt)) => {
            prompt.paste(line);
            let effects = typed(app, &mut prompt);
            app.overlay = Some(Overlay::Prompt(prompt));
            effects
        }
        Some(Overlay::Picker(mut picker)) => {
            picker.paste(line);
            app.overlay = Some(Overlay::Picker(picker));
            Vec::new()
        }
        other => {
            app.overlay = other;
            Vec::new()
        }
    }
}

/// The new first line; `None` closes.
fn scrolled(scroll: usize, key: KeyEvent) -> Option<usize> {
    const PAGE: usize = 10;
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => Some(scroll.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => Some(scroll.saturating_add(1)),
        KeyCode::PageUp => Some(scroll.saturating_sub(PAGE)),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(scroll.saturating_add(PAGE)),
        KeyCode::Home => Some(0),
        KeyCode::Char('q' | '?') | KeyCode::Enter => None,
        _ => Some(scroll),
    }
}

fn prompt_key(app: &mut App, mut prompt: Prompt, key: KeyEvent) -> CommandResult {
    match key.code {
        KeyCode::Enter => return submit(app, prompt),
        KeyCode::Tab | KeyCode::BackTab | KeyCode::Down | KeyCode::Up if prompt.purpose != Purpose::Search => {
            choose(app, &mut prompt, key.code);
        }
        KeyCode::Up | KeyCode::Down => {
            let ran = app.go_to_hit(key.code == KeyCode::Down);
            app.overlay = Some(Overlay::Prompt(prompt));
            return ran;
        }
        KeyCode::Backspace if prompt.line().is_empty() => return Ok(taken_back(app, &prompt)),
        _ => prompt.type_key(key),
    }
    let effects = typed(app, &mut prompt);
    app.overlay = Some(Overlay::Prompt(prompt));
    Ok(effects)
}

/// What is typed shows at once: an edit in force, a search at its first hit.
fn typed(app: &mut App, prompt: &mut Prompt) -> Vec<Effect> {
    let Some(began) = &prompt.began else { return preview(app, prompt) };
    let (effects, said) = app.search_as_typed(began, prompt.input.value());
    prompt.said = said;
    effects
}

/// Takes back what was only typed.
fn taken_back(app: &mut App, prompt: &Prompt) -> Vec<Effect> {
    match &prompt.began {
        Some(began) => app.cancel_search(began),
        None => cancel_preview(app),
    }
}

/// Puts what is typed in force as long as it is a step; what is none leaves the last that was.
fn preview(app: &mut App, prompt: &Prompt) -> Vec<Effect> {
    let Some(work) = app.workspace_mut() else { return Vec::new() };
    let Ok(step) = work.loaded.context.step(prompt.line()) else { return Vec::new() };
    let (revision, mut scenario) = (work.history.revision(), Scenario::clone(work.history.current()));
    match (prompt.purpose, work.history.is_dragging(ADDED)) {
        (Purpose::EditStep(index), _) => {
            let Some(place) = scenario.steps.get_mut(index) else { return Vec::new() };
            *place = step.switched(place.enabled);
            work.history.drag(&format!("step {index}"), scenario);
        }
        (Purpose::Command, is_there) => {
            if is_there {
                scenario.steps.pop();
            }
            scenario.steps.push(step);
            work.history.drag(ADDED, scenario);
        }
        (Purpose::Search, _) => return Vec::new(),
    }
    if work.history.revision() == revision { Vec::new() } else { work.evaluate() }
}

/// What the drag of a step is called that is being typed.
const ADDED: &str = "new step";

/// Takes back a step that was only typed.
fn cancel_preview(app: &mut App) -> Vec<Effect> {
    let Some(work) = app.workspace_mut() else { return Vec::new() };
    let (is_step, was_dragged) = (work.history.is_dragging("step"), work.history.is_dragging(ADDED));
    if !(is_step || was_dragged) || !work.history.cancel() {
        return Vec::new();
    }
    work.clamp_step();
    work.evaluate()
}

/// Tab takes a completion; the arrows choose among them, above the first lies what was typed before.
fn choose(app: &App, prompt: &mut Prompt, code: KeyCode) {
    let completions = complete(app, prompt.line());
    let count = completions.len();
    match (code, prompt.chosen) {
        (KeyCode::Up, None | Some(0)) => recall(app, prompt),
        (KeyCode::Up, Some(at)) => prompt.chosen = Some(at - 1),
        (KeyCode::Down, at) if count > 0 => prompt.chosen = Some(at.map_or(0, |at| (at + 1).min(count - 1))),
        (KeyCode::Tab | KeyCode::BackTab, at) if count > 0 => {
            let line = completions[at.unwrap_or(0).min(count - 1)].line.clone();
            prompt.set(&line);
        }
        _ => {}
    }
}

fn recall(app: &App, prompt: &mut Prompt) {
    let Some(index) = app.typed.len().checked_sub(prompt.back + 1) else { return };
    let line = app.typed[index].clone();
    prompt.back += 1;
    prompt.set(&line);
}

/// Runs the line; one that is not accepted stays, with the reason.
fn submit(app: &mut App, mut prompt: Prompt) -> CommandResult {
    if let Some(chosen) = prompt.chosen {
        let line = complete(app, prompt.line()).get(chosen).map(|completion| completion.line.clone());
        prompt.set(&line.unwrap_or_default());
        if prompt.line().ends_with([' ', '=', '~', '<', '>']) {
            app.overlay = Some(Overlay::Prompt(prompt));
            return Ok(Vec::new());
        }
    }
    if prompt.purpose == Purpose::Search {
        return app.keep_search(prompt.line());
    }
    let line = prompt.line().trim().to_owned();
    if line.is_empty() {
        return Ok(Vec::new());
    }
    let taken_back = cancel_preview(app);
    let ran = match prompt.purpose {
        Purpose::Command => run_line(app, &line),
        Purpose::Search => return app.keep_search(&line),
        Purpose::EditStep(index) => {
            // The prompt shows the step alone.
            let lead = format!("edit {} ", index + 1);
            run_line(app, &format!("{lead}{line}")).map_err(|error| moved(error, -(lead.len() as isize)))
        }
    };
    match ran {
        Ok(effects) => {
            app.typed.push(line);
            Ok(taken_back.into_iter().chain(effects).collect())
        }
        Err(error) => {
            prompt.error = Some(error);
            app.overlay = Some(Overlay::Prompt(prompt));
            Ok(taken_back)
        }
    }
}

fn picker_key(app: &mut App, mut picker: super::overlay::Picker, key: KeyEvent) -> CommandResult {
    match key.code {
        KeyCode::Up => picker.move_by(-1),
        KeyCode::Down | KeyCode::Tab => picker.move_by(1),
        KeyCode::PageUp => (0..10).for_each(|_| picker.move_by(-1)),
        KeyCode::PageDown => (0..10).for_each(|_| picker.move_by(1)),
        KeyCode::Enter => {
            let line = picker.picked().map(|entry| entry.line.clone()).unwrap_or_default();
            if line.ends_with(' ') {
                app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, &line)));
                return Ok(Vec::new());
            }
            return run_line(app, &line);
        }
        _ => picker.type_key(key),
    }
    let themed = picker.picked().and_then(|entry| entry.line.strip_prefix("theme "));
    if let Some(Ok(theme)) = themed.map(|name| Theme::load(name, &app.theme_files, app.depth)) {
        app.theme = theme;
    }
    app.overlay = Some(Overlay::Picker(picker));
    Ok(Vec::new())
}
