//! Errors of the lookup models on measured rows: forward, backward, tables in host memory; plain traffic beside.

use std::collections::BTreeMap;

use crate::{ErrorSummary, MeasuredLookup, summarise};
use retime_core::cost::lookup::{FITTED_POOLING, HitRate, lookup_us};
use retime_core::cost::models::CostModels;
use retime_core::cost::roofline;
use retime_core::cost::work::Shape;
use retime_core::device::{Catalog, DeviceProfile};

use super::ValidationRow;

/// The rows of one group, none of which was fitted to.
pub(super) fn rows(models: &CostModels, catalog: &Catalog, rows: &[MeasuredLookup]) -> Vec<ValidationRow> {
    let mut groups: BTreeMap<(&'static str, String), Vec<&MeasuredLookup>> = BTreeMap::new();
    for row in rows {
        let (Some(family), Ok(device)) = (family(row), catalog.find(&row.kernel.device)) else { continue };
        groups.entry((family, device.id.clone())).or_default().push(row);
    }
    let known = |((family, id), rows): ((&'static str, String), Vec<&MeasuredLookup>)| {
        let device = catalog.find(&id).ok()?;
        Some([enhanced(models, family, device, &rows), plain(family, device, &rows)])
    };
    groups.into_iter().filter_map(known).flatten().collect()
}

/// Which group a row belongs to; `None` of rows that a constant was fitted to.
fn family(row: &MeasuredLookup) -> Option<&'static str> {
    let Shape::Embedding { backward, pooling, .. } = row.kernel.work.shape else { return None };
    match (backward, row.cached, row.is_plain_update) {
        (true, None, true) if (pooling - FITTED_POOLING).abs() < 1e-9 => None,
        (false, None, _) => Some("embedding forward"),
        (true, None, true) => Some("embedding backward"),
        (true, None, false) => Some("embedding backward, state"),
        (false, Some(_), _) => Some("embedding forward, host"),
        (true, Some(_), true) => Some("embedding backward, host"),
        (true, Some(_), false) => Some("embedding backward, host, state"),
    }
}

fn enhanced(models: &CostModels, family: &str, device: &DeviceProfile, rows: &[&MeasuredLookup]) -> ValidationRow {
    let estimate = |row: &MeasuredLookup| {
        let kernel = models.estimate(&row.kernel.work, device).map_or(0.0, |found| found.duration.0 as f64 / 1e3);
        kernel + row.fetch_us(device)
    };
    row(family, "embedding-enhanced", device, rows, &estimate)
}

fn plain(family: &str, device: &DeviceProfile, rows: &[&MeasuredLookup]) -> ValidationRow {
    let traffic = |row: &MeasuredLookup| {
        lookup_us(&row.kernel.work.shape, 4, HitRate::None, device).unwrap_or(0.0) + row.fetch_us(device)
    };
    row(family, "embedding-plain", device, rows, &traffic)
}

fn row(
    family: &str,
    model: &'static str,
    device: &DeviceProfile,
    rows: &[&MeasuredLookup],
    predict: &dyn Fn(&MeasuredLookup) -> f64,
) -> ValidationRow {
    let over =
        |predict: &dyn Fn(&MeasuredLookup) -> f64| summarise(rows.iter().map(|row| (predict(row), row.kernel.us)));
    let all = over(predict);
    ValidationRow {
        family: family.to_owned(),
        device: device.id.clone(),
        model,
        held_out: true,
        all,
        kernels: all,
        structured: ErrorSummary::default(),
        curve: over(&|row| roofline::curve_us(&row.kernel.work, device)),
        roofline: over(&|row| roofline::roofline_us(&row.kernel.work, device)),
        inside: None,
        network: None,
        target: None,
        met: None,
        reason: None,
    }
}
