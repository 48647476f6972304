//! Jobs with what is asked of them; a path's job is opened once for all tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use retime::session::Loaded;
use retime_core::analysis::replay::period;
use retime_core::graph::{self, BuildOptions, ExecutionGraph};
use retime_core::scenario::{Base, Context, Resolved, Scenario, resolve};
use retime_core::sim::{Schedule, simulate};
use retime_core::trace::{self, Job, OpenOptions};

use super::{engine, sample, shared};

/// What was made of paths, each once.
struct Made<T: 'static>(Mutex<BTreeMap<Vec<PathBuf>, &'static OnceLock<T>>>);

impl<T: 'static> Made<T> {
    const fn nothing() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn of(&self, paths: &[PathBuf], make: impl FnOnce(&[PathBuf]) -> T) -> &'static T {
        let cell = *self.0.lock().unwrap().entry(paths.to_owned()).or_insert_with(|| Box::leak(Box::default()));
        cell.get_or_init(|| make(paths))
    }
}

/// The jobs that files make.
pub fn traced(paths: &[PathBuf]) -> &'static [Job] {
    static TRACED: Made<Vec<Job>> = Made::nothing();
    TRACED.of(paths, |paths| trace::open(paths, &OpenOptions::default()).unwrap().jobs)
}

/// The first job that files make, as front ends hold it.
pub fn loaded(paths: &[PathBuf]) -> &'static Loaded {
    static LOADED: Made<Loaded> = Made::nothing();
    let load = |paths: &[PathBuf]| engine().load(paths, &OpenOptions::default(), &BuildOptions::default());
    LOADED.of(paths, |paths| load(paths).unwrap().swap_remove(0))
}

/// A job's graph with what scenarios on it draw on.
pub struct Opened {
    pub name: String,
    pub base: Base,
    pub context: Context,
}

/// The first job that files make.
pub fn opened(paths: &[PathBuf]) -> &'static Opened {
    static OPENED: Made<Opened> = Made::nothing();
    OPENED.of(paths, |paths| {
        let graph = graph::build(&traced(paths)[0], &BuildOptions::default()).unwrap();
        Opened::of(&paths[0], graph)
    })
}

/// The first job of a bundled trace.
pub fn of_sample(name: &str) -> &'static Opened {
    opened(&[sample(name)])
}

/// The first job of a shared trace.
pub fn of_shared(path: &str) -> Option<&'static Opened> {
    Some(opened(&[shared(path)?]))
}

impl Opened {
    /// What a graph of the trace at `path` is with its devices and models.
    pub fn of(path: &Path, graph: ExecutionGraph) -> Self {
        let graph = Arc::new(graph);
        let engine = engine();
        let context = Context::new(engine.catalog.clone(), engine.models.clone(), engine.overheads.clone(), &graph);
        Self { name: path.file_name().unwrap().to_string_lossy().into_owned(), base: Base::new(graph), context }
    }

    pub fn graph(&self) -> &ExecutionGraph {
        self.base.graph()
    }

    pub fn resolve(&self, lines: &[&str]) -> Resolved {
        resolve(&self.base, &Scenario::parse(lines.iter().copied()).unwrap(), &self.context)
    }

    /// The iteration under these steps in ns, of the slowest rank.
    pub fn time(&self, lines: &[&str]) -> i64 {
        let resolved = self.resolve(lines);
        let mut schedule = Schedule::default();
        simulate(&resolved.timed, &mut schedule);
        let of_rank = |part| period(&resolved.timed, &schedule, part).0;
        self.graph().ranks.iter().map(of_rank).max().unwrap()
    }
}
