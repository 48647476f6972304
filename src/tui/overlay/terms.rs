//! Completion of selectors: fields, their values, and the names that the trace has.

use std::collections::BTreeSet;

use crate::tui::app::App;
use retime_core::graph::ExecutionGraph;
use retime_core::intern::NameId;
use retime_core::scenario::selector::{FIELDS, FieldSpec};

use super::completion::Completion;
use super::picker::rank;

/// Names offered at most; more letters find the rest.
const MOST_NAMES: usize = 40;

/// Ways to go on in a selector that ends `line`: a field, an operator and value, or what joins two terms.
pub(super) fn terms(app: &App, line: &str) -> Vec<Completion> {
    let start = line.rfind([' ', '&', '|', '!', '(']).map_or(0, |at| at + 1);
    let (before, term) = line.split_at(start);
    let end = term.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(term.len());
    let (word, rest) = term.split_at(end);
    let whole =
        |text: String, help: &str| Completion { line: format!("{before}{text}"), label: text, help: help.into() };
    let Some(spec) = FIELDS.iter().find(|spec| spec.name == word && !rest.is_empty()) else {
        let fields = FIELDS.iter().filter(|spec| spec.name.starts_with(word) && rest.is_empty());
        let fields = fields.map(|spec| whole(format!("{}{}", spec.name, spec.operators[0]), spec.help));
        let alone = [("predicted", "what an edit changed or added"), ("measured", "what is as traced")];
        let alone = alone.into_iter().filter(|(name, _)| !word.is_empty() && name.starts_with(word) && rest.is_empty());
        return fields.chain(alone.map(|(name, help)| whole(format!("{name} "), help))).collect();
    };
    let Some(operator) = spec.operators.iter().filter(|operator| rest.starts_with(**operator)).max_by_key(|o| o.len())
    else {
        return spec.operators.iter().map(|operator| whole(format!("{word}{operator}"), spec.help)).collect();
    };
    let typed = rest[operator.len()..].trim_start_matches('"');
    let values = values(app, spec);
    let prefixed = |value: &String| value.to_lowercase().starts_with(&typed.to_lowercase());
    let mut ranked: Vec<&String> = rank(typed, &values).into_iter().map(|index| &values[index]).collect();
    ranked.sort_by_key(|value| !prefixed(value));
    let completion = |value: &String| whole(format!("{word}{operator}{} ", quoted(value)), spec.help);
    ranked.into_iter().filter(|value| *value != typed).take(MOST_NAMES).map(completion).collect()
}

/// What a field can be compared with on this trace.
fn values(app: &App, spec: &FieldSpec) -> Vec<String> {
    if !spec.values.is_empty() {
        return spec.values.iter().map(|&value| value.to_owned()).collect();
    }
    let Some(work) = app.workspace() else { return Vec::new() };
    let graph: &ExecutionGraph = &work.loaded.graph;
    let named = |names: BTreeSet<NameId>| -> Vec<String> {
        let texts: BTreeSet<&str> = names.into_iter().map(|name| graph.names.get(name)).collect();
        texts.into_iter().filter(|text| !text.is_empty() && !text.contains('"')).map(str::to_owned).collect()
    };
    match spec.name {
        "name" => named(graph.operators.iter().map(|operator| operator.name).collect()),
        "module" => named(graph.operators.iter().map(|operator| operator.module).collect()),
        "kernel" => {
            named(graph.tasks.node_weights().filter(|task| task.kind.is_device()).map(|task| task.name).collect())
        }
        "rank" => graph.ranks.iter().map(|part| part.rank.0.to_string()).collect(),
        _ => Vec::new(),
    }
}

/// A value as a selector reads it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_:.-/+".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("\"{value}\"") }
}
