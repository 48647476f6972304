//! What the critical path is made of, before and after the edits, as bars of one scale.

use std::fmt::Write;

use crate::session::Outcome;
use retime_core::analysis::critical_path::{CriticalPath, explained};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::sources::Sources;
use retime_core::units::DurNs;

use super::html::escaped;
use super::svg::colour;

/// Pixels.
const WIDTH: f64 = 1600.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 130.0;
const BAR: f64 = 22.0;
const LETTER: f64 = 6.2;

/// Time on the critical path by kind, the longest first.
pub(super) fn kinds(outcome: &Outcome) -> Vec<(&'static str, DurNs)> {
    let edited = Edited::of(&outcome.resolved);
    let (graph, timed, schedule) = (&*edited.graph, &*edited.timed, &*outcome.schedule);
    let times = Times::Simulated { timed, schedule };
    let path = CriticalPath::of_job(&Sources { graph, works: &edited.works, timed, schedule, times });
    let mut kinds: Vec<_> = path.by_kind().into_iter().collect();
    kinds.sort_by_key(|&(kind, time)| (std::cmp::Reverse(time), kind));
    kinds
}

/// The bars of paths as an SVG picture.
///
/// # Arguments
/// `bars`: what each is called and made of; kinds keep the place that they have in the first.
pub(super) fn svg(bars: &[(&str, Vec<(&'static str, DurNs)>)]) -> String {
    let length = |kinds: &[(&str, DurNs)]| kinds.iter().map(|&(_, time)| time).sum::<DurNs>();
    let longest = bars.iter().map(|(_, kinds)| length(kinds).0).max().unwrap_or(0).max(1) as f64;
    let height = bars.len() as f64 * (BAR + 8.0);
    let first = bars.first().map_or(&[][..], |(_, kinds)| kinds);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (row, (label, kinds)) in bars.iter().enumerate() {
        let y = row as f64 * (BAR + 8.0);
        let _ = writeln!(text, "<text x=\"8\" y=\"{:.1}\">{label}</text>", y + 15.0);
        let mut x = LEFT;
        let place = |kind: &str| first.iter().position(|&(known, _)| known == kind).unwrap_or(first.len());
        let mut placed = kinds.clone();
        placed.sort_by_key(|&(kind, time)| (place(kind), std::cmp::Reverse(time), kind));
        for (kind, time) in placed {
            let width = (WIDTH - LEFT - RIGHT) * time.0 as f64 / longest;
            write_part(&mut text, (kind, time), (x, y, width));
            x += width;
        }
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 8.0, y + 15.0, length(kinds));
    }
    text.push_str("</svg>\n");
    text
}

fn write_part(text: &mut String, (kind, time): (&str, DurNs), (x, y, width): (f64, f64, f64)) {
    let (colour, name) = (colour(kind), escaped(explained(kind)));
    let _ = writeln!(
        text,
        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\" fill=\"{colour}\"><title>{name}: {time}</title></rect>"
    );
    if width > LETTER * (name.chars().count() as f64 + 1.0) {
        let _ = writeln!(
            text,
            "<text x=\"{:.2}\" y=\"{:.1}\" fill=\"#fff\" pointer-events=\"none\">{name}</text>",
            x + 4.0,
            y + 15.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bars_have_one_scale_and_kinds_keep_their_place() {
        let ms = |ms: i64| DurNs(1_000_000 * ms);
        let before = vec![("conv", ms(60)), ("gemm", ms(40))];
        let picture = svg(&[("before", before), ("after", vec![("gemm", ms(30)), ("conv", ms(20))])]);
        let widths = |picture: &str| -> Vec<String> {
            let parts = picture.lines().filter(|line| line.contains("<title>"));
            parts.map(|line| line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()).collect()
        };
        assert_eq!(widths(&picture), ["792.00", "528.00", "264.00", "396.00"]);
        assert!(picture.contains(">100.0 ms<") && picture.contains(">50.00 ms<"), "{picture}");
    }
}
