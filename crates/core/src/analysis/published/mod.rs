//! The two published algorithms for an iteration's time, transcribed, and the same operators as a task graph: the general
//! simulator must agree with both to the nanosecond.
//!
//! Sources: Lin 2022 Algorithm 1 (one device) and Lin 2024 Algorithm 1 (several ranks).

mod recorded;

use crate::graph::{TaskId, TimedGraph};
use crate::units::DurNs;

pub use recorded::{RankOps, aligned, recorded_ops};

/// One operator of an execution trace.
#[derive(Clone, Debug, Default)]
pub struct PublishedOp {
    /// Overheads T1 to T5 in ns at their numbers; the first element is not used.
    pub overheads: [i64; 6],
    /// Times of its kernels in ns.
    pub kernels: Vec<i64>,
    /// Whether it is a collective, whose kernels run on the communication stream.
    pub is_collective: bool,
    /// Whether it reads the output of the last collective.
    pub reads_collective: bool,
}

/// Least time between two kernels of a stream, in ns.
const GAP: i64 = 1_000;

/// Lin 2022 Algorithm 1, one operator: moves the front of the host and that of the stream, both in ns.
fn host_and_stream(op: &PublishedOp, cpu: &mut i64, gpu: &mut i64) {
    let t = op.overheads;
    *cpu += t[1];
    if op.kernels.is_empty() {
        *cpu += t[5];
        return;
    }
    *cpu += t[2];
    for (i, kernel) in op.kernels.iter().enumerate() {
        *gpu = (*gpu + GAP).max(*cpu + t[4] / 2) + kernel;
        *cpu += t[4];
        if i + 1 < op.kernels.len() {
            *cpu += t[5];
        }
    }
    *cpu += t[3];
}

/// Lin 2022 Algorithm 1: time of `ops` on one device.
pub fn one_device(ops: &[PublishedOp]) -> DurNs {
    let (mut cpu, mut gpu) = (0, 0);
    for op in ops {
        host_and_stream(op, &mut cpu, &mut gpu);
    }
    DurNs(cpu.max(gpu))
}

/// Lin 2024 Algorithm 1: time of `ranks`, each with the same operators at its own pace, and with a compute and a
/// communication stream. Which operators read what a collective brought may differ between ranks.
pub fn several_ranks(ranks: &[Vec<PublishedOp>]) -> DurNs {
    let (mut cpu, mut compute, mut comm) = (vec![0; ranks.len()], vec![0; ranks.len()], vec![0; ranks.len()]);
    for i in 0..ranks.first().map_or(0, Vec::len) {
        let is_collective = ranks[0][i].is_collective;
        for (rank, ops) in ranks.iter().enumerate() {
            if is_collective || ops[i].reads_collective {
                compute[rank] = comm[rank].max(compute[rank]);
                comm[rank] = compute[rank];
            }
            let front = if is_collective { &mut comm[rank] } else { &mut compute[rank] };
            host_and_stream(&ops[i], &mut cpu[rank], front);
        }
        if is_collective {
            let last = comm.iter().copied().fold(0, i64::max);
            comm.fill(last);
        }
    }
    DurNs(cpu.into_iter().chain(compute).chain(comm).fold(0, i64::max))
}

/// One operator as tasks; moves the last task of the thread and of the stream.
fn push_operator(graph: &mut TimedGraph, op: &PublishedOp, cpu: &mut TaskId, gpu: &mut TaskId) {
    let t = op.overheads;
    let mut host = |graph: &mut TimedGraph, ns| *cpu = graph.push(u32::MAX, DurNs(ns), &[(*cpu, DurNs(0))]);
    host(graph, t[1]);
    host(graph, if op.kernels.is_empty() { t[5] } else { t[2] });
    for (i, &kernel) in op.kernels.iter().enumerate() {
        let launched = TaskId(graph.len() as u32);
        host(graph, t[4] / 2);
        *gpu = graph.push(u32::MAX, DurNs(kernel), &[(*gpu, DurNs(GAP)), (launched, DurNs(0))]);
        host(graph, t[4] - t[4] / 2);
        if i + 1 < op.kernels.len() {
            host(graph, t[5]);
        }
    }
    if !op.kernels.is_empty() {
        host(graph, t[3]);
    }
}

fn join(graph: &mut TimedGraph, tasks: &[TaskId]) -> TaskId {
    let before: Vec<(TaskId, DurNs)> = tasks.iter().map(|&task| (task, DurNs(0))).collect();
    graph.push(u32::MAX, DurNs(0), &before)
}

/// The graph of `ops` on one device.
pub fn graph_of_device(ops: &[PublishedOp]) -> TimedGraph {
    let mut graph = TimedGraph::default();
    let origin = graph.push(u32::MAX, DurNs(0), &[]);
    let (mut thread, mut stream) = (origin, origin);
    for op in ops {
        push_operator(&mut graph, op, &mut thread, &mut stream);
    }
    graph
}

/// The graph of `ranks` as of [`several_ranks`].
pub fn graph_of_ranks(ranks: &[Vec<PublishedOp>]) -> TimedGraph {
    let mut graph = TimedGraph::default();
    let origin = graph.push(u32::MAX, DurNs(0), &[]);
    let (mut cpu, mut compute, mut comm) =
        (vec![origin; ranks.len()], vec![origin; ranks.len()], vec![origin; ranks.len()]);
    for i in 0..ranks.first().map_or(0, Vec::len) {
        let is_collective = ranks[0][i].is_collective;
        for (rank, ops) in ranks.iter().enumerate() {
            if is_collective || ops[i].reads_collective {
                compute[rank] = join(&mut graph, &[compute[rank], comm[rank]]);
                comm[rank] = compute[rank];
            }
            let front = if is_collective { &mut comm[rank] } else { &mut compute[rank] };
            push_operator(&mut graph, &ops[i], &mut cpu[rank], front);
        }
        if is_collective {
            let last = join(&mut graph, &comm);
            comm.fill(last);
        }
    }
    graph
}
