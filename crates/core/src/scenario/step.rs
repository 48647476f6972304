//! A scenario and its steps, each a line of text such as `scale kind=kernel x2`.

use std::fmt;
use std::sync::Arc;

use super::grammar::{self, Form, Given, Grammar, Kind, Next, Reading, Value};
use super::text::{StepError, Words};
use super::transform::Transform;
use super::transforms::transforms;

/// An ordered list of edits to a traced graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What the user calls it; may be empty.
    pub name: String,
    /// The edits, applied in order.
    pub steps: Vec<Step>,
}

/// One edit with the values of its arguments. Copies share them: each state that undoing leads to has all of its own steps.
#[derive(Clone, Debug)]
pub struct Step {
    edit: Arc<Edit>,
    /// Whether it takes part; a step that does not keeps its place.
    pub enabled: bool,
}

#[derive(Debug)]
struct Edit {
    grammar: &'static Grammar,
    form: &'static Form,
    values: Vec<Option<Value>>,
    transform: Arc<dyn Transform>,
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.enabled == other.enabled && self.name() == other.name() && self.edit.values == other.edit.values
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.name(), self.edit.form.line(&self.edit.values)))
    }
}

impl Step {
    /// An enabled step of an edit in one of its forms; `None` where a value is missing or of another kind.
    pub(super) fn new(grammar: &'static Grammar, form: &'static Form, values: Vec<Option<Value>>) -> Option<Self> {
        let transform = (form.build)(&Given(&values))?;
        Some(Self { edit: Arc::new(Edit { grammar, form, values, transform }), enabled: true })
    }

    /// The same step, switched on or off.
    #[must_use]
    pub fn switched(self, enabled: bool) -> Self {
        Self { enabled, ..self }
    }

    /// The name of its edit.
    pub fn name(&self) -> &'static str {
        self.edit.grammar.name
    }

    /// What it does, made of the values.
    pub(super) fn transform(&self) -> &dyn Transform {
        &*self.edit.transform
    }

    /// The value of argument `at`; `None` where it is left out.
    pub fn value(&self, at: usize) -> Option<&Value> {
        self.edit.values.get(at)?.as_ref()
    }

    /// The number of argument `at`, where it is one.
    pub fn number(&self, at: usize) -> Option<f64> {
        match self.value(at)? {
            Value::Whole(number) => Some(*number as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The value of argument `at` as its line has it; `None` where it is left out.
    pub fn text(&self, at: usize) -> Option<String> {
        Some(self.edit.form.arguments.get(at)?.kind.written(self.value(at)?))
    }

    /// Its selectors.
    pub fn selectors(&self) -> impl Iterator<Item = &super::Selector> {
        self.edit.values.iter().flatten().filter_map(|value| match value {
            Value::Selector(selector) => Some(selector),
            _ => None,
        })
    }

    /// Whether it means one of two ranks and not the other, so that neither can stand for both.
    pub fn tells_apart(&self, a: u32, b: u32) -> bool {
        self.transform().tells_apart() || self.selectors().any(|selector| selector.tells_apart(a, b))
    }

    /// What values argument `at` takes.
    pub fn kind(&self, at: usize) -> Option<Kind> {
        Some(self.edit.form.arguments.get(at)?.kind)
    }

    /// The device that it puts the model on, where it does.
    pub fn device(&self) -> Option<&str> {
        self.edit.form.arguments.iter().zip(&self.edit.values).find_map(|(argument, value)| {
            match (argument.kind, value) {
                (Kind::Device, Some(Value::Text(device))) => Some(device.as_str()),
                _ => None,
            }
        })
    }

    /// Its line with `number` as argument `at`.
    pub fn line_with(&self, at: usize, number: f64) -> String {
        let mut values = self.edit.values.clone();
        let value = match values.get(at) {
            Some(Some(Value::Whole(_))) if number.fract() == 0.0 && number >= 0.0 => Value::Whole(number as u64),
            _ => Value::Number(number),
        };
        if let Some(place) = values.get_mut(at) {
            *place = Some(value);
        }
        format!("{}{}", self.name(), self.edit.form.line(&values))
    }

    /// Whether it is the very step that `other` is a copy of.
    pub fn is(&self, other: &Self) -> bool {
        self.enabled == other.enabled && Arc::ptr_eq(&self.edit, &other.edit)
    }

    /// The same step with `number` as argument `at`.
    ///
    /// # Errors
    /// The argument is no number, or `number` is out of its range; with the column in [`line_with`](Self::line_with).
    pub fn with(&self, at: usize, number: f64) -> Result<Self, StepError> {
        parse_step(&self.line_with(at, number)).map(|step| step.switched(self.enabled))
    }

    /// Whether it is the same as `other` but for argument `at`, and for arguments that `other` leaves out.
    pub fn is_but_for(&self, other: &Self, at: usize) -> bool {
        let alike =
            |index: usize, other: &Option<Value>| index == at || other.is_none() || self.value(index) == other.as_ref();
        self.name() == other.name() && other.edit.values.iter().enumerate().all(|(index, value)| alike(index, value))
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
        self.steps.iter().any(|step| step.enabled && step.tells_apart(a, b))
    }

    /// Where host overheads are from: `measured`, `mean`, or the file that the last such step in force names.
    pub fn overheads(&self) -> String {
        let mut sources = self.steps.iter().rev().filter(|step| step.enabled && step.name() == "overheads");
        sources.find_map(|step| step.text(0)).unwrap_or_else(|| "measured".to_owned())
    }
}

/// Reads `NAME [SELECTOR] [ARGUMENTS]`.
///
/// # Errors
/// An unknown transform (with the nearest), an argument that is missing, malformed or out of range.
pub fn parse_step(line: &str) -> Result<Step, StepError> {
    parse_placed(line).map(|(step, _)| step)
}

/// Ways to go on from the line of a step that is being typed.
pub fn next(line: &str) -> Vec<Next<'_>> {
    grammar::next(transforms(), line)
}

/// Names that edits had, with those they have: a line once written is read for ever.
const FORMER: [(&str, &str); 1] = [("place-on-gpu", "place-on")];

/// The name that the edit called `name` has now.
pub fn current(name: &str) -> &str {
    FORMER.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| now)
}

/// As [`parse_step`], with the values and their columns.
pub(super) fn parse_placed(line: &str) -> Result<(Step, Reading), StepError> {
    let mut words = Words::new(line);
    let Some(name) = words.next() else {
        return Err(StepError::at(1, "empty step: expected NAME [SELECTOR] [ARGUMENTS]"));
    };
    let names = || transforms().iter().map(|grammar| grammar.name);
    let known = transforms().iter().find(|grammar| grammar.name == current(name.text));
    let grammar = known.ok_or_else(|| StepError::unknown(name.column, "transform", name.text, names()))?;
    let reading = grammar::read(grammar, words)?;
    let values = reading.values.iter().map(|value| value.as_ref().map(|(value, _)| value.clone())).collect();
    let step = Step::new(grammar, reading.form, values);
    step.map(|step| (step, reading)).ok_or_else(|| StepError::at(1, format!("expected {}", grammar.usage())))
}
