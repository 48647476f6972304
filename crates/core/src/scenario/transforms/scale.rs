//! `scale SELECTOR xFACTOR`: what if these tasks took a multiple of their time?

use std::sync::Arc;

use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::text::short;
use crate::scenario::transform::{StepReport, Transform};

use super::report::{count, in_step, tell_elsewhere};

/// Multiplies the duration of the selected tasks.
#[derive(Clone, Debug, PartialEq)]
struct Scale {
    /// Which tasks.
    selector: Selector,
    /// The factor, from 0.
    factor: f64,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "scale",
    help: "multiplies the time of the selected tasks: a virtual speed-up or slow-down of anything",
    example: "scale kind=kernel x0.5",
    forms: &[Form {
        arguments: &[Argument::selector(), Argument::new("FACTOR", "xFACTOR", Kind::Factor(0.0, 1e6))],
        build: |given| Some(Arc::new(Scale { selector: given.get(0)?, factor: given.get(1)? })),
    }],
    knobs: &[],
};

impl Transform for Scale {
    fn multiple(&self) -> Option<(Selector, f64)> {
        Some((self.selector.clone(), self.factor))
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let chosen = self.selector.select_all(draft);
        if chosen.is_empty() {
            return StepReport::nothing(format!("nothing matches {}", self.selector));
        }
        for &node in &chosen {
            draft.stretch(node, self.factor);
        }
        let summary = format!("{} ×{}", count(in_step(draft, &chosen), "task"), short(self.factor));
        let mut report = StepReport { changed: chosen.len(), summary, ..StepReport::default() };
        tell_elsewhere(&mut report, draft, &chosen);
        report
    }
}
