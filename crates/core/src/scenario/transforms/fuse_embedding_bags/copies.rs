//! Copies of the lists that lookups are given to the device: a batched lookup is given one list of indices and one of offsets.

use std::collections::{BTreeMap, BTreeSet};

use crate::cost::{Route, Shape};
use crate::graph::{DType, NodeId, Operand, OperatorId, TaskKind};
use crate::scenario::draft::Draft;
use crate::scenario::effect::Effect;
use crate::scenario::transforms::report::in_step;

use super::{Group, Part, Tasks, dims, name, parent, step, structure};

/// A list's copy to the device.
#[derive(Clone, Copy, Debug)]
struct Copied {
    root: OperatorId,
    length: u64,
    copy: NodeId,
}

/// Copies that become one each, and those that stay.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) groups: Vec<Group>,
    stay: Vec<NodeId>,
}

impl Copies {
    /// Of the lists that the lookups of `groups` are given, thread by thread and step by step. Which copy is whose is told by the lengths
    /// of the lists and by how many there are: those of which that tells nothing stay.
    pub(super) fn find(draft: &Draft<'_>, groups: &[Group], tasks: &Tasks) -> Self {
        let graph = draft.graph();
        let mut found = Self::default();
        let mut copied: BTreeMap<_, Vec<Copied>> = BTreeMap::new();
        for one in copied_lists(draft, tasks) {
            let key = (graph.operators[one.root.0 as usize].lane, step(graph, one.root));
            copied.entry(key).or_default().push(one);
        }
        let mut lookups: BTreeMap<_, Vec<&Group>> = BTreeMap::new();
        for group in groups.iter().filter(|group| group.part == Part::Lookup) {
            let key = (graph.operators[group.roots[0].0 as usize].lane, step(graph, group.roots[0]));
            lookups.entry(key).or_default().push(group);
        }
        for (key, all) in copied {
            match lookups.get(&key).map(Vec::as_slice) {
                Some([group]) => found.sort(draft, group, &all),
                Some(groups) => {
                    let lengths: BTreeSet<u64> =
                        groups.iter().flat_map(|group| [1, 2].map(|at| lengths(draft, group, at))).flatten().collect();
                    found.stay.extend(all.iter().filter(|one| lengths.contains(&one.length)).map(|one| one.copy));
                }
                None => {}
            }
        }
        found
    }

    fn sort(&mut self, draft: &Draft<'_>, group: &Group, all: &[Copied]) {
        let (indices, offsets) = (lengths(draft, group, 1), lengths(draft, group, 2));
        let of = |lengths: &BTreeSet<u64>| all.iter().copied().filter(|one| lengths.contains(&one.length)).collect();
        let lists: Vec<Vec<Copied>> = if indices.is_disjoint(&offsets) {
            vec![of(&indices), of(&offsets)]
        } else {
            let both: Vec<Copied> = of(&indices.union(&offsets).copied().collect());
            both.chunks(group.roots.len()).map(<[Copied]>::to_vec).collect()
        };
        for list in lists {
            let shape = |one: &Copied| structure(draft.graph(), one.root);
            let is_alike = list.windows(2).all(|pair| shape(&pair[0]) == shape(&pair[1]));
            if list.len() == group.roots.len() && is_alike {
                let roots = list.iter().map(|one| one.root).collect();
                self.groups.push(Group { part: Part::Copy, roots, result: None });
            } else {
                self.stay.extend(list.iter().map(|one| one.copy));
            }
        }
    }

    /// What to say of those that stay.
    pub(super) fn effect(&self, draft: &Draft<'_>) -> Option<Effect> {
        let copies = in_step(draft, &self.stay);
        let text = format!(
            "lists of indices and offsets that a batched lookup is given as one each are copied to the device by themselves, {copies} of them"
        );
        let tasks = self.stay.iter().map(|&node| (node, draft.graph().tasks[node].duration)).collect();
        (copies > 0).then(|| Effect::kept(text, tasks))
    }
}

/// Lengths of the lists that the lookups of a group are given as argument `at`.
fn lengths(draft: &Draft<'_>, group: &Group, at: usize) -> BTreeSet<u64> {
    let length = |&root: &OperatorId| match dims(draft.graph(), root, at) {
        Some(&[length]) => Some(length),
        _ => None,
    };
    group.roots.iter().filter_map(length).collect()
}

/// The outermost operators that copy a list of whole numbers to the device and do nothing else there, in order.
fn copied_lists(draft: &Draft<'_>, tasks: &Tasks) -> Vec<Copied> {
    let graph = draft.graph();
    let copies = |id: OperatorId| matches!(name(graph, id), "to" | "_to_copy" | "copy_");
    let list = |id: OperatorId| {
        let operands = graph.operands.get(graph.operators[id.0 as usize].operands?.0 as usize)?;
        match operands.inputs.first()? {
            Operand::Tensor { dims, dtype, .. } if dtype.is_some_and(DType::is_integer) => {
                <[u64; 1]>::try_from(&dims[..]).ok()
            }
            _ => None,
        }
    };
    let is_to_device = |node: NodeId| {
        let shape = draft.base().work(node).map(|work| &work.shape);
        matches!(shape, Some(Shape::Copy { route: Route::HostToDevice, .. }))
            && graph.tasks[node].kind == TaskKind::Memcpy
    };
    let outermost = |&id: &OperatorId| copies(id) && !parent(graph, id).is_some_and(copies);
    let found = (0..graph.operators.len() as u32).map(OperatorId).filter(outermost).filter_map(|root| {
        let [length] = list(root)?;
        let inside = (root.0..graph.operators[root.0 as usize].subtree_end.0).map(OperatorId);
        let mut works =
            inside.filter_map(|id| tasks.get(&id)).flatten().filter(|&&node| graph.tasks[node].kind.is_device());
        let copy = *works.next()?;
        (is_to_device(copy) && works.next().is_none() && !draft.is_removed(copy)).then_some(Copied {
            root,
            length,
            copy,
        })
    });
    found.collect()
}
