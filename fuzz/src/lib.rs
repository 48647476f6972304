//! What the targets share, with the slow tests: traces with impossible values, edits of them, and which figures cannot be.

#[path = "../../tests/slow/hostile/possible.rs"]
pub mod possible;
pub mod support;
#[path = "../../tests/slow/hostile/traces.rs"]
pub mod traces;

/// The text in bytes, as far as it is one.
pub fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// One engine for all inputs.
pub fn engine() -> &'static retime_core::engine::Engine {
    static ENGINE: std::sync::OnceLock<retime_core::engine::Engine> = std::sync::OnceLock::new();
    ENGINE.get_or_init(|| retime_core::engine::Engine::builtin().expect("the built-in files are whole"))
}
