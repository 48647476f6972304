//! `devices show`: every figure of a device with where it is from, the fits and the interconnect it has.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::headless::output;
use retime_core::cost::{CostModels, Domain};
use retime_core::device::{DeviceProfile, SmLimits};

/// A device in full.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    inherits: Vec<String>,
    /// Every figure in the order of the catalog's keys.
    figures: Vec<Figure>,
    fits: Vec<Fitted>,
    link: Option<Joined>,
}

#[derive(Debug, Serialize)]
struct Figure {
    key: String,
    value: f64,
    unit: &'static str,
    source: String,
}

/// What a family of kernels is predicted by.
#[derive(Debug, Serialize)]
struct Fitted {
    family: &'static str,
    model: &'static str,
    /// Device the fit was made on.
    measured_on: Option<String>,
    n: u32,
    /// Mean absolute relative error on rows no fit has seen.
    error: f64,
}

#[derive(Debug, Serialize)]
struct Joined {
    id: String,
    name: String,
    bandwidth_bytes_per_s: f64,
    latency_us: f64,
    source: String,
    curves: Vec<Curve>,
}

#[derive(Debug, Serialize)]
struct Curve {
    collective: String,
    ranks: u32,
    /// Whether it was carried over from another number of ranks, or from other interconnects.
    carried: bool,
    error: f64,
    n: u32,
    source: String,
}

/// What is known of `profile`.
pub(super) fn shown(profile: &DeviceProfile, models: &CostModels) -> Shown {
    Shown {
        inherits: profile.lineage.clone(),
        figures: figures(profile),
        fits: Domain::ALL.into_iter().filter_map(|domain| fitted(profile, models, domain)).collect(),
        link: models.links().of_device(profile).map(|link| Joined {
            id: link.id.clone(),
            name: link.name.clone(),
            bandwidth_bytes_per_s: link.gb_s * 1e9,
            latency_us: link.latency_us,
            source: link.source.clone(),
            curves: link
                .curves
                .iter()
                .map(|curve| Curve {
                    collective: curve.collective.clone(),
                    ranks: curve.ranks,
                    carried: curve.carried,
                    error: curve.error,
                    n: curve.n,
                    source: curve.source.clone(),
                })
                .collect(),
        }),
    }
}

fn fitted(profile: &DeviceProfile, models: &CostModels, domain: Domain) -> Option<Fitted> {
    let lineage = std::iter::once(&profile.id).chain(&profile.lineage);
    let family = domain.name();
    if let Some(fit) = lineage.into_iter().find_map(|id| models.fits().find(domain, id)) {
        let measured_on = fit.devices.first().cloned();
        let own = measured_on.as_ref() == Some(&profile.id);
        let error = if own { fit.error } else { fit.sibling_error.max(fit.error) };
        return Some(Fitted { family, model: fit.choice.name(), measured_on, n: fit.n_train, error });
    }
    let unseen = models.fits().unseen(domain)?;
    Some(Fitted { family, model: "structured-unseen", measured_on: None, n: 0, error: unseen.error })
}

fn figures(profile: &DeviceProfile) -> Vec<Figure> {
    let micros = |duration: retime_core::units::DurNs| duration.secs() * 1e6;
    let mut values: BTreeMap<String, (f64, &'static str)> = BTreeMap::new();
    let mut put = |key: &str, value: f64, unit: &'static str| values.insert(key.to_owned(), (value, unit));
    for (precision, rate) in &profile.peak {
        put(&format!("peak_tflops.{}", precision.key()), rate.0 / 1e12, "TFLOP/s");
    }
    put("sm_count", f64::from(profile.sm_count), "");
    put("clock_mhz", profile.clock_mhz, "MHz");
    put("l2_mib", profile.l2.0 as f64 / 1_048_576.0, "MiB");
    put("l2_gb_s", profile.l2_bandwidth.0 / 1e9, "GB/s");
    put("memory_gib", profile.memory.0 as f64 / 1_073_741_824.0, "GiB");
    put("dram_gb_s", profile.dram_bandwidth.0 / 1e9, "GB/s");
    put("host_link_gb_s", profile.host_link.0 / 1e9, "GB/s");
    put("peer_link_gb_s", profile.peer_link.0 / 1e9, "GB/s");
    put("launch_latency_us", micros(profile.launch_latency), "µs");
    put("kernel_start_us", micros(profile.kernel_start), "µs");
    if let Some(measured) = profile.dram_bandwidth_measured {
        put("dram_measured_gb_s", measured.0 / 1e9, "GB/s");
    }
    if let Some(curve) = &profile.dram_curve {
        put("dram_curve", curve.start_us, "µs for the smallest access");
    }
    if let Some(share) = profile.product_share {
        put("product_share", share, "of the matrix peak");
    }
    if let Some(SmLimits { threads, blocks, registers, shared }) = profile.sm_limits {
        put("sm_threads", f64::from(threads), "");
        put("sm_blocks", f64::from(blocks), "");
        put("sm_registers", f64::from(registers), "");
        put("sm_shared_kib", shared.0 as f64 / 1024.0, "KiB");
    }
    let source = |key: &str| profile.sources.get(key).cloned().unwrap_or_default();
    let figure =
        |(key, (value, unit)): (String, (f64, &'static str))| Figure { source: source(&key), key, value, unit };
    values.into_iter().map(figure).filter(|figure| figure.value != 0.0 || !figure.source.is_empty()).collect()
}

impl Shown {
    /// Tables of the figures, the fits and the collectives.
    pub(super) fn describe(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.inherits.is_empty() {
            writeln!(out, "inherits from {}", self.inherits.join(", "))?;
        }
        output::text(&self.table(), &mut *out)?;
        let mut fits = output::Table::new(&["family", "model", "n", "error %", "measured on"]);
        for fit in &self.fits {
            let on = fit.measured_on.clone().unwrap_or_else(|| "other devices".to_owned());
            fits.row([
                fit.family.to_owned(),
                fit.model.to_owned(),
                fit.n.to_string(),
                format!("{:.1}", 100.0 * fit.error),
                on,
            ]);
        }
        writeln!(out, "\nmodels of kernels, error on rows no fit has seen")?;
        output::text(&fits, &mut *out)?;
        let Some(link) = &self.link else { return Ok(()) };
        let (gb_s, latency) = (link.bandwidth_bytes_per_s / 1e9, link.latency_us);
        writeln!(out, "\n{}: {}, {gb_s} GB/s, {latency} µs ({})", link.id, link.name, link.source)?;
        let mut curves = output::Table::new(&["collective", "ranks", "n", "error %", "source"]);
        for curve in &link.curves {
            curves.row([
                curve.collective.clone(),
                curve.ranks.to_string(),
                curve.n.to_string(),
                format!("{:.1}", 100.0 * curve.error),
                curve.source.clone(),
            ]);
        }
        output::text(&curves, out)
    }

    /// The figures, a row each.
    pub(super) fn table(&self) -> output::Table {
        let mut table = output::Table::new(&["figure", "value", "unit", "source"]);
        for figure in &self.figures {
            let value = format!("{:.3}", figure.value);
            let value = value.trim_end_matches('0').trim_end_matches('.').to_owned();
            table.row([figure.key.clone(), value, figure.unit.to_owned(), figure.source.clone()]);
        }
        table
    }
}
