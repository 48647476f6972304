//! The fifteen analyses of layers and kernels, one at a time, as they are printed.

use unicode_width::UnicodeWidthStr;

use crate::session::{ANALYSES, LayerStudy, StudyTable, study_title};
use crate::tui::table::{Column, Open, Table, TableRow, TableState, name, value};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

/// Which analysis is shown: 0 is the tree of model, layers and kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown(u8);

/// Number of the analysis that is shown; `None` where that is the tree.
pub fn shown(work: &Workspace) -> Option<u8> {
    work.states.get::<Shown>().map(|shown| shown.0).filter(|number| *number > 0)
}

/// Shows an analysis by its number or what its name begins with, alone the next; `tree` and what follows the last is the tree.
///
/// # Errors
/// There is none of that name.
pub fn choose(work: &mut Workspace, text: &str) -> Result<(), String> {
    let number = match text {
        "" => (shown(work).unwrap_or(0) + 1) % (ANALYSES + 1),
        "tree" | "0" => 0,
        text => {
            let by_number = text.parse().ok().filter(|number| (1..=ANALYSES).contains(number));
            let by_name = || (1..=ANALYSES).find(|&number| study_title(number).starts_with(text));
            by_number
                .or_else(by_name)
                .ok_or_else(|| format!("no analysis `{text}`: tree, 1 to {ANALYSES}, or {}", names()))?
        }
    };
    work.states.set(Shown(number));
    work.table = TableState::default();
    Ok(())
}

/// The names of all, for messages.
fn names() -> String {
    (1..=ANALYSES).map(study_title).collect::<Vec<_>>().join(", ")
}

/// Goes back to the tree; whether an analysis was shown.
pub fn close(work: &mut Workspace) -> bool {
    let was_shown = shown(work).is_some();
    if was_shown {
        work.states.set(Shown(0));
        work.table = TableState::default();
    }
    was_shown
}

/// What is shown, in a line.
pub fn title(number: u8) -> String {
    format!("{number} of {ANALYSES}: {}", study_title(number))
}

/// The table of an analysis.
pub fn rows(work: &Workspace, number: u8) -> Table<'_> {
    let study = work.view_model.study(&work.loaded);
    let table = study.map(|study| study.analysis(number).for_people()).unwrap_or_default();
    let table = if number == ANALYSES { turned(table) } else { table };
    let mut summary = vec![(title(number), Role::Strong)];
    summary.extend(study.map(|study| (about(study), Role::Dim)));
    if work.loaded.graph.rank_count() > 1 {
        summary.push((", first rank".to_owned(), Role::Dim));
    }
    Table { summary, columns: columns(&table), count: table.rows.len(), row: Box::new(move |at| row(&table, at)) }
}

/// The figures of one model below one another: more than a line has room for.
fn turned(table: StudyTable) -> StudyTable {
    let Some(row) = table.rows.into_iter().next() else { return StudyTable::default() };
    let rows = table.head.into_iter().zip(row).map(|(title, value)| vec![title.to_owned(), value]);
    StudyTable { head: vec!["figure", "value"], rows: rows.collect() }
}

fn about(study: &LayerStudy) -> String {
    let batch = study.batch.map_or("unknown".to_owned(), |batch| batch.to_string());
    format!(" · batch {batch} on {}", study.device)
}

/// As wide as their widest cells; the last, the name, takes what is left.
fn columns(table: &StudyTable) -> Vec<Column> {
    let last = table.head.len().saturating_sub(1);
    let mut taken = 0;
    let column = |(at, title): (usize, &&'static str)| {
        let cells = || table.rows.iter().filter_map(|row| row.get(at));
        let widest = cells().map(|cell| cell.width()).chain([title.width()]).max().unwrap_or(0);
        let is_number =
            cells().all(|cell| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || "–-−".contains(c)));
        let width = if at == last { 0 } else { widest as u16 };
        taken += width + 1;
        // The name has to stay legible beside whatever else there is room for.
        let from_width = if at == last || at == 0 { 0 } else { taken + LEAST_NAME };
        Column { title, width, is_number: is_number && at != last, from_width }
    };
    table.head.iter().enumerate().map(column).collect()
}

/// Columns that a name takes at least.
const LEAST_NAME: u16 = 12;

fn row(table: &StudyTable, at: usize) -> TableRow {
    let Some(cells) = table.rows.get(at) else { return TableRow { values: Vec::new(), open: Open::Nothing } };
    let last = cells.len().saturating_sub(1);
    let cell = |(at, cell): (usize, &String)| match cell {
        text if at == last => name(text.clone(), Role::Text),
        text if text.starts_with('▇') => value(text.trim_end(), Role::Chart),
        text => value(text.clone(), if text == "–" { Role::Dim } else { Role::Text }),
    };
    TableRow { values: cells.iter().enumerate().map(cell).collect(), open: Open::Nothing }
}
