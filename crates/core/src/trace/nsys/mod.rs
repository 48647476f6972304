//! Nsight Systems' SQLite exports (`nsys export --type sqlite`) → traces, one of each process that used a device.
//!
//! `database` asks SQLite, `column` names what is asked, `process` turns rows into events, `label` names those as the
//! PyTorch profiler does, so that everything after the loader treats both alike. Tables and columns come and go with
//! Nsight's versions: what a file does not have is absent, not an error.

mod column;
mod database;
mod label;
mod process;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::format::{Format, Loaded, Reading};
use super::{OpenError, OpenOptions, RecordedDevice, Trace, source};
use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::printable;
use crate::units::{Bytes, TimeNs};
use column::{COLUMNS, Column, Fields};
use database::{Database, integer, text};
use process::{Kind, Process};

/// SQLite databases; one has to be whole before it can be asked anything.
pub(super) const FORMAT: Format =
    Format { endings: &[".sqlite"], is: |head, _| head.starts_with(MAGIC), reading: Reading::Whole(read, 3) };

/// How every SQLite file begins.
const MAGIC: &[u8] = b"SQLite format 3\0";

const FOREIGN: &str = "an SQLite database without Nsight Systems' CUDA or NVTX tables";
const NAMELESS: &str = "an export of Nsight Systems without its table of names, StringIds";
const ADVICE: &str =
    "give what `nsys export --type sqlite` writes, or the JSON that torch.profiler's export_chrome_trace wrote";

/// The tables that hold events, in the order in which they are read.
const TABLES: [(&str, Kind); 8] = [
    ("CUPTI_ACTIVITY_KIND_RUNTIME", Kind::Call),
    ("CUPTI_ACTIVITY_KIND_KERNEL", Kind::Kernel),
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", Kind::Graph),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", Kind::Copy),
    ("CUPTI_ACTIVITY_KIND_MEMSET", Kind::Set),
    ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", Kind::Record),
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", Kind::Sync),
    ("NVTX_EVENTS", Kind::Range),
];

/// All traces in the database `bytes`, called `path`.
///
/// # Errors
/// The database is damaged, not Nsight's, or without events.
fn read(bytes: &[u8], path: &Path, options: &OpenOptions) -> Result<Vec<Loaded>, OpenError> {
    let traces = Reader::open(bytes, path)?.read(options)?;
    Ok(traces.into_iter().map(|trace| Loaded::Trace(Box::new(trace))).collect())
}

/// Why a row is of no use, where it is of none.
fn unusable(kind: Kind, row: &Fields<'_>) -> Option<(&'static str, &'static str)> {
    let is_of_a_thread = matches!(kind, Kind::Call | Kind::Range);
    if kind != Kind::Record && row.time(Column::Start).is_none() {
        let what = if row.is_null(Column::Start) { "no start" } else { "a start that is no number" };
        return Some(("damaged-time", what));
    }
    (is_of_a_thread && row.integer(Column::Thread).is_none()).then_some(("damaged-thread", "no thread"))
}

fn damaged(path: &Path, error: &rusqlite::Error) -> OpenError {
    let expected = format!("a whole SQLite database ({})", printable(&error.to_string()));
    OpenError::Damaged { path: path.to_owned(), offset: 0, expected }
}

/// A database being read.
struct Reader<'a> {
    path: &'a Path,
    database: Database,
    /// Nsight's table of texts.
    texts: FxHashMap<i64, String>,
    processes: BTreeMap<i64, Process>,
    /// Rows that are of no process that is kept, and how many of them were damaged.
    beside: u64,
    skipped: u64,
    /// Rows that do not tell their process.
    unplaced: u64,
    diagnostics: Diagnostics,
}

impl<'a> Reader<'a> {
    fn open(bytes: &[u8], path: &'a Path) -> Result<Self, OpenError> {
        let database = Database::open(bytes).map_err(|error| damaged(path, &error))?;
        let is_foreign = !TABLES.iter().any(|(table, _)| database.has(table));
        if is_foreign || !database.has("StringIds") {
            let found = if is_foreign { FOREIGN } else { NAMELESS };
            return Err(OpenError::NotATrace { path: path.to_owned(), found, advice: ADVICE });
        }
        Ok(Self {
            path,
            database,
            texts: FxHashMap::default(),
            processes: BTreeMap::new(),
            beside: 0,
            skipped: 0,
            unplaced: 0,
            diagnostics: Diagnostics::default(),
        })
    }

    /// Says what SQLite holds beside the database, which is not in the file that was read.
    fn note_logs(&mut self) {
        for ending in ["-wal", "-journal"] {
            if source::is_beside(self.path, ending) {
                self.diagnostics.add(Severity::Warning, "unfinished-database", ending, None, || {
                    format!("a file of the same name with {ending} lies beside the database: the changes that it holds were not read")
                });
            }
        }
    }

    fn read(mut self, options: &OpenOptions) -> Result<Vec<Trace>, OpenError> {
        self.note_logs();
        let mut broken = self.read_texts().err();
        for (table, kind) in TABLES {
            if options.progress.is_cancelled() {
                return Err(OpenError::Cancelled { path: self.path.to_owned() });
            }
            match self.read_table(table, kind) {
                Ok(rows) => options.progress.add_events(rows),
                Err(error) => broken = Some(self.cut_off(table, error)),
            }
        }
        match broken {
            Some(error) if self.processes.is_empty() => Err(damaged(self.path, &error)),
            _ => self.finish(),
        }
    }

    fn cut_off(&mut self, table: &str, error: rusqlite::Error) -> rusqlite::Error {
        self.diagnostics.add(Severity::Warning, "cut-off", table, None, || {
            format!("table {table} is damaged ({}); what came before was read", printable(&error.to_string()))
        });
        error
    }

    fn read_texts(&mut self) -> rusqlite::Result<()> {
        let texts = &mut self.texts;
        self.database.each("StringIds", &["id", "value"], |row| {
            if let (Some(id), Some(value)) = (integer(row, 0), text(row, 1)) {
                texts.insert(id, value.into_owned());
            }
        })
    }

    /// How many rows the table has.
    fn read_table(&mut self, table: &str, kind: Kind) -> rusqlite::Result<u64> {
        let Self { database, texts, processes, beside, skipped, unplaced, diagnostics, .. } = self;
        let mut rows = 0;
        database.each(table, &COLUMNS, |row| {
            rows += 1;
            let fields = Fields { row, texts };
            let start = fields.time(Column::Start);
            if let Some((code, what)) = unusable(kind, &fields) {
                (*beside, *skipped) = (*beside + 1, *skipped + 1);
                return diagnostics
                    .add(Severity::Warning, code, table, None, || format!("a row of {table} has {what}; skipped"));
            }
            let process = fields.process();
            *unplaced += u64::from(process.is_none());
            let process = process.or_else(|| processes.keys().next().copied()).unwrap_or_default();
            processes.entry(process).or_default().add(kind, TimeNs(start.unwrap_or_default()), &fields);
        })?;
        Ok(rows)
    }

    fn finish(mut self) -> Result<Vec<Trace>, OpenError> {
        self.note_the_rest();
        self.note_unplaced();
        let threads = self.name_threads();
        let about = self.devices().and_then(|devices| Ok((devices, self.begun()?)));
        let (devices, begun) = match threads.and(about) {
            Ok(about) => about,
            Err(error) => {
                self.cut_off("TARGET_INFO", error);
                (Vec::new(), TimeNs(0))
            }
        };
        let kept = self.kept();
        let is_one = kept.len() == 1;
        let mut traces = Vec::new();
        for (id, process) in kept {
            let path = if is_one { self.path.to_owned() } else { self.member(id) };
            let mut trace = process.finish(path, begun, devices.clone())?;
            // What is of no process kept is told with the first.
            trace.diagnostics.merge(&std::mem::take(&mut self.diagnostics));
            trace.events_in_file += std::mem::take(&mut self.beside);
            trace.skipped_events += std::mem::take(&mut self.skipped);
            traces.push(trace);
        }
        if traces.is_empty() {
            let (in_file, skipped) = (self.beside, self.skipped);
            return Err(OpenError::NoEvents { path: self.path.to_owned(), in_file, skipped });
        }
        Ok(traces)
    }

    /// The processes that used a device; where none did, all that did anything.
    fn kept(&mut self) -> Vec<(i64, Process)> {
        let any_device = self.processes.values().any(Process::used_device);
        let is_kept = |process: &Process| !process.is_empty() && (process.used_device() || !any_device);
        let all = std::mem::take(&mut self.processes).into_iter();
        let (kept, left): (Vec<_>, Vec<_>) = all.partition(|(_, process)| is_kept(process));
        let left: u64 = left.iter().map(|(_, process)| process.entries()).sum();
        if left > 0 {
            self.beside += left;
            let what = "rows of processes that used no device are left out".to_owned();
            self.diagnostics.add_many(Severity::Note, "other-processes", "", None, left, || what);
        }
        kept
    }

    fn member(&self, process: i64) -> PathBuf {
        PathBuf::from(format!("{}:process {}", self.path.display(), label::pid(process)))
    }

    /// Counts what has times and is not read: samples, calls of the system's libraries, hardware counters.
    fn note_the_rest(&mut self) {
        let is_read = |name: &str| TABLES.iter().any(|(table, _)| *table == name);
        let others: Vec<String> = self.database.with_column("start").filter(|name| !is_read(name)).collect();
        for table in others {
            let Ok(rows) = self.database.count(&table) else { continue };
            if rows > 0 {
                self.beside += rows;
                let what = format!("rows of {} are left out: neither CUDA nor NVTX", printable(&table));
                self.diagnostics.add_many(Severity::Note, "other-tables", &table, None, rows, || what);
            }
        }
    }

    /// Says how many rows were given to the first process for want of one of their own, where that is a choice.
    fn note_unplaced(&mut self) {
        if self.processes.len() > 1 && self.unplaced > 0 {
            let what = || {
                "rows do not tell their process, of which there are several: they are taken to be of the first"
                    .to_owned()
            };
            self.diagnostics.add_many(Severity::Warning, "missing-process", "", None, self.unplaced, what);
        }
    }

    fn name_threads(&mut self) -> rusqlite::Result<()> {
        let Self { database, texts, processes, .. } = self;
        database.each("ThreadNames", &["globalTid", "nameId"], |row| {
            let named = integer(row, 1).and_then(|id| texts.get(&id));
            if let (Some(thread), Some(name)) = (integer(row, 0), named)
                && let Some(process) = processes.get_mut(&label::process_of(thread))
            {
                process.name_thread(thread, name);
            }
        })
    }

    fn devices(&self) -> rusqlite::Result<Vec<RecordedDevice>> {
        let mut devices = Vec::new();
        let columns = ["cuDevice", "id", "name", "totalMemory", "smCount"];
        self.database.each("TARGET_INFO_GPU", &columns, |row| {
            let number = |at| integer(row, at).and_then(|number| u64::try_from(number).ok());
            let small = |at| integer(row, at).and_then(|number| u32::try_from(number).ok());
            devices.push(RecordedDevice {
                id: small(0).or(small(1)).unwrap_or_default(),
                name: printable(&text(row, 2).unwrap_or_default()),
                memory: Bytes(number(3).unwrap_or_default()),
                sm_count: small(4).unwrap_or_default(),
            });
        })?;
        devices.sort_by_key(|device| device.id);
        Ok(devices)
    }

    /// When the recording began, in ns since 1970; 0 where not recorded.
    fn begun(&self) -> rusqlite::Result<TimeNs> {
        let mut begun = 0;
        self.database.each("TARGET_INFO_SESSION_START_TIME", &["utcEpochNs"], |row| {
            begun = integer(row, 0).unwrap_or(begun);
        })?;
        Ok(TimeNs(begun))
    }
}
