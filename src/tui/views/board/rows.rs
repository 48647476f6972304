//! The rows of the board, and the kernels that the chosen edit changes.

use crate::session::{ErrorBand, Trial};
use crate::tui::canvas::Canvas;
use crate::tui::table::{self, Column, Open, Table, TableRow, TableState, name, value};
use crate::tui::theme::Role;
use crate::tui::timeline::short_name;
use crate::tui::views::signed_percent;
use crate::tui::workspace::Workspace;
use retime_core::device::{DeviceProfile, Precision};
use retime_core::units::{DurNs, Percent};

use super::state::{Among, BoardLine, BoardRow, BoardState, By};

/// Columns of the bar of time.
pub const BAR: u16 = 8;
/// From here on there is room for the band, and for what is gained at its far end, by which the rows are sorted.
const WIDE: u16 = 140;
/// A share of the device's time that is not modelled below this is not worth a word.
pub const NOTABLE: f64 = 0.005;

fn column(title: &'static str, width: u16, is_number: bool, from_width: u16) -> Column {
    Column { title, width, is_number, from_width }
}

/// The board as a table `width` columns wide.
pub fn table<'a>(work: &'a Workspace, board: &'a BoardState) -> Table<'a> {
    let lines = board.lines();
    let is_devices = board.among == Among::Devices;
    let mut columns = vec![column(if is_devices { "device" } else { "edit" }, 0, false, 0)];
    if is_devices {
        columns.extend([column("16-bit TF/s", 11, true, 90), column("GB/s", 5, true, 76), column("GiB", 5, true, 62)]);
    }
    let has_prices = is_devices && !board.prices.is_empty();
    if has_prices {
        columns.push(column("1000 steps", 10, true, 62));
    }
    columns.extend([
        column("iteration", 9, true, 0),
        column("per sample", 10, true, 0),
        column("", BAR, false, if is_devices { 100 } else { 72 }),
        column("memory", 11, true, 62),
        column("not modelled", 12, true, if is_devices { 96 } else { 80 }),
        column("gains most", if has_prices { 16 } else { 22 }, false, if is_devices { 120 } else { 104 }),
        column("far end", 9, true, WIDE),
        column("band", 21, true, WIDE),
    ]);
    let rows = Rows { work, board };
    Table {
        summary: summary(work, board),
        columns,
        count: lines.len(),
        row: Box::new(move |at| match lines.get(at) {
            Some(BoardLine::Heading(section)) => {
                TableRow { values: vec![value(section.name(), Role::Title)], open: Open::Nothing }
            }
            Some(BoardLine::Row(at)) => rows.row(&board.rows[*at]),
            None => TableRow { values: Vec::new(), open: Open::Nothing },
        }),
    }
}

fn summary(work: &Workspace, board: &BoardState) -> Vec<(String, Role)> {
    let typed = if board.typed.is_empty() {
        ("type to filter".to_owned(), Role::Faint)
    } else {
        (format!("/{}_", board.typed), Role::Accent)
    };
    let shown = board.lines().iter().filter(|line| matches!(line, BoardLine::Row(_))).count();
    let mut pieces = vec![typed, (format!(" · {shown} {}", if shown == 1 { "edit" } else { "edits" }), Role::Dim)];
    if board.waiting.is_empty() {
        let idle = board.idle();
        if idle > 0 && board.among == Among::All {
            pieces.push((format!(" · {idle} more change nothing here"), Role::Dim));
        }
    } else {
        pieces.push((format!(" · {} more being tried", board.waiting.len()), Role::Warn));
    }
    if board.among != Among::Batches || board.by != By::Gain {
        pieces.push((format!(" · {}", board.by.name()), Role::Dim));
    }
    if board.among == Among::Devices
        && let Some((device, cost)) = (Rows { work, board }).cheapest()
    {
        pieces.push((format!(" · cheapest {device}: {cost:.3} a thousand steps"), Role::Strong));
    }
    if !work.loaded.replay.summary.replay_status.passes() {
        pieces.push((" · the replay does not pass: no difference can be relied on".to_owned(), Role::Bad));
    }
    if !board.stacked.is_empty() {
        pieces.push((format!(" · stacked: {}", board.stacked.join(" + ")), Role::Accent));
    }
    pieces
}

/// Whether it is known how much memory a device has.
pub fn has_limit(work: &Workspace) -> bool {
    work.outcome.resolved.devices.iter().any(|device| device.memory.0 > 0)
}

struct Rows<'a> {
    work: &'a Workspace,
    board: &'a BoardState,
}

impl Rows<'_> {
    /// What stands before memory that does not fit the device, or of which that is not known.
    fn fitting(&self, fits: Option<bool>) -> &'static str {
        let has_limit = has_limit(self.work);
        match fits {
            Some(true) => "",
            Some(false) => "✗ ",
            None => {
                if has_limit {
                    "? "
                } else {
                    ""
                }
            }
        }
    }

    fn row(&self, row: &BoardRow) -> TableRow {
        let trial = &row.trial;
        let is_stale = row.revision != self.board.revision;
        let is_stacked = self.board.stacked.contains(&trial.line);
        let role = |role: Role| if is_stale { Role::Faint } else { role };
        let mark = if is_stacked { "+ " } else { "" };
        let shown = self.board.turned(&trial.line).map_or_else(|| self.label(&trial.line), |to| format!("{to} …"));
        let present = if self.work.is_present(self.board, &trial.line) { " ◂" } else { "" };
        let named = name(format!("{mark}{shown}{present}"), role(if is_stacked { Role::Accent } else { Role::Strong }));
        if let Some(why) = trial.no_effect.as_ref().filter(|_| present.is_empty()) {
            let text = format!("{}: {why}", named.text);
            return TableRow { values: vec![value(text, Role::Faint)], open: Open::Nothing };
        }
        let mut values = vec![named];
        if self.board.among == Among::Devices {
            values.extend(self.figures(&trial.line).map(|text| value(text, Role::Text)));
            if !self.board.prices.is_empty() {
                let cost = self.cost(trial).map_or(String::new(), |cost| format!("{cost:.3}"));
                values.push(value(cost, role(Role::Text)));
            }
        }
        let change = trial.ratio - 1.0;
        let better = match change {
            _ if change.abs() < 0.001 => Role::Dim,
            _ if !trial.is_modelled() => Role::Warn,
            _ if change < 0.0 => Role::Good,
            _ => Role::Bad,
        };
        let fits = trial.fits != Some(false);
        let memory = trial.memory_bytes.map_or(String::new(), |bytes| format!("{}{bytes}", self.fitting(trial.fits)));
        // Of a rank on average: the iteration is that of one, too.
        let ranks = self.work.loaded.graph.rank_count().max(1) as i64;
        let most = trial.most.map_or(String::new(), |(family, gain)| format!("{family} −{}", DurNs(gain.0 / ranks)));
        let left =
            if trial.unmodelled_share >= NOTABLE { Percent(trial.unmodelled_share).to_string() } else { String::new() };
        values.extend([
            value(trial.steady_ns.to_string(), role(Role::Text)),
            value(signed_percent(change), role(better)),
            value(bar(trial.ratio, trial.steady_ns, trial.band), role(better)),
            value(memory, role(if fits { Role::Text } else { Role::Bad })),
            value(left, role(Role::Warn)),
            value(most, role(Role::Dim)),
            value(signed_percent(trial.sure_ratio - 1.0), role(Role::Dim)),
            value(format!("{} – {}", trial.band.low_ns, trial.band.high_ns), role(Role::Dim)),
        ]);
        TableRow { values, open: Open::Nothing }
    }

    /// What a thousand iterations cost on all devices of the job, where the user's prices name the device.
    fn cost(&self, trial: &Trial) -> Option<f64> {
        const STEPS: f64 = 1_000.0;
        const HOUR_NS: f64 = 3.6e12;
        let price = self.board.price(&trial.line)?;
        Some(price * f64::from(trial.devices) * STEPS * trial.steady_ns.0 as f64 / HOUR_NS)
    }

    /// The device on which a thousand iterations cost least, of those that hold them, and what they cost.
    fn cheapest(&self) -> Option<(String, f64)> {
        let lines = self.board.lines();
        let rows = lines.iter().filter_map(|line| match line {
            BoardLine::Row(at) => Some(&self.board.rows[*at].trial),
            BoardLine::Heading(_) => None,
        });
        let costs = rows.filter(|trial| trial.fits != Some(false)).filter_map(|trial| Some((trial, self.cost(trial)?)));
        let (trial, cost) = costs.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((self.label(&trial.line), cost))
    }

    /// A device by its name, any other edit by its line.
    fn label(&self, line: &str) -> String {
        let device = line.strip_prefix("swap-gpu ").or(line.strip_prefix("place-on "));
        device.filter(|_| self.board.among == Among::Devices).unwrap_or(line).to_owned()
    }

    /// Rate of products, memory bandwidth and memory of the device that a line names.
    fn figures(&self, line: &str) -> [String; 3] {
        let id = line.rsplit(' ').next().unwrap_or_default();
        let Some(device) = self.work.loaded.context.catalog.iter().find(|device| device.id == id) else {
            return Default::default();
        };
        [
            products(device),
            format!("{:.0}", device.dram_bandwidth.0 / 1e9),
            format!("{:.0}", device.memory.0 as f64 / GIB),
        ]
    }
}

/// Time per sample as a bar to the near end of the band, lighter to the far end; half of it is the time as it is.
pub fn bar(ratio: f64, steady_ns: DurNs, band: ErrorBand) -> String {
    let width = f64::from(BAR);
    let of_ratio = ratio / steady_ns.0.max(1) as f64;
    let cells = |time: DurNs| (time.0 as f64 * of_ratio * width / 2.0).round().clamp(0.0, width) as usize;
    let (low, high) = (cells(band.low_ns).max(1), cells(band.high_ns));
    format!("{}{}", "█".repeat(low), "░".repeat(high.saturating_sub(low)))
}

const GIB: f64 = (1_u64 << 30) as f64;

/// Peak of products in 16 bits, in TFLOP/s.
fn products(device: &DeviceProfile) -> String {
    let peak =
        [Precision::Bf16Tensor, Precision::Fp16Tensor].into_iter().find_map(|precision| device.peak.get(&precision));
    peak.map_or_else(|| "–".to_owned(), |rate| format!("{:.0}", rate.0 / 1e12))
}

/// What a reader has to know of an edit, in a line.
pub fn remark(trial: &Trial, has_limit: bool) -> String {
    let band = format!("within {} to {}", trial.band.low_ns, trial.band.high_ns);
    let sure = format!("{} per sample at the far end of the band", signed_percent(trial.sure_ratio - 1.0));
    let mut said = vec![band, sure];
    said.extend((trial.fits == Some(false)).then(|| "✗ does not fit the device's memory".to_owned()));
    said.extend((trial.fits.is_none() && has_limit).then(|| "? not known whether its memory fits".to_owned()));
    said.extend(trial.remarks.iter().cloned());
    said.join(" · ")
}

/// The work that an edit changes, the largest change first; none of one `is_stacked`, which the others are tried on.
pub fn changes(trial: &Trial, is_stacked: bool, canvas: &mut Canvas<'_>) {
    canvas.rule(0, &format!("what {} changes", trial.line));
    let (width, height) = (canvas.width(), canvas.height());
    if trial.changes.is_empty() {
        let why = if is_stacked { "it is in what the others are tried on: space takes it off" } else { "no work" };
        canvas.text(1, 1, why, Role::Dim);
        return;
    }
    let table = Table {
        summary: Vec::new(),
        columns: vec![
            column("work", 0, false, 0),
            column("family", 12, false, 70),
            column("now", 10, true, 0),
            column("then", 10, true, 0),
            column("Δ", 11, true, 0),
        ],
        count: trial.changes.len(),
        row: Box::new(|at| {
            let change = &trial.changes[at];
            let (sign, role) = if change.gain().0 > 0 { ("−", Role::Good) } else { ("+", Role::Bad) };
            TableRow {
                values: vec![
                    name(short_name(&change.name), Role::Text),
                    value(change.family, Role::Dim),
                    value(change.before.to_string(), Role::Text),
                    value(change.after.to_string(), Role::Text),
                    value(format!("{sign}{}", DurNs(change.gain().0.abs())), role),
                ],
                open: Open::Nothing,
            }
        }),
    };
    let none = TableState { cursor: usize::MAX, ..TableState::default() };
    table::render_rows(&table, &none, &mut canvas.part(0, 1, width, height.saturating_sub(1)), 0);
}
