//! Added tasks whose work or device changes: what they do follows from other tasks or operators, and so does their time.

use std::sync::Arc;

use crate::cost::{Placed, Prediction, Provenance, Work};
use crate::device::{DeviceProfile, LinkProfile};
use crate::graph::{NodeId, OperatorId, TaskKind};
use crate::units::DurNs;

use super::price::Repricing;
use super::{AddedId, Combine, Draft, Node};

/// What the work of an added task follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Source {
    /// Nothing: it is what it was said to be.
    #[default]
    Given,
    /// The kernel of that number among those that its operator would launch.
    Planned(u16),
    /// The kernel of that number of the named operator, on the arguments of a traced one.
    Like(Arc<str>, OperatorId, u16),
    /// A task that it repeats.
    Repeats(Node),
    /// Tasks whose work it does at once.
    Merges(Vec<Node>, Combine),
}

impl From<NodeId> for Node {
    fn from(node: NodeId) -> Self {
        Self::Traced(node)
    }
}

impl Draft<'_> {
    /// Takes what a task takes to be `prediction` from here on.
    pub fn set_price(&mut self, node: Node, prediction: Prediction) {
        match node {
            Node::Traced(node) => self.set_duration(node, prediction),
            Node::Added(AddedId(id)) => self.added[id as usize].prediction = prediction,
        }
    }

    /// Changes the work of one task alone; an added one's time changes by the model's ratio.
    pub fn set_work_of(&mut self, node: Node, work: impl Into<Arc<Work>>) {
        let id = match node {
            Node::Traced(node) => return self.set_work(node, work),
            Node::Added(AddedId(id)) => id as usize,
        };
        let (added, work) = (&self.added[id], work.into());
        let rank = self.rank_of(added.lane);
        let moved = match (added.work.as_deref(), added.kind) {
            (Some(old), _) if *old == *work => return,
            (Some(old), TaskKind::Collective(_)) => self.over_own_link(old, &work, rank),
            (old, kind) => self.by_work(kind, (old, Some(&work)), rank),
        };
        let prediction = moved.apply(added.prediction);
        let added = &mut self.added[id];
        (added.work, added.prediction) = (Some(work), prediction);
    }

    /// Another work on the device that a rank is on now.
    fn by_work(&self, kind: TaskKind, (old, new): (Option<&Work>, Option<&Work>), rank: usize) -> Repricing {
        if let (TaskKind::Compute, Some(host)) = (kind, &self.context.host) {
            return super::price::on_host(host, old, new);
        }
        let Some(device) = self.device(rank) else { return Repricing::Kept };
        let (before, after) = (Placed { work: old, device }, Placed { work: new, device });
        Repricing::of(self.context.models.predict(Some(super::price::UNIT), before, after))
    }

    fn over_own_link(&self, old: &Work, new: &Work, rank: usize) -> Repricing {
        let link = self.link_of(rank).cloned();
        link.map_or(Repricing::Kept, |link| self.over(old, new, (&link, &link)))
    }

    fn over(&self, old: &Work, new: &Work, (before, after): (&LinkProfile, &LinkProfile)) -> Repricing {
        let (before, after) = (self.topology(before, &self.layout), self.topology(after, &self.layout));
        Repricing::of(self.context.models.predict_over(super::price::UNIT, (old, before), (new, after)))
    }

    /// The link that a rank's collectives run over now, where it is known.
    fn link_of(&self, rank: usize) -> Option<&LinkProfile> {
        let own = || self.context.models.links().of_device(&self.device(rank)?.id);
        self.interconnect.as_ref().or_else(own)
    }

    /// Re-prices the added device work of a rank for another device, its collectives for that device's link.
    pub(super) fn move_added(&mut self, rank: usize, to: &DeviceProfile) {
        let from = self.devices[rank].clone();
        let link = self.context.models.links().of_device(&to.id).filter(|_| self.interconnect.is_none()).cloned();
        for id in 0..self.added.len() {
            let added = &self.added[id];
            let here = self.base.rank_of(added.lane, &self.lanes) == rank;
            let Some(work) = added.work.as_deref().filter(|_| here && added.kind.is_device()) else { continue };
            if matches!(added.kind, TaskKind::Collective(_)) {
                self.relink(id, link.as_ref());
                continue;
            }
            let (before, after) = (Placed { work: Some(work), device: &from }, Placed { work: Some(work), device: to });
            let moved = self.context.models.predict(Some(added.prediction.duration), before, after);
            let error = moved.error.hypot(added.prediction.error);
            self.added[id].prediction = Prediction { error, ..moved };
        }
    }

    /// Re-prices all added collectives for another link.
    pub(super) fn relink_added(&mut self, link: &LinkProfile) {
        for id in 0..self.added.len() {
            if matches!(self.added[id].kind, TaskKind::Collective(_)) {
                self.relink(id, Some(link));
            }
        }
    }

    fn relink(&mut self, id: usize, to: Option<&LinkProfile>) {
        let added = &self.added[id];
        let from = self.link_of(self.rank_of(added.lane));
        let (Some(work), Some(from), Some(to)) = (&added.work, from, to) else { return };
        let prediction = self.over(work, work, (from, to)).apply(added.prediction);
        self.added[id].prediction = prediction;
    }

    /// Whether it repeats another task.
    pub fn is_repetition(&self, node: Node) -> bool {
        matches!(node, Node::Added(AddedId(id)) if matches!(self.added[id as usize].source, Source::Repeats(_)))
    }

    /// The work of an added task as what it follows has it now; `None` where it follows nothing, or that is not known.
    pub(in crate::scenario) fn followed(&self, source: &Source) -> Option<Work> {
        match source {
            Source::Repeats(of) => self.work_of(*of).cloned(),
            Source::Merges(members, combine) => {
                let works: Option<Vec<Work>> = members.iter().map(|&node| self.work_of(node).cloned()).collect();
                combine.work(&works?)
            }
            Source::Given | Source::Planned(_) | Source::Like(..) => None,
        }
    }

    /// Lets one task do the work of all `members`, which go: the first of them where it was traced and all others were,
    /// otherwise a new one in its place. It takes their time, times the model's ratio of one piece of work to the pieces.
    pub fn merge_nodes(&mut self, members: &[Node], combine: Combine) {
        let traced: Option<Vec<NodeId>> =
            members.iter().map(|node| if let Node::Traced(node) = node { Some(*node) } else { None }).collect();
        if let Some(traced) = traced {
            let kept = traced[0];
            self.merge_as(kept, traced.clone(), combine);
            traced.iter().filter(|&&node| node != kept).for_each(|&node| self.remove(node));
            return;
        }
        let Some(&first) = members.first() else { return };
        let new = self.copy(first, self.lane_of(first), self.beside(first));
        let order = super::order_kind(self.kind_of(first));
        let launch = self.wires_into(first).filter(|wire| wire.kind() != order);
        for wire in launch.collect::<Vec<_>>() {
            self.connect(wire.from, new, wire.dependency);
        }
        self.put_after(first, (new, new), DurNs::ZERO);
        let time = members.iter().map(|&node| self.price_of(node).duration).sum();
        let works: Option<Vec<Work>> = members.iter().map(|&node| self.work_of(node).cloned()).collect();
        let merged = works.as_deref().and_then(|works| combine.work(works));
        let device = self.device(self.rank_of(self.lane_of(first))).cloned();
        let priced = match (&works, &merged, device) {
            (Some(works), Some(merged), Some(device)) => self.instead_of(time, works, merged, &device),
            _ => None,
        };
        let unknown = Prediction { provenance: Provenance::Anchored, ..Prediction::measured(time) };
        if let Node::Added(AddedId(id)) = new {
            let added = &mut self.added[id as usize];
            (added.work, added.prediction) = (merged.map(Arc::new), priced.unwrap_or(unknown));
            added.source = Source::Merges(members.to_vec(), combine);
        }
        for &node in members {
            self.take_out(node);
        }
    }
}
