//! Lines of edits, and scenario files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retime_core::scenario::{SavedScenario, parse_step};

fuzz_target!(|bytes: &[u8]| {
    let text = retime_fuzz::text(bytes);
    for line in text.lines() {
        if let Ok(step) = parse_step(line) {
            // What was read is written so that it is read again as the same.
            let again = step.to_string();
            assert_eq!(parse_step(&again).map(|step| step.to_string()).ok(), Some(again));
        }
    }
    let _ = SavedScenario::from_toml(text);
});
