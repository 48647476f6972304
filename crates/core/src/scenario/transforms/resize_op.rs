//! `resize-op SELECTOR OLD->NEW`: a dimension of some operators has another size.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::graph::{Operand, Operands, OperatorId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

use super::report::{count, survey};

/// Lets every dimension of `old` elements in the arguments of the selected operators have `new`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResizeOp {
    /// Which operators.
    pub selector: Selector,
    /// The size now.
    pub old: u64,
    /// The size then.
    pub new: u64,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "resize-op",
    usage: "resize-op SELECTOR OLD->NEW",
    help: "gives dimensions of OLD elements in the selected operators' arguments NEW elements",
    example: "resize-op name=aten::addmm 1024->2048",
    parse,
};

/// Largest dimension that can be asked for.
const LARGEST: u64 = 1 << 40;

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let end = words.column();
    let (before, last) = words.split_last().ok_or_else(|| StepError::at(end, "expected SELECTOR OLD->NEW"))?;
    let Some((old, new)) = last.text.split_once("->") else {
        return Err(StepError::at(last.column, format!("`{}`: expected sizes as OLD->NEW", last.text)));
    };
    let column = last.column + old.chars().count() + 2;
    let old = Word { text: old, column: last.column }.whole(1..=LARGEST)?;
    let new = Word { text: new, column }.whole(1..=LARGEST)?;
    let selector = Selector::parse_at(before.text, before.column)?;
    Ok(Arc::new(ResizeOp { selector, old, new }))
}

impl Transform for ResizeOp {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        vec![&self.selector]
    }

    fn line(&self) -> String {
        format!("{} {} {}->{}", SPEC.name, self.selector, self.old, self.new)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let computes = |node: &Node| matches!(draft.kind_of(*node), TaskKind::Kernel | TaskKind::Compute);
        let mut chosen = self.selector.select_all(draft);
        chosen.retain(computes);
        let mut operators: Vec<OperatorId> = chosen.iter().filter_map(|&node| draft.operator_of(node)).collect();
        operators.sort_unstable();
        operators.dedup();
        let (mut lists, mut rows) = (Vec::new(), Vec::new());
        let mut known: FxHashMap<Operands, u32> = FxHashMap::default();
        let mut resized: FxHashMap<Option<u32>, Option<u32>> = FxHashMap::default();
        for &id in &operators {
            let row = resized.entry(draft.arguments(id)).or_insert_with(|| {
                let new = draft.operands(id).and_then(|operands| self.resized(operands))?;
                Some(*known.entry(new).or_insert_with_key(|new| {
                    lists.push(new.clone());
                    lists.len() as u32 - 1
                }))
            });
            rows.extend(row.map(|row| (id, row)));
        }
        if rows.is_empty() {
            let why = format!("no operator with a dimension of {} matches {}", self.old, self.selector);
            return StepReport::nothing(why);
        }
        if self.old == self.new {
            return StepReport::nothing("the size is what it was");
        }
        let changed: Vec<OperatorId> = rows.iter().map(|&(id, _)| id).collect();
        let summary = format!("{}: {} → {}", count(rows.len(), "operator"), self.old, self.new);
        draft.set_operands(lists, rows);
        chosen.retain(|&node| draft.operator_of(node).is_some_and(|id| changed.binary_search(&id).is_ok()));
        let mut report = survey(draft, chosen, summary);
        report.unhandled.push("operators that are not selected keep their sizes".to_owned());
        report
    }
}

impl ResizeOp {
    /// The arguments with the dimension changed; `None` when none has it.
    fn resized(&self, operands: &Operands) -> Option<Operands> {
        let mut found = false;
        let mut new = operands.clone();
        for operand in new.inputs.iter_mut().chain(&mut new.outputs) {
            self.resize(operand, &mut found);
        }
        found.then_some(new)
    }

    fn resize(&self, operand: &mut Operand, found: &mut bool) {
        match operand {
            Operand::Tensor { dims, .. } => {
                for dim in dims.iter_mut().filter(|dim| **dim == self.old) {
                    *dim = self.new;
                    *found = true;
                }
            }
            Operand::TensorList(list) => list.iter_mut().for_each(|operand| self.resize(operand, found)),
            Operand::Value(_) => {}
        }
    }
}
