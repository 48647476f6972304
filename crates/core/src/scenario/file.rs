//! Scenario files: versioned TOML with the fingerprint of the trace they were made for. Text only; reading and writing
//! files is for others.
//!
//! ```toml
//! format = "retime-scenario-1"
//! name = "larger batch"
//! trace = "6f1c…"
//! iteration = "ProfilerStep#3"
//! steps = ["resize-batch 4096", "# swap-gpu H200"]
//! ```
//! A step that starts with `#` is disabled.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::graph::ExecutionGraph;

use super::step::{Scenario, Step, parse_step};
use super::text::StepError;

/// The format this program writes.
const FORMAT: &str = "retime-scenario-1";

/// A scenario with the trace it was made for.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedScenario {
    /// The scenario.
    pub scenario: Scenario,
    /// Fingerprint of its trace, whichever iteration is modelled; empty when it was made for none in particular.
    pub trace: String,
    /// The iteration it was made on; empty when that was not kept.
    pub iteration: String,
}

/// How a scenario file goes with a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It was made on this iteration of it, or for no trace in particular.
    Same,
    /// It was made on another iteration of it.
    OtherIteration(String),
    /// It was made for another trace.
    OtherTrace,
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
    #[serde(default, skip_serializing_if = "String::is_empty")]
    iteration: String,
    #[serde(default)]
    steps: Vec<String>,
}

impl SavedScenario {
    /// `scenario`, made for the iteration `graph` of the trace with that fingerprint.
    pub fn new(scenario: Scenario, trace: impl Into<String>, graph: &ExecutionGraph) -> Self {
        Self { scenario, trace: trace.into(), iteration: iteration_of(graph).to_owned() }
    }

    /// How it goes with the iteration `graph` of a trace; `is_of_trace` tells whether a fingerprint is that trace's.
    pub fn fit(&self, is_of_trace: impl Fn(&str) -> bool, graph: &ExecutionGraph) -> Fit {
        if self.trace.is_empty() {
            return Fit::Same;
        }
        let is_same = self.iteration.is_empty() || self.iteration == iteration_of(graph);
        match (is_of_trace(&self.trace), is_same) {
            (true, true) => Fit::Same,
            (true, false) => Fit::OtherIteration(self.iteration.clone()),
            (false, _) => Fit::OtherTrace,
        }
    }

    /// The text of its file.
    pub fn to_toml(&self) -> String {
        let file = File {
            format: FORMAT.to_owned(),
            name: self.scenario.name.clone(),
            trace: self.trace.clone(),
            iteration: self.iteration.clone(),
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
        let scenario = Scenario { name: file.name, steps: read_lines(&file.steps)? };
        Ok(Self { scenario, trace: file.trace, iteration: file.iteration })
    }
}

/// The name of the iteration that is modelled.
fn iteration_of(graph: &ExecutionGraph) -> &str {
    graph.ranks.first().map_or("", |part| &part.iteration)
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
        parsed.map(|step| step.switched(bare.is_none())).map_err(bad)
    });
    steps.collect()
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
        let (trace, iteration) = ("00ff".to_owned(), "ProfilerStep#3".to_owned());
        let saved = SavedScenario { scenario, trace, iteration };
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
