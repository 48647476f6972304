//! Idle intervals of streams, ranked, each with its cause and the edits that would close it.

use std::collections::BTreeMap;

use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, run_line};
use crate::tui::effect::Effect;
use crate::tui::runner::{Analysis, Finding};
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use retime_core::analysis::critical_path::explained;
use retime_core::analysis::gaps::{Gap, candidate_steps};
use retime_core::intern::NameId;
use retime_core::units::DurNs;

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::Line;

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
        let keys = [("enter", "shows it on the timeline"), ("A", "adds the edit that closes it best")];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::flow(&chain(work), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Vec<Line>) {
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
    const GAPS: usize = 24;
    let revision = work.history.revision();
    if work.is_stale() || work.is_relisting() || Tried::of(work).is_some() {
        return Vec::new();
    }
    let mut lines: Vec<String> = Vec::new();
    let of_gaps = work.listing.gaps().map(|gap| candidate_steps(&work.loaded.graph, gap));
    for line in of_gaps.filter(|lines| !lines.is_empty()).take(GAPS).flatten() {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    work.states.set(Tried { revision: Some(revision), expected: lines.len(), gains: BTreeMap::new() });
    if lines.is_empty() { Vec::new() } else { vec![work.analyse(revision, Analysis::Gains(lines))] }
}

/// The edits that shorten the iteration at `gap` with what each takes off it, most first.
fn closing(work: &Workspace, gap: &Gap) -> Vec<(String, DurNs)> {
    let Some(tried) = Tried::of(work) else { return Vec::new() };
    let candidates = candidate_steps(&work.loaded.graph, gap).into_iter();
    let known = candidates.filter_map(|line| tried.gains.get(&line).map(|&gain| (line, gain)));
    let mut closing: Vec<(String, DurNs)> = known.filter(|(_, gain)| gain.0 > 0).collect();
    closing.sort_by_key(|(line, gain)| (std::cmp::Reverse(*gain), line.clone()));
    closing
}

fn rows(work: &Workspace) -> Table<'_> {
    let gaps: Vec<&Gap> = work.listing.gaps().collect();
    let longest = gaps.iter().map(|gap| gap.duration.0).max().unwrap_or(1).max(1);
    let total: DurNs = gaps.iter().map(|gap| gap.duration).sum();
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: summary(work, gaps.len(), total),
        columns: vec![
            column("idle", 10, true, 0),
            column("", 18, false, 104),
            column("at", 10, true, 64),
            column("stream", 14, false, 0),
            column("cause", 0, false, 0),
            column("then", 22, false, 150),
            column("closed best by", 36, false, 110),
        ],
        count: gaps.len(),
        row: Box::new(move |index| row(work, gaps[index], longest)),
    }
}

fn row(work: &Workspace, gap: &Gap, longest: i64) -> TableRow {
    let graph = &work.loaded.graph;
    let part = graph.ranks.iter().find(|part| part.rank == gap.rank);
    let origin = part.map(|part| part.iteration_start).unwrap_or_default();
    let next = gap.next.map_or("", |node| short_name(graph.names.get(graph.tasks[node].name)));
    let best = closing(work, gap).into_iter().next().map_or(String::new(), |(line, gain)| format!("{line} −{gain}"));
    TableRow {
        values: vec![
            value(gap.duration.to_string(), Role::Text),
            value(bar(gap.duration.0 as f64 / longest as f64), Role::Warn),
            value(gap.start.since(origin).to_string(), Role::Dim),
            value(work.scene().lane_label(gap.lane.0 as usize), Role::Dim),
            table::name(gap.cause.describe_with(graph, short_name), Role::Text),
            value(next, Role::Dim),
            value(best, Role::Good),
        ],
        open: gap.next.map_or(Open::Nothing, |node| Open::Item(Item::Task(node))),
    }
}

fn summary(work: &Workspace, count: usize, total: DurNs) -> Vec<(String, Role)> {
    if !work.has_device() {
        return vec![(
            "no device stream was recorded, so none has gaps: 2 shows what decides the time".to_owned(),
            Role::Warn,
        )];
    }
    let mut pieces = vec![
        (format!("{count} gap{}, ", if count == 1 { "" } else { "s" }), Role::Dim),
        (total.to_string(), Role::Strong),
    ];
    pieces.extend(super::narrowed(work));
    if let Some(Tried { gains, expected, .. }) =
        work.states.get::<Tried>().filter(|tried| tried.gains.len() < tried.expected)
    {
        pieces.push((format!(" · trying edits against them, {} of {expected}", gains.len()), Role::Warn));
    }
    pieces.push((" · under 0.1 % left out".to_owned(), Role::Faint));
    pieces
}

/// The chosen gap.
fn chosen(work: &Workspace) -> Option<&Gap> {
    work.listing.gap(work.table.cursor)
}

/// The chosen gap's chain, what its time went to, the most first; then what closes it.
fn chain(work: &Workspace) -> Vec<(String, Role)> {
    const MOST: usize = 6;
    let Some(gap) = chosen(work) else { return Vec::new() };
    let graph = &work.loaded.graph;
    let mut pieces = vec![(format!("{} ", gap.cause.describe_with(graph, short_name)), Role::Strong)];
    pieces.extend(closed_by(work, gap));
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
fn closed_by(work: &Workspace, gap: &Gap) -> Vec<(String, Role)> {
    const MOST: usize = 3;
    let closing = closing(work, gap);
    if closing.is_empty() {
        let candidates = candidate_steps(&work.loaded.graph, gap);
        let text = match Tried::of(work).filter(|tried| tried.gains.len() == tried.expected) {
            None => "· trying edits against it … ",
            Some(tried) if candidates.iter().all(|line| tried.gains.contains_key(line)) => {
                "· no known edit shortens the iteration here "
            }
            Some(_) => "· edits are tried against the longest gaps only ",
        };
        return vec![(text.to_owned(), Role::Dim)];
    }
    let mut pieces = vec![("· closed by, off the iteration: ".to_owned(), Role::Dim)];
    for (at, (line, gain)) in closing.into_iter().take(MOST).enumerate() {
        let dot = if at > 0 { "· " } else { "" };
        pieces.push((format!("{dot}{line} "), Role::Text));
        pieces.push((format!("−{gain} "), Role::Good));
    }
    pieces
}

fn why(work: &Workspace, lines: &mut Vec<Line>) {
    let Some(gap) = chosen(work) else { return };
    lines.push(("", format!("gap of {}", gap.duration), Role::Title));
    lines.push((
        "measure",
        "time without work on this stream, in the simulation with the scenario in force".to_owned(),
        Role::Text,
    ));
    let chain = "what decided when the next work could start, followed back to where the stream fell idle";
    lines.push(("cause", format!("{}: {chain}", gap.cause.describe_with(&work.loaded.graph, short_name)), Role::Text));
    for (line, gain) in closing(work, gap) {
        lines.push((
            "closed by",
            format!("{line}: the whole iteration simulated again with it is {gain} shorter"),
            Role::Good,
        ));
    }
}
