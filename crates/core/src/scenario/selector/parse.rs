//! Text → expression: recursive descent, `!` binds before `&` before `|`.

use regex_lite::{Regex, RegexBuilder};

use crate::scenario::text::{StepError, column};

use super::field::{FIELDS, Field, FieldSpec};
use crate::units::{SIZE_UNITS, TIME_UNITS, parse_quantity};

/// A selector's meaning.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    /// Every task.
    Everything,
    /// Tasks whose duration an edit predicted.
    Predicted,
    Term(Field, Test),
}

/// What a field is compared with.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// Equal to a text, letters of any case.
    Is(String),
    /// Contains a match.
    Like(Regex),
    /// A number, in ns or bytes where the field has units.
    Number(Comparison, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Comparison {
    pub(super) fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Equal => (value - bound).abs() < f64::EPSILON * bound.abs().max(1.0),
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::More => value > bound,
            Self::MoreOrEqual => value >= bound,
        }
    }
}

impl Expression {
    pub(super) fn mentions_kind(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::mentions_kind),
            Self::Not(part) => part.mentions_kind(),
            Self::Term(field, _) => *field == Field::Kind,
            Self::Everything | Self::Predicted => false,
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Expression, StepError> {
    let mut parser = Parser { text, at: 0 };
    parser.skip();
    if parser.at == text.len() {
        return Err(StepError::at(1, "expected a selector, e.g. `kind=kernel & name~addmm`"));
    }
    let expression = parser.any(0)?;
    parser.skip();
    if parser.peek().is_none() {
        return Ok(expression);
    }
    let word = parser.rest().split_whitespace().next().unwrap_or_default();
    Err(parser.error(format!("`{word}`: expected `&`, `|` or the end of the selector")))
}

/// Deepest nesting of parentheses and negations.
const DEEPEST: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn error(&self, message: impl Into<String>) -> StepError {
        StepError::at(column(self.text, self.at), message)
    }

    /// Takes `symbol`, once or doubled (`&&` reads as `&`).
    fn take(&mut self, symbol: char) -> bool {
        self.skip();
        let found = self.peek() == Some(symbol);
        while found && self.peek() == Some(symbol) {
            self.at += symbol.len_utf8();
        }
        found
    }

    fn any(&mut self, depth: usize) -> Result<Expression, StepError> {
        let mut parts = vec![self.all(depth)?];
        while self.take('|') {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Expression, StepError> {
        let mut parts = vec![self.unary(depth)?];
        while self.take('&') {
            parts.push(self.unary(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn unary(&mut self, depth: usize) -> Result<Expression, StepError> {
        self.skip();
        if depth > DEEPEST {
            return Err(self.error(format!("nested deeper than {DEEPEST}")));
        }
        match self.peek() {
            Some('!') => {
                self.at += 1;
                Ok(Expression::Not(Box::new(self.unary(depth + 1)?)))
            }
            Some('(') => {
                self.at += 1;
                let inside = self.any(depth + 1)?;
                self.skip();
                if self.peek() != Some(')') {
                    return Err(self.error("expected `)`"));
                }
                self.at += 1;
                Ok(inside)
            }
            Some('*') => {
                self.at += 1;
                Ok(Expression::Everything)
            }
            _ => self.term(),
        }
    }

    fn term(&mut self) -> Result<Expression, StepError> {
        let start = self.at;
        let length = self.rest().find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        if word.is_empty() {
            return Err(self.error("expected a term such as `name~relu`"));
        }
        match word {
            "predicted" => {
                self.at += length;
                return Ok(Expression::Predicted);
            }
            "measured" => {
                self.at += length;
                return Ok(Expression::Not(Box::new(Expression::Predicted)));
            }
            _ => {}
        }
        let names = FIELDS.iter().map(|spec| spec.name).chain(["predicted", "measured"]);
        let Some(spec) = FIELDS.iter().find(|spec| spec.name.eq_ignore_ascii_case(word)) else {
            return Err(StepError::unknown(column(self.text, start), "field", word, names));
        };
        self.at += length;
        self.skip();
        let operator = self.operator(spec)?;
        self.skip();
        let value_at = self.at;
        let value = self.value()?;
        let (operator, negated) = match operator {
            "!=" => ("=", true),
            "!~" => ("~", true),
            other => (other, false),
        };
        let test = test(spec, operator, &value, column(self.text, value_at))?;
        let term = Expression::Term(spec.field, test);
        Ok(if negated { Expression::Not(Box::new(term)) } else { term })
    }

    fn operator(&mut self, spec: &FieldSpec) -> Result<&'static str, StepError> {
        const ALL: [&str; 8] = ["!=", "!~", "<=", ">=", "=", "~", "<", ">"];
        let found = ALL.into_iter().find(|operator| self.rest().starts_with(operator));
        let usable = found.filter(|operator| spec.operators.contains(operator));
        let Some(operator) = usable else {
            return Err(self.error(format!("after `{}` expected one of {}", spec.name, spec.operators.join(" "))));
        };
        self.at += operator.len();
        Ok(operator)
    }

    /// A value in quotation marks, or up to a space, `&`, `|` or a parenthesis that it did not open.
    fn value(&mut self) -> Result<String, StepError> {
        if let Some(quoted) = self.rest().strip_prefix('"') {
            let Some(end) = quoted.find('"') else { return Err(self.error("no closing quotation mark")) };
            self.at += end + 2;
            return Ok(quoted[..end].to_owned());
        }
        let mut depth = 0;
        let ends = |(_, c): &(usize, char)| {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return true,
                ')' => depth -= 1,
                '|' | '&' => return depth == 0,
                _ => {}
            }
            c.is_whitespace()
        };
        let end = self.rest().char_indices().find(ends).map_or(self.rest().len(), |(at, _)| at);
        if end == 0 {
            return Err(self.error("expected a value"));
        }
        let value = self.rest()[..end].to_owned();
        self.at += end;
        Ok(value)
    }
}

fn test(spec: &FieldSpec, operator: &str, value: &str, column: usize) -> Result<Test, StepError> {
    let comparison = match operator {
        "<" => Some(Comparison::Less),
        "<=" => Some(Comparison::LessOrEqual),
        ">" => Some(Comparison::More),
        ">=" => Some(Comparison::MoreOrEqual),
        _ if spec.operators.contains(&"<") => Some(Comparison::Equal),
        _ => None,
    };
    if let Some(comparison) = comparison {
        return Ok(Test::Number(comparison, number(spec.field, value, column)?));
    }
    if operator == "~" {
        let built = RegexBuilder::new(value).case_insensitive(true).build();
        let bad =
            |error: regex_lite::Error| StepError::at(column, format!("`{value}` is no regular expression: {error}"));
        return built.map(Test::Like).map_err(bad);
    }
    let value = if spec.field == Field::Dtype { short_type(value) } else { value };
    let known = |name: &&&str| name.eq_ignore_ascii_case(value);
    if !spec.values.is_empty() && !spec.values.iter().any(|name| known(&name)) {
        return Err(StepError::unknown(column, spec.name, value, spec.values.iter().copied()));
    }
    Ok(Test::Is(value.to_lowercase()))
}

/// The short name of an element type that is written as PyTorch writes it.
fn short_type(name: &str) -> &str {
    match name.to_lowercase().as_str() {
        "float" | "float32" | "f32" => "fp32",
        "half" | "float16" | "f16" => "fp16",
        "bfloat16" => "bf16",
        "double" | "float64" | "f64" => "fp64",
        "long" => "int64",
        "int" => "int32",
        "short" => "int16",
        "char" | "uint8" => "int8",
        _ => name,
    }
}

/// Whether a field is the number of something.
fn is_number_of(field: Field) -> bool {
    matches!(field, Field::Rank | Field::Stream)
}

/// A number with its unit, in ns or bytes.
fn number(field: Field, text: &str, column: usize) -> Result<f64, StepError> {
    let (units, bare) = match field {
        Field::Dur => (TIME_UNITS, None),
        Field::Bytes => (SIZE_UNITS, Some(1.0)),
        _ => (&[][..], Some(1.0)),
    };
    match parse_quantity(text, units, bare) {
        Some(value) if is_number_of(field) && (value < 0.0 || value.fract() != 0.0) => {
            Err(StepError::at(column, format!("`{text}`: expected a whole number from 0")))
        }
        Some(value) => Ok(value),
        None => {
            let names: Vec<&str> = units.iter().map(|&(name, _)| name).collect();
            let expected =
                if names.is_empty() { String::new() } else { format!(" with a unit ({})", names.join(", ")) };
            Err(StepError::at(column, format!("`{text}`: expected a number{expected}")))
        }
    }
}
