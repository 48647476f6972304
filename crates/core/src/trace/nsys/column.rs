//! The columns of Nsight's tables of events, and one row seen through them.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::{database, label};

/// A column; its number is its position in [`COLUMNS`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Start,
    End,
    Process,
    Thread,
    Correlation,
    Device,
    Context,
    Stream,
    Name,
    DemangledName,
    ShortName,
    GridX,
    GridY,
    GridZ,
    BlockX,
    BlockY,
    BlockZ,
    Registers,
    StaticShared,
    DynamicShared,
    Bytes,
    CopyKind,
    From,
    To,
    SetKind,
    SyncType,
    Event,
    Graph,
    Text,
    TextId,
}

/// All columns as Nsight names them.
pub(super) const COLUMNS: [&str; 30] = [
    "start",
    "end",
    "globalPid",
    "globalTid",
    "correlationId",
    "deviceId",
    "contextId",
    "streamId",
    "nameId",
    "demangledName",
    "shortName",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "registersPerThread",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "bytes",
    "copyKind",
    "srcKind",
    "dstKind",
    "memKind",
    "syncType",
    "eventId",
    "graphId",
    "text",
    "textId",
];

/// One row of a table of events.
pub(super) struct Fields<'a> {
    /// The row, read by [`COLUMNS`].
    pub row: &'a rusqlite::Row<'a>,
    /// Nsight's table of texts.
    pub texts: &'a FxHashMap<i64, String>,
}

impl Fields<'_> {
    /// A whole number; `None` where the file has none.
    pub(super) fn integer(&self, column: Column) -> Option<i64> {
        database::integer(self.row, column as usize)
    }

    /// A time in whole ns; `None` where the file has no number.
    pub(super) fn time(&self, column: Column) -> Option<i64> {
        database::rounded(self.row, column as usize)
    }

    /// Whether the file says nothing.
    pub(super) fn is_null(&self, column: Column) -> bool {
        database::is_null(self.row, column as usize)
    }

    /// A whole number from 0 to 2³² − 1, else 0.
    pub(super) fn small(&self, column: Column) -> u32 {
        self.integer(column).and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
    }

    /// The text that a column refers to.
    pub(super) fn named(&self, column: Column) -> Option<&str> {
        self.texts.get(&self.integer(column)?).map(String::as_str)
    }

    /// The text of a range.
    pub(super) fn text(&self) -> Cow<'_, str> {
        let own = database::text(self.row, Column::Text as usize);
        own.or_else(|| self.named(Column::TextId).map(Cow::Borrowed)).unwrap_or_default()
    }

    /// The process that a row is of, as Nsight numbers processes.
    pub(super) fn process(&self) -> Option<i64> {
        self.integer(Column::Process).or_else(|| self.integer(Column::Thread).map(label::process_of))
    }
}
