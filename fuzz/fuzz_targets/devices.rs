//! The user's device files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use retime_core::device::Catalog;

fuzz_target!(|bytes: &[u8]| {
    let _ = Catalog::with_files(&[("device.toml".to_owned(), retime_fuzz::text(bytes).to_owned())]);
});
