//! What the steps of a session draw on beside its trace: a recording at another batch size, recordings of captured graphs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use retime_core::diagnostic::Severity;
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::intern::printable;
use retime_core::trace::OpenOptions;

use super::{Engine, Loaded, chosen_iteration, why_not_on_screen};

/// Files of other recordings that steps draw on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnOn {
    /// The trace at another batch size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    learn: Option<PathBuf>,
    /// Recordings of the run that captured the graphs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    captures: Vec<PathBuf>,
}

impl DrawnOn {
    /// What `loaded` draws on, wherever the program runs next.
    pub fn of(loaded: &Loaded) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let captures = loaded.captures.iter().flat_map(|captures| &captures.files);
        Self {
            learn: loaded.learned_from.as_ref().map(|second| absolute(&second.path)),
            captures: captures.map(absolute).collect(),
        }
    }

    /// This, and what `other` names of which it names nothing: a file that is gone today may be there tomorrow.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        let captures = if self.captures.is_empty() { other.captures.clone() } else { self.captures };
        Self { learn: self.learn.or_else(|| other.learn.clone()), captures }
    }

    /// `loaded` with what this names and it does not draw on yet; why that cannot be is a warning about it.
    pub(super) fn restore(&self, engine: &Engine, mut loaded: Loaded) -> Loaded {
        let iteration = chosen_iteration(&loaded).map_or(IterationChoice::Default, IterationChoice::Index);
        let mut lost: Vec<String> = Vec::new();
        let mut can_be_read = |path: &PathBuf| {
            let reason = why_not_on_screen(path);
            lost.extend(reason.map(|reason| format!("{}: {reason}", path.display())));
            reason.is_none()
        };
        let captures = Some(&self.captures).filter(|files| !files.is_empty() && loaded.captures.is_none());
        let captures = captures.filter(|files| files.iter().all(&mut can_be_read));
        let learned = self.learn.as_ref().filter(|file| loaded.learned_from.is_none() && can_be_read(file));
        let again = captures.map(|files| engine.with_captures(&loaded, files, &BuildOptions { iteration }));
        match again {
            Some(Ok(again)) => loaded = again,
            Some(Err(error)) => lost.push(error.to_string()),
            None => {}
        }
        if let Some(file) = learned
            && let Err(reason) = learn(engine, &mut loaded, file)
        {
            lost.push(reason);
        }
        for reason in lost {
            let text = format!("the last session drew on another trace, which its steps are now without: {reason}");
            loaded.notes.add(Severity::Warning, "session-without", &text, None, || text.clone());
        }
        loaded
    }

    /// The lines that draw on it again, as the prompt and scripts take them.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let learn = self.learn.iter().map(|path| format!("learn {}", path.display()));
        learn.chain(self.captures.iter().map(|path| format!("capture {}", path.display())))
    }

    /// Each file that this names, and whether `loaded` draws on it, in words.
    pub(super) fn about(&self, loaded: &Loaded) -> impl Iterator<Item = String> {
        let found = Self::of(loaded);
        self.files().map(move |path| {
            let with = if found.files().any(|found| found == path) { "with" } else { "without" };
            let name = path.file_name().unwrap_or(path.as_os_str());
            format!("{with} {}", printable(&name.to_string_lossy()))
        })
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.learn.iter().chain(&self.captures)
    }
}

/// Lets `loaded` learn from the trace in `file`.
///
/// # Errors
/// Why it cannot, in one line.
pub fn learn(engine: &Engine, loaded: &mut Loaded, file: &Path) -> Result<(), String> {
    let others = engine.load(&[file.to_path_buf()], &OpenOptions::default(), &BuildOptions::default());
    let others = others.map_err(|error| error.to_string())?;
    let [other] = others.as_slice() else {
        return Err(format!("{}: several jobs, and one to learn from is wanted", file.display()));
    };
    loaded.learn(other).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SavedSession, Sessions, trace_fingerprint};
    use retime_core::scenario::Scenario;

    fn captured(batch: u32) -> PathBuf {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces");
        samples.join(format!("dlrm-ddp-b{batch}-fp32-cpu.kineto.json.gz"))
    }

    #[test]
    fn what_cannot_be_read_today_is_asked_for_again() {
        let of = |learn: Option<&str>, captures: &[&str]| DrawnOn {
            learn: learn.map(PathBuf::from),
            captures: captures.iter().map(PathBuf::from).collect(),
        };
        assert_eq!(of(None, &[]).or(&of(Some("a"), &["b"])), of(Some("a"), &["b"]));
        assert_eq!(of(Some("c"), &["d"]).or(&of(Some("a"), &["b"])), of(Some("c"), &["d"]));
    }

    #[test]
    fn a_session_goes_on_with_what_its_steps_draw_on_or_says_that_it_is_gone() {
        let (folder, engine) = (tempfile::tempdir().unwrap(), Engine::builtin().unwrap());
        let open =
            || engine.load(&[captured(256)], &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0);
        let second = folder.path().join("second.json.gz");
        std::fs::copy(captured(64), &second).unwrap();
        let mut learned = open();
        learn(&engine, &mut learned, &second).unwrap();
        let scenario = Scenario::parse(["resize-batch 512"]).unwrap();
        let time = |loaded: &Loaded| engine.evaluate(loaded, &scenario, 0).summary.steady_ns;
        assert_ne!(time(&learned), time(&open()));
        let sessions = Sessions::at(folder.path().join("state"));
        let trace = trace_fingerprint(&learned);
        let drawn_on = DrawnOn::of(&learned);
        let session = SavedSession { trace, drawn_on, scenario: scenario.clone(), ..SavedSession::default() };
        sessions.write(&session).unwrap();
        let resume = || sessions.resume(&engine, open(), &BuildOptions::default());
        let (again, found) = resume();
        assert_eq!(
            (time(&again), found.map(|found| found.about(&again))),
            (time(&learned), Some("1 step, with second.json.gz".to_owned()))
        );
        std::fs::remove_file(&second).unwrap();
        #[cfg(target_os = "linux")]
        {
            let of_terminal = DrawnOn { learn: Some(PathBuf::from("/dev/ptmx")), captures: Vec::new() };
            let told = of_terminal.restore(&engine, open()).diagnostics();
            assert!(told.sorted().iter().any(|it| it.message.contains("/dev/ptmx: a terminal is no file")));
        }
        let (without, found) = resume();
        assert_eq!((time(&without), found.as_ref().map(|it| &it.scenario)), (time(&open()), Some(&scenario)));
        assert_eq!(found.unwrap().about(&without), "1 step, without second.json.gz");
        assert!(without.diagnostics().sorted().iter().any(|it| it.code == "session-without"));
    }
}
