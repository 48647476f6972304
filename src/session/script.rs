//! Scripts: plain text with one command a line, and what came of each line when it was played.

use serde::Serialize;

use retime_core::units::DurNs;

/// A line to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The command.
    pub text: String,
}

/// The commands of a script; empty lines and those that begin with `#` say nothing.
pub fn script_lines(text: &str) -> Vec<ScriptLine> {
    let text = text.replace("\r\n", "\n");
    let lines = text.split(['\n', '\r']).enumerate().map(|(index, line)| (index + 1, line.trim()));
    let commands = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    commands.map(|(number, line)| ScriptLine { number, text: line.trim_start_matches(':').to_owned() }).collect()
}

/// How a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Done as told.
    Done,
    /// An expectation that holds.
    Holds,
    /// An expectation that does not.
    Fails,
    /// It could not be done; nothing after it was played.
    Error,
}

/// A line that was played.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// The file, where another script plays it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its number in the file, from 1.
    pub line: usize,
    /// The command.
    pub command: String,
    /// How it ended.
    pub status: Status,
    /// What was expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What the figure was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
    /// Why it could not be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The iteration as it was when the line was played.
    pub simulated_ns: Option<DurNs>,
}

impl Played {
    /// What went wrong, in one line for people.
    pub fn complaint(&self) -> Option<String> {
        let reason = match self.status {
            Status::Done | Status::Holds => return None,
            Status::Error => self.message.clone().unwrap_or_default(),
            Status::Fails => {
                let [expected, got] = [&self.expected, &self.got].map(|text| text.as_deref().unwrap_or_default());
                format!("expected {expected}, got {got}")
            }
        };
        let file = self.file.as_ref().map(|file| format!("{file}, ")).unwrap_or_default();
        Some(format!("{file}line {}: {reason}", self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_keep_the_numbers_of_the_others() {
        let lines = script_lines("# why\n\n:undo\n  step scale kind=T1 x0\n");
        let found: Vec<(usize, &str)> = lines.iter().map(|line| (line.number, line.text.as_str())).collect();
        assert_eq!(found, [(3, "undo"), (4, "step scale kind=T1 x0")]);
        for ended in ["# why\rexpect fits\r", "# why\r\nexpect fits\r\n"] {
            assert_eq!(script_lines(ended), [ScriptLine { number: 2, text: "expect fits".to_owned() }], "{ended:?}");
        }
    }
}
