//! Errors of unanchored predictions over kernels of traces, and how often bands of those errors hold for a trace left out of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use retime_core::cost::trace_error::{ANY, CLAIMED, TraceError, row_of};
use retime_core::stats;

/// A kernel against its unanchored prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KernelError {
    /// Its group of works.
    pub(crate) of: &'static str,
    /// Whether it ran on a GPU of AMD.
    pub(crate) is_amd: bool,
    /// Calls of one kernel with one work share it.
    pub(crate) kind: u64,
    /// `|measured/predicted − 1|`.
    pub(crate) off: f64,
    /// Error of the model itself, which a statement never falls below.
    pub(crate) model: f64,
}

/// Errors by group over `traces`, those of AMD's GPUs after the others, each time those of all together last.
pub(crate) fn trace_errors(traces: &[&[KernelError]]) -> Vec<TraceError> {
    let mut pools: BTreeMap<(bool, bool, &str), Pool> = BTreeMap::new();
    for trace in traces {
        let own = weighed(trace);
        let kernels = || trace.iter().zip(&own);
        let named: BTreeSet<_> = trace.iter().map(|kernel| (kernel.is_amd, false, kernel.of)).collect();
        let every: BTreeSet<_> = trace.iter().map(|kernel| (kernel.is_amd, true, ANY)).collect();
        for key @ (is_amd, is_any, of) in named.into_iter().chain(every) {
            let is_of = |kernel: &KernelError| kernel.is_amd == is_amd && (is_any || kernel.of == of);
            pools.entry(key).or_default().add(kernels().filter(|(kernel, _)| is_of(kernel)).map(|(_, off)| *off));
        }
    }
    pools.into_iter().map(|((is_amd, _, of), pool)| pool.error(of, is_amd)).collect()
}

/// What kernels of several traces kernel by, each with its share of its kind.
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

    fn error(self, of: &str, is_amd: bool) -> TraceError {
        let n = self.offs.iter().map(|(_, weight)| weight).sum::<f64>().round() as usize;
        TraceError { of: of.to_owned(), is_amd, error: quantile(self.offs), n, traces: self.traces }
    }
}

/// How far each kernel is off, with its share of its kind.
fn weighed(trace: &[KernelError]) -> Vec<(f64, f64)> {
    let mut calls: BTreeMap<(&str, u64), f64> = BTreeMap::new();
    for kernel in trace {
        *calls.entry((kernel.of, kernel.kind)).or_default() += 1.0;
    }
    trace.iter().map(|kernel| (kernel.off, 1.0 / calls[&(kernel.of, kernel.kind)])).collect()
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
pub(crate) fn inside_left_out(traces: &[Vec<KernelError>]) -> Vec<Vec<bool>> {
    let of_trace = |(at, trace): (usize, &Vec<KernelError>)| {
        let others: Vec<&[KernelError]> = traces
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, kernels)| kernels.as_slice())
            .collect();
        let errors = trace_errors(&others);
        let inside = |kernel: &KernelError| {
            let error = row_of(&errors, kernel.of, kernel.is_amd).map_or(0.0, |row| row.error);
            kernel.off <= error.max(kernel.model)
        };
        trace.iter().map(inside).collect()
    };
    traces.iter().enumerate().map(of_trace).collect()
}

/// How many of the answers of [`inside_left_out`] are yes.
pub(crate) fn coverage(inside: &[Vec<bool>]) -> Coverage {
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

    fn kernels(offs: &[(u64, f64)]) -> Vec<KernelError> {
        offs.iter().map(|&(kind, off)| KernelError { of: "norm", is_amd: false, kind, off, model: 0.05 }).collect()
    }

    #[test]
    fn every_kind_counts_the_same_however_often_it_is_called() {
        let often = kernels(&[(1, 0.1); 900]);
        let errors = trace_errors(&[&often, &kernels(&[(1, 0.5)]), &kernels(&[(1, 0.2)])]);
        let norm = &errors[0];
        assert_eq!((norm.of.as_str(), norm.n, norm.traces), ("norm", 3, 3));
        assert!((norm.error - 0.5).abs() < 1e-9, "two of three kinds are within 0.2, 68 % are not: {norm:?}");
        let alone = trace_errors(&[&often]);
        assert!((alone[0].error - 0.1).abs() < 1e-9 && alone[1].of == ANY);
    }

    #[test]
    fn the_band_of_a_trace_is_of_the_others_only() {
        let traces = [
            kernels(&[(1, 0.1), (2, 0.2)]),
            kernels(&[(1, 0.1)]),
            kernels(&[(3, 0.12)]),
            kernels(&[(4, 0.9), (5, 0.04)]),
        ];
        let inside = inside_left_out(&traces);
        assert_eq!(inside[3], [false, true], "its own 0.9 widens no band of its own");
        let all = coverage(&inside);
        assert_eq!((all.n, all.traces), (6, 4));
        assert!(all.by_trace > 0.0 && all.by_trace <= 1.0);
        let one = inside_left_out(&[kernels(&[(1, 0.04), (2, 0.06)])]);
        assert_eq!(one[0], [true, false], "without others the model's own error is left");
    }
}
