//! How the user arranges the tables of a trace: what they are narrowed to, their order, and which rows are folded away.

use std::sync::Arc;

use retime_core::scenario::Selector;

use super::effect::Effect;
use super::listing::{Arrangement, Filter, Fold, Group, Listing, Sources};
use super::runner::Request;
use super::workspace::Workspace;

impl Workspace {
    /// Narrows the tables to what a selector (or a part of a name) selects; an empty text shows all again.
    ///
    /// # Errors
    /// The text is no selector.
    pub fn narrow(&mut self, text: &str) -> Result<Vec<Effect>, String> {
        self.filter = None;
        if !text.is_empty() {
            let is_word = text.chars().all(|c| c.is_alphanumeric() || "_:.-".contains(c));
            let text = if is_word { format!("name~{text}") } else { text.to_owned() };
            let selector = Selector::parse(&text).map_err(|error| error.to_string())?;
            self.filter = Some(Filter { text, selector });
        }
        (self.table.cursor, self.table.scroll) = (0, 0);
        Ok(self.relist())
    }

    /// Shows the tables in another order or grouping, from their first row.
    pub fn arrange(&mut self, change: impl FnOnce(Arrangement) -> Arrangement) -> Vec<Effect> {
        self.arrangement = change(self.arrangement);
        (self.table.cursor, self.table.scroll) = (0, 0);
        self.relist()
    }

    /// Asks for the tables' rows as they are to be sorted and filtered now; those there are stay until then.
    pub fn relist(&mut self) -> Vec<Effect> {
        self.listing_wanted += 1;
        let sources = Sources {
            loaded: Arc::clone(&self.loaded),
            outcome: Arc::clone(&self.outcome),
            digest: Arc::clone(&self.digest),
            modelled: Arc::clone(&self.modelled),
            paints: Arc::clone(&self.paints),
            filter: self.filter.clone(),
            arrangement: self.arrangement,
        };
        let (work, ticket) = (self.number, self.listing_wanted);
        vec![Effect::Ask(Request::List { work, ticket, sources: Box::new(sources) })]
    }

    /// Takes the rows asked for; those that were overtaken are dropped.
    ///
    /// # Errors
    /// The filter selects nothing: the one before it stays in force.
    pub fn take_listing(&mut self, ticket: u64, listing: Result<Box<Listing>, String>) -> Result<(), String> {
        if ticket != self.listing_wanted {
            return Ok(());
        }
        self.listing_shown = ticket;
        match listing {
            Ok(listing) => {
                self.listing = *listing;
                self.listing.unfold(&self.turned);
                Ok(())
            }
            Err(reason) => {
                self.filter.clone_from(&self.listing.filter);
                Err(reason)
            }
        }
    }

    /// Whether rows are being sorted and filtered.
    pub fn is_relisting(&self) -> bool {
        self.listing_wanted != self.listing_shown
    }

    /// Opens or folds the chosen row of the operators.
    pub fn turn_row(&mut self) {
        if let Some(path) = self.listing.group(self.table.cursor).map(|group| group.path.clone()) {
            if !self.turned.remove(&path) {
                self.turned.insert(path);
            }
            self.listing.unfold(&self.turned);
        }
    }

    /// Opens or folds all rows of the operators.
    pub fn turn_all(&mut self, is_open: bool) {
        let chosen = self.listing.group(self.table.cursor).map(|group| group.path.clone());
        let turned = |group: &&Group| group.is_open != (is_open || group.depth == 0);
        self.turned = self.listing.groups.iter().filter(turned).map(|group| group.path.clone()).collect();
        self.listing.unfold(&self.turned);
        let rows = 0..self.listing.unfolded.len();
        let is_chosen = |path: &str| chosen.as_deref().is_some_and(|chosen| chosen.starts_with(path));
        let near = rows.rev().find(|&row| self.listing.group(row).is_some_and(|group| is_chosen(&group.path)));
        (self.table.cursor, self.table.scroll) = (near.unwrap_or(0), 0);
    }

    /// Left and right in the tree of operators: into a row and out of it.
    pub fn move_in_tree(&mut self, is_inwards: bool) {
        let row = self.table.cursor;
        match (self.listing.fold(row), is_inwards) {
            (Some(Fold::Closed), true) | (Some(Fold::Open), false) => self.turn_row(),
            (Some(Fold::Open), true) => self.table.cursor = row + 1,
            (Some(_), false) => self.table.cursor = self.listing.parent(row).unwrap_or(row),
            _ => {}
        }
    }
}
