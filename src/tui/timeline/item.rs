//! What can be pointed at on the timeline.

use retime_core::graph::{NodeId, OperatorId};

/// A task (kernel, copy, collective, call), an operator, or a task that a scenario added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A task of the graph.
    Task(NodeId),
    /// An operator.
    Operator(OperatorId),
    /// A task that the scenario added, by its number.
    Added(u32),
}

/// Set in the keys of tasks.
const TASK: u32 = 1 << 31;
/// Set in the keys of added tasks.
const ADDED: u32 = 1 << 30;

impl Item {
    /// Its key in a density index.
    pub fn key(self) -> u32 {
        match self {
            Self::Task(node) => node.index() as u32 | TASK,
            Self::Operator(id) => id.0,
            Self::Added(number) => number | ADDED,
        }
    }

    /// The item of a key.
    pub fn from_key(key: u32) -> Self {
        match (key & TASK, key & ADDED) {
            (0, 0) => Self::Operator(OperatorId(key)),
            (0, _) => Self::Added(key & !ADDED),
            _ => Self::Task(NodeId::from(key & !TASK)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_back_to_their_items() {
        for item in [Item::Task(NodeId::from(7)), Item::Operator(OperatorId(7)), Item::Added(7)] {
            assert_eq!(Item::from_key(item.key()), item);
        }
    }
}
