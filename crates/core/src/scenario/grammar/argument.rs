//! An argument of an edit.

use super::Kind;

/// A place in the line of an edit.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// What stands for it in a usage, e.g. `N`; of choices their names.
    pub name: &'static str,
    /// What it is, as in "expected the new batch size".
    pub what: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The text before it: ` `, or with a keyword ` from `, ` segments=`, `->`.
    pub lead: &'static str,
    /// Whether it may be left out.
    pub is_optional: bool,
}

impl Argument {
    /// An argument that has to be there, after a space.
    pub const fn new(name: &'static str, what: &'static str, kind: Kind) -> Self {
        Self { name, what, kind, lead: " ", is_optional: false }
    }

    /// The tasks that are meant.
    pub const fn selector() -> Self {
        Self::new("SELECTOR", "a selector, e.g. `kind=kernel & name~addmm`", Kind::Selector)
    }

    /// After that text.
    #[must_use]
    pub const fn after(self, lead: &'static str) -> Self {
        Self { lead, ..self }
    }

    /// May be left out.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// What stands before it but for spaces; empty where nothing does.
    pub(super) fn keyword(&self) -> &'static str {
        self.lead.trim()
    }

    /// Whether its keyword is a word, or several, and not written together with the value.
    pub(super) fn has_word(&self) -> bool {
        !self.keyword().is_empty() && self.lead.ends_with(' ')
    }

    /// Whether it is written together with the value before it, as in `64->128`.
    pub(super) fn is_joined(&self) -> bool {
        !self.lead.starts_with(' ')
    }

    /// What stands for it in a usage.
    pub(super) fn placeholder(&self) -> String {
        match self.kind {
            Kind::Choice(_, among) => among.join("|"),
            Kind::Factor(..) => format!("x{}", self.name),
            _ => self.name.to_owned(),
        }
    }
}
