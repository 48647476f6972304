//! Host overheads T1–T5 per operator: statistics, their database, and how they are looked up [Lin 2022 §III-C].
//!
//! T1 lies between top-level operators, T2 before the first launch of one, T3 after its last, T4 is a runtime call,
//! T5 lies between two launches (or is all of an operator without any).

mod extract;
mod spans;
mod spread;

use std::collections::BTreeMap;

use crate::stats;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use extract::{ProfilerCost, extract, statistics};
pub(crate) use spans::LONGEST_GAP;
pub use spans::{OverheadSpan, OverheadSpans, kind_of};
pub use spread::{Spread, ranks};

/// The five kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OverheadKind {
    /// Between two top-level operators of a thread.
    T1,
    /// From an operator's start to its first runtime call.
    T2,
    /// From its last runtime call to its end.
    T3,
    /// A runtime call.
    T4,
    /// Between two runtime calls, or all of an operator without one.
    T5,
}

/// Mean and spread of one kind of overhead of one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistic {
    /// Mean in µs.
    pub mean_us: f64,
    /// Standard deviation in µs.
    pub std_us: f64,
    /// Measurements behind it.
    pub count: u64,
}

/// One row of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadRow {
    /// Which overhead.
    #[serde(rename = "type")]
    pub kind: OverheadKind,
    /// Operator, or runtime call for T4; empty for T1.
    pub op: String,
    /// Mean in µs.
    pub mean_us: f64,
    /// Standard deviation in µs.
    pub std_us: f64,
    /// Measurements behind it.
    pub count: u64,
    /// All calls in rising order, as recorded, in µs; of many the means of equally many. Empty where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls_us: Vec<f64>,
}

/// A database that cannot be used.
#[derive(Debug, Error)]
pub enum OverheadError {
    /// Not JSON of the expected form.
    #[error("overhead database, line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was expected.
        message: String,
    },
    /// A figure that no overhead can have.
    #[error("overhead database: {kind:?} of `{op}` has {key} {value:e}: expected µs from 0 to an hour")]
    BadFigure {
        /// Which overhead.
        kind: OverheadKind,
        /// Its operator.
        op: String,
        /// The key.
        key: &'static str,
        /// As written.
        value: f64,
    },
    /// A mean that its own calls rule out.
    #[error(
        "overhead database: {kind:?} of `{op}` has mean_us {mean_us}, which its calls_us rule out: from {least:.3} to {most:.3}"
    )]
    Contradiction {
        /// Which overhead.
        kind: OverheadKind,
        /// Its operator.
        op: String,
        /// As written.
        mean_us: f64,
        /// The least that it can be.
        least: f64,
        /// The most that it can be.
        most: f64,
    },
}

/// Overhead statistics by kind and operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overheads {
    source: String,
    entries: BTreeMap<(OverheadKind, String), Statistic>,
    spreads: BTreeMap<(OverheadKind, String), Spread>,
}

#[derive(Serialize, Deserialize)]
struct Database {
    #[serde(default)]
    source: String,
    rows: Vec<OverheadRow>,
}

impl Overheads {
    /// An empty database with a note where its figures are from.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// The database that comes with the program: published means of DLRM and other models on V100.
    ///
    /// # Errors
    /// The built-in file is damaged.
    pub fn builtin() -> Result<Self, OverheadError> {
        Self::from_json(include_str!("../catalog/overheads.json"))
    }

    /// Reads a database.
    ///
    /// # Errors
    /// Not JSON of this form, or a figure that is negative or not a number.
    pub fn from_json(text: &str) -> Result<Self, OverheadError> {
        let database: Database = serde_json::from_str(text).map_err(|error| OverheadError::Syntax {
            line: error.line(),
            column: error.column(),
            message: error.to_string(),
        })?;
        let mut overheads = Self::new(database.source);
        for OverheadRow { kind, op, mean_us, std_us, count, calls_us } in database.rows {
            let calls = calls_us.iter().map(|&us| ("calls_us", us));
            for (key, value) in [("mean_us", mean_us), ("std_us", std_us)].into_iter().chain(calls) {
                if !(0.0..=LONGEST_CALL_US).contains(&value) {
                    return Err(OverheadError::BadFigure { kind, op, key, value });
                }
            }
            let spread = Spread::of_equal(calls_us);
            if let Some((least, most)) = mean_range(kind, &spread).filter(|range| !is_within(mean_us, *range)) {
                return Err(OverheadError::Contradiction { kind, op, mean_us, least, most });
            }
            overheads.add_all(kind, &op, Statistic { mean_us, std_us, count }, Some(&spread));
        }
        Ok(overheads)
    }

    /// The database as JSON, rows in order of kind and operator.
    pub fn to_json(&self) -> String {
        let database = Database { source: self.source.clone(), rows: self.rows().collect() };
        serde_json::to_string_pretty(&database).unwrap_or_default()
    }

    /// All rows in order of kind and operator.
    pub fn rows(&self) -> impl Iterator<Item = OverheadRow> {
        self.entries.iter().map(|((kind, op), statistic)| {
            let Statistic { mean_us, std_us, count } = *statistic;
            let calls_us = self.spreads.get(&(*kind, op.clone())).map_or(Vec::new(), |spread| spread.values().to_vec());
            OverheadRow { kind: *kind, op: op.clone(), mean_us, std_us, count, calls_us }
        })
    }

    /// How the calls of an operator, or of its like in another version of the framework, spread; `None` where that is not known.
    pub fn spread(&self, kind: OverheadKind, op: &str) -> Option<&Spread> {
        self.spreads.get(&(kind, op.to_owned())).or_else(|| {
            let wanted = plain(op);
            self.spreads.iter().find(|((own, name), _)| *own == kind && plain(name) == wanted).map(|(_, spread)| spread)
        })
    }

    /// Adds a statistic; one that is there already is pooled with it.
    pub fn add(&mut self, kind: OverheadKind, op: &str, statistic: Statistic) {
        let pooled = |old: &mut Statistic| *old = old.pooled(statistic);
        self.entries.entry((kind, op.to_owned())).and_modify(pooled).or_insert(statistic);
    }

    /// Adds a statistic with how its calls spread; those of which that is not known count as their mean.
    fn add_all(&mut self, kind: OverheadKind, op: &str, statistic: Statistic, spread: Option<&Spread>) {
        let key = (kind, op.to_owned());
        let each_the_mean = |statistic: Statistic| Spread::of(vec![(statistic.mean_us, 1.0)]);
        let known = |spread: &&Spread| !spread.values().is_empty();
        let before = self.entries.get(&key).copied();
        let merged = match (before, self.spreads.get(&key), spread.filter(known)) {
            (_, None, None) => None,
            (None, _, own) => own.cloned(),
            (Some(before), old, own) => {
                let (old, own) = (old.cloned(), own.cloned());
                let old = old.unwrap_or_else(|| each_the_mean(before));
                let own = own.unwrap_or_else(|| each_the_mean(statistic));
                Some(old.merged(before.count, &own, statistic.count))
            }
        };
        self.spreads.extend(merged.map(|spread| (key, spread)));
        self.add(kind, op, statistic);
    }

    /// Pools all of `other` into this database, each statistic weighted by its count.
    pub fn merge(&mut self, other: &Self) {
        for ((kind, op), statistic) in &other.entries {
            self.add_all(*kind, op, *statistic, other.spreads.get(&(*kind, op.clone())));
        }
        if !other.source.is_empty() && other.source != self.source {
            let both = [self.source.as_str(), other.source.as_str()];
            self.source = both.into_iter().filter(|source| !source.is_empty()).collect::<Vec<_>>().join("; ");
        }
    }

    /// The statistic of `kind` for operator (or runtime call) `op`: its own; else that of the same name in another
    /// version of the framework (`AddmmBackward0`, `AddmmBackward`); else the mean over all operators of that kind.
    /// `None` only when there is none of that kind.
    pub fn get(&self, kind: OverheadKind, op: &str) -> Option<Statistic> {
        self.own(kind, op).or_else(|| self.pooled(kind))
    }

    /// As [`get`](Self::get), without the mean over others.
    pub fn own(&self, kind: OverheadKind, op: &str) -> Option<Statistic> {
        let exact = self.entries.get(&(kind, op.to_owned())).copied();
        exact.or_else(|| self.renamed(kind, op))
    }

    fn renamed(&self, kind: OverheadKind, op: &str) -> Option<Statistic> {
        let wanted = plain(op);
        let of_kind = self.entries.iter().filter(|((own, _), _)| *own == kind);
        of_kind.into_iter().find(|((_, name), _)| plain(name) == wanted).map(|(_, statistic)| *statistic)
    }

    fn pooled(&self, kind: OverheadKind) -> Option<Statistic> {
        let of_kind = self.entries.iter().filter(|((own, _), _)| *own == kind).map(|(_, statistic)| *statistic);
        of_kind.reduce(Statistic::pooled)
    }
}

/// A name without what versions of the framework change: the engine's prefix, trailing digits, a trailing underscore.
fn plain(op: &str) -> &str {
    let name = crate::graph::operator::without_engine(op);
    let name = name.strip_prefix("torch::autograd::").unwrap_or(name);
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_')
}

/// What the mean of calls that spread so can be, in µs: of all but outliers, which are never half of them, less what the profiler costs,
/// which is nothing between operators.
fn mean_range(kind: OverheadKind, spread: &Spread) -> Option<(f64, f64)> {
    let (least, most) = spread.means_of_half()?;
    Some((if kind == OverheadKind::T1 { least } else { 0.0 }, most))
}

/// Whether a mean lies in a range, as far as figures are written out.
fn is_within(mean_us: f64, (least, most): (f64, f64)) -> bool {
    (0.99 * least..=1.01 * most).contains(&mean_us)
}

/// The longest that a call of the host is taken to last, in µs: an hour.
const LONGEST_CALL_US: f64 = 3.6e9;

impl Statistic {
    /// Mean and spread of a sample; `None` of an empty one.
    pub fn of(sample_us: &[f64]) -> Option<Self> {
        let (mean_us, std_us) = stats::mean_and_deviation(sample_us)?;
        Some(Self { mean_us, std_us, count: sample_us.len() as u64 })
    }

    /// The statistic of both samples together.
    #[must_use]
    pub fn pooled(self, other: Self) -> Self {
        let (n, m) = (self.count.max(1) as f64, other.count.max(1) as f64);
        let mean = (n * self.mean_us + m * other.mean_us) / (n + m);
        let square = |part: Self| part.std_us.powi(2) + (part.mean_us - mean).powi(2);
        let variance = (n * square(self) + m * square(other)) / (n + m);
        Self { mean_us: mean, std_us: variance.sqrt(), count: self.count.saturating_add(other.count) }
    }
}

/// The values within [`fences`], sorted.
pub(crate) fn without_outliers(mut sample_us: Vec<f64>) -> Vec<f64> {
    let Some((low, high)) = fences(&mut sample_us) else { return sample_us };
    sample_us.retain(|&value| value >= low && value <= high);
    sample_us
}

/// Sorts a sample and gives `Q1 − 1.5·IQR` and `Q3 + 1.5·IQR`; quartiles are interpolated between neighbours. `None` of an
/// empty one.
fn fences(sample_us: &mut Vec<f64>) -> Option<(f64, f64)> {
    sample_us.retain(|value| value.is_finite());
    sample_us.sort_by(f64::total_cmp);
    let (q1, q3) = (stats::interpolated_quantile(sample_us, 0.25)?, stats::interpolated_quantile(sample_us, 0.75)?);
    let reach = 1.5 * (q3 - q1);
    Some((q1 - reach, q3 + reach))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_two_samples_gives_the_statistic_of_both_together() {
        let (a, b) = ([1.0, 2.0, 6.0], [10.0, 20.0]);
        let pooled = Statistic::of(&a).unwrap().pooled(Statistic::of(&b).unwrap());
        let whole = Statistic::of(&[1.0, 2.0, 6.0, 10.0, 20.0]).unwrap();
        assert!((pooled.mean_us - whole.mean_us).abs() < 1e-12 && (pooled.std_us - whole.std_us).abs() < 1e-12);
        assert_eq!(pooled.count, 5);
    }

    #[test]
    fn counts_that_no_number_holds_stay_the_largest_and_no_call_lasts_longer_than_an_hour() {
        let often = Statistic { count: u64::MAX, ..Statistic::of(&[1.0]).unwrap() };
        assert_eq!(often.pooled(often).count, u64::MAX);
        let (mut few, one) = (Overheads::new("here".to_owned()), Statistic::of(&[1.0]).unwrap());
        few.add(OverheadKind::T1, "", Statistic { mean_us: 1e10, ..one });
        assert!(Overheads::from_json(&few.to_json()).unwrap_err().to_string().contains("to an hour"));
    }

    #[test]
    fn outliers_beyond_one_and_a_half_interquartile_ranges_are_dropped() {
        // Q1 = 2, Q3 = 4: kept are -1 to 7.
        assert_eq!(without_outliers(vec![3.0, 1.0, 100.0, 2.0, 4.0]), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(without_outliers(vec![5.0]), [5.0]);
        assert!(without_outliers(vec![f64::NAN]).is_empty());
    }

    #[test]
    fn the_builtin_database_knows_every_kind_and_survives_a_round_trip() {
        let builtin = Overheads::builtin().unwrap();
        for kind in [OverheadKind::T1, OverheadKind::T2, OverheadKind::T3, OverheadKind::T4, OverheadKind::T5] {
            assert!(builtin.get(kind, "aten::never_seen").unwrap().mean_us > 0.0);
        }
        assert_eq!(Overheads::from_json(&builtin.to_json()).unwrap(), builtin);
        assert!((builtin.get(OverheadKind::T1, "").unwrap().mean_us - 7.7).abs() < 1e-9);
    }

    #[test]
    fn operators_are_found_under_the_names_of_other_versions() {
        let builtin = Overheads::builtin().unwrap();
        let own = builtin.get(OverheadKind::T2, "AddmmBackward0");
        assert_eq!(builtin.get(OverheadKind::T2, "autograd::engine::evaluate_function: AddmmBackward0"), own);
        assert_eq!(builtin.get(OverheadKind::T2, "AddmmBackward"), own);
    }

    #[test]
    fn a_bad_database_says_where() {
        let bad = |text: &str| Overheads::from_json(text).unwrap_err().to_string();
        assert!(bad("{\n \"rows\": [\n  7").contains("line 3"));
        let row = r#"{"rows":[{"type":"T2","op":"x","mean_us":-1,"std_us":0,"count":1}]}"#;
        assert!(bad(row).contains("`x` has mean_us -1e0: expected µs"));
    }

    #[test]
    fn a_mean_that_its_own_calls_rule_out_is_refused() {
        let read = |kind: &str, mean: f64| {
            let row =
                format!(r#"{{"type":"{kind}","op":"x","mean_us":{mean},"std_us":0,"count":3,"calls_us":[5,6,40]}}"#);
            Overheads::from_json(&format!(r#"{{"rows":[{row}]}}"#)).map_err(|error| error.to_string())
        };
        let said = read("T2", 500.0).unwrap_err();
        assert!(
            said.contains("T2 of `x` has mean_us 500, which its calls_us rule out: from 0.000 to 23.000"),
            "{said}"
        );
        assert!(read("T1", 1.0).is_err() && read("T4", 24.0).is_err());
        assert!(read("T1", 5.5).is_ok() && read("T4", 0.0).is_ok() && read("T2", 0.5).is_ok());
    }

    #[test]
    fn calls_of_which_only_the_mean_is_known_count_as_that_in_a_merge() {
        let (mut few, mut many) = (Overheads::new("a"), Overheads::new("b"));
        let (kind, op) = (OverheadKind::T2, "x");
        let sample = [2.0, 4.0];
        let spread = Spread::of(sample.iter().map(|&us| (us, 1.0)).collect());
        few.add_all(kind, op, Statistic::of(&sample).unwrap(), Some(&spread));
        many.add(kind, op, Statistic { mean_us: 100.0, std_us: 1.0, count: 30 });
        for (first, second) in [(&few, &many), (&many, &few)] {
            let mut both = first.clone();
            both.merge(second);
            let used = both.spread(kind, op).and_then(Spread::mean).unwrap();
            let shown = both.get(kind, op).unwrap().mean_us;
            assert!((used / shown - 1.0).abs() < 1e-9, "{used} for {shown}");
            assert!(Overheads::from_json(&both.to_json()).is_ok());
        }
    }
}
