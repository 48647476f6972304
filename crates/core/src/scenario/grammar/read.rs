//! Line → values: which text each argument of an edit has, then its value.

use crate::scenario::text::{StepError, Word, Words};

use super::{Argument, Form, Grammar, Value};

/// What a line says.
#[derive(Debug)]
pub struct Reading {
    /// In which form of the edit.
    pub form: &'static Form,
    /// By argument its value and the column of its text; `None` for one that is left out.
    pub values: Vec<Option<(Value, usize)>>,
}

/// Reads what follows the name of an edit.
///
/// # Errors
/// The column of what is missing, unknown, out of range or too much.
pub fn read(grammar: &'static Grammar, words: Words<'_>) -> Result<Reading, StepError> {
    let begins = |form: &&Form| {
        let keyword = form.arguments.first().map_or("", Argument::keyword);
        keyword.is_empty() || words.clone().next().is_some_and(|word| word.text == keyword)
    };
    let Some(form) = grammar.forms.iter().find(begins).or(grammar.forms.last()) else {
        return Err(StepError::at(1, format!("`{}` has no form", grammar.name)));
    };
    let mut reader = Reader { grammar, form, words };
    let mut values = Vec::with_capacity(form.arguments.len());
    for at in 0..form.arguments.len() {
        values.push(reader.argument(at)?);
    }
    reader.end(&values)?;
    Ok(Reading { form, values })
}

struct Reader<'a> {
    grammar: &'static Grammar,
    form: &'static Form,
    words: Words<'a>,
}

impl<'a> Reader<'a> {
    fn argument(&mut self, at: usize) -> Result<Option<(Value, usize)>, StepError> {
        let argument = &self.form.arguments[at];
        if !self.lead(argument)? {
            return Ok(None);
        }
        let next = self.form.arguments.get(at + 1);
        let word = if argument.kind.is_phrase() { self.phrase(next)? } else { self.word(argument, next)? };
        if argument.is_optional && argument.keyword().is_empty() && word.text.is_empty() {
            return Ok(None);
        }
        Ok(argument.kind.read(argument, word)?.map(|value| (value, word.column)))
    }

    /// Takes what stands before an argument; false where that is not there and need not be.
    fn lead(&mut self, argument: &Argument) -> Result<bool, StepError> {
        if !argument.has_word() {
            let is_there = self.words.take_text(argument.keyword());
            let is_wrong = !is_there && !argument.is_optional;
            return if is_wrong { Err(self.expected(argument.keyword())) } else { Ok(is_there) };
        }
        for (number, keyword) in argument.keyword().split(' ').enumerate() {
            let mut ahead = self.words.clone();
            if ahead.next().is_some_and(|word| word.text == keyword) {
                self.words = ahead;
            } else if number == 0 && argument.is_optional {
                return Ok(false);
            } else {
                return Err(self.expected(keyword));
            }
        }
        Ok(true)
    }

    fn expected(&self, keyword: &str) -> StepError {
        let found = self.words.clone().next().map(|word| format!("`{}`: ", word.text)).unwrap_or_default();
        StepError::at(self.words.column(), format!("{found}expected `{keyword}`"))
    }

    /// The next word, or the part of it before what is joined to it; empty where there is none.
    fn word(&mut self, argument: &Argument, next: Option<&Argument>) -> Result<Word<'a>, StepError> {
        let (start, column) = (self.words.start(), self.words.column());
        let Some(word) = self.words.clone().next() else { return Ok(Word { text: "", column }) };
        let end = match next.filter(|next| next.is_joined()) {
            None => word.text.len(),
            Some(next) => word.text.find(next.lead).ok_or_else(|| {
                let names = [argument.name, next.lead, next.name].concat();
                StepError::at(column, format!("`{}`: expected {names}", word.text))
            })?,
        };
        Ok(self.words.up_to(start + end))
    }

    /// The text up to where the next argument begins.
    fn phrase(&mut self, next: Option<&Argument>) -> Result<Word<'a>, StepError> {
        let Some(next) = next else { return Ok(self.words.rest()) };
        let last = self.words.placed().last();
        if next.has_word() {
            return match self.words.between(next.keyword()) {
                Some(end) => Ok(self.words.up_to(end)),
                None => self.without(next),
            };
        }
        match last {
            // One that may be left out is told by its keyword.
            Some((start, word)) if next.is_optional && word.text.starts_with(next.keyword()) => {
                Ok(self.words.up_to(start))
            }
            _ if next.is_optional => Ok(self.words.rest()),
            Some((start, word)) if !is_term(word.text) && start > self.words.start() => Ok(self.words.up_to(start)),
            last => {
                let column = last.filter(|(_, word)| !is_term(word.text)).map(|(_, word)| word.column);
                let column = column.unwrap_or_else(|| self.words.end());
                let (usage, name) = (self.form.usage(), self.grammar.name);
                let example = self.grammar.example.strip_prefix(name).unwrap_or_default().trim();
                Err(StepError::at(column, format!("expected {}, e.g. `{example}`", usage.trim())))
            }
        }
    }

    /// All that is left, where the keyword of the next argument is not there.
    ///
    /// # Errors
    /// It has to be there, it is misspelt, or nothing comes before or after it.
    fn without(&mut self, next: &Argument) -> Result<Word<'a>, StepError> {
        let (keyword, usage) = (next.keyword(), self.form.usage());
        let (words, usage) = (self.words.clone(), usage.trim());
        let start = words.column();
        if let Some(word) = words.misspelt(keyword) {
            return Err(StepError::unknown(word.column, "word", word.text, [keyword]));
        }
        let is_there = words.placed().any(|(_, word)| word.text == keyword);
        if next.is_optional && !is_there {
            return Ok(self.words.rest());
        }
        let end = words.end();
        Err(match words.last() {
            Some(last) if last.text == keyword => {
                StepError::at(end, format!("expected what comes after `{keyword}`: {usage}"))
            }
            Some(_) => StepError::at(end, format!("expected `{keyword}`: {usage}")),
            None => StepError::at(start, format!("expected {usage}")),
        })
    }

    /// Refuses words that belong to no argument.
    fn end(&mut self, values: &[Option<(Value, usize)>]) -> Result<(), StepError> {
        let Some(extra) = self.words.clone().next() else { return Ok(()) };
        let left_out = self.form.arguments.last().zip(values.last()).filter(|(_, value)| value.is_none());
        match left_out.filter(|(argument, _)| argument.has_word()) {
            Some((argument, _)) => Err(self.expected(argument.keyword())),
            None => Err(StepError::at(extra.column, format!("`{}` is too much: {}", extra.text, self.grammar.usage()))),
        }
    }
}

/// Whether a word belongs to a selector and is no value of its own, as `64->128` is.
fn is_term(word: &str) -> bool {
    word.len() > 1 && (word.contains(['=', '~', '<', ')']) || word.replace("->", "").contains('>'))
}
