//! An event as JSON text: which bytes are its known fields, nothing decoded.
//!
//! Both readers fill a [`RawEvent`]: the strict one (here, with serde) and the scanner. Must not know what fields mean.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Index, IndexMut};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
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
        characters(self.0)
    }

    /// A string's characters, escapes resolved; any other value as written.
    pub fn decoded(self) -> Cow<'a, str> {
        let Some(inner) = self.quoted() else { return self.written() };
        if self.unescaped().is_some() {
            return characters(inner);
        }
        serde_json::from_slice::<String>(self.0).map_or_else(|_| characters(inner), Cow::Owned)
    }

    /// What stands between the quotes of a string without escapes.
    pub fn unescaped(self) -> Option<&'a [u8]> {
        self.quoted().filter(|inner| memchr::memchr(b'\\', inner).is_none())
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

/// `bytes` as text; what is no UTF-8 becomes `\u{fffd}`.
fn characters(bytes: &[u8]) -> Cow<'_, str> {
    // `from_utf8_lossy` alone has no fast path for ASCII.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written())
    }
}

/// The known keys of an event: those of its top level, then those of its `args`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Key {
    /// Phase.
    Phase,
    /// Category.
    Category,
    /// Name.
    Name,
    /// Process.
    Pid,
    /// Thread.
    Tid,
    /// Start in microseconds.
    Start,
    /// Length in microseconds.
    Dur,
    /// Joins device work to its launch.
    Correlation,
    /// The profiler's operator id.
    External,
    /// Device number.
    Device,
    /// Stream number.
    Stream,
    /// Operator argument sizes.
    Dims,
    /// Operator argument types.
    Types,
    /// Operator argument values.
    Concrete,
    /// Operator argument strides.
    Strides,
    /// Joins backward to forward.
    Sequence,
    /// Joins to the execution trace.
    RecordFunction,
    /// Python stack.
    Stack,
    /// Source of a compiled kernel.
    KernelFile,
    /// Blocks.
    Grid,
    /// Threads per block.
    Block,
    /// Registers per thread.
    Registers,
    /// Shared memory per block.
    SharedMemory,
    /// Estimated achieved occupancy.
    Occupancy,
    /// What a kernel or an operator on the host has to do, of an exported trace.
    Work,
    /// Copy size.
    Bytes,
    /// Collective.
    Collective,
    /// Its element type.
    Dtype,
    /// Elements sent.
    InElements,
    /// Elements received.
    OutElements,
    /// Split of what is sent.
    InSplit,
    /// Split of what is received.
    OutSplit,
    /// Ranks in the group.
    GroupSize,
    /// Group name.
    Group,
    /// Group ranks.
    GroupRanks,
    /// Position in the group's order.
    GroupSequence,
    /// Kind of synchronisation.
    SyncKind,
    /// Stream waited for.
    WaitOnStream,
    /// Call that recorded the event waited for.
    WaitOnRecord,
    /// Bytes allocated.
    MemoryBytes,
    /// Address.
    Address,
    /// Device kind of the allocation.
    DeviceType,
    /// Device of the allocation.
    DeviceId,
    /// Allocated afterwards.
    TotalAllocated,
    /// Reserved afterwards.
    TotalReserved,
    /// What the allocation holds, of an exported trace.
    Holds,
    /// The kernel that a call launches.
    Launched,
    /// Name or label, of metadata.
    MetadataName,
}

impl Key {
    /// How many there are.
    pub const COUNT: usize = Self::MetadataName as usize + 1;

    /// The key that an event's top level spells so.
    pub fn of_event(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"ph" => Self::Phase,
            b"cat" => Self::Category,
            b"name" => Self::Name,
            b"pid" => Self::Pid,
            b"tid" => Self::Tid,
            b"ts" => Self::Start,
            b"dur" => Self::Dur,
            _ => return None,
        })
    }

    /// The key that `args` spells so.
    pub fn of_argument(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"correlation" => Self::Correlation,
            b"External id" | b"external id" => Self::External,
            b"device" => Self::Device,
            b"stream" => Self::Stream,
            b"Input Dims" | b"Input dims" => Self::Dims,
            b"Input type" | b"Input Types" => Self::Types,
            b"Concrete Inputs" => Self::Concrete,
            b"Input Strides" => Self::Strides,
            b"Sequence number" => Self::Sequence,
            b"Record function id" => Self::RecordFunction,
            b"Call stack" => Self::Stack,
            b"kernel_file" => Self::KernelFile,
            b"grid" => Self::Grid,
            b"block" => Self::Block,
            b"registers per thread" => Self::Registers,
            b"shared memory" => Self::SharedMemory,
            b"est. achieved occupancy %" => Self::Occupancy,
            b"bytes" => Self::Bytes,
            b"Collective name" => Self::Collective,
            b"dtype" => Self::Dtype,
            b"In msg nelems" => Self::InElements,
            b"Out msg nelems" => Self::OutElements,
            b"In split size" => Self::InSplit,
            b"Out split size" => Self::OutSplit,
            b"Group size" => Self::GroupSize,
            b"Process Group Name" | b"Process Group ID" => Self::Group,
            b"Process Group Ranks" => Self::GroupRanks,
            b"Seq" => Self::GroupSequence,
            b"cuda_sync_kind" => Self::SyncKind,
            b"wait_on_stream" => Self::WaitOnStream,
            b"wait_on_cuda_event_record_corr_id" => Self::WaitOnRecord,
            b"Bytes" => Self::MemoryBytes,
            b"Addr" => Self::Address,
            b"Device Type" => Self::DeviceType,
            b"Device Id" => Self::DeviceId,
            b"Total Allocated" => Self::TotalAllocated,
            b"Total Reserved" => Self::TotalReserved,
            b"kernel" => Self::Launched,
            b"name" => Self::MetadataName,
            b"retime holds" => Self::Holds,
            b"retime work" => Self::Work,
            // Of an event that an export put elsewhere, the start that it has.
            b"retime start" => Self::Start,
            _ => return None,
        })
    }
}

/// An event: the texts of its known keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawEvent<'a> {
    texts: [Text<'a>; Key::COUNT],
}

impl Default for RawEvent<'_> {
    fn default() -> Self {
        Self { texts: [Text(b""); Key::COUNT] }
    }
}

impl RawEvent<'_> {
    /// Whether any known argument has a value.
    pub fn has_arguments(&self) -> bool {
        self.texts[Key::Dur as usize + 1..].iter().any(|text| text.is_present())
    }
}

impl<'a> Index<Key> for RawEvent<'a> {
    type Output = Text<'a>;

    #[inline]
    fn index(&self, key: Key) -> &Text<'a> {
        &self.texts[key as usize]
    }
}

impl IndexMut<Key> for RawEvent<'_> {
    #[inline]
    fn index_mut(&mut self, key: Key) -> &mut Self::Output {
        &mut self.texts[key as usize]
    }
}

impl fmt::Debug for RawEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts.iter().enumerate().filter(|(_, text)| text.is_present())).finish()
    }
}

/// Reads the members of an object into an event.
struct Members<'e, 'a> {
    event: &'e mut RawEvent<'a>,
    in_arguments: bool,
}

impl<'de: 'a, 'a> Visitor<'de> for Members<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeySeed)? {
            let value = map.next_value::<&'de RawValue>()?.get();
            if !self.in_arguments && key == "args" && value.starts_with('{') {
                let arguments = Members { event: &mut *self.event, in_arguments: true };
                serde_json::Deserializer::from_str(value).deserialize_map(arguments).map_err(A::Error::custom)?;
                continue;
            }
            let lookup = if self.in_arguments { Key::of_argument } else { Key::of_event };
            if let Some(key) = lookup(key.as_bytes()) {
                self.event[key] = Text::of(value.as_bytes());
            }
        }
        Ok(())
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
        let mut event = RawEvent::default();
        deserializer.deserialize_map(Members { event: &mut event, in_arguments: false })?;
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_found_whatever_their_order_and_spelling() {
        let text = r#"{"args": {"external id": 7, "x": {"correlation": 1}, "grid": [1, 2, 3]}, "ts": 1.5, "ph": "X", "name": "a\nb"}"#;
        let event: RawEvent<'_> = serde_json::from_str(text).unwrap();
        assert_eq!((event[Key::Phase].plain(), event[Key::Start].0), (&b"X"[..], &b"1.5"[..]));
        let shown = [Key::External, Key::Grid, Key::Correlation].map(|key| event[key].written());
        assert_eq!(shown, ["7", "[1, 2, 3]", ""]);
        assert_eq!(event[Key::Name].decoded(), "a\nb");
    }

    #[test]
    fn null_is_absent_and_the_last_of_two_wins() {
        let event: RawEvent<'_> = serde_json::from_str(r#"{"ts": 1, "ts": 2, "dur": null, "args": 5}"#).unwrap();
        let mut expected = RawEvent::default();
        expected[Key::Start] = Text(b"2");
        assert_eq!(event, expected);
    }
}
