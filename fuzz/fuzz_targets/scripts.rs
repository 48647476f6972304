//! Scripts and what they expect.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retime::session::{Expectation, script_lines};

fuzz_target!(|bytes: &[u8]| {
    for line in script_lines(retime_fuzz::text(bytes)) {
        let _ = Expectation::parse(&line.text);
    }
});
