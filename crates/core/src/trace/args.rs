//! Arguments that only some events have, in side tables by event.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;

use super::EventId;
use crate::intern::NameId;
use crate::units::{Bytes, Flop, TimeNs};

/// Values for some events, ordered by event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideTable<T> {
    keys: Vec<EventId>,
    values: Vec<T>,
}

impl<T> Default for SideTable<T> {
    fn default() -> Self {
        Self { keys: Vec::new(), values: Vec::new() }
    }
}

impl<T> SideTable<T> {
    /// Appends a value. Events must come in rising order, or [`Self::renumber`] must follow.
    pub fn push(&mut self, event: EventId, value: T) {
        self.keys.push(event);
        self.values.push(value);
    }

    /// The value of `event`, found by binary search.
    pub fn get(&self, event: EventId) -> Option<&T> {
        self.keys.binary_search(&event).ok().map(|i| &self.values[i])
    }

    /// All rows in order of event.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (EventId, &T)> {
        self.keys.iter().copied().zip(&self.values)
    }

    /// How many events have a value.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no event has one.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes the rows of `other` behind its own: its events are numbered on from `first`, `change` makes each value what it is here.
    pub fn append(&mut self, other: &mut Self, first: u32, mut change: impl FnMut(T) -> T) {
        self.keys.extend(other.keys.drain(..).map(|event| EventId(first + event.0)));
        self.values.extend(other.values.drain(..).map(&mut change));
    }

    /// Gives back the room to grow.
    pub fn shrink_to_fit(&mut self) {
        self.keys.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    /// Changes every value in place.
    pub fn for_each_value(&mut self, change: impl FnMut(&mut T)) {
        self.values.iter_mut().for_each(change);
    }

    /// Changes the rows of some events, adding those that are missing.
    pub fn update<U>(&mut self, updates: impl IntoIterator<Item = (EventId, U)>, mut change: impl FnMut(&mut T, U))
    where
        T: Default,
    {
        let mut added: Vec<(EventId, T)> = Vec::new();
        for (event, update) in updates {
            if let Ok(at) = self.keys.binary_search(&event) {
                change(&mut self.values[at], update);
            } else {
                let mut value = T::default();
                change(&mut value, update);
                added.push((event, value));
            }
        }
        let mut rows: Vec<(EventId, T)> = self.keys.drain(..).zip(self.values.drain(..)).chain(added).collect();
        rows.sort_by_key(|(event, _)| *event);
        (self.keys, self.values) = rows.into_iter().unzip();
    }

    /// Keeps the rows of the events `kept`, which are numbered from 0 afterwards.
    pub fn keep(&mut self, kept: &std::ops::Range<usize>) {
        let at = |event: usize| self.keys.partition_point(|key| (key.0 as usize) < event);
        let (from, to) = (at(kept.start), at(kept.end));
        self.keys.truncate(to);
        self.values.truncate(to);
        self.keys.drain(..from);
        self.values.drain(..from);
        self.keys.iter_mut().for_each(|key| key.0 -= kept.start as u32);
    }

    /// Follows a reordering of the events: `new_of_old[old id] = new id`.
    pub fn renumber(&mut self, new_of_old: &[u32]) {
        let mut rows: Vec<(EventId, T)> =
            self.keys.drain(..).map(|old| EventId(new_of_old[old.0 as usize])).zip(self.values.drain(..)).collect();
        rows.sort_by_key(|(key, _)| *key);
        (self.keys, self.values) = rows.into_iter().unzip();
    }
}

/// A row of [`Trace::tensor_args`](super::Trace::tensor_args); none takes no more room than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorArgsId(NonZeroU32);

impl TensorArgsId {
    /// The row at `index`.
    pub fn at(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index as u32))
    }

    /// Where the row is.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A sequence number of the autograd engine; none takes no more room than one. Those of one recording lie within seconds of
/// each other, so four bytes tell them apart, however long the process has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(NonZeroU32);

impl Sequence {
    /// The number as recorded; `None` for a negative one, which is how the profiler writes none.
    pub fn recorded(number: i64) -> Option<Self> {
        let within = u64::try_from(number).ok()? % u64::from(u32::MAX);
        NonZeroU32::new(within as u32 + 1).map(Self)
    }

    /// The number, as far as four bytes hold it.
    pub fn number(self) -> i64 {
        i64::from(self.0.get()) - 1
    }
}

/// An operator's argument list as recorded: the JSON text of each part, interned; empty where absent.
///
/// Kept as text because thousands of operators share a few lists; the graph reads each distinct list once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TensorArgs {
    /// `Input Dims`, e.g. `[[512,3,224,224],[64,3,3,3],[64]]`; may nest for tensor lists.
    pub dims: NameId,
    /// `Input type`, e.g. `["float","float","ScalarList"]`.
    pub types: NameId,
    /// `Concrete Inputs`, e.g. `["","","[1, 1]"]`.
    pub concrete: NameId,
    /// `Input Strides`.
    pub strides: NameId,
}

/// Distinct argument lists.
#[derive(Debug, Default)]
pub(super) struct TensorLists {
    ids: FxHashMap<TensorArgs, TensorArgsId>,
    lists: Vec<TensorArgs>,
}

impl TensorLists {
    /// Lists that go on from those of a trace.
    pub(super) fn of(lists: Vec<TensorArgs>) -> Self {
        let ids = lists.iter().enumerate().map(|(at, list)| (*list, TensorArgsId::at(at))).collect();
        Self { ids, lists }
    }

    /// The id of `list`, which is added if it is new.
    pub(super) fn id(&mut self, list: TensorArgs) -> TensorArgsId {
        *self.ids.entry(list).or_insert_with(|| {
            self.lists.push(list);
            TensorArgsId::at(self.lists.len() - 1)
        })
    }

    /// Goes on with `known`, the ids here of the lists of `other`, for those it has got since.
    pub(super) fn follow(&mut self, other: &Self, known: &mut Vec<TensorArgsId>, name: impl Fn(NameId) -> NameId) {
        let added = other.lists[known.len()..].iter().map(|list| {
            let &TensorArgs { dims, types, concrete, strides } = list;
            self.id(TensorArgs {
                dims: name(dims),
                types: name(types),
                concrete: name(concrete),
                strides: name(strides),
            })
        });
        known.extend(added);
    }

    /// The finished table.
    pub(super) fn finish(self) -> Vec<TensorArgs> {
        self.lists
    }
}

/// What an operator recorded about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorArgs {
    /// Its argument list, when shapes were recorded.
    pub tensors: Option<TensorArgsId>,
    /// Joins a backward operator to its forward operator.
    pub sequence: Option<Sequence>,
    /// Equals `rf_id` of the execution trace; 0 = none.
    pub record_function: u32,
    /// The Python stack (2021 schema), interned; empty where absent.
    pub stack: NameId,
    /// Kernel file or other module information of compiled kernels; empty where absent.
    pub kernel_file: NameId,
}

/// A kernel's launch configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KernelArgs {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
    /// Registers per thread.
    pub registers: u32,
    /// Shared memory per block in bytes.
    pub shared_memory: u32,
    /// The profiler's estimate of the achieved occupancy, in percent.
    pub occupancy: Option<u8>,
}

/// A copy's or memset's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyArgs {
    /// Bytes moved or set.
    pub bytes: Bytes,
}

/// What an exported trace states that a kernel has to do, or an operator on the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkArgs {
    /// Its family, as selectors call it.
    pub family: NameId,
    /// How it computes, as device files call it.
    pub precision: NameId,
    /// Arithmetic; finite, not negative.
    pub flop: Flop,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

/// What a collective recorded about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectiveArgs {
    /// `allreduce`, `all_to_allv`, `_allgather_base`, `wait` …; empty where only its kernel's name tells.
    pub name: NameId,
    /// Element type, e.g. `Float`, `BFloat16`.
    pub dtype: NameId,
    /// Elements sent by this rank.
    pub in_elements: u64,
    /// Elements received by this rank.
    pub out_elements: u64,
    /// Ranks in the group; 0 where not recorded.
    pub group_size: u32,
    /// Process group name.
    pub group: NameId,
    /// Process group ranks as recorded, e.g. `[0, 1]`.
    pub ranks: NameId,
    /// Position in the process group's order of collectives; 0 where not recorded.
    pub sequence: u64,
    /// Split sizes as recorded: of what is sent.
    pub in_split: NameId,
    /// Split sizes as recorded: of what is received.
    pub out_split: NameId,
}

/// A copy of a tensor between the memory of the host and that of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Whether the host's is the target.
    pub to_host: bool,
    /// Whether the program asked the host to wait for it (not `non_blocking`).
    pub is_waited_for: bool,
}

/// A recorded synchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncArgs {
    /// `Stream Sync`, `Event Sync`, `Stream Wait Event`, `Context Sync` …
    pub kind: NameId,
    /// The stream that waited, where one did.
    pub stream: Option<i64>,
    /// The stream that was waited for, where recorded.
    pub wait_on_stream: Option<i64>,
    /// Correlation id of the call that recorded the event waited for; 0 = none.
    pub record_correlation: u32,
}

/// An allocation (positive) or release (negative).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryArgs {
    /// Bytes, negative on release.
    pub bytes: i64,
    /// Address.
    pub address: u64,
    /// Total allocated on the device afterwards, where recorded.
    pub total_allocated: Option<u64>,
    /// What the allocator holds of the device afterwards, where recorded.
    pub total_reserved: Option<u64>,
    /// Whether on a device (else host).
    pub on_device: bool,
    /// Device number.
    pub device: i64,
    /// What it holds, as an exported trace says.
    pub holds: NameId,
    /// When, from the trace's origin.
    pub at: TimeNs,
}
