//! How far another recording of the same program is from a prediction: hosts are not equally fast twice.

use serde::Serialize;

use crate::units::{DurNs, Percent};

use super::summary::{ErrorBand, Summary};

/// How far host times of two recordings of one program on one machine are apart, by what two in three pairs do not exceed: 33
/// pairs of captures of an H100's DLRM models, profiled, bound by their host, and alike but for their batch [`sample_traces/h100`]. Without
/// a profiler they are 0.11 apart.
pub const OTHER_RECORDING: f64 = 0.17;

/// Where a recording of the edited program is expected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AnotherRun {
    /// Lowest and highest.
    #[serde(flatten)]
    pub band: ErrorBand,
    /// Share of the iteration that is host work on its critical path.
    pub host_share: f64,
}

/// Host work of which less than this share of the critical path is made does not matter.
const LEAST_HOST: f64 = 0.02;

impl AnotherRun {
    /// The band and why it is wider; `None` where hosts have no part in the iteration.
    pub fn sentence(&self) -> Option<String> {
        let ErrorBand { low_ns, high_ns, .. } = self.band;
        (self.host_share >= LEAST_HOST).then(|| {
            format!(
                "{low_ns} to {high_ns}: {:.0} of the critical path is host work, whose times two recordings of one program have {:.0} apart",
                Percent(self.host_share),
                Percent(OTHER_RECORDING)
            )
        })
    }
}

impl Summary {
    /// Where another recording of what this describes is expected two times in three: the band of the prediction, and how far the host
    /// times of two recordings are apart, taken as independent.
    pub fn another_run(&self) -> AnotherRun {
        let host = OTHER_RECORDING * self.host_path_ns.0 as f64;
        let ErrorBand { low_ns, high_ns, .. } = self.steady_band;
        let reach = |own: DurNs| DurNs((own.0 as f64).hypot(host).round() as i64);
        let mut band = self.steady_band;
        band.low_ns = (self.steady_ns - reach(self.steady_ns - low_ns)).max(DurNs::ZERO);
        band.high_ns = self.steady_ns + reach(high_ns - self.steady_ns);
        let host_share = self.host_path_ns.0 as f64 / self.steady_ns.0.max(1) as f64;
        AnotherRun { band, host_share: host_share.min(1.0) }
    }
}
