//! Colours and styles by role: the only place of the program that names a colour.
//!
//! Themes are TOML (`themes/`), embedded, with `inherits` and `[palette]`. A theme is fitted to what the terminal can
//! show: true colour, 256 colours, 16 colours, or none.

mod colour;
mod file;
mod role;

use ratatui::style::{Color, Modifier, Style};
use thiserror::Error;

pub use colour::Depth;
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
