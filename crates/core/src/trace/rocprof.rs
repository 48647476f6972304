//! ROCm's `rocprofv3 --kernel-trace --output-format csv`: `*_kernel_trace.csv`, a row for each kernel, times in ns.
//!
//! Columns came with versions (no `Stream_Id` before ROCm 7, `Guid` in what `rocpd convert` writes): what a file does not have is
//! absent, not an error.

use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use rustc_hash::{FxHashMap, FxHashSet};

use super::builder::TraceBuilder;
use super::format::{Format, Loaded, Reading};
use super::{Category, Event, KernelArgs, OpenError, OpenOptions, Trace, TrackKind};
use crate::intern::printable;
use crate::units::TimeNs;

/// Tables of kernels; the other tables that rocprofv3 writes have other titles.
pub(super) const FORMAT: Format =
    Format { endings: &["_kernel_trace.csv"], is: is_kernel_trace, reading: Reading::Whole(read, 5) };

fn is_kernel_trace(head: &[u8], _: &Path) -> bool {
    let titles = String::from_utf8_lossy(head.split(|byte| *byte == b'\n').next().unwrap_or_default());
    ["Kind", "Kernel_Name", "Start_Timestamp", "End_Timestamp"].iter().all(|title| titles.contains(title))
}

fn read(bytes: &[u8], path: &Path, options: &OpenOptions) -> Result<Vec<Loaded>, OpenError> {
    Ok(vec![Loaded::Trace(Box::new(kernels(bytes, path, options)?))])
}

/// The kernels of a table, in its order.
fn kernels(bytes: &[u8], path: &Path, options: &OpenOptions) -> Result<Trace, OpenError> {
    let damaged = |error: csv::Error| {
        let offset = error.position().map_or(0, csv::Position::byte);
        OpenError::Damaged { path: path.to_owned(), offset, expected: "a table of kernels in UTF-8".to_owned() }
    };
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(bytes);
    let titles = reader.headers().map_err(damaged)?.clone();
    let columns = Columns::of(&titles);
    if let Some(title) = columns.repeated() {
        let expected = format!("one column `{}`, not two", printable(title));
        return Err(OpenError::Damaged { path: path.to_owned(), offset: 0, expected });
    }
    let rows: Vec<StringRecord> = reader.records().collect::<Result<_, _>>().map_err(damaged)?;
    options.progress.add_events(rows.len() as u64);
    let mut known = Known { others: u32::MAX, ..Known::default() };
    // Without HIP's trace every kernel is on stream 0; queues are then all that tells what ran in order.
    let has_streams = rows.iter().any(|row| columns.number(row, "Stream_Id").is_some_and(|stream| stream != 0));
    let order = if has_streams { "Stream_Id" } else { "Queue_Id" };
    let mut trace = TraceBuilder::default();
    for row in &rows {
        columns.add(&mut trace, row, order, &mut known);
    }
    trace.finish(path.to_owned(), "rocprofv3")
}

/// The rows read so far, as far as later ones may repeat them.
#[derive(Default)]
struct Known<'a> {
    rows: FxHashSet<Vec<&'a str>>,
    /// A number for the correlation id of each process and device: two devices may have the same ids, of processes of their
    /// own.
    correlations: FxHashMap<(Process<'a>, i64, i64), u32>,
    taken: FxHashSet<u32>,
    /// The lowest number that was given in place of a recorded one.
    others: u32,
    /// Agents, queues and streams that are no numbers.
    named: FxHashMap<&'a str, i64>,
    /// Which process has the stream of each number of a device under that number.
    owners: FxHashMap<(i64, i64), Process<'a>>,
    /// Streams of other processes by the same number.
    shared: FxHashMap<(Process<'a>, i64, i64), i64>,
}

/// What tells the process of a row: the recording's `Guid` and the process id, where a table has them.
type Process<'a> = [&'a str; 2];

impl<'a> Known<'a> {
    /// The next number for what has none of its own, below all that are recorded.
    fn unrecorded(&self) -> i64 {
        const FIRST: i64 = -2;
        FIRST - (self.named.len() + self.shared.len()) as i64
    }

    /// A number for what goes by a name.
    fn number_of(&mut self, name: &'a str) -> i64 {
        let next = self.unrecorded();
        *self.named.entry(name).or_insert(next)
    }

    /// The number of a stream that no other process has on that device: every process counts its own.
    fn stream(&mut self, process: Process<'a>, device: i64, recorded: i64) -> i64 {
        if *self.owners.entry((device, recorded)).or_insert(process) == process {
            return recorded;
        }
        let next = self.unrecorded();
        *self.shared.entry((process, device, recorded)).or_insert(next)
    }

    /// A correlation id that no other process or device has; 0 for none, as a negative one is.
    fn correlation(&mut self, process: Process<'a>, device: i64, recorded: i64) -> u32 {
        if recorded <= 0 {
            return 0;
        }
        let Self { correlations, taken, others, .. } = self;
        *correlations.entry((process, device, recorded)).or_insert_with(|| {
            if let Ok(own) = u32::try_from(recorded)
                && taken.insert(own)
            {
                return own;
            }
            while !taken.insert(*others) {
                *others -= 1;
            }
            *others
        })
    }
}

/// Where each column of a table stands.
struct Columns<'a>(Vec<&'a str>);

impl<'a> Columns<'a> {
    fn of(titles: &'a StringRecord) -> Self {
        Self(titles.iter().collect())
    }

    /// The first title that two columns have.
    fn repeated(&self) -> Option<&'a str> {
        let is_there = |at: usize, title: &str| self.0[..at].iter().any(|known| known.eq_ignore_ascii_case(title));
        self.0.iter().enumerate().find(|&(at, title)| !title.is_empty() && is_there(at, title)).map(|(_, title)| *title)
    }

    fn text<'r>(&self, row: &'r StringRecord, title: &str) -> Option<&'r str> {
        row.get(self.0.iter().position(|known| known.eq_ignore_ascii_case(title))?)
    }

    /// A whole number, also `0x` and its hexadecimal digits, or that at the end of a name: `Agent 7`.
    fn number(&self, row: &StringRecord, title: &str) -> Option<i64> {
        let last = self.text(row, title)?.rsplit(' ').next()?;
        match last.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
            None => last.parse().ok(),
        }
    }

    /// The number of an agent, queue or stream, whatever it goes by; -1 where the row has none.
    fn place<'r>(&self, row: &'r StringRecord, title: &str, known: &mut Known<'r>) -> i64 {
        let named = || self.text(row, title).filter(|name| !name.is_empty()).map(|name| known.number_of(name));
        self.number(row, title).or_else(named).unwrap_or(-1)
    }

    fn small(&self, row: &StringRecord, title: &str) -> u32 {
        self.number(row, title).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    /// Adds the kernel of a row; `order` is the column by which kernels run in order.
    fn add<'r>(&self, trace: &mut TraceBuilder, row: &'r StringRecord, order: &str, known: &mut Known<'r>) {
        trace.entries += 1;
        let place = || format!("line {}", row.position().map_or(0, csv::Position::line));
        let swallowed = row.iter().map(|field| field.matches('\n').count() as u64).sum::<u64>();
        if swallowed > 0 {
            (trace.entries, trace.skipped) = (trace.entries + swallowed, trace.skipped + swallowed);
            let reason = "a quote that its line does not close, which takes in the lines up to the next one";
            return trace.skip("damaged-row", place(), reason);
        }
        if !known.rows.insert(row.iter().collect()) {
            return trace.skip("repeated-row", place(), "a row that is there already");
        }
        let name = self.text(row, "Kernel_Name").filter(|name| !name.is_empty());
        let (Some(name), Some(start)) = (name, self.number(row, "Start_Timestamp")) else {
            return trace.skip("damaged-row", place(), "a row without a kernel's name and start");
        };
        let end = self.number(row, "End_Timestamp");
        let dur = trace.length(end.map(|end| TimeNs(end).since(TimeNs(start))), place);
        let process = ["Guid", "Process_Id"].map(|title| self.text(row, title).unwrap_or_default());
        let (device, stream) = (self.place(row, "Agent_Id", known), self.place(row, order, known));
        let track = trace.tracks.id(TrackKind::Stream { device, stream: known.stream(process, device, stream) });
        let correlation = known.correlation(process, device, self.number(row, "Correlation_Id").unwrap_or_default());
        let name = trace.names.intern(name);
        let (start, category) = (TimeNs(start), Category::Kernel);
        let id = trace.events.push(&Event { start, dur, name, category, track, correlation, external: 0 });
        let block = ["X", "Y", "Z"].map(|axis| self.small(row, &format!("Workgroup_Size_{axis}")));
        let items = ["X", "Y", "Z"].map(|axis| self.small(row, &format!("Grid_Size_{axis}")));
        // A grid is counted in work-items here, elsewhere in blocks.
        let grid = [0, 1, 2].map(|at| items[at].div_ceil(block[at].max(1)));
        let registers = self.small(row, "VGPR_Count");
        let shared = ["LDS_Block_Size", "Group_Segment_Size"].map(|title| self.small(row, title));
        let shared_memory = shared[0].max(shared[1]);
        trace.kernels.push(id, KernelArgs { grid, block, registers, shared_memory, occupancy: None });
    }
}
