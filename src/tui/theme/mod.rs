//! Colours and styles by role: the only place of the program that names a colour.
//!
//! Themes are TOML (`themes/`), embedded, with `inherits` and `[palette]`. A theme is fitted to what the terminal can
//! show: true colour, 256 colours, 16 colours, or none.

mod colour;
mod file;
mod role;

use ratatui::style::{Color, Modifier, Style};
use thiserror::Error;

pub use colour::{Depth, hex};
pub use role::{Paint, Role};

/// The themes that are part of the program.
const BUILTIN: [(&str, &str); 5] = [
    ("dark", include_str!("../../../themes/dark.toml")),
    ("light", include_str!("../../../themes/light.toml")),
    ("high-contrast", include_str!("../../../themes/high-contrast.toml")),
    ("colour-blind-safe", include_str!("../../../themes/colour-blind-safe.toml")),
    ("16-colour", include_str!("../../../themes/16-colour.toml")),
];

/// Why a theme cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ThemeError {
    /// There is none of that name.
    #[error("no theme {name:?}; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// It is not TOML, or has a key that themes do not have.
    #[error("theme {theme}: {reason}")]
    Syntax {
        /// The theme.
        theme: String,
        /// What the reader said.
        reason: String,
    },
    /// A colour is neither in the palette nor a colour.
    #[error("theme {theme}: {key} has no colour {colour:?}")]
    Colour {
        /// The theme.
        theme: String,
        /// The role.
        key: String,
        /// The text.
        colour: String,
    },
    /// A role has no style in the theme or its ancestors, or a key is no role.
    #[error("theme {theme}: {key:?} {reason}")]
    Role {
        /// The theme.
        theme: String,
        /// The role.
        key: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// It inherits from itself.
    #[error("theme {theme} inherits from itself")]
    Circle {
        /// The theme.
        theme: String,
    },
}

/// Styles by role, fitted to a terminal.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    /// Its name.
    pub name: String,
    styles: Vec<Style>,
    bars: Vec<Color>,
    depth: Depth,
}

impl Theme {
    /// The theme `name` of the program or of the user's `files` (name, text), fitted to `depth`.
    ///
    /// # Errors
    /// See [`ThemeError`].
    pub fn load(name: &str, files: &[(String, String)], depth: Depth) -> Result<Self, ThemeError> {
        let name = if depth == Depth::Ansi { "16-colour" } else { name };
        let (styles, bars) = file::resolve(name, files)?;
        let fitted = styles.into_iter().map(|style| colour::fit(style, depth)).collect();
        let bars = bars.into_iter().map(|colour| colour::fit_colour(colour, depth)).collect();
        Ok(Self { name: name.to_owned(), styles: fitted, bars, depth })
    }

    /// The default theme, which a test proves to load.
    pub fn standard(depth: Depth) -> Self {
        let plain = Self {
            name: "plain".to_owned(),
            styles: vec![Style::new(); Role::ALL.len()],
            bars: vec![Color::Reset; Paint::ALL.len()],
            depth,
        };
        Self::load("dark", &[], depth).unwrap_or(plain)
    }

    /// Names of the program's themes and of the user's `files`.
    pub fn names(files: &[(String, String)]) -> Vec<String> {
        let builtin = BUILTIN.iter().map(|&(name, _)| name.to_owned());
        let mut names: Vec<String> = builtin.chain(files.iter().map(|(name, _)| name.clone())).collect();
        names.dedup();
        names
    }

    /// The style of `role`.
    pub fn style(&self, role: Role) -> Style {
        self.styles[role as usize]
    }

    /// A bar's body: text on the bar's colour.
    pub fn bar(&self, paint: Paint) -> Style {
        let text = self.style(Role::BarText);
        match self.depth {
            Depth::Mono => Style::new().add_modifier(Modifier::REVERSED),
            _ => text.bg(self.bars[paint as usize]),
        }
    }

    /// A bar's colour as foreground on the background.
    pub fn ink(&self, paint: Paint) -> Style {
        match self.depth {
            Depth::Mono => Style::new(),
            _ => self.style(Role::Background).fg(self.bars[paint as usize]),
        }
    }

    /// The background as ink on a bar of style `body`: for the empty part of a cell in which a bar begins.
    pub fn gap(&self, body: Style) -> Style {
        match (self.depth, self.style(Role::Background).bg) {
            (Depth::Mono, _) | (_, None | Some(Color::Reset)) => {
                self.ground_as_ink(body).add_modifier(Modifier::REVERSED)
            }
            (_, Some(background)) => body.fg(background),
        }
    }

    /// The ground of `body` as ink on the background.
    pub fn ground_as_ink(&self, body: Style) -> Style {
        match self.depth {
            Depth::Mono => Style::new(),
            _ => self.style(Role::Background).fg(body.bg.unwrap_or(Color::Reset)),
        }
    }

    /// One bar above another in one cell.
    pub fn halves(&self, upper: Paint, lower: Paint) -> (&'static str, Style) {
        match self.depth {
            Depth::Mono => ("█", Style::new()),
            _ => ("▀", Style::new().fg(self.bars[upper as usize]).bg(self.bars[lower as usize])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_theme_gives_every_role_a_style() {
        for (name, _) in BUILTIN {
            for depth in [Depth::True, Depth::Indexed, Depth::Mono] {
                let theme = Theme::load(name, &[], depth);
                assert!(theme.is_ok(), "{name} at {depth:?}: {theme:?}");
            }
        }
        assert_eq!(Theme::standard(Depth::True).name, "dark");
    }

    #[test]
    fn without_colours_no_style_has_one() {
        let theme = Theme::load("light", &[], Depth::Mono).unwrap();
        let coloured = |style: &Style| style.fg.is_some() || style.bg.is_some();
        let first = theme.styles.iter().position(coloured);
        assert_eq!(first.map(|i| Role::ALL[i]), None);
        assert!(Paint::ALL.iter().all(|&paint| !coloured(&theme.bar(paint)) && !coloured(&theme.ink(paint))));
    }

    /// Relative luminance as WCAG defines it; `None` for a colour that the terminal decides.
    fn luminance(colour: Option<Color>) -> Option<f64> {
        let Some(Color::Rgb(r, g, b)) = colour else { return None };
        let part = |value: u8| {
            let share = f64::from(value) / 255.0;
            if share <= 0.03928 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        Some(0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b))
    }

    fn contrast(a: Option<Color>, b: Option<Color>) -> Option<f64> {
        let (a, b) = (luminance(a)?, luminance(b)?);
        Some((a.max(b) + 0.05) / (a.min(b) + 0.05))
    }

    #[test]
    fn text_and_bars_stand_out_in_every_theme() {
        let no_text = [Role::Background, Role::Border, Role::BarText, Role::ChartDim];
        let mut compared = 0;
        for (name, _) in BUILTIN {
            let theme = Theme::load(name, &[], Depth::True).unwrap();
            let ground = theme.style(Role::Background).bg;
            for &role in Role::ALL.iter().filter(|role| !no_text.contains(role)) {
                let style = theme.style(role);
                let Some(found) = contrast(style.fg, style.bg.or(ground)) else { continue };
                assert!(found >= 4.5, "{name}: {} has {found:.2}", role.key());
                compared += 1;
            }
            for &paint in Paint::ALL {
                let bar = theme.bar(paint);
                let Some((from_ground, of_text)) = contrast(bar.bg, ground).zip(contrast(bar.fg, bar.bg)) else {
                    continue;
                };
                assert!(from_ground >= 3.0, "{name}: {} has {from_ground:.2}", paint.key());
                assert!(of_text >= 4.5, "{name}: text on {} has {of_text:.2}", paint.key());
                compared += 1;
            }
        }
        assert!(compared > 3 * (Role::ALL.len() - no_text.len()), "only {compared} were compared");
    }

    /// The colour in OKLab [Ottosson 2020], in which distances are about as they are seen.
    fn oklab(colour: Color) -> Option<[f64; 3]> {
        let Color::Rgb(r, g, b) = colour else { return None };
        let part = |value: u8| {
            let share = f64::from(value) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        let [r, g, b] = [r, g, b].map(part);
        let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
        let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
        let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
        Some([
            0.210_454_255_3 * l + 0.793_617_785 * m - 0.004_072_046_8 * s,
            1.977_998_495_1 * l - 2.428_592_205 * m + 0.450_593_709_9 * s,
            0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766 * s,
        ])
    }

    #[test]
    fn families_are_told_apart_by_colour_and_host_work_is_grey() {
        const LEAST: f64 = 0.04;
        let families: Vec<Paint> = retime_core::cost::work::Family::ALL.into_iter().map(Paint::from).collect();
        for (name, _) in BUILTIN {
            let theme = Theme::load(name, &[], Depth::True).unwrap();
            let colour = |paint: Paint| oklab(theme.bars[paint as usize]);
            for (index, &one) in families.iter().enumerate() {
                for &other in &families[..index] {
                    let Some((a, b)) = colour(one).zip(colour(other)) else { continue };
                    let apart = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    assert!(apart >= LEAST, "{name}: {} and {} are {apart:.3} apart", one.key(), other.key());
                }
            }
            for paint in [Paint::Forward, Paint::Backward, Paint::Host, Paint::Call] {
                let Some([_, a, b]) = colour(paint) else { continue };
                assert!(a.hypot(b) < 0.03, "{name}: {} has a hue", paint.key());
            }
        }
    }

    #[test]
    fn a_palette_that_is_overridden_recolours_what_is_inherited() {
        let files = [("mine".to_owned(), "inherits = 'dark'\n[palette]\naccent = '#010203'".to_owned())];
        let theme = Theme::load("mine", &files, Depth::True).unwrap();
        assert_eq!(theme.style(Role::Accent).fg, Some(Color::Rgb(1, 2, 3)));
    }

    #[test]
    fn a_wrong_theme_says_what_is_wrong() {
        let load = |text: &str| {
            let files = [("mine".to_owned(), text.to_owned())];
            Theme::load("mine", &files, Depth::True).map(|theme| theme.name).unwrap_err().to_string()
        };
        assert_eq!(load("inherits='dark'\n[styles]\ntext='mauvish'"), "theme mine: text has no colour \"mauvish\"");
        assert_eq!(load("inherits='dark'\n[styles]\ntxet='red'"), "theme mine: \"txet\" is no role");
        assert_eq!(load("inherits='mine'"), "theme mine inherits from itself");
        assert_eq!(load(""), "theme mine: \"background\" has no style");
        assert!(load("inherits='nope'").starts_with("no theme \"nope\"; there are dark, light"));
    }
}
