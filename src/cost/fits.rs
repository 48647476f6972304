//! Fitted parameters: per domain and device, from the built-in catalog or a calibration.

use std::sync::Arc;

use crate::device::{CatalogError, DeviceProfile};

use super::domain::Domain;
use super::models::estimate_of;
use super::prediction::Estimate;
use super::structured;
use super::work::Work;

/// The parameters of one domain on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// What it covers.
    pub domain: Domain,
    /// Devices it holds for, by id; the first is the one measured.
    pub devices: Vec<String>,
    /// Parameters of the structured model.
    pub parameters: Vec<f64>,
    /// Mean absolute relative error on rows the fit has not seen.
    pub error: f64,
}

/// All fits.
#[derive(Clone, Debug, Default)]
pub struct Fits {
    fits: Vec<Arc<Fit>>,
}

impl Fits {
    /// The fits that come with the program.
    ///
    /// # Errors
    /// The built-in file is damaged.
    pub fn builtin() -> Result<Self, CatalogError> {
        Ok(Self::default())
    }

    /// The fit of `domain` for the device `id`.
    pub fn find(&self, domain: Domain, id: &str) -> Option<&Fit> {
        let holds = |fit: &&Arc<Fit>| fit.domain == domain && fit.devices.iter().any(|device| device == id);
        self.fits.iter().find(holds).map(AsRef::as_ref)
    }

    /// The time of `work` on `device` with the fit for it, else with the parameters for unseen devices.
    pub fn estimate(&self, domain: Domain, work: &Work, device: &DeviceProfile) -> Estimate {
        let Some(fit) = self.find(domain, &device.id) else { return unseen(domain, work, device) };
        let us = structured::structured_us(domain, work, device, &fit.parameters);
        estimate_of(us, "structured", fit.error, false)
    }
}

/// Relative errors on devices that were not fitted [ACCURACY, unseen GPUs; attention, norms and streaming by their rooflines].
fn unseen_error(domain: Domain) -> f64 {
    match domain {
        Domain::Linear | Domain::BatchedGemm => 0.35,
        Domain::Gemm16 => 0.17,
        Domain::Gemm8 => 0.3,
        Domain::Conv => 0.4,
        Domain::Norm | Domain::Softmax | Domain::Streaming => 0.25,
        Domain::Attention => 0.5,
    }
}

fn unseen(domain: Domain, work: &Work, device: &DeviceProfile) -> Estimate {
    let mut parameters = structured::default_values(domain);
    parameters[structured::FLOOR_US] = device.kernel_start.secs() * 1e6;
    let us = structured::structured_us(domain, work, device, &parameters);
    estimate_of(us, "structured-unseen", unseen_error(domain), true)
}
