//! `compress-comm RATIO`, `scale-ranks N`, `bucket-size SIZE`: the same collectives with fewer bytes, more ranks, or other sizes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::topology::{self, COMMON_NODE};
use crate::cost::{CollectiveKind, Shape, Work};
use crate::graph::{LaneId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Combine, Draft, Layout, Node, SharedStates};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::Bytes;

use super::report::{Kept, SIZELESS, count, is_sizeless, survey};
use super::swap_link::{collectives, note_waiting};

/// Sends gradients in fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CompressComm {
    /// Bytes before over bytes after.
    ratio: f64,
}

/// Runs data parallel on another number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScaleRanks {
    /// Ranks of each process group that now spans all.
    ranks: u32,
    /// Between nodes, as written; else a common one.
    link: Option<String>,
    /// Ranks of a node; else as many as the link inside one joins.
    per_node: Option<u32>,
}

/// Regroups the all-reduces of gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BucketSize {
    /// Size of a bucket in MiB.
    mib: f64,
}

pub(super) const COMPRESS: Grammar = Grammar {
    name: "compress-comm",
    help: "all-reduces send RATIO times fewer bytes; the time to compress is not added",
    example: "compress-comm 2",
    forms: &[Form {
        arguments: &[Argument::new("RATIO", "RATIO", Kind::Ratio(1.0, 1e4))],
        build: |given| Some(Arc::new(CompressComm { ratio: given.get(0)? })),
    }],
    knobs: &[],
};

/// Numbers of ranks.
const COUNT: Kind = Kind::Whole(1, 65_536);

pub(super) const RANKS: Grammar = Grammar {
    name: "scale-ranks",
    help: "re-costs collectives for N data-parallel ranks, each with the traced batch, on nodes joined by LINK",
    example: "scale-ranks 16",
    forms: &[Form {
        arguments: &[
            Argument::new("N", "the number of ranks", COUNT),
            Argument::new("LINK", "the name of an interconnect, e.g. NVLink4", Kind::Link).optional(),
            Argument::new("PER-NODE", "the number of ranks of a node", COUNT).optional(),
        ],
        build: |given| {
            Some(Arc::new(ScaleRanks { ranks: given.get(0)?, link: given.get(1)?, per_node: given.get(2)? }))
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

impl Transform for CompressComm {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        if (self.ratio - 1.0).abs() < f64::EPSILON {
            return StepReport::already("as many bytes as there are");
        }
        let reduces = |kind| matches!(kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
        rework(draft, "with fewer bytes", |work, kind, _| {
            let bytes = |bytes: Bytes| Bytes((bytes.0 as f64 / self.ratio).round() as u64);
            reduces(kind).then(|| Work { read: bytes(work.read), written: bytes(work.written), ..work.clone() })
        })
    }
}

impl Transform for ScaleRanks {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let links = context.models.links();
        let link = self.link.as_ref().map(|name| links.find(name).cloned().ok_or(name)).transpose();
        let link = match link {
            Ok(link) => link,
            Err(name) => {
                let known: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
                return StepReport::nothing(format!("unknown interconnect `{name}`: known are {}", known.join(", ")));
            }
        };
        if link.is_some() || self.per_node.is_some() {
            draft.set_layout(Layout { link: link.clone(), devices: self.per_node });
        }
        let sharing = Sharing::of(draft);
        let mut report = rework(draft, "among other ranks", |work, kind, ranks| {
            let data_parallel = !matches!(kind, CollectiveKind::SendRecv | CollectiveKind::AllToAll);
            let shape = Shape::Collective { kind, ranks: self.ranks };
            (data_parallel && ranks != self.ranks).then(|| Work { shape, ..work.clone() })
        });
        if report.changed == 0 {
            return report;
        }
        draft.set_rank_count(self.ranks);
        let (shared, rule) = self.shared_states(draft.shared_states(), sharing);
        draft.set_shared_states(shared);
        report.summary = format!("{}; memory {rule}", report.summary);
        let traced = draft.graph().rank_count();
        let per_node = self.per_node.unwrap_or(COMMON_NODE);
        if self.ranks > per_node && link.is_none() {
            let why = "nodes of 8 joined by InfiniBand-HDR are assumed: scale-ranks N LINK PER-NODE says otherwise";
            report.say(Effect::assumption(why));
        }
        if self.ranks > per_node {
            report.effects.extend(link.as_ref().and_then(topology::unmeasured).map(Effect::assumption));
        }
        if self.ranks < traced {
            let text = format!("all {traced} traced ranks stay, in collectives of {}", self.ranks);
            report.say(Effect::assumption(text));
        } else if self.ranks > traced {
            report.say(Effect::assumption("the slowest of more ranks arrives later: that is not modelled"));
        }
        report
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

/// Changes the work of collectives to what `change` makes of it.
fn rework(
    draft: &mut Draft<'_>,
    what: &str,
    change: impl Fn(&Work, CollectiveKind, u32) -> Option<Work>,
) -> StepReport {
    let (mut changed, mut unknown) = (Vec::new(), Kept::default());
    for node in collectives(draft) {
        let Some(work) = draft.work_of(node) else { continue };
        let Shape::Collective { kind, ranks } = work.shape else { continue };
        let Some(new) = change(work, kind, ranks) else { continue };
        if is_sizeless(work) {
            unknown.add(draft, node, draft.price_of(node).duration);
        } else {
            changed.push((node, new));
        }
    }
    let mut told = StepReport::default();
    unknown.list(&mut told, SIZELESS);
    if changed.is_empty() {
        told.effects.insert(0, Effect::none("no collective that this changes has a known size"));
        return told;
    }
    let nodes: Vec<Node> = changed.iter().map(|&(node, _)| node).collect();
    for (node, new) in changed {
        draft.set_work_of(node, new);
    }
    let summary = format!("{} {what}", count(nodes.len(), "collective"));
    let mut report = survey(draft, nodes, summary);
    report.effects.extend(told.effects);
    note_waiting(draft, &mut report);
    report
}

impl Transform for BucketSize {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let limit = (self.mib * 1_048_576.0) as u64;
        let mut before = 0;
        let mut buckets: Vec<Vec<Node>> = Vec::new();
        for reduces in all_reduces(draft).values() {
            before += reduces.len();
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
            return StepReport::nothing("no two all-reduces of known size fit one bucket (splitting is not modelled)");
        }
        for bucket in &merged {
            // The bucket is complete when its last gradient is.
            let last_first: Vec<Node> = bucket.iter().rev().copied().collect();
            draft.merge_nodes(&last_first, Combine::Batch);
        }
        let summary = format!("{before} all-reduces → {}", buckets.len());
        StepReport { changed: merged.iter().map(|bucket| bucket.len()).sum(), summary, ..StepReport::default() }
    }
}

/// All-reduces of known size by lane and step, in order.
fn all_reduces(draft: &Draft<'_>) -> BTreeMap<(LaneId, bool), Vec<(Node, u64)>> {
    let within = draft.base().iteration_tasks();
    let bytes = |node: Node| match draft.work_of(node) {
        Some(Work { shape: Shape::Collective { kind: CollectiveKind::AllReduce, .. }, read, .. }) => read.0,
        _ => 0,
    };
    let reduces = |node: Node| matches!(draft.kind_of(node), TaskKind::Collective(_)) && bytes(node) > 0;
    let mut found: BTreeMap<_, Vec<(Node, u64)>> = BTreeMap::new();
    for (lane, nodes) in draft.in_order(reduces) {
        for node in nodes {
            let key = (lane, within[draft.beside(node).index()]);
            found.entry(key).or_default().push((node, bytes(node)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_ranks_share_out_shrink_with_more_of_them_and_whole_copies_do_not() {
        let eight = ScaleRanks { ranks: 8, link: None, per_node: None };
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
        let again = ScaleRanks { ranks: 16, link: None, per_node: None };
        let twice = again.shared_states(all, Sharing { scattered: Some(8), gathered: true }).0;
        assert_eq!(twice.parameters.to_bits(), 0.125_f64.to_bits());
    }
}
