//! Selectors: which tasks an edit, a search or a filter means, e.g. `name~embedding_bag & phase=backward & dur>50us`.
//!
//! Terms `FIELD OPERATOR VALUE` joined by `&`, `|`, `!` and parentheses. A term on an operator (its name, module, phase …)
//! selects everything the operator did: its host time, its launches and its kernels.

mod compile;
mod field;
mod parse;

use std::fmt;

use crate::graph::NodeId;

use super::base::Base;
use super::draft::{Draft, Node};
use super::text::StepError;

pub use field::{FIELDS, FieldSpec};
use parse::Expression;

/// A parsed selector. Its text is kept as written.
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    expression: Expression,
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// The column of what is wrong, and the nearest known field or value.
    pub fn parse(text: &str) -> Result<Self, StepError> {
        Self::parse_at(text, 1)
    }

    /// As [`parse`](Self::parse), for a text that begins at `column` of its line.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_at(text: &str, column: usize) -> Result<Self, StepError> {
        let expression = parse::parse(text).map_err(|mut error| {
            error.column += column - 1;
            error
        })?;
        Ok(Self { text: text.trim().to_owned(), expression })
    }

    /// The traced tasks it selects in an untouched graph, in order.
    ///
    /// # Complexity
    /// O(tasks · terms); regular expressions are tried once per distinct name.
    pub fn select(&self, base: &Base) -> Vec<NodeId> {
        compile::select(&self.expression, base)
    }

    /// Every task it selects as they are in a draft, but those that were taken out: the traced ones, then those that edits
    /// added.
    pub fn select_all(&self, draft: &Draft<'_>) -> Vec<Node> {
        compile::select_all(&self.expression, draft)
    }

    /// Whether a term asks for an operator or kernel of that name.
    pub fn asks_for(&self, name: &str) -> bool {
        compile::asks_for(&self.expression, name)
    }

    /// Whether a term holds for one of two ranks and not for the other.
    pub fn tells_apart(&self, a: u32, b: u32) -> bool {
        compile::tells_apart(&self.expression, a, b)
    }

    /// Whether a term names operators, kernels or another property of what a model computes, not only a kind of task.
    pub fn names_kind(&self) -> bool {
        self.expression.mentions_kind()
    }
}
