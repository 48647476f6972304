//! How far kernels of running models lie from predictions that no measurement anchors.
//!
//! Tables repeat one kernel with warm caches; a model runs others before it, with other libraries. What tables say of a model's error
//! is therefore too little for a traced kernel.

use serde::Serialize;

use super::domain::Domain;
use super::work::{Family, Work};

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
pub const FEWEST_TRACES: usize = 3;

const fn row(of: &'static str, error: f64, n: usize, traces: usize) -> TraceError<&'static str> {
    TraceError { of, error, n, traces }
}

/// The errors over the traces at hand, as `validate models TRACES --json` gives them.
const MEASURED: [TraceError<&str>; 15] = [
    row("attention", 0.33, 6, 6),
    row("batched-gemm", 0.273, 21, 4),
    row("conv", 0.272, 114, 6),
    row("elementwise", 0.171, 144, 14),
    row("embedding", 2.808, 21, 2),
    row("gemm16", 0.191, 38, 8),
    row("linear", 0.17, 34, 7),
    row("movement", 0.405, 166, 13),
    row("norm", 0.182, 54, 9),
    row("optimizer", 0.252, 14, 4),
    row("pooling", 0.182, 16, 3),
    row("reduction", 0.207, 39, 10),
    row("softmax", 0.522, 3, 2),
    row("tf32", 0.255, 91, 1),
    row(ANY, 0.253, 761, 16),
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

/// The group of works that share an error with `work`: its domain; what streams memory has one model and many kinds of kernel,
/// and is told apart by family.
pub fn group(work: &Work) -> &'static str {
    match Domain::of(work) {
        None | Some(Domain::Streaming) => work.family.name(),
        Some(domain) => domain.name(),
    }
}
