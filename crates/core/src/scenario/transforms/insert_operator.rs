//! `insert OPERATOR after SELECTOR [like SELECTOR]`: an operator that was not there, with host time, launches and kernels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{Caller, PlannedKernel, Prediction, Work, planned_kernels};
use crate::graph::{Operand, OperatorId, Phase, TaskKind};
use crate::intern::printable;
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, Source};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::caller_time::CallerTime;
use super::kernel::{self, NewKernel, Side};
use super::report::{call_of, count, refused_host_read};

/// Runs an operator after each selected one.
#[derive(Clone, Debug, PartialEq)]
struct InsertOperator {
    /// The operator, e.g. `aten::relu`.
    operator: String,
    /// The operators after which it runs.
    after: Selector,
    /// Whose arguments it has: those of the first operator selected; of the one before it without.
    like: Option<Selector>,
}

/// What follows `insert` where it is no kernel.
pub(super) const FORM: Form = Form {
    arguments: &[
        Argument::new("OPERATOR", "`kernel` or an operator with a known cost", Kind::Operator),
        Argument::selector().after(" after "),
        Argument::selector().after(" like ").optional(),
    ],
    build: |given| {
        let operator = given.get(0)?;
        Some(Arc::new(InsertOperator { operator, after: given.get(1)?, like: given.get(2)? }))
    },
};

/// A kernel of the operator.
#[derive(Debug)]
struct Kernel {
    name: Arc<str>,
    work: Arc<Work>,
    /// What a model says that it takes.
    prediction: Option<Prediction>,
}

/// What tells the operator's kernels: the arguments that it has, the part of training and the rank.
type Arguments = (Option<u32>, Phase, usize);

impl Transform for InsertOperator {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        if let Some(refused) = refused_host_read(&self.operator) {
            return refused;
        }
        let places = places_of(draft, &self.after);
        if places.is_empty() {
            return StepReport::nothing(format!("no operator with device work matches {}", self.after));
        }
        let like = match self.like.as_ref().map(|like| places_of(draft, like)) {
            None => None,
            Some(found) => match found.first() {
                Some(place) => Some(place.operator),
                None => return StepReport::nothing("no operator with device work is like it"),
            },
        };
        let (mut kernels, mut inserted, mut shown, mut unknown) = (0, 0, 0, 0);
        let mut insertion = Insertion::of(draft, &self.operator);
        for &Place { call, operator, last } in &places {
            let like = like.unwrap_or(operator);
            match insertion.insert(draft, (call, like), (last, None)) {
                Some(count) => {
                    let is_shown = draft.is_in_step(last);
                    kernels += if is_shown { count } else { 0 };
                    (inserted, shown) = (inserted + 1, shown + usize::from(is_shown));
                }
                None => unknown += usize::from(draft.is_in_step(last)),
            }
        }
        let mut report = StepReport { changed: inserted, ..StepReport::default() };
        if inserted > 0 {
            report.summary = format!("{} ×{shown} with {} inserted", self.operator, count(kernels, "kernel"));
            if let Some(effect) =
                places.first().and_then(|first| self.arguments_of(draft, like.unwrap_or(first.operator)))
            {
                report.say(effect);
            }
        }
        let is_forward = |place: &Place| draft.graph().operators[place.operator.0 as usize].phase == Phase::Forward;
        let trains = draft.graph().operators.iter().any(|operator| operator.phase == Phase::Backward);
        if inserted > 0 && trains && places.iter().any(is_forward) {
            report.say(Effect::not_modelled(FORWARD_ONLY, DurNs::ZERO));
        }
        if unknown > 0 {
            let text = format!("{unknown} not inserted: the arguments do not fit {}", self.operator);
            report.say(Effect::not_modelled(text, DurNs::ZERO));
        }
        report
    }
}

/// What an operator of a forward pass would have besides.
const FORWARD_ONLY: &str =
    "its gradients, what it keeps for them, and parameters of its own with their state are not added";

/// A call of a selected operator.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The outermost operator that the selector asks for.
    call: OperatorId,
    /// The operator below it that launches its last device work.
    operator: OperatorId,
    /// That work.
    last: Node,
}

/// The calls of every operator that `selector` asks for, in order, and of each time that an edit repeats them.
fn places_of(draft: &Draft<'_>, selector: &Selector) -> Vec<Place> {
    let mut found: BTreeMap<(OperatorId, u32), Place> = BTreeMap::new();
    let mut times: FxHashMap<Option<Node>, u32> = FxHashMap::default();
    let origin = |node| std::iter::successors(Some(node), |&node| draft.repeated(node)).last();
    for last in selector.select_all(draft).into_iter().filter(|&node| draft.kind_of(node) == TaskKind::Kernel) {
        if let Some((operator, call)) = draft.operator_of(last).zip(call_of(draft, selector, last)) {
            let time = times.entry(origin(last)).or_default();
            found.insert((call, *time), Place { call, operator, last });
            *time += 1;
        }
    }
    found.into_values().collect()
}

impl InsertOperator {
    /// On what it works where its arguments are from `like`, another operator: what that one wrote was not recorded.
    fn arguments_of(&self, draft: &Draft<'_>, like: OperatorId) -> Option<Effect> {
        let graph = draft.graph();
        let name = graph.names.get(graph.operators[like.0 as usize].name);
        if name == self.operator {
            return None;
        }
        let (name, arguments) = (printable(name), draft.arguments_from(&self.operator, like)?);
        let dims = arguments.inputs.iter().find_map(Operand::dims)?;
        let operator = &self.operator;
        Some(match arguments {
            Cow::Owned(_) => {
                Effect::note(format!("{operator} works on the result of {name}, {dims:?} where it is first"))
            }
            Cow::Borrowed(_) => Effect::assumption(format!(
                "{operator} has the arguments of {name}, not its results: {dims:?} first; `like` names others"
            )),
        })
    }
}

/// An operator that is added at many places, with what is known of its kernels.
#[derive(Debug)]
pub(super) struct Insertion {
    new: NewOperator,
    /// What the kernels of every traced operator of its name take.
    measured: FxHashMap<OperatorId, Vec<Prediction>>,
    known: FxHashMap<Arguments, Option<Vec<Kernel>>>,
}

impl Insertion {
    pub(super) fn of(draft: &Draft<'_>, operator: &str) -> Self {
        let new = NewOperator::of(draft, operator);
        Self { new, measured: measured(draft, operator), known: FxHashMap::default() }
    }

    /// Puts it behind the device work `last`, beside an operator and on the arguments of another one, its calls behind those of `last` or
    /// the host work that is told; answers how many kernels it has, `None` where the arguments do not fit.
    pub(super) fn insert(
        &mut self,
        draft: &mut Draft<'_>,
        (beside, like): (OperatorId, OperatorId),
        (last, call_at): (Node, Option<Node>),
    ) -> Option<usize> {
        let (phase, rank) = (draft.graph().operators[like.0 as usize].phase, draft.rank_of(draft.lane_of(last)));
        let key = (draft.arguments(like), phase, rank);
        let planned = self.known.entry(key).or_insert_with(|| kernels(draft, &self.new.name, like, rank)).as_ref();
        let planned = priced(planned?, self.measured.get(&like))?;
        let count = planned.len();
        self.new.insert(draft, (beside, like), (last, call_at), planned);
        Some(count)
    }
}

/// The kernels of operator `name` on the device of rank `rank`, with the arguments of `like`.
fn kernels(draft: &Draft<'_>, name: &str, like: OperatorId, rank: usize) -> Option<Vec<Kernel>> {
    let operands = draft.arguments_from(name, like);
    let caller = Caller { operator: name, operands: operands.as_deref() };
    let phase = draft.graph().operators.get(like.0 as usize)?.phase;
    let kernel = |PlannedKernel { name, work }| {
        let prediction = draft.price_new(&work, rank);
        Kernel { name: name.into(), work: Arc::new(work), prediction }
    };
    Some(draft.as_rounded(planned_kernels(caller, None, phase)?).into_iter().map(kernel).collect())
}

/// What the kernels of every traced operator called `operator` take.
fn measured(draft: &Draft<'_>, operator: &str) -> FxHashMap<OperatorId, Vec<Prediction>> {
    let graph = draft.graph();
    let mut measured: FxHashMap<OperatorId, Vec<Prediction>> = FxHashMap::default();
    let Some(name) = graph.names.find(operator) else { return measured };
    let kernels = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel);
    for node in kernels.filter(|&node| !draft.is_removed(node)) {
        let operator = graph.tasks[node].operator;
        if let Some(id) = operator.filter(|id| graph.operators[id.0 as usize].name == name) {
            measured.entry(id).or_default().push(draft.price_without_figures(node));
        }
    }
    measured
}

/// What each kernel takes: as measured of the same operator, else as a model says.
fn priced<'k>(planned: &'k [Kernel], measured: Option<&Vec<Prediction>>) -> Option<Vec<(&'k Kernel, Prediction)>> {
    let measured = measured.filter(|measured| measured.len() == planned.len());
    let price = |at: usize| measured.map_or(planned[at].prediction, |measured| Some(measured[at]));
    planned.iter().enumerate().map(|(at, kernel)| Some((kernel, price(at)?))).collect()
}

/// An operator to be added.
#[derive(Debug)]
struct NewOperator {
    name: Arc<str>,
    time: CallerTime,
}

impl NewOperator {
    fn of(draft: &Draft<'_>, name: &str) -> Self {
        Self { name: name.into(), time: CallerTime::of(draft, name, name) }
    }

    /// Puts the operator after the device work `last`: T2, its calls, T3; its kernels on that stream.
    fn insert(
        &self,
        draft: &mut Draft<'_>,
        (operator, like): (OperatorId, OperatorId),
        (last, mut call_at): (Node, Option<Node>),
        kernels: Vec<(&Kernel, Prediction)>,
    ) {
        let (mut at, mut calls) = (last, Vec::new());
        for (number, (kernel, prediction)) in kernels.into_iter().enumerate() {
            let source = Source::Like(self.name.clone(), like, number as u16);
            let (name, work) = (kernel.name.clone(), Some(kernel.work.clone()));
            let (operator, caller) = (Some(operator), Some(self.name.clone()));
            let new = NewKernel { name, operator, work, prediction, source, caller, call_at };
            call_at = None;
            let placed = kernel::place(draft, at, Side::After, new);
            at = placed.kernel;
            calls.extend(placed.call);
        }
        if let (Some(&first), Some(&last)) = (calls.first(), calls.last()) {
            self.time.add(draft, (first, last));
        }
    }
}
