//! What `compare` says to people: verdict, score, and what moved by kind and by operator.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::cli::CompareOrder;
use crate::session::{
    Column, ComparedKind, ComparedRow, Comparison, ComparisonTable, ComparisonTableRow, Contribution, DiffStatus,
    Difference, Faster, Score, SideFigures,
};
use retime_core::analysis::profile::{IDLE, Named, Place, Spent};
use retime_core::graph::operator::without_engine;
use retime_core::units::{DurNs, Percent};

use super::output;

/// Kinds whose times differ by less than this share of the iteration are left out.
const SMALL: f64 = 0.001;
/// Operators that are named as added or gone.
const NAMED: usize = 8;
/// Rows that tell where an error arose.
const CAUSES: usize = 8;

pub(super) fn signed(change: DurNs) -> String {
    if change.0 > 0 { format!("+{change}") } else { change.to_string() }
}

fn percent(part: i64, whole: i64) -> String {
    format!("{:+}", Percent::of(DurNs(part), DurNs(whole)))
}

/// Two sides in detail.
pub(super) fn pair(comparison: &Comparison, shown: usize, out: &mut dyn Write) -> io::Result<()> {
    let Comparison { a, b, difference, per_sample, score, .. } = comparison;
    for (letter, side) in [("A", a), ("B", b)] {
        writeln!(out, "{letter}  {}", headline(side))?;
    }
    writeln!(out, "{}", verdict(difference, a.iteration_ns.0))?;
    if let (Some(per_sample), Some(from), Some(to)) = (per_sample, a.samples, b.samples) {
        let start = (a.iteration_ns.0 as f64 / from.max(1.0)).round() as i64;
        writeln!(out, "per sample, {from} against {to}: {}", verdict(per_sample, start))?;
    }
    if a.ranks != b.ranks {
        writeln!(out, "A has {} ranks, B {}: times of operators and kinds are means over ranks", a.ranks, b.ranks)?;
    }
    for (letter, side) in [("A", a), ("B", b)] {
        if !side.is_range_known {
            writeln!(out, "{letter} recorded one step: that steps differ as they do in other traces is assumed")?;
        }
    }
    for (letter, side) in [("A", a), ("B", b)] {
        for what in side.unhandled.iter().take(NAMED) {
            writeln!(out, "{letter} leaves as it was: {what}")?;
        }
    }
    if let Some(score) = score {
        describe_score(score, out)?;
    }
    if !comparison.rows.iter().any(|row| row.presence == DiffStatus::Both && row.a_count > 0) {
        writeln!(out, "A and B have no operator in common")?;
    }
    kinds(comparison, out)?;
    changed_operators(&comparison.rows, out)?;
    operators(comparison, shown, out)
}

fn headline(side: &SideFigures) -> String {
    let band =
        if side.low_ns == side.high_ns { String::new() } else { format!(", {} to {}", side.low_ns, side.high_ns) };
    let busy = side.gpu_busy.map_or(String::new(), |busy| format!(", GPU busy {:.0}", Percent(busy)));
    let memory = side.memory_bytes.map_or(String::new(), |bytes| format!(", {bytes} of memory"));
    let source = match side.recorded_ns {
        Some(recorded) => format!("as it repeats ({recorded} {})", side.source),
        None => side.source.to_owned(),
    };
    format!("{} {source}{band}{busy}{memory}  {}", side.iteration_ns, side.name)
}

fn verdict(difference: &Difference, start: i64) -> String {
    let Difference { delta_ns, error_ns, verdict } = difference;
    let by = format!("{} ({}) from A to B, error ±{error_ns}", signed(*delta_ns), percent(delta_ns.0, start));
    match verdict {
        Faster::AFaster => format!("A is faster: {by}"),
        Faster::BFaster => format!("B is faster: {by}"),
        Faster::CannotTell if delta_ns.0 == 0 && error_ns.0 == 0 => "A and B take the same time".to_owned(),
        Faster::CannotTell => format!("cannot tell which is faster: {by}"),
    }
}

fn describe_score(score: &Score, out: &mut dyn Write) -> io::Result<()> {
    let Score { start_ns, predicted_ns, measured_ns, error_ns, .. } = score;
    let change = |to: DurNs| percent(to.0 - start_ns.0, start_ns.0);
    writeln!(
        out,
        "\nprediction: from {start_ns} to {predicted_ns} ({}); it came to {measured_ns} ({})",
        change(*predicted_ns),
        change(*measured_ns)
    )?;
    let place = match (score.is_within_band, score.is_within_error) {
        (true, _) => "within the band of the models",
        (false, true) => "outside the band of the models, within what steps and replay are uncertain by",
        (false, false) => "outside the band",
    };
    let direction = match score.is_direction_right {
        Some(true) => "",
        Some(false) => "; the direction is wrong",
        None => "; no change was predicted",
    };
    writeln!(out, "off by {} ({:+.1}), {place}{direction}", signed(*error_ns), Percent(score.error))?;
    let (device, truth) = (score.predicted_device_ns, score.measured_device_ns);
    if truth > DurNs::ZERO {
        let off = percent(device.0 - truth.0, truth.0);
        writeln!(out, "work on the device: {device} predicted, {truth} measured ({off})")?;
    }
    for (what, parts) in [("kind", &score.by_kind), ("operator", &score.by_operator)] {
        writeln!(out, "\nwhere the error arose on the critical path, by {what}:")?;
        output::text(&contributions(parts), &mut *out)?;
    }
    Ok(())
}

fn contributions(parts: &[Contribution]) -> output::Table {
    let mut table = output::Table::new(&["", "predicted", "measured", "error"]);
    for part in parts.iter().take(CAUSES) {
        let times = [part.predicted_ns.to_string(), part.measured_ns.to_string(), signed(part.error_ns)];
        table.row(std::iter::once(without_engine(&part.name).to_owned()).chain(times));
    }
    if let Some(rest) = parts.get(CAUSES..).filter(|rest| !rest.is_empty()) {
        let sum = |of: fn(&Contribution) -> DurNs| rest.iter().map(of).sum::<DurNs>();
        let times = [
            sum(|part| part.predicted_ns).to_string(),
            sum(|part| part.measured_ns).to_string(),
            signed(sum(|part| part.error_ns)),
        ];
        table.row(std::iter::once(format!("{} others", rest.len())).chain(times));
    }
    table
}

fn kinds(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let least = SMALL * comparison.a.iteration_ns.0.max(comparison.b.iteration_ns.0) as f64;
    let counts =
        |row: &&ComparedKind| row.delta_ns.0.abs().max(row.path_delta_ns().0.abs()) as f64 >= least || row.kind == IDLE;
    let rows: Vec<&ComparedKind> = comparison.kinds.iter().filter(counts).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntime by kind, and what it adds to the critical path of the window:")?;
    let mut table = output::Table::new(&["on", "kind", "A", "B", "B − A", "path A", "path B", "path B − A"]);
    for row in rows {
        let place = match row.place {
            Place::Host => "host",
            Place::Device => "device",
            Place::Wait => "wait",
        };
        let own = [row.a_ns.to_string(), row.b_ns.to_string(), signed(row.delta_ns)];
        let own = if row.place == Place::Wait { [const { String::new() }; 3] } else { own };
        let path = [row.a_path_ns.to_string(), row.b_path_ns.to_string(), signed(row.path_delta_ns())];
        table.row([place.to_owned(), row.kind.to_owned()].into_iter().chain(own).chain(path));
    }
    output::text(&table, out)
}

/// Operators that are on one side only, the longest first.
fn changed_operators(rows: &[ComparedRow], out: &mut dyn Write) -> io::Result<()> {
    let mut between = "\n";
    for (what, presence) in [("added in B", DiffStatus::Added), ("gone in B", DiffStatus::Removed)] {
        let mut counts: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.presence == presence) {
            let sum = counts.entry(&row.name).or_default();
            let time = row.delta_ns.0.abs().max(row.host_delta_ns().0.abs());
            *sum = (sum.0 + time, sum.1 + row.a_count.max(row.b_count));
        }
        let mut names: Vec<(&str, (i64, usize))> = counts.into_iter().collect();
        names.sort_by_key(|&(name, (time, _))| (std::cmp::Reverse(time), name));
        if names.is_empty() {
            continue;
        }
        let name = |&(name, (_, count)): &(&str, (i64, usize))| match count {
            1 => without_engine(name).to_owned(),
            _ => format!("{} ×{count}", without_engine(name)),
        };
        let listed: Vec<String> = names.iter().take(NAMED).map(name).collect();
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(out, "{between}{what}: {}{more}", listed.join(", "))?;
        between = "";
    }
    Ok(())
}

fn operators(comparison: &Comparison, shown: usize, out: &mut dyn Write) -> io::Result<()> {
    let is_device = comparison.time == "device";
    writeln!(out, "\n{} time by operator:", comparison.time)?;
    let host: &[&str] = if is_device { &["host B − A"] } else { &[] };
    let header = [&["operator", "A", "B", "B − A"], host, &["path B − A", "calls A", "calls B"]].concat();
    let mut table = output::Table::new(&header);
    for row in comparison.rows.iter().take(shown) {
        let times = [row.a_ns.to_string(), row.b_ns.to_string(), signed(row.delta_ns)];
        let host = is_device.then(|| signed(row.host_delta_ns()));
        let rest = [signed(row.path_delta_ns()), row.a_count.to_string(), row.b_count.to_string()];
        table.row([without_engine(&row.name).to_owned()].into_iter().chain(times).chain(host).chain(rest));
    }
    output::text(&table, &mut *out)?;
    let more = comparison.rows.len().saturating_sub(shown);
    if more > 0 { writeln!(out, "… and {more} more (--top, --json, --csv)") } else { Ok(()) }
}

/// More than two sides: a line each, and operators in columns.
pub(super) fn board(
    board: &ComparisonTable,
    (order, shown): (CompareOrder, usize),
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = output::Table::new(&["", "iteration", "from", "to", "against A", "", "GPU busy", "memory", "name"]);
    for (letter, column) in letters().zip(&board.columns) {
        table.row(std::iter::once(letter).chain(side_cells(board, column)));
    }
    output::text(&table, &mut *out)?;
    let what = match order {
        CompareOrder::Host => "host",
        CompareOrder::Path => "critical path",
        _ if board.has_device => "device",
        _ => "host",
    };
    writeln!(out, "\n{what} time by operator; after A what is different:")?;
    let time = |spent: Spent| match order {
        CompareOrder::Host => spent.host,
        CompareOrder::Path => spent.path,
        _ if board.has_device => spent.device,
        _ => spent.host,
    };
    let at = |row: &ComparisonTableRow, index: usize| {
        row.cells[index].map_or(DurNs::ZERO, |Named { spent, .. }| time(spent))
    };
    let calls = |row: &ComparisonTableRow, index: usize| row.cells[index].map_or(0, |named| named.count as i64);
    let key = |row: &ComparisonTableRow| -> i64 {
        let others = 1..board.columns.len();
        match order {
            CompareOrder::Count => others.map(|index| (calls(row, index) - calls(row, 0)).abs()).max().unwrap_or(0),
            CompareOrder::Name => 0,
            _ => others.map(|index| (at(row, index) - at(row, 0)).0.abs()).max().unwrap_or(0),
        }
    };
    let mut rows: Vec<&ComparisonTableRow> = board.operators.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
    let names = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"];
    let header: Vec<&'static str> = std::iter::once("operator")
        .chain((0..board.columns.len()).map(|index| names.get(index).copied().unwrap_or("…")))
        .collect();
    let mut table = output::Table::new(&header);
    for row in rows.iter().take(shown) {
        let others = (1..board.columns.len()).map(|index| signed(at(row, index) - at(row, 0)));
        table.row([without_engine(&row.name).to_owned(), at(row, 0).to_string()].into_iter().chain(others));
    }
    output::text(&table, &mut *out)?;
    let more = rows.len().saturating_sub(shown);
    if more > 0 { writeln!(out, "… and {more} more (--top, --json)") } else { Ok(()) }
}

fn letters() -> impl Iterator<Item = String> {
    ('A'..='Z').map(String::from).chain(std::iter::repeat("…".to_owned()))
}

fn side_cells(board: &ComparisonTable, column: &Column) -> [String; 8] {
    let figures = &column.figures;
    let start = board.columns[board.reference].figures.iteration_ns.0;
    let (change, verdict) = match &column.difference {
        None => ("–".to_owned(), "reference".to_owned()),
        Some(difference) => (
            percent(difference.delta_ns.0, start),
            match difference.verdict {
                Faster::AFaster => "slower",
                Faster::BFaster => "faster",
                Faster::CannotTell => "cannot tell",
            }
            .to_owned(),
        ),
    };
    [
        figures.iteration_ns.to_string(),
        figures.low_ns.to_string(),
        figures.high_ns.to_string(),
        change,
        verdict,
        figures.gpu_busy.map_or("–".to_owned(), |busy| format!("{:.0}", Percent(busy))),
        figures.memory_bytes.map_or("–".to_owned(), |bytes| bytes.to_string()),
        figures.name.clone(),
    ]
}

/// Rows with plain numbers: two sides in detail, or more in columns.
pub(super) fn csv(comparison: &Comparison, board: &ComparisonTable) -> output::Table {
    if board.columns.len() > 2 {
        return columns_csv(board);
    }
    let mut table = output::Table::new(&[
        "name",
        "a_ns",
        "b_ns",
        "delta_ns",
        "a_count",
        "b_count",
        "matched",
        "a_host_ns",
        "b_host_ns",
        "a_device_ns",
        "b_device_ns",
        "a_path_ns",
        "b_path_ns",
    ]);
    for row in &comparison.rows {
        let figures = [row.a_ns.0, row.b_ns.0, row.delta_ns.0, row.a_count as i64, row.b_count as i64];
        let more = [row.a_host_ns, row.b_host_ns, row.a_device_ns, row.b_device_ns, row.a_path_ns, row.b_path_ns];
        let numbers = figures.into_iter().chain([row.matched as i64]).chain(more.map(|time| time.0));
        table.row([row.name.clone()].into_iter().chain(numbers.map(|figure| figure.to_string())));
    }
    table
}

fn columns_csv(board: &ComparisonTable) -> output::Table {
    let mut table = output::Table::new(&["name", "side", "count", "host_ns", "device_ns", "path_ns"]);
    for row in &board.operators {
        for (column, cell) in board.columns.iter().zip(&row.cells) {
            let Named { spent, count } = cell.unwrap_or_default();
            let figures = [count as i64, spent.host.0, spent.device.0, spent.path.0].map(|figure| figure.to_string());
            table.row([row.name.clone(), column.figures.name.clone()].into_iter().chain(figures));
        }
    }
    table
}
