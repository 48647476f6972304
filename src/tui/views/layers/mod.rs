//! The model across the stack: model, layers and kernels with their time before and after, work, and what bounds them; and the
//! fifteen analyses of them, one at a time.

mod analyses;

use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Kind, Pane, named};
use crate::tui::effect::Effect;
use crate::tui::listing::{Arrangement, LayerGroup, LayerGrouping, LayerOrder, Nesting, Tree};
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Detail, kernel_name};
use crate::tui::workspace::Workspace;
use retime_core::analysis::layers;
use retime_core::analysis::roofline::Limit;
use retime_core::units::{Bytes, DurNs, Flop, Percent};

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::Why;

/// What opens it.
const OPENER: Command = Command {
    name: "layers",
    aliases: &[],
    argument: Argument::Optional(Kind::Analysis, "ANALYSIS"),
    help: "model, layers and kernels: time, work, what bounds them",
    keys: &[(Pane::Everywhere, "L")],
    run: |app, name| if name.is_empty() { Ok(show(app, &Layers)) } else { analyse(app, name) },
};

/// What goes through the analyses.
const ANALYSIS: Command = Command {
    name: "analysis",
    aliases: &[],
    argument: Argument::Optional(Kind::Analysis, "NUMBER|NAME"),
    help: "of layers: one of the fifteen analyses, alone the next; tree",
    keys: &[(Pane::Table, "a")],
    run: |app, name| match name {
        "" if !app.shows(&Layers) => Err("the analyses are of layers: L".to_owned()),
        name => analyse(app, name),
    },
};

/// Shows an analysis.
fn analyse(app: &mut App, name: &str) -> CommandResult {
    let effects = show(app, &Layers);
    analyses::choose(app.workspace_mut().ok_or("no trace is open yet")?, name)?;
    Ok(effects)
}

/// The view.
#[derive(Debug)]
pub struct Layers;

impl View for Layers {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn commands(&self) -> &'static [Command] {
        &[ANALYSIS]
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(analyses::shown(work).map_or_else(|| rows(work), |number| analyses::rows(work, number)))
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        if let Some(number) = analyses::shown(work) {
            return Some(analyses::title(number));
        }
        work.listing.layers.get(work.table.cursor).map(|group| group.label.clone())
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        if analyses::shown(work).is_some() {
            let keys = [("a", "next analysis"), ("esc", "layers as a tree")];
            return keys.map(|(key, what)| (key, what.to_owned())).to_vec();
        }
        let Arrangement { layers, layer_order, .. } = work.listing.arrangement;
        vec![
            ("enter", "opens, folds".to_owned()),
            ("o", "on the timeline".to_owned()),
            ("v", format!("groups by {}", layers.next().name())),
            ("s", format!("sorts by {}", layer_order.next().name())),
            ("a", "analyses".to_owned()),
        ]
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::labelled(&details(work), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        lines.extend(self.title(work).map(|title| ("", title, Role::Title)));
        lines.extend(details(work).into_iter().map(|detail| (detail.label, detail.value, Role::Text)));
        for stage in stages(work) {
            lines.push(("stages", stage, Role::Text));
        }
    }

    fn stop(&self, work: &mut Workspace) -> Option<Vec<Effect>> {
        analyses::close(work).then(Vec::new)
    }

    fn open_row(&self, app: &mut App) -> CommandResult {
        if app.workspace().is_some_and(|work| analyses::shown(work).is_some()) {
            return Err("an analysis has figures only: esc leads to the layers".to_owned());
        }
        match app.workspace_mut().filter(|work| {
            work.nesting().is_some_and(|nesting| matches!(nesting, Nesting::Expanded | Nesting::Collapsed))
        }) {
            Some(work) => {
                work.toggle_row();
                Ok(Vec::new())
            }
            None => app.show_row(),
        }
    }

    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        match app.workspace_mut().filter(|work| analyses::shown(work).is_none() && work.nesting().is_some()) {
            Some(work) => work.move_in_tree(by > 0),
            None => return Ok(Vec::new()),
        }
        Ok(self.vertical(app, 0))
    }

    fn sort(&self, work: &mut Workspace, by: &str) -> CommandResult {
        refused(work)?;
        let time = LayerOrder::Time;
        let titles = [("measured", time), ("predicted", time), ("simulated", time), ("share", time)];
        let more = [("Δ", LayerOrder::Change)].into_iter();
        let order = match titles.into_iter().chain(more).find(|&(title, _)| title == by) {
            Some((_, order)) => Some(order),
            None => named(by, &LayerOrder::ALL.map(|order| (order.name(), order)))?,
        };
        Ok(work.arrange(|now| Arrangement { layer_order: order.unwrap_or(now.layer_order.next()), ..now }))
    }

    fn group(&self, work: &mut Workspace, by: &str) -> CommandResult {
        refused(work)?;
        let grouping = named(by, &LayerGrouping::ALL.map(|grouping| (grouping.name(), grouping)))?;
        Ok(work.arrange(|now| Arrangement { layers: grouping.unwrap_or(now.layers.next()), ..now }))
    }
}

/// Whether the rows have one order: those of an analysis do.
fn refused(work: &Workspace) -> Result<(), String> {
    analyses::shown(work)
        .map_or(Ok(()), |_| Err("an analysis has one order: a goes on, esc leads to the layers".to_owned()))
}

fn rows(work: &Workspace) -> Table<'_> {
    let (compared, after) = if work.is_edited() { (0, 20) } else { (u16::MAX, 0) };
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let model = work.listing.layers.all.first();
    Table {
        summary: summary(work, model),
        columns: vec![
            column(title(work), 0, false, 0),
            column("shape", 18, false, 130 + after),
            column(work.origin(), 10, true, 0),
            column("simulated", 10, true, compared),
            column("Δ", 10, true, compared),
            column("share", 7, true, 56 + after / 2),
            column("", 18, false, 150 + after),
            column("host", 10, true, 84 + after),
            column("writes", 10, true, 104 + after),
            column("FLOP", 12, true, 118 + after),
            column("FLOP/B", 8, true, 96 + after),
            column("occ.", 6, true, 140 + after),
            column("bound", 8, false, 64 + after / 2),
            column("kernels", 7, true, 74 + after),
        ],
        count: work.listing.layers.count(),
        row: Box::new(move |at| row(work, at)),
    }
}

fn title(work: &Workspace) -> &'static str {
    match work.listing.arrangement.layers {
        LayerGrouping::Layer => "model › layer › kernel",
        LayerGrouping::Type => "model › type › layer",
        LayerGrouping::Kernel => "model › kernel › layer",
    }
}

fn summary(work: &Workspace, model: Option<&LayerGroup>) -> Vec<(String, Role)> {
    let Some(model) = model else { return vec![("no layer was recorded".to_owned(), Role::Warn)] };
    let table = shown_table(work);
    let times =
        if work.is_edited() { format!("{} → {}", model.before, model.after) } else { model.before.to_string() };
    let mut pieces = vec![
        (format!("{} layers · ", table.layers.len()), Role::Text),
        (times, Role::Strong),
        (" in kernels".to_owned(), Role::Dim),
    ];
    if work.loaded.graph.rank_count() > 1 {
        pieces.push((", first rank".to_owned(), Role::Dim));
    }
    pieces.extend(super::narrowed(work));
    pieces.push((format!(" · by {}", work.listing.arrangement.layer_order.name()), Role::Dim));
    if let Some(stage) = stages(work).first() {
        pieces.push((format!(" · {stage}"), Role::Dim));
    }
    pieces
}

/// Layers after the edits.
fn shown_table(work: &Workspace) -> &layers::LayerTable {
    if work.is_edited() { &work.view_model.layers } else { &work.view_model.traced.layers }
}

/// Which third of the layers has most of something, a line each.
fn stages(work: &Workspace) -> Vec<String> {
    let words = |stage: layers::Stage| {
        let [begin, middle, end] = [stage.begin, stage.middle, stage.end].map(Percent);
        format!("{}: first third {begin:.0}, second {middle:.0}, last {end:.0}", stage.metric)
    };
    layers::stages(&shown_table(work).layers).into_iter().map(words).collect()
}

fn row(work: &Workspace, at: usize) -> TableRow {
    let Some(group) = work.listing.layers.get(at) else {
        return TableRow { values: Vec::new(), open: Open::Nothing };
    };
    // Kernels side by side may take longer together than the iteration: then a share is of them, as `layers` has it.
    let model = work.listing.layers.get(0).map_or(DurNs::ZERO, |model| model.after);
    // Layers are of one rank.
    let share = group.after.0 as f64 / work.iteration().max(model).0.max(1) as f64;
    let some = |is_known: bool, text: String| if is_known { text } else { "–".to_owned() };
    let shape = group.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("×");
    let has_traffic = group.load.bytes > 0.0;
    TableRow {
        values: vec![
            table::name(name(work, at, group), if group.depth == 0 { Role::Strong } else { Role::Text }),
            value(shape, Role::Dim),
            value(group.before.to_string(), Role::Text),
            value(group.after.to_string(), Role::Text),
            super::change(group.after - group.before, group.before),
            value(Percent(share).to_string(), Role::Text),
            value(bar(share), Role::Chart),
            value(some(group.host > DurNs::ZERO, group.host.to_string()), Role::Dim),
            value(some(group.written > 0, Bytes(group.written).to_string()), Role::Text),
            value(some(group.load.flop > 0.0, Flop(group.load.flop).to_string()), Role::Text),
            value(some(has_traffic, format!("{:.1}", group.load.intensity())), Role::Text),
            value(group.occupancy.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0)), Role::Text),
            value(group.bound.map_or("–", Limit::name), Role::Dim),
            value(group.count.to_string(), Role::Dim),
        ],
        open: group.item.map_or(Open::Nothing, Open::Item),
    }
}

/// Indented as deep as it lies, with a sign that says whether there is more inside.
fn name(work: &Workspace, at: usize, group: &LayerGroup) -> String {
    let nesting = work.listing.layers.nesting(at);
    let sign = match nesting {
        Some(Nesting::Expanded) => "▾ ",
        Some(Nesting::Collapsed) => "▸ ",
        _ => "  ",
    };
    let label = kernel_name(group.label.trim_start_matches("aten::"));
    format!("{}{sign}{label}", "  ".repeat(group.depth))
}

fn details(work: &Workspace) -> Vec<Detail> {
    if analyses::shown(work).is_some() {
        return Vec::new();
    }
    let Some(group) = work.listing.layers.get(work.table.cursor) else { return Vec::new() };
    let detail = |label, value: String| Detail { label, value };
    let traffic = Bytes(group.load.bytes as u64);
    let rate = if group.load.seconds > 0.0 { group.load.flop / group.load.seconds / 1e12 } else { 0.0 };
    let known = match group.bound {
        Some(_) => format!("{}, {traffic} of traffic", Flop(group.load.flop)),
        None => "not known: no shapes were recorded".to_owned(),
    };
    let before = if group.before == group.after { String::new() } else { format!(", {} before", group.before) };
    let kernels = format!("{} of {}{before}", group.count, group.after);
    let mut details = vec![detail("kernels", kernels), detail("work", known)];
    if let Some(bound) = group.bound {
        details.push(detail("reached", format!("{rate:.2} TFLOP/s, most of it bound by {}", bound.name())));
    }
    if group.host > DurNs::ZERO {
        details.push(detail("host", format!("{} in which none of its kernels ran", group.host)));
    }
    if let Some(occupancy) = group.occupancy {
        details.push(detail("occupancy", format!("{:.0} % of the threads that the device holds", occupancy * 100.0)));
    }
    details
}
