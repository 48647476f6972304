//! Edits of traces with impossible values: every figure is a possible one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retime_core::graph::BuildOptions;
use retime_core::scenario::{Scenario, parse_step};
use retime_fuzz::possible::impossible;
use retime_fuzz::traces::{Choices, edits, trace};

fuzz_target!(|bytes: &[u8]| {
    let engine = retime_fuzz::engine();
    let mut choices = Choices(bytes);
    let steps = edits(&mut choices).into_iter().filter_map(|line| parse_step(line).ok()).collect();
    let text = trace(&mut choices);
    let Ok(loaded) = engine.load_bytes(text.as_bytes(), "hostile.json", &BuildOptions::default()) else { return };
    let outcome = engine.evaluate(&loaded, &Scenario { steps, ..Scenario::default() }, 0);
    let figures = serde_json::to_value((&outcome.summary, &outcome.steps)).expect("figures are written as JSON");
    assert_eq!(impossible(&figures), None, "{text}");
});
