//! Commands of the roofline.

use super::Pane::Roofline as OnRoofline;
use super::{Argument, Command, CommandResult, Kind, run_line};
use crate::tui::app::App;
use crate::tui::message::Message;
use crate::tui::overlay::{Overlay, Prompt, Purpose};
use crate::tui::views::roofline::{Roof, RooflineState, show_level, steps};

/// How much one press of a key moves a roof: three presses double it.
const STEP: f64 = 1.259_921;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "points",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "LEVEL"),
        help: "what a point is: kernel, operator, module or model; alone the next",
        keys: &[(OnRoofline, "v")],
        run: points,
    },
    Command {
        name: "planes",
        aliases: &[],
        argument: Argument::None,
        help: "memory and network together as a map, and back",
        keys: &[(OnRoofline, "p")],
        run: |app, _| on_roofline(app, |state| state.is_planes = !state.is_planes),
    },
    Command {
        name: "next-roof",
        aliases: &[],
        argument: Argument::None,
        help: "choose which roof moves: peak, memory or network",
        keys: &[(OnRoofline, "r")],
        run: next_roof,
    },
    Command {
        name: "raise-roof",
        aliases: &[],
        argument: Argument::None,
        help: "a device with more of the chosen roof; three times doubles it",
        keys: &[(OnRoofline, "plus"), (OnRoofline, "=")],
        run: |app, _| on_roofline(app, |state| state.move_by(STEP)),
    },
    Command {
        name: "lower-roof",
        aliases: &[],
        argument: Argument::None,
        help: "a device with less of the chosen roof; three times halves it",
        keys: &[(OnRoofline, "minus")],
        run: |app, _| on_roofline(app, |state| state.move_by(1.0 / STEP)),
    },
    Command {
        name: "set-roofs",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "ROOF xFACTOR …"),
        help: "move roofs: peak, memory, network; asks when alone",
        keys: &[(OnRoofline, "s")],
        run: set_roofs,
    },
    Command {
        name: "own-roofs",
        aliases: &[],
        argument: Argument::None,
        help: "the device's own roofs again",
        keys: &[(OnRoofline, "0")],
        run: |app, _| on_roofline(app, |state| state.factors = [1.0; 3]),
    },
    Command {
        name: "try-roofs",
        aliases: &[],
        argument: Argument::None,
        help: "put the moved roofs in force",
        keys: &[(OnRoofline, "A")],
        run: try_roofs,
    },
];

fn on_roofline(app: &mut App, act: impl FnOnce(&mut RooflineState)) -> CommandResult {
    act(&mut app.workspace_mut().ok_or("no trace is open yet")?.roofline);
    Ok(Vec::new())
}

/// Goes on to the next roof; past the network's where nothing crosses one.
fn next_roof(app: &mut App, _: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    let next = work.roofline.roof.next();
    let is_idle = next == Roof::Network && !work.view_model.rooflines.has_network();
    work.roofline.roof = if is_idle { next.next() } else { next };
    Ok(Vec::new())
}

fn points(app: &mut App, name: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    let level = match name {
        "" => work.roofline.next_level(),
        name => RooflineState::level_named(name)
            .ok_or_else(|| format!("`{name}`: a point is a kernel, operator, module or model"))?,
    };
    show_level(work, level);
    Ok(Vec::new())
}

fn set_roofs(app: &mut App, text: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    if text.is_empty() {
        app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "set-roofs ")));
        return Ok(Vec::new());
    }
    work.roofline.read(text)?;
    Ok(Vec::new())
}

fn try_roofs(app: &mut App, _: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if !work.roofline.is_moved() {
        return Err("no roof is moved: + and − move the one that r chooses".to_owned());
    }
    let lines = steps(work)?;
    let mut effects = Vec::new();
    for line in &lines {
        effects.extend(run_line(app, line)?);
    }
    on_roofline(app, |state| state.factors = [1.0; 3])?;
    app.say(Message::note(format!("added {}", lines.join(" and "))));
    Ok(effects)
}
