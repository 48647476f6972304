//! Loading and evaluating off the screen's thread: what is opened comes back with its pictures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::{
    Engine, Exported, JobTables, Loaded, Outcome, Reply, SavedSession, SessionError, Sessions, Worker, append,
    chosen_iteration, read_text, sample, trace_fingerprint, write_new,
};
use retime_core::device::DeviceKind;
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use super::compare::Compared;
use super::digest::Digest;
use super::effect::Effect;
use super::listing::{Arrangement, Listing, Modelled, Sources};
use super::timeline::{Paints, Picture, SearchIndex, critical_nodes, tracks};
use super::update::Event;
use super::workspace::Opened;

/// What to open.
#[derive(Clone, Debug)]
pub enum Open {
    /// Files and folders.
    Paths(Vec<PathBuf>),
    /// The bundled sample.
    Sample,
}

impl Open {
    /// What it is called while it loads.
    pub fn title(&self) -> String {
        match self {
            Self::Sample => "the bundled sample".to_owned(),
            Self::Paths(paths) => {
                let first = paths.first().and_then(|path| path.file_name()).unwrap_or_default();
                let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
                retime_core::intern::printable(&format!("{}{more}", first.to_string_lossy()))
            }
        }
    }
}

/// Opens the traces, as the user left them where that was saved, and draws their pictures.
///
/// # Errors
/// Why nothing could be opened, in one line.
pub fn open(
    engine: &Engine,
    open: &Open,
    (options, build): (&OpenOptions, &BuildOptions),
    sessions: Option<&Sessions>,
) -> Result<Vec<Opened>, String> {
    let loaded = match open {
        Open::Sample => sample::load(engine, build).map(|loaded| vec![loaded]),
        Open::Paths(paths) => engine.load(paths, options, build),
    };
    let loaded = loaded.map_err(|error| error.to_string())?;
    let resumed = |loaded| match sessions {
        Some(sessions) => engine.resume(loaded, sessions, build),
        None => (loaded, None),
    };
    Ok(loaded.into_iter().map(resumed).map(|(loaded, session)| opened(loaded, session)).collect())
}

/// The same traces with another iteration, and with those ranks simulated that `scenario` needs; without one, with all.
///
/// # Errors
/// Why it cannot be modelled, in one line.
pub fn reopen(
    engine: &Engine,
    loaded: &Loaded,
    scenario: Option<&Scenario>,
    build: &BuildOptions,
) -> Result<Box<Opened>, String> {
    let again = match scenario {
        Some(scenario) => engine.reopen(loaded, scenario, build),
        None => engine.unfold(loaded, build),
    };
    Ok(Box::new(opened(again.map_err(|error| error.to_string())?, None)))
}

/// The same trace, knowing what a second one of its model at another batch size tells.
///
/// # Errors
/// Why it cannot learn from that, in one line.
pub fn learn(engine: &Engine, loaded: &Loaded, path: PathBuf) -> Result<Box<Opened>, String> {
    let file = path.display().to_string();
    let others = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default());
    let others = others.map_err(|error| error.to_string())?;
    let [other] = others.as_slice() else {
        return Err(format!("{file}: several jobs, and one to learn from is wanted"));
    };
    let mut again = loaded.clone();
    again.learn(other).map_err(|error| error.to_string())?;
    Ok(Box::new(opened(again, None)))
}

/// A loaded trace with its pictures, and what the user did to it before.
pub fn opened(loaded: Loaded, session: Option<SavedSession>) -> Opened {
    let loaded = Arc::new(loaded);
    let replay = &loaded.replay;
    let path = critical_nodes(replay);
    let sources = Sources {
        loaded: Arc::clone(&loaded),
        outcome: Arc::clone(replay),
        digest: Arc::new(Digest::of(replay)),
        modelled: Arc::new(Modelled::of(&loaded)),
        paints: Arc::new(Paints::new(&loaded.graph)),
        filter: None,
        arrangement: Arrangement::default(),
    };
    Opened {
        measured: Arc::new(Picture::measured(&loaded.graph, &path)),
        simulated: Arc::new(Picture::simulated(&replay.resolved, &replay.schedule, &path)),
        memory: Arc::new(tracks::memory(&loaded)),
        tables: Arc::new(JobTables::find(&loaded)),
        index: Arc::new(SearchIndex::new(&loaded.graph)),
        listing: Listing::of(&sources).unwrap_or_default(),
        digest: sources.digest,
        modelled: sources.modelled,
        paints: sources.paints,
        fingerprint: trace_fingerprint(&loaded),
        iteration: chosen_iteration(&loaded),
        session,
        loaded,
    }
}

/// The picture of a result.
fn picture(outcome: &Outcome) -> Picture {
    Picture::simulated(&outcome.resolved, &outcome.schedule, &critical_nodes(outcome))
}

/// The event that a reply of trace `work` becomes; the first answer of
/// each revision brings the picture, the second the tables.
pub fn event_of(work: usize, reply: Reply, last_revision: &mut u64) -> Option<Event> {
    match reply {
        Reply::Outcome(outcome) => {
            let is_first = *last_revision != outcome.revision;
            *last_revision = outcome.revision;
            let picture = is_first.then(|| Arc::new(picture(&outcome)));
            let digest = (!is_first).then(|| Arc::new(Digest::of(&outcome)));
            Some(Event::Outcome { work, outcome, picture, digest })
        }
        Reply::Point { revision, point } => Some(Event::Point { work, revision, point: Box::new(point) }),
        Reply::Gain { revision, line, gain } => Some(Event::Gain { work, revision, line, gain }),
        Reply::Plan { revision, plan } => Some(Event::Plan { work, revision, plan: Box::new(plan) }),
        Reply::Searching { revision, tried } => Some(Event::Searching { work, revision, tried }),
        Reply::Advice { revision, advice } => Some(Event::Advice { work, revision, advice }),
        Reply::SweepDone { .. } => None,
    }
}

/// A worker on `loaded` whose replies are delivered as events.
pub fn worker(
    engine: &Arc<Engine>,
    loaded: Arc<Loaded>,
    work: usize,
    deliver: impl Fn(Event) + Send + 'static,
) -> Worker {
    let last_revision = std::sync::Mutex::new(u64::MAX);
    Worker::start(Arc::clone(engine), loaded, move |reply| {
        let mut last = last_revision.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(event) = event_of(work, reply, &mut last) {
            deliver(event);
        }
    })
}

/// Carries out an effect that reads or writes a file.
///
/// # Returns
/// The event it ends in; `None` for one that says nothing when it works.
pub fn files(engine: &Engine, loaded: impl Fn(usize) -> Option<Arc<Loaded>>, effect: Effect) -> Option<Event> {
    let written = |path: &Path, result: Result<(), SessionError>| {
        result.map(|()| format!("wrote {}", path.display())).map_err(|error| error.to_string())
    };
    match effect {
        Effect::Export { work, outcome, sources, format, path, force } => {
            let loaded = loaded(work)?;
            let compared = (sources.len() > 1).then(|| Compared::of(engine, sources, 0));
            let board = compared.as_ref().map(|compared| &compared.board);
            let result = engine.export_to(&path, Exported { loaded: &loaded, outcome: &outcome, board }, format, force);
            let names = |files: Vec<PathBuf>| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
            let said = result.map(|(files, _)| format!("wrote {}", names(files).join(", ")));
            Some(Event::Written(said.map_err(|error| error.to_string()), None))
        }
        Effect::Write { path, text, force, saves } => {
            Some(Event::Written(written(&path, write_new(&path, text.as_bytes(), force)), saves))
        }
        Effect::Append { path, line } => {
            append(&path, &line).err().map(|error| Event::Written(Err(error.to_string()), None))
        }
        Effect::Read { path, reading } => {
            let text = read_text(&path).map_err(|error| error.to_string());
            Some(Event::Read { file: path.display().to_string(), text, reading })
        }
        _ => None,
    }
}

/// The GPUs of the catalog, each with a line about it.
pub fn device_lines(engine: &Engine) -> Vec<(String, String)> {
    let gpus = engine.catalog.iter().filter(|device| device.kind == DeviceKind::Gpu);
    let line = |device: &Arc<retime_core::device::DeviceProfile>| {
        let about = format!("{}, {}, {:.0} GB/s", device.name, device.memory, device.bandwidth().0 / 1e9);
        (device.id.clone(), about)
    };
    gpus.map(line).collect()
}
