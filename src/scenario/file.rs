//! Scenario files: versioned TOML with the fingerprint of the trace they were made for. Text only; reading and writing
//! files is for others.
//!
//! ```toml
//! format = "retime-scenario-1"
//! name = "larger batch"
//! trace = "6f1c…"
//! steps = ["resize-batch 4096", "# swap-gpu H200"]
//! ```
//! A step that starts with `#` is disabled.

use std::fmt::Write as _;
use std::hash::Hasher;

use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::graph::ExecutionGraph;

use super::step::{Scenario, Step, StepError, parse_step};

/// The format this program writes.
const FORMAT: &str = "retime-scenario-1";

/// A scenario with the trace it was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedScenario {
    /// The scenario.
    pub scenario: Scenario,
    /// Fingerprint of its trace; empty when it was made for none in particular.
    pub trace: String,
}

/// Why a text is no scenario.
#[derive(Debug, Error)]
pub enum FileError {
    /// Not TOML, or a key that is unknown, missing or of the wrong type.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What was found.
        message: String,
    },
    /// Written by another version.
    #[error("format `{found}`: expected `{expected}`")]
    Format {
        /// As written.
        found: String,
        /// The one this program writes.
        expected: &'static str,
    },
    /// A line that is no step.
    #[error("step {number} `{line}`: {error}")]
    Step {
        /// Which, from 1.
        number: usize,
        /// As written.
        line: String,
        /// What is wrong with it.
        error: StepError,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    trace: String,
    #[serde(default)]
    steps: Vec<String>,
}

impl SavedScenario {
    /// `scenario`, made for `graph`.
    pub fn new(scenario: Scenario, graph: &ExecutionGraph) -> Self {
        Self { scenario, trace: fingerprint(graph) }
    }

    /// Whether it was made for `graph`, or for no trace in particular.
    pub fn fits(&self, graph: &ExecutionGraph) -> bool {
        self.trace.is_empty() || self.trace == fingerprint(graph)
    }

    /// The text of its file.
    pub fn to_toml(&self) -> String {
        let file = File {
            format: FORMAT.to_owned(),
            name: self.scenario.name.clone(),
            trace: self.trace.clone(),
            steps: step_lines(&self.scenario),
        };
        toml::to_string_pretty(&file).unwrap_or_default()
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn from_toml(text: &str) -> Result<Self, FileError> {
        let file: File = toml::from_str(text).map_err(|error| FileError::syntax(text, &error))?;
        if file.format != FORMAT {
            return Err(FileError::Format { found: file.format, expected: FORMAT });
        }
        Ok(Self { scenario: Scenario { name: file.name, steps: read_lines(&file.steps)? }, trace: file.trace })
    }
}

impl FileError {
    /// What the TOML reader says about `text`, with the line.
    pub fn syntax(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().map_or("", |span| &text[..span.start.min(text.len())]);
        Self::Syntax { line: before.matches('\n').count() + 1, message: error.message().to_owned() }
    }
}

/// The steps of a scenario as lines; one that starts with `#` is disabled.
pub fn step_lines(scenario: &Scenario) -> Vec<String> {
    let line = |step: &Step| if step.enabled { step.to_string() } else { format!("# {step}") };
    scenario.steps.iter().map(line).collect()
}

/// Reads what [`step_lines`] gives.
///
/// # Errors
/// The first line that is no step.
pub fn read_lines(lines: &[String]) -> Result<Vec<Step>, FileError> {
    let steps = lines.iter().enumerate().map(|(index, line)| {
        let bare = line.trim_start().strip_prefix('#');
        let parsed = parse_step(bare.unwrap_or(line));
        let bad = |error| FileError::Step { number: index + 1, line: line.clone(), error };
        parsed.map(|step| Step { enabled: bare.is_none(), ..step }).map_err(bad)
    });
    steps.collect()
}

/// A number that tells traces apart: of their ranks, tasks, operators and measured times.
pub fn fingerprint(graph: &ExecutionGraph) -> String {
    let mut hasher = FxHasher::default();
    for part in &graph.ranks {
        hasher.write_u32(part.rank.0);
        hasher.write(part.iteration.as_bytes());
        hasher.write_i64(part.measured.0);
    }
    for task in graph.tasks.node_weights() {
        hasher.write_i64(task.measured_start.0);
        hasher.write_i64(task.measured.0);
    }
    hasher.write_usize(graph.operators.len());
    let mut text = String::new();
    let _ = write!(text, "{:016x}", hasher.finish());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_survives_a_round_trip_with_its_disabled_steps() {
        let mut scenario =
            Scenario::parse(["resize-batch 4096", "scale name~\"a|b\" x0.5", "swap-gpu H200 host x0.8"]).unwrap();
        scenario.steps[1].enabled = false;
        "larger batch".clone_into(&mut scenario.name);
        let saved = SavedScenario { scenario, trace: "00ff".to_owned() };
        assert_eq!(SavedScenario::from_toml(&saved.to_toml()).unwrap(), saved);
    }

    #[test]
    fn a_bad_file_says_what_and_where() {
        let error = |text: &str| SavedScenario::from_toml(text).unwrap_err().to_string();
        assert!(error("format = \"retime-scenario-9\"").contains("retime-scenario-9"));
        assert!(
            error("format = \"retime-scenario-1\"\nsteps = [\"scle kind=kernel x2\"]")
                .contains("did you mean `scale`?")
        );
        assert!(error("format = \"retime-scenario-1\"\n\ncolour = 3").starts_with("line 3"));
    }
}
