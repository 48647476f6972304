//! Holds the source to the rules of ARCHITECTURE.md: who may use whom, sizes, colours, documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file in lines, tests not counted.
const FILE_LIMIT: usize = 600;
/// Longest function in lines.
const FUNCTION_LIMIT: usize = 80;
/// Longest ARCHITECTURE.md in lines: it is a map.
const MAP_LIMIT: usize = 170;

/// The modules that all others may use, and that use no other; nor does `cli`.
const LEAVES: &str = "align diagnostic fnv intern log reads stats units";
/// For each other module of the program and the engine, the modules it may use beside the leaves; what crates may use is in their manifests.
const MAY_USE: [(&str, &str); 15] = [
    ("trace", ""),
    ("device", ""),
    ("sim", "graph::timed"),
    ("graph", "trace"),
    ("cost", "graph device"),
    ("memory", "trace graph sim cost device"),
    ("scenario", "graph cost device sim memory"),
    ("analysis", "graph sim cost scenario device"),
    ("engine", "trace graph sim cost scenario analysis device memory"),
    ("fit", "graph cost device"),
    ("config", "device engine fit"),
    ("session", "trace graph sim cost scenario analysis device memory engine fit config"),
    ("headless", "trace graph sim cost scenario analysis device memory engine fit config session cli"),
    ("tui", "trace graph sim cost scenario analysis device memory engine config session"),
    ("lab", "trace graph sim cost scenario analysis device memory engine fit config session headless cli"),
];

/// For each module, the modules it may use.
fn may_use() -> BTreeMap<&'static str, Vec<&'static str>> {
    let none = LEAVES.split(' ').chain(["cli"]).map(|module| (module, Vec::new()));
    let others =
        MAY_USE.iter().map(|(module, used)| (*module, LEAVES.split(' ').chain(used.split_whitespace()).collect()));
    none.chain(others).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The source without its test module.
fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod ").map_or(text, |at| &text[..at])
}

fn is_test_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

fn sources() -> Vec<(String, String)> {
    let root = root();
    ["src", "crates"]
        .into_iter()
        .flat_map(|folder| rust_files(&root.join(folder)))
        .filter(|path| !is_test_file(path))
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The module that a file belongs to: a crate of its own is one, but for the engine, whose modules have rules each.
fn module(file: &str) -> String {
    let inside = file.trim_start_matches("src/").trim_start_matches("crates/core/src/");
    let inside = inside.trim_start_matches("crates/");
    inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned()
}

/// The paths that a source of `module` names below its own crate, the engine and the crate of fits, `a::b` for two levels.
fn uses(module: &str, text: &str) -> BTreeSet<String> {
    let own = if ["fit", "lab"].contains(&module) { "nothing::" } else { "crate::" };
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let below = [own, "retime_core::", "retime::"].into_iter().flat_map(|head| line.match_indices(head));
        for (at, head) in below {
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            let path: String =
                line[at + head.len()..].chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
            let mut parts = path.split("::").filter(|part| !part.is_empty());
            if let Some(first) = parts.next() {
                found.insert(parts.next().map_or(first.to_owned(), |second| format!("{first}::{second}")));
            }
        }
        if line.contains("retime_fit::") && module != "fit" {
            found.insert("fit".to_owned());
        }
    }
    found
}

fn fail_on(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn modules_use_only_what_the_architecture_allows() {
    let allowed = may_use();
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let module = module(&file);
        if module == "main" || module == "lib" {
            continue;
        }
        let Some(list) = allowed.get(module.as_str()) else {
            broken.push(format!("{file}: module `{module}` has no rule"));
            continue;
        };
        for path in uses(&module, without_tests(&text)) {
            let first = path.split("::").next().unwrap();
            let ok = first == module || list.contains(&first) || list.iter().any(|rule| path.starts_with(*rule));
            if !ok {
                broken.push(format!("{file} uses {path}"));
            }
        }
    }
    fail_on(&broken, "a module uses what it must not");
}

#[test]
fn only_building_the_graph_reads_traces() {
    let mut broken = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| file.starts_with("crates/core/src/graph/")) {
        if file.contains("build") || file.contains("iteration") {
            continue;
        }
        let bad = uses("graph", without_tests(&text)).into_iter().filter(|path| {
            path.starts_with("trace") && !matches!(path.as_str(), "trace::EventId" | "trace::RecordedDevice")
        });
        broken.extend(bad.map(|path| format!("{file} uses {path}")));
    }
    fail_on(&broken, "outside build and iteration the graph knows only a trace's ids");
}

#[test]
fn terminal_crates_stay_in_the_screen_and_reports_at_the_edge() {
    let rules: [(&str, &[&str]); 4] = [
        ("ratatui", &["src/tui/"]),
        ("crossterm", &["src/tui/"]),
        ("color_eyre", &["src/main.rs", "src/headless/", "src/tui/", "crates/lab/"]),
        (
            "std::fs",
            &[
                "crates/core/src/trace/source",
                "crates/core/src/engine/files",
                "src/session/",
                "src/config",
                "crates/lab/",
            ],
        ),
    ];
    let mut broken = Vec::new();
    for (file, text) in sources() {
        for (name, places) in rules {
            let named = without_tests(&text)
                .lines()
                .any(|line| !line.trim_start().starts_with("//") && names_crate(line, name));
            if named && !places.iter().any(|place| file.starts_with(place)) {
                broken.push(format!("{file} uses {name}"));
            }
        }
    }
    fail_on(&broken, "a crate is used where it must not be");
}

/// Whether a line has `name::` or imports `name` itself.
fn names_crate(line: &str, name: &str) -> bool {
    line.contains(&format!("{name}::")) || line.contains(&format!("use {name};"))
}

#[test]
fn colours_are_written_in_the_theme_only() {
    let mut broken = Vec::new();
    for (file, text) in sources().into_iter().filter(|(file, _)| !file.starts_with("src/tui/theme")) {
        for (number, line) in without_tests(&text).lines().enumerate() {
            if !line.trim_start().starts_with("//") && (line.contains("Color::") || line.contains("Stylize")) {
                broken.push(format!("{file}:{}", number + 1));
            }
        }
    }
    fail_on(&broken, "a colour outside tui/theme");
}

#[test]
fn files_stay_small_and_say_what_they_own() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let lines = without_tests(&text).lines().count();
        if lines > FILE_LIMIT {
            broken.push(format!("{file} has {lines} lines"));
        }
        if !text.starts_with("//! ") {
            broken.push(format!("{file} does not open with `//! `"));
        }
    }
    fail_on(&broken, &format!("files have at most {FILE_LIMIT} lines and say what they own"));
}

#[test]
fn functions_stay_small() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        for (name, line, length) in functions(without_tests(&text)) {
            if length > FUNCTION_LIMIT {
                broken.push(format!("{file}:{line} `{name}` has {length} lines"));
            }
        }
    }
    fail_on(&broken, &format!("functions have at most {FUNCTION_LIMIT} lines"));
}

/// Name, first line and length of each function, told by the indentation that rustfmt gives its closing brace.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let head = line.trim_start();
        let is_function = head.starts_with("fn ")
            || ((head.starts_with("pub") || head.starts_with("const fn"))
                && head.contains("fn ")
                && head.contains('('));
        if !is_function || line.ends_with(';') || line.ends_with('}') {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[at..].iter().position(|line| *line == close) {
            let name = head.split("fn ").nth(1).unwrap_or(head).split(['(', '<']).next().unwrap_or("").to_owned();
            found.push((name, at + 1, length + 1));
        }
    }
    found
}

#[test]
fn lints_are_expected_with_a_reason_and_nothing_is_left_over() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{file}:{}", number + 1);
            if line.contains("#[allow(") || line.contains("#![allow(") {
                broken.push(format!("{place} allows a lint; use #[expect(…, reason = \"…\")]"));
            }
            if line.contains("#[expect(") && !text.contains("reason = ") {
                broken.push(format!("{place} expects a lint without a reason"));
            }
            let left_over =
                ["TODO", "FIXME", "todo!", "unimplemented!", "dbg!("].iter().find(|mark| line.contains(**mark));
            if let Some(mark) = left_over {
                broken.push(format!("{place} has {mark}"));
            }
        }
    }
    fail_on(&broken, "left-overs");
}

#[test]
fn unsafe_code_is_in_one_place() {
    let places: Vec<String> =
        sources().into_iter().filter(|(_, text)| text.contains("unsafe_code")).map(|(file, _)| file).collect();
    assert!(places.len() <= 1, "more than what is wished of the allocator is unsafe: {places:?}");
}

/// What stands at the top level, with what building and tools leave there; names that begin with a dot aside.
const TOP_LEVEL: [&str; 16] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "benches",
    "clippy.toml",
    "crates",
    "docs",
    "fuzz",
    "rustfmt.toml",
    "sample_traces",
    "src",
    "tests",
    "themes",
];

#[test]
fn nothing_strays_at_the_top_level() {
    let names = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let is_stray = |name: &String| {
        !name.starts_with('.') && !["target", "shared"].contains(&name.as_str()) && !TOP_LEVEL.contains(&name.as_str())
    };
    let strays: Vec<String> = names.filter(is_stray).collect();
    fail_on(&strays, "not a part of the project, or missing in the list above");
}

fn files_ending(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_ending(&path, ending) } else { vec![path] };
    entries.flat_map(below).filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

/// What relative links in `text` lead to, and files of the repository that it names in backticks, the engine's without its folder too.
fn references(text: &str) -> Vec<String> {
    let until = |rest: &str, end: char| rest.split(end).next().unwrap().to_owned();
    let links = text.match_indices("](").map(|(at, _)| until(&text[at + 2..], ')'));
    let links = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
    let folders =
        ["`src/", "`crates/", "`docs/", "`tests/", "`sample_traces/", "`cost/", "`device/", "`scenario/", "`analysis/"];
    let named = folders.iter().flat_map(|folder| text.match_indices(folder)).map(|(at, _)| until(&text[at + 1..], '`'));
    links.chain(named.filter(|name| !name.contains(['*', '<', ' ', '{']))).collect()
}

#[test]
fn documents_are_short_and_refer_to_what_is_there() {
    let root = root();
    let mut broken = Vec::new();
    let pages = ["README.md", "ARCHITECTURE.md"].map(|name| root.join(name));
    for path in pages.into_iter().chain(files_ending(&root.join("docs"), ".md")) {
        let text = fs::read_to_string(&path).unwrap();
        let folder = path.parent().unwrap();
        let bases = [folder, &root, &root.join("crates/core/src")];
        let is_missing = |name: &String| !bases.iter().any(|base| base.join(name).exists());
        let missing = references(&text).into_iter().filter(is_missing);
        broken.extend(missing.map(|name| format!("{} names {name}", path.display())));
        if path.ends_with("ARCHITECTURE.md") && text.lines().count() > MAP_LIMIT {
            broken.push(format!("ARCHITECTURE.md has more than {MAP_LIMIT} lines"));
        }
    }
    fail_on(&broken, "a document is too long, or refers to what is not there");
}

/// Names of types in the last column of a table of words.
fn replaced(glossary: &str) -> BTreeSet<String> {
    let words =
        glossary.lines().filter_map(|line| line.rsplit('|').nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned).collect()
}

#[test]
fn no_type_has_a_name_that_the_glossary_replaced() {
    let replaced = replaced(&fs::read_to_string(root().join("docs/glossary.md")).unwrap());
    assert!(!replaced.is_empty(), "the glossary replaces nothing");
    let mut broken = Vec::new();
    for (file, text) in sources() {
        for head in ["struct ", "enum ", "trait ", "type "] {
            for (at, _) in text.match_indices(head) {
                let name: String = text[at + head.len()..].chars().take_while(|c| c.is_alphanumeric()).collect();
                if replaced.contains(&name) {
                    broken.push(format!("{file}: {head}{name}"));
                }
            }
        }
    }
    fail_on(&broken, "docs/glossary.md has another word for it");
}

#[test]
fn the_rules_themselves_can_fail() {
    assert_eq!(references("[a](b.md) [c](https://d) `src/e.rs`"), ["b.md", "src/e.rs"]);
    assert_eq!(replaced("| placement | where | seat, `Seat` |"), BTreeSet::from(["Seat".to_owned()]));
    assert_eq!(
        uses("graph", "use crate::tui::App;\n// crate::not_this\nlet x = crate::graph::timed::TaskId(0);").len(),
        2
    );
    assert!(names_crate("use std::fs;", "std::fs") && names_crate("std::fs::read(path)", "std::fs"));
    assert_eq!(module("crates/core/src/graph/timed.rs"), "graph");
    assert_eq!(module("crates/fit/src/lib.rs"), "fit");
    assert_eq!(module("src/session/mod.rs"), "session");
    assert_eq!(functions("fn a() {\n    b();\n}\n"), [("a".to_owned(), 1, 3)]);
    assert_eq!(without_tests("code\n#[cfg(test)]\nmod tests {}"), "code");
}
