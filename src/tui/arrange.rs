//! How the user arranges the tables of a trace: what they are narrowed to, their order, and which rows are folded away.

use std::sync::Arc;

use retime_core::scenario::Selector;

use super::effect::Effect;
use super::listing::{Arrangement, Filter, Listing, Nesting, Sources};
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
            view_model: Arc::clone(&self.view_model),
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
                self.listing.expand(&self.toggled);
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

    /// Opens or folds the chosen row of the open view.
    pub fn toggle_row(&mut self) {
        let (view, row) = (self.table_of(), self.table.cursor);
        if let Some(path) = self.listing.tree(view).and_then(|tree| tree.path(row)).map(str::to_owned) {
            if !self.toggled.remove(&path) {
                self.toggled.insert(path);
            }
            self.listing.expand(&self.toggled);
        }
    }

    /// Opens or folds all rows of the open view.
    ///
    /// # Errors
    /// They lie in no others.
    pub fn expand_all(&mut self, is_open: bool) -> Result<(), String> {
        let (view, row) = (self.table_of(), self.table.cursor);
        let tree = self.listing.tree(view).ok_or_else(|| format!("the rows of {view} lie in no others"))?;
        let chosen = tree.path(row).map(str::to_owned);
        self.toggled = tree.retoggled(&self.toggled, is_open);
        self.listing.expand(&self.toggled);
        let Some(tree) = self.listing.tree(view) else { return Ok(()) };
        let is_chosen = |path: &str| chosen.as_deref().is_some_and(|chosen| chosen.starts_with(path));
        let near = (0..tree.count()).rev().find(|&row| tree.path(row).is_some_and(is_chosen));
        (self.table.cursor, self.table.scroll) = (near.unwrap_or(0), 0);
        Ok(())
    }

    /// Opens the rows of the open view that others lie in which have `text`, in lower case, in their label.
    pub fn open_rows_to(&mut self, text: &str) {
        /// Fewer letters are in nearly all labels.
        const LEAST: usize = 2;
        if let Some(tree) = self.listing.tree(self.table_of()).filter(|_| text.len() >= LEAST) {
            self.toggled = tree.opened_to(&self.toggled, text);
            self.listing.expand(&self.toggled);
        }
    }

    /// What there is inside the chosen row of the open view; `None` where its rows lie in no others.
    pub fn nesting(&self) -> Option<Nesting> {
        self.listing.tree(self.table_of())?.nesting(self.table.cursor)
    }

    /// Left and right in rows within rows: into a row and out of it.
    pub fn move_in_tree(&mut self, is_inwards: bool) {
        let row = self.table.cursor;
        match (self.nesting(), is_inwards) {
            (Some(Nesting::Collapsed), true) | (Some(Nesting::Expanded), false) => self.toggle_row(),
            (Some(Nesting::Expanded), true) => self.table.cursor = row + 1,
            (Some(_), false) => {
                let parent = self.listing.tree(self.table_of()).and_then(|tree| tree.parent(row));
                self.table.cursor = parent.unwrap_or(row);
            }
            _ => {}
        }
    }
}
