//! The scenario: a list of steps with what each gains, or one line where there is no room.

use unicode_width::UnicodeWidthStr;

use crate::session::{StepOutcome, Told};
use crate::tui::canvas::{Canvas, wrapped};
use crate::tui::key::Keymap;
use crate::tui::theme::Role;
use crate::tui::timeline::signed;
use crate::tui::workspace::Workspace;
use retime_core::scenario::EffectKind;
use retime_core::units::DurNs;

/// A command that a new user may run first: what it does, and in a word or two.
struct Hint {
    command: &'static str,
    what: &'static str,
    brief: &'static str,
}

const fn hint(command: &'static str, what: &'static str, brief: &'static str) -> Hint {
    Hint { command, what, brief }
}

const HINTS: [Hint; 5] = [
    hint("batch", "change the batch size", "batch size"),
    hint("gpu", "swap the GPU", "swap the GPU"),
    hint("try", "all edits to try", "edits to try"),
    hint("command", "type one", "type one"),
    hint("undo", "undo", "undo"),
];

/// Hints in a line.
const IN_A_LINE: usize = 4;

/// The hints whose command has a key, with that.
fn keyed(keymap: &Keymap) -> impl Iterator<Item = (String, &'static Hint)> {
    HINTS.iter().filter_map(|hint| Some((keymap.keys_of(hint.command, None).into_iter().next()?, hint)))
}

/// Reasons for what a step could not do that the list shows.
const MOST_REASONS: usize = 3;

/// Below this many percent nothing is said to have changed.
const NO_CHANGE: f64 = 0.05;

/// `−12.3 %`.
fn share(change: DurNs, base: DurNs) -> String {
    let percent = change.0 as f64 * 100.0 / base.0.max(1) as f64;
    let digits = usize::from(percent.abs() < 10.0);
    if percent.abs() < NO_CHANGE { "±0 %".to_owned() } else { format!("{percent:+.digits$} %").replace('-', "−") }
}

/// Whether a change is for the better, as far as its share tells.
fn gain_role(change: DurNs, base: DurNs) -> Role {
    match change.0 as f64 * 100.0 / base.0.max(1) as f64 {
        percent if percent.abs() < NO_CHANGE => Role::Dim,
        percent if percent < 0.0 => Role::Good,
        _ => Role::Bad,
    }
}

/// The result's account of step `index`, when the result is of the scenario in force.
fn outcome_of<'a>(work: &'a Workspace, index: usize, line: &str) -> Option<&'a StepOutcome> {
    work.outcome.steps.get(index).filter(|step| step.transform == line)
}

/// What a step gains, in a word.
fn gained(is_enabled: bool, outcome: Option<&StepOutcome>, base: DurNs) -> (String, Role) {
    let is_idle = outcome.is_some_and(|step| step.no_effect().is_some());
    match outcome.and_then(|step| step.marginal_ns) {
        _ if !is_enabled => ("off".to_owned(), Role::Faint),
        _ if is_idle => ("no effect".to_owned(), Role::Warn),
        Some(gain) => (share(gain, base), gain_role(gain, base)),
        None => ("…".to_owned(), Role::Dim),
    }
}

/// What the list is called: ` scenario `, with its name.
pub fn title(work: &Workspace) -> String {
    match work.named.current() {
        "" => " scenario ".to_owned(),
        name => format!(" scenario {name} "),
    }
}

/// Lines below the steps for what the chosen one did.
const ACCOUNT: usize = 8;

/// The first step shown in `height` lines: the chosen one is in sight, with room for its account below the last.
pub fn first_shown(work: &Workspace, height: u16) -> usize {
    let room = (height as usize).saturating_sub(1 + ACCOUNT).max(2);
    let last = work.history.current().steps.len().saturating_sub(room);
    (work.step + 1).saturating_sub(room).min(last)
}

/// Draws the list.
pub fn list(work: &Workspace, keymap: &Keymap, is_focused: bool, canvas: &mut Canvas<'_>) {
    let base = work.outcome.summary.base_steady_ns;
    let steps = &work.history.current().steps;
    let first = first_shown(work, canvas.height());
    let room = (canvas.height() as usize).saturating_sub(1 + ACCOUNT).max(2);
    let above = if first > 0 { format!("● base   ↑ {first} more") } else { "● base".to_owned() };
    canvas.text(1, 0, &above, Role::Text);
    canvas.right(8, 0, 1, &[(base.to_string(), Role::Dim)]);
    let shown = steps.iter().enumerate().skip(first).take(room);
    let mut y = 1;
    for (index, _) in shown {
        step(work, index, is_focused, &mut canvas.part(0, y, canvas.width(), 1));
        y += 1;
    }
    let below = steps.len() - first - (y as usize - 1);
    if below > 0 {
        canvas.text(1, y, &format!("↓ {below} more"), Role::Dim);
        y += 1;
    }
    let mut rest = canvas.part(0, y + 1, canvas.width(), canvas.height().saturating_sub(y + 1));
    match steps.get(work.step).and_then(|step| outcome_of(work, work.step, &step.to_string())) {
        Some(outcome) => account(outcome, base, &mut rest),
        None if steps.is_empty() => hints(keymap, &mut rest),
        None => {}
    }
}

/// The latest steps, as many as there are lines for; how many. None of a single one, which the line of steps has room for.
pub fn brief_list(work: &Workspace, canvas: &mut Canvas<'_>) -> u16 {
    let count = work.history.current().steps.len();
    let shown = if count > 1 { count.min(canvas.height() as usize) } else { 0 };
    for (y, index) in (0..).zip(count - shown..count) {
        step(work, index, false, &mut canvas.part(0, y, canvas.width(), 1));
    }
    shown as u16
}

/// A step and what it gains.
fn step(work: &Workspace, index: usize, is_focused: bool, canvas: &mut Canvas<'_>) {
    let Some(step) = work.history.current().steps.get(index) else { return };
    let line = step.to_string();
    let base = work.outcome.summary.base_steady_ns;
    let (text, role) = gained(step.enabled, outcome_of(work, index, &line), base);
    let width = canvas.width();
    let room = width.saturating_sub(text.chars().count() as u16 + 2);
    let name_role = if step.enabled { Role::Text } else { Role::Faint };
    canvas.part(0, 0, room, 1).line(1, 0, &[(format!("{} ", index + 1), Role::Dim), (line, name_role)]);
    canvas.right(4, 0, 1, &[(text, role)]);
    if index == work.step {
        canvas.text(0, 0, "▸", Role::Accent);
        if is_focused {
            let selected = canvas.theme().style(Role::Selected);
            canvas.restyle(0, 0, width, selected);
        }
    }
}

/// What the chosen step did and could not do, as far as there is room: `f2` has all.
fn account(step: &StepOutcome, base: DurNs, canvas: &mut Canvas<'_>) {
    let mut y = 0;
    if let (Some(alone), Some(marginal)) = (step.alone_ns, step.marginal_ns) {
        for (label, change) in [("alone ", alone), ("on top ", marginal)] {
            let text = format!("{} ({})", signed(change), share(change, base));
            canvas.line(1, y, &[(label, Role::Dim), (&text, gain_role(change, base))]);
            y += 1;
        }
    }
    let width = canvas.width().saturating_sub(2) as usize;
    let paragraph = |text: &str, role| wrapped(text, width, "").into_iter().map(move |line| (line, role));
    let mut lines: Vec<(String, Role)> = paragraph(&step.summary, Role::Dim).collect();
    lines.push((String::new(), Role::Dim));
    for told in reasons(&step.effects).into_iter().take(MOST_REASONS) {
        lines.extend(paragraph(&told, Role::Warn));
    }
    let room = canvas.height().saturating_sub(y + 1) as usize;
    if lines.len() > room {
        lines.truncate(room);
        if let Some((last, _)) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    for (line, role) in &lines {
        canvas.text(1, y, line, *role);
        y += 1;
    }
    if !step.effects.is_empty() {
        canvas.line(1, y, &[("f2", Role::Key), (" lists them", Role::Dim)]);
    }
}

/// Why a step has no effect and work keeps its time, then what is assumed; what holds of several kinds of work is said once.
fn reasons(effects: &[Told]) -> Vec<String> {
    let of = |kind| effects.iter().filter(move |told| told.kind == kind);
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for told in of(EffectKind::NotModelled) {
        let reason = told.text.split_once(": ").map_or(told.text.as_str(), |(_, reason)| reason);
        match counts.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((reason, 1)),
        }
    }
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let kinds = |(reason, count): (&str, usize)| {
        let kinds = if count == 1 { "1 kind of work".to_owned() } else { format!("{count} kinds of work") };
        format!("! {kinds}: {reason}")
    };
    let none = of(EffectKind::NoEffect).map(|told| format!("! {}", told.line()));
    let assumed = of(EffectKind::Assumption).map(|told| format!("· {}", told.line()));
    none.chain(counts.into_iter().map(kinds)).chain(assumed).collect()
}

fn hints(keymap: &Keymap, canvas: &mut Canvas<'_>) {
    canvas.text(1, 0, "no edits yet — try", Role::Dim);
    for (y, (key, hint)) in (1..).zip(keyed(keymap)) {
        canvas.line(2, y, &[(key.as_str(), Role::Key), ("  ", Role::Dim), (hint.what, Role::Text)]);
    }
}

/// The command whose key column `x` of the line with the steps names, as long as there are none.
pub fn command_at(work: &Workspace, keymap: &Keymap, x: u16) -> Option<&'static str> {
    if !work.named.current().is_empty() || !work.history.current().steps.is_empty() {
        return None;
    }
    let mut at = 2;
    keyed(keymap).take(IN_A_LINE).find_map(|(key, hint)| {
        let from = at;
        at += (key.width() + hint.brief.width() + 3) as u16;
        (from..at).contains(&x).then_some(hint.command)
    })
}

/// Draws the steps in one line, on the rule above the view: `── 1 bf16 −40 % ── 2 …`; those only previewed dashed.
pub fn line(work: &Workspace, keymap: &Keymap, canvas: &mut Canvas<'_>) {
    let name = work.named.current();
    let mut pieces: Vec<(String, Role)> = Vec::new();
    if !name.is_empty() {
        pieces.push((format!(" scenario {name} "), Role::Title));
        pieces.push(("──".to_owned(), Role::Border));
    }
    let steps = &work.history.current().steps;
    let parts: Vec<[(String, Role); 4]> = (0..steps.len()).map(|index| in_line(work, index)).collect();
    let width = canvas.width().saturating_sub(2);
    // The chosen step is one of those shown: what comes before it gives way.
    let length = |parts: &[[(String, Role); 4]]| parts.iter().flatten().map(|(text, _)| text.width()).sum::<usize>();
    let until = parts.len().min(work.step + 1);
    let room = (width as usize).saturating_sub(pieces.iter().map(|(text, _)| text.width()).sum::<usize>());
    let from = (0..until).find(|&from| length(&parts[from..until]) <= room - room.min(4 * usize::from(from > 0)));
    let from = from.unwrap_or(until.saturating_sub(1));
    if from > 0 {
        pieces.push((" …".to_owned(), Role::Dim));
    }
    pieces.extend(parts.into_iter().skip(from).flatten());
    if steps.is_empty() {
        for (key, hint) in keyed(keymap).take(IN_A_LINE) {
            pieces.push((format!(" {key} "), Role::Key));
            pieces.push((format!("{} ", hint.brief), Role::Dim));
        }
    }
    canvas.part(2, 0, width, 1).line(0, 0, &pieces);
}

/// A step in the line of steps: its number, itself, what it gains, the rule behind it.
fn in_line(work: &Workspace, index: usize) -> [(String, Role); 4] {
    let steps = &work.history.current().steps;
    let (step, base) = (&steps[index], work.outcome.summary.base_steady_ns);
    let line = step.to_string();
    let (text, gained) = gained(step.enabled, outcome_of(work, index, &line), base);
    let is_preview = work.is_preview() && index + 1 == steps.len();
    [
        (format!(" {} ", index + 1), if index == work.step { Role::Accent } else { Role::Dim }),
        (line, if step.enabled { Role::Text } else { Role::Faint }),
        (format!(" {text} "), gained),
        (if is_preview { "╌╌" } else { "──" }.to_owned(), Role::Border),
    ]
}
