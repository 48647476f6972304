//! Which roof a piece of work lies under.

use serde::Serialize;

use crate::cost::conv_algorithm::flop_done;
use crate::cost::{Work, roofline};
use crate::device::DeviceProfile;

/// What limits a kernel on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Memory traffic.
    Memory,
}

/// Which takes longer, `FLOP / peak` or `bytes / bandwidth`; `None` of work without either. At the ridge: compute.
pub fn bound_of(work: &Work, device: &DeviceProfile) -> Option<Bound> {
    let arithmetic = flop_done(work, device) / device.peak_rate(work.computed_with()).0.max(1.0);
    let traffic = work.bytes().0 as f64 / roofline::memory_rate(device).max(1.0);
    if arithmetic <= 0.0 && traffic <= 0.0 {
        return None;
    }
    Some(if arithmetic >= traffic { Bound::Compute } else { Bound::Memory })
}
