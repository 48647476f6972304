//! What the fullest rank holds over an iteration, by kind and by layer, before a scenario and after it.

use rustc_hash::FxHashMap;

use retime_core::graph::{ExecutionGraph, OperatorId, Rank, RankPart};
use retime_core::memory::{Buffer, Holds, MemorySource, Peak, RankMemory, Simulated};
use retime_core::units::{Bytes, TimeNs};

use super::{Loaded, Outcome};

/// The memory of one rank over an iteration.
#[derive(Clone, Debug)]
pub struct MemoryOverTime {
    /// How it is known.
    pub source: MemorySource,
    /// What is not in it, a line each.
    pub unknown: Vec<String>,
    /// What is held from each instant on, measured from when the host begins the iteration.
    pub held: Vec<Peak>,
    /// The most at once, likewise.
    pub peak: Peak,
}

/// Memory that is held at the peak for one layer and of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldGroup {
    /// The layer: a module where recorded, else the outermost operator.
    pub label: String,
    /// What it is.
    pub holds: Holds,
    /// Bytes at the peak before the edits.
    pub before: Bytes,
    /// Bytes at the peak after them.
    pub after: Bytes,
    /// Pieces at the peak after them.
    pub count: usize,
    /// An operator whose result it is, or that uses it.
    pub operator: Option<OperatorId>,
}

/// What the fullest rank holds, before and after.
#[derive(Clone, Debug, Default)]
pub struct MemoryChange {
    /// Which rank.
    pub rank: u32,
    /// As traced, in measured times; `None` where nothing tells.
    pub before: Option<MemoryOverTime>,
    /// After the edits, in simulated times; `None` where nothing tells.
    pub after: Option<MemoryOverTime>,
    /// What is held at the peaks, the most first.
    pub groups: Vec<HeldGroup>,
}

impl MemoryChange {
    /// The memory of the rank that holds most under `outcome`.
    ///
    /// # Complexity
    /// O(tasks + buffers · log tasks).
    pub fn of(loaded: &Loaded, outcome: &Outcome) -> Self {
        let graph = &*outcome.resolved.graph;
        let Some(rank) = outcome.summary.memory.as_ref().map(|memory| memory.rank) else { return Self::default() };
        let Some(place) = graph.place_of(Rank(rank)) else { return Self::default() };
        let of = |memory: &[Option<RankMemory>]| memory.get(place).cloned().flatten();
        let (traced, edited) = (of(loaded.base.memory()), of(&outcome.resolved.memory));
        let (timed, schedule) = (&*outcome.resolved.timed, &*outcome.schedule);
        let simulated = Simulated { graph, timed, schedule };
        let mut groups = Groups { graph, all: Vec::new(), places: FxHashMap::default() };
        for (memory, is_after) in [(&traced, false), (&edited, true)] {
            let Some(memory) = memory else { continue };
            let at = memory.peak().at;
            memory.held_at(at).for_each(|buffer| groups.add(buffer, is_after));
        }
        let begins = simulated.begins(place);
        Self {
            rank,
            before: traced.map(|memory| measured(&memory, &graph.ranks[place])),
            after: edited.map(|memory| {
                let held = simulated.kinds_over_time(&outcome.resolved.memory, place);
                let at = outcome.summary.memory.as_ref().map_or(TimeNs(0), |it| TimeNs(it.peak_at_ns.0));
                over_time(&memory, held, begins, Peak { at, ..memory.peak() })
            }),
            groups: groups.sorted(),
        }
    }
}

fn measured(memory: &RankMemory, part: &RankPart) -> MemoryOverTime {
    let begins = part.iteration_start;
    let peak = memory.peak();
    let at = TimeNs(peak.at.since(begins).0.max(0));
    over_time(memory, memory.kinds_over_time(), begins, Peak { at, ..peak })
}

fn over_time(memory: &RankMemory, held: Vec<Peak>, begins: TimeNs, peak: Peak) -> MemoryOverTime {
    let held = held.into_iter().map(|held| Peak { at: TimeNs(held.at.since(begins).0), ..held }).collect();
    MemoryOverTime { source: memory.source, unknown: memory.unknown.clone(), held, peak }
}

struct Groups<'a> {
    graph: &'a ExecutionGraph,
    all: Vec<HeldGroup>,
    places: FxHashMap<(String, Holds), usize>,
}

impl Groups<'_> {
    fn add(&mut self, buffer: &Buffer, is_after: bool) {
        let key = (self.label(buffer.operator), buffer.holds);
        let at = *self.places.entry(key.clone()).or_insert_with(|| {
            let (label, holds) = key;
            let none = Bytes(0);
            self.all.push(HeldGroup { label, holds, before: none, after: none, count: 0, operator: buffer.operator });
            self.all.len() - 1
        });
        let group = &mut self.all[at];
        let bytes = if is_after { &mut group.after } else { &mut group.before };
        bytes.0 = bytes.0.saturating_add(buffer.bytes.0);
        group.count += usize::from(is_after);
    }

    /// The nearest module around an operator, else the outermost operator around it.
    fn label(&self, operator: Option<OperatorId>) -> String {
        let get = |id: OperatorId| self.graph.operators.get(id.0 as usize);
        let around = || std::iter::successors(operator.and_then(get), |it| it.parent.and_then(get));
        let module = around().map(|it| self.graph.names.get(it.module)).find(|name| !name.is_empty());
        let outermost = || around().last().map(|it| self.graph.names.get(it.name));
        module.or_else(outermost).unwrap_or("not told by the trace").to_owned()
    }

    fn sorted(mut self) -> Vec<HeldGroup> {
        let most = |group: &HeldGroup| std::cmp::Reverse((group.after, group.before));
        self.all.sort_by(|a, b| most(a).cmp(&most(b)).then_with(|| (&a.label, a.holds).cmp(&(&b.label, b.holds))));
        self.all
    }
}
