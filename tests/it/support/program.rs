//! The program from outside.

use assert_cmd::Command;
use serde_json::Value;

/// A call of the program.
pub fn retime() -> Command {
    Command::cargo_bin("retime").unwrap()
}

/// The JSON that a command answers with.
pub fn json(arguments: &[&str]) -> Value {
    let output = retime().args(arguments).arg("--json").assert().success().get_output().stdout.clone();
    let answer: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(answer["schema"], 2, "{arguments:?}");
    answer
}
