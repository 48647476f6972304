//! Advice: every edit tried on top of the scenario, the best together, and what the iteration is sensitive to.

use crate::session::{Advice, AdvisedOption, Goal, Sensitivity, alike};
use crate::tui::table::{Column, Open, Table, TableRow, name, value};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

use super::sweep::bar;

fn column(title: &'static str, width: u16, is_number: bool, from_width: u16) -> Column {
    Column { title, width, is_number, from_width }
}

/// The view as a table: options, or with the other grouping the classes of tasks.
pub fn table(work: &Workspace) -> Table<'_> {
    let Some(advice) = work.advice.advice.as_deref() else {
        let text = if work.advice.is_looking { LOOKING } else { "stopped before anything was found" };
        let summary = vec![(text.to_owned(), Role::Warn)];
        return Table { summary, columns: options_columns(), count: 0, row: Box::new(|_| nothing()) };
    };
    let stale = work.advice.revision != work.history.revision();
    if work.table.is_other {
        return sensitivity(advice, stale);
    }
    let mut table = options(advice, stale);
    if advice.is_partial {
        let text =
            if work.advice.is_looking { " · looking for more, esc stops" } else { " · stopped: not all was tried" };
        table.summary.push((text.to_owned(), Role::Warn));
    }
    table
}

const LOOKING: &str = "trying every edit, alone and together … esc stops";

fn nothing() -> TableRow {
    TableRow { values: Vec::new(), open: Open::Nothing }
}

fn note(is_stale: bool) -> (String, Role) {
    if is_stale { (" · of an earlier scenario".to_owned(), Role::Warn) } else { (String::new(), Role::Dim) }
}

fn options_columns() -> Vec<Column> {
    vec![
        column("saves", 8, true, 0),
        column("iteration", 11, true, 0),
        column("within", 23, true, 92),
        column("memory", 10, true, 110),
        column("steps", 0, false, 0),
    ]
}

fn options(advice: &Advice, is_stale: bool) -> Table<'_> {
    let per_sample = if advice.options.iter().any(|option| option.is_per_sample) { " · * per sample" } else { "" };
    let groups = alike(&advice.options);
    let goal = advice.goal.as_ref().map_or(String::new(), goal);
    let text = match advice.options.len() {
        0 => "no edit that is known makes it faster".to_owned(),
        1 => "1 option on top of the scenario · v sensitivity".to_owned(),
        count => format!("{count} options on top of the scenario · v sensitivity"),
    };
    Table {
        summary: vec![(goal, Role::Accent), (text + per_sample, Role::Dim), note(is_stale)],
        columns: options_columns(),
        count: groups.len(),
        row: Box::new(move |index| {
            let group: Vec<&AdvisedOption> = groups[index].iter().map(|&at| &advice.options[at]).collect();
            option_row(group[0], &group[1..])
        }),
    }
}

/// `goal −20 %: −40.0 % · `; what takes it is in the pane.
fn goal(goal: &Goal) -> String {
    let (target, gain) = (goal.percent(), 100.0 * goal.gain);
    match (goal.simulated_ns, goal.is_reached) {
        (None, _) => format!("goal −{target} % out of reach · "),
        (_, true) => format!("goal −{target} % reached: −{gain:.1} % · "),
        (_, false) => format!("goal −{target} % out of reach: at most −{gain:.1} % · "),
    }
}

fn option_row(option: &AdvisedOption, others: &[&AdvisedOption]) -> TableRow {
    let band = option.error_band;
    let role = if option.is_hardware { Role::Text } else { Role::Strong };
    TableRow {
        values: vec![
            value(format!("−{:.1} %{}", 100.0 * option.gain, if option.is_per_sample { "*" } else { "" }), Role::Good),
            value(option.simulated_ns.to_string(), Role::Text),
            value(format!("{} to {}", band.low_ns, band.high_ns), Role::Dim),
            value(option.memory_bytes.map_or(String::new(), |bytes| bytes.to_string()), Role::Text),
            name(format!("{}{}", option.described(others, " + "), assumed(option)), role),
        ],
        open: Open::Lines(option.steps.clone()),
    }
}

/// The largest share of a step's change that is judgement.
fn assumed(option: &AdvisedOption) -> String {
    if option.assumed_share > 0.0 { format!(" ({:.0} % assumed)", 100.0 * option.assumed_share) } else { String::new() }
}

fn sensitivity(advice: &Advice, is_stale: bool) -> Table<'_> {
    let text = "time saved when a class of tasks takes a tenth less, and when it takes none · v options";
    let most = advice.sensitivity.iter().map(|lever| lever.gain_at_most).fold(1e-9, f64::max);
    Table {
        summary: vec![(text.to_owned(), Role::Dim), note(is_stale)],
        columns: vec![
            column("class", 12, false, 0),
            column("a tenth", 9, true, 0),
            column("all", 9, true, 0),
            column("to goal", 9, true, if advice.goal.is_some() { 0 } else { u16::MAX }),
            column("", 18, false, 54),
            column("tasks", 0, false, 74),
        ],
        count: advice.sensitivity.len(),
        row: Box::new(move |index| lever_row(&advice.sensitivity[index], most)),
    }
}

fn lever_row(lever: &Sensitivity, most: f64) -> TableRow {
    let saved = |gain: f64| format!("−{:.2} %", 100.0 * gain.max(0.0));
    TableRow {
        values: vec![
            value(lever.class.clone(), Role::Strong),
            value(saved(lever.gain_at_tenth), Role::Text),
            value(saved(lever.gain_at_most), Role::Text),
            value(lever.factor_for_target.map_or("–".to_owned(), |factor| format!("×{factor:.3}")), Role::Text),
            value(bar(lever.gain_at_most / most), Role::Chart),
            value(lever.selector.clone(), Role::Dim),
        ],
        open: Open::Line(format!("scale {} x0.9", lever.selector)),
    }
}
