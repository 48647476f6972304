//! A table of names: each distinct text is kept once and named by a four-byte id.
//!
//! Text is made safe for a terminal on its way in, so that nothing read from a trace can ever
//! reach the screen with control characters in it. Knows nothing of what the names mean.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// A name in a [`NameTable`]. `NameId(0)` is always the empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Distinct texts, in order of first appearance.
#[derive(Clone, Debug)]
pub struct NameTable {
    text: String,
    /// End of each text in `text`; its start is the end of the one before.
    ends: Vec<u32>,
    index: HashTable<u32>,
    hasher: BuildHasherDefault<FxHasher>,
}

impl PartialEq for NameTable {
    /// Equal when they hold the same texts under the same ids.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.ends == other.ends
    }
}

impl Eq for NameTable {}

impl Default for NameTable {
    fn default() -> Self {
        Self::new()
    }
}

impl NameTable {
    /// A table that holds only the empty text.
    pub fn new() -> Self {
        let mut table = Self {
            text: String::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: BuildHasherDefault::default(),
        };
        table.intern("");
        table
    }

    /// The id of `text`, which is added if it is new. Characters that a terminal would take for commands or show as
    /// something else are replaced first (see [`printable`]). A table holds at most 4 GiB of text; beyond that the empty text is returned.
    pub fn intern(&mut self, text: &str) -> NameId {
        // What is in the table is clean, so only a text that is new needs checking.
        match self.find(text) {
            Some(id) => id,
            None if is_printable(text) => self.add_clean(self.hash(text.as_bytes()), text),
            None => self.intern(&printable(text)),
        }
    }

    fn hash(&self, text: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text);
        hasher.finish()
    }

    fn add_clean(&mut self, hash: u64, text: &str) -> NameId {
        let Ok(end) = u32::try_from(self.text.len() + text.len()) else { return NameId(0) };
        let id = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(end);
        let mut index = std::mem::take(&mut self.index);
        index.insert_unique(hash, id, |&other| self.hash(slice(&self.text, &self.ends, other).as_bytes()));
        self.index = index;
        NameId(id)
    }

    /// The id of `text` if it is in the table.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.find_bytes(text.as_bytes())
    }

    /// The id of the text whose bytes are `text`, if it is in the table: what is there need not be checked to be text.
    pub fn find_bytes(&self, text: &[u8]) -> Option<NameId> {
        let is_same = |&id: &u32| slice(&self.text, &self.ends, id).as_bytes() == text;
        self.index.find(self.hash(text), is_same).map(|&id| NameId(id))
    }

    /// The text of `id`; empty for an id of another table that is out of range.
    pub fn get(&self, id: NameId) -> &str {
        slice(&self.text, &self.ends, id.0)
    }

    /// Gives back the room to grow.
    pub fn shrink_to_fit(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// How many distinct texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never true: the empty text is always there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All ids with their texts, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        self.since(0)
    }

    /// As [`iter`](Self::iter), without the first `known`.
    pub fn since(&self, known: usize) -> impl Iterator<Item = (NameId, &str)> {
        (known as u32..self.ends.len() as u32).map(|id| (NameId(id), self.get(NameId(id))))
    }
}

fn slice<'a>(buffer: &'a str, ends: &[u32], id: u32) -> &'a str {
    let Some(&end) = ends.get(id as usize) else { return "" };
    let start = if id == 0 { 0 } else { ends[id as usize - 1] };
    &buffer[start as usize..end as usize]
}

/// Whether every character of `text` may be sent to a terminal as it is.
pub fn is_printable(text: &str) -> bool {
    if text.is_ascii() {
        return text.bytes().all(|b| (0x20..0x7f).contains(&b));
    }
    text.chars().all(|c| substitute(c).is_none())
}

/// `text` with control characters shown as their pictures (`␛`), C1 controls, characters that show as nothing or change the
/// direction of writing, and those that change what stands before them to another width, as `�`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| substitute(c).unwrap_or(c)).collect()
}

fn substitute(c: char) -> Option<char> {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32),
        '\x7f' => Some('␡'),
        // C1 controls, line and paragraph separators, notes between lines, tones of skin.
        '\u{80}'..='\u{9f}' | '\u{2028}'..='\u{2029}' | '\u{fff9}'..='\u{fffb}' | '\u{1f3fb}'..='\u{1f3ff}' => {
            Some(char::REPLACEMENT_CHARACTER)
        }
        // Default_Ignorable_Code_Point [UAX #44]: what a terminal shows of them, and how wide, is anyone's guess.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => Some(char::REPLACEMENT_CHARACTER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_an_id_and_come_back_unchanged() {
        let mut names = NameTable::new();
        let a = names.intern("aten::mm");
        let b = names.intern("aten::add");
        assert_eq!(names.intern("aten::mm"), a);
        assert_ne!(a, b);
        assert_eq!((names.get(a), names.get(b), names.get(NameId(0))), ("aten::mm", "aten::add", ""));
        assert_eq!(names.find("aten::add"), Some(b));
        assert_eq!(names.find("aten::sub"), None);
    }

    #[test]
    fn control_characters_never_enter_the_table() {
        let mut names = NameTable::new();
        let id = names.intern("a\x1b[2J\u{9b}31m\u{202e}\u{61c}\u{e0041}b\n");
        assert_eq!(names.get(id), "a␛[2J\u{fffd}31m\u{fffd}\u{fffd}\u{fffd}b␊");
        assert!(names.iter().all(|(_, text)| is_printable(text)));
        assert_eq!(
            printable("☁\u{fe0f} 👩\u{200d}👩 👍\u{1f3fd} \u{ad}\u{115f}é 字"),
            "☁\u{fffd} 👩\u{fffd}👩 👍\u{fffd} \u{fffd}\u{fffd}é 字"
        );
    }

    #[test]
    fn an_unknown_id_is_the_empty_text() {
        assert_eq!(NameTable::new().get(NameId(77)), "");
    }
}
