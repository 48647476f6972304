//! The grammar of edits: what each is called, which arguments of which kinds its line has. Reading a line, writing it,
//! completing it, its help and the knobs of sweeps all follow from it.

mod argument;
mod kind;
mod next;
mod read;
#[cfg(test)]
mod tests;
mod value;

use std::sync::Arc;

use super::transform::Transform;

pub use argument::Argument;
pub use kind::Kind;
pub(super) use kind::SOURCES;
pub(super) use next::next;
pub use next::{Next, What};
pub(super) use read::{Reading, read};
pub use value::{Given, Value};

/// An edit: a row of the table that palettes, completion and documentation are made from.
#[derive(Debug)]
pub struct Grammar {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// A line that can be used as it is, as the edit writes it.
    pub example: &'static str,
    /// What may follow the name. The last form is read where no other begins with the words that are there.
    pub forms: &'static [Form],
    /// What a sweep may vary by name.
    pub knobs: &'static [Knob],
}

/// Arguments that go together, in the order of the line.
#[derive(Debug)]
pub struct Form {
    /// They.
    pub arguments: &'static [Argument],
    /// Makes the edit of them; `None` where a value is not of the kind that the arguments ask for.
    pub build: fn(&Given<'_>) -> Option<Arc<dyn Transform>>,
}

/// An argument that a sweep varies under a name of its own.
#[derive(Debug)]
pub struct Knob {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// What its values are, in a word.
    pub unit: &'static str,
    /// A step with some value in the place of the one that is varied.
    pub line: &'static str,
    /// The number of the argument that is varied.
    pub argument: usize,
    /// Values to try, `A..B`; empty where they depend on the trace.
    pub range: &'static str,
}

impl Grammar {
    /// Its line with place-holders, e.g. `scale SELECTOR xFACTOR`.
    pub fn usage(&self) -> String {
        let form = |form: &Form| format!("{}{}", self.name, form.usage());
        self.forms.iter().map(form).collect::<Vec<_>>().join(" | ")
    }
}

impl Form {
    /// The arguments as place-holders, each with what stands before it.
    pub(super) fn usage(&self) -> String {
        let (mut usage, mut open) = (String::new(), 0);
        for (at, argument) in self.arguments.iter().enumerate() {
            // One that has no word before it can only be there after the one before it.
            let nests = at > 0 && argument.keyword().is_empty() && self.arguments[at - 1].is_optional;
            if !nests {
                usage.extend(std::iter::repeat_n(']', std::mem::take(&mut open)));
            }
            let (space, lead) = argument.lead.split_at(argument.lead.len() - argument.lead.trim_start().len());
            usage += space;
            if argument.is_optional {
                usage.push('[');
                open += 1;
            }
            usage += lead;
            usage += &argument.placeholder();
        }
        usage + &"]".repeat(open)
    }

    /// The line of these values, but for the name of the edit.
    pub(super) fn line(&self, values: &[Option<Value>]) -> String {
        let written = |(argument, value): (&Argument, &Option<Value>)| {
            value.as_ref().map(|value| format!("{}{}", argument.lead, argument.kind.written(value)))
        };
        self.arguments.iter().zip(values).filter_map(written).collect()
    }
}
