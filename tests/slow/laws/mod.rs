//! Laws that every edit keeps on every trace: identities, order, monotony, accounts, bands and what comes back from a file.
//!
//! What breaks a law because of a cost model stands in `laws.toml`, which only shrinks: a violation that is not listed fails the
//! test, and so does a listed one that no longer comes up. `RETIME_LAWS=FILE` writes what was found instead, in the same form.

mod alone;
mod figures;
mod order;
mod reopened;
mod subject;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::support::{sample, shared};
use crate::traces::named;
use crate::{drawn, is_whole, traces};
use subject::Subject;

/// A law that an edit of a trace broke.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which law, as in the list.
    pub law: &'static str,
    /// Of which trace.
    pub trace: String,
    /// By which edit, or which two.
    pub edit: String,
    /// The first task that shows it, where one does, and the figures.
    pub shown: String,
}

/// By law and trace, the edits that break it.
type Listed = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slow/laws.toml")
}

fn listed() -> Listed {
    toml::from_str(&std::fs::read_to_string(file()).unwrap()).unwrap()
}

/// Holds what was found against the list.
///
/// # Arguments
/// `tried`: the laws that were tried, each with the trace and, where not all of its edits were, the first of the two.
fn judge(part: &str, laws: &[&str], tried: &BTreeSet<(String, Option<String>)>, mut found: Vec<Violation>) {
    found.sort();
    if let Ok(path) = std::env::var("RETIME_LAWS") {
        write(&PathBuf::from(format!("{path}.{part}.toml")), &found);
        return;
    }
    let listed = listed();
    let is_listed = |one: &Violation| {
        let of_trace = listed.get(one.law).and_then(|traces| traces.get(&one.trace));
        of_trace.is_some_and(|edits| edits.contains(&one.edit))
    };
    let mut wrong: Vec<String> = found
        .iter()
        .filter(|one| !is_listed(one))
        .map(|one| format!("broken: {}: {}: {}: {}", one.law, one.trace, one.edit, one.shown))
        .collect();
    let is_found = |law: &str, trace: &str, edit: &str| {
        found.iter().any(|one| one.law == law && one.trace == trace && one.edit == edit)
    };
    let was_tried = |trace: &str, edit: &str| {
        let first = edit.split_once("; ").map_or(edit, |(first, _)| first);
        tried.contains(&(trace.to_owned(), None)) || tried.contains(&(trace.to_owned(), Some(first.to_owned())))
    };
    for (law, of_trace) in listed.iter().filter(|(law, _)| laws.contains(&law.as_str())) {
        for (trace, edits) in of_trace {
            let gone = edits.iter().filter(|edit| was_tried(trace, edit) && !is_found(law, trace, edit));
            wrong.extend(gone.map(|edit| format!("listed and kept: {law}: {trace}: {edit}")));
        }
    }
    assert!(wrong.is_empty(), "{} of {} found\n{}", wrong.len(), found.len(), wrong.join("\n"));
}

/// Writes the list of what was found, what shows it in comments, and how many there are of each law.
fn write(path: &Path, found: &[Violation]) {
    let mut text = String::new();
    let mut by_law: BTreeMap<&str, BTreeMap<&str, Vec<&Violation>>> = BTreeMap::new();
    for one in found {
        by_law.entry(one.law).or_default().entry(&one.trace).or_default().push(one);
    }
    for (law, traces) in by_law {
        let count: usize = traces.values().map(Vec::len).sum();
        let _ = writeln!(text, "# {count} on {} traces\n[{law:?}]", traces.len());
        for (trace, violations) in traces {
            let _ = writeln!(text, "{trace:?} = [");
            for one in violations {
                let _ = writeln!(text, "    {:?}, # {}", one.edit, one.shown.replace('\n', " "));
            }
            text.push_str("]\n");
        }
        text.push('\n');
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn every_edit_alone_keeps_the_laws() {
    let mut tried = BTreeSet::new();
    let mut found = Vec::new();
    for path in drawn(traces::all()) {
        for subject in Subject::of(&path) {
            tried.insert((subject.name.clone(), None));
            found.extend(alone::violations(&subject));
            found.extend(reopened::violations(&subject));
            found.extend(figures::violations(&subject));
            found.extend(work::violations(&subject));
        }
    }
    judge("alone", &[alone::LAWS, reopened::LAWS, figures::LAWS, work::LAWS].concat(), &tried, found);
}

/// Bundled and shared traces on which pairs of edits are tried.
const PAIRED: [&str; 7] = [
    "dlrm-ddp-b256-on-v100.predicted.json.gz",
    "vgg13-h100-train",
    "qwen05b-h100",
    "resnet50-v100-dataloader",
    "bert-small-h100-mi300/h100.json.gz",
    "torchrec-v100x4",
    "recsys-a100x8-rank3",
];

#[test]
fn two_edits_give_the_same_in_either_order() {
    let paths = PAIRED.into_iter().filter_map(|name| {
        let bundled = sample(name);
        if bundled.exists() { Some(bundled) } else { shared(name) }
    });
    let cases = named(paths).into_iter().flat_map(|(name, path)| {
        (0..order::EDITS.len()).map(move |first| (format!("{name}/{first}"), (path.clone(), first)))
    });
    let mut opened: BTreeMap<PathBuf, Vec<Subject>> = BTreeMap::new();
    let (mut tried, mut found) = (BTreeSet::new(), Vec::new());
    // A trace is opened once: in a whole run its cases follow one another.
    for (path, first) in drawn(cases.collect()) {
        if is_whole() {
            opened.retain(|open, _| *open == path);
        }
        for subject in opened.entry(path.clone()).or_insert_with(|| Subject::of(&path)) {
            let lines = order::lines(subject);
            tried.insert((subject.name.clone(), Some(lines[first].clone())));
            let pairs: Vec<usize> = (first + 1..lines.len()).collect();
            let of_pair = |&second: &usize| order::violation(subject, &lines, (first, second));
            found.extend(pairs.par_iter().filter_map(of_pair).collect::<Vec<_>>());
        }
    }
    judge("order", order::LAWS, &tried, found);
}
