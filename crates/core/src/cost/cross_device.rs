//! [`CrossDevice`]: what a measured time becomes when a kernel's work or device changes. Takes the times on either device from
//! [`CostModels`].

use std::f32::consts::LN_2;

use hashbrown::Equivalent;
use rustc_hash::FxHashMap;

use crate::device::{DeviceKind, DeviceProfile};
use crate::units::DurNs;

use super::anchor::{self, Change};
use super::conv_algorithm::{ALGORITHM_ERROR, chosen_times, without_choice};
use super::domain::Domain;
use super::lookup::is_mostly_start;
use super::memo::{Distinct, Memo};
use super::models::{CostModels, Placed, figures_key, fitted_domain, in_a_model, on_units_there};
use super::prediction::{Estimate, Prediction, Provenance};
use super::roofline::{LeastTimes, is_bound_by_traffic, roofline_us};
use super::trace_error::trace_error;
use super::work::{Family, Shape, Work, element_bytes};

/// A kernel to be predicted.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    /// What it took, if it was measured.
    pub measured: Option<DurNs>,
    /// What kernels like it took, where `measured` is only a unit for ratios: tells how far a model is from them.
    pub typical: Option<DurNs>,
    /// What it did then.
    pub old: Option<&'a Work>,
    /// What it has to do.
    pub new: Option<&'a Work>,
}

/// Predictions from one device to another (or the same), with what the models read of both looked up once for all kernels.
#[derive(Clone, Copy, Debug)]
pub struct CrossDevice<'a> {
    models: &'a CostModels,
    old: (u64, &'a DeviceProfile),
    new: (u64, &'a DeviceProfile),
}

/// What the models say of a change, whatever was measured.
#[derive(Clone, Copy, Debug)]
enum ModelledChange {
    /// No model covers the work.
    Unmodelled,
    /// Nothing can be said of the ratio.
    Absolute(Prediction),
    /// The ratio of `comparable` to `before`, with its expected error; or `alone`, by a model alone, where that missed the measured kernel
    /// by less than `known`; under no roof in `least`, of the old work on the old device and of the new on the new. It `adds` where
    /// what the model misses of the old is part of its start, which more work does not repeat. What a kernel took beyond `before` changes
    /// by `beyond`, where that is known not to be traffic.
    Either {
        before: Estimate,
        comparable: Estimate,
        alone: Prediction,
        error: f32,
        known: f32,
        least: LeastTimes,
        adds: bool,
        beyond: Option<f64>,
    },
}

/// Whether the errors of models on two devices are those of one model, go together, or have nothing to do with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorCorrelation {
    /// One device; or a host, whose models are of another kind.
    Same,
    /// The same code runs on both (a framework's own kernels; convolutions and attention of one maker), or variants of one chip, or
    /// devices of one maker that no fit knows, so that the same parameters miss both.
    Correlated,
    /// Each has libraries of its own, or a fit: the measured kernel tells nothing of the other
    /// device, and the error of a ratio is that of both.
    Independent,
}

/// Modelled changes that were worked out before.
#[derive(Debug, Default)]
pub(super) struct ChangeMemo(Memo<OwnedChangeKey, ModelledChange>);

#[derive(Hash, PartialEq)]
struct ChangeKey<'a> {
    devices: (u64, u64),
    old: Option<&'a Work>,
    new: Option<&'a Work>,
}

#[derive(Debug, Hash, PartialEq)]
struct OwnedChangeKey {
    devices: (u64, u64),
    old: Option<Work>,
    new: Option<Work>,
}

/// Work holds floats; one that is not a number is found in no memory and worked out each time.
impl Eq for OwnedChangeKey {}

impl Equivalent<OwnedChangeKey> for ChangeKey<'_> {
    fn equivalent(&self, owned: &OwnedChangeKey) -> bool {
        self.devices == owned.devices && self.old == owned.old.as_ref() && self.new == owned.new.as_ref()
    }
}

impl From<&ChangeKey<'_>> for OwnedChangeKey {
    fn from(key: &ChangeKey<'_>) -> Self {
        Self { devices: key.devices, old: key.old.cloned(), new: key.new.cloned() }
    }
}

impl CostModels {
    /// Predictions for kernels traced on `old` that run on `new`.
    pub fn between<'a>(&'a self, old: &'a DeviceProfile, new: &'a DeviceProfile) -> CrossDevice<'a> {
        let new_key = figures_key(new);
        let old_key = if std::ptr::eq(old, new) { new_key } else { figures_key(old) };
        CrossDevice { models: self, old: (old_key, old), new: (new_key, new) }
    }

    /// [`CrossDevice::predict`] for a single kernel.
    pub fn predict(&self, measured: Option<DurNs>, old: Placed<'_>, new: Placed<'_>) -> Prediction {
        let kernel = Kernel { measured, typical: None, old: old.work, new: new.work };
        self.between(old.device, new.device).predict(kernel)
    }
}

impl ModelledChange {
    /// What a kernel that took `measured` takes after the change; those like it took `typical`.
    fn of(&self, measured: DurNs, typical: DurNs) -> Prediction {
        match self {
            Self::Unmodelled => unmodelled(Some(measured)),
            Self::Absolute(alone) => *alone,
            Self::Either { before, alone, error, known, .. }
                if alone.error < *error && anchor::missed(before, typical) < *known =>
            {
                *alone
            }
            Self::Either { before, comparable, error, least, adds, beyond, .. } => Prediction {
                duration: least.hold(measured, measured.scale(ratio(before, comparable, typical, (*adds, *beyond)))),
                provenance: Provenance::Anchored,
                model: comparable.model,
                error: *error,
                extrapolated: comparable.extrapolated || before.extrapolated,
            },
        }
    }
}

impl CrossDevice<'_> {
    /// The duration of a task that took `measured` (if it was measured) doing the old work, and now has to do the new. Memoised.
    ///
    /// The model's miss on the measured kernel itself counts as an error of *absolute*: where `model(old)` is far from what
    /// was measured, the work is not what the model takes it for, and only its ratio is of use.
    ///
    /// So does the peak of units that only one of two devices has: then it is *absolute*.
    ///
    /// Nothing changed: the measured duration exactly. Otherwise the one with the smaller expected error of *anchored*,
    /// `t = t_measured · model(new)/model(old)`, and *absolute*, `t = model(new)`. When no model covers it the measured
    /// duration is kept and marked unmodelled.
    pub fn predict(&self, kernel: Kernel<'_>) -> Prediction {
        let Kernel { measured, typical, old, new } = kernel;
        let Some(measured) = measured else {
            let estimate = new.and_then(|work| Some(absolute(&self.after(work)?, work, self.new.1)));
            return estimate.unwrap_or_else(|| unmodelled(None));
        };
        if self.old.0 == self.new.0 && old == new {
            return Prediction::measured(measured);
        }
        let key = ChangeKey { devices: (self.old.0, self.new.0), old, new };
        self.models.changes.0.answer(&key, || self.modelled_change(old, new)).of(measured, typical.unwrap_or(measured))
    }

    /// [`predict`](Self::predict) of all `kernels`: each change is looked up once, kernels that share their works even without
    /// a look at these, and the changes not in memory are worked out together.
    pub fn predict_all(&self, kernels: &[Kernel<'_>]) -> Vec<Prediction> {
        let devices = (self.old.0, self.new.0);
        let mut changes = Distinct::default();
        let mut shared: FxHashMap<(usize, usize), usize> = FxHashMap::default();
        let address = |work: Option<&Work>| work.map_or(0, |work| std::ptr::from_ref(work).addr());
        let mut places = Vec::with_capacity(kernels.len());
        for &Kernel { old, new, .. } in kernels {
            let place = shared.entry((address(old), address(new)));
            places.push(*place.or_insert_with(|| changes.place(ChangeKey { devices, old, new })));
        }
        self.models.precompute(changes.list.iter().filter_map(|change| change.new), self.new.1, self.new.0);
        self.models.precompute(changes.list.iter().filter_map(|change| change.old), self.old.1, self.old.0);
        let modelled =
            |key: &ChangeKey<'_>| self.models.changes.0.answer(key, || self.modelled_change(key.old, key.new));
        let modelled: Vec<ModelledChange> = changes.list.iter().map(modelled).collect();
        let changed = |key: &ChangeKey<'_>| devices.0 != devices.1 || key.old != key.new;
        let changed: Vec<bool> = changes.list.iter().map(changed).collect();
        let predict = |(kernel, place): (&Kernel<'_>, usize)| match kernel.measured {
            Some(measured) if changed[place] => modelled[place].of(measured, kernel.typical.unwrap_or(measured)),
            _ => self.predict(*kernel),
        };
        kernels.iter().zip(places).map(predict).collect()
    }

    fn after(&self, work: &Work) -> Option<Estimate> {
        self.models.estimate_keyed(work, self.new.1, self.new.0)
    }

    fn modelled_change(&self, old: Option<&Work>, new: Option<&Work>) -> ModelledChange {
        let has_other_units =
            old.zip(new).is_some_and(|(old, new)| has_other_units((old, self.old.1), (new, self.new.1)));
        let old = old.map(|work| on_units_there(work, self.old.1));
        let new = new.map(|work| on_units_there(work, self.new.1));
        let (old, new) = (old.as_deref(), new.as_deref());
        // What a model knows no work of, it says nothing of where kernels start for nothing: no kernel takes no time.
        let after = new.and_then(|work| Some((work, self.after(work)?)));
        let Some((new, after)) = after.filter(|(_, after)| after.duration > DurNs::ZERO) else {
            return ModelledChange::Unmodelled;
        };
        let alone = absolute(&after, new, self.new.1);
        let before = old.and_then(|work| self.models.estimate_keyed(work, self.old.1, self.old.0));
        let before = before.filter(|before| before.duration > DurNs::ZERO);
        let (Some(old), Some(before)) = (old, before) else { return ModelledChange::Absolute(alone) };
        if has_other_units || self.is_another_kernel((&before, old), (&after, new)) {
            return ModelledChange::Absolute(alone);
        }
        let change = Change { same_device: self.old.0 == self.new.0, doublings: doublings(old, new) };
        let correlation = self.error_correlation((&before, &after), new);
        let (before, comparable) = match correlation {
            ErrorCorrelation::Same => self.by_one_model((before, after), old, new),
            // A fit of the one beside the parameters of all devices for the other would show their difference.
            ErrorCorrelation::Correlated if (before.model == SHARED) != (after.model == SHARED) => {
                self.by_one_model((before, after), old, new)
            }
            ErrorCorrelation::Correlated | ErrorCorrelation::Independent => (before, after),
        };
        let domain = Domain::of(new);
        let measured = |ratio| domain.and_then(|domain| self.models.fits().anchored(domain, ratio));
        let mut error = anchor::expected_error(&before, &comparable, change, measured);
        if !change.same_device {
            error = error.max(trace_error(new, self.new.1.is_amd));
        }
        if has_other_algorithm(old, new) {
            error = error.hypot(ALGORITHM_ERROR);
        }
        let known = match correlation {
            ErrorCorrelation::Same => error,
            ErrorCorrelation::Correlated => 0.0,
            ErrorCorrelation::Independent => RECOGNISED,
        };
        if correlation == ErrorCorrelation::Independent || self.old.1.is_amd != self.new.1.is_amd {
            // What both sides of the ratio miss of running models.
            let [before, after] = [self.old.1, self.new.1].map(|device| trace_error(new, device.is_amd));
            error = error.max(before.hypot(after));
        }
        let least = LeastTimes::of_predicted(
            comparable.model,
            Placed { work: Some(old), device: self.old.1 },
            Placed { work: Some(new), device: self.new.1 },
        );
        let adds = doublings(old, new) > 0.0
            && comparable.duration > before.duration
            && is_mostly_start(&old.shape, element_bytes(old), self.old.1);
        let is_correlated = correlation == ErrorCorrelation::Correlated;
        let rate = is_correlated.then(|| self.beyond_traffic(old)).flatten();
        let beyond = rate.map(|rate| rate * if adds { 1.0 } else { self.growth_on_old(&before, old, new) });
        ModelledChange::Either { before, comparable, alone, error, known, least, adds, beyond }
    }

    /// Whether the new work is priced by a fit of other kernels than the old was, of which nothing was fitted or that are convolutions or
    /// norms: matrix units do not run the vector kernel faster, they run another one.
    fn is_another_kernel(&self, (before, old): (&Estimate, &Work), (after, new): (&Estimate, &Work)) -> bool {
        let is_told = before.model == SHARED || matches!(old.family, Family::Conv | Family::Norm);
        let domains = (fitted_domain(old, self.old.1), fitted_domain(new, self.new.1));
        is_told && after.model != SHARED && domains.0 != domains.1
    }

    /// The time of the new work over that of the old one where the old one ran.
    fn growth_on_old(&self, before: &Estimate, old: &Work, new: &Work) -> f64 {
        let after = (old != new).then(|| self.models.estimate_keyed(new, self.old.1, self.old.0)).flatten();
        let times = after.map(|after| self.by_one_model((*before, after), old, new));
        times.map_or(1.0, |(before, after)| after.duration.0 as f64 / before.duration.0.max(1) as f64)
    }

    /// What a kernel of the framework's own that is bound by traffic takes beyond what its bytes explain goes into instructions and waiting:
    /// how it changes with the multiprocessors and their clock.
    fn beyond_traffic(&self, old: &Work) -> Option<f64> {
        let is_library = matches!(old.family, Family::Gemm | Family::Conv | Family::Attention);
        let rate = |device: &DeviceProfile| f64::from(device.sm_count) * device.clock_mhz;
        let (from, to) = (rate(self.old.1), rate(self.new.1));
        let is_comparable = self.old.1.is_amd == self.new.1.is_amd && from > 0.0 && to > 0.0;
        (!is_library && is_comparable && is_bound_by_traffic(old, self.old.1)).then(|| from / to)
    }

    /// How the models' errors of a kernel on the two devices go together.
    fn error_correlation(&self, (before, after): (&Estimate, &Estimate), new: &Work) -> ErrorCorrelation {
        let (from, to) = (self.old.1, self.new.1);
        if self.old.0 == self.new.0 || [from, to].iter().any(|device| device.kind != DeviceKind::Gpu) {
            return ErrorCorrelation::Same;
        }
        let one_maker = from.is_amd == to.is_amd;
        let are_shared = before.model == SHARED && after.model == SHARED;
        let is_correlated = match Domain::of(new) {
            None | Some(Domain::Streaming) => true,
            Some(Domain::Conv | Domain::Attention | Domain::Decode) => one_maker,
            // AMD's GPUs take the parameters of the one that was measured.
            Some(_) => from.chip() == to.chip() || one_maker && (are_shared || from.is_amd),
        };
        if is_correlated { ErrorCorrelation::Correlated } else { ErrorCorrelation::Independent }
    }

    /// Both estimates by one model: on one device the ratio of two models' answers would show their difference. Where one of two sizes
    /// is out of a fit's range, that is the structured model with what the fitted devices have in common. (CrossDevice devices each one's
    /// best estimate errs less than one model for both.)
    fn by_one_model(&self, (before, after): (Estimate, Estimate), old: &Work, new: &Work) -> (Estimate, Estimate) {
        let is_chosen_only = has_other_algorithm(old, new) && without_choice(old) == without_choice(new);
        if before.model == after.model || is_chosen_only && self.old.0 == self.new.0 {
            return (before, after);
        }
        let by_choice = |duration: DurNs, work: &Work, device| {
            chosen_times(work, device).map_or(duration, |times| duration.scale(times.ratio))
        };
        let shared = |work: &Work, device| {
            let chosen_by_library = without_choice(work);
            let alone = Domain::of(work).map(|domain| self.models.fits().shared(domain, &chosen_by_library, device));
            alone.map(|estimate| by_choice(in_a_model(estimate, &chosen_by_library, device).duration, work, device))
        };
        let ours = shared(old, self.old.1).zip(shared(new, self.new.1));
        let roofline =
            |work, device| by_choice(DurNs::from_us_f64(roofline_us(&without_choice(work), device)), work, device);
        let (model, times) = ours.map_or_else(
            || ("roofline", (roofline(old, self.old.1), roofline(new, self.new.1))),
            |times| (SHARED, times),
        );
        if times.0 <= DurNs::ZERO || times.1 <= DurNs::ZERO {
            return (before, after);
        }
        let error = before.error.max(after.error);
        let estimate = |duration, extrapolated| Estimate { duration, model, error, extrapolated };
        (estimate(times.0, before.extrapolated), estimate(times.1, after.extrapolated))
    }
}

/// What a kernel that took `typical` takes after the change over what it took.
fn ratio(before: &Estimate, after: &Estimate, typical: DurNs, (adds, beyond): (bool, Option<f64>)) -> f64 {
    let missed = (typical - before.duration).0;
    if let Some(beyond) = beyond.filter(|_| missed > 0) {
        return (after.duration.0 as f64 + missed as f64 * beyond) / typical.0 as f64;
    }
    if adds {
        return 1.0 + (after.duration - before.duration).0 as f64 / typical.0.max(1) as f64;
    }
    after.duration.0 as f64 / before.duration.0 as f64
}

/// Whether another algorithm is chosen for a convolution.
fn has_other_algorithm(old: &Work, new: &Work) -> bool {
    let chosen = |work: &Work| if let Shape::Conv { algorithm, .. } = work.shape { algorithm } else { None };
    chosen(old) != chosen(new)
}

/// Whether a kernel on one device says nothing of that on the other: only one of them has units of its own for the precision (tensor
/// cores for tf32, say), and the other computes in another one.
fn has_other_units((old, old_device): (&Work, &DeviceProfile), (new, new_device): (&Work, &DeviceProfile)) -> bool {
    let units = (old_device.unit(old.precision), new_device.unit(new.precision));
    let own = (units.0 == Some(old.precision), units.1 == Some(new.precision));
    own.0 != own.1 && units.0 != units.1
}

/// `estimate` of `work` with nothing measured to anchor it: its error is that of traced kernels, where that is more than the model's own.
pub(super) fn absolute(estimate: &Estimate, work: &Work, device: &DeviceProfile) -> Prediction {
    let &Estimate { duration, model, error, extrapolated } = estimate;
    let error = error.max(trace_error(work, device.is_amd));
    Prediction { duration, provenance: Provenance::Absolute, model, error, extrapolated }
}

/// Of an estimate with the parameters for devices that no fit knows.
const SHARED: &str = "structured-unseen";

/// Logarithm of how far a model may be from a measured kernel and still take it for what it is: a factor of two.
const RECOGNISED: f32 = LN_2;

/// Relative error stated for a duration that should have changed but was kept.
const UNMODELLED_ERROR: f32 = 1.0;

/// A task of which nothing is known but its traced duration, which it keeps.
pub fn unmodelled(measured: Option<DurNs>) -> Prediction {
    Prediction {
        duration: measured.unwrap_or(DurNs::ZERO),
        provenance: Provenance::Unmodelled,
        model: "",
        error: UNMODELLED_ERROR,
        extrapolated: false,
    }
}

/// How often the work doubled or halved, by arithmetic or traffic, whichever changed more.
pub fn doublings(old: &Work, new: &Work) -> f64 {
    let ratio = |a: f64, b: f64| if a > 0.0 && b > 0.0 { (b / a).log2().abs() } else { 0.0 };
    ratio(old.flop.0, new.flop.0).max(ratio(old.bytes().0 as f64, new.bytes().0 as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{
        AttentionSize, ConvPass, ConvSize, GemmSize, LookupSize, attention_work, conv_work, gemm_work, lookup_work,
        movement_work,
    };
    use crate::cost::work::Family;
    use crate::cost::{ChosenAlgorithm, ConvAlgorithm};
    use crate::device::Catalog;
    use crate::graph::DType;

    #[test]
    fn a_model_is_asked_alone_only_where_it_is_near_what_such_kernels_took_whatever_unit_ratios_are_in() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let (from, to) = (catalog.find("H100-SXM").unwrap(), catalog.find("MI300X").unwrap());
        let heads =
            AttentionSize { batch: 4, heads: 12, kv_heads: 12, queries: 512, keys: 512, dim: 64, causal: false };
        let work = attention_work(&heads, false, DType::Bf16);
        let near = models.estimate(&work, from).unwrap().duration;
        let unit = Some(DurNs(1_000_000_000));
        let predict = |typical: DurNs| {
            let kernel = Kernel { measured: unit, typical: Some(typical), old: Some(&work), new: Some(&work) };
            models.between(from, to).predict(kernel).provenance
        };
        assert_eq!(predict(near), Provenance::Absolute);
        assert_eq!(predict(near.scale(50.0)), Provenance::Anchored);
    }

    #[test]
    fn another_chip_is_asked_alone_about_a_librarys_kernel_and_by_ratio_about_the_frameworks_own() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let product = gemm_work(GemmSize { batch: 1, m: 4096, n: 4096, k: 1024 }, DType::Bf16, false, 0);
        let streamed = movement_work(Family::Elementwise, 1 << 26, 1 << 26);
        let predict = |from: &str, to: &str, work: &Work, off: f64| {
            let (from, to) = (catalog.find(from).unwrap(), catalog.find(to).unwrap());
            let measured = models.estimate(work, from).unwrap().duration.scale(off);
            let kernel = Kernel { measured: Some(measured), typical: None, old: Some(work), new: Some(work) };
            let ratio = models.estimate(work, to).unwrap().duration.scale(off);
            (models.between(from, to).predict(kernel), ratio)
        };
        let (alone, ratio) = predict("H100-SXM", "MI300X", &product, 1.6);
        assert!(alone.provenance == Provenance::Absolute && alone.duration < ratio, "{alone:?}");
        let (far, ratio) = predict("H100-SXM", "MI300X", &product, 3.0);
        let both = trace_error(&product, false).hypot(trace_error(&product, true));
        assert!(
            (far.duration.0 - ratio.0).abs() <= 3 && far.error >= both && both > alone.error,
            "what it is not known for: {far:?}"
        );
        for (from, to) in [("A100-40", "A100-80"), ("MI210", "MI300X")] {
            let (near, ratio) = predict(from, to, &product, 1.6);
            assert_eq!(near.provenance, Provenance::Anchored, "{from} {to}");
            assert!((near.duration.0 - ratio.0).abs() <= 3, "{near:?} {ratio:?}");
        }
        // An H200 has the multiprocessors of an H100 and other memory: what bytes do not explain stays.
        let (from, to) = (catalog.find("H100-SXM").unwrap(), catalog.find("H200").unwrap());
        let [before, after] = [from, to].map(|device| models.estimate(&streamed, device).unwrap().duration);
        let (moved, ratio) = predict("H100-SXM", "H200", &streamed, 1.6);
        assert!((moved.duration.0 - (after + before.scale(0.6)).0).abs() <= 3 && moved.duration > ratio, "{moved:?}");
        let (moved, ratio) = predict("H100-SXM", "H200", &streamed, 0.8);
        assert!((moved.duration.0 - ratio.0).abs() <= 3, "faster than its bytes: {moved:?} {ratio:?}");
    }

    #[test]
    fn what_a_small_kernel_took_too_long_grows_on_another_device_as_it_does_on_its_own() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let (small, large) = [1 << 14, 1 << 21].map(|bytes| movement_work(Family::Elementwise, bytes, bytes)).into();
        let (from, to) = (catalog.find("V100").unwrap(), catalog.find("GV100").unwrap());
        let measured = models.estimate(&small, from).unwrap().duration.scale(20.0);
        let predict = |device| {
            let old = Placed { work: Some(&small), device: from };
            models.predict(Some(measured), old, Placed { work: Some(&large), device }).duration
        };
        let (own, other) = (predict(from), predict(to));
        assert!(other >= own.scale(0.8) && other <= own.scale(1.6), "{own} on one, {other} on the other");
    }

    #[test]
    fn another_algorithm_on_one_device_takes_its_share_of_the_measured_time() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let size = ConvSize {
            batch: 32,
            channels_in: 256,
            channels_out: 256,
            in_area: 56 * 56,
            out_h: 56,
            out_w: 56,
            r: 3,
            s: 3,
            stride: 1,
            groups: 1,
        };
        let old = conv_work(&size, ConvPass::Forward, DType::Fp32, true);
        let mut new = old.clone();
        let Shape::Conv { algorithm, .. } = &mut new.shape else { panic!("a convolution") };
        *algorithm = Some(ChosenAlgorithm { from: Some(ConvAlgorithm::ImplicitGemm), to: Some(ConvAlgorithm::Direct) });
        let device = catalog.find("H100-SXM").unwrap();
        let ratio = chosen_times(&new, device).unwrap().ratio;
        assert!(ratio > 2.0, "without tensor cores: {ratio}");
        let place = |work| Placed { work: Some(work), device };
        let measured = models.estimate(&old, device).unwrap().duration.scale(1.3);
        let predicted = models.predict(Some(measured), place(&old), place(&new));
        assert!((predicted.duration.0 - measured.scale(ratio).0).abs() <= 3, "{predicted:?} is ×{ratio} of {measured}");
        assert!(predicted.error >= ALGORITHM_ERROR, "{predicted:?}");
    }

    #[test]
    fn a_lookup_that_took_its_start_does_not_repeat_what_that_took_too_long() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("V100").unwrap();
        let lookup = |batch| {
            let size = LookupSize { batch, rows: 1_000_000, tables: 2, pooling: 10.0, dim: 64 };
            lookup_work(&size, false, DType::Fp32, DType::Int64)
        };
        let (small, large) = (lookup(16), lookup(65_536));
        let model = models.estimate(&large, device).unwrap().duration;
        let started = models.estimate(&small, device).unwrap().duration;
        let place = |work| Placed { work: Some(work), device };
        let measured = started.scale(4.0);
        let predicted = models.predict(Some(measured), place(&small), place(&large)).duration;
        assert!(predicted >= model && predicted <= model + measured, "{predicted} {model}");
        let slow = models.predict(Some(model.scale(2.0)), place(&large), place(&lookup(131_072))).duration;
        assert!(slow > model.scale(3.5), "what its traffic took twice as long is repeated: {slow} {model}");
    }

    #[test]
    fn a_remembered_prediction_is_the_one_worked_out_for_it_alone() {
        let (shared, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let mut fast = DeviceProfile::clone(catalog.find("A100").unwrap());
        fast.scale_memory_bandwidth(2.0);
        let devices = [catalog.find("V100").unwrap(), catalog.find("H100").unwrap(), &fast];
        let product = |m, n| gemm_work(GemmSize { batch: 1, m, n, k: 64 }, DType::Fp32, false, 0);
        // The first two do the same arithmetic and move the same bytes.
        let works = [product(512, 4096), product(4096, 512), movement_work(Family::Elementwise, 1 << 22, 1 << 20)];
        let works: Vec<Option<&Work>> = works.iter().map(Some).chain([None]).collect();
        let mut seen = 0;
        let mut kernels = Vec::new();
        for (&from, &to) in devices.iter().flat_map(|from| devices.iter().map(move |to| (from, to))) {
            for (&old, &new) in works.iter().flat_map(|old| works.iter().map(move |new| (old, new))) {
                for measured in [None, Some(DurNs(20_000)), Some(DurNs(3_000_000)), Some(DurNs(20_000))] {
                    let kernel = Kernel { measured, typical: None, old, new };
                    let remembered = shared.between(from, to).predict(kernel);
                    let again = shared.between(from, to).predict(kernel);
                    assert_eq!(remembered, again);
                    kernels.push((from, to, kernel, remembered));
                    if seen % 11 == 0 {
                        let alone = CostModels::new(shared.fits().clone(), shared.links().clone());
                        assert_eq!(remembered, alone.between(from, to).predict(kernel));
                    }
                    seen += 1;
                }
            }
        }
        for pair in kernels.chunk_by(|a, b| std::ptr::eq(a.0, b.0) && std::ptr::eq(a.1, b.1)) {
            let asked: Vec<Kernel<'_>> = pair.iter().map(|kernel| kernel.2).collect();
            let fresh = CostModels::new(shared.fits().clone(), shared.links().clone());
            let all = fresh.between(pair[0].0, pair[0].1).predict_all(&asked);
            assert!(all.iter().eq(pair.iter().map(|kernel| &kernel.3)));
        }
    }
}
