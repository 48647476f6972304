//! The answers of shards put together: which sweep each is a part of, and whether all are parts of one.

use std::collections::BTreeMap;

use color_eyre::eyre::{Result, eyre};
use serde::{Deserialize, Serialize};

use crate::cli::{ScenarioCommand, SweepArgs};
use crate::session::{Loaded, Sweep, SweepPoint, read_text, trace_fingerprint};
use retime_core::intern::printable;
use retime_core::scenario::Scenario;

use super::{Answer, Shard, describe, output, setting, table};

/// A knob of a sweep with all its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KnobValues {
    knob: String,
    values: Vec<f64>,
}

/// What a sweep is of: shards whose setups differ are parts of different sweeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    knobs: Vec<KnobValues>,
    /// The fingerprint of the traces, whatever their files are called.
    #[serde(default)]
    fingerprint: String,
    steps: Vec<String>,
    /// The devices that were traced or stated.
    devices: Vec<String>,
    iteration: String,
    facts: Option<String>,
    learn: Option<String>,
    all_ranks: bool,
}

impl Setup {
    /// That of `sweeps` over `scenario`.
    pub(super) fn of(loaded: &Loaded, args: &ScenarioCommand, scenario: &Scenario, sweeps: &[Sweep]) -> Self {
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| printable(&path.display().to_string()));
        let knob = |sweep: &Sweep| KnobValues { knob: sweep.knob.clone(), values: sweep.values().collect() };
        Self {
            knobs: sweeps.iter().map(knob).collect(),
            fingerprint: trace_fingerprint(loaded),
            steps: scenario.steps.iter().filter(|step| step.enabled).map(ToString::to_string).collect(),
            devices: loaded.device_names(),
            iteration: loaded.graph.ranks.first().map(|part| part.iteration.clone()).unwrap_or_default(),
            facts: path(&args.table_facts),
            learn: path(&args.learn),
            all_ranks: args.input.all_ranks,
        }
    }

    /// Each thing that parts of one sweep have in common, in words.
    fn told(&self) -> [(&'static str, String); 7] {
        let knob = |it: &KnobValues| {
            let values: Vec<String> = it.values.iter().map(ToString::to_string).collect();
            format!("{} {}", it.knob, values.join(","))
        };
        let inputs = [("--facts", &self.facts), ("--learn", &self.learn)];
        let inputs = inputs.iter().filter_map(|(name, path)| Some(format!("{name} {}", path.as_ref()?)));
        let all_ranks = self.all_ranks.then(|| "--all-ranks".to_owned());
        [
            ("traces", self.fingerprint.clone()),
            ("knobs", self.knobs.iter().map(|it| it.knob.clone()).collect::<Vec<_>>().join(", ")),
            ("values", self.knobs.iter().map(knob).collect::<Vec<_>>().join("; ")),
            ("edits", self.steps.join("; ")),
            ("devices", self.devices.join(", ")),
            ("iterations", self.iteration.clone()),
            ("inputs", inputs.chain(all_ranks).collect::<Vec<_>>().join(" ")),
        ]
    }

    /// How many points the sweep has.
    fn count(&self) -> usize {
        self.knobs.iter().fold(1, |count: usize, it| count.saturating_mul(it.values.len()))
    }

    /// The knobs of the point at `place`, of which those of the last knob change fastest.
    fn point(&self, place: usize) -> BTreeMap<String, f64> {
        let (mut left, mut point) = (place, BTreeMap::new());
        for KnobValues { knob, values } in self.knobs.iter().rev() {
            point.entry(knob.clone()).or_insert(values[left % values.len()]);
            left /= values.len();
        }
        point
    }
}

/// An answer as a shard wrote it.
#[derive(Debug, Deserialize)]
struct Written {
    traces: Vec<String>,
    points: Vec<SweepPoint>,
    shard: Option<Shard>,
    sweep: Option<Setup>,
    schema: u32,
    #[serde(default)]
    batches: Option<u32>,
    #[serde(default)]
    replaced: Vec<String>,
    #[serde(default)]
    diagnostics: Vec<Told>,
}

/// A diagnostic as a shard wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Told {
    severity: String,
    code: String,
    message: String,
    place: Option<String>,
    count: u64,
}

/// A shard's answer, with the name of its file.
struct Part {
    file: String,
    shard: Shard,
    setup: Setup,
    traces: Vec<String>,
    points: Vec<SweepPoint>,
    batches: Option<u32>,
    replaced: Vec<String>,
    diagnostics: Vec<Told>,
}

impl Part {
    fn read(path: &std::path::Path) -> Result<Self> {
        let file = path.display().to_string();
        let written: Written = serde_json::from_str(&read_text(path)?).map_err(|error| eyre!("{file}: {error}"))?;
        if written.schema != output::SCHEMA {
            return Err(eyre!("{file}: of schema {}, this program's is {}", written.schema, output::SCHEMA));
        }
        let shard = written.shard.filter(|shard| (1..=shard.of).contains(&shard.part));
        let shard = shard.ok_or_else(|| eyre!("{file}: not the answer of a shard"))?;
        if let Some(point) = written.points.iter().find(|point| !point.is_sound()) {
            return Err(eyre!("{file}: figures that no sweep gives, at {}", named(&point.knobs)));
        }
        let older = "it does not say which sweep it is a part of (an earlier version wrote it): sweep again";
        let setup = written.sweep.ok_or_else(|| eyre!("{file}: {older}"))?;
        if setup.knobs.is_empty() || setup.knobs.iter().any(|it| it.values.is_empty()) {
            return Err(eyre!("{file}: a sweep without values"));
        }
        let Written { traces, points, batches, replaced, diagnostics, .. } = written;
        let replaced = replaced.iter().map(|step| printable(step)).collect();
        Ok(Self { file, shard, setup, traces, points, batches, replaced, diagnostics })
    }

    /// How many of its points are missing, where those that are there are its own.
    fn missing(&self) -> Result<usize> {
        let mut found = self.points.iter().peekable();
        let mut missing = 0;
        for place in (self.shard.part - 1..self.setup.count()).step_by(self.shard.of) {
            let wanted = self.setup.point(place);
            if found.next_if(|point| point.knobs == wanted).is_none() {
                missing += 1;
            }
            if found.peek().is_none() {
                let left = (self.setup.count() - 1 - place) / self.shard.of;
                return Ok(missing + left);
            }
        }
        match found.next() {
            Some(point) => Err(eyre!("{}: {} is no point of this part", self.file, named(&point.knobs))),
            None => Ok(missing),
        }
    }
}

fn named(knobs: &BTreeMap<String, f64>) -> String {
    let at: Vec<String> = knobs.iter().map(|(knob, value)| setting(&printable(knob), *value)).collect();
    at.join(" ")
}

/// What is not the same of two parts.
fn difference(one: &Part, other: &Part) -> Option<(&'static str, String, String)> {
    let traces = |part: &Part| ("traces", part.traces.join(" "));
    let all = |part: &Part| std::iter::once(traces(part)).chain(part.setup.told()).collect::<Vec<_>>();
    let pairs = all(one).into_iter().zip(all(other));
    pairs.into_iter().find(|(a, b)| a != b).map(|((what, a), (_, b))| (what, a, b))
}

/// Whether the parts, in order, are all of one sweep.
fn check(parts: &[Part]) -> Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    if let Some((other, (what, a, b))) = parts.iter().find_map(|part| Some((part, difference(first, part)?))) {
        let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { printable(&text) };
        let (a, b) = (or_none(a), or_none(b));
        return Err(eyre!("--merge: parts of different {what}: {} has {a}, {} has {b}", first.file, other.file));
    }
    let shards: Vec<Shard> = parts.iter().map(|part| part.shard).collect();
    let of = first.shard.of;
    let complete = shards.iter().copied().eq((1..=of).map(|part| Shard { part, of }));
    let are_alike = shards.iter().all(|shard| shard.of == of) && shards.windows(2).all(|pair| pair[0] != pair[1]);
    let missing = parts.iter().map(Part::missing).sum::<Result<usize>>()?;
    let all = first.setup.count();
    if !complete {
        let found: Vec<String> = shards.iter().map(|shard| format!("{}/{}", shard.part, shard.of)).collect();
        let there: usize = parts.iter().map(|part| part.points.len()).sum();
        let lack = format!("; {} of {all} points are missing", all.saturating_sub(there));
        let lack = if are_alike { lack } else { String::new() };
        return Err(eyre!("--merge: expected each part once, found {}{lack}", found.join(", ")));
    }
    if missing > 0 {
        let lacking = parts.iter().find(|part| part.missing().is_ok_and(|missing| missing > 0));
        let file = lacking.map_or("", |part| part.file.as_str());
        return Err(eyre!("--merge: {missing} of {all} points are missing, the first in {file}"));
    }
    Ok(())
}

/// Puts the answers of shards together, their points in turn, as one sweep would have written them.
///
/// # Errors
/// A file is no shard's answer, or they are not all parts of one sweep.
pub(super) fn run(args: &SweepArgs) -> Result<()> {
    let mut parts = args.merge.iter().map(|path| Part::read(path)).collect::<Result<Vec<Part>>>()?;
    parts.sort_by_key(|part| part.shard);
    check(&parts)?;
    let first = parts.first();
    let traces = first.map(|part| part.traces.clone()).unwrap_or_default();
    let (batches, replaced) = first.map_or((None, Vec::new()), |part| (part.batches, part.replaced.clone()));
    let mut diagnostics: Vec<Told> = Vec::new();
    for diagnostic in parts.iter().flat_map(|part| &part.diagnostics) {
        if !diagnostics.contains(diagnostic) {
            diagnostics.push(diagnostic.clone());
        }
    }
    let mut lists: Vec<_> = parts.into_iter().map(|part| part.points.into_iter()).collect();
    let mut points = Vec::new();
    loop {
        let before = points.len();
        points.extend(lists.iter_mut().filter_map(Iterator::next));
        if points.len() == before {
            break;
        }
    }
    let knobs: Vec<String> = points.first().map(|point| point.knobs.keys().cloned().collect()).unwrap_or_default();
    let answer = Answer { batches, replaced, ..Answer::of(points, Shard::ALL, None) };
    let json = Merged { traces, answer, diagnostics };
    let table = || table(&knobs, &json.answer.points);
    output::write(&args.common.input.output, &json, |out| describe(&table(), &json.answer, out), table)?;
    Ok(())
}

/// A merged answer, of the form that the command has otherwise.
#[derive(Debug, Serialize)]
struct Merged {
    traces: Vec<String>,
    #[serde(flatten)]
    answer: Answer,
    diagnostics: Vec<Told>,
}
