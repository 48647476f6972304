//! Device and host time as a tree of model, modules, operators and kernels, or grouped; measured, simulated and against
//! the models.

use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, named};
use crate::tui::listing::{Arrangement, Group, Grouping, ModelComparison, Nesting, Order, Tree};
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::kernel_name;
use crate::tui::workspace::Workspace;
use retime_core::cost::Provenance;
use retime_core::units::DurNs;

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::{self, Why};

/// Wider than any terminal: a column that is not shown.
const NEVER: u16 = u16::MAX;

/// The title of names that lie in one another.
const TREE: &str = "module › operator › kernel";

/// What opens it.
const OPENER: Command = Command {
    name: "operators",
    aliases: &["ops"],
    argument: Argument::None,
    help: "operators and kernels by time",
    keys: &[(Pane::Everywhere, "4")],
    run: |app, _| Ok(show(app, &Operators)),
};

/// What the signs in the table mean.
const SIGNS: &str = "÷ model: measured over what the cost model says; ~ beyond what the model was fitted on; ▲ slow by more \
                     than the model errs";

/// The view.
#[derive(Debug)]
pub struct Operators;

impl View for Operators {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn brief(&self) -> &'static str {
        "ops"
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(rows(work))
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        work.listing.groups.get(work.table.cursor).map(|group| group.label.clone())
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let (grouping, order) = (work.listing.arrangement.grouping, work.listing.order);
        vec![
            ("enter", "opens, folds".to_owned()),
            ("o", "on the timeline".to_owned()),
            ("v", format!("groups by {}", grouping.next().name())),
            ("s", format!("sorts by {}", order.next().name())),
        ]
    }

    fn details(&self, _app: &App, _work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::flowing(SIGNS, Role::Faint, canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        of_group(work, lines);
    }

    fn sort(&self, work: &mut Workspace, by: &str) -> CommandResult {
        let origin = ["measured", "predicted"].map(|title| (title, Order::Time));
        let columns = [("simulated", Order::Time), ("share", Order::Time), ("Δ", Order::Change)];
        let more = [("÷ model", Order::Model), (TREE, Order::Name)];
        let names = Grouping::ALL.map(|grouping| (grouping.name(), Order::Name));
        let titles = origin.into_iter().chain(columns).chain(more).chain(names);
        let order = match titles.into_iter().find(|&(title, _)| title == by) {
            Some((_, order)) => Some(order),
            None => named(by, &Order::ALL.map(|order| (order.name(), order)))?,
        };
        let next = work.listing.order.next();
        Ok(work.arrange(|now| Arrangement { order: Some(order.unwrap_or(next)), ..now }))
    }

    fn group(&self, work: &mut Workspace, by: &str) -> CommandResult {
        let grouping = named(by, &Grouping::ALL.map(|grouping| (grouping.name(), grouping)))?;
        Ok(work.arrange(|now| Arrangement { grouping: grouping.unwrap_or(now.grouping.next()), ..now }))
    }
}

fn rows(work: &Workspace) -> Table<'_> {
    let listing = &work.listing;
    let outer = || listing.groups.all.iter().filter(|group| group.depth == 0);
    let measured: DurNs = outer().map(|group| group.measured).sum();
    let simulated: DurNs = outer().map(|group| group.simulated).sum();
    let is_edited = work.is_edited();
    let has_waits = outer().any(|group| group.waited > DurNs::ZERO);
    Table {
        summary: summary(work, measured, simulated, is_edited),
        columns: columns(work, is_edited, has_waits),
        count: listing.groups.count(),
        row: Box::new(move |index| row(work, index)),
    }
}

fn columns(work: &Workspace, is_edited: bool, has_waits: bool) -> Vec<Column> {
    let grouping = work.listing.arrangement.grouping;
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let title = if grouping == Grouping::Tree { TREE } else { grouping.name() };
    let (compared, after) = if is_edited { (0, 20) } else { (NEVER, 0) };
    vec![
        column(title, 0, false, 0),
        column(work.origin(), 10, true, 0),
        column("simulated", 10, true, compared),
        column("Δ", 10, true, compared),
        column("share", 7, true, 60 + after / 4),
        column("", 18, false, 150),
        column("host", 10, true, 76 + after),
        column("waits", 10, true, if has_waits { 104 + after } else { NEVER }),
        column("count", 6, true, 70 + after),
        column("÷ model", 9, true, 64 + after / 2),
        column("family", 12, false, 118 + after),
        column("source", 10, false, if is_edited { 130 } else { NEVER }),
    ]
}

fn summary(work: &Workspace, measured: DurNs, simulated: DurNs, is_edited: bool) -> Vec<(String, Role)> {
    let total = if is_edited { format!("{measured} → {simulated}") } else { measured.to_string() };
    let what = if work.has_device() { " on device" } else { " of computation" };
    let mut pieces = vec![(total, Role::Strong), (what.to_owned(), Role::Dim)];
    pieces.extend(super::narrowed(work));
    let leaves = work.listing.groups.all.iter().enumerate().filter(|(at, group)| group.end == at + 1);
    let slow: Vec<&Group> = leaves.map(|(_, group)| group).filter(|group| group.is_slow()).collect();
    if !slow.is_empty() {
        let lost: DurNs = slow.iter().map(|group| group.against.lost()).sum();
        pieces.push((format!(" · ▲ {} slow by {lost}", slow.len()), Role::Bad));
    }
    pieces.push((format!(" · by {}", work.listing.order.name()), Role::Dim));
    pieces
}

fn row(work: &Workspace, index: usize) -> TableRow {
    let Some(group) = work.listing.groups.get(index) else {
        return TableRow { values: Vec::new(), open: Open::Nothing };
    };
    let now = if work.is_edited() { group.simulated } else { group.measured };
    let share = now.0 as f64 / work.whole().0 as f64;
    let change = group.simulated - group.measured;
    let (source, source_role) = source(group.provenance);
    let has_device = group.count > 0;
    let device = |text: String| if has_device { text } else { "–".to_owned() };
    let time = |time: DurNs| if time > DurNs::ZERO { time.to_string() } else { "–".to_owned() };
    let name_role = if group.depth <= 1 && work.listing.groups.nesting(index) != Some(Nesting::Leaf) {
        Role::Strong
    } else {
        Role::Text
    };
    TableRow {
        values: vec![
            table::name(name(work, index, group), name_role),
            value(device(group.measured.to_string()), Role::Text),
            value(device(group.simulated.to_string()), Role::Text),
            if has_device { super::change(change, group.measured) } else { value("–", Role::Dim) },
            value(device(format!("{:.1} %", share * 100.0)), Role::Text),
            value(bar(share), Role::Chart),
            value(time(group.host), Role::Dim),
            value(time(group.waited), Role::Dim),
            value(device(group.count.to_string()), Role::Dim),
            value(against(group), if group.is_slow() { Role::Bad } else { Role::Dim }),
            value(group.family, Role::Dim),
            value(source, source_role),
        ],
        open: Open::Item(super::item_of(work, group.example)),
    }
}

/// Indented as deep as it lies, with a sign that says whether there is more inside.
fn name(work: &Workspace, index: usize, group: &Group) -> String {
    let grouping = work.listing.arrangement.grouping;
    let is_leaf = work.listing.groups.nesting(index) == Some(Nesting::Leaf);
    let is_kernel = grouping == Grouping::Kernel || group.depth >= 2 && is_leaf && group.count > 0;
    let name = if is_kernel { kernel_name(&group.label) } else { group.label.trim_start_matches("aten::").into() };
    if grouping != Grouping::Tree {
        return name.into_owned();
    }
    let sign = match work.listing.groups.nesting(index) {
        Some(Nesting::Expanded) => "▾ ",
        Some(Nesting::Collapsed) => "▸ ",
        _ => "  ",
    };
    format!("{}{sign}{name}", "  ".repeat(group.depth))
}

/// Measured over modelled: `▲` slower by more than the model errs, `~` beyond what it was fitted on.
fn against(group: &Group) -> String {
    match group.against.ratio() {
        None => "–".to_owned(),
        Some(ratio) if group.is_slow() => format!("▲ {ratio:.2}"),
        Some(ratio) if group.against.is_extrapolated() => format!("~ {ratio:.2}"),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

/// Where times come from, in a word.
fn source(provenance: Provenance) -> (&'static str, Role) {
    match provenance {
        Provenance::Measured => ("measured", Role::Dim),
        Provenance::Anchored => ("anchored", Role::Text),
        Provenance::Absolute => ("model", Role::Text),
        Provenance::Unmodelled => ("unmodelled", Role::Warn),
    }
}

fn of_group(work: &Workspace, lines: &mut Why) {
    let Some(group) = work.listing.groups.get(work.table.cursor) else { return };
    lines.push(("", group.path.replace('\u{1f}', " › "), Role::Title));
    let sums = format!("{} → {} over {} pieces of device work", group.measured, group.simulated, group.count);
    lines.push(("sum", sums, Role::Text));
    // A list that is narrowed to a family of kernels has no host time in it.
    if group.host > DurNs::ZERO || (work.filter.is_none() && work.timeline.family.is_none()) {
        lines.push(("host", format!("{} of host time of its operators", group.host), Role::Text));
    }
    if group.waited > DurNs::ZERO {
        let waits = format!("{} of waiting for other ranks or the device beside, in neither sum", group.waited);
        lines.push(("waits", waits, Role::Text));
    }
    let is_slow = group.is_slow();
    lines.push(("model", comparison(work, &group.against), if is_slow { Role::Bad } else { Role::Text }));
    lines.push(("worst source", source(group.provenance).0.to_owned(), Role::Text));
    lines.push(("", "the longest of them:".to_owned(), Role::Dim));
    why::of_item(work, super::item_of(work, group.example), lines);
}

/// Kernels against their models, and from where on that means something.
fn comparison(work: &Workspace, against: &ModelComparison) -> String {
    let Some(ratio) = against.ratio() else {
        let is_predicted = work.loaded.predicted().is_some();
        let text = if is_predicted { "the times are predictions themselves" } else { "no model covers any of it" };
        return text.to_owned();
    };
    let said = format!(
        "{} of device work is covered ({} within what the models were fitted on); they say {}; measured is ×{ratio:.2}",
        against.covered, against.within_covered, against.modelled
    );
    match against.lost() {
        _ if against.is_extrapolated() => format!("{said}; all beyond what they were fitted on: nothing follows"),
        DurNs(0) => {
            format!("{said}; slow would be from ×{:.2} on, within what they were fitted on", against.slow_from())
        }
        lost => format!("{said}; slow by {lost}: models err by less (slow is from ×{:.2} on)", against.slow_from()),
    }
}
