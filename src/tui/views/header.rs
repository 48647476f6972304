//! Two lines: what is open, and how long an iteration is, would be, and whether to trust it.

pub mod published;

use unicode_width::UnicodeWidthStr;

use crate::session::{ErrorBand, Summary};
use crate::tui::app::{App, Saving};
use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;
use retime_core::analysis::replay::ReplayStatus;
use retime_core::memory::MemorySource;
use retime_core::units::{Bytes, DurNs, Percent};

/// A share of the iteration above this that no rule explains, or that was not recorded, is named.
const NOTABLE: f64 = 0.15;
/// Changes smaller than this share are none.
const NO_CHANGE: f64 = 0.001;

type Pieces = Vec<(String, Role)>;

/// Draws the header.
pub fn render(app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
    let width = canvas.width() as usize;
    let mut error = replay_error(&work.outcome.summary);
    if work.is_preview() {
        error.push(("  preview".to_owned(), Role::Warn));
    }
    if app.saving == Saving::Failed || !app.owns_session(work.number) {
        error.push(("  not saved".to_owned(), Role::Bad));
    }
    let room = width.saturating_sub(text_width(&error) + 3);
    let title = fitting(&[title(work, true), title(work, false), short_title(work)], room);
    canvas.part(0, 0, room as u16 + 1, 1).line(1, 0, &title);
    canvas.right(0, 0, 1, &error);
    let figures = match app.algorithm {
        Some(algorithm) => published::figures(work, algorithm),
        None => figures(work),
    };
    canvas.line(1, 1, &fitting(&figures, width.saturating_sub(2)));
    if work.is_stale() {
        canvas.dim(0, 1, canvas.width());
        canvas.right(0, 1, 1, &[("re-timing…", Role::Warn)]);
    }
}

/// The first of the variants that fits, else the last.
fn fitting(variants: &[Pieces], room: usize) -> Pieces {
    let fits = variants.iter().find(|pieces| text_width(pieces) <= room);
    fits.or(variants.last()).cloned().unwrap_or_default()
}

fn text_width(pieces: &Pieces) -> usize {
    pieces.iter().map(|(text, _)| text.width()).sum()
}

fn title(work: &Workspace, with_device: bool) -> Pieces {
    let mut pieces = vec![("retime  ".to_owned(), Role::Title), (work.loaded.title.clone(), Role::Strong)];
    let mut add = |text: String, role| {
        pieces.push((" · ".to_owned(), Role::Faint));
        pieces.push((text, role));
    };
    if let Some(how) = work.loaded.predicted() {
        add(format!("predicted by {how}, not measured"), Role::Warn);
    }
    let counts = work.outcome.resolved.rank_counts();
    let (all, simulated): (u32, usize) = (counts.iter().sum(), counts.len());
    let world = work.loaded.job.ranks.iter().find_map(|rank| rank.world_size).filter(|&world| world > all);
    match (all, simulated) {
        (1.., _) if world.is_some() => add(format!("{all} of {} ranks", world.unwrap_or(all)), Role::Text),
        (0 | 1, _) => {}
        (all, simulated) if all as usize > simulated => add(format!("{all} ranks, {simulated} simulated"), Role::Text),
        (all, _) => add(format!("{all} ranks"), Role::Text),
    }
    if let Some((before, after)) = devices(work).filter(|_| with_device) {
        let role = if before == after { Role::Text } else { Role::Accent };
        add(if before == after { before } else { format!("{before} ▶ {after}") }, role);
    }
    if let Some((before, after)) = work.outcome.summary.batch {
        let role = if before == after { Role::Text } else { Role::Accent };
        add(if before == after { format!("batch {before}") } else { format!("batch {before} ▶ {after}") }, role);
    }
    let overheads = work.outcome.scenario.overheads();
    if overheads != "measured" {
        add(format!("host {}", overheads.rsplit('/').next().unwrap_or(&overheads)), Role::Accent);
    }
    pieces
}

/// What is open, with no more than that it was not measured.
fn short_title(work: &Workspace) -> Pieces {
    let mut pieces = vec![("retime  ".to_owned(), Role::Title)];
    if work.loaded.predicted().is_some() {
        pieces.push(("predicted ".to_owned(), Role::Warn));
    }
    pieces.push((work.loaded.title.clone(), Role::Strong));
    pieces
}

/// The traced devices and those of the scenario; `None` where nothing ran on one.
fn devices(work: &Workspace) -> Option<(String, String)> {
    let before = work.loaded.device_names();
    let mut after: Vec<String> =
        work.outcome.resolved.devices.iter().map(|device| device.model_id().to_owned()).collect();
    after.dedup();
    if before.is_empty() {
        return None;
    }
    let traced: Vec<String> = work.loaded.context.devices.iter().map(|device| device.profile.id.clone()).collect();
    let mut unchanged = traced;
    unchanged.dedup();
    let after = if after == unchanged { before.clone() } else { after };
    Some((before.join("+"), after.join("+")))
}

fn replay_error(summary: &Summary) -> Pieces {
    let (error, unexplained, anchored) = (summary.replay_error, summary.unexplained_share, summary.anchored_share);
    let (sign, role) = match summary.replay_status {
        ReplayStatus::Fail => ("✗ fails", Role::Bad),
        ReplayStatus::Pinned => ("≈ pinned", Role::Warn),
        ReplayStatus::Pass => ("✓", Role::Good),
        ReplayStatus::Predicted => return vec![(format!("no replay, ± {}", percent(summary.noise)), Role::Warn)],
    };
    let mut pieces = vec![
        ("replay ".to_owned(), Role::Dim),
        (format!("{} {sign}", error.map_or_else(|| "–".to_owned(), signed_percent)), role),
    ];
    if summary.unrecorded_share > NOTABLE {
        pieces.insert(1, (format!("{} not recorded, ", percent(summary.unrecorded_share)), Role::Warn));
    }
    if unexplained > NOTABLE {
        pieces.insert(1, (format!("{} unexplained, ", percent(unexplained)), Role::Warn));
    }
    if anchored > NOTABLE {
        pieces.insert(1, (format!("{} before the recording, ", percent(anchored)), Role::Warn));
    }
    pieces
}

/// The second line, from all to the least that is shown.
fn figures(work: &Workspace) -> Vec<Pieces> {
    let [whole, short, least] = [Words::All, Words::Short, Words::Least].map(|words| iteration(work, words));
    let [gpu, short_gpu, brief_gpu] = [Busy::All, Busy::Short, Busy::Brief].map(|how| gpu(work, how));
    let per_sample = per_sample(work);
    let [caveats, brief_caveats] = [false, true].map(|is_brief| caveats(work, is_brief));
    let [memory, brief_memory] = [Memory::Change, Memory::Brief].map(|how| memory(work, how));
    let also = also_named(work);
    let join = |parts: &[&Pieces]| {
        let mut all = Pieces::new();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            if !all.is_empty() {
                all.push(("   ".to_owned(), Role::Dim));
            }
            all.extend(part.iter().cloned());
        }
        all
    };
    vec![
        join(&[&whole, &per_sample, &caveats, &gpu, &memory, &also]),
        join(&[&whole, &per_sample, &caveats, &gpu, &memory]),
        join(&[&whole, &per_sample, &caveats, &short_gpu, &memory]),
        join(&[&whole, &per_sample, &caveats, &brief_gpu, &memory]),
        join(&[&whole, &per_sample, &caveats, &brief_gpu, &brief_memory]),
        join(&[&whole, &per_sample, &brief_caveats, &brief_gpu, &brief_memory]),
        join(&[&whole, &per_sample, &brief_caveats, &brief_memory]),
        // The range of a prediction goes last of all but the iteration itself.
        join(&[&whole, &brief_caveats, &brief_memory]),
        join(&[&whole, &brief_caveats]),
        join(&[&short, &brief_caveats]),
        short,
        least,
    ]
}

/// How much is said of the iteration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// `iteration 348.1 ms ▶ 209.2 ms  −40 %  1.66×  (196–222)`.
    All,
    /// Without the band.
    Short,
    /// Without a word.
    Least,
}

fn iteration(work: &Workspace, words: Words) -> Pieces {
    let summary = &work.outcome.summary;
    let (before, after) = work.iteration_figures();
    let mut pieces = vec![("iteration ".to_owned(), Role::Dim), (before.to_string(), Role::Strong)];
    if words == Words::Least {
        pieces.remove(0);
    }
    if !work.is_edited() {
        if words == Words::All {
            pieces.push((" (no edits)".to_owned(), Role::Dim));
        }
        return pieces;
    }
    pieces.extend(change(work.outcome.summary.base_steady_ns, after, words != Words::Least));
    if words == Words::Least {
        return pieces;
    }
    if words == Words::All {
        pieces.extend(band(summary));
    }
    pieces
}

/// ` ▶ 209.2 ms  −40 %  1.66×`, the factor where there is room; `before` is the replay of the untouched trace, as for steps and
/// board, so that what the replay is off cancels.
fn change(before: DurNs, after: DurNs, with_factor: bool) -> Pieces {
    let factor = ratio(after, before);
    let role = change_role(factor);
    let percent = (factor - 1.0) * 100.0;
    let digits = usize::from(percent.abs() < 10.0);
    let changed =
        if percent.abs() < 0.05 { "±0 %".to_owned() } else { format!("{percent:+.digits$} %").replace('-', "−") };
    let mut pieces =
        vec![(" ▶ ".to_owned(), Role::Dim), (after.to_string(), Role::Strong), (format!("  {changed}"), role)];
    if with_factor {
        pieces.push((format!("  {:.2}×", 1.0 / factor.max(1e-9)), role));
    }
    pieces
}

/// `  (196–222)`: where the iteration may lie, in the unit of its figure.
fn band(summary: &Summary) -> Option<(String, Role)> {
    let ErrorBand { low_ns, high_ns, .. } = summary.steady_band;
    let half = (high_ns - low_ns).0 as f64 / 2.0 / summary.steady_ns.0.max(1) as f64;
    if half < 0.0005 {
        return None;
    }
    let [low, high] = [low_ns, high_ns].map(|it| it.to_string());
    let (bare, unit) = low.split_once(' ')?;
    let low = if high.ends_with(unit) { bare.to_owned() } else { low.clone() };
    Some((format!("  ({low}–{high})"), Role::Dim))
}

fn change_role(factor: f64) -> Role {
    match factor {
        f if f < 1.0 - NO_CHANGE => Role::Good,
        f if f > 1.0 + NO_CHANGE => Role::Bad,
        _ => Role::Text,
    }
}

/// `per sample ×0.60`, where the batch is another.
fn per_sample(work: &Workspace) -> Pieces {
    let batch = work.outcome.summary.batch.filter(|(before, after)| before != after && *after > 0);
    let Some((batch_before, batch_after)) = batch.filter(|_| work.is_edited()) else { return Pieces::new() };
    let (before, after) = (work.outcome.summary.base_steady_ns, work.outcome.summary.steady_ns);
    let factor = ratio(after, before) * batch_before as f64 / batch_after as f64;
    vec![("per sample ".to_owned(), Role::Dim), (format!("×{factor:.2}"), change_role(factor))]
}

/// The other figure of the iteration, where the recorded window and the step as it repeats differ.
fn also_named(work: &Workspace) -> Pieces {
    let Some((name, before, after)) = work.outcome.summary.both_named() else { return Pieces::new() };
    let after = if work.is_edited() { format!(" ▶ {after}") } else { String::new() };
    vec![(format!("{name} {before}{after}"), Role::Dim)]
}

/// What belongs beside the number: steps without effect, a window that shows other work than the step's, and work that keeps its time
/// because no model covers it; briefly `27 % unmod.`.
pub(super) fn caveats(work: &Workspace, is_brief: bool) -> Pieces {
    let share = work.outcome.summary.unmodelled_share;
    let none = match work.outcome.steps.iter().filter(|step| step.no_effect().is_some()).count() {
        0 => None,
        1 if work.outcome.steps.len() == 1 => Some("no effect".to_owned()),
        1 => Some("1 step without effect".to_owned()),
        steps => Some(format!("{steps} steps without effect")),
    };
    let not_modelled = if is_brief { "unmod." } else { "not modelled" };
    let kept = (share >= 0.005).then(|| format!("{:.0} {not_modelled}", Percent(share)));
    // Where there is room for all, memory says so itself.
    let summary = &work.outcome.summary;
    let unfit = match summary.fits {
        Some(false) => Some("does not fit"),
        None if !summary.verdict().is_empty() => Some("fit not known"),
        _ => None,
    };
    let unfit = unfit.filter(|_| is_brief).map(str::to_owned);
    let other = if is_brief { "other work" } else { "the window holds other work" };
    let other = summary.has_other_work.then(|| other.to_owned());
    let mut caveats = Pieces::new();
    for caveat in unfit.into_iter().chain(none).chain(other).chain(kept).filter(|_| work.is_edited()) {
        if !caveats.is_empty() {
            caveats.push((", ".to_owned(), Role::Dim));
        }
        caveats.push((caveat, Role::Warn));
    }
    caveats
}

/// How the device's busy share is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// `GPU busy 41 % ▶ 78 %`.
    All,
    /// `GPU 41 % ▶ 78 %`.
    Short,
    /// `GPU 78 %`.
    Brief,
}

fn gpu(work: &Workspace, how: Busy) -> Pieces {
    if !work.has_device() {
        return Vec::new();
    }
    let (before, after) = (work.loaded.replay.summary.steady_gpu_busy, work.outcome.summary.steady_gpu_busy);
    let (before, after) = (percent(before), percent(after));
    let label = if how == Busy::All { "GPU busy " } else { "GPU " };
    let mut pieces = vec![(label.to_owned(), Role::Dim)];
    if before != after && how != Busy::Brief {
        pieces.extend([(before, Role::Text), (" ▶ ".to_owned(), Role::Dim)]);
    }
    pieces.push((after, Role::Text));
    pieces
}

/// How memory is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// `memory 36.6 ▶ 22.7 / 80 GiB`.
    Change,
    /// `mem ≈2 % of 16 GiB`.
    Brief,
}

fn memory(work: &Workspace, how: Memory) -> Pieces {
    let is_brief = how == Memory::Brief;
    let summary = &work.outcome.summary;
    let Some(needed) = summary.memory_bytes else { return Vec::new() };
    let role = if summary.fits == Some(false) { Role::Bad } else { Role::Text };
    let least = work.outcome.resolved.devices.iter().map(|device| device.memory).min().filter(|memory| memory.0 > 0);
    let round = |memory: Bytes| memory.to_string().replacen(".00 ", " ", 1);
    let too_much = match summary.fits {
        Some(false) => " ✗",
        None if least.is_some() => " ?",
        _ => "",
    };
    let estimated = summary.memory.as_ref().is_some_and(|memory| memory.source != MemorySource::Allocator);
    let about = if estimated { "≈" } else { "" };
    if is_brief {
        let is_part = |least: &Bytes| needed * 100 >= *least;
        let text = match least.filter(is_part) {
            Some(least) => format!("{} of {}", percent(needed.0 as f64 / least.0 as f64), round(least)),
            None => needed.to_string(),
        };
        return vec![("mem ".to_owned(), Role::Dim), (format!("{about}{text}{too_much}"), role)];
    }
    let before = work.loaded.replay.summary.memory_bytes.filter(|before| differs(*before, needed));
    let before = before.map_or(String::new(), |before| format!("{} ▶ ", alike(before, needed)));
    let of = least.map_or(String::new(), |memory| format!(" / {}", round(memory)));
    let needed = least.map_or(needed.to_string(), |memory| alike(needed, memory));
    vec![("memory ".to_owned(), Role::Dim), (format!("{about}{before}{needed}{of}{too_much}"), role)]
}

/// `bytes` without its unit, where `beside` is in the same.
fn alike(bytes: Bytes, beside: Bytes) -> String {
    let (text, beside) = (bytes.to_string(), beside.to_string());
    let unit = |text: &str| text.rsplit(' ').next().map(str::to_owned);
    if unit(&text) == unit(&beside) { text.split(' ').next().unwrap_or("").to_owned() } else { text }
}

/// Whether two amounts of memory differ by more than half a percent.
fn differs(a: Bytes, b: Bytes) -> bool {
    a.0.abs_diff(b.0).saturating_mul(200) > a.0
}

/// `+0.3 %`, `−1.2 %`; what rounds to nothing has no sign.
pub fn signed_percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    if tenths.abs() < 0.5 { "0.0 %".to_owned() } else { format!("{:+.1} %", tenths / 10.0).replace('-', "−") }
}

fn percent(share: f64) -> String {
    format!("{:.0}", Percent(share))
}

fn ratio(a: DurNs, b: DurNs) -> f64 {
    a.0 as f64 / b.0.max(1) as f64
}
