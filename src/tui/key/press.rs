//! A key press in its canonical form, and its name: `C-p`, `S-left`, `space`, `?`.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with its modifiers. For a character shift is part of the character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPress {
    code: KeyCode,
    ctrl: bool,
    alt: bool,
    shift: bool,
}

const NAMED: [(&str, KeyCode); 17] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("space", KeyCode::Char(' ')),
    ("minus", KeyCode::Char('-')),
    ("plus", KeyCode::Char('+')),
];

impl From<KeyEvent> for KeyPress {
    fn from(event: KeyEvent) -> Self {
        let modifiers = event.modifiers;
        let (code, backtab) = match event.code {
            KeyCode::BackTab => (KeyCode::Tab, true),
            code => (code, false),
        };
        let is_character = matches!(code, KeyCode::Char(_));
        Self {
            code,
            ctrl: modifiers.contains(KeyModifiers::CONTROL),
            alt: modifiers.contains(KeyModifiers::ALT),
            shift: backtab || (modifiers.contains(KeyModifiers::SHIFT) && !is_character),
        }
    }
}

impl KeyPress {
    /// The event that a terminal sends for it.
    pub fn event(self) -> KeyEvent {
        let flags =
            [(self.ctrl, KeyModifiers::CONTROL), (self.alt, KeyModifiers::ALT), (self.shift, KeyModifiers::SHIFT)];
        let modifiers = flags.iter().filter(|(on, _)| *on).fold(KeyModifiers::NONE, |all, (_, one)| all | *one);
        KeyEvent::new(self.code, modifiers)
    }
}

impl FromStr for KeyPress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut rest, mut press) = (text, Self { code: KeyCode::Null, ctrl: false, alt: false, shift: false });
        loop {
            let flag = match rest.get(..2) {
                Some("C-") if rest.len() > 2 => &mut press.ctrl,
                Some("A-") if rest.len() > 2 => &mut press.alt,
                Some("S-") if rest.len() > 2 => &mut press.shift,
                _ => break,
            };
            *flag = true;
            rest = &rest[2..];
        }
        press.code =
            code(rest).ok_or_else(|| format!("{text:?} is no key; keys are written like C-p, S-left, space, f1, x"))?;
        if let KeyCode::Char(c) = press.code
            && press.shift
        {
            press.code = KeyCode::Char(c.to_ascii_uppercase());
            press.shift = false;
        }
        Ok(press)
    }
}

fn code(name: &str) -> Option<KeyCode> {
    if let Some(&(_, code)) = NAMED.iter().find(|(known, _)| *known == name) {
        return Some(code);
    }
    let mut characters = name.chars();
    match (characters.next()?, characters.as_str()) {
        (c, "") => Some(KeyCode::Char(c)),
        ('f', number) => number.parse().ok().filter(|n| (1..=12).contains(n)).map(KeyCode::F),
        _ => None,
    }
}

impl fmt::Display for KeyPress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, prefix) in [(self.ctrl, "C-"), (self.alt, "A-"), (self.shift, "S-")] {
            if on {
                f.write_str(prefix)?;
            }
        }
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            (_, KeyCode::Char(c)) if c != ' ' => write!(f, "{c}"),
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::F(n)) => write!(f, "f{n}"),
            (None, other) => write!(f, "{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_read_back_as_the_same_key() {
        for name in ["C-p", "S-left", "space", "?", "S-tab", "f12", "A-x", "Q", "minus", ":"] {
            let press: KeyPress = name.parse().unwrap();
            let shown = press.to_string();
            assert_eq!(shown.parse(), Ok(press), "{name} shows as {shown}");
        }
        assert_eq!("S-m".parse::<KeyPress>().unwrap().to_string(), "M");
        assert!("hyper".parse::<KeyPress>().is_err());
    }

    #[test]
    fn a_terminals_events_are_brought_to_one_form() {
        let shifted = KeyPress::from(KeyEvent::new(KeyCode::Char('M'), KeyModifiers::SHIFT));
        assert_eq!(Ok(shifted), "M".parse());
        assert_eq!(Ok(KeyPress::from(KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT))), "S-tab".parse());
        for name in ["C-r", "S-right", "x"] {
            let press: KeyPress = name.parse().unwrap();
            assert_eq!(KeyPress::from(press.event()), press);
        }
    }
}
