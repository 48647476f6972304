use super::*;
use crate::diagnostic::Diagnostics;
use crate::graph::{DType, LaneId, Operand, Operator, Phase};
use crate::intern::{NameId, NameTable};
use crate::trace::EventId;
use crate::units::{DurNs, TimeNs};

fn tensor(dims: &[u64]) -> Operand {
    Operand::tensor(dims.to_vec(), Some(DType::Fp32))
}

/// Name, parent, arguments and phase of an operator.
type Row<'a> = (&'a str, Option<u32>, &'a [&'a [u64]], Phase);

fn model(rows: &[Row<'_>]) -> ExecutionGraph {
    let mut names = NameTable::new();
    let mut operands = Vec::new();
    let operators = rows.iter().enumerate().map(|(index, (name, parent, shapes, phase))| {
        operands.push(Operands { inputs: shapes.iter().map(|dims| tensor(dims)).collect(), outputs: Vec::new() });
        let inside = |row: &&Row<'_>| row.1 == Some(index as u32);
        let children = rows.iter().filter(inside).count() as u32;
        Operator {
            name: names.intern(name),
            parent: parent.map(OperatorId),
            subtree_end: OperatorId(index as u32 + 1 + children),
            lane: LaneId(0),
            event: EventId(0),
            start: TimeNs(index as i64),
            dur: DurNs(1),
            operands: Some(OperandsId(index as u32)),
            phase: *phase,
            forward: None,
            module: NameId(0),
            transfer: None,
        }
    });
    let operators = operators.collect();
    ExecutionGraph {
        is_predicted: false,
        tasks: petgraph::graph::DiGraph::default(),
        lanes: Vec::new(),
        operators,
        operands,
        collectives: Vec::new(),
        names,
        ranks: Vec::new(),
        measured: DurNs(0),
        late_starts: Vec::new(),
        constants: Vec::new(),
        batch_size: None,
        batches: 1,
        passes: Vec::new(),
        diagnostics: Diagnostics::default(),
        stated: Vec::new(),
        stands_beside: Vec::new(),
        repeats: Vec::new(),
    }
}

/// The dimensions of operator `index` at twice the batch.
fn doubled(graph: &ExecutionGraph, batch: u64, index: u32) -> Vec<Vec<u64>> {
    let plan = BatchPlan::find(graph, batch);
    let row = plan.rows.iter().find(|(id, _)| id.0 == index).map(|&(_, row)| row as usize);
    let operands = row.map_or_else(
        || graph.operands[index as usize].clone(),
        |row| plan.resized(graph, batch, 2 * batch).swap_remove(row),
    );
    operands.inputs.iter().filter_map(|operand| operand.dims().map(<[u64]>::to_vec)).collect()
}

const F: Phase = Phase::Forward;
const B: Phase = Phase::Backward;

#[test]
fn a_weight_as_large_as_the_batch_does_not_scale() {
    let square: &[u64] = &[128, 128];
    let graph = model(&[
        ("aten::addmm", None, &[&[128], square, square], F),
        ("aten::relu", None, &[square], F),
        ("AddmmBackward0", None, &[square], B),
        ("aten::mm", Some(2), &[square, square], B),
        ("aten::mm", Some(2), &[square, square], B),
        ("torch::autograd::AccumulateGrad", None, &[square], B),
        ("aten::add_", Some(5), &[square, square], B),
        ("aten::add_", None, &[square, square], Phase::Optimizer),
    ]);
    let (wide, tall) = (vec![128, 256], vec![256, 128]);
    let same = square.to_vec();
    assert_eq!(doubled(&graph, 128, 0), [vec![128], tall.clone(), same.clone()]);
    assert_eq!(doubled(&graph, 128, 1), std::slice::from_ref(&tall));
    assert_eq!(doubled(&graph, 128, 3), [tall.clone(), same.clone()], "the gradient of the input");
    assert_eq!(doubled(&graph, 128, 4), [wide, tall], "the gradient of the weight");
    assert_eq!(doubled(&graph, 128, 6), [same.clone(), same.clone()]);
    assert_eq!(doubled(&graph, 128, 7), [same.clone(), same]);
}

#[test]
fn channels_that_are_multiples_of_the_batch_do_not_scale() {
    let graph = model(&[
        ("aten::conv2d", None, &[&[64, 3, 224, 224], &[64, 3, 7, 7], &[64]], F),
        ("aten::batch_norm", None, &[&[64, 64, 112, 112], &[64], &[64], &[64], &[64]], F),
        ("aten::convolution_backward", None, &[&[64, 64, 112, 112], &[64, 3, 224, 224], &[64, 3, 7, 7]], B),
    ]);
    assert_eq!(doubled(&graph, 64, 0), [vec![128, 3, 224, 224], vec![64, 3, 7, 7], vec![64]]);
    assert_eq!(doubled(&graph, 64, 1)[0], [128, 64, 112, 112]);
    assert_eq!(doubled(&graph, 64, 1)[1..], [vec![64], vec![64], vec![64], vec![64]]);
    assert_eq!(doubled(&graph, 64, 2), [vec![128, 64, 112, 112], vec![128, 3, 224, 224], vec![64, 3, 7, 7]]);
}

#[test]
fn lookups_scale_their_lists_but_not_their_table() {
    let graph = model(&[
        ("aten::embedding_bag", None, &[&[80_000, 128], &[2560], &[256]], F),
        ("aten::embedding_bag", None, &[&[512, 128], &[2500], &[257]], F),
        ("aten::_embedding_bag_sparse_backward", None, &[&[256, 128], &[2560], &[256], &[2560]], B),
    ]);
    assert_eq!(doubled(&graph, 256, 0), [vec![80_000, 128], vec![5120], vec![512]]);
    assert_eq!(doubled(&graph, 256, 1), [vec![512, 128], vec![5000], vec![513]]);
    assert_eq!(doubled(&graph, 256, 2), [vec![512, 128], vec![5120], vec![512], vec![5120]]);
}

#[test]
fn heads_times_batch_is_carried_by_the_outermost_dimension() {
    let graph = model(&[
        ("aten::bmm", None, &[&[48, 64, 32], &[48, 32, 64]], F),
        ("aten::_softmax", None, &[&[48, 64, 64]], F),
        ("aten::linear", None, &[&[4, 64, 768], &[3072, 768], &[3072]], F),
        ("aten::gelu", None, &[&[4, 64, 3072]], F),
    ]);
    assert_eq!(doubled(&graph, 4, 0), [vec![96, 64, 32], vec![96, 32, 64]]);
    assert_eq!(doubled(&graph, 4, 1), [vec![96, 64, 64]]);
    assert_eq!(doubled(&graph, 4, 2), [vec![8, 64, 768], vec![3072, 768], vec![3072]]);
    assert_eq!(doubled(&graph, 4, 3), [vec![8, 64, 3072]]);
}

#[test]
fn a_batch_of_one_is_no_dimension_that_is_spread_over_another() {
    let rows: [Row<'_>; 4] = [
        ("aten::relu", None, &[&[1, 512]], Phase::Forward),
        ("aten::sub", None, &[&[1, 512], &[512, 1]], Phase::Forward),
        ("aten::mul", None, &[&[1, 512], &[512]], Phase::Forward),
        ("aten::add", None, &[&[64, 512], &[1, 512]], Phase::Forward),
    ];
    let graph = model(&rows);
    assert_eq!(doubled(&graph, 1, 0), [[2, 512]]);
    assert_eq!(doubled(&graph, 1, 1)[0], [1, 512]);
    assert_eq!(doubled(&graph, 1, 2)[0], [2, 512]);
    assert_eq!(doubled(&graph, 1, 3), [[128, 512], [1, 512]]);
}
