//! Bytes → [`Trace`]: what a profiler recorded, in columns, names interned, time in integer nanoseconds.
//!
//! Knows file formats and their quirks. Knows no graph, no device model and no scenario.

pub mod args;
mod builder;
mod chunks;
mod content;
mod device_clock;
mod error;
pub mod execution_trace;
mod format;
mod job;
mod job_check;
mod json;
pub mod kineto;
mod layer_table;
pub mod link;
mod loader;
mod naming;
mod narrow_ids;
mod nsys;
mod open;
mod options;
mod order;
mod parts;
mod rank_class;
mod recording;
mod rocprof;
mod same_sizes;
mod shapes;
mod shared;
mod sizes;
mod sniff;
mod source;
pub mod steps;
mod stream;
pub mod table;
pub mod track;
mod turns;

use format::Format;

/// How the profiler names the frame of a module's call, before the module's name.
pub(crate) const MODULE_CALL: &str = "nn.Module: ";

pub use args::{
    CollectiveArgs, CopyArgs, KernelArgs, MemoryArgs, OperatorArgs, Sequence, SideTable, SyncArgs, TensorArgs,
    TensorArgsId, Transfer, WorkArgs,
};
pub(crate) use device_clock::CLOCK_ERROR;
pub use error::OpenError;
pub use execution_trace::ExecutionTrace;
pub use job::{Job, RankTrace};
pub use open::{Opened, load_bytes, load_bytes_strictly, open, open_bytes};
pub use options::{OpenOptions, Progress};
pub use rank_class::{RankClass, RankClasses, tolerance as folding_tolerance};
pub use recording::{RankPlace, RecordedDevice, StatedMemory, Trace};
pub use shared::SharedTable;
pub(crate) use source::resident;
pub use table::{Category, Event, EventId, EventTable};
pub use track::{Track, TrackId, TrackKind};

/// The formats that are read, in the order in which they are asked whether content is theirs.
const FORMATS: [Format; 4] = [nsys::FORMAT, rocprof::FORMAT, layer_table::FORMAT, content::FORMAT];
