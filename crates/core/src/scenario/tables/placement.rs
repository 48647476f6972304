//! Where a table is kept: whole on a rank, cut over several by columns or rows, or copied to all; in device memory or behind
//! the host's link.

use std::fmt;

use super::Table;

/// How a table is sharded, as TorchRec says: table-wise, column-wise, row-wise, data-parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShardingType {
    /// One rank has it.
    #[default]
    Whole,
    /// Each rank has some of every row's elements.
    Columns,
    /// Each rank has some of the rows, and sums what it has of each bag.
    Rows,
    /// Each rank has all of it and looks its own samples up (data parallel).
    Copies,
}

/// Where a table is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct TablePlacement {
    /// Its ranks, by position in the graph's list of ranks (in a step's line: by global number).
    pub ranks: Vec<usize>,
    /// How it is cut over them.
    pub cut: ShardingType,
    /// Kept in host memory: the share of look-ups that a cache on the device serves. `None`: kept in device memory.
    pub cached: Option<f64>,
}

impl TablePlacement {
    /// Whole, in the device memory of one rank.
    pub fn whole(rank: usize) -> Self {
        Self { ranks: vec![rank], cut: ShardingType::Whole, cached: None }
    }

    /// What `rank` has of `table`, with the share of its traced look-up time.
    pub fn part(&self, table: &Table, rank: usize) -> Option<Table> {
        let (at, count) = (self.ranks.iter().position(|&one| one == rank)? as u64, self.ranks.len() as u64);
        let share = |whole: u64| whole * (at + 1) / count - whole * at / count;
        let part = match self.cut {
            ShardingType::Whole => table.clone(),
            ShardingType::Columns => Table { dim: table.dim.map(share), ..table.clone() },
            ShardingType::Rows => Table {
                rows: table.rows.map(share),
                pooling: table.pooling.map(|pooling| pooling / count as f64),
                ..table.clone()
            },
            ShardingType::Copies => Table { batch: table.batch.map(share), ..table.clone() },
        };
        let time = if self.cut == ShardingType::Whole { 1.0 } else { 1.0 / count as f64 };
        let held = if self.cut == ShardingType::Copies { 1.0 } else { time };
        Some(Table {
            bytes: table.bytes.map(|bytes| crate::units::Bytes((bytes.0 as f64 * held).round() as u64)),
            forward: table.forward.scale(time),
            backward: table.backward.scale(time),
            ..part
        })
    }

    /// Elements per step that `rank` sends of what it looked up; sums over some rows are as long as whole bags.
    pub fn sent(&self, table: &Table, rank: usize) -> Option<f64> {
        let Some(part) = self.part(table, rank) else { return Some(0.0) };
        match self.cut {
            ShardingType::Copies => Some(0.0),
            _ => Some(part.batch? as f64 * part.dim? as f64),
        }
    }

    /// Reads `r1`, `r0,r2(col)`, `r0,r2(row)`, `r0,r1(copy)`, each also with `uvm` or `uvm=0.9` among what is in brackets.
    pub fn parse(text: &str) -> Option<Self> {
        let (ranks, marks) = match text.split_once('(') {
            Some((ranks, rest)) => (ranks, rest.strip_suffix(')')?),
            None => (text, ""),
        };
        let number = |word: &str| word.strip_prefix('r')?.parse().ok();
        let ranks: Vec<usize> = ranks.split(',').map(number).collect::<Option<_>>()?;
        let mut placement = Self { ranks, cut: ShardingType::Whole, cached: None };
        for mark in marks.split(',').filter(|mark| !mark.is_empty()) {
            match mark.trim() {
                "col" => placement.cut = ShardingType::Columns,
                "row" => placement.cut = ShardingType::Rows,
                "copy" => placement.cut = ShardingType::Copies,
                "uvm" => placement.cached = Some(0.0),
                other => {
                    let hits: f64 = other.strip_prefix("uvm=")?.parse().ok()?;
                    placement.cached = Some(hits).filter(|hits| (0.0..=1.0).contains(hits));
                    placement.cached?;
                }
            }
        }
        let distinct = placement.ranks.iter().enumerate().all(|(at, rank)| !placement.ranks[..at].contains(rank));
        (distinct && (placement.ranks.len() > 1) == (placement.cut != ShardingType::Whole)).then_some(placement)
    }
}

impl fmt::Display for TablePlacement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks: Vec<String> = self.ranks.iter().map(|rank| format!("r{rank}")).collect();
        let cut = match self.cut {
            ShardingType::Whole => None,
            ShardingType::Columns => Some("col".to_owned()),
            ShardingType::Rows => Some("row".to_owned()),
            ShardingType::Copies => Some("copy".to_owned()),
        };
        let kept = self.cached.map(|hits| if hits > 0.0 { format!("uvm={hits}") } else { "uvm".to_owned() });
        let marks: Vec<String> = cut.into_iter().chain(kept).collect();
        write!(out, "{}", ranks.join(","))?;
        if marks.is_empty() { Ok(()) } else { write!(out, "({})", marks.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bytes, DurNs};

    fn table() -> Table {
        Table {
            rank: 0,
            rows: Some(1000),
            dim: Some(64),
            pooling: Some(10.0),
            batch: Some(512),
            bytes: Some(Bytes(256_000)),
            forward: DurNs(8_000),
            backward: DurNs(12_000),
            is_mean: false,
            replicated: false,
            reuse: crate::cost::Reuse::Uniform,
        }
    }

    #[test]
    fn seats_are_read_back_from_what_they_are_written_as() {
        for text in
            ["r1", "r0,r2(col)", "r0,r2,r5(row)", "r0,r1(copy)", "r3(uvm)", "r3(uvm=0.75)", "r0,r1(col,uvm=0.5)"]
        {
            assert_eq!(TablePlacement::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "1", "r1,r2", "r1(col)", "r1,r1(col)", "r1(uvm=1.5)", "r1(uvm=x)", "r1(what)", "r1(uvm"] {
            assert_eq!(TablePlacement::parse(text), None, "{text}");
        }
    }

    #[test]
    fn parts_of_a_cut_table_add_up_to_it() {
        let whole = table();
        for (text, sent) in [("r0,r1,r2(col)", 64.0), ("r0,r1,r2(row)", 192.0), ("r0,r1,r2(copy)", 0.0)] {
            let placement = TablePlacement::parse(text).unwrap();
            let parts: Vec<Table> = (0..3).map(|rank| placement.part(&whole, rank).unwrap()).collect();
            // Elements read: bags × rows per bag × elements per row.
            let read = |table: &Table| table.batch.unwrap() as f64 * table.pooling.unwrap() * table.dim.unwrap() as f64;
            let all: f64 = parts.iter().map(read).sum();
            assert!((all - read(&whole)).abs() < 1e-6, "{text}: {all}");
            let exchanged: f64 = (0..3).map(|rank| placement.sent(&whole, rank).unwrap()).sum();
            assert!((exchanged - 512.0 * sent).abs() < 1e-6, "{text}: {exchanged}");
            assert_eq!(placement.part(&whole, 3), None);
        }
        assert_eq!(TablePlacement::parse("r0,r1(copy)").unwrap().part(&whole, 1).unwrap().bytes, whole.bytes);
        assert_eq!(TablePlacement::parse("r0,r1(row)").unwrap().part(&whole, 1).unwrap().bytes, Some(Bytes(128_000)));
    }
}
