//! Counts tests that lack shared traces, and says so when the program ends: libtest shows nothing that a passing test prints.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Mutex;
use std::thread;

/// Names of the tests; libtest names each test's thread after it.
static TESTS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notes that the running test lacks a shared trace.
pub fn note() {
    let mut tests = TESTS.lock().unwrap();
    if tests.is_empty() {
        at_exit();
    }
    tests.insert(thread::current().name().unwrap_or("a thread").to_owned());
}

#[cfg(unix)]
fn at_exit() {
    #[expect(unsafe_code, reason = "a C function that only stores a pointer")]
    // SAFETY: `report` takes nothing, returns nothing and lives as long as the program.
    let status = unsafe { libc::atexit(report) };
    assert_eq!(status, 0);
}

#[cfg(not(unix))]
fn at_exit() {}

#[cfg(unix)]
extern "C" fn report() {
    let count = TESTS.lock().map_or(0, |tests| tests.len());
    let _ = writeln!(std::io::stderr(), "{count} tests did not run, or only in part: files of ../shared are not there");
}
