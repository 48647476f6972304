//! Keys of the open view, from the table of commands and the keymap.

use crate::tui::app::App;
use crate::tui::canvas::{Canvas, wrap};
use crate::tui::command::{self, Command, Pane};
use crate::tui::theme::Role;

/// Draws the help.
pub fn render(app: &App, scroll: usize, canvas: &mut Canvas<'_>) {
    let all = lines(app);
    let height = canvas.height() as usize;
    let columns = if canvas.width() >= 110 && all.len() > height { 2 } else { 1 };
    let width = canvas.width() / columns;
    let lines: Vec<Line> = all.into_iter().flat_map(|line| line.wrapped(width.saturating_sub(KEYS + 1))).collect();
    let shown = height * columns as usize;
    let first = scroll.min(lines.len().saturating_sub(shown));
    for (index, line) in lines.iter().skip(first).take(shown).enumerate() {
        let (column, y) = ((index / height.max(1)) as u16, (index % height.max(1)) as u16);
        let mut cell = canvas.part(column * width, y, width.saturating_sub(1), 1);
        match line {
            Line::Title(title) => {
                cell.text(0, 0, title, Role::Title);
            }
            Line::Key(keys, help) => {
                let x = cell.text(1, 0, keys, Role::Key);
                cell.text((x + 1).max(KEYS), 0, help, Role::Text);
            }
            Line::More(help) => {
                cell.text(KEYS, 0, help, Role::Text);
            }
        }
    }
}

/// Column where the explanations begin.
const KEYS: u16 = 15;

enum Line {
    Title(String),
    Key(String, String),
    /// The help of the key above goes on.
    More(String),
}

impl Line {
    /// In as many lines as its help takes.
    fn wrapped(self, width: u16) -> Vec<Self> {
        let Self::Key(keys, help) = self else { return vec![self] };
        let mut parts = wrap(&help, width as usize).into_iter();
        let first = Self::Key(keys, parts.next().unwrap_or_default());
        std::iter::once(first).chain(parts.map(Self::More)).collect()
    }
}

/// Keys of the open pane first, then those that work everywhere; what is done by `:` alone last.
fn lines(app: &App) -> Vec<Line> {
    let pane = app.pane();
    let mut lines = vec![Line::Title(format!("in the {}", pane.name()))];
    lines.extend(bound(app, |command| command.keys.iter().any(|&(bound, _)| bound == pane), Some(pane)));
    lines.push(Line::Title("everywhere".to_owned()));
    lines.extend(bound(app, |command| command.keys.iter().any(|&(bound, _)| bound == Pane::Everywhere), None));
    lines.push(Line::Title("with :".to_owned()));
    let unbound = command::all().filter(|command| app.keymap.keys_of(command.name, None).is_empty());
    lines.extend(unbound.map(|command| Line::Key(format!(":{}", command.name), command.help.to_owned())));
    lines
}

fn bound<'a>(
    app: &'a App,
    is_listed: impl Fn(&Command) -> bool + 'a,
    pane: Option<Pane>,
) -> impl Iterator<Item = Line> + 'a {
    command::all().filter(move |command| is_listed(command)).filter_map(move |command| {
        let keys = app.keymap.keys_of(command.name, pane.or(Some(Pane::Everywhere)));
        (!keys.is_empty()).then(|| Line::Key(keys.join(" "), command.help.to_owned()))
    })
}
