//! Traces with scenarios on them, as the tests of edits open them.

use std::path::Path;
use std::sync::Arc;

use retime_core::analysis::replay::period;
use retime_core::graph::{self, BuildOptions};
use retime_core::scenario::{Base, Context, Resolved, Scenario, resolve};
use retime_core::sim::{Schedule, simulate};
use retime_core::trace::{self, OpenOptions};

/// A trace's graph with what scenarios on it draw on.
pub struct Opened {
    pub name: String,
    pub base: Base,
    pub context: Context,
}

/// Every job in a file or folder that can be modelled.
pub fn open(path: &Path) -> Vec<Opened> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let Ok(opened) = trace::open(&[path.to_path_buf()], &OpenOptions::default()) else { return Vec::new() };
    let graphs = opened.jobs.iter().filter_map(|job| graph::build(job, &BuildOptions::default()).ok());
    let opened = graphs.map(|graph| {
        let graph = Arc::new(graph);
        let context = Context::builtin(&graph).unwrap();
        Opened { name: name.clone(), base: Base::new(graph), context }
    });
    opened.collect()
}

impl Opened {
    pub fn resolve(&self, lines: &[&str]) -> Resolved {
        resolve(&self.base, &Scenario::parse(lines.iter().copied()).unwrap(), &self.context)
    }

    /// The iteration under these steps, of the slowest rank.
    pub fn time(&self, lines: &[&str]) -> i64 {
        let resolved = self.resolve(lines);
        let mut schedule = Schedule::default();
        simulate(&resolved.timed, &mut schedule);
        let of_rank = |part| period(&resolved.timed, &schedule, part).0;
        self.base.graph().ranks.iter().map(of_rank).max().unwrap()
    }
}
