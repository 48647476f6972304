//! JSON in pieces: finding where values end, and reading a document whose long array never fits memory.
//!
//! Must not know what any key means.

pub mod document;
pub mod lex;
