//! `reshard-tables PLAN`: embedding tables move between ranks.

mod exchange;
mod law;
mod moves;
mod rewrite;
mod sharder;

use std::fmt::Write;
use std::sync::Arc;

use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::step::StepError;
use crate::scenario::tables::{Cut, Table, TablePlacement, Tables};
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};

pub use moves::{moves_of, seats_of, with_seat, without_plans};
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
    /// Single tables, each with its new placement by global numbers of ranks; the others stay.
    Moves(Vec<(usize, TablePlacement)>),
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "reshard-tables",
    usage: "reshard-tables SHARDER | tN:rRANK | tN:rA,rB(col|row|copy) | tN:rRANK(uvm=HITS) …",
    help: "moves, cuts or copies embedding tables, with their look-ups and their share of the all-to-all",
    example: "reshard-tables t0:r1",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    Ok(Arc::new(Reshard { plan: Plan::parse(words)? }))
}

impl Plan {
    /// Reads a sharder or moves.
    fn parse(words: &mut Words<'_>) -> Result<Self, StepError> {
        let first = words.expect("a sharder or moves such as t3:r1")?;
        if first.text == "best" {
            let message = "`best` is a search: `tables --sharder best` runs it and gives the plan as moves";
            return Err(StepError::at(first.column, message));
        }
        if let Some(sharder) = Sharder::parse(first.text) {
            return Ok(Self::By(sharder));
        }
        let rest: Vec<Word<'_>> = words.by_ref().collect();
        std::iter::once(first).chain(rest).map(one_move).collect::<Result<_, _>>().map(Self::Moves)
    }
}

fn one_move(word: Word<'_>) -> Result<(usize, TablePlacement), StepError> {
    let parts = word.text.strip_prefix('t').and_then(|rest| rest.split_once(':'));
    if let Some((table, placement)) = parts {
        if let (Ok(table), Some(placement)) = (table.parse(), TablePlacement::parse(placement)) {
            return Ok((table, placement));
        }
        if let Some(number) = out_of_range(table, placement) {
            return Err(StepError::at(word.column, format!("`{}`: expected {number}", word.text)));
        }
        if placement.contains([',', '(']) {
            let message = format!(
                "`{}`: expected r0,r2(col), r0,r2(row) or r0,r2(copy) for different ranks, or r1(uvm=0.9)",
                word.text
            );
            return Err(StepError::at(word.column, message));
        }
    } else if word.text.starts_with("random(") {
        let message = format!("`{}`: expected a whole number from 0 to {} in random(SEED)", word.text, u64::MAX);
        return Err(StepError::at(word.column, message));
    } else if !word.text.contains(':') {
        let names: Vec<String> = Sharder::ALL.into_iter().map(Sharder::name).collect();
        return Err(StepError::unknown(word.column, "sharder", word.text, names.iter().map(String::as_str)));
    }
    Err(StepError::at(word.column, format!("`{}`: expected a move such as t3:r1", word.text)))
}

/// The range of the number in a move that lies outside its range.
fn out_of_range(table: &str, placement: &str) -> Option<&'static str> {
    let (ranks, marks) = placement.split_once('(').unwrap_or((placement, ""));
    let hits = marks.split([',', ')']).find_map(|mark| mark.trim().strip_prefix("uvm="));
    let is_bad = |rank: &str| rank.strip_prefix('r').is_some_and(|number| number.parse::<usize>().is_err());
    if table.parse::<usize>().is_err() {
        return Some("tables by their numbers from 0, e.g. t3:r1");
    }
    if ranks.split(',').any(is_bad) {
        return Some("ranks by their numbers from 0, e.g. t3:r1");
    }
    let is_share = |hits: &str| hits.parse().is_ok_and(|hits: f64| (0.0..=1.0).contains(&hits));
    hits.filter(|hits| !is_share(hits)).map(|_| "a share of hits from 0 to 1, e.g. r1(uvm=0.9)")
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
                for (table, placement) in moves {
                    let _ = write!(line, " t{table}:{placement}");
                }
            }
        }
        line
    }

    /// Tables are counted over all ranks, so each has to be there.
    fn tells_apart(&self, _: u32, _: u32) -> bool {
        true
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
            None => report.unhandled.push("rows, dimension or pooling of a table is not recorded".to_owned()),
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
            match (new.get_mut(*table), seated(draft, tables, *table, placement)) {
                (Some(slot), Ok(placement)) => *slot = placement,
                (Some(_), Err(problem)) => report.unhandled.push(problem),
                (None, _) if *table < tables.tables.len() => {
                    report.unhandled.push(format!("t{table} is on every rank: it does not move"));
                }
                (None, _) => {
                    report.unhandled.push(format!("there is no table t{table}: t0 to t{} can move", old.len() - 1));
                }
            }
        }
        Some(new)
    }
}

/// A placement by global numbers as one by positions, if it can be.
fn seated(
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
        (Cut::Columns | Cut::Rows | Cut::Copies, None) => {
            Err(format!("t{table}: rows, dimension or pooling is not recorded: it cannot be cut"))
        }
        (Cut::Columns, Some(sizes)) if sizes.dim < parts => {
            Err(format!("t{table} has {} columns: too few for {parts} ranks", sizes.dim))
        }
        (Cut::Rows, Some(sizes)) if sizes.rows < parts => {
            Err(format!("t{table} has {} rows: too few for {parts} ranks", sizes.rows))
        }
        _ => Ok(TablePlacement { ranks, ..placement.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse_step;

    #[test]
    fn plans_are_read_back_from_their_lines() {
        for line in ["reshard-tables naive", "reshard-tables random(3)", "reshard-tables t3:r1 t7:r0,r2(col)"] {
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
        assert!(error("reshard-tables t1:r0,r0(col)").contains("for different ranks"));
    }
}
