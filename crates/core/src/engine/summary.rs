//! The figures of one evaluated scenario: the iteration's time, its error band, device activity, who is late.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::analysis::busy::{self, Busy};
use crate::analysis::collectives::{self, InCollectives};
use crate::analysis::edited::{self, Edited};
use crate::analysis::replay::{PathShares, ReplayStatus};
use crate::graph::{Rank, RankPart};
use crate::scenario::Resolved;
use crate::sim::{Circuit, Schedule};
use crate::units::{Bytes, DurNs, Percent};

use super::decisive::{self, Decisive, Errors};
use super::recorded::Recorded;
use super::{DeviceTime, Steady, SteadyBasis, reach};
use crate::memory::{MemorySummary, Simulated};

/// Of an iteration of which nothing is explained this share is taken as open.
const MOST_OPEN: f64 = 0.99;

/// A late rank counts as a straggler from this share of the iteration on.
const STRAGGLER_SHARE: f64 = 0.02;

/// Two figures of the iteration that differ by more are both named.
const BOTH_NAMED: f64 = 0.01;
/// By how much an edit may change the share of the step's device time that the recorded window holds.
const OTHER_WORK: f64 = 0.05;

/// Lowest and highest iteration time within the models' known errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBand {
    /// Lowest.
    pub low_ns: DurNs,
    /// Highest.
    pub high_ns: DurNs,
    /// What the work of one stream takes at least, where edits changed any: the band ends there.
    #[serde(skip)]
    pub least: DurNs,
}

impl ErrorBand {
    /// One standard deviation about `period`, within which two measurements in three lie, and as far as anything else reaches.
    fn of(errors: &Errors, period: DurNs, margin: Margin) -> Self {
        let deviation = decisive::deviation(errors);
        let (least, most) = margin.busiest;
        // What keeps its time may take less as well.
        let least = (least - margin.kept.0).clamp(DurNs::ZERO, period.max(DurNs::ZERO));
        let mut band = Self { low_ns: period - deviation, high_ns: (period + deviation).max(most), least };
        band.reach(margin.kept);
        band
    }

    /// Reaches `noise` to either side of `period` at least.
    pub(super) fn at_least(&mut self, noise: DurNs, period: DurNs) {
        self.low_ns = self.low_ns.min(period - noise);
        self.high_ns = self.high_ns.max(period + noise);
        self.hold();
    }

    /// Ends where times end that are told.
    fn hold(&mut self) {
        self.low_ns = self.low_ns.max(self.least);
        self.high_ns = self.high_ns.min(DurNs::LONGEST);
    }

    /// Reaches further, below and above.
    fn reach(&mut self, (below, above): (DurNs, DurNs)) {
        self.low_ns -= below;
        self.high_ns += above;
        self.hold();
    }

    /// Reaches back by `change`, of which it is assumed that the iteration has it: to longer times for one that saves.
    pub fn widen(&mut self, change: DurNs) {
        if change < DurNs::ZERO {
            self.high_ns -= change;
        } else {
            self.low_ns -= change;
        }
        self.hold();
    }
}

/// How far the period may be from what the errors of its decisive tasks say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Margin {
    /// How far below and above for what keeps its time.
    kept: (DurNs, DurNs),
    /// The least and the most that the work of one stream takes.
    busiest: (DurNs, DurNs),
}

/// A period that changed against the end of its step: it runs from the end of the step before, which moved by more.
///
/// So nothing takes longer in a period that grew: as traced, one of host and device made up for the other's backlog within
/// this step, and now does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodShift {
    /// Change of the step's end, of the rank that ends last.
    pub end_ns: DurNs,
    /// Change of the end of the step before.
    pub begin_ns: DurNs,
}

impl PeriodShift {
    /// Changes of the period below this share of it are none.
    const LEAST: f64 = 0.001;

    /// `None` where the period changed as its step's end did, or not at all.
    pub(super) fn of(end_ns: DurNs, period: DurNs, base: DurNs) -> Option<Self> {
        let change = period - base;
        let is_change = change.0.abs() as f64 > Self::LEAST * base.0 as f64;
        let is_against = is_change && end_ns.0.signum() * change.0.signum() <= 0;
        is_against.then_some(Self { end_ns, begin_ns: end_ns - change })
    }

    /// In a sentence.
    pub fn sentence(&self) -> String {
        let moved = |by: DurNs| match by.0.signum() {
            -1 => format!("{} earlier", DurNs(-by.0)),
            0 => "as before".to_owned(),
            _ => format!("{by} later"),
        };
        let (end, begin) = (moved(self.end_ns), moved(self.begin_ns));
        format!(
            "this step ends {end}, the one before it {begin}: the iteration is the time between; `--iteration all` shows every step's"
        )
    }
}

/// The rank that the others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Straggler {
    /// Which.
    pub rank: u32,
    /// Time in which all others of a collective were there and it was not.
    pub late_ns: DurNs,
}

/// One rank's figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankSummary {
    /// Which.
    pub rank: u32,
    /// How many ranks it stands for, itself included.
    pub count: u32,
    /// Its simulated period.
    pub simulated_ns: DurNs,
    /// Share of it with work on the device.
    pub gpu_busy: f64,
    /// Time in collectives until the last rank was there, while no other transfers.
    pub wait_ns: DurNs,
    /// Time in which at least one collective transfers.
    pub transfer_ns: DurNs,
}

/// The figures of `simulate`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Measured period of the chosen iteration, the largest over ranks.
    pub measured_ns: DurNs,
    /// How long the first work waited for work from before the trace, which the period leaves out; the longest over ranks.
    pub backlog_ns: Option<DurNs>,
    /// Simulated period with all edits, the largest over ranks.
    pub simulated_ns: DurNs,
    /// Simulated period of the untouched graph.
    pub base_simulated_ns: DurNs,
    /// What edits are compared by: the period at which the step repeats, with all edits; the simulated window where that is not known.
    pub steady_ns: DurNs,
    /// The same of the untouched graph.
    pub base_steady_ns: DurNs,
    /// Period of the untouched graph if its one recorded step were repeated.
    pub base_if_repeated_ns: Option<DurNs>,
    /// Where `steady_ns` may lie.
    pub steady_band: ErrorBand,
    /// Whether the step repeats as it was recorded, and how exactly its period is known.
    pub steady: Steady,
    /// `base_simulated / measured − 1`; `None` where nothing was measured to hold it to.
    pub replay_error: Option<f64>,
    /// Measured time that no replay rule explains, as a share of the period.
    pub unexplained_share: f64,
    /// Share of the critical path as measured that is work from before the recording: its times are kept, not explained.
    pub anchored_share: f64,
    /// Share of the critical path as measured that is device work which was not recorded: that it takes as long as kernels do is
    /// an assumption.
    pub unrecorded_share: f64,
    /// Whether the replay can be relied on.
    pub replay_status: ReplayStatus,
    /// Where the simulated period may lie.
    pub error_band: ErrorBand,
    /// Host time among what decides `steady_ns`.
    pub host_path_ns: DurNs,
    /// The errors of predictions among what decides `steady_ns`.
    #[serde(skip)]
    pub errors: Errors,
    /// How far it may be off besides.
    #[serde(skip)]
    pub margin: Margin,
    /// How a change of the period came about, where it is not by this step's end alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<PeriodShift>,
    /// How far off an iteration of this trace is that no model had a part in, as a share: its steps differ, and its replay errs.
    #[serde(skip)]
    pub noise: f64,
    /// The rank that the others wait for, if one stands out.
    pub straggler: Option<Straggler>,
    /// Share of the simulated period with work on the device, mean over ranks.
    pub gpu_busy: f64,
    /// That of `steady_ns`.
    pub steady_gpu_busy: f64,
    /// Time with work on the device, mean over ranks.
    pub gpu_active_ns: DurNs,
    /// The kernel-only baseline: largest sum of device time on one stream.
    pub kernel_only_ns: DurNs,
    /// Time of all streams of all ranks in the recorded window.
    pub window_work_ns: DurNs,
    /// Whether that is of other work than the step's: edits moved work over the window's ends.
    pub has_other_work: bool,
    /// Peak device memory of the fullest rank, where it can be told.
    pub memory_bytes: Option<Bytes>,
    /// Whether it fits the device, where both are known.
    pub fits: Option<bool>,
    /// What that memory holds, and of every rank; `None` where nothing tells.
    pub memory: Option<MemorySummary>,
    /// Share of the device's time in the recorded iteration, or of all time where no device is used, that edits should have changed
    /// and no model covers: it is kept, or follows the roofs of two devices whatever it computes.
    pub unmodelled_share: f64,
    /// What edits do with the device's time.
    pub device_time: DeviceTime,
    /// Share of the iteration in which changed tasks run that models predict beyond what they were fitted on.
    pub extrapolated_share: f64,
    /// Batch size before and after, where known.
    pub batch: Option<(u64, u64)>,
    /// How often forward and backward pass run in one iteration, each on a batch.
    pub repeats: u32,
    /// Samples of a batch on average, as a share of the batch size: below 1 where some batches of a step are smaller.
    #[serde(skip)]
    pub pass_share: f64,
    /// How many ranks the job has, those that are not loaded among them.
    pub job_ranks: u32,
    /// How many of them have a batch of their own.
    pub replicas: u32,
    /// Every rank.
    pub ranks: Vec<RankSummary>,
}

impl Summary {
    /// Takes over what the critical path as measured is made of.
    pub(super) fn of_path(&mut self, path: &PathShares) {
        (self.anchored_share, self.unrecorded_share) = (path.anchors, path.unrecorded);
        self.replay_status =
            ReplayStatus::of(self.replay_error.unwrap_or(f64::INFINITY), self.anchored_share + self.unexplained_share);
    }

    /// Says of an untouched trace whose times were predicted that nothing was measured, and how far off they may be.
    pub(super) fn of_prediction(&mut self, error: f64) {
        // What the file holds and what its tasks take when they are simulated are both the prediction.
        let apart = (self.measured_ns - self.simulated_ns).abs().0 as f64 / self.simulated_ns.0.max(1) as f64;
        let error = error.max(apart);
        (self.noise, self.replay_status) = (error, ReplayStatus::Predicted);
        self.error_band.at_least(self.simulated_ns.scale(error), self.simulated_ns);
        self.steady_band.at_least(self.steady_ns.scale(error), self.steady_ns);
    }

    /// How far from the simulated period its band reaches, relative to it.
    pub fn relative_error(&self) -> f64 {
        let ErrorBand { low_ns, high_ns, .. } = self.error_band;
        (high_ns - self.simulated_ns).max(self.simulated_ns - low_ns).0 as f64 / self.simulated_ns.0.max(1) as f64
    }

    /// Takes over what holds of the untouched trace, and lets the band of an edited iteration cover what the trace leaves open: as
    /// much of it as keeps its time, or has none, may change as the rest does.
    pub(super) fn over(&mut self, replay: &Self) {
        (self.noise, self.replay_status) = (replay.noise, replay.replay_status);
        (self.anchored_share, self.unrecorded_share) = (replay.anchored_share, replay.unrecorded_share);
        let open = (self.anchored_share + self.unexplained_share + self.unrecorded_share).min(MOST_OPEN);
        let noise = self.noise;
        let device = self.device_time;
        // Predicted kernels that the host hides leave the period as it is, but not as exact as it was.
        let is_changed = self.is_changed() || device.is_changed();
        let cover = |band: &mut ErrorBand, after: DurNs, before: DurNs| {
            if is_changed || self.replay_status == ReplayStatus::Predicted {
                let as_period = (after - before).abs().scale(open / (1.0 - open));
                // What is open may hang on device work that nothing shows it to hang on.
                let as_device = before.scale(open * device.change_share());
                band.at_least(after.scale(noise) + as_period.max(as_device), after);
            }
        };
        cover(&mut self.error_band, self.simulated_ns, self.base_simulated_ns);
        cover(&mut self.steady_band, self.steady_ns, self.base_steady_ns);
    }

    /// Whether the iteration takes another time than the untouched one.
    pub fn is_changed(&self) -> bool {
        self.simulated_ns != self.base_simulated_ns || self.steady_ns != self.base_steady_ns
    }

    /// With the steady period of the scenario `resolved`, and what is compared with it of the untouched graph.
    pub(super) fn set_steady(
        &mut self,
        resolved: &Resolved,
        (steady, circuit): (Steady, Circuit),
        base: Option<&Self>,
    ) {
        self.steady = steady;
        self.base_if_repeated_ns = base.map_or(steady.if_repeated(), |base| base.base_if_repeated_ns);
        self.steady_ns = steady.compared(self.simulated_ns);
        self.base_steady_ns = base.map_or(self.steady_ns, |base| base.steady_ns);
        if self.steady_ns != self.simulated_ns {
            self.steady_gpu_busy = ratio(self.gpu_active_ns, self.steady_ns).min(1.0);
        }
        let Some(bounds) = steady.bounds.filter(|_| steady.is_compared()) else { return };
        let base = base.filter(|base| base.window_work_ns > DurNs::ZERO);
        self.has_other_work = base.is_some_and(|base| (self.window_share() - base.window_share()).abs() > OTHER_WORK);
        let decisive = Decisive::of_period(resolved, &circuit);
        (self.host_path_ns, self.errors) = (decisive.host(resolved), decisive.errors(resolved));
        self.steady_band = ErrorBand::of(&self.errors, self.steady_ns, self.margin);
        self.steady_band.at_least(bounds.high_ns - self.steady_ns, self.steady_ns);
    }

    /// The other figure, where the iteration as it repeats and the recorded window differ by more than one part in a hundred:
    /// its name, and it before and with all edits.
    pub fn both_named(&self) -> Option<(&'static str, DurNs, DurNs)> {
        let differs = |a: DurNs, b: DurNs| (ratio(a, b) - 1.0).abs() > BOTH_NAMED;
        let differ =
            |before: DurNs, after: DurNs| differs(before, self.base_steady_ns) || differs(after, self.steady_ns);
        if self.steady.is_compared() {
            let (before, after) = (self.measured_ns, self.simulated_ns);
            return differ(before, after).then_some(("recorded", before, after));
        }
        let (before, after) = (self.base_if_repeated_ns?, self.steady.if_repeated()?);
        differ(before, after).then_some(("if repeated", before, after))
    }

    /// The recorded window's work over that of the step.
    fn window_share(&self) -> f64 {
        ratio(self.window_work_ns, self.device_time.after())
    }

    /// What to say beside figures of the recorded window, where it holds other work than the step, or the iteration as it repeats takes more
    /// than one part in a hundred longer or shorter.
    pub fn window_note(&self) -> Option<String> {
        if !self.steady.is_compared() {
            return None;
        }
        let (window, period) = (self.simulated_ns, self.steady_ns);
        if self.has_other_work {
            let (work, step) = (self.window_work_ns, self.device_time.after());
            return Some(format!(
                "this is of the recorded window of {window}, in which {work} of device work runs: the edits move work over its ends; the \
                 step, which takes {period} as it repeats, has {step}"
            ));
        }
        self.both_named()?;
        Some(format!("this is of the recorded window of {window}; the iteration takes {period} as it repeats"))
    }

    /// What edits are compared by, in a sentence.
    pub fn basis_sentence(&self) -> String {
        let left_out = Percent(self.steady.left_out_share);
        match self.steady.basis {
            SteadyBasis::Repeated => "the period at which the step repeats, each waiting for the one before".to_owned(),
            SteadyBasis::Queued => "the period if the step repeats at once, as it queued behind the one before".to_owned(),
            SteadyBasis::OneStep => {
                "the recorded window: one step was recorded, how it repeats is not known".to_owned()
            }
            SteadyBasis::Backlog => {
                "the recorded window: its first work waited for work from before the trace, how steps follow one another is not known"
                    .to_owned()
            }
            SteadyBasis::LeftOut => {
                format!("the recorded window: {left_out:.0} of it hangs on work of other steps that does not repeat")
            }
            SteadyBasis::None => "the recorded window: nothing of the step waits for the step before".to_owned(),
        }
    }

    /// Samples per iteration of a rank; 1 where the batch size is unknown.
    pub fn samples(&self) -> f64 {
        self.batch.map_or(1.0, |(_, batch)| batch as f64 * self.pass_share) * f64::from(self.repeats)
    }

    /// The same; `None` where the batch size is unknown.
    pub fn known_samples(&self) -> Option<f64> {
        self.batch.map(|_| self.samples())
    }

    /// How many samples an iteration has, in words; `None` where it has those of one batch, or that is unknown.
    pub fn several_batches(&self) -> Option<String> {
        let samples = self.known_samples()?;
        let is_unlike = self.repeats == 1 && (self.pass_share - 1.0).abs() > f64::EPSILON;
        match self.repeats {
            _ if is_unlike => Some(format!("{samples} samples an iteration, of unlike batches")),
            2.. => Some(format!("{samples} samples in {} batches an iteration", self.repeats)),
            _ => None,
        }
    }

    /// Samples per iteration of the job; batches of all its ranks where the batch size is unknown.
    pub fn job_samples(&self) -> f64 {
        self.samples() * f64::from(self.replicas)
    }
}

impl Summary {
    /// The figures of `resolved` as `schedule` has it.
    pub fn of(resolved: &Resolved, schedule: &Schedule, recorded: &Recorded, base_simulated: Option<DurNs>) -> Self {
        let graph = &*resolved.graph;
        // Collectives that edits repeat are tasks of the edited graph alone.
        let edited = edited::repeats_collectives(resolved).then(|| Edited::of(resolved));
        let met = edited.as_ref().map_or((graph, &*resolved.timed), |edited| (&*edited.graph, &*edited.timed));
        let ((memory, decisive), (busy, calls)) = rayon::join(
            || (memory_of(resolved, schedule), Decisive::of_window(resolved, schedule)),
            || (busy::busy(resolved, schedule), collectives::collectives(met.0, met.1, schedule)),
        );
        let extrapolated_share = busy::share_of(resolved, schedule, |p| p.extrapolated && !p.is_unmodelled());
        let windows = collectives::windows(graph, &resolved.timed, schedule);
        let communication = collectives::by_rank(&calls, &windows);
        let period = busy.iter().map(|busy| busy.period).max().unwrap_or_default();
        let base_simulated = base_simulated.unwrap_or(period);
        let batch = resolved.batch.or(graph.batch_size.map(|batch| (batch, batch)));
        let needed = memory.as_ref().map(|memory| memory.peak_bytes);
        let counts = resolved.rank_counts();
        let all = f64::from(counts.iter().sum::<u32>().max(1));
        let mean = |value: &dyn Fn(&Busy) -> f64| -> f64 {
            busy.iter().zip(&counts).map(|(busy, &count)| value(busy) * f64::from(count)).sum::<f64>() / all
        };
        let errors = decisive.errors(resolved);
        let kept = reach::of_kept(resolved, &decisive, period);
        let margin = Margin { kept, busiest: decisive::busiest_stream(resolved) };
        let error_band = ErrorBand::of(&errors, period, margin);
        Self {
            measured_ns: graph.measured,
            backlog_ns: graph.ranks.iter().filter_map(|part| part.backlog).max(),
            simulated_ns: period,
            base_simulated_ns: base_simulated,
            replay_error: (graph.measured > DurNs::ZERO).then(|| ratio(base_simulated, graph.measured) - 1.0),
            unexplained_share: graph.unexplained_share(),
            error_band,
            steady_ns: period,
            base_steady_ns: base_simulated,
            base_if_repeated_ns: None,
            steady_band: error_band,
            steady: Steady::default(),
            host_path_ns: decisive.host(resolved),
            errors,
            margin,
            cut: None,
            anchored_share: 0.0,
            unrecorded_share: 0.0,
            replay_status: ReplayStatus::Pass,
            noise: 0.0,
            straggler: straggler(collectives::late(&calls, &windows), period),
            gpu_busy: mean(&Busy::share),
            steady_gpu_busy: mean(&Busy::share),
            gpu_active_ns: DurNs(mean(&|busy| busy.active.0 as f64).round() as i64),
            kernel_only_ns: busy.iter().map(|busy| busy.kernel_only).max().unwrap_or_default(),
            window_work_ns: busy.iter().zip(&counts).map(|(busy, count)| busy.work.scale(f64::from(*count))).sum(),
            has_other_work: false,
            memory_bytes: needed,
            fits: memory.as_ref().and_then(|memory| memory.fits(&resolved.devices)),
            memory,
            unmodelled_share: recorded.unmodelled_share(resolved),
            device_time: DeviceTime::of(resolved, schedule, recorded),
            extrapolated_share,
            batch,
            repeats: resolved.repeats,
            pass_share: graph.mean_pass(),
            job_ranks: resolved.job_ranks,
            replicas: resolved.replicas,
            ranks: graph.ranks.iter().zip(&busy).zip(&counts).map(|it| rank_summary(it, &communication)).collect(),
        }
    }
}

impl Summary {
    /// What is to be said of whether memory fits the device; empty where it does, or nothing is known of either.
    pub fn verdict(&self) -> &'static str {
        let is_known = self.memory.as_ref().is_some_and(|memory| memory.device_bytes.is_some());
        match self.fits {
            Some(false) => ", does not fit the device",
            None if is_known => ", whether it fits is not known",
            _ => "",
        }
    }
}

fn memory_of(resolved: &Resolved, schedule: &Schedule) -> Option<MemorySummary> {
    let simulated = Simulated { graph: &resolved.graph, timed: &resolved.timed, schedule };
    MemorySummary::of(simulated, &resolved.memory, &resolved.devices)
}

fn rank_summary(
    ((part, busy), &count): ((&RankPart, &Busy), &u32),
    communication: &BTreeMap<Rank, InCollectives>,
) -> RankSummary {
    let own = communication.get(&part.rank);
    let (wait_ns, transfer_ns) = own.map_or_else(Default::default, |own| (own.wait, own.transfer()));
    RankSummary { rank: part.rank.0, count, simulated_ns: busy.period, gpu_busy: busy.share(), wait_ns, transfer_ns }
}

pub(super) fn ratio(a: DurNs, b: DurNs) -> f64 {
    if b.0 > 0 { a.0 as f64 / b.0 as f64 } else { 1.0 }
}

/// The rank that most delays the collectives of the iteration.
fn straggler(late: BTreeMap<Rank, DurNs>, period: DurNs) -> Option<Straggler> {
    let (rank, late_ns) = late.into_iter().max_by_key(|&(rank, late)| (late, std::cmp::Reverse(rank)))?;
    (ratio(late_ns, period) >= STRAGGLER_SHARE).then_some(Straggler { rank: rank.0, late_ns })
}
