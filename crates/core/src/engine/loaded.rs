//! An opened job: its traces, its execution graph, and what the untouched graph replays to.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::diagnostic::Diagnostics;
use crate::graph::{Captures, ExecutionGraph};
use crate::scenario::{Base, BatchScaling, Context, Scenario};
use crate::trace::{Job, RankClasses, Trace};

use super::{EngineError, Outcome};

/// The diagnostic of a second trace whose times nobody measured.
pub const UNMEASURED: &str = "learned-from-prediction";

/// A trace at another batch size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedFrom {
    /// Its file.
    pub path: PathBuf,
    /// That its times are predicted, where they are.
    pub unmeasured: Option<String>,
}

/// One job, ready to be edited.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The traces.
    pub job: Arc<Job>,
    /// Which ranks are simulated, and for whom.
    pub folding: RankClasses,
    /// Which may stand for others, while no edit tells them apart.
    pub(super) alike: RankClasses,
    /// What the graphs that it replays were captured from, where told.
    pub captures: Option<Arc<Captures>>,
    /// The trace at another batch size that `resize-batch` draws on.
    pub learned_from: Option<LearnedFrom>,
    /// The chosen iteration.
    pub graph: Arc<ExecutionGraph>,
    /// What every scenario starts from.
    pub base: Arc<Base>,
    /// What transforms draw on, the device of each rank among it.
    pub context: Context,
    /// The untouched replay.
    pub replay: Arc<Outcome>,
    /// What was odd beside the traces, and about the files that were opened together with them.
    pub notes: Diagnostics,
    /// Short name: of the file, or the folder of several ranks.
    pub title: String,
}

impl Loaded {
    /// Lets `resize-batch` draw on a second trace of the model at another batch size; that its times are predicted is a warning.
    ///
    /// # Errors
    /// A batch size is not known, both are the same, or the second trace is of another model.
    pub fn learn(&mut self, other: &Self) -> Result<(), EngineError> {
        let scaling = BatchScaling::learn(&self.graph, &other.graph);
        let batches = (self.graph.batch_size, other.graph.batch_size);
        self.context.batch_scaling = Some(Arc::new(scaling.ok_or(EngineError::Learn { batches })?));
        let path = other.traces().next().map(|trace| trace.path.clone());
        self.learned_from = path.map(|path| LearnedFrom { path, unmeasured: other.unmeasured() });
        Ok(())
    }

    /// The ranks to simulate under `scenario`, where those are others than now.
    pub fn refolded(&self, scenario: &Scenario) -> Option<RankClasses> {
        let wanted = self.alike.split(&self.job, &|a, b| scenario.tells_apart(a, b));
        (wanted != self.folding).then_some(wanted)
    }

    /// The profiler traces of the ranks, in order.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        self.job.ranks.iter().filter_map(|rank| rank.trace.as_ref())
    }

    /// Diagnostics of the files, of all traces (which the graph's own include) and of the graph.
    pub fn diagnostics(&self) -> Diagnostics {
        let mut all = self.graph.diagnostics.clone();
        all.merge(&self.notes);
        if let Some(warning) = self.learned_from.as_ref().and_then(|second| second.unmeasured.as_ref()) {
            all.warn(UNMEASURED, warning);
        }
        let timed = self.job.ranks.iter().filter(|rank| rank.trace.as_ref().is_some_and(|t| t.predicted.is_none()));
        for execution_trace in timed.filter_map(|rank| rank.execution_trace.as_ref()) {
            all.merge(&execution_trace.diagnostics);
        }
        all
    }

    /// The devices' names: catalog ids where recognised, else as recorded.
    pub fn device_names(&self) -> Vec<String> {
        let names = self.graph.ranks.iter().zip(&self.context.devices).map(|(part, device)| match &part.device {
            Some(recorded) if !device.recognised => recorded.name.clone(),
            Some(_) => device.profile.id.clone(),
            None => String::new(),
        });
        names.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What one that learns from this has to know where its times were never measured.
    pub fn unmeasured(&self) -> Option<String> {
        let how = self.predicted()?;
        Some(format!("{}: its times are predicted ({how}), and so is what resize-batch learns from them", self.title))
    }

    /// What its times are where they were never measured, e.g. `place-on V100`; `None` for a recorded trace.
    pub fn predicted(&self) -> Option<&str> {
        self.traces().find_map(|trace| trace.predicted.as_deref())
    }
}

/// The short name of a job: the file's without its endings, or the folder's for several ranks.
pub fn title(job: &Job) -> String {
    let Some(path) = job.ranks.first().and_then(|rank| {
        let trace = rank.trace.as_ref().map(|trace| &trace.path);
        trace.or(rank.execution_trace.as_ref().map(|trace| &trace.path))
    }) else {
        return String::new();
    };
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let folder = path.parent().and_then(|folder| folder.file_name()).map(|name| name.to_string_lossy());
    let stem = file.split(".pt.trace").next().unwrap_or(&file);
    let stem = [".gz", ".json", ".sqlite", ".kineto", ".tar"].iter().fold(stem, |stem, end| stem.trim_end_matches(end));
    let name = match folder {
        Some(folder) if job.ranks.len() > 1 => folder.into_owned(),
        Some(folder) if stem.len() < 8 && !folder.is_empty() => format!("{folder}/{stem}"),
        _ => stem.to_owned(),
    };
    crate::intern::printable(&name)
}
