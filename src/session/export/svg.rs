//! The timeline as an SVG picture: ruler, lanes with a measured and a simulated row, the critical path, a legend.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::session::{Loaded, Outcome, name_for_people};
use retime_core::analysis::critical_path::explained;
use retime_core::units::DurNs;

use super::html::escaped;
use super::picture::{Bar, Picture};

/// Pixels.
const WIDTH: f64 = 1600.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 64.0;
const MEASURED: f64 = 8.0;
const SIMULATED: f64 = 18.0;
const STRIPE: f64 = 3.0;
const LANE: f64 = 42.0;
const LETTER: f64 = 6.2;
/// Colour of the critical path.
const CRITICAL: &str = "#d1242f";

/// The picture of `outcome`.
pub(super) fn svg(loaded: &Loaded, outcome: &Outcome) -> String {
    let picture = Picture::of(outcome, WIDTH - LEFT - RIGHT);
    let lanes = picture.lanes.len() as f64;
    let legend = legend(&picture);
    let height = TOP + lanes * LANE + 24.0 * (1.0 + legend.len().div_ceil(9) as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let summary = &outcome.summary;
    let title = format!(
        "{}: measured {}, simulated {}; upper row measured, lower row simulated, red the critical path",
        loaded.title, summary.measured_ns, summary.simulated_ns
    );
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>", escaped(&title));
    write_ruler(&mut text, picture.span, TOP + lanes * LANE);
    for (index, lane) in picture.lanes.iter().enumerate() {
        let y = TOP + index as f64 * LANE;
        let middle = y + MEASURED + SIMULATED / 2.0 + 5.0;
        let _ = writeln!(text, "<text x=\"8\" y=\"{middle:.1}\">{}</text>", escaped(&lane.label));
        for bar in &lane.measured {
            write_bar(&mut text, bar, y, MEASURED, 0.5);
        }
        for bar in &lane.simulated {
            write_bar(&mut text, bar, y + MEASURED + 2.0, SIMULATED, 1.0);
            write_critical(&mut text, bar, y + MEASURED + 2.0 + SIMULATED);
        }
    }
    write_legend(&mut text, &legend, TOP + lanes * LANE + 16.0);
    text.push_str("</svg>\n");
    text
}

fn write_bar(text: &mut String, bar: &Bar, y: f64, height: f64, opacity: f64) {
    let (x, width) = (LEFT + bar.x.start, (bar.x.end - bar.x.start).max(0.3));
    let what = if bar.name.is_empty() { explained(bar.kind).into() } else { name_for_people(&bar.name) };
    let more = if bar.count > 1 { format!(" and {} more", bar.count - 1) } else { String::new() };
    let _ = writeln!(
        text,
        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{}\" opacity=\"{opacity}\">\
         <title>{}{more}: {}, {}</title></rect>",
        colour(bar.kind),
        escaped(&what),
        bar.time,
        escaped(explained(bar.kind))
    );
    let letters = ((width - 4.0) / LETTER) as usize;
    if height > 10.0 && letters > 3 {
        let label: String = what.chars().take(letters).collect();
        let _ = writeln!(
            text,
            "<text x=\"{:.2}\" y=\"{:.1}\" fill=\"#fff\" pointer-events=\"none\">{}</text>",
            x + 2.0,
            y + height - 5.0,
            escaped(&label)
        );
    }
}

fn write_critical(text: &mut String, bar: &Bar, y: f64) {
    if bar.critical {
        let (x, width) = (LEFT + bar.x.start, (bar.x.end - bar.x.start).max(0.3));
        let _ = writeln!(
            text,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{STRIPE}\" fill=\"{CRITICAL}\"/>"
        );
    }
}

/// Ticks at one, two or five times a power of ten, some ten of them.
fn write_ruler(text: &mut String, span: DurNs, bottom: f64) {
    let step = tick(span);
    let plot = WIDTH - LEFT - RIGHT;
    for number in 0..=span.0 / step.0.max(1) {
        let at = DurNs(number * step.0);
        let x = LEFT + plot * at.0 as f64 / span.0 as f64;
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"44\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#e3e6eb\"/>\
             <text x=\"{x:.1}\" y=\"40\" text-anchor=\"middle\" fill=\"#556\">{at}</text>"
        );
    }
}

fn tick(span: DurNs) -> DurNs {
    let rough = (span.0 / 10).max(1);
    let power = 10_i64.pow(rough.ilog10());
    let factor = [1, 2, 5, 10].into_iter().find(|factor| factor * power >= rough).unwrap_or(10);
    DurNs(factor * power)
}

/// The kinds shown, those first that the simulated rows are longest of.
fn legend(picture: &Picture) -> Vec<&'static str> {
    let mut times: BTreeMap<&'static str, DurNs> = BTreeMap::new();
    for bar in picture.lanes.iter().flat_map(|lane| &lane.simulated) {
        *times.entry(bar.kind).or_default() += bar.time;
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by_key(|&(kind, time)| (std::cmp::Reverse(time), kind));
    times.into_iter().map(|(kind, _)| kind).collect()
}

fn write_legend(text: &mut String, legend: &[&'static str], top: f64) {
    for (index, kind) in legend.iter().enumerate() {
        let (x, y) = (LEFT + (index % 9) as f64 * 158.0, top + (index / 9) as f64 * 22.0);
        let _ = writeln!(
            text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            colour(kind),
            x + 17.0,
            y + 10.0,
            escaped(explained(kind))
        );
    }
}

/// One colour per kind: greys and browns for the host, clear hues for families of kernels.
pub(super) fn colour(kind: &str) -> &'static str {
    match kind {
        "T1" => "#8a94a6",
        "T2" => "#76839a",
        "T3" => "#9aa3b2",
        "T4" => "#5b6472",
        "T5" => "#6d7b93",
        "compute" => "#3d6fb4",
        "gemm" => "#1f6feb",
        "conv" => "#0a4fb3",
        "attention" => "#8250df",
        "embedding" => "#bf5700",
        "norm" => "#1a7f64",
        "softmax" => "#0f8b8d",
        "dropout" => "#5c8001",
        "elementwise" => "#2da44e",
        "reduction" => "#7d6b00",
        "pooling" => "#4d8f6a",
        "movement" => "#a0522d",
        "optimizer" => "#a3387b",
        "memcpy" | "memset" | "transfer" => "#946c44",
        "collective" => "#b8860b",
        _ => "#57606a",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_about_ten() {
        for (span, expected) in [(9_999_388, 1_000_000), (41_000, 5_000), (7, 1), (199_000_000, 20_000_000)] {
            assert_eq!(tick(DurNs(span)), DurNs(expected));
        }
    }
}
