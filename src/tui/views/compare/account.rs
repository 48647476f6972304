//! What is said of the chosen column and row: in the pane below, and where a figure is asked about.

use crate::session::{Column as Side, Difference, Score};
use crate::tui::theme::Role;
use crate::tui::timeline::{short_name, signed};
use crate::tui::workspace::Workspace;
use retime_core::units::DurNs;

use super::{label, signed_percent};

/// Parts of an error that are listed.
const PARTS: usize = 6;

/// What there is to say about the chosen row and column.
pub fn chosen(work: &Workspace) -> Vec<(String, Role)> {
    let state = &work.compare;
    let Some(board) = state.shown.as_ref().map(|shown| &shown.board).filter(|board| board.columns.len() > 1) else {
        return Vec::new();
    };
    let (at, reference) = (state.column(), board.reference);
    let mut pieces = Vec::new();
    if let Some(row) = state.rows().get(work.table.cursor) {
        let cell = |index: usize| row.cells.get(index).copied().flatten().unwrap_or_default();
        let (before, after) = (cell(reference), cell(at));
        pieces.push((format!("{}  ", label(row)), Role::Strong));
        let mut add = |label: &str, before: String, after: String| {
            pieces.push((format!("{label} "), Role::Dim));
            let text = if before == after { before } else { format!("{before} → {after}") };
            pieces.push((format!("{text}   "), Role::Text));
        };
        let times = [
            ("host", before.spent.host, after.spent.host),
            ("device", before.spent.device, after.spent.device),
            ("critical path", before.spent.path, after.spent.path),
        ];
        for (label, before, after) in times.into_iter().filter(|(_, a, b)| (*a, *b) != (DurNs::ZERO, DurNs::ZERO)) {
            add(label, before.to_string(), after.to_string());
        }
        if before.count + after.count > 0 {
            add("calls", before.count.to_string(), after.count.to_string());
        }
    }
    let Some(side) = board.columns.get(at) else { return pieces };
    pieces.push((format!("{}: ", side.figures.name), Role::Title));
    match (side.figures.source, side.figures.steps.as_slice()) {
        (source @ ("measured" | "predicted"), _) => {
            let of_one = side.figures.recorded_ns.map(|one| format!(" ({one}), here as it repeats"));
            pieces.push((format!("as {source}{}", of_one.unwrap_or_default()), Role::Text));
        }
        (_, []) => pieces.push(("no steps".to_owned(), Role::Text)),
        (_, [first, rest @ ..]) => {
            pieces.push((first.clone(), Role::Text));
            pieces.extend(rest.iter().map(|step| (format!(" · {step}"), Role::Text)));
        }
    }
    pieces.extend(score(side));
    pieces.extend(side.figures.unhandled.first().map(|first| (format!("   ! {first}"), Role::Warn)));
    pieces
}

/// What the prediction was worth.
fn score(side: &Side) -> Vec<(String, Role)> {
    let Some(score) = &side.score else { return Vec::new() };
    let mut pieces = vec![
        (format!("   predicted {}, measured {}: ", score.predicted_ns, score.measured_ns), Role::Dim),
        (format!("{} ", signed_percent(score.error)), Role::Strong),
        (place(score).to_owned(), if score.is_within_band { Role::Good } else { Role::Warn }),
    ];
    if score.is_direction_right == Some(false) {
        pieces.push((", the direction is wrong".to_owned(), Role::Bad));
    }
    let largest = score.by_operator.first();
    pieces.extend(
        largest.map(|part| (format!(", most of it {} {}", short_name(&part.name), signed(part.error_ns)), Role::Dim)),
    );
    pieces
}

fn place(score: &Score) -> &'static str {
    match (score.is_within_band, score.is_within_error) {
        (true, _) => "within its band",
        (false, true) => "outside its band, within what steps differ by",
        (false, false) => "outside its band",
    }
}

/// Why the chosen column's verdict is what it is, and where its prediction erred.
pub fn why(work: &Workspace) -> Vec<(&'static str, String, Role)> {
    let Some(board) = work.compare.shown.as_ref().map(|shown| &shown.board) else { return Vec::new() };
    let Some(side) = board.columns.get(work.compare.column()) else { return Vec::new() };
    let figures = &side.figures;
    let against = board.columns.get(board.reference).map_or("", |side| side.figures.name.as_str());
    let mut lines = vec![("", format!("{} against {against}", figures.name), Role::Title)];
    let range = match (figures.source, figures.is_range_known) {
        ("measured", true) => "how much the recorded steps differ, the first left out",
        ("measured", false) => "one step was recorded: a usual spread of 3.5 % is assumed",
        ("predicted", _) => "what the prediction states of its error",
        _ => "the known errors of the models, summed over the critical path",
    };
    lines.push((
        "iteration",
        format!("{}, {} to {}", figures.iteration_ns, figures.low_ns, figures.high_ns),
        Role::Text,
    ));
    lines.push(("range", range.to_owned(), Role::Text));
    if let Some(Difference { delta_ns, error_ns, .. }) = side.difference {
        lines.push(("difference", format!("{}, of which {error_ns} may be error", signed(delta_ns)), Role::Text));
        let rule = "scenarios of one trace share its replay and what a model gets wrong in both; other sides err independently";
        lines.push(("error", rule.to_owned(), Role::Dim));
    }
    let rows = "times are means over ranks; those on the critical path add up to the iteration";
    lines.push(("rows", rows.to_owned(), Role::Dim));
    lines.extend(side.score.iter().flat_map(of_score));
    lines
}

fn of_score(score: &Score) -> Vec<(&'static str, String, Role)> {
    let Score { start_ns, predicted_ns, measured_ns, error_ns, .. } = score;
    let mut lines = vec![
        ("prediction", format!("from {start_ns} to {predicted_ns}; it came to {measured_ns}"), Role::Text),
        ("off by", format!("{} ({}), {}", signed(*error_ns), signed_percent(score.error), place(score)), Role::Text),
    ];
    for (label, parts) in [("by kind", &score.by_kind), ("by operator", &score.by_operator)] {
        for (at, part) in parts.iter().take(PARTS).enumerate() {
            let text = format!(
                "{} {}: {} predicted, {} measured",
                signed(part.error_ns),
                short_name(&part.name),
                part.predicted_ns,
                part.measured_ns
            );
            lines.push((if at == 0 { label } else { "" }, text, Role::Text));
        }
    }
    lines
}
