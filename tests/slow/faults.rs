//! Faults that were found on shared traces, a row each in `faults.toml`: a command, a figure of its answer and what must hold of it.
//!
//! A row that does not hold yet says `open = true`; one that holds must not. So whoever mends a fault closes its row.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::drawn;
use crate::support::shared;

/// A fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    /// What was wrong.
    what: String,
    /// A shared trace: `{trace}` in commands, and `{folder}` is where it lies.
    trace: String,
    /// Arguments of the program, as in a shell; `--json` is added.
    command: String,
    /// What is asked of the answer.
    figure: String,
    /// Another command, whose figure the first is divided by.
    against: Option<String>,
    /// The figure of that command, where it is another.
    of: Option<String>,
    /// What it was when the fault was found.
    #[expect(dead_code, reason = "it is for readers of the table")]
    was: String,
    /// What must hold: `< 1.5`, `= 0`, `0.94..1.06`.
    wanted: String,
    /// Whether it does not yet.
    #[serde(default)]
    open: bool,
}

#[derive(Deserialize)]
struct Table {
    fault: Vec<Fault>,
}

/// Words of a line; those in quotes stay together.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn answer(command: &str, trace: &Path) -> Result<Value, String> {
    let mut arguments: Vec<String> = words(command);
    for argument in &mut arguments {
        *argument = argument.replace("{trace}", &trace.to_string_lossy());
        *argument = argument.replace("{folder}", &trace.parent().unwrap().to_string_lossy());
    }
    let folder = tempfile::tempdir().unwrap();
    // What is exported first is opened again by what follows.
    let mut steps = arguments.split(|argument| argument == "&&").peekable();
    while let Some(step) = steps.next() {
        let is_last = steps.peek().is_none();
        let mut program = Command::new(env!("CARGO_BIN_EXE_retime"));
        program.args(step).current_dir(folder.path());
        if is_last {
            program.arg("--json");
        }
        let output = program.output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().last().unwrap_or("no message").to_owned());
        }
        if is_last {
            return serde_json::from_slice(&output.stdout).map_err(|error| error.to_string());
        }
    }
    Err("no command".to_owned())
}

/// A figure: a path such as `points[*].simulated_ns`, with `least`, `most`, `sum`, `count` or `kinds` (how many differ) before it;
/// `share A / B` divides two paths of one answer.
fn figure(text: &str, answer: &Value) -> Result<f64, String> {
    if let Some((above, below)) = text.strip_prefix("share ").and_then(|rest| rest.split_once(" / ")) {
        return Ok(figure(above, answer)? / figure(below, answer)?);
    }
    let (how, path) = text.split_once(' ').unwrap_or(("", text));
    let found = values(path, answer);
    let numbers: Vec<f64> = found.iter().filter_map(|value| number(value)).collect();
    let one = |number: Option<f64>| number.ok_or_else(|| format!("nothing at {path}"));
    match how {
        "" => one(numbers.first().copied()),
        "least" => one(numbers.into_iter().min_by(f64::total_cmp)),
        "most" => one(numbers.into_iter().max_by(f64::total_cmp)),
        "sum" => Ok(numbers.iter().sum()),
        "count" => Ok(found.len() as f64),
        "kinds" => {
            let mut all: Vec<String> = found.iter().map(ToString::to_string).collect();
            all.sort();
            all.dedup();
            Ok(all.len() as f64)
        }
        _ => Err(format!("{how}: least, most, sum, count or kinds")),
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|is| f64::from(u8::from(is))))
}

/// What stands at a path; `[*]` stands for every element, `[key=value]` for those where that is so, `[2]` for one.
fn values<'a>(path: &str, answer: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![answer];
    for part in path.split('.') {
        let (name, place) = part.split_once('[').map_or((part, None), |(name, place)| (name, place.strip_suffix(']')));
        found =
            found.into_iter().filter_map(|value| if name.is_empty() { Some(value) } else { value.get(name) }).collect();
        let Some(place) = place else { continue };
        let all = |value: &'a Value| value.as_array().into_iter().flatten();
        found = match (place, place.split_once('='), place.parse::<usize>()) {
            ("*", ..) => found.into_iter().flat_map(all).collect(),
            (_, _, Ok(index)) => found.into_iter().filter_map(|value| value.get(index)).collect(),
            (_, Some((key, wanted)), _) => {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let is_wanted = |value: &&Value| value.get(key).map(text).is_some_and(|text| text == wanted);
                found.into_iter().flat_map(all).filter(is_wanted).collect()
            }
            _ => Vec::new(),
        };
    }
    found
}

fn holds(wanted: &str, figure: f64) -> bool {
    let value = |text: &str| text.trim().parse::<f64>().unwrap_or_else(|_| panic!("{wanted}"));
    if let Some((low, high)) = wanted.split_once("..") {
        return (value(low)..=value(high)).contains(&figure);
    }
    match wanted.trim().split_once(' ') {
        Some(("<", limit)) => figure < value(limit),
        Some(("<=", limit)) => figure <= value(limit),
        Some((">", limit)) => figure > value(limit),
        Some((">=", limit)) => figure >= value(limit),
        Some(("=", limit)) => (figure - value(limit)).abs() < 1e-9,
        _ => panic!("{wanted}: < 1, <= 1, > 1, >= 1, = 1 or 1..2"),
    }
}

impl Fault {
    fn value(&self, trace: &Path) -> Result<f64, String> {
        let own = figure(&self.figure, &answer(&self.command, trace)?)?;
        let Some(against) = &self.against else { return Ok(own) };
        Ok(own / figure(self.of.as_ref().unwrap_or(&self.figure), &answer(against, trace)?)?)
    }

    /// What is wrong with the row or the program; `None` where both are as they should be.
    fn complaint(&self, trace: &Path) -> Option<String> {
        let value = self.value(trace);
        let is_right = value.as_ref().is_ok_and(|&value| holds(&self.wanted, value));
        let shown = value.map_or_else(|error| error, |value| value.to_string());
        match (is_right, self.open) {
            (true, false) | (false, true) => None,
            (true, true) => Some(format!("holds now ({shown}), take `open` from its row: {}", self.what)),
            (false, false) => Some(format!("{} ({}): {shown}, wanted {}", self.what, self.trace, self.wanted)),
        }
    }
}

#[test]
fn faults_that_were_mended_stay_away() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slow/faults.toml")).unwrap();
    let table: Table = toml::from_str(&text).unwrap();
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for fault in &table.fault {
        *names.entry(&fault.what).or_default() += 1;
    }
    assert!(names.values().all(|&count| count == 1), "two rows of one name: {names:?}");
    let cases = table.fault.iter().map(|fault| (fault.what.clone(), fault.clone()));
    let complaints: Vec<String> =
        drawn(cases.collect()).filter_map(|fault| fault.complaint(&shared(&fault.trace)?)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
