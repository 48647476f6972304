//! Which dimensions of which arguments carry the batch: found by propagation from the inputs through each operator's
//! shape rule, in program order.
//!
//! Parameters are known by their role (weights of products, convolutions, norms and lookups) and never scale; a dimension
//! that happens to equal the batch size does not either. What a recorded trace leaves open (results of views) is settled
//! by the outermost dimension that is a multiple of the batch.

mod carry;
mod casts;
mod environment;
mod rules;
mod scaling;

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, Operands, OperandsId, OperatorId};

pub(super) use carry::Carry;
use environment::Environment;
pub use scaling::BatchScaling;
pub(in crate::scenario) use scaling::Modelled;

/// The operators that work on the batch, and how their arguments grow with it.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct BatchPlan {
    /// Operators with their row in `variants`.
    pub(super) rows: Vec<(OperatorId, u32)>,
    /// Distinct argument lists with the dimensions that carry the batch.
    pub(super) variants: Vec<(OperandsId, Vec<Carry>)>,
}

impl BatchPlan {
    /// Finds the dimensions that carry a batch of `batch`.
    ///
    /// # Complexity
    /// O(operators · arguments).
    pub(super) fn find(graph: &ExecutionGraph, batch: u64) -> Self {
        let mut plan = Self::default();
        let mut known: FxHashMap<(OperandsId, Vec<Carry>), u32> = FxHashMap::default();
        let mut environment = Environment::new(graph, batch);
        for index in 0..graph.operators.len() {
            let id = OperatorId(index as u32);
            environment.enter(id);
            let Some(operands) = graph.operators[index].operands else { continue };
            let carries = rules::carries(&mut environment, id, &graph.operands[operands.0 as usize]);
            if carries.is_empty() {
                continue;
            }
            let key = (operands, carries);
            let row = known.get(&key).copied().unwrap_or_else(|| {
                plan.variants.push(key.clone());
                plan.variants.len() as u32 - 1
            });
            known.insert(key, row);
            plan.rows.push((id, row));
        }
        plan
    }

    /// The arguments, lists of tensors left out, of which a dimension carries the batch in row `row` of the variants, in order.
    pub(super) fn arguments(&self, row: u32) -> Vec<u16> {
        let carries = self.variants.get(row as usize).map_or(&[][..], |(_, carries)| carries.as_slice());
        let mut found: Vec<u16> =
            carries.iter().filter(|carry| carry.element.is_none()).map(|carry| carry.argument).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The dimensions of the arguments in a row that carry the batch.
    pub(super) fn carries(&self, row: u32) -> &[Carry] {
        self.variants.get(row as usize).map_or(&[], |(_, carries)| carries)
    }

    /// The argument lists of all variants at a batch of `new` instead of `old`.
    pub(super) fn resized(&self, graph: &ExecutionGraph, old: u64, new: u64) -> Vec<Operands> {
        let resize = |(id, carries): &(OperandsId, Vec<Carry>)| {
            let mut operands = graph.operands[id.0 as usize].clone();
            for carry in carries {
                carry.apply(&mut operands, old, new);
            }
            operands
        };
        self.variants.iter().map(resize).collect()
    }

    /// As [`resized`](Self::resized), of the variant in a row whose arguments steps before made `current`.
    ///
    /// # Arguments
    /// `batches`: the recorded batch, the one now, and the new one.
    pub(super) fn resized_again(
        &self,
        graph: &ExecutionGraph,
        row: u32,
        current: &Operands,
        batches: [u64; 3],
    ) -> Operands {
        let mut operands = current.clone();
        if let Some((id, carries)) = self.variants.get(row as usize) {
            let recorded = &graph.operands[id.0 as usize];
            for carry in carries {
                carry.apply_again(&mut operands, recorded, batches);
            }
        }
        operands
    }
}

#[cfg(test)]
mod tests;
