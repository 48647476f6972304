//! A gap → steps worth trying against it, in the language of scenarios.

use crate::graph::{DependencyKind, ExecutionGraph, OperatorId, Phase};
use crate::intern::NameId;

use super::{Cause, Gap};

/// Data loaded elsewhere: its operators, and the host time within its annotations that belongs to none.
const NO_LOADING: &str = "scale phase=data | name~DataLoader x0";
const HALF_LOADING: &str = "scale phase=data | name~DataLoader x0.5";

/// Steps that may shorten `gap`, most direct first. Which of them do, and by how much, only a simulation tells.
pub fn candidate_steps(graph: &ExecutionGraph, gap: &Gap) -> Vec<String> {
    match gap.cause {
        Cause::LaunchBound { part, name } => launch_bound(graph, gap, part, name),
        Cause::Sync { .. } => steps(&["remove-sync", "cuda-graph", NO_LOADING]),
        Cause::EventWait { name, .. } | Cause::Contention { name, .. } => vec![scaled(graph, "", name, "x0.5")],
        Cause::LaunchQueue { name, .. } => {
            let mut found = steps(&["fuse family=elementwise", "fuse-optimizer", "cuda-graph"]);
            found.push(scaled(graph, "", name, "x0.5"));
            found
        }
        Cause::Collective { name, late } => {
            let mut found = steps(&["overlap-comm", "bucket-size 50"]);
            if graph.names.get(name).to_ascii_lowercase().replace(['-', '_'], "").contains("alltoall") {
                found.extend(steps(&["reshard-tables size_lookup_greedy", "reshard-tables lookup_greedy"]));
            }
            found.extend(steps(&["compress-comm 2", "scale kind=collective x0.5"]));
            if let Some(late) = late {
                found.push("straggler remove".to_owned());
                found.push("cuda-graph".to_owned());
                found.push(format!("scale kind=host & rank={} x0.5", late.0));
                found.push(format!("scale kind=kernel & rank={} x0.5", late.0));
            }
            found
        }
        Cause::DataLoading { .. } => steps(&["prefetch-input", NO_LOADING, HALF_LOADING]),
        Cause::Latency(DependencyKind::Launch) => steps(&["cuda-graph"]),
        Cause::Latency(_) => steps(&["fuse family=elementwise", "cuda-graph"]),
        Cause::NothingRecorded { .. } => steps(&["scale kind=T1 x0", "cuda-graph", NO_LOADING]),
        Cause::BeforeWindow | Cause::NothingLeft | Cause::NotExamined => Vec::new(),
    }
}

fn steps(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

fn launch_bound(graph: &ExecutionGraph, gap: &Gap, part: &str, name: NameId) -> Vec<String> {
    let mut found = steps(&["cuda-graph"]);
    if of_chain(gap, graph).any(|id| graph.operators[id.0 as usize].phase == Phase::Optimizer) {
        found.insert(0, "fuse-optimizer".to_owned());
    }
    let embedding = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name).contains("embedding_bag");
    if of_chain(gap, graph).any(embedding) {
        found.insert(0, "fuse-embedding-bags".to_owned());
    }
    found.push("fuse family=elementwise".to_owned());
    found.push(match part {
        "T1" => "scale kind=T1 x0".to_owned(),
        "T4" => "scale kind=runtime x0.5".to_owned(),
        "compute" => scaled(graph, "", name, "x0.5"),
        part => scaled(graph, &format!("kind={part} & "), name, "x0"),
    });
    found
}

/// Operators whose host time or kernels are on the chain of `gap`.
fn of_chain<'a>(gap: &'a Gap, graph: &'a ExecutionGraph) -> impl Iterator<Item = OperatorId> + 'a {
    let known = |id: &OperatorId| (id.0 as usize) < graph.operators.len();
    gap.chain.iter().filter_map(|segment| graph.tasks[segment.node].operator).filter(known)
}

/// Scales what is called `name`; quoted where the name has more than the letters of a word in it.
fn scaled(graph: &ExecutionGraph, also: &str, name: NameId, factor: &str) -> String {
    let name = graph.names.get(name);
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '-' | '#');
    match name {
        name if !name.is_empty() && name.chars().all(word) => format!("scale {also}name={name} {factor}"),
        name if !name.is_empty() && !name.contains('"') => format!("scale {also}name=\"{name}\" {factor}"),
        _ => format!("scale {also}kind=op {factor}"),
    }
}
