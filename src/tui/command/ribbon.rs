//! Commands of the ribbon: choosing a family, so that what is below is about it.

use super::Pane::Everywhere;
use super::{Argument, Command, CommandResult};
use crate::tui::app::App;
use crate::tui::message::Message;
use crate::tui::theme::Paint;
use crate::tui::views::ribbon;
use retime_core::cost::Family;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "next-family",
        aliases: &[],
        argument: Argument::None,
        help: "look at the next family of the ribbon; after the last at all",
        keys: &[(Everywhere, "]")],
        run: |app, _| step(app, 1),
    },
    Command {
        name: "previous-family",
        aliases: &[],
        argument: Argument::None,
        help: "look at the family of the ribbon before",
        keys: &[(Everywhere, "[")],
        run: |app, _| step(app, -1),
    },
];

/// Goes along the ribbon; between its last part and its first lies all of it.
fn step(app: &mut App, by: isize) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    let paints = ribbon::paints(work);
    let at = work.timeline.family.and_then(|family| paints.iter().position(|&paint| paint == family));
    let count = paints.len() as isize + 1;
    let next = (at.map_or(0, |at| at as isize + 1) + by).rem_euclid(count);
    let family = next.checked_sub(1).and_then(|next| paints.get(next as usize)).copied();
    choose_family(app, family)
}

/// Looks at one family, or at all: the timeline lets the others step back, tables are narrowed to it.
pub fn choose_family(app: &mut App, family: Option<Paint>) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    work.timeline.family = family;
    let known = family.and_then(|paint| Family::ALL.into_iter().find(|&known| Paint::from(known) == paint));
    let selector = known.map_or(String::new(), |known| format!("family={}", known.name()));
    let effects = work.narrow(&selector)?;
    if let Some(paint) = family {
        app.say(Message::note(format!("{} only; [ ] go along the ribbon", paint.key())));
    }
    Ok(effects)
}
