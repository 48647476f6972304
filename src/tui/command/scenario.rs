//! Commands that edit the scenario.

use super::Pane::{Everywhere, Scenario as OnSteps};
use super::{Argument, Command, CommandResult, Kind, moved};
use crate::tui::app::{App, Focus};
use crate::tui::message::Message;
use crate::tui::overlay::{Overlay, Picker, Prompt, Purpose};
use crate::tui::views::Timeline;
use crate::tui::views::board::{self, Among};
use retime_core::scenario::{Scenario, Step, difference, parse_step};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "batch",
        aliases: &["b"],
        argument: Argument::Optional(Kind::Batch, "SIZE"),
        help: "change the batch size",
        keys: &[(Everywhere, "b")],
        run: batch,
    },
    Command {
        name: "gpu",
        aliases: &["device"],
        argument: Argument::Optional(Kind::Device, "DEVICE"),
        help: "swap the GPU for another",
        keys: &[(Everywhere, "g")],
        run: gpu,
    },
    Command {
        name: "try",
        aliases: &["add", "step"],
        argument: Argument::Optional(Kind::Step, "STEP"),
        help: "add an edit; alone shows all that apply, tried, best first",
        keys: &[(Everywhere, "t")],
        run: try_edit,
    },
    Command {
        name: "undo",
        aliases: &[],
        argument: Argument::None,
        help: "undo the last edit",
        keys: &[(Everywhere, "u")],
        run: undo,
    },
    Command {
        name: "redo",
        aliases: &[],
        argument: Argument::None,
        help: "redo what was undone",
        keys: &[(Everywhere, "C-r"), (Everywhere, "U")],
        run: redo,
    },
    Command {
        name: "history",
        aliases: &["edits"],
        argument: Argument::Optional(Kind::Text, "NUMBER"),
        help: "all edits, those undone among them; go back to any",
        keys: &[(Everywhere, "Z")],
        run: history,
    },
    Command {
        name: "toggle",
        aliases: &["disable", "enable"],
        argument: Argument::None,
        help: "switch the chosen step off or on",
        keys: &[(Everywhere, "x")],
        run: toggle,
    },
    Command {
        name: "choose",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "NUMBER"),
        help: "choose a step by its number",
        keys: &[],
        run: |app, number| {
            let number = numbered(app, number)?;
            app.choose_step(number);
            Ok(Vec::new())
        },
    },
    Command {
        name: "edit",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "NUMBER STEP"),
        help: "change the chosen step",
        keys: &[(Everywhere, "e"), (OnSteps, "enter")],
        run: edit,
    },
    Command {
        name: "delete",
        aliases: &["remove-step"],
        argument: Argument::None,
        help: "take the chosen step out",
        keys: &[(Everywhere, "delete"), (OnSteps, "d")],
        run: delete,
    },
    Command {
        name: "step-up",
        aliases: &[],
        argument: Argument::None,
        help: "apply the chosen step earlier",
        keys: &[(OnSteps, "K")],
        run: |app, _| reorder(app, -1),
    },
    Command {
        name: "step-down",
        aliases: &[],
        argument: Argument::None,
        help: "apply the chosen step later",
        keys: &[(OnSteps, "J")],
        run: |app, _| reorder(app, 1),
    },
    Command {
        name: "repeat",
        aliases: &[],
        argument: Argument::None,
        help: "the last edit once more",
        keys: &[(Everywhere, ".")],
        run: repeat,
    },
    Command {
        name: "reset",
        aliases: &["base"],
        argument: Argument::None,
        help: "take all steps out",
        keys: &[],
        run: reset,
    },
    Command {
        name: "fresh",
        aliases: &[],
        argument: Argument::None,
        help: "start over: no steps, no marks, the whole iteration",
        keys: &[],
        run: fresh,
    },
];

fn edited(
    app: &mut App,
    change: impl FnOnce(&mut crate::tui::workspace::Workspace) -> Result<(), String>,
) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    change(work)?;
    Ok(work.evaluate())
}

/// Reads a step, whose devices and interconnects must be known as soon as a trace is open.
fn read(app: &App, line: &str) -> Result<Step, String> {
    let step = app.workspace().map_or_else(|| parse_step(line), |work| work.loaded.context.step(line));
    step.map_err(|error| error.to_string())
}

/// Adds a step as typed.
pub fn add_line(app: &mut App, line: &str) -> CommandResult {
    let step = read(app, line)?;
    let ran = edited(app, |work| {
        work.history.append(step);
        work.step = work.history.current().steps.len() - 1;
        work.last_edit = Some(line.to_owned());
        Ok(())
    })?;
    Ok(ran)
}

/// Puts `size` in force as the batch size, in place of an earlier size.
fn set_batch(app: &mut App, size: u64) -> CommandResult {
    let step = parse_step(&format!("resize-batch {size}")).map_err(|error| error.to_string())?;
    edited(app, |work| {
        let mut scenario = Scenario::clone(work.history.current());
        let is_untouched = work.base_batch() == Some(size);
        let line = step.to_string();
        match scenario.steps.iter().position(|step| step.name() == "resize-batch") {
            Some(at) if is_untouched => {
                scenario.steps.remove(at);
            }
            // What a trace does not tell of its batch was said once.
            Some(at) => scenario.steps[at] = scenario.steps[at].with(0, size as f64).unwrap_or(step).switched(true),
            None if is_untouched => {}
            None => scenario.steps.push(step),
        }
        work.history.drag("batch", scenario);
        work.last_edit = Some(line);
        work.clamp_step();
        Ok(())
    })
}

fn batch(app: &mut App, size: &str) -> CommandResult {
    if let Some(size) = size.parse().ok().filter(|&size: &u64| size > 0) {
        let effects = set_batch(app, size)?;
        if let Some(work) = app.workspace_mut() {
            work.history.release();
        }
        return Ok(effects);
    }
    if !size.is_empty() {
        return Err(format!("`{size}` is no batch size: a whole number from 1"));
    }
    let work = app.workspace().ok_or("no trace is open yet")?;
    work.batch().ok_or_else(|| work.loaded.graph.why_no_batch())?;
    board::open(app, Among::Batches)
}

fn gpu(app: &mut App, device: &str) -> CommandResult {
    const NAME: &str = "swap-gpu ";
    if device.is_empty() {
        return board::open(app, Among::Devices);
    }
    let step = read(app, &format!("{NAME}{device}")).map_err(|error| moved(error, -(NAME.len() as isize)))?;
    edited(app, |work| {
        let mut scenario = Scenario::clone(work.history.current());
        work.last_edit = Some(step.to_string());
        match scenario.steps.iter().position(|step| step.name() == "swap-gpu") {
            Some(at) => scenario.steps[at] = step,
            None => scenario.steps.push(step),
        }
        work.step = scenario.steps.len() - 1;
        work.history.push(scenario);
        Ok(())
    })
}

fn try_edit(app: &mut App, line: &str) -> CommandResult {
    if !line.is_empty() {
        return add_line(app, line);
    }
    board::open(app, Among::All)
}

fn undo(app: &mut App, _: &str) -> CommandResult {
    travel(app, "undone", |history| history.undo().then_some(()).ok_or("nothing to undo".to_owned()))
}

fn redo(app: &mut App, _: &str) -> CommandResult {
    travel(app, "redone", |history| history.redo().then_some(()).ok_or("nothing to redo".to_owned()))
}

/// Goes to one of the scenarios that were in force; without a number offers them.
fn history(app: &mut App, number: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if number.is_empty() {
        app.overlay = Some(Overlay::Picker(Picker::history(work)));
        return Ok(Vec::new());
    }
    let count = work.history.states().len();
    let place = number.parse::<usize>().ok().filter(|number| (1..=count).contains(number));
    let place = place.ok_or_else(|| format!("no edit {number}: 1 to {count}"))? - 1;
    travel(app, &format!("gone to edit {number}"), |history| {
        history.go_to(place).then_some(()).ok_or_else(|| format!("no edit {number}"))
    })
}

/// Goes along the history, and says which edit that undid or did again and what is in force now.
fn travel(
    app: &mut App,
    done: &str,
    go: impl FnOnce(&mut retime_core::scenario::History) -> Result<(), String>,
) -> CommandResult {
    let before = app.workspace().map(|work| work.history.current().clone()).unwrap_or_default();
    let effects = edited(app, |work| {
        go(&mut work.history)?;
        work.clamp_step();
        Ok(())
    })?;
    let scenario = app.workspace().map(|work| work.history.current().clone()).unwrap_or_default();
    let (count, enabled) = (scenario.steps.len(), scenario.steps.iter().filter(|step| step.enabled).count());
    let steps = match count {
        0 => "no step".to_owned(),
        1 => "1 step".to_owned(),
        _ => format!("{count} steps"),
    };
    let part = if enabled < count { format!("{enabled} of ") } else { String::new() };
    let edit = match done {
        "undone" => format!(": {}", difference(&scenario, &before)),
        "redone" => format!(": {}", difference(&before, &scenario)),
        _ => String::new(),
    };
    app.say(Message::note(format!("{done}{edit} · {part}{steps} in force")));
    Ok(effects)
}

const NO_STEP: &str = "there is no step yet: b changes the batch, g the GPU, t lists all edits";

fn toggle(app: &mut App, _: &str) -> CommandResult {
    edited(app, |work| work.history.toggle(work.step).then_some(()).ok_or(NO_STEP.to_owned()))
}

fn delete(app: &mut App, _: &str) -> CommandResult {
    edited(app, |work| {
        work.history.remove(work.step).then_some(()).ok_or(NO_STEP.to_owned())?;
        work.clamp_step();
        Ok(())
    })
}

/// The number of a step there is.
fn numbered(app: &App, number: &str) -> Result<usize, String> {
    let count = app.workspace().map_or(0, |work| work.history.current().steps.len());
    let known = number.parse().ok().filter(|number| (1..=count).contains(number));
    known.ok_or_else(|| format!("no step `{number}`: there are {count}"))
}

fn edit(app: &mut App, argument: &str) -> CommandResult {
    if let Some((number, line)) = argument.split_once(' ') {
        let number = numbered(app, number)?;
        let before = argument.chars().count() - line.chars().count();
        return replace_step(app, number - 1, line).map_err(|error| moved(error, before as isize));
    }
    let work = app.workspace().ok_or("no trace is open yet")?;
    let step = work.history.current().steps.get(work.step).ok_or(NO_STEP)?;
    app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::EditStep(work.step), &step.to_string())));
    Ok(Vec::new())
}

fn reorder(app: &mut App, by: isize) -> CommandResult {
    edited(app, |work| {
        let to = work.step.checked_add_signed(by).ok_or("it is the first step")?;
        work.history.reorder(work.step, to).then_some(()).ok_or("it is the last step")?;
        work.step = to;
        Ok(())
    })
}

fn repeat(app: &mut App, _: &str) -> CommandResult {
    let line = app.workspace().and_then(|work| work.last_edit.clone());
    add_line(app, &line.ok_or("there was no edit yet")?)
}

fn reset(app: &mut App, _: &str) -> CommandResult {
    edited(app, |work| {
        work.history.push(Scenario::default());
        work.clamp_step();
        Ok(())
    })
}

fn fresh(app: &mut App, _: &str) -> CommandResult {
    let effects = edited(app, |work| {
        work.start_over();
        Ok(())
    })?;
    app.view = &Timeline;
    app.focus = Focus::View;
    app.fit_extent();
    app.say(Message::note("started over; u brings the steps back"));
    Ok(effects)
}

/// Replaces step `index` by what was typed.
fn replace_step(app: &mut App, index: usize, line: &str) -> CommandResult {
    let step = read(app, line)?;
    edited(app, |work| {
        work.history.set(index, step).then_some(()).ok_or(NO_STEP.to_owned())?;
        work.last_edit = Some(line.to_owned());
        Ok(())
    })
}
