//! `scale-ranks N`, `bucket-size SIZE`: the collectives of data-parallel ranks among more ranks, or in other sizes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::topology::{self, Algorithm, COMMON_BETWEEN_NODES, COMMON_NODE};
use crate::cost::{CollectiveKind, Shape, Work};
use crate::device::LinkProfile;
use crate::graph::{CollectiveId, Phase, TaskKind};
use crate::intern::NameId;
use crate::scenario::context::Context;
use crate::scenario::draft::{Combine, Draft, Layout, Node, SharedStates};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{Bytes, DurNs};

use super::report::{count, in_step, survey};
use super::swap_link::{collectives, note_waiting, untouched};

/// Runs data parallel on another number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScaleRanks {
    /// Ranks of each process group that now spans all.
    ranks: u32,
    /// Between nodes, as written; else a common one.
    link: Option<String>,
    /// Ranks of a node; else as many as the link inside one joins.
    per_node: Option<u32>,
    /// Ports of a node to others; else as the link says.
    ports: Option<u32>,
    /// How collectives go from node to node; else the faster.
    algorithm: Option<Algorithm>,
}

/// Regroups the all-reduces of gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BucketSize {
    /// Size of a bucket in MiB.
    mib: f64,
}

/// Numbers of ranks.
const COUNT: Kind = Kind::Whole(1, 65_536);

pub(super) const RANKS: Grammar = Grammar {
    name: "scale-ranks",
    help: "re-costs the collectives of data-parallel groups for N ranks each, every rank with the traced batch, on nodes joined by LINK",
    example: "scale-ranks 16",
    forms: &[Form {
        arguments: &[
            Argument::new("N", "the number of ranks", COUNT),
            Argument::new("LINK", "the name of an interconnect, e.g. NVLink4", Kind::Link).optional(),
            Argument::new("PER-NODE", "the number of ranks of a node", COUNT).optional(),
            Argument::new("NICS", "the number of network ports of a node", COUNT).optional(),
            Argument::new("ALGORITHM", "ring or tree", Kind::Choice("algorithm", &["ring", "tree"])).optional(),
        ],
        build: |given| {
            let algorithm: Option<usize> = given.get(4)?;
            let algorithm = algorithm.and_then(|at| [Algorithm::Ring, Algorithm::Tree].get(at).copied());
            let (ranks, link, per_node, ports) = (given.get(0)?, given.get(1)?, given.get(2)?, given.get(3)?);
            Some(Arc::new(ScaleRanks { ranks, link, per_node, ports, algorithm }))
        },
    }],
    knobs: &[Knob {
        name: "ranks",
        help: "data-parallel ranks",
        unit: "ranks",
        line: "scale-ranks 1",
        argument: 0,
        range: "2..1024",
    }],
};

pub(super) const BUCKET: Grammar = Grammar {
    name: "bucket-size",
    help: "regroups the all-reduces of gradients into buckets of MIB mebibytes",
    example: "bucket-size 100",
    forms: &[Form {
        arguments: &[Argument::new("MIB", "a size in MiB", Kind::Number(1e-3, 1e6))],
        build: |given| Some(Arc::new(BucketSize { mib: given.get(0)? })),
    }],
    knobs: &[Knob {
        name: "bucket",
        help: "MiB of a bucket of gradients",
        unit: "MiB",
        line: "bucket-size 1",
        argument: 0,
        range: "1..256",
    }],
};

impl Transform for ScaleRanks {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let links = context.models.links();
        let link = self.link.as_ref().map(|name| links.find(name).cloned().ok_or(name)).transpose();
        let link = match link {
            Ok(link) => link,
            Err(name) => {
                let known: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
                return StepReport::impossible(format!(
                    "unknown interconnect `{name}`: known are {}",
                    known.join(", ")
                ));
            }
        };
        let sharing = Sharing::of(draft);
        let is_meant = |draft: &Draft<'_>, node| draft.role(node).is_data_parallel();
        let groups: Vec<(Node, u32)> = groups(draft).into_iter().filter(|&(node, _)| is_meant(draft, node)).collect();
        let before = groups.iter().map(|&(_, ranks)| ranks).max().unwrap_or(0);
        let times = |draft: &Draft<'_>| -> BTreeMap<Node, DurNs> {
            let others = collectives(draft).into_iter().filter(|&node| !is_meant(draft, node));
            others.map(|node| (node, draft.price_of(node).duration)).collect()
        };
        let before_nodes = times(draft);
        if link.is_some() || self.per_node.is_some() {
            let algorithm = self.algorithm;
            draft.set_layout(Layout { link: link.clone(), devices: self.per_node, ports: self.ports, algorithm });
        }
        let others = self::groups(draft).into_iter().filter(|&(node, _)| !is_meant(draft, node));
        let most = others.map(|(_, ranks)| ranks).max().unwrap_or(0);
        let joins = draft.join_nodes(most.max(if groups.is_empty() { 0 } else { self.ranks }));
        let is_there = !groups.is_empty() && groups.iter().all(|&(_, ranks)| ranks == self.ranks);
        if is_there && link.is_none() && self.per_node.is_none() {
            return StepReport::already(format!("{} ranks are there", self.ranks));
        }
        let regroups = groups.iter().any(|&(_, ranks)| ranks > 1 && ranks != self.ranks);
        let mut report = if groups.is_empty() && (link.is_some() || self.per_node.is_some()) {
            StepReport {
                summary: "no collective of data-parallel ranks, others over these nodes".to_owned(),
                ..StepReport::default()
            }
        } else {
            self.regroup(draft, &groups)
        };
        // More ranks work on more samples, also where their collectives take as long as before.
        report.is_met = regroups;
        if regroups {
            // Each group grows alike: ranks that share out layers are there as often again.
            let all = draft.graph().job_size().max(before);
            draft.set_rank_count((u64::from(all) * u64::from(self.ranks) / u64::from(before.max(1))) as u32);
            let (shared, rule) = self.shared_states(draft.shared_states(), sharing);
            draft.set_shared_states(shared);
            report.summary = format!("{}; memory {rule}", report.summary);
        }
        if draft.layout().link.is_some() || draft.layout().devices.is_some() {
            let others = collectives(draft).into_iter().filter(|&node| !is_meant(draft, node)).collect::<Vec<_>>();
            let over_nodes = survey(draft, others, String::new());
            report.changed += over_nodes.changed;
            report.effects.extend(over_nodes.effects);
        }
        let over_nodes = times(draft);
        let is_moved = |node| over_nodes.get(&node) != before_nodes.get(&node);
        report.effects.extend(untouched(draft, |node| is_meant(draft, node) || is_moved(node)));
        let link = link.as_ref().or_else(|| draft.layout().link.as_ref().filter(|_| joins)).cloned();
        self.note_assumptions(draft, (before, link.as_ref()), &mut report);
        report
    }
}

/// The collectives whose group is known, with the ranks in it now.
fn groups(draft: &Draft<'_>) -> Vec<(Node, u32)> {
    let ranks = |&node: &Node| match draft.work_of(node)?.shape {
        Shape::Collective { ranks, .. } => Some((node, ranks)),
        _ => None,
    };
    collectives(draft).iter().filter_map(ranks).collect()
}

impl ScaleRanks {
    /// Runs each collective of `groups` among the new number of ranks; a rank by itself needs none.
    fn regroup(&self, draft: &mut Draft<'_>, groups: &[(Node, u32)]) -> StepReport {
        if groups.is_empty() {
            return StepReport::nothing("no collective of data-parallel ranks");
        }
        let nodes: Vec<Node> = groups.iter().map(|&(node, _)| node).collect();
        if self.ranks == 1 {
            for &node in &nodes {
                draft.take_out(node);
            }
            let summary = format!("{} of data-parallel ranks taken out", count(in_step(draft, &nodes), "collective"));
            return StepReport { changed: nodes.len(), summary, ..StepReport::default() };
        }
        for &(node, ranks) in groups.iter().filter(|&&(_, ranks)| ranks > 1 && ranks != self.ranks) {
            draft.change_work_of(node, |work| {
                let Shape::Collective { kind, .. } = work.shape else { return work.clone() };
                let message = message_among(kind, work.read, (ranks, self.ranks));
                let shape = Shape::Collective { kind, ranks: self.ranks };
                Work { shape, read: message, written: message, ..work.clone() }
            });
        }
        draft.follow_packed();
        let summary =
            format!("{} of data-parallel ranks among {}", count(in_step(draft, &nodes), "collective"), self.ranks);
        let mut report = survey(draft, nodes, summary);
        note_waiting(draft, &mut report);
        report
    }

    /// # Arguments
    /// `before`: the ranks of the largest group until now.
    fn note_assumptions(
        &self,
        draft: &Draft<'_>,
        (before, link): (u32, Option<&LinkProfile>),
        report: &mut StepReport,
    ) {
        let per_node = self.per_node.unwrap_or(COMMON_NODE);
        if let (Some(name), true) = (&self.link, self.ranks <= per_node) {
            let what = format!("{} ranks are in one node of {per_node}", self.ranks);
            report.say(Effect::note(format!("{what}: none goes over {name} (swap-link swaps what joins its devices)")));
        }
        if self.ranks > per_node && report.changed > 0 {
            if link.is_none() {
                let why = "nodes of 8 joined by InfiniBand-HDR are assumed: scale-ranks N LINK PER-NODE says otherwise";
                report.say(Effect::assumption(why));
            }
            if self.ports.is_none() && link.is_none_or(|link| link.ports == 1) {
                let why = "one network port a node is assumed: scale-ranks N LINK PER-NODE NICS says otherwise";
                report.say(Effect::assumption(why));
            }
            let link = link.or_else(|| draft.context().models.links().find(COMMON_BETWEEN_NODES));
            let doubt = link.and_then(|link| topology::doubt(link, self.ranks));
            report.effects.extend(doubt.map(Effect::assumption));
        }
        let traced = draft.graph().rank_count();
        if self.ranks < traced && report.changed > 0 {
            report.say(Effect::assumption(format!("all {traced} traced ranks stay, in collectives of {}", self.ranks)));
        } else if self.ranks > before && report.changed > 0 {
            report.say(Effect::assumption("the slowest of more ranks arrives later: that is not modelled"));
        }
    }
}

/// What a rank puts into a collective among `to` ranks, of which `message` was put into it among `from`: gathered parts are parts of
/// one whole.
fn message_among(kind: CollectiveKind, message: Bytes, (from, to): (u32, u32)) -> Bytes {
    match kind {
        CollectiveKind::AllGather => Bytes(message.0.saturating_mul(u64::from(from)).div_ceil(u64::from(to).max(1))),
        _ => message,
    }
}

/// How data-parallel ranks share out the states of parameters, as their collectives tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sharing {
    /// Ranks among which gradients are scattered in the backward pass.
    scattered: Option<u32>,
    /// Whether parameters are gathered in the passes, and not only after an update.
    gathered: bool,
}

impl Sharing {
    fn of(draft: &Draft<'_>) -> Self {
        let mut found = Self::default();
        for node in collectives(draft) {
            let Some(Shape::Collective { kind, ranks }) = draft.work_of(node).map(|work| work.shape.clone()) else {
                continue;
            };
            match (kind, draft.phase_of(node)) {
                // In a forward pass it adds up parts of tables that are cut by rows.
                (CollectiveKind::ReduceScatter, phase) if phase != Some(Phase::Forward) => {
                    found.scattered = Some(ranks);
                }
                (CollectiveKind::AllGather, phase) if phase != Some(Phase::Optimizer) => found.gathered = true,
                _ => {}
            }
        }
        found
    }
}

impl ScaleRanks {
    /// What a rank keeps of the states of parameters, and the rule that says so.
    fn shared_states(&self, now: SharedStates, sharing: Sharing) -> (SharedStates, &'static str) {
        let Some(ranks) = sharing.scattered.filter(|&ranks| ranks > 0) else {
            return (now, "as traced: every rank keeps all states (DDP: gradients are reduced, not scattered)");
        };
        let part = f64::from(ranks) / f64::from(self.ranks);
        let shared = SharedStates { gradients: now.gradients * part, optimizer: now.optimizer * part, ..now };
        if sharing.gathered {
            let shared = SharedStates { parameters: now.parameters * part, ..shared };
            return (shared, "by rank: parameters, gradients and optimizer state are shared out (FSDP, ZeRO-3)");
        }
        (shared, "by rank: gradients and optimizer state are shared out, parameters are not (ZeRO-2)")
    }
}

impl Transform for BucketSize {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let limit = (self.mib * 1_048_576.0) as u64;
        let mut buckets: Vec<Vec<Node>> = Vec::new();
        for reduces in &all_reduces(draft) {
            let mut filled = u64::MAX;
            for &(node, bytes) in reduces {
                if filled.saturating_add(bytes) > limit {
                    buckets.push(Vec::new());
                    filled = 0;
                }
                filled += bytes;
                if let Some(bucket) = buckets.last_mut() {
                    bucket.push(node);
                }
            }
        }
        let merged: Vec<&Vec<Node>> = buckets.iter().filter(|bucket| bucket.len() > 1).collect();
        if merged.is_empty() {
            let mut told = StepReport::nothing(
                "no two all-reduces of gradients of known size fit one bucket (splitting is not modelled)",
            );
            told.effects.extend(untouched(draft, |node| is_reduced_gradient(draft, node)));
            return told;
        }
        let effects = untouched(draft, |node| is_reduced_gradient(draft, node));
        let first: Vec<Node> = buckets.iter().filter_map(|bucket| bucket.first().copied()).collect();
        let (before, after) = (in_step(draft, &buckets.concat()), in_step(draft, &first));
        let summary = format!("{before} all-reduces of gradients → {after}");
        for bucket in &merged {
            // The bucket is complete when its last gradient is.
            let last_first: Vec<Node> = bucket.iter().rev().copied().collect();
            draft.merge_nodes(&last_first, Combine::Batch);
        }
        let changed = merged.iter().map(|bucket| bucket.len()).sum();
        StepReport { changed, summary, effects, ..StepReport::default() }
    }
}

/// Whether a task sums up gradients of data-parallel ranks.
fn is_reduced_gradient(draft: &Draft<'_>, node: Node) -> bool {
    let reduces = |work: &Work| matches!(work.shape, Shape::Collective { kind: CollectiveKind::AllReduce, .. });
    draft.work_of(node).is_some_and(reduces) && draft.reduces_gradients(node)
}

/// All-reduces of gradients of known size by rank, group and step, in an order that all ranks of a group share: that of the first one
/// loaded, whatever threads its reductions run on.
fn all_reduces(draft: &Draft<'_>) -> Vec<Vec<(Node, u64)>> {
    let (graph, within) = (draft.graph(), draft.base().iteration_tasks());
    let bytes = |node: Node| match draft.work_of(node) {
        Some(work) if is_reduced_gradient(draft, node) => work.read.0,
        _ => 0,
    };
    let of = |node: Node| match draft.kind_of(node) {
        TaskKind::Collective(id) => graph.collectives.get(id.0 as usize).map(|one| (id, one.group, one.group_size)),
        _ => None,
    };
    let mut found: BTreeMap<_, Vec<(Node, u64)>> = BTreeMap::new();
    for (lane, nodes) in draft.in_order(|node| of(node).is_some() && bytes(node) > 0) {
        for node in nodes {
            let Some((_, group, size)) = of(node) else { continue };
            let key = ((group, size, within[draft.beside(node).index()]), draft.rank_of(lane));
            found.entry(key).or_default().push((node, bytes(node)));
        }
    }
    let mut first: Option<((NameId, u32, bool), Vec<CollectiveId>)> = None;
    for (&(key, _), reduces) in &mut found {
        let id = |&(node, _): &(Node, u64)| of(node).map(|(id, _, _)| id).unwrap_or_default();
        match &first {
            Some((of, order)) if *of == key => {
                let place: FxHashMap<CollectiveId, usize> =
                    order.iter().enumerate().map(|(place, &id)| (id, place)).collect();
                reduces.sort_by_key(|reduce| place.get(&id(reduce)).copied().unwrap_or(usize::MAX));
            }
            _ => {
                // Lanes are in their own order already; those of one rank are joined by when their tasks ran.
                let is_one_lane = reduces.windows(2).all(|two| draft.lane_of(two[0].0) == draft.lane_of(two[1].0));
                if !is_one_lane {
                    reduces.sort_by_key(|&(node, _)| graph.tasks[draft.beside(node)].measured_start);
                }
                first = Some((key, reduces.iter().map(id).collect()));
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_ranks_share_out_shrink_with_more_of_them_and_whole_copies_do_not() {
        let eight = ScaleRanks { ranks: 8, link: None, per_node: None, ports: None, algorithm: None };
        let of = |scattered, gathered| eight.shared_states(SharedStates::default(), Sharing { scattered, gathered });
        let (copies, rule) = of(None, true);
        assert_eq!(copies, SharedStates::default());
        assert!(rule.contains("DDP"));
        let (all, rule) = of(Some(2), true);
        assert_eq!(all, SharedStates { parameters: 0.25, gradients: 0.25, optimizer: 0.25 });
        assert!(rule.contains("ZeRO-3"));
        let (some, rule) = of(Some(2), false);
        assert_eq!(some, SharedStates { parameters: 1.0, gradients: 0.25, optimizer: 0.25 });
        assert!(rule.contains("ZeRO-2"));
        let again = ScaleRanks { ranks: 16, link: None, per_node: None, ports: None, algorithm: None };
        let twice = again.shared_states(all, Sharing { scattered: Some(8), gathered: true }).0;
        assert_eq!(twice.parameters.to_bits(), 0.125_f64.to_bits());
    }
}
