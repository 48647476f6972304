//! Fitted parameters: per domain and device, from the built-in catalog or a calibration.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::{DeviceProfile, Precision};
use crate::units::{Bytes, DurNs, Flop};

use super::anchor::{Anchored, Ratio};
use super::call_overhead::{BEFORE, CallOverhead};
use super::domain::Domain;
use super::features::{doubled_beside, features, sizes};
use super::forest::Forest;
use super::mlp::{Mlp, paper_features};
use super::models::estimate_of;
use super::operators::{GemmSize, gemm_bytes, with_one_query, with_sequences};
use super::prediction::Estimate;
use super::roofline;
use super::structured::{self, structured_us};
use super::trace_error::trace_error;
use super::work::{Family, Shape, Work, element_bytes, element_bytes_of};

/// What is asked for a domain on a device: of the candidates, the one with the least error on held-out rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The structured model, corrected by trees.
    #[default]
    StructuredTrees,
    /// The structured model alone.
    Structured,
    /// A multilayer perceptron on the papers' features.
    Mlp,
    /// The data-movement curve, or where the device has none the roofline.
    Curve,
}

impl Choice {
    /// Its name beside predictions and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::StructuredTrees => "structured+trees",
            Self::Structured => "structured",
            Self::Mlp => "mlp",
            Self::Curve => "curve",
        }
    }
}

/// The parameters of one domain on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// What it covers.
    pub domain: Domain,
    /// Devices it holds for, by id; the first is the one measured, the others have the same chip, the nearest first, and where they were
    /// measured, too, it holds for the sizes that were not.
    pub devices: Vec<String>,
    /// What is asked.
    #[serde(default)]
    pub choice: Choice,
    /// Parameters of the structured model.
    pub parameters: Vec<f64>,
    /// Time below which the measurements are of the host, not the kernel, in µs; 0 where kernels were measured.
    pub host_floor_us: f64,
    /// Part of that time that passes before the kernel starts.
    #[serde(default = "unknown_lead")]
    pub host_before: f64,
    /// Mean absolute relative error on kernels the fit has not seen.
    pub error: f64,
    /// The geometric mean of the same, where it was worked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geometric_error: Option<f64>,
    /// The mean of the structured model without trees.
    pub structured_error: f64,
    /// The same on the other devices of `devices`.
    pub sibling_error: f64,
    /// The same of a network trained on the same rows, whether it was chosen or not.
    #[serde(default)]
    pub network_error: Option<f64>,
    /// Measurements fitted to.
    pub n_train: u32,
    /// Measurements held out.
    pub n_test: u32,
    /// Smallest and largest of each size, in powers of two.
    pub ranges: Vec<(f32, f32)>,
    /// Precisions measured; where none is named, any.
    #[serde(default)]
    pub precisions: Vec<Precision>,
    /// Where the measurements are from.
    pub source: String,
    /// The network, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Mlp>,
    /// Theoretical memory bandwidth of the measured device in GB/s; 0 where the fit holds for no other.
    #[serde(default)]
    pub dram_gb_s: f64,
    /// What the structured model leaves over.
    #[serde(skip)]
    pub forest: Forest,
}

/// Parameters of a domain for devices nobody measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedParameters {
    /// What it covers.
    pub domain: Domain,
    /// Parameters of the structured model.
    pub parameters: Vec<f64>,
    /// Mean absolute relative error on each fitted device, predicted from the others; mean over devices.
    pub error: f64,
    /// Devices behind it.
    pub devices: u32,
    /// The error on each of them.
    #[serde(default)]
    pub by_device: Vec<(String, f64)>,
    /// Fixed cost of a kernel over the device's kernel start: geometric mean of the devices whose kernels, not whole calls,
    /// were measured; 1 where there are none.
    #[serde(default = "one")]
    pub floor_starts: f64,
}

fn one() -> f64 {
    1.0
}

fn unknown_lead() -> f64 {
    BEFORE
}

/// What the structured model says of a kernel, before what was measured corrects it.
struct Part<'w> {
    /// Its time in µs.
    kernel: f64,
    /// What was measured, or would be among the sizes that were, with the time of its whole call and its share of the correction.
    nearest: Vec<(Cow<'w, Work>, f64, f64)>,
    /// Of the call to its kernel, by [`CallOverhead::sensitivity`]; 0 where nothing corrects it.
    sensitivity: f64,
    extrapolated: bool,
}

/// Least sensitivity of a call to its kernel from which corrections of calls say something of kernels.
const LEAST_SENSITIVITY: f64 = 0.1;

/// Powers of two by which a size may lie outside the fitted range and still be told by it.
const MARGIN: f32 = 0.5;
/// Powers of two over which corrections of products fade out beside the fitted range: so slowly that times of up to four times the structured
/// model's rise all the way. Those of other kernels fade out over [`MARGIN`]: published convolutions of larger batches are nearer to
/// the structured model's.
const FADE: f32 = 2.0;
/// Powers of two by which a figure of a device that inherits a fit may differ before corrections are no longer asked.
const UNLIKE: f64 = 0.5;

impl Fit {
    /// What the host adds to the calls that it was fitted to.
    pub fn host(&self) -> CallOverhead {
        CallOverhead { us: self.host_floor_us, before: self.host_before }
    }

    /// The structured model's parameters on `device`: where another card of the measured one's chip has another memory, the rate of the
    /// cache, which they give as a share of the memory's, stays what it is. Of another chip it is another cache.
    pub fn parameters_on(&self, device: &DeviceProfile) -> Cow<'_, [f64]> {
        let ratio = self.dram_gb_s * 1e9 / device.dram_bandwidth.0;
        let is_of_chip = std::iter::once(&device.id).chain(&device.lineage).any(|id| self.devices.contains(id));
        match structured::cache_rate(self.domain) {
            Some(at) if ratio > 0.0 && is_of_chip && self.devices.first() != Some(&device.id) => {
                let mut parameters = self.parameters.clone();
                parameters[at] *= ratio;
                Cow::Owned(parameters)
            }
            _ => Cow::Borrowed(&self.parameters),
        }
    }

    /// Place of `device` among those it holds for.
    fn place_of(&self, device: &str) -> Option<usize> {
        self.devices.iter().position(|id| id == device)
    }

    /// Time in µs of a whole call, host floor included: what the fit was fitted to.
    pub fn whole_call_us(&self, work: &Work, device: &DeviceProfile) -> f64 {
        let whole = self.host().call_us(structured_us(self.domain, work, device, &self.parameters_on(device)));
        self.corrections(&[(work, whole)], device).first().map_or(whole, |correction| whole * correction.exp())
    }

    /// Logarithms of what is chosen over the structured model's whole call, by work and that call.
    fn corrections(&self, calls: &[(&Work, f64)], device: &DeviceProfile) -> Vec<f64> {
        let over = |us: f64, whole: f64| (us.max(1e-6) / whole.max(1e-6)).ln();
        let each = |one: &dyn Fn(&Work, f64) -> f64| calls.iter().map(|&(work, whole)| one(work, whole)).collect();
        match self.choice {
            Choice::StructuredTrees => {
                let row = |&(work, whole): &(&Work, f64)| features(self.domain, work, device, whole);
                self.forest.values(&calls.iter().map(row).collect::<Vec<_>>())
            }
            Choice::Structured => vec![0.0; calls.len()],
            Choice::Mlp => each(&|work, whole| {
                let network = self.network.as_ref().zip(paper_features(work));
                network.map_or(0.0, |(network, row)| over(network.value(&row).clamp(-7.0, 25.0).exp(), whole))
            }),
            Choice::Curve => each(&|work, whole| over(self.host().call_us(roofline::curve_us(work, device)), whole)),
        }
    }

    /// Time in µs of the kernel alone, as [`estimates`](Self::estimates) gives it.
    pub fn kernel_us(&self, work: &Work, device: &DeviceProfile) -> f64 {
        self.estimate(work, device).duration.0 as f64 / 1e3
    }

    fn estimate(&self, work: &Work, device: &DeviceProfile) -> Estimate {
        self.estimates(&[work], device)
            .pop()
            .unwrap_or_else(|| estimate_of(0.0, Choice::Structured.name(), UNFITTED_ERROR, true))
    }

    /// Whether products were measured on the units that compute `work`: what vector units reach of their peak says nothing of
    /// tensor cores. Where traffic bounds a kernel, any do.
    fn has_units_of(&self, work: &Work) -> bool {
        let is_by_arithmetic = self.domain.is_product() || self.domain == Domain::Conv;
        let are_same = |known: &Precision| known.is_tensor() == work.precision.is_tensor();
        !is_by_arithmetic || self.precisions.is_empty() || self.precisions.iter().any(are_same)
    }

    /// Of `fits` the one whose sizes `work` is nearer to than to those of this one, with the share that this one keeps:
    /// all of it where the other is as far.
    fn beside<'a>(&self, fits: &[&'a Self], work: &Work) -> Option<(f64, &'a Self)> {
        let own = self.outside(work);
        let nearer = |other: &&&Self| other.outside(work) < own && other.has_units_of(work);
        let nearest = fits.iter().filter(nearer).min_by(|a, b| a.outside(work).total_cmp(&b.outside(work)))?;
        let as_far = f64::from(nearest.outside(work) / own).powi(4);
        Some((share(own, MARGIN).max(as_far), *nearest))
    }

    /// Times of kernels alone. Where the host's floor hid the kernels from the measurements, or sizes lie outside
    /// them, the structured model is on its own; so it is more and more the further the figures of a device that inherits from the one
    /// measured lie from that one's, since its parameters are shares of a device's figures and the rest is not.
    fn estimates(&self, works: &[&Work], device: &DeviceProfile) -> Vec<Estimate> {
        let parts: Vec<Part<'_>> = works.iter().map(|work| self.part(work, device)).collect();
        let corrected = parts.iter().filter(|part| part.sensitivity > 0.0);
        let nearest = corrected.flat_map(|part| &part.nearest);
        let calls: Vec<(&Work, f64)> = nearest.map(|(work, whole, _)| (work.as_ref(), *whole)).collect();
        let mut corrections = self.corrections(&calls, device).into_iter();
        let error = if self.devices.first() == Some(&device.id) { self.error } else { self.sibling_error };
        let estimate = |part: &Part<'_>| {
            if part.sensitivity <= 0.0 {
                let error = self.structured_error.max(self.sibling_error);
                return estimate_of(part.kernel, Choice::Structured.name(), error, part.extrapolated);
            }
            let shares = part.nearest.iter().map(|(.., share)| share);
            let correction: f64 = shares.zip(&mut corrections).map(|(share, correction)| share * correction).sum();
            let us = part.kernel * (correction * part.sensitivity).exp();
            let error = error * part.sensitivity + self.structured_error * (1.0 - part.sensitivity);
            estimate_of(us, self.choice.name(), self.of_other_libraries(error), false)
        };
        parts.iter().map(estimate).collect()
    }

    /// `error` of times that another version of the library, or another framework, gives.
    fn of_other_libraries(&self, error: f64) -> f64 {
        match self.domain {
            Domain::Gemm16 => error.hypot(BETWEEN_FRAMEWORKS),
            Domain::Attention => error.hypot(BETWEEN_ATTENTIONS),
            _ => error,
        }
    }

    fn part<'w>(&self, work: &'w Work, device: &DeviceProfile) -> Part<'w> {
        let structured = |work: &Work| structured_us(self.domain, work, device, &self.parameters_on(device));
        let kernel = structured(work);
        let alike = self.likeness(device);
        let coverage = self.coverage(work);
        let (covered, extrapolated) = (coverage * alike, coverage <= 0.0 || self.outside(work) > MARGIN);
        if alike <= 0.0 {
            return Part { kernel, nearest: Vec::new(), sensitivity: 0.0, extrapolated };
        }
        let sensitivity = self.host().sensitivity(kernel);
        if covered <= 0.0 || sensitivity < LEAST_SENSITIVITY {
            return Part { kernel, nearest: Vec::new(), sensitivity: 0.0, extrapolated: true };
        }
        let whole = |near: &Cow<'_, Work>| {
            self.host().call_us(if let Cow::Owned(nearest) = near { structured(nearest) } else { kernel })
        };
        let nearest = match self.domain {
            Domain::Decode => self.between(work),
            _ => vec![(self.nearest(work), 1.0)],
        };
        let nearest = nearest.into_iter().map(|(near, share)| {
            let whole = whole(&near);
            (near, whole, share)
        });
        Part { kernel, nearest: nearest.collect(), sensitivity: sensitivity * covered, extrapolated }
    }

    /// The decoding steps of tables between which `work` lies, with the share that each has by the logarithms of its sizes: tables
    /// double sequences and keys from row to row, with one query, and trees, asked between two rows, answer as for either.
    fn between(&self, work: &Work) -> Vec<(Cow<'static, Work>, f64)> {
        let one = with_one_query(work);
        let (&Shape::Attention { batch, keys, .. }, &[of_batch, .., of_keys, _]) = (&one.shape, &self.ranges[..])
        else {
            return vec![(Cow::Owned(one), 1.0)];
        };
        let (of_batch, of_keys) = (doubled_beside(batch, of_batch), doubled_beside(keys, of_keys));
        let pairs = of_batch.into_iter().flat_map(|first| of_keys.map(|second| (first, second)));
        let each = |((batch, of_batch), (keys, of_keys)): ((u64, f64), (u64, f64))| {
            (Cow::Owned(with_sequences(&one, (batch, keys))), of_batch * of_keys)
        };
        pairs.map(each).filter(|(_, share)| *share > 0.0).collect()
    }

    /// The product within the sizes measured that is nearest to `work`; anything else as it is.
    fn nearest<'w>(&self, work: &'w Work) -> Cow<'w, Work> {
        let within = self.resized(work, |_, size, (least, most)| size.clamp(least.min(most).max(1), most.max(1)));
        within.map_or(Cow::Borrowed(work), Cow::Owned)
    }

    /// The product `work` with sums as long as the shortest measured, where its own are shorter.
    pub(super) fn raised(&self, work: &Work) -> Option<Work> {
        let Shape::Gemm { k: own, .. } = work.shape else { return None };
        let least = f64::from(self.ranges.last()?.0).exp2().round() as u64;
        let longer = self.resized(work, |place, size, _| if place == SUMS { size.max(least) } else { size });
        longer.filter(|_| own < least)
    }

    /// A product with rows, columns and sums of other sizes, given which of the three it is, their own and the range measured; `None` where all stay.
    fn resized(&self, work: &Work, size: impl Fn(usize, u64, (u64, u64)) -> u64) -> Option<Work> {
        let (&Shape::Gemm { batch, m, n, k }, [.., of_m, of_n, of_k]) = (&work.shape, &self.ranges[..]) else {
            return None;
        };
        let new = |place: usize, old: u64, &(least, most): &(f32, f32)| {
            let [least, most] = [least, most].map(|log| f64::from(log).exp2().round() as u64);
            size(place, old, (least, most))
        };
        let (rows, columns, depth) = (new(0, m, of_m), new(1, n, of_n), new(SUMS, k, of_k));
        if (rows, columns, depth) == (m, n, k) {
            return None;
        }
        let share = |now: [u64; 2], then: [u64; 2]| {
            let [now, then] = [now, then].map(|sizes| sizes[0] as f64 * sizes[1] as f64);
            now / then.max(1.0)
        };
        let factors = share([depth, rows.saturating_add(columns)], [k, m.saturating_add(n)]);
        let scaled = |bytes: Bytes, by: f64| Bytes((bytes.0 as f64 * by) as u64);
        Some(Work {
            shape: Shape::Gemm { batch, m: rows, n: columns, k: depth },
            read: scaled(work.read, factors),
            written: scaled(work.written, share([rows, columns], [m, n])),
            flop: Flop(work.flop.0 * share([rows, columns], [m, n]) * depth as f64 / (k as f64).max(1.0)),
            ..work.clone()
        })
    }

    /// 1 on a device that was measured, falling to 0 on one that inherits from it and has a figure [`UNLIKE`] powers of two off.
    fn likeness(&self, device: &DeviceProfile) -> f64 {
        let nearest = self.devices.iter().filter_map(|id| device.apart(id)).fold(f64::INFINITY, f64::min);
        (1.0 - nearest / UNLIKE).max(0.0)
    }

    /// How much of what was measured holds for `work`: 1 where its sizes lie within those measured, falling to 0 over the margin beside
    /// them, and 0 on matrix products of other units or elements: no table has products with a factor in fewer bits.
    fn coverage(&self, work: &Work) -> f64 {
        if let Shape::Gemm { batch, m, n, k } = work.shape
            && work.read < gemm_bytes(GemmSize { batch, m, n, k }, element_bytes(work), 0).0
        {
            return 0.0;
        }
        let like = |known: &Precision| {
            known.is_tensor() == work.precision.is_tensor() && element_bytes_of(*known) == element_bytes(work)
        };
        let streams = matches!(self.domain, Domain::Norm | Domain::Softmax | Domain::Streaming);
        if !streams && !self.precisions.is_empty() && !self.precisions.iter().any(like) {
            return 0.0;
        }
        share(self.outside(work), if self.domain.is_product() { FADE } else { MARGIN })
    }

    /// Whether `work` lies among what was measured.
    pub(super) fn covers(&self, work: &Work) -> bool {
        self.coverage(work) >= 1.0
    }

    /// Whether attention was measured over more keys than queries.
    pub(super) fn has_longer_keys(&self) -> bool {
        matches!(self.ranges[..], [_, _, queries, keys, _] if keys.1 > queries.1)
    }

    /// How far the sizes of `work` lie outside those measured, in powers of two.
    fn outside(&self, work: &Work) -> f32 {
        let outside = |(range, size): (&(f32, f32), f32)| (range.0 - size).max(size - range.1).max(0.0);
        self.ranges.iter().zip(sizes(self.domain, work)).map(outside).fold(0.0, f32::max)
    }
}

/// By how much two frameworks' times of a product in 16 bits differ on one GPU: two in three of 57 000 pairs of A100, H100, B200 and L40S
/// (7 % on each but L40S, 11 %) [ai-dynamo/aiconfigurator 095f58a].
const BETWEEN_FRAMEWORKS: f64 = 0.07;

/// By how much another library's attention differs from that of the tables on one GPU: two in three of 116 times on an H100
/// [casys-kaist/LLMServingSim 5daddb2].
const BETWEEN_ATTENTIONS: f64 = 0.35;

/// How fast attention is on an AMD GPU over what the shares of NVIDIA's GPUs say: geometric mean over 20 kinds of kernel of two lengths in a
/// public trace of an MI300X. No table has any; no trace that `lab whatif` swaps between GPUs took part.
const AMD_ATTENTION: f64 = 0.27;

/// The AMD GPU of which tables hold most.
const MEASURED_AMD: &str = "MI300X";

/// All fits.
#[derive(Clone, Debug, Default)]
pub struct Fits {
    pub(super) measured: Vec<Arc<Fit>>,
    pub(super) unseen: BTreeMap<Domain, SharedParameters>,
    pub(super) anchored: BTreeMap<(Domain, Ratio), Anchored>,
    /// Positions in `measured` by domain and device: its own, then those of the same chip.
    index: BTreeMap<Domain, BTreeMap<String, Vec<usize>>>,
}

impl Fits {
    /// Adds `fit`; it replaces what was measured on the same device in its domain, and comes before what was on others of the chip, of
    /// which nearer ones come first.
    ///
    /// # Errors
    /// The wrong number of parameters.
    pub fn add(&mut self, fit: Fit) -> Result<(), String> {
        check_length(fit.domain, &fit.parameters)?;
        let at = self.measured.len();
        let index = self.index.entry(fit.domain).or_default();
        let is_of_same = |other: &usize| self.measured[*other].devices.first() == fit.devices.first();
        for fits in index.values_mut() {
            fits.retain(|other| !is_of_same(other));
        }
        for (place, device) in fit.devices.iter().enumerate() {
            let fits = index.entry(device.clone()).or_default();
            let is_nearer = |other: &usize| self.measured[*other].place_of(device) <= Some(place);
            fits.insert(if place == 0 { 0 } else { fits.iter().take_while(|other| is_nearer(other)).count() }, at);
        }
        self.measured.push(Arc::new(fit));
        Ok(())
    }

    /// Sets the parameters for devices that were not measured.
    pub fn set_unseen(&mut self, unseen: SharedParameters) {
        self.unseen.insert(unseen.domain, unseen);
    }

    /// Sets the errors of anchoring in a domain.
    pub fn set_anchored(&mut self, anchored: Anchored) {
        self.anchored.insert((anchored.domain, anchored.by), anchored);
    }

    /// The measured errors of anchoring in `domain` by `ratio`.
    pub fn anchored(&self, domain: Domain, ratio: Ratio) -> Option<&Anchored> {
        self.anchored.get(&(domain, ratio))
    }

    /// The fit of `domain` for the device `id`: its own, else of its chip.
    pub fn find(&self, domain: Domain, id: &str) -> Option<&Fit> {
        self.of_chip(domain, id).next()
    }

    /// The fits of `domain` for the device `id`, its own first, then those of its chip.
    pub(super) fn of_chip(&self, domain: Domain, id: &str) -> impl Iterator<Item = &Fit> {
        let places = self.index.get(&domain).and_then(|devices| devices.get(id));
        places.into_iter().flatten().filter_map(|&at| self.measured.get(at)).map(AsRef::as_ref)
    }

    /// All fits in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Fit> {
        self.measured.iter().map(AsRef::as_ref)
    }

    /// The parameters for devices that were not measured.
    pub fn unseen(&self, domain: Domain) -> Option<&SharedParameters> {
        self.unseen.get(&domain)
    }

    /// What fits say, before what a library may do instead.
    pub(super) fn of_domain(&self, domain: Domain, works: &[&Work], device: &DeviceProfile) -> Vec<Estimate> {
        let own = |domain: Domain| {
            let known = std::iter::once(&device.id).chain(&device.lineage);
            known.map(|id| self.of_chip(domain, id).collect::<Vec<_>>()).find(|fits| !fits.is_empty())
        };
        // Of products in TF32 a GPU's own in 16 bits say more than other GPUs' in TF32.
        let alike = || (domain == Domain::Tf32).then(|| own(Domain::Gemm16)).flatten();
        let of_maker = || self.of_maker(domain, device).map(|fit| vec![fit]);
        let of_chip = own(domain).or_else(alike);
        let own_chip = of_chip.is_some();
        let Some(fits) = of_chip.or_else(of_maker) else {
            return works.iter().map(|work| self.shared(domain, work, device)).collect();
        };
        let estimates = fits[0].estimates(works, device);
        let each = |(&work, own): (&&Work, Estimate)| {
            let has_units = |fit: &&&Fit| fit.has_units_of(work);
            let Some(first) = fits.iter().find(has_units) else { return self.shared(domain, work, device) };
            let own = if std::ptr::eq(*first, fits[0]) { own } else { first.estimate(work, device) };
            let estimate = match first.beside(&fits, work) {
                Some((share, other)) => between(own, other.estimate(work, device), share),
                None => own,
            };
            let estimate = if own_chip { estimate } else { of_unmeasured(estimate, work, device) };
            if is_measured_at_all_widths(work) { estimate } else { at_least(estimate, work, device) }
        };
        works.iter().zip(estimates).map(each).collect()
    }

    /// The fit of the AMD GPU whose kernels were measured, for others of AMD: its libraries' shares of a device's figures are not those of
    /// NVIDIA's, from whose GPUs the parameters for unseen devices are.
    fn of_maker(&self, domain: Domain, device: &DeviceProfile) -> Option<&Fit> {
        device.is_amd.then(|| self.find(domain, MEASURED_AMD)).flatten()
    }

    /// The time of `work` with the parameters for unseen devices, fit or not: comparable between any two devices.
    pub fn shared(&self, domain: Domain, work: &Work, device: &DeviceProfile) -> Estimate {
        at_least(self.estimate_unseen(domain, work, device), work, device)
    }

    fn estimate_unseen(&self, domain: Domain, work: &Work, device: &DeviceProfile) -> Estimate {
        let of_nvidia = structured_us(domain, work, device, &self.parameters_unseen(domain, device));
        let us = if domain == Domain::Attention && device.is_amd { of_nvidia / AMD_ATTENTION } else { of_nvidia };
        let error = self.unseen.get(&domain).map_or(UNFITTED_ERROR, |unseen| unseen.error);
        of_unmeasured(estimate_of(us, "structured-unseen", error, true), work, device)
    }

    fn parameters_unseen(&self, domain: Domain, device: &DeviceProfile) -> Vec<f64> {
        let unseen = self.unseen.get(&domain);
        let mut parameters =
            unseen.map_or_else(|| structured::default_values(domain), |unseen| unseen.parameters.clone());
        let starts = unseen.map_or(1.0, |unseen| unseen.floor_starts);
        parameters[structured::START_US] = starts * device.kernel_start.secs() * 1e6;
        if domain == Domain::Decode && device.is_amd {
            parameters[structured::COMPUTE] *= AMD_ATTENTION;
        }
        parameters
    }

    /// The structured model's parameters for `device`: of its own fit, or those for unseen devices.
    pub fn parameters(&self, domain: Domain, device: &DeviceProfile) -> Vec<f64> {
        let own = self.find(domain, &device.id);
        own.map_or_else(|| self.parameters_unseen(domain, device), |fit| fit.parameters_on(device).into_owned())
    }
}

/// `estimate` on a GPU of which nothing was measured: on one of AMD, whose libraries the errors of tables, of GPUs of NVIDIA, say nothing of,
/// it states no less than kernels of AMD's traces showed.
fn of_unmeasured(estimate: Estimate, work: &Work, device: &DeviceProfile) -> Estimate {
    let error = if device.is_amd { estimate.error.max(trace_error(work, true)) } else { estimate.error };
    Estimate { error, ..estimate }
}

/// 1 where nothing lies outside, falling to 0 over `width`.
fn share(outside: f32, width: f32) -> f64 {
    f64::from((1.0 - outside / width).max(0.0))
}

/// The time between two in ratio, of which `own` has this `share`.
fn between(own: Estimate, other: Estimate, share: f64) -> Estimate {
    let [a, b] = [own, other].map(|estimate| (estimate.duration.0 as f64).max(1.0).ln());
    let duration = DurNs((share * a + (1.0 - share) * b).exp().round() as i64);
    Estimate { duration, error: own.error.max(other.error), ..other }
}

/// Whether tables have rows of `work`'s elements at widths that no vector fits: softmax of 32 bits. Products of odd sizes and permuted
/// elements were not measured, nor were rows of 16 bits.
fn is_measured_at_all_widths(work: &Work) -> bool {
    let Shape::Rows { rows, width } = work.shape else { return false };
    work.family == Family::Softmax && work.written.0 >= rows.saturating_mul(width).saturating_mul(4)
}

/// `estimate`, or the time to fetch the elements one by one where that is longer.
fn at_least(estimate: Estimate, work: &Work, device: &DeviceProfile) -> Estimate {
    let least = DurNs::from_us_f64(structured::access_us(work, device));
    if least <= estimate.duration {
        return estimate;
    }
    Estimate { duration: least, model: ACCESSES, error: estimate.error.max(ACCESS_ERROR), extrapolated: true }
}

/// Place of the length of sums among rows, columns and sums of a product.
const SUMS: usize = 2;

/// The model of times by accesses.
pub(super) const ACCESSES: &str = "accesses";

/// Stated error of times by accesses: an estimate, wider than the 0.2 seen on traced kernels, since no table measures such
/// kernels.
const ACCESS_ERROR: f32 = 0.35;

/// Error of default parameters that nothing was fitted to.
const UNFITTED_ERROR: f64 = 0.5;

pub(super) fn check_length(domain: Domain, parameters: &[f64]) -> Result<(), String> {
    let needed = structured::defaults(domain).len();
    if parameters.len() == needed {
        return Ok(());
    }
    Err(format!("{} has {} parameters: {needed} are expected", domain.name(), parameters.len()))
}
