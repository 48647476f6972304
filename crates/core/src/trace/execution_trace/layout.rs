//! An execution trace laid out as a trace: operators in the order in which they began, one after another, at nominal lengths.
//!
//! The lengths mean nothing; whoever uses such a trace must put predictions in their place.

use rustc_hash::FxHashMap;

use super::{EtNode, EtNodeIndex, EtValue, ExecutionTrace, lists};
use crate::intern::{NameId, NameTable};
use crate::trace::args::TensorLists;
use crate::trace::builder::TraceBuilder;
use crate::trace::{
    Category, Event, EventId, MODULE_CALL, OpenError, OperatorArgs, RankPlace, Sequence, SideTable, TensorArgs,
    TensorArgsId, Trace, TrackId, TrackKind, Transfer,
};
use crate::units::{DurNs, TimeNs};

/// The time before every operator, and between its beginning or end and what it calls.
const NOMINAL: DurNs = DurNs(1_000);
/// The record scope of ranges that users name.
const USER_SCOPE: u32 = 7;
/// How the process and its threads are named.
pub(super) const ROOT: &str = "[pytorch|profiler|";

impl ExecutionTrace {
    /// This trace with a nominal time for every node: a host trace in program order, for predictions to start from.
    ///
    /// # Errors
    /// [`OpenError::NoEvents`] where it has no node but roots.
    ///
    /// # Complexity
    /// O(nodes · log nodes).
    pub fn laid_out(&self) -> Result<Trace, OpenError> {
        let mut layout = Layout::new(self);
        for index in layout.in_order() {
            layout.place(index);
        }
        layout.finish()
    }

    /// Whether all tensors of `node` are the host's although others are a device's.
    fn is_host_only(&self, node: &EtNode) -> bool {
        let values = self.values_of(&node.inputs).iter().chain(self.values_of(&node.outputs));
        let mut devices = values.filter_map(|value| match value {
            EtValue::Tensor(tensor) => self.tensor(*tensor).map(|tensor| self.names.get(tensor.device)),
            _ => None,
        });
        devices.next().is_some_and(|first| first == "cpu" && devices.all(|device| device == "cpu"))
    }

    /// The copy between host and device that `node` is.
    fn transfer(&self, node: &EtNode) -> Option<Transfer> {
        let [EtValue::Tensor(to), EtValue::Tensor(from), rest @ ..] = self.values_of(&node.inputs) else { return None };
        let is_host = |tensor| self.tensor(tensor).map(|tensor| self.names.get(tensor.device) == "cpu");
        let (to_host, from_host) = (is_host(*to)?, is_host(*from)?);
        let is_waited_for =
            !matches!(rest, [EtValue::Text(text), ..] if self.names.get(*text).eq_ignore_ascii_case("true"));
        let is_one = self.names.get(node.name) == "aten::copy_" && to_host != from_host;
        is_one.then_some(Transfer { to_host, is_waited_for })
    }

    /// Whether `node` copies a tensor onto itself, as updates in place of the gradients of embeddings do: PyTorch returns at once.
    fn copies_onto_itself(&self, node: &EtNode) -> bool {
        let values = self.values_of(&node.inputs);
        self.names.get(node.name) == "aten::copy_"
            && matches!(values, [EtValue::Tensor(to), EtValue::Tensor(from), ..] if to == from)
    }
}

struct Layout<'a> {
    source: &'a ExecutionTrace,
    /// The position of the node that contains each node.
    parents: Vec<Option<u32>>,
    /// How many nodes directly in each node are not closed yet.
    open_children: Vec<u32>,
    /// The event of each node, once it is placed.
    placed: Vec<Option<EventId>>,
    rows: Vec<Event>,
    clock: TimeNs,
    track_of: FxHashMap<u32, TrackId>,
    trace: TraceBuilder,
    has_device: bool,
}

impl<'a> Layout<'a> {
    fn new(source: &'a ExecutionTrace) -> Self {
        let of_id: FxHashMap<u64, u32> = source.nodes.iter().zip(0..).map(|(node, at)| (node.id, at)).collect();
        let parents: Vec<Option<u32>> = source.nodes.iter().map(|node| of_id.get(&node.parent).copied()).collect();
        let mut open_children = vec![0; source.nodes.len()];
        for parent in parents.iter().flatten() {
            open_children[*parent as usize] += 1;
        }
        let is_device = |device: NameId| !matches!(source.names.get(device), "cpu" | "");
        let has_device = source.tensors.iter().any(|tensor| is_device(tensor.device));
        Self {
            source,
            parents,
            open_children,
            placed: vec![None; source.nodes.len()],
            rows: Vec::with_capacity(source.nodes.len()),
            clock: TimeNs(0) - NOMINAL,
            track_of: FxHashMap::default(),
            trace: TraceBuilder {
                transfers: has_device.then(SideTable::default),
                names: source.names.clone(),
                untimed: true,
                rank: source.rank.map(|rank| RankPlace { rank, world_size: None }),
                entries: source.nodes.len() as u64 + source.skipped_nodes,
                skipped: source.skipped_nodes,
                diagnostics: source.diagnostics.clone(),
                ..TraceBuilder::default()
            },
            has_device,
        }
    }

    /// Positions of all nodes but the roots, in the order in which they began: that of their record function ids.
    fn in_order(&self) -> Vec<u32> {
        let node = |at: u32| &self.source.nodes[at as usize];
        let is_root = |at: &u32| self.source.names.get(node(*at).name).starts_with(ROOT);
        let mut order: Vec<u32> = (0..self.source.nodes.len() as u32).filter(|at| !is_root(at)).collect();
        order.sort_by_key(|&at| (node(at).rf_id, node(at).id));
        order
    }

    /// Begins a node now, and ends it and all around it that have nothing left to come.
    fn place(&mut self, at: u32) {
        let node = &self.source.nodes[at as usize];
        self.clock = self.clock + NOMINAL;
        let id = EventId(self.rows.len() as u32);
        let category = match node.scope {
            USER_SCOPE if self.source.names.get(node.name).starts_with(MODULE_CALL) => Category::Python,
            USER_SCOPE => Category::Annotation,
            _ => Category::Operator,
        };
        let track = self.track(node.tid);
        self.rows.push(Event {
            start: self.clock,
            dur: DurNs::ZERO,
            name: node.name,
            category,
            track,
            correlation: 0,
            external: 0,
        });
        self.placed[at as usize] = Some(id);
        self.clock = self.clock + NOMINAL;
        self.arguments(id, node);
        let mut ending = Some(at);
        while let Some(at) = ending.filter(|at| self.open_children[*at as usize] == 0) {
            self.end(at);
            ending = self.parents[at as usize].filter(|parent| *parent != at);
            if let Some(parent) = ending {
                self.open_children[parent as usize] = self.open_children[parent as usize].saturating_sub(1);
                ending = self.placed[parent as usize].and(Some(parent));
            }
        }
    }

    fn end(&mut self, at: u32) {
        let Some(row) = self.placed[at as usize].and_then(|id| self.rows.get_mut(id.0 as usize)) else { return };
        if row.dur == DurNs::ZERO {
            self.clock = self.clock + NOMINAL;
            row.dur = self.clock.since(row.start);
        }
    }

    fn arguments(&mut self, id: EventId, node: &EtNode) {
        let found = OperatorArgs {
            tensors: tensors(self.source, node, &mut self.trace.names, &mut self.trace.lists),
            sequence: Sequence::recorded(node.seq_id),
            record_function: node.rf_id,
            ..OperatorArgs::default()
        };
        self.trace.operators.push(id, found);
        if self.has_device && self.source.is_host_only(node) || self.source.copies_onto_itself(node) {
            self.trace.host_operators.push(id);
        }
        if let (Some(transfers), Some(transfer)) = (&mut self.trace.transfers, self.source.transfer(node)) {
            transfers.push(id, transfer);
        }
    }

    /// The thread numbered `tid`; the first to begin is the process's own.
    fn track(&mut self, tid: u32) -> TrackId {
        let (pid, is_first) = (self.source.pid.unwrap_or(1), self.track_of.is_empty());
        let tracks = &mut self.trace.tracks;
        *self.track_of.entry(tid).or_insert_with(|| {
            let tid = if is_first { pid } else { pid.saturating_add(i64::from(tid)) };
            tracks.id(TrackKind::Thread { pid, tid })
        })
    }

    fn finish(mut self) -> Result<Trace, OpenError> {
        for at in (0..self.source.nodes.len() as u32).rev() {
            self.end(at);
        }
        self.trace.events.reserve(self.rows.len());
        for row in &self.rows {
            self.trace.events.push(row);
        }
        let source = self.source;
        let collective = |(node, args): &(EtNodeIndex, _)| Some((self.placed[node.0 as usize]?, *args));
        let mut found: Vec<_> = source.collectives.iter().filter_map(collective).collect();
        found.sort_by_key(|(event, _)| *event);
        for (event, args) in found {
            self.trace.collectives.push(event, args);
        }
        self.trace.finish(source.path.clone(), "execution-trace")
    }
}

/// The list of the arguments of `node`; `None` when it has none.
pub(in crate::trace) fn tensors(
    source: &ExecutionTrace,
    node: &EtNode,
    names: &mut NameTable,
    lists: &mut TensorLists,
) -> Option<TensorArgsId> {
    let args = lists::tensor_args(source, &node.inputs, names);
    (args != TensorArgs::default()).then(|| lists.id(args))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::execution_trace::Builder;

    fn node(id: u64, parent: u64, rf_id: u64, tid: u32, name: &str) -> String {
        format!(r#"{{"name": "{name}", "id": {id}, "rf_id": {rf_id}, "parent": {parent}, "tid": {tid}}}"#)
    }

    fn laid_out(nodes: &[String]) -> Vec<(String, i64, i64, TrackId)> {
        let mut builder = Builder::default();
        for text in nodes {
            builder.node(text.as_bytes()).unwrap();
        }
        let trace = builder.finish(std::path::Path::new("x")).unwrap().laid_out().unwrap();
        let row = |id| {
            let event = trace.events.get(id);
            (trace.names.get(event.name).to_owned(), event.start.0 / 1000, event.end().0 / 1000, event.track)
        };
        trace.events.ids().map(row).collect()
    }

    #[test]
    fn nodes_nest_in_the_order_in_which_they_began() {
        let nodes = [
            node(2, 1, 0, 1, "[pytorch|profiler|execution_trace|thread]"),
            node(9, 2, 1, 1, "aten::linear"),
            node(4, 9, 3, 1, "aten::addmm"),
            node(5, 9, 2, 1, "aten::t"),
            node(7, 6, 4, 2, "aten::mul"),
            node(8, 2, 5, 1, "aten::add"),
        ];
        let (main, second) = (TrackId(0), TrackId(1));
        let expected = [
            ("aten::linear", 0, 8, main),
            ("aten::t", 2, 4, main),
            ("aten::addmm", 5, 7, main),
            ("aten::mul", 9, 11, second),
            ("aten::add", 12, 14, main),
        ];
        assert_eq!(laid_out(&nodes), expected.map(|(name, from, to, track)| (name.to_owned(), from, to, track)));
    }

    #[test]
    fn nodes_that_contain_each_other_still_end() {
        let rows = laid_out(&[node(2, 3, 1, 1, "a"), node(3, 2, 2, 1, "b"), node(4, 4, 3, 1, "c")]);
        assert!(rows.len() == 3 && rows.iter().all(|(_, from, to, _)| from < to), "{rows:?}");
    }
}
