//! What a trace does not record of its embedding tables and collectives, told by the user in a TOML file:
//!
//! ```toml
//! [[collective]] # all that it describes
//! kind = "all-reduce" # or left out: of any kind
//! group = "0"    # process group; or left out: of any
//! place = 3      # the one of that place among them in the iteration, from 1; or left out: all of them
//! mib = 25       # what one rank puts in, in MiB; or `bytes`
//! ranks = 8      # of its group
//!
//! [[table]]      # in order of look-up within its rank
//! rank = 0       # traced rank; or `id = "t3"` for a single table
//! rows = 1000000
//! dim = 64
//! pooling = 12.5 # look-ups per bag, mean
//! unique = 0.3   # share of a batch's look-ups that are the first of their row; or `zipf = 1.05`, the exponent; or
//!                # `histogram = [0.4, …]`, shares of the look-ups by how often their row is looked up: once, twice, up to
//!                # 4, 8, … times; or `indices = "t0.txt"`, a file beside this one with the rows that one batch looks up
//! ```

use std::fmt::Display;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use thiserror::Error;

use crate::cost::Reuse;
use crate::cost::reuse::REUSE_BINS;
use crate::graph::{Collective, ExecutionGraph, RankPart};
use crate::units::{Bytes, DurNs, elements};

use super::Table;
use super::sums::{Told, share_rest, without_excess};

/// A facts file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FactsError {
    /// Not TOML of the expected form.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What the TOML reader says.
        message: String,
    },
    /// An entry names no table.
    #[error("table {0}: needs `rank = 0` or `id = \"t0\"`")]
    Nameless(usize),
    /// An entry of a collective tells nothing, or a figure that cannot be.
    #[error("collective {entry}: {reason}")]
    Collective {
        /// Position of the entry, from 1.
        entry: usize,
        /// In words.
        reason: &'static str,
    },
    /// A figure out of its range.
    #[error("table {entry}: {field} must be {range}")]
    Range {
        /// Position of the entry, from 1.
        entry: usize,
        /// Its field.
        field: &'static str,
        /// In words.
        range: &'static str,
    },
}

/// What is known of one table.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFact {
    /// Its number, `t3`.
    pub id: Option<String>,
    /// The global number of the rank that looks it up in the trace.
    pub rank: Option<u32>,
    /// Rows.
    pub rows: Option<u64>,
    /// Elements per row.
    pub dim: Option<u64>,
    /// Look-ups per bag, mean.
    pub pooling: Option<f64>,
    /// Share of a batch's look-ups that are the first of their row.
    pub unique: Option<f64>,
    /// Exponent of Zipf's law that the look-ups follow.
    pub zipf: Option<f64>,
    /// Share of the look-ups by how often their row is looked up: once, twice, up to 4, 8, … times.
    pub histogram: Option<Vec<f64>>,
    /// File with the rows that one batch looks up.
    pub indices: Option<String>,
}

impl TableFact {
    /// The size that no table has, and what it can be: beyond these one table is larger than any memory.
    fn beyond(&self) -> Option<(&'static str, &'static str)> {
        let fits = |size: Option<u64>, most: u64| size.is_none_or(|size| (1..=most).contains(&size));
        match self {
            Self { rows, .. } if !fits(*rows, 1 << 36) => Some(("rows", "from 1 to 2^36")),
            Self { dim, .. } if !fits(*dim, 1 << 14) => Some(("dim", "from 1 to 16384")),
            Self { pooling: Some(pooling), .. } if !(0.0..=1e6).contains(pooling) => Some(("pooling", "from 0 to 1e6")),
            _ => None,
        }
    }

    /// Which rows a batch looks up, where it is told.
    pub fn reuse(&self) -> Option<Reuse> {
        let histogram = || {
            let shares = self.histogram.as_ref()?;
            let mut bins = Box::new([0.0; REUSE_BINS]);
            bins.iter_mut().zip(shares).for_each(|(bin, share)| *bin = *share);
            Some(Reuse::Histogram(bins))
        };
        self.unique.map(Reuse::Unique).or_else(|| self.zipf.map(Reuse::Zipf)).or_else(histogram)
    }
}

/// What is known of some collectives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveFact {
    /// Their kind, as reports call it.
    pub kind: Option<String>,
    /// Their process group.
    pub group: Option<String>,
    /// The place among those of that kind and group in the iteration, from 1.
    pub place: Option<usize>,
    /// Bytes that one rank puts in.
    pub bytes: Option<u64>,
    /// As that, in MiB.
    pub mib: Option<f64>,
    /// Ranks of the group.
    pub ranks: Option<u32>,
}

impl CollectiveFact {
    fn message(&self) -> Option<Bytes> {
        self.bytes.or_else(|| self.mib.map(|mib| (mib * 1_048_576.0).round() as u64)).map(Bytes)
    }

    /// Why it cannot be used: beyond these sizes a message is larger than any memory.
    fn fault(&self) -> Option<&'static str> {
        let is_message = |bytes: Bytes| (1..=1 << 40).contains(&bytes.0);
        match self {
            Self { bytes: None, mib: None, ranks: None, .. } => Some("needs `bytes`, `mib` or `ranks`"),
            Self { bytes: Some(_), mib: Some(_), .. } => Some("takes `bytes` or `mib`, not both"),
            Self { bytes: Some(bytes), .. } if !is_message(Bytes(*bytes)) => Some("bytes must be from 1 to 2^40"),
            Self { mib: Some(_), .. } if !self.message().is_some_and(is_message) => {
                Some("mib must be from 1 byte to 2^20")
            }
            Self { ranks: Some(0 | 1), .. } => Some("ranks must be 2 or more"),
            Self { place: Some(0), .. } => Some("places count from 1"),
            _ => None,
        }
    }
}

/// What is known of all tables, in order, and of collectives.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFacts {
    /// Collectives.
    #[serde(default, rename = "collective")]
    pub collectives: Vec<CollectiveFact>,
    /// The entries.
    #[serde(default, rename = "table")]
    pub tables: Vec<TableFact>,
}

impl TableFacts {
    /// Reads a facts file.
    ///
    /// # Errors
    /// The first entry that cannot be used, with its place.
    pub fn from_toml(text: &str) -> Result<Self, FactsError> {
        let facts: Self = toml::from_str(text).map_err(|error| {
            let line = crate::device::error::line_of(text, error.span());
            FactsError::Syntax { line, message: error.message().to_owned() }
        })?;
        if let Some((at, reason)) = facts.collectives.iter().enumerate().find_map(|(at, it)| Some((at, it.fault()?))) {
            return Err(FactsError::Collective { entry: at + 1, reason });
        }
        for (index, fact) in facts.tables.iter().enumerate() {
            let entry = index + 1;
            if fact.id.is_none() && fact.rank.is_none() {
                return Err(FactsError::Nameless(entry));
            }
            if let Some((field, range)) = fact.beyond() {
                return Err(FactsError::Range { entry, field, range });
            }
            if fact.unique.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
                return Err(FactsError::Range { entry, field: "unique", range: "above 0 and at most 1" });
            }
            if fact.zipf.is_some_and(|exponent| !(0.0..=4.0).contains(&exponent)) {
                return Err(FactsError::Range { entry, field: "zipf", range: "from 0 to 4" });
            }
            let is_share = |share: &f64| (0.0..=1.0).contains(share);
            let is_whole = |shares: &Vec<f64>| {
                shares.len() <= REUSE_BINS
                    && shares.iter().all(is_share)
                    && (shares.iter().sum::<f64>() - 1.0).abs() < 0.01
            };
            if fact.histogram.as_ref().is_some_and(|shares| !is_whole(shares)) {
                return Err(FactsError::Range { entry, field: "histogram", range: "up to 17 shares that add up to 1" });
            }
        }
        Ok(facts)
    }

    /// Fills in what is told of the collectives of `graph`; the later entry of two that describe one is taken.
    ///
    /// # Returns
    /// What is odd about entries, in words: those that describe none, and those that tell other than the trace.
    ///
    /// # Complexity
    /// O(tasks + collectives · entries).
    pub fn complete_collectives(&self, graph: &mut ExecutionGraph) -> Vec<String> {
        if self.collectives.is_empty() {
            return Vec::new();
        }
        let within = graph.iteration_tasks();
        let known = |one: &Collective| {
            (Some(one.group_size).filter(|&ranks| ranks > 0), Some(one.bytes).filter(|bytes| bytes.0 > 0))
        };
        let recorded: Vec<(Option<u32>, Option<Bytes>)> = graph.collectives.iter().map(known).collect();
        let mut odd = Vec::new();
        for (entry, fact) in self.collectives.iter().enumerate() {
            let (mut place, mut is_matched) = (0, false);
            let (mut groups, mut messages) = (Compared::default(), Compared::default());
            for (at, &(recorded_ranks, recorded_bytes)) in recorded.iter().enumerate() {
                let one = &graph.collectives[at];
                let is = |wanted: &Option<String>, name| wanted.as_ref().is_none_or(|it| *it == graph.names.get(name));
                if !is(&fact.kind, one.kind) || !is(&fact.group, one.group) {
                    continue;
                }
                let is_inside = one.members.iter().any(|member| within[member.index()]);
                place += usize::from(is_inside);
                if fact.place.is_some_and(|wanted| wanted != place || !is_inside) {
                    continue;
                }
                is_matched = true;
                let members = one.members.clone();
                let one = &mut graph.collectives[at];
                if let Some(ranks) = fact.ranks {
                    groups.add(recorded_ranks, ranks);
                    one.group_size = ranks;
                }
                let Some(bytes) = fact.message() else { continue };
                messages.add(recorded_bytes, bytes);
                one.bytes = bytes;
                for member in members {
                    graph.tasks[member].bytes = bytes;
                }
            }
            let entry = format!("entry {} of collectives", entry + 1);
            odd.extend((!is_matched).then(|| format!("{entry} describes none of the iteration")));
            odd.extend(groups.contradiction(&entry, "ranks of a group"));
            odd.extend(messages.contradiction(&entry, "message"));
        }
        odd
    }

    /// The table an entry speaks of: by number, else the next of its rank. The tables are in order.
    fn targets(&self, tables: &[Table], ranks: &[RankPart]) -> Vec<Option<usize>> {
        let mut next = vec![0; ranks.len()];
        let target = |fact: &TableFact| {
            if let Some(id) = &fact.id {
                return id.strip_prefix('t')?.parse().ok().filter(|&index: &usize| index < tables.len());
            }
            let rank = ranks.binary_search_by_key(&fact.rank?, |part| part.rank.0).ok()?;
            let found = super::on(tables, rank).nth(next[rank]);
            next[rank] += 1;
            found
        };
        self.tables.iter().map(target).collect()
    }

    /// What is told of each table, by the first entry that names it, as far as the sums that were recorded allow; with what is not
    /// taken, in words.
    fn told(&self, tables: &[Table], ranks: &[RankPart]) -> (Vec<Told>, Vec<String>) {
        let (mut told, mut odd): (Vec<Told>, Vec<String>) = (Vec::new(), Vec::new());
        for (at, (fact, target)) in self.tables.iter().zip(self.targets(tables, ranks)).enumerate() {
            let (Some(table), entry) = (target, at + 1) else { continue };
            if let Some(first) = told.iter().find(|earlier| earlier.table == table).map(|earlier| earlier.entry) {
                odd.push(format!(
                    "entry {entry} of tables: t{table} is told of by entry {first}, and this one is not taken"
                ));
            } else {
                told.push(Told { entry, table, fact: fact.clone() });
            }
        }
        odd.extend(without_excess(&mut told, tables));
        (told, odd)
    }

    /// Figures of `tables` that are told other than the trace has them, and entries that are not taken, in words.
    pub(super) fn contradictions(&self, tables: &[Table], ranks: &[RankPart]) -> Vec<String> {
        let (told, mut odd) = self.told(tables, ranks);
        for Told { entry, table, fact } in told {
            let table = &tables[table];
            // A mean over tables says nothing of one of them.
            if table.is_mean {
                continue;
            }
            let entry = format!("entry {entry} of tables");
            for (what, recorded, told) in [("rows", table.rows, fact.rows), ("dim", table.dim, fact.dim)] {
                let mut sizes = Compared::default();
                sizes.add(recorded, told.or(recorded).unwrap_or_default());
                odd.extend(sizes.contradiction(&entry, what));
            }
        }
        odd
    }

    /// Whether it is told of any table which rows a batch looks up.
    pub(crate) fn tell_reuse(&self) -> bool {
        self.tables.iter().any(|fact| fact.reuse().is_some())
    }

    /// Entries that no table answers to, from 1; those of ranks for which another stands are not looked up on their own.
    pub fn unmatched(&self, tables: &[Table], ranks: &[RankPart]) -> Vec<usize> {
        let folded: FxHashSet<u32> = ranks.iter().flat_map(|part| &part.others).map(|other| other.0).collect();
        let is_folded = |fact: &TableFact| fact.id.is_none() && fact.rank.is_some_and(|rank| folded.contains(&rank));
        let entries = self.targets(tables, ranks).into_iter().zip(&self.tables).enumerate();
        let unmatched = entries.filter(|(_, (target, fact))| target.is_none() && !is_folded(fact));
        unmatched.map(|(index, _)| index + 1).collect()
    }

    /// Fills in what is told; of an operator that serves several tables the others share what that leaves of the recorded sums, and
    /// its time is shared out by the rows it reads of each.
    pub(super) fn complete(&self, tables: &mut [Table], ranks: &[RankPart]) {
        if self.tables.is_empty() {
            return;
        }
        let ((told, _), recorded) = (self.told(tables, ranks), tables.to_vec());
        for Told { table, fact, .. } in &told {
            let table = &mut tables[*table];
            table.rows = fact.rows.or(table.rows);
            table.dim = fact.dim.or(table.dim);
            table.pooling = fact.pooling.or(table.pooling);
            table.reuse = fact.reuse().unwrap_or_else(|| table.reuse.clone());
            table.bytes = table.rows.zip(table.dim).map(|(rows, dim)| Bytes(elements(&[rows, dim, 4])));
            table.is_mean &= fact.rows.is_none() || fact.dim.is_none() || fact.pooling.is_none();
        }
        share_rest(&told, &recorded, tables);
        (0..ranks.len()).for_each(|rank| share_times(tables, rank));
    }
}

/// How often a figure is told other than the trace has it, and the first of both.
#[derive(Clone, Copy, Debug)]
struct Compared<T> {
    count: usize,
    first: Option<(T, T)>,
}

impl<T> Default for Compared<T> {
    fn default() -> Self {
        Self { count: 0, first: None }
    }
}

impl<T: Copy + PartialEq + Display> Compared<T> {
    fn add(&mut self, recorded: Option<T>, told: T) {
        if let Some(recorded) = recorded.filter(|&recorded| recorded != told) {
            self.count += 1;
            self.first.get_or_insert((recorded, told));
        }
    }

    /// What it comes to, in words.
    fn contradiction(&self, entry: &str, what: &str) -> Option<String> {
        let (recorded, told) = self.first?;
        let often = if self.count > 1 { format!(" ({} times)", self.count) } else { String::new() };
        Some(format!("{entry}: {what} {recorded} by the trace, {told} taken as told{often}"))
    }
}

/// Shares the look-up time of a rank's tables out by elements read, where every table's are known.
fn share_times(tables: &mut [Table], rank: usize) {
    let on = super::on(tables, rank);
    let own = &mut tables[on];
    let read: Option<Vec<f64>> = own.iter().map(|table| table.sizes().map(|sizes| sizes.pooling * sizes.dim)).collect();
    let Some(read) = read.filter(|read| read.iter().sum::<f64>() > 0.0) else { return };
    let whole: f64 = read.iter().sum();
    let forward: DurNs = own.iter().map(|table| table.forward).sum();
    let backward: DurNs = own.iter().map(|table| table.backward).sum();
    for (table, read) in own.iter_mut().zip(read) {
        table.forward = forward.scale(read / whole);
        table.backward = backward.scale(read / whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_say_where() {
        let error = |text: &str| TableFacts::from_toml(text).unwrap_err().to_string();
        assert!(error("[[table]]\nrows = 3").starts_with("table 1: needs"));
        assert_eq!(error("[[table]]\nrank = 0\n[[table]]\nrank = 0\nrows = 0"), "table 2: rows must be from 1 to 2^36");
        assert_eq!(error("[[table]]\nid = \"t0\"\npooling = nan"), "table 1: pooling must be from 0 to 1e6");
        let huge = "[[table]]\nrank = 0\nrows = 9223372036854775807";
        assert_eq!(error(huge), "table 1: rows must be from 1 to 2^36");
        assert_eq!(error("[[table]]\nrank = 1\nunique = 1.5"), "table 1: unique must be above 0 and at most 1");
        assert_eq!(error("[[table]]\nrank = 1\nzipf = -1"), "table 1: zipf must be from 0 to 4");
        let histogram = "[[table]]\nrank = 1\nhistogram = [0.5, 0.4]";
        assert_eq!(error(histogram), "table 1: histogram must be up to 17 shares that add up to 1");
        assert!(error("[[table]]\nrank = 0\nrow = 3").contains("unknown field `row`"));
        assert_eq!(error("[[collective]]\nkind = \"all-reduce\""), "collective 1: needs `bytes`, `mib` or `ranks`");
        assert_eq!(error("[[collective]]\nranks = 1"), "collective 1: ranks must be 2 or more");
    }

    #[test]
    fn messages_are_told_once_and_fit_a_memory() {
        let read =
            |text: &str| TableFacts::from_toml(&format!("[[collective]]\n{text}")).map_err(|error| error.to_string());
        let bytes = Err("collective 1: bytes must be from 1 to 2^40".to_owned());
        assert_eq!(read("bytes = 9223372036854775807"), bytes);
        assert_eq!(read("bytes = 0"), bytes);
        for size in ["8e12", "1e-9", "nan", "inf", "-1"] {
            assert_eq!(read(&format!("mib = {size}")), Err("collective 1: mib must be from 1 byte to 2^20".to_owned()));
        }
        assert_eq!(read("bytes = 1\nmib = 1"), Err("collective 1: takes `bytes` or `mib`, not both".to_owned()));
        assert!(read("bytes = 1099511627776").is_ok() && read("mib = 1048576").is_ok() && read("mib = 1e-6").is_ok());
    }
}
