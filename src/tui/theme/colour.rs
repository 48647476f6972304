//! Colours as text, and fitted to what a terminal can show.

use ratatui::style::{Color, Modifier, Style};

/// How many colours a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 24-bit.
    True,
    /// The 256 of xterm.
    Indexed,
    /// The sixteen ANSI colours.
    Ansi,
    /// None: bold, underline and reverse only.
    Mono,
}

impl Depth {
    /// What the environment says, `variable` looking one up: `NO_COLOR`, `COLORTERM`, `TERM`.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).unwrap_or_default();
        let term = set("TERM");
        match set("COLORTERM").as_str() {
            _ if !set("NO_COLOR").is_empty() || term == "dumb" => Self::Mono,
            "truecolor" | "24bit" => Self::True,
            _ if term.ends_with("-direct") => Self::True,
            _ if term.contains("256color") => Self::Indexed,
            _ => Self::Ansi,
        }
    }
}

/// The colour that `text` names: `#rrggbb`, `default`, or an ANSI name (`red`, `bright-red`).
pub(super) fn parse(text: &str) -> Option<Color> {
    if let Some(hex) = text.strip_prefix('#') {
        let value = u32::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 6)?;
        return Some(Color::Rgb((value >> 16) as u8, (value >> 8) as u8, value as u8));
    }
    Some(match text {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "white" => Color::Gray,
        "bright-black" => Color::DarkGray,
        "bright-red" => Color::LightRed,
        "bright-green" => Color::LightGreen,
        "bright-yellow" => Color::LightYellow,
        "bright-blue" => Color::LightBlue,
        "bright-magenta" => Color::LightMagenta,
        "bright-cyan" => Color::LightCyan,
        "bright-white" => Color::White,
        _ => return None,
    })
}

/// `style` with colours that a terminal of `depth` has; without colours a coloured ground becomes reverse video.
pub(super) fn fit(style: Style, depth: Depth) -> Style {
    if depth != Depth::Mono {
        let fitted = |colour: Option<Color>| colour.map(|colour| fit_colour(colour, depth));
        return Style { fg: fitted(style.fg), bg: fitted(style.bg), ..style };
    }
    let plain = Style { fg: None, bg: None, ..style };
    let has_own_ground = style.bg.is_some() && style.add_modifier.contains(Modifier::BOLD);
    if has_own_ground { plain.add_modifier(Modifier::REVERSED) } else { plain }
}

/// The colour of a terminal of `depth` that is nearest to `colour`.
pub(super) fn fit_colour(colour: Color, depth: Depth) -> Color {
    match (colour, depth) {
        (_, Depth::Mono) => Color::Reset,
        (Color::Rgb(r, g, b), Depth::Indexed | Depth::Ansi) => Color::Indexed(nearest(r, g, b)),
        _ => colour,
    }
}

/// The nearest of xterm's colour cube (16–231) and greys (232–255).
fn nearest(r: u8, g: u8, b: u8) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |value: u8| (0..6).min_by_key(|&i| STEPS[i].abs_diff(value)).unwrap_or(0);
    let cube = [step(r), step(g), step(b)];
    let grey = (u32::from(r) + u32::from(g) + u32::from(b)) / 3;
    let grey_index = (grey.saturating_sub(3) / 10).min(23) as u8;
    let grey_value = 8 + 10 * grey_index;
    let distance =
        |to: [u8; 3]| -> u32 { [r, g, b].iter().zip(to).map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum() };
    if distance([grey_value; 3]) < distance(cube.map(|i| STEPS[i])) {
        return 232 + grey_index;
    }
    (16 + 36 * cube[0] + 6 * cube[1] + cube[2]) as u8
}

/// A colour as pictures write it; `None` for the terminal's own.
pub fn hex(colour: Color) -> Option<String> {
    const ANSI: [u32; 16] = [
        0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd, 0xe5_e5e5, 0x7f_7f7f, 0xff_0000,
        0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
    ];
    const NAMED: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    let of_cube = |index: u8| -> u32 {
        const STEPS: [u32; 6] = [0, 95, 135, 175, 215, 255];
        let step = |by: u8| STEPS[usize::from((index - 16) / by % 6)];
        match index {
            0..=15 => ANSI[usize::from(index)],
            16..=231 => (step(36) << 16) | (step(6) << 8) | step(1),
            _ => 0x01_0101 * (8 + 10 * u32::from(index - 232)),
        }
    };
    let value = match colour {
        Color::Rgb(r, g, b) => (u32::from(r) << 16) | (u32::from(g) << 8) | u32::from(b),
        Color::Indexed(index) => of_cube(index),
        named => ANSI[NAMED.iter().position(|known| *known == named)?],
    };
    Some(format!("#{value:06x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_the_colours_of_the_terminal() {
        let hex = |colour| hex(colour).unwrap_or_default();
        assert_eq!(hex(Color::Rgb(18, 52, 86)), "#123456");
        assert_eq!([hex(Color::Indexed(196)), hex(Color::Indexed(232))], ["#ff0000", "#080808"]);
        assert_eq!([hex(Color::White), hex(Color::Reset)], ["#ffffff", ""]);
    }

    #[test]
    fn the_environment_decides_how_many_colours_there_are() {
        let detect = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> = set.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
            Depth::detect(move |name| set.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
        };
        assert_eq!(detect(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Depth::True);
        assert_eq!(detect(&[("TERM", "xterm-256color")]), Depth::Indexed);
        assert_eq!(detect(&[("TERM", "linux")]), Depth::Ansi);
        assert_eq!(detect(&[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]), Depth::Mono);
        assert_eq!(detect(&[("COLORTERM", "truecolor"), ("NO_COLOR", "")]), Depth::True);
    }

    #[test]
    fn colours_map_to_the_nearest_of_256() {
        assert_eq!(fit_colour(Color::Rgb(255, 0, 0), Depth::Indexed), Color::Indexed(196));
        assert_eq!(fit_colour(Color::Rgb(128, 128, 128), Depth::Indexed), Color::Indexed(244));
        assert_eq!(parse("#12345"), None);
        assert_eq!(parse("bright-red"), Some(Color::LightRed));
    }
}
