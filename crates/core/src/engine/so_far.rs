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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::cost::overhead::Overheads;
    use crate::engine::Engine;
    use crate::graph::BuildOptions;
    use crate::scenario::{Databases, Scenario};

    #[test]
    fn a_step_is_worked_out_once_while_more_are_put_behind_it() {
        let (reads, mut engine) = (Arc::new(AtomicUsize::new(0)), Engine::builtin().unwrap());
        let counted = Arc::clone(&reads);
        engine.databases = Databases::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(Overheads::builtin().unwrap()))
        });
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample_traces/mlp-b256-fp32-cpu.kineto.json.gz");
        let loaded =
            engine.load_bytes(&std::fs::read(trace).unwrap(), "mlp.json.gz", &BuildOptions::default()).unwrap();
        let lines =
            ["overheads a.json", "scale name~mm x0.5", "overheads b.json", "scale kind=T2 x2", "overheads c.json"];
        let all = Scenario::parse(lines).unwrap();
        let mut so_far = SoFar::new(&loaded);
        let mut check = |scenario: Scenario, expected: usize| {
            reads.store(0, Ordering::SeqCst);
            let found = so_far.resolve(&scenario.steps);
            assert_eq!(reads.load(Ordering::SeqCst), expected, "{} steps", scenario.steps.len());
            let anew = scenario::resolve(&loaded.base, &scenario, &loaded.context);
            assert_eq!((found.changes, found.reports), (anew.changes, anew.reports));
        };
        let first = |count: usize| Scenario { steps: all.steps[..count].to_vec(), ..Scenario::default() };
        for (count, expected) in [(1, 1), (2, 0), (3, 1), (4, 0), (5, 1), (5, 0), (3, 2), (5, 1)] {
            check(first(count), expected);
        }
        let mut other = first(5);
        other.steps[0].enabled = false;
        check(other, 2);
    }
}
