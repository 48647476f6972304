//! Searching in every pane: what is typed after `/` goes to the first hit as it is typed, all hits are marked, and what is
//! taken back leaves the user where they were.

use std::collections::BTreeSet;
use std::sync::Arc;

use ratatui::layout::Rect;
use ratatui::style::Modifier;

use retime_core::graph::TaskKind;
use retime_core::scenario::{Base, Selector};

use super::CommandResult;
use crate::tui::app::{App, Focus};
use crate::tui::canvas::Canvas;
use crate::tui::effect::Effect;
use crate::tui::message::{Message, NO_TRACE};
use crate::tui::overlay::{Overlay, Prompt};
use crate::tui::table::{HEAD, TableRow, TableState};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, Timeline, find};
use crate::tui::views::board::WhatIf;
use crate::tui::workspace::Workspace;

/// Views whose rows a selector narrows.
const NARROWED: [&str; 3] = ["path", "gaps", "operators"];
const NO_TEXT: &str = "nothing to search for yet: / asks for a name";

/// Where the user was when a search began.
#[derive(Clone, Debug)]
pub struct Place {
    timeline: Timeline,
    table: TableState,
    toggled: BTreeSet<String>,
    step: usize,
    board: (String, Option<String>),
}

impl Place {
    fn of(work: &Workspace) -> Self {
        Self {
            timeline: work.timeline.clone(),
            table: work.table,
            toggled: work.toggled.clone(),
            step: work.step,
            board: work.place_on_board(),
        }
    }

    /// Back to it; what the timeline can show may have changed meanwhile.
    fn restore(&self, work: &mut Workspace) {
        let bounds = work.timeline.bounds;
        work.timeline.clone_from(&self.timeline);
        work.timeline.bounds = bounds;
        (work.table, work.step) = (self.table, self.step);
        if work.toggled != self.toggled {
            work.toggled.clone_from(&self.toggled);
            work.listing.expand(&work.toggled);
        }
        work.clamp_step();
    }
}

/// A row that a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hit {
    row: usize,
    /// Its number among all that match, from 1.
    number: usize,
    count: usize,
}

/// The first hit among `count` rows from `from` on, forwards or backwards, around the end if need be.
fn hit(count: usize, from: usize, is_forward: bool, is_hit: impl Fn(usize) -> bool) -> Option<Hit> {
    let hits: Vec<usize> = (0..count).filter(|&row| is_hit(row)).collect();
    let at = if is_forward {
        hits.iter().position(|&row| row >= from).unwrap_or(0)
    } else {
        hits.iter().rposition(|&row| row <= from).unwrap_or(hits.len().saturating_sub(1))
    };
    hits.get(at).map(|&row| Hit { row, number: at + 1, count: hits.len() })
}

/// Whether a row has `text`, which is lower case, in one of its columns.
fn has(row: &TableRow, text: &str) -> bool {
    row.values.iter().any(|value| value.text.to_lowercase().contains(text))
}

/// A selector; `None` for a text that is a part of a name.
fn selector(text: &str) -> Option<Selector> {
    Selector::parse(text).ok().filter(|_| text.contains(['=', '~', '<', '>']))
}

/// The items that a selector means, in order; `None` for a text that is none.
fn selected(base: &Base, text: &str) -> Option<Arc<[Item]>> {
    let graph = base.graph();
    let shown = |kind: TaskKind| kind.is_device() || kind == TaskKind::Runtime;
    let nodes = selector(text)?.select(base).into_iter().filter(|&node| shown(graph.tasks[node].kind));
    let mut items: Vec<Item> = nodes.map(Item::Task).collect();
    items.sort_unstable();
    Some(items.into())
}

/// How a search went, in a line.
fn said(number: usize, count: usize) -> String {
    format!("{number} of {count}")
}

impl App {
    /// Asks what to search for.
    pub fn begin_search(&mut self) -> CommandResult {
        let place = Place::of(self.workspace().ok_or(NO_TRACE)?);
        self.overlay = Some(Overlay::Prompt(Prompt::search(place)));
        Ok(Vec::new())
    }

    /// Goes to the first hit of what is typed so far, seen from where the search began.
    ///
    /// # Returns
    /// What to do, and what there is to say of it beside the text.
    pub fn search_as_typed(&mut self, began: &Place, text: &str) -> (Vec<Effect>, String) {
        let is_board = self.shows(&WhatIf) && self.focus == Focus::View;
        let Some(work) = self.workspace_mut() else { return (Vec::new(), String::new()) };
        if is_board {
            return (work.type_on_board(|typed| text.clone_into(typed)), String::new());
        }
        began.restore(work);
        self.look_for(text);
        if text.is_empty() {
            return (Vec::new(), String::new());
        }
        let said = match self.hit_from_here(true, true) {
            Ok((number, count)) => said(number, count),
            Err(_) if self.narrows(text) => "enter narrows the rows to it".to_owned(),
            Err(error) => error,
        };
        (Vec::new(), said)
    }

    /// Takes a search back.
    pub fn cancel_search(&mut self, began: &Place) -> Vec<Effect> {
        let is_board = self.shows(&WhatIf) && self.focus == Focus::View;
        let Some(work) = self.workspace_mut() else { return Vec::new() };
        if !is_board {
            began.restore(work);
            return Vec::new();
        }
        let (typed, chosen) = began.board.clone();
        let mut effects = work.type_on_board(|now| *now = typed);
        effects.extend(work.choose_on_board(chosen));
        effects
    }

    /// Keeps what was typed: the rows are narrowed to a selector; nothing typed forgets the search and shows all rows.
    pub fn keep_search(&mut self, text: &str) -> CommandResult {
        if self.shows(&WhatIf) && self.focus == Focus::View {
            return Ok(Vec::new());
        }
        self.look_for(text);
        if self.narrows(text) || text.is_empty() {
            let work = self.workspace_mut().ok_or(NO_TRACE)?;
            let is_narrow = work.filter.is_some();
            if text.is_empty() {
                work.timeline.family = None;
            }
            return if text.is_empty() && !is_narrow { Ok(Vec::new()) } else { work.narrow(text) };
        }
        let (number, count) = self.hit_from_here(true, true)?;
        self.say(Message::note(format!("{} with `{text}`", said(number, count))));
        let view = self.view;
        Ok(if self.focus == Focus::View && self.rows().is_some() { view.vertical(self, 0) } else { Vec::new() })
    }

    /// The next hit, or the one before.
    pub fn go_to_hit(&mut self, is_forward: bool) -> CommandResult {
        let text = self.workspace().map(|work| work.timeline.search.clone()).ok_or(NO_TRACE)?;
        if text.is_empty() {
            return Err(NO_TEXT.to_owned());
        }
        let (number, count) = self.hit_from_here(is_forward, false)?;
        self.say(Message::note(format!("{} with `{text}`", said(number, count))));
        let view = self.view;
        Ok(if self.focus == Focus::View && self.rows().is_some() { view.vertical(self, 0) } else { Vec::new() })
    }

    /// Whether a text narrows the rows of the open view instead of looking for one of them.
    fn narrows(&self, text: &str) -> bool {
        let is_one = NARROWED.contains(&self.view.name());
        selector(text).is_some() && self.focus == Focus::View && self.rows().is_some() && is_one
    }

    /// Forgets what was searched for; what rows are narrowed to stays.
    pub fn forget_search(&mut self) {
        self.look_for("");
    }

    /// Takes what is searched for.
    fn look_for(&mut self, text: &str) {
        let Some(work) = self.workspace_mut() else { return };
        let hits = selected(&work.loaded.base, text);
        let text = text.to_lowercase();
        let names = if hits.is_some() || text.is_empty() { None } else { Some(Arc::new(work.index.names_with(&text))) };
        work.open_rows_to(&text);
        (work.timeline.search, work.timeline.hits, work.timeline.hit_names) = (text, hits, names);
    }

    /// Goes to a hit of the pane; its number and how many there are.
    fn hit_from_here(&mut self, is_forward: bool, is_here_one: bool) -> Result<(usize, usize), String> {
        let from = |cursor: usize| match (is_here_one, is_forward) {
            (true, _) => cursor,
            (false, true) => cursor + 1,
            (false, false) => cursor.wrapping_sub(1),
        };
        let backwards = |from: usize, count: usize| if from == usize::MAX { count.saturating_sub(1) } else { from };
        let work = self.workspace().ok_or(NO_TRACE)?;
        let text = work.timeline.search.clone();
        if self.focus == Focus::Scenario {
            let lines = work.step_lines();
            let found = hit(lines.len(), backwards(from(work.step), lines.len()), is_forward, |row| {
                lines[row].to_lowercase().contains(&text)
            });
            let found = found.ok_or_else(|| format!("no step has `{text}`"))?;
            self.choose_step(found.row + 1);
            return Ok((found.number, found.count));
        }
        let Some(table) = self.rows() else { return self.hit_on_timeline(is_forward, is_here_one) };
        let (cursor, count) = (work.table.cursor, table.count);
        let found = hit(count, backwards(from(cursor), count), is_forward, |row| has(&(table.row)(row), &text));
        drop(table);
        let found = found.ok_or_else(|| format!("no row shown has `{text}`"))?;
        let height = self.rows_area().height;
        if let Some(work) = self.workspace_mut() {
            work.table.move_by(found.row as isize - cursor as isize, count, height);
        }
        Ok((found.number, found.count))
    }

    fn hit_on_timeline(&mut self, is_forward: bool, is_here_one: bool) -> Result<(usize, usize), String> {
        let found = self.with_timeline(|scene, extent, timeline| {
            let name = timeline.search.clone();
            if timeline.go_to_rank(scene, extent, &name) {
                return Some((1, 1));
            }
            let Some(found) = find(scene, timeline, is_forward, is_here_one) else {
                return timeline.go_to_lane(scene, extent, &name, (is_forward, is_here_one));
            };
            let side = timeline.side;
            timeline.select(scene, extent, found.item, side);
            Some((found.number, found.count))
        });
        let text = || self.workspace().map_or("", |work| &work.timeline.search).to_owned();
        found.flatten().ok_or_else(|| format!("no event or lane has `{}` in its name", text()))
    }
}

/// Marks what was searched for in what is drawn in `area`: the letters themselves, and rows that have them where they do
/// not show.
pub fn mark(app: &App, work: &Workspace, area: Rect, canvas: &mut Canvas<'_>) {
    let text = &work.timeline.search;
    if text.is_empty() || (app.shows(&WhatIf) && app.focus == Focus::View) {
        return;
    }
    let style = canvas.theme().style(Role::Match).add_modifier(Modifier::REVERSED);
    let mut marked = Vec::new();
    for y in area.y..area.bottom() {
        let mut line = String::new();
        let mut columns = Vec::new();
        for x in area.x..area.right() {
            let symbol = canvas.symbol(x, y).to_lowercase();
            columns.extend(std::iter::repeat_n(x, symbol.len()));
            line.push_str(&symbol);
        }
        for (at, found) in line.match_indices(text.as_str()) {
            let (from, to) = (columns[at], columns[at + found.len() - 1]);
            canvas.restyle(from, y, to + 1 - from, style);
            marked.push(y);
        }
    }
    let Some(table) = app.rows().filter(|_| app.focus == Focus::View) else { return };
    let rows = app.rows_area();
    let shown = rows.height.saturating_sub(HEAD);
    for (row, y) in (work.table.scroll..table.count).zip((rows.y + HEAD..).take(shown as usize)) {
        if !marked.contains(&y) && area.contains((rows.x, y).into()) && has(&(table.row)(row), text) {
            canvas.cell(rows.x, y, "•", style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_numbered_and_gone_through_round_the_end() {
        let is_hit = |row: usize| [2, 5, 7].contains(&row);
        let found = |row, number| Some(Hit { row, number, count: 3 });
        assert_eq!(hit(9, 0, true, is_hit), found(2, 1));
        assert_eq!(hit(9, 5, true, is_hit), found(5, 2));
        assert_eq!(hit(9, 8, true, is_hit), found(2, 1));
        assert_eq!(hit(9, 6, false, is_hit), found(5, 2));
        assert_eq!(hit(9, 1, false, is_hit), found(7, 3));
        assert_eq!(hit(9, 0, true, |_| false), None);
    }
}
