//! Moving about the screen: rows of tables and of the timeline, steps of the scenario, and the way back.

use ratatui::layout::Rect;

use super::app::{App, Focus};
use super::command::{Pane, Ran};
use super::effect::Effect;
use super::listing::Fold;
use super::table::{Open, Table};
use super::views::{RanksParts, TablesParts, View, compare, roofline, sweep};

impl App {
    /// Keeps scrolling within what there is after the size or the view changed.
    pub fn fit_extent(&mut self) {
        self.with_timeline(|scene, extent, timeline| timeline.scroll_by(scene, extent, 0));
    }

    /// Left and right: along the row of the timeline, out of a row of the operators and into it.
    pub fn move_sideways(&mut self, is_forward: bool, times: usize) -> Ran {
        if self.pane() == Pane::Table && self.view == View::Operators {
            let height = self.regions().view.height;
            if let Some(work) = self.workspace_mut() {
                work.move_in_tree(is_forward);
                work.table.move_by(0, work.listing.unfolded.len(), height);
            }
        }
        if self.pane() == Pane::Timeline {
            self.with_timeline(|scene, extent, timeline| timeline.step(scene, extent, is_forward, times));
        }
        if self.pane() == Pane::Compare
            && let Some(work) = self.workspace_mut()
        {
            let by = isize::try_from(times).unwrap_or(1);
            work.compare.step_sideways(if is_forward { by } else { -by });
        }
        if self.pane() == Pane::Sweep
            && let Some(work) = self.workspace_mut()
        {
            let by = isize::try_from(times).unwrap_or(1);
            sweep::step_sideways(work, if is_forward { by } else { -by });
        }
        if self.pane() == Pane::Roofline
            && let Some(work) = self.workspace_mut()
        {
            let by = isize::try_from(times).unwrap_or(1);
            roofline::step_sideways(work, if is_forward { by } else { -by });
            self.move_vertically(0)?;
        }
        Ok(Vec::new())
    }

    /// Up and down: between rows of the timeline, steps of the scenario, rows of a table.
    pub fn move_vertically(&mut self, by: isize) -> Ran {
        match self.pane() {
            Pane::Timeline => {
                self.with_timeline(|scene, extent, timeline| timeline.vertical(scene, extent, by));
            }
            Pane::Scenario => {
                let step = self.workspace().map_or(0, |work| work.step);
                self.choose_step(step.saturating_add_signed(by) + 1);
            }
            Pane::Table | Pane::Roofline | Pane::Sweep | Pane::Tables | Pane::Compare | Pane::Everywhere => {
                let height = self.table_area().height;
                let count = self.table().map_or(0, |table| table.count);
                if let Some(work) = self.workspace_mut() {
                    work.table.move_by(by, count, height);
                }
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

    /// The part of the view with the rows of its table, and their titles.
    pub fn table_area(&self) -> Rect {
        let view = self.regions().view;
        if self.view == View::Roofline {
            let table = roofline::parts(view).table;
            return Rect { y: table.y - 1, height: table.height + 1, ..table };
        }
        if let Some(work) = self.workspace().filter(|_| self.view == View::Compare) {
            let above = compare::figure_lines(work, view.width, view.height).saturating_sub(1);
            return Rect { y: view.y + above, height: view.height.saturating_sub(above), ..view };
        }
        if self.view == View::Ranks {
            let above = self.workspace().map_or(0, |work| RanksParts::of(work, view.height).ranks);
            return Rect { y: view.y + above, height: view.height - above, ..view };
        }
        let parts =
            self.workspace().filter(|_| self.view == View::Tables).map(|work| TablesParts::of(work, view.height));
        parts.map_or(view, |parts| Rect { y: view.y + parts.ranks, height: parts.list, ..view })
    }

    /// Chooses a row of the open table by its line on the screen.
    pub fn choose_row(&mut self, line: usize) {
        let Some(line) = line.checked_sub((self.table_area().y - self.regions().view.y) as usize) else { return };
        let count = self.table().map_or(0, |table| table.count);
        if let Some(work) = self.workspace_mut() {
            work.table.choose_line(line, count);
        }
    }

    /// What the chosen row of the open table stands for: its edit is put in force, what is inside it shown or folded away, or its event shown.
    pub fn open_row(&mut self) -> Ran {
        let cursor = self.workspace().map_or(0, |work| work.table.cursor);
        let fold = self.workspace().filter(|_| self.view == View::Operators).and_then(|work| work.listing.fold(cursor));
        if let (Some(Fold::Open | Fold::Closed), Some(work)) = (fold, self.workspace_mut()) {
            work.turn_row();
            return Ok(Vec::new());
        }
        let tried = self.workspace().filter(|_| self.view == View::Gaps).and_then(super::views::step_against_gap);
        match tried {
            Some(line) => super::command::run_line(self, &line),
            None => self.show_row(),
        }
    }

    /// Shows the chosen row of the open table on the timeline.
    pub fn show_row(&mut self) -> Ran {
        let cursor = self.workspace().map_or(0, |work| work.table.cursor);
        let open = self.table().filter(|table| cursor < table.count).map(|table| (table.row)(cursor).open);
        let item = match open {
            Some(Open::Item(item)) => item,
            Some(Open::Line(line)) => return super::command::run_line(self, &line),
            Some(Open::Lines(lines)) => {
                let mut effects = Vec::new();
                for line in lines {
                    effects.extend(super::command::run_line(self, &line)?);
                }
                return Ok(effects);
            }
            Some(Open::Nothing) | None => return Err("this row has no single event to show".to_owned()),
        };
        self.view = View::Timeline;
        self.focus = Focus::View;
        self.with_timeline(|scene, extent, timeline| {
            let side = timeline.side;
            timeline.select(scene, extent, item, side);
            timeline.fit_context(scene);
        });
        Ok(Vec::new())
    }

    /// The open view as a table, if it is one.
    pub fn table(&self) -> Option<Table<'_>> {
        let work = self.workspace()?;
        super::views::table_of(self.view, work, self.regions().view)
    }

    /// Whether there is nothing to go back from but the program itself.
    pub fn is_at_root(&self) -> bool {
        self.loading.is_none() && self.focus == Focus::View && self.view == View::Timeline
    }

    /// One level up; at the top it asks to leave.
    pub fn back(&mut self) -> Ran {
        if let Some(loading) = &self.loading {
            loading.progress.cancel();
            return Ok(if self.works.is_empty() { vec![Effect::Quit] } else { Vec::new() });
        }
        if let Some(work) = self.workspace_mut().filter(|work| work.plans.searching.is_some()) {
            return Ok(work.stop_search());
        }
        let in_advice = self.view == View::Advise;
        if let Some(work) = self.workspace_mut().filter(|work| in_advice && work.advice.is_looking) {
            return Ok(work.stop_advice());
        }
        if !self.is_at_root() {
            self.focus = Focus::View;
            self.view = View::Timeline;
            return Ok(Vec::new());
        }
        super::command::run_line(self, "quit")
    }
}
