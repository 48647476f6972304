//! What tasks of a draft have to do: their operators' arguments, or work of their own.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::{CollectiveKind, Family, Shape, Work};
use crate::device::{DeviceProfile, Precision};
use crate::graph::{NodeId, Operands, OperatorId, Phase};
use crate::scenario::kernel_work::KernelWork;
use crate::scenario::roles::Role;
use crate::scenario::work_classes::{Class, Classifier, ConvUnits, NO_CLASS, Overrides};

use super::by_node::ByNode;
use super::merge::Merge;
use super::plan;
use super::{Draft, Node};

/// What the tasks of a draft have to do, by class: tasks of a class do the same.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskWorks {
    /// Class of each traced task; empty while none changed.
    pub(super) class_of: Vec<u32>,
    /// Classes beyond those of the base.
    pub(super) classes: Vec<Class>,
    /// By the address of a work that was set, which its class keeps.
    class_of_work: FxHashMap<usize, u32>,
    /// Arguments of operators that edits changed.
    pub(super) overrides: Overrides,
    /// The units of convolutions of 32-bit floats on the devices that they run on now.
    conv_units: ConvUnits,
    /// By task whose work follows the placement of embedding tables, the class that it has without.
    unplaced: FxHashMap<NodeId, u32>,
    /// Tasks whose work was changed by itself.
    own_work: FxHashSet<NodeId>,
    /// Of those, the ones that do another operator on the arguments of one that was traced.
    replaced: FxHashMap<NodeId, (Arc<str>, OperatorId)>,
    /// The traced operators in whose place those are.
    replaced_operators: FxHashMap<OperatorId, Arc<str>>,
    /// Classes that stand for the traced ones, of tasks whose recorded arguments do not show their work.
    pub(super) traced_as: ByNode<u32>,
    /// Tasks that do the work of others besides their own.
    pub(super) merged: FxHashMap<NodeId, Merge>,
    /// By task, the one that does its work, itself where it does that of others too.
    pub(super) member_of: FxHashMap<NodeId, NodeId>,
}

impl Draft<'_> {
    /// What all tasks have to do now; the draft knows no more of it.
    pub(in crate::scenario) fn take_kernel_work(&mut self) -> KernelWork {
        let added = self.added_nodes().map(|node| self.shared_work_of(node)).collect();
        let works = std::mem::take(&mut self.works);
        let (class_of, classes, removed) = (works.class_of, works.classes, self.removed().collect());
        let (traced, overrides) = (Arc::clone(self.base.works()), works.overrides);
        KernelWork { traced, class_of, classes, removed, added, overrides }
    }

    /// The arguments of an operator now.
    pub fn operands(&self, operator: OperatorId) -> Option<&Operands> {
        self.works.overrides.operands(self.base.graph(), operator)
    }

    /// The arguments of an operator as traced.
    pub fn recorded(&self, operator: OperatorId) -> Option<&Operands> {
        self.graph().operands.get(self.graph().operators.get(operator.0 as usize)?.operands?.0 as usize)
    }

    /// The arguments of an operator now, as a number: equal numbers, equal arguments.
    pub fn arguments(&self, operator: OperatorId) -> Option<u32> {
        self.works.overrides.number(self.base.graph(), operator)
    }

    /// Changes arguments of operators, and with them the work of the tasks below those operators.
    ///
    /// # Arguments
    /// `list`: argument lists; `rows`: operators with their row in `list`.
    pub fn set_operands(&mut self, list: Vec<Operands>, rows: impl IntoIterator<Item = (OperatorId, u32)>) {
        let first = self.works.overrides.list.len() as u32;
        self.works.overrides.list.extend(list);
        let graph = self.base.graph();
        for (operator, row) in rows {
            self.works.overrides.set(graph, operator, first + row);
        }
        self.reclassify();
        self.follow_replaced();
        plan::follow_operands(self);
    }

    /// Lets convolutions of 32-bit floats run in TF32 where all devices allow it by default and none of the traced ones did, and in
    /// fp32 where it was traced and they are AMD's.
    pub(in crate::scenario) fn choose_units(&mut self) {
        let has = |device: &DeviceProfile| !device.is_amd && device.peak.contains_key(&Precision::Tf32);
        let traced = self.context().devices.iter().any(|device| has(&device.profile));
        let units = match traced {
            true if self.devices().iter().all(|device| device.is_amd) => ConvUnits::Fp32,
            false if self.devices().iter().all(|device| has(device)) => ConvUnits::Tf32,
            _ => ConvUnits::AsTraced,
        };
        if std::mem::replace(&mut self.works.conv_units, units) != units {
            self.reclassify();
            self.follow_replaced();
            plan::follow_operands(self);
        }
    }

    /// The units of convolutions of 32-bit floats.
    pub(in crate::scenario) fn conv_units(&self) -> ConvUnits {
        self.works.conv_units
    }

    fn reclassify(&mut self) {
        let works = self.base.works();
        let first = (works.classes.len() + self.works.classes.len()) as u32;
        let classifier = Classifier::new(self.base.graph(), &self.works.overrides, &works.sharing, first);
        let mut classifier = classifier.with_conv_units(self.works.conv_units).of_traced(works);
        let mut class_of = Vec::with_capacity(works.of_node.len());
        let individual = !self.works.class_of.is_empty();
        for node in self.base.graph().tasks.node_indices() {
            let kept = individual && self.is_individual(node);
            class_of.push(match (kept, self.works.merged.get(&node)) {
                (true, Some(merge)) => merge.own,
                (true, None) => self.works.class_of[node.index()],
                (false, _) => classifier.class(node),
            });
        }
        let new = classifier.classes();
        self.works.classes.extend(new);
        self.works.class_of = class_of;
        self.touch_all(|draft, node| draft.works.class_of[node.index()] != NO_CLASS);
        let mut merged: Vec<NodeId> = self.works.merged.keys().copied().collect();
        merged.sort_unstable();
        for kept in merged {
            if let Some(merge) = self.works.merged.get_mut(&kept) {
                merge.own = self.works.class_of[kept.index()];
            }
            self.remerge(kept);
        }
    }

    /// Whether a task does the work of others besides its own.
    pub fn is_merged(&self, node: NodeId) -> bool {
        self.works.merged.contains_key(&node)
    }

    /// Whether the work of a task was set on its own, not by its operator's arguments.
    fn is_individual(&self, node: NodeId) -> bool {
        self.works.own_work.contains(&node)
    }

    /// Changes the work of one task alone; tasks that share the new work are priced together.
    pub fn set_work(&mut self, node: NodeId, work: impl Into<Arc<Work>>) {
        if self.works.class_of.is_empty() {
            self.works.class_of.clone_from(&self.base.works().of_node);
        }
        let class = self.new_class(work.into());
        self.works.class_of[node.index()] = class;
        self.works.own_work.insert(node);
        self.works.replaced.remove(&node);
        self.touch(node);
        if let Some(merge) = self.works.merged.get_mut(&node) {
            merge.own = class;
        }
        if let Some(&kept) = self.works.member_of.get(&node) {
            self.remerge(kept);
        }
    }

    /// Lets a task do `work` where embedding tables are placed otherwise than traced, or with `None` what it does without; each time
    /// in place of the last. No edit of arguments or of work comes after.
    pub fn set_placed_work(&mut self, node: NodeId, work: Option<Work>) {
        let Some(work) = work else {
            if let Some(class) = self.works.unplaced.remove(&node) {
                self.works.class_of[node.index()] = class;
            }
            return;
        };
        if self.works.class_of.is_empty() {
            self.works.class_of.clone_from(&self.base.works().of_node);
        }
        let class = self.new_class(work.into());
        let before = std::mem::replace(&mut self.works.class_of[node.index()], class);
        self.works.unplaced.entry(node).or_insert(before);
        self.touch(node);
    }

    /// What a task carries from rank to rank; [`Role::Other`] for tasks that are no collectives.
    pub fn role(&self, node: Node) -> Role {
        self.base.roles().role(self.kind_of(node))
    }

    /// Whether a task reduces gradients of data-parallel ranks, whole or shared out.
    pub fn reduces_gradients(&self, node: Node) -> bool {
        let shape = self.work_of(node).map(|work| &work.shape);
        let Some(&Shape::Collective { kind, .. }) = shape else { return false };
        match self.role(node) {
            Role::Gradients => true,
            Role::Shards => kind == CollectiveKind::ReduceScatter,
            _ => false,
        }
    }

    /// Lets a task do operator `name`, which is `work`, on the arguments of operator `id`, now and when these change.
    pub fn replace_work(&mut self, node: NodeId, name: Arc<str>, id: OperatorId, work: Arc<Work>) {
        self.set_work(node, work);
        self.works.replaced_operators.insert(id, Arc::clone(&name));
        self.works.replaced.insert(node, (name, id));
    }

    /// The operator that an edit let a task compute or that its host work is of now, and the traced one in whose place that is.
    pub fn replaced_by(&self, node: Node) -> Option<(&str, OperatorId)> {
        let Node::Traced(node) = node else { return None };
        if self.works.replaced.is_empty() {
            return None;
        }
        let (graph, names) = (self.graph(), &self.works.replaced_operators);
        let task = &graph.tasks[node];
        let on_host = task.operator.filter(|_| !task.kind.is_device());
        let mut around = std::iter::successors(on_host, |id| graph.operators[id.0 as usize].parent);
        let own = self.works.replaced.get(&node).map(|(name, id)| (&**name, *id));
        own.or_else(|| around.find_map(|id| Some((&**names.get(&id)?, id))))
    }

    /// Whether a task computes another operator than the one that it was traced in.
    pub fn is_replaced(&self, node: NodeId) -> bool {
        self.works.replaced.contains_key(&node)
    }

    /// The tasks that compute another operator than the one that they were traced in, by node.
    pub fn replaced_tasks(&self) -> Vec<NodeId> {
        let mut replaced: Vec<NodeId> = self.works.replaced.keys().copied().collect();
        replaced.sort_unstable();
        replaced
    }

    /// The operators whose tasks compute another one now, with its name, by number.
    pub fn replaced(&self) -> Vec<(OperatorId, Arc<str>)> {
        let named = |(&node, (name, _)): (&NodeId, &(Arc<str>, OperatorId))| {
            Some((self.operator_of(Node::Traced(node))?, Arc::clone(name)))
        };
        let mut replaced: Vec<_> = self.works.replaced.iter().filter_map(named).collect();
        replaced.sort_unstable();
        replaced.dedup_by_key(|(id, _)| *id);
        replaced
    }

    /// Works out anew what tasks do that do another operator than their own.
    fn follow_replaced(&mut self) {
        let mut replaced: Vec<(NodeId, (Arc<str>, OperatorId))> =
            self.works.replaced.iter().map(|(&node, of)| (node, of.clone())).collect();
        replaced.sort_unstable();
        let mut known = FxHashMap::<(Arc<str>, Option<u32>, Phase), Option<Arc<Work>>>::default();
        for (node, (name, id)) in replaced {
            let key = (Arc::clone(&name), self.arguments(id), self.graph().operators[id.0 as usize].phase);
            let work = known.entry(key).or_insert_with(|| self.work_as(&name, id).map(Arc::new)).clone();
            if let Some(work) = work {
                self.replace_work(node, name, id, work);
            }
        }
    }

    /// The class of tasks that do `work`, new unless that very work was set before.
    pub(super) fn new_class(&mut self, work: Arc<Work>) -> u32 {
        let next = (self.base.works().classes.len() + self.works.classes.len()) as u32;
        let class = *self.works.class_of_work.entry(Arc::as_ptr(&work).addr()).or_insert(next);
        if class == next {
            self.works.classes.push(Class::of(work));
        }
        class
    }

    /// The work that a task was traced doing.
    pub(in crate::scenario) fn traced_work(&self, node: NodeId) -> Option<&Work> {
        self.class_at(self.classes_of(node).0).and_then(|class| class.work.as_deref())
    }

    pub(super) fn class_at(&self, class: u32) -> Option<&Class> {
        let works = self.base.works();
        let own = (class as usize).checked_sub(works.classes.len());
        own.map_or_else(|| works.classes.get(class as usize), |own| self.works.classes.get(own))
    }

    pub(super) fn classes_of(&self, node: NodeId) -> (u32, u32) {
        let recorded = self.base.works().of_node[node.index()];
        let old = self.works.traced_as.get(node).copied().unwrap_or(recorded);
        (old, self.works.class_of.get(node.index()).copied().unwrap_or(old))
    }

    /// What a task has to do now, where that is known.
    pub fn work(&self, node: NodeId) -> Option<&Work> {
        self.class_at(self.classes_of(node).1).and_then(|class| class.work.as_deref())
    }

    /// What a task has to do now, to be kept by others.
    pub(super) fn shared_work(&self, node: NodeId) -> Option<Arc<Work>> {
        self.class_at(self.classes_of(node).1).and_then(|class| class.work.clone())
    }

    /// The family of a task that computes or moves something.
    pub fn family(&self, node: NodeId) -> Option<Family> {
        self.class_at(self.classes_of(node).1).map(|class| class.family)
    }
}
