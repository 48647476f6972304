//! Commands of the sweep: which knob it turns, and how far.

use super::Pane::Sweep as OnSweep;
use super::{Argument, Command, CommandResult, Kind};
use crate::session::Sweep;
use crate::tui::app::App;
use crate::tui::overlay::{Overlay, Picker, Prompt, Purpose};
use crate::tui::workspace::Workspace;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "knob",
        aliases: &["vary"],
        argument: Argument::Optional(Kind::Text, "KNOB [A..B]"),
        help: "what the sweep varies: a knob, a selector, an edit but its number",
        keys: &[(OnSweep, "K")],
        run: knob,
    },
    Command {
        name: "across",
        aliases: &["grid"],
        argument: Argument::Optional(Kind::Text, "KNOB [A..B]|none"),
        help: "a second knob: its values are the columns of a map",
        keys: &[(OnSweep, "V")],
        run: across,
    },
    Command {
        name: "range",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "A..B"),
        help: "from where to where the sweep goes: A..B, A..BxCOUNT or A,B,C",
        keys: &[(OnSweep, "r")],
        run: range,
    },
    Command {
        name: "finer",
        aliases: &[],
        argument: Argument::None,
        help: "twice as many points over the same range",
        keys: &[(OnSweep, "plus"), (OnSweep, "=")],
        run: |app, _| points(app, |count| 2 * count - 1),
    },
    Command {
        name: "coarser",
        aliases: &[],
        argument: Argument::None,
        help: "half as many points over the same range",
        keys: &[(OnSweep, "minus")],
        run: |app, _| points(app, |count| count / 2 + 1),
    },
];

const NOTHING: &str = "no trace is open yet";

fn knob(app: &mut App, name: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NOTHING)?;
    if name.is_empty() {
        app.overlay = Some(Overlay::Picker(Picker::knobs(app)));
        return Ok(Vec::new());
    }
    let (name, range) = with_range(name);
    let across = work.wanted_sweep().and_then(|wanted| wanted.across).filter(|across| across.knob != name);
    let mut sweep = Sweep { across, ..Sweep::around(name, work.base_batch())? };
    if !range.is_empty() {
        sweep.values = sweep.values_of(range)?;
    }
    Ok(turn(work, sweep))
}

/// A knob and the range behind it, which may be empty.
fn with_range(text: &str) -> (&str, &str) {
    text.rsplit_once(' ').filter(|(_, last)| Sweep::parse_values(last).is_ok()).unwrap_or((text, ""))
}

/// Turns a second knob too, or no longer.
fn across(app: &mut App, text: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NOTHING)?;
    let wanted = work.wanted_sweep().ok_or("there is no sweep: K chooses a knob")?;
    let (name, range) = with_range(text);
    if text == "none" {
        return Ok(turn(work, Sweep { across: None, ..wanted }));
    }
    if name.is_empty() {
        app.overlay = Some(Overlay::Picker(Picker::second_knobs(app)));
        return Ok(Vec::new());
    }
    if name == wanted.knob {
        return Err(format!("{name} is turned already: the second knob is another"));
    }
    let mut second = Sweep::around(name, work.base_batch())?.coarse();
    if !range.is_empty() {
        second.values = second.values_of(range)?;
    }
    Ok(turn(work, Sweep { across: Some(Box::new(second)), ..wanted }))
}

fn range(app: &mut App, text: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NOTHING)?;
    let wanted = work.wanted_sweep().ok_or("the batch size of this trace is not known: K chooses another knob")?;
    if text.is_empty() {
        let line = format!("range {}", wanted.range());
        app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, &line)));
        return Ok(Vec::new());
    }
    let values = wanted.values_of(text)?;
    Ok(turn(work, Sweep { values, ..wanted }))
}

/// Another number of points between the ends.
fn points(app: &mut App, count: impl FnOnce(usize) -> usize) -> CommandResult {
    const MOST: usize = 257;
    let work = app.workspace_mut().ok_or(NOTHING)?;
    let wanted = work.wanted_sweep().ok_or("there is no sweep: K chooses a knob")?;
    let (Some(&low), Some(&high)) = (wanted.values.first(), wanted.values.last()) else { return Ok(Vec::new()) };
    let count = count(wanted.values.len()).clamp(2, MOST);
    let chosen = wanted.values.get(work.table.cursor).copied().unwrap_or(low);
    let values = wanted.checked(Sweep::parse_values(&format!("{low}..{high}x{count}"))?)?;
    // The chosen row stays, or the last one before it that is left.
    let place = values.partition_point(|&value| value <= chosen * (1.0 + 1e-6)).saturating_sub(1);
    let effects = turn(work, Sweep { values, ..wanted });
    work.table.cursor = place;
    Ok(effects)
}

fn turn(work: &mut Workspace, sweep: Sweep) -> Vec<crate::tui::effect::Effect> {
    work.sweep.chosen = Some(sweep);
    work.table.cursor = 0;
    work.start_sweep()
}
