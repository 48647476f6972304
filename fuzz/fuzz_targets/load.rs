//! Any bytes as a file of any format: the first byte chooses the name, which formats are told by.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retime_core::graph::BuildOptions;

const NAMES: [&str; 6] = ["t.json", "t.json.gz", "t.csv", "t.sqlite", "t.tar", "t.et"];

fuzz_target!(|bytes: &[u8]| {
    let Some((&name, content)) = bytes.split_first() else { return };
    let name = NAMES[usize::from(name) % NAMES.len()];
    let _ = retime_fuzz::engine().load_bytes(content, name, &BuildOptions::default());
});
