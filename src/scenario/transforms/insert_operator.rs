//! `insert OPERATOR after SELECTOR [like SELECTOR]`: an operator that was not there, with host time, launches and kernels.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::{Caller, OverheadKind, Prediction, Provenance, Work, planned_kernels};
use crate::graph::{HostPart, OperatorId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Added, Draft, Node, Source};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{Bytes, DurNs};

use super::kernel::{self, NewKernel, Side};
use super::replace::known_operator;
use super::report::count;

/// Runs an operator after each selected one.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertOperator {
    /// The operator, e.g. `aten::relu`.
    pub operator: String,
    /// The operators after which it runs.
    pub after: Selector,
    /// Whose arguments it has: those of the first operator selected; of the one before it without.
    pub like: Option<Selector>,
}

/// Reads what follows `insert OPERATOR`.
pub(super) fn parse(operator: Word<'_>, words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    known_operator(operator, "`kernel` or ")?;
    let keyword = words.expect("`after`")?;
    if keyword.text != "after" {
        return Err(StepError::at(keyword.column, format!("`{}`: expected `after`", keyword.text)));
    }
    let (after, like) = words.optional_half("like", "insert OPERATOR after SELECTOR like SELECTOR")?;
    let like = like.map(|like| Selector::parse_at(like.text, like.column)).transpose()?;
    let after = Selector::parse_at(after.text, after.column)?;
    Ok(Arc::new(InsertOperator { operator: operator.text.to_owned(), after, like }))
}

/// A kernel of the operator, and what it takes.
type Kernel = (String, Work, Prediction);

impl Transform for InsertOperator {
    fn name(&self) -> &'static str {
        super::insert::SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        std::iter::once(&self.after).chain(&self.like).collect()
    }

    fn line(&self) -> String {
        let like = self.like.as_ref().map(|like| format!(" like {like}")).unwrap_or_default();
        format!("{} {} after {}{like}", self.name(), self.operator, self.after)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let places = places(draft, &self.after.select_all(draft));
        if places.is_empty() {
            return StepReport::nothing(format!("no operator with device work matches {}", self.after));
        }
        let like = match self.like.as_ref().map(|like| places_of(draft, like)) {
            None => None,
            Some(found) => match found.first() {
                Some(&(operator, _)) => Some(operator),
                None => return StepReport::nothing("no operator with device work is like it"),
            },
        };
        let (mut kernels, mut unknown) = (0, 0);
        for &(operator, last) in &places {
            match self.kernels(draft, like.unwrap_or(operator), last) {
                Some(planned) => {
                    kernels += planned.len();
                    self.insert(draft, (operator, like.unwrap_or(operator)), last, planned);
                }
                None => unknown += 1,
            }
        }
        let inserted = places.len() - unknown;
        let mut report = StepReport { changed: inserted, ..StepReport::default() };
        if inserted > 0 {
            report.summary = format!("{} ×{inserted} with {} inserted", self.operator, count(kernels, "kernel"));
        }
        if unknown > 0 {
            report.unhandled.push(format!("{unknown} not inserted: the arguments do not fit {}", self.operator));
        }
        report
    }
}

/// The last device work of every selected operator, in order.
fn places(draft: &Draft<'_>, chosen: &[Node]) -> Vec<(OperatorId, Node)> {
    let mut last: BTreeMap<OperatorId, Node> = BTreeMap::new();
    for &node in chosen.iter().filter(|&&node| draft.kind_of(node) == TaskKind::Kernel) {
        if let Some(operator) = draft.operator_of(node) {
            last.insert(operator, node);
        }
    }
    last.into_iter().collect()
}

fn places_of(draft: &Draft<'_>, selector: &Selector) -> Vec<(OperatorId, Node)> {
    places(draft, &selector.select_all(draft))
}

impl InsertOperator {
    /// Its kernels on the device of `beside`, with the arguments of `like`: as that one's were measured where it is the
    /// same operator.
    fn kernels(&self, draft: &Draft<'_>, like: OperatorId, beside: Node) -> Option<Vec<Kernel>> {
        let graph = draft.graph();
        let caller = Caller { operator: &self.operator, operands: draft.operands(like) };
        let operator = graph.operators.get(like.0 as usize)?;
        let planned = planned_kernels(caller, None, operator.phase)?;
        let rank = draft.rank_of(draft.lane_of(beside));
        let is_same = graph.names.get(operator.name) == self.operator;
        let measured: Vec<Prediction> = graph
            .tasks
            .node_indices()
            .filter(|&node| is_same && graph.tasks[node].operator == Some(like))
            .filter(|&node| graph.tasks[node].kind == TaskKind::Kernel && !draft.is_removed(node))
            .map(|node| draft.price(node))
            .collect();
        let price = |(at, work): (usize, &Work)| {
            let known = (measured.len() == planned.len()).then(|| measured[at]);
            known.or_else(|| draft.price_new(work, rank))
        };
        let named = |(at, kernel): (usize, &crate::cost::PlannedKernel)| {
            Some((kernel.name.to_owned(), kernel.work.clone(), price((at, &kernel.work))?))
        };
        planned.iter().enumerate().map(named).collect()
    }

    /// Puts the operator after the device work `last`: T2, its calls, T3; its kernels on that stream.
    fn insert(
        &self,
        draft: &mut Draft<'_>,
        (operator, like): (OperatorId, OperatorId),
        last: Node,
        kernels: Vec<Kernel>,
    ) {
        let caller: Arc<str> = Arc::from(self.operator.as_str());
        let (mut at, mut calls) = (last, Vec::new());
        for (number, (name, work, prediction)) in kernels.into_iter().enumerate() {
            let source = Source::Like(caller.clone(), like, number as u16);
            let (operator, work, caller) = (Some(operator), Some(work), Some(caller.clone()));
            let new = NewKernel { name, operator, work, prediction, source, caller };
            let placed = kernel::place(draft, at, Side::After, new);
            at = placed.kernel;
            calls.extend(placed.call);
        }
        if let (Some(&first), Some(&last)) = (calls.first(), calls.last()) {
            self.host(draft, (first, Side::Before), (HostPart::BeforeLaunch, OverheadKind::T2));
            self.host(draft, (last, Side::After), (HostPart::AfterLaunch, OverheadKind::T3));
        }
    }

    /// The operator's own host time on one side of a call, from the database.
    fn host(&self, draft: &mut Draft<'_>, (call, side): (Node, Side), (part, kind): (HostPart, OverheadKind)) {
        let Some(found) = draft.context().overheads.get(kind, &self.operator) else { return };
        let error = if found.mean_us > 0.0 { (found.std_us / found.mean_us) as f32 } else { 1.0 };
        let duration = DurNs::from_us_f64(found.mean_us);
        let prediction =
            Prediction { duration, provenance: Provenance::Absolute, model: "overheads", error, extrapolated: false };
        let (lane, operator, after) = (draft.lane_of(call), draft.operator_of(call), draft.beside(call));
        let (source, caller) = (Source::Given, Some(Arc::from(self.operator.as_str())));
        let (name, kind, bytes, members) = (self.operator.as_str().into(), TaskKind::Host(part), Bytes(0), Vec::new());
        let added = Added { name, kind, lane, operator, bytes, work: None, prediction, members, source, caller, after };
        let node = Node::Added(draft.add(added));
        kernel::put(draft, call, side, node, DurNs::ZERO);
    }
}
