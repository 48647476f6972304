//! The fast reader of one event: notes where the known values are while passing over the text once.
//!
//! A profiler writes events from a few templates, so what stands *between* two values (the separator: `, "dur": `) repeats from
//! event to event. Separators are learnt as a tree: after each value, the separators seen there before are compared with the text,
//! which gives the next key without looking at it. A new separator is read token by token, once. A value that mostly stays the same is
//! taken as part of the separators around it (`"ph": "X", "cat": "cpu_op", "name": `), which are one separator from then on. What PyTorch does
//! not write is given up on, never guessed; the strict reader then decides.

use std::ops::Range;

use super::frequent::FrequentValues;
use super::raw::{Key, RawEvent, Text};
use crate::trace::json::lex::{self, Stop};
use crate::trace::json::pattern::Pattern;

/// Most separators after one value; files with more are read token by token there.
const SEPARATORS_PER_NODE: usize = 24;
/// As many separators after one value are not joined with others any more.
const SEPARATORS_TO_JOIN: usize = 12;
/// Longest separator that values are taken into.
const LONGEST_SEPARATOR: usize = 256;
/// Most nodes of the tree.
const NODES: usize = 4096;

/// The object whose members are being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Event,
    Arguments,
}

/// Where the reader stands between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the event.
    Start,
    /// After an opening brace.
    Open(Level),
    /// After a value.
    After(Level),
}

/// What a separator leads to.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The value of a key, and the place after it.
    Value(Option<Key>, Place),
    /// The end of the event.
    End,
}

#[derive(Clone, Debug)]
struct Separator {
    text: Pattern,
    /// The values in it.
    within: Vec<(Key, Range<usize>)>,
    next: Next,
    /// The values that mostly follow.
    frequent: FrequentValues,
    /// The node after the value; `None` where the tree is full.
    node: Option<u32>,
}

/// The separators seen so far.
#[derive(Clone, Debug)]
pub struct Scanner {
    nodes: Vec<Vec<Separator>>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { nodes: vec![Vec::new()] }
    }
}

impl Scanner {
    /// Reads the event at `text[at..]` into `event`.
    ///
    /// # Returns
    /// The place after it.
    ///
    /// # Errors
    /// [`Stop::NeedMore`] when the window ends inside it, [`Stop::Unexpected`] when it is left to the strict reader.
    pub fn event<'a>(&mut self, text: &'a [u8], mut at: usize, event: &mut RawEvent<'a>) -> Result<usize, Stop> {
        let mut node = Some(0);
        let mut place = Place::Start;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let (of, separators) = (node, node.map_or(&mut [][..], |node: u32| &mut self.nodes[node as usize]));
            let known = separators.iter_mut().enumerate().find(|(_, separator)| separator.text.begins(rest));
            let (next, frequent) = if let Some((number, separator)) = known {
                for (key, range) in &separator.within {
                    event[*key] = Text::of(&rest[range.clone()]);
                }
                at += separator.text.len();
                node = separator.node;
                (separator.next, Some((number, &mut separator.frequent)))
            } else {
                let (end, next) = read_separator(text, at, place)?;
                node = node.and_then(|node| self.learn(node, &text[at..end], next));
                at = end;
                (next, None)
            };
            let Next::Value(key, after) = next else { return Ok(at) };
            let start = lex::skip_space(text, at);
            let is_behind = start == at;
            at = lex::value_end(text, start)?;
            if let (Some(of), Some((number, frequent))) = (of, frequent)
                && frequent.settles(&text[start..at])
                && is_behind
            {
                self.join(of, number, &text[start..at]);
            }
            place = after;
            if let Some(key) = key {
                event[key] = Text::of(&text[start..at]);
            }
        }
    }

    #[cold]
    fn learn(&mut self, node: u32, text: &[u8], next: Next) -> Option<u32> {
        if self.nodes[node as usize].len() >= SEPARATORS_PER_NODE || self.nodes.len() >= NODES {
            return None;
        }
        let following = self.nodes.len() as u32;
        self.nodes.push(Vec::new());
        let (text, frequent) = (Pattern::of(text), FrequentValues::default());
        self.nodes[node as usize].push(Separator { text, within: Vec::new(), next, frequent, node: Some(following) });
        Some(following)
    }

    /// Takes a frequent value behind a separator into the separator, with each of those that stand behind the value.
    #[cold]
    fn join(&mut self, node: u32, number: usize, value: &[u8]) {
        let first = self.nodes[node as usize][number].clone();
        let (Next::Value(key, _), Some(following)) = (first.next, first.node) else { return };
        let from = first.text.len();
        for second in self.nodes[following as usize].clone() {
            let text = [first.text.text(), value, second.text.text()].concat();
            let separators = &mut self.nodes[node as usize];
            let is_known = separators.iter().any(|separator| separator.text.text() == text);
            if is_known || text.len() > LONGEST_SEPARATOR || separators.len() >= SEPARATORS_TO_JOIN {
                continue;
            }
            let behind = from + value.len();
            let moved = second.within.iter().map(|(key, range)| (*key, range.start + behind..range.end + behind));
            let own = key.map(|key| (key, from..behind));
            let within = first.within.iter().cloned().chain(own).chain(moved).collect();
            separators.insert(number, Separator { text: Pattern::of(&text), within, ..second });
        }
    }
}

/// Reads token by token from `at` to the next value.
///
/// # Returns
/// Where the value starts (or the event ends), and what it is.
fn read_separator(text: &[u8], mut at: usize, mut place: Place) -> Result<(usize, Next), Stop> {
    loop {
        at = lex::skip_space(text, at);
        let byte = lex::peek(text, at)?;
        let level = match (place, byte) {
            (Place::Start, b'{') => {
                at += 1;
                place = Place::Open(Level::Event);
                continue;
            }
            (Place::Open(level), b'"') => level,
            (Place::After(level), b',') => {
                at = lex::skip_space(text, at + 1);
                level
            }
            (Place::Open(Level::Event) | Place::After(Level::Event), b'}') => return Ok((at + 1, Next::End)),
            (Place::Open(Level::Arguments) | Place::After(Level::Arguments), b'}') => {
                at += 1;
                place = Place::After(Level::Event);
                continue;
            }
            _ => return Err(Stop::Unexpected),
        };
        let (value, key) = read_key(text, at)?;
        at = value;
        if level == Level::Event && key == b"args" && lex::peek(text, at)? == b'{' {
            at += 1;
            place = Place::Open(Level::Arguments);
            continue;
        }
        let key = match level {
            Level::Event => Key::of_event(key),
            Level::Arguments => Key::of_argument(key),
        };
        return Ok((at, Next::Value(key, Place::After(level))));
    }
}

/// Passes over the key at `at`, its colon and the space after it.
fn read_key(text: &[u8], at: usize) -> Result<(usize, &[u8]), Stop> {
    let (end, escaped) = lex::string_end(text, at)?;
    if escaped {
        return Err(Stop::Unexpected);
    }
    let colon = lex::expect(text, lex::skip_space(text, end), b':')?;
    Ok((lex::skip_space(text, colon), &text[at + 1..end - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` with a scanner that knows nothing, then again with what it has learnt.
    fn agree(scanner: &mut Scanner, text: &str) {
        for _ in 0..2 {
            let mut found = RawEvent::default();
            let end = scanner.event(text.as_bytes(), 0, &mut found);
            assert_eq!((end, found), (Ok(text.len()), serde_json::from_str(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn fields_are_those_that_serde_finds() {
        let mut scanner = Scanner::default();
        for text in [
            r#"{"ph": "X", "cat": "cpu_op", "name": "a\"}b", "ts": 1.5, "args": {"grid": [1, [2]], "x": {"correlation": 3}}}"#,
            r#"{"ph":"X", "cat":  "cpu_op", "name": "b", "ts": 1.5, "args": {"x": {"correlation": 3}, "grid": [1, [2]]}, "pid": 3}"#,
            r#"{ "args" : { } , "tid" : "stream 7" , "dur":null }"#,
            r#"{ "args" : { "correlation":1} , "tid" : "stream 7" , "dur": null }"#,
            r#"{"ts": 1, "args": {"bytes": 1}, "ts": 2, "args": 3}"#,
            "{}",
            "{ }",
        ] {
            agree(&mut scanner, text);
        }
    }

    #[test]
    fn a_full_tree_reads_on_token_by_token() {
        let mut scanner = Scanner::default();
        for i in 0..3 * SEPARATORS_PER_NODE {
            agree(&mut scanner, &format!(r#"{{"ph": "X", "k{i}": 1, "args": {{"correlation": {i}}}}}"#));
        }
        assert!(scanner.nodes.iter().all(|separators| separators.len() <= SEPARATORS_PER_NODE));
    }

    #[test]
    fn values_that_stay_the_same_for_long_are_still_read_when_they_change() {
        let mut scanner = Scanner::default();
        let event = |number: u32, pid: &str, name: &str, stack: &str| {
            format!(
                r#"{{"ph": "X", "cat": "cpu_op", "name": {name}, "pid": {pid}, "ts": {number}, "args": {{"x": null, "Call stack": {stack}, "External id": {number}}}}}"#
            )
        };
        for number in 0..2_000 {
            let odd = number % 100;
            let pid = ["12", "123", "1.2", "null", "\"12\""][if odd < 5 { odd as usize } else { 0 }];
            let (name, stack) =
                (if odd == 7 { r#""a\"12""# } else { r#""a""# }, if odd == 9 { "[1, {}]" } else { r#""""# });
            agree(&mut scanner, &event(number, pid, name, stack));
        }
        assert!(scanner.nodes[0].iter().any(|separator| separator.within.len() >= 4), "{:?}", scanner.nodes[0]);
    }

    #[test]
    fn every_cut_asks_for_more() {
        let text = br#"{"ph": "X", "args": {"grid": [1, 2], "dtype": "Float"}, "ts": 15}"#;
        let mut scanner = Scanner::default();
        for _ in 0..200 {
            for cut in 0..text.len() {
                let result = scanner.event(&text[..cut], 0, &mut RawEvent::default());
                assert_eq!(result, Err(Stop::NeedMore), "cut at {cut}");
            }
            assert_eq!(scanner.event(text, 0, &mut RawEvent::default()), Ok(text.len()));
        }
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_strict_reader() {
        let mut scanner = Scanner::default();
        for text in [r#"{"ph" "X"}"#, r#"{"t\u0073": 1}"#, r#"{"ph": "X" "ts": 1}"#, r#"{"ph": }"#, "[1]", "{,}"] {
            assert_eq!(scanner.event(text.as_bytes(), 0, &mut RawEvent::default()), Err(Stop::Unexpected), "{text}");
        }
    }
}
