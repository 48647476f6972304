//! Steps worked out one after the other, each once, while more are put behind them.

use crate::scenario::{self, Prefix, Resolved, Step};

use super::Loaded;

/// What the steps that were asked about last come to.
#[derive(Debug)]
pub struct SoFar<'a> {
    loaded: &'a Loaded,
    prefix: Option<Prefix<'a>>,
    steps: Vec<Step>,
}

impl<'a> SoFar<'a> {
    /// Of no steps on `loaded`.
    pub fn new(loaded: &'a Loaded) -> Self {
        Self { loaded, prefix: None, steps: Vec::new() }
    }

    /// Works out `steps`, as [`scenario::resolve`] does.
    ///
    /// # Complexity
    /// O(further steps · tasks) where they begin with those that were asked about last, else O(steps · tasks).
    pub fn resolve(&mut self, steps: &[Step]) -> Resolved {
        let is_begun = self.steps.len() <= steps.len() && self.steps.iter().zip(steps).all(|(old, new)| old.is(new));
        if !is_begun {
            self.forget();
        }
        let Self { loaded, prefix, steps: known } = self;
        let prefix = prefix.get_or_insert_with(|| Prefix::of(&loaded.base, &[], &loaded.context));
        let further = &steps[known.len()..];
        prefix.take(further);
        known.extend_from_slice(further);
        prefix.clone().resolve(steps)
    }

    /// Works out `steps` alone, and keeps nothing: of a few steps there is little to keep.
    pub fn resolve_alone(&mut self, steps: &[Step]) -> Resolved {
        self.forget();
        let alone = scenario::Scenario { name: String::new(), steps: steps.to_vec() };
        scenario::resolve(&self.loaded.base, &alone, &self.loaded.context)
    }

    fn forget(&mut self) {
        (self.prefix, self.steps) = (None, Vec::new());
    }
}
