//! How far kernels of running models lie from predictions that no measurement anchors, and how that is measured.
//!
//! Tables repeat one kernel with warm caches; a model runs others before it, with other libraries. What tables say of a model's error
//! is therefore too little for a traced kernel. Knows predictions and times, not where either came from.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::domain::Domain;
use super::work::{Family, Work};
use crate::stats;

/// Error of unanchored predictions, by domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceError<N = String> {
    /// The domain, of works without one the family; [`ANY`] of all together.
    pub of: N,
    /// Relative error that [`CLAIMED`] of the kinds of kernel do not exceed.
    pub error: f64,
    /// Kinds of kernel behind it: calls of one name with one work in a trace are one kind, however many.
    pub n: usize,
    /// Traces behind it.
    pub traces: usize,
}

/// Share of measurements that a stated band claims to hold: one standard deviation.
pub const CLAIMED: f64 = 0.68;
/// What stands for works of which too few traces tell.
pub const ANY: &str = "any";
/// Fewest traces whose kernels say something of another.
const FEWEST_TRACES: usize = 3;

const fn row(of: &'static str, error: f64, n: usize, traces: usize) -> TraceError<&'static str> {
    TraceError { of, error, n, traces }
}

/// The errors over the traces at hand, as `validate models TRACES --json` gives them.
const MEASURED: [TraceError<&str>; 10] = [
    row("attention", 0.392, 6, 6),
    row("batched-gemm", 0.356, 22, 4),
    row("conv", 0.4, 114, 6),
    row("embedding", 2.808, 21, 2),
    row("gemm16", 0.26, 130, 9),
    row("linear", 0.182, 38, 7),
    row("norm", 0.179, 53, 9),
    row("softmax", 0.465, 3, 2),
    row("streaming", 0.311, 388, 16),
    row(ANY, 0.296, 775, 16),
];

/// The errors that predictions state.
pub fn stated_errors() -> &'static [TraceError<&'static str>] {
    &MEASURED
}

/// Error stated for `work` where nothing anchors its prediction. Copies state their own, which is one of traces already.
pub fn trace_error(work: &Work) -> f32 {
    if work.family == Family::Transfer {
        return 0.0;
    }
    let of = |name: &str| MEASURED.iter().find(|row| row.of == name && row.traces >= FEWEST_TRACES);
    of(group(work)).or_else(|| MEASURED.iter().find(|row| row.of == ANY)).map_or(0.0, |row| row.error as f32)
}

/// With which works `work` shares an error.
pub fn group(work: &Work) -> &'static str {
    Domain::of(work).map_or(work.family.name(), Domain::name)
}

/// A kernel against its unanchored prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// As [`group`] says.
    pub of: &'static str,
    /// Calls of one kernel with one work share it.
    pub kind: u64,
    /// `|measured/predicted − 1|`.
    pub off: f64,
    /// Error of the model itself, which a statement never falls below.
    pub model: f64,
}

/// Errors by group over `traces`, those of all together last.
pub fn trace_errors(traces: &[&[Miss]]) -> Vec<TraceError> {
    let mut groups: BTreeMap<&str, Pool> = BTreeMap::new();
    let mut every = Pool::default();
    for trace in traces.iter().filter(|trace| !trace.is_empty()) {
        let own = weighed(trace);
        let named: BTreeSet<&str> = trace.iter().map(|miss| miss.of).collect();
        for of in named {
            groups
                .entry(of)
                .or_default()
                .add(trace.iter().zip(&own).filter(|(miss, _)| miss.of == of).map(|(_, off)| *off));
        }
        every.add(own);
    }
    groups.into_iter().chain([(ANY, every)]).map(|(of, pool)| pool.error(of)).collect()
}

/// What kernels of several traces miss by, each with its share of its kind.
#[derive(Default)]
struct Pool {
    offs: Vec<(f64, f64)>,
    traces: usize,
}

impl Pool {
    fn add(&mut self, trace: impl IntoIterator<Item = (f64, f64)>) {
        self.offs.extend(trace);
        self.traces += 1;
    }

    fn error(self, of: &str) -> TraceError {
        let n = self.offs.iter().map(|(_, weight)| weight).sum::<f64>().round() as usize;
        TraceError { of: of.to_owned(), error: quantile(self.offs), n, traces: self.traces }
    }
}

/// How far each kernel is off, with its share of its kind.
fn weighed(trace: &[Miss]) -> Vec<(f64, f64)> {
    let mut calls: BTreeMap<(&str, u64), f64> = BTreeMap::new();
    for miss in trace {
        *calls.entry((miss.of, miss.kind)).or_default() += 1.0;
    }
    trace.iter().map(|miss| (miss.off, 1.0 / calls[&(miss.of, miss.kind)])).collect()
}

/// What [`CLAIMED`] of the values, each with its weight, do not exceed.
fn quantile(all: Vec<(f64, f64)>) -> f64 {
    stats::weighted_quantile(all, CLAIMED).unwrap_or_default()
}

/// How many kernels lie inside bands that were measured on other traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    /// Kernels.
    pub n: usize,
    /// Traces.
    pub traces: usize,
    /// Share of the kernels inside.
    pub inside: f64,
    /// Mean over traces of that share.
    pub by_trace: f64,
    /// What is claimed.
    pub claimed: f64,
}

/// Whether each kernel of `traces` lies inside the band that the other traces give.
pub fn left_out(traces: &[Vec<Miss>]) -> Vec<Vec<bool>> {
    let judge = |(at, trace): (usize, &Vec<Miss>)| {
        let others: Vec<&[Miss]> =
            traces.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, misses)| misses.as_slice()).collect();
        let errors = trace_errors(&others);
        let of = |name: &str| errors.iter().find(|row| row.of == name && (row.traces >= FEWEST_TRACES || name == ANY));
        let inside = |miss: &Miss| {
            let error = of(miss.of).or_else(|| of(ANY)).map_or(0.0, |row| row.error);
            miss.off <= error.max(miss.model)
        };
        trace.iter().map(inside).collect()
    };
    traces.iter().enumerate().map(judge).collect()
}

/// What the answers of [`left_out`] come to.
pub fn coverage(inside: &[Vec<bool>]) -> Coverage {
    let share = |of: &[bool]| of.iter().filter(|&&inside| inside).count() as f64 / of.len().max(1) as f64;
    let traces: Vec<f64> = inside.iter().filter(|trace| !trace.is_empty()).map(|trace| share(trace)).collect();
    let all = inside.concat();
    Coverage {
        n: all.len(),
        traces: traces.len(),
        inside: share(&all),
        by_trace: traces.iter().sum::<f64>() / traces.len().max(1) as f64,
        claimed: CLAIMED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(offs: &[(u64, f64)]) -> Vec<Miss> {
        offs.iter().map(|&(kind, off)| Miss { of: "norm", kind, off, model: 0.05 }).collect()
    }

    #[test]
    fn every_kind_counts_the_same_however_often_it_is_called() {
        let often = misses(&[(1, 0.1); 900]);
        let errors = trace_errors(&[&often, &misses(&[(1, 0.5)]), &misses(&[(1, 0.2)])]);
        let norm = &errors[0];
        assert_eq!((norm.of.as_str(), norm.n, norm.traces), ("norm", 3, 3));
        assert!((norm.error - 0.5).abs() < 1e-9, "two of three kinds are within 0.2, 68 % are not: {norm:?}");
        let alone = trace_errors(&[&often]);
        assert!((alone[0].error - 0.1).abs() < 1e-9 && alone[1].of == ANY);
    }

    #[test]
    fn a_trace_is_judged_by_the_others_only() {
        let traces =
            [misses(&[(1, 0.1), (2, 0.2)]), misses(&[(1, 0.1)]), misses(&[(3, 0.12)]), misses(&[(4, 0.9), (5, 0.04)])];
        let inside = left_out(&traces);
        assert_eq!(inside[3], [false, true], "its own 0.9 widens no band of its own");
        let all = coverage(&inside);
        assert_eq!((all.n, all.traces), (6, 4));
        assert!(all.by_trace > 0.0 && all.by_trace <= 1.0);
        let one = left_out(&[misses(&[(1, 0.04), (2, 0.06)])]);
        assert_eq!(one[0], [true, false], "without others the model's own error is left");
    }
}
