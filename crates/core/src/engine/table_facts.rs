//! The user's facts about embedding tables: `tables.toml` beside the traces, or a file named on the command line.

use std::path::{Path, PathBuf};

use crate::cost::Reuse;
use crate::diagnostic::{Diagnostics, Severity};
use crate::graph::ExecutionGraph;
use crate::scenario::Base;
use crate::scenario::tables::TableFacts;
use crate::trace::Job;

use super::{EngineError, read_text};

/// Looked for beside the traces.
pub const TABLE_FACTS_FILE: &str = "tables.toml";

/// Reads a facts file.
///
/// # Errors
/// It cannot be read, or an entry cannot be used.
pub fn read_table_facts(path: &Path) -> Result<TableFacts, EngineError> {
    let fail = |reason: String| EngineError::Read { path: path.display().to_string(), reason };
    let mut facts = TableFacts::from_toml(&read_text(path)?).map_err(|error| fail(error.to_string()))?;
    for fact in &mut facts.tables {
        let Some(name) = &fact.indices else { continue };
        let file = path.parent().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        fact.histogram = Some(histogram_of(&read_text(&file)?).map_err(|word| EngineError::Read {
            path: file.display().to_string(),
            reason: format!("`{word}` is no row: whole numbers from 0 are expected"),
        })?);
    }
    Ok(facts)
}

/// The shares of look-ups in `text`, an index tensor as numbers between blanks, commas or brackets; or the first word that is none.
fn histogram_of(text: &str) -> Result<Vec<f64>, String> {
    let words = text.split(|c: char| c.is_whitespace() || ",;[]()".contains(c)).filter(|word| !word.is_empty());
    let indices: Vec<u64> = words.map(|word| word.parse().map_err(|_| word.to_owned())).collect::<Result<_, _>>()?;
    match Reuse::of_indices(&indices) {
        Reuse::Histogram(bins) => Ok(bins.to_vec()),
        _ => Err("nothing".to_owned()),
    }
}

/// The facts beside a job's traces, if there are any; a file that cannot be used is told.
pub(super) fn beside(job: &Job, diagnostics: &mut Diagnostics) -> TableFacts {
    let trace = job.ranks.first().and_then(|rank| rank.trace.as_ref());
    let file =
        trace.and_then(|trace| trace.path.parent()).map(|folder: &Path| -> PathBuf { folder.join(TABLE_FACTS_FILE) });
    let Some(file) = file.filter(|file| file.is_file()) else { return TableFacts::default() };
    match read_table_facts(&file) {
        Ok(facts) => facts,
        Err(error) => {
            diagnostics.add(Severity::Warning, "table-facts", TABLE_FACTS_FILE, None, || error.to_string());
            TableFacts::default()
        }
    }
}

/// Fills in what is told of collectives, and tells which entries describe none or contradict the trace.
pub(super) fn complete(facts: &TableFacts, graph: &mut ExecutionGraph, diagnostics: &mut Diagnostics) {
    for odd in facts.complete_collectives(graph) {
        diagnostics.add(Severity::Warning, "table-facts", &odd, None, || odd.clone());
    }
}

/// Tells which entries no table answers to, and which contradict the trace.
pub(super) fn check(base: &Base, graph: &ExecutionGraph, diagnostics: &mut Diagnostics) {
    let facts = base.table_facts();
    if facts.tables.is_empty() {
        return;
    }
    for entry in facts.unmatched(&base.tables().tables, &graph.ranks) {
        diagnostics.add(Severity::Warning, "table-facts", TABLE_FACTS_FILE, None, || {
            format!("entry {entry} names a table that the trace does not look up")
        });
    }
    for odd in &base.tables().contradictions {
        diagnostics.add(Severity::Warning, "table-facts", odd, None, || odd.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::histogram_of;

    #[test]
    fn an_index_tensor_is_read_as_it_is_printed() {
        let bins = histogram_of("[[3, 5, 3],\n [7, 3, 9]]").unwrap();
        assert!((bins[0] - 0.5).abs() < 1e-12 && (bins[2] - 0.5).abs() < 1e-12);
        assert_eq!(histogram_of("1 2 x3"), Err("x3".to_owned()));
        assert!(histogram_of("").is_err());
    }
}
