//! Charts of a report as SVG pictures: kernels under the roofs of their device, and what other batch sizes come to.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::session::{Engine, Loaded, Outcome, Sweep, SweepPoint, SweepRun, short_name};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::operators::Level;
use retime_core::analysis::roofline::{Place, Point, Roofs, left_out, on_other_devices, points_at};
use retime_core::device::{DeviceProfile, Precision};
use retime_core::units::Bytes;

use super::html::escaped;
use super::svg::colour;

/// Pixels of a chart, and of what is drawn in it.
const SIZE: (f64, f64) = (780.0, 420.0);
const LEFT: f64 = 90.0;
const TOP: f64 = 40.0;
const INNER: (f64, f64) = (640.0, 320.0);

/// Where values lie on an axis.
#[derive(Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
}

impl Scale {
    /// From one decade to another, with all `values` inside; `None` without any above zero.
    fn decades(values: impl Iterator<Item = f64>) -> Option<Self> {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10).collect();
        let least = logs.iter().copied().reduce(f64::min)?.floor();
        let most = logs.iter().copied().reduce(f64::max)?.ceil();
        Some(Self { from: least, to: most.max(least + 1.0), is_log: true })
    }

    /// From zero to a round value not below the greatest of `values`: one, two or five times a power of `base`, four times.
    fn linear(values: impl Iterator<Item = f64>, base: f64) -> Self {
        let most = values.fold(f64::MIN_POSITIVE, f64::max);
        let power = base.powf((most / 4.0).log(base).floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 50.0, 100.0, 250.0, 500.0, base];
        let step = steps.iter().map(|factor| factor * power).find(|step| step * 4.0 >= most).unwrap_or(most / 4.0);
        Self { from: 0.0, to: step * 4.0, is_log: false }
    }

    /// The place of a value, 0 to 1; outside it is at the nearer end.
    fn at(self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Values at which a line is drawn.
    fn ticks(self) -> Vec<f64> {
        if self.is_log {
            return (self.from as i32..=self.to as i32).map(|decade| 10_f64.powi(decade)).collect();
        }
        (0..=4).map(|quarter| self.to * f64::from(quarter) / 4.0).collect()
    }
}

/// A picture that grows.
struct Chart {
    text: String,
    x: Scale,
    y: Scale,
}

impl Chart {
    /// Axes with their names and ticks.
    fn new(title: &str, (x, x_ticks): (Scale, &[(f64, String)]), (y, y_ticks): (Scale, &[(f64, String)])) -> Self {
        let (width, height) = SIZE;
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"system-ui,sans-serif\" font-size=\"11\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"13\">{}</text>\n",
            escaped(title)
        );
        let mut chart = Self { text, x, y };
        let (right, bottom) = (LEFT + INNER.0, TOP + INNER.1);
        for (value, label) in x_ticks {
            let x = chart.left(*value);
            chart.stroke(&format!("M{x:.1} {TOP}V{bottom}"), "#eaeef2", "");
            chart.word((x, bottom + 16.0), "middle", "#57606a", label);
        }
        for (value, label) in y_ticks {
            let y = chart.top(*value);
            chart.stroke(&format!("M{LEFT} {y:.1}H{right}"), "#eaeef2", "");
            chart.word((LEFT - 6.0, y + 4.0), "end", "#57606a", label);
        }
        chart
    }

    fn left(&self, x: f64) -> f64 {
        LEFT + INNER.0 * self.x.at(x)
    }

    fn top(&self, y: f64) -> f64 {
        TOP + INNER.1 * (1.0 - self.y.at(y))
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let corners = points.iter().map(|&(x, y)| format!("{:.1} {:.1}", self.left(x), self.top(y)));
        format!("M{}", corners.collect::<Vec<_>>().join("L"))
    }

    fn stroke(&mut self, path: &str, colour: &str, more: &str) {
        let _ = writeln!(self.text, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" {more}/>");
    }

    fn word(&mut self, (x, y): (f64, f64), anchor: &str, colour: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), radius: f64, style: &str, told: &str) {
        let (x, y, told) = (self.left(x), self.top(y), escaped(told));
        let _ = writeln!(
            self.text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" {style}><title>{told}</title></circle>"
        );
    }

    fn done(self) -> String {
        self.text + "</svg>\n"
    }
}

/// Kernels of the edited iteration under the roofs of its first device, filled, and as measured, hollow; `None` where the
/// work of none is known.
pub(super) fn roofline(loaded: &Loaded, outcome: &Outcome) -> Option<String> {
    /// The area of a marker is the kernel's time; the longest is so large.
    const LARGEST: f64 = 14.0;
    let device = outcome.resolved.devices.first()?;
    let edited = Edited::of(&outcome.resolved);
    let times = Times::Simulated { timed: &edited.timed, schedule: &outcome.schedule };
    let beside = on_other_devices(&outcome.resolved.devices);
    let now = kernels(&edited, times, (device, &beside));
    let traced = Edited::of(&loaded.replay.resolved);
    let is_edited = outcome.steps.iter().any(|step| step.enabled);
    let before = loaded.replay.resolved.devices.first().filter(|_| is_edited);
    let before = before.map_or_else(Vec::new, |device| kernels(&traced, Times::Measured, (device, &beside)));
    let both = || now.iter().chain(&before);
    let used: BTreeSet<Precision> = both().map(|point| device.units_named(point.computed_with)).collect();
    let roofs: Vec<(Precision, Roofs)> = used.into_iter().map(|it| (it, Roofs::of(device, it))).collect();
    let x = Scale::decades(both().filter_map(|it| it.intensity).chain(roofs.iter().map(|(_, it)| it.ridge())))?;
    let y = Scale::decades(both().map(|it| it.throughput).chain(roofs.iter().map(|(_, it)| it.peak.0)))?;
    let x_ticks: Vec<(f64, String)> = x.ticks().into_iter().map(|value| (value, figure(value))).collect();
    let y_ticks: Vec<(f64, String)> =
        y.ticks().into_iter().map(|value| (value, format!("{} TFLOP/s", figure(value / 1e12)))).collect();
    let title = format!("Kernels under the roofs of {}, over FLOP per byte; hollow: as measured", device.id);
    let mut chart = Chart::new(&title, (x, &x_ticks), (y, &y_ticks));
    if let Some(left_out) = left_out(&beside, device) {
        chart.word((LEFT, TOP - 4.0), "start", "#57606a", &left_out);
    }
    for (precision, roofs) in &roofs {
        let ends = [10_f64.powf(x.from), roofs.ridge(), 10_f64.powf(x.to)];
        let line: Vec<(f64, f64)> = ends.iter().map(|&it| (it, roofs.attainable(it, f64::INFINITY).0)).collect();
        chart.stroke(&chart.path(&line), "#57606a", "");
        let units = precision.key().replace("_tensor", "");
        let label = format!("{units} {} TFLOP/s", figure(roofs.peak.0 / 1e12));
        chart.word((LEFT + INNER.0 - 4.0, chart.top(roofs.peak.0) - 4.0), "end", "#57606a", &label);
    }
    let longest = both().map(|it| it.load.seconds).fold(f64::MIN_POSITIVE, f64::max);
    for (points, is_filled) in [(&before, false), (&now, true)] {
        for point in points {
            let Some(intensity) = point.intensity else { continue };
            let colour = colour(point.family.name());
            let fill = if is_filled { colour } else { "none" };
            let style = format!("fill=\"{fill}\" fill-opacity=\"0.6\" stroke=\"{colour}\"");
            let told = format!(
                "{}: {} GFLOP/s of {}, {} ms",
                short_name(&point.label),
                figure(point.throughput / 1e9),
                figure(point.attainable / 1e9),
                figure(point.load.seconds * 1e3)
            );
            let radius = 2.0 + LARGEST * (point.load.seconds / longest).sqrt();
            chart.dot((intensity, point.throughput), radius, &style, &told);
        }
    }
    Some(chart.done())
}

/// The kernels whose arithmetic and traffic are known.
fn kernels(edited: &Edited, times: Times<'_>, (device, beside): (&DeviceProfile, &[bool])) -> Vec<Point> {
    let place = Place { device, factors: [1.0; 3], beside };
    let [points] = points_at((&edited.graph, &edited.works), times, &place, [Level::Kernel]);
    points.into_iter().filter(|point| point.throughput > 0.0 && point.intensity.is_some()).collect()
}

/// Throughput and memory over batch sizes around that of the edited iteration.
///
/// # Errors
/// Why there are none to be drawn.
pub(super) fn batches(engine: &Engine, loaded: &Loaded, outcome: &Outcome) -> Result<String, String> {
    let batch = outcome.summary.batch.map(|(_, now)| now);
    let sweeps = [Sweep::around("batch", batch)?];
    let asked: Vec<Vec<f64>> = sweeps[0].points();
    let points = SweepRun::new(engine, loaded, &outcome.scenario, &sweeps).points(&asked);
    let points: Vec<(f64, SweepPoint)> = points
        .into_iter()
        .filter(|point| point.not_done.is_none())
        .filter_map(|point| Some((point.value("batch")?, point)))
        .collect();
    if points.len() < 2 {
        return Err("this iteration cannot be done at another batch size".to_owned());
    }
    let present = batch.unwrap_or(0) as f64;
    let logs: Vec<f64> = points.iter().map(|(batch, _)| batch.log10()).collect();
    let x = Scale { from: logs[0], to: logs[logs.len() - 1], is_log: true };
    let x_ticks: Vec<(f64, String)> = points.iter().map(|(batch, _)| (*batch, figure(*batch))).collect();
    let memory = memory(&points, (x, &x_ticks), outcome);
    let memory = memory.unwrap_or_else(|| "<p>no chart of device memory: it is not known</p>\n".to_owned());
    Ok(throughput(&points, (x, &x_ticks), present) + &memory)
}

fn throughput(points: &[(f64, SweepPoint)], x: (Scale, &[(f64, String)]), present: f64) -> String {
    let y = Scale::linear(points.iter().map(|(_, point)| point.throughput_range().1), 10.0);
    let ticks: Vec<(f64, String)> = y.ticks().into_iter().map(|it| (it, format!("{} /s", figure(it)))).collect();
    let mut chart = Chart::new("Samples per second over batch size, with the band", x, (y, &ticks));
    let mut around: Vec<(f64, f64)> =
        points.iter().map(|(batch, point)| (*batch, point.throughput_range().1)).collect();
    around.extend(points.iter().rev().map(|(batch, point)| (*batch, point.throughput_range().0)));
    let _ = writeln!(chart.text, "<path d=\"{}Z\" fill=\"#1f6feb\" fill-opacity=\"0.15\"/>", chart.path(&around));
    let line: Vec<(f64, f64)> = points.iter().map(|(batch, point)| (*batch, point.throughput)).collect();
    chart.stroke(&chart.path(&line), "#1f6feb", "stroke-width=\"2\"");
    for (batch, point) in points {
        let fits = if point.fits == Some(false) { ", does not fit" } else { "" };
        let told = format!("{batch}: {} /s, {}{fits}", figure(point.throughput), point.steady_ns);
        let fill = if point.fits == Some(false) { "#fff" } else { "#1f6feb" };
        let radius = if (*batch - present).abs() < 0.5 { 6.0 } else { 3.0 };
        chart.dot((*batch, point.throughput), radius, &format!("fill=\"{fill}\" stroke=\"#1f6feb\""), &told);
    }
    chart.done()
}

/// Memory over batch size; `None` where it is not known.
fn memory(points: &[(f64, SweepPoint)], x: (Scale, &[(f64, String)]), outcome: &Outcome) -> Option<String> {
    let held: Vec<(f64, f64)> =
        points.iter().filter_map(|(batch, point)| Some((*batch, point.memory_bytes?.0 as f64))).collect();
    if held.len() < 2 {
        return None;
    }
    let limit = outcome.summary.memory.as_ref().and_then(|memory| memory.device_bytes);
    let y = Scale::linear(held.iter().map(|(_, bytes)| *bytes).chain(limit.map(|limit| limit.0 as f64)), 1024.0);
    let ticks: Vec<(f64, String)> = y.ticks().into_iter().map(|it| (it, Bytes(it as u64).to_string())).collect();
    let title = limit.map_or_else(
        || "Device memory over batch size".to_owned(),
        |limit| format!("Device memory over batch size; the device has {limit}"),
    );
    let mut chart = Chart::new(&title, x, (y, &ticks));
    chart.stroke(&chart.path(&held), "#1a7f37", "stroke-width=\"2\"");
    if let Some(limit) = limit {
        let y = chart.top(limit.0 as f64);
        chart.stroke(&format!("M{LEFT} {y:.1}H{}", LEFT + INNER.0), "#d1242f", "stroke-dasharray=\"4 3\"");
    }
    Some(chart.done())
}

/// A figure with three digits, as short as it can be.
fn figure(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        return format!("{value:.0e}");
    }
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}
