//! For terminals without Unicode: every symbol of a finished frame replaced by an ASCII one of the same width.

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr;

/// Replaces all symbols that are not ASCII.
pub fn flatten(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let substitute = substitute(cell.symbol());
            cell.set_symbol(substitute);
        }
    }
}

/// Whether the environment (`variable` looks one up) says that the terminal shows no Unicode.
pub fn is_needed(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if set("TERM").is_some_and(|term| term == "dumb") {
        return true;
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name));
    locale.is_some_and(|locale| !locale.to_lowercase().replace('-', "").contains("utf8"))
}

fn substitute(symbol: &str) -> &'static str {
    match symbol {
        "─" | "━" | "═" | "–" | "−" | "—" | "╌" | "┄" | "┈" | "▂" | "▃" | "░" => "-",
        "│" | "┃" | "▏" | "▕" | "▎" | "╎" | "┊" => "|",
        "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" => "+",
        "█" | "▉" | "▊" | "▋" | "▇" | "▆" => "#",
        "▓" => "%",
        "▞" => "&",
        "▚" => "@",
        "▌" | "▍" | "▐" | "▅" | "▄" | "▀" | "▒" => "=",
        "▁" => "_",
        "→" | "▸" | "▶" | "›" | "≥" => ">",
        "←" | "◂" | "◀" | "‹" | "≤" => "<",
        "↑" | "▲" => "^",
        "↓" | "▼" | "▾" | "✓" => "v",
        "■" | "◆" | "•" | "★" => "*",
        "○" | "◇" | "□" | "●" => "o",
        "◉" => "O",
        "·" | "⋯" => ".",
        "Δ" => "d",
        "×" | "✗" => "x",
        "÷" | "╱" => "/",
        "±" | "≈" | "…" => "~",
        "µ" | "μ" => "u",
        _ if symbol.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c)) => ".",
        _ if symbol.width() == 2 => "..",
        _ => ".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_locale_that_says_otherwise_needs_ascii() {
        let needed = |set: &'static [(&str, &str)]| {
            is_needed(move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(!needed(&[]));
        assert!(!needed(&[("LANG", "C.UTF-8")]));
        assert!(needed(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]));
        assert!(needed(&[("TERM", "dumb")]));
    }

    #[test]
    fn what_is_cut_and_marks_of_a_chart_stay_told_apart() {
        let all: std::collections::BTreeSet<_> = ["●", "◉", "★", "×", "·", "…"].map(substitute).into();
        assert_eq!(all.len(), 6, "{all:?}");
    }

    #[test]
    fn substitutes_are_as_wide_as_what_they_stand_for() {
        for symbol in ["─", "▏", "█", "→", "µ", "字", "é", "┊", "┄", "╱", "≤", "░"] {
            assert_eq!(substitute(symbol).width(), symbol.width(), "{symbol}");
            assert!(substitute(symbol).is_ascii() && !substitute(symbol).contains('?'));
        }
    }
}
