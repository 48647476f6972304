//! docs/papers.md: every command on the page gives the figure that stands beside it.

use std::collections::BTreeMap;
use std::fs;

use assert_cmd::Command;
use serde_json::Value;

/// The words of a command line, as a shell takes them apart.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let quoted = |(at, part): (usize, &str)| {
        if at % 2 == 1 { vec![part.to_owned()] } else { part.split_whitespace().map(str::to_owned).collect() }
    };
    parts.flat_map(quoted).collect()
}

#[test]
fn every_command_of_the_page_gives_its_figure() {
    let page = fs::read_to_string("docs/papers.md").unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("`retime "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 150, "{}", rows.len());
    let mut answers: BTreeMap<&str, Value> = BTreeMap::new();
    for row in rows {
        let (ours, command, field, unit) = (row[3], row[5].trim_matches('`'), row[6].trim_matches('`'), row[7]);
        let answer = answers.entry(command).or_insert_with(|| {
            let (first, last) = command.split_once(" && ").unwrap_or(("", command));
            if let Some((_, folder)) = first.rsplit_once(' ') {
                let _ = fs::remove_dir_all(folder);
                Command::cargo_bin("retime").unwrap().args(&words(first)[1..]).assert().success();
            }
            let mut program = Command::cargo_bin("retime").unwrap();
            let done = program.args(&words(last)[1..]).arg("--json").assert().success();
            serde_json::from_slice(&done.get_output().stdout).unwrap()
        });
        match answer.pointer(field).unwrap() {
            Value::String(word) => assert_eq!(word, ours, "{command}"),
            number => {
                let got = number.as_f64().unwrap() * unit.parse::<f64>().unwrap();
                let shown: f64 = ours.parse().unwrap();
                // Five digits are shown.
                assert!((got - shown).abs() <= 1e-4 * shown.abs(), "{command}: {got}, on the page {shown}");
            }
        }
        assert!(row[8].split_once(": ").is_some_and(|(_, why)| !why.is_empty()), "{command}: {}", row[8]);
    }
}
