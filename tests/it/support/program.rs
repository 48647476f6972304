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

/// The path of a bundled trace as an argument.
pub fn sample(name: &str) -> String {
    super::sample(name).display().to_string()
}

/// Standard error of a command that must fail with `status`.
pub fn failure(status: i32, arguments: &[&str]) -> String {
    let output = retime().args(arguments).assert().code(status).get_output().stderr.clone();
    String::from_utf8(output).unwrap()
}
