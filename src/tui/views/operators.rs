//! Device and host time by operator, kernel, module, stream or family, measured, simulated and against the models.

use crate::cost::Provenance;
use crate::tui::listing::{Group, Grouping};
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use crate::units::DurNs;

use super::sweep::bar;

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let groups = &work.listing.groups;
    let sum = |of: fn(&Group) -> DurNs| groups.iter().map(of).sum::<DurNs>();
    let (measured, simulated) = (sum(|group| group.measured), sum(|group| group.simulated));
    let grouping = work.table.grouping;
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: summary(work, measured, simulated),
        columns: vec![
            column("measured", 10, true, 0),
            column("simulated", 10, true, 0),
            column("×", 6, true, 0),
            column("share", 7, true, 64),
            column("", 18, false, 150),
            column("host", 10, true, 94),
            column("count", 6, true, 86),
            column("÷ model", 8, true, 72),
            column("family", 12, false, 108),
            column("source", 10, false, 120),
            column(grouping.name(), 0, false, 0),
        ],
        count: groups.len(),
        row: Box::new(move |index| row(&groups[index], measured.max(simulated), grouping)),
    }
}

fn summary(work: &Workspace, measured: DurNs, simulated: DurNs) -> Vec<(String, Role)> {
    let groups = &work.listing.groups;
    let mut pieces = vec![(format!("{measured} → {simulated}"), Role::Strong), (" on device".to_owned(), Role::Dim)];
    pieces.extend(super::narrowed(work));
    let slow: Vec<&Group> = groups.iter().filter(|group| group.is_slow()).collect();
    if !slow.is_empty() {
        let lost: i64 = slow.iter().map(|group| group.covered.0 - group.modelled.0).sum();
        pieces.push((format!(" · {} slow by {}", slow.len(), DurNs(lost)), Role::Bad));
    }
    let order = format!("order: {}", work.table.order.name());
    for (key, what) in [("v", work.table.grouping.name()), ("s", order.as_str()), ("/", "filter")] {
        pieces.push((format!(" · {key}"), Role::Key));
        pieces.push((format!(" {what}"), Role::Dim));
    }
    pieces
}

fn row(group: &Group, total: DurNs, grouping: Grouping) -> TableRow {
    let most = group.measured.max(group.simulated);
    let share = most.0 as f64 / total.0.max(1) as f64;
    let ratio = group.change();
    let role = match ratio {
        r if r < 0.995 => Role::Good,
        r if r > 1.005 => Role::Bad,
        _ => Role::Dim,
    };
    let (source, source_role) = source(group.provenance);
    let against = group.against_model().map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    let against = if group.is_slow() { format!("▲ {against}") } else { against };
    let name = if grouping == Grouping::Kernel { short_name(&group.label) } else { &group.label };
    let name = name.trim_start_matches("aten::");
    let has_device = group.count > 0;
    let device = |text: String| if has_device { text } else { "–".to_owned() };
    TableRow {
        values: vec![
            value(device(group.measured.to_string()), Role::Text),
            value(device(group.simulated.to_string()), Role::Text),
            value(device(format!("{ratio:.2}")), role),
            value(device(format!("{:.1} %", share * 100.0)), Role::Text),
            value(bar(share), Role::Chart),
            value(if group.host > DurNs::ZERO { group.host.to_string() } else { "–".to_owned() }, Role::Dim),
            value(device(group.count.to_string()), Role::Dim),
            value(against, if group.is_slow() { Role::Bad } else { Role::Dim }),
            value(group.family, Role::Dim),
            value(source, source_role),
            value(if name.is_empty() { "(no name)" } else { name }, Role::Text),
        ],
        open: Open::Item(Item::Task(group.example)),
    }
}

/// Where times come from, in a word.
pub fn source(provenance: Provenance) -> (&'static str, Role) {
    match provenance {
        Provenance::Measured => ("measured", Role::Dim),
        Provenance::Anchored => ("anchored", Role::Text),
        Provenance::Absolute => ("model", Role::Text),
        Provenance::Unmodelled => ("unmodelled", Role::Warn),
    }
}
