//! Products and convolutions with a weight, as edits of precision look for them.

use rustc_hash::FxHashMap;

use crate::cost::Family;
use crate::cost::operators::bare;
use crate::graph::{Operands, OperatorId, Phase, TaskKind};
use crate::memory::parameters::weight_place;
use crate::scenario::draft::{Draft, Node};

/// A product or convolution with a weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    /// Its first kernel.
    pub(super) kernel: Node,
    pub(super) operator: OperatorId,
    /// The weight among its operator's arguments; `None` where it is not recorded.
    pub(super) weight: Option<u16>,
    pub(super) is_forward: bool,
}

/// The products with a weight, and the added tasks that repeat them.
///
/// # Arguments
/// `chosen`: whether the kernel of an operator is looked at.
pub(super) fn products(draft: &Draft<'_>, chosen: impl Fn(Node, OperatorId) -> bool) -> Vec<Product> {
    let graph = draft.graph();
    let mut seen = vec![false; graph.operators.len()];
    let mut products = Vec::new();
    for kernel in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel) {
        let product = matches!(draft.family(kernel), Some(Family::Gemm | Family::Conv)) && !draft.is_removed(kernel);
        let chosen = |&id: &OperatorId| product && chosen(Node::Traced(kernel), id);
        let Some(id) = graph.tasks[kernel].operator.filter(chosen) else { continue };
        if !std::mem::replace(&mut seen[id.0 as usize], true) {
            let operator = &graph.operators[id.0 as usize];
            let Some(place) = weight_place(bare(graph.names.get(operator.name))) else { continue };
            let is_matrix = |operands: &Operands| operands.dims(place).is_some_and(|dims| dims.len() > 1);
            let weight = draft.operands(id).is_some_and(is_matrix).then_some(place as u16);
            let is_forward = operator.phase == Phase::Forward;
            products.push(Product { kernel: Node::Traced(kernel), operator: id, weight, is_forward });
        }
    }
    let of: FxHashMap<Node, Product> = products.iter().map(|product| (product.kernel, *product)).collect();
    let repeated =
        draft.added_nodes().filter_map(|kernel| Some(Product { kernel, ..*of.get(&draft.repeated(kernel)?)? }));
    products.extend(repeated);
    products
}
