//! Entries of device files → complete profiles: inheritance, missing figures, the source of every figure.

use std::collections::BTreeMap;

use super::error::CatalogError;
use super::file::{Figure, Placed};
use super::names::{comparable, nearest};
use super::profile::{BandwidthCurve, DeviceKind, DeviceProfile, Precision, SmLimits};
use crate::units::{Bytes, BytesPerSec, DurNs, FlopPerSec};

/// A device with what it inherits merged in.
#[derive(Clone, Default)]
struct Merged {
    name: Option<String>,
    is_amd: bool,
    kind: Option<DeviceKind>,
    recorded_as: Vec<String>,
    figures: BTreeMap<Figure, f64>,
    peak_tflops: BTreeMap<Precision, f64>,
    dram_curve: Option<BandwidthCurve>,
    sources: BTreeMap<String, String>,
}

/// The complete profile of `id`.
pub(super) fn profile(
    id: &str,
    placed: &Placed,
    entries: &BTreeMap<String, Placed>,
) -> Result<DeviceProfile, CatalogError> {
    let mut chain = Vec::new();
    let merged = merge(id, placed, entries, &mut chain)?;
    let lineage = chain.split_off(1.min(chain.len()));
    let own = complete(id, placed, merged)?;
    let mut distances = BTreeMap::new();
    for (parent, placed) in lineage.iter().filter_map(|parent| entries.get_key_value(parent)) {
        let merged = merge(parent, placed, entries, &mut Vec::new())?;
        let profile = complete(parent, placed, merged)?;
        distances.insert(parent.clone(), own.distance(&profile));
    }
    Ok(DeviceProfile { lineage, distances, ..own })
}

fn merge(
    id: &str,
    placed: &Placed,
    entries: &BTreeMap<String, Placed>,
    chain: &mut Vec<String>,
) -> Result<Merged, CatalogError> {
    let mut merged = match &placed.entry.inherits {
        Some(_) if placed.below.is_some() => {
            placed.below.as_ref().map_or_else(|| Ok(Merged::default()), |below| merge(id, below, entries, chain))?
        }
        Some(parent) => {
            chain.push(id.to_owned());
            let (parent, inherited) = parent_of(placed, id, parent.get_ref(), entries, chain)?;
            merge(parent, inherited, entries, chain)?
        }
        None => {
            chain.push(id.to_owned());
            Merged::default()
        }
    };
    let inherited_gb_s = merged.figures.get(&Figure::DramGbS).copied();
    overlay(&mut merged, placed);
    rescale_memory(&mut merged, placed, inherited_gb_s);
    Ok(merged)
}

/// What `id` inherits from, called `parent` by its id or an alias.
fn parent_of<'a>(
    placed: &Placed,
    id: &str,
    parent: &str,
    entries: &'a BTreeMap<String, Placed>,
    chain: &[String],
) -> Result<(&'a String, &'a Placed), CatalogError> {
    let (file, line, device) = (placed.file.clone(), placed.inherits_line, id.to_owned());
    let wanted = comparable(parent);
    let is_called = |(id, placed): &(&String, &Placed)| {
        comparable(id) == wanted || placed.entry.aliases.iter().any(|alias| comparable(alias) == wanted)
    };
    let Some(found) = entries.get_key_value(parent).or_else(|| entries.iter().find(is_called)) else {
        let names = entries.keys().map(|id| (comparable(id), id.as_str())).collect::<Vec<_>>();
        let nearest = nearest(parent, names.iter().map(|(name, id)| (name.as_str(), *id)));
        return Err(CatalogError::UnknownParent { file, line, device, parent: parent.to_owned(), nearest });
    };
    if chain.contains(found.0) {
        let chain = format!("{} → {}", chain.join(" → "), found.0);
        return Err(CatalogError::Cycle { file, line, device, chain });
    }
    if chain.len() > MOST_INHERITED {
        return Err(CatalogError::Deep { file, line, device, most: MOST_INHERITED });
    }
    Ok(found)
}

/// Devices that one may inherit over.
const MOST_INHERITED: usize = 32;

/// Puts the entry's own keys over what it inherits; its name and those it is recorded under are never inherited: what is recorded as
/// its parent is its parent.
fn overlay(merged: &mut Merged, placed: &Placed) {
    let entry = &placed.entry;
    let sources: BTreeMap<&str, &String> =
        entry.sources.iter().map(|(key, source)| (key.get_ref().as_str(), source)).collect();
    let source = |key: &str, group: &str| {
        [key, group, "default"].iter().find_map(|key| sources.get(key).copied()).unwrap_or(&placed.file).clone()
    };
    let own = merged.name.take().filter(|_| placed.below.is_some());
    // The maker is inherited, the name is not.
    merged.is_amd = entry.name.as_ref().map_or(merged.is_amd, |name| name.starts_with("AMD "));
    merged.name = entry.name.clone().or(own);
    merged.kind = entry.kind.or(merged.kind);
    if entry.recorded_as.is_some() || placed.below.is_none() {
        merged.recorded_as = entry.recorded_as.iter().flatten().map(|name| name.to_lowercase()).collect();
    }
    for (figure, value) in &entry.figures {
        merged.figures.insert(*figure, *value.get_ref());
        merged.sources.insert(figure.key().to_owned(), source(figure.key(), ""));
    }
    for (precision, value) in &entry.peak_tflops {
        let key = format!("peak_tflops.{}", precision.key());
        merged.peak_tflops.insert(*precision, *value.get_ref());
        merged.sources.insert(key.clone(), source(&key, "peak_tflops"));
    }
    if let Some(curve) = &entry.dram_curve {
        merged.dram_curve = Some(*curve.get_ref());
        merged.sources.insert("dram_curve".to_owned(), source("dram_curve", ""));
    }
}

/// A device that changes the theoretical bandwidth and gives no measurement of its own keeps the
/// inherited measurements in proportion.
fn rescale_memory(merged: &mut Merged, placed: &Placed, inherited_gb_s: Option<f64>) {
    let figures = &placed.entry.figures;
    let (Some(old), Some(new)) = (inherited_gb_s, figures.get(&Figure::DramGbS)) else { return };
    let (ratio, source) = (new.get_ref() / old, "inherited, scaled by theoretical bandwidth");
    if !figures.contains_key(&Figure::DramMeasuredGbS)
        && let Some(measured) = merged.figures.get_mut(&Figure::DramMeasuredGbS)
    {
        *measured *= ratio;
        merged.sources.insert(Figure::DramMeasuredGbS.key().to_owned(), source.to_owned());
    }
    if placed.entry.dram_curve.is_none()
        && let Some(curve) = &mut merged.dram_curve
    {
        *curve = curve.scaled(ratio);
        merged.sources.insert("dram_curve".to_owned(), source.to_owned());
    }
}

fn missing(id: &str, placed: &Placed, key: &str) -> CatalogError {
    let (file, line) = (placed.file.clone(), placed.line);
    CatalogError::MissingFigure { file, line, device: id.to_owned(), key: key.to_owned() }
}

/// `None` unless all four are given.
fn sm_limits(figures: &BTreeMap<Figure, f64>) -> Option<SmLimits> {
    let figure = |figure: Figure| figures.get(&figure).copied();
    Some(SmLimits {
        threads: figure(Figure::SmThreads)? as u32,
        blocks: figure(Figure::SmBlocks)? as u32,
        registers: figure(Figure::SmRegisters)? as u32,
        shared: Bytes((figure(Figure::SmSharedKib)? * 1024.0) as u64),
    })
}

fn complete(id: &str, placed: &Placed, merged: Merged) -> Result<DeviceProfile, CatalogError> {
    let figure = |figure: Figure| merged.figures.get(&figure).copied();
    let need = |key: Figure| figure(key).ok_or_else(|| missing(id, placed, key.key()));
    let gb_s = |value: f64| BytesPerSec(value * 1e9);
    if !merged.peak_tflops.contains_key(&Precision::Fp32) {
        return Err(missing(id, placed, "peak_tflops.fp32"));
    }
    let bandwidths = figure(Figure::DramMeasuredGbS).zip(figure(Figure::DramGbS));
    if let Some((measured, theoretical)) = bandwidths.filter(|(measured, theoretical)| measured > theoretical) {
        let expected = format!("no more than its {}, {theoretical}", Figure::DramGbS.key());
        let (file, line, key) = (placed.file.clone(), placed.line, Figure::DramMeasuredGbS.key().to_owned());
        let (device, value, expected) = (id.to_owned(), super::limits::written(measured), expected.into());
        return Err(CatalogError::BadFigure { file, line, device, key, value, expected });
    }
    Ok(DeviceProfile {
        id: id.to_owned(),
        lineage: Vec::new(),
        distances: BTreeMap::new(),
        is_amd: merged.is_amd,
        name: merged.name.unwrap_or_else(|| id.to_owned()),
        kind: merged.kind.ok_or_else(|| missing(id, placed, "kind"))?,
        recorded_as: merged.recorded_as,
        peak: merged.peak_tflops.iter().map(|(&precision, &tflops)| (precision, FlopPerSec(tflops * 1e12))).collect(),
        sm_count: need(Figure::SmCount)? as u32,
        clock_mhz: need(Figure::ClockMhz)?,
        l2: Bytes((need(Figure::L2Mib)? * 1_048_576.0) as u64),
        l2_bandwidth: gb_s(need(Figure::L2GbS)?),
        memory: Bytes((need(Figure::MemoryGib)? * 1_073_741_824.0) as u64),
        dram_bandwidth: gb_s(need(Figure::DramGbS)?),
        dram_bandwidth_measured: figure(Figure::DramMeasuredGbS).map(gb_s),
        dram_curve: merged.dram_curve,
        host_link: gb_s(need(Figure::HostLinkGbS)?),
        peer_link: gb_s(figure(Figure::PeerLinkGbS).unwrap_or(0.0)),
        launch_latency: DurNs::from_us_f64(need(Figure::LaunchLatencyUs)?),
        kernel_start: DurNs::from_us_f64(need(Figure::KernelStartUs)?),
        product_share: figure(Figure::ProductShare),
        sm_limits: sm_limits(&merged.figures),
        power_per_peak: figure(Figure::BoardW)
            .zip(figure(Figure::ProcessNm))
            .zip(merged.peak_tflops.get(&Precision::Fp32))
            .map(|((watts, nm), tflops)| watts / (nm * tflops)),
        sources: merged.sources,
    })
}
