//! Collectives over the nodes of a job: fast links inside a node, slower ones between.
//!
//! A group that spans nodes reduces inside each node, exchanges between nodes one share of every device, and spreads the result;
//! both parts run in a pipeline, so the slower one counts: `t = max(t_inside(S, p), t_between)`. With `p` devices in each of `m`
//! nodes, a buffer of `S` bytes puts on the link of each device between nodes: all-reduce `2(m−1)/m·S/p`, all-gather and
//! reduce-scatter `(m−1)/m·S/p`, all-to-all `S·(N−p)/N`, broadcast and reduce `S/p`. Where the link between nodes was measured for the
//! collective, the measurement stands in for `t_between`: it was taken with all devices of both nodes.

use crate::device::LinkProfile;

use super::collective::{CollectiveTime, buffer_bytes, collective_time, latency_and_bandwidth};
use super::work::CollectiveKind;

/// Devices of a node where nothing tells.
pub const COMMON_NODE: u32 = 8;

/// The interconnects of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topology<'a> {
    /// Inside a node.
    pub inside: &'a LinkProfile,
    /// Between nodes; `None` where all devices are in one.
    pub between: Option<&'a LinkProfile>,
    /// Devices of a node.
    pub per_node: u32,
}

impl<'a> Topology<'a> {
    /// All devices joined by one link.
    pub fn flat(inside: &'a LinkProfile) -> Self {
        Self { inside, between: None, per_node: u32::MAX }
    }

    /// Nodes that a group of `ranks` ranks spans.
    pub fn nodes(&self, ranks: u32) -> u32 {
        if self.between.is_none() { 1 } else { ranks.div_ceil(self.per_node.max(1)) }
    }

    /// Time of a collective of `kind` among `ranks` ranks, each with a message of `message` bytes.
    pub fn time(&self, kind: CollectiveKind, message: u64, ranks: u32) -> CollectiveTime {
        let nodes = self.nodes(ranks);
        let Some(between) = self.between.filter(|_| nodes > 1 && kind != CollectiveKind::SendRecv) else {
            return collective_time(kind, message, ranks, self.inside);
        };
        let own = ranks.div_ceil(nodes);
        let inside = collective_time(kind, inside_message(kind, message, ranks, own), own, self.inside);
        let across = if between.curves.iter().any(|curve| curve.collective == kind.name()) {
            collective_time(kind, message, ranks, between)
        } else {
            latency_and_bandwidth(crossing(kind, message, ranks, (own, nodes)), nodes, between)
        };
        let us = inside.us.max(across.us);
        let slower = if across.us >= inside.us { across } else { inside };
        CollectiveTime { us, extrapolated: true, error: slower.error.max(inside.error), ..slower }
    }
}

/// The message of a device in the part inside its node. Of an all-to-all only what stays there.
fn inside_message(kind: CollectiveKind, message: u64, ranks: u32, own: u32) -> u64 {
    match kind {
        CollectiveKind::AllToAll => (message as f64 * f64::from(own) / f64::from(ranks.max(1))).round() as u64,
        // Gathered in the node is the whole buffer: a device's message is its part of that.
        CollectiveKind::AllGather => (buffer_bytes(kind, message, ranks) / f64::from(own.max(1))).round() as u64,
        _ => message,
    }
}

/// Bytes that cross the link of each device between nodes.
fn crossing(kind: CollectiveKind, message: u64, ranks: u32, (own, nodes): (u32, u32)) -> f64 {
    let (buffer, p, m) = (buffer_bytes(kind, message, ranks), f64::from(own.max(1)), f64::from(nodes.max(1)));
    match kind {
        CollectiveKind::AllReduce => 2.0 * (m - 1.0) / m * buffer / p,
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => (m - 1.0) / m * buffer / p,
        CollectiveKind::AllToAll => buffer * (1.0 - p / f64::from(ranks.max(1))).max(0.0),
        CollectiveKind::Broadcast | CollectiveKind::Reduce => buffer / p,
        CollectiveKind::SendRecv => buffer,
        CollectiveKind::Barrier => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Links;

    const KINDS: [CollectiveKind; 5] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllToAll,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Broadcast,
    ];

    #[test]
    fn a_group_inside_a_node_does_not_see_what_is_between() {
        let links = Links::builtin().unwrap();
        let (inside, between) = (links.find("NVLink2").unwrap(), links.find("Ethernet-100G"));
        let nodes = Topology { inside, between, per_node: 8 };
        for kind in KINDS {
            assert_eq!(nodes.time(kind, 1 << 24, 8), collective_time(kind, 1 << 24, 8, inside));
        }
    }

    #[test]
    fn more_nodes_slower_links_and_larger_messages_are_never_faster() {
        let links = Links::builtin().unwrap();
        let inside = links.find("NVLink2").unwrap();
        let time = |between: &str, kind, bytes, ranks| {
            Topology { inside, between: links.find(between), per_node: 8 }.time(kind, bytes, ranks).us
        };
        for kind in KINDS {
            for ranks in [16, 64, 1024] {
                let (slow, fast) =
                    (time("Ethernet-10G", kind, 1 << 26, ranks), time("Ethernet-100G", kind, 1 << 26, ranks));
                assert!(slow > fast, "{kind:?} {ranks}: {slow} {fast}");
                assert!(time("Ethernet-100G", kind, 1 << 28, ranks) > fast, "{kind:?} {ranks}");
                assert!(time("Ethernet-100G", kind, 1 << 26, 2 * ranks) >= fast * 0.999, "{kind:?} {ranks}");
            }
            assert!(time("Ethernet-10G", kind, 1 << 28, 16) > time("Ethernet-10G", kind, 1 << 28, 8), "{kind:?}");
        }
    }

    #[test]
    fn the_share_between_nodes_is_that_of_one_device() {
        // 2 nodes of 8: 2·(1/2)·64 MiB/8 = 8 MiB per device.
        let bytes = crossing(CollectiveKind::AllReduce, 64 << 20, 16, (8, 2));
        assert!((bytes - f64::from(8 << 20)).abs() < 1.0);
        // Of an all-to-all among 16 half leaves the node.
        assert!((crossing(CollectiveKind::AllToAll, 1 << 20, 16, (8, 2)) - f64::from(1 << 19)).abs() < 1.0);
    }
}
