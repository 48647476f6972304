//! Traces with impossible values under any edits: nothing panics, every figure is a possible one, whatever command gives it.

mod possible;
#[cfg(feature = "tui")]
mod screen;
mod traces;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};
use std::time::Instant;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use retime::session::Engine;
use retime_core::graph::BuildOptions;
use retime_core::scenario::{Scenario, parse_step};

use crate::support::engine;
use possible::impossible;
use traces::{Choices, edits, trace};

/// Traces that are tried.
const TRACES: u32 = 4000;
/// Of those that are given to every command.
const FOR_COMMANDS: usize = 24;
/// No small trace takes longer, in seconds.
const LONGEST: u64 = 20;

/// Random numbers that the seed of the tests fixes.
fn random() -> TestRng {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&crate::seed().to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
}

/// Edits and the trace that they are of.
fn drawn(bytes: &[u8]) -> (Vec<&'static str>, String) {
    let mut choices = Choices(bytes);
    (edits(&mut choices), trace(&mut choices))
}

/// Evaluates a trace under its edits, one more at a time.
fn check(engine: &Engine, lines: &[&str], text: &str) -> Result<(), String> {
    let Ok(loaded) = engine.load_bytes(text.as_bytes(), "hostile.json", &BuildOptions::default()) else {
        return Ok(());
    };
    for length in 0..=lines.len() {
        let steps = lines[..length].iter().map(|line| parse_step(line).unwrap()).collect();
        let outcome = engine.evaluate(&loaded, &Scenario { steps, ..Scenario::default() }, 0);
        let outcome = engine.with_gains(&loaded, outcome, &[], &|| false).unwrap();
        let figures = serde_json::to_value((&outcome.summary, &outcome.steps)).unwrap();
        if let Some(what) = impossible(&figures) {
            return Err(format!("{:?}: {what}", &lines[..length]));
        }
    }
    Ok(())
}

#[test]
fn impossible_values_under_any_edits_give_possible_figures() {
    let engine = engine();
    let config = ProptestConfig { cases: TRACES, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, random());
    let bytes = proptest::collection::vec(any::<u8>(), 0..600);
    let tried = runner.run(&bytes, |bytes| {
        let (began, (lines, text)) = (Instant::now(), drawn(&bytes));
        let checked = catch_unwind(AssertUnwindSafe(|| check(&engine, &lines, &text)));
        let checked = checked.unwrap_or_else(|_| Err("panics".to_owned()));
        prop_assert!(checked.is_ok(), "{lines:?} {checked:?}\n{text}");
        prop_assert!(began.elapsed().as_secs() < LONGEST, "{lines:?} takes {:?}\n{text}", began.elapsed());
        Ok(())
    });
    tried.unwrap();
}

/// Every command that answers about a trace.
const COMMANDS: [&[&str]; 13] = [
    &["simulate"],
    &["path"],
    &["gaps"],
    &["ops"],
    &["layers"],
    &["roofline"],
    &["breakdown"],
    &["overheads"],
    &["tables"],
    &["advise"],
    &["info"],
    &["sweep", "--batch", "1..100000x4"],
    &["simulate", "--iteration", "all"],
];

fn retime(arguments: &[&str], lines: &[&str], path: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retime"));
    command.args(arguments).arg(path);
    if !["info", "overheads"].contains(&arguments[0]) {
        for line in lines {
            command.args(["--step", line]);
        }
    }
    command.output().unwrap()
}

#[test]
fn every_command_gives_possible_figures_of_impossible_values_or_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.json");
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), random());
    let bytes = proptest::collection::vec(any::<u8>(), 40..600);
    let mut answered = 0;
    for _ in 0..FOR_COMMANDS {
        let (lines, text) = drawn(&bytes.new_tree(&mut runner).unwrap().current());
        std::fs::write(&path, &text).unwrap();
        for &command in &COMMANDS {
            for format in [&["--json"][..], &[]] {
                let output = retime(&[command, format].concat(), &lines, path.to_str().unwrap());
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(matches!(output.status.code(), Some(0..=2)), "{command:?} {lines:?}: {said}\n{text}");
                let shown = String::from_utf8(output.stdout).unwrap();
                assert!(!shown.contains("NaN") && !shown.contains("inf "), "{command:?} {lines:?}: {shown}\n{text}");
                if output.status.success() && !format.is_empty() {
                    answered += 1;
                    let what = impossible(&serde_json::from_str(&shown).unwrap());
                    assert_eq!(what, None, "{command:?} {lines:?}\n{text}");
                }
            }
        }
    }
    assert!(answered > FOR_COMMANDS * COMMANDS.len() / 4, "{answered}: most are refused");
}
