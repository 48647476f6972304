//! What the user did to a trace, kept from one session to the next: one TOML file per trace, by the trace's fingerprint.
//!
//! ```toml
//! format = "retime-session-1"
//! lines = 12
//! trace = "6f1c…"
//! iteration = 3
//! steps = ["resize-batch 4096", "# swap-gpu H200"]
//! view = "gaps"
//! marks = [1200000]
//! window = [0, 5000000]
//! [[scenarios]]
//! name = "larger batch"
//! steps = ["resize-batch 8192"]
//! [drawn_on]
//! learn = "/traces/at-another-batch.json.gz"
//! ```
//! Scenarios are listed where there are several; `name` tells which is in force.

use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etcetera::BaseStrategy;
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

use retime_core::diagnostic::Severity;
use retime_core::fnv::Fnv1a;
use retime_core::graph::iteration::{choose, steps};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::intern::{NameId, printable};
use retime_core::scenario::file::{read_lines, step_lines};
use retime_core::scenario::{FileError, Scenario};
use retime_core::trace::Trace;
use retime_core::units::TimeNs;

use super::drawn_on::DrawnOn;
use super::lock::FileLock;
use super::{Engine, EngineError, Loaded, Overwrite, SessionError, read_text, write_new};

const FORMAT: &str = "retime-session-1";

/// How many sessions of a trace that cannot be read are kept.
const MOST_ASIDE: u32 = 999;

/// What the user did to one trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedSession {
    /// The trace's fingerprint.
    pub trace: String,
    /// Position of the chosen iteration; `None` for the one that is chosen by itself.
    pub iteration: Option<usize>,
    /// The edits, disabled ones among them.
    pub scenario: Scenario,
    /// All scenarios, the one in force among them, where there are several.
    pub scenarios: Vec<Scenario>,
    /// The view's name; empty for the first.
    pub view: String,
    /// Marked instants.
    pub marks: Vec<TimeNs>,
    /// What some of them are called.
    pub mark_names: BTreeMap<TimeNs, String>,
    /// The part of time shown; `None` for the whole iteration.
    pub window: Option<(TimeNs, TimeNs)>,
    /// What its steps draw on beside the trace.
    pub drawn_on: DrawnOn,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    /// How many lines the file has: one that was cut short is not a whole one.
    #[serde(default)]
    lines: usize,
    trace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iteration: Option<usize>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    steps: Vec<String>,
    #[serde(default)]
    view: String,
    #[serde(default)]
    marks: Vec<i64>,
    /// One for each mark, empty where it has none; left out where none has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mark_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<(i64, i64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scenarios: Vec<Listed>,
    #[serde(default)]
    drawn_on: DrawnOn,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    #[serde(default)]
    name: String,
    #[serde(default)]
    steps: Vec<String>,
}

impl SavedSession {
    /// Whether it is as a trace opens for the first time.
    pub fn is_blank(&self) -> bool {
        *self == Self { trace: self.trace.clone(), drawn_on: self.drawn_on.clone(), ..Self::default() }
    }

    /// What it holds, and what of it `loaded` has to go without, in a few words: `2 steps, 1 mark, without second.json`.
    pub fn about(&self, loaded: &Loaded) -> String {
        let count = |number: usize, noun: &str| match number {
            0 => None,
            1 => Some(format!("1 {noun}")),
            _ => Some(format!("{number} {noun}s")),
        };
        let without = |index: usize| if modelled_iteration(loaded) == Some(index) { "" } else { "without " };
        let iteration = self.iteration.map(|index| format!("{}iteration {index}", without(index)));
        let scenarios = count(self.scenarios.len(), "scenario");
        let parts = [count(self.scenario.steps.len(), "step"), scenarios, count(self.marks.len(), "mark"), iteration];
        let parts: Vec<String> = parts.into_iter().flatten().chain(self.drawn_on.about(loaded)).collect();
        if parts.is_empty() { "the view".to_owned() } else { parts.join(", ") }
    }

    /// The text of its file.
    pub fn to_toml(&self) -> String {
        let name = |mark: &TimeNs| self.mark_names.get(mark).cloned().unwrap_or_default();
        let mut file = File {
            format: FORMAT.to_owned(),
            lines: 0,
            trace: self.trace.clone(),
            iteration: self.iteration,
            name: self.scenario.name.clone(),
            steps: step_lines(&self.scenario),
            view: self.view.clone(),
            marks: self.marks.iter().map(|mark| mark.0).collect(),
            mark_names: if self.mark_names.is_empty() { Vec::new() } else { self.marks.iter().map(name).collect() },
            window: self.window.map(|(from, to)| (from.0, to.0)),
            scenarios: self.scenarios.iter().map(listed).collect(),
            drawn_on: self.drawn_on.clone(),
        };
        let text = |file: &File| toml::to_string_pretty(file).unwrap_or_default();
        file.lines = text(&file).lines().count();
        text(&file)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Not TOML of that form, of another version, or with a line that is no step.
    pub fn from_toml(text: &str) -> Result<Self, FileError> {
        let file: File = toml::from_str(text).map_err(|error| FileError::syntax(text, &error))?;
        if file.format != FORMAT {
            return Err(FileError::Format { found: file.format, expected: FORMAT });
        }
        let line = text.lines().count();
        if line < file.lines {
            return Err(FileError::Syntax { line, message: format!("ends here, of {} lines", file.lines) });
        }
        let marks: Vec<TimeNs> = file.marks.into_iter().map(TimeNs).collect();
        let names = file.mark_names.iter().map(|name| printable(name));
        let named = marks.iter().copied().zip(names).filter(|(_, name)| !name.is_empty());
        Ok(Self {
            trace: file.trace,
            iteration: file.iteration,
            scenario: Scenario { name: file.name, steps: read_lines(&file.steps)? },
            view: file.view,
            mark_names: named.collect(),
            marks,
            window: file.window.map(|(from, to)| (TimeNs(from), TimeNs(to))),
            scenarios: file.scenarios.into_iter().map(read_listed).collect::<Result<_, _>>()?,
            drawn_on: file.drawn_on,
        })
    }
}

fn listed(scenario: &Scenario) -> Listed {
    Listed { name: scenario.name.clone(), steps: step_lines(scenario) }
}

fn read_listed(listed: Listed) -> Result<Scenario, FileError> {
    Ok(Scenario { steps: read_lines(&listed.steps)?, name: listed.name })
}

/// The folder of saved sessions.
#[derive(Clone, Debug)]
pub struct Sessions {
    folder: PathBuf,
    /// By trace: the lock that this process holds, or why its edits are not written, also once that is over.
    claims: Arc<Mutex<BTreeMap<String, Result<FileLock, &'static str>>>>,
}

/// Why a session is not written.
const UNREADABLE: &str = "a session that cannot be read is in the way";
const ELSEWHERE: &str = "another retime has this trace open, or had when it was opened here";

impl Sessions {
    /// The user's: `$XDG_STATE_HOME/retime`, else `~/.local/state/retime`; `None` where there is no such place.
    pub fn of_user() -> Option<Self> {
        let places = etcetera::choose_base_strategy().ok()?;
        Some(Self::at(places.state_dir()?.join("retime")))
    }

    /// Those in `folder`, which is made when the first one is written.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), claims: Arc::default() }
    }

    /// Takes the session of a trace for this process.
    ///
    /// # Errors
    /// Another process has it, a session that cannot be read is in the way, or the system refuses.
    pub fn claim(&self, trace: &str) -> Result<(), SessionError> {
        let path = self.path(trace).with_extension("lock");
        let fail = |reason: String| SessionError::Write { path: self.path(trace).display().to_string(), reason };
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        match claims.get(trace) {
            Some(Ok(_)) => return Ok(()),
            Some(Err(reason)) => return Err(fail((*reason).to_owned())),
            None => {}
        }
        fs::create_dir_all(&self.folder).map_err(|error| fail(error.to_string()))?;
        let taken = FileLock::take(path).map_err(|error| fail(error.to_string()))?;
        let lock = taken.ok_or(ELSEWHERE);
        let refused = lock.as_ref().err().map(|reason| fail((*reason).to_owned()));
        claims.insert(trace.to_owned(), lock);
        refused.map_or(Ok(()), Err)
    }

    /// Lets go of all sessions.
    pub(super) fn release(&self) {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Puts a session that cannot be read out of the way of the next one, unless another process has it: a newer retime may.
    fn set_aside(&self, trace: &str) -> String {
        match self.claim(trace).map_err(|error| error.to_string()).and_then(|()| self.move_aside(trace)) {
            Ok(name) => format!("it is kept as {}", name.display()),
            Err(reason) => {
                self.claims.lock().unwrap_or_else(PoisonError::into_inner).insert(trace.to_owned(), Err(UNREADABLE));
                format!("it stays where it is ({reason}), and this session is not saved")
            }
        }
    }

    fn move_aside(&self, trace: &str) -> Result<PathBuf, String> {
        let path = self.path(trace);
        let mut names = (1..=MOST_ASIDE).map(|number| path.with_extension(format!("unreadable-{number}.toml")));
        let free = names.find(|name| fs::symlink_metadata(name).is_err());
        let name = free.ok_or_else(|| format!("{MOST_ASIDE} are kept beside it"))?;
        fs::rename(&path, &name).map(|()| name).map_err(|error| error.to_string())
    }

    fn path(&self, trace: &str) -> PathBuf {
        self.folder.join(format!("{trace}.toml"))
    }

    /// The session of a trace, if one was saved.
    ///
    /// # Errors
    /// There is one that cannot be read, or that says it is another trace's.
    pub fn read(&self, trace: &str) -> Result<Option<SavedSession>, EngineError> {
        self.read_as(trace, || [])
    }

    /// The session of a trace that earlier versions called `former`.
    fn read_as<const N: usize>(
        &self,
        trace: &str,
        former: impl Fn() -> [String; N],
    ) -> Result<Option<SavedSession>, EngineError> {
        let path = self.path(trace);
        if !path.exists() {
            return Ok(None);
        }
        let fail = |reason: String| EngineError::Read { path: path.display().to_string(), reason };
        // A pipe would be waited for.
        if !path.is_file() {
            return Err(fail("this is no file".to_owned()));
        }
        let session = SavedSession::from_toml(&read_text(&path)?).map_err(|error| fail(error.to_string()))?;
        if session.trace != trace && !former().contains(&session.trace) {
            return Err(fail(format!("it is of another trace, {}", session.trace)));
        }
        Ok(Some(SavedSession { trace: trace.to_owned(), ..session }))
    }

    /// Writes a session in place of an earlier one of the same trace; of one that is blank nothing is left.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, session: &SavedSession) -> Result<(), SessionError> {
        self.claim(&session.trace)?;
        let path = self.path(&session.trace);
        let fail = |path: &Path, reason: &io::Error| SessionError::Write {
            path: path.display().to_string(),
            reason: reason.to_string(),
        };
        if session.is_blank() {
            let gone = fs::remove_file(&path);
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            return gone.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(fail(&path, &error)) });
        }
        write_new(&path, session.to_toml().as_bytes(), Overwrite { force: true, renews: &|_| true })
    }
}

/// The number that tells a trace from others, whichever iteration of it is modelled: of all events' times, names and kinds, of the sizes of
/// operators' tensors and of copies, and of the devices.
///
/// # Complexity
/// O(events + names).
pub fn trace_fingerprint(loaded: &Loaded) -> String {
    let mut hash = Fnv1a::default();
    for rank in &loaded.job.ranks {
        hash.add_i64(rank.rank.into());
        if let Some(trace) = &rank.trace {
            add_trace(&mut hash, trace);
        }
    }
    format!("{:016x}", hash.finish())
}

fn add_trace(hash: &mut Fnv1a, trace: &Trace) {
    let of_name = |(_, name): (_, &str)| {
        let mut hash = Fnv1a::default();
        hash.add(name.as_bytes());
        hash.finish().cast_signed()
    };
    let names: Vec<i64> = trace.names.iter().map(of_name).collect();
    let name = |id: NameId| names.get(id.0 as usize).copied().unwrap_or_default();
    hash.add_i64(trace.origin.0);
    for event in trace.events.ids() {
        hash.add_i64(trace.events.start(event).0);
        hash.add_i64(trace.events.dur(event).0);
        hash.add_i64(name(trace.events.name(event)) ^ trace.events.category(event) as i64);
    }
    for tensors in trace.operators.iter().filter_map(|(_, args)| trace.tensor_args.get(args.tensors?.index())) {
        for text in [tensors.dims, tensors.types, tensors.concrete] {
            hash.add_i64(name(text));
        }
    }
    trace.copies.iter().for_each(|(_, args)| hash.add_i64(args.bytes.0.cast_signed()));
    trace.devices.iter().for_each(|device| hash.add(device.name.as_bytes()));
}

/// Whether `fingerprint` is that of the trace of `loaded`, as written now or by earlier versions.
pub fn is_fingerprint(fingerprint: &str, loaded: &Loaded) -> bool {
    fingerprint == trace_fingerprint(loaded) || former_fingerprints(loaded).iter().any(|former| former == fingerprint)
}

/// What earlier versions called the trace, the last first.
fn former_fingerprints(loaded: &Loaded) -> [String; 2] {
    [times_fingerprint(loaded), former_fingerprint(loaded)]
}

/// The fingerprint of times alone, which traces of equal times share.
fn times_fingerprint(loaded: &Loaded) -> String {
    let mut hash = Fnv1a::default();
    for rank in &loaded.job.ranks {
        hash.add_i64(rank.rank.into());
        let Some(trace) = &rank.trace else { continue };
        hash.add_i64(trace.origin.0);
        for event in trace.events.ids() {
            hash.add_i64(trace.events.start(event).0);
            hash.add_i64(trace.events.dur(event).0);
        }
    }
    format!("{:016x}", hash.finish())
}

/// The fingerprint under which the first version wrote files: by a hash that may change with the library it comes from.
fn former_fingerprint(loaded: &Loaded) -> String {
    let mut hasher = FxHasher::default();
    for rank in &loaded.job.ranks {
        hasher.write_u32(rank.rank);
        let Some(trace) = &rank.trace else { continue };
        hasher.write_i64(trace.origin.0);
        for event in trace.events.ids() {
            hasher.write_i64(trace.events.start(event).0);
            hasher.write_i64(trace.events.dur(event).0);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// Position of the modelled iteration among those recorded, where it is not the one chosen by itself.
pub fn chosen_iteration(loaded: &Loaded) -> Option<usize> {
    let (modelled, by_itself) = iterations(loaded)?;
    modelled.filter(|_| modelled != by_itself)
}

/// Position of the modelled iteration among those recorded.
fn modelled_iteration(loaded: &Loaded) -> Option<usize> {
    iterations(loaded)?.0
}

/// Positions of the modelled iteration and of the one chosen by itself.
fn iterations(loaded: &Loaded) -> Option<(Option<usize>, Option<usize>)> {
    let part = loaded.graph.ranks.first()?;
    let trace = loaded.job.ranks.get(part.trace_index)?.trace.as_ref()?;
    let steps = steps(trace);
    let named = |name: &String| steps.iter().position(|step| step.name == *name);
    let by_itself = trace.iteration.as_ref().and_then(named).or_else(|| choose(&steps, IterationChoice::Default));
    Some((named(&part.iteration), by_itself))
}

impl Sessions {
    /// The last session of a trace that was just opened, and the trace at that session's iteration, unless `build` names
    /// one. A session that cannot be read is a warning about the trace.
    pub fn resume(&self, engine: &Engine, loaded: Loaded, build: &BuildOptions) -> (Loaded, Option<SavedSession>) {
        let trace = trace_fingerprint(&loaded);
        if !self.path(&trace).exists() {
            // Earlier versions named files otherwise; there is seldom one.
            let formers = former_fingerprints(&loaded);
            let _ = formers.iter().find(|former| fs::rename(self.path(former), self.path(&trace)).is_ok());
        }
        let session = match self.read_as(&trace, || former_fingerprints(&loaded)) {
            Ok(found) => found,
            Err(error) => {
                let mut loaded = loaded;
                let text = format!("the last session cannot be resumed: {error}; {}", self.set_aside(&trace));
                loaded.notes.add(Severity::Warning, "unreadable-session", &text, None, || text.clone());
                return (loaded, None);
            }
        };
        let mut loaded = loaded;
        if let Some(session) = session.as_ref().filter(|_| build.iteration == IterationChoice::Default)
            && let Some(index) = session.iteration
        {
            let options = BuildOptions { iteration: IterationChoice::Index(index) };
            match engine.replay(Arc::clone(&loaded.job), &options) {
                Ok(mut other) => {
                    other.notes.merge(&loaded.notes);
                    loaded = other;
                }
                Err(error) => {
                    let text =
                        format!("the last session was of another iteration, which cannot be modelled now: {error}");
                    loaded.notes.add(Severity::Warning, "session-without", &text, None, || text.clone());
                }
            }
        }
        match &session {
            Some(known) => (known.drawn_on.restore(engine, loaded), session),
            None => (loaded, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::sample;

    fn session() -> SavedSession {
        let mut scenario = Scenario::parse(["resize-batch 4096", "swap-gpu H200"]).unwrap();
        scenario.steps[1].enabled = false;
        SavedSession {
            trace: "00ff".to_owned(),
            iteration: Some(3),
            scenarios: vec![Scenario { name: "other".to_owned(), ..Scenario::default() }, scenario.clone()],
            scenario,
            view: "gaps".to_owned(),
            marks: vec![TimeNs(1200), TimeNs(-3)],
            mark_names: [(TimeNs(-3), "backward".to_owned())].into(),
            window: Some((TimeNs(0), TimeNs(5000))),
            drawn_on: DrawnOn::default(),
        }
    }

    #[test]
    fn a_session_survives_a_round_trip_and_a_blank_one_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::at(folder.path().join("state/retime"));
        assert_eq!(sessions.read("00ff").unwrap(), None);
        sessions.write(&session()).unwrap();
        assert_eq!(sessions.read("00ff").unwrap(), Some(session()));
        let loaded = sample::load(&Engine::builtin().unwrap(), &BuildOptions::default()).unwrap();
        assert_eq!(session().about(&loaded), "2 steps, 2 scenarios, 2 marks, without iteration 3");
        let blank = SavedSession { trace: "00ff".to_owned(), ..SavedSession::default() };
        sessions.write(&blank).unwrap();
        sessions.write(&blank).unwrap();
        assert_eq!(sessions.read("00ff").unwrap(), None);
    }

    #[test]
    fn a_session_that_was_cut_short_is_not_read_as_a_whole_one() {
        let text = session().to_toml();
        assert_eq!(SavedSession::from_toml(&text).unwrap(), session());
        let lines: Vec<&str> = text.lines().collect();
        for kept in 0..lines.len() {
            assert!(SavedSession::from_toml(&lines[..kept].join("\n")).is_err(), "{kept} lines");
        }
    }

    #[test]
    fn a_session_that_cannot_be_read_is_kept_aside_and_said() {
        let engine = Engine::builtin().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let build = BuildOptions::default();
        let trace = trace_fingerprint(&sample::load(&engine, &build).unwrap());
        let foreign = SavedSession { trace: "00ff".to_owned(), ..session() }.to_toml();
        let newer = format!("format = \"retime-session-9\"\ntrace = \"{trace}\"");
        for (number, text) in [newer.as_str(), &foreign, "form"].into_iter().enumerate() {
            fs::write(folder.path().join(format!("{trace}.toml")), text).unwrap();
            let sessions = Sessions::at(folder.path());
            let (loaded, resumed) = sessions.resume(&engine, sample::load(&engine, &build).unwrap(), &build);
            assert_eq!(resumed, None);
            let said: Vec<String> = loaded.diagnostics().sorted().iter().map(|line| line.message.clone()).collect();
            let aside = format!("{trace}.unreadable-{}.toml", number + 1);
            assert!(said.iter().any(|line| line.contains(&aside)), "{said:?}");
            sessions.write(&SavedSession { trace: trace.clone(), ..session() }).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join(aside)).unwrap(), text);
        }
    }

    #[test]
    fn a_session_that_cannot_be_read_and_cannot_be_kept_aside_stays() {
        let engine = Engine::builtin().unwrap();
        let build = BuildOptions::default();
        let trace = trace_fingerprint(&sample::load(&engine, &build).unwrap());
        let check = |is_open: bool, beside: u32| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(format!("{trace}.toml"));
            let other = Sessions::at(folder.path());
            if is_open {
                other.claim(&trace).unwrap();
            }
            fs::write(&path, "newer").unwrap();
            for number in 1..=beside {
                fs::write(path.with_extension(format!("unreadable-{number}.toml")), "older").unwrap();
            }
            let sessions = Sessions::at(folder.path());
            let (loaded, _) = sessions.resume(&engine, sample::load(&engine, &build).unwrap(), &build);
            let said: Vec<String> = loaded.diagnostics().sorted().iter().map(|line| line.message.clone()).collect();
            assert!(said.iter().any(|line| line.contains("this session is not saved")), "{said:?}");
            assert!(sessions.write(&SavedSession { trace: trace.clone(), ..session() }).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        };
        check(true, 0);
        check(false, MOST_ASIDE);
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_in_place_of_a_session_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("00ff.toml")).status().unwrap();
        assert!(made.success());
        let (sender, receiver) = std::sync::mpsc::channel();
        let sessions = Sessions::at(folder.path());
        std::thread::spawn(move || {
            let read = sessions.read("00ff").map_err(|error| error.to_string());
            sender.send(read).unwrap();
        });
        let refused = receiver.recv_timeout(std::time::Duration::from_secs(10)).unwrap().unwrap_err();
        assert!(refused.contains("no file"), "{refused}");
    }

    #[test]
    fn a_session_that_another_program_has_open_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| Sessions::at(folder.path()));
        first.write(&session()).unwrap();
        let mine = SavedSession { view: "path".to_owned(), ..session() };
        let refused = second.write(&mine).unwrap_err().to_string();
        assert!(refused.contains("another retime"), "{refused}");
        assert_eq!(second.read("00ff").unwrap(), Some(session()));
        // Its edits began beside those of the first: it does not write over them once that is gone.
        first.release();
        assert!(second.write(&mine).is_err());
        assert_eq!(second.read("00ff").unwrap(), Some(session()));
        let third = Sessions::at(folder.path());
        third.write(&mine).unwrap();
        assert_eq!(third.read("00ff").unwrap(), Some(mine));
        third.release();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no lock stays behind");
    }

    #[test]
    fn traces_of_equal_times_have_fingerprints_of_their_own() {
        let engine = Engine::builtin().unwrap();
        let of = |name: &str, size: u32| {
            let text = format!(
                r#"{{"traceEvents":[{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":5,"dur":9,
                "args":{{"Input Dims":[[{size},4],[4,4]],"Input type":["float","float"]}}}}]}}"#
            );
            trace_fingerprint(&engine.load_bytes(text.as_bytes(), "t.json", &BuildOptions::default()).unwrap())
        };
        assert_eq!(of("aten::mm", 8), of("aten::mm", 8));
        assert_ne!(of("aten::mm", 8), of("aten::mm", 16));
        assert_ne!(of("aten::mm", 8), of("aten::bmm", 8));
    }

    #[test]
    fn the_fingerprint_is_the_same_for_every_iteration_of_a_trace() {
        let engine = Engine::builtin().unwrap();
        let bytes =
            fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/sample_traces/dlrm-ddp-b64-fp32-cpu.kineto.json.gz"))
                .unwrap();
        let open = |iteration| engine.load_bytes(&bytes, "sample.json.gz", &BuildOptions { iteration }).unwrap();
        let (chosen, first) = (open(IterationChoice::Default), open(IterationChoice::Index(0)));
        assert_ne!(chosen.graph.ranks[0].iteration, first.graph.ranks[0].iteration);
        assert_eq!(trace_fingerprint(&chosen), trace_fingerprint(&first));
        assert_eq!((chosen_iteration(&chosen), chosen_iteration(&first)), (None, Some(0)));
        let other = sample::load(&engine, &BuildOptions::default()).unwrap();
        assert_ne!(trace_fingerprint(&chosen), trace_fingerprint(&other));

        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::at(folder.path());
        let trace = trace_fingerprint(&chosen);
        sessions.write(&SavedSession { trace: trace.clone(), iteration: Some(0), ..SavedSession::default() }).unwrap();
        let (resumed, session) = sessions.resume(&engine, open(IterationChoice::Default), &BuildOptions::default());
        assert_eq!(resumed.graph.ranks[0].iteration, first.graph.ranks[0].iteration);
        assert_eq!(session.unwrap().about(&resumed), "iteration 0");
        sessions.write(&SavedSession { trace: trace.clone(), iteration: Some(99), ..SavedSession::default() }).unwrap();
        let (other, session) = sessions.resume(&engine, open(IterationChoice::Default), &BuildOptions::default());
        assert_eq!(session.unwrap().about(&other), "without iteration 99");
        let gone = other.diagnostics().sorted().iter().any(|found| found.message.contains("another iteration"));
        assert!(gone, "an iteration that is not there is told");
        sessions.write(&SavedSession { trace: trace.clone(), iteration: Some(0), ..SavedSession::default() }).unwrap();
        let [new, old] = [&trace, &former_fingerprint(&chosen)].map(|name| folder.path().join(format!("{name}.toml")));
        let of_times = folder.path().join(format!("{}.toml", times_fingerprint(&chosen)));
        for former in [&of_times, &old] {
            fs::rename(&new, former).unwrap();
            let (_, session) = sessions.resume(&engine, open(IterationChoice::Default), &BuildOptions::default());
            assert_eq!(
                (session.unwrap().trace, former.exists()),
                (trace.clone(), false),
                "an earlier version's file goes on under the new name"
            );
        }
        fs::write(new, "format = \"retime-session-9\"\ntrace = \"\"").unwrap();
        let (fresh, none) = sessions.resume(&engine, chosen, &BuildOptions::default());
        assert!(none.is_none());
        let found = fresh.diagnostics();
        assert!(found.sorted().iter().any(|found| found.message.contains("retime-session-9")));
    }
}
