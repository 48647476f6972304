//! Structured models: tiles, waves, bandwidth and a floor, with few parameters relative to the device's figures.
//!
//! A parameter set fitted on one device is meaningful on another, because each is a share of that device's peak.

mod access;
mod attention;
mod channels;
mod conv;
mod decode;
mod gemm;
mod reduction;
mod rowwise;
mod streaming;

use crate::device::DeviceProfile;

use super::domain::Domain;
use super::work::Work;
pub(crate) use access::{access_us, fetches_channels};
pub(crate) use channels::channels_us;
pub use gemm::FastestTile;

/// One parameter of a structured model: its value without any fit, and the range a fit may choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Value without a fit.
    pub default: f64,
    /// Smallest sensible value; above 0.
    pub min: f64,
    /// Largest sensible value.
    pub max: f64,
}

/// Position of the share of peak arithmetic that is achieved, in every domain's parameters.
pub const COMPUTE: usize = 0;
/// Position of the share of theoretical memory bandwidth that is achieved.
pub const BANDWIDTH: usize = 1;
/// Position of the fixed cost of a kernel in µs.
pub const START_US: usize = 2;

/// `parameters` of `domain` without the limit that a board's power sets: where arithmetic itself is measured, nothing has to
/// be told from it.
#[must_use]
pub fn without_power_limit(domain: Domain, mut parameters: Vec<f64>) -> Vec<f64> {
    if let Some(at) = power_limit(domain) {
        parameters[at] = gemm::PARAMETERS[at].max;
    }
    parameters
}

/// Largest share of its theoretical bandwidth that any device was measured to reach with products: matrices of a few rows on A100.
const MOST_BANDWIDTH: f64 = 0.92;

/// Caps the share of memory bandwidth that products reach; that of the cache stays.
pub fn cap_bandwidth(domain: Domain, parameters: &mut [f64]) {
    if domain.is_product() && parameters[BANDWIDTH] > MOST_BANDWIDTH {
        parameters[gemm::L2] *= parameters[BANDWIDTH] / MOST_BANDWIDTH;
        parameters[BANDWIDTH] = MOST_BANDWIDTH;
    }
}

/// Position of the limit that a board's power sets, in the parameters of `domain`; a device's own fit has no use for it.
pub fn power_limit(domain: Domain) -> Option<usize> {
    (domain.is_product() || domain == Domain::Conv).then_some(gemm::POWER)
}

/// Position of the rate of the cache as a share of the memory's, in the parameters of `domain`.
pub fn cache_rate(domain: Domain) -> Option<usize> {
    match domain {
        Domain::Linear | Domain::BatchedGemm | Domain::Gemm16 | Domain::Tf32 | Domain::Gemm8 | Domain::Conv => {
            Some(gemm::L2)
        }
        Domain::Norm | Domain::Softmax | Domain::Streaming => Some(streaming::L2),
        Domain::Attention | Domain::Decode => None,
    }
}

const fn parameter(name: &'static str, default: f64, min: f64, max: f64) -> Parameter {
    Parameter { name, default, min, max }
}

/// The parameters of `domain`; the first three are those of [`COMPUTE`], [`BANDWIDTH`] and [`START_US`].
pub fn defaults(domain: Domain) -> &'static [Parameter] {
    match domain {
        Domain::Linear | Domain::BatchedGemm | Domain::Gemm16 | Domain::Tf32 | Domain::Gemm8 => &gemm::PARAMETERS,
        Domain::Conv => &conv::PARAMETERS,
        Domain::Norm | Domain::Softmax => &rowwise::PARAMETERS,
        Domain::Streaming => &streaming::PARAMETERS,
        Domain::Attention => &attention::PARAMETERS,
        Domain::Decode => &decode::PARAMETERS,
    }
}

/// The default values of `domain`'s parameters.
pub fn default_values(domain: Domain) -> Vec<f64> {
    defaults(domain).iter().map(|parameter| parameter.default).collect()
}

/// Time in µs of `work` on `device` under the structured model of `domain` with `parameters`
/// (as many as [`defaults`] has).
pub fn structured_us(domain: Domain, work: &Work, device: &DeviceProfile, parameters: &[f64]) -> f64 {
    let time = match domain {
        Domain::Linear | Domain::BatchedGemm | Domain::Gemm16 | Domain::Tf32 | Domain::Gemm8 => {
            gemm::time_us(work, device, parameters)
        }
        Domain::Conv => conv::time_us(work, device, parameters),
        Domain::Norm | Domain::Softmax => rowwise::time_us(work, device, parameters),
        Domain::Streaming => streaming::time_us(work, device, parameters),
        Domain::Attention => attention::time_us(work, device, parameters),
        Domain::Decode => decode::time_us(work, device, parameters),
    };
    if time.is_finite() { time.max(0.0) } else { 0.0 }
}

/// The tile by which the product `work` is computed fastest under the structured model; `None` of other work.
pub fn fastest_tile(domain: Domain, work: &Work, device: &DeviceProfile, parameters: &[f64]) -> Option<FastestTile> {
    domain.is_product().then(|| gemm::fastest_tile(work, device, parameters)).flatten()
}

/// `⌈x⌉` softened: with `slack` 0 whole waves, with 1 none of the rounding.
fn waves(units: f64, slots: f64, slack: f64) -> f64 {
    let exact = units / slots.max(1.0);
    let whole = exact.ceil();
    // A single wave is never less than one tile's time.
    whole * (1.0 - slack) + exact.max(whole.min(1.0)) * slack
}
