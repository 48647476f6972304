//! Searching the timeline by name.

use crate::graph::{OperatorId, TaskKind};
use crate::intern::NameId;

use super::item::Item;
use super::scene::Scene;
use super::state::Timeline;

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

/// The next item after (before) the cursor whose name contains the searched text, around the end if need be.
///
/// # Complexity
/// O(names + tasks + operators).
pub fn find(scene: Scene<'_>, state: &Timeline, is_forward: bool) -> Option<Found> {
    let mut matches = matches(scene, state);
    matches.sort_unstable();
    let cursor = state.selected.and_then(|item| Some((scene.picture(state.side).times(item)?.0.0, item)));
    let cursor = cursor.unwrap_or((state.cursor as i64, Item::Operator(OperatorId(0))));
    let after = matches.partition_point(|&found| found <= cursor);
    let before = matches.partition_point(|&found| found < cursor);
    let index = if is_forward {
        if after < matches.len() { after } else { 0 }
    } else {
        before.checked_sub(1).or_else(|| matches.len().checked_sub(1))?
    };
    let &(_, item) = matches.get(index)?;
    Some(Found { item, number: index + 1, count: matches.len() })
}

/// Start and item of all that match.
fn matches(scene: Scene<'_>, state: &Timeline) -> Vec<(i64, Item)> {
    let graph = scene.graph;
    let names: Vec<bool> = graph.names.iter().map(|(_, name)| name.to_lowercase().contains(&state.search)).collect();
    let picture = scene.picture(state.side);
    let is_match = |name: NameId| names.get(name.0 as usize) == Some(&true);
    let tasks = graph.tasks.node_indices().filter(|&node| {
        let task = &graph.tasks[node];
        (task.kind.is_device() || task.kind == TaskKind::Runtime) && is_match(task.name)
    });
    let operators = graph.operators.iter().enumerate().filter(|(_, operator)| is_match(operator.name));
    let all = tasks.map(Item::Task).chain(operators.map(|(id, _)| Item::Operator(OperatorId(id as u32))));
    all.filter_map(|item| Some((picture.times(item)?.0.0, item))).collect()
}
