//! Which node contains which, as far as that can be: no node contains itself, not even through others.

use rustc_hash::FxHashMap;

use super::ExecutionTrace;
use crate::diagnostic::Severity;
use crate::intern::printable;

/// The id that writers give the node of the process, which some leave out.
const PROCESS: u64 = 1;

/// Takes the parents of nodes that contain one another away, and says so, as of nodes whose parent is not in the file.
///
/// # Complexity
/// O(nodes).
pub(super) fn settle(trace: &mut ExecutionTrace) {
    let of_id: FxHashMap<u64, u32> = trace.nodes.iter().zip(0..).map(|(node, at)| (node.id, at)).collect();
    let parent_of = |(at, node): (u32, &super::EtNode)| of_id.get(&node.parent).copied().filter(|&parent| parent != at);
    let parents: Vec<Option<u32>> = (0..).zip(&trace.nodes).map(parent_of).collect();
    for at in in_circles(&parents) {
        let what = "is said to contain what contains it: what contains it is not known, so it may count beside what it is part of";
        warn(trace, at, "damaged-parent", what);
        trace.nodes[at as usize].parent = 0;
    }
    for at in 0..trace.nodes.len() as u32 {
        let parent = trace.nodes[at as usize].parent;
        if parent > PROCESS && !of_id.contains_key(&parent) {
            let what = "is in a node that is not in the file: it is taken to be in none, so it may count beside what it is part of";
            warn(trace, at, "missing-parent", what);
        }
    }
}

fn warn(trace: &mut ExecutionTrace, at: u32, code: &'static str, what: &str) {
    let node = &trace.nodes[at as usize];
    let text = || format!("{} {what}", printable(trace.names.get(node.name)));
    trace.diagnostics.add(Severity::Warning, code, "", Some(format!("node {}", node.id)), text);
}

/// The nodes that are above themselves, in order.
fn in_circles(parents: &[Option<u32>]) -> Vec<u32> {
    // The walk that a node was first met in, from 1.
    let mut met = vec![0_u32; parents.len()];
    let mut found = Vec::new();
    for from in 0..parents.len() as u32 {
        let mut above = Some(from);
        while let Some(at) = above.filter(|&at| met[at as usize] == 0) {
            met[at as usize] = from + 1;
            above = parents[at as usize];
        }
        let Some(again) = above.filter(|&at| met[at as usize] == from + 1) else { continue };
        let mut at = again;
        loop {
            found.push(at);
            match parents[at as usize] {
                Some(next) if next != again => at = next,
                _ => break,
            }
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_above_itself_is_in_a_circle() {
        let parents = [None, Some(0), Some(3), Some(4), Some(3), Some(2), Some(1), Some(8), Some(9), Some(7)];
        assert_eq!(in_circles(&parents), [3, 4, 7, 8, 9]);
        assert!(in_circles(&[]).is_empty());
    }
}
