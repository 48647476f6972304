//! An event as JSON text: which bytes are its known fields, nothing decoded.
//!
//! Both readers fill a [`RawEvent`]: the strict one (here, with serde) and the scanner. Must not know what fields mean.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The JSON text of a value, quotes included; empty where the field is absent or `null`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Text<'a>(pub &'a [u8]);

impl<'a> Text<'a> {
    /// The text, empty for `null`.
    pub fn of(text: &'a [u8]) -> Self {
        Self(if text == b"null" { b"" } else { text })
    }

    /// Whether there is a value.
    pub fn is_present(self) -> bool {
        !self.0.is_empty()
    }

    /// The text if there is a value.
    pub fn get(self) -> Option<&'a [u8]> {
        Some(self.0).filter(|t| !t.is_empty())
    }

    /// The text of a value as written.
    pub fn written(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.0)
    }

    /// A string's characters, escapes resolved; any other value as written.
    pub fn decoded(self) -> Cow<'a, str> {
        let Some(inner) = self.quoted() else { return self.written() };
        if memchr::memchr(b'\\', inner).is_none() {
            return String::from_utf8_lossy(inner);
        }
        serde_json::from_slice::<String>(self.0).map_or_else(|_| String::from_utf8_lossy(inner), Cow::Owned)
    }

    /// What stands between the quotes of a string; empty for anything else.
    pub fn plain(self) -> &'a [u8] {
        self.quoted().unwrap_or_default()
    }

    fn quoted(self) -> Option<&'a [u8]> {
        match self.0 {
            [b'"', inner @ .., b'"'] => Some(inner),
            _ => None,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written())
    }
}

/// Declares a struct of [`Text`] fields together with the keys they are read from.
macro_rules! raw_struct {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $($key:literal)|+,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name<'a> {
            $($(#[$field_doc])* pub $field: Text<'a>,)*
        }

        impl<'a> $name<'a> {
            /// The field that is read from `key`.
            #[inline]
            pub fn field(&mut self, key: &[u8]) -> Option<&mut Text<'a>> {
                Some(match key {
                    $($($key)|+ => &mut self.$field,)*
                    _ => return None,
                })
            }
        }
    };
}

raw_struct! {
    /// Top-level fields of an event.
    RawFields {
        /// Phase.
        phase: b"ph",
        /// Category.
        category: b"cat",
        /// Name.
        name: b"name",
        /// Process.
        pid: b"pid",
        /// Thread.
        tid: b"tid",
        /// Start in microseconds.
        start: b"ts",
        /// Length in microseconds.
        dur: b"dur",
    }
}

raw_struct! {
    /// The known members of `args`.
    RawArgs {
        /// Joins device work to its launch.
        correlation: b"correlation",
        /// The profiler's operator id.
        external: b"External id" | b"external id",
        /// Device number.
        device: b"device",
        /// Stream number.
        stream: b"stream",
        /// Operator argument sizes.
        dims: b"Input Dims" | b"Input dims",
        /// Operator argument types.
        types: b"Input type" | b"Input Types",
        /// Operator argument values.
        concrete: b"Concrete Inputs",
        /// Operator argument strides.
        strides: b"Input Strides",
        /// Joins backward to forward.
        sequence: b"Sequence number",
        /// Thread of the forward operator.
        forward_thread: b"Fwd thread id",
        /// Joins to the execution trace.
        record_function: b"Record function id",
        /// Python stack.
        stack: b"Call stack",
        /// Source of a compiled kernel.
        kernel_file: b"kernel_file",
        /// Blocks.
        grid: b"grid",
        /// Threads per block.
        block: b"block",
        /// Registers per thread.
        registers: b"registers per thread",
        /// Shared memory per block.
        shared_memory: b"shared memory",
        /// Copy size.
        bytes: b"bytes",
        /// Collective.
        collective: b"Collective name",
        /// Its element type.
        dtype: b"dtype",
        /// Elements sent.
        in_elements: b"In msg nelems",
        /// Elements received.
        out_elements: b"Out msg nelems",
        /// Split of what is sent.
        in_split: b"In split size",
        /// Split of what is received.
        out_split: b"Out split size",
        /// Ranks in the group.
        group_size: b"Group size",
        /// Group name.
        group: b"Process Group Name" | b"Process Group ID",
        /// Group ranks.
        group_ranks: b"Process Group Ranks",
        /// Position in the group's order.
        group_sequence: b"Seq",
        /// Kind of synchronisation.
        sync_kind: b"cuda_sync_kind",
        /// Stream waited for.
        wait_on_stream: b"wait_on_stream",
        /// Call that recorded the event waited for.
        wait_on_record: b"wait_on_cuda_event_record_corr_id",
        /// Bytes allocated.
        memory_bytes: b"Bytes",
        /// Address.
        address: b"Addr",
        /// Device kind of the allocation.
        device_type: b"Device Type",
        /// Device of the allocation.
        device_id: b"Device Id",
        /// Allocated afterwards.
        total_allocated: b"Total Allocated",
        /// Name or label, of metadata.
        metadata_name: b"name",
    }
}

/// An event: its fields and its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// Top-level fields.
    pub fields: RawFields<'a>,
    /// Members of `args`.
    pub args: RawArgs<'a>,
}

/// Where the values of an object's members go.
trait Members<'a>: Default {
    /// Reads the value of `key` from `map`.
    fn read<A: MapAccess<'a>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

fn read_text<'a, A: MapAccess<'a>>(slot: Option<&mut Text<'a>>, map: &mut A) -> Result<(), A::Error> {
    let Some(slot) = slot else {
        map.next_value::<IgnoredAny>()?;
        return Ok(());
    };
    *slot = Text::of(map.next_value::<&'a RawValue>()?.get().as_bytes());
    Ok(())
}

impl<'a> Members<'a> for RawEvent<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if key != "args" {
            return read_text(self.fields.field(key.as_bytes()), map);
        }
        let text = map.next_value::<&'a RawValue>()?.get();
        self.args = if text.starts_with('{') {
            serde_json::from_str::<RawArgs<'a>>(text).map_err(serde::de::Error::custom)?
        } else {
            RawArgs::default()
        };
        Ok(())
    }
}

impl<'a> Members<'a> for RawArgs<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        read_text(self.field(key.as_bytes()), map)
    }
}

struct ObjectVisitor<'a, T>(PhantomData<&'a T>);

impl<'de: 'a, 'a, T: Members<'de>> Visitor<'de> for ObjectVisitor<'a, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut members = T::default();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            members.read(&key, &mut map)?;
        }
        Ok(members)
    }
}

/// A key, borrowed when it has no escapes.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawEvent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event: RawEvent<'de> = deserializer.deserialize_map(ObjectVisitor(PhantomData))?;
        Ok(event)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawArgs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let args: RawArgs<'de> = deserializer.deserialize_map(ObjectVisitor(PhantomData))?;
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_found_whatever_their_order_and_spelling() {
        let text = r#"{"args": {"external id": 7, "x": {"correlation": 1}, "grid": [1, 2, 3]}, "ts": 1.5, "ph": "X", "name": "a\nb"}"#;
        let event: RawEvent<'_> = serde_json::from_str(text).unwrap();
        assert_eq!((event.fields.phase.plain(), event.fields.start.0), (&b"X"[..], &b"1.5"[..]));
        let args = event.args;
        assert_eq!((args.external.0, args.grid.0, args.correlation.0), (&b"7"[..], &b"[1, 2, 3]"[..], &b""[..]));
        assert_eq!(event.fields.name.decoded(), "a\nb");
    }

    #[test]
    fn null_is_absent_and_the_last_of_two_wins() {
        let event: RawEvent<'_> = serde_json::from_str(r#"{"ts": 1, "ts": 2, "dur": null, "args": 5}"#).unwrap();
        assert_eq!((event.fields.start.0, event.fields.dur.0, event.args), (&b"2"[..], &b""[..], RawArgs::default()));
    }
}
