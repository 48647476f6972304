//! Added tasks whose work or device changes: what they do follows from other tasks or operators, and so does their time.

use std::sync::Arc;

use crate::cost::{
    Caller, Family, Launch, Placed, Prediction, Provenance, Shape, Work, layout_changes, roof_ratio, work_of,
};
use crate::device::{DeviceProfile, LinkProfile, Precision};
use crate::graph::{DType, NodeId, OperatorId, Phase, TaskKind};
use crate::units::{Bytes, DurNs, Flop, elements};

use super::packed::{Message, Packed};
use super::recost::Change;
use super::{Added, AddedId, Combine, Draft, Node};

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
    /// An argument of an operator, copied to another type.
    Cast(Cast),
    /// The change of layout of that number around the convolution of an operator on matrix units.
    Layout(OperatorId, u16),
    /// The traced task that it takes the place of.
    InsteadOf(NodeId),
    /// The argument of that number of an operator, copied between host and device; which way, its name says.
    Copied(OperatorId, u16, &'static str),
    /// The message of a collective that is packed, packed or unpacked beside it.
    Packs(Packed),
    /// A task that it repeats.
    Repeats(Node),
    /// Tasks whose work it does at once.
    Merges(Vec<Node>, Combine),
}

/// A copy of an operator's argument to another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The operator.
    pub operator: OperatorId,
    /// The place of the argument among its inputs.
    pub argument: u16,
    /// The type before.
    pub from: DType,
    /// The type after.
    pub to: DType,
}

impl Cast {
    /// The elements of the argument now; `None` where it is no tensor with recorded sizes, or one of whole numbers, which are widened
    /// as they are loaded.
    pub fn elements(&self, draft: &Draft<'_>) -> Option<u64> {
        let operand = draft.operands(self.operator)?.inputs.get(usize::from(self.argument))?;
        operand.dims().filter(|_| !operand.dtype().is_some_and(DType::is_integer)).map(elements)
    }

    /// What a cast of so many elements has to do.
    pub fn work(&self, elements: u64) -> Work {
        let bytes = |of: DType| Bytes(elements.saturating_mul(of.size()));
        let (family, precision, shape) = (Family::Elementwise, Precision::Fp32, Shape::Plain);
        let (read, written) = (bytes(self.from), bytes(self.to));
        Work { family, flop: Flop(elements as f64), read, written, precision, shape }
    }
}

impl Source {
    /// How a profiler calls the copy of an input that is not in pinned memory.
    pub const INPUT_COPY: &'static str = "Memcpy HtoD (Pageable -> Device)";
    /// How it calls one from pinned memory.
    pub const PINNED_COPY: &'static str = "Memcpy HtoD (Pinned -> Device)";
    /// How it calls the copy of a result to memory that is not pinned.
    pub const READ_BACK: &'static str = "Memcpy DtoH (Device -> Pageable)";
    /// How it calls one to pinned memory.
    pub const PINNED_READ_BACK: &'static str = "Memcpy DtoH (Device -> Pinned)";
}

impl From<NodeId> for Node {
    fn from(node: NodeId) -> Self {
        Self::Traced(node)
    }
}

/// No GPU has a shorter kernel, whatever its figures say.
const SHORTEST: DurNs = DurNs(1_000);

/// A kernel that nothing is known of takes at least what every kernel of its device takes.
fn shortest_kernel(device: Option<&DeviceProfile>) -> Prediction {
    let duration = device.map_or(SHORTEST, |device| device.kernel_start.max(SHORTEST));
    Prediction { duration, provenance: Provenance::Unmodelled, model: "", error: 1.0, extrapolated: true }
}

impl Draft<'_> {
    /// Changes the work of one task alone; an added one's time changes by the model's ratio.
    pub fn set_work_of(&mut self, node: Node, work: impl Into<Arc<Work>>) {
        let id = match node {
            Node::Traced(node) => return self.set_work(node, work),
            Node::Added(AddedId(id)) => id as usize,
        };
        let (added, work) = (&self.structure.added[id], work.into());
        let rank = self.rank_of(added.lane);
        let repeated = added.price.repeated().map(|_| self.price_repeated(node));
        let moved = match (self.work_of(node), added.kind) {
            (Some(old), _) if *old == *work => return,
            (Some(old), TaskKind::Collective(_)) => self.over_own_link(old, &work, rank),
            (old, kind) => self.by_work(kind, (old, Some(&work)), rank),
        };
        let added = &mut self.structure.added[id];
        added.work = Some(work);
        if let Some(price) = repeated {
            added.price = price;
        }
        added.price.go_on(moved);
    }

    /// Another work on the device that a rank is on now.
    fn by_work(&self, kind: TaskKind, (old, new): (Option<&Work>, Option<&Work>), rank: usize) -> Change {
        if let (TaskKind::Compute, Some(host)) = (kind, &self.context.host) {
            return super::recost::on_host(host, old, new);
        }
        let Some(device) = self.device(rank) else { return Change::Kept };
        let (before, after) = (Placed { work: old, device }, Placed { work: new, device });
        Change::of_kernel(self.context.models.predict(Some(super::recost::UNIT), before, after), before, after)
    }

    fn over_own_link(&self, old: &Work, new: &Work, rank: usize) -> Change {
        let link = self.link_of(rank).cloned();
        link.map_or(Change::Kept, |link| self.over(old, new, (&link, &link)))
    }

    fn over(&self, old: &Work, new: &Work, (before, after): (&LinkProfile, &LinkProfile)) -> Change {
        let (before, after) = (self.topology(before, &self.machine.layout), self.topology(after, &self.machine.layout));
        Change::of(self.context.models.predict_over(super::recost::UNIT, (old, before), (new, after), false))
    }

    /// The link that a rank's collectives run over now, where it is known.
    fn link_of(&self, rank: usize) -> Option<&LinkProfile> {
        let own = || self.context.models.links().of_device(self.device(rank)?);
        self.machine.interconnect.as_ref().or_else(own)
    }

    /// Re-prices the added device work of a rank for another device, its collectives for that device's link.
    pub(super) fn move_added(&mut self, to: &DeviceProfile) {
        let link = self.context.models.links().of_device(to).filter(|_| self.machine.interconnect.is_none()).cloned();
        for id in 0..self.structure.added.len() {
            let added = &self.structure.added[id];
            if added.price.repeated().is_some() {
                continue;
            }
            let from = self.device(self.base.rank_of(added.lane, &self.structure.lanes)).cloned();
            let Some(from) = from.filter(|_| added.kind.is_device()) else { continue };
            if matches!(added.kind, TaskKind::Collective(_)) {
                self.relink(id, link.as_ref());
            } else if let Some(change) = self.on_device(added, (&from, to)) {
                self.structure.added[id].price.go_on(change);
            }
        }
    }

    /// What a kernel that nothing is known of takes on the device of a rank.
    pub fn shortest_kernel(&self, rank: usize) -> Prediction {
        shortest_kernel(self.device(rank).map(Arc::as_ref))
    }

    /// What another device makes of an added task's time. Only what was measured anchors a prediction.
    fn on_device(&self, added: &Added, (from, to): (&DeviceProfile, &DeviceProfile)) -> Option<Change> {
        let (start, models) = (added.price.given()?, &self.context.models);
        let before = Placed { work: added.work.as_deref(), device: from };
        let after = Placed { device: to, ..before };
        let nothing = Placed { work: None, device: to };
        if start == shortest_kernel(Some(from)) {
            return Some(Change::anew(shortest_kernel(Some(to))));
        }
        if start.provenance == Provenance::Absolute && before.work.is_some() {
            let anew = models.predict(None, nothing, after);
            if anew.provenance == Provenance::Absolute {
                return Some(Change::anew(anew));
            }
        }
        let by_work = before.work.map(|_| models.predict(Some(start.duration), before, after));
        let modelled = by_work.filter(|moved| moved.provenance != Provenance::Unmodelled);
        if let Some(moved) = modelled {
            let error = moved.error.hypot(start.error);
            return Some(Change::anew(Prediction { error, ..moved }));
        }
        let family = added.work.as_ref().map(|work| work.family);
        let roofs = family.filter(|_| added.kind == TaskKind::Kernel).map(|it| roof_ratio(&added.name, it, from, to));
        roofs.flatten().map(Change::Roofs).or_else(|| by_work.map(Change::anew))
    }

    /// Re-prices all added collectives for another link.
    pub(super) fn relink_added(&mut self, link: Option<&LinkProfile>) {
        for id in 0..self.structure.added.len() {
            let added = &self.structure.added[id];
            if matches!(added.kind, TaskKind::Collective(_)) {
                let own = || self.context.models.links().of_device(self.device(self.rank_of(added.lane))?);
                let link = link.or_else(own).cloned();
                self.relink(id, link.as_ref());
            }
        }
    }

    fn relink(&mut self, id: usize, to: Option<&LinkProfile>) {
        let added = &self.structure.added[id];
        // Without work of its own are those that repeat another, too: they follow that one.
        let from = self.link_of(self.rank_of(added.lane));
        let (Some(work), Some(from), Some(to)) = (&added.work, from, to) else { return };
        let change = self.over(work, work, (from, to));
        self.structure.added[id].price.go_on(change);
    }

    /// The task that it repeats.
    pub fn repeated(&self, node: Node) -> Option<Node> {
        let Node::Added(AddedId(id)) = node else { return None };
        if let Source::Repeats(of) = self.structure.added[id as usize].source { Some(of) } else { None }
    }

    /// Whether it was added for tasks that were there, whose work it does.
    pub fn does_work_of_others(&self, node: Node) -> bool {
        let Node::Added(AddedId(id)) = node else { return false };
        let added = &self.structure.added[id as usize];
        !added.members.is_empty() || matches!(added.source, Source::Merges(..) | Source::InsteadOf(_))
    }

    /// By added task the one that it does once more, if any.
    pub(in crate::scenario) fn all_repeated(&self) -> Vec<Option<Node>> {
        let of = |node: Node| std::iter::successors(self.repeated(node), |&node| self.repeated(node)).last();
        (0..self.structure.added.len() as u32).map(|id| of(Node::Added(AddedId(id)))).collect()
    }

    /// The work of an added task as what it follows has it now; `None` where it follows nothing, or that is not known.
    pub(in crate::scenario) fn followed(&self, source: &Source) -> Option<Work> {
        match source {
            Source::Repeats(of) => self.work_of(*of).cloned(),
            Source::Merges(members, combine) => {
                let works: Option<Vec<Work>> = members.iter().map(|&node| self.work_of(node).cloned()).collect();
                combine.work(&works?)
            }
            Source::Cast(cast) => cast.elements(self).map(|elements| cast.work(elements)),
            Source::Layout(id, number) => {
                let operator = self.graph().names.get(self.graph().operators.get(id.0 as usize)?.name);
                let changes = layout_changes(&Caller { operator, operands: self.operands(*id) });
                changes.into_iter().nth(usize::from(*number)).map(|(_, work)| work)
            }
            Source::InsteadOf(node) => self.work(*node).cloned(),
            Source::Packs(packed) => Some(packed.work(Message::of(self.work_of(packed.of)?)?)),
            Source::Copied(operator, argument, name) => {
                let bytes = self.operands(*operator)?.inputs.get(usize::from(*argument))?.bytes();
                let (kind, phase) = (TaskKind::Memcpy, Phase::Data);
                work_of(&Launch { kind, name, bytes, ranks: 0, phase }, &[], None).filter(|_| bytes > Bytes(0))
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
        let launch = self.edges_into(first).filter(|edge| edge.kind() != order);
        for edge in launch.collect::<Vec<_>>() {
            self.connect(edge.from, new, edge.dependency);
        }
        self.put_after(first, (new, new), DurNs::ZERO);
        let time = members.iter().map(|&node| self.price_without_figures(node).duration).sum();
        let works: Option<Vec<Work>> = members.iter().map(|&node| self.work_of(node).cloned()).collect();
        let merged = works.as_deref().and_then(|works| combine.work(works));
        let device = self.device(self.rank_of(self.lane_of(first))).cloned();
        let priced = match (&works, &merged, device) {
            (Some(works), Some(merged), Some(device)) => self.instead_of(time, works, merged, &device),
            _ => None,
        };
        let unknown = Prediction { provenance: Provenance::Anchored, ..Prediction::measured(time) };
        if let Node::Added(AddedId(id)) = new {
            let added = &mut self.structure.added[id as usize];
            (added.work, added.price) = (merged.map(Arc::new), priced.unwrap_or(unknown).into());
            added.source = Source::Merges(members.to_vec(), combine);
        }
        for &node in members {
            self.take_out(node);
        }
    }
}
