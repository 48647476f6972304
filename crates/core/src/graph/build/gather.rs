//! Ranks, each written into a draft of its own, → one draft: everything numbered on, names and operands kept once.

use rayon::prelude::*;

use crate::graph::{Lane, LaneId, OperandsId, Operator, OperatorId, Task};
use crate::intern::NameId;
use crate::units::TimeNs;

use super::Prepared;
use super::draft::{Edge, NONE, ORIGIN};
use super::emit::{RankOutput, RankWriter, Shared};

/// What all ranks left.
pub(super) struct Written {
    /// Tasks, edges and tables of all ranks.
    pub(super) shared: Shared,
    /// Where each rank's markers and works are in the draft.
    pub(super) outputs: Vec<RankOutput>,
    /// Each rank's lane of joints and markers.
    pub(super) virtual_lanes: Vec<LaneId>,
}

/// Writes the ranks side by side and puts what they wrote together, in their order.
pub(super) fn write(ranks: &[Prepared<'_>], zeros: &[TimeNs]) -> Written {
    let mut all: Vec<(Shared, RankOutput)> =
        ranks.par_iter().zip(zeros).map(|(rank, &zero)| write_one(rank, zero)).collect();
    if all.len() == 1
        && let Some((shared, outputs)) = all.pop()
    {
        return Written { shared, outputs: vec![outputs], virtual_lanes: vec![LaneId(0)] };
    }
    // The origin is there once for all.
    let (mut shared, mut totals) = (Shared::default(), Totals { tasks: 1, ..Totals::default() });
    let shifts: Vec<Shift> = all.iter().map(|(own, _)| totals.take(&mut shared, own)).collect();
    let tasks = || {
        numbered_on(
            &all,
            |rank, own| own.draft.tasks.get(usize::from(rank > 0)..).unwrap_or_default(),
            |rank, task| shifts[rank].task(task),
        )
    };
    let edges = || numbered_on(&all, |_, own| &own.draft.edges, |rank, edge| shifts[rank].edge(edge));
    let operators =
        || numbered_on(&all, |_, own| &own.operators.list, |rank, operator| shifts[rank].operator(operator));
    (shared.draft.tasks, (shared.draft.edges, shared.operators.list)) =
        rayon::join(tasks, || rayon::join(edges, operators));
    shared.lanes = all.iter().zip(&shifts).flat_map(|((own, _), shift)| shift.lanes(&own.lanes)).collect();
    let virtual_lanes = shifts.iter().map(|shift| LaneId(shift.lanes)).collect();
    let outputs = all.into_par_iter().zip(&shifts).map(|((_, outputs), shift)| shift.outputs(outputs)).collect();
    Written { shared, outputs, virtual_lanes }
}

fn write_one(rank: &Prepared<'_>, zero: TimeNs) -> (Shared, RankOutput) {
    let mut shared = Shared::default();
    let outputs = RankWriter::new(&rank.observed, &rank.window, zero, rank.input.rank, &mut shared).run();
    (shared, outputs)
}

/// What `of` finds in each rank, in one list, every item as `change` makes it by its rank.
fn numbered_on<'a, T: Copy + Send + Sync + 'a>(
    all: &'a [(Shared, RankOutput)],
    of: impl Fn(usize, &'a Shared) -> &'a [T],
    change: impl Fn(usize, T) -> T + Sync,
) -> Vec<T> {
    let parts: Vec<&[T]> = all.iter().enumerate().map(|(rank, (own, _))| of(rank, own)).collect();
    let ends: Vec<usize> = parts.iter().scan(0, |end, part| Some((*end += part.len(), *end).1)).collect();
    let item = |rank: &mut usize, at: usize| {
        while ends[*rank] <= at {
            *rank += 1;
        }
        change(*rank, parts[*rank][at + parts[*rank].len() - ends[*rank]])
    };
    (0..ends.last().copied().unwrap_or_default()).into_par_iter().map_with(0, item).collect()
}

/// How much there is of the ranks so far.
#[derive(Default)]
struct Totals {
    tasks: usize,
    lanes: usize,
    operators: usize,
}

impl Totals {
    /// Takes names and operands of the next rank into `shared`; how its numbers change.
    fn take(&mut self, shared: &mut Shared, other: &Shared) -> Shift {
        let shift = Shift {
            tasks: self.tasks as u32,
            lanes: self.lanes as u32,
            operators: self.operators as u32,
            names: other.names.iter().map(|(_, name)| shared.names.intern(name)).collect(),
            operands: other.operators.operands.iter().map(|operands| shared.operators.operands(operands)).collect(),
        };
        self.tasks += other.draft.tasks.len().saturating_sub(1);
        self.lanes += other.lanes.len();
        self.operators += other.operators.list.len();
        shift
    }
}

/// From a rank's own numbers to those in the whole.
struct Shift {
    /// Where the tasks begin that follow the rank's origin, which is that of all.
    tasks: u32,
    lanes: u32,
    operators: u32,
    names: Vec<NameId>,
    operands: Vec<OperandsId>,
}

impl Shift {
    fn outputs(&self, own: RankOutput) -> RankOutput {
        let number = |task| self.number(task);
        let unexplained = own.unexplained.into_iter().map(|(task, by)| (number(task), by));
        let activities = own.activities.into_iter().map(number);
        let (begin, end) = (own.begin.map(number), number(own.end));
        RankOutput { begin, end, unexplained: unexplained.collect(), activities: activities.collect(), ..own }
    }

    fn lanes<'a>(&'a self, own: &'a [Lane]) -> impl Iterator<Item = Lane> + 'a {
        own.iter().map(|lane| Lane { name: self.name(lane.name), ..*lane })
    }

    fn edge(&self, edge: Edge) -> Edge {
        Edge { from: self.number(edge.from), to: self.number(edge.to), ..edge }
    }

    fn number(&self, task: u32) -> u32 {
        match task {
            ORIGIN | NONE => task,
            _ => task - 1 + self.tasks,
        }
    }

    fn name(&self, name: NameId) -> NameId {
        self.names.get(name.0 as usize).copied().unwrap_or_default()
    }

    fn lane(&self, lane: LaneId) -> LaneId {
        LaneId(lane.0 + self.lanes)
    }

    fn operator_id(&self, id: OperatorId) -> OperatorId {
        OperatorId(id.0 + self.operators)
    }

    fn task(&self, task: Task) -> Task {
        let operator = task.operator.map(|id| self.operator_id(id));
        Task { lane: self.lane(task.lane), name: self.name(task.name), operator, ..task }
    }

    fn operator(&self, operator: Operator) -> Operator {
        Operator {
            name: self.name(operator.name),
            module: self.name(operator.module),
            lane: self.lane(operator.lane),
            subtree_end: self.operator_id(operator.subtree_end),
            parent: operator.parent.map(|id| self.operator_id(id)),
            forward: operator.forward.map(|id| self.operator_id(id)),
            operands: operator.operands.and_then(|id| self.operands.get(id.0 as usize).copied()),
            ..operator
        }
    }
}
