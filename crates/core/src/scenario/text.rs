//! A step's line as words with their columns, and the numbers in it.

use super::nearest::distance;
use super::step::StepError;

/// The words of a line, taken one after another.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    line: &'a str,
    /// Byte position of what has not been taken.
    at: usize,
}

/// A word and where it stands.
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

    /// Column of the next word, or one past the end.
    pub fn column(&self) -> usize {
        let rest = &self.line[self.at..];
        let skipped = rest.len() - rest.trim_start().len();
        column(self.line, self.at + skipped)
    }

    /// What has not been taken, trimmed, and takes it.
    pub fn rest(&mut self) -> Word<'a> {
        let column = self.column();
        let text = self.line[self.at..].trim();
        self.at = self.line.len();
        Word { text, column }
    }

    /// What stands before the last word, and the last word; takes both. `None` without a word.
    pub fn split_last(&mut self) -> Option<(Word<'a>, Word<'a>)> {
        let rest = self.rest();
        let start = rest.text.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let last = &rest.text[start..];
        let before = Word { text: rest.text[..start].trim_end(), column: rest.column };
        let last = Word { text: last, column: rest.column + rest.text[..start].chars().count() };
        (!last.text.is_empty()).then_some((before, last))
    }

    /// What stands before ` keyword ` and what stands after it; takes nothing when it does not occur.
    pub fn split_at(&mut self, keyword: &str) -> Option<(Word<'a>, Word<'a>)> {
        let from = self.at;
        let rest = self.rest();
        let padded = format!(" {keyword} ");
        let Some(found) = rest.text.find(&padded) else {
            self.at = from;
            return None;
        };
        let after = &rest.text[found + padded.len()..];
        let skipped = rest.text[..found + padded.len()].chars().count();
        let lead = after.chars().count() - after.trim_start().chars().count();
        let second = Word { text: after.trim(), column: rest.column + skipped + lead };
        Some((Word { text: rest.text[..found].trim_end(), column: rest.column }, second))
    }

    /// What stands before ` keyword ` and what stands after it; takes both.
    ///
    /// # Errors
    /// The keyword is not there, with its column where it is misspelt; `form` says what the whole should look like.
    pub fn halves(&mut self, keyword: &str, form: &str) -> Result<(Word<'a>, Word<'a>), StepError> {
        let start = self.column();
        let mut rest = self.clone();
        if let Some(halves) = self.split_at(keyword) {
            return Ok(halves);
        }
        let all: Vec<Word<'a>> = rest.by_ref().collect();
        let misspelt = all.iter().skip(1).find(|word| is_near(word.text, keyword));
        match (misspelt, all.last()) {
            (Some(word), _) => Err(StepError::unknown(word.column, "word", word.text, [keyword])),
            (None, Some(last)) if last.text == keyword => {
                Err(StepError::at(rest.column(), format!("expected what comes after `{keyword}`: {form}")))
            }
            (None, Some(_)) => Err(StepError::at(rest.column(), format!("expected `{keyword}`: {form}"))),
            (None, None) => Err(StepError::at(start, format!("expected {form}"))),
        }
    }

    /// As [`Self::halves`] where the second half may be missing.
    ///
    /// # Errors
    /// The keyword stands last or is misspelt.
    pub fn optional_half(&mut self, keyword: &str, form: &str) -> Result<(Word<'a>, Option<Word<'a>>), StepError> {
        let mut words = self.clone();
        let is_meant = words.any(|word| word.text == keyword || is_near(word.text, keyword));
        if is_meant {
            return self.halves(keyword, form).map(|(first, second)| (first, Some(second)));
        }
        Ok((self.rest(), None))
    }

    /// The next word.
    ///
    /// # Errors
    /// There is none; `what` says what was expected.
    pub fn expect(&mut self, what: &str) -> Result<Word<'a>, StepError> {
        let column = self.column();
        self.next().ok_or_else(|| StepError::at(column, format!("expected {what}")))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
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
    /// A whole number within `range`.
    ///
    /// # Errors
    /// Not a whole number, or out of range; the message says the range.
    pub fn whole(self, range: std::ops::RangeInclusive<u64>) -> Result<u64, StepError> {
        let digits = self.text.replace(['_', ','], "");
        let value = digits.parse().ok().filter(|value| range.contains(value));
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

/// `value` as short as it can be read back: `2`, `0.5`.
pub fn short(value: f64) -> String {
    format!("{value}")
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
    fn lines_split_at_the_last_word_and_at_keywords() {
        let mut words = Words::new("scale a & b x2");
        words.next();
        let (before, last) = words.clone().split_last().unwrap();
        assert_eq!((before.text, before.column, last.text, last.column), ("a & b", 7, "x2", 13));
        let mut words = Words::new("replace a  with  b");
        words.next();
        let (a, b) = words.split_at("with").unwrap();
        assert_eq!((a.text, b.text, b.column), ("a", "b", 18));
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
