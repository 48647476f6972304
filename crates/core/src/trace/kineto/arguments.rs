//! Arguments of events: JSON texts → rows of the side tables.

use std::borrow::Cow;

use serde::Deserialize;

use super::raw::{Key, RawEvent, Text};
use super::{frame, number};
use crate::intern::{NameId, NameTable};
use crate::trace::args::TensorLists;
use crate::trace::json::on_one_line;
use crate::trace::narrow_ids::NarrowIds;
use crate::trace::{
    CollectiveArgs, CopyArgs, KernelArgs, MemoryArgs, OperatorArgs, Sequence, SyncArgs, TensorArgs, WorkArgs,
};
use crate::units::{Bytes, Flop, TimeNs};

impl NarrowIds {
    /// The narrow id of `text`; 0 for none.
    pub(super) fn id(&mut self, text: Text<'_>) -> u32 {
        text.get().and_then(number::id).map_or(0, |id| self.narrow(id))
    }
}

/// An operator's arguments; `None` when it recorded none of interest.
pub(super) fn operator(event: &RawEvent<'_>, names: &mut NameTable, lists: &mut TensorLists) -> Option<OperatorArgs> {
    // A list that is there already has no line breaks to take out.
    let mut json = |text: Text<'_>| match text.get() {
        Some(bytes) => names.find_bytes(bytes).unwrap_or_else(|| names.intern(&on_one_line(&text.written()))),
        None => NameId(0),
    };
    let list = TensorArgs {
        dims: json(event[Key::Dims]),
        types: json(event[Key::Types]),
        concrete: json(event[Key::Concrete]),
        strides: json(event[Key::Strides]),
    };
    let found = OperatorArgs {
        tensors: (list != TensorArgs::default()).then(|| lists.id(list)),
        sequence: signed(event[Key::Sequence]).and_then(Sequence::recorded),
        record_function: small(event[Key::RecordFunction]),
        stack: shortened(event[Key::Stack], names),
        kernel_file: shortened(event[Key::KernelFile], names),
    };
    (found != OperatorArgs::default()).then_some(found)
}

/// A kernel's launch configuration; `None` when it recorded none.
pub(super) fn kernel(event: &RawEvent<'_>) -> Option<KernelArgs> {
    let found = KernelArgs {
        grid: triple(event[Key::Grid]),
        block: triple(event[Key::Block]),
        registers: small(event[Key::Registers]),
        shared_memory: small(event[Key::SharedMemory]),
        occupancy: wide(event[Key::Occupancy]).and_then(|percent| u8::try_from(percent).ok()),
    };
    (found != KernelArgs::default()).then_some(found)
}

/// What an export states that an event has to do: an object, or a text that says that it is not known.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stated<'a> {
    Unknown(Unknown),
    Known {
        #[serde(borrow)]
        family: Cow<'a, str>,
        #[serde(borrow)]
        precision: Cow<'a, str>,
        flop: f64,
        #[serde(rename = "read bytes")]
        read: u64,
        #[serde(rename = "written bytes")]
        written: u64,
    },
}

/// What is said of work that is none.
const NO_WORK: &str = "the work that is stated of an event is none: arguments of operators tell it instead";

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unknown {
    Unknown,
}

/// The work that an export states; `None` where it states that it is not known.
///
/// # Errors
/// Why what stands there is no work.
pub(super) fn work(text: Text<'_>, names: &mut NameTable) -> Result<Option<WorkArgs>, &'static str> {
    let (family, precision, flop, read, written) = match serde_json::from_slice(text.0).map_err(|_| NO_WORK)? {
        Stated::Unknown(Unknown::Unknown) => return Ok(None),
        Stated::Known { family, precision, flop, read, written } => (family, precision, flop, read, written),
    };
    let is_size = |bytes: u64| bytes <= Bytes::MOST.0;
    let found = WorkArgs {
        family: names.intern(&family),
        precision: names.intern(&precision),
        flop: Flop(flop),
        read: Bytes(read),
        written: Bytes(written),
    };
    ((0.0..f64::INFINITY).contains(&flop) && is_size(read) && is_size(written)).then_some(Some(found)).ok_or(NO_WORK)
}

/// A copy's size, when recorded; `None` also for one that no memory has.
pub(super) fn copy(event: &RawEvent<'_>) -> Option<CopyArgs> {
    let bytes = wide(event[Key::Bytes]).filter(|&bytes| bytes <= Bytes::MOST.0)?;
    Some(CopyArgs { bytes: Bytes(bytes) })
}

/// The collective that an event names; `None` when it names none.
pub(super) fn collective(event: &RawEvent<'_>, names: &mut NameTable) -> Option<CollectiveArgs> {
    event[Key::Collective].get()?;
    Some(CollectiveArgs {
        name: decoded(event[Key::Collective], names),
        dtype: decoded(event[Key::Dtype], names),
        in_elements: wide(event[Key::InElements]).unwrap_or_default(),
        out_elements: wide(event[Key::OutElements]).unwrap_or_default(),
        group_size: small(event[Key::GroupSize]),
        group: decoded(event[Key::Group], names),
        ranks: decoded(event[Key::GroupRanks], names),
        sequence: wide(event[Key::GroupSequence]).unwrap_or_default(),
        in_split: decoded(event[Key::InSplit], names),
        out_split: decoded(event[Key::OutSplit], names),
    })
}

/// What `record_param_comms` says by position (2023 and 2024): tensors, sequence, group, rank, name, splits, size.
/// Elements are the product of the first tensor's sizes.
pub(super) fn positional_collective(event: &RawEvent<'_>, names: &mut NameTable) -> CollectiveArgs {
    let values: Vec<Cow<'_, str>> =
        event[Key::Concrete].get().and_then(|t| serde_json::from_slice(t).ok()).unwrap_or_default();
    let [_, sequence, group, _, name, in_split, out_split, size] = values.as_slice() else {
        return CollectiveArgs::default();
    };
    let elements = first_tensor_elements(event[Key::Dims]).unwrap_or_default();
    CollectiveArgs {
        name: names.intern(name),
        in_elements: elements,
        out_elements: elements,
        group_size: size.parse().unwrap_or_default(),
        group: names.intern(group),
        sequence: sequence.parse().unwrap_or_default(),
        in_split: names.intern(in_split),
        out_split: names.intern(out_split),
        ..CollectiveArgs::default()
    }
}

/// `[[[4, 2048, 4096]], [], …]` → the product of the innermost first list.
fn first_tensor_elements(dims: Text<'_>) -> Option<u64> {
    let text = dims.written();
    let inner = text.trim_start_matches(['[', ' ']).split(']').next()?;
    inner.split(',').map(|size| size.trim().parse::<u64>().ok()).try_fold(1u64, |all, size| all.checked_mul(size?))
}

/// A synchronisation record.
pub(super) fn sync(event: &RawEvent<'_>, names: &mut NameTable, narrow: &mut NarrowIds) -> SyncArgs {
    let stream = |text: Text<'_>| signed(text).filter(|stream| *stream >= 0);
    SyncArgs {
        kind: decoded(event[Key::SyncKind], names),
        stream: stream(event[Key::Stream]),
        wait_on_stream: stream(event[Key::WaitOnStream]),
        record_correlation: narrow.id(event[Key::WaitOnRecord]),
    }
}

/// An allocation or release at `at`.
pub(super) fn memory(event: &RawEvent<'_>, at: TimeNs, names: &mut NameTable) -> MemoryArgs {
    MemoryArgs {
        bytes: signed(event[Key::MemoryBytes]).unwrap_or_default(),
        address: wide(event[Key::Address]).unwrap_or_default(),
        total_allocated: wide(event[Key::TotalAllocated]),
        total_reserved: wide(event[Key::TotalReserved]),
        on_device: signed(event[Key::DeviceType]).is_some_and(|kind| kind != 0),
        device: signed(event[Key::DeviceId]).unwrap_or(-1),
        holds: decoded(event[Key::Holds], names),
        at,
    }
}

/// The characters of a string (or the text of another value), interned.
pub(super) fn decoded(text: Text<'_>, names: &mut NameTable) -> NameId {
    if !text.is_present() {
        return NameId(0);
    }
    let known = text.unescaped().and_then(|bytes| names.find_bytes(bytes));
    known.unwrap_or_else(|| names.intern(&text.decoded()))
}

/// A stack or path without what only says whose machine it was.
fn shortened(text: Text<'_>, names: &mut NameTable) -> NameId {
    if text.is_present() { names.intern(&frame::stack(&text.decoded())) } else { NameId(0) }
}

fn signed(text: Text<'_>) -> Option<i64> {
    text.get().and_then(number::integer)
}

fn wide(text: Text<'_>) -> Option<u64> {
    text.get().and_then(number::id)
}

/// A number that fits 32 bits; 0 for none.
fn small(text: Text<'_>) -> u32 {
    signed(text).and_then(|value| u32::try_from(value).ok()).unwrap_or_default()
}

/// `[32, 2, 1]`; zeros for anything else.
fn triple(text: Text<'_>) -> [u32; 3] {
    let [b'[', inner @ .., b']'] = text.0 else { return [0; 3] };
    let mut parts = inner.split(|b| *b == b',').map(|part| small(Text(part.trim_ascii())));
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> RawEvent<'_> {
        let mut event = RawEvent::default();
        let members: std::collections::BTreeMap<&str, &serde_json::value::RawValue> =
            serde_json::from_str(text).unwrap();
        for (key, value) in members {
            event[Key::of_argument(key.as_bytes()).unwrap()] = Text::of(value.get().as_bytes());
        }
        event
    }

    #[test]
    fn wide_ids_are_narrowed_and_equal_ones_stay_equal() {
        let mut narrow = NarrowIds::default();
        let ids: Vec<u32> =
            ["5", "9000000000", "9000000000", "9000000001", "-3", ""].map(|t| narrow.id(Text(t.as_bytes()))).into();
        assert_eq!(ids, [5, u32::MAX, u32::MAX, u32::MAX - 1, 0, 0]);
    }

    #[test]
    fn operators_with_equal_arguments_share_one_list() {
        let (mut names, mut lists) = (NameTable::new(), TensorLists::default());
        let text = r#"{"Input Dims": [[2, 3], []], "Input type": ["float", "Int"], "Sequence number": 4}"#;
        let a = operator(&args(text), &mut names, &mut lists).unwrap();
        let b = operator(&args(text), &mut names, &mut lists).unwrap();
        assert_eq!((a, a.sequence.map(Sequence::number)), (b, Some(4)));
        let list = lists.finish();
        assert_eq!((list.len(), names.get(list[0].dims)), (1, "[[2, 3], []]"));
        assert_eq!(operator(&args("{}"), &mut names, &mut TensorLists::default()), None);
    }

    #[test]
    fn a_positional_collective_gives_size_and_elements() {
        let mut names = NameTable::new();
        let found = positional_collective(
            &args(
                r#"{"Concrete Inputs": ["", "337", "93825114103440", "0", "", "[]", "[1, 1]", "8"],
                "Input Dims": [[[4, 2048, 4096]], [], [], [], [], [], [], []]}"#,
            ),
            &mut names,
        );
        assert_eq!((found.group_size, found.sequence, found.in_elements), (8, 337, 4 * 2048 * 4096));
        assert_eq!(names.get(found.out_split), "[1, 1]");
    }

    #[test]
    fn launch_configuration_and_sizes_are_read() {
        let found = kernel(&args(
            r#"{"grid": [32, 2, 1], "block": [128,1,1], "registers per thread": 72, "est. achieved occupancy %": 13}"#,
        ))
        .unwrap();
        assert_eq!((found.grid, found.block, found.registers), ([32, 2, 1], [128, 1, 1], 72));
        assert_eq!(found.occupancy, Some(13));
        assert_eq!(copy(&args(r#"{"bytes": 2048}"#)).unwrap().bytes, Bytes(2048));
        assert_eq!((kernel(&args("{}")), copy(&args("{}"))), (None, None));
        for none in ["-5", "1e30", "\"abc\"", "9000000000000000000"] {
            assert_eq!(copy(&args(&format!(r#"{{"bytes": {none}}}"#))), None, "{none}");
        }
    }

    #[test]
    fn the_stated_work_of_a_kernel_is_finite_and_no_larger_than_a_memory() {
        let mut names = NameTable::new();
        let mut stated = |text: &str| work(Text(text.as_bytes()), &mut names);
        let known = |flop: &str, read: &str| {
            format!(
                r#"{{"family": "gemm", "precision": "fp32", "flop": {flop}, "read bytes": {read}, "written bytes": 5}}"#
            )
        };
        let found = stated(&known("1.5e9", "7")).unwrap().unwrap();
        assert_eq!((found.flop, found.read, found.written), (Flop(1.5e9), Bytes(7), Bytes(5)));
        assert_eq!(stated(r#""unknown""#), Ok(None));
        for (flop, read) in
            [("-1", "7"), ("1e999", "7"), ("NaN", "7"), ("1", "-7"), ("1", "1e300"), ("1", "99999999999999999")]
        {
            assert_eq!(stated(&known(flop, read)), Err(NO_WORK), "{flop} {read}");
        }
        for text in ["{}", "[]", "1", r#""other""#, r#"{"family": "gemm"}"#] {
            assert_eq!(stated(text), Err(NO_WORK), "{text}");
        }
    }
}
