//! The kernels that operators of a draft would launch on a GPU.

use std::borrow::Cow;

use crate::cost::operators::{bare, fits};
use crate::cost::{Caller, Family, Launch, PlannedKernel, Provenance, Shape, Work, planned_kernels, work_of};
use crate::device::Precision;
use crate::graph::{Operand, Operands, OperatorId, Phase, TaskKind};
use crate::scenario::work_classes::ConvUnits;
use crate::units::Bytes;

use super::{AddedId, Draft, Node, Source};

/// The kernels of operator `id` with its arguments as they are now; `None` when its work is not known.
fn kernels_of(draft: &Draft<'_>, id: OperatorId) -> Option<Vec<PlannedKernel>> {
    Some(draft.as_rounded(kernels_on(draft, id, |id| draft.operands(id))?))
}

/// The kernels of operator `id` on arguments that `operands` gives, as these tell their precision.
fn kernels_on<'d>(
    draft: &Draft<'d>,
    id: OperatorId,
    operands: impl Fn(OperatorId) -> Option<&'d Operands>,
) -> Option<Vec<PlannedKernel>> {
    let graph = draft.graph();
    let operator = graph.operators.get(id.0 as usize)?;
    let caller = |id: OperatorId| Caller {
        operator: graph.operators.get(id.0 as usize).map_or("", |operator| graph.names.get(operator.name)),
        operands: operands(id),
    };
    planned_kernels(caller(id), operator.forward.map(caller), operator.phase)
}

/// Operators of one tensor: of the arguments of an operator of several they take the first.
const OF_ONE: [&str; 20] = [
    "relu",
    "abs",
    "ceil",
    "clamp",
    "cos",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hardtanh",
    "leaky_relu",
    "log",
    "neg",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "silu",
    "sqrt",
    "tanh",
];

/// Operators of two tensors of one size.
const OF_TWO: [&str; 4] = ["add", "sub", "mul", "div"];

/// The result of `work` on `operands` in the forward pass, where that tells its sizes.
fn result_of(work: &Work, operands: &Operands) -> Option<Operand> {
    let is_result =
        |operand: &&Operand| operand.dims().is_some_and(|dims| !dims.is_empty()) && operand.bytes() == work.written;
    let dims = match work.shape {
        Shape::Gemm { batch: 1, m, n, .. } => vec![m, n],
        Shape::Gemm { batch, m, n, .. } => vec![batch, m, n],
        Shape::Conv { batch, channels_out, out_h, out_w, .. } => vec![batch, channels_out, out_h, out_w],
        Shape::Attention { batch, heads, queries, dim, backward: false, .. } => vec![batch, heads, queries, dim],
        _ => return operands.inputs.iter().find(is_result).cloned(),
    };
    Some(Operand::tensor(dims, operands.dtype()))
}

/// The arguments without all tensors but the first.
fn first_tensor(operands: &Operands) -> Option<Operands> {
    let is_tensor = |operand: &&Operand| matches!(operand, Operand::Tensor { .. });
    let first = operands.inputs.iter().find(is_tensor)?;
    Some(Operands { inputs: vec![first.clone()], ..operands.clone() })
}

impl Draft<'_> {
    /// The kernels that operator `id` would launch with its arguments as they are now; `None` when its work is not known.
    pub(in crate::scenario) fn planned(&self, id: OperatorId) -> Option<Vec<PlannedKernel>> {
        kernels_of(self, id)
    }

    /// The precision that operator `id` was computed in, by its first kernel's work.
    pub(in crate::scenario) fn traced_precision(&self, id: OperatorId) -> Option<Precision> {
        let planned = kernels_on(self, id, |id| self.recorded(id))?;
        Some(self.rounded_as_traced(&planned.first()?.work))
    }

    /// The work of the operator called `name` on the arguments that operator `id` has now.
    pub fn work_as(&self, name: &str, id: OperatorId) -> Option<Work> {
        let takes_one = OF_ONE.contains(&bare(name).trim_end_matches('_'));
        let first = self.operands(id).filter(|_| takes_one).and_then(first_tensor);
        let operands = first.as_ref().or(self.operands(id));
        if operands.is_some_and(|operands| !fits(name, operands)) {
            return None;
        }
        let caller = Caller { operator: name, operands };
        let phase = self.graph().operators[id.0 as usize].phase;
        let launch = Launch { kind: TaskKind::Compute, name, bytes: Bytes(0), ranks: 0, phase };
        work_of(&launch, &[caller], None).map(|work| Work { precision: self.rounded(&work), ..work })
    }

    /// The arguments of an operator called `name` that is added like `id`: the same where that is one of that name. One of one or two
    /// tensors takes the result of any other, where its sizes are known; else its arguments, a single one twice where it takes two.
    pub fn arguments_from(&self, name: &str, id: OperatorId) -> Option<Cow<'_, Operands>> {
        let operands = self.operands(id)?;
        let taken = match bare(name).trim_end_matches('_') {
            name if OF_ONE.contains(&name) => 1,
            name if OF_TWO.contains(&name) => 2,
            _ => return Some(Cow::Borrowed(operands)),
        };
        if let (2, [one @ Operand::Tensor { .. }]) = (taken, &operands.inputs[..]) {
            return Some(Cow::Owned(Operands { inputs: vec![one.clone(); 2], outputs: Vec::new() }));
        }
        let graph = self.graph();
        let operator = &graph.operators[id.0 as usize];
        let own = graph.names.get(operator.name);
        if bare(own) == bare(name) || operator.phase != Phase::Forward {
            return Some(Cow::Borrowed(operands));
        }
        let result = self.work_as(own, id).and_then(|work| result_of(&work, operands));
        let taken = result.map(|result| Operands { inputs: vec![result; taken], outputs: Vec::new() });
        Some(taken.map_or(Cow::Borrowed(operands), Cow::Owned))
    }

    /// The precision that `work` is computed in. Operators do not tell whether products of 32-bit floats are rounded to TF32, kernels of
    /// the same family do: those of the trace, most of them.
    fn rounded(&self, work: &Work) -> Precision {
        if work.precision != Precision::Fp32 || !matches!(work.family, Family::Gemm | Family::Conv) {
            return work.precision;
        }
        match self.conv_units() {
            ConvUnits::Tf32 if work.family == Family::Conv => Precision::Tf32,
            ConvUnits::Fp32 if work.family == Family::Conv => Precision::Fp32,
            _ => self.rounded_as_traced(work),
        }
    }

    /// The same on the units that it was traced on.
    fn rounded_as_traced(&self, work: &Work) -> Precision {
        if work.precision != Precision::Fp32 || !matches!(work.family, Family::Gemm | Family::Conv) {
            return work.precision;
        }
        let traced = self.base.works().classes.iter().filter_map(|class| class.work.as_deref());
        let (mut rounded, mut whole) = (0, 0);
        for other in traced.filter(|other| other.family == work.family) {
            rounded += usize::from(other.precision == Precision::Tf32);
            whole += usize::from(other.precision == Precision::Fp32);
        }
        if rounded > whole { Precision::Tf32 } else { Precision::Fp32 }
    }

    /// Kernels that were planned without a trace, in the precision that those of the trace compute in.
    pub(crate) fn as_rounded(&self, planned: Vec<PlannedKernel>) -> Vec<PlannedKernel> {
        let rounded = |PlannedKernel { name, work }| {
            let precision = self.rounded(&work);
            PlannedKernel { name, work: Work { precision, ..work } }
        };
        planned.into_iter().map(rounded).collect()
    }
}

/// Makes the work and time of added tasks follow the operators and tasks that they come from.
pub(super) fn follow_operands(draft: &mut Draft<'_>) {
    follow(draft, |_| true);
}

/// The same of those with a source that `is_meant`.
pub(super) fn follow(draft: &mut Draft<'_>, is_meant: fn(&Source) -> bool) {
    for at in 0..draft.added().len() {
        let (source, node) = (draft.added()[at].source.clone(), Node::Added(AddedId(at as u32)));
        if !is_meant(&source) {
            continue;
        }
        let Some(work) = followed(draft, at, &source).filter(|work| draft.work_of(node) != Some(work)) else {
            continue;
        };
        // What was never measured is predicted anew; what was takes the ratio.
        let was_measured = draft.price_of(node).provenance == Provenance::Measured;
        let is_planned = match source {
            Source::Planned(_)
            | Source::Cast(_)
            | Source::Layout(..)
            | Source::InsteadOf(_)
            | Source::Copied(..)
            | Source::Packs(_) => true,
            Source::Like(..) => !was_measured,
            Source::Given | Source::Repeats(_) | Source::Merges(..) => false,
        };
        let absolute = if is_planned { draft.price_new(&work, draft.rank_of(draft.lane_of(node))) } else { None };
        draft.set_work_of(node, work);
        if let Some(prediction) = absolute {
            draft.set_price(node, prediction);
        }
    }
}

fn followed(draft: &Draft<'_>, at: usize, source: &Source) -> Option<Work> {
    let added = &draft.added()[at];
    match *source {
        Source::Planned(number) if added.kind == TaskKind::Kernel => {
            Some(kernels_of(draft, added.operator?)?.into_iter().nth(number as usize)?.work)
        }
        Source::Like(ref operator, id, number) => {
            let operands = draft.arguments_from(operator, id);
            let caller = Caller { operator, operands: operands.as_deref() };
            let phase = draft.graph().operators.get(id.0 as usize)?.phase;
            Some(draft.as_rounded(planned_kernels(caller, None, phase)?).into_iter().nth(number as usize)?.work)
        }
        _ => draft.followed(source),
    }
}
