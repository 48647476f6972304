//! What may come next in a line that is being typed.

use crate::scenario::tables::Sharder;
use crate::scenario::text::Words;

use super::kind::{SOURCES, operators};
use super::{Argument, Form, Grammar, Kind};

/// A way to go on.
#[derive(Clone, Copy, Debug)]
pub struct Next<'a> {
    /// The line before what is being typed.
    pub before: &'a str,
    /// What is being typed.
    pub typed: &'a str,
    /// What it becomes.
    pub what: What,
}

/// What a word becomes.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The name of an edit.
    Edit(&'static Grammar),
    /// This text.
    Text(&'static str),
    /// The value of an argument.
    Argument(&'static Argument),
}

impl Argument {
    /// Values that are known without a trace.
    pub fn known(&self) -> Vec<String> {
        match self.kind {
            Kind::Choice(_, among) => among.iter().map(ToString::to_string).collect(),
            Kind::Overheads => SOURCES.map(str::to_owned).to_vec(),
            Kind::Plan => Sharder::ALL.map(Sharder::name).to_vec(),
            Kind::Operator => operators().collect(),
            _ => Vec::new(),
        }
    }
}

/// Ways to go on from `line` with the edits of `table`, in the order of the edit's arguments.
pub(in crate::scenario) fn next<'a>(table: &'static [Grammar], line: &'a str) -> Vec<Next<'a>> {
    let mut words = Words::new(line);
    let name = words.next();
    if !line.trim_start().contains(char::is_whitespace) {
        let of = |grammar| Next { before: "", typed: line, what: What::Edit(grammar) };
        return table.iter().map(of).collect();
    }
    let grammar = table.iter().find(|grammar| name.is_some_and(|word| word.text == grammar.name));
    let mut found = Vec::new();
    for form in grammar.map_or(&[][..], |grammar| grammar.forms) {
        Walk { line, form, found: &mut found }.from(0, words.clone());
    }
    found
}

struct Walk<'a, 'f> {
    line: &'a str,
    form: &'static Form,
    found: &'f mut Vec<Next<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn offer(&mut self, at: usize, what: What) {
        let (before, typed) = self.line.split_at(at);
        self.found.push(Next { before, typed, what });
    }

    /// From argument `at` on, whose text begins at the next of `words`.
    fn from(&mut self, at: usize, mut words: Words<'a>) {
        let Some(argument) = self.form.arguments.get(at) else { return };
        let start = words.start();
        if self.lead(argument, &mut words) {
            self.value(at, words);
        } else if argument.is_optional && words.start() == start {
            self.from(at + 1, words);
        }
    }

    /// Takes what stands before an argument; offers it where it is not there in full.
    fn lead(&mut self, argument: &Argument, words: &mut Words<'a>) -> bool {
        let mut wanted = argument.lead.trim_start();
        while !wanted.is_empty() {
            let start = words.start();
            let length = wanted.find(' ').map_or(wanted.len(), |space| space + 1);
            if !words.take_text(&wanted[..length]) {
                if wanted.starts_with(&self.line[start..]) {
                    self.offer(start, What::Text(wanted));
                }
                return false;
            }
            wanted = &wanted[length..];
        }
        true
    }

    fn value(&mut self, at: usize, mut words: Words<'a>) {
        let (argument, start) = (&self.form.arguments[at], words.start());
        let next = self.form.arguments.get(at + 1);
        let ended = if argument.kind.is_phrase() { self.phrase(&words, next) } else { self.word(&words, next) };
        if let Some(end) = ended {
            words.up_to(end);
            return self.from(at + 1, words);
        }
        self.offer(start, What::Argument(argument));
        let Some(next) = next else { return };
        if argument.kind.is_phrase() {
            // The word that is being typed may already be of the next argument.
            let is_complete = self.line.ends_with(char::is_whitespace);
            let last = if is_complete { Some(self.line.len()) } else { words.placed().last().map(|(last, _)| last) };
            if let Some(last) = last.filter(|&last| last > start) {
                words.up_to(last);
                self.from(at + 1, words);
            }
        } else if next.is_joined() && start < self.line.len() {
            self.offer(self.line.len(), What::Text(next.lead));
        }
    }

    /// Where a word ends that is complete.
    fn word(&self, words: &Words<'a>, next: Option<&Argument>) -> Option<usize> {
        let (start, word) = words.placed().next()?;
        let joined = next.filter(|next| next.is_joined()).and_then(|next| word.text.find(next.lead));
        let end = start + joined.unwrap_or(word.text.len());
        (end < self.line.len()).then_some(end)
    }

    /// Where several words end, since the keyword of the next argument follows.
    fn phrase(&self, words: &Words<'a>, next: Option<&Argument>) -> Option<usize> {
        let next = next.filter(|next| !next.keyword().is_empty())?;
        let begins = |(at, _): &(usize, _)| {
            let found = self.line[*at..].strip_prefix(next.keyword());
            found.is_some_and(|after| !next.has_word() || after.starts_with(char::is_whitespace))
        };
        words.placed().skip(1).find(begins).map(|(at, _)| at)
    }
}
