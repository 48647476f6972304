//! What look-ups do under a placement of tables: each table brings along what it is of its traced rank's look-ups.

use crate::cost::{Shape, Work};
use crate::graph::NodeId;
use crate::scenario::draft::Draft;
use crate::scenario::tables::Tables;
use crate::units::{Bytes, Flop};

use super::rewrite::{Part, batched_work, parts};

/// FLOP, bytes read and bytes written.
type Figures = [f64; 3];

/// By the position of a rank, what its look-ups do over what the sizes of its traced tables tell; `None` where either is unknown.
pub(super) struct Scales {
    by_rank: Vec<Option<Figures>>,
    backward: bool,
}

impl Scales {
    /// From what look-ups do now, forward or backward.
    ///
    /// # Arguments
    /// `tables`: as traced, and as edits of their look-ups leave them.
    pub(super) fn of(draft: &Draft<'_>, (tables, edited): (&Tables, &Tables), backward: bool) -> Self {
        let placements = tables.placements();
        let done = |nodes: &[NodeId]| {
            nodes
                .iter()
                .filter(|&&node| !draft.is_removed(node))
                .try_fold([0.0; 3], |sum, &node| draft.work(node).map(|work| add(sum, figures(work))))
        };
        let scale = |rank: usize| {
            let lookups = &tables.ranks[rank];
            let done = done(if backward { &lookups.backward } else { &lookups.forward })?;
            let told = parts(edited, &placements, rank).iter().try_fold([0.0; 3], |sum, part| {
                batched_work(&part.table, 1, backward).map(|work| add(sum, figures(&work)))
            })?;
            (told[1] > 0.0).then(|| std::array::from_fn(|at| if told[at] > 0.0 { done[at] / told[at] } else { 1.0 }))
        };
        Self { by_rank: (0..tables.ranks.len()).map(scale).collect(), backward }
    }

    /// What a rank's look-ups of the tables `after` do over those of `before`; `None` where that is not known.
    pub(super) fn ratio(&self, before: &[Part], after: &[Part]) -> Option<LookupRatio> {
        let sum = |set: &[Part]| {
            set.iter().try_fold([0.0; 3], |sum, part| {
                let own = figures(&batched_work(&part.table, 1, self.backward)?);
                let scale = (*self.by_rank.get(part.table.rank)?)?;
                Some(add(sum, std::array::from_fn(|at| own[at] * scale[at])))
            })
        };
        let (old, new) = (sum(before)?, sum(after)?);
        let ratio = |at: usize| if old[at] > 0.0 { new[at] / old[at] } else { 1.0 };
        let tables = after.len() as f64 / before.len() as f64;
        (old[1] > 0.0).then(|| LookupRatio { flop: ratio(0), read: ratio(1), written: ratio(2), tables })
    }
}

fn figures(work: &Work) -> Figures {
    [work.flop.0, work.read.0 as f64, work.written.0 as f64]
}

fn add(a: Figures, b: Figures) -> Figures {
    std::array::from_fn(|at| a[at] + b[at])
}

/// What one set of tables is to another: the ratios of what its look-ups do.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupRatio {
    flop: f64,
    read: f64,
    written: f64,
    tables: f64,
}

impl LookupRatio {
    /// The work of a look-up whose set of tables changes so.
    pub(super) fn apply(self, work: Work) -> Work {
        let scaled = |bytes: Bytes, by: f64| Bytes((bytes.0 as f64 * by).round() as u64);
        let mut shape = work.shape;
        match &mut shape {
            _ if self.tables == 0.0 => shape = Shape::Plain,
            Shape::Embedding { tables, .. } => *tables = (*tables as f64 * self.tables).round().max(1.0) as u64,
            _ => {}
        }
        Work {
            flop: Flop(work.flop.0 * self.flop),
            read: scaled(work.read, self.read),
            written: scaled(work.written, self.written),
            shape,
            ..work
        }
    }
}
