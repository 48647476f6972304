//! Which work an edit changes, and by how much: kernels by name, host parts by kind.

use rustc_hash::FxHashMap;

use retime_core::graph::TaskKind;
use retime_core::units::DurNs;

use crate::session::{Loaded, Outcome};

/// Changes that a trial keeps: the rest is small.
pub const KEPT: usize = 24;

/// All work of one name, before and after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kernel's name; of host time what part of it.
    pub name: String,
    /// Its family; `host` for host time.
    pub family: &'static str,
    /// Its time without the edit.
    pub before: DurNs,
    /// Its time with it.
    pub after: DurNs,
}

impl Change {
    /// What it takes less; negative where it takes more.
    pub fn gain(&self) -> DurNs {
        self.before - self.after
    }
}

/// What differs between two outcomes of one trace within the iteration, the largest change first.
///
/// # Complexity
/// O(tasks).
pub fn changes(loaded: &Loaded, before: &Outcome, after: &Outcome) -> Vec<Change> {
    let graph = &loaded.graph;
    let of_iteration = loaded.base.iteration_tasks();
    let mut by_name: FxHashMap<(&str, &'static str), [DurNs; 2]> = FxHashMap::default();
    for node in graph.tasks.node_indices().filter(|node| of_iteration[node.index()]) {
        let time = |outcome: &Outcome| {
            let timed = &outcome.resolved.timed;
            timed.task_if_kept(node).map_or(DurNs::ZERO, |task| DurNs(timed.durations[task.0 as usize]))
        };
        let times = [time(before), time(after)];
        if times[0] != times[1] {
            let task = &graph.tasks[node];
            let family = loaded.base.family(node).map(retime_core::cost::Family::name);
            let key = named(task.kind, graph.names.get(task.name), family);
            add(&mut by_name, key, times);
        }
    }
    for (place, outcome) in [before, after].into_iter().enumerate() {
        for task in &outcome.resolved.added {
            let mut times = [DurNs::ZERO; 2];
            times[place] = DurNs(outcome.resolved.timed.durations[task.task.0 as usize]);
            let family = task.work.as_ref().map(|work| work.family.name());
            add(&mut by_name, named(task.kind, &task.name, family), times);
        }
    }
    let mut changes: Vec<Change> = by_name
        .into_iter()
        .filter(|(_, [before, after])| before != after)
        .map(|((name, family), [before, after])| Change { name: name.to_owned(), family, before, after })
        .collect();
    changes.sort_by(|a, b| (b.gain().abs(), &a.name).cmp(&(a.gain().abs(), &b.name)));
    changes
}

fn add<'a>(all: &mut FxHashMap<(&'a str, &'static str), [DurNs; 2]>, key: (&'a str, &'static str), times: [DurNs; 2]) {
    let sums = all.entry(key).or_default();
    (sums[0], sums[1]) = (sums[0] + times[0], sums[1] + times[1]);
}

/// By what work is told: device work by its name, host time by where it is spent.
fn named<'a>(kind: TaskKind, name: &'a str, family: Option<&'static str>) -> (&'a str, &'static str) {
    match kind {
        TaskKind::Host(_) => ("host time", "host"),
        TaskKind::Runtime => ("launches", "host"),
        _ => (name, family.unwrap_or("other")),
    }
}

/// The family that takes most less, with how much.
pub fn most(changes: &[Change]) -> Option<(&'static str, DurNs)> {
    let mut by_family: FxHashMap<&'static str, DurNs> = FxHashMap::default();
    for change in changes {
        *by_family.entry(change.family).or_default() += change.gain();
    }
    let largest = by_family.into_iter().max_by_key(|&(family, gain)| (gain, std::cmp::Reverse(family)));
    largest.filter(|&(_, gain)| gain > DurNs::ZERO)
}
