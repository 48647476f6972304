//! Scenarios and traces side by side, as a part of a report.

use crate::session::{Column, ComparisonTable, ComparisonTableRow, Faster};
use retime_core::units::{DurNs, Percent};

use super::report::{Block, percent};

/// Operators that a report lists.
const OPERATORS: usize = 15;

/// The figures of every column, and the operators that make the difference.
pub(super) fn blocks(board: &ComparisonTable) -> Vec<Block> {
    let Some(reference) = board.columns.get(board.reference) else { return Vec::new() };
    let header = ["", "iteration", "within", "against", "", "prediction off by", "GPU busy", "memory", "steps"]
        .map(str::to_owned);
    let against = format!("against {}", reference.figures.name);
    let header: Vec<String> =
        header.into_iter().map(|title| if title == "against" { against.clone() } else { title }).collect();
    let rows = board.columns.iter().map(|column| figures(column, reference)).collect();
    vec![
        Block::Heading("Side by side"),
        Block::Table { header, rows },
        Block::Text(
            "Time on the critical path by operator; after the first column what is different. It adds up to the iterations."
                .to_owned(),
        ),
        operators(board),
    ]
}

fn figures(column: &Column, reference: &Column) -> Vec<String> {
    let none = || "–".to_owned();
    let figures = &column.figures;
    let start = reference.figures.iteration_ns;
    let verdict = |verdict: Faster| match verdict {
        Faster::AFaster => "slower",
        Faster::BFaster => "faster",
        Faster::CannotTell => "cannot tell",
    };
    let score = column.score.as_ref().map_or_else(none, |score| {
        let place = if score.is_within_band { "within its band" } else { "outside its band" };
        format!("{}, {place}", percent(score.error_ns, score.measured_ns))
    });
    let steps = if figures.source == "measured" { "measured".to_owned() } else { figures.steps.join("; ") };
    vec![
        figures.name.clone(),
        figures.iteration_ns.to_string(),
        format!("{} to {}", figures.low_ns, figures.high_ns),
        column.difference.as_ref().map_or_else(none, |difference| percent(difference.delta_ns, start)),
        column.difference.as_ref().map_or("reference".to_owned(), |difference| verdict(difference.verdict).to_owned()),
        score,
        figures.gpu_busy.map_or_else(none, |busy| format!("{:.0}", Percent(busy))),
        figures.memory_bytes.map_or_else(none, |bytes| bytes.to_string()),
        steps,
    ]
}

fn operators(board: &ComparisonTable) -> Block {
    let path = |row: &ComparisonTableRow, index: usize| row.cells[index].map_or(DurNs::ZERO, |cell| cell.spent.path);
    let away = |row: &ComparisonTableRow, index: usize| path(row, index) - path(row, board.reference);
    let others: Vec<usize> = (0..board.columns.len()).filter(|&index| index != board.reference).collect();
    let mut rows: Vec<&ComparisonTableRow> = board.operators.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(others.iter().map(|&index| away(row, index).0.abs()).max()));
    let name = |&index: &usize| board.columns[index].figures.name.clone();
    let header = ["operator".to_owned(), name(&board.reference)].into_iter().chain(others.iter().map(name)).collect();
    let signed = |by: DurNs| if by.0 > 0 { format!("+{by}") } else { by.to_string().replace('-', "−") };
    let row = |row: &&ComparisonTableRow| {
        let cells = others.iter().map(|&index| signed(away(row, index)));
        [row.name.clone(), path(row, board.reference).to_string()].into_iter().chain(cells).collect()
    };
    Block::Table { header, rows: rows.iter().take(OPERATORS).map(row).collect() }
}
