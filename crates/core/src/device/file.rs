//! The text of a device file → its entries, each figure with its line. The only place that knows the file format.
//!
//! Knows no inheritance: see `resolve`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::error::{CatalogError, Place, line_of};
use super::limits;
use super::link::{CollectiveCurve, check_curve};
use super::profile::{BandwidthCurve, DeviceKind, Precision};

/// The scalar figures of a device, by their key in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    SmCount,
    ClockMhz,
    L2Mib,
    L2GbS,
    MemoryGib,
    DramGbS,
    DramMeasuredGbS,
    HostLinkGbS,
    PeerLinkGbS,
    LaunchLatencyUs,
    KernelStartUs,
    ProductShare,
    SmThreads,
    SmBlocks,
    SmRegisters,
    SmSharedKib,
    BoardW,
    ProcessNm,
}

impl Figure {
    pub(super) const ALL: [Self; 18] = [
        Self::SmCount,
        Self::ClockMhz,
        Self::L2Mib,
        Self::L2GbS,
        Self::MemoryGib,
        Self::DramGbS,
        Self::DramMeasuredGbS,
        Self::HostLinkGbS,
        Self::PeerLinkGbS,
        Self::LaunchLatencyUs,
        Self::KernelStartUs,
        Self::ProductShare,
        Self::SmThreads,
        Self::SmBlocks,
        Self::SmRegisters,
        Self::SmSharedKib,
        Self::BoardW,
        Self::ProcessNm,
    ];

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::SmCount => "sm_count",
            Self::ClockMhz => "clock_mhz",
            Self::L2Mib => "l2_mib",
            Self::L2GbS => "l2_gb_s",
            Self::MemoryGib => "memory_gib",
            Self::DramGbS => "dram_gb_s",
            Self::DramMeasuredGbS => "dram_measured_gb_s",
            Self::HostLinkGbS => "host_link_gb_s",
            Self::PeerLinkGbS => "peer_link_gb_s",
            Self::LaunchLatencyUs => "launch_latency_us",
            Self::KernelStartUs => "kernel_start_us",
            Self::ProductShare => "product_share",
            Self::SmThreads => "sm_threads",
            Self::SmBlocks => "sm_blocks",
            Self::SmRegisters => "sm_registers",
            Self::SmSharedKib => "sm_shared_kib",
            Self::BoardW => "board_w",
            Self::ProcessNm => "process_nm",
        }
    }
}

/// One device as written; every key is optional because it may be inherited.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) inherits: Option<Spanned<String>>,
    pub(super) name: Option<String>,
    pub(super) kind: Option<DeviceKind>,
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    pub(super) recorded_as: Option<Vec<String>>,
    #[serde(default)]
    pub(super) figures: BTreeMap<Figure, Spanned<f64>>,
    #[serde(default)]
    pub(super) peak_tflops: BTreeMap<Precision, Spanned<f64>>,
    pub(super) dram_curve: Option<Spanned<BandwidthCurve>>,
    #[serde(default)]
    pub(super) sources: BTreeMap<Spanned<String>, String>,
    /// Collectives measured between devices of this kind in one node.
    #[serde(default)]
    pub(super) curve: Vec<Spanned<CollectiveCurve>>,
    /// Fits of cost models, which those models read.
    #[serde(default, rename = "fit")]
    _fit: IgnoredAny,
    /// Curves of copies, which those models read.
    #[serde(default, rename = "copy")]
    _copy: IgnoredAny,
    /// Factors, which those models read.
    #[serde(default, rename = "scale")]
    _scale: IgnoredAny,
    /// Measured products, which those models read.
    #[serde(default, rename = "product")]
    _product: IgnoredAny,
}

/// An entry with the place it was read from.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) file: String,
    /// The number of that file.
    pub(super) order: usize,
    pub(super) line: usize,
    /// Line of `inherits`, or of the entry.
    pub(super) inherits_line: usize,
    pub(super) entry: Entry,
    /// The device of the same id in an earlier file, where this one inherits from it.
    pub(super) below: Option<Box<Placed>>,
}

impl Placed {
    /// This entry on top of the one of the same id in an earlier file: what it inherits from when it names itself.
    #[must_use]
    pub(super) fn on(mut self, id: &str, below: Self) -> Self {
        if self.entry.inherits.as_ref().is_some_and(|parent| parent.get_ref() == id) {
            self.entry.aliases.extend(below.entry.aliases.iter().cloned());
            self.below = Some(Box::new(below));
        }
        self
    }
}

/// The devices of the file `file` with contents `text`, by id.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<(String, Placed)>, CatalogError> {
    let parsed = toml::from_str(text);
    let entries: BTreeMap<Spanned<String>, Entry> = parsed.map_err(|error| CatalogError::syntax(file, text, &error))?;
    entries
        .into_iter()
        .map(|(id, entry)| {
            let line = line_of(text, Some(id.span()));
            check(file, text, id.get_ref(), &entry)?;
            let inherits_line = entry.inherits.as_ref().map_or(line, |parent| line_of(text, Some(parent.span())));
            Ok((id.into_inner(), Placed { file: file.to_owned(), order: 0, line, inherits_line, entry, below: None }))
        })
        .collect()
}

fn check(file: &str, text: &str, device: &str, entry: &Entry) -> Result<(), CatalogError> {
    let bad = |span: Range<usize>, key: &str, value: String, expected: String| {
        let (file, device, key) = (file.to_owned(), device.to_owned(), key.to_owned());
        let expected = expected.into();
        Err(CatalogError::BadFigure { file, line: line_of(text, Some(span)), device, key, value, expected })
    };
    // A device without such a link has 0.
    let is_told =
        |(figure, value): &(&Figure, &Spanned<f64>)| **figure != Figure::PeerLinkGbS || *value.get_ref() != 0.0;
    let figures = entry.figures.iter().filter(is_told);
    let is_part =
        |(figure, value): &(&Figure, &Spanned<f64>)| limits::is_count(**figure) && value.get_ref().fract() != 0.0;
    if let Some((figure, value)) = figures.clone().find(is_part) {
        let (key, written) = (figure.key(), limits::written(*value.get_ref()));
        return bad(value.span(), key, written, "a whole number".to_owned());
    }
    let figures = figures.map(|(figure, value)| (figure.key(), value, limits::range(*figure)));
    let peaks = entry.peak_tflops.iter().map(|(precision, value)| (precision.key(), value, limits::PEAK_TFLOPS));
    for (key, value, range) in figures.chain(peaks) {
        if !range.contains(value.get_ref()) {
            return bad(value.span(), key, limits::written(*value.get_ref()), limits::words(&range));
        }
    }
    if let Some(curve) = &entry.dram_curve
        && let Some((key, value, range)) = limits::wrong_in(curve.get_ref())
    {
        return bad(curve.span(), &format!("dram_curve.{key}"), limits::written(value), limits::words(&range));
    }
    for curve in &entry.curve {
        check_curve(Place { file, text, start: curve.span().start }, device, curve.get_ref())?;
    }
    for key in entry.sources.keys() {
        if !is_source_key(key.get_ref()) {
            return bad(key.span(), "sources", key.get_ref().clone(), "`default` or the key of a figure".to_owned());
        }
    }
    Ok(())
}

fn is_source_key(key: &str) -> bool {
    let precision = key.strip_prefix("peak_tflops.").unwrap_or_default();
    matches!(key, "default" | "peak_tflops" | "dram_curve")
        || Figure::ALL.iter().any(|figure| figure.key() == key)
        || Precision::ALL.iter().any(|known| known.key() == precision)
}
