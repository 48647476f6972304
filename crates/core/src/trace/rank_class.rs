//! Ranks that did the same: a job of a thousand data-parallel ranks is as large as the few of them that differ.
//!
//! Two ranks are alike when their device work agrees in kind and order on every stream, their operators in name, shapes and
//! number, their steps in name, what a file states of the work of either, and their collectives in kind, size, type and size of group, on equal
//! devices; and when their times agree within a tolerance: of device work and of host operators by kind of call (sum of
//! differences against the sum), and of every collective and every step (against the mean step without collectives, so that waiting
//! for a straggler hides nothing). The ends of a collective are simultaneous, so its length tells when a rank arrived, whatever its
//! clock.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rayon::prelude::*;
use rustc_hash::FxHasher;

use super::steps::one_by_one;
use super::{Category, EventId, Job, RankTrace, Trace, TrackKind, WorkArgs};
use crate::intern::NameId;
use crate::units::{DurNs, TimeNs};

/// How far times of ranks may be apart that are taken as equal, in a job of `ranks` ranks: up to eight can all be shown, so
/// only those that cannot be told apart are left out.
pub fn tolerance(ranks: usize) -> f64 {
    if ranks <= 8 { 0.001 } else { 0.02 }
}

/// Ranks that one of them stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankClass {
    /// Where in [`Job::ranks`] the one is that is simulated.
    pub position: usize,
    /// Global numbers of all, its own first.
    pub ranks: Vec<u32>,
}

/// Which ranks of a job are simulated, and for whom, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankClasses {
    /// The classes, by the position of the rank that is simulated.
    pub classes: Vec<RankClass>,
}

impl RankClasses {
    /// Every rank on its own.
    pub fn none(job: &Job) -> Self {
        let alone = |(position, rank): (usize, &RankTrace)| RankClass { position, ranks: vec![rank.rank] };
        Self { classes: job.ranks.iter().enumerate().map(alone).collect() }
    }

    /// As few classes as the ranks of `job` allow.
    ///
    /// # Complexity
    /// O(events + ranks · classes of equal structure · kinds of calls).
    pub fn of(job: &Job) -> Self {
        if job.ranks.len() < 2 {
            return Self::none(job);
        }
        let tolerance = tolerance(job.ranks.len());
        let signatures: Vec<Option<RankSignature>> =
            job.ranks.par_iter().map(|rank| rank.trace.as_ref().and_then(RankSignature::of)).collect();
        let mut classes: Vec<RankClass> = Vec::new();
        let mut by_structure: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (position, (rank, signature)) in job.ranks.iter().zip(&signatures).enumerate() {
            let own =
                signature.as_ref().map(|signature| (signature, by_structure.entry(signature.structure).or_default()));
            let same = own.as_ref().and_then(|(signature, known)| {
                let is_alike = |&&class: &&usize| {
                    signatures[classes[class].position]
                        .as_ref()
                        .is_some_and(|first| first.is_like(signature, tolerance))
                };
                known.iter().find(is_alike).copied()
            });
            if let Some(class) = same {
                classes[class].ranks.push(rank.rank);
                continue;
            }
            if let Some((_, known)) = own {
                known.push(classes.len());
            }
            classes.push(RankClass { position, ranks: vec![rank.rank] });
        }
        Self { classes }
    }

    /// Whether any rank stands for others.
    pub fn folds(&self) -> bool {
        self.classes.iter().any(|class| class.ranks.len() > 1)
    }

    /// The same with classes cut where something tells two of their ranks apart.
    ///
    /// # Complexity
    /// O(ranks · classes).
    #[must_use]
    pub fn split(&self, job: &Job, tells_apart: &dyn Fn(u32, u32) -> bool) -> Self {
        let position = |rank: u32| job.ranks.iter().position(|one| one.rank == rank);
        let mut classes: Vec<RankClass> = Vec::new();
        for class in &self.classes {
            let first = classes.len();
            for &rank in &class.ranks {
                let same = classes[first..].iter().position(|part| !tells_apart(part.ranks[0], rank));
                match (same, position(rank)) {
                    (Some(part), _) => classes[first + part].ranks.push(rank),
                    (None, Some(position)) => classes.push(RankClass { position, ranks: vec![rank] }),
                    (None, None) => {}
                }
            }
        }
        classes.sort_by_key(|class| class.position);
        Self { classes }
    }
}

/// What a rank did, as far as it decides whether another did the same.
struct RankSignature {
    /// Kinds and order of everything, without times.
    structure: u64,
    /// Time by kind of call: of device work, and of host operators.
    work: [BTreeMap<u64, DurNs>; 2],
    /// Lengths of collectives on devices, by stream and start.
    collectives: Vec<DurNs>,
    /// Where steps lie: from the first work to the first of them, then the length of each, and from its start to that of the next.
    marks: Vec<DurNs>,
    /// Mean length of a step.
    step: f64,
    /// Mean time of a step outside collectives.
    own: f64,
}

impl RankSignature {
    /// `None` of a trace without work.
    fn of(trace: &Trace) -> Option<Self> {
        let names: Vec<u64> = trace.names.iter().map(|(_, text)| hash(text)).collect();
        let mut builder = SignatureBuilder { trace, names, streams: BTreeMap::new(), sum: 0, work: Default::default() };
        for id in trace.events.ids() {
            builder.add(id);
        }
        builder.finish()
    }

    fn is_like(&self, other: &Self, tolerance: f64) -> bool {
        let (step, own) = (self.step.min(other.step), self.own.min(other.own));
        let mut lengths = self.collectives.iter().zip(&other.collectives).chain(self.marks.iter().zip(&other.marks));
        self.marks.len() == other.marks.len()
            && self.structure == other.structure
            && (self.step - other.step).abs() <= tolerance * step
            && self.work.iter().zip(&other.work).all(|(a, b)| are_near(a, b, tolerance))
            && lengths.all(|(&a, &b)| (a - b).abs().0 as f64 <= tolerance * own)
    }
}

/// Where the steps of a trace lie whose first work begins at `start`.
fn marks(trace: &Trace, start: TimeNs) -> Vec<DurNs> {
    let (steps, _) = one_by_one(trace);
    let first = steps.first().map(|step| step.start.since(start));
    let lengths = steps.iter().map(|step| step.end.since(step.start));
    let apart = steps.windows(2).map(|pair| pair[1].start.since(pair[0].start));
    first.into_iter().chain(lengths).chain(apart).collect()
}

/// Whether times by kind of call agree; both have the same kinds.
fn are_near(a: &BTreeMap<u64, DurNs>, b: &BTreeMap<u64, DurNs>, tolerance: f64) -> bool {
    let apart: DurNs = a.iter().map(|(key, &time)| (time - b.get(key).copied().unwrap_or_default()).abs()).sum();
    let all: DurNs = a.values().copied().sum();
    apart.0 as f64 <= tolerance * all.0 as f64
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A signature while events are added to it.
struct SignatureBuilder<'a> {
    trace: &'a Trace,
    /// A number for the text of each name, the same in all traces.
    names: Vec<u64>,
    /// Of each stream by number: what ran in order, and its collectives.
    streams: BTreeMap<i64, (u64, Vec<DurNs>)>,
    /// Of what has no order.
    sum: u64,
    work: [BTreeMap<u64, DurNs>; 2],
}

impl SignatureBuilder<'_> {
    fn name(&self, name: NameId) -> u64 {
        self.names.get(name.0 as usize).copied().unwrap_or(0)
    }

    fn add(&mut self, id: EventId) {
        let (events, category) = (&self.trace.events, self.trace.events.category(id));
        if category.is_device_work() {
            self.device_work(id);
        } else if category == Category::Operator {
            let name = self.name(events.name(id));
            let tensors = self.trace.operators.get(id).and_then(|args| args.tensors);
            let dims = tensors.and_then(|row| self.trace.tensor_args.get(row.index())).map(|args| self.name(args.dims));
            let kind = hash((name, dims, self.role(id), self.stated(id)));
            self.sum = self.sum.wrapping_add(kind);
            *self.work[1].entry(kind).or_default() += events.dur(id);
        }
    }

    fn device_work(&mut self, id: EventId) {
        let (events, role) = (&self.trace.events, self.role(id));
        let kind = hash((events.category(id) as u8, self.name(events.name(id)), role, self.stated(id)));
        let TrackKind::Stream { stream, .. } = self.trace.tracks[events.track(id).0 as usize].kind else { return };
        let is_collective = role.is_some() || self.trace.names.get(events.name(id)).starts_with("nccl");
        let of_stream = self.streams.entry(stream).or_default();
        of_stream.0 = hash((of_stream.0, kind));
        if is_collective {
            of_stream.1.push(events.dur(id));
        } else {
            *self.work[0].entry(kind).or_default() += events.dur(id);
        }
    }

    /// A rank's part in a collective, where recorded.
    fn role(&self, id: EventId) -> Option<u64> {
        let args = self.trace.collectives.get(id)?;
        let elements = (args.in_elements, args.out_elements);
        Some(hash((self.name(args.name), self.name(args.dtype), elements, args.group_size)))
    }

    /// What the file states that an event has to do.
    fn stated(&self, id: EventId) -> Option<u64> {
        let work = self.trace.works.get(id)?.as_ref();
        let amounts = |work: &WorkArgs| (work.flop.0.to_bits(), work.read.0, work.written.0);
        Some(hash(work.map(|work| (self.name(work.family), self.name(work.precision), amounts(work)))))
    }

    fn finish(self) -> Option<RankSignature> {
        let (trace, events) = (self.trace, &self.trace.events);
        let works = |id: &EventId| {
            matches!(events.category(*id), Category::Operator | Category::Runtime)
                || events.category(*id).is_device_work()
        };
        let spans = events.ids().filter(works).map(|id| (events.start(id), events.end(id)));
        let (start, end) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let is_step = |(_, text): &(NameId, &str)| text.starts_with("ProfilerStep");
        let named = trace.names.iter().filter(is_step).fold(0, |sum: u64, (_, text)| sum.wrapping_add(hash(text)));
        let steps = trace.names.iter().filter(is_step).count();
        let devices: Vec<(&str, u64)> =
            trace.devices.iter().map(|device| (device.name.as_str(), device.memory.0)).collect();
        let streams: Vec<(i64, u64)> = self.streams.iter().map(|(&number, &(order, _))| (number, order)).collect();
        let collectives: Vec<DurNs> = self.streams.into_values().flat_map(|(_, lengths)| lengths).collect();
        let shared: DurNs = collectives.iter().copied().sum();
        let mean = |span: DurNs| span.0.max(0) as f64 / steps.max(1) as f64;
        Some(RankSignature {
            structure: hash((self.sum, devices, streams, steps, named)),
            work: self.work,
            collectives,
            marks: marks(trace, start),
            step: mean(end.since(start)),
            own: mean(end.since(start) - shared),
        })
    }
}
