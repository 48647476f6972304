//! Searching the timeline by name.

use crate::graph::{OperatorId, TaskKind};

use super::item::Item;
use super::rows::Side;
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
    let names: Vec<bool> =
        scene.graph.names.iter().map(|(_, name)| name.to_lowercase().contains(&state.search)).collect();
    let side = if state.side == Side::Both { Side::Measured } else { state.side };
    let picture = scene.picture(side);
    let is_match = |item: Item| names.get(item.name(scene.graph).0 as usize) == Some(&true);
    let tasks = scene.graph.tasks.node_indices().filter(|&node| {
        let kind = scene.graph.tasks[node].kind;
        kind.is_device() || kind == TaskKind::Runtime
    });
    let operators = (0..scene.graph.operators.len() as u32).map(|id| Item::Operator(OperatorId(id)));
    let all = tasks.map(Item::Task).chain(operators).filter(|&item| is_match(item));
    all.filter_map(|item| Some((picture.times(item)?.0.0, item))).collect()
}
