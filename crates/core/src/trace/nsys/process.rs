//! One process's rows → its [`Trace`].

use std::path::PathBuf;

use rustc_hash::FxHashMap;

use super::column::{Column, Fields};
use super::label;
use crate::diagnostic::Severity;
use crate::intern::NameId;
use crate::trace::builder::TraceBuilder;
use crate::trace::narrow_ids::NarrowIds;
use crate::trace::{
    Category, CopyArgs, Event, EventId, KernelArgs, OpenError, OperatorArgs, RecordedDevice, Sequence, SyncArgs,
    TensorArgs, Trace, TrackKind,
};
use crate::units::{Bytes, TimeNs};

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runtime and driver calls.
    Call,
    /// Kernels.
    Kernel,
    /// CUDA graphs that were recorded as one piece of work.
    Graph,
    /// Copies.
    Copy,
    /// Memsets.
    Set,
    /// Records of CUDA events, which have no time of their own.
    Record,
    /// Synchronisations.
    Sync,
    /// NVTX ranges and marks.
    Range,
}

/// CUPTI's number for no stream.
const NO_STREAM: i64 = 0xffff_ffff;

/// Streams of a device's second context count from here on, those of its third from twice that, and so on: CUPTI numbers streams
/// within their context.
const STREAMS_OF_A_CONTEXT: i64 = 1 << 20;

/// A process being read.
#[derive(Debug, Default)]
pub(super) struct Process {
    trace: TraceBuilder,
    /// Correlation id and stream of the records of each event, in the order of the table.
    records: FxHashMap<i64, Vec<(i64, i64)>>,
    correlations: NarrowIds,
    /// The contexts of each device, in the order in which rows name them.
    contexts: FxHashMap<i64, Vec<i64>>,
    used_device: bool,
}

impl Process {
    /// Whether anything ran on a device for it.
    pub(super) fn used_device(&self) -> bool {
        self.used_device
    }

    /// Whether it has no event.
    pub(super) fn is_empty(&self) -> bool {
        self.trace.events.is_empty()
    }

    /// How many rows it has, those left out included.
    pub(super) fn entries(&self) -> u64 {
        self.trace.entries
    }

    /// Takes a row that begins at `start`.
    pub(super) fn add(&mut self, kind: Kind, start: TimeNs, row: &Fields<'_>) {
        if kind == Kind::Record {
            return self.record(row);
        }
        self.trace.entries += 1;
        match kind {
            Kind::Call => self.call(start, row),
            Kind::Kernel => self.kernel(start, row),
            Kind::Graph => {
                let name = format!("CUDA graph {}", row.small(Column::Graph));
                self.work(Category::Kernel, &name, start, row);
            }
            Kind::Copy => {
                let kind = row.small(Column::CopyKind);
                let name = label::copy(kind, row.integer(Column::From), row.integer(Column::To));
                self.moved(Category::Memcpy, &name, start, row);
            }
            Kind::Set => {
                self.moved(Category::Memset, &label::set(row.integer(Column::SetKind)), start, row);
            }
            Kind::Sync => self.sync(start, row),
            Kind::Range => self.range(start, row),
            Kind::Record => {}
        }
    }

    fn record(&mut self, row: &Fields<'_>) {
        if let (Some(event), Some(stream)) = (row.integer(Column::Event), self.stream(row)) {
            let correlation = row.integer(Column::Correlation).unwrap_or_default();
            self.records.entry(event).or_default().push((correlation, stream));
        }
    }

    fn push(&mut self, category: Category, name: &str, track: TrackKind, start: TimeNs, row: &Fields<'_>) -> EventId {
        let dur = row.time(Column::End).map(|end| TimeNs(end).since(start));
        let dur = self.trace.length(dur, || format!("at {} ns", start.0));
        let (name, track) = (self.trace.names.intern(name), self.trace.tracks.id(track));
        self.used_device |= category.is_device_work();
        let correlation = self.narrow(row.integer(Column::Correlation));
        self.trace.events.push(&Event { start, dur, name, category, track, correlation, external: 0 })
    }

    /// A correlation id as events have it; 0 for none, as a negative one is.
    fn narrow(&mut self, recorded: Option<i64>) -> u32 {
        recorded.and_then(|id| u64::try_from(id).ok()).map_or(0, |id| self.correlations.narrow(id))
    }

    fn call(&mut self, start: TimeNs, row: &Fields<'_>) {
        let name = label::call(row.named(Column::Name).unwrap_or_else(|| self.nameless(start)));
        self.push(Category::Runtime, name, thread(row), start, row);
    }

    fn work(&mut self, category: Category, name: &str, start: TimeNs, row: &Fields<'_>) -> EventId {
        self.note_missing(start, row);
        let device = row.integer(Column::Device).unwrap_or(-1);
        let track = TrackKind::Stream { device, stream: self.stream(row).unwrap_or(-1) };
        self.push(category, name, track, start, row)
    }

    /// The number of a row's stream: its own in the first context of its device, which has most work as a rule.
    fn stream(&mut self, row: &Fields<'_>) -> Option<i64> {
        let stream = row.integer(Column::Stream)?;
        let Some(context) = row.integer(Column::Context).filter(|_| stream != NO_STREAM) else { return Some(stream) };
        let contexts = self.contexts.entry(row.integer(Column::Device).unwrap_or(-1)).or_default();
        let at = contexts.iter().position(|&known| known == context).unwrap_or_else(|| {
            contexts.push(context);
            contexts.len() - 1
        });
        Some(stream.saturating_add((at as i64).saturating_mul(STREAMS_OF_A_CONTEXT)))
    }

    /// Says which numbers device work lacks that tell where it ran and what launched it.
    fn note_missing(&mut self, start: TimeNs, row: &Fields<'_>) {
        const NUMBERS: [(Column, &str, &str); 3] = [
            (Column::Stream, "missing-stream", "no stream: it is taken to be on one of its own"),
            (Column::Device, "missing-device", "no device: it is taken to be on one of its own"),
            (Column::Correlation, "missing-launch", "no correlation id: nothing tells which call launched it"),
        ];
        let is_lacking = |&(column, ..): &(Column, &str, &str)| match row.integer(column) {
            Some(id) => id < 0 && matches!(column, Column::Correlation),
            None => true,
        };
        for (_, code, what) in NUMBERS.into_iter().filter(is_lacking) {
            let place = Some(format!("at {} ns", start.0));
            self.trace.diagnostics.add(Severity::Warning, code, "", place, || format!("device work has {what}"));
        }
    }

    /// The name of a row whose own is nowhere in the file, which is said.
    fn nameless(&mut self, start: TimeNs) -> &'static str {
        let what = || "a call, kernel or range has no name that is in the file: what it is, is not known".to_owned();
        let place = Some(format!("at {} ns", start.0));
        self.trace.diagnostics.add(Severity::Warning, "missing-name", "", place, what);
        ""
    }

    fn kernel(&mut self, start: TimeNs, row: &Fields<'_>) {
        let name = row.named(Column::DemangledName).or_else(|| row.named(Column::ShortName));
        let name = name.unwrap_or_else(|| self.nameless(start));
        let id = self.work(Category::Kernel, name, start, row);
        let args = KernelArgs {
            grid: [Column::GridX, Column::GridY, Column::GridZ].map(|column| row.small(column)),
            block: [Column::BlockX, Column::BlockY, Column::BlockZ].map(|column| row.small(column)),
            registers: row.small(Column::Registers),
            shared_memory: row.small(Column::StaticShared).saturating_add(row.small(Column::DynamicShared)),
            occupancy: None,
        };
        self.trace.kernels.push(id, args);
    }

    fn moved(&mut self, category: Category, name: &str, start: TimeNs, row: &Fields<'_>) {
        let id = self.work(category, name, start, row);
        let bytes = row.integer(Column::Bytes).and_then(|bytes| u64::try_from(bytes).ok());
        match bytes.filter(|&bytes| bytes <= Bytes::MOST.0) {
            Some(bytes) => self.trace.copies.push(id, CopyArgs { bytes: Bytes(bytes) }),
            None if row.is_null(Column::Bytes) => {}
            None => self.trace.damaged_bytes(start),
        }
    }

    fn sync(&mut self, start: TimeNs, row: &Fields<'_>) {
        let name = label::synchronisation(row.small(Column::SyncType));
        let stream = self.stream(row).filter(|stream| (0..NO_STREAM).contains(stream));
        let device = row.integer(Column::Device).unwrap_or(-1);
        let track = match stream {
            Some(stream) => TrackKind::Stream { device, stream },
            None => TrackKind::Other { pid: device, tid: -1 },
        };
        let record = self.last_record(row);
        let id = self.push(Category::Sync, name, track, start, row);
        let args = SyncArgs {
            kind: self.trace.names.intern(name),
            stream,
            wait_on_stream: record.map(|(_, stream)| stream),
            record_correlation: self.narrow(record.map(|(correlation, _)| correlation)),
        };
        self.trace.syncs.push(id, args);
    }

    /// The call that last recorded the event which a synchronisation is for, with its stream. Correlation ids rise
    /// with the calls.
    fn last_record(&self, row: &Fields<'_>) -> Option<(i64, i64)> {
        let before = row.integer(Column::Correlation).unwrap_or_default();
        let records = self.records.get(&row.integer(Column::Event)?)?;
        records.iter().copied().filter(|&(correlation, _)| correlation < before).max()
    }

    fn range(&mut self, start: TimeNs, row: &Fields<'_>) {
        if row.time(Column::End).is_none() {
            let what = "NVTX marks and ranges without an end are left out";
            return self.trace.diagnostics.note("nvtx-marks", what);
        }
        let text = row.text();
        if text.is_empty() && !row.is_null(Column::TextId) {
            self.nameless(start);
        }
        let Some(operator) = label::operator(&text) else {
            self.push(Category::Annotation, &text, thread(row), start, row);
            return;
        };
        let id = self.push(Category::Operator, operator.name, thread(row), start, row);
        let dims = self.trace.names.intern(operator.sizes);
        let tensors = (dims != NameId(0)).then(|| self.trace.lists.id(TensorArgs { dims, ..TensorArgs::default() }));
        let sequence = operator.sequence.and_then(Sequence::recorded);
        self.trace.operators.push(id, OperatorArgs { tensors, sequence, ..OperatorArgs::default() });
    }

    /// Notes the name of a thread, by its global id.
    pub(super) fn name_thread(&mut self, global: i64, name: &str) {
        let name = self.trace.names.intern(name);
        self.trace.tracks.set_name(label::pid(global), label::tid(global), name);
    }

    /// Closes the trace.
    ///
    /// # Arguments
    /// `begun`: when the recording began, in ns since 1970.
    ///
    /// # Errors
    /// It has no event.
    pub(super) fn finish(
        mut self,
        path: PathBuf,
        begun: TimeNs,
        devices: Vec<RecordedDevice>,
    ) -> Result<Trace, OpenError> {
        (self.trace.origin, self.trace.devices) = (begun, devices);
        self.trace.finish(path, "nsight-systems")
    }
}

fn thread(row: &Fields<'_>) -> TrackKind {
    let global = row.integer(Column::Thread).unwrap_or_default();
    TrackKind::Thread { pid: label::pid(global), tid: label::tid(global) }
}
