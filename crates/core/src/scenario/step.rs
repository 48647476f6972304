//! A scenario and its steps, each a line of text such as `scale kind=kernel x2`.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::nearest::nearest;
use super::text::Words;
use super::transform::{Transform, transforms};

/// An ordered list of edits to a traced graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What the user calls it; may be empty.
    pub name: String,
    /// The edits, applied in order.
    pub steps: Vec<Step>,
}

/// One edit.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub transform: Arc<dyn Transform>,
    /// Whether it takes part; a step that does not keeps its place.
    pub enabled: bool,
}

impl PartialEq for Step {
    /// Equal when they say the same: a transform is fully described by its line.
    fn eq(&self, other: &Self) -> bool {
        self.enabled == other.enabled && self.transform.line() == other.transform.line()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.transform.line())
    }
}

impl Step {
    /// An enabled step.
    pub fn new(transform: impl Transform + 'static) -> Self {
        Self { transform: Arc::new(transform), enabled: true }
    }
}

impl Scenario {
    /// A scenario of these lines.
    ///
    /// # Errors
    /// The first line that is not a step.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, StepError> {
        let steps = lines.into_iter().map(parse_step).collect::<Result<_, _>>()?;
        Ok(Self { name: String::new(), steps })
    }

    /// Whether a step in force means one of two ranks and not the other.
    pub fn tells_apart(&self, a: u32, b: u32) -> bool {
        self.steps.iter().any(|step| step.enabled && step.transform.tells_apart(a, b))
    }

    /// Where host overheads are from: `measured`, `mean`, or the file that the last such step in force names.
    pub fn overheads(&self) -> String {
        let of_step = |step: &Step| {
            let line = step.transform.line();
            line.strip_prefix("overheads ").filter(|_| step.enabled).map(str::to_owned)
        };
        self.steps.iter().rev().find_map(of_step).unwrap_or_else(|| "measured".to_owned())
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

/// Reads `NAME [SELECTOR] [ARGUMENTS]`.
///
/// # Errors
/// An unknown transform (with the nearest), an argument that is missing, malformed or out of range.
pub fn parse_step(line: &str) -> Result<Step, StepError> {
    let mut words = Words::new(line);
    let Some(name) = words.next() else {
        return Err(StepError::at(1, "empty step: expected NAME [SELECTOR] [ARGUMENTS]"));
    };
    let names = || transforms().iter().map(|spec| spec.name);
    let known = transforms().iter().find(|spec| spec.name == name.text);
    let spec = known.ok_or_else(|| StepError::unknown(name.column, "transform", name.text, names()))?;
    let transform = (spec.parse)(&mut words)?;
    match words.next() {
        None => Ok(Step { transform, enabled: true }),
        Some(extra) => Err(StepError::at(extra.column, format!("`{}` is too much: {}", extra.text, spec.usage))),
    }
}
