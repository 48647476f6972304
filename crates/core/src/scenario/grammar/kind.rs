//! The kinds of arguments: how a value of each is read and written.

use crate::cost::operators::{known_operators, operator_family};
use crate::scenario::nearest::nearest;
use crate::scenario::selector::Selector;
use crate::scenario::tables::Plan;
use crate::scenario::text::{StepError, Word, short};
use crate::units::{DurNs, TIME_UNITS, parse_quantity};

use super::{Argument, Value};

/// What values an argument takes. Ranges include both ends.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Tasks.
    Selector,
    /// A device of the catalog.
    Device,
    /// An interconnect.
    Link,
    /// Where host overheads are from: [`SOURCES`], or a file.
    Overheads,
    /// Where embedding tables go.
    Plan,
    /// An operator whose cost is known.
    Operator,
    /// A name of the user's choice.
    Name,
    /// A time with its unit.
    Time,
    /// One of some words; first what such a word is called.
    Choice(&'static str, &'static [&'static str]),
    /// A whole number.
    Whole(u64, u64),
    /// A number.
    Number(f64, f64),
    /// A factor that is written without an x, and read with one too.
    Ratio(f64, f64),
    /// A factor, `x0.5`. One that may be left out is left out where it is 1.
    Factor(f64, f64),
}

/// What a factor may begin with.
const TIMES: [char; 4] = ['x', 'X', '×', '*'];

/// Where host overheads may be from besides a file.
pub(in crate::scenario) const SOURCES: [&str; 2] = ["measured", "mean"];

impl Kind {
    /// Whether a value may be of several words.
    pub(super) fn is_phrase(self) -> bool {
        matches!(self, Self::Selector | Self::Device | Self::Overheads | Self::Plan)
    }

    /// Reads the value of `argument`; `None` where it says no more than leaving it out does.
    pub(super) fn read(self, argument: &Argument, word: Word<'_>) -> Result<Option<Value>, StepError> {
        if word.text.is_empty() && !matches!(self, Self::Selector) {
            return Err(StepError::at(word.column, format!("expected {}", argument.what)));
        }
        Ok(Some(match self {
            Self::Selector => Value::Selector(Selector::parse_at(word.text, word.column)?),
            Self::Plan => Value::Plan(Plan::parse_at(word.text, word.column)?),
            Self::Device | Self::Link | Self::Overheads | Self::Name => Value::Text(word.text.to_owned()),
            Self::Operator => operator(argument, word)?,
            Self::Time => Value::Time(duration(word)?, word.text.to_owned()),
            Self::Choice(what, among) => {
                let found = among.iter().position(|name| *name == word.text);
                let unknown = || StepError::unknown(word.column, what, word.text, among.iter().copied());
                Value::Choice(found.ok_or_else(unknown)?)
            }
            Self::Whole(from, to) => Value::Whole(word.whole(from..=to)?),
            Self::Number(from, to) => Value::Number(word.number(&[], from..=to)?),
            Self::Ratio(from, to) => Value::Number(word.number(&TIMES, from..=to)?),
            Self::Factor(from, to) => {
                let factor = word.number(&TIMES, from..=to)?;
                if argument.is_optional && (factor - 1.0).abs() < f64::EPSILON {
                    return Ok(None);
                }
                Value::Number(factor)
            }
        }))
    }

    /// A value as a line has it.
    pub(in crate::scenario) fn written(self, value: &Value) -> String {
        match (value, self) {
            (Value::Selector(selector), _) => selector.to_string(),
            (Value::Plan(plan), _) => plan.to_string(),
            (Value::Text(text) | Value::Time(_, text), _) => text.clone(),
            (Value::Whole(number), _) => number.to_string(),
            (Value::Number(factor), Self::Factor(..)) => format!("x{}", short(*factor)),
            (Value::Number(number), _) => short(*number),
            (Value::Choice(number), Self::Choice(_, among)) => {
                among.get(*number).copied().unwrap_or_default().to_owned()
            }
            (Value::Choice(_), _) => String::new(),
        }
    }
}

/// A time with its unit.
fn duration(word: Word<'_>) -> Result<DurNs, StepError> {
    let ns = parse_quantity(word.text, TIME_UNITS, None).filter(|ns| (0.0..=1e13).contains(ns));
    ns.map(|ns| DurNs(ns.round() as i64)).ok_or_else(|| {
        let expected = "expected a time from 0s to 10000s with its unit, e.g. 35us";
        StepError::at(word.column, format!("`{}`: {expected}", word.text))
    })
}

/// Operators whose cost is known, as PyTorch calls them.
pub(super) fn operators() -> impl Iterator<Item = String> {
    known_operators().filter(|name| *name != "_local_scalar_dense").map(|name| format!("aten::{name}"))
}

/// Refuses an operator whose cost no model knows.
fn operator(argument: &Argument, word: Word<'_>) -> Result<Value, StepError> {
    if operator_family(word.text).is_some() {
        return Ok(Value::Text(word.text.to_owned()));
    }
    let known: Vec<String> = operators().collect();
    let nearest = nearest(word.text, known.iter().map(String::as_str)).map(str::to_owned);
    let hint = nearest.as_ref().map_or(", e.g. aten::relu".to_owned(), |name| format!("; did you mean `{name}`?"));
    let message = format!("`{}`: expected {}{hint}", word.text, argument.what);
    Err(StepError { nearest, ..StepError::at(word.column, message) })
}
