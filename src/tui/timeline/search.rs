//! Searching the timeline by a part of a name, or among items that were selected otherwise.

use std::ops::Range;

use retime_core::graph::{ExecutionGraph, OperatorId, TaskKind};
use retime_core::intern::NameId;
use rustc_hash::FxHashSet;

use super::item::Item;
use super::scene::Scene;
use super::state::Timeline;

/// The items of a graph that can be searched for, by name: a search looks at no others. Built off the screen's thread.
#[derive(Clone, Debug, Default)]
pub struct SearchIndex {
    /// Distinct names in lower case, each with its part of `items`.
    names: Vec<(String, NameId, Range<usize>)>,
    items: Vec<Item>,
}

impl SearchIndex {
    /// Device work, calls and operators of `graph`.
    ///
    /// # Complexity
    /// O(n log n) in tasks and operators.
    pub fn new(graph: &ExecutionGraph) -> Self {
        let shown = |kind: TaskKind| kind.is_device() || kind == TaskKind::Runtime;
        let tasks = graph.tasks.node_indices().filter(|&node| shown(graph.tasks[node].kind));
        let tasks = tasks.map(|node| (graph.tasks[node].name, Item::Task(node)));
        let operators = graph.operators.iter().zip(0..);
        let operators = operators.map(|(operator, id)| (operator.name, Item::Operator(OperatorId(id))));
        let mut all: Vec<(NameId, Item)> = tasks.chain(operators).collect();
        all.sort_unstable();
        let mut names: Vec<(String, NameId, Range<usize>)> = Vec::new();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let start = names.last().map_or(0, |(.., part)| part.end);
            names.push((graph.names.get(same[0].0).to_lowercase(), same[0].0, start..start + same.len()));
        }
        Self { names, items: all.into_iter().map(|(_, item)| item).collect() }
    }

    /// The items whose name contains `text`, which is lower case.
    fn matching<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Item> + 'a {
        let names = self.names.iter().filter(move |(name, ..)| name.contains(text));
        names.flat_map(|(.., part)| self.items[part.clone()].iter().copied())
    }

    /// The names that contain `text`, which is lower case.
    pub fn names_with(&self, text: &str) -> FxHashSet<NameId> {
        self.names.iter().filter(|(name, ..)| name.contains(text)).map(|&(_, id, _)| id).collect()
    }
}

/// Where a search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The item.
    pub item: Item,
    /// Its number among all that match, from 1 in order of time.
    pub number: usize,
    /// How many match.
    pub count: usize,
}

/// The next item after (before) the cursor that the search finds, around the end if need be; forward the one at the cursor
/// where that counts.
///
/// # Complexity
/// O(names + matches).
pub fn find(scene: Scene<'_>, state: &Timeline, is_forward: bool, is_here_one: bool) -> Option<Found> {
    let density = scene.side(state.side);
    let cursor = state.selected.and_then(|item| Some((density.times(item)?.0.0, item)));
    let cursor = cursor.unwrap_or((state.cursor as i64, Item::Operator(OperatorId(0))));
    let (mut count, mut before, mut upto) = (0, 0, 0);
    let (mut first, mut last, mut previous, mut next) = (None, None, None, None);
    let by_name = || scene.index.matching(&state.search);
    let matching: &mut dyn Iterator<Item = Item> = match &state.hits {
        Some(hits) => &mut hits.iter().copied(),
        None => &mut by_name(),
    };
    for item in matching {
        let Some((start, _)) = density.times(item) else { continue };
        let place = (start.0, item);
        count += 1;
        first = Some(first.map_or(place, |first: Place| first.min(place)));
        last = last.max(Some(place));
        if place < cursor {
            before += 1;
            previous = previous.max(Some(place));
        }
        if place < cursor || place == cursor && !is_here_one {
            upto += 1;
        } else {
            next = Some(next.map_or(place, |next: Place| next.min(place)));
        }
    }
    let (place, number) = match (is_forward, next, previous) {
        (true, Some(next), _) => (next, upto + 1),
        (true, None, _) => (first?, 1),
        (false, _, Some(previous)) => (previous, before),
        (false, _, None) => (last?, count),
    };
    Some(Found { item: place.1, number, count })
}

/// An item in order of time.
type Place = (i64, Item);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Engine, sample};
    use crate::tui::load::opened;
    use crate::tui::workspace::Workspace;
    use retime_core::graph::BuildOptions;
    use retime_core::scenario::Scenario;

    #[test]
    fn a_search_goes_through_all_whose_name_matches_in_order_of_time_and_round() {
        let engine = Engine::builtin().unwrap();
        let loaded = sample::load(&engine, &BuildOptions::default()).unwrap();
        let work = Workspace::new(0, opened(&engine, loaded, None), &Scenario::default());
        let (scene, mut state) = (work.scene(), work.timeline.clone());
        state.search = "addmm".to_owned();
        let mut expected: Vec<Place> = scene
            .index
            .items
            .iter()
            .copied()
            .filter_map(|item| {
                let matches = scene.name(item).to_lowercase().contains(&state.search);
                Some((scene.measured.times(item).filter(|_| matches)?.0.0, item))
            })
            .collect();
        expected.sort_unstable();
        assert!(expected.len() > 2);
        state.cursor = 0.0;
        let numbered: Vec<Place> = (1..=expected.len())
            .map(|number| {
                let found = find(scene, &state, true, false).unwrap();
                assert_eq!((found.number, found.count), (number, expected.len()));
                state.selected = Some(found.item);
                (scene.measured.times(found.item).unwrap().0.0, found.item)
            })
            .collect();
        assert_eq!(numbered, expected);
        assert_eq!(find(scene, &state, true, true).unwrap().number, expected.len(), "the one at the cursor");
        assert_eq!(find(scene, &state, true, false).unwrap().number, 1);
        assert_eq!(find(scene, &state, false, false).unwrap().number, expected.len() - 1);
        state.search = "no such name".to_owned();
        assert_eq!(find(scene, &state, true, false), None);
    }
}
