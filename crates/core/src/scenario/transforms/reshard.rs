//! `reshard-tables PLAN`: embedding tables move between ranks.

mod exchange;
mod lookup_line;
mod lookup_scale;
mod rewrite;

use std::sync::Arc;

use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::tables::{Plan, ShardingType, Table, TablePlacement, Tables};
use crate::scenario::transform::{Stage, StepReport, Transform};

/// Moves tables; look-ups and the exchange of looked-up rows are re-costed.
#[derive(Clone, Debug, PartialEq)]
struct Reshard {
    /// Which table goes where.
    plan: Plan,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "reshard-tables",
    help: "moves, cuts or copies embedding tables, with their look-ups and their share of the all-to-all",
    example: "reshard-tables t0:r1",
    forms: &[FORM],
    knobs: &[],
};

pub(super) const FORM: Form = Form {
    arguments: &[Argument::new(
        "SHARDER | tN:rRANK | tN:rA,rB(col|row|copy) | tN:rRANK(uvm=HITS) …",
        "a sharder or moves such as t3:r1",
        Kind::Plan,
    )],
    build: |given| Some(Arc::new(Reshard { plan: given.get(0)? })),
};

impl Transform for Reshard {
    /// Tables are counted over all ranks, so each has to be there.
    fn tells_apart(&self) -> bool {
        true
    }

    fn stage(&self) -> Stage {
        Stage::Placement
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        if draft.graph().ranks.len() < 2 {
            return StepReport::nothing("one rank is loaded: there is nowhere to move tables to");
        }
        let tables = draft.base().tables();
        if tables.sharded().is_empty() {
            let why = if tables.tables.is_empty() { "no embedding table" } else { "every table is on every rank" };
            return StepReport::nothing(format!("{why}: nothing to move"));
        }
        let mut report = StepReport::default();
        let old = draft.placements().map_or_else(|| tables.placements(), <[TablePlacement]>::to_vec);
        match self.place(draft, tables, &old, &mut report) {
            Some(new) => rewrite::place(draft, tables, &old, &new, &mut report),
            None => report.say(Effect::none("rows, dimension or pooling of a table is not recorded")),
        }
        report
    }
}

impl Reshard {
    /// The placement of each table; what cannot be done is reported and stays where it was.
    fn place(
        &self,
        draft: &Draft<'_>,
        tables: &Tables,
        old: &[TablePlacement],
        report: &mut StepReport,
    ) -> Option<Vec<TablePlacement>> {
        let moves = match &self.plan {
            Plan::By(sharder) => {
                let placement = sharder.place(tables.sharded(), &tables.able())?;
                return Some(placement.into_iter().map(TablePlacement::whole).collect());
            }
            Plan::Moves(moves) => moves,
        };
        let mut new = old.to_vec();
        for (table, placement) in moves {
            match (new.get_mut(*table), by_position(draft, tables, *table, placement)) {
                (Some(slot), Ok(placement)) => *slot = placement,
                (Some(_), Err(problem)) => report.say(Effect::none(problem)),
                (None, _) if *table < tables.tables.len() => {
                    report.say(Effect::none(format!("t{table} is on every rank: it does not move")));
                }
                (None, _) => {
                    let known = format!("there is no table t{table}: t0 to t{} can move", old.len() - 1);
                    report.say(Effect::none(known));
                }
            }
        }
        Some(new)
    }
}

/// A placement by global numbers as one by positions, if it can be.
fn by_position(
    draft: &Draft<'_>,
    tables: &Tables,
    table: usize,
    placement: &TablePlacement,
) -> Result<TablePlacement, String> {
    let position = |&number: &usize| {
        let found = draft.graph().ranks.iter().position(|part| part.rank.0 as usize == number);
        match found.ok_or_else(|| format!("there is no rank {number} among those loaded")) {
            Ok(rank) if tables.ranks[rank].forward.is_empty() => {
                Err(format!("rank {number} looks nothing up in the trace: no task of it can serve t{table}"))
            }
            found => found,
        }
    };
    let ranks: Vec<usize> = placement.ranks.iter().map(position).collect::<Result<_, _>>()?;
    let sizes = tables.sharded().get(table).and_then(Table::sizes);
    let parts = ranks.len() as f64;
    match (placement.cut, sizes) {
        (ShardingType::Columns | ShardingType::Rows | ShardingType::Copies, None) => {
            Err(format!("t{table}: rows, dimension or pooling is not recorded: it cannot be cut"))
        }
        (ShardingType::Columns, Some(sizes)) if sizes.dim < parts => {
            Err(format!("t{table} has {} columns: too few for {parts} ranks", sizes.dim))
        }
        (ShardingType::Rows, Some(sizes)) if sizes.rows < parts => {
            Err(format!("t{table} has {} rows: too few for {parts} ranks", sizes.rows))
        }
        _ => Ok(TablePlacement { ranks, ..placement.clone() }),
    }
}
