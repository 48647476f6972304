//! The state of the board: which edits are tried on which scenario, what came of each, and where the user is.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::session::{Section, Trial, candidates, number_of, put};
use crate::tui::command::named;
use crate::tui::effect::Effect;
use crate::tui::runner::{Analysis, Request};
use crate::tui::views::View;
use crate::tui::workspace::Workspace;
use retime_core::scenario::{Scenario, parse_step};

/// Which edits the board is opened at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Among {
    /// All that apply.
    #[default]
    All,
    /// Other devices.
    Devices,
    /// Other batch sizes.
    Batches,
}

impl Among {
    /// Whether a line belongs to it.
    fn has(self, line: &str) -> bool {
        let is_one_of = |names: &[&str]| names.iter().any(|name| line.starts_with(name));
        match self {
            Self::All => true,
            Self::Devices => is_one_of(&["swap-gpu", "place-on"]),
            Self::Batches => is_one_of(&["resize-batch"]),
        }
    }
}

/// A row of the board.
#[derive(Clone, Debug)]
pub struct BoardRow {
    /// What came of the edit.
    pub trial: Trial,
    /// The request that it answers: another is of a scenario that is no longer the one edited.
    pub revision: u64,
    /// What it is sorted by; a row whose number is turned keeps its place.
    order: f64,
}

/// What the rows of a section are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// What is gained at the far end of the band.
    #[default]
    Gain,
    /// The iteration.
    Iteration,
    /// Time per sample.
    Sample,
    /// Memory; what is not known comes last.
    Memory,
    /// What steps cost, where the user's prices name the device; others come last.
    Cost,
}

impl By {
    /// All of them with the column that shows it, in the order of the key.
    pub const ALL: [(&'static str, Self); 5] = [
        ("gain", Self::Gain),
        ("iteration", Self::Iteration),
        ("per sample", Self::Sample),
        ("memory", Self::Memory),
        ("1000 steps", Self::Cost),
    ];

    /// What it is called above the rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gain => "by what is gained at least",
            Self::Iteration => "shortest iteration first",
            Self::Sample => "least time per sample first",
            Self::Memory => "least memory first",
            Self::Cost => "cheapest steps first",
        }
    }
}

/// A line of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardLine {
    /// The name of a section.
    Heading(Section),
    /// An edit, by its place among the rows.
    Row(usize),
}

/// What the board remembers.
#[derive(Debug, Default)]
pub struct BoardState {
    /// The scenario that is edited, without what is only previewed.
    pub base: Arc<Scenario>,
    /// The request made last.
    pub revision: u64,
    /// What was tried.
    pub rows: Vec<BoardRow>,
    /// Lines of the request made last that have not come back.
    pub waiting: Vec<String>,
    /// The edits that are tried without being asked for.
    offered: Vec<String>,
    /// Which edits are shown.
    pub among: Among,
    /// What is typed.
    pub typed: String,
    /// What the rows are sorted by.
    pub by: By,
    /// Edits put together, in order.
    pub stacked: Vec<String>,
    /// The edit the user went to.
    pub chosen: Option<String>,
    /// The edit whose number is turned, and what it becomes.
    turning: Option<(String, String)>,
    /// Whether the kernels that change are listed.
    pub shows_changes: bool,
    /// What an hour of a device costs, by its name.
    pub prices: Arc<BTreeMap<String, f64>>,
    /// Where the user came from.
    pub came_from: Option<&'static dyn View>,
}

impl BoardState {
    /// What is shown, section by section, what is sure to gain most first; edits that change nothing only where their
    /// name was typed.
    pub fn lines(&self) -> Vec<BoardLine> {
        let mut lines = Vec::new();
        // A figure alone is a batch size.
        let typed = if self.typed.parse::<u64>().is_ok() { "resize-batch" } else { &self.typed };
        let words: Vec<String> = typed.split_whitespace().map(str::to_lowercase).collect();
        for section in Section::ALL {
            let mut rows: Vec<usize> = (0..self.rows.len()).filter(|&at| self.is_shown(section, &words, at)).collect();
            let key = |at: usize| (self.rows[at].trial.no_effect.is_some(), self.rank(at));
            if self.among == Among::Batches && self.by == By::Gain {
                let mut sized: Vec<(f64, usize)> =
                    rows.iter().map(|&at| (number_of_line(&self.rows[at].trial.line).unwrap_or(0.0), at)).collect();
                sized.sort_by(|a, b| a.0.total_cmp(&b.0));
                rows = sized.into_iter().map(|(_, at)| at).collect();
            } else {
                rows.sort_by(|&a, &b| {
                    let ((a_idle, a_order), (b_idle, b_order)) = (key(a), key(b));
                    let names = || self.rows[a].trial.line.cmp(&self.rows[b].trial.line);
                    a_idle.cmp(&b_idle).then(a_order.total_cmp(&b_order)).then_with(names)
                });
            }
            if !rows.is_empty() && self.among == Among::All {
                lines.push(BoardLine::Heading(section));
            }
            lines.extend(rows.into_iter().map(BoardLine::Row));
        }
        lines
    }

    /// What a row is sorted by, the least first.
    fn rank(&self, at: usize) -> f64 {
        let row = &self.rows[at];
        let steady = row.trial.steady_ns.0 as f64;
        match self.by {
            By::Gain => row.order,
            By::Iteration => steady,
            By::Sample => row.trial.ratio,
            By::Memory => row.trial.memory_bytes.map_or(f64::MAX, |bytes| bytes.0 as f64),
            By::Cost => self.price(&row.trial.line).map_or(f64::MAX, |price| price * steady),
        }
    }

    /// What an hour of the device that a line names costs.
    pub fn price(&self, line: &str) -> Option<f64> {
        self.prices.get(line.rsplit(' ').next()?).copied()
    }

    /// Sorts by what is named, else by the next that there is.
    ///
    /// # Errors
    /// No column is called so.
    pub fn sort(&mut self, by: &str) -> Result<(), String> {
        let known = if self.prices.is_empty() { &By::ALL[..By::ALL.len() - 1] } else { &By::ALL[..] };
        let now = known.iter().position(|&(_, by)| by == self.by).unwrap_or(0);
        self.by = match named(by, known)? {
            Some(by) => by,
            None => known[(now + 1) % known.len()].1,
        };
        Ok(())
    }

    fn is_shown(&self, section: Section, words: &[String], at: usize) -> bool {
        let trial = &self.rows[at].trial;
        if trial.section != section || !self.among.has(&trial.line) {
            return false;
        }
        if self.chosen.as_deref() == Some(&trial.line) || self.stacked.contains(&trial.line) {
            return true;
        }
        if !self.offered.contains(&trial.line) {
            return false;
        }
        let text = format!("{} {}", trial.line, section.name()).to_lowercase();
        let is_idle = trial.no_effect.is_some() && self.among == Among::All;
        let is_only_section = words.iter().all(|word| section.name().starts_with(word));
        words.iter().all(|word| text.contains(word)) && !(is_idle && is_only_section)
    }

    /// Whether what came of an edit is of use: it is offered to everybody, or the user is at it. There is no end to what can be
    /// typed.
    fn is_kept(&self, line: &str) -> bool {
        let is_turned = || self.turning.as_ref().is_some_and(|(from, to)| from == line || to == line);
        self.offered.iter().chain(&self.stacked).chain(&self.chosen).any(|known| known == line) || is_turned()
    }

    /// Chooses an edit; those that were typed before it are forgotten.
    fn choose(&mut self, line: Option<String>) {
        self.chosen = line;
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|row| self.is_kept(&row.trial.line));
        self.rows = rows;
    }

    /// How many edits that change nothing are left out.
    pub fn idle(&self) -> usize {
        self.rows.iter().filter(|row| row.trial.no_effect.is_some() && self.among.has(&row.trial.line)).count()
    }

    /// What the edit of a row is being turned into.
    pub fn turned(&self, line: &str) -> Option<&str> {
        self.turning.as_ref().filter(|(from, _)| from == line).map(|(_, to)| to.as_str())
    }

    /// The row under the cursor.
    pub fn row(&self, cursor: usize) -> Option<&BoardRow> {
        match self.lines().get(cursor)? {
            BoardLine::Row(at) => self.rows.get(*at),
            BoardLine::Heading(_) => None,
        }
    }

    /// All edits, also those that have not come yet.
    fn all(&self) -> impl Iterator<Item = &str> {
        let known = self.rows.iter().map(|row| row.trial.line.as_str());
        known.chain(self.waiting.iter().map(String::as_str)).filter(|line| self.among.has(line))
    }

    /// The line that the cursor is to be on: the chosen edit, else the first.
    pub fn cursor(&self) -> usize {
        let lines = self.lines();
        let turned = self.turning.as_ref().filter(|(_, to)| self.chosen.as_ref() == Some(to)).map(|(from, _)| from);
        let chosen = turned.or(self.chosen.as_ref());
        let is_chosen = |line: &BoardLine| match line {
            BoardLine::Row(at) => chosen == Some(&self.rows[*at].trial.line),
            BoardLine::Heading(_) => false,
        };
        let first = || lines.iter().position(|line| matches!(line, BoardLine::Row(_)));
        lines.iter().position(is_chosen).or_else(first).unwrap_or(0)
    }

    /// The scenario with what is stacked.
    pub fn stack(&self) -> Scenario {
        let mut scenario = Scenario::clone(&self.base);
        self.stacked.iter().filter_map(|line| parse_step(line).ok()).for_each(|step| put(&mut scenario, step));
        scenario
    }

    /// The scenario with what is stacked and chosen.
    pub fn preview(&self) -> Scenario {
        let mut scenario = self.stack();
        let chosen = self.chosen.as_ref().filter(|line| !self.stacked.contains(line));
        let step = chosen.and_then(|line| parse_step(line).ok());
        if let Some(step) = step {
            put(&mut scenario, step);
        }
        scenario
    }

    /// Takes what came of some edits.
    fn take(&mut self, revision: u64, trials: &[Trial]) {
        if revision != self.revision {
            return;
        }
        for trial in trials {
            self.waiting.retain(|line| *line != trial.line);
            let is_turned = |(_, to): &(String, String)| *to == trial.line;
            let from = self.turning.take_if(|turning| is_turned(turning)).map(|(from, _)| from);
            let line = from.as_ref().unwrap_or(&trial.line);
            let is_kept = self.is_kept(line);
            let row = BoardRow { trial: trial.clone(), revision, order: trial.sure_ratio };
            match self.rows.iter_mut().find(|known| known.trial.line == *line) {
                Some(known) => *known = BoardRow { order: if from.is_some() { known.order } else { row.order }, ..row },
                None if is_kept => self.rows.push(row),
                None => {}
            }
        }
    }
}

/// The number of a line that can be turned.
fn number_of_line(line: &str) -> Option<f64> {
    number_of(&parse_step(line).ok()?).map(|(_, number)| number)
}

impl Workspace {
    /// Opens the board on the scenario in force, or goes on where nothing has changed.
    pub fn open_board(&mut self, among: Among, came_from: &'static dyn View, prices: &Arc<BTreeMap<String, f64>>) {
        self.states.with(|board: &mut BoardState| {
            (board.among, board.came_from) = (among, Some(came_from));
            board.prices = Arc::clone(prices);
            board.typed.clear();
            board.stacked.clear();
            (board.chosen, board.turning, board.shows_changes) = (None, None, false);
        });
    }

    /// Asks for what is not known of the scenario in force.
    pub fn start_board(&mut self) -> Vec<Effect> {
        if self.history.is_dragging(PREVIEW) {
            return Vec::new();
        }
        let base = Arc::clone(self.history.current());
        let is_known =
            self.states.get::<BoardState>().is_some_and(|board| board.base == base && !board.rows.is_empty());
        self.states.with(|board: &mut BoardState| board.base = base);
        if is_known { Vec::new() } else { self.ask_board(&[]) }
    }

    /// Asks anew for all edits, or only for those given and those that have not come yet.
    fn ask_board(&mut self, more: &[String]) -> Vec<Effect> {
        let all = candidates(&self.loaded);
        let work = self.number;
        self.states.with(|board: &mut BoardState| {
            let mut lines = more.to_vec();
            if more.is_empty() {
                board.revision += 1;
                board.offered.clone_from(&all);
                let own = board.rows.iter().map(|row| row.trial.line.clone());
                let is_own = |line: &String| !all.contains(line) && board.is_kept(line);
                let own: Vec<String> = own.chain(board.chosen.clone()).filter(is_own).collect();
                // What is looked at comes first.
                let (first, rest): (Vec<String>, Vec<String>) = all.into_iter().partition(|line| board.among.has(line));
                lines.extend(first.into_iter().chain(rest).chain(own));
            } else {
                lines.extend(board.waiting.iter().filter(|line| !more.contains(line) && board.is_kept(line)).cloned());
            }
            board.waiting.clone_from(&lines);
            let (scenario, analysis) = (Arc::new(board.stack()), Analysis::Board(lines));
            vec![Effect::Ask(Request::Analyse { work, revision: board.revision, scenario, analysis })]
        })
    }

    /// Takes what came of some edits.
    pub fn take_trials(&mut self, revision: u64, trials: &[Trial]) {
        self.states.with(|board: &mut BoardState| board.take(revision, trials));
        if self.states.get::<BoardState>().is_some_and(|board| !board.rows.is_empty()) {
            self.put_board_cursor();
        }
    }

    /// Puts the cursor of the open table on the chosen edit.
    pub fn put_board_cursor(&mut self) {
        let Some(board) = self.states.get::<BoardState>().filter(|_| self.is_on_board()) else { return };
        let is_present = |line: &BoardLine| match line {
            BoardLine::Row(at) => self.is_present(board, &board.rows[*at].trial.line),
            BoardLine::Heading(_) => false,
        };
        let present = || board.lines().iter().position(is_present);
        let rests = board.among == Among::Batches && board.chosen.is_none();
        self.table.cursor = if rests { present().unwrap_or(0) } else { board.cursor() };
    }

    /// Chooses an edit, and shows the iteration with it.
    pub fn choose_on_board(&mut self, line: Option<String>) -> Vec<Effect> {
        self.states.with(|board: &mut BoardState| board.choose(line));
        self.put_board_cursor();
        self.preview_board()
    }

    /// Shows the iteration with what is stacked and chosen.
    fn preview_board(&mut self) -> Vec<Effect> {
        let Some(scenario) = self.states.get::<BoardState>().map(BoardState::preview) else { return Vec::new() };
        let revision = self.history.revision();
        let is_as_before = self.states.get::<BoardState>().is_some_and(|board| *board.base == scenario);
        if is_as_before && self.history.is_dragging(PREVIEW) {
            self.history.cancel();
        } else if self.loaded.refolded(&scenario).is_none() {
            // Other ranks would have to be built first.
            self.history.drag(PREVIEW, scenario);
        }
        if self.history.revision() == revision { Vec::new() } else { self.evaluate() }
    }

    /// Takes back what is only previewed.
    pub fn leave_board(&mut self) -> Vec<Effect> {
        if !(self.history.is_dragging(PREVIEW) && self.history.cancel()) {
            return Vec::new();
        }
        self.clamp_step();
        self.evaluate()
    }

    /// Puts what is stacked and chosen in force.
    ///
    /// # Returns
    /// The lines that were added.
    pub fn accept_board(&mut self) -> (Vec<String>, Vec<Effect>) {
        let edit = self.edit_on_board();
        let lines = self.states.with(|board: &mut BoardState| {
            if board.chosen.is_none() && board.stacked.is_empty() {
                board.chosen = edit;
            }
            let mut lines = board.stacked.clone();
            lines.extend(board.chosen.clone().filter(|line| !board.stacked.contains(line)));
            lines
        });
        let effects = self.preview_board();
        let is_kept = self.history.is_dragging(PREVIEW) || lines.is_empty();
        let scenario = self.states.get::<BoardState>().map(BoardState::preview).unwrap_or_default();
        self.history.release();
        let effects = if is_kept {
            effects
        } else {
            self.history.push(scenario);
            self.evaluate()
        };
        self.step = self.history.current().steps.len().saturating_sub(1);
        self.last_edit = lines.last().cloned();
        (lines, effects)
    }

    /// Puts the chosen edit on the stack, or takes it off; the others are then tried on top of that.
    pub fn stack_on_board(&mut self) -> Vec<Effect> {
        let Some(line) = self.edit_on_board() else { return Vec::new() };
        self.states.with(|board: &mut BoardState| {
            match board.stacked.iter().position(|known| *known == line) {
                Some(at) => _ = board.stacked.remove(at),
                None => board.stacked.push(line.clone()),
            }
            board.chosen = board.stacked.contains(&line).then_some(line);
        });
        let mut effects = self.ask_board(&[]);
        effects.extend(self.preview_board());
        effects
    }

    /// Turns the number of the chosen edit: twice or half of it.
    ///
    /// # Errors
    /// It has none.
    pub fn turn_on_board(&mut self, is_up: bool) -> Result<Vec<Effect>, String> {
        let Some(line) = self.edit_on_board() else { return Ok(Vec::new()) };
        let from = self.states.with(|board: &mut BoardState| board.turning.as_ref().map_or(line, |(_, to)| to.clone()));
        let step = parse_step(&from).map_err(|error| error.to_string())?;
        let (at, number) = number_of(&step).ok_or_else(|| format!("{from} has no number to turn"))?;
        let to = if is_up { number * 2.0 } else { number / 2.0 };
        let step =
            step.with(at, to).or_else(|_| step.with(at, to.floor().max(1.0))).map_err(|error| error.to_string())?;
        Ok(self.go_to_line(Some(from), step.to_string()))
    }

    /// Goes to an edit, which is tried where that is not known, in the place of `from` if that is given.
    fn go_to_line(&mut self, from: Option<String>, line: String) -> Vec<Effect> {
        let is_known = self.states.with(|board: &mut BoardState| {
            let is_known = board.rows.iter().any(|row| row.trial.line == line);
            if !is_known {
                let first = board.turning.as_ref().map(|(from, _)| from.clone()).or(from);
                board.turning = first.map(|from| (from, line.clone()));
            }
            is_known
        });
        let asked = if is_known { Vec::new() } else { self.ask_board(std::slice::from_ref(&line)) };
        asked.into_iter().chain(self.choose_on_board(Some(line))).collect()
    }

    /// Takes another text to filter by; one that is a step, or a batch size, is an edit of the board itself.
    pub fn type_on_board(&mut self, change: impl FnOnce(&mut String)) -> Vec<Effect> {
        let typed = self.states.with(|board: &mut BoardState| {
            change(&mut board.typed);
            board.chosen = None;
            board.typed.trim().to_owned()
        });
        let size = typed.parse::<u64>().ok().filter(|&size| size > 0 && self.base_batch().is_some());
        let line = size.map(|size| format!("resize-batch {size}"));
        let line = line.or_else(|| Some(self.loaded.context.step(&typed).ok()?.to_string()));
        // A name typed whole is meant, whatever gains more.
        let is_named = |line: &&str| line.rsplit(' ').next().is_some_and(|end| end.eq_ignore_ascii_case(&typed));
        let named = || Some(self.states.get::<BoardState>()?.all().find(is_named)?.to_owned());
        let line = line.or_else(named);
        if let Some(line) = line {
            return self.go_to_line(None, line);
        }
        self.put_board_cursor();
        self.preview_board()
    }

    /// What is typed and chosen on the board.
    pub fn place_on_board(&self) -> (String, Option<String>) {
        self.states.get::<BoardState>().map(|board| (board.typed.clone(), board.chosen.clone())).unwrap_or_default()
    }

    /// Whether an edit of the board says what is so already.
    pub fn is_present(&self, board: &BoardState, line: &str) -> bool {
        let in_force = || board.base.steps.iter().filter(|step| step.enabled);
        let (edit, what) = line.split_once(' ').unwrap_or((line, ""));
        let traced = match edit {
            "resize-batch" => self.base_batch().is_some_and(|batch| batch.to_string() == what),
            "swap-gpu" => self.loaded.device_names().iter().any(|name| name == what),
            _ => false,
        };
        in_force().any(|step| step.to_string() == line) || (traced && in_force().all(|step| step.name() != edit))
    }

    /// The edit under the cursor; where it has not come yet, the one that will be there.
    fn edit_on_board(&self) -> Option<String> {
        let board = self.states.get::<BoardState>()?;
        if let Some(row) = board.row(self.table.cursor) {
            return Some(row.trial.line.clone());
        }
        let is_wanted = |line: &&str| {
            let is_typed = !board.typed.is_empty() && line.to_lowercase().contains(&board.typed.to_lowercase());
            is_typed || (board.among == Among::Batches && self.is_present(board, line))
        };
        board.all().find(is_wanted).map(str::to_owned)
    }

    /// Whether the board's rows are those that move with the cursor.
    fn is_on_board(&self) -> bool {
        self.table_of() == super::OPENER.name
    }
}

/// What the drag of a preview is called.
pub const PREVIEW: &str = "board";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::ErrorBand;
    use retime_core::units::DurNs;

    fn trial(line: &str) -> Trial {
        Trial {
            line: line.to_owned(),
            section: Section::Configuration,
            steady_ns: DurNs(1),
            devices: 1,
            band: ErrorBand { low_ns: DurNs(1), high_ns: DurNs(1), ..ErrorBand::default() },
            ratio: 1.0,
            sure_ratio: 1.0,
            memory_bytes: None,
            fits: None,
            changes: Vec::new(),
            most: None,
            unmodelled_share: 0.0,
            no_effect: None,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn whatever_is_typed_only_the_last_of_it_is_held() {
        let mut board = BoardState { offered: vec!["resize-batch 64".to_owned()], ..BoardState::default() };
        board.take(0, &[trial("resize-batch 64")]);
        for size in 1_000..2_000 {
            let line = format!("resize-batch {size}");
            board.choose(Some(line.clone()));
            board.take(0, &[trial(&line), trial("resize-batch 7")]);
        }
        let lines: Vec<&str> = board.rows.iter().map(|row| row.trial.line.as_str()).collect();
        assert_eq!(lines, ["resize-batch 64", "resize-batch 1999"]);
    }
}
