//! The last line with views and keys, and the last message, which hides nothing of it.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::tui::app::App;
use crate::tui::canvas::{Canvas, wrap};
use crate::tui::layout::Regions;
use crate::tui::message::Level;
use crate::tui::theme::Role;

use super::{ALL, View};

/// A place on the bar: what is written, and the command that a click runs.
struct Spot {
    key: String,
    label: &'static str,
    line: &'static str,
    is_current: bool,
}

impl Spot {
    fn width(&self) -> u16 {
        (self.key.width() + usize::from(!self.label.is_empty()) + self.label.width()) as u16
    }
}

/// What the bar holds, and the blanks between.
struct Bar {
    spots: Vec<Spot>,
    between: u16,
}

/// Draws the bar.
pub fn render(app: &App, canvas: &mut Canvas<'_>) {
    let bar = bar(app, canvas.width());
    let mut x = 1;
    for spot in bar.spots {
        let role = if spot.is_current { Role::Strong } else { Role::Dim };
        let end = canvas.line(x, 0, &[(spot.key.as_str(), Role::Key), (" ", Role::Dim), (spot.label, role)]);
        if spot.is_current {
            let underlined = ratatui::style::Style::new().add_modifier(ratatui::style::Modifier::UNDERLINED);
            canvas.restyle(end - spot.label.width() as u16, 0, spot.label.width() as u16, underlined);
        }
        x += spot.width() + bar.between;
    }
}
/// The last message at the right of the rule above the details; one that is too long for it stands in their place.
pub fn status(app: &App, regions: &Regions, canvas: &mut Canvas<'_>) {
    let Some(message) = &app.status else { return };
    let (sign, role) = if message.level == Level::Error { ("✗ ", Role::Bad) } else { ("", Role::Accent) };
    let text = format!("{sign}{}", message.text);
    let (rule, details) = (regions.details_rule, regions.details);
    if rule.height > 0 && canvas.part(rule.x, rule.y, rule.width, 1).right(2, 0, 2, &[(format!(" {text} "), role)]) {
        return;
    }
    let lines = wrap(&text, details.width.saturating_sub(2) as usize);
    let shown = lines.len().min(details.height as usize);
    // The keys above stay where there is room for both.
    let below = u16::from(details.height as usize > shown);
    let mut area = canvas.part(details.x, details.y + below, details.width, shown as u16);
    area.clear(Role::Panel);
    for (y, line) in lines.iter().take(shown).enumerate() {
        area.text(1, y as u16, line, role);
    }
    if shown > 0 && shown < lines.len() {
        area.right(0, shown as u16 - 1, 0, &[("… f2 shows all", role)]);
    }
}

/// The command under column `x` of the bar.
pub fn command_at(app: &App, area: Rect, x: u16) -> Option<&'static str> {
    let bar = bar(app, area.width);
    let mut from = area.x + 1;
    for spot in bar.spots {
        let width = spot.width();
        if (from..from + width).contains(&x) {
            return Some(spot.line);
        }
        from += width + bar.between;
    }
    None
}

/// How the views that are not open are named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Whole,
    Brief,
    /// Brief, and only those that a number opens.
    Numbered,
    None,
}

/// What the bar holds: with less room keys go first, then names get shorter, then go but for the open view's.
fn bar(app: &App, width: u16) -> Bar {
    const KEYS: [(&str, &str); 8] = [
        ("help", "help"),
        ("command", "command"),
        ("palette", "find"),
        ("undo", "undo"),
        ("batch", "batch"),
        ("gpu", "gpu"),
        ("try", "edits"),
        ("quit", "quit"),
    ];
    let key = |command: &str| app.keymap.keys_of(command, None).into_iter().next().unwrap_or_default();
    let spot = |line: &'static str, label: &'static str, is_current| Spot { key: key(line), label, line, is_current };
    let views = |names: Names| {
        let is_listed = move |view: &&dyn View| {
            let is_numbered = || key(view.name()).starts_with(|first: char| first.is_ascii_digit());
            let is_left_out = names == Names::Numbered && !is_numbered() && !app.shows(*view);
            !is_left_out && app.workspace().is_some_and(|work| view.is_listed(work))
        };
        ALL.into_iter().filter(is_listed).map(move |view| {
            let is_current = app.shows(view);
            let label = match names {
                Names::Brief | Names::Numbered => view.brief(),
                Names::None if !is_current => "",
                _ => view.name(),
            };
            (view.name(), label, is_current)
        })
    };
    let build = |names: Names, keys: &[(&'static str, &'static str)]| -> Vec<Spot> {
        let views = views(names).map(|(line, label, is_current)| spot(line, label, is_current));
        views.chain(keys.iter().map(|&(line, label)| spot(line, label, false))).collect()
    };
    let wide = [KEYS.len(), 4, 2].map(|keys| (Names::Whole, &KEYS[..keys], 2));
    let variants = wide.into_iter().chain([2, 1].map(|between| (Names::Whole, &KEYS[..1], between)));
    let briefer =
        [Names::Brief, Names::Numbered].map(|names| [(names, &KEYS[..1], 1), (names, &[("help", "")][..], 1)]);
    let briefer = briefer.into_iter().flatten();
    let bare = [4, 2, 1, 0].map(|keys| (Names::None, &KEYS[..keys], 2));
    let mut last = Vec::new();
    for (names, keys, between) in variants.chain(briefer).chain(bare) {
        let spots = build(names, keys);
        if spots.iter().map(|spot| spot.width() + between).sum::<u16>() <= width {
            return Bar { spots, between };
        }
        last = spots;
    }
    Bar { spots: last, between: 1 }
}
