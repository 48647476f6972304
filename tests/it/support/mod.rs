//! What the tests share: where traces and inputs are, the engine with its built-in figures, jobs that are opened once.

pub mod edits;
pub mod jobs;
mod missing;
pub mod program;
#[cfg(all(feature = "tui", unix))]
pub mod pty;
pub mod readers;
pub mod recording;
pub mod walks;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use retime::session::Engine;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of bundled traces.
pub fn samples() -> PathBuf {
    root().join("sample_traces")
}

/// A bundled trace.
pub fn sample(name: &str) -> PathBuf {
    samples().join(name)
}

/// A small file made for one test.
pub fn input(name: &str) -> PathBuf {
    root().join("tests/inputs").join(name)
}

/// A file or folder among the shared traces; where it is not there, the test counts as not run.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = root().join("../shared/traces").join(path);
    if path.exists() {
        return Some(path);
    }
    missing::note();
    None
}

/// The engine with the built-in devices, models and overheads.
pub fn engine() -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    Arc::clone(ENGINE.get_or_init(|| Arc::new(Engine::builtin().unwrap())))
}
