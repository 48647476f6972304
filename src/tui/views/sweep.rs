//! The sweep: iteration time, throughput and memory against batch size, filling in live.

use crate::session::{SweepPoint, optimal_batch};
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

/// Columns of a bar.
const BAR: u16 = 18;

/// A row of the table for `point`, `current` being the batch size in force.
fn row(point: &SweepPoint, points: &[SweepPoint], current: Option<u64>) -> TableRow {
    let batch = point.value("batch").unwrap_or(0.0) as u64;
    let most_time = points.iter().map(|point| point.simulated_ns.0).max().unwrap_or(1).max(1);
    let most_throughput = points.iter().map(|point| point.throughput).fold(1e-9, f64::max);
    let is_current = current == Some(batch);
    let fits = point.fits != Some(false);
    let role = if is_current { Role::Strong } else { Role::Text };
    let memory = point.memory_bytes.map_or(String::new(), |bytes| format!("{}{bytes}", if fits { "" } else { "! " }));
    let note = match point.unhandled.len() {
        _ if !fits => "does not fit the device's memory".to_owned(),
        0 => point.path_kind.clone(),
        1 => format!("{} · 1 kind of work as traced", point.path_kind),
        kinds => format!("{} · {kinds} kinds of work as traced", point.path_kind),
    };
    TableRow {
        values: vec![
            value(format!("{batch}{}", if is_current { " ◂" } else { "" }), role),
            value(point.simulated_ns.to_string(), role),
            value(bar(point.simulated_ns.0 as f64 / most_time as f64), Role::Chart),
            value(throughput(point.throughput), role),
            value(bar(point.throughput / most_throughput), Role::Good),
            value(memory, if fits { Role::Text } else { Role::Bad }),
            value(note, if fits { Role::Dim } else { Role::Bad }),
        ],
        open: Open::Line(format!("batch {batch}")),
    }
}

/// `12.3 k/s`.
fn throughput(per_second: f64) -> String {
    match per_second {
        t if t >= 1e6 => format!("{:.2} M/s", t / 1e6),
        t if t >= 1e3 => format!("{:.2} k/s", t / 1e3),
        t => format!("{t:.1} /s"),
    }
}

/// A bar of block characters, finer than a cell.
pub fn bar(share: f64) -> String {
    bar_of(share, BAR)
}

/// A bar of at most `width` cells.
pub fn bar_of(share: f64, width: u16) -> String {
    const LEFT: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * f64::from(width) * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), LEFT[eighths % 8])
}

/// The columns of the sweep.
fn columns() -> Vec<Column> {
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    vec![
        column("batch", 9, true, 0),
        column("iteration", 11, true, 0),
        column("", BAR, false, 50),
        column("samples", 11, true, 0),
        column("", BAR, false, 74),
        column("memory", 11, true, 84),
        column("", 0, false, 96),
    ]
}

/// The largest batch that fits the device's memory, where some point does not.
fn largest_that_fits(points: &[SweepPoint]) -> Option<u64> {
    let fitting = points.iter().filter(|point| point.fits == Some(true)).filter_map(|point| point.value("batch"));
    points.iter().any(|point| point.fits == Some(false)).then(|| fitting.fold(0.0, f64::max) as u64)
}

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let sweep = &work.sweep;
    let mut summary = match work.base_batch() {
        None => vec![("the batch size of this trace is not known: no shapes were recorded".to_owned(), Role::Warn)],
        Some(_) if sweep.points.len() < sweep.expected => {
            vec![(format!("batch sweep, {} of {} points", sweep.points.len(), sweep.expected), Role::Warn)]
        }
        Some(_) => vec![("batch sweep on top of the scenario".to_owned(), Role::Dim)],
    };
    if let Some(best) = optimal_batch(&sweep.points) {
        summary.push((" · doubling gains at most 5 % from ".to_owned(), Role::Dim));
        summary.push((best.to_string(), Role::Strong));
        summary.push((" on".to_owned(), Role::Dim));
    }
    if let Some(largest) = largest_that_fits(&sweep.points) {
        summary.push((" · memory fits up to ".to_owned(), Role::Dim));
        summary.push((largest.to_string(), Role::Strong));
    }
    if sweep.revision != work.history.revision() && !sweep.points.is_empty() {
        summary.push((" · of an earlier scenario".to_owned(), Role::Warn));
    }
    let current = work.batch();
    Table {
        summary,
        columns: if work.base_batch().is_some() { columns() } else { Vec::new() },
        count: sweep.points.len(),
        row: Box::new(move |index| row(&sweep.points[index], &sweep.points, current)),
    }
}
