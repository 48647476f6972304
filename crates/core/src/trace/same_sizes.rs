//! Whether an execution trace ran at the sizes of the profiler trace that it lies beside: one of another batch has tensors of its own.

use rustc_hash::FxHashMap;

use super::link::link;
use super::{ExecutionTrace, Trace};
use crate::intern::printable;

/// Of operators whose sizes both recorded, the share that may differ: what is looked up, and how long sequences are, changes from
/// step to step.
const MAY_DIFFER: f64 = 0.25;

/// Why the two are not of one run: more operators than steps of one run explain have other sizes in the one than in the other.
pub(super) fn contradiction(trace: &Trace, execution_trace: &ExecutionTrace) -> Option<String> {
    if !trace.has_shapes {
        return None;
    }
    let mut known = FxHashMap::default();
    let (mut compared, mut differing, mut first) = (0_usize, 0_usize, None);
    for (event, node) in link(trace, execution_trace).pairs {
        let Some(list) = trace.operators.get(event).and_then(|args| args.tensors) else { continue };
        let recorded = trace.tensor_args[list.index()].dims;
        let other = execution_trace.nodes[node.0 as usize].inputs.shapes;
        let text = || (trace.names.get(recorded), execution_trace.names.get(other));
        let is_alike = *known.entry((recorded, other)).or_insert_with(|| alike(text().0, text().1));
        compared += usize::from(is_alike.is_some());
        if is_alike == Some(false) {
            differing += 1;
            first = first.or_else(|| Some((trace.names.get(trace.events.name(event)), text())));
        }
    }
    let (name, (recorded, other)) = first.filter(|_| differing as f64 > MAY_DIFFER * compared as f64)?;
    let name = printable(name);
    Some(format!("{differing} of {compared} operators have other sizes there ({name} {recorded} here, {other} there)"))
}

/// Whether the tensors of two argument lists have equal sizes; `None` where neither has a tensor that both recorded.
fn alike(recorded: &str, other: &str) -> Option<bool> {
    let sizes = |text: &str| -> Vec<Vec<u64>> {
        let list: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
        list.into_iter().map(|sizes| serde_json::from_value(sizes).unwrap_or_default()).collect()
    };
    let (recorded, other) = (sizes(recorded), sizes(other));
    let both: Vec<_> = recorded.iter().zip(&other).filter(|(a, b)| !a.is_empty() && !b.is_empty()).collect();
    (!both.is_empty()).then(|| both.iter().all(|(a, b)| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tensors_that_both_recorded_are_compared() {
        assert_eq!(alike("[[64,8],[],[2]]", "[[64,8],[[],[]],[2]]"), Some(true));
        assert_eq!(alike("[[64,8],[2]]", "[[32,8],[2]]"), Some(false));
        assert_eq!(alike("[[64,8],[[1]]]", "[null,[[2]]]"), None);
    }
}
