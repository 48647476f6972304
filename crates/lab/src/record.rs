//! Recordings: what a program answers to every edit and command on every trace, and the differences between two of them.
//!
//! The program is run as users run it; nothing of the engine is linked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line for every kind of edit, for most several.
const EDITS: &str = include_str!("edits.txt");

/// Commands without edits of their own, each tried unedited and with one edit.
const COMMANDS: [&str; 12] = [
    "info --json",
    "path --json",
    "gaps --json",
    "ops --json",
    "ops --level kernel --json",
    "layers --json",
    "roofline --json",
    "breakdown --json",
    "overheads --json",
    "tables --json",
    "sweep --batch 8..64 --json",
    "advise --json",
];

/// The edit that commands are tried with.
const EDIT: &str = "scale family=gemm x0.5";

/// What a program answered once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    /// Arguments, without the trace.
    line: String,
    status: Option<i32>,
    stdout: Value,
    stderr: String,
}

/// Runs `program` over `traces`, each with all lines that hold `only`, and writes a file a trace into `out`.
///
/// # Errors
/// The program cannot be run, or `out` not be written.
pub(crate) fn record(program: &Path, out: &Path, traces: &[PathBuf], only: &str) -> io::Result<()> {
    let program = fs::canonicalize(program)?;
    fs::create_dir_all(out)?;
    let lines: Vec<Vec<String>> = lines().into_iter().filter(|line| line.join(" ").contains(only)).collect();
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        loop {
            let Some(trace) = traces.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            let answers: Vec<Answer> =
                lines.iter().map(|line| answer(&program, trace, line)).collect::<io::Result<_>>()?;
            fs::write(out.join(format!("{}.json", slug(trace))), serde_json::to_string_pretty(&answers)?)?;
            println!("{}: {} answers", trace.display(), answers.len());
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| io::Error::other("a worker died"))?)
    })
}

/// Arguments of every run, the command first.
fn lines() -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let step = |command: &str, edit: &str| {
        let mut line = words(command);
        line.extend(["--step".to_owned(), edit.to_owned()]);
        line
    };
    let mut all = vec![words("simulate --json")];
    all.extend(EDITS.lines().filter(|line| !line.is_empty()).map(|edit| step("simulate --json", edit)));
    for command in COMMANDS {
        all.push(words(command));
        if !["info", "overheads"].contains(&command.split(' ').next().unwrap_or_default()) {
            all.push(step(command, EDIT));
        }
    }
    all
}

fn answer(program: &Path, trace: &Path, line: &[String]) -> io::Result<Answer> {
    let (command, rest) = line.split_first().ok_or_else(|| io::Error::other("an empty line"))?;
    let done = Command::new(program).arg(command).arg(trace).args(rest).env("XDG_CONFIG_HOME", "/nowhere").output()?;
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(Answer {
        line: line.join(" "),
        status: done.status.code(),
        stdout: serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned())),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    })
}

/// A name for the file of a trace.
fn slug(trace: &Path) -> String {
    let parts: Vec<_> = trace.iter().map(|part| part.to_string_lossy()).collect();
    parts[parts.len().saturating_sub(2)..].join("~").replace('/', "")
}

fn read(folder: &Path) -> io::Result<BTreeMap<String, Vec<Answer>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        found.insert(name, serde_json::from_str(&fs::read_to_string(path)?)?);
    }
    Ok(found)
}

/// Prints what differs between two recordings, `most` places of each answer.
///
/// # Returns
/// Whether they agree.
///
/// # Errors
/// A recording cannot be read.
pub(crate) fn diff(before: &Path, after: &Path, tolerance: f64, most: usize) -> io::Result<bool> {
    let (before, after) = (read(before)?, read(after)?);
    let mut out = io::stdout().lock();
    let (mut compared, mut different) = (0, 0);
    for (trace, answers) in &before {
        let Some(others) = after.get(trace) else {
            writeln!(out, "{trace}: not recorded after")?;
            different += 1;
            continue;
        };
        for answer in answers {
            let other = others.iter().find(|other| other.line == answer.line);
            let places =
                other.map_or_else(|| vec!["not recorded after".to_owned()], |other| places(answer, other, tolerance));
            compared += 1;
            if places.is_empty() {
                continue;
            }
            different += 1;
            writeln!(out, "{trace}: {}: {} differences", answer.line, places.len())?;
            for place in places.iter().take(most) {
                writeln!(out, "    {place}")?;
            }
        }
    }
    writeln!(out, "{compared} answers compared, {different} differ")?;
    Ok(different == 0)
}

fn places(a: &Answer, b: &Answer, tolerance: f64) -> Vec<String> {
    let mut found = Vec::new();
    if a.status != b.status {
        found.push(format!("status {:?} → {:?}", a.status, b.status));
    }
    if a.stderr != b.stderr {
        found.push(format!("stderr {:?} → {:?}", a.stderr, b.stderr));
    }
    compare("", &a.stdout, &b.stdout, tolerance, &mut found);
    found
}

fn compare(place: &str, a: &Value, b: &Value, tolerance: f64, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let none = Value::Null;
                compare(
                    &format!("{place}/{key}"),
                    a.get(key).unwrap_or(&none),
                    b.get(key).unwrap_or(&none),
                    tolerance,
                    found,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}/{at}"), a, b, tolerance, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => found.push(format!("{place}: {} → {} entries", a.len(), b.len())),
        (Value::Number(x), Value::Number(y)) => {
            let (x, y) = (x.as_f64().unwrap_or(f64::NAN), y.as_f64().unwrap_or(f64::NAN));
            if (x - y).abs() > tolerance * x.abs().max(y.abs()) {
                found.push(format!("{place}: {x} → {y}"));
            }
        }
        _ if a == b => {}
        _ => found.push(format!("{place}: {a} → {b}")),
    }
}
