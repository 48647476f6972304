//! Advice: every edit tried on top of the scenario, the best together, and what the iteration is sensitive to.

use std::sync::Arc;

use ratatui::layout::Rect;

use crate::session::{Advice, AdvisedOption, Goal, Section, Sensitivity, alike, parse_target};
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Kind, Pane};
use crate::tui::effect::Effect;
use crate::tui::runner::{Analysis, Finding, Request};
use crate::tui::table::{self, Column, Open, Table, TableRow, TableState, name, value};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;
use retime_core::units::Percent;

use super::board::{BAR, NOTABLE, time_bar};
use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::Why;

/// What opens it.
const OPENER: Command = Command {
    name: "advise",
    aliases: &["advice"],
    argument: Argument::None,
    help: "edits worth making, and what the iteration is sensitive to",
    keys: &[(Pane::Everywhere, "9")],
    run: |app, _| Ok(show(app, &Advise)),
};

const COMMANDS: &[Command] = &[Command {
    name: "goal",
    aliases: &["target"],
    argument: Argument::Optional(Kind::Text, "-20%"),
    help: "what saves that share of the time; alone forgets the goal",
    keys: &[],
    run: set_goal,
}];

/// The view.
#[derive(Debug)]
pub struct Advise;

impl View for Advise {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn commands(&self) -> &'static [Command] {
        COMMANDS
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(rows(work))
    }

    fn is_computing(&self, work: &Workspace) -> bool {
        work.advice.is_looking
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        table::render(&rows(work), &TableState { cursor: cursor(work), ..work.table }, canvas);
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let other = if work.table.is_other { "options" } else { "sensitivity" };
        [("A", "adds the row's steps"), ("enter", "why"), ("v", other), (":goal", "−20 %")]
            .map(|(key, what)| (key, what.to_owned()))
            .to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        if let Some(text) = chosen(work) {
            pane::flowing(&text, Role::Text, canvas);
        }
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        of_advice(work, lines);
    }

    fn start(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, Workspace::start_advice)
    }

    fn take(&self, work: &mut Workspace, revision: u64, finding: &Finding) -> Option<String> {
        if let Finding::Advice(advice) = finding {
            work.take_advice(revision, Arc::clone(advice));
        }
        None
    }

    fn stop(&self, work: &mut Workspace) -> Option<Vec<Effect>> {
        work.advice.is_looking.then(|| work.stop_advice())
    }

    /// Headings are gone over.
    fn vertical(&self, app: &mut App, by: isize) -> Vec<Effect> {
        let height = app.rows_area().height;
        let Some(work) = app.workspace_mut() else { return Vec::new() };
        let count = rows(work).count;
        work.table.cursor = cursor(work);
        work.table.move_by(by, count, height);
        if by < 0 && is_heading(work, work.table.cursor) {
            work.table.move_by(if work.table.cursor == 0 { 1 } else { -1 }, count, height);
        }
        work.table.cursor = cursor(work);
        // The heading above the first row stays in sight.
        if work.table.cursor == 1 {
            work.table.scroll = 0;
        }
        Vec::new()
    }

    /// The options, or how the iteration answers to each class of tasks.
    fn group(&self, work: &mut Workspace, _by: &str) -> CommandResult {
        work.table = TableState { is_other: !work.table.is_other, ..TableState::default() };
        Ok(Vec::new())
    }
}

fn set_goal(app: &mut App, share: &str) -> CommandResult {
    let target = if share.is_empty() { None } else { Some(parse_target(share)?) };
    app.workspace_mut().ok_or("no trace is open yet")?.set_goal(target);
    Ok(show(app, &Advise))
}

/// A line of the options.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AdviceLine {
    /// The name of a section.
    Heading(Section),
    /// Options that are one to whoever reads them, the best first.
    Options(Vec<usize>),
}

/// The options section by section.
fn lines(advice: &Advice) -> Vec<AdviceLine> {
    let groups = alike(&advice.options);
    let of = |section: Section| {
        let own: Vec<_> = groups.iter().filter(|group| advice.options[group[0]].section == section).collect();
        let heading = (!own.is_empty()).then_some(AdviceLine::Heading(section));
        heading.into_iter().chain(own.into_iter().map(|group| AdviceLine::Options(group.clone())))
    };
    Section::ALL.into_iter().flat_map(of).collect()
}

fn is_heading(work: &Workspace, at: usize) -> bool {
    let advice = work.advice.advice.as_deref().filter(|_| !work.table.is_other);
    advice.is_some_and(|advice| matches!(lines(advice).get(at), Some(AdviceLine::Heading(_))))
}

/// The line that is chosen: behind a heading the first of its options.
fn cursor(work: &Workspace) -> usize {
    work.table.cursor + usize::from(is_heading(work, work.table.cursor))
}

/// The chosen option.
fn option(work: &Workspace) -> Option<&AdvisedOption> {
    let advice = work.advice.advice.as_deref().filter(|_| !work.table.is_other)?;
    match lines(advice).get(cursor(work))? {
        AdviceLine::Options(group) => advice.options.get(*group.first()?),
        AdviceLine::Heading(_) => None,
    }
}

/// What the chosen option is made of, what of it is assumed, and what the goal takes.
fn chosen(work: &Workspace) -> Option<String> {
    let goal = work.advice.advice.as_deref()?.goal.as_ref().map(|goal| format!("goal {}", goal.sentence()));
    let option = option(work)?;
    let steps = option.steps.join(" + ");
    let said: Vec<&str> = goal.iter().chain([&steps]).chain(&option.assumed).map(String::as_str).collect();
    Some(said.join(" · "))
}

fn column(title: &'static str, width: u16, is_number: bool, from_width: u16) -> Column {
    Column { title, width, is_number, from_width }
}

/// Advice, as it was last given.
#[derive(Clone, Debug, Default)]
pub struct AdviceState {
    /// The request it answers.
    pub revision: u64,
    /// What was asked for last.
    pub wanted: Option<u64>,
    /// Whether more options are being looked for.
    pub is_looking: bool,
    /// The share of the time to save, where there is a goal.
    pub target: Option<f64>,
    /// The advice.
    pub advice: Option<Arc<Advice>>,
}

impl Workspace {
    /// Asks for advice on top of the scenario in force; nothing when that is known or asked for already.
    pub fn start_advice(&mut self) -> Vec<Effect> {
        let revision = self.history.revision();
        if self.advice.wanted == Some(revision) {
            return Vec::new();
        }
        self.advice.wanted = Some(revision);
        self.advice.is_looking = true;
        vec![self.analyse(revision, Analysis::Advise(self.advice.target))]
    }

    /// Takes another goal; advice is then asked for anew.
    pub fn set_goal(&mut self, target: Option<f64>) {
        (self.advice.target, self.advice.wanted) = (target, None);
    }

    /// Looks for no more options; what was found stays.
    pub fn stop_advice(&mut self) -> Vec<Effect> {
        (self.advice.is_looking, self.advice.wanted) = (false, None);
        vec![Effect::Ask(Request::Stop { work: self.number, analysis: Analysis::Advise(None) })]
    }

    /// Takes advice, unless other was asked for since.
    pub fn take_advice(&mut self, revision: u64, advice: Arc<Advice>) {
        if self.advice.wanted == Some(revision) {
            self.advice.revision = revision;
            self.advice.is_looking &= advice.is_partial;
            self.advice.advice = Some(advice);
        }
    }
}

/// The options, or with the other grouping the classes of tasks.
fn rows(work: &Workspace) -> Table<'_> {
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
        column("edits", 0, false, 0),
        column("iteration", 9, true, 0),
        column("per sample", 10, true, 0),
        column("", BAR, false, 100),
        column("memory", 11, true, 90),
        column("assumed", 7, true, 110),
        column("not modelled", 12, true, 80),
        column("within", 23, true, 130),
    ]
}

fn options(advice: &Advice, is_stale: bool) -> Table<'_> {
    let lines = lines(advice);
    let goal = advice.goal.as_ref().map_or(String::new(), goal);
    let text = match advice.options.len() {
        0 => advice.none().to_owned(),
        1 => "1 option on top of the scenario".to_owned(),
        count => format!("{count} options on top of the scenario"),
    };
    let unsure = advice.left_out().map_or(String::new(), |left_out| format!(" · {left_out}"));
    Table {
        summary: vec![(goal, Role::Accent), (text, Role::Dim), (unsure, Role::Warn), note(is_stale)],
        columns: options_columns(),
        count: lines.len(),
        row: Box::new(move |at| {
            // What is added at a heading is its first option.
            let (heading, group) = match (lines.get(at), lines.get(at + 1)) {
                (Some(AdviceLine::Options(group)), _) => (None, group),
                (Some(AdviceLine::Heading(section)), Some(AdviceLine::Options(group))) => (Some(section), group),
                _ => return nothing(),
            };
            let group: Vec<&AdvisedOption> = group.iter().map(|&at| &advice.options[at]).collect();
            let row = option_row(group[0], &group[1..]);
            match heading {
                Some(section) => TableRow { values: vec![value(section.name(), Role::Title)], ..row },
                None => row,
            }
        }),
    }
}

/// `goal −20 %: −40.0 % · `; what takes it is in the pane.
fn goal(goal: &Goal) -> String {
    let (target, gain) = (goal.percent(), 100.0 * goal.gain);
    match (goal.steady_ns, goal.is_reached) {
        (None, _) => format!("goal −{target} % out of reach · "),
        (_, true) => format!("goal −{target} % reached: −{gain:.1} % · "),
        (_, false) => format!("goal −{target} % out of reach: at most −{gain:.1} % · "),
    }
}

fn option_row(option: &AdvisedOption, others: &[&AdvisedOption]) -> TableRow {
    let band = option.error_band;
    let left = Percent(option.unmodelled_share);
    let left = if option.unmodelled_share >= NOTABLE { left.to_string() } else { String::new() };
    TableRow {
        values: vec![
            name(option.described(others, " + "), Role::Strong),
            value(option.steady_ns.to_string(), Role::Text),
            value(format!("−{:.1} %", 100.0 * option.gain), Role::Good),
            value(time_bar(1.0 - option.gain, option.steady_ns, band), Role::Good),
            value(option.memory_bytes.map_or(String::new(), |bytes| bytes.to_string()), Role::Text),
            value(assumed(option), Role::Warn),
            value(left, Role::Warn),
            value(format!("{} to {}", band.low_ns, band.high_ns), Role::Dim),
        ],
        open: Open::Lines(option.steps.clone()),
    }
}

/// The largest share of a step's change that is judgement.
fn assumed(option: &AdvisedOption) -> String {
    if option.assumed_share > 0.0 { format!("{:.0} %", 100.0 * option.assumed_share) } else { String::new() }
}

fn sensitivity(advice: &Advice, is_stale: bool) -> Table<'_> {
    let text = "time saved when a class of tasks takes a tenth less, and when it takes none · v options";
    let most = advice.sensitivity.iter().map(|class| class.gain_at_most).fold(1e-9, f64::max);
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
        row: Box::new(move |index| class_row(&advice.sensitivity[index], most)),
    }
}

fn class_row(class: &Sensitivity, most: f64) -> TableRow {
    let saved = |gain: f64| format!("−{:.2} %", 100.0 * gain.max(0.0));
    TableRow {
        values: vec![
            value(class.class.clone(), Role::Strong),
            value(saved(class.gain_at_tenth), Role::Text),
            value(saved(class.gain_at_most), Role::Text),
            value(class.factor_for_target.map_or("–".to_owned(), |factor| format!("×{factor:.3}")), Role::Text),
            value(bar(class.gain_at_most / most), Role::Chart),
            value(class.selector.clone(), Role::Dim),
        ],
        open: Open::Line(format!("scale {} x0.9", class.selector)),
    }
}

fn of_advice(work: &Workspace, lines: &mut Why) {
    let Some(option) = option(work) else { return };
    lines.push(("", option.steps.join(" + "), Role::Title));
    let basis = "all steps of the scenario with these, simulated whole; saved is time per sample";
    lines.basis(basis.to_owned(), Role::Text);
    lines.extend(option.assumed.iter().map(|text| ("assumed", text.clone(), Role::Warn)));
    lines.extend(option.unhandled.iter().map(|text| ("as traced", text.clone(), Role::Warn)));
}
