//! Completion of the prompt: names of commands and edits, then their arguments.

use crate::tui::app::App;
use crate::tui::command::{self, Kind, compare};
use crate::tui::theme::Theme;
use retime_core::scenario::transforms;

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
        label: spec.usage.to_owned(),
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
    if let Some(spec) = transforms().iter().find(|spec| spec.name == name) {
        let example =
            Completion { line: spec.example.to_owned(), label: spec.example.to_owned(), help: spec.help.to_owned() };
        let values = match spec.usage {
            usage if usage.contains("DEVICE") => devices(app, name, rest),
            usage if usage.contains("LINK") => links(app, name, rest),
            usage if usage.contains("SELECTOR") => terms(app, &format!("{name} {rest}")),
            _ => Vec::new(),
        };
        let fits = rest.is_empty()
            || (spec.example.starts_with(&format!("{name} {rest}"))
                && spec.example.len() > name.len() + 1 + rest.len());
        return fits.then_some(example).into_iter().chain(values).collect();
    }
    match command::find(name).and_then(command::Command::kind) {
        Some(Kind::Device) => devices(app, name, rest),
        Some(Kind::Theme) => {
            let names = Theme::names(&app.theme_files).into_iter().map(|theme| (theme, String::new()));
            ranked(name, rest, &names.collect::<Vec<_>>())
        }
        Some(Kind::Scenario) => scenarios(app, name, rest),
        Some(Kind::Selector) => terms(app, &format!("{name} {rest}")),
        Some(Kind::Step) => complete(app, rest).into_iter().map(|inner| prefixed(name, inner)).collect(),
        _ => Vec::new(),
    }
}

/// What can be done with scenarios, then the names there are.
fn scenarios(app: &App, command: &str, rest: &str) -> Vec<Completion> {
    let known = |help: &str| -> Vec<(String, String)> {
        let all = app.workspace().into_iter().flat_map(|work| work.named.all(work.history.current()));
        all.filter(|(name, _)| !name.is_empty()).map(|(name, _)| (name.to_owned(), help.to_owned())).collect()
    };
    match rest.split_once(' ') {
        Some((action @ ("switch" | "drop"), typed)) => {
            ranked(&format!("{command} {action}"), typed.trim_start(), &known(""))
        }
        Some(_) => Vec::new(),
        None => {
            let actions = compare::ACTIONS.map(|(action, help)| (format!("{action} "), help.to_owned()));
            ranked(command, rest, &[&actions[..], &known("puts it in force")].concat())
        }
    }
}

fn prefixed(name: &str, inner: Completion) -> Completion {
    Completion { line: format!("{name} {}", inner.line), ..inner }
}

fn devices(app: &App, name: &str, rest: &str) -> Vec<Completion> {
    ranked(name, rest, &app.devices)
}

fn links(app: &App, name: &str, rest: &str) -> Vec<Completion> {
    let Some(work) = app.workspace() else { return Vec::new() };
    let links = work.loaded.context.models.links().iter();
    ranked(name, rest, &links.map(|link| (link.id.clone(), link.name.clone())).collect::<Vec<_>>())
}

fn ranked(name: &str, rest: &str, values: &[(String, String)]) -> Vec<Completion> {
    let texts: Vec<String> = values.iter().map(|(value, _)| value.clone()).collect();
    let completion = |index: usize| {
        let (value, help) = &values[index];
        Completion { line: format!("{name} {value}"), label: value.clone(), help: help.clone() }
    };
    rank(rest, &texts).into_iter().map(completion).collect()
}
