//! `scale SELECTOR xFACTOR`: what if these tasks took a multiple of their time?

use std::sync::Arc;

use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::{Words, short};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

use super::report::count;

/// Multiplies the duration of the selected tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Which tasks.
    pub selector: Selector,
    /// The factor, from 0.
    pub factor: f64,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "scale",
    usage: "scale SELECTOR xFACTOR",
    help: "multiplies the time of the selected tasks: a virtual speed-up or slow-down of anything",
    example: "scale kind=kernel x0.5",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let end = words.column();
    let (before, last) = words.split_last().ok_or_else(|| StepError::at(end, "expected SELECTOR xFACTOR"))?;
    let is_term = last.text.len() > 1 && last.text.contains(['=', '~', '<', '>', ')']);
    if is_term || before.text.is_empty() {
        let column = if is_term { words.column() } else { last.column };
        return Err(StepError::at(column, "expected SELECTOR xFACTOR, e.g. `kind=kernel x0.5`"));
    }
    let factor = last.number(&['x', 'X', '×', '*'], 0.0..=1e6)?;
    let selector = Selector::parse_at(before.text, before.column)?;
    Ok(Arc::new(Scale { selector, factor }))
}

impl Transform for Scale {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        vec![&self.selector]
    }

    fn line(&self) -> String {
        format!("{} {} x{}", SPEC.name, self.selector, short(self.factor))
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let chosen = self.selector.select_all(draft);
        if chosen.is_empty() {
            return StepReport::nothing(format!("nothing matches {}", self.selector));
        }
        for &node in &chosen {
            draft.stretch(node, self.factor);
        }
        let summary = format!("{} ×{}", count(chosen.len(), "task"), short(self.factor));
        StepReport { changed: chosen.len(), summary, ..StepReport::default() }
    }
}
