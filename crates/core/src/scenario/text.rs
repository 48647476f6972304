//! A step's line as words with their columns, the numbers in it, and what is said of a line that is no step.

use thiserror::Error;

use crate::device::limits;

use super::nearest::{distance, nearest};

/// The words of a line, taken one after another.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    line: &'a str,
    /// Byte position of what has not been taken.
    at: usize,
}

/// A word, or several, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Its text.
    pub text: &'a str,
    /// Its first column, in characters from 1.
    pub column: usize,
}

impl<'a> Words<'a> {
    /// All of `line`.
    pub fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    /// Byte position of the next word, or of the end.
    pub fn start(&self) -> usize {
        self.line.len() - self.line[self.at..].trim_start().len()
    }

    /// Column of the next word, or one past the end.
    pub fn column(&self) -> usize {
        column(self.line, self.start())
    }

    /// Column one past the end.
    pub fn end(&self) -> usize {
        column(self.line, self.line.len())
    }

    /// What stands before the byte position `end`, trimmed; takes it.
    pub fn up_to(&mut self, end: usize) -> Word<'a> {
        let start = self.start().min(end);
        self.at = end;
        Word { text: self.line[start..end].trim_end(), column: column(self.line, start) }
    }

    /// What has not been taken, trimmed; takes it.
    pub fn rest(&mut self) -> Word<'a> {
        self.up_to(self.line.len())
    }

    /// Takes `text` if it comes next.
    pub fn take_text(&mut self, text: &str) -> bool {
        let found = self.line[self.start()..].starts_with(text);
        if found {
            self.at = self.start() + text.len();
        }
        found
    }

    /// The words that are left, each with its byte position.
    pub fn placed(&self) -> impl Iterator<Item = (usize, Word<'a>)> + use<'a> {
        let mut words = self.clone();
        std::iter::from_fn(move || Some((words.start(), words.next()?)))
    }

    /// Where `keyword` first stands between other words, as a byte position.
    pub fn between(&self, keyword: &str) -> Option<usize> {
        let places: Vec<(usize, Word<'a>)> = self.placed().collect();
        let inner = places.get(1..places.len().saturating_sub(1))?;
        inner.iter().find(|(_, word)| word.text == keyword).map(|&(at, _)| at)
    }

    /// A word that is left and is probably `keyword`, misspelt; never the first.
    pub fn misspelt(&self, keyword: &str) -> Option<Word<'a>> {
        self.placed().skip(1).map(|(_, word)| word).find(|word| is_near(word.text, keyword))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let start = self.start();
        let text = self.line[start..].split(char::is_whitespace).next().filter(|word| !word.is_empty())?;
        self.at = start + text.len();
        Some(Word { text, column: column(self.line, start) })
    }
}

/// Whether `word` is `keyword` with a letter too few, too many or changed.
fn is_near(word: &str, keyword: &str) -> bool {
    word != keyword && word.chars().all(char::is_alphabetic) && distance(word, keyword) <= 2 && word.len() > 2
}

/// Column of the byte position `at`, in characters from 1.
pub fn column(line: &str, at: usize) -> usize {
    line[..at].chars().count() + 1
}

impl Word<'_> {
    /// A whole number within `range`; between groups of three digits may be commas, between any underscores.
    ///
    /// # Errors
    /// Not a whole number, or out of range; the message says the range.
    pub fn whole(self, range: std::ops::RangeInclusive<u64>) -> Result<u64, StepError> {
        let mut groups = self.text.split(',');
        let (first, is_grouped) = (groups.next().unwrap_or_default(), groups.all(|group| group.len() == 3));
        let is_number = is_grouped && ((1..=3).contains(&first.len()) || !self.text.contains(','));
        let digits = self.text.replace(['_', ','], "");
        let value = digits.parse().ok().filter(|value| is_number && range.contains(value));
        let (from, to) = (range.start(), range.end());
        let message = || format!("`{}`: expected a whole number from {from} to {to}", self.text);
        value.ok_or_else(|| StepError::at(self.column, message()))
    }

    /// A number within `range`, after an optional `prefix` (`x2`).
    ///
    /// # Errors
    /// Not a number, or out of range; the message says the range.
    pub fn number(self, prefix: &[char], range: std::ops::RangeInclusive<f64>) -> Result<f64, StepError> {
        let bare = self.text.strip_prefix(prefix).unwrap_or(self.text);
        let value = bare.parse().ok().filter(|value| range.contains(value));
        let (from, to) = (range.start(), range.end());
        let message = || format!("`{}`: expected a number from {from} to {to}", self.text);
        value.ok_or_else(|| StepError::at(self.column, message()))
    }
}

/// So many known words are named where none is near.
const LISTED: usize = 20;

/// Why a line is not a step.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("column {column}: {message}")]
pub struct StepError {
    /// Where in the line, in characters from 1.
    pub column: usize,
    /// What was found and what was expected, in one sentence.
    pub message: String,
    /// The known word nearest to an unknown one.
    pub nearest: Option<String>,
}

impl StepError {
    /// An error at `column`.
    pub fn at(column: usize, message: impl Into<String>) -> Self {
        Self { column, message: message.into(), nearest: None }
    }

    /// An unknown word at `column` where one of `known` was expected; `what` names the kind of word.
    pub fn unknown<'a>(column: usize, what: &str, found: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let nearest = nearest(found, known.iter().copied()).map(str::to_owned);
        let hint = match &nearest {
            Some(word) => format!("; did you mean `{word}`?"),
            None if known.len() <= LISTED => format!(": expected one of {}", known.join(", ")),
            None if what == "transform" => "; `retime transforms` lists them, and `t` on the screen".to_owned(),
            None => String::new(),
        };
        Self { column, message: format!("unknown {what} `{found}`{hint}"), nearest }
    }
}

/// `value` as short as it can be read back: `2`, `0.5`, `1e300`.
pub fn short(value: f64) -> String {
    limits::written(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_columns_in_characters() {
        let mut words = Words::new("  scale  name~µ x2");
        let all: Vec<_> = words.by_ref().map(|word| (word.text, word.column)).collect();
        assert_eq!(all, [("scale", 3), ("name~µ", 10), ("x2", 17)]);
        assert_eq!(words.column(), 19);
    }

    #[test]
    fn keywords_stand_between_other_words() {
        let mut words = Words::new("replace a  with  b with");
        words.next();
        let end = words.between("with").unwrap();
        assert_eq!(
            (words.up_to(end), words.next()),
            (Word { text: "a", column: 9 }, Some(Word { text: "with", column: 12 }))
        );
        assert_eq!((words.between("with"), words.end()), (None, 24));
        assert_eq!(Words::new("replace a wth b").misspelt("with").unwrap().column, 11);
    }

    #[test]
    fn numbers_out_of_range_say_the_range() {
        let word = Word { text: "0", column: 4 };
        assert_eq!(word.whole(1..=9).unwrap_err().to_string(), "column 4: `0`: expected a whole number from 1 to 9");
        let factor = Word { text: "x0.5", column: 1 };
        assert!((factor.number(&['x', '×'], 0.0..=9.0).unwrap() - 0.5).abs() < 1e-12);
        assert!(Word { text: "xNaN", column: 1 }.number(&['x'], 0.0..=9.0).is_err());
    }
}
