//! Operators and kernels by the device time they take, measured and simulated.

use crate::cost::Provenance;
use crate::tui::digest::Group;
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use crate::units::DurNs;

use super::sweep::bar;

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let by_kernel = work.table.is_other;
    let groups: &[Group] = if by_kernel { &work.digest.kernels } else { &work.digest.operators };
    let sum = |of: fn(&Group) -> DurNs| groups.iter().map(of).sum::<DurNs>();
    let (measured, simulated) = (sum(|group| group.measured), sum(|group| group.simulated));
    let what = if by_kernel { "kernels" } else { "operators" };
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: vec![
            (format!("{} {what}, ", groups.len()), Role::Dim),
            (format!("{measured} → {simulated}"), Role::Strong),
            (" of device time in the iteration · ".to_owned(), Role::Dim),
            ("v".to_owned(), Role::Key),
            (if by_kernel { " by operator" } else { " by kernel" }.to_owned(), Role::Dim),
        ],
        columns: vec![
            column("measured", 10, true, 0),
            column("simulated", 10, true, 0),
            column("×", 6, true, 0),
            column("share", 7, true, 64),
            column("", 18, false, 120),
            column("count", 6, true, 56),
            column("family", 12, false, 76),
            column("source", 10, false, 100),
            column(if by_kernel { "kernel" } else { "operator" }, 0, false, 0),
        ],
        count: groups.len(),
        row: Box::new(move |index| row(work, &groups[index], measured.max(simulated), by_kernel)),
    }
}

fn row(work: &Workspace, group: &Group, total: DurNs, by_kernel: bool) -> TableRow {
    let most = group.measured.max(group.simulated);
    let share = most.0 as f64 / total.0.max(1) as f64;
    let ratio = group.simulated.0 as f64 / group.measured.0.max(1) as f64;
    let role = match ratio {
        r if r < 0.995 => Role::Good,
        r if r > 1.005 => Role::Bad,
        _ => Role::Dim,
    };
    let (source, source_role) = match group.provenance {
        Provenance::Measured => ("measured", Role::Dim),
        Provenance::Anchored => ("anchored", Role::Text),
        Provenance::Absolute => ("model", Role::Text),
        Provenance::Unmodelled => ("unmodelled", Role::Warn),
    };
    let full = work.loaded.graph.names.get(group.name);
    let name = if by_kernel { short_name(full) } else { full };
    TableRow {
        values: vec![
            value(group.measured.to_string(), Role::Text),
            value(group.simulated.to_string(), Role::Text),
            value(format!("{ratio:.2}"), role),
            value(format!("{:.1} %", share * 100.0), Role::Text),
            value(bar(share), Role::Chart),
            value(group.count.to_string(), Role::Dim),
            value(group.family, Role::Dim),
            value(source, source_role),
            value(if name.is_empty() { "(no name)" } else { name }, Role::Text),
        ],
        open: Open::Item(Item::Task(group.example)),
    }
}
