//! The order of drafted tasks: each after all it waits for, of those that could be next the earliest start first.
//!
//! Nearly every task starts after what it waits for did, so the order is that of the starts, found by sorting on all cores. The few
//! tasks that are *waiting* wait for one that starts later: they come right behind the last of those, before anything else
//! (all that could be next starts later than that one, and they start earlier). Only they are put in order one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::draft::Draft;

/// Tasks are sorted in parts of so many.
const PART: usize = 1 << 15;
/// One task in so many is looked at to cut them in equal shares.
const SAMPLE: usize = 1 << 10;

/// Start of a task, then its number.
type Key = (i64, u32);

/// All tasks in order; `None` where dependencies close a cycle, or tasks wait through longer chains than are worth following.
///
/// # Complexity
/// O(edges + tasks · log tasks).
pub(super) fn by_start(draft: &Draft) -> Option<Vec<u32>> {
    let starts = Starts(draft.tasks.par_iter().map(|task| task.measured_start.0).collect());
    let waiting = Waiting::of(draft, &starts)?;
    let free = |task: &u32| waiting.by[*task as usize] == *task;
    let free = (0..draft.tasks.len() as u32).into_par_iter().filter(free).map(|task| starts.key(task)).collect();
    Some(waiting.with_groups(in_shares(free), draft.tasks.len()))
}

/// By task: its measured start.
struct Starts(Vec<i64>);

impl Starts {
    fn key(&self, task: u32) -> Key {
        (self.0[task as usize], task)
    }
}

/// Tasks that wait for one that starts later.
struct Waiting {
    /// By task: the latest start of all that it waits for, itself included, as the task that has it.
    by: Vec<u32>,
    /// Behind which task which others come, in order of that task.
    groups: Vec<(Key, Vec<u32>)>,
}

impl Waiting {
    fn of(draft: &Draft, starts: &Starts) -> Option<Self> {
        /// Longest chain of waiting tasks that is followed, where its edges do not stand one behind the other.
        const LONGEST: usize = 16;
        let ends: Vec<(u32, u32)> = draft.edges.par_iter().map(|edge| (edge.from, edge.to)).collect();
        let mut by: Vec<u32> = (0..draft.tasks.len() as u32).collect();
        let mut is_waiting = vec![false; by.len()];
        let edges = || ends.par_iter().enumerate();
        let later = |&(_, &(from, to)): &(usize, &(u32, u32))| starts.key(from) > starts.key(to);
        let mut found: Vec<usize> = edges().filter(later).map(|(edge, _)| edge).collect();
        for _ in 0..LONGEST {
            for edge in found {
                follow_chain(&ends[edge..], starts, &mut by, &mut is_waiting);
            }
            let further = |&(_, &(from, to)): &(usize, &(u32, u32))| {
                is_waiting[from as usize] && starts.key(by[from as usize]) > starts.key(by[to as usize])
            };
            found = edges().filter(further).map(|(edge, _)| edge).collect();
            if found.is_empty() {
                // Edges among those that wait for one task, and back to that one, which would be a cycle.
                let within = |&(_, &(from, to)): &(usize, &(u32, u32))| {
                    (is_waiting[from as usize] || is_waiting[to as usize] || from == to)
                        && by[from as usize] == by[to as usize]
                };
                let edges = edges().filter(within).map(|(_, &(from, to))| (by[to as usize], from, to));
                let groups = groups(starts, edges.collect())?;
                return Some(Self { by, groups });
            }
        }
        None
    }

    /// Tasks that wait for none, in shares in order, with those that wait for each behind it.
    fn with_groups(&self, shares: Vec<Vec<Key>>, count: usize) -> Vec<u32> {
        let mut order = Vec::with_capacity(count);
        let mut groups = self.groups.iter().peekable();
        for key in shares.into_iter().flatten() {
            order.push(key.1);
            if let Some((_, group)) = groups.next_if(|(holder, _)| *holder == key) {
                order.extend(group);
            }
        }
        order
    }
}

/// Lets the later of the first of `ends` wait for the earlier if it does, and those behind it likewise as far as they go on from one another:
/// chains are written so.
fn follow_chain(ends: &[(u32, u32)], starts: &Starts, by: &mut [u32], is_waiting: &mut [bool]) {
    let mut at = ends.first().map_or(0, |&(from, _)| from);
    for &(from, to) in ends {
        let holder = by[from as usize];
        if from != at || starts.key(holder) <= starts.key(by[to as usize]) {
            return;
        }
        by[to as usize] = holder;
        is_waiting[to as usize] = true;
        at = to;
    }
}

/// The tasks that wait for each, in order; `None` where they wait for one another.
///
/// # Arguments
/// `edges`: all between tasks that wait for the same one, that one among them: which, and the ends.
fn groups(starts: &Starts, mut edges: Vec<(u32, u32, u32)>) -> Option<Vec<(Key, Vec<u32>)>> {
    edges.sort_unstable();
    let of = |edges: &[(u32, u32, u32)]| Some((starts.key(edges[0].0), group(starts, edges[0].0, edges)?));
    let groups: Option<Vec<(Key, Vec<u32>)>> = edges.chunk_by(|a, b| a.0 == b.0).map(of).collect();
    let mut groups = groups?;
    groups.sort_unstable();
    Some(groups)
}

/// The tasks that wait for `holder`: Kahn's algorithm over the edges among them, which are sorted by their earlier end.
fn group(starts: &Starts, holder: u32, edges: &[(u32, u32, u32)]) -> Option<Vec<u32>> {
    let mut open: FxHashMap<u32, u32> = FxHashMap::default();
    for &(_, _, to) in edges {
        *open.entry(to).or_default() += 1;
    }
    if open.contains_key(&holder) {
        return None;
    }
    let (mut group, mut ready) = (Vec::with_capacity(open.len()), BinaryHeap::new());
    let mut next = Some(holder);
    while let Some(task) = next {
        let first = edges.partition_point(|&(_, from, _)| from < task);
        for &(_, _, to) in edges[first..].iter().take_while(|&&(_, from, _)| from == task) {
            let left = open.get_mut(&to)?;
            *left -= 1;
            if *left == 0 {
                ready.push(Reverse(starts.key(to)));
            }
        }
        next = ready.pop().map(|Reverse((_, task))| task);
        group.extend(next);
    }
    (group.len() == open.len()).then_some(group)
}

/// `keys` sorted, in shares one after the other: parts of them are sorted first, then what all parts have within a share.
fn in_shares(mut keys: Vec<Key>) -> Vec<Vec<Key>> {
    // A stable sort takes runs as they are, of which tasks are made: threads and streams, each in order.
    keys.par_chunks_mut(PART).for_each(<[Key]>::sort);
    let parts: Vec<&[Key]> = keys.chunks(PART).collect();
    let mut sample: Vec<Key> = parts.iter().flat_map(|part| part.iter().step_by(SAMPLE).copied()).collect();
    sample.sort_unstable();
    let cuts: Vec<Key> = sample.into_iter().step_by(PART / SAMPLE).skip(1).collect();
    let share = |at: usize| {
        let place = |part: &[Key], cut: &Key| part.partition_point(|key| key < cut);
        let slice = |part: &&[Key]| {
            let from = at.checked_sub(1).map_or(0, |before| place(part, &cuts[before]));
            from..cuts.get(at).map_or(part.len(), |cut| place(part, cut))
        };
        let mut share: Vec<Key> = parts.iter().flat_map(|part| part[slice(part)].iter().copied()).collect();
        <[Key]>::sort(&mut share);
        share
    };
    (0..=cuts.len()).into_par_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::{Dependency, DependencyKind, LaneId, Task, TaskKind};
    use crate::intern::NameId;
    use crate::units::{Bytes, DurNs, TimeNs};

    fn draft(starts: &[i64], edges: &[(u32, u32)]) -> Draft {
        let task = |&start: &i64| Task {
            kind: TaskKind::Joint,
            lane: LaneId(0),
            name: NameId(0),
            operator: None,
            event: None,
            measured_start: TimeNs(start),
            measured: DurNs::ZERO,
            duration: DurNs::ZERO,
            bytes: Bytes(0),
        };
        let mut draft = Draft { tasks: starts.iter().map(task).collect(), edges: Vec::new() };
        for &(from, to) in edges {
            draft.edge(from, to, Dependency::on_end(DependencyKind::Program, DurNs::ZERO));
        }
        draft
    }

    #[test]
    fn what_is_held_comes_behind_the_latest_that_it_waits_for() {
        let draft = draft(&[50, 10, 0, 60, 20], &[(0, 1), (1, 4), (0, 4), (2, 4)]);
        assert_eq!(by_start(&draft), Some(vec![2, 0, 1, 4, 3]));
    }

    #[test]
    fn a_cycle_has_no_order() {
        for edges in [&[(0, 1), (1, 2), (2, 0)][..], &[(0, 0)], &[(2, 1), (1, 2)]] {
            assert_eq!(by_start(&draft(&[30, 20, 10], edges)), None, "{edges:?}");
        }
    }

    #[test]
    fn many_tasks_are_in_order_of_start_and_number() {
        let starts: Vec<i64> = (0..5 * PART as i64).map(|at| at * 7919 % 99_991).collect();
        let mut expected: Vec<u32> = (0..starts.len() as u32).collect();
        expected.sort_by_key(|&task| (starts[task as usize], task));
        assert_eq!(by_start(&draft(&starts, &[])), Some(expected));
    }

    proptest! {
        #[test]
        fn it_is_the_order_in_which_the_earliest_that_could_be_next_is_taken(
            starts in prop::collection::vec(0_i64..12, 1..40),
            ends in prop::collection::vec((0_usize..40, 0_usize..40), 0..60),
            shuffle in prop::collection::vec(any::<u16>(), 40),
        ) {
            let rank = |at: usize| (shuffle[at % starts.len()], at % starts.len());
            let edges: Vec<(u32, u32)> = ends
                .iter()
                .map(|&(a, b)| ((a % starts.len()) as u32, (b % starts.len()) as u32))
                .filter(|&(a, b)| a != b)
                .map(|(a, b)| if rank(a as usize) < rank(b as usize) { (a, b) } else { (b, a) })
                .collect();
            let draft = draft(&starts, &edges);
            let (order, _) = draft.one_by_one();
            if let Some(sorted) = by_start(&draft) {
                prop_assert_eq!(sorted, order);
            }
        }
    }
}
