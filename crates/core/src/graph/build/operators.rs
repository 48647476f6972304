//! The operators of a rank inside its window, with phase, module, operands and the link from backward to forward.

use rustc_hash::FxHashMap;

use crate::graph::{LaneId, Operands, OperandsId, Operator, OperatorId, Phase, Transfer};
use crate::intern::{NameId, NameTable};
use crate::trace::{EventId, MODULE_CALL, Sequence, TensorArgsId, Trace};
use crate::units::TimeNs;

use super::emit::RankWriter;
use super::operands;
use super::threads::{Span, Thread};

/// Operators and distinct operands.
#[derive(Debug, Default)]
pub(super) struct OperatorTable {
    /// In order of rank, thread and start.
    pub(super) list: Vec<Operator>,
    /// Distinct argument lists.
    pub(super) operands: Vec<Operands>,
    known: FxHashMap<Operands, OperandsId>,
}

impl OperatorTable {
    /// The id of `operands`, which are added if they are new.
    pub(super) fn operands(&mut self, operands: &Operands) -> OperandsId {
        if let Some(&known) = self.known.get(operands) {
            return known;
        }
        let id = OperandsId(self.operands.len() as u32);
        self.operands.push(operands.clone());
        self.known.insert(operands.clone(), id);
        id
    }
}

/// Adds the operators that touch the window; by thread and position, their ids.
pub(super) fn emit(writer: &mut RankWriter<'_, '_>) -> Vec<Vec<Option<OperatorId>>> {
    let observed = writer.observed;
    let mut lists: FxHashMap<TensorArgsId, OperandsId> = FxHashMap::default();
    let ids = observed
        .threads
        .list
        .iter()
        .enumerate()
        .map(|(index, thread)| emit_thread(writer, index, thread, &mut lists))
        .collect();
    close_subtrees(&mut writer.shared.operators.list);
    link_forward(&mut writer.shared.operators.list, observed.trace);
    ids
}

fn emit_thread(
    writer: &mut RankWriter<'_, '_>,
    index: usize,
    thread: &Thread,
    lists: &mut FxHashMap<TensorArgsId, OperandsId>,
) -> Vec<Option<OperatorId>> {
    let mut ids: Vec<Option<OperatorId>> = vec![None; thread.operators.len()];
    let mut modules = Modules::new(writer.observed.trace, thread);
    let (from, to) = (writer.window.start, writer.window.tail);
    for (position, span) in thread.operators.iter().enumerate() {
        if span.end <= from || span.start >= to {
            continue;
        }
        let parent = span.parent.and_then(|parent| ids[parent as usize]);
        let module = match parent {
            Some(parent) => writer.shared.operators.list[parent.0 as usize].module,
            None => modules.at(writer.observed.trace, &mut writer.shared.names, span),
        };
        let id = OperatorId(writer.shared.operators.list.len() as u32);
        ids[position] = Some(id);
        let operator = operator(writer, LaneId(writer.thread_lanes + index as u32), thread, span, parent);
        let operands = operands_of(writer, span.event, lists);
        writer.shared.operators.list.push(Operator { module, operands, subtree_end: OperatorId(id.0 + 1), ..operator });
    }
    ids
}

fn operator(
    writer: &mut RankWriter<'_, '_>,
    lane: LaneId,
    thread: &Thread,
    span: &Span,
    parent: Option<OperatorId>,
) -> Operator {
    let trace = writer.observed.trace;
    let name = trace.events.name(span.event);
    let inherited = parent.map(|parent| writer.shared.operators.list[parent.0 as usize].phase);
    Operator {
        name: writer.name(name),
        parent,
        subtree_end: OperatorId(0),
        lane,
        event: span.event,
        start: TimeNs(span.start.since(writer.zero).0),
        dur: span.end.since(span.start),
        operands: None,
        phase: inherited.filter(|&phase| phase != Phase::Forward).unwrap_or_else(|| {
            phase_of_name(trace.names.get(name))
                .or_else(|| phase_of_annotation(writer, thread, span))
                .unwrap_or(Phase::Forward)
        }),
        forward: None,
        module: NameId(0),
        transfer: trace
            .transfers
            .as_ref()
            .and_then(|transfers| transfers.get(span.event))
            .map(|it| Transfer { to_host: it.to_host, is_waited_for: it.is_waited_for }),
    }
}

fn operands_of(
    writer: &mut RankWriter<'_, '_>,
    event: EventId,
    lists: &mut FxHashMap<TensorArgsId, OperandsId>,
) -> Option<OperandsId> {
    let trace = writer.observed.trace;
    let list = trace.operators.get(event)?.tensors?;
    if let Some(&known) = lists.get(&list) {
        return Some(known);
    }
    let args = trace.tensor_args.get(list.index())?;
    let text = |name| trace.names.get(name);
    let operands = operands::parse([args.dims, args.types, args.concrete, args.strides].map(text));
    let id = writer.shared.operators.operands(&operands);
    lists.insert(list, id);
    Some(id)
}

pub(super) fn phase_of_name(name: &str) -> Option<Phase> {
    if name.starts_with("autograd::engine") || name.contains("Backward") || name.contains("AccumulateGrad") {
        return Some(Phase::Backward);
    }
    let optimizer =
        name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_ada") || name.contains("Optimizer.");
    optimizer.then_some(Phase::Optimizer)
}

/// Annotations that say which part of training they are, innermost first.
fn phase_of_annotation(writer: &RankWriter<'_, '_>, thread: &Thread, span: &Span) -> Option<Phase> {
    let trace = writer.observed.trace;
    let names = thread.annotations_at(span.start).map(|event| trace.names.get(trace.events.name(event)));
    names.into_iter().find_map(Phase::of_annotation)
}

/// Widens every subtree to the end of its last operator.
pub(super) fn close_subtrees(operators: &mut [Operator]) {
    for index in (0..operators.len()).rev() {
        let end = operators[index].subtree_end;
        if let Some(parent) = operators[index].parent {
            let parent = &mut operators[parent.0 as usize];
            parent.subtree_end = parent.subtree_end.max(end);
        }
    }
}

/// Joins backward operators to the forward operator of the same sequence number: the last that saw it is the one that
/// made the backward node. A backward operator without a module takes that of its forward one.
fn link_forward(operators: &mut [Operator], trace: &Trace) {
    let sequence = |operator: &Operator| trace.operators.get(operator.event).and_then(|args| args.sequence);
    let mut made: FxHashMap<Sequence, (TimeNs, u32)> = FxHashMap::default();
    for (index, operator) in operators.iter().enumerate().filter(|(_, op)| op.phase == Phase::Forward) {
        if let Some(sequence) = sequence(operator) {
            let entry = made.entry(sequence).or_insert((operator.start, index as u32));
            *entry = (*entry).max((operator.start, index as u32));
        }
    }
    for index in 0..operators.len() {
        let operator = operators[index];
        if operator.phase != Phase::Backward {
            continue;
        }
        let own = sequence(&operator).and_then(|sequence| made.get(&sequence)).map(|&(_, forward)| OperatorId(forward));
        let of_parent = operator.parent.and_then(|parent| operators[parent.0 as usize].forward);
        let forward = own.or(of_parent);
        operators[index].forward = forward;
        if let Some(forward) = forward.filter(|_| operator.module == NameId(0)) {
            operators[index].module = operators[forward.0 as usize].module;
        }
    }
}

/// The modules around a thread's operators, from its Python frames.
pub(super) struct Modules {
    frames: Vec<EventId>,
    next: usize,
    open: Vec<EventId>,
    paths: FxHashMap<EventId, NameId>,
}

impl Modules {
    pub(super) fn new(trace: &Trace, thread: &Thread) -> Self {
        let is_module = |&frame: &EventId| trace.names.get(trace.events.name(frame)).starts_with(MODULE_CALL);
        let frames = thread.frames.iter().copied().filter(is_module).collect();
        Self { frames, next: 0, open: Vec::new(), paths: FxHashMap::default() }
    }

    /// The path of modules around `span`, outermost first (`Bert_0/Linear_3`); empty when none is known.
    pub(super) fn at(&mut self, trace: &Trace, names: &mut NameTable, span: &Span) -> NameId {
        let events = &trace.events;
        while let Some(&frame) = self.frames.get(self.next).filter(|&&frame| events.start(frame) <= span.start) {
            self.open.retain(|&open| events.end(open) > events.start(frame));
            self.open.push(frame);
            self.next += 1;
        }
        self.open.retain(|&open| events.end(open) > span.start);
        let Some(&nearest) = self.open.last() else { return recorded_line(trace, names, span) };
        if let Some(&known) = self.paths.get(&nearest) {
            return known;
        }
        let name = |&frame: &EventId| trace.names.get(trace.events.name(frame)).trim_start_matches(MODULE_CALL);
        let path = self.open.iter().map(name).collect::<Vec<_>>().join("/");
        let path = names.intern(&path);
        self.paths.insert(nearest, path);
        path
    }
}

/// The innermost line of the stack that the operator itself recorded.
fn recorded_line(trace: &Trace, names: &mut NameTable, span: &Span) -> NameId {
    let Some(args) = trace.operators.get(span.event) else { return NameId(0) };
    let stack = if args.stack == NameId(0) { args.kernel_file } else { args.stack };
    let line = trace.names.get(stack).split(['\n', ';', '␊']).next().unwrap_or_default();
    names.intern(line)
}
