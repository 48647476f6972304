//! What a view is.
//!
//! A view is one file in this folder and one line in [`ALL`]: its command, with key and help, its rows, what is said of
//! the chosen one and why, and what is computed for it while it is open.

use std::fmt;

use crossterm::event::{KeyEvent, MouseEventKind};
use ratatui::layout::Rect;

use crate::tui::app::{App, MousePress};
use crate::tui::canvas::Canvas;
use crate::tui::command::{Command, CommandResult, Pane, run_line};
use crate::tui::effect::Effect;
use crate::tui::listing::Nesting;
use crate::tui::runner::Finding;
use crate::tui::table::{self, Table};
use crate::tui::theme::Paint;
use crate::tui::workspace::Workspace;

use super::ALL;
use super::why::Why;

/// Something that is shown in the middle of the screen. Its state, where it has any, is kept in the trace's workspace.
pub trait View: fmt::Debug + Sync {
    /// The command that opens it, which gives it its name.
    fn opener(&self) -> &'static Command;

    /// Further commands that belong to it.
    fn commands(&self) -> &'static [Command] {
        &[]
    }

    /// Its name.
    fn name(&self) -> &'static str {
        self.opener().name
    }

    /// Its name where there is little room.
    fn brief(&self) -> &'static str {
        self.name()
    }

    /// Whether it is listed for a trace.
    fn is_listed(&self, _work: &Workspace) -> bool {
        true
    }

    /// Whose keys count while it is open.
    fn pane(&self) -> Pane {
        Pane::Table
    }

    /// A remark beside its name.
    fn remark(&self, _work: &Workspace) -> Option<String> {
        None
    }

    /// Its rows, when it is as large as `area`; `None` where it has none.
    fn rows<'a>(&self, work: &'a Workspace, area: Rect) -> Option<Table<'a>>;

    /// Whether rows of its own are still being computed.
    fn is_computing(&self, _work: &Workspace) -> bool {
        false
    }

    /// The part of `area` with the rows, their summary and their titles.
    fn rows_area(&self, _work: &Workspace, area: Rect) -> Rect {
        area
    }

    /// Draws it.
    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        if let Some(table) = self.rows(work, canvas.area()) {
            table::render(&table, &work.table, canvas);
        }
    }

    /// What is chosen in it, by its name.
    fn title(&self, _work: &Workspace) -> Option<String> {
        None
    }

    /// What stands right of that title.
    fn beside_title(&self, _work: &Workspace, _canvas: &mut Canvas<'_>) {}

    /// The family of kernels that column `x` names there, of as many as `width`.
    fn family_beside_title(&self, _work: &Workspace, _x: u16, _width: u16) -> Option<Paint> {
        None
    }

    /// What its keys do.
    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        vec![("enter", "shows the row on the timeline".to_owned())]
    }

    /// Draws what there is to say about what is chosen, below its keys.
    fn details(&self, _app: &App, _work: &Workspace, _canvas: &mut Canvas<'_>) {}

    /// Why what is chosen in it is what it is.
    fn why(&self, work: &Workspace, lines: &mut Why);

    /// Asks for what it shows beyond the result itself, unless that is known.
    fn start(&self, _app: &mut App) -> Vec<Effect> {
        Vec::new()
    }

    /// Takes what an analysis has found; each view sees all of it.
    ///
    /// # Returns
    /// What is to be said about it.
    fn take(&self, _work: &mut Workspace, _revision: u64, _finding: &Finding) -> Option<String> {
        None
    }

    /// Ends what is computed for it; `None` where nothing is.
    fn stop(&self, _work: &mut Workspace) -> Option<Vec<Effect>> {
        None
    }

    /// Adds the edit that the chosen row proposes.
    fn add_row(&self, app: &mut App) -> CommandResult {
        app.run_row()
    }

    /// Opens the chosen row: shows what is inside it or folds that, else shows its event.
    fn open_row(&self, app: &mut App) -> CommandResult {
        let holds = |work: &&mut Workspace| matches!(work.nesting(), Some(Nesting::Expanded | Nesting::Collapsed));
        match app.workspace_mut().filter(holds) {
            Some(work) => {
                work.toggle_row();
                Ok(Vec::new())
            }
            None => app.show_row(),
        }
    }

    /// Goes up or down.
    fn vertical(&self, app: &mut App, by: isize) -> Vec<Effect> {
        let height = app.rows_area().height;
        let count = app.rows().map_or(0, |table| table.count);
        if let Some(work) = app.workspace_mut() {
            work.table.move_by(by, count, height);
        }
        Vec::new()
    }

    /// Goes left or right: into a row with others inside it and out of it.
    fn sideways(&self, app: &mut App, by: isize) -> CommandResult {
        match app.workspace_mut().filter(|work| work.nesting().is_some()) {
            Some(work) => work.move_in_tree(by > 0),
            None => return Ok(Vec::new()),
        }
        Ok(self.vertical(app, 0))
    }

    /// Lets it have a key before any command; `None` where it has no use for it.
    fn type_key(&self, _app: &mut App, _key: KeyEvent) -> Option<CommandResult> {
        None
    }

    /// Lets it have the tab key; false where that goes to the scenario's steps.
    fn tab(&self, _work: &mut Workspace) -> bool {
        false
    }

    /// The view that it leads back to.
    fn parent(&self, _work: &Workspace) -> &'static dyn View {
        ALL[0]
    }

    /// Takes back what is shown only while it is open.
    fn leave(&self, _app: &mut App) -> Vec<Effect> {
        Vec::new()
    }

    /// Sorts the rows by what is named, else by the next in turn.
    fn sort(&self, _work: &mut Workspace, _by: &str) -> CommandResult {
        Err(format!("the rows of {} have one order", self.name()))
    }

    /// Groups the rows by what is named, else by the next in turn.
    fn group(&self, _work: &mut Workspace, _by: &str) -> CommandResult {
        Err(format!("the rows of {} are not grouped", self.name()))
    }

    /// The mouse button is pressed at a place of the screen inside `area`, where the view is: a title sorts by its column.
    fn press(&self, app: &mut App, area: Rect, at: (u16, u16), is_double: bool) -> CommandResult {
        let rows = app.rows_area();
        if at.1 == rows.y + 1 {
            let title = app.rows().and_then(|table| table::title_at(&table, rows.width, at.0.saturating_sub(rows.x)));
            return title.map_or(Ok(Vec::new()), |title| run_line(app, &format!("sort {title}")));
        }
        if !(rows.y..rows.bottom()).contains(&at.1) {
            return Ok(Vec::new());
        }
        app.choose_row((at.1 - area.y) as usize);
        if is_double { app.open_row() } else { Ok(Vec::new()) }
    }

    /// The mouse is moved to a place of the screen while its button is down.
    fn drag(&self, _app: &mut App, _area: Rect, _press: MousePress, _to: (u16, u16)) {}

    /// The wheel is turned at column `x` of the view, with or without a modifier key.
    fn wheel(&self, app: &mut App, kind: MouseEventKind, _x: u16, _with_modifier: bool) -> CommandResult {
        app.move_vertically(if kind == MouseEventKind::ScrollUp { -3 } else { 3 })
    }
}

/// Opens `view`, at the row where the user was in it before.
pub fn show(app: &mut App, view: &'static dyn View) -> Vec<Effect> {
    let before = app.view;
    let left = if before.name() == view.name() { Vec::new() } else { before.leave(app) };
    if let Some(work) = app.workspace_mut().filter(|_| view.name() != ALL[0].name()) {
        work.change_table(view.name());
    }
    app.view = view;
    app.focus = crate::tui::app::Focus::View;
    app.fit_extent();
    left.into_iter().chain(app.start_background()).collect()
}
