//! Where the shared generators look for what tests share.

#[path = "../../tests/it/support/edits.rs"]
pub mod edits;
