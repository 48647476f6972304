//! Plans: which embedding table goes where, as edits write it.

use std::fmt;

use crate::scenario::text::{StepError, Word, Words};

use super::{Sharder, TablePlacement};

/// Which table goes where.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// All, by a rule.
    By(Sharder),
    /// Single tables, each with its new placement by global numbers of ranks; the others stay.
    Moves(Vec<(usize, TablePlacement)>),
}

impl Plan {
    /// Reads a sharder or moves, of a text that begins at `column` of its line.
    ///
    /// # Errors
    /// The column of what is neither.
    pub fn parse_at(text: &str, column: usize) -> Result<Self, StepError> {
        let mut words = Words::new(text).map(|word| Word { column: word.column + column - 1, ..word }).peekable();
        let Some(first) = words.peek().copied() else {
            return Err(StepError::at(column, "expected a sharder or moves such as t3:r1"));
        };
        if first.text == "best" {
            let message = "`best` is a search: `tables --sharder best` runs it and gives the plan as moves";
            return Err(StepError::at(first.column, message));
        }
        if let Some(sharder) = Sharder::parse(first.text) {
            words.next();
            return match words.next() {
                None => Ok(Self::By(sharder)),
                Some(extra) => {
                    Err(StepError::at(extra.column, format!("`{}` is too much after a sharder", extra.text)))
                }
            };
        }
        words.map(one_move).collect::<Result<_, _>>().map(Self::Moves)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(sharder) => f.write_str(&sharder.name()),
            Self::Moves(moves) => {
                let moves: Vec<String> =
                    moves.iter().map(|(table, placement)| format!("t{table}:{placement}")).collect();
                f.write_str(&moves.join(" "))
            }
        }
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
