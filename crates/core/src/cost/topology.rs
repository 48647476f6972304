//! Collectives over the nodes of a job: fast links inside a node, slower ones between.
//!
//! A ring goes through all devices, node after node, so that it enters a node over one port and leaves it over one: what rings
//! carry, all ports of a node carry once (bus bandwidth, as nccl-tests defines it in doc/PERFORMANCE.md). With `p` devices in
//! each of the nodes of `n` ranks, a buffer of `S` bytes puts on the ports of a node together: all-reduce `2(n−1)/n·S`, all-gather
//! and reduce-scatter `(n−1)/n·S`, broadcast and reduce `S`, all-to-all `p·S·(n−p)/n`, send and receive `S` on a single port.
//! A tree sends `2S` for an all-reduce, in `2·log₂ N` steps between `N` nodes where a ring takes `2(N−1)`.
//!
//! What two nodes take was measured on one interconnect with 1, 2, 4 and 8 devices behind a port; others of its kind take what it
//! takes for as much time on the wire, with their own latency for its. More nodes add a latency for each further step.
//! Inside a node the same goes over its link; both run at once, so the slower counts.

use crate::device::LinkProfile;
use crate::units::{DurNs, Percent};

use super::collective::{
    CollectiveTime, UNMEASURED_ERROR, buffer_bytes, bus_factor, collective_time, latency_and_bandwidth,
};
use super::work::{CollectiveKind, Shape, Work};

/// Devices of a node where nothing tells.
pub const COMMON_NODE: u32 = 8;
/// The link between nodes where nothing tells.
pub const COMMON_BETWEEN_NODES: &str = "InfiniBand-HDR";

/// How a collective goes from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// From each node to the next.
    Ring,
    /// Up and down a tree of nodes.
    Tree,
}

/// What a collective's latency is less over `new`, in µs, and stays nevertheless: among the same devices of one node it is their kernels
/// and the host that it was measured from, not the link's.
pub fn latency_kept(old: (&Work, Topology<'_>), new: (&Work, Topology<'_>)) -> f64 {
    let ranks = |work: &Work| if let Shape::Collective { ranks, .. } = work.shape { ranks } else { 0 };
    let both = old.1.latency(old.0).zip(new.1.latency(new.0)).filter(|_| ranks(old.0) == ranks(new.0));
    both.map_or(0.0, |(old, new)| (old - new).max(0.0))
}

/// The interconnects of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topology<'a> {
    /// Inside a node.
    pub inside: &'a LinkProfile,
    /// Between nodes; `None` where all devices are in one.
    pub between: Option<&'a LinkProfile>,
    /// Devices of a node.
    pub per_node: u32,
    /// Ports of a node to others; as the link between nodes says without.
    pub ports: Option<u32>,
    /// How collectives go from node to node; the faster without.
    pub algorithm: Option<Algorithm>,
}

impl<'a> Topology<'a> {
    /// All devices joined by one link; each a node of its own where that joins nodes.
    pub fn flat(link: &'a LinkProfile) -> Self {
        let (between, per_node) = if link.between_nodes { (Some(link), 1) } else { (None, u32::MAX) };
        Self { inside: link, between, per_node, ports: None, algorithm: None }
    }

    /// Nodes that a group of `ranks` ranks spans.
    pub fn nodes(&self, ranks: u32) -> u32 {
        if self.between.is_none() { 1 } else { ranks.div_ceil(self.per_node.max(1)) }
    }

    /// What of the interconnects the ranks of `work` use: of a group inside one node, none between nodes.
    #[must_use]
    pub fn used_by(self, work: &Work) -> Self {
        match work.shape {
            Shape::Collective { ranks, .. } if self.nodes(ranks) == 1 => Self::flat(self.inside),
            _ => self,
        }
    }

    /// What a collective with next to no message takes inside a node, in µs; `None` across nodes.
    pub fn latency(&self, work: &Work) -> Option<f64> {
        match work.shape {
            Shape::Collective { kind, ranks } if self.nodes(ranks) == 1 => Some(self.time(kind, 1, ranks).us),
            _ => None,
        }
    }

    /// What a collective takes once all its ranks are there; `None` where its size or its group is not known.
    pub fn transfer(&self, work: &Work) -> Option<CollectiveTime> {
        match work.shape {
            Shape::Collective { kind, ranks } if work.lacks().is_none() => Some(self.time(kind, work.read.0, ranks)),
            _ => None,
        }
    }

    /// The least that a collective takes inside a node: what each rank sends at the link's rate. Nothing across nodes, which have ports
    /// of their own, or where size or group are not known.
    pub fn least(&self, work: &Work) -> DurNs {
        match work.shape {
            Shape::Collective { kind, ranks } if work.lacks().is_none() && self.nodes(ranks) == 1 => {
                // Switches may add up what all-reduces would send twice.
                let sent = buffer_bytes(kind, work.read.0, ranks) * bus_factor(kind, ranks).min(1.0);
                DurNs::from_us_f64(sent / (self.inside.gb_s * 1e3))
            }
            _ => DurNs::ZERO,
        }
    }

    /// Time of a collective of `kind` among `ranks` ranks, each with a message of `message` bytes.
    pub fn time(&self, kind: CollectiveKind, message: u64, ranks: u32) -> CollectiveTime {
        let nodes = self.nodes(ranks);
        let inside = || within(kind, message, ranks, self.inside);
        let Some(between) = self.between.filter(|_| nodes > 1) else { return inside() };
        let across = self.across(kind, message, (ranks, nodes), between);
        if self.inside.between_nodes {
            // At least what the ranks of one node take among themselves.
            let one = within(kind, message, self.per_node.min(ranks), self.inside);
            return if one.us > across.us { one } else { across };
        }
        let inside = inside();
        let (slower, other) = if across.us >= inside.us { (across, inside) } else { (inside, across) };
        CollectiveTime { extrapolated: true, error: slower.error.max(other.error), ..slower }
    }

    /// The part between nodes, over as many of a node's ports as are of use.
    fn across(
        &self,
        kind: CollectiveKind,
        message: u64,
        (ranks, nodes): (u32, u32),
        between: &LinkProfile,
    ) -> CollectiveTime {
        // A node that is not full waits for those that are.
        let own = self.per_node.clamp(1, ranks);
        let most = match self.ports.unwrap_or(between.ports) {
            _ if kind == CollectiveKind::SendRecv => 1,
            0 => own,
            ports => ports.min(own),
        };
        let bytes = crossing(kind, message, ranks, own);
        let time = |ports: u32, algorithm: Algorithm| {
            let more = if algorithm == Algorithm::Tree { tree_bytes(kind, ranks) } else { 1.0 };
            let behind = f64::from(own) / f64::from(ports);
            let two = two_nodes(kind, bytes * more / f64::from(ports), behind, between);
            let further = steps(kind, algorithm, nodes) - steps(kind, algorithm, 2);
            CollectiveTime {
                us: two.us + between.latency_us * further.max(0.0),
                error: two.error.max(ACROSS_ERROR),
                ..two
            }
        };
        let algorithms: &[Algorithm] = match self.algorithm {
            Some(Algorithm::Ring) => &[Algorithm::Ring],
            Some(Algorithm::Tree) => &[Algorithm::Tree],
            None => &[Algorithm::Ring, Algorithm::Tree],
        };
        let powers = (0..u32::BITS).map(|exponent| 1 << exponent).take_while(|&ports| ports < most);
        let all = powers.chain([most]).flat_map(|ports| algorithms.iter().map(move |&algorithm| (ports, algorithm)));
        let times = all.map(|(ports, algorithm)| time(ports, algorithm));
        times.min_by(|a, b| a.us.total_cmp(&b.us)).unwrap_or_else(|| time(1, Algorithm::Ring))
    }
}

/// Numbers of ranks inside a node that are looked through.
const MOST_MEASURED: u32 = 72;

/// Inside a node: no less than links take that carry as much and as soon, and were measured.
fn within(kind: CollectiveKind, message: u64, ranks: u32, link: &LinkProfile) -> CollectiveTime {
    let bounds = link.bounded_by.iter().map(|other| over(kind, message, ranks, other));
    let own = over(kind, message, ranks, link);
    bounds.fold(own, |own, bound| CollectiveTime { us: own.us.max(bound.us), ..own })
}

/// Over one link. More ranks are never faster: what fewer take is at most what more take, as far as that was measured, and beyond
/// that at least what the most take that were.
fn over(kind: CollectiveKind, message: u64, ranks: u32, link: &LinkProfile) -> CollectiveTime {
    let most = link.curves.iter().map(|curve| curve.ranks).max().unwrap_or_default().min(MOST_MEASURED);
    let of = |ranks: u32| collective_time(kind, message, ranks, link);
    if ranks > most {
        return [of(most), of(ranks)].into_iter().max_by(|a, b| a.us.total_cmp(&b.us)).unwrap_or_else(|| of(ranks));
    }
    (ranks + 1..=most).map(of).fold(of(ranks), |least, next| if next.us < least.us { next } else { least })
}

/// Relative error of unmeasured times between nodes: mean of the all-reduce on two nodes of 2, 4 and 8 devices with what one
/// device a node reaches (`lab models`, nothing is fitted to those rows).
const ACROSS_ERROR: f64 = 0.45;

/// What is known of the error of times among `ranks` ranks over `link`; `None` where it is what was measured there.
pub fn doubt(link: &LinkProfile, ranks: u32) -> Option<String> {
    if link.is_measured() { of_one_machine(link, ranks) } else { Some(unmeasured(link)) }
}

fn unmeasured(link: &LinkProfile) -> String {
    let error = link.curves.iter().map(|curve| curve.error).reduce(f64::max);
    let known = match error.map(|error| Percent(if link.between_nodes { ACROSS_ERROR } else { error })) {
        Some(error) => format!("taken from others for as much time on the wire, ±{error:.0}"),
        None => format!("by latency and bandwidth alone, ±{:.0}", Percent(UNMEASURED_ERROR)),
    };
    format!("no collective over {} was measured: {known}", link.name)
}

/// Of a bus, but between two devices, and of a link between nodes: what devices reach of them differs from machine to machine.
fn of_one_machine(link: &LinkProfile, ranks: u32) -> Option<String> {
    let name = &link.name;
    if link.between_nodes {
        let error = Percent(ACROSS_ERROR);
        return Some(format!(
            "{name} as on the machine where it was measured, whose devices reach a part of its rate where few share a port: \
             others' reach more or less, ±{error:.0}"
        ));
    }
    let error = link.curves.iter().filter(|curve| curve.ranks > 2).map(|curve| curve.error).reduce(f64::max);
    let error = Percent(error.filter(|_| ranks > 2 && link.is_bus())?);
    Some(format!(
        "{name} as on the machine where it was measured: others share the way through the host otherwise, ±{error:.0}"
    ))
}

/// Two nodes that put `bytes` on each port, with `behind` devices of a node on each.
fn two_nodes(kind: CollectiveKind, bytes: f64, behind: f64, between: &LinkProfile) -> CollectiveTime {
    let of = |kind: CollectiveKind| between.curves.iter().filter(move |curve| curve.collective == kind.name());
    let reduce = CollectiveKind::AllReduce;
    let measured = if kind == CollectiveKind::SendRecv && of(kind).next().is_some() { kind } else { reduce };
    let mut known: Vec<(f64, CollectiveTime)> = of(measured)
        .map(|curve| {
            let devices = f64::from(curve.ranks) / 2.0;
            let ports = f64::from(curve.ports_of(between));
            let (us, outside) = curve.time_us(bytes * ports / bus_factor(measured, curve.ranks), 1.0);
            let is_own = measured == kind && !curve.carried && (devices / ports - behind).abs() < 1e-9;
            let error = if is_own { curve.error } else { ACROSS_ERROR.max(curve.error) };
            let model = if curve.carried { "collective-peers" } else { "collective-curve" };
            (devices / ports, CollectiveTime { us, error, model, extrapolated: outside || !is_own })
        })
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    known.dedup_by(|next, kept| (next.0 - kept.0).abs() < 1e-9);
    let at = known.partition_point(|(devices, _)| *devices <= behind);
    match (at.checked_sub(1).and_then(|below| known.get(below)), known.get(at)) {
        (None, None) => {
            let found = latency_and_bandwidth(bytes, 2, between);
            let us = found.us + between.latency_us * (steps(kind, Algorithm::Ring, 2) - 1.0);
            CollectiveTime { us, error: found.error.max(ACROSS_ERROR), ..found }
        }
        (Some(&(_, only)), None) | (None, Some(&(_, only))) => only,
        (Some(&(low, below)), Some(&(high, above))) => {
            let share = (behind / low).ln() / (high / low).ln();
            let us = (below.us.ln() * (1.0 - share) + above.us.ln() * share).exp();
            CollectiveTime { us, extrapolated: below.extrapolated || share > 0.0, ..below }
        }
    }
}

/// Bytes that enter a node over all its ports, of `own` devices each, in a ring.
fn crossing(kind: CollectiveKind, message: u64, ranks: u32, own: u32) -> f64 {
    let (buffer, p, n) = (buffer_bytes(kind, message, ranks), f64::from(own), f64::from(ranks.max(1)));
    match kind {
        CollectiveKind::AllToAll => p * buffer * (1.0 - p / n).max(0.0),
        _ => bus_factor(kind, ranks) * buffer,
    }
}

/// Bytes that a tree carries over those of a ring.
fn tree_bytes(kind: CollectiveKind, ranks: u32) -> f64 {
    if kind == CollectiveKind::AllReduce { 2.0 / bus_factor(kind, ranks) } else { 1.0 }
}

/// Steps from node to node that follow one another. What every rank gets from every other goes in a ring, or at once.
fn steps(kind: CollectiveKind, algorithm: Algorithm, nodes: u32) -> f64 {
    let (around, deep) = (f64::from(nodes) - 1.0, f64::from(nodes.max(1)).log2());
    match (kind, algorithm) {
        (CollectiveKind::AllReduce, Algorithm::Ring) => 2.0 * around,
        (CollectiveKind::AllReduce, Algorithm::Tree) => 2.0 * deep,
        (CollectiveKind::AllGather | CollectiveKind::ReduceScatter, _)
        | (CollectiveKind::Broadcast | CollectiveKind::Reduce, Algorithm::Ring) => around,
        (CollectiveKind::SendRecv, _) => 1.0,
        _ => deep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::movement_work;
    use crate::cost::work::Family;
    use crate::device::Links;

    const KINDS: [CollectiveKind; 5] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllToAll,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Broadcast,
    ];

    #[test]
    fn inside_a_node_a_collective_takes_what_its_bytes_take_at_the_rate_of_the_link() {
        let links = Links::builtin().unwrap();
        let work = |kind, bytes| Work {
            shape: Shape::Collective { kind, ranks: 8 },
            ..movement_work(Family::Collective, bytes, bytes)
        };
        let exchange = work(CollectiveKind::AllToAll, 24 << 20);
        let least = Topology::flat(links.find("NVLink2").unwrap()).least(&exchange).secs();
        assert!((least - (24 << 20) as f64 * 7.0 / 8.0 / 150e9).abs() < 1e-8, "{least}");
        assert_eq!(Topology::flat(links.find("Ethernet-100G").unwrap()).least(&exchange), DurNs::ZERO);
    }

    #[test]
    fn a_group_inside_a_node_does_not_see_what_is_between() {
        let links = Links::builtin().unwrap();
        let (inside, between) = (links.find("NVLink2").unwrap(), links.find("Ethernet-100G"));
        let nodes = Topology { between, per_node: 8, ..Topology::flat(inside) };
        for kind in KINDS {
            assert_eq!(nodes.time(kind, 1 << 24, 8), collective_time(kind, 1 << 24, 8, inside));
        }
    }

    #[test]
    fn a_link_that_nobody_measured_or_that_differs_from_machine_to_machine_says_so() {
        let links = Links::builtin().unwrap();
        let told = |name: &str| doubt(links.find(name).unwrap(), 8);
        assert!(told("Ethernet-100G").is_some_and(|text| text.contains("was measured: taken from others")));
        assert!(told("NVLink1").is_some_and(|text| text.contains("NVLink 1 of P100 nodes was measured")));
        assert!(told("InfiniBand-HDR").is_some_and(|text| text.contains("as on the machine where it was measured")));
        assert_eq!(told("NVLink3"), None);
    }

    #[test]
    fn more_nodes_slower_links_and_larger_messages_are_never_faster() {
        let links = Links::builtin().unwrap();
        let inside = links.find("NVLink2").unwrap();
        let time = |between: &str, kind, bytes, ranks| {
            Topology { between: links.find(between), per_node: 8, ..Topology::flat(inside) }.time(kind, bytes, ranks).us
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
    fn a_link_that_nobody_measured_is_no_faster_than_one_that_carries_more_and_was() {
        let links = Links::builtin().unwrap();
        let time =
            |link: &str, kind, bytes, ranks| Topology::flat(links.find(link).unwrap()).time(kind, bytes, ranks).us;
        for kind in KINDS {
            for ranks in [2, 3, 4, 8] {
                for bytes in [1, 1 << 10, 1 << 18, 1 << 28] {
                    let (old, new) = (time("NVLink1", kind, bytes, ranks), time("NVLink2", kind, bytes, ranks));
                    assert!(old >= new, "{kind:?} of {bytes} B among {ranks}: {old} {new}");
                }
            }
        }
    }

    fn link(gb_s: f64, latency_us: f64, ports: u32) -> LinkProfile {
        let other = Links::builtin().unwrap().find("Ethernet-10G").unwrap().clone();
        LinkProfile { gb_s, latency_us, ports, between_nodes: true, curves: Vec::new(), ..other }
    }

    /// 96 MB on two nodes of 8 devices; a port reaches 7.5 of its 10 GB/s and takes 10 µs from one node to the other.
    #[test]
    fn every_collective_over_two_nodes_is_what_goes_over_the_ports() {
        use CollectiveKind::{AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce, ReduceScatter, SendRecv};
        let (inside, own, shared) = (link(4_000.0, 0.1, 0), link(10.0, 10.0, 0), link(10.0, 10.0, 4));
        let expected = [
            // 2·15/16·96 MB = 180 MB on 8 ports: 22.5 MB each, to the other node and back.
            (AllReduce, 96_000_000, 3_020.0, 6_020.0),
            // A rank's sixteenth of 96 MB; 15/16·96 MB = 90 MB on 8 ports.
            (AllGather, 6_000_000, 1_510.0, 3_010.0),
            (ReduceScatter, 96_000_000, 1_510.0, 3_010.0),
            // Half of each device's 96 MB leaves the node: 48 MB on a port.
            (AllToAll, 96_000_000, 6_410.0, 12_810.0),
            (Broadcast, 96_000_000, 1_610.0, 3_210.0),
            (Reduce, 96_000_000, 1_610.0, 3_210.0),
            // One sender, one port.
            (SendRecv, 96_000_000, 12_810.0, 12_810.0),
            (Barrier, 0, 10.0, 10.0),
        ];
        for (kind, message, with_own, with_four) in expected {
            for (between, expected) in [(&own, with_own), (&shared, with_four)] {
                let time =
                    Topology { between: Some(between), per_node: 8, ..Topology::flat(&inside) }.time(kind, message, 16);
                assert!((time.us - expected).abs() < 0.5, "{kind:?}: {} for {expected}", time.us);
            }
        }
    }

    #[test]
    fn between_nodes_is_never_faster_than_inside_one() {
        let links = Links::builtin().unwrap();
        let kinds = KINDS.into_iter().chain([CollectiveKind::Reduce, CollectiveKind::SendRecv]);
        for kind in kinds {
            for inside in links.iter().filter(|link| !link.between_nodes) {
                for between in links.iter().filter(|link| link.between_nodes) {
                    let nodes = Topology { between: Some(between), per_node: 8, ..Topology::flat(inside) };
                    for (ranks, exponent) in [16, 24, 128].into_iter().flat_map(|n| (0..31).map(move |e| (n, e))) {
                        let (over, within) = (nodes.time(kind, 1 << exponent, ranks), Topology::flat(inside));
                        assert!(over.us >= within.time(kind, 1 << exponent, ranks).us, "{kind:?} {}", inside.id);
                        assert!(exponent == 0 || over.us >= nodes.time(kind, 1 << (exponent - 1), ranks).us - 1e-9);
                    }
                }
            }
        }
    }

    /// What is gathered is half of what is reduced and gathered: where only the all-reduce was measured between nodes, it tells.
    #[test]
    fn collectives_that_were_not_measured_between_nodes_take_what_an_all_reduce_of_as_many_bytes_takes() {
        let links = Links::builtin().unwrap();
        let (inside, between) = (links.find("NVLink3").unwrap(), links.find("InfiniBand-HDR"));
        let nodes = Topology { between, per_node: 8, ..Topology::flat(inside) };
        let half = nodes.time(CollectiveKind::AllReduce, 32 << 20, 16);
        let gathered = nodes.time(CollectiveKind::AllGather, 4 << 20, 16);
        assert!((gathered.us / half.us - 1.0).abs() < 1e-9, "{gathered:?} {half:?}");
    }

    fn at(between: &str, (per_node, ports): (u32, Option<u32>), exponent: u32, ranks: u32) -> f64 {
        let links = Links::builtin().unwrap();
        let inside = links.find("NVLink3").unwrap();
        let nodes = Topology { between: links.find(between), per_node, ports, ..Topology::flat(inside) };
        nodes.time(CollectiveKind::AllReduce, 1 << exponent, ranks).us
    }

    /// Vidur's two nodes of A100, 64 MiB: 7 193 µs among 8 devices each, 11 439 µs with one each.
    #[test]
    fn what_was_measured_between_nodes_stands() {
        assert!((at("InfiniBand-HDR", (8, None), 26, 16) / 7_193.0 - 1.0).abs() < 0.03);
        assert!((at("InfiniBand-HDR", (1, None), 26, 2) / 11_439.0 - 1.0).abs() < 0.03);
    }

    #[test]
    fn links_between_nodes_are_ordered_by_what_they_carry_in_every_layout() {
        let names = ["Ethernet-10G", "Ethernet-100G", "InfiniBand-HDR", "InfiniBand-NDR"];
        for (layout, exponent) in [(8, None), (8, Some(8)), (4, None), (1, None), (2, Some(2))]
            .into_iter()
            .flat_map(|layout| (6..32).map(move |exponent| (layout, exponent)))
        {
            for ranks in [16, 24, 256] {
                let times = names.map(|name| at(name, layout, exponent, ranks));
                assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{layout:?} 2^{exponent} {ranks}: {times:?}");
                let more = at("InfiniBand-HDR", (layout.0, Some(2)), exponent, ranks);
                assert!(at("InfiniBand-HDR", (layout.0, Some(1)), exponent, ranks) >= more, "more ports are no slower");
            }
        }
        let devices = [1, 2, 4, 8].map(|devices| at("InfiniBand-HDR", (devices, None), 26, 16));
        assert!(devices.windows(2).all(|pair| (pair[0] / pair[1] - 1.0).abs() > 0.01), "{devices:?}");
    }

    #[test]
    fn more_ranks_on_the_same_links_are_never_faster() {
        let links = Links::builtin().unwrap();
        let between = links.find("InfiniBand-HDR");
        for (inside, kind) in links.iter().flat_map(|link| KINDS.map(|kind| (link, kind))) {
            for (per_node, exponent) in [1, 4, 8].into_iter().flat_map(|p| (8..31).map(move |e| (p, e))) {
                let between = between.filter(|_| !inside.between_nodes);
                let nodes = Topology { per_node, ..Topology::flat(inside) };
                let nodes = Topology { between: between.or(nodes.between), ..nodes };
                let ranks = [2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 32, 64, 65, 128];
                let times = ranks.map(|ranks| nodes.time(kind, 1 << exponent, ranks).us);
                let rises = times.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9));
                assert!(rises, "{} {kind:?} {per_node} 2^{exponent}: {times:?}", inside.id);
            }
        }
    }

    #[test]
    fn a_tree_takes_fewer_steps_and_a_ring_fewer_bytes() {
        let links = Links::builtin().unwrap();
        let (inside, between) = (links.find("NVLink3").unwrap(), links.find("InfiniBand-HDR"));
        let by = |algorithm, exponent: u32| {
            let nodes = Topology { between, per_node: 8, algorithm, ..Topology::flat(inside) };
            nodes.time(CollectiveKind::AllReduce, 1 << exponent, 512).us
        };
        assert!(by(Some(Algorithm::Tree), 12) < by(Some(Algorithm::Ring), 12));
        assert!(by(Some(Algorithm::Ring), 12) - by(Some(Algorithm::Tree), 12) > 100.0 * 15.0, "126 steps against 12");
        assert!(by(Some(Algorithm::Ring), 34) < by(Some(Algorithm::Tree), 34));
        assert!((by(None, 12) - by(Some(Algorithm::Tree), 12)).abs() < 1e-9, "the faster where nothing is said");
    }

    #[test]
    fn what_a_collective_of_unknown_group_takes_is_not_known() {
        let links = Links::builtin().unwrap();
        let flat = Topology::flat(links.find("NVLink3").unwrap());
        let work = |ranks| Work {
            shape: Shape::Collective { kind: CollectiveKind::AllReduce, ranks },
            ..movement_work(Family::Collective, 1 << 20, 1 << 20)
        };
        assert!(flat.transfer(&work(0)).is_none() && flat.transfer(&work(1)).is_none());
        assert!(flat.transfer(&work(8)).is_some());
    }
}
