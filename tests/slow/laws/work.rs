//! Laws of a kernel's work under an edit: its arithmetic and traffic are those of the tensors that the edit leaves.

use std::collections::BTreeMap;

use rayon::prelude::*;
use retime::session::Outcome;
use retime_core::cost::{Family, Provenance, Shape, Work};
use retime_core::graph::{NodeId, Operand, Operands, OperatorId};

use super::Violation;
use super::subject::Subject;
use crate::support::edits::LINES;

pub const LAWS: &[&str] = &[OWN, TENSORS, RATIO, PLACED];

const OWN: &str = "the FLOP of an edited product are not those of its sizes";
const TENSORS: &str = "the FLOP or bytes of a kernel are not those of the tensors that the edit leaves";
const RATIO: &str = "the FLOP or bytes of an edited kernel do not follow its tensors";
const PLACED: &str = "the FLOP or bytes of look-ups are not those of the tables that their rank has";

/// What rounding of sizes and counts in floating point may be off by.
const ROUNDING: f64 = 1e-6;

pub fn violations(subject: &Subject) -> Vec<Violation> {
    let of_line = |line: &&str| {
        let outcome = subject.outcome(&[*line])?;
        Some([own(subject, line, &outcome), tensors(subject, line, &outcome)])
    };
    let mut found: Vec<Violation> = LINES.par_iter().filter_map(of_line).flatten_iter().flatten().collect();
    found.extend(["", "resize-batch 4096"].iter().filter_map(|before| placed(subject, before)));
    found.extend(edits(subject).par_iter().filter_map(|edit| follows(subject, edit)).collect::<Vec<_>>());
    found
}

/// The kernels that a model predicts anew, each with its work before and after.
fn edited<'a>(subject: &'a Subject, outcome: &'a Outcome) -> impl Iterator<Item = (NodeId, &'a Work, &'a Work)> {
    let (before, after) = (&subject.loaded.replay.resolved.works, &outcome.resolved.works);
    let predicted = outcome.resolved.changes.iter().filter(|(_, of)| of.provenance != Provenance::Unmodelled);
    predicted.filter_map(|&(node, _)| Some((node, before.work(node)?, after.work(node)?)))
}

/// FLOP of a product by its sizes; `None` for other work.
fn flop_of_sizes(work: &Work) -> Option<f64> {
    let product = |sizes: &[u64]| sizes.iter().map(|&size| size as f64).product::<f64>();
    match work.shape {
        Shape::Gemm { batch, m, n, k } => Some(2.0 * product(&[batch, m, n, k])),
        Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, groups, .. } => {
            Some(2.0 * product(&[batch, channels_in, channels_out, out_h, out_w, r, s]) / groups.max(1) as f64)
        }
        _ => None,
    }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
}

fn own(subject: &Subject, line: &str, outcome: &Outcome) -> Option<Violation> {
    let is_own = |work: &Work| flop_of_sizes(work).is_none_or(|sizes| is_near(sizes, work.flop.0));
    let (node, _, work) = edited(subject, outcome).find(|&(_, before, after)| is_own(before) && !is_own(after))?;
    let shown = format!("{}: {:.6e} FLOP of {:?}", subject.task_name(node), work.flop.0, work.shape);
    Some(subject.violation(OWN, line, shown))
}

/// FLOP of a product by its operator's arguments; `None` for other operators.
fn flop_of_arguments(name: &str, operands: &Operands) -> Option<f64> {
    let (left, right) = match name {
        "aten::mm" | "aten::bmm" => (operands.dims(0)?, operands.dims(1)?),
        "aten::addmm" | "aten::baddbmm" => (operands.dims(1)?, operands.dims(2)?),
        _ => return None,
    };
    let elements: f64 = left.iter().map(|&size| size as f64).product();
    Some(2.0 * elements * *right.last()? as f64)
}

/// Tensors among arguments, those of lists one by one: elements and bytes of each.
fn tensors_of(operands: &Operands) -> Vec<(f64, f64)> {
    let lists = operands.inputs.iter().flat_map(|operand| match operand {
        Operand::TensorList(list) => list.as_slice(),
        other => std::slice::from_ref(other),
    });
    let size = |operand: &Operand| {
        let elements: f64 = operand.dims().filter(|dims| !dims.is_empty())?.iter().map(|&size| size as f64).product();
        Some((elements, operand.bytes().0 as f64))
    };
    lists.filter_map(size).filter(|&(elements, _)| elements > 0.0).collect()
}

/// Numbers among arguments, tensors without dimensions: one element and the bytes of each.
fn numbers_of(operands: &Operands) -> Vec<(f64, f64)> {
    let numbers = operands.inputs.iter().filter(|operand| operand.dims().is_some_and(<[u64]>::is_empty));
    numbers.filter_map(|number| Some((1.0, number.dtype()?.size() as f64))).collect()
}

/// The least and the most of what an edit multiplies tensors by; `None` where it leaves other tensors than there were.
fn ratios(before: &[(f64, f64)], after: &[(f64, f64)], of: fn(&(f64, f64)) -> f64) -> Option<(f64, f64)> {
    let all = before.iter().zip(after).map(|(before, after)| of(after) / of(before));
    let range = all.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), ratio| (least.min(ratio), most.max(ratio)));
    (before.len() == after.len() && !before.is_empty()).then_some(range)
}

/// Bytes that rounding of parts and counts of indices may add.
const FEW: f64 = 256.0;

/// Whether a kernel's work follows its operator's tensors: arithmetic their elements, traffic their bytes, each as much as one of
/// them at least and at most. What products write grows by two sizes, and results may have a size and a type of their own.
fn is_as_tensors(before: &Work, after: &Work, elements: (f64, f64), bytes: (f64, f64)) -> bool {
    let is_product = matches!(before.family, Family::Gemm | Family::Conv | Family::Attention);
    let squared = |(least, most): (f64, f64)| (least.min(least * least), most.max(most * most));
    let bytes = if is_product { squared(bytes) } else { bytes };
    let bytes = (bytes.0.min(1.0), bytes.1.max(1.0));
    let is_within = |now: f64, was: f64, (least, most): (f64, f64), few: f64| {
        (least * was * (1.0 - 1e-3) - few..=most * was * (1.0 + 1e-3) + few).contains(&now)
    };
    let is_flop = is_product || is_within(after.flop.0, before.flop.0, elements, FEW);
    is_flop && is_within(after.bytes().0 as f64, before.bytes().0 as f64, bytes, FEW)
}

/// The first operator of which a kernel's work is not that of the arguments which the edit leaves.
fn tensors(subject: &Subject, line: &str, outcome: &Outcome) -> Option<Violation> {
    let (graph, before) = (subject.graph(), &subject.loaded.replay.resolved.works);
    let mut kernels: BTreeMap<OperatorId, Vec<NodeId>> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|&node| before.work(node).is_some()) {
        if let Some(operator) = graph.tasks[node].operator {
            kernels.entry(operator).or_default().push(node);
        }
    }
    kernels.into_iter().find_map(|(operator, nodes)| {
        let shown = of_operator(subject, outcome, operator, &nodes)?;
        Some(subject.violation(TENSORS, line, shown))
    })
}

/// What is wrong with the work of an operator's kernels, whose arguments an edit changed.
fn of_operator(subject: &Subject, outcome: &Outcome, operator: OperatorId, nodes: &[NodeId]) -> Option<String> {
    let (graph, before, after) = (subject.graph(), &subject.loaded.replay.resolved.works, &outcome.resolved.works);
    let name = graph.names.get(graph.operators[operator.0 as usize].name);
    let (old, new) = (before.operands(graph, operator)?, after.operands(graph, operator)?);
    // One that was taken out has no work.
    let works: Option<Vec<(&Work, &Work)>> =
        nodes.iter().map(|&node| Some((before.work(node)?, after.work(node)?))).collect();
    let works = works.filter(|_| old != new)?;
    let shown = |what: String| Some(format!("{name}: {what}: {:?} becomes {:?}", old.inputs, new.inputs));
    let sum = |of: fn(&(&Work, &Work)) -> f64| works.iter().map(of).sum::<f64>();
    if let (Some(was), Some(wanted)) = (flop_of_arguments(name, old), flop_of_arguments(name, new)) {
        let (own, now) = (sum(|(before, _)| before.flop.0), sum(|(_, after)| after.flop.0));
        if is_near(own, was) && !is_near(now, wanted) {
            return shown(format!("{now:.6e} FLOP, not {wanted:.6e}"));
        }
    }
    let (was, now) = (tensors_of(old), tensors_of(new));
    let (elements, bytes) = (ratios(&was, &now, |it| it.0)?, ratios(&was, &now, |it| it.1)?);
    // The type of numbers beside tensors may be that of the result.
    let numbers = ratios(&numbers_of(old), &numbers_of(new), |it| it.1).unwrap_or(bytes);
    // An expanded tensor is read once, and the result has all of its elements.
    let spread = |operand: &Operand| matches!(operand, Operand::Tensor { expanded, .. } if !expanded.is_empty());
    let results = if new.inputs.iter().any(spread) { elements } else { bytes };
    let bytes = (bytes.0.min(numbers.0).min(results.0), bytes.1.max(numbers.1).max(results.1));
    let is_told = |work: &Work| !matches!(work.family, Family::Embedding | Family::Collective);
    let mut all = works.iter().filter(|(before, _)| is_told(before));
    let (before, after) = all.find(|(before, after)| !is_as_tensors(before, after, elements, bytes))?;
    shown(format!("{before:?} becomes {after:?}"))
}

/// An edit and what it may do to one size of a tensor.
struct Edit {
    line: String,
    /// Sizes are as they were, or this many times that.
    times: f64,
    /// Bytes of an element are at least this share of what they were.
    element: f64,
}

fn edits(subject: &Subject) -> Vec<Edit> {
    let edit = |line: String, times: f64, element: f64| Edit { line, times, element };
    let batch = subject.graph().batch_size.into_iter();
    let mut all: Vec<Edit> =
        batch.flat_map(|batch| [2, 4].map(|by| edit(format!("resize-batch {}", batch * by), by as f64, 1.0))).collect();
    all.push(edit("resize-op family=gemm 1024->2048".to_owned(), 2.0, 1.0));
    all.push(edit("resize-op family=gemm 512->1536".to_owned(), 3.0, 1.0));
    all.push(edit("mixed-precision bf16".to_owned(), 1.0, 0.5));
    let same = ["swap-gpu V100", "swap-gpu H200", "scale-device flops x0.5", "accumulate 3", "scale-ranks 64"];
    all.extend(same.map(|line| edit(line.to_owned(), 1.0, 1.0)));
    all
}

/// Sizes are multiplied or are not: so FLOP are multiplied by a power of that, and bytes by no more than FLOP were, nor by less
/// than the sizes' least and the elements' least.
fn follows(subject: &Subject, edit: &Edit) -> Option<Violation> {
    let outcome = subject.outcome(&[&edit.line])?;
    let is_right = |before: &Work, after: &Work| {
        let ratio = after.flop.0 / before.flop.0;
        let is_product = matches!(before.family, Family::Gemm | Family::Conv | Family::Attention);
        let is_power = (0..4).any(|power| is_near(ratio, edit.times.powi(power)));
        let bytes = after.bytes().0 as f64 / before.bytes().0.max(1) as f64;
        let most = edit.times.powi(3).max(1.0) * (1.0 + 1e-3);
        let is_bytes = before.bytes().0 < 4096 || (edit.element * (1.0 - 1e-3)..=most).contains(&bytes);
        (before.flop.0 == 0.0 || !is_product || is_power) && is_bytes
    };
    let (node, before, after) = edited(subject, &outcome).find(|&(_, before, after)| !is_right(before, after))?;
    let shown = format!("{}: {before:?} becomes {after:?}", subject.task_name(node));
    Some(subject.violation(RATIO, &edit.line, shown))
}

/// What means over tables and rounding of sizes may be off by.
const MEANS: f64 = 0.01;

/// All tables of the first rank that has some go to the next one: the job looks up as much as before, and the first rank nothing.
fn placed(subject: &Subject, before: &str) -> Option<Violation> {
    let tables = subject.loaded.base.tables();
    let able = tables.able();
    let (&from, &to) = (able.first()?, able.get(1)?);
    if !tables.sharded().iter().all(|table| table.sizes().is_some()) {
        return None;
    }
    let number = subject.graph().ranks[to].rank.0;
    let own = tables.sharded().iter().enumerate().filter(|(_, table)| table.rank == from);
    let moves: Vec<String> = own.map(|(at, _)| format!("t{at}:r{number}")).collect();
    let line = format!("reshard-tables {}", moves.join(" "));
    let first = subject.outcome(&Vec::from_iter(Some(before).filter(|line| !line.is_empty())))?;
    let lines: Vec<&str> = [before, &line].into_iter().filter(|line| !line.is_empty()).collect();
    let moved = subject.outcome(&lines)?;
    let sums = |outcome: &Outcome, ranks: std::ops::Range<usize>| {
        let nodes = tables.ranks[ranks].iter().flat_map(|rank| rank.forward.iter().chain(&rank.backward));
        let works: Option<Vec<&Work>> = nodes.map(|&node| outcome.resolved.works.work(node)).collect();
        let works = works?;
        let sum = |of: fn(&Work) -> f64| works.iter().map(|work| of(work)).sum::<f64>();
        Some([sum(|work| work.flop.0), sum(|work| work.bytes().0 as f64)])
    };
    let all = 0..tables.ranks.len();
    let (was, now, left) = (sums(&first, all.clone())?, sums(&moved, all)?, sums(&moved, from..from + 1)?);
    let is_kept = was.iter().zip(now).all(|(was, now)| (now / was - 1.0).abs() <= MEANS);
    let is_right = is_kept && left.iter().all(|&left| left <= 0.0);
    (!is_right).then(|| {
        subject.violation(
            PLACED,
            &lines.join(" ; "),
            format!("{was:?} becomes {now:?}, {left:?} of them on rank {from}"),
        )
    })
}
