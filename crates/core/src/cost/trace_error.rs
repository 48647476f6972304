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
    /// Whether kernels of AMD's GPUs, or of others.
    pub is_amd: bool,
    /// Relative error that [`CLAIMED`] of the kinds of kernel do not exceed.
    pub error: f64,
    /// Kinds of kernel behind it: calls of one name with one work in a trace are one kind, however many.
    pub n: usize,
    /// Traces behind it.
    pub traces: usize,
}

impl<N> TraceError<N> {
    /// Whose GPUs it is of.
    pub fn maker(&self) -> &'static str {
        if self.is_amd { "AMD" } else { "NVIDIA" }
    }
}

/// Share of measurements that a stated band claims to hold: one standard deviation.
pub const CLAIMED: f64 = 0.68;
/// What stands for works of which too few traces tell.
pub const ANY: &str = "any";
/// Fewest traces whose kernels say something of another.
pub const FEWEST_TRACES: usize = 3;

const fn row(of: &'static str, error: f64, n: usize, traces: usize) -> TraceError<&'static str> {
    TraceError { of, is_amd: false, error, n, traces }
}

const fn amd(of: &'static str, error: f64, n: usize, traces: usize) -> TraceError<&'static str> {
    TraceError { is_amd: true, ..row(of, error, n, traces) }
}

/// The errors over the traces at hand, as `validate models TRACES --json` gives them: of our captures of an H100 one for each model and type
/// of numbers.
const MEASURED: [TraceError<&str>; 26] = [
    row("attention", 0.424, 11, 6),
    row("batched-gemm", 0.357, 43, 10),
    row("conv", 0.292, 309, 8),
    row("dropout", 0.32, 10, 3),
    row("elementwise", 0.259, 333, 25),
    row("embedding", 1.161, 58, 11),
    row("gemm16", 0.203, 82, 10),
    row("linear", 0.196, 138, 16),
    row("movement", 0.341, 482, 24),
    row("norm", 0.345, 157, 13),
    row("optimizer", 0.098, 81, 14),
    row("pooling", 0.186, 22, 6),
    row("reduction", 0.264, 148, 22),
    row("softmax", 0.361, 15, 8),
    row("tf32", 0.245, 120, 4),
    row(ANY, 0.289, 2009, 26),
    amd("attention", 0.347, 7, 6),
    amd("conv", 0.4, 13, 2),
    amd("elementwise", 0.645, 94, 7),
    amd("gemm16", 0.18, 22, 5),
    amd("movement", 0.675, 63, 7),
    amd("norm", 0.465, 32, 4),
    amd("optimizer", 1.611, 2, 1),
    amd("reduction", 0.136, 6, 4),
    amd("softmax", 0.052, 1, 1),
    amd(ANY, 0.57, 240, 11),
];

/// The errors that predictions state.
pub fn stated_errors() -> &'static [TraceError<&'static str>] {
    &MEASURED
}

/// Error stated for `work` on a GPU of AMD or another where nothing anchors its prediction. Copies state their own, which is one of traces
/// already.
pub fn trace_error(work: &Work, is_amd: bool) -> f32 {
    if work.family == Family::Transfer {
        return 0.0;
    }
    row_of(&MEASURED, group(work), is_amd).map_or(0.0, |row| row.error as f32)
}

/// Of `rows` the one of the group `of`, where enough traces tell of it, else that of all together.
pub fn row_of<'a, N: AsRef<str>>(rows: &'a [TraceError<N>], of: &str, is_amd: bool) -> Option<&'a TraceError<N>> {
    let named = |name: &str, fewest: usize| {
        rows.iter().find(|row| row.of.as_ref() == name && row.is_amd == is_amd && row.traces >= fewest)
    };
    named(of, FEWEST_TRACES).or_else(|| named(ANY, 1))
}

/// The group of works that share an error with `work`: its domain; what streams memory has one model and many kinds of kernel,
/// and is told apart by family.
pub fn group(work: &Work) -> &'static str {
    match Domain::of(work) {
        None | Some(Domain::Streaming) => work.family.name(),
        Some(domain) => domain.name(),
    }
}
