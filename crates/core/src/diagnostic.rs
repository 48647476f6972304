//! Structured warnings: what was odd in an input, where, how often, and what was done about it.
//!
//! Diagnostics are collected beside a result, never printed by the code that finds them.

use std::collections::BTreeMap;

use serde::Serialize;

/// How much a diagnostic matters to what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; no figure is affected.
    Note,
    /// Some input was skipped or assumed; figures may be affected.
    Warning,
    /// A part of the input could not be used at all.
    Error,
}

/// One kind of oddity, with how often it occurred and the first place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// A stable short name in kebab-case, e.g. `damaged-event`.
    pub code: &'static str,
    /// What was found and what was done, of the first occurrence.
    pub message: String,
    /// Where: a file, and a byte offset or an event, of the first occurrence.
    pub place: Option<String>,
    /// How often it occurred.
    pub count: u64,
}

/// Diagnostics by code, in a stable order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    by_code: BTreeMap<(&'static str, String), Diagnostic>,
}

impl Diagnostics {
    /// Counts an occurrence of `code`; message and place of the first occurrence are kept.
    /// Occurrences are told apart by `scope` (a file or a rank; may be empty).
    pub fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        scope: &str,
        place: Option<String>,
        message: impl FnOnce() -> String,
    ) {
        self.add_many(severity, code, scope, place, 1, message);
    }

    /// Counts `count` occurrences of `code` at once; otherwise as [`Self::add`].
    pub fn add_many(
        &mut self,
        severity: Severity,
        code: &'static str,
        scope: &str,
        place: Option<String>,
        count: u64,
        message: impl FnOnce() -> String,
    ) {
        self.by_code
            .entry((code, scope.to_owned()))
            .or_insert_with(|| Diagnostic { severity, code, message: message(), place, count: 0 })
            .count += count;
    }

    /// Shorthand for a note without a place.
    pub fn note(&mut self, code: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.add(Severity::Note, code, "", None, || message);
    }

    /// Shorthand for a warning without a place.
    pub fn warn(&mut self, code: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.add(Severity::Warning, code, "", None, || message);
    }

    /// Adds all of `other`, summing counts.
    pub fn merge(&mut self, other: &Self) {
        for (key, diagnostic) in &other.by_code {
            self.by_code
                .entry(key.clone())
                .and_modify(|mine| mine.count += diagnostic.count)
                .or_insert_with(|| diagnostic.clone());
        }
    }

    /// All diagnostics, the most severe first, then by code and scope.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut all: Vec<&Diagnostic> = self.by_code.values().collect();
        all.sort_by_key(|d| std::cmp::Reverse(d.severity));
        all
    }

    /// How often `code` occurred, over all scopes.
    pub fn count(&self, code: &str) -> u64 {
        self.by_code.iter().filter(|((c, _), _)| *c == code).map(|(_, d)| d.count).sum()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.by_code.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_are_counted_and_the_first_message_is_kept() {
        let mut found = Diagnostics::default();
        for at in [10, 20, 30] {
            found.add(Severity::Warning, "damaged-event", "a.json", Some(format!("byte {at}")), || {
                format!("event {at}")
            });
        }
        found.note("no-shapes", "shapes were not recorded");
        let sorted = found.sorted();
        assert_eq!(
            (sorted[0].code, sorted[0].count, sorted[0].place.as_deref()),
            ("damaged-event", 3, Some("byte 10"))
        );
        assert_eq!(sorted[1].code, "no-shapes");
        assert_eq!(found.count("damaged-event"), 3);
    }
}
