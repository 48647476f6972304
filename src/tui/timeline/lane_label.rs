//! What a lane is called.

use retime_core::graph::{ExecutionGraph, Lane, LaneKind, Phase, Rank};

/// A short name of every lane, with its rank when there are several.
pub fn lane_labels(graph: &ExecutionGraph) -> Vec<String> {
    let roles = roles(graph);
    let several_devices = graph.rank_count() == 1 && devices(graph) > 1;
    let label = |(lane, role): (&Lane, Option<&str>)| {
        let name = match lane.kind {
            LaneKind::Stream { stream, .. } if lane.communication => format!("comm {stream}"),
            LaneKind::Stream { stream, .. } => format!("stream {stream}"),
            LaneKind::Thread { tid } => {
                role.map_or_else(|| thread_name(graph.names.get(lane.name), tid), |role| format!("{role} {tid}"))
            }
            LaneKind::Virtual => "markers".to_owned(),
        };
        match lane.kind {
            _ if graph.rank_count() > 1 => format!("{} {name}", rank_label(graph, lane.rank)),
            LaneKind::Stream { device, .. } if several_devices => format!("gpu{device} {name}"),
            _ => name,
        }
    };
    graph.lanes.iter().zip(roles).map(label).collect()
}

/// `r3`, with how many ranks it stands for where those are several.
pub fn rank_label(graph: &ExecutionGraph, rank: Rank) -> String {
    let count = graph.count_of(rank);
    if count > 1 { format!("r{}×{count}", rank.0) } else { format!("r{}", rank.0) }
}

/// `main` for the thread of each rank with the most operators outside backward, `autograd` for one with backward only.
fn roles(graph: &ExecutionGraph) -> Vec<Option<&'static str>> {
    let mut counts = vec![(0_usize, 0_usize); graph.lanes.len()];
    for operator in &graph.operators {
        let count = &mut counts[operator.lane.0 as usize];
        if operator.phase == Phase::Backward { count.1 += 1 } else { count.0 += 1 }
    }
    let most = |rank: Rank| {
        let lanes = graph.lanes.iter().zip(&counts).filter(|(lane, _)| lane.rank == rank);
        lanes.map(|(_, &(forward, _))| forward).max().unwrap_or(0)
    };
    let role = |(lane, &(forward, backward)): (&Lane, &(usize, usize))| match lane.kind {
        LaneKind::Thread { .. } if forward > 0 && forward == most(lane.rank) => Some("main"),
        LaneKind::Thread { .. } if backward > forward => Some("autograd"),
        _ => None,
    };
    graph.lanes.iter().zip(&counts).map(role).collect()
}

fn devices(graph: &ExecutionGraph) -> usize {
    let mut devices: Vec<i64> = graph
        .lanes
        .iter()
        .filter_map(|lane| match lane.kind {
            LaneKind::Stream { device, .. } => Some(device),
            _ => None,
        })
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices.len()
}

/// `thread 4711`, or its own name where that says more than its number.
fn thread_name(name: &str, tid: i64) -> String {
    let own = name.trim_start_matches("thread ").trim_start_matches(|c: char| c.is_ascii_digit()).trim();
    let own = own.trim_matches(|c| c == '(' || c == ')');
    if own.is_empty() || own.starts_with("python") || own.starts_with("pt_") {
        format!("thread {tid}")
    } else {
        own.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_called_by_its_name_where_that_says_more() {
        assert_eq!(thread_name("thread 4711 (python3)", 4711), "thread 4711");
        assert_eq!(thread_name("thread 4711 (DataLoader)", 4711), "DataLoader");
        assert_eq!(thread_name("", 5), "thread 5");
    }
}
