//! Why a number is what it is: what was measured, which model said what of which inputs, and how wrong it may be.

use crate::session::Summary;
use crate::tui::app::App;
use crate::tui::canvas::{Canvas, wrap};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, describe, model_name};
use crate::tui::workspace::Workspace;
use retime_core::cost::{ConvAlgorithm, Family, Prediction, Provenance, Shape, Work};
use retime_core::device::DeviceProfile;
use retime_core::graph::NodeId;
use retime_core::units::DurNs;

use super::header::signed_percent;

/// Columns of the labels.
const LABELS: u16 = 13;

/// A line of the panel: a title, or a label with its text.
pub type Line = (&'static str, String, Role);

/// What the panel says of what is chosen.
#[derive(Debug, Default)]
pub struct Why {
    lines: Vec<Line>,
    /// How many of them the details have, too.
    details: Option<usize>,
}

impl Why {
    /// Says one thing more.
    pub fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Says all of `lines`.
    pub fn extend(&mut self, lines: impl IntoIterator<Item = Line>) {
        self.lines.extend(lines);
    }

    /// Says where the figures are from: what comes before are the details of what is chosen.
    pub fn basis(&mut self, text: String, role: Role) {
        self.details.get_or_insert(self.lines.len());
        self.lines.push(("basis", text, role));
    }
}

/// Draws the panel.
pub fn render(app: &App, scroll: usize, canvas: &mut Canvas<'_>) {
    draw(&laid_out(lines(app), canvas.width()), scroll, canvas);
}

/// Draws what the panel says beyond the details of what is chosen, which stand above: from the basis of its time on, then the header's figures.
pub fn beyond_details(app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
    let mut why = of_view(app, work);
    let details = why.details.unwrap_or(why.lines.len());
    let rows = laid_out(finished(work, why.lines.split_off(details)), canvas.width());
    let (width, height) = (canvas.width(), canvas.height());
    let shown = height - u16::from(rows.len() > height as usize);
    draw(&rows, 0, &mut canvas.part(0, 0, width, shown));
    if shown < height {
        canvas.line(0, shown, &[("W", Role::Key), (" shows the rest", Role::Dim)]);
    }
}

/// The lines as rows of `width` columns.
fn laid_out(lines: Vec<Line>, width: u16) -> Vec<Line> {
    let mut rows: Vec<Line> = Vec::new();
    for (label, text, role) in lines {
        let room = if role == Role::Title { width } else { width.saturating_sub(LABELS) };
        // An empty line stays one.
        let parts = if text.is_empty() { vec![text] } else { wrap(&text, room as usize) };
        let labels = std::iter::once(label).chain(std::iter::repeat(""));
        rows.extend(labels.zip(parts).map(|(label, part)| (label, part, role)));
    }
    rows
}

fn draw(rows: &[Line], scroll: usize, canvas: &mut Canvas<'_>) {
    let height = canvas.height() as usize;
    let first = scroll.min(rows.len().saturating_sub(height));
    for (y, (label, text, role)) in rows.iter().skip(first).take(height).enumerate() {
        let x = if *role == Role::Title { 0 } else { LABELS };
        canvas.text(0, y as u16, label, Role::Dim);
        canvas.text(x, y as u16, text, *role);
    }
}

/// First what is chosen in the open view, then the figures of the header.
fn lines(app: &App) -> Vec<Line> {
    app.workspace().map_or_else(Vec::new, |work| finished(work, of_view(app, work).lines))
}

fn of_view(app: &App, work: &Workspace) -> Why {
    let mut why = Why::default();
    app.view.why(work, &mut why);
    why
}

/// `lines` with the figures of the header below them.
fn finished(work: &Workspace, mut lines: Vec<Line>) -> Vec<Line> {
    if !lines.is_empty() {
        lines.push(("", String::new(), Role::Title));
    }
    of_header(work, &mut lines);
    lines
}

/// An event: its details, and what the models are asked about it.
pub fn of_item(work: &Workspace, item: Item, lines: &mut Why) {
    let (name, details) = describe(work.scene(), item, work.prediction(item));
    lines.push(("", name, Role::Title));
    lines.extend(details.into_iter().map(|detail| (detail.label, detail.value, Role::Text)));
    match item {
        Item::Task(node) => of_model(work, node, lines),
        Item::Added(number) => {
            if let Some(added) = work.outcome.resolved.added.get(number as usize) {
                lines.basis(basis(added.prediction), Role::Text);
                lines.extend(added.work.as_ref().map(|work| ("inputs", inputs(work), Role::Text)));
            }
        }
        Item::Operator(_) => {
            lines.basis("an operator lasts from its first task to its last: see those inside".to_owned(), Role::Dim);
        }
    }
}

/// What the models are asked about a task, and what they say of it before and after the scenario.
fn of_model(work: &Workspace, node: NodeId, lines: &mut Why) {
    let Some(task) = work.loaded.graph.tasks.node_weight(node) else { return };
    lines.basis(basis(work.outcome.resolved.prediction(node)), Role::Text);
    let Some(traced) = work.loaded.base.work(node).filter(|_| task.kind.is_device()) else { return };
    lines.push(("inputs", inputs(traced), Role::Text));
    let rank = work.loaded.base.rank_index(task.lane);
    if let Some(device) = work.loaded.context.devices.get(rank) {
        lines.push(("model", estimated(work, traced, &device.profile, Some(task.measured)), Role::Text));
    }
    let now = work.outcome.resolved.devices.get(rank);
    let before = work.loaded.context.devices.get(rank).map(|device| &device.profile.id);
    if let Some(device) = now.filter(|device| Some(&device.id) != before) {
        lines.push(("", estimated(work, traced, device, None), Role::Text));
    }
    let convolution = work.outcome.resolved.works.work(node).filter(|work| work.family == Family::Conv);
    if let Some((convolution, device)) = convolution.zip(now) {
        let recorded = ConvAlgorithm::of_kernel(work.loaded.graph.names.get(task.name));
        let better = work.loaded.context.models.better_kernel(convolution, recorded, device);
        lines.extend(better.map(|better| ("better", format!("{better} on {} by the models", device.id), Role::Good)));
    }
}

/// `64.0 MFLOP, 1.2 MiB read, 0.3 MiB written, tf32, gemm batch 1, m 512, …`.
fn inputs(work: &Work) -> String {
    let shape = match &work.shape {
        Shape::Plain => String::new(),
        shape => format!(", {}", in_words(&format!("{shape:?}"))),
    };
    format!("{}, {} read, {} written, {}{shape}", work.flop, work.read, work.written, work.precision.key())
}

/// What the code prints of a shape as people write it: `Rows { rows: 256, width: 512 }` → `rows 256, width 512`.
fn in_words(shape: &str) -> String {
    let (kind, fields) = shape.split_once(" { ").unwrap_or((shape, ""));
    let fields = fields.trim_end_matches(" }").replace(": ", " ").replace('_', " ");
    let fields = fields.replace("Some(true)", "yes").replace("Some(false)", "no").replace("None", "unknown");
    let kind = kind.to_ascii_lowercase();
    match fields.as_str() {
        "" => kind,
        _ if fields.starts_with(&kind) => fields,
        _ => format!("{kind} {fields}"),
    }
}

fn estimated(work: &Workspace, traced: &Work, device: &DeviceProfile, measured: Option<DurNs>) -> String {
    let Some(estimate) = work.loaded.context.models.estimate(traced, device) else {
        return format!("no model covers this on {}", device.id);
    };
    let error = f64::from(estimate.error) * 100.0;
    let off = measured.map_or(String::new(), |measured| {
        format!("; measured is ×{:.2} of that", measured.0 as f64 / estimate.duration.0.max(1) as f64)
    });
    let beyond = if estimate.extrapolated { ", beyond what it was fitted on" } else { "" };
    format!(
        "{} says {} on {} for the traced shapes, mean error {error:.0} % on rows held out{beyond}{off}",
        model_name(estimate.model),
        estimate.duration,
        device.id
    )
}

/// How a duration in the scenario came about.
fn basis(prediction: Prediction) -> String {
    let (taken, error) = (prediction.duration, f64::from(prediction.error) * 100.0);
    match prediction.provenance {
        Provenance::Measured => format!("{taken} as traced: no step of the scenario changes it"),
        Provenance::Anchored if prediction.is_by_roofs() => {
            format!(
                "{taken} = traced time × ratio of the roofs of both devices, ±{error:.0} %: no model covers this work"
            )
        }
        Provenance::Anchored => format!(
            "{taken} = traced time × what the {} model says after ÷ before, ±{error:.0} %: its error on one side cancels",
            model_name(prediction.model)
        ),
        Provenance::Absolute if prediction.model.is_empty() => {
            format!("{taken} as the trace has it: a prediction itself")
        }
        Provenance::Absolute => format!("{taken} by the {} model alone, ±{error:.0} %", model_name(prediction.model)),
        Provenance::Unmodelled => format!("{taken} as traced, though a step changes it: no model covers this work"),
    }
}

/// The figures of the header, each with where it comes from.
fn of_header(work: &Workspace, lines: &mut Vec<Line>) {
    let summary = &work.outcome.summary;
    lines.push(("", "figures above".to_owned(), Role::Title));
    let ranks = if summary.ranks.len() > 1 { ", of the slowest rank" } else { "" };
    let has_earlier = work.loaded.graph.ranks.iter().any(|part| part.begin.is_some());
    let from = if has_earlier { "end of the step before" } else { "start of the traced iteration" };
    let measured = format!("{} from the {from} to the end of its work{ranks}", summary.measured_ns);
    lines.push((work.origin(), measured, Role::Text));
    let steps = work.outcome.steps.iter().filter(|step| step.enabled).count();
    lines.push((
        "simulated",
        format!("{} replaying the graph with {} in force", summary.simulated_ns, counted(steps)),
        Role::Text,
    ));
    let compared = format!("{} → {}: {}", summary.base_steady_ns, summary.steady_ns, summary.basis_sentence());
    lines.push(("compared", compared, Role::Text));
    lines.extend(summary.both_named().map(|(name, before, after)| (name, format!("{before} → {after}"), Role::Text)));
    let other = summary.window_note().filter(|_| summary.has_other_work);
    lines.extend(other.map(|note| ("", note, Role::Warn)));
    lines.extend(summary.cut.map(|cut| ("", cut.sentence(), Role::Warn)));
    lines.push(("replay", replay(summary), Role::Text));
    lines.push(("error", band(summary), Role::Text));
    let busy =
        format!("{:.1} % of the iteration with work on the device, mean over ranks", summary.steady_gpu_busy * 100.0);
    lines.push(("GPU busy", busy, Role::Text));
    of_memory(summary, lines);
    lines.extend(straggler(summary));
}

fn counted(steps: usize) -> String {
    match steps {
        0 => "no edit".to_owned(),
        1 => "1 step".to_owned(),
        _ => format!("{steps} steps"),
    }
}

/// The peak of memory, of what it is, and what is not in it.
fn of_memory(summary: &Summary, lines: &mut Vec<Line>) {
    let Some(memory) = &summary.memory else {
        let why = "not known: neither the allocator nor sizes of most tensors were recorded".to_owned();
        return lines.push(("memory", why, Role::Warn));
    };
    let rank = if memory.ranks.len() > 1 { format!(" on rank {}", memory.rank) } else { String::new() };
    let device = memory.device_bytes.map_or(String::new(), |device| format!(" of {device}"));
    let peak = format!(
        "{}{device}{rank}{}, the most at once, {} into the iteration; by {}",
        memory.peak_bytes,
        summary.verdict(),
        memory.peak_at_ns,
        memory.source.described()
    );
    lines.push(("memory", peak, if summary.fits == Some(false) { Role::Bad } else { Role::Text }));
    let kinds = memory.kinds.each().map(|(name, bytes)| format!("{name} {bytes}")).join(" · ");
    lines.push(("", kinds, Role::Text));
    lines.extend(memory.unknown.iter().map(|what| ("not in it", what.clone(), Role::Warn)));
}

fn replay(summary: &Summary) -> String {
    format!(
        "{} is the untouched graph simulated ({}) against measured; {} of the iteration's time no rule explains",
        summary.replay_error.map_or_else(|| "–".to_owned(), signed_percent),
        summary.base_simulated_ns,
        signed_percent(summary.unexplained_share).trim_start_matches('+')
    )
}

fn band(summary: &Summary) -> String {
    let band = summary.steady_band;
    let another =
        summary.another_run().sentence().map_or(String::new(), |sentence| format!("; another recording: {sentence}"));
    if band.low_ns == band.high_ns {
        return "no predicted work on the critical path: only the replay's own error applies".to_owned() + &another;
    }
    format!(
        "{} to {}: errors of the predicted tasks on the critical path, one model's taken as fully correlated, different \
         models' as independent{another}",
        band.low_ns, band.high_ns
    )
}

fn straggler(summary: &Summary) -> Option<Line> {
    let late = summary.straggler?;
    Some(("late rank", format!("rank {} comes last to collectives, {} in all", late.rank, late.late_ns), Role::Warn))
}
