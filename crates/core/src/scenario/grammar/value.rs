//! The values that a line gives to arguments.

use crate::scenario::selector::Selector;
use crate::scenario::tables::Plan;
use crate::units::DurNs;

/// A value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Which tasks.
    Selector(Selector),
    /// A whole number.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// A time, as written.
    Time(DurNs, String),
    /// A name: of a device, an interconnect, an operator, a kernel, a file.
    Text(String),
    /// One of the words that the argument knows, by its number.
    Choice(usize),
    /// Where embedding tables go.
    Plan(Plan),
}

/// The values of a line, from which an edit is made.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a>(pub(in crate::scenario) &'a [Option<Value>]);

impl Given<'_> {
    /// The value of argument `at`; an `Option` for one that may be left out.
    pub(in crate::scenario) fn get<T: FromValue>(&self, at: usize) -> Option<T> {
        T::from_value(self.0.get(at)?.as_ref())
    }
}

/// What can be made of a value.
pub(in crate::scenario) trait FromValue: Sized {
    /// `None` where the value is missing or of another kind.
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(_) => T::from_value(value).map(Some),
        }
    }
}

impl FromValue for Selector {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Selector(selector) = value? { Some(selector.clone()) } else { None }
    }
}

impl FromValue for u64 {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Whole(number) = value? { Some(*number) } else { None }
    }
}

impl FromValue for u32 {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        u64::from_value(value)?.try_into().ok()
    }
}

impl FromValue for f64 {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Number(number) = value? { Some(*number) } else { None }
    }
}

impl FromValue for DurNs {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Time(duration, _) = value? { Some(*duration) } else { None }
    }
}

impl FromValue for String {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Text(text) = value? { Some(text.clone()) } else { None }
    }
}

impl FromValue for usize {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Choice(number) = value? { Some(*number) } else { None }
    }
}

impl FromValue for Plan {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        if let Value::Plan(plan) = value? { Some(plan.clone()) } else { None }
    }
}
