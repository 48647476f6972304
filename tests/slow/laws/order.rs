//! Edits of attributes come to the same in any order, and structural edits among them nearly so, or say what they did not reach.

use retime::session::Outcome;
use retime_core::scenario::Prefix;

use super::Violation;
use super::subject::{NOTHING, Subject, says_so, says_what_it_selects, time};

pub const LAWS: &[&str] = &[ATTRIBUTES, STRUCTURE];

const ATTRIBUTES: &str = "edits of attributes differ by their order";
const STRUCTURE: &str = "structural edits differ by their order";

/// Of a task: what it has to do and what it runs on; or which tasks there are, where and after what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Attribute,
    Structure,
}

use Class::{Attribute, Structure};

/// One line of every edit whose selectors read neither durations nor families, but for those that are about families;
/// `{batch}` is twice the recorded one.
pub const EDITS: [(Class, &str); 32] = [
    (Attribute, "resize-batch {batch}"),
    (Attribute, "mixed-precision bf16"),
    (Attribute, "swap-gpu A100-80"),
    (Attribute, "swap-gpu B200"),
    (Attribute, "swap-gpu A100-80 host x0.5"),
    (Attribute, "scale-device dram_bw x2"),
    (Attribute, "scale-device flops x2"),
    (Attribute, "scale-device link x2"),
    (Attribute, "scale-device host_link x2"),
    (Attribute, "swap-link NVLink4"),
    (Attribute, "scale-ranks 64"),
    (Attribute, "compress-comm 4"),
    (Attribute, "scale kind=kernel x0.5"),
    (Attribute, "scale kind=host x0.8"),
    (Attribute, "accumulate 3"),
    (Attribute, "overheads mean"),
    (Attribute, "resize-op name~linear 1024->2048"),
    (Structure, "fuse family=elementwise"),
    (Structure, "fuse-optimizer"),
    (Structure, "fuse-embedding-bags"),
    (Structure, "cuda-graph"),
    (Structure, "remove-sync"),
    (Structure, "overlap-comm"),
    (Structure, "prefetch-input"),
    (Structure, "checkpoint phase=forward"),
    (Structure, "bucket-size 100"),
    (Structure, "remove kind=memset"),
    (Structure, "parallelize name~embedding_bag"),
    (Structure, "reorder name~relu before name~conv"),
    (Structure, "insert kernel probe 20us after name~addmm"),
    (Structure, "insert aten::relu after name~addmm"),
    (Structure, "reshard-tables size_greedy"),
];

/// The lines for a trace.
pub fn lines(subject: &Subject) -> Vec<String> {
    let batch = subject.graph().batch_size.map_or(64, |batch| 2 * batch).to_string();
    EDITS.iter().map(|(_, line)| line.replace("{batch}", &batch)).collect()
}

/// Where two edits in either order come to different times.
pub fn violation(subject: &Subject, lines: &[String], (first, second): (usize, usize)) -> Option<Violation> {
    let (a, b) = (subject.step(&lines[first])?, subject.step(&lines[second])?);
    if a.name() == b.name() && Attribute == EDITS[first].0 {
        return None; // The later one says what holds.
    }
    let both = |one: &retime_core::scenario::Step, other: &retime_core::scenario::Step| {
        let prefix = Prefix::of(&subject.loaded.base, std::slice::from_ref(one), &subject.loaded.context);
        subject.outcome_after(&prefix, vec![one.clone(), other.clone()])
    };
    let (ab, ba) = (both(&a, &b), both(&b, &a));
    let are_attributes = [first, second].iter().all(|&at| EDITS[at].0 == Attribute);
    let (law, tolerance) = if are_attributes { (ATTRIBUTES, 0.001) } else { (STRUCTURE, 0.01) };
    let gap = (time(&ab) - time(&ba)).abs();
    let is_same = gap <= NOTHING || gap <= tolerance * time(&ab).min(time(&ba));
    let is_told = |both: &Outcome| says_so(both, gap) || (!are_attributes && says_what_it_selects(both));
    if is_same || is_told(&ab) || is_told(&ba) {
        return None;
    }
    let edit = format!("{}; {}", lines[first], lines[second]);
    let shown = format!("{:.3} or {:.3} ms", time(&ab) / 1e6, time(&ba) / 1e6);
    Some(subject.violation(law, &edit, shown))
}
