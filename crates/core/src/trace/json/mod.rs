//! JSON in pieces: finding where values end, and reading a document whose long array never fits memory.
//!
//! Must not know what any key means.

mod block;
pub(super) mod document;
pub(super) mod lex;
pub(super) mod pattern;

use std::borrow::Cow;

/// JSON text without line breaks and tabs between its tokens, which a name table would make unreadable.
pub(super) fn on_one_line(text: &str) -> Cow<'_, str> {
    if memchr::memchr3(b'\n', b'\r', b'\t', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    // Inside strings JSON allows no such characters, so these all stand between tokens.
    Cow::Owned(text.split(['\n', '\r', '\t']).map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_printed_arguments_stay_readable_json() {
        assert_eq!(on_one_line("[\n  [\n    2,\n    3\n  ]\n]"), "[[2,3]]");
        assert_eq!(on_one_line("[[2, 3]]"), "[[2, 3]]");
    }
}
