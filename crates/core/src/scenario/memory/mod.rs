//! What the edits of a draft make of memory: results follow their operators' arguments, gone operators leave nothing behind,
//! recomputed parts keep where the next begins, and batches between updates share their gradients.

mod changes;
mod recomputed;
mod weights;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::Family;
use crate::cost::operators::{Reading, operator_work};
use crate::graph::{ExecutionGraph, Operands, OperatorId, Phase, TaskKind};
use crate::memory::{AFTER, BEFORE, Buffer, Holds, JobMemory, MemorySource, RankMemory};
use crate::scenario::base::Base;
use crate::scenario::draft::{Combine, Draft, Node, SharedStates, Source};
use crate::scenario::tables::TablePlacement;
use crate::scenario::work_classes::tasks_of_operators;
use crate::units::{Bytes, Percent, TimeNs, total};

use changes::{Changed, over_changes};
use recomputed::recompute;

pub(in crate::scenario) use weights::{is_vocabulary, vocabularies};

/// How far up the call tree an operator's changed arguments are looked for.
const DEPTH: usize = 8;

/// The memory of `base` under the edits of `draft`; `None` where they change nothing in it.
///
/// # Complexity
/// O(buffers + tasks).
pub(in crate::scenario) fn edited(draft: &Draft<'_>) -> Option<JobMemory> {
    let base = draft.base();
    let resizes = draft.has_operands();
    let removes = draft.removed().next().is_some();
    let changes = resizes || removes || draft.repeats() > 1 || draft.placements().is_some();
    let is_shared = draft.shared_states() != SharedStates::default();
    if !changes && !is_shared && draft.recomputed().is_empty() && draft.held().is_empty() {
        return None;
    }
    let mut memory: JobMemory = JobMemory::clone(base.memory());
    let mut sizes = Sizes { draft, known: FxHashMap::default() };
    let gone = removes.then(|| RemovedOperators::of(draft));
    let moved = draft.placements().map(|placements| tables_held(base, placements));
    let states = moved.as_ref().map_or(0.0, |held| states_of_tables(base.memory(), held));
    let updates = if removes { updates_removed(draft) } else { Vec::new() };
    let mut weights = weights::changed(draft);
    for (rank, of_rank) in memory.iter_mut().enumerate() {
        let Some(of_rank) = of_rank else { continue };
        let weights = weights.get_mut(rank).map(std::mem::take).unwrap_or_default();
        // First of all, since it looks at sizes as they were recorded.
        if recompute(draft, rank, &mut of_rank.buffers) {
            of_rank.put_in_order();
        }
        if resizes || draft.batch().is_some() {
            let source = of_rank.source;
            of_rank.buffers.iter_mut().for_each(|buffer| buffer.bytes = sizes.of(buffer, source));
            of_rank.missing.extend(sizes.stays(&of_rank.buffers));
        }
        grow(weights.grown, &mut of_rank.buffers);
        let copies = !weights.copies.is_empty();
        of_rank.buffers.extend(weights.copies);
        if let Some(gone) = &gone {
            of_rank.retain(|buffer| !gone.takes(draft.graph(), buffer));
        }
        let left = of_rank.buffers.len();
        if draft.repeats() > 1 {
            keep_gradients(&mut of_rank.buffers);
        }
        let held = draft.held().iter().filter(|(of, _)| *of == rank);
        let whole = |&(_, bytes): &(usize, Bytes)| whole(Holds::Other, bytes);
        of_rank.buffers.extend(held.map(whole));
        if is_shared {
            share_out(draft.shared_states(), &mut of_rank.buffers);
        }
        if let Some((before, after)) = moved.as_ref().and_then(|held| held.get(rank)) {
            resize_held(Holds::Parameters, (before.0, after.0), &mut of_rank.buffers);
            let [before, after] = [before, after].map(|bytes| (bytes.0 as f64 * states).round() as u64);
            resize_held(Holds::Optimizer, (before, after), &mut of_rank.buffers);
        }
        resize_held(Holds::Parameters, (weights.shrunk.0, 0), &mut of_rank.buffers);
        if updates.get(rank).is_some_and(|&removed| removed) {
            of_rank.retain(|buffer| buffer.holds != Holds::Optimizer);
        }
        if copies || draft.repeats() > 1 || of_rank.buffers.len() > left {
            of_rank.put_in_order();
        }
    }
    Some(memory)
}

/// The most that the fullest rank holds under the edits of `draft`, which make `edited` of memory where they change anything
/// in it; `None` where nothing is known.
pub(in crate::scenario) fn peak(draft: &Draft<'_>, edited: Option<&JobMemory>) -> Option<Bytes> {
    let memory = edited.unwrap_or(draft.base().memory());
    memory.iter().flatten().map(|memory| memory.peak().bytes).max()
}

/// What parts of the forward pass that run again do not keep until then, on the rank where that is most.
pub(in crate::scenario) fn not_kept(draft: &Draft<'_>, edited: Option<&JobMemory>) -> Bytes {
    let again = |rank: usize| draft.recomputed().iter().filter(move |part| part.rank == rank).map(|part| part.again);
    let edited = edited.into_iter().flatten();
    let of_rank = |(rank, memory): (usize, &Option<RankMemory>)| {
        let again: FxHashSet<TimeNs> = again(rank).collect();
        let comes_back = |buffer: &&Buffer| buffer.holds == Holds::Activations && again.contains(&buffer.from);
        total(memory.iter().flat_map(|memory| &memory.buffers).filter(comes_back).map(|buffer| buffer.bytes.0))
    };
    Bytes(edited.enumerate().map(of_rank).max().unwrap_or(0))
}

fn whole(holds: Holds, bytes: Bytes) -> Buffer {
    Buffer { holds, bytes, from: BEFORE, until: AFTER, operator: None }
}

/// New sizes of results.
struct Sizes<'d, 'b> {
    draft: &'d Draft<'b>,
    /// Ratios by changed arguments, and by what is held and its size.
    known: FxHashMap<(Changed, Holds, u64), f64>,
}

impl Sizes<'_, '_> {
    fn of(&mut self, buffer: &Buffer, source: MemorySource) -> Bytes {
        let is_sparse = |operator| self.is_sparse_gradient(operator);
        // Inputs, or a cache, which was there before the iteration and stays: an input is as large as the argument of its reader, a cache
        // whose size no argument tells was chosen once.
        let is_given = buffer.from == BEFORE && buffer.until == AFTER;
        if is_given && buffer.holds == Holds::Other && source != MemorySource::Allocator {
            let ratio = buffer.operator.and_then(|user| self.ratio_of_argument(user, buffer.bytes.0));
            return Bytes((buffer.bytes.0 as f64 * ratio.unwrap_or(1.0)).round() as u64);
        }
        let follows = match buffer.holds {
            Holds::Other => !is_given,
            Holds::Activations => true,
            Holds::Gradients => buffer.operator.is_some_and(is_sparse),
            Holds::Parameters | Holds::Optimizer => false,
        };
        if !follows {
            return buffer.bytes;
        }
        let ratio = match buffer.operator {
            Some(operator) => self.ratio(operator, buffer.holds, buffer.bytes.0),
            // The result of a forward pass before the window.
            None if buffer.holds == Holds::Activations => {
                self.draft.batch().map_or(1.0, |(old, new)| new as f64 / old.max(1) as f64)
            }
            None => 1.0,
        };
        Bytes((buffer.bytes.0 as f64 * ratio).round() as u64)
    }

    /// What to say where a larger batch leaves much of what it should make larger as it was, since no operator that it is of is known, or no
    /// sizes of it were recorded.
    fn stays(&self, buffers: &[Buffer]) -> Option<String> {
        const MUCH: u64 = 10;
        self.draft.batch().filter(|(old, new)| new > old)?;
        let is_transient = |buffer: &&Buffer| match buffer.holds {
            Holds::Activations => true,
            Holds::Other => buffer.from != BEFORE || buffer.until != AFTER,
            _ => false,
        };
        // What a pass before the window left grows as the batch does.
        let is_told = |buffer: &&Buffer| {
            buffer.operator.map_or(buffer.holds == Holds::Activations, |operator| self.has_sizes(operator))
        };
        let sum = |buffers: &mut dyn Iterator<Item = &Buffer>| total(buffers.map(|buffer| buffer.bytes.0));
        let all = sum(&mut buffers.iter().filter(is_transient));
        let stays = sum(&mut buffers.iter().filter(is_transient).filter(|buffer| !is_told(buffer)));
        (stays > all / MUCH).then(|| {
            let share = Percent(stays as f64 / all as f64);
            format!("what the batch adds to results of operators that, or whose sizes, were not recorded: {share:.0} of results stay as traced")
        })
    }

    /// Whether arguments of an operator, or of one around it, were recorded.
    fn has_sizes(&self, operator: OperatorId) -> bool {
        let operators = &self.draft.graph().operators;
        let around = |id: &OperatorId| operators.get(id.0 as usize).and_then(|operator| operator.parent);
        let mut all = std::iter::successors(Some(operator), around).take(DEPTH);
        all.any(|id| operators.get(id.0 as usize).is_some_and(|operator| operator.operands.is_some()))
    }

    /// Whether an operator gives the gradient of the rows that were looked up, which grows with their number.
    fn is_sparse_gradient(&self, operator: OperatorId) -> bool {
        let graph = self.draft.graph();
        let around = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
        let name = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name);
        std::iter::successors(Some(operator), around).take(DEPTH).any(|id| name(id).ends_with("_sparse_backward"))
    }

    /// How much larger what an operator was given is, by the arguments of its size, of it or of operators around it; `None` where
    /// they do not agree or there are none.
    fn ratio_of_argument(&self, user: OperatorId, bytes: u64) -> Option<f64> {
        over_changes(self.draft, user, |_, [old, new]| {
            let sizes = old.inputs.iter().zip(&new.inputs).map(|(old, new)| (old.bytes().0, new.bytes().0));
            let mut alike = sizes.filter(|&(before, _)| before > 0 && grain(before) == grain(bytes));
            let (before, after) = alike.next()?;
            alike.all(|other| other == (before, after)).then(|| after as f64 / before as f64)
        })
    }

    /// How much larger what an operator allocates is: as its own arguments tell where they changed, else as those of the
    /// next operator around it.
    fn ratio(&mut self, operator: OperatorId, holds: Holds, bytes: u64) -> f64 {
        let (draft, known) = (self.draft, &mut self.known);
        let ratio = over_changes(draft, operator, |changed, [old, new]| {
            let key = (changed, holds, bytes);
            let ratio = || match like_an_argument(bytes, old, new) {
                Some(ratio) => ratio,
                None if holds == Holds::Other && is_of_library(changed.name(draft), bytes, old) => 1.0,
                None => of_arguments(changed.name(draft), old, new),
            };
            Some(*known.entry(key).or_insert_with(ratio))
        });
        ratio.unwrap_or(1.0)
    }
}

/// How much larger the argument is whose size a buffer has (to the allocator's grain): weights put in another order stay as
/// they are, gradients of an input grow with it. Of several the one that changed; `None` without any.
fn like_an_argument(bytes: u64, old: &Operands, new: &Operands) -> Option<f64> {
    let sizes = old.inputs.iter().zip(&new.inputs).map(|(old, new)| (old.bytes().0, new.bytes().0));
    let alike = sizes.filter(|&(before, _)| before > 0 && grain(before) == grain(bytes));
    let ratios = alike.map(|(before, after)| after as f64 / before as f64);
    ratios.reduce(|one, other| if (one - 1.0).abs() > f64::EPSILON { one } else { other })
}

/// Whether a product allocates `bytes`, no argument's size, as the workspace of its library and not as its result: PyTorch gives the
/// library as much whatever the sizes.
fn is_of_library(name: &str, bytes: u64, operands: &Operands) -> bool {
    let work = operator_work(name, operands, Reading::default()).filter(|work| work.family == Family::Gemm);
    work.is_some_and(|work| grain(work.written.0) != grain(bytes))
}

/// A size in steps of the allocator, which rounds up to them.
pub(super) fn grain(bytes: u64) -> u64 {
    const GRAIN: u64 = 512;
    bytes.div_ceil(GRAIN)
}

/// How much more an operator writes with other arguments; where its work is not known, how much larger its largest argument
/// among those that changed is.
fn of_arguments(name: &str, old: &Operands, new: &Operands) -> f64 {
    let written = |operands| operator_work(name, operands, Reading::default()).map(|work| work.written.0);
    if let (Some(before @ 1..), Some(after)) = (written(old), written(new)) {
        return after as f64 / before as f64;
    }
    let changed = old.inputs.iter().zip(&new.inputs).filter(|(old, new)| old != new);
    let sizes = changed.map(|(old, new)| (old.bytes().0, new.bytes().0));
    sizes.max().filter(|&(before, _)| before > 0).map_or(1.0, |(before, after)| after as f64 / before as f64)
}

/// Operators of which nothing runs any more.
struct RemovedOperators<'b> {
    /// By operator how many tasks did its work as traced, and how many of those were taken out.
    traced: &'b [u32],
    removed: Vec<u32>,
    /// Operators whose work another task does: what they pass on within that, held no longer than until then, is gone.
    merged: FxHashMap<OperatorId, TimeNs>,
}

impl<'b> RemovedOperators<'b> {
    fn of(draft: &Draft<'b>) -> Self {
        let graph = draft.graph();
        let mut removed = tasks_of_operators(graph, draft.removed());
        // What an edit has an operator launch instead does its work.
        for (_, added) in draft.added_tasks().filter(|(_, added)| matches!(added.source, Source::Planned(_))) {
            if let Some(removed) = added.operator.and_then(|id| removed.get_mut(id.0 as usize)) {
                *removed = 0;
            }
        }
        let mut merged = FxHashMap::default();
        let own = draft.merged_members().map(|(members, combine)| (members.to_vec(), combine));
        for (members, combine) in own.chain(draft.merged_into_added()) {
            let operators: Vec<OperatorId> = members.iter().filter_map(|&node| graph.tasks[node].operator).collect();
            merged.extend(operators.iter().copied().zip(passed_on(graph, &operators, combine)));
        }
        Self { traced: draft.base().tasks_of_operators(), removed, merged }
    }

    /// Whether any work of an operator still runs; `None` for one without work of its own.
    fn runs(&self, operator: OperatorId) -> Option<bool> {
        let at = operator.0 as usize;
        let traced = self.traced.get(at).copied().filter(|&traced| traced > 0)?;
        Some(self.removed[at] < traced)
    }

    fn takes(&self, graph: &ExecutionGraph, buffer: &Buffer) -> bool {
        if !matches!(buffer.holds, Holds::Activations | Holds::Other) {
            return false;
        }
        let around = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
        let mut callers = std::iter::successors(buffer.operator, around).take(DEPTH);
        let working = callers.find_map(|id| Some((id, self.runs(id)?)));
        match working {
            Some((id, false)) => self.merged.get(&id).is_none_or(|&last| buffer.until <= last),
            _ => false,
        }
    }
}

/// By operator, until when what it gives is held at the latest where it is passed on within the task that does the work of all
/// `operators`: till the last has run. In a chain each works on the result of the one before: what is held when the second next begins is
/// read from memory, and what the last gives is written there.
fn passed_on(graph: &ExecutionGraph, operators: &[OperatorId], combine: Combine) -> Vec<TimeNs> {
    let start = |id: OperatorId| graph.operators[id.0 as usize].start;
    let end = |&id: &OperatorId| start(id) + graph.operators[id.0 as usize].dur;
    let last = operators.iter().map(end).max().unwrap_or(BEFORE);
    let until = |at: usize| match operators.get(at + 1..).unwrap_or_default() {
        _ if combine != Combine::Chain => last,
        [] => BEFORE,
        [_] => last,
        [_, second, ..] => start(*second),
    };
    (0..operators.len()).map(until).collect()
}

/// Parameters that grew by `bytes` in all have gradients and optimizer state that grew as much.
fn grow(bytes: i64, buffers: &mut [Buffer]) {
    let is_parameter = |buffer: &&Buffer| buffer.holds == Holds::Parameters;
    let before = total(buffers.iter().filter(is_parameter).map(|buffer| buffer.bytes.0));
    if bytes == 0 || before == 0 {
        return;
    }
    let factor = before.saturating_add_signed(bytes) as f64 / before as f64;
    share_out(SharedStates { parameters: factor, gradients: factor, optimizer: factor }, buffers);
}

/// Of states that ranks share out each keeps another part.
fn share_out(shared: SharedStates, buffers: &mut [Buffer]) {
    for buffer in buffers {
        let factor = match buffer.holds {
            Holds::Parameters => shared.parameters,
            Holds::Gradients => shared.gradients,
            Holds::Optimizer => shared.optimizer,
            Holds::Activations | Holds::Other => 1.0,
        };
        buffer.bytes = Bytes((buffer.bytes.0 as f64 * factor).round() as u64);
    }
}

/// With several batches between updates, gradients are there while the next batch goes forward.
fn keep_gradients(buffers: &mut [Buffer]) {
    for gradient in buffers.iter_mut().filter(|buffer| buffer.holds == Holds::Gradients) {
        (gradient.from, gradient.until) = (BEFORE, AFTER);
    }
}

/// What each rank holds of tables where they were traced, and under `placements`.
fn tables_held(base: &Base, placements: &[TablePlacement]) -> Vec<(Bytes, Bytes)> {
    let tables = base.tables();
    tables.held(&tables.placements()).into_iter().zip(tables.held(placements)).collect()
}

/// Most bytes of optimizer state for each byte of a parameter: two moments.
const MOST_STATES: u64 = 2;

/// Bytes of optimizer state for each byte of the tables that ranks hold: what there is beyond two moments of all other parameters.
fn states_of_tables(memory: &JobMemory, held: &[(Bytes, Bytes)]) -> f64 {
    let of = |memory: &RankMemory, holds| {
        total(memory.buffers.iter().filter(|buffer| buffer.holds == holds).map(|buffer| buffer.bytes.0))
    };
    let (mut states, mut tables) = (0, 0);
    for (memory, (before, _)) in memory.iter().zip(held) {
        let Some(memory) = memory else { continue };
        let others = of(memory, Holds::Parameters).saturating_sub(before.0);
        let state = of(memory, Holds::Optimizer).saturating_sub(others.saturating_mul(MOST_STATES));
        (states, tables) = (total([states, state]), total([tables, before.0]));
    }
    (states as f64 / tables.max(1) as f64).min(MOST_STATES as f64)
}

/// By position of the rank whether all of its optimizer's work was taken out, and nothing does it instead: then there is no state.
fn updates_removed(draft: &Draft<'_>) -> Vec<bool> {
    let graph = draft.graph();
    let updates = |node: Node| draft.phase_of(node) == Some(Phase::Optimizer);
    let mut left = vec![(0_u32, 0_u32); graph.ranks.len()];
    for node in graph.tasks.node_indices().filter(|&node| updates(node.into())) {
        let kind = graph.tasks[node].kind;
        if let Some((all, left)) = left.get_mut(draft.rank_of(graph.tasks[node].lane))
            && (kind.is_device() || kind == TaskKind::Compute)
        {
            (*all, *left) = (*all + 1, *left + u32::from(!draft.is_removed(node)));
        }
    }
    let is_done_instead = draft.added_nodes().any(updates);
    left.into_iter().map(|(all, left)| all > 0 && left == 0 && !is_done_instead).collect()
}

/// What took `before` bytes of a kind takes `after`: tables that moved take their weights along, and the optimizer's state of them.
fn resize_held(holds: Holds, (before, after): (u64, u64), buffers: &mut Vec<Buffer>) {
    if before == after {
        return;
    }
    if after > before {
        buffers.push(whole(holds, Bytes(after - before)));
        return;
    }
    let mut less = before - after;
    let mut held: Vec<&mut Buffer> = buffers.iter_mut().filter(|it| it.holds == holds).collect();
    held.sort_by_key(|buffer| std::cmp::Reverse(buffer.bytes));
    for buffer in held {
        let taken = less.min(buffer.bytes.0);
        (buffer.bytes.0, less) = (buffer.bytes.0 - taken, less - taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{DType, Operand};

    #[test]
    fn what_a_product_allocates_beside_its_result_is_its_librarys() {
        let tensor = |dims: &[u64]| Operand::tensor(dims.to_vec(), Some(DType::Fp16));
        let inputs = vec![tensor(&[2048]), tensor(&[141, 512]), tensor(&[512, 2048])];
        let operands = Operands { inputs, outputs: Vec::new() };
        assert!(is_of_library("aten::addmm", 76 << 20, &operands));
        assert!(!is_of_library("aten::addmm", 2 * 141 * 2048, &operands));
        assert!(!is_of_library("aten::add", 76 << 20, &operands));
    }

    #[test]
    fn larger_parameters_have_larger_gradients_and_optimizer_state() {
        let mut buffers: Vec<Buffer> = Holds::ALL.into_iter().map(|holds| whole(holds, Bytes(800))).collect();
        grow(400, &mut buffers);
        let sizes: Vec<u64> = buffers.iter().map(|buffer| buffer.bytes.0).collect();
        assert_eq!(sizes, [1200, 1200, 1200, 800, 800]);
        grow(-1_000_000, &mut buffers);
        assert_eq!(buffers[0].bytes, Bytes(0));
    }

    #[test]
    fn shared_states_take_their_part_and_results_stay_whole() {
        let mut buffers: Vec<Buffer> = Holds::ALL.into_iter().map(|holds| whole(holds, Bytes(800))).collect();
        share_out(SharedStates { parameters: 1.0, gradients: 0.25, optimizer: 0.125 }, &mut buffers);
        let sizes: Vec<u64> = buffers.iter().map(|buffer| buffer.bytes.0).collect();
        assert_eq!(sizes, [800, 200, 100, 800, 800]);
    }
}
