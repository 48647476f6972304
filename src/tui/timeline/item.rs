//! What can be pointed at on the timeline.

use crate::graph::{NodeId, OperatorId};

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

/// A name as short as it is still told apart: no return type, namespaces, template or call arguments, no `aten::`.
pub fn short_name(name: &str) -> &str {
    let name = name.trim_start_matches("void ").trim_start_matches("autograd::engine::evaluate_function: ");
    let is_cpp = name.contains('<') || name.contains('(');
    let end = if is_cpp { name.find(['<', '(']).filter(|&at| at > 0).unwrap_or(name.len()) } else { name.len() };
    let bare = name[..end].trim_end();
    match bare.rfind("::") {
        Some(at) if at + 2 < bare.len() => &bare[at + 2..],
        _ => bare,
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

    #[test]
    fn names_are_shortened_to_what_tells_them_apart() {
        let cases = [
            ("void at::native::vectorized_elementwise_kernel<4, float>(int, float)", "vectorized_elementwise_kernel"),
            ("aten::linear", "linear"),
            ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"),
            ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
            ("sm90_xmma_gemm_f32f32", "sm90_xmma_gemm_f32f32"),
            ("<forward op>", "<forward op>"),
            ("ns::", "ns::"),
        ];
        for (full, short) in cases {
            assert_eq!(short_name(full), short);
        }
    }
}
