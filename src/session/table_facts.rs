//! The user's facts about embedding tables: `tables.toml` beside the traces, or a file named on the command line.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostics, Severity};
use crate::graph::ExecutionGraph;
use crate::scenario::Base;
use crate::scenario::tables::{TableFacts, Tables};
use crate::trace::Job;

use super::{SessionError, read_text};

/// Looked for beside the traces.
pub const FILE_NAME: &str = "tables.toml";

/// Reads a facts file.
///
/// # Errors
/// It cannot be read, or an entry cannot be used.
pub fn read_table_facts(path: &Path) -> Result<TableFacts, SessionError> {
    let fail = |reason: String| SessionError::Read { path: path.display().to_string(), reason };
    TableFacts::from_toml(&read_text(path)?).map_err(|error| fail(error.to_string()))
}

/// The facts beside a job's traces, if there are any; a file that cannot be used is told.
pub(super) fn beside(job: &Job, diagnostics: &mut Diagnostics) -> TableFacts {
    let trace = job.ranks.first().and_then(|rank| rank.trace.as_ref());
    let file = trace.and_then(|trace| trace.path.parent()).map(|folder: &Path| -> PathBuf { folder.join(FILE_NAME) });
    let Some(file) = file.filter(|file| file.is_file()) else { return TableFacts::default() };
    match read_table_facts(&file) {
        Ok(facts) => facts,
        Err(error) => {
            diagnostics.add(Severity::Warning, "table-facts", FILE_NAME, None, || error.to_string());
            TableFacts::default()
        }
    }
}

/// Tells which entries no table answers to.
pub(super) fn check(base: &Base, graph: &ExecutionGraph, diagnostics: &mut Diagnostics) {
    let facts = base.table_facts();
    if facts.tables.is_empty() {
        return;
    }
    for entry in facts.unmatched(&Tables::find(base).tables, &graph.ranks) {
        diagnostics.add(Severity::Warning, "table-facts", FILE_NAME, None, || {
            format!("entry {entry} names a table that the trace does not look up")
        });
    }
}
