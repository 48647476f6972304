//! Opening traces: what is opened comes back with its densities.

use std::path::PathBuf;
use std::sync::Arc;

use crate::session::sample::Sample;
use crate::session::{Engine, JobTables, Loaded, SavedSession, Sessions, chosen_iteration, learn, trace_fingerprint};
use retime_core::device::DeviceKind;
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use super::listing::{Arrangement, Listing, Modelled, Sources};
use super::timeline::{DensityIndex, Paints, SearchIndex, tracks};
use super::view_model::{Traced, ViewModel};
use super::workspace::Opened;

/// What to open.
#[derive(Clone, Debug)]
pub enum Open {
    /// Files and folders.
    Paths(Vec<PathBuf>),
    /// A bundled sample.
    Sample(&'static Sample),
}

impl Open {
    /// What it is called while it loads.
    pub fn title(&self) -> String {
        match self {
            Self::Sample(sample) => format!("the sample {}", sample.name),
            Self::Paths(paths) => {
                let first = paths.first().and_then(|path| path.file_name()).unwrap_or_default();
                let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
                retime_core::intern::printable(&format!("{}{more}", first.to_string_lossy()))
            }
        }
    }
}

/// Opens the traces, as the user left them where that was saved, and draws their densities.
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
        Open::Sample(sample) => sample.load(engine, build).map(|loaded| vec![loaded]),
        Open::Paths(paths) => engine.load(paths, options, build),
    };
    let loaded = loaded.map_err(|error| error.to_string())?;
    let resumed = |loaded| match sessions {
        Some(sessions) => sessions.resume(engine, loaded, build),
        None => (loaded, None),
    };
    Ok(loaded.into_iter().map(resumed).map(|(loaded, session)| opened(engine, loaded, session)).collect())
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
    Ok(Box::new(opened(engine, again.map_err(|error| error.to_string())?, None)))
}

/// What a second trace is to the one that draws on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// The same model at another batch size.
    OtherBatch,
    /// The run that captured the graphs which it replays.
    Capture,
}

/// The same trace, knowing what a second one tells.
///
/// # Errors
/// Why that tells nothing, in one line.
pub fn join(engine: &Engine, loaded: &Loaded, path: PathBuf, second: Second) -> Result<Box<Opened>, String> {
    match second {
        Second::OtherBatch => {
            let mut again = loaded.clone();
            learn(engine, &mut again, &path)?;
            Ok(Box::new(opened(engine, again, None)))
        }
        Second::Capture => {
            let iteration = chosen_iteration(loaded).map_or(IterationChoice::Default, IterationChoice::Index);
            let build = BuildOptions { iteration };
            let again = engine.with_captures(loaded, &[path], &build);
            Ok(Box::new(opened(engine, again.map_err(|error| error.to_string())?, None)))
        }
    }
}

/// A loaded trace with its densities, and what the user did to it before.
pub fn opened(engine: &Engine, loaded: Loaded, session: Option<SavedSession>) -> Opened {
    let loaded = Arc::new(loaded);
    let replay = &loaded.replay;
    let view_model = ViewModel::of(engine, &loaded, &Traced::of(&loaded), replay, &|| false);
    let sources = Sources {
        loaded: Arc::clone(&loaded),
        outcome: Arc::clone(replay),
        view_model: Arc::new(view_model.unwrap_or_default()),
        modelled: Arc::new(Modelled::of(&loaded)),
        paints: Arc::new(Paints::new(&loaded.graph, &replay.resolved.works)),
        filter: None,
        arrangement: Arrangement::default(),
    };
    Opened {
        measured: Arc::new(DensityIndex::measured(&loaded)),
        simulated: Arc::new(DensityIndex::simulated(&loaded, replay)),
        memory: Arc::new(tracks::memory(&loaded)),
        tables: Arc::new(JobTables::find(&loaded)),
        index: Arc::new(SearchIndex::new(&loaded.graph)),
        listing: Listing::of(&sources).unwrap_or_default(),
        view_model: sources.view_model,
        modelled: sources.modelled,
        paints: sources.paints,
        fingerprint: trace_fingerprint(&loaded),
        iteration: chosen_iteration(&loaded),
        session,
        loaded,
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
