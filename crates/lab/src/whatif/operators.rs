//! What each operator was to take and took: where an error comes from.
//!
//! Of device work the operator that launched it, of a host's computations the operator itself; all other host time is one row.

use std::collections::BTreeMap;

use serde::Serialize;

use retime::headless::output;
use retime::session::Outcome;
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::cost::operators::bare;
use retime_core::graph::{ExecutionGraph, NodeId, TaskKind};

use super::Row;

/// Host time that is no operator's own computation.
const HOST_CODE: &str = "(host code)";
/// Rows of one prediction that are printed.
const PRINTED: usize = 12;

/// An operator's time in an iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    pub(crate) operator: String,
    /// Where it was predicted from, in ns.
    pub(crate) before: f64,
    /// Predicted, in ns.
    pub(crate) got: f64,
    /// Measured, in ns.
    pub(crate) expected: f64,
}

/// The operators of iterations predicted from those `before`, against those measured `after`: medians over steps, the largest
/// difference first.
pub(crate) fn parts<'o>(
    before: impl IntoIterator<Item = &'o Outcome>,
    got: impl IntoIterator<Item = &'o Outcome>,
    after: impl IntoIterator<Item = &'o Outcome>,
) -> Vec<Part> {
    let mut parts: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for (place, times) in [medians(before), medians(got), medians(after)].into_iter().enumerate() {
        for (operator, time) in times {
            parts.entry(operator).or_default()[place] = time;
        }
    }
    let part = |(operator, [before, got, expected]): (String, [f64; 3])| Part { operator, before, got, expected };
    let mut parts: Vec<Part> = parts.into_iter().map(part).collect();
    parts.sort_by(|a, b| (b.got - b.expected).abs().total_cmp(&(a.got - a.expected).abs()));
    parts
}

fn medians<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> BTreeMap<String, f64> {
    let steps: Vec<BTreeMap<String, f64>> = outcomes.into_iter().map(times).collect();
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (operator, time) in steps.iter().flatten() {
        all.entry(operator).or_default().push(*time);
    }
    let median = |(operator, mut times): (&str, Vec<f64>)| {
        times.resize(steps.len(), 0.0);
        (operator.to_owned(), super::median(&mut times))
    };
    all.into_iter().map(median).collect()
}

/// Times by operator in an iteration, in ns.
fn times(outcome: &Outcome) -> BTreeMap<String, f64> {
    let edited = Edited::of(&outcome.resolved);
    let graph = &*edited.graph;
    let times = Times::Simulated { timed: &edited.timed, schedule: &outcome.schedule };
    let belongs = graph.iteration_tasks();
    let on_device = graph.tasks.node_weights().any(|task| task.kind.is_device());
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|node| belongs[node.index()]) {
        let task = &graph.tasks[node];
        if matches!(task.kind, TaskKind::Joint | TaskKind::StepEnd) || task.kind.is_device() != on_device {
            continue;
        }
        let (start, end) = times.of(graph, node);
        *sums.entry(label(graph, node)).or_default() += end.since(start).0 as f64;
    }
    sums
}

fn label(graph: &ExecutionGraph, node: NodeId) -> String {
    let task = &graph.tasks[node];
    if !task.kind.is_device() && task.kind != TaskKind::Compute {
        return HOST_CODE.to_owned();
    }
    let Some(id) = task.operator else { return graph.names.get(task.name).to_owned() };
    let operator = &graph.operators[id.0 as usize];
    format!("{} {}", bare(graph.names.get(operator.name)), operator.phase.name())
}

/// The operators of all rows that have them.
pub(crate) fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&HEADS);
    let ms = |ns: f64| format!("{:.3}", ns / 1e6);
    for row in rows {
        let mut line = |name: &str, [before, got, expected]: [f64; 3]| {
            let error = format!("{:+.1}", 100.0 * (got - expected) / row.expected);
            let cells = [&row.family, &row.check, &row.source].map(Clone::clone);
            table.row(cells.into_iter().chain([name.to_owned(), ms(before), ms(expected), ms(got), error]));
        };
        let (first, rest) = row.parts.split_at(row.parts.len().min(PRINTED));
        for part in first {
            line(&part.operator, [part.before, part.got, part.expected]);
        }
        let sum = |of: fn(&Part) -> f64| rest.iter().map(of).sum::<f64>();
        if !rest.is_empty() {
            line("(all others)", [sum(|part| part.before), sum(|part| part.got), sum(|part| part.expected)]);
        }
    }
    table
}

const HEADS: [&str; 8] =
    ["family", "check", "source", "operator", "traced ms", "measured ms", "predicted ms", "error, % of the whole"];
