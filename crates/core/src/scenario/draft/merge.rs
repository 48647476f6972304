//! Tasks that do the work of several at once.

use crate::cost::roofline::LeastTimes;
use crate::cost::{Prediction, Provenance, Shape, Work};
use crate::device::{DeviceKind, DeviceProfile};
use crate::graph::NodeId;
use crate::units::{Bytes, DurNs, Flop, total};

use super::{Draft, Node};

/// What a task does besides its own work.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    /// All whose work it does, itself included.
    pub(super) members: Vec<NodeId>,
    /// The class of its own share.
    pub(super) own: u32,
    /// How their works add up.
    pub(super) combine: Combine,
}

/// How pieces of work become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Side by side: everything adds up.
    Batch,
    /// One after another on the same data: what one writes and the next reads stays on the chip.
    Chain,
    /// All passes of an update: parameters, gradients and state are read once, parameters and state written once.
    Update(Passes),
}

/// What all passes of an update read and write together, and each on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// Read by one kernel that does them all.
    pub read: Bytes,
    /// Written by it.
    pub written: Bytes,
    /// Read and written by the passes as they were traced, one by one.
    pub apart: Bytes,
}

impl Draft<'_> {
    /// Lets `kept` do the work of all `members`, itself among them, at once; the others have to be taken out besides.
    /// It takes their traced time, times the model's ratio of one large piece of work to the pieces.
    pub fn merge(&mut self, kept: NodeId, members: Vec<NodeId>) {
        self.merge_as(kept, members, Combine::Batch);
    }

    /// As [`merge`](Self::merge), with how the pieces of work add up.
    pub fn merge_as(&mut self, kept: NodeId, members: Vec<NodeId>, combine: Combine) {
        let rank = self.base.rank_index(self.graph().tasks[kept].lane);
        let traced: DurNs = members.iter().map(|&node| self.graph().tasks[node].duration).sum();
        let old: Option<Vec<Work>> = members.iter().map(|&node| self.traced_work(node).cloned()).collect();
        let merged = old.as_deref().and_then(|works| combine.work(works));
        let device = self.context.devices.get(rank).map(|device| device.profile.clone());
        let mean = traced.scale(1.0 / members.len().max(1) as f64);
        // What takes so little on a host, and has no work that is known, only describes tensors: once is enough.
        let describes = old.is_none() && self.context.host.is_some() && mean <= DESCRIPTION;
        let mut start = Prediction::measured(if describes { mean } else { traced });
        if let (Some(old), Some(merged), Some(device)) = (&old, merged, device) {
            start = self.instead_of(traced, old, &merged, &device).unwrap_or(start);
            if self.works.class_of.is_empty() {
                self.works.class_of.clone_from(&self.base.works().of_node);
            }
            let own = self.works.class_of[kept.index()];
            let class = self.new_class(merged.into());
            self.works.traced_as.insert(kept, class);
            self.works.member_of.extend(members.iter().map(|&member| (member, kept)));
            self.works.merged.insert(kept, Merge { members, own, combine });
            self.remerge(kept);
        }
        self.set_duration(kept, start);
    }

    /// `time` of the pieces `old`, times the model's ratio of `merged` to their sum.
    pub(super) fn instead_of(
        &self,
        time: DurNs,
        old: &[Work],
        merged: &Work,
        device: &DeviceProfile,
    ) -> Option<Prediction> {
        if !self.needs(Some(device)) {
            return None;
        }
        let estimate = |work: &Work| match (&self.context.host, device.kind) {
            (Some(host), DeviceKind::Cpu) => Some(host.estimate(work)),
            _ => self.context.models.estimate(work, device),
        };
        let before = old.iter().map(|work| Some(estimate(work)?.duration)).sum::<Option<DurNs>>();
        let (before, after) = (before.filter(|before| before.0 > 0)?, estimate(merged)?);
        let changed = time.scale(after.duration.0 as f64 / before.0 as f64);
        Some(Prediction {
            duration: LeastTimes::of_merged(old, merged, device).hold(time, changed),
            provenance: Provenance::Anchored,
            model: after.model,
            error: after.error,
            extrapolated: after.extrapolated,
        })
    }

    /// What a task has to do now; where it does the work of others at once, its own share of that.
    pub fn share_of(&self, node: NodeId) -> Option<&Work> {
        match self.works.merged.get(&node) {
            Some(merge) => self.class_at(merge.own)?.work.as_deref(),
            None => self.work(node),
        }
    }

    /// Changes the work of a task; where it does that of others at once, of each.
    pub fn change_work_of(&mut self, node: Node, change: impl Fn(&Work) -> Work) {
        let Node::Traced(kept) = node else { return self.change_own(node, change) };
        let Some(Merge { members, own, .. }) = self.works.merged.get(&kept) else {
            return self.change_own(node, change);
        };
        let class = |&member: &NodeId| if member == kept { *own } else { self.works.class_of[member.index()] };
        let now = |member: &NodeId| Some((*member, change(self.class_at(class(member))?.work.as_deref()?)));
        let works: Vec<(NodeId, Work)> = members.iter().filter_map(now).collect();
        for (member, work) in works {
            self.set_work(member, work);
        }
    }

    fn change_own(&mut self, node: Node, change: impl Fn(&Work) -> Work) {
        if let Some(work) = self.work_of(node).map(change) {
            self.set_work_of(node, work);
        }
    }

    /// Works out anew what a merged task does, after the work of its members changed.
    pub(super) fn remerge(&mut self, kept: NodeId) {
        let Some(Merge { members, own, combine, .. }) = self.works.merged.get(&kept) else { return };
        let class = |&node: &NodeId| if node == kept { *own } else { self.works.class_of[node.index()] };
        let work = |node| self.class_at(class(node))?.work.as_deref().cloned();
        let works: Option<Vec<Work>> = members.iter().map(work).collect();
        if let Some(work) = works.as_deref().and_then(|works| combine.work(works)) {
            self.works.class_of[kept.index()] = self.new_class(work.into());
        }
    }
}

impl Combine {
    pub(super) fn work(self, works: &[Work]) -> Option<Work> {
        match self {
            Self::Batch => merged_work(works),
            Self::Chain => works.iter().cloned().reduce(|first, next| first.fused_with(&next)),
            Self::Update(passes) => merged_work(works).map(|all| passes.of(all)),
        }
    }
}

impl Passes {
    /// The update `apart`, of the passes as they are now, by one kernel: its bytes change as theirs do.
    fn of(self, apart: Work) -> Work {
        let now = apart.bytes().0 as f64 / self.apart.0.max(1) as f64;
        let bytes = |traced: Bytes| Bytes((traced.0 as f64 * now).round() as u64);
        Work { read: bytes(self.read), written: bytes(self.written), ..apart }
    }
}

/// What `works` are together when one kernel does them all: the sum, over more tables, rows or elements.
fn merged_work(works: &[Work]) -> Option<Work> {
    let first = works.first()?;
    let shape = match &first.shape {
        &Shape::Embedding { batch, dim, backward, ref reuse, .. } => {
            let of_each = |work: &Work| match work.shape {
                Shape::Embedding { rows, tables, pooling, .. } => (tables, rows, pooling),
                _ => (1, 0, 0.0),
            };
            let tables = total(works.iter().map(|work| of_each(work).0));
            // All tables of the batched lookup count as large, and as much looked up in, as they are on average.
            let mean = |value: fn((u64, u64, f64)) -> f64| {
                let weighted = |work: &Work| of_each(work).0 as f64 * value(of_each(work));
                works.iter().map(weighted).sum::<f64>() / tables.max(1) as f64
            };
            let (rows, pooling, reuse) = (mean(|(_, rows, _)| rows as f64), mean(|it| it.2), reuse.clone());
            Shape::Embedding { batch, rows: rows.round() as u64, tables, pooling, dim, backward, reuse }
        }
        &Shape::Rows { rows, width } => Shape::Rows { rows: rows.saturating_mul(works.len() as u64), width },
        &Shape::Picked { rows, width, picking } => {
            Shape::Picked { rows: rows.saturating_mul(works.len() as u64), width, picking }
        }
        &Shape::Columns { rows, columns } => {
            Shape::Columns { rows, columns: columns.saturating_mul(works.len() as u64) }
        }
        &Shape::Channels { images, channels, area } => {
            Shape::Channels { images, channels: channels.saturating_mul(works.len() as u64), area }
        }
        &Shape::Strided { elements } => Shape::Strided { elements: elements.saturating_mul(works.len() as u64) },
        &Shape::Tiled { elements } => Shape::Tiled { elements: elements.saturating_mul(works.len() as u64) },
        other => other.clone(),
    };
    Some(Work {
        family: first.family,
        flop: Flop(works.iter().map(|work| work.flop.0).sum()),
        read: works.iter().map(|work| work.read).sum(),
        written: works.iter().map(|work| work.written).sum(),
        precision: first.precision,
        shape,
    })
}

/// Longest host computation without known work that is taken to describe tensors only.
const DESCRIPTION: DurNs = DurNs(5_000);
