//! Ranks, each written into a draft of its own, → one draft: everything numbered on, names and operands kept once.

use rayon::prelude::*;

use crate::graph::{Lane, LaneId, OperandsId, Operator, OperatorId, Task};
use crate::intern::NameId;
use crate::units::TimeNs;

use super::Prepared;
use super::draft::{Edge, NONE, ORIGIN};
use super::emit::{Emission, Emitted, Shared};

/// What all ranks left.
pub(super) struct Written {
    /// Tasks, edges and tables of all ranks.
    pub(super) shared: Shared,
    /// Where each rank's markers and works are in the draft.
    pub(super) emitted: Vec<Emitted>,
    /// Each rank's lane of joints and markers.
    pub(super) virtual_lanes: Vec<LaneId>,
}

/// Writes the ranks side by side and puts what they wrote together, in their order.
pub(super) fn write(ranks: &[Prepared<'_>], zeros: &[TimeNs]) -> Written {
    let mut all: Vec<(Shared, Emitted)> =
        ranks.par_iter().zip(zeros).map(|(rank, &zero)| write_one(rank, zero)).collect();
    let mut shared = all.first_mut().map(|(first, _)| std::mem::take(first)).unwrap_or_default();
    let mut totals = Totals::of(&shared);
    let others: Vec<Shift> = all.iter().skip(1).map(|(other, _)| totals.take(&mut shared, other)).collect();
    all.par_iter_mut().skip(1).zip(&others).for_each(|((other, emitted), shift)| shift.apply(other, emitted));
    shared.draft.tasks.reserve_exact(totals.tasks - shared.draft.tasks.len());
    shared.draft.edges.reserve_exact(totals.edges - shared.draft.edges.len());
    shared.operators.list.reserve_exact(totals.operators - shared.operators.list.len());
    let first_lane = LaneId(0);
    let virtual_lanes = std::iter::once(first_lane).chain(others.iter().map(|shift| LaneId(shift.lanes))).collect();
    let emitted = all.into_iter().map(|(other, emitted)| {
        // What the first wrote is there already.
        shared.draft.tasks.extend(other.draft.tasks.get(1..).unwrap_or_default());
        shared.draft.edges.extend(other.draft.edges);
        shared.lanes.extend(other.lanes);
        shared.operators.list.extend(other.operators.list);
        emitted
    });
    Written { emitted: emitted.collect(), shared, virtual_lanes }
}

fn write_one(rank: &Prepared<'_>, zero: TimeNs) -> (Shared, Emitted) {
    let mut shared = Shared::default();
    let emitted = Emission::new(&rank.observed, &rank.window, zero, rank.input.rank, &mut shared).run();
    (shared, emitted)
}

/// How much there is of the ranks so far.
struct Totals {
    tasks: usize,
    edges: usize,
    lanes: usize,
    operators: usize,
}

impl Totals {
    fn of(first: &Shared) -> Self {
        Self {
            tasks: first.draft.tasks.len(),
            edges: first.draft.edges.len(),
            lanes: first.lanes.len(),
            operators: first.operators.list.len(),
        }
    }

    /// Takes names and operands of the next rank into `shared`; how its numbers change.
    fn take(&mut self, shared: &mut Shared, other: &Shared) -> Shift {
        let shift = Shift {
            tasks: self.tasks as u32,
            lanes: self.lanes as u16,
            operators: self.operators as u32,
            names: other.names.iter().map(|(_, name)| shared.names.intern(name)).collect(),
            operands: other.operators.operands.iter().map(|operands| shared.operators.operands(operands)).collect(),
        };
        // The origin is there already.
        self.tasks += other.draft.tasks.len().saturating_sub(1);
        self.edges += other.draft.edges.len();
        self.lanes += other.lanes.len();
        self.operators += other.operators.list.len();
        shift
    }
}

/// From a rank's own numbers to those in the whole.
struct Shift {
    /// Where the tasks begin that follow the rank's origin, which is that of all.
    tasks: u32,
    lanes: u16,
    operators: u32,
    names: Vec<NameId>,
    operands: Vec<OperandsId>,
}

impl Shift {
    fn apply(&self, own: &mut Shared, emitted: &mut Emitted) {
        own.draft.tasks.iter_mut().for_each(|task| self.task(task));
        for Edge { from, to, .. } in &mut own.draft.edges {
            (*from, *to) = (self.number(*from), self.number(*to));
        }
        for Lane { name, .. } in &mut own.lanes {
            *name = self.name(*name);
        }
        own.operators.list.iter_mut().for_each(|operator| self.operator(operator));
        emitted.begin = emitted.begin.map(|task| self.number(task));
        emitted.end = self.number(emitted.end);
        emitted.unexplained.iter_mut().for_each(|(task, _)| *task = self.number(*task));
        emitted.works.iter_mut().for_each(|task| *task = self.number(*task));
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

    fn task(&self, task: &mut Task) {
        task.lane = self.lane(task.lane);
        task.name = self.name(task.name);
        task.operator = task.operator.map(|id| self.operator_id(id));
    }

    fn operator(&self, operator: &mut Operator) {
        operator.name = self.name(operator.name);
        operator.module = self.name(operator.module);
        operator.lane = self.lane(operator.lane);
        operator.subtree_end = self.operator_id(operator.subtree_end);
        operator.parent = operator.parent.map(|id| self.operator_id(id));
        operator.forward = operator.forward.map(|id| self.operator_id(id));
        operator.operands = operator.operands.and_then(|id| self.operands.get(id.0 as usize).copied());
    }
}
