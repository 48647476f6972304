//! Moving about the screen: rows of tables and of the timeline, steps of the scenario, and the way back.

use ratatui::layout::Rect;

use super::app::{App, Focus};
use super::command::CommandResult;
use super::effect::Effect;
use super::message::Message;
use super::overlay::Overlay;
use super::table::{Open, Table};
use super::views;

impl App {
    /// Keeps scrolling within what there is after the size or the view changed.
    pub fn fit_extent(&mut self) {
        self.with_timeline(|scene, extent, timeline| timeline.scroll_by(scene, extent, 0));
    }

    /// Keeps the chosen row in sight: what a view has above and below its rows grows and shrinks.
    pub fn keep_row_in_sight(&mut self) {
        let height = self.rows_area().height;
        if let Some(work) = self.workspace_mut() {
            work.table.keep_in_sight(height);
        }
    }

    /// Left and right in the open view.
    pub fn move_sideways(&mut self, by: isize) -> CommandResult {
        if self.focus == Focus::View { self.view.sideways(self, by) } else { Ok(Vec::new()) }
    }

    /// Up and down: in the open view, or between steps of the scenario.
    pub fn move_vertically(&mut self, by: isize) -> CommandResult {
        match self.focus {
            Focus::View => return Ok(self.view.vertical(self, by)),
            Focus::Scenario => {
                let step = self.workspace().map_or(0, |work| work.step);
                self.choose_step(step.saturating_add_signed(by) + 1);
            }
        }
        Ok(Vec::new())
    }

    /// Chooses a step by its line in the scenario's list, of which the first is the base.
    pub fn choose_step(&mut self, line: usize) {
        if let Some(work) = self.workspace_mut() {
            work.step = line.saturating_sub(1);
            work.clamp_step();
        }
    }

    /// The part of the view with its rows and their titles.
    pub fn rows_area(&self) -> Rect {
        let area = self.regions().view;
        self.workspace().map_or(area, |work| self.view.rows_area(work, area))
    }

    /// Chooses a row of the open table by its line on the screen.
    pub fn choose_row(&mut self, line: usize) {
        let Some(line) = line.checked_sub((self.rows_area().y - self.regions().view.y) as usize) else { return };
        let count = self.rows().map_or(0, |table| table.count);
        if let Some(work) = self.workspace_mut() {
            work.table.choose_line(line, count);
        }
    }

    /// Looks closer at the chosen row of the open view: what is inside it is shown or folded away, its event shown, or why it is what it is.
    pub fn open_row(&mut self) -> CommandResult {
        self.view.open_row(self)
    }

    /// Adds the edit that the chosen row of the open view proposes.
    pub fn add_row(&mut self) -> CommandResult {
        self.view.add_row(self)
    }

    /// Runs the lines that the chosen row of the open table stands for.
    pub fn run_row(&mut self) -> CommandResult {
        let cursor = self.workspace().map_or(0, |work| work.table.cursor);
        let open = self.rows().filter(|table| cursor < table.count).map(|table| (table.row)(cursor).open);
        let lines = match open {
            Some(Open::Line(line)) => vec![line],
            Some(Open::Lines(lines)) => lines,
            _ => return Err("this row proposes no edit".to_owned()),
        };
        let mut effects = Vec::new();
        for line in lines {
            effects.extend(super::command::run_line(self, &line)?);
        }
        Ok(effects)
    }

    /// Shows the chosen row of the open table on the timeline; of an edit why it is what it is.
    pub fn show_row(&mut self) -> CommandResult {
        let cursor = self.workspace().map_or(0, |work| work.table.cursor);
        let open = self.rows().filter(|table| cursor < table.count).map(|table| (table.row)(cursor).open);
        let item = match open {
            Some(Open::Item(item)) => item,
            Some(Open::Line(_) | Open::Lines(_)) => {
                self.overlay = Some(Overlay::Why { scroll: 0 });
                self.say(Message::note("A adds the edit that this row proposes"));
                return Ok(Vec::new());
            }
            Some(Open::Nothing) | None => return Err("this row has no single event to show".to_owned()),
        };
        self.view = &views::Timeline;
        self.focus = Focus::View;
        self.with_timeline(|scene, extent, timeline| {
            let side = timeline.side;
            timeline.select(scene, extent, item, side);
            timeline.fit_context(scene);
        });
        Ok(Vec::new())
    }

    /// The rows of the open view, if it has any.
    pub fn rows(&self) -> Option<Table<'_>> {
        self.view.rows(self.workspace()?, self.regions().view)
    }

    /// Whether there is nothing to go back from but the program itself.
    pub fn is_at_root(&self) -> bool {
        self.loading.is_none() && self.focus == Focus::View && self.shows(&views::Timeline)
    }

    /// One level up; at the top it asks to leave.
    pub fn back(&mut self) -> CommandResult {
        if let Some(loading) = &self.loading {
            loading.progress.cancel();
            return Ok(if self.workspaces.is_empty() { vec![Effect::Quit] } else { Vec::new() });
        }
        if let Some(work) = self.workspace_mut().filter(|work| work.plans.searching.is_some()) {
            return Ok(work.stop_search());
        }
        let view = self.view;
        if let Some(effects) = self.workspace_mut().and_then(|work| view.stop(work)) {
            return Ok(effects);
        }
        if self.focus != Focus::View {
            self.focus = Focus::View;
            return Ok(Vec::new());
        }
        if !self.is_at_root() {
            let parent = self.workspace().map_or(views::ALL[0], |work| view.parent(work));
            return Ok(views::show(self, parent));
        }
        super::command::run_line(self, "quit")
    }
}
