//! Changes of operators' arguments, worked out once for each list of arguments however many operators share it.

use rustc_hash::FxHashMap;

use crate::graph::{Operands, OperatorId};
use crate::scenario::draft::Draft;

/// New arguments of operators, before they are set.
#[derive(Default)]
pub(super) struct ArgumentChanges {
    lists: Vec<Operands>,
    /// Operators with their row in `lists`.
    rows: Vec<(OperatorId, u32)>,
    /// Rows of `lists`, so that equal arguments share one.
    known: FxHashMap<Operands, u32>,
    /// By arguments and the way in which they change: the row that they get.
    changed: FxHashMap<(Option<u32>, u32), Option<u32>>,
}

impl ArgumentChanges {
    /// Changes the arguments of an operator, unless that leaves them as they are.
    ///
    /// # Arguments
    /// `way`: tells apart operators with equal arguments that change differently; `change`: gives the new arguments, `None` for none.
    pub(super) fn add(
        &mut self,
        draft: &Draft<'_>,
        (id, way): (OperatorId, u32),
        change: impl FnOnce(&Operands) -> Option<Operands>,
    ) {
        let Self { lists, rows, known, changed } = self;
        let row = changed.entry((draft.arguments(id), way)).or_insert_with(|| {
            let new = change(draft.operands(id)?)?;
            Some(*known.entry(new).or_insert_with_key(|new| {
                lists.push(new.clone());
                lists.len() as u32 - 1
            }))
        });
        rows.extend(row.map(|row| (id, row)));
    }

    /// The operators that change, as they were added.
    pub(super) fn operators(&self) -> impl ExactSizeIterator<Item = OperatorId> {
        self.rows.iter().map(|&(id, _)| id)
    }

    /// By operator of `draft` whether it changes.
    pub(super) fn flags(&self, draft: &Draft<'_>) -> Vec<bool> {
        let mut flags = vec![false; draft.graph().operators.len()];
        self.operators().for_each(|id| flags[id.0 as usize] = true);
        flags
    }

    /// Gives the operators their new arguments.
    pub(super) fn set(self, draft: &mut Draft<'_>) {
        draft.set_operands(self.lists, self.rows);
    }
}
