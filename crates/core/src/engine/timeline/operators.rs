//! Operators as the profiler records them, and which call of its operator a task belongs to: edits that repeat work call its operators
//! again.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::event::{self, Args, Arguments, Event, StatedWork};
use super::{Shown, Timeline};
use crate::cost::Work;
use crate::graph::{LaneId, LaneKind, Operand, Operator, OperatorId, Phase, TaskId, TaskKind};
use crate::trace::MODULE_CALL;
use crate::units::{DurNs, TimeNs};

/// The simulated time of an operator, by operator.
type Spans = Vec<Option<(TimeNs, TimeNs)>>;

/// The calls of operators: the traced one has number 0, repeated ones count from 1.
pub(super) struct Calls {
    operators: usize,
    /// By task of a thread the operator it belongs to and the number of the call.
    of_task: FxHashMap<TaskId, (OperatorId, u32)>,
    /// By operator the outermost one around it.
    outermost: Vec<OperatorId>,
    /// By number of call and outermost operator the thread it is on.
    threads: BTreeMap<(u32, OperatorId), LaneId>,
    /// By launch of a graph the outermost operators of its work of which the host does nothing any more.
    captured: BTreeMap<TaskId, BTreeSet<OperatorId>>,
}

/// A run of tasks of one outermost operator on a thread.
struct Run {
    lane: LaneId,
    is_added: bool,
    tasks: Vec<(TaskId, OperatorId)>,
    /// How many of them launch or compute.
    works: usize,
    /// How many of those were traced.
    traced: usize,
}

impl Calls {
    /// # Complexity
    /// O(n log n) in tasks.
    pub(super) fn of(timeline: &Timeline<'_>) -> Self {
        let outermost = outermost(&timeline.operators);
        let mut calls = Self {
            operators: outermost.len(),
            of_task: FxHashMap::default(),
            outermost,
            threads: BTreeMap::new(),
            captured: BTreeMap::new(),
        };
        for (root, runs) in runs(timeline, &calls.outermost) {
            let traced: usize = runs.iter().filter(|run| !run.is_added).map(|run| run.traced).sum();
            let mut next = 1;
            for run in runs {
                // A launch that was added to an operator is no call of it.
                let is_call = run.is_added && 2 * run.works >= traced;
                let number = if is_call { next } else { 0 };
                next += u32::from(is_call);
                calls.of_task.extend(run.tasks.into_iter().map(|(task, operator)| (task, (operator, number))));
                if number > 0 || !run.is_added {
                    calls.threads.insert((number, root), run.lane);
                }
            }
        }
        calls.capture(timeline);
        calls
    }

    /// Finds launches of graphs: they launch work of operators that do nothing on the host, and are no part of an operator themselves.
    fn capture(&mut self, timeline: &Timeline<'_>) {
        let on_host = |calls: &Self| -> BTreeSet<OperatorId> {
            calls.of_task.values().map(|(id, _)| calls.outermost[id.0 as usize]).collect()
        };
        let mut launched: BTreeMap<TaskId, BTreeSet<OperatorId>> = BTreeMap::new();
        for shown in timeline.shown.iter().filter(|shown| shown.kind.is_device()) {
            if let Some((operator, call)) = shown.operator.zip(timeline.launch_of(shown)) {
                launched.entry(call).or_default().insert(self.outermost[operator.0 as usize]);
            }
        }
        let there = on_host(self);
        launched.retain(|_, roots| !roots.is_subset(&there));
        self.of_task.retain(|task, _| !launched.contains_key(task));
        let mut there = on_host(self);
        for roots in launched.values_mut() {
            roots.retain(|&root| there.insert(root));
        }
        self.captured = launched;
    }

    /// The number in the file of an operator's call that the host's `task` belongs to.
    pub(super) fn external(&self, operator: OperatorId, task: Option<TaskId>) -> u64 {
        let of_task = task.and_then(|task| self.of_task.get(&task));
        let root = |id: OperatorId| self.outermost.get(id.0 as usize);
        let number = of_task.filter(|(caller, _)| root(*caller) == root(operator)).map_or(0, |&(_, number)| number);
        self.numbered(operator, number)
    }

    fn numbered(&self, operator: OperatorId, number: u32) -> u64 {
        u64::from(operator.0) + 1 + u64::from(number) * self.operators as u64
    }
}

/// By operator the outermost one around it: callers stand before what they call.
fn outermost(operators: &[Operator]) -> Vec<OperatorId> {
    let mut found: Vec<OperatorId> = Vec::with_capacity(operators.len());
    for (index, operator) in operators.iter().enumerate() {
        found.push(operator.parent.map_or(OperatorId(index as u32), |parent| found[parent.0 as usize]));
    }
    found
}

/// By outermost operator the runs of its tasks in order. A run of added tasks behind others is a call of its own; traced ones are one,
/// with what was added among them.
fn runs(timeline: &Timeline<'_>, outermost: &[OperatorId]) -> BTreeMap<OperatorId, Vec<Run>> {
    let mut on_thread: Vec<&Shown<'_>> = timeline.shown.iter().filter(|shown| timeline.is_on_thread(shown)).collect();
    on_thread.sort_by_key(|shown| (shown.lane, timeline.start(shown.task), shown.task));
    let mut runs: BTreeMap<OperatorId, Vec<Run>> = BTreeMap::new();
    let (mut current, mut caller): (Option<(LaneId, OperatorId)>, Option<OperatorId>) = (None, None);
    for shown in on_thread {
        caller = caller.filter(|_| current.is_some_and(|(lane, _)| lane == shown.lane));
        // What follows a call that waited belongs to its operator.
        let operator = if shown.kind == TaskKind::Joint { caller } else { shown.operator };
        caller = operator.filter(|_| matches!(shown.kind, TaskKind::Runtime | TaskKind::Joint));
        let Some(operator) = operator else { continue };
        let (root, is_added) = (outermost[operator.0 as usize], shown.node.is_none());
        let known = runs.entry(root).or_default();
        let goes_on = current == Some((shown.lane, root));
        let same = known.iter().rposition(|run| if goes_on { true } else { !run.is_added && !is_added });
        let at = same.unwrap_or_else(|| {
            known.push(Run { lane: shown.lane, is_added, tasks: Vec::new(), works: 0, traced: 0 });
            known.len() - 1
        });
        known[at].is_added &= is_added;
        known[at].tasks.push((shown.task, operator));
        let works = usize::from(matches!(shown.kind, TaskKind::Runtime | TaskKind::Compute));
        known[at].works += works;
        known[at].traced += if is_added { 0 } else { works };
        current = Some((shown.lane, root));
    }
    runs
}

impl<'a> Timeline<'a> {
    fn is_on_thread(&self, shown: &Shown<'_>) -> bool {
        self.lane(shown.lane).is_some_and(|lane| matches!(lane.kind, LaneKind::Thread { .. }))
    }

    /// Every call of an operator over the simulated time of what it and its callees did on their thread, in a frame of its module where
    /// that is known.
    pub(super) fn operators(&self, calls: &Calls, is_shown: impl Fn(LaneId) -> bool, events: &mut Vec<Event<'a>>) {
        // A forward operator and what goes back through it share a number.
        let forward: BTreeSet<OperatorId> = self.operators.iter().filter_map(|operator| operator.forward).collect();
        let computed = self.computed(calls);
        let most = calls.threads.keys().map(|&(number, _)| number).max().unwrap_or(0);
        for number in 0..=most {
            for (index, span) in self.operator_spans(calls, number).into_iter().enumerate() {
                let id = OperatorId(index as u32);
                let thread = calls.threads.get(&(number, calls.outermost[index])).copied();
                let lane = thread.unwrap_or(self.operators[index].lane);
                if let Some(span) = span.filter(|_| is_shown(lane)) {
                    let work = computed.as_ref().map(|works| StatedWork::of(works.get(&(id, number)).copied()));
                    self.operator(calls, (id, number), (lane, span), (forward.contains(&id), work), events);
                }
            }
        }
    }

    /// By call what an operator computes on the host, where the file states it. Of several computations of one call the one that moves
    /// the most counts: the others prepare it.
    fn computed(&self, calls: &Calls) -> Option<FxHashMap<(OperatorId, u32), &'a Work>> {
        let is_computed = self.graph.tasks.node_weights().any(|task| task.kind == TaskKind::Compute);
        if !is_computed || !self.states_works() {
            return None;
        }
        let mut works: FxHashMap<(OperatorId, u32), &'a Work> = FxHashMap::default();
        for shown in self.shown.iter().filter(|shown| shown.kind == TaskKind::Compute) {
            let Some((&call, work)) = calls.of_task.get(&shown.task).zip(shown.work) else { continue };
            let known = works.entry(call).or_insert(work);
            if work.bytes() > known.bytes() {
                *known = work;
            }
        }
        Some(works)
    }

    fn operator(
        &self,
        calls: &Calls,
        (id, number): (OperatorId, u32),
        (lane, (from, to)): (LaneId, (TimeNs, TimeNs)),
        (has_backward, work): (bool, Option<StatedWork>),
        events: &mut Vec<Event<'a>>,
    ) {
        let Some(lane) = self.lane(lane) else { return };
        let operator = &self.operators[id.0 as usize];
        let is_traced = (id.0 as usize) < self.graph.operators.len();
        let operands = if is_traced { self.outcome.resolved.works.operands(self.graph, id) } else { None };
        let operands = operands.map(|operands| &operands.inputs);
        let shared =
            operator.forward.filter(|_| operator.phase == Phase::Backward).or(Some(id).filter(|_| has_backward));
        let args = Args {
            external_id: Some(calls.numbered(id, number)),
            sequence_number: shared.and_then(|id| i64::try_from(calls.numbered(id, number) - 1).ok()),
            arguments: operands.map(|inputs| {
                Box::new(Arguments {
                    input_dims: Some(inputs.iter().map(event::dims).collect()),
                    input_strides: event::strides(inputs),
                    input_type: Some(inputs.iter().map(event::type_name).collect()),
                    concrete_inputs: Some(inputs.iter().map(concrete).collect()),
                })
            }),
            work,
            ..Args::default()
        };
        let module = self.graph.names.get(operator.module);
        if operator.parent.is_none() && !module.is_empty() {
            let frame = format!("{MODULE_CALL}{module}").into();
            events.push(Event::complete("python_function", frame, self.process(&lane), from, to, Args::default()));
        }
        let name = self.operator_name(id).into();
        events.push(Event::complete("cpu_op", name, self.process(&lane), from, to, args));
    }

    /// The simulated span of each operator's call of this number; one without host time of its own, such as a view on a device, stands
    /// where the call before it in the same caller ended.
    fn operator_spans(&self, calls: &Calls, number: u32) -> Spans {
        let operators = &self.operators;
        let mut spans: Spans = vec![None; operators.len()];
        for (&task, &(id, _)) in calls.of_task.iter().filter(|(_, call)| call.1 == number) {
            widen(&mut spans[id.0 as usize], (self.start(task), self.end(task)));
        }
        if number == 0 {
            self.captured_spans(calls, &mut spans);
        }
        // Callers stand before what they called: each is complete when its turn comes.
        for index in (0..operators.len()).rev() {
            if let (Some(caller), Some(span)) = (operators[index].parent, spans[index]) {
                widen(&mut spans[caller.0 as usize], span);
            }
        }
        let mut reached: Vec<Option<TimeNs>> = vec![None; operators.len()];
        for (index, operator) in operators.iter().enumerate() {
            let Some(caller) = operator.parent.map(|id| id.0 as usize) else { continue };
            let at = reached[caller].or_else(|| spans[caller].map(|(from, _)| from));
            spans[index] = spans[index].or_else(|| at.map(|at| (at, at)));
            reached[caller] = spans[index].map(|(_, to)| to);
        }
        spans
    }

    /// Lets operators of captured work follow one another, each a nanosecond before what it calls, within the launch of the graph.
    fn captured_spans(&self, calls: &Calls, spans: &mut Spans) {
        for (&call, roots) in &calls.captured {
            let (mut at, end) = (self.start(call) + DurNs(1), self.end(call));
            for root in roots {
                let after = self.operators[root.0 as usize].subtree_end.0;
                let span_of = |id: u32| {
                    let to = self.operators[id as usize].subtree_end.0;
                    let [from, to] = [id, to].map(|place| at + DurNs(i64::from(place - root.0)));
                    (from, to)
                };
                let all: Vec<_> = (root.0..after).map(|id| Some(span_of(id)).filter(|&(_, to)| to <= end)).collect();
                spans[root.0 as usize..after as usize].copy_from_slice(&all);
                at = at + DurNs(i64::from(after - root.0));
            }
        }
    }
}

fn concrete(operand: &Operand) -> String {
    match operand {
        Operand::Value(text) => text.clone(),
        _ => String::new(),
    }
}

/// Lets `span` cover `other`, too.
fn widen(span: &mut Option<(TimeNs, TimeNs)>, other: (TimeNs, TimeNs)) {
    *span = Some(span.map_or(other, |(from, to)| (from.min(other.0), to.max(other.1))));
}
