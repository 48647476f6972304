//! `devices check`: what of devices was not measured, and what stands in for it.

use serde::Serialize;

use crate::headless::output;
use retime_core::cost::{CostModels, Domain};
use retime_core::device::{Catalog, DeviceKind, DeviceProfile};

/// A figure or model of a device that stands on something else than a measurement of it.
#[derive(Debug, Serialize)]
pub(super) struct DerivedFigure {
    device: String,
    /// Key of the figure, or the family of kernels.
    #[serde(rename = "missing")]
    what: String,
    instead: String,
    /// Mean absolute relative error of that over the devices where it was measured, each left out in turn.
    error: Option<f64>,
    /// Devices behind the error.
    n: usize,
}

/// What is missing of `devices`.
pub(super) fn missing<'a>(
    catalog: &Catalog,
    models: &CostModels,
    devices: impl Iterator<Item = &'a DeviceProfile>,
) -> Vec<DerivedFigure> {
    devices.flat_map(|device| figures(catalog, device).into_iter().chain(families(models, device))).collect()
}

fn figures(catalog: &Catalog, device: &DeviceProfile) -> Vec<DerivedFigure> {
    let row = |derived: retime_core::device::Derived| DerivedFigure {
        device: device.id.clone(),
        what: derived.figure,
        instead: derived.instead,
        error: derived.error.map(|left_out| left_out.error),
        n: derived.error.map_or(0, |left_out| left_out.n),
    };
    catalog.derived(device).into_iter().map(row).collect()
}

/// Families of kernels that no fit of the device or one of its chip covers.
fn families(models: &CostModels, device: &DeviceProfile) -> Vec<DerivedFigure> {
    if device.kind != DeviceKind::Gpu {
        return Vec::new();
    }
    let fits = models.fits();
    let lineage = || std::iter::once(&device.id).chain(&device.lineage);
    let unfitted = Domain::ALL.into_iter().filter(|&domain| !lineage().any(|id| fits.find(domain, id).is_some()));
    let row = |domain: Domain| {
        let unseen = fits.unseen(domain);
        DerivedFigure {
            device: device.id.clone(),
            what: format!("model of {}", domain.name()),
            instead: "what the fitted devices have in common, as shares of this one's figures".to_owned(),
            error: unseen.map(|unseen| unseen.error),
            n: unseen.map_or(0, |unseen| unseen.devices as usize),
        }
    };
    unfitted.map(row).collect()
}

/// The rows as a table.
pub(super) fn table(rows: &[DerivedFigure]) -> output::Table {
    let mut table = output::Table::new(&["device", "not measured", "instead", "error %", "devices"]);
    for row in rows {
        let (error, n) = match row.error {
            Some(error) => (format!("{:.1}", 100.0 * error), row.n.to_string()),
            None => ("–".to_owned(), "–".to_owned()),
        };
        table.row([row.device.clone(), row.what.clone(), row.instead.clone(), error, n]);
    }
    table
}
