//! `reshard-tables PLAN`: embedding tables move between ranks.

mod rewrite;
mod sharder;

use std::fmt::Write;
use std::sync::Arc;

use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::step::StepError;
use crate::scenario::tables::Tables;
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

pub use sharder::Sharder;

/// Moves tables; look-ups and the exchange of looked-up rows are re-costed.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshard {
    /// Which table goes where.
    pub plan: Plan,
}

/// Which table goes where.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// All, by a rule.
    By(Sharder),
    /// Single tables, each with the global number of its new rank; the others stay.
    Moves(Vec<(usize, u32)>),
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "reshard-tables",
    usage: "reshard-tables SHARDER | tN:rRANK …",
    help: "moves embedding tables between ranks, with their look-ups and their share of the all-to-all",
    example: "reshard-tables t0:r1",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let first = words.expect("a sharder or moves such as t3:r1")?;
    if first.text == "best" {
        let message = "`best` is a search: `tables --sharder best` runs it and gives the plan as moves";
        return Err(StepError::at(first.column, message));
    }
    if let Some(sharder) = Sharder::parse(first.text) {
        return Ok(Arc::new(Reshard { plan: Plan::By(sharder) }));
    }
    let mut moves = vec![one_move(first)?];
    for word in words.by_ref() {
        moves.push(one_move(word)?);
    }
    Ok(Arc::new(Reshard { plan: Plan::Moves(moves) }))
}

fn one_move(word: Word<'_>) -> Result<(usize, u32), StepError> {
    let parts = word.text.strip_prefix('t').and_then(|rest| rest.split_once(":r"));
    if let Some((table, rank)) = parts {
        if let (Ok(table), Ok(rank)) = (table.parse(), rank.parse()) {
            return Ok((table, rank));
        }
        if rank.contains([',', '(']) {
            let message = format!("`{}`: a table goes to one rank as a whole, e.g. t3:r1", word.text);
            return Err(StepError::at(word.column, message));
        }
    } else if !word.text.contains(':') {
        let names: Vec<String> = Sharder::ALL.into_iter().map(Sharder::name).collect();
        return Err(StepError::unknown(word.column, "sharder", word.text, names.iter().map(String::as_str)));
    }
    Err(StepError::at(word.column, format!("`{}`: expected a move such as t3:r1", word.text)))
}

impl Transform for Reshard {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn line(&self) -> String {
        let mut line = SPEC.name.to_owned();
        match &self.plan {
            Plan::By(sharder) => line.extend([" ", &sharder.name()]),
            Plan::Moves(moves) => {
                for (table, rank) in moves {
                    let _ = write!(line, " t{table}:r{rank}");
                }
            }
        }
        line
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        if draft.graph().ranks.len() < 2 {
            return StepReport::nothing("one rank is loaded: there is nowhere to move tables to");
        }
        let tables = Tables::find(draft.base());
        if tables.sharded().is_empty() {
            let why = if tables.tables.is_empty() { "no embedding table" } else { "every table is on every rank" };
            return StepReport::nothing(format!("{why}: nothing to move"));
        }
        let mut report = StepReport::default();
        let old = draft.placement().map_or_else(|| tables.placement(), <[usize]>::to_vec);
        match self.place(draft, &tables, &old, &mut report) {
            Some(new) => rewrite::place(draft, &tables, &old, &new, &mut report),
            None => report.unhandled.push("rows, dimension or pooling of a table is not recorded".to_owned()),
        }
        report
    }
}

impl Reshard {
    /// The rank of each table; what cannot be done is reported and stays where it was.
    fn place(&self, draft: &Draft<'_>, tables: &Tables, old: &[usize], report: &mut StepReport) -> Option<Vec<usize>> {
        let ranks = &draft.graph().ranks;
        let able = |&rank: &usize| !tables.ranks[rank].forward.is_empty();
        let moves = match &self.plan {
            Plan::By(sharder) => {
                let ranks: Vec<usize> = (0..ranks.len()).filter(able).collect();
                return sharder.place(tables.sharded(), &ranks);
            }
            Plan::Moves(moves) => moves,
        };
        let mut new = old.to_vec();
        for &(table, number) in moves {
            let rank = ranks.iter().position(|part| part.rank.0 == number);
            let problem = match (new.get_mut(table), rank) {
                (None, _) if table < tables.tables.len() => format!("t{table} is on every rank: it does not move"),
                (None, _) => format!("there is no table t{table}: t0 to t{} can move", old.len() - 1),
                (_, None) => format!("there is no rank {number} among those loaded"),
                (_, Some(rank)) if !able(&rank) => {
                    format!("rank {number} looks nothing up in the trace: no task of it can serve t{table}")
                }
                (Some(slot), Some(rank)) => {
                    *slot = rank;
                    continue;
                }
            };
            report.unhandled.push(problem);
        }
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse_step;

    #[test]
    fn plans_are_read_back_from_their_lines() {
        for line in ["reshard-tables naive", "reshard-tables random(3)", "reshard-tables t3:r1 t7:r0"] {
            assert_eq!(parse_step(line).unwrap().to_string(), line);
        }
    }

    #[test]
    fn what_is_no_plan_is_told_with_its_place() {
        let error = |line: &str| parse_step(line).unwrap_err().to_string();
        assert!(error("reshard-tables").starts_with("column 15: expected a sharder"));
        assert!(error("reshard-tables best").contains("tables --sharder best"));
        assert!(error("reshard-tables naiv").contains("did you mean `naive`"));
        assert!(error("reshard-tables t1:r0 t2:x").starts_with("column 22: `t2:x`: expected a move"));
        assert!(error("reshard-tables t1:r0,r1(col)").contains("one rank as a whole"));
    }
}
