//! Scenarios and traces side by side: which columns there are, what is asked for and what has come in.

use std::sync::Arc;

use crate::session::{ComparisonTable, ComparisonTableRow, Engine, Loaded, Outcome, Side};
use retime_core::analysis::profile::{Named, Spent};
use retime_core::scenario::Scenario;
use retime_core::scenario::named::UNNAMED;
use retime_core::units::DurNs;

use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::runner::Request;
use crate::tui::workspace::Workspace;

/// What a column stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnKind {
    /// The untouched replay.
    #[default]
    Base,
    /// A scenario of the trace that is shown, by its name.
    Scenario(String),
    /// Another opened trace as measured, by its number.
    Trace(usize),
}

/// What rows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Operators.
    #[default]
    Operator,
    /// Kinds of tasks.
    Kind,
}

/// Which time of rows is shown; the differences of those on the critical path add up to that of the iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// On streams.
    Device,
    /// On host threads.
    Host,
    /// On the critical path.
    Path,
}

impl Measure {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Path => "path",
        }
    }

    /// The measure of that name.
    pub fn find(name: &str) -> Option<Self> {
        [Self::Device, Self::Host, Self::Path].into_iter().find(|measure| measure.name() == name)
    }

    fn of(self, spent: Spent) -> DurNs {
        match self {
            Self::Device => spent.device,
            Self::Host => spent.host,
            Self::Path => spent.path,
        }
    }
}

/// What orders the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The largest difference of the chosen column from the reference first.
    #[default]
    Difference,
    /// The longest on the reference first.
    Time,
    /// By name.
    Name,
}

impl Order {
    /// All of them, in turn.
    pub const ALL: [(&'static str, Self); 3] =
        [("difference", Self::Difference), ("time", Self::Time), ("name", Self::Name)];

    /// The next in turn.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Difference => Self::Time,
            Self::Time => Self::Name,
            Self::Name => Self::Difference,
        }
    }
}

/// What is compared, and how it is shown.
#[derive(Clone, Debug, Default)]
pub struct CompareState {
    /// The chosen column.
    pub chosen: ColumnKind,
    /// The column that the others are held against.
    pub reference: ColumnKind,
    /// What rows are.
    pub by: By,
    /// Which time they show, where the user chose one.
    pub measure: Option<Measure>,
    /// What orders them.
    pub order: Order,
    /// What came in last.
    pub shown: Option<Arc<Compared>>,
    /// Whether something is being computed.
    pub is_asked: bool,
    /// Columns that were asked for last.
    asked: Vec<Asked>,
}

/// A column as asked for: what it stands for, its title, and what its times depend on.
type Asked = (ColumnKind, String, String);

/// A side that is known, or what it is computed from.
#[derive(Clone, Debug)]
pub struct SideSource {
    asked: Asked,
    loaded: Arc<Loaded>,
    /// `None` for what was measured.
    scenario: Option<Arc<Scenario>>,
    /// The result of the scenario, where there is one.
    outcome: Option<Arc<Outcome>>,
    known: Option<Arc<Side>>,
}

/// Columns, computed.
#[derive(Clone, Debug)]
pub struct Compared {
    asked: Vec<Asked>,
    sides: Vec<Arc<Side>>,
    /// The sides in columns.
    pub board: ComparisonTable,
}

impl Compared {
    /// Computes what is not known of `sources` and holds all against the one at `reference`.
    pub fn of(engine: &Engine, sources: Vec<SideSource>, reference: usize) -> Self {
        let (mut asked, mut sides) = (Vec::new(), Vec::new());
        for source in sources {
            let SideSource { loaded, scenario, outcome, known, .. } = &source;
            let title = source.asked.1.clone();
            sides.push(match (known, scenario, outcome) {
                (Some(side), ..) if side.figures().name == title => Arc::clone(side),
                (Some(side), ..) => Arc::new(side.renamed(&title)),
                (None, Some(_), Some(outcome)) => Arc::new(Side::simulated(engine, loaded, outcome, title)),
                (None, Some(scenario), None) => {
                    let side = Side::of_scenario(engine, loaded, scenario, title.clone());
                    let replay = || Side::simulated(engine, loaded, &loaded.replay, title);
                    Arc::new(side.map_or_else(|_| replay(), |(side, _)| side))
                }
                (None, None, _) => Arc::new(Side::measured(loaded, title)),
            });
            asked.push(source.asked);
        }
        let board = ComparisonTable::of(&sides, reference);
        Self { asked, sides, board }
    }

    /// Where the column of that kind stands.
    pub fn position(&self, kind: &ColumnKind) -> Option<usize> {
        self.asked.iter().position(|(known, ..)| known == kind)
    }

    /// What the column at `index` stands for.
    pub fn kind(&self, index: usize) -> ColumnKind {
        self.asked.get(index).map(|(kind, ..)| kind.clone()).unwrap_or_default()
    }
}

impl CompareState {
    /// Which time rows show.
    pub fn measure(&self) -> Measure {
        self.measure.unwrap_or(Measure::Path)
    }

    /// The measure after the one in use, of those that the columns have.
    pub fn next_measure(&self) -> Measure {
        let has_device = self.shown.as_ref().is_some_and(|shown| shown.board.has_device);
        match self.measure() {
            Measure::Path if has_device => Measure::Device,
            Measure::Path | Measure::Device => Measure::Host,
            Measure::Host => Measure::Path,
        }
    }

    /// Position of the chosen column.
    pub fn column(&self) -> usize {
        self.shown.as_ref().and_then(|shown| shown.position(&self.chosen)).unwrap_or(0)
    }

    /// Whether what is shown is of other columns than were asked for last.
    pub fn is_stale(&self) -> bool {
        self.shown.as_ref().is_none_or(|shown| shown.asked != self.asked)
    }

    /// Chooses the column `by` further.
    pub fn step_sideways(&mut self, by: isize) {
        if let Some(shown) = &self.shown {
            let last = shown.board.columns.len().saturating_sub(1);
            self.chosen = shown.kind(self.column().saturating_add_signed(by).min(last));
        }
    }

    /// The rows that take time on any column, in order.
    pub fn rows(&self) -> Vec<&ComparisonTableRow> {
        let Some(board) = self.shown.as_ref().map(|shown| &shown.board) else { return Vec::new() };
        let measure = self.measure();
        let time =
            |row: &ComparisonTableRow, index: usize| time_of(measure, self.by, row.cells.get(index).copied().flatten());
        let all = match self.by {
            By::Operator => &board.operators,
            By::Kind => &board.kinds,
        };
        let counts = |row: &&ComparisonTableRow| {
            let calls = |index: usize| row.cells.get(index).copied().flatten().map_or(0, |cell| cell.count);
            (0..board.columns.len()).any(|index| time(row, index) != DurNs::ZERO || calls(index) != calls(0))
        };
        let mut rows: Vec<&ComparisonTableRow> = all.iter().filter(counts).collect();
        let chosen = self.column();
        let key = |row: &&ComparisonTableRow| -> i64 {
            let away = |index: usize| (time(row, index) - time(row, board.reference)).0.abs();
            match self.order {
                Order::Difference if chosen != board.reference => away(chosen),
                Order::Difference => (0..board.columns.len()).map(away).max().unwrap_or(0),
                Order::Time => time(row, board.reference).0,
                Order::Name => 0,
            }
        };
        rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
        rows
    }
}

/// The time of a cell; a kind has its time in its own place, and waits only on the path.
pub fn time_of(measure: Measure, by: By, cell: Option<Named>) -> DurNs {
    let spent = cell.unwrap_or_default().spent;
    match (by, measure) {
        (By::Kind, Measure::Device | Measure::Host) => spent.device + spent.host,
        _ => measure.of(spent),
    }
}

fn key(loaded: &Loaded, what: &str) -> String {
    format!("{:p} {what}", Arc::as_ptr(&loaded.graph))
}

impl Workspace {
    /// All columns that can be compared on this trace: its own, and those of `others` as measured.
    pub fn sides(&self, others: &[Self]) -> Vec<SideSource> {
        let others = others.iter().filter(|work| work.number != self.number && work.is_compared);
        self.own_sides().into_iter().chain(others.map(Self::measured_side)).collect()
    }

    /// The columns of this trace: the base, and its scenarios but one without name and steps.
    fn own_sides(&self) -> Vec<SideSource> {
        let source = |kind: ColumnKind, title: &str, scenario: Arc<Scenario>, outcome: Option<&Arc<Outcome>>| {
            let lines = retime_core::scenario::file::step_lines(&scenario).join("\n");
            SideSource {
                asked: (kind, title.to_owned(), key(&self.loaded, &lines)),
                loaded: Arc::clone(&self.loaded),
                scenario: Some(scenario),
                outcome: outcome.cloned(),
                known: None,
            }
        };
        let replay = &self.loaded.replay;
        let mut sources = vec![source(ColumnKind::Base, "base", Arc::default(), Some(replay))];
        for (name, scenario) in self.named.all(self.history.current()) {
            let is_current = name == self.named.current();
            if name.is_empty() && scenario.steps.is_empty() {
                continue;
            }
            let title = if name.is_empty() { UNNAMED } else { name };
            let ready = (is_current && !self.is_stale()).then_some(&self.outcome);
            sources.push(source(ColumnKind::Scenario(name.to_owned()), title, Arc::new(scenario.clone()), ready));
        }
        sources
    }

    fn measured_side(&self) -> SideSource {
        let loaded = Arc::clone(&self.loaded);
        let asked = (ColumnKind::Trace(self.number), loaded.title.clone(), key(&loaded, "measured"));
        SideSource { asked, loaded, scenario: None, outcome: None, known: None }
    }

    /// Takes columns that were computed.
    pub fn take_compared(&mut self, compared: Compared) {
        let state = &mut self.compare;
        state.is_asked = false;
        if compared.position(&state.reference).is_none() {
            state.reference = ColumnKind::Base;
        }
        if compared.position(&state.chosen).is_none() {
            state.chosen = ColumnKind::Base;
        }
        state.shown = Some(Arc::new(compared));
        if state.chosen == ColumnKind::Base && state.reference == ColumnKind::Base {
            let current = ColumnKind::Scenario(self.named.current().to_owned());
            let last = self.compare.shown.as_ref().map(|shown| shown.kind(shown.board.columns.len() - 1));
            let known = self.compare.shown.as_ref().and_then(|shown| shown.position(&current)).is_some();
            self.compare.chosen = if known { current } else { last.unwrap_or_default() };
        }
    }
}

impl App {
    /// Asks for the columns as they are now; nothing while that is known or being computed.
    pub fn start_compare(&mut self) -> Vec<Effect> {
        let Some(mut sources) = self.workspace().map(|work| work.sides(&self.workspaces)) else { return Vec::new() };
        let Some(work) = self.workspace_mut() else { return Vec::new() };
        if work.compare.is_asked || work.is_stale() {
            return Vec::new();
        }
        let asked: Vec<Asked> = sources.iter().map(|source| source.asked.clone()).collect();
        let reference = asked.iter().position(|(kind, ..)| *kind == work.compare.reference).unwrap_or(0);
        let before = work.compare.shown.as_ref();
        if work.compare.asked == asked && before.is_some_and(|before| before.board.reference == reference) {
            return Vec::new();
        }
        for source in &mut sources {
            let same = |known: &&Asked| known.2 == source.asked.2;
            let at = before.and_then(|before| before.asked.iter().position(|known| same(&known)));
            source.known = before.zip(at).map(|(before, at)| Arc::clone(&before.sides[at]));
        }
        work.compare.asked = asked;
        work.compare.is_asked = true;
        vec![Effect::Ask(Request::Compare { work: work.number, sources, reference })]
    }
}
