//! A JSON document read window by window: members of the top level whole, elements of its long array one at a time.
//!
//! Elements that are damaged are left out and reading goes on at the next one; what follows a damaged top level is lost.

use std::borrow::Cow;

use super::lex::{self, Stop};

/// What reads the parts of a [`Document`].
pub(crate) trait Reader {
    /// Whether the elements of the top-level array `key` are read one by one; a bare array has no key.
    fn streams(&mut self, key: Option<&str>) -> bool;

    /// Takes another member of the top level, as JSON text.
    fn member(&mut self, key: &str, value: &[u8]);

    /// Reads the element at `text[at..]`, which stands at byte `offset` of the document.
    ///
    /// # Errors
    /// [`Stop::Unexpected`] hands the element, once all of it is there, to [`Self::whole_element`].
    fn element(&mut self, text: &[u8], at: usize, offset: u64) -> Result<usize, Stop>;

    /// Reads a complete element that [`Self::element`] did not understand.
    ///
    /// # Errors
    /// Why it is damaged.
    fn whole_element(&mut self, text: &[u8], offset: u64) -> Result<(), String>;

    /// Notes that the element at byte `offset` was left out.
    fn damaged(&mut self, offset: u64, reason: &str);

    /// Notes that the text at byte `offset` departs from JSON in a way that loses nothing.
    fn lenient(&mut self, offset: u64, what: &'static str);

    /// Notes that from byte `offset` on, behind the end of the document, there are `bytes` of text that are not read.
    fn trailing(&mut self, offset: u64, bytes: u64);
}

/// The top level cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Where.
    pub offset: u64,
    /// What should have been there.
    pub expected: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    /// Before a key, or before the end of an object without members.
    Member {
        first: bool,
    },
    AfterMember,
    /// Before an element or the end of the array.
    Element {
        first: bool,
    },
    /// Looking for the next element after a damaged one.
    Lost,
    End,
}

/// The state of reading one document.
#[derive(Debug)]
pub(crate) struct Document {
    state: State,
    /// Whether the top level is an array.
    bare: bool,
    /// Where the next window starts in the document.
    offset: u64,
    /// Where text begins and ends that stands behind the document.
    trailing: Option<(u64, u64)>,
}

impl Default for Document {
    fn default() -> Self {
        Self { state: State::Start, bare: false, offset: 0, trailing: None }
    }
}

impl Document {
    /// Whether an element of the long array was just read, and others may follow.
    pub(crate) fn is_between_elements(&self) -> bool {
        self.state == State::Element { first: false }
    }

    /// A reading of the elements that stand `after` bytes behind where this one is, which is between elements.
    pub(crate) fn ahead(&self, after: usize) -> Self {
        Self { state: State::Element { first: false }, offset: self.offset + after as u64, ..*self }
    }

    /// Takes the next `used` bytes as read: they were whole elements.
    pub(crate) fn pass(&mut self, used: usize) {
        self.offset += used as u64;
    }

    /// Reads on in `window`, which starts where the last call stopped and should hold more than it did then.
    ///
    /// # Returns
    /// How many bytes were used; the rest must start the next window.
    ///
    /// # Errors
    /// When the top level is no JSON.
    pub(crate) fn feed<R: Reader>(&mut self, window: &[u8], reader: &mut R) -> Result<usize, Malformed> {
        let mut at = 0;
        loop {
            match self.step(window, at, reader) {
                Ok(next) if next == window.len() && self.state == State::End => {
                    at = next;
                    break;
                }
                Ok(next) => at = next,
                Err(Stop::NeedMore) => break,
                Err(Stop::Unexpected) => {
                    let at = lex::skip_space(window, at);
                    return Err(Malformed { offset: self.offset + at as u64, expected: self.expected() });
                }
            }
        }
        self.offset += at as u64;
        Ok(at)
    }

    /// Reads the last window; an element that never ends is left out, and reading goes on after it.
    ///
    /// # Errors
    /// As [`Self::feed`].
    pub(crate) fn feed_last<R: Reader>(&mut self, window: &[u8], reader: &mut R) -> Result<(), Malformed> {
        let mut used = self.feed(window, reader)?;
        while self.abandon_element(&window[used..], reader) {
            used += self.feed(&window[used..], reader)?;
        }
        if let Some((from, to)) = self.trailing {
            reader.trailing(from, to - from);
        }
        Ok(())
    }

    /// Gives up on the element at the start of `window`, whose end was not found; the next call of [`Self::feed`] looks
    /// for the one after it.
    ///
    /// # Returns
    /// Whether there was one.
    pub(crate) fn abandon_element<R: Reader>(&mut self, window: &[u8], reader: &mut R) -> bool {
        let start = window.iter().position(|b| !matches!(b, b' ' | b'\n' | b'\r' | b'\t' | b','));
        let (State::Element { .. }, Some(start)) = (self.state, start) else { return false };
        reader.damaged(self.offset + start as u64, "an element without an end");
        self.state = State::Lost;
        true
    }

    /// What is missing when there is no more text; `None` when the document is complete.
    pub(crate) fn missing(&self) -> Option<Malformed> {
        (self.state != State::End).then(|| Malformed { offset: self.offset, expected: self.expected() })
    }

    fn expected(&self) -> &'static str {
        match self.state {
            State::Start => "a JSON object or array",
            State::Member { .. } => "a key in quotes, a colon and a value",
            State::AfterMember => "`,` or `}`",
            State::Element { .. } | State::Lost => "an event, or `]` at the end of the events",
            State::End => "nothing more",
        }
    }

    fn step<R: Reader>(&mut self, text: &[u8], at: usize, reader: &mut R) -> Result<usize, Stop> {
        match self.state {
            State::Start => self.start(text, at, reader),
            State::Member { first } => self.member(text, at, first, reader),
            State::AfterMember => self.after_member(text, at),
            State::Element { first } => self.element(text, at, first, reader),
            State::Lost => self.find_next(text, at),
            State::End => Ok(self.trail(text, at)),
        }
    }

    fn start<R: Reader>(&mut self, text: &[u8], at: usize, reader: &mut R) -> Result<usize, Stop> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        let after_mark = if text[at..].starts_with(BYTE_ORDER_MARK) { at + BYTE_ORDER_MARK.len() } else { at };
        let at = lex::skip_space(text, after_mark);
        self.state = match lex::peek(text, at)? {
            b'{' => State::Member { first: true },
            b'[' if reader.streams(None) => {
                self.bare = true;
                State::Element { first: true }
            }
            _ => return Err(Stop::Unexpected),
        };
        Ok(at + 1)
    }

    fn member<R: Reader>(&mut self, text: &[u8], at: usize, first: bool, reader: &mut R) -> Result<usize, Stop> {
        let start = lex::skip_space(text, at);
        if first && lex::peek(text, start)? == b'}' {
            self.state = State::End;
            return Ok(start + 1);
        }
        let (key_end, escaped) = lex::string_end(text, start)?;
        let colon = lex::expect(text, lex::skip_space(text, key_end), b':')?;
        let value = lex::skip_space(text, colon);
        let key = match serde_json::from_slice::<String>(&text[start..key_end]) {
            Ok(key) if escaped => Cow::Owned(key),
            _ => String::from_utf8_lossy(&text[start + 1..key_end - 1]),
        };
        if lex::peek(text, value)? == b'[' && reader.streams(Some(&key)) {
            self.state = State::Element { first: true };
            return Ok(value + 1);
        }
        let end = lex::value_end(text, value)?;
        reader.member(&key, &text[value..end]);
        self.state = State::AfterMember;
        Ok(end)
    }

    fn after_member(&mut self, text: &[u8], at: usize) -> Result<usize, Stop> {
        let at = lex::skip_space(text, at);
        self.state = match lex::peek(text, at)? {
            b',' => State::Member { first: false },
            b'}' => State::End,
            _ => return Err(Stop::Unexpected),
        };
        Ok(at + 1)
    }

    #[inline]
    fn element<R: Reader>(&mut self, text: &[u8], at: usize, first: bool, reader: &mut R) -> Result<usize, Stop> {
        let separator = lex::skip_space(text, at);
        let start = match lex::peek(text, separator)? {
            b']' => return Ok(self.end_elements(separator)),
            b',' if !first => lex::skip_space(text, separator + 1),
            _ => separator,
        };
        if lex::peek(text, start)? == b']' {
            reader.lenient(self.offset + start as u64, "a comma after the last element");
            return Ok(self.end_elements(start));
        }
        let offset = self.offset + start as u64;
        let next = match reader.element(text, start, offset) {
            Err(Stop::Unexpected) => self.whole_element(text, start, reader),
            result => result,
        }?;
        if start == separator && !first && self.state != State::Lost {
            reader.lenient(offset, "no comma between two elements");
        }
        if self.state != State::Lost {
            self.state = State::Element { first: false };
        }
        Ok(next)
    }

    fn end_elements(&mut self, at: usize) -> usize {
        self.state = if self.bare { State::End } else { State::AfterMember };
        at + 1
    }

    #[cold]
    fn whole_element<R: Reader>(&mut self, text: &[u8], at: usize, reader: &mut R) -> Result<usize, Stop> {
        let offset = self.offset + at as u64;
        let end = match lex::value_end(text, at) {
            Ok(end) => end,
            Err(Stop::NeedMore) => return Err(Stop::NeedMore),
            Err(Stop::Unexpected) => return Ok(self.lose(at, offset, "no JSON value", reader)),
        };
        match reader.whole_element(&text[at..end], offset) {
            Ok(()) => Ok(end),
            // Where a separator follows, only the inside is damaged.
            Err(reason) => match lex::peek(text, lex::skip_space(text, end))? {
                b',' | b']' => {
                    reader.damaged(offset, &reason);
                    Ok(end)
                }
                _ => Ok(self.lose(at, offset, &reason, reader)),
            },
        }
    }

    fn lose<R: Reader>(&mut self, at: usize, offset: u64, reason: &str, reader: &mut R) -> usize {
        reader.damaged(offset, reason);
        self.state = State::Lost;
        at + 1
    }

    /// Looks for `}`, comma, `{`: the seam of two elements. The comma is where reading goes on.
    fn find_next(&mut self, text: &[u8], at: usize) -> Result<usize, Stop> {
        let mut from = at;
        while let Some(found) = memchr::memchr(b'}', &text[from..]) {
            let comma = lex::skip_space(text, from + found + 1);
            let after = lex::skip_space(text, comma + 1);
            match (text.get(comma), text.get(after)) {
                (Some(b','), Some(b'{')) => {
                    self.state = State::Element { first: false };
                    return Ok(comma);
                }
                (Some(b','), None) | (None, _) => return keep_from(from + found, at),
                _ => from += found + 1,
            }
        }
        keep_from(text.len(), at)
    }

    fn trail(&mut self, text: &[u8], at: usize) -> usize {
        let rest = lex::skip_space(text, at);
        if let Some(last) = text[rest..].iter().rposition(|byte| !byte.is_ascii_whitespace()) {
            let from = self.trailing.map_or(self.offset + rest as u64, |(from, _)| from);
            self.trailing = Some((from, self.offset + (rest + last) as u64 + 1));
        }
        text.len()
    }
}

/// Drops what was searched in vain, up to `from`.
fn keep_from(from: usize, at: usize) -> Result<usize, Stop> {
    if from > at { Ok(from) } else { Err(Stop::NeedMore) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes every element that serde accepts; notes everything.
    #[derive(Default, Debug, PartialEq)]
    struct Notes(Vec<String>);

    impl Reader for Notes {
        fn streams(&mut self, key: Option<&str>) -> bool {
            key.is_none_or(|key| key == "events")
        }

        fn member(&mut self, key: &str, value: &[u8]) {
            self.0.push(format!("{key}={}", String::from_utf8_lossy(value)));
        }

        fn element(&mut self, _: &[u8], _: usize, _: u64) -> Result<usize, Stop> {
            Err(Stop::Unexpected)
        }

        fn whole_element(&mut self, text: &[u8], _: u64) -> Result<(), String> {
            serde_json::from_slice::<serde::de::IgnoredAny>(text).map_err(|_| "bad".to_owned())?;
            self.0.push(String::from_utf8_lossy(text).into_owned());
            Ok(())
        }

        fn damaged(&mut self, offset: u64, reason: &str) {
            self.0.push(format!("{reason}@{offset}"));
        }

        fn lenient(&mut self, offset: u64, _: &'static str) {
            self.0.push(format!("lenient@{offset}"));
        }

        fn trailing(&mut self, offset: u64, bytes: u64) {
            self.0.push(format!("{bytes} trailing@{offset}"));
        }
    }

    /// Reads `text` in windows that grow by `step` bytes.
    fn read(text: &str, step: usize) -> (Vec<String>, Option<Malformed>) {
        let (mut document, mut notes, mut from, mut to) = (Document::default(), Notes::default(), 0, 0);
        while to + step < text.len() {
            to += step;
            match document.feed(&text.as_bytes()[from..to], &mut notes) {
                Ok(used) => from += used,
                Err(malformed) => return (notes.0, Some(malformed)),
            }
        }
        let malformed = document.feed_last(&text.as_bytes()[from..], &mut notes).err();
        (notes.0, malformed.or(document.missing()))
    }

    #[test]
    fn parts_are_the_same_however_the_text_is_cut() {
        let text = r#" {"a": {"b": [1]}, "events": [ {"x": "]}"}, {"y": [{}]} ], "z": 3} "#;
        let expected = [r#"a={"b": [1]}"#, r#"{"x": "]}"}"#, r#"{"y": [{}]}"#, "z=3"].map(str::to_owned).to_vec();
        for step in 1..=text.len() {
            assert_eq!(read(text, step), (expected.clone(), None), "step {step}");
        }
    }

    #[test]
    fn a_damaged_element_is_left_out_and_the_rest_is_read() {
        let text = r#"[{"a": 1}, {"b": tru e}, {"c": 3}, {"d: 4}, {"e": 5}, {"f": 6}]"#;
        let (notes, missing) = read(text, text.len());
        assert_eq!(notes[..3], [r#"{"a": 1}"#, "bad@11", r#"{"c": 3}"#]);
        assert_eq!(notes[3..], ["an element without an end@35", r#"{"e": 5}"#, r#"{"f": 6}"#]);
        assert_eq!(missing, None);
    }

    #[test]
    fn a_document_that_breaks_off_says_where_and_what_is_missing() {
        let (notes, missing) = read(r#"{"events": [{"a": 1}, {"b""#, 100);
        assert_eq!(notes, [r#"{"a": 1}"#, "an element without an end@22"]);
        assert_eq!(missing.map(|m| m.offset), Some(26));
        assert_eq!(read("{\"a\" 1}", 9).1.map(|m| m.expected), Some("a key in quotes, a colon and a value"));
        assert_eq!(read("hello", 9).1.map(|m| m.offset), Some(0));
    }

    #[test]
    fn harmless_departures_are_noted() {
        assert_eq!(read("[{} {},]", 9).0, ["{}", "{}", "lenient@4", "lenient@7"]);
    }

    #[test]
    fn text_behind_the_document_is_counted() {
        for step in 1..=9 {
            assert_eq!(read("{} x\n y \n", step).0, ["4 trailing@3"], "step {step}");
            assert!(read("{}  \n", step).0.is_empty());
        }
    }
}
