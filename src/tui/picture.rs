//! The screen as a file that others look at: a picture (SVG), or its text.

use std::collections::BTreeMap;
use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier, Style};

use crate::session::escaped;

use super::theme::hex;

/// Pixels of a cell, and of its letters.
const CELL: (f64, f64) = (8.0, 17.0);
const LETTERS: f64 = 13.0;
/// Where letters stand in a cell, from above.
const BASELINE: f64 = 13.0;
/// Ground and letters where a theme leaves both to the terminal.
const PLAIN: (&str, &str) = ("#101014", "#d8d8d8");

/// The lines of a screen.
pub fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// How a piece of a line looks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Look {
    ink: String,
    ground: String,
    is_bold: bool,
    is_underlined: bool,
    is_dim: bool,
}

impl Look {
    fn of(cell: &Cell, (ground, ink): (&str, &str)) -> Self {
        let has = |modifier| cell.modifier.contains(modifier);
        let mut look = Self {
            ink: hex(cell.fg).unwrap_or_else(|| ink.to_owned()),
            ground: hex(cell.bg).unwrap_or_else(|| ground.to_owned()),
            is_bold: has(Modifier::BOLD),
            is_underlined: has(Modifier::UNDERLINED),
            is_dim: has(Modifier::DIM),
        };
        if has(Modifier::REVERSED) {
            std::mem::swap(&mut look.ink, &mut look.ground);
        }
        look
    }

    /// Its letters as attributes.
    fn attributes(&self) -> String {
        let mut text = format!("fill=\"{}\"", self.ink);
        for (on, attribute) in [
            (self.is_bold, " font-weight=\"bold\""),
            (self.is_underlined, " text-decoration=\"underline\""),
            (self.is_dim, " opacity=\"0.6\""),
        ] {
            if on {
                text.push_str(attribute);
            }
        }
        text
    }
}

/// A picture of a screen whose ground and letters have a style.
pub fn svg(buffer: &Buffer, style: Style) -> String {
    let colour = |colour: Option<Color>, plain: &str| colour.and_then(hex).unwrap_or_else(|| plain.to_owned());
    let (ground, ink) = (colour(style.bg, PLAIN.0), colour(style.fg, PLAIN.1));
    let (width, height) = (f64::from(buffer.area.width) * CELL.0, f64::from(buffer.area.height) * CELL.1);
    let mut body = String::new();
    let mut looks: BTreeMap<String, usize> = BTreeMap::new();
    for y in 0..buffer.area.height {
        let looked = |x: u16| Look::of(&buffer[(x, y)], (&ground, &ink));
        let mut x = 0;
        while x < buffer.area.width {
            let (from, look) = (x, looked(x));
            while x < buffer.area.width && looked(x) == look {
                x += 1;
            }
            let (at, top) = (f64::from(from) * CELL.0, f64::from(y) * CELL.1);
            if look.ground != ground {
                rect(&mut body, (at, top, f64::from(x - from) * CELL.0, CELL.1), &look.ground, 1.0);
            }
            letters(&mut body, buffer, (from, x, y), &look, &mut looks);
        }
    }
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"{LETTERS}\" \
         xml:space=\"preserve\">\n<style>text{{white-space:pre}}"
    );
    for (attributes, number) in &looks {
        let _ = write!(text, ".l{number}{{{}}}", attributes.replace("=\"", ":").replace("\" ", ";").replace('"', ""));
    }
    let _ = write!(text, "</style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"{ground}\"/>\n{body}</svg>\n");
    text
}

fn rect(text: &mut String, (x, y, width, height): (f64, f64, f64, f64), fill: &str, opacity: f64) {
    let pale = if opacity < 1.0 { format!(" opacity=\"{opacity}\"") } else { String::new() };
    let _ = writeln!(text, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"{pale}/>");
}

/// The part of a cell that a block symbol fills: left, top, width and height as shares, and how strong.
fn block(symbol: &str) -> Option<(f64, f64, f64, f64, f64)> {
    const LEFT: [&str; 8] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
    const LOWER: [&str; 7] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇"];
    let eighths = |at: usize| (at + 1) as f64 / 8.0;
    if let Some(at) = LEFT.iter().position(|known| *known == symbol) {
        return Some((0.0, 0.0, eighths(at), 1.0, 1.0));
    }
    if let Some(at) = LOWER.iter().position(|known| *known == symbol) {
        return Some((0.0, 1.0 - eighths(at), 1.0, eighths(at), 1.0));
    }
    match symbol {
        "▀" => Some((0.0, 0.0, 1.0, 0.5, 1.0)),
        "▐" => Some((0.5, 0.0, 0.5, 1.0, 1.0)),
        "▕" => Some((0.875, 0.0, 0.125, 1.0, 1.0)),
        "░" => Some((0.0, 0.0, 1.0, 1.0, 0.25)),
        _ => None,
    }
}

/// What is written from column `from` to `to`: blocks as areas, the rest as letters that keep to their cells.
fn letters(
    text: &mut String,
    buffer: &Buffer,
    (from, to, y): (u16, u16, u16),
    look: &Look,
    looks: &mut BTreeMap<String, usize>,
) {
    let top = f64::from(y) * CELL.1;
    let mut x = from;
    while x < to {
        let symbol = buffer[(x, y)].symbol();
        let start = x;
        let filled = block(symbol);
        let is_part = |x: u16| {
            let here = buffer[(x, y)].symbol();
            if filled.is_some() { here == symbol } else { block(here).is_none() }
        };
        while x < to && is_part(x) {
            x += 1;
        }
        let at = f64::from(start) * CELL.0;
        if let Some((left, above, wide, high, strength)) = filled {
            // Whole cells join; parts of one stand in each.
            let pieces = if wide < 1.0 { 1 } else { x - start };
            let strength = if look.is_dim { strength * 0.6 } else { strength };
            for piece in 0..(x - start) / pieces {
                let area = (
                    at + (f64::from(piece) + left) * CELL.0,
                    top + above * CELL.1,
                    wide * CELL.0 * f64::from(pieces),
                    high * CELL.1,
                );
                rect(text, area, &look.ink, strength);
            }
            continue;
        }
        let written: String = (start..x).map(|x| buffer[(x, y)].symbol()).collect();
        let trimmed = written.trim_end();
        if trimmed.trim().is_empty() {
            continue;
        }
        let lead = written.chars().take_while(|&c| c == ' ').count();
        let count = looks.len();
        let class = *looks.entry(look.attributes()).or_insert(count);
        let (at, baseline) = (at + lead as f64 * CELL.0, top + BASELINE);
        let length = trimmed.trim_start().chars().count() as f64 * CELL.0;
        let _ = writeln!(
            text,
            "<text class=\"l{class}\" x=\"{at}\" y=\"{baseline}\" textLength=\"{length}\">{}</text>",
            escaped(trimmed.trim_start())
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn a_picture_has_letters_blocks_and_grounds_in_their_cells() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        buffer.set_string(1, 0, "a<b", Style::new().fg(Color::Rgb(255, 0, 0)));
        buffer.set_string(0, 1, "██▌", Style::new().fg(Color::Rgb(0, 255, 0)).bg(Color::Rgb(0, 0, 255)));
        let shown = svg(&buffer, Style::new().bg(Color::Rgb(0, 0, 0)));
        for wanted in [
            "viewBox=\"0 0 48 34\"",
            ".l0{fill:#ff0000}",
            "<text class=\"l0\" x=\"8\" y=\"13\" textLength=\"24\">a&lt;b</text>",
            "<rect x=\"0\" y=\"17\" width=\"24\" height=\"17\" fill=\"#0000ff\"/>",
            "<rect x=\"0\" y=\"17\" width=\"16\" height=\"17\" fill=\"#00ff00\"/>",
            "<rect x=\"16\" y=\"17\" width=\"4\" height=\"17\" fill=\"#00ff00\"/>",
        ] {
            assert!(shown.contains(wanted), "{wanted} is not in {shown}");
        }
    }
}
