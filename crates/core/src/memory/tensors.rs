//! Tensors of the execution trace: every storage from the operator that made it to the last that used it.
//!
//! An execution trace names storages by address, so one that is made anew under a known name is another one.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::Family;
use crate::cost::operators::{bare, operator_family};
use crate::graph::{OperatorId, Phase};
use crate::trace::ExecutionTrace;
use crate::trace::execution_trace::{EtArguments, EtNode, EtTensor, EtValue};
use crate::units::{Bytes, TimeNs};

use super::callers::end;
use super::parameters;
use super::sources::Rank;
use super::steps::{self, Step};
use super::{AFTER, BEFORE, Buffer, Holds, MemorySource, RankMemory};

/// The storages of the step that the execution trace recorded, at the times of the chosen iteration.
pub(super) fn read(rank: Rank<'_>) -> Option<RankMemory> {
    let trace = rank.of_job.execution_trace.as_ref()?;
    let steps = steps::of(rank, trace)?;
    let mut walk = Walk::new(rank, trace);
    for step in &steps {
        walk.enter(step);
    }
    walk.leave_until(None, 0);
    let known = parameters::read(rank);
    let weights: FxHashSet<u64> = known.each.iter().copied().collect();
    let stores = walk.stores.iter().enumerate();
    let mut buffers: Vec<Buffer> =
        stores.map(|(at, store)| store.buffer(rank, &weights, walk.tables.contains(&at))).collect();
    // A sparse gradient has no storage of its own: that of its values is known where these were used.
    let is_known = |bytes: u64, by: OperatorId| {
        let inside = by..rank.graph.operators[by.0 as usize].subtree_end;
        let is_it = |buffer: &Buffer| buffer.holds == Holds::Gradients && buffer.bytes.0 == bytes;
        buffers.iter().any(|buffer| is_it(buffer) && buffer.operator.is_some_and(|id| inside.contains(&id)))
    };
    let sparse = known.sparse().filter(|&(bytes, _, operator)| !is_known(bytes, operator));
    let sparse = sparse.map(|(bytes, from, operator)| {
        let (holds, until) = (Holds::Gradients, rank.part_end());
        Buffer { holds, bytes: Bytes(bytes), from, until, operator: Some(operator) }
    });
    let sparse: Vec<Buffer> = sparse.collect();
    buffers.extend(sparse);
    let unknown = vec!["workspaces of libraries, and what no operator was given".to_owned()];
    (!buffers.is_empty()).then(|| RankMemory::new(MemorySource::Tensors, buffers, unknown))
}

/// One storage between being made and being made anew.
#[derive(Clone, Debug)]
struct Store {
    bytes: u64,
    /// The place in order of the node that it was first seen at.
    seen: usize,
    /// The operator that made it; `None` where it was there before.
    made: Option<(Option<OperatorId>, Phase)>,
    from: TimeNs,
    last: TimeNs,
    first_user: Option<OperatorId>,
    /// By phase whether an operator of it was given it.
    used_in: [bool; Phase::ALL.len()],
    /// Whether it is, by what made it or where it was given, what an optimizer keeps between steps.
    is_state: bool,
}

impl Store {
    fn buffer(&self, rank: Rank<'_>, weights: &FxHashSet<u64>, is_table: bool) -> Buffer {
        let used_in = |phase: Phase| self.used_in[phase as usize];
        let in_optimizer = used_in(Phase::Optimizer);
        let in_forward = [Phase::Forward, Phase::Other, Phase::Data].into_iter().any(used_in);
        let holds = match self.made {
            _ if self.is_state => Holds::Optimizer,
            None if in_optimizer && in_forward => Holds::Parameters,
            None if in_optimizer && used_in(Phase::Backward) => Holds::Gradients,
            None if in_optimizer => Holds::Optimizer,
            None if is_table || weights.contains(&self.bytes) => Holds::Parameters,
            Some((_, Phase::Backward)) if in_optimizer => Holds::Gradients,
            Some((_, Phase::Forward | Phase::Other)) => Holds::Activations,
            _ => Holds::Other,
        };
        let (from, until) = match self.made {
            None => (BEFORE, AFTER),
            // What the first update makes is there in all later steps, and this one stands for them.
            Some(_) if self.is_state => (BEFORE, AFTER),
            // Gradients are zeroed, or dropped, at the next step's start.
            Some(_) if holds == Holds::Gradients => (self.from, rank.part_end()),
            Some(_) => (self.from, self.last),
        };
        let operator = self.made.map_or(self.first_user, |(operator, _)| operator);
        Buffer { holds, bytes: Bytes(self.bytes), from, until, operator }
    }
}

/// A walk through a step's nodes in order.
struct Walk<'a> {
    rank: Rank<'a>,
    trace: &'a ExecutionTrace,
    /// Only storages on devices count where there are any.
    on_device: bool,
    open: FxHashMap<u32, Vec<Step>>,
    /// The present store of each storage.
    now: FxHashMap<u64, usize>,
    stores: Vec<Store>,
    /// Those that look-ups read as their tables.
    tables: FxHashSet<usize>,
    /// Tensors that look larger than what they view.
    stretched: FxHashSet<u64>,
}

impl<'a> Walk<'a> {
    fn new(rank: Rank<'a>, trace: &'a ExecutionTrace) -> Self {
        let on_device = trace.tensors.iter().any(|tensor| !is_host(trace, tensor));
        let (open, now) = (FxHashMap::default(), FxHashMap::default());
        let stretched = FxHashSet::default();
        Self { rank, trace, on_device, open, now, stores: Vec::new(), tables: FxHashSet::default(), stretched }
    }

    fn enter(&mut self, step: &Step) {
        self.leave_until(Some(step.node.parent), step.node.tid);
        let phase = self.phase(step);
        let until = step.operator.map_or(step.start, |id| end(self.rank.graph, id));
        let inputs = self.tensors(&step.node.inputs);
        let states = self.states(step);
        let table = self.looks_up(step).then(|| inputs.iter().map(|tensor| tensor.elements).max()).flatten();
        for tensor in inputs {
            let is_stretched = self.stretched.contains(&tensor.id);
            // What is larger than what was made at its address is another storage, of which a node around this one will tell.
            let is_known = |&at: &usize| {
                let store = &self.stores[at];
                is_stretched || store.made.is_none() || reach(&tensor) <= store.bytes
            };
            let at = match self.now.get(&tensor.storage).copied().filter(is_known) {
                Some(at) => at,
                None => self.store(&tensor, step.order, None, BEFORE),
            };
            let store = &mut self.stores[at];
            store.bytes = if is_stretched { store.bytes } else { store.bytes.max(reach(&tensor)) };
            store.last = store.last.max(until);
            store.first_user = store.first_user.or(step.operator);
            store.used_in[phase as usize] = true;
            store.is_state |= states.contains(&tensor.storage);
            if table == Some(tensor.elements) {
                self.tables.insert(at);
            }
        }
        self.open.entry(step.node.tid).or_default().push(*step);
    }

    /// Leaves the nodes of a thread (of all, without a parent) that `parent` is not inside of.
    fn leave_until(&mut self, parent: Option<u64>, thread: u32) {
        let threads: Vec<u32> = match parent {
            Some(_) => vec![thread],
            None => self.open.keys().copied().collect(),
        };
        for thread in threads {
            while let Some(step) = self.open.get_mut(&thread).and_then(|open| {
                let inside = open.last().is_some_and(|last| Some(last.node.id) == parent);
                if inside { None } else { open.pop() }
            }) {
                self.leave(&step);
            }
        }
    }

    /// What a node gives and was not given is made by it, unless a node inside it made it.
    fn leave(&mut self, step: &Step) {
        let mut given: FxHashMap<u64, u64> = FxHashMap::default();
        for tensor in self.tensors(&step.node.inputs) {
            let most = given.entry(tensor.storage).or_default();
            *most = (*most).max(tensor.elements);
        }
        let phase = self.phase(step);
        for tensor in self.tensors(&step.node.outputs) {
            let viewed = given.get(&tensor.storage).copied();
            let is_stretched = viewed.is_some_and(|elements| tensor.elements > elements);
            if is_stretched {
                self.stretched.insert(tensor.id)
            } else {
                self.stretched.remove(&tensor.id)
            };
            let known = self.now.get(&tensor.storage).copied();
            let is_part = is_part_of_sparse(self.trace.names.get(step.node.name));
            let at = match known.filter(|&at| viewed.is_some() || is_part || self.stores[at].seen >= step.order) {
                Some(at) => at,
                None => self.store(&tensor, step.order, Some((step.operator, phase)), step.start),
            };
            let store = &mut self.stores[at];
            if viewed.is_none() && store.made.is_none() {
                // Nodes inside were given it before this one gave it.
                (store.made, store.from) = (Some((step.operator, phase)), step.start);
            }
            store.bytes = if is_stretched { store.bytes } else { store.bytes.max(reach(&tensor)) };
            store.last = store.last.max(step.operator.map_or(step.start, |id| end(self.rank.graph, id)));
            let in_update = viewed.is_none() && matches!(store.made, Some((_, Phase::Optimizer)));
            store.is_state |= in_update && parameters::begins_state(self.trace.names.get(step.node.name));
        }
    }

    /// The storages that a look-up was given as the state of its optimizer.
    fn states(&self, step: &Step) -> Vec<u64> {
        let Some(from) = parameters::state_place(self.trace.names.get(step.node.name)) else { return Vec::new() };
        let behind = self.trace.values_of(&step.node.inputs).iter().skip(from);
        let tensors = behind.filter_map(|value| match value {
            EtValue::Tensor(index) => self.trace.tensor(*index),
            _ => None,
        });
        tensors.map(|tensor| tensor.storage).filter(|&storage| storage != 0).collect()
    }

    fn store(&mut self, of: &EtTensor, seen: usize, made: Option<(Option<OperatorId>, Phase)>, from: TimeNs) -> usize {
        let at = self.stores.len();
        self.now.insert(of.storage, at);
        self.stores.push(Store {
            bytes: reach(of),
            seen,
            made,
            from,
            last: from,
            first_user: None,
            used_in: [false; Phase::ALL.len()],
            is_state: false,
        });
        at
    }

    fn phase(&self, step: &Step) -> Phase {
        step.operator.map_or(step.phase, |id| self.rank.graph.operators[id.0 as usize].phase)
    }

    /// Whether a node looks rows up: the largest of what it is given are the tables.
    fn looks_up(&self, step: &Step) -> bool {
        let name = self.trace.names.get(step.node.name);
        operator_family(name) == Some(Family::Embedding) && self.phase(step) != Phase::Backward
    }

    /// The tensors of an argument list that count.
    fn tensors(&self, run: &EtArguments) -> Vec<EtTensor> {
        let mut found = Vec::new();
        for value in self.trace.values_of(run) {
            let EtValue::Tensor(index) = value else { continue };
            let Some(tensor) = self.trace.tensor(*index) else { continue };
            let counts = !(self.on_device && is_host(self.trace, tensor));
            if tensor.storage != 0 && tensor.elements > 0 && counts {
                found.push(*tensor);
            }
        }
        found
    }
}

/// Whether a node gives what a sparse tensor, which has no storage of its own, is made of.
fn is_part_of_sparse(name: &str) -> bool {
    matches!(bare(name), "_values" | "_indices" | "values" | "indices")
}

fn is_host(trace: &ExecutionTrace, tensor: &EtTensor) -> bool {
    let device = trace.names.get(tensor.device);
    device.is_empty() || device.starts_with("cpu")
}

/// Bytes of its storage up to the tensor's end.
fn reach(tensor: &EtTensor) -> u64 {
    tensor.offset.saturating_add(tensor.elements).saturating_mul(u64::from(tensor.element_size))
}

/// Whether a node may be an operator or hold one.
pub(super) fn counts(node: &EtNode) -> bool {
    node.rf_id != 0
}
