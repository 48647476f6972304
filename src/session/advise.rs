//! Advice: every candidate edit alone, the best together, what a goal takes, and how the iteration answers to each class
//! of tasks. Everything by simulating again; what does not fit the device's memory is left out.

mod alike;
mod goal;

use std::cell::RefCell;
use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::Serialize;

use retime_core::analysis::advise::{self, Candidate, SpeedUpTarget};
use retime_core::scenario::{Scenario, parse_step};
use retime_core::units::{Bytes, DurNs, Percent};

use super::board::is_modelled;
use super::{Engine, ErrorBand, Loaded, Outcome, Section, Sharding, Summary};

pub use alike::alike;
pub use goal::{Goal, parse_target};

/// Smaller gains are not worth a line.
const LEAST_GAIN: f64 = 0.001;
/// What one more step has to gain to be part of a combination.
const LEAST_MORE: f64 = 0.005;
/// Combinations that are followed further, and how many steps they may have.
const WIDTH: usize = 3;
const DEPTH: usize = 5;
/// Edits that combinations are made of, and how many more that gain nothing alone, since the host decides or the device does, and take
/// work off the other.
const PARTS: usize = 8;
const RELIEVING: usize = 3;
/// Devices on which the best combination is proposed.
const DEVICES: usize = 3;
/// Halvings that look for the factor of a goal.
const HALVINGS: usize = 12;

/// One or more steps on top of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdvisedOption {
    /// The steps as lines.
    pub steps: Vec<String>,
    /// The recorded window with them.
    pub simulated_ns: DurNs,
    /// The iteration with them: what options are compared by.
    pub steady_ns: DurNs,
    /// Share of the time per sample that they save.
    pub gain: f64,
    /// Share that they save where the iteration is as long as its band allows; options are ranked by it.
    pub sure_gain: f64,
    /// Where the iteration may lie.
    pub error_band: ErrorBand,
    /// Device memory, where it can be told.
    pub memory_bytes: Option<Bytes>,
    /// Whether other hardware is among them.
    pub is_hardware: bool,
    /// Whether the batch is another: such options stand after the rest, whose gain is in the time of the same batch.
    pub is_per_sample: bool,
    /// What of their changes is assumed, a line for each such step; the band reaches back by it.
    pub assumed: Vec<String>,
    /// The largest of those shares.
    pub assumed_share: f32,
    /// What they could not do.
    pub unhandled: Vec<String>,
    /// What they change.
    pub section: Section,
    /// The largest share of the device's time that one of them should have changed and no model covers.
    pub unmodelled_share: f64,
}

impl AdvisedOption {
    /// Whether models cover enough of what it should change to tell a gain from a loss: one that they do not is not proposed and
    /// is part of no combination.
    fn is_modelled(&self) -> bool {
        is_modelled(self.unmodelled_share)
    }
}

/// How the iteration answers to a class of tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// A family of kernels, a part of host time, copies, the link.
    pub class: String,
    /// Its tasks.
    pub selector: String,
    /// Share of the iteration that goes when they take a tenth less.
    pub gain_at_tenth: f64,
    /// Share that goes when they take no time: what no edit of this class can exceed.
    pub gain_at_most: f64,
    /// The factor on their time that reaches the goal by itself; `None` without a goal, or where none does.
    pub factor_for_target: Option<f64>,
}

/// An option that is not proposed, since models cover too little of what it should change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its steps as lines.
    pub steps: Vec<String>,
    /// Share of the device's time that they should have changed and no model covers.
    pub unmodelled_share: f64,
}

impl From<AdvisedOption> for LeftOut {
    fn from(AdvisedOption { steps, unmodelled_share, .. }: AdvisedOption) -> Self {
        Self { steps, unmodelled_share }
    }
}

impl LeftOut {
    /// Its steps and why it is left out: `resize-batch 64 (90 %)`.
    fn described(&self) -> String {
        format!("{} ({:.0})", self.steps.join(" + "), Percent(self.unmodelled_share))
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// The most that is sure to be gained first.
    pub options: Vec<AdvisedOption>,
    /// The most sensitive first.
    pub sensitivity: Vec<Sensitivity>,
    /// With a target only.
    pub goal: Option<Goal>,
    /// Whether the replay does not pass: nothing is proposed then.
    pub fails_replay: bool,
    /// What gains but is not proposed, since models cover too little of what it should change; the largest gain first.
    pub left_out: Vec<LeftOut>,
    /// Whether there is more to come.
    #[serde(skip)]
    pub is_partial: bool,
}

impl Advice {
    /// Why there are no options.
    pub fn none(&self) -> &'static str {
        if self.fails_replay {
            "the replay does not pass: it does not come to what was measured, or does so by kept times: nothing is proposed"
        } else {
            "no edit that is known makes it faster"
        }
    }

    /// What is not proposed for want of models, in a sentence; `None` where all that gains is.
    pub fn left_out(&self) -> Option<String> {
        const NAMED: usize = 3;
        let named: Vec<String> = self.left_out.iter().take(NAMED).map(LeftOut::described).collect();
        let more = self.left_out.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = "left out, since no model covers that share of the device's time";
        (!named.is_empty()).then(|| format!("{what}: {}{more}", named.join(", ")))
    }
}

/// Candidates in force, by their number, and what comes of them.
#[derive(Clone, Debug)]
struct Tried {
    parts: Vec<usize>,
    option: AdvisedOption,
    /// What they take off the work of the host or the device, whichever is more, as a share of the iteration.
    relief: f64,
}

impl Tried {
    fn gains(&self) -> bool {
        self.option.gain >= LEAST_GAIN
    }
}

struct Search<'a> {
    engine: &'a Engine,
    loaded: &'a Loaded,
    base: &'a Outcome,
    candidates: Vec<Candidate>,
    is_overtaken: &'a (dyn Fn() -> bool + Sync),
    /// Gets the options found so far, whenever there are more.
    found: &'a dyn Fn(&[AdvisedOption]),
    /// All that gain, so far.
    options: RefCell<Vec<AdvisedOption>>,
}

/// Advice on top of `base`; no options on a trace that does not replay as measured.
///
/// # Arguments
/// `target`: the share of the time per sample to save.
///
/// # Returns
/// `None` when `is_overtaken` said that nobody wants the answer any more.
///
/// See [`advise_live`].
///
/// # Complexity
/// One simulation per candidate and up to 300 for the best placement of tables, up to 11 · 3 · 4 for combinations, one per device on top of the best, two per class of
/// tasks and 12 more with a target.
pub fn advise(
    engine: &Engine,
    loaded: &Loaded,
    base: &Outcome,
    target: Option<f64>,
    is_overtaken: &(dyn Fn() -> bool + Sync),
) -> Option<Advice> {
    advise_live(engine, loaded, base, target, is_overtaken, &|_| {})
}

/// As [`advise`]; `found` gets the options so far whenever there are more.
pub fn advise_live(
    engine: &Engine,
    loaded: &Loaded,
    base: &Outcome,
    target: Option<f64>,
    is_overtaken: &(dyn Fn() -> bool + Sync),
    found: &dyn Fn(&[AdvisedOption]),
) -> Option<Advice> {
    let mut candidates = advise::candidates(&loaded.base, &loaded.context);
    // What does not replay as measured does not answer to edits as the model would.
    let is_sound = loaded.replay.summary.replay_status.passes();
    candidates.retain(|_| is_sound);
    let options = RefCell::default();
    let mut search = Search { engine, loaded, base, candidates, is_overtaken, found, options };
    let mut alone = search.alone(0)?;
    // The search for a placement takes longest: what takes less is told before.
    let known = search.candidates.len();
    if is_sound {
        search.add_best_placement()?;
    }
    alone.extend(search.alone(known)?);
    alone.sort_by(by_gain);
    let together = search.together(&alone)?;
    let all = alone.into_iter().filter(Tried::gains).chain(together).map(|tried| tried.option);
    let (mut options, mut unsure): (Vec<_>, Vec<_>) = all.partition(AdvisedOption::is_modelled);
    sort(&mut options);
    sort(&mut unsure);
    let left_out = unsure.into_iter().map(LeftOut::from).collect();
    let goal = target.map(|target| Goal::of(&options, target));
    let sensitivity = search.sensitivity(target)?;
    Some(Advice { sensitivity, options, left_out, goal, fails_replay: !is_sound, is_partial: false })
}

/// The most that is sure to be gained first; options of another batch behind them, since their gain is per sample.
pub(super) fn sort(options: &mut [AdvisedOption]) {
    let order = |a: &AdvisedOption, b: &AdvisedOption| {
        b.sure_gain.total_cmp(&a.sure_gain).then_with(|| b.gain.total_cmp(&a.gain)).then_with(|| a.steps.cmp(&b.steps))
    };
    options.sort_by(|a, b| a.is_per_sample.cmp(&b.is_per_sample).then_with(|| order(a, b)));
}

fn by_gain(a: &Tried, b: &Tried) -> std::cmp::Ordering {
    b.option.sure_gain.total_cmp(&a.option.sure_gain).then_with(|| a.parts.cmp(&b.parts))
}

/// Time per sample.
fn per_sample(summary: &Summary) -> f64 {
    summary.steady_ns.0 as f64 / summary.samples()
}

impl Search<'_> {
    /// Makes the best placement of embedding tables a candidate, where there are tables to move.
    fn add_best_placement(&mut self) -> Option<()> {
        if self.loaded.graph.ranks.len() < 2 {
            return Some(());
        }
        let sharding = Sharding::new(self.loaded, &self.base.scenario);
        let line = sharding.search(&mut |_| !(self.is_overtaken)()).step;
        if !line.is_empty() {
            self.candidates.push(Candidate { line, is_hardware: false, is_per_sample: false });
        }
        if (self.is_overtaken)() { None } else { Some(()) }
    }

    /// Every candidate from number `first` on by itself; those that gain or relieve, of other batches the best.
    fn alone(&self, first: usize) -> Option<Vec<Tried>> {
        let all: Vec<Vec<usize>> = (first..self.candidates.len()).map(|number| vec![number]).collect();
        let mut tried = self.all_of(&all)?;
        tried.retain(|tried| tried.gains() || tried.relief >= LEAST_MORE);
        tried.sort_by(by_gain);
        let best = tried.iter().position(|tried| tried.option.is_per_sample && tried.gains());
        let mut place = 0..;
        tried.retain(|tried| place.next() == best || !tried.option.is_per_sample);
        Some(tried)
    }

    /// The best combinations: software first, step by step, the best of each length followed further; then those on
    /// the devices that gain most, and that with another batch.
    fn together(&self, alone: &[Tried]) -> Option<Vec<Tried>> {
        let ranked = |is_hardware: bool, most: usize| -> Vec<&Tried> {
            let is_one = |one: &&Tried| {
                let option = &one.option;
                option.is_hardware == is_hardware && !option.is_per_sample && option.is_modelled()
            };
            alone.iter().filter(|one| one.gains()).filter(is_one).take(most).collect()
        };
        let relieving = |is_hardware: bool| -> Vec<&Tried> {
            let is_one = |one: &&Tried| one.option.is_hardware == is_hardware && one.option.is_modelled();
            let mut all: Vec<&Tried> = alone.iter().filter(|one| !one.gains()).filter(is_one).collect();
            all.retain(|one| !one.option.is_per_sample);
            all.sort_by(|a, b| b.relief.total_cmp(&a.relief).then_with(|| a.parts.cmp(&b.parts)));
            all
        };
        let parts: Vec<usize> = ranked(false, PARTS)
            .into_iter()
            .chain(relieving(false).into_iter().take(RELIEVING))
            .map(|one| one.parts[0])
            .collect();
        let mut beam: Vec<Tried> = ranked(false, WIDTH).into_iter().cloned().collect();
        let mut found: Vec<Tried> = Vec::new();
        for _ in 1..DEPTH {
            let next = self.extended(&beam, &parts)?;
            if next.is_empty() {
                break;
            }
            found.extend(next.iter().cloned());
            beam = next;
        }
        let best = found.iter().chain(&beam).max_by(|a, b| a.option.sure_gain.total_cmp(&b.option.sure_gain));
        if let Some(best) = best {
            let on = |device: &Tried| [best.parts.as_slice(), &device.parts].concat();
            let batch = alone.iter().find(|one| one.option.is_per_sample && one.option.is_modelled());
            // What is fastest with one combination may not be with another.
            let devices = ranked(true, usize::MAX).into_iter().chain(relieving(true));
            let mut tried = self.all_of(&devices.map(on).collect::<Vec<_>>())?;
            tried.sort_by(by_gain);
            tried.truncate(DEVICES);
            tried.extend(self.all_of(&batch.map(on).into_iter().collect::<Vec<_>>())?);
            tried.retain(|tried| tried.option.gain >= best.option.gain + LEAST_MORE);
            found.extend(tried);
        }
        Some(found)
    }

    /// Every combination of `beam` with one more part that gains enough; the best of them.
    fn extended(&self, beam: &[Tried], parts: &[usize]) -> Option<Vec<Tried>> {
        let mut seen = BTreeSet::new();
        let mut wanted: Vec<(f64, Vec<usize>)> = Vec::new();
        for tried in beam {
            for &part in parts.iter().filter(|&&part| !tried.parts.iter().any(|&known| self.is_alike(known, part))) {
                let longer = [tried.parts.as_slice(), &[part]].concat();
                let mut set = longer.clone();
                set.sort_unstable();
                if seen.insert(set) {
                    wanted.push((tried.option.gain, longer));
                }
            }
        }
        let before: Vec<f64> = wanted.iter().map(|&(gain, _)| gain).collect();
        let sets = wanted.into_iter().map(|(_, parts)| parts).collect::<Vec<_>>();
        let known: Vec<Vec<usize>> = sets.clone();
        let gain_of = |parts: &Vec<usize>| known.iter().position(|set| set == parts).map_or(0.0, |at| before[at]);
        let mut tried = self.all_of(&sets)?;
        tried.retain(|tried| tried.option.gain >= gain_of(&tried.parts) + LEAST_MORE);
        tried.sort_by(by_gain);
        tried.truncate(WIDTH);
        Some(tried)
    }

    /// Whether two candidates are one edit with different arguments.
    fn is_alike(&self, a: usize, b: usize) -> bool {
        let name = |number: usize| self.candidates[number].line.split_whitespace().next();
        name(a) == name(b)
    }

    /// Each combination, on all cores, in order; those that cannot be or do not fit are left out.
    fn all_of(&self, combinations: &[Vec<usize>]) -> Option<Vec<Tried>> {
        let at_once = match self.engine.at_once(self.base.resolved.added.len()) {
            all if all == rayon::current_num_threads() => 2 * all,
            narrow => narrow,
        };
        let trial = self.trial();
        let is_overtaken = self.is_overtaken;
        let mut all = Vec::with_capacity(combinations.len());
        for some in combinations.chunks(at_once) {
            let tried = some.par_iter().map(|parts| {
                if is_overtaken() {
                    return None;
                }
                Some(trial.tried(parts))
            });
            let tried: Option<Vec<Option<Tried>>> = tried.collect();
            let tried: Vec<Tried> = tried?.into_iter().flatten().collect();
            self.tell(&tried);
            all.extend(tried);
        }
        Some(all)
    }

    fn trial(&self) -> Trial<'_> {
        let (engine, loaded, base) = (self.engine, self.loaded, self.base);
        Trial { engine, loaded, base, work: work_per_sample(base), candidates: &self.candidates }
    }

    /// Hands on what gains.
    fn tell(&self, tried: &[Tried]) {
        let gains = |option: &&AdvisedOption| option.gain >= LEAST_GAIN && option.is_modelled();
        let gaining = tried.iter().map(|tried| &tried.option).filter(gains);
        let mut options = self.options.borrow_mut();
        let before = options.len();
        options.extend(gaining.cloned());
        if options.len() > before {
            sort(&mut options);
            (self.found)(&options);
        }
    }

    /// How the iteration answers to every class of tasks, on all cores.
    fn sensitivity(&self, target: Option<f64>) -> Option<Vec<Sensitivity>> {
        let trial = self.trial();
        let is_overtaken = self.is_overtaken;
        let found: Option<Vec<Sensitivity>> = advise::speed_up_targets(&self.loaded.base)
            .into_par_iter()
            .map(|speed_up| if is_overtaken() { None } else { Some(trial.answer(speed_up, target)) })
            .collect();
        let mut found = found?;
        let order = |a: &Sensitivity, b: &Sensitivity| {
            b.gain_at_tenth.total_cmp(&a.gain_at_tenth).then(b.gain_at_most.total_cmp(&a.gain_at_most))
        };
        found.sort_by(|a, b| order(a, b).then_with(|| a.class.cmp(&b.class)));
        Some(found)
    }
}

/// What one simulation needs; many run side by side.
#[derive(Clone, Copy)]
struct Trial<'a> {
    engine: &'a Engine,
    loaded: &'a Loaded,
    base: &'a Outcome,
    /// That of the base.
    work: [f64; 2],
    candidates: &'a [Candidate],
}

/// How long the host and the devices work for a sample, in ns.
fn work_per_sample(outcome: &Outcome) -> [f64; 2] {
    let (resolved, timed) = (&*outcome.resolved, &*outcome.resolved.timed);
    let kinds = resolved.graph.tasks.node_indices().map(|node| (timed.task(node), resolved.graph.tasks[node].kind));
    let added = resolved.added.iter().map(|added| (added.task, added.kind));
    let mut work = [0.0; 2];
    for (task, kind) in kinds.chain(added) {
        work[usize::from(kind.is_device())] += timed.durations[task.0 as usize] as f64;
    }
    work.map(|work| work / outcome.summary.samples())
}

impl Trial<'_> {
    fn tried(self, parts: &[usize]) -> Option<Tried> {
        let mut scenario = Scenario::clone(&self.base.scenario);
        let first = scenario.steps.len();
        for &part in parts {
            scenario.steps.push(parse_step(&self.candidates[part].line).ok()?);
        }
        let outcome = self.engine.evaluate(self.loaded, &scenario, 0);
        let applied = outcome.resolved.reports[first..].iter().all(|report| report.changed > 0);
        let summary = &outcome.summary;
        let is_per_sample = parts.iter().any(|&part| self.candidates[part].is_per_sample);
        // A window is as long as its end is after that of the one before: shorter is no gain where it ends no earlier.
        let ends_earlier = is_per_sample || summary.steady.is_compared() || outcome.end() < self.base.end();
        if !applied || summary.fits == Some(false) {
            return None;
        }
        let before = per_sample(&self.base.summary).max(1e-9);
        let gained = 1.0 - per_sample(summary) / before;
        let gain = if ends_earlier { gained } else { gained.min(0.0) };
        let off = |at: usize| (self.work[at] - work_per_sample(&outcome)[at]) / before;
        let relief = off(0).max(off(1));
        let mut error_band = summary.steady_band;
        if gain >= LEAST_GAIN {
            error_band.widen(self.engine.assumed_change(self.loaded, &outcome, first));
        }
        let steps = &outcome.steps[first..];
        let longest = error_band.high_ns.0 as f64 / summary.samples();
        let option = AdvisedOption {
            section: Section::of_all(&scenario.steps[first..]),
            unmodelled_share: steps.iter().map(|step| step.unhandled_share).fold(0.0, f64::max),
            sure_gain: 1.0 - longest / before,
            steps: steps.iter().map(|step| step.transform.clone()).collect(),
            simulated_ns: summary.simulated_ns,
            steady_ns: summary.steady_ns,
            gain,
            error_band,
            memory_bytes: summary.memory_bytes,
            is_hardware: parts.iter().any(|&part| self.candidates[part].is_hardware),
            is_per_sample,
            assumed_share: steps.iter().map(|step| step.assumed_share).fold(0.0, f32::max),
            assumed: steps.iter().filter_map(|step| Some(format!("{}: {}", step.transform, step.assumed()?))).collect(),
            unhandled: steps.iter().flat_map(|step| step.unhandled.iter().cloned()).collect(),
        };
        Some(Tried { parts: parts.to_vec(), option, relief })
    }

    fn answer(self, speed_up: SpeedUpTarget, target: Option<f64>) -> Sensitivity {
        let gain = |factor: f64| self.gain_of(&speed_up.selector, factor);
        let (gain_at_tenth, gain_at_most) = (gain(0.9), gain(0.0));
        let reachable = target.filter(|&target| gain_at_most >= target);
        let factor_for_target = reachable.map(|target| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                if gain(middle) >= target { low = middle } else { high = middle }
            }
            low
        });
        let SpeedUpTarget { class, selector } = speed_up;
        Sensitivity { class, selector, gain_at_tenth, gain_at_most, factor_for_target }
    }

    /// Share of the iteration that goes when the selected tasks take `factor` of their time.
    fn gain_of(self, selector: &str, factor: f64) -> f64 {
        let mut scenario = Scenario::clone(&self.base.scenario);
        let Ok(step) = parse_step(&format!("scale {selector} x{factor}")) else { return 0.0 };
        scenario.steps.push(step);
        let now = self.base.summary.steady_ns.0.max(1) as f64;
        self.engine.period(self.loaded, &scenario).map_or(0.0, |period| 1.0 - period.0 as f64 / now)
    }
}
