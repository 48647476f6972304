//! [`CostModels`]: the one place that turns work and a device into a time, and a measured time into a predicted one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use hashbrown::Equivalent;
use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;
use rustc_hash::FxHasher;

use crate::device::{
    BandwidthCurve, Catalog, CatalogError, DeviceKind, DeviceProfile, LinkProfile, Links, Precision, SmLimits,
};
use crate::units::DurNs;

use super::conv_algorithm::{
    ALGORITHM_ERROR, AlgorithmTimes, algorithm_us, best_algorithm, chosen_times, used_algorithm, without_choice,
};
use super::conv_choice::ConvAlgorithm;
use super::copies::{CopyCurve, CopyKind, copy_us};
use super::cross_device::{ChangeMemo, unmodelled};
use super::device_file::read_fits;
use super::domain::Domain;
use super::fits::Fits;
use super::lookup::{lookup_kernel_us, unlike_lookup_us};
use super::memo::Memo;
use super::operators::{GemmSize, gemm_bytes};
use super::parameterised::ProductRates;
use super::prediction::{Estimate, Prediction, Provenance};
use super::reuse::Reuse;
use super::scale::{Scale, ScaleKind};
use super::structured::{channels_us, fastest_tile, fetches_channels};
use super::topology::{self, Topology};
use super::work::{Family, Route, Shape, Work, element_bytes};
use super::{analytical, operators, roofline};

/// All models with their fits, and a memory of what they said.
#[derive(Debug)]
pub struct CostModels {
    fits: Fits,
    links: Links,
    /// Curves of copies, of device files or of a trace's own.
    copies: BTreeMap<CopyKind, CopyCurve>,
    /// Those of a trace's own, by route and memory: on a device without one a copy starts as late and comes as near to its link, so that
    /// a ratio is of one model.
    copies_elsewhere: BTreeMap<(Route, Option<bool>), (CopyCurve, DeviceProfile)>,
    /// Factors of device files.
    scales: BTreeMap<(String, ScaleKind), Scale>,
    /// Measured products of devices whose model is the parameterised roofline.
    products: BTreeMap<String, ProductRates>,
    estimates: Memo<OwnedEstimateKey, Option<Estimate>>,
    pub(super) changes: ChangeMemo,
}

/// What an estimate is of: work on a device, by [`figures_key`].
#[derive(Hash, PartialEq)]
struct EstimateKey<'a> {
    device: u64,
    work: &'a Work,
}

#[derive(Debug, Hash, PartialEq)]
struct OwnedEstimateKey {
    device: u64,
    work: Work,
}

/// Work holds floats; one that is not a number is found in no memory and worked out each time.
impl Eq for OwnedEstimateKey {}

impl Equivalent<OwnedEstimateKey> for EstimateKey<'_> {
    fn equivalent(&self, owned: &OwnedEstimateKey) -> bool {
        self.device == owned.device && *self.work == owned.work
    }
}

impl From<&EstimateKey<'_>> for OwnedEstimateKey {
    fn from(key: &EstimateKey<'_>) -> Self {
        Self { device: key.device, work: key.work.clone() }
    }
}

/// The products that come with the program.
const PRODUCTS: (&str, &str) = ("products.toml", include_str!("catalog/products.toml"));

/// Stated error of rates that one product tells.
const UNMEASURED_ERROR: f32 = 0.5;

/// Works that one core is asked about at once.
const TOGETHER: usize = 256;

/// A kernel's work and the device it runs on.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// What it has to do; `None` where that is not known.
    pub work: Option<&'a Work>,
    /// Where.
    pub device: &'a DeviceProfile,
}

impl CostModels {
    /// The models with the fits and interconnects that come with the program.
    ///
    /// # Errors
    /// A built-in file is damaged.
    pub fn builtin() -> Result<Self, CatalogError> {
        let products = read_fits(PRODUCTS.0, PRODUCTS.1)?.products.into_iter().collect();
        Ok(Self { products, ..Self::new(Fits::builtin()?, Links::builtin()?) })
    }

    /// The built-in models, with the fits and collectives in the device `files` (name and contents) that `catalog` was read from.
    ///
    /// # Errors
    /// The first fit that cannot be used, with file, line and key.
    pub fn with_devices(catalog: &Catalog, files: &[(String, String)]) -> Result<Self, CatalogError> {
        let builtin = Self::builtin()?;
        let (mut fits, mut links, mut products) = (builtin.fits, builtin.links, builtin.products);
        let (mut copies, mut scales) = (BTreeMap::new(), BTreeMap::new());
        for (name, text) in files {
            let found = read_fits(name, text)?;
            copies.extend(found.copies);
            products.extend(found.products);
            scales.extend(found.scales.into_iter().map(|(device, scale)| ((device, scale.kind), scale)));
            for fit in found.fits {
                fits.add(fit).map_err(|message| CatalogError::Syntax { file: name.clone(), line: 1, message })?;
            }
        }
        links.add_measured(catalog);
        Ok(Self { copies, scales, products, ..Self::new(fits, links) })
    }

    /// The models with `fits` and `links`.
    pub fn new(fits: Fits, links: Links) -> Self {
        let (estimates, changes) = (Memo::default(), ChangeMemo::default());
        Self {
            fits,
            links,
            copies: BTreeMap::new(),
            copies_elsewhere: BTreeMap::new(),
            scales: BTreeMap::new(),
            products: BTreeMap::new(),
            estimates,
            changes,
        }
    }

    /// These models with the curves of a trace's own copies on `devices`.
    #[must_use]
    pub(crate) fn with_copies(&self, mut copies: BTreeMap<CopyKind, CopyCurve>, devices: &[&DeviceProfile]) -> Self {
        let elsewhere = |((id, route, pinned), curve): (&CopyKind, &CopyCurve)| {
            let on = devices.iter().find(|device| device.id == *id)?;
            Some(((*route, *pinned), (*curve, DeviceProfile::clone(on))))
        };
        let copies_elsewhere = copies.iter().filter_map(elsewhere).collect();
        for (kind, curve) in &self.copies {
            copies.entry(kind.clone()).or_insert(*curve);
        }
        Self {
            copies,
            copies_elsewhere,
            scales: self.scales.clone(),
            products: self.products.clone(),
            ..Self::new(self.fits.clone(), self.links.clone())
        }
    }

    /// The fits in force.
    pub fn fits(&self) -> &Fits {
        &self.fits
    }

    /// The known interconnects.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The time of `work` on `device`; `None` when no model covers it, as on a device that is not known. Memoised.
    pub fn estimate(&self, work: &Work, device: &DeviceProfile) -> Option<Estimate> {
        self.estimate_keyed(work, device, figures_key(device))
    }

    /// The time of `work` on a GPU where the same kernel ran just before, as in a table; `None` when no model covers it.
    pub fn estimate_repeated(&self, work: &Work, device: &DeviceProfile) -> Option<Estimate> {
        let estimate = self.estimate(work, device)?;
        let duration = estimate.duration - beside_tables(work, device);
        Some(Estimate { duration: duration.max(roofline::least(work, device)), ..estimate })
    }

    /// The times of `works` on `device`, each as [`estimate`](Self::estimate) gives it, worked out together and on all cores.
    /// Not memoised: a device that is there for one moment would fill the memory.
    pub fn estimates(&self, works: &[&Work], device: &DeviceProfile) -> Vec<Option<Estimate>> {
        works.par_chunks(TOGETHER).flat_map_iter(|works| self.compute_all(works, device)).collect()
    }

    pub(super) fn estimate_keyed(&self, work: &Work, device: &DeviceProfile, device_key: u64) -> Option<Estimate> {
        self.estimates.answer(&EstimateKey { device: device_key, work }, || self.compute(work, device))
    }

    /// The time of one kernel that does all of `works` on a device: lookups in tables that differ, each given as one of as many alike; `None`
    /// where one is of no lookup, or nothing is known of the device.
    pub fn unlike_lookups(&self, works: &[Work], device: &DeviceProfile) -> Option<Estimate> {
        let shapes: Vec<(&Shape, u64)> = works.iter().map(|work| (&work.shape, element_bytes(work))).collect();
        let us = unlike_lookup_us(&shapes, device).filter(|_| device.is_known() && !works.is_empty())?;
        let each: Vec<Estimate> = works.iter().map(|work| lookup_estimate(work, device)).collect::<Option<_>>()?;
        let least = works.iter().map(|work| roofline::least(work, device).0 as f64 / works.len() as f64).sum::<f64>();
        let error = each.iter().map(|one| f64::from(one.error)).fold(0.0, f64::max);
        let extrapolated = each.iter().any(|one| one.extrapolated);
        let estimate = estimate_of(us.max(least / 1e3), each[0].model, error, extrapolated);
        let scale = ScaleKind::of(&works[0]).and_then(|kind| self.scales.get(&(device.id.clone(), kind)));
        let Some(scale) = scale else { return Some(estimate) };
        let duration = estimate.duration.scale(scale.factor);
        Some(Estimate { duration, error: scale.error as f32, ..estimate })
    }

    /// Works out what is not remembered of `works`, those that share a fit together.
    pub(super) fn precompute<'w>(
        &self,
        works: impl Iterator<Item = &'w Work>,
        device: &DeviceProfile,
        device_key: u64,
    ) {
        let unknown = self.estimates.unknown(works.map(|work| EstimateKey { device: device_key, work }));
        let works: Vec<&Work> = unknown.iter().map(|key| key.work).collect();
        for (key, estimate) in unknown.iter().zip(self.estimates(&works, device)) {
            self.estimates.insert(key, estimate);
        }
    }

    fn compute(&self, work: &Work, device: &DeviceProfile) -> Option<Estimate> {
        let work = &*on_units_there(work, device);
        let fitted = fitted_part(work, device).map(|(domain, part)| self.fits.estimates(domain, &[&part], device));
        self.complete(work, device, fitted.and_then(|mut estimates| estimates.pop()))
    }

    fn compute_all(&self, works: &[&Work], device: &DeviceProfile) -> Vec<Option<Estimate>> {
        let works: Vec<Cow<'_, Work>> = works.iter().map(|work| on_units_there(work, device)).collect();
        let works: Vec<&Work> = works.iter().map(AsRef::as_ref).collect();
        let mut by_domain: BTreeMap<Domain, Vec<(usize, Cow<'_, Work>)>> = BTreeMap::new();
        for (at, work) in works.iter().enumerate() {
            if let Some((domain, part)) = fitted_part(work, device) {
                by_domain.entry(domain).or_default().push((at, part));
            }
        }
        let mut fitted = vec![None; works.len()];
        for (domain, parts) in by_domain {
            let works: Vec<&Work> = parts.iter().map(|(_, part)| part.as_ref()).collect();
            for ((at, _), estimate) in parts.iter().zip(self.fits.estimates(domain, &works, device)) {
                fitted[*at] = Some(estimate);
            }
        }
        works.iter().zip(fitted).map(|(work, fitted)| self.complete(work, device, fitted)).collect()
    }

    /// The time of `work`, of which the fits say `fitted`.
    fn complete(&self, work: &Work, device: &DeviceProfile, fitted: Option<Estimate>) -> Option<Estimate> {
        if !device.is_known() {
            return None;
        }
        let by_library = without_choice(work);
        let estimate = self.by_padding(self.unscaled(&by_library, device, fitted)?, &by_library, device);
        let estimate = by_algorithm(estimate, work, device);
        let estimate = Estimate { duration: estimate.duration.max(roofline::least(work, device)), ..estimate };
        let scale = ScaleKind::of(work).and_then(|kind| self.scales.get(&(device.id.clone(), kind)));
        let Some(scale) = scale else { return Some(estimate) };
        let duration = estimate.duration.scale(scale.factor);
        Some(Estimate { duration, error: scale.error as f32, ..estimate })
    }

    fn unscaled(&self, work: &Work, device: &DeviceProfile, fitted: Option<Estimate>) -> Option<Estimate> {
        if let Some(estimate) = self.of_narrow_factor(work, device) {
            return Some(estimate);
        }
        let fitted = || fitted.unwrap_or_else(|| roofline_estimate(work, device));
        match (&work.shape, work.family) {
            (&Shape::Copy { route, pinned }, _) => {
                self.copy_estimate(work, &(device.id.clone(), route, pinned), device)
            }
            (&Shape::Collective { .. }, _) => {
                let own = LinkProfile::of_figures(device);
                let known = self.links.of_device(device).unwrap_or(&own);
                let time = Topology::flat(known).transfer(work)?;
                Some(estimate_of(time.us, time.model, time.error, time.extrapolated))
            }
            (Shape::Attention { backward: true, .. }, _) if device.kind == DeviceKind::Gpu => {
                Some(attention_gradient(fitted(), device))
            }
            (Shape::Embedding { .. }, _) => lookup_estimate(work, device),
            _ if self.products.contains_key(&device.id) => self.parameterised(work, device),
            _ if device.kind != DeviceKind::Gpu => Some(host_estimate(work, device)),
            (Shape::Channels { .. }, _) => {
                Some(estimate_of(channels_us(work, device)?, "batch-norm", CHANNELS_ERROR, false))
            }
            (_, Family::Other) if is_nothing(work) => None,
            _ => Some(in_a_model(fitted(), work, device)),
        }
    }

    /// The time of a product one factor of which is stored in fewer bits than it computes with, which no table has: that of the same product
    /// of two equal factors, less what the parameters of all devices say of the bytes.
    fn of_narrow_factor(&self, work: &Work, device: &DeviceProfile) -> Option<Estimate> {
        let wide = with_equal_factors(work).filter(|_| device.kind == DeviceKind::Gpu)?;
        let domain = Domain::of(&wide)?;
        let whole = self.unscaled(&wide, device, self.fits.estimates(domain, &[&wide], device).pop())?;
        let time = |work: &Work| in_a_model(self.fits.shared(domain, work, device), work, device).duration.0 as f64;
        let share = time(work) / time(&wide).max(1.0);
        Some(Estimate { duration: whole.duration.scale(share.min(1.0)), ..whole })
    }

    fn parameterised(&self, work: &Work, device: &DeviceProfile) -> Option<Estimate> {
        let rates = self.products.get(&device.id)?;
        let us = rates.time_us(work, device)?;
        let (is_measured, error) = (rates.has(work), rates.left_out_error().unwrap_or(f64::from(UNMEASURED_ERROR)));
        Some(estimate_of(us, roofline::PARAMETERISED, if is_measured { 0.0 } else { error }, !is_measured))
    }

    fn copy_estimate(&self, work: &Work, kind: &CopyKind, device: &DeviceProfile) -> Option<Estimate> {
        let own = self.copies.get(kind);
        let elsewhere = || {
            let (curve, from) = self.copies_elsewhere.get(&(kind.1, kind.2))?;
            let is_over_link = kind.1.is_of_host() && kind.2 != Some(false);
            Some(if is_over_link { curve.moved(kind.2, from, device) } else { *curve })
        };
        let curve = own.copied().or_else(elsewhere);
        let (us, error) = copy_us(work, device, curve.as_ref())?;
        // Away from the device of the curve the error is that of the general model.
        let error = if own.is_some() { error } else { error.max(copy_us(work, device, None)?.1) };
        Some(estimate_of(us, if curve.is_some() { "copy-traced" } else { "copy" }, error, false))
    }

    /// What computes `work` on `device` faster than its kernel by the models, in words: another algorithm of a convolution, whose kernel
    /// is of `recorded` where its name tells, or of a product the tiles that suit its size. `None` where the models know nothing better.
    pub fn better_kernel(
        &self,
        work: &Work,
        recorded: Option<ConvAlgorithm>,
        device: &DeviceProfile,
    ) -> Option<String> {
        if !device.is_known() {
            return None;
        }
        if matches!(work.shape, Shape::Conv { .. }) {
            let used = used_algorithm(work, recorded, device)?;
            let (best, us) = best_algorithm(work, device)?;
            let now = algorithm_us(work, used, device)?;
            return (best != used && us < now)
                .then(|| format!("{} ({:.0} % of {}'s time)", best.name(), 100.0 * us / now, used.name()));
        }
        let domain = Domain::of(work).filter(|_| device.kind == DeviceKind::Gpu)?;
        let tile = fastest_tile(domain, work, device, &self.fits.parameters(domain, device))?;
        let split = if tile.split > 1 { format!(", K in {} parts", tile.split) } else { String::new() };
        Some(format!("tiles of {}×{}{split}", tile.rows, tile.columns))
    }

    /// [`predict`](Self::predict) for a collective whose interconnect changes: `work` is a collective's, before and after. One of
    /// unknown size or group keeps its time.
    ///
    /// # Arguments
    /// `is_moved`: whether it is among other devices.
    pub fn predict_over(
        &self,
        measured: DurNs,
        old: (&Work, Topology<'_>),
        new: (&Work, Topology<'_>),
        is_moved: bool,
    ) -> Prediction {
        if (old.0, old.1.used_by(old.0)) == (new.0, new.1.used_by(new.0)) {
            return Prediction::measured(measured);
        }
        let (Some(before), Some(after)) = (old.1.transfer(old.0), new.1.transfer(new.0)) else {
            return unmodelled(Some(measured));
        };
        let error = before.error.max(after.error) as f32;
        let extrapolated = before.extrapolated || after.extrapolated;
        if before.us <= 0.0 {
            return unmodelled(Some(measured));
        }
        let us = after.us + if is_moved { 0.0 } else { topology::latency_kept(old, new) };
        let duration = measured.scale(us / before.us);
        Prediction { duration, provenance: Provenance::Anchored, model: after.model, error, extrapolated }
    }
}

/// `estimate` of a convolution by the library's algorithm, as the one that was chosen for it would take: on GPUs by the ratio of both
/// in the analytical model, elsewhere by that model alone.
fn by_algorithm(estimate: Estimate, work: &Work, device: &DeviceProfile) -> Estimate {
    let Some(AlgorithmTimes { algorithm, us, ratio }) = chosen_times(work, device) else { return estimate };
    let model = algorithm.name();
    if device.kind != DeviceKind::Gpu {
        return estimate_of(device.kernel_start.secs() * 1e6 + us, model, HOST_ERROR, false);
    }
    let error = estimate.error.hypot(ALGORITHM_ERROR);
    Estimate { duration: estimate.duration.scale(ratio), model, error, extrapolated: true }
}

/// What of `work` fits are asked about, and in which domain: `None` where other models answer.
/// The domain whose fits price `work` on `device`.
pub(super) fn fitted_domain(work: &Work, device: &DeviceProfile) -> Option<Domain> {
    fitted_part(work, device).map(|(domain, _)| domain)
}

fn fitted_part<'w>(work: &'w Work, device: &DeviceProfile) -> Option<(Domain, Cow<'w, Work>)> {
    let part = match work.shape {
        _ if device.kind != DeviceKind::Gpu => return None,
        Shape::Copy { .. } | Shape::Collective { .. } | Shape::Embedding { .. } => return None,
        Shape::Attention { backward: true, .. } => Cow::Owned(operators::attention_forward(work)),
        _ if work.family == Family::Other && is_nothing(work) => return None,
        Shape::Conv { groups: 1, .. } if work.precision.is_tensor() && !fetches_channels(work) => {
            operators::conv_product(work)
        }
        // Fits are of what libraries choose.
        Shape::Conv { algorithm: Some(_), .. } => without_choice(work),
        _ => Cow::Borrowed(work),
    };
    Some((Domain::of(&part)?, part))
}

/// `work` as a device computes it: of a type that it has no units for, in the type whose units take their place. Attention
/// only where that has elements as large, since its models read their bytes off the type.
pub(super) fn on_units_there<'w>(work: &'w Work, device: &DeviceProfile) -> Cow<'w, Work> {
    let asked = work.precision;
    let unit = device.unit(asked).filter(|&unit| unit != asked && asked != Precision::Fp32);
    let Some(unit) = unit else { return Cow::Borrowed(work) };
    let precision = if unit == Precision::Fp32Matrix { Precision::Fp32 } else { unit };
    let new = Work { precision, ..work.clone() };
    let is_as_large = work.family == Family::Attention && element_bytes(work) == element_bytes(&new);
    if matches!(work.family, Family::Gemm | Family::Conv) || is_as_large {
        Cow::Owned(new)
    } else {
        Cow::Borrowed(work)
    }
}

/// A product that reads fewer bytes than its factors have, with factors of one type; `None` of any other work.
fn with_equal_factors(work: &Work) -> Option<Work> {
    let Shape::Gemm { batch, m, n, k } = work.shape else { return None };
    let read = gemm_bytes(GemmSize { batch, m, n, k }, element_bytes(work), 0).0;
    (work.read < read).then(|| Work { read, ..work.clone() })
}

fn is_nothing(work: &Work) -> bool {
    work.bytes().0 == 0 && work.flop.0 <= 0.0
}

fn roofline_estimate(work: &Work, device: &DeviceProfile) -> Estimate {
    estimate_of(roofline::roofline_us(work, device), "roofline", 0.65, true)
}

/// The gradient of attention from its forward pass, since no gradient is among the measurements that are fitted: `t = t_forward · 2.5 / ρ`
/// by the arithmetic of five products against two, ρ the rate of the gradient over that of the forward pass.
fn attention_gradient(forward: Estimate, device: &DeviceProfile) -> Estimate {
    let error = forward.error.hypot(GRADIENT_ERROR);
    let rate = if device.is_amd { AMD_GRADIENT_RATE } else { GRADIENT_RATE };
    let duration = forward.duration.scale(GRADIENT_FLOP / rate);
    Estimate { duration, model: "attention-from-forward", error, extrapolated: true }
}

/// Arithmetic of attention's gradient over that of its forward pass.
const GRADIENT_FLOP: f64 = 2.5;
/// Rate of attention's gradient over that of its forward pass: FlashAttention-2 reaches some 0.8 to 0.9 of it on A100, 3 some
/// 0.75 on H100 by their authors' plots.
const GRADIENT_RATE: f64 = 0.8;
/// The same on AMD: the median of eight implementations of dense attention on MI355X, 0.51 to 0.75 [AMD-AGI/Primus]; of eight with
/// compressed keys that it has not seen, gradients are 12 % off on average, all within 23 %.
const AMD_GRADIENT_RATE: f64 = 0.62;
/// Relative error stated for either, beside the forward model's.
const GRADIENT_ERROR: f32 = 0.3;

/// An estimate of `us` microseconds; never negative, never not a number.
pub(super) fn estimate_of(us: f64, model: &'static str, error: f64, extrapolated: bool) -> Estimate {
    Estimate { duration: DurNs::from_us_f64(us.max(0.0)), model, error: error as f32, extrapolated }
}

/// `estimate` of `work` with what tables and bandwidths do not show of a kernel's start in a running model.
///
/// A reduction waits for its last block and then for the sum of the blocks: a second start [traced reductions of V100: about 5 µs where
/// copies of the size take 2]. So does a kernel that works out each element's place before it fetches it [each of 14 traces left out in
/// turn, the others say 1.0 to 1.2 starts, and kinds of such kernels are 37 % off instead of 62]. Tables repeat one product, whose
/// instructions and parameters are at hand after the first; a model runs other kernels before it.
pub(super) fn in_a_model(estimate: Estimate, work: &Work, device: &DeviceProfile) -> Estimate {
    let duration = (estimate.duration + beside_tables(work, device)).max(roofline::least_in_model(work, device));
    Estimate { duration, ..estimate }
}

/// What a kernel of a running model takes more than in a table.
fn beside_tables(work: &Work, device: &DeviceProfile) -> DurNs {
    match (&work.shape, work.family) {
        (_, Family::Reduction) | (Shape::Strided { .. }, _) => device.kernel_start,
        (Shape::Gemm { .. }, _) if matches!(Domain::of(work), Some(Domain::Gemm16 | Domain::Tf32 | Domain::Gemm8)) => {
            FIRST_RUN
        }
        _ => DurNs::ZERO,
    }
}

/// What a product that did not run just before takes longer on tensor cores: the least mean error over kinds of product (each of five
/// traces counting the same: A100, B200, two on H100, MI300X; 23.6 % without, 18.9 with it). Not chosen on the pairs of traces that `lab whatif`
/// swaps between GPUs.
pub const FIRST_RUN: DurNs = DurNs(1_500);

/// Relative errors of the lookup models on the few measured rows there are, none of which was fitted to: forward
/// enhanced (the worse of V100 and H100), forward plain, backward.
const LOOKUP_ERROR: (f64, f64, f64) = (0.23, 0.38, 0.46);

fn lookup_estimate(work: &Work, device: &DeviceProfile) -> Option<Estimate> {
    let &Shape::Embedding { rows, backward, ref reuse, .. } = &work.shape else { return None };
    let known = rows > 0 || *reuse != Reuse::Uniform;
    let us = lookup_kernel_us(&work.shape, element_bytes(work), device)?;
    let (model, error) = match (known, backward) {
        (_, true) => ("embedding-backward", LOOKUP_ERROR.2),
        (true, false) => ("embedding-enhanced", LOOKUP_ERROR.0),
        (false, false) => ("embedding-plain", LOOKUP_ERROR.1),
    };
    Some(estimate_of(us, model, error, !known))
}

/// Relative error of batch norms by the framework's own kernels [42 rows of microbenchmarks of an H100, of which nothing was fitted].
const CHANNELS_ERROR: f64 = 0.25;

/// Relative error of the sum of arithmetic and traffic on a host [Kakrannava: 18–40 % on CPUs].
const HOST_ERROR: f64 = 0.4;

fn host_estimate(work: &Work, device: &DeviceProfile) -> Estimate {
    let us = analytical::analytical_us(work, device);
    estimate_of(device.kernel_start.secs() * 1e6 + us, "analytical", HOST_ERROR, false)
}

/// A key of everything the models read of a device: two devices with one key get the same answers.
pub(super) fn figures_key(device: &DeviceProfile) -> u64 {
    // Every field is named, so that one that is added is decided on here.
    let DeviceProfile {
        id,
        lineage,
        distances,
        is_amd,
        name: _,
        kind,
        recorded_as: _,
        peak,
        sm_count,
        clock_mhz,
        l2,
        l2_bandwidth,
        memory,
        dram_bandwidth,
        dram_bandwidth_measured,
        dram_curve,
        host_link,
        peer_link,
        launch_latency: _,
        kernel_start,
        product_share,
        sm_limits,
        power_per_peak,
        sources: _,
    } = device;
    let mut hasher = FxHasher::default();
    (id, lineage, *is_amd, *kind as u8, sm_count, l2, memory, kernel_start).hash(&mut hasher);
    sm_limits
        .map(|SmLimits { threads, blocks, registers, shared }| (threads, blocks, registers, shared))
        .hash(&mut hasher);
    for (precision, rate) in peak {
        (precision, rate.0.to_bits()).hash(&mut hasher);
    }
    for (parent, distance) in distances {
        (parent, distance.to_bits()).hash(&mut hasher);
    }
    let rates = [dram_bandwidth, l2_bandwidth, host_link, peer_link].map(|rate| rate.0.to_bits());
    let optional = [dram_bandwidth_measured.map(|rate| rate.0), *product_share, *power_per_peak];
    (clock_mhz.to_bits(), rates, optional.map(|figure| figure.map(f64::to_bits))).hash(&mut hasher);
    if let Some(curve) = dram_curve {
        let BandwidthCurve { start_us, m1_bytes, m2_bytes, max_gb_s, height, midpoint, steepness, base } = curve;
        let figures = [start_us, m1_bytes, m2_bytes, max_gb_s, height, midpoint, steepness, base];
        figures.map(|figure| figure.to_bits()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
