//! Theme files: TOML → styles by role, ancestors first.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

use super::{BUILTIN, Paint, Role, Theme, ThemeError, colour};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThemeFile {
    inherits: Option<String>,
    #[serde(default)]
    palette: BTreeMap<String, String>,
    #[serde(default)]
    styles: BTreeMap<String, StyleEntry>,
    #[serde(default)]
    bars: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum StyleEntry {
    Foreground(String),
    Full(FullStyle),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FullStyle {
    fg: Option<String>,
    bg: Option<String>,
    modifiers: Vec<ModifierName>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModifierName {
    Bold,
    Italic,
    Underline,
    Reverse,
}

impl From<ModifierName> for Modifier {
    fn from(name: ModifierName) -> Self {
        match name {
            ModifierName::Bold => Self::BOLD,
            ModifierName::Italic => Self::ITALIC,
            ModifierName::Underline => Self::UNDERLINED,
            ModifierName::Reverse => Self::REVERSED,
        }
    }
}

/// The styles of all roles and the colours of all paints of theme `name`.
pub(super) fn resolve(name: &str, files: &[(String, String)]) -> Result<(Vec<Style>, Vec<Color>), ThemeError> {
    let merged = merged(name, files)?;
    check_keys(name, &merged)?;
    let styles = Role::ALL.iter().map(|role| {
        let entry = merged.styles.get(role.key()).ok_or_else(|| missing(name, role.key()))?;
        style(name, role.key(), entry, &merged.palette)
    });
    let bars = Paint::ALL.iter().map(|paint| {
        let text = merged.bars.get(paint.key()).ok_or_else(|| missing(name, paint.key()))?;
        find(name, paint.key(), text, &merged.palette)
    });
    Ok((styles.collect::<Result<_, _>>()?, bars.collect::<Result<_, _>>()?))
}

/// The theme with all that it inherits.
fn merged(name: &str, files: &[(String, String)]) -> Result<ThemeFile, ThemeError> {
    let mut chain = vec![parse(name, files)?];
    let mut seen = vec![name.to_owned()];
    while let Some(parent) = chain.last().and_then(|file| file.inherits.clone()) {
        if seen.contains(&parent) {
            return Err(ThemeError::Circle { theme: name.to_owned() });
        }
        chain.push(parse(&parent, files)?);
        seen.push(parent);
    }
    let mut merged = ThemeFile::default();
    for file in chain.into_iter().rev() {
        merged.palette.extend(file.palette);
        merged.styles.extend(file.styles);
        merged.bars.extend(file.bars);
    }
    Ok(merged)
}

fn parse(name: &str, files: &[(String, String)]) -> Result<ThemeFile, ThemeError> {
    let user = files.iter().find(|(theme, _)| theme == name).map(|(_, text)| text.as_str());
    let text = user.or_else(|| BUILTIN.iter().find(|(theme, _)| *theme == name).map(|&(_, text)| text));
    let unknown = || ThemeError::Unknown { name: name.to_owned(), known: Theme::names(files).join(", ") };
    let text = text.ok_or_else(unknown)?;
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let reason = format!("line {}: {}", before.matches('\n').count() + 1, error.message());
        ThemeError::Syntax { theme: name.to_owned(), reason }
    })
}

fn check_keys(theme: &str, merged: &ThemeFile) -> Result<(), ThemeError> {
    let known_role = |key: &&String| Role::ALL.iter().any(|role| role.key() == key.as_str());
    let known_paint = |key: &&String| Paint::ALL.iter().any(|paint| paint.key() == key.as_str());
    let wrong = merged.styles.keys().find(|key| !known_role(key));
    match wrong.or_else(|| merged.bars.keys().find(|key| !known_paint(key))) {
        Some(key) => Err(ThemeError::Role { theme: theme.to_owned(), key: key.clone(), reason: "is no role" }),
        None => Ok(()),
    }
}

fn missing(theme: &str, key: &str) -> ThemeError {
    ThemeError::Role { theme: theme.to_owned(), key: key.to_owned(), reason: "has no style" }
}

fn style(theme: &str, key: &str, entry: &StyleEntry, palette: &BTreeMap<String, String>) -> Result<Style, ThemeError> {
    let full = match entry {
        StyleEntry::Foreground(fg) => &FullStyle { fg: Some(fg.clone()), ..FullStyle::default() },
        StyleEntry::Full(full) => full,
    };
    let mut style = Style::new();
    if let Some(fg) = &full.fg {
        style = style.fg(find(theme, key, fg, palette)?);
    }
    if let Some(bg) = &full.bg {
        style = style.bg(find(theme, key, bg, palette)?);
    }
    Ok(full.modifiers.iter().fold(style, |style, &name| style.add_modifier(name.into())))
}

fn find(theme: &str, key: &str, text: &str, palette: &BTreeMap<String, String>) -> Result<Color, ThemeError> {
    let named = palette.get(text).map_or(text, String::as_str);
    colour::parse(named).ok_or_else(|| ThemeError::Colour {
        theme: theme.to_owned(),
        key: key.to_owned(),
        colour: text.to_owned(),
    })
}
