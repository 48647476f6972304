//! The keymap: the commands' own keys, changed by the user's `keymap.toml`.
//!
//! The file has a table per pane: `[timeline]`, `"C-l" = "zoom-in"`; an empty command frees a key. Text behind the
//! command's name is its argument.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::KeyPress;
use crate::tui::command::{self, Pane};

/// Why a keymap cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeymapError {
    /// It is not TOML of the form asked for.
    #[error("keymap: {0}")]
    Syntax(String),
    /// There is no such pane.
    #[error("keymap: no pane {0:?}; there are {1}")]
    Pane(String, String),
    /// There is no such key.
    #[error("keymap: {0}")]
    Key(String),
    /// There is no such command.
    #[error("keymap: [{pane}] {key} = {command:?}: no such command")]
    Command {
        /// The pane.
        pane: String,
        /// The key.
        key: String,
        /// The text.
        command: String,
    },
}

/// Which command line each key runs.
#[derive(Clone, Debug, Default)]
pub struct Keymap {
    bindings: FxHashMap<(Pane, KeyPress), String>,
    /// The commands' own keys, where the user changed any.
    own: Option<Box<Keymap>>,
}

impl Keymap {
    /// The commands' own keys, changed by `text`.
    ///
    /// # Errors
    /// See [`KeymapError`].
    pub fn load(text: &str) -> Result<Self, KeymapError> {
        let mut map = Self::standard();
        let tables: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(text).map_err(|error| KeymapError::Syntax(error.message().to_owned()))?;
        for (pane_name, table) in tables {
            let pane = Pane::find(&pane_name).ok_or_else(|| KeymapError::Pane(pane_name.clone(), Pane::names()))?;
            for (key, line) in table {
                let press = key.parse().map_err(KeymapError::Key)?;
                if line.is_empty() {
                    map.bindings.remove(&(pane, press));
                } else if command::find(line.split(' ').next().unwrap_or("")).is_some() {
                    map.bindings.insert((pane, press), line);
                } else {
                    return Err(KeymapError::Command { pane: pane_name, key, command: line });
                }
            }
        }
        let own = Self::standard();
        map.own = (own.bindings != map.bindings).then(|| Box::new(own));
        Ok(map)
    }

    /// The key that does in `pane` what `key` does there by itself: that one or, where the user changed it, the shortest that does;
    /// `None` where none does.
    pub fn in_place_of(&self, key: &str, pane: Pane) -> Option<String> {
        let press = key.parse().ok();
        let does = |map: &Self| press.and_then(|press| map.get(pane, press)).map(str::to_owned);
        match self.own.as_ref().and_then(|own| does(own)) {
            Some(line) if does(self).as_ref() != Some(&line) => self.keys_of(&line, Some(pane)).into_iter().next(),
            _ => Some(key.to_owned()),
        }
    }

    /// The commands' own keys.
    pub fn standard() -> Self {
        let mut map = Self::default();
        for command in command::all() {
            for &(pane, key) in command.keys {
                if let Ok(press) = key.parse() {
                    map.bindings.insert((pane, press), command.name.to_owned());
                }
            }
        }
        map
    }

    /// What `press` runs in `pane`: its own binding, else that of everywhere.
    pub fn get(&self, pane: Pane, press: KeyPress) -> Option<&str> {
        let own = self.bindings.get(&(pane, press));
        own.or_else(|| self.bindings.get(&(Pane::Everywhere, press))).map(String::as_str)
    }

    /// The keys that run `command` in `pane` or everywhere, shortest first.
    pub fn keys_of(&self, command: &str, pane: Option<Pane>) -> Vec<String> {
        let wanted = |&(&(bound, _), line): &(&(Pane, KeyPress), &String)| {
            line == command && pane.is_none_or(|pane| bound == pane || bound == Pane::Everywhere)
        };
        let mut keys: Vec<String> =
            self.bindings.iter().filter(wanted).map(|((_, press), _)| press.to_string()).collect();
        keys.sort_by_key(|key| (key.len(), key.clone()));
        keys.dedup();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_share_a_key_in_a_pane() {
        let mut seen: BTreeMap<(Pane, String), &str> = BTreeMap::new();
        for command in command::all() {
            for &(pane, key) in command.keys {
                let press: KeyPress = key.parse().unwrap();
                let panes: Vec<Pane> = if pane == Pane::Everywhere { Pane::ALL.to_vec() } else { vec![pane] };
                for pane in panes {
                    let before = seen.insert((pane, press.to_string()), command.name);
                    assert!(
                        before.is_none_or(|name| name == command.name),
                        "{key} in {pane:?}: {} and {before:?}",
                        command.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_users_keymap_changes_adds_and_frees_keys() {
        let map = Keymap::load("[timeline]\n\"C-l\" = \"zoom-in\"\nw = \"\"\n[everywhere]\nF = \"path\"").unwrap();
        assert_eq!(map.get(Pane::Timeline, "C-l".parse().unwrap()), Some("zoom-in"));
        assert_eq!(map.get(Pane::Timeline, "w".parse().unwrap()), None);
        assert_eq!(map.get(Pane::Table, "F".parse().unwrap()), Some("path"));
        let shown = |key: &str| map.in_place_of(key, Pane::Timeline);
        assert_eq!((shown("w").as_deref(), shown("s").as_deref()), (Some("+"), Some("s")), "as hints tell them");
        let freed = Keymap::load("[timeline]\nw = \"\"").unwrap();
        assert_eq!(
            freed.in_place_of("w", Pane::Timeline),
            freed.keys_of("zoom-in", Some(Pane::Timeline)).first().cloned()
        );
        assert_eq!(Keymap::standard().in_place_of("w", Pane::Timeline).as_deref(), Some("w"));
    }

    #[test]
    fn a_keymap_of_the_first_version_loads() {
        const PANES: &str = "everywhere, timeline, scenario, table, roofline, sweep, tables, compare";
        let commands = "across advise all-ranks back batch best choose clear-marks close coarser command compact compare \
            compare-by compare-order compare-time copy copy-table cut-columns cut-rows delete down drop-scenario edit \
            expect export export! far-down far-left far-right far-up filter finer first fit fit-all fit-iteration \
            fold fold-all follow fresh gaps goal gpu group help hide host-table iteration knob lane-down lane-up last \
            learn left load load! lower-roof mark measure messages mouse name-scenario next-match next-pane next-roof \
            open open-column open-row operators other-side own-roofs palette pan-left pan-right path pin placement \
            plan planes plans points previous-match quit quit! raise-roof range ranks record redo redraw reference \
            repeat reset right roofline save save! scenario search set-roofs show-all show-row sort source step-down \
            step-up suspend sweep table-after table-before tables theme timeline toggle trace tracks try try-roofs \
            undo unfold-all up view whole-table why zoom-in zoom-out";
        for pane in PANES.split(", ") {
            for command in commands.split(' ') {
                let map = Keymap::load(&format!("[{pane}]\nf12 = \"{command}\""));
                assert!(map.is_ok(), "{pane}: {command}: {map:?}");
            }
        }
    }

    #[test]
    fn a_wrong_keymap_says_what_is_wrong() {
        let message = |text: &str| Keymap::load(text).unwrap_err().to_string();
        assert!(message("[nowhere]\nx = \"quit\"").starts_with("keymap: no pane \"nowhere\"; there are everywhere"));
        assert_eq!(message("[timeline]\nx = \"fly\""), "keymap: [timeline] x = \"fly\": no such command");
        assert!(message("[timeline]\nhyper = \"quit\"").contains("\"hyper\" is no key"));
        assert!(message("x").starts_with("keymap: "));
    }
}
