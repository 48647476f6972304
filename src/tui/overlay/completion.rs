//! Completion of the prompt: names of commands and edits, then their arguments.

use crate::session::{ANALYSES, study_title};
use crate::tui::app::App;
use crate::tui::command::{self, Kind, compare};
use crate::tui::theme::Theme;
use crate::tui::views::roofline::OPTIONS;
use retime_core::scenario::grammar::{Grammar, Kind as ArgumentKind, What};
use retime_core::scenario::{next, transforms};

use super::picker::rank;
use super::terms::terms;

/// A way to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The whole line with it.
    pub line: String,
    /// What is shown.
    pub label: String,
    /// What it is.
    pub help: String,
}

/// Ways to go on from `line`, best first.
pub fn complete(app: &App, line: &str) -> Vec<Completion> {
    match line.split_once(' ') {
        None => names(line),
        Some((name, rest)) => arguments(app, name, rest.trim_start()),
    }
}

fn names(typed: &str) -> Vec<Completion> {
    let commands = command::all().map(|command| Completion {
        line: if command.kind().is_some() { format!("{} ", command.name) } else { command.name.to_owned() },
        label: command.usage(),
        help: command.help.to_owned(),
    });
    let edits = transforms().iter().map(|spec| Completion {
        line: format!("{} ", spec.name),
        label: spec.usage(),
        help: spec.help.to_owned(),
    });
    let all: Vec<Completion> = edits.chain(commands).collect();
    let texts: Vec<String> = all.iter().map(|completion| completion.line.clone()).collect();
    let is_prefix = |index: &usize| !texts[*index].starts_with(typed);
    let mut ranked = rank(typed, &texts);
    ranked.sort_by_key(is_prefix);
    ranked.into_iter().map(|index| all[index].clone()).collect()
}

fn arguments(app: &App, name: &str, rest: &str) -> Vec<Completion> {
    if let Some(edit) = transforms().iter().find(|edit| edit.name == name) {
        return of_edit(app, edit, &format!("{name} {rest}"));
    }
    match command::find(name).and_then(command::Command::kind) {
        Some(Kind::Device) => ranked(&format!("{name} "), rest, &app.devices),
        Some(Kind::Analysis) => {
            let names = (1..=ANALYSES).map(|number| (study_title(number).to_owned(), format!("analysis {number}")));
            ranked(&format!("{name} "), rest, &names.collect::<Vec<_>>())
        }
        Some(Kind::System) => systems(app, name, rest),
        Some(Kind::Theme) => {
            let names = Theme::names(&app.theme_files).into_iter().map(|theme| (theme, String::new()));
            ranked(&format!("{name} "), rest, &names.collect::<Vec<_>>())
        }
        Some(Kind::Scenario) => scenarios(app, name, rest),
        Some(Kind::Selector) => terms(app, &format!("{name} {rest}")),
        Some(Kind::Step) => complete(app, rest).into_iter().map(|inner| prefixed(name, inner)).collect(),
        _ => Vec::new(),
    }
}

/// Ways to go on in the line of an edit: its example, then what its grammar and the trace offer.
fn of_edit(app: &App, edit: &Grammar, line: &str) -> Vec<Completion> {
    let example = edit.example;
    let fits = example.len() > line.len() && example.starts_with(line) || line.trim_end() == edit.name;
    let example = Completion { line: example.to_owned(), label: example.to_owned(), help: edit.help.to_owned() };
    let offered = next(line).into_iter().flat_map(|next| match next.what {
        What::Edit(_) => Vec::new(),
        What::Text(text) => {
            vec![Completion { line: format!("{}{text}", next.before), label: text.to_owned(), help: String::new() }]
        }
        What::Argument(argument) => match argument.kind {
            ArgumentKind::Selector => terms(app, line),
            ArgumentKind::Device => ranked(next.before, next.typed, &app.devices),
            ArgumentKind::Link => ranked(next.before, next.typed, &links(app)),
            _ => {
                let known = argument.known().into_iter().map(|value| (value, String::new()));
                ranked(next.before, next.typed, &known.collect::<Vec<_>>())
            }
        },
    });
    fits.then_some(example).into_iter().chain(offered).collect()
}

/// Machines of the catalog, and what may follow them, in place of the word that is being typed.
fn systems(app: &App, command: &str, rest: &str) -> Vec<Completion> {
    let (before, typed) = rest.rsplit_once(' ').map_or(("", rest), |(before, typed)| (before, typed));
    let before = if before.is_empty() { format!("{command} ") } else { format!("{command} {before} ") };
    let named = |(name, help): (&str, &str)| (name.to_owned(), help.to_owned());
    if typed.starts_with("--") {
        return ranked(&before, typed, &OPTIONS.map(named));
    }
    let devices = app.workspace().into_iter().flat_map(|work| work.loaded.context.catalog.iter());
    let devices: Vec<_> = devices.map(|device| named((&device.id, &device.name))).collect();
    if before.contains(" --") { Vec::new() } else { ranked(&before, typed, &devices) }
}

/// What can be done with scenarios, then the names there are.
fn scenarios(app: &App, command: &str, rest: &str) -> Vec<Completion> {
    let known = |help: &str| -> Vec<(String, String)> {
        let all = app.workspace().into_iter().flat_map(|work| work.named.all(work.history.current()));
        all.filter(|(name, _)| !name.is_empty()).map(|(name, _)| (name.to_owned(), help.to_owned())).collect()
    };
    match rest.split_once(' ') {
        Some((action @ ("switch" | "drop"), typed)) => {
            ranked(&format!("{command} {action} "), typed.trim_start(), &known(""))
        }
        Some(_) => Vec::new(),
        None => {
            let actions = compare::ACTIONS.map(|(action, help)| (format!("{action} "), help.to_owned()));
            ranked(&format!("{command} "), rest, &[&actions[..], &known("puts it in force")].concat())
        }
    }
}

fn prefixed(name: &str, inner: Completion) -> Completion {
    Completion { line: format!("{name} {}", inner.line), ..inner }
}

fn links(app: &App) -> Vec<(String, String)> {
    let links = app.workspace().map(|work| work.loaded.context.models.links().iter());
    links.into_iter().flatten().map(|link| (link.id.clone(), link.name.clone())).collect()
}

/// Those of `values` that go with what is typed, after `before`.
fn ranked(before: &str, typed: &str, values: &[(String, String)]) -> Vec<Completion> {
    let texts: Vec<String> = values.iter().map(|(value, _)| value.clone()).collect();
    let completion = |index: usize| {
        let (value, help) = &values[index];
        Completion { line: format!("{before}{value}"), label: value.clone(), help: help.clone() }
    };
    rank(typed, &texts).into_iter().map(completion).collect()
}
