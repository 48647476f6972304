//! The what-if board: every edit that applies, with what it comes to, best first.

mod rows;
mod state;

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, recorded};
use crate::tui::effect::Effect;
use crate::tui::message::Message;
use crate::tui::runner::Finding;
use crate::tui::table::{self, Table};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

use super::why::Why;
use super::{Timeline, View, pane, show};

pub use rows::{BAR, NOTABLE, bar as time_bar};
pub use state::Among;
use state::{BoardLine, BoardState};

/// What opens it.
pub const OPENER: Command = Command {
    name: "board",
    aliases: &["what-if"],
    argument: Argument::None,
    help: "every edit that applies, tried on the scenario, best first",
    keys: &[],
    run: |app, _| open(app, Among::All),
};

const COMMANDS: &[Command] = &[
    Command {
        name: "stack",
        aliases: &[],
        argument: Argument::None,
        help: "put the chosen edit on the stack, or take it off",
        keys: &[(Pane::Board, "space")],
        run: |app, _| on_work(app, |work| Ok(work.stack_on_board())),
    },
    Command {
        name: "accept",
        aliases: &[],
        argument: Argument::None,
        help: "add what is stacked and chosen to the scenario",
        keys: &[(Pane::Board, "enter")],
        run: |app, _| app.open_row(),
    },
];

/// The view.
#[derive(Debug)]
pub struct WhatIf;

/// Opens the board at some of its edits.
pub fn open(app: &mut App, among: Among) -> CommandResult {
    let before = app.view;
    let came_from = if app.shows(&WhatIf) { &Timeline } else { before };
    let prices = Arc::clone(&app.prices);
    app.workspace_mut().ok_or("no trace is open yet")?.open_board(among, came_from, &prices);
    let effects = show(app, &WhatIf);
    if let Some(work) = app.workspace_mut() {
        work.put_board_cursor();
    }
    Ok(effects)
}

fn on_work(app: &mut App, act: impl FnOnce(&mut Workspace) -> CommandResult) -> CommandResult {
    act(app.workspace_mut().ok_or("no trace is open yet")?)
}

fn state(work: &Workspace) -> Option<&BoardState> {
    work.states.get()
}

impl View for WhatIf {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn commands(&self) -> &'static [Command] {
        COMMANDS
    }

    /// It has keys of its own on the bar.
    fn is_listed(&self, _work: &Workspace) -> bool {
        false
    }

    fn pane(&self) -> Pane {
        Pane::Board
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(rows::table(work, state(work)?))
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let Some(board) = state(work) else { return };
        let (width, height) = (canvas.width(), canvas.height());
        let below = if board.shows_changes { height / 2 } else { 0 };
        let area = Rect::new(0, 0, width, height - below);
        table::render(&rows::table(work, board), &work.table, &mut canvas.part(0, 0, width, area.height));
        if below > 0
            && let Some(row) = board.row(work.table.cursor)
        {
            rows::changes(
                &row.trial,
                board.stacked.contains(&row.trial.line),
                &mut canvas.part(0, area.height, width, below),
            );
        }
    }

    fn sort(&self, work: &mut Workspace, by: &str) -> CommandResult {
        work.states.with(|board: &mut BoardState| board.sort(by))?;
        work.put_board_cursor();
        Ok(Vec::new())
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        let is_split = state(work).is_some_and(|board| board.shows_changes);
        Rect { height: if is_split { area.height - area.height / 2 } else { area.height }, ..area }
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        Some(state(work)?.row(work.table.cursor)?.trial.line.clone())
    }

    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        let keys = [
            ("letters", "filter"),
            ("enter", "add"),
            ("space", "stack"),
            ("←→", "turn the number"),
            ("tab", "kernels that change"),
            ("C-s", "sort"),
            ("esc", "back"),
        ];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        if let Some(row) = state(work).and_then(|board| board.row(work.table.cursor)) {
            pane::flowing(&rows::remark(&row.trial, rows::has_limit(work)), Role::Text, canvas);
        }
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        let Some(row) = state(work).and_then(|board| board.row(work.table.cursor)) else { return };
        lines.push(("", row.trial.line.clone(), Role::Title));
        lines.basis("the scenario with this edit, simulated whole".to_owned(), Role::Text);
        lines.extend(row.trial.remarks.iter().map(|text| ("of it", text.clone(), Role::Warn)));
    }

    fn start(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, Workspace::start_board)
    }

    fn take(&self, work: &mut Workspace, revision: u64, finding: &Finding) -> Option<String> {
        if let Finding::Trials(trials) = finding {
            work.take_trials(revision, trials);
        }
        None
    }

    /// What is typed is taken back first, then what the chosen edit changes.
    fn stop(&self, work: &mut Workspace) -> Option<Vec<Effect>> {
        let board = state(work)?;
        if !board.typed.is_empty() {
            return Some(work.type_on_board(String::clear));
        }
        board.shows_changes.then(|| {
            self.tab(work);
            Vec::new()
        })
    }

    fn leave(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, Workspace::leave_board)
    }

    fn parent(&self, work: &Workspace) -> &'static dyn View {
        state(work).and_then(|board| board.came_from).unwrap_or(&Timeline)
    }

    fn open_row(&self, app: &mut App) -> CommandResult {
        let work = app.workspace_mut().ok_or("no trace is open yet")?;
        let (lines, mut effects) = work.accept_board();
        if lines.is_empty() {
            return Err("no edit is chosen".to_owned());
        }
        let parent = self.parent(work);
        effects.extend(show(app, parent));
        app.say(Message::note(format!("added {}", lines.join(" + "))));
        let as_command = |line: &String| match line.split_once(' ') {
            Some(("resize-batch", size)) => format!("batch {size}"),
            Some(("swap-gpu", device)) => format!("gpu {device}"),
            _ => format!("try {line}"),
        };
        let said: Vec<Effect> = lines.iter().filter_map(|line| recorded(app, &as_command(line))).collect();
        effects.extend(said);
        Ok(effects)
    }

    fn vertical(&self, app: &mut App, by: isize) -> Vec<Effect> {
        let height = app.rows_area().height;
        let Some(work) = app.workspace_mut() else { return Vec::new() };
        let Some(lines) = state(work).map(BoardState::lines) else { return Vec::new() };
        let before = work.table.cursor;
        work.table.move_by(by, lines.len(), height);
        let is_row = |at: &usize| matches!(lines.get(*at), Some(BoardLine::Row(_)));
        let down = (work.table.cursor..lines.len()).find(is_row);
        let up = (0..=work.table.cursor).rev().find(is_row);
        let at = if by > 0 { down.or(up) } else { up.or(down) }.unwrap_or(before);
        Self::go_to(work, at)
    }

    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        on_work(app, |work| work.turn_on_board(by > 0))
    }

    fn tab(&self, work: &mut Workspace) -> bool {
        work.states.with(|board: &mut BoardState| board.shows_changes = !board.shows_changes);
        true
    }

    /// All letters and figures narrow what is shown.
    fn type_key(&self, app: &mut App, key: KeyEvent) -> Option<CommandResult> {
        let work = app.workspace_mut()?;
        let is_typing = state(work).is_some_and(|board| !board.typed.is_empty());
        match key.code {
            KeyCode::Char(':' | '?' | '/') if !is_typing => None,
            // The key that opened it, and a blank between words.
            KeyCode::Char(' ') => None,
            KeyCode::Char(letter) => Some(Ok(work.type_on_board(|typed| typed.push(letter)))),
            KeyCode::Backspace => Some(Ok(work.type_on_board(|typed| _ = typed.pop()))),
            _ => None,
        }
    }

    fn press(&self, app: &mut App, area: Rect, at: (u16, u16), is_double: bool) -> CommandResult {
        app.choose_row((at.1 - area.y) as usize);
        let chosen = on_work(app, |work| {
            let cursor = work.table.cursor;
            Ok(Self::go_to(work, cursor))
        })?;
        Ok(if is_double { chosen.into_iter().chain(app.open_row()?).collect() } else { chosen })
    }
}

impl WhatIf {
    /// Chooses the row at a line.
    fn go_to(work: &mut Workspace, at: usize) -> Vec<Effect> {
        let line = state(work).and_then(|board| board.row(at)).map(|row| row.trial.line.clone());
        match line {
            Some(line) => work.choose_on_board(Some(line)),
            None => Vec::new(),
        }
    }
}
