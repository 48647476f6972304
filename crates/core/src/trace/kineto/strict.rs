//! The reference reader: the whole document through serde_json, borrowed, event by event.
//!
//! Slow, strict and simple; the scanner is tested against it and hands it every event it does not understand.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::builder::Builder;
use super::raw::RawEvent;
use crate::trace::{OpenError, Trace};

/// Reads a complete, valid JSON document.
///
/// # Errors
/// [`OpenError::Damaged`] where the text is not JSON, [`OpenError::WrongSchema`] without events.
pub fn read(bytes: &[u8], path: &Path) -> Result<Trace, OpenError> {
    let mut document = Document { builder: Builder::default(), has_events: false };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let result = json.deserialize_any(&mut document).and_then(|()| json.end());
    result.map_err(|error| OpenError::Damaged {
        path: path.to_owned(),
        offset: offset(bytes, error.line(), error.column()),
        expected: format!("valid JSON ({error})"),
    })?;
    if !document.has_events {
        return Err(OpenError::WrongSchema { path: path.to_owned() });
    }
    document.builder.finish(path)
}

fn offset(bytes: &[u8], line: usize, column: usize) -> u64 {
    let before: usize = bytes.split_inclusive(|b| *b == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column.saturating_sub(1)) as u64
}

struct Document {
    builder: Builder,
    has_events: bool,
}

impl<'de> Visitor<'de> for &mut Document {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with traceEvents or an array of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "traceEvents" {
                map.next_value_seed(Events(self))?;
            } else {
                self.builder.member(&key, map.next_value::<&RawValue>()?.get().as_bytes());
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Events(self).visit_seq(seq)
    }
}

struct Events<'a>(&'a mut Document);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.has_events = true;
        while let Some(event) = seq.next_element::<RawEvent<'de>>()? {
            self.0.builder.event(&event, 0);
        }
        Ok(())
    }
}
