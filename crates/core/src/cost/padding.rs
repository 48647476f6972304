//! Convolutions of channels that no whole access fits, on matrix units: the library copies their tensors into such of more channels.
//!
//! `t = min(t(as it is), t(channels rounded up) + t(copies))`, the copies going over single elements, since pixels start anywhere. Convolutions
//! of an H100 with filters of several taps and such channels were launched with four to eight kernels, of which the one that computes
//! needs whole accesses. Filters of one tap are products, which the library computes as they are.

use crate::device::DeviceProfile;
use crate::units::DurNs;

use super::models::CostModels;
use super::operators::{movement_work, with_whole_channels};
use super::prediction::Estimate;
use super::structured::fetches_channels;
use super::work::{Family, Shape, Work, element_bytes};

/// Bytes of a whole access.
const ACCESS: u64 = 16;

impl CostModels {
    /// `estimate` of the convolution `work`, or with channels that are rounded up where that takes less.
    pub(super) fn by_padding(&self, estimate: Estimate, work: &Work, device: &DeviceProfile) -> Estimate {
        let other = if is_padded(work) { self.padded(work, device) } else { None };
        other.filter(|other| other.duration < estimate.duration).unwrap_or(estimate)
    }

    fn padded(&self, work: &Work, device: &DeviceProfile) -> Option<Estimate> {
        let element = element_bytes(work);
        let (whole, copied) = with_whole_channels(work, (ACCESS / element).max(1))?;
        let computed = self.estimate(&whole, device)?;
        let copy = |(from, to): (u64, u64)| {
            let shape = Shape::Strided { elements: to / element };
            self.estimate(&Work { shape, ..movement_work(Family::Movement, from, to) }, device)
        };
        let copies = copied.into_iter().map(copy).collect::<Option<Vec<Estimate>>>()?;
        let error = copies.iter().map(|copy| copy.error).fold(computed.error, f32::max);
        let moved: DurNs = copies.into_iter().map(|copy| copy.duration).sum();
        Some(Estimate { duration: computed.duration + moved, error, extrapolated: true, ..computed })
    }
}

fn is_padded(work: &Work) -> bool {
    let has_taps = matches!(work.shape, Shape::Conv { r, s, groups: 1, .. } if r.saturating_mul(s) > 1);
    has_taps && work.precision.is_tensor() && !fetches_channels(work)
}
