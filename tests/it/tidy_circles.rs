//! Folders of a crate do not import one another in a circle.
//!
//! Beside one another stand the files and folders of one folder. What a folder's own `mod.rs` and what is inside it use of each other
//! does not count; nor do circles among files of one folder, which are one module in parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Circles that are there, by the folder in which they are and its parts: the list may only become shorter.
const KNOWN: [(&str, &str); 2] = [
    // A view is given the workspace and names what keys do; the workspace keeps states of views.
    ("src/tui", "app command effect input key load overlay runner script update views workspace"),
    // The base finds tables and inputs when first asked, which are found in the base.
    ("crates/core/src/scenario", "base inputs tables"),
];

/// The crates' sources.
const CRATES: [&str; 4] = ["src", "crates/core/src", "crates/fit/src", "crates/lab/src"];

/// A module as its path from the crate's root.
type Module = Vec<String>;

/// A crate: by module its source without comments and tests.
struct Crate {
    sources: BTreeMap<Module, String>,
    /// By module: the names that it passes on, with the paths that they stand for.
    passed_on: BTreeMap<Module, Vec<(String, Vec<String>)>>,
}

impl Crate {
    fn read(root: &Path) -> Self {
        let mut sources = BTreeMap::new();
        read_into(root, &mut Vec::new(), &mut sources);
        let uses = |source: &String| used(source).into_iter().filter(|it| it.is_public).map(|it| (it.name, it.path));
        let passed_on = sources.iter().map(|(module, source)| (module.clone(), uses(source).collect())).collect();
        Self { sources, passed_on }
    }

    fn is_folder(&self, module: &[String]) -> bool {
        self.sources.keys().any(|other| other.len() > module.len() && other.starts_with(module))
    }

    /// The module in which a path that `from` names ends; `None` outside of the crate.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from.split_last()?.1.to_vec(),
            name => {
                let child = [from.as_slice(), &[name.to_owned()]].concat();
                self.sources.contains_key(&child).then_some(child)?
            }
        };
        let mut rest = rest;
        while let Some((next, after)) = rest.split_first() {
            if next == "super" {
                at.pop();
            } else {
                let child = [at.as_slice(), std::slice::from_ref(next)].concat();
                if !self.sources.contains_key(&child) {
                    break;
                }
                at = child;
            }
            rest = after;
        }
        let passed_on = self.passed_on.get(&at).into_iter().flatten();
        let mut stands_for = passed_on.filter(|(name, _)| Some(name) == rest.first() || name == "*");
        let further =
            stands_for.find_map(|(_, path)| if depth > 0 { self.resolve(&at, path, depth - 1) } else { None });
        further.or(Some(at))
    }

    /// By folder: which of its parts use which.
    fn arrows(&self) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
        let mut arrows: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (module, source) in &self.sources {
            for path in used(source).into_iter().map(|it| it.path).chain(named(source)) {
                let Some(to) = self.resolve(module, &path, 4) else { continue };
                let shared = module.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(shared), to.get(shared)) {
                    let folder = arrows.entry(module[..shared].to_vec()).or_default();
                    folder.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        arrows
    }

    /// Circles with a folder in them: where, and the parts.
    fn circles(&self) -> Vec<(Module, Vec<String>)> {
        let mut found = Vec::new();
        for (folder, arrows) in self.arrows() {
            for circle in circles(&arrows) {
                let is_folder =
                    |part: &String| self.is_folder(&[folder.as_slice(), std::slice::from_ref(part)].concat());
                if circle.iter().any(is_folder) {
                    found.push((folder.clone(), circle));
                }
            }
        }
        found
    }
}

fn read_into(folder: &Path, module: &mut Module, sources: &mut BTreeMap<Module, String>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_root = matches!(name.as_str(), "mod" | "lib");
        if name == "tests" || name == "main" {
            continue;
        }
        if !is_root {
            module.push(name);
        }
        if path.is_dir() {
            read_into(&path, module, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            sources.insert(module.clone(), code(&fs::read_to_string(&path).unwrap()));
        }
        if !is_root {
            module.pop();
        }
    }
}

/// The source without comments and test modules.
fn code(text: &str) -> String {
    let text = text.find("#[cfg(test)]\nmod ").map_or(text, |at| &text[..at]);
    let lines = text.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// An import.
struct Use {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// What `use` statements name, one by one.
fn used(source: &str) -> Vec<Use> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("use ") {
        let before = source[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_public = before == "pub" || (before.starts_with("pub(") && before.ends_with(')'));
        if !(before.is_empty() || is_public) {
            continue;
        }
        let statement: String =
            source[at + 4..].split(';').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", &statement, &mut |path: &str| {
            let (path, alias) = path.split_once(" as ").unwrap_or((path, ""));
            let mut parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
            if parts.last().is_some_and(|last| last == "self") && parts.len() > 1 {
                parts.pop();
            }
            let last = parts.last().cloned().unwrap_or_default();
            let name = if alias.is_empty() { last } else { alias.trim().to_owned() };
            found.push(Use { name, path: parts, is_public });
        });
    }
    found
}

/// Calls `each` with every path that `{…}` in a statement stands for.
fn expand(head: &str, tree: &str, each: &mut impl FnMut(&str)) {
    let Some(open) = tree.find('{') else { return each(&format!("{head}{tree}")) };
    let head = format!("{head}{}", &tree[..open]);
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inside[start..at].trim();
                if !part.is_empty() {
                    expand(head.trim(), part, each);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Paths from `crate` or `super` that code names without importing them.
fn named(source: &str) -> Vec<Vec<String>> {
    let heads = ["crate::", "super::"].into_iter().flat_map(|head| source.match_indices(head));
    let whole = heads.filter(|&(at, _)| !source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'));
    let path = |(at, _): (usize, &str)| {
        let end = source[at..].find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(0);
        source[at..at + end].split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    whole.map(path).collect()
}

/// Parts that reach one another.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            for to in arrows.get(next).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|part| (part, reach(part))).collect();
    let circle = |part: &&String| -> Vec<String> {
        let back = |other: &&String| reached[*part].contains(*other) && reached[*other].contains(*part);
        arrows.keys().filter(back).cloned().collect()
    };
    let found: BTreeSet<Vec<String>> =
        arrows.keys().map(|part| circle(&part)).filter(|circle| circle.len() > 1).collect();
    found.into_iter().collect()
}

#[test]
fn folders_import_one_another_in_no_circle() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in CRATES {
        for (module, circle) in Crate::read(&root.join(folder)).circles() {
            found.push((
                [folder].into_iter().chain(module.iter().map(String::as_str)).collect::<Vec<_>>().join("/"),
                circle.join(" "),
            ));
        }
    }
    let known: Vec<(String, String)> =
        KNOWN.iter().map(|(at, parts)| ((*at).to_owned(), (*parts).to_owned())).collect();
    assert_eq!(found, known, "circles of imports: untie what is new, take out of the list what is gone");
}

#[test]
fn a_circle_through_a_name_that_is_passed_on_is_found() {
    let source = |text: &str| code(text);
    let module = |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Module>();
    let files = [
        ("", "pub mod a;\npub mod b;"),
        ("a", "mod c;\npub use c::Thing;"),
        ("a/c", "use crate::b::Other;\npub struct Thing;"),
        ("b", "use crate::a::{self, Thing};\nmod d;"),
        ("b/d", "// use crate::a::Thing;\nfn f() { super::Other::new() }"),
    ];
    let sources: BTreeMap<Module, String> = files.iter().map(|(path, text)| (module(path), source(text))).collect();
    let passed_on = sources
        .iter()
        .map(|(path, text)| {
            (path.clone(), used(text).into_iter().filter(|it| it.is_public).map(|it| (it.name, it.path)).collect())
        })
        .collect();
    let made_up = Crate { sources, passed_on };
    assert_eq!(made_up.circles(), [(module(""), vec!["a".to_owned(), "b".to_owned()])]);
    assert_eq!(made_up.resolve(&module("b"), &module("crate/a/Thing"), 4), Some(module("a/c")));
}
