//! Commands of the timeline.

use super::Pane::{Everywhere, Timeline as OnTimeline};
use super::{Argument, Command, CommandResult, Kind};
use crate::tui::app::{App, Tracks};
use crate::tui::message::Message;
use crate::tui::overlay::{Overlay, Picker};
use crate::tui::theme::Paint;
use crate::tui::timeline::{Expansion, Extent, Scene, Side, Timeline, sentence};
use retime_core::units::{DurNs, TimeNs};

/// How much one press of a zoom key changes.
const ZOOM: f64 = 0.7;
/// How much one press of a pan key moves, as a share of the width.
const PAN: f64 = 0.15;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "zoom-in",
        aliases: &[],
        argument: Argument::None,
        help: "show less time, larger",
        keys: &[(OnTimeline, "w"), (OnTimeline, "plus")],
        run: |app, _| on_timeline(app, |_, _, timeline| timeline.zoom(ZOOM)),
    },
    Command {
        name: "zoom-out",
        aliases: &[],
        argument: Argument::None,
        help: "show more time, smaller",
        keys: &[(OnTimeline, "s"), (OnTimeline, "minus")],
        run: |app, _| on_timeline(app, |_, _, timeline| timeline.zoom(1.0 / ZOOM)),
    },
    Command {
        name: "pan-left",
        aliases: &[],
        argument: Argument::None,
        help: "earlier",
        keys: &[(OnTimeline, "a")],
        run: |app, _| on_timeline(app, |_, _, timeline| timeline.pan(-PAN)),
    },
    Command {
        name: "pan-right",
        aliases: &[],
        argument: Argument::None,
        help: "later",
        keys: &[(OnTimeline, "d")],
        run: |app, _| on_timeline(app, |_, _, timeline| timeline.pan(PAN)),
    },
    Command {
        name: "fit",
        aliases: &["fit-selection"],
        argument: Argument::None,
        help: "fill the width with the selected event",
        keys: &[(OnTimeline, "f")],
        run: fit,
    },
    Command {
        name: "fit-all",
        aliases: &[],
        argument: Argument::None,
        help: "show all of the trace's window",
        keys: &[(OnTimeline, "0")],
        run: |app, _| on_timeline(app, |_, _, timeline| timeline.span = timeline.bounds),
    },
    Command {
        name: "fit-iteration",
        aliases: &[],
        argument: Argument::None,
        help: "show the modelled iteration",
        keys: &[(OnTimeline, "i")],
        run: |app, _| {
            on_timeline(app, |scene, _, timeline| {
                timeline.span = Timeline::iteration(scene.densities());
            })
        },
    },
    Command {
        name: "search",
        aliases: &["find"],
        argument: Argument::Optional(Kind::Text, "NAME"),
        help: "find by a part of a name as it is typed, or by a selector",
        keys: &[(Everywhere, "/")],
        run: search,
    },
    Command {
        name: "next-match",
        aliases: &[],
        argument: Argument::None,
        help: "next that was searched for",
        keys: &[(Everywhere, "n")],
        run: |app, _| app.go_to_hit(true),
    },
    Command {
        name: "previous-match",
        aliases: &[],
        argument: Argument::None,
        help: "previous that was searched for",
        keys: &[(Everywhere, "N")],
        run: |app, _| app.go_to_hit(false),
    },
    Command {
        name: "follow",
        aliases: &["partner"],
        argument: Argument::None,
        help: "unfold a row; from a kernel to its launch, and back",
        keys: &[(OnTimeline, "enter"), (OnTimeline, "o")],
        run: follow,
    },
    Command {
        name: "other-side",
        aliases: &[],
        argument: Argument::None,
        help: "the same event as simulated, or as measured",
        keys: &[(OnTimeline, "v")],
        run: other_side,
    },
    Command {
        name: "mark",
        aliases: &[],
        argument: Argument::None,
        help: "mark the instant of the cursor",
        keys: &[(OnTimeline, "space")],
        run: |app, _| {
            on_timeline(app, |_, _, timeline| {
                timeline.toggle_mark();
                // What is summed up of a range stands where the chosen event would.
                if !timeline.is_marking() && timeline.marked_pair().is_some() {
                    timeline.selected = None;
                }
            })
        },
    },
    Command {
        name: "measure",
        aliases: &[],
        argument: Argument::None,
        help: "time between the last two marks",
        keys: &[(OnTimeline, "M")],
        run: measure,
    },
    Command {
        name: "clear-marks",
        aliases: &[],
        argument: Argument::None,
        help: "forget all marks",
        keys: &[],
        run: |app, _| {
            on_timeline(app, |_, _, timeline| {
                timeline.marks.clear();
                timeline.mark_names.clear();
            })
        },
    },
    Command {
        name: "bookmark",
        aliases: &["bookmarks"],
        argument: Argument::Optional(Kind::Text, "NAME"),
        help: "name the instant of the cursor; alone lists all marks",
        keys: &[(OnTimeline, "'")],
        run: bookmark,
    },
    Command {
        name: "goto-mark",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "NUMBER"),
        help: "go to a mark by its number in order of time",
        keys: &[],
        run: go_to_mark,
    },
    Command {
        name: "fold",
        aliases: &[],
        argument: Argument::None,
        help: "zoom to the marked range; without one fold or unfold the lane",
        keys: &[(OnTimeline, "z")],
        run: |app, _| {
            on_timeline(app, |scene, _, timeline| {
                if !timeline.fit_range() {
                    timeline.next_expansion(scene);
                }
            })
        },
    },
    Command {
        name: "compact",
        aliases: &[],
        argument: Argument::None,
        help: "pack all lanes into one row each, and back",
        keys: &[(OnTimeline, "c")],
        run: |app, _| {
            let effects = on_timeline(app, |_, _, timeline| {
                let packed = timeline.default_expansion == Expansion::Collapsed;
                timeline.default_expansion = if packed { Expansion::Auto } else { Expansion::Collapsed };
                timeline.expansions.clear();
            })?;
            let is_packed = app.workspace().is_some_and(|work| work.timeline.default_expansion == Expansion::Collapsed);
            let now = if is_packed { "lanes are packed into a row each" } else { "lanes take the rows there are" };
            app.say(Message::note(now));
            Ok(effects)
        },
    },
    Command {
        name: "hide",
        aliases: &[],
        argument: Argument::None,
        help: "hide the lane of the cursor",
        keys: &[],
        run: |app, _| {
            on_timeline(app, |scene, extent, timeline| {
                timeline.hidden.insert(timeline.lane);
                timeline.vertical(scene, extent, 0);
            })?;
            app.say(Message::note("lane hidden; A shows all again"));
            Ok(Vec::new())
        },
    },
    Command {
        name: "show-all",
        aliases: &[],
        argument: Argument::None,
        help: "show hidden lanes and families again",
        keys: &[(OnTimeline, "A")],
        run: |app, _| {
            on_timeline(app, |_, _, timeline| {
                timeline.hidden.clear();
                timeline.hidden_families.clear();
            })
        },
    },
    Command {
        name: "hide-family",
        aliases: &[],
        argument: Argument::None,
        help: "leave out the family of the chosen event, or show it again",
        keys: &[(OnTimeline, "H")],
        run: hide_family,
    },
    Command {
        name: "next-alike",
        aliases: &[],
        argument: Argument::None,
        help: "next kernel of the same name",
        keys: &[(OnTimeline, ">")],
        run: |app, _| step_alike(app, true),
    },
    Command {
        name: "previous-alike",
        aliases: &[],
        argument: Argument::None,
        help: "previous kernel of the same name",
        keys: &[(OnTimeline, "<")],
        run: |app, _| step_alike(app, false),
    },
    Command {
        name: "describe",
        aliases: &[],
        argument: Argument::None,
        help: "say in one sentence what the chosen event is",
        keys: &[(OnTimeline, "E")],
        run: explain,
    },
    Command {
        name: "pin",
        aliases: &[],
        argument: Argument::None,
        help: "keep the lane of the cursor at the top, or let it go",
        keys: &[(OnTimeline, "P")],
        run: |app, _| on_timeline(app, |_, _, timeline| timeline.toggle_pin()),
    },
    Command {
        name: "lane-up",
        aliases: &[],
        argument: Argument::None,
        help: "move the lane of the cursor up",
        keys: &[(OnTimeline, "{")],
        run: |app, _| on_timeline(app, |scene, _, timeline| timeline.move_lane(scene, -1)),
    },
    Command {
        name: "lane-down",
        aliases: &[],
        argument: Argument::None,
        help: "move the lane of the cursor down",
        keys: &[(OnTimeline, "}")],
        run: |app, _| on_timeline(app, |scene, _, timeline| timeline.move_lane(scene, 1)),
    },
    Command {
        name: "tracks",
        aliases: &[],
        argument: Argument::None,
        help: "show or hide queued launches and memory below the lanes",
        keys: &[(OnTimeline, "T")],
        run: |app, _| {
            let (_, shown) = app.timeline_area();
            app.tracks = if shown > 0 { Tracks::Never } else { Tracks::Always };
            app.fit_extent();
            if shown == 0 && app.timeline_area().1 == 0 {
                return Err("neither launches nor memory were recorded".to_owned());
            }
            Ok(Vec::new())
        },
    },
    Command {
        name: "copy",
        aliases: &["yank"],
        argument: Argument::None,
        help: "copy the selected event's name, or the steps",
        keys: &[(Everywhere, "y")],
        run: |app, _| app.copy(),
    },
];

const NOTHING: &str = "nothing is selected: choose an event with the arrows";

/// Leaves out the family of the chosen event, else the one that is looked at.
fn hide_family(app: &mut App, _: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    let chosen = work.timeline.selected.map(|item| work.scene().paint(item)).or(work.timeline.family);
    toggle_family(app, chosen.ok_or(NOTHING)?)
}

/// Leaves out a family, or shows it again.
pub fn toggle_family(app: &mut App, family: Paint) -> CommandResult {
    let mut is_hidden = false;
    on_timeline(app, |_, _, timeline| {
        is_hidden = !timeline.hidden_families.remove(&family) && timeline.hidden_families.insert(family);
        timeline.selected = None;
    })?;
    let said = if is_hidden { "hidden; A shows all again" } else { "shown again" };
    app.say(Message::note(format!("{} {said}", family.key())));
    Ok(Vec::new())
}

fn step_alike(app: &mut App, is_forward: bool) -> CommandResult {
    let mut went = false;
    on_timeline(app, |scene, extent, timeline| went = timeline.step_alike(scene, extent, is_forward))?;
    if went { Ok(Vec::new()) } else { Err("no further event of the same name on this lane".to_owned()) }
}

fn explain(app: &mut App, _: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    let item = work.timeline.selected.ok_or(NOTHING)?;
    let said = sentence(work.scene(), item, work.prediction(item));
    app.say(Message::note(said));
    Ok(Vec::new())
}

/// Names an instant; without a name lists what is marked.
fn bookmark(app: &mut App, name: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if name.is_empty() {
        app.overlay = Some(Overlay::Picker(Picker::marks(work)));
        return Ok(Vec::new());
    }
    on_timeline(app, |_, _, timeline| timeline.name_mark(name))
}

fn go_to_mark(app: &mut App, number: &str) -> CommandResult {
    let marks = app.workspace().ok_or("no trace is open yet")?.timeline.marks_in_order();
    let at = number.parse::<usize>().ok().and_then(|number| marks.get(number.checked_sub(1)?)).copied();
    let at = at.ok_or_else(|| format!("no mark `{number}`: there are {}", marks.len()))?;
    on_timeline(app, |_, _, timeline| timeline.go_to_instant(at))
}

/// Acts on the timeline of the trace that is shown.
fn on_timeline(app: &mut App, act: impl FnOnce(Scene<'_>, Extent, &mut Timeline)) -> CommandResult {
    app.with_timeline(act).ok_or("no trace is open yet")?;
    Ok(Vec::new())
}

fn fit(app: &mut App, _: &str) -> CommandResult {
    let mut fitted = false;
    on_timeline(app, |scene, _, timeline| fitted = timeline.fit_selection(scene))?;
    if fitted { Ok(Vec::new()) } else { Err(NOTHING.to_owned()) }
}

fn search(app: &mut App, text: &str) -> CommandResult {
    if text.is_empty() { app.begin_search() } else { app.keep_search(text) }
}

fn follow(app: &mut App, _: &str) -> CommandResult {
    let mut went = false;
    on_timeline(app, |scene, extent, timeline| {
        if timeline.unfold(scene, extent) {
            went = true;
        } else if let Some(partner) = timeline.selected.and_then(|item| scene.partner(item)) {
            let side = timeline.side;
            timeline.select(scene, extent, partner, side);
            went = true;
        } else if timeline.selected.is_none() {
            timeline.step(scene, extent, true, 1);
            went = timeline.selected.is_some();
        }
    })?;
    if went { Ok(Vec::new()) } else { Err("no launch joins this event to another".to_owned()) }
}

fn other_side(app: &mut App, _: &str) -> CommandResult {
    on_timeline(app, |scene, extent, timeline| {
        let side = if timeline.side == Side::Simulated { Side::Measured } else { Side::Simulated };
        match timeline.selected {
            Some(item) => timeline.select(scene, extent, item, side),
            None => timeline.side = side,
        }
    })
}

fn measure(app: &mut App, _: &str) -> CommandResult {
    let mut pair: Option<(TimeNs, TimeNs)> = None;
    on_timeline(app, |_, _, timeline| pair = timeline.marked_pair())?;
    let (from, to) = pair.ok_or("two marks are needed: space marks the instant of the cursor")?;
    let length: DurNs = to.since(from);
    app.say(Message::note(format!("{length} between the marks")));
    Ok(Vec::new())
}
