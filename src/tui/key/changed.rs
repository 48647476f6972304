//! Keys that meant something else in the first version: what they meant is said when one is pressed for the first time.

use crate::tui::command::Pane;

/// A key whose meaning has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// Where.
    pub pane: Pane,
    /// The key, as keymaps name it.
    pub key: &'static str,
    /// What does now what it did, in a few words.
    pub now: &'static str,
}

/// All of them.
pub const CHANGED: [ChangedKey; 7] = [
    ChangedKey { pane: Pane::Timeline, key: "H", now: "H leaves out the family now; :hide its lane" },
    ChangedKey { pane: Pane::Table, key: "/", now: "/ looks for text now; a selector narrows" },
    ChangedKey { pane: Pane::Compare, key: "n", now: "n is the next hit now; a keeps the steps" },
    ChangedKey { pane: Pane::Sweep, key: "v", now: "v is chart or table now; K chooses the knob" },
    ChangedKey { pane: Pane::Sweep, key: "enter", now: "enter looks closer now; A puts it in force" },
    ChangedKey { pane: Pane::Tables, key: "enter", now: "enter looks closer now; A adds the plan" },
    ChangedKey { pane: Pane::Timeline, key: "z", now: "z zooms to a marked range now; without one it folds" },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::key::{KeyPress, Keymap};

    #[test]
    fn every_key_that_changed_still_does_something_there() {
        let map = Keymap::standard();
        for ChangedKey { pane, key, now } in CHANGED {
            let press: KeyPress = key.parse().unwrap();
            assert!(map.get(pane, press).is_some() && now.starts_with(key), "{key}");
        }
    }
}
