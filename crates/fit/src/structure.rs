//! Parameters of a structured model by search, on one device or for all: what measurements do not tell stays near what devices
//! have in common.

use super::held_out::is_held_out;
use super::search::minimise;
use super::{FitPrior, Measurement, Sample};
use retime_core::cost::call_overhead::{BEFORE, CallOverhead};
use retime_core::cost::domain::Domain;
use retime_core::cost::fits::Fit;
use retime_core::cost::significant::significant;
use retime_core::cost::structured::{
    BANDWIDTH, COMPUTE, START_US, default_values, defaults, power_limit, structured_us, without_power_limit,
};
use retime_core::device::DeviceProfile;

/// Most measurements of a sample that the search over parameters looks at.
const SEARCHED: usize = 1_200;
/// Most of them by which the pull is chosen.
const COMPARED: usize = 400;
/// Measurements of a device that each sample contributes to shared parameters.
const SHARED: usize = 300;
/// No host takes longer than this to issue one call.
const LARGEST_CALL_OVERHEAD_US: f64 = 110.0;
/// Parameters of a host's floor, behind those of the model, and what the second may be.
const HOST: usize = 2;
const BEFORE_RANGE: (f64, f64) = (0.05, 1.0);
/// A measurement is the kernel's when it is at least this many times the host's floor.
pub(super) const KERNEL_OVER_FLOOR: f64 = 2.0;
/// What devices have in common of norms and softmax goes by longer calls still: their hosts allocate several results before the kernel
/// starts, so that most of the floor may pass before it.
const ROWWISE_OVER_FLOOR: f64 = 4.0;
/// Of another sample's whole calls, those at least this many times their shortest are kernels.
const COMPANION_OVER_FLOOR: f64 = 3.0;
/// Least weight of a measurement that is all the host's: its floor is to be found too.
const LEAST_WEIGHT: f64 = 0.05;
/// Pulls towards common parameters that are compared, in mean absolute logarithm per mean squared logarithm.
const PULLS: [f64; 4] = [0.003, 0.02, 0.1, 0.4];
/// Fewest measurements by which one is chosen.
const FEWEST_VALIDATION: usize = 30;

/// A measurement as a training_row: its device, and whether its host's floor is in it.
#[derive(Clone, Copy)]
pub(super) struct TrainingRow<'a> {
    pub(super) device: &'a DeviceProfile,
    pub(super) row: &'a Measurement,
    /// Its time in µs, of another table's whole call without what came before the kernel.
    pub(super) us: f64,
    /// Whether the floor that is fitted is in its time.
    pub(super) has_floor: bool,
}

/// Measurements that a fit may see: its own rows by kind, then those of companions, each group with a common weight. The first list is
/// for trees too; calls of companions (another machine, other versions of libraries) are for the structured model only.
pub(super) fn training_rows<'a>(
    sample: &Sample<'a>,
    prior: FitPrior<'a>,
) -> (Vec<Vec<TrainingRow<'a>>>, Vec<Vec<TrainingRow<'a>>>) {
    let seen = |row: &&Measurement| !is_held_out(&row.work) && !row.is_inconsistent;
    let of = |sample: &Sample<'a>, whole_call: bool| -> Vec<TrainingRow<'a>> {
        let rows = sample.rows.iter().filter(|row| row.is_call() == whole_call).filter(seen);
        rows.map(|row| TrainingRow { device: sample.device, row, us: row.us, has_floor: whole_call }).collect()
    };
    let kernels_of_calls = |sample: &Sample<'a>| -> Vec<TrainingRow<'a>> {
        let host = shortest_call(sample.rows);
        let long = |row: &&Measurement| row.is_call() && row.us >= COMPANION_OVER_FLOOR * host.us;
        let rows = sample.rows.iter().filter(long).filter(seen);
        rows.map(|row| TrainingRow { device: sample.device, row, us: host.kernel_us(row.us), has_floor: false })
            .collect()
    };
    let is_whole = |rows: &[Measurement]| rows.iter().any(Measurement::is_call);
    let mut groups = vec![of(sample, true), of(sample, false)];
    let mut calls = Vec::new();
    for other in prior.companions {
        groups.push(of(other, false));
        if !is_whole(sample.rows) {
            calls.push(kernels_of_calls(other));
        }
    }
    groups.retain(|group| !group.is_empty());
    calls.retain(|group| !group.is_empty());
    (groups, calls)
}

/// The floor of whole calls: the shortest, at most what a host may need; 0 where there are none.
fn shortest_call(rows: &[Measurement]) -> CallOverhead {
    let calls = rows.iter().filter(|row| row.is_call()).map(|row| row.us);
    let us = calls.reduce(f64::min).map_or(0.0, |us| us.min(LARGEST_CALL_OVERHEAD_US));
    CallOverhead { us, before: BEFORE }
}

fn floor_of(parameters: &[f64]) -> CallOverhead {
    CallOverhead { us: parameters[0], before: parameters[1] }
}

/// What a search over parameters goes by.
struct Search<'a> {
    domain: Domain,
    groups: Vec<Vec<TrainingRow<'a>>>,
    /// Start, and where parameters stay that the training rows do not determine; then the host's floor and the part of it before the kernel.
    centre: Vec<f64>,
    bounds: Vec<(f64, f64)>,
    free: Vec<usize>,
    /// Shortest whole call.
    shortest: f64,
}

impl<'a> Search<'a> {
    /// Of each group at most `most` training rows, evenly spread.
    fn new(domain: Domain, groups: &[Vec<TrainingRow<'a>>], common: Option<&[f64]>, most: usize) -> Self {
        let thin = |group: &Vec<TrainingRow<'a>>| {
            let step = group.len().div_ceil(most).max(1);
            group.iter().step_by(step).copied().collect::<Vec<_>>()
        };
        let groups: Vec<_> = groups.iter().map(thin).collect();
        let common = common.map_or_else(|| default_values(domain), <[f64]>::to_vec);
        let mut centre = without_power_limit(domain, common);
        let mut bounds: Vec<(f64, f64)> =
            defaults(domain).iter().map(|parameter| (parameter.min, parameter.max)).collect();
        let all = || groups.iter().flatten();
        let least = |has_floor: bool| all().filter(|one| one.has_floor == has_floor).map(|one| one.us).reduce(f64::min);
        let shortest = least(true).unwrap_or(0.0).min(LARGEST_CALL_OVERHEAD_US);
        let host = centre.len();
        let mut free: Vec<usize> = (0..host).filter(|&at| Some(at) != power_limit(domain)).collect();
        if let Some(us) = least(false) {
            centre[START_US] = us.clamp(bounds[START_US].0, bounds[START_US].1);
        } else if let Some(first) = all().next() {
            centre[START_US] = first.device.kernel_start.secs() * 1e6;
            free.retain(|&at| at != START_US);
        }
        centre.extend([shortest.max(1e-6), BEFORE]);
        bounds.extend([(1e-6, (1.4 * shortest).max(1e-6)), BEFORE_RANGE]);
        if shortest > 0.0 {
            free.extend([host, host + 1]);
        }
        for (value, (min, max)) in centre.iter_mut().zip(&bounds) {
            *value = value.clamp(*min, *max);
        }
        Self { domain, groups, centre, bounds, free, shortest }
    }

    /// How much of a measurement is its kernel's.
    fn weight(&self, training_row: &TrainingRow<'_>) -> f64 {
        if !training_row.has_floor {
            return 1.0;
        }
        (1.0 - (self.shortest / training_row.us).powi(4)).max(LEAST_WEIGHT)
    }

    fn error(&self, training_row: &TrainingRow<'_>, p: &[f64]) -> f64 {
        let (own, host) = p.split_at(p.len() - HOST);
        let kernel = structured_us(self.domain, &training_row.row.work, training_row.device, own);
        let us = if training_row.has_floor { floor_of(host).call_us(kernel) } else { kernel };
        (us / training_row.us).max(1e-9).ln().abs()
    }

    /// Mean over the groups of mean errors over those training rows that `counts` takes.
    fn mean_error(&self, p: &[f64], counts: &dyn Fn(&TrainingRow<'_>) -> bool) -> f64 {
        let (mut total, mut groups) = (0.0, 0.0);
        for group in &self.groups {
            let (mut sum, mut weights) = (0.0, 0.0);
            for training_row in group.iter().filter(|training_row| counts(training_row)) {
                let weight = self.weight(training_row);
                sum += weight * self.error(training_row, p);
                weights += weight;
            }
            if weights > 0.0 {
                total += sum / weights;
                groups += 1.0;
            }
        }
        total / f64::max(groups, 1.0)
    }

    /// Mean squared distance from the common parameters; a device's own rates are its own.
    fn distance(&self, p: &[f64]) -> f64 {
        let host = self.centre.len() - HOST;
        let shared = self.free.iter().filter(|&&at| ![COMPUTE, BANDWIDTH, START_US].contains(&at) && at < host);
        let squares: Vec<f64> = shared.map(|&at| (p[at] / self.centre[at]).ln().powi(2)).collect();
        squares.iter().sum::<f64>() / squares.len().max(1) as f64
    }

    fn best(&self, pull: f64, counts: &dyn Fn(&TrainingRow<'_>) -> bool) -> Vec<f64> {
        let cost = |p: &[f64]| self.mean_error(p, counts) + pull * self.distance(p);
        minimise(&self.centre, &self.bounds, &self.free, 60, cost).0
    }

    /// The pull whose parameters, from the longer two thirds of the kernels, say best what the shorter third takes: what is
    /// hidden by floors or not measured at all is shorter still.
    fn pull(&self) -> f64 {
        let is_kernel = |one: &&TrainingRow<'_>| !one.has_floor || one.us >= KERNEL_OVER_FLOOR * self.shortest;
        let mut times: Vec<f64> = self.groups.iter().flatten().filter(is_kernel).map(|one| one.us).collect();
        times.sort_by(f64::total_cmp);
        let Some(&border) = times.get(times.len() / 3).filter(|_| times.len() >= 3 * FEWEST_VALIDATION) else {
            return PULLS[PULLS.len() - 1];
        };
        let error = |pull: f64| {
            let parameters = self.best(pull, &|one| one.us >= border || !is_kernel(&one));
            self.mean_error(&parameters, &|one| one.us < border && is_kernel(&one))
        };
        let tried = PULLS.map(|pull| (error(pull), pull));
        tried.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(PULLS[0], |(_, pull)| pull)
    }
}

/// Parameters of the structured model and the host's floor (0 without whole calls), by weighted mean absolute error of the
/// logarithm.
pub(super) fn search(
    domain: Domain,
    groups: &[Vec<TrainingRow<'_>>],
    common: Option<&[f64]>,
) -> (Vec<f64>, CallOverhead) {
    let pull = Search::new(domain, groups, common, COMPARED).pull();
    let search = Search::new(domain, groups, common, SEARCHED);
    let best = search.best(pull, &|_| true).into_iter().map(|value| significant(value, 6)).collect::<Vec<_>>();
    let (own, host) = best.split_at(best.len() - HOST);
    let none = CallOverhead { us: 0.0, before: BEFORE };
    (own.to_vec(), if search.shortest > 0.0 { floor_of(host) } else { none })
}

/// One set of parameters for all `samples`: what is used on devices that nobody measured, and what fits stay near.
/// Every device counts the same, and of one device calls and kernels; the floor is each device's own kernel start.
pub fn shared_parameters(domain: Domain, samples: &[Sample<'_>]) -> Vec<f64> {
    let (start, bounds): (Vec<f64>, Vec<(f64, f64)>) =
        defaults(domain).iter().map(|parameter| (parameter.default, (parameter.min, parameter.max))).unzip();
    let kinds = |sample| [true, false].map(|whole_call| (sample, spread(sample, domain, whole_call)));
    let chosen: Vec<(&Sample<'_>, Vec<(&Measurement, f64)>)> =
        samples.iter().flat_map(kinds).filter(|(_, rows)| !rows.is_empty()).collect();
    let cost = |p: &[f64]| {
        let mut own = p.to_vec();
        let mut total = 0.0;
        for (sample, rows) in &chosen {
            own[START_US] = sample.device.kernel_start.secs() * 1e6;
            let error = |(row, us): &(&Measurement, f64)| {
                (structured_us(domain, &row.work, sample.device, &own) / us).max(1e-9).ln().abs()
            };
            total += rows.iter().map(error).sum::<f64>() / rows.len() as f64;
        }
        total
    };
    let free: Vec<usize> = (0..start.len()).filter(|&at| at != START_US).collect();
    let best = minimise(&start, &bounds, &free, 60, cost).0;
    best.into_iter().map(|value| significant(value, 6)).collect()
}

/// The geometric mean of the parameters of `fits`: another answer to what is used on devices that nobody measured. A search over all
/// devices at once lets parameters trade with one another where no single device would.
pub fn mean_parameters(fits: &[&Fit]) -> Vec<f64> {
    let Some(first) = fits.first() else { return Vec::new() };
    let mean = |at: usize| {
        let logs = fits.iter().map(|fit| fit.parameters[at].ln()).sum::<f64>();
        significant((logs / fits.len() as f64).exp(), 6)
    };
    (0..first.parameters.len()).map(mean).collect()
}

/// Up to [`SHARED`] measurements of one kind with the times of their kernels, spread evenly over the file; held-out ones and calls near
/// the host's floor are left out.
fn spread<'a>(sample: &Sample<'a>, domain: Domain, whole_call: bool) -> Vec<(&'a Measurement, f64)> {
    let over = if matches!(domain, Domain::Norm | Domain::Softmax) { ROWWISE_OVER_FLOOR } else { KERNEL_OVER_FLOOR };
    let host = if whole_call { shortest_call(sample.rows) } else { CallOverhead { us: 0.0, before: BEFORE } };
    let long = |row: &&Measurement| row.is_call() == whole_call && row.us >= over * host.us;
    let of_kind = sample.rows.iter().filter(long);
    let usable: Vec<&Measurement> = of_kind.filter(|row| !is_held_out(&row.work) && !row.is_inconsistent).collect();
    let step = usable.len().div_ceil(SHARED).max(1);
    usable.into_iter().step_by(step).map(|row| (row, host.kernel_us(row.us))).collect()
}
