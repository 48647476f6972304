//! Commands of the program as a whole: moving, prompts, help, themes, leaving.

use super::Pane::Everywhere;
use super::ribbon::choose_family;
use super::{Argument, Command, CommandResult, Kind};
use crate::tui::app::{App, Focus, Saving};
use crate::tui::effect::Effect;
use crate::tui::message::Message;
use crate::tui::overlay::{Confirm, Overlay, Picker, Prompt, Purpose};
use crate::tui::theme::Theme;
use crate::tui::workspace::Workspace;

/// How much further a far move goes.
const FAR: isize = 10;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "left",
        aliases: &[],
        argument: Argument::None,
        help: "previous event, step or value",
        keys: &[(Everywhere, "left"), (Everywhere, "h")],
        run: |app, _| app.move_sideways(-1),
    },
    Command {
        name: "right",
        aliases: &[],
        argument: Argument::None,
        help: "next event, step or value",
        keys: &[(Everywhere, "right"), (Everywhere, "l")],
        run: |app, _| app.move_sideways(1),
    },
    Command {
        name: "up",
        aliases: &[],
        argument: Argument::None,
        help: "row above",
        keys: &[(Everywhere, "up"), (Everywhere, "k")],
        run: |app, _| app.move_vertically(-1),
    },
    Command {
        name: "down",
        aliases: &[],
        argument: Argument::None,
        help: "row below",
        keys: &[(Everywhere, "down"), (Everywhere, "j")],
        run: |app, _| app.move_vertically(1),
    },
    Command {
        name: "far-left",
        aliases: &[],
        argument: Argument::None,
        help: "ten events back",
        keys: &[(Everywhere, "S-left")],
        run: |app, _| app.move_sideways(-FAR),
    },
    Command {
        name: "far-right",
        aliases: &[],
        argument: Argument::None,
        help: "ten events on",
        keys: &[(Everywhere, "S-right")],
        run: |app, _| app.move_sideways(FAR),
    },
    Command {
        name: "far-up",
        aliases: &["page-up"],
        argument: Argument::None,
        help: "ten rows up",
        keys: &[(Everywhere, "S-up"), (Everywhere, "pageup")],
        run: |app, _| app.move_vertically(-FAR),
    },
    Command {
        name: "far-down",
        aliases: &["page-down"],
        argument: Argument::None,
        help: "ten rows down",
        keys: &[(Everywhere, "S-down"), (Everywhere, "pagedown")],
        run: |app, _| app.move_vertically(FAR),
    },
    Command {
        name: "first",
        aliases: &["top"],
        argument: Argument::None,
        help: "first row",
        keys: &[(Everywhere, "home")],
        run: |app, _| app.move_vertically(isize::MIN / 2),
    },
    Command {
        name: "last",
        aliases: &["bottom"],
        argument: Argument::None,
        help: "last row",
        keys: &[(Everywhere, "end")],
        run: |app, _| app.move_vertically(isize::MAX / 2),
    },
    Command {
        name: "next-pane",
        aliases: &[],
        argument: Argument::None,
        help: "switch between the view and the scenario's steps",
        keys: &[(Everywhere, "tab"), (Everywhere, "S-tab")],
        run: |app, _| {
            let view = app.view;
            if app.focus == Focus::View && app.workspace_mut().is_some_and(|work| view.tab(work)) {
                return Ok(Vec::new());
            }
            app.focus = if app.focus == Focus::View { Focus::Scenario } else { Focus::View };
            Ok(Vec::new())
        },
    },
    Command {
        name: "command",
        aliases: &[],
        argument: Argument::None,
        help: "type a command, or an edit to try",
        keys: &[(Everywhere, ":")],
        run: |app, _| {
            app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "")));
            Ok(Vec::new())
        },
    },
    Command {
        name: "palette",
        aliases: &[],
        argument: Argument::None,
        help: "find any command by a few letters",
        keys: &[(Everywhere, "C-p")],
        run: |app, _| {
            app.overlay = Some(Overlay::Picker(Picker::palette(app)));
            Ok(Vec::new())
        },
    },
    Command {
        name: "help",
        aliases: &["keys"],
        argument: Argument::None,
        help: "keys of this view",
        keys: &[(Everywhere, "?"), (Everywhere, "f1")],
        run: |app, _| {
            app.overlay = Some(Overlay::Help { scroll: 0 });
            Ok(Vec::new())
        },
    },
    Command {
        name: "messages",
        aliases: &["diagnostics"],
        argument: Argument::None,
        help: "all messages, and what was odd in the traces",
        keys: &[(Everywhere, "f2")],
        run: |app, _| {
            app.overlay = Some(Overlay::Messages { scroll: 0 });
            Ok(Vec::new())
        },
    },
    Command {
        name: "theme",
        aliases: &["colours", "colors"],
        argument: Argument::Optional(Kind::Theme, "NAME"),
        help: "change the colours",
        keys: &[(Everywhere, "f9")],
        run: theme,
    },
    Command {
        name: "mouse",
        aliases: &[],
        argument: Argument::None,
        help: "mouse on or off (off lets the terminal select text)",
        keys: &[(Everywhere, "m")],
        run: |app, _| {
            app.mouse = !app.mouse;
            app.say(Message::note(if app.mouse {
                "mouse on"
            } else {
                "mouse off: the terminal selects text; m turns it on"
            }));
            Ok(vec![Effect::Mouse(app.mouse)])
        },
    },
    Command {
        name: "trace",
        aliases: &[],
        argument: Argument::Optional(Kind::Trace, "NUMBER"),
        help: "show another of the traces that were opened",
        keys: &[],
        run: trace,
    },
    Command {
        name: "redraw",
        aliases: &[],
        argument: Argument::None,
        help: "draw the whole screen again",
        keys: &[(Everywhere, "C-l")],
        run: |_, _| Ok(vec![Effect::Redraw]),
    },
    Command {
        name: "suspend",
        aliases: &[],
        argument: Argument::None,
        help: "back to the shell; fg returns",
        keys: &[(Everywhere, "C-z")],
        run: |_, _| Ok(vec![Effect::Suspend]),
    },
    Command {
        name: "back",
        aliases: &[],
        argument: Argument::None,
        help: "back to the timeline, or leave",
        keys: &[(Everywhere, "q")],
        run: |app, _| app.back(),
    },
    Command {
        name: "close",
        aliases: &[],
        argument: Argument::None,
        help: "back to the timeline; forgets search, range, family; stops loading",
        keys: &[(Everywhere, "esc")],
        run: |app, _| {
            if !app.is_at_root() {
                return app.back();
            }
            app.forget_search();
            leave_choices(app)
        },
    },
    Command {
        name: "quit",
        aliases: &["q", "exit"],
        argument: Argument::None,
        help: "leave; asks when something would be lost",
        keys: &[(Everywhere, "Q"), (Everywhere, "C-c")],
        run: |app, _| Ok(quit(app)),
    },
    Command {
        name: "quit!",
        aliases: &["q!"],
        argument: Argument::None,
        help: "leave without asking",
        keys: &[],
        run: |_, _| Ok(vec![Effect::Quit]),
    },
];

/// Lets go of what the timeline is narrowed to: the chosen event, a range, a family.
fn leave_choices(app: &mut App) -> CommandResult {
    let Some(work) = app.workspace_mut() else { return Ok(Vec::new()) };
    work.timeline.leave_choices();
    if work.timeline.family.is_some() { choose_family(app, None) } else { Ok(Vec::new()) }
}

/// Leaves, after asking when something would be lost: edits that are in no file where sessions do not save themselves.
pub(super) fn quit(app: &mut App) -> Vec<Effect> {
    let is_kept = |work: &&Workspace| app.saving == Saving::On && app.owns_session(work.number);
    let unsaved: usize = app.workspaces.iter().filter(|work| !is_kept(work)).map(Workspace::unsaved_steps).sum();
    let lost = match (unsaved, app.busy) {
        (0, 0) => return vec![Effect::Quit],
        (0, _) => "A file is still being read or written".to_owned(),
        (1, _) => "1 edit is not saved".to_owned(),
        _ => format!("{unsaved} edits are not saved"),
    };
    app.overlay = Some(Overlay::Confirm(Confirm { question: format!("{lost}. Leave anyway?"), yes: "quit!" }));
    Vec::new()
}

fn theme(app: &mut App, name: &str) -> CommandResult {
    if name.is_empty() {
        let picker = Picker::themes(app);
        app.overlay = Some(Overlay::Picker(picker));
        return Ok(Vec::new());
    }
    app.theme = Theme::load(name, &app.theme_files, app.depth).map_err(|error| error.to_string())?;
    Ok(Vec::new())
}

fn trace(app: &mut App, number: &str) -> CommandResult {
    if number.is_empty() {
        let picker = Picker::traces(app).ok_or("only one trace was opened; name more when starting")?;
        app.overlay = Some(Overlay::Picker(picker));
        return Ok(Vec::new());
    }
    let count = app.workspaces.len();
    let index = number.parse::<usize>().ok().filter(|index| (1..=count).contains(index));
    app.shown = index.ok_or_else(|| format!("no trace {number}: 1 to {count}"))? - 1;
    app.fit_extent();
    Ok(Vec::new())
}
