//! The fast reader of one event: notes where the known fields are while passing over the text once.
//!
//! Gives up, rather than guess, on anything that PyTorch does not write; the strict reader then decides.

use super::raw::{RawArgs, RawEvent, Text};
use crate::trace::json::lex::{self, Stop};

/// Reads the event at `text[at..]` into `event`.
///
/// # Returns
/// The place after it.
///
/// # Errors
/// [`Stop::NeedMore`] when the window ends inside it, [`Stop::Unexpected`] when it is left to the strict reader.
#[inline]
pub fn event<'a>(text: &'a [u8], at: usize, event: &mut RawEvent<'a>) -> Result<usize, Stop> {
    let mut cursor = Cursor { text, at };
    cursor.object(|cursor, key| {
        if key == b"args" {
            event.args = RawArgs::default();
            if lex::peek(cursor.text, cursor.at)? == b'{' {
                return cursor.object(|cursor, key| cursor.value(event.args.field(key)));
            }
        }
        cursor.value(event.fields.field(key))
    })?;
    Ok(cursor.at)
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Passes over an object; `value` passes over the value of each key.
    #[inline]
    fn object(&mut self, mut value: impl FnMut(&mut Self, &'a [u8]) -> Result<(), Stop>) -> Result<(), Stop> {
        self.expect(b'{')?;
        self.space();
        if lex::peek(self.text, self.at)? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            value(self, key)?;
            self.space();
            let separator = lex::peek(self.text, self.at)?;
            self.at += 1;
            match separator {
                b',' => self.space(),
                b'}' => return Ok(()),
                _ => return Err(Stop::Unexpected),
            }
        }
    }

    /// Passes over a key and its colon.
    #[inline]
    fn key(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at + 1;
        let (end, escaped) = lex::string_end(self.text, self.at)?;
        if escaped {
            return Err(Stop::Unexpected);
        }
        self.at = end;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(&self.text[start..end - 1])
    }

    /// Passes over a value, noting it in `slot`.
    #[inline]
    fn value(&mut self, slot: Option<&mut Text<'a>>) -> Result<(), Stop> {
        let start = self.at;
        self.at = lex::value_end(self.text, start)?;
        if let Some(slot) = slot {
            *slot = Text::of(&self.text[start..self.at]);
        }
        Ok(())
    }

    #[inline]
    fn space(&mut self) {
        self.at = lex::skip_space(self.text, self.at);
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        self.at = lex::expect(self.text, self.at, byte)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(text: &str) {
        let mut found = RawEvent::default();
        let end = event(text.as_bytes(), 0, &mut found);
        assert_eq!((end, found), (Ok(text.len()), serde_json::from_str(text).unwrap()), "{text}");
    }

    #[test]
    fn fields_are_those_that_serde_finds() {
        agree(
            r#"{"ph": "X", "cat": "cpu_op", "name": "a\"}b", "ts": 1.5, "args": {"grid": [1, [2]], "x": {"correlation": 3}}}"#,
        );
        agree(r#"{ "args" : { } , "tid" : "stream 7" , "dur":null }"#);
        agree(r#"{"ts": 1, "args": {"bytes": 1}, "ts": 2, "args": 3}"#);
        agree("{}");
    }

    #[test]
    fn every_cut_asks_for_more() {
        let text = br#"{"ph": "X", "args": {"grid": [1, 2], "dtype": "Float"}, "ts": 15}"#;
        for cut in 0..text.len() {
            assert_eq!(event(&text[..cut], 0, &mut RawEvent::default()), Err(Stop::NeedMore), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_strict_reader() {
        for text in [r#"{"ph" "X"}"#, r#"{"t\u0073": 1}"#, r#"{"ph": "X" "ts": 1}"#, r#"{"ph": }"#, "[1]", "{,}"] {
            assert_eq!(event(text.as_bytes(), 0, &mut RawEvent::default()), Err(Stop::Unexpected), "{text}");
        }
    }
}
