//! Idle intervals of the main streams by cause: what each costs, and what the edit that closes it best gains.

use std::collections::BTreeMap;

use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, run_line};
use crate::tui::effect::Effect;
use crate::tui::listing::{GapGroup, Nesting, Tree};
use crate::tui::runner::{Analysis, Finding};
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{short_name, signed};
use crate::tui::workspace::Workspace;
use retime_core::analysis::critical_path::explained;
use retime_core::analysis::gaps::{Gap, candidate_steps};
use retime_core::intern::NameId;
use retime_core::units::{DurNs, Percent};

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::Why;

/// What opens it.
const OPENER: Command = Command {
    name: "gaps",
    aliases: &[],
    argument: Argument::None,
    help: "idle intervals of the streams, and why",
    keys: &[(Pane::Everywhere, "3")],
    run: |app, _| Ok(show(app, &Gaps)),
};

/// The view.
#[derive(Debug)]
pub struct Gaps;

impl View for Gaps {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(rows(work))
    }

    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        let keys = [("enter", "opens, folds"), ("o", "on the timeline"), ("A", "adds the best edit")];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        Rect { height: table::height_above(work.listing.gaps.count(), area.height), ..area }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let area = self.rows_area(work, canvas.area());
        table::render(&rows(work), &work.table, &mut canvas.part(0, 0, area.width, area.height));
        let gaps = single(work);
        if gaps.count > 0 {
            table::render_below("longest first, whatever the cause", &gaps, area.height, canvas);
        }
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::flow(&chain(work), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        why(work, lines);
    }

    fn start(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, try_edits)
    }

    fn take(&self, work: &mut Workspace, revision: u64, finding: &Finding) -> Option<String> {
        if let Finding::Gain(line, gain) = finding {
            work.states.with(|tried: &mut Tried| {
                if tried.revision == Some(revision) {
                    tried.gains.insert(line.clone(), *gain);
                }
            });
        }
        None
    }

    /// Puts the best edit against the chosen gap in force.
    fn add_row(&self, app: &mut App) -> CommandResult {
        let best = app.workspace().and_then(|work| closing(work, chosen(work)?).into_iter().next());
        match best {
            Some((line, _)) => run_line(app, &line),
            None => Err("no edit is known that closes it".to_owned()),
        }
    }
}

/// Edits tried on top of a scenario, each with what it takes off the iteration.
#[derive(Debug, Default)]
struct Tried {
    /// The scenario's revision; `None` before the first.
    revision: Option<u64>,
    /// How many were asked for.
    expected: usize,
    /// What has come in, by the edit's line.
    gains: BTreeMap<String, DurNs>,
}

impl Tried {
    /// What was tried on the scenario in force.
    fn of(work: &Workspace) -> Option<&Self> {
        work.states.get::<Self>().filter(|tried| tried.revision == Some(work.history.revision()))
    }
}

/// Asks what the edits that may close the longest gaps gain; nothing when that is known already.
fn try_edits(work: &mut Workspace) -> Vec<Effect> {
    let revision = work.history.revision();
    if work.is_stale() || work.is_relisting() || Tried::of(work).is_some() {
        return Vec::new();
    }
    let mut lines: Vec<String> = Vec::new();
    for line in work.listing.gaps.all.iter().filter(|group| group.depth == 0).flat_map(|group| candidates(work, group))
    {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    work.states.set(Tried { revision: Some(revision), expected: lines.len(), gains: BTreeMap::new() });
    if lines.is_empty() { Vec::new() } else { vec![work.analyse(revision, Analysis::Gains(lines))] }
}

/// The edits that may shorten the gaps of `group`: those of its longest ones.
fn candidates(work: &Workspace, group: &GapGroup) -> Vec<String> {
    const GAPS: usize = 8;
    let model = &work.listing.view_model;
    let mut lines: Vec<String> = Vec::new();
    for &at in group.gaps.iter().take(GAPS) {
        for line in candidate_steps(model.graph(&work.loaded), &model.idle.gaps[at]) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// The edits that shorten the iteration at the gaps of `group` with what each takes off it, most first.
fn closing(work: &Workspace, group: &GapGroup) -> Vec<(String, DurNs)> {
    let Some(tried) = Tried::of(work) else { return Vec::new() };
    let known = candidates(work, group).into_iter();
    let known = known.filter_map(|line| tried.gains.get(&line).map(|&gain| (line, gain)));
    let mut closing: Vec<(String, DurNs)> = known.filter(|(_, gain)| gain.0 > 0).collect();
    closing.sort_by_key(|(line, gain)| (std::cmp::Reverse(*gain), line.clone()));
    closing
}

/// The gap that `group` is about: the longest of several.
fn longest<'a>(work: &'a Workspace, group: &GapGroup) -> Option<&'a Gap> {
    work.listing.view_model.idle.gaps.get(*group.gaps.first()?)
}

fn describe(work: &Workspace, gap: &Gap) -> String {
    gap.cause.describe_with(work.listing.view_model.graph(&work.loaded), short_name)
}

fn rows(work: &Workspace) -> Table<'_> {
    let rows = &work.listing.gaps;
    let most = rows.all.iter().map(|group| group.idle.0).max().unwrap_or(1).max(1);
    let whole: DurNs = work.listing.view_model.idle.main_streams().map(|stream| stream.period).sum();
    Table {
        summary: summary(work, whole),
        columns: columns("cause"),
        count: rows.count(),
        row: Box::new(move |index| {
            let nesting = rows.nesting(index);
            rows.get(index).map_or_else(nothing, |group| row(work, group, nesting, (whole, most)))
        }),
    }
}

/// The gaps themselves, longest first, whatever their cause.
fn single(work: &Workspace) -> Table<'_> {
    let mut gaps: Vec<&GapGroup> = work.listing.gaps.all.iter().filter(|group| group.depth > 0).collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.idle), gap.gaps.first().copied()));
    let most = gaps.first().map_or(1, |gap| gap.idle.0.max(1));
    let whole: DurNs = work.listing.view_model.idle.main_streams().map(|stream| stream.period).sum();
    Table {
        summary: Vec::new(),
        columns: columns_of_one(work.listing.view_model.idle.main_streams().count() > 1),
        count: gaps.len(),
        row: Box::new(move |index| row(work, gaps[index], None, (whole, most))),
    }
}

fn columns(title: &'static str) -> Vec<Column> {
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    vec![
        column(title, 0, false, 0),
        column("idle", 10, true, 0),
        column("share", 7, true, 0),
        column("", 18, false, 124),
        column("gaps", 5, true, 90),
        column("at", 10, true, NEVER),
        column("stream", 14, false, NEVER),
        column("then", 26, false, NEVER),
        column("off iteration", 13, true, 60),
        column("by", 40, false, 100),
    ]
}

/// Behind an edit that gains more than the gaps it closes are long.
const BEYOND: &str = ", less work too";
/// Wider than any terminal: a column that is not shown.
const NEVER: u16 = u16::MAX;

/// Those of a gap alone: when it begins, on which of several streams, and what runs after it. What an edit takes off the
/// iteration is told of all gaps of a cause together.
fn columns_of_one(are_several: bool) -> Vec<Column> {
    let place = |column: Column| {
        let from_width = match column.title {
            "gaps" | "off iteration" | "by" => NEVER,
            "at" => 0,
            "stream" if are_several => 76,
            "then" => 100,
            "" => 150,
            _ => column.from_width,
        };
        Column { from_width, ..column }
    };
    columns("because").into_iter().map(place).collect()
}

fn nothing() -> TableRow {
    TableRow { values: Vec::new(), open: Open::Nothing }
}

fn row(work: &Workspace, group: &GapGroup, nesting: Option<Nesting>, (whole, most): (DurNs, i64)) -> TableRow {
    let gap = longest(work, group);
    let one = gap.filter(|_| group.gaps.len() == 1);
    let at = one.map_or(String::new(), |gap| signed(work.scene().simulated_at(gap.start)).replace('+', ""));
    let next = one.and_then(|gap| gap.next);
    let next = next.map_or(String::new(), |node| work.scene().caption(super::item_of(work, node)));
    let (by, gains) = match closing(work, group).into_iter().next() {
        Some((line, gain)) if gain > group.idle => (format!("{line}{BEYOND}"), format!("−{gain}")),
        Some((line, gain)) => (line, format!("−{gain}")),
        None => (String::new(), if group.gaps.is_empty() { String::new() } else { "–".to_owned() }),
    };
    let sign = match nesting {
        Some(Nesting::Expanded) => "▾ ",
        Some(Nesting::Collapsed) => "▸ ",
        Some(Nesting::Leaf) => "  ",
        None => "",
    };
    let (label, role) = match gap.filter(|_| group.depth > 0) {
        Some(gap) => (describe(work, gap), Role::Text),
        None => (group.label.to_owned(), Role::Strong),
    };
    let indent = if nesting.is_some() { "  ".repeat(group.depth) } else { String::new() };
    let count = if group.gaps.is_empty() { String::new() } else { group.gaps.len().to_string() };
    TableRow {
        values: vec![
            table::name(format!("{indent}{sign}{label}"), role),
            value(group.idle.to_string(), Role::Text),
            value(Percent::of(group.idle, whole).to_string(), Role::Text),
            value(bar(group.idle.0 as f64 / most as f64), Role::Warn),
            value(count, Role::Dim),
            value(at, Role::Dim),
            value(one.map_or(String::new(), |gap| work.scene().lane_label(gap.lane.0 as usize)), Role::Dim),
            value(next, Role::Dim),
            value(gains, Role::Good),
            value(by, Role::Good),
        ],
        open: gap.and_then(|gap| gap.next).map_or(Open::Nothing, |node| Open::Item(super::item_of(work, node))),
    }
}

fn summary(work: &Workspace, whole: DurNs) -> Vec<(String, Role)> {
    if !work.has_device() {
        return vec![(
            "no device stream was recorded, so none has gaps: 2 shows what decides the time".to_owned(),
            Role::Warn,
        )];
    }
    let survey = &work.listing.view_model.idle;
    let idle: DurNs = survey.main_streams().map(|stream| stream.idle).sum();
    let count = survey.main_streams().count();
    let whose = match count {
        1 => "the main stream is".to_owned(),
        count => format!("the main streams of {count} ranks are"),
    };
    let mut pieces = vec![
        (format!("{whose} idle "), Role::Dim),
        (Percent::of(idle, whole).to_string(), Role::Strong),
        (", ".to_owned(), Role::Dim),
        (format!("{idle} of {whole}"), Role::Strong),
    ];
    pieces.extend(super::narrowed(work));
    if let Some(Tried { gains, expected, .. }) =
        work.states.get::<Tried>().filter(|tried| tried.gains.len() < tried.expected)
    {
        pieces.push((format!(" · trying edits against them, {} of {expected}", gains.len()), Role::Warn));
    }
    let others = survey.streams.len() - count;
    if others > 0 {
        pieces.push((format!(" · {others} side stream{} left out", if others == 1 { "" } else { "s" }), Role::Faint));
    }
    pieces
}

/// The chosen row.
fn chosen(work: &Workspace) -> Option<&GapGroup> {
    work.listing.gaps.get(work.table.cursor)
}

/// The chosen gap's chain, what its time went to, the most first; then what closes it.
fn chain(work: &Workspace) -> Vec<(String, Role)> {
    const MOST: usize = 6;
    let Some((group, gap)) = chosen(work).and_then(|group| Some((group, longest(work, group)?))) else {
        return Vec::new();
    };
    let graph = work.listing.view_model.graph(&work.loaded);
    let which = if group.gaps.len() > 1 { format!("the longest, {}: ", gap.duration) } else { String::new() };
    let mut pieces = vec![(format!("{which}{} ", describe(work, gap)), Role::Strong)];
    pieces.extend(closed_by(work, group));
    let mut totals: BTreeMap<(&str, NameId), (DurNs, usize)> = BTreeMap::new();
    for segment in &gap.chain {
        let total = totals.entry((segment.kind.name(), segment.name)).or_default();
        *total = (total.0 + segment.duration, total.1 + 1);
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by_key(|&(key, (taken, _))| (std::cmp::Reverse(taken), key));
    for ((kind, name), (taken, count)) in totals.iter().take(MOST) {
        let name = short_name(graph.names.get(*name));
        let blank = if name.is_empty() { "" } else { " " };
        let times = if *count > 1 { format!(" ×{count}") } else { String::new() };
        pieces.push((format!("· {}{blank}{name}{times} {taken} ", explained(kind)), Role::Dim));
    }
    if totals.len() > MOST {
        pieces.push((format!("· {} more", totals.len() - MOST), Role::Faint));
    }
    pieces
}

/// `closed by, off the iteration: reshard-tables best −0.98 ms · overlap-comm −0.40 ms`.
fn closed_by(work: &Workspace, group: &GapGroup) -> Vec<(String, Role)> {
    const MOST: usize = 3;
    let closing = closing(work, group);
    if closing.is_empty() {
        let candidates = candidates(work, group);
        let text = match Tried::of(work).filter(|tried| tried.gains.len() == tried.expected) {
            None => "· trying edits against it … ",
            Some(tried) if candidates.iter().all(|line| tried.gains.contains_key(line)) => {
                "· no known edit shortens the iteration here "
            }
            Some(_) => "· edits are tried against the longest gaps of a cause only ",
        };
        return vec![(text.to_owned(), Role::Dim)];
    }
    let mut pieces = vec![("· closed by, off the iteration: ".to_owned(), Role::Dim)];
    for (at, (line, gain)) in closing.into_iter().take(MOST).enumerate() {
        let dot = if at > 0 { "· " } else { "" };
        let beyond = if gain > group.idle { BEYOND } else { "" };
        pieces.push((format!("{dot}{line}{beyond} "), Role::Text));
        pieces.push((format!("−{gain} "), Role::Good));
    }
    pieces
}

fn why(work: &Workspace, lines: &mut Why) {
    let Some((group, gap)) = chosen(work).and_then(|group| Some((group, longest(work, group)?))) else { return };
    let title = match group.gaps.len() {
        1 => format!("gap of {}", gap.duration),
        count => format!("{}: {} in {count} gaps, the longest {}", group.label, group.idle, gap.duration),
    };
    lines.push(("", title, Role::Title));
    lines.push((
        "measure",
        "time without work on this stream, in the simulation with the scenario in force".to_owned(),
        Role::Text,
    ));
    let chain = "what decided when the next work could start, followed back to where the stream fell idle";
    lines.push(("cause", format!("{}: {chain}", describe(work, gap)), Role::Text));
    for (line, gain) in closing(work, group) {
        lines.push((
            "closed by",
            format!("{line}: the whole iteration simulated again with it is {gain} shorter"),
            Role::Good,
        ));
    }
}
