//! What a change of work, device or link makes of a task's time: worked out once per kind of change, applied to each task's own time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use crate::cost::roofline::LeastTimes;
use crate::cost::topology::{COMMON_BETWEEN_NODES, COMMON_NODE, Topology};
use crate::cost::{Estimate, Kernel, Placed, Prediction, Provenance, RoofRatio, Work, roof_ratio, unmodelled};
use crate::device::{DeviceProfile, LinkProfile, Precision};
use crate::graph::{NodeId, Task, TaskKind};
use crate::scenario::host::HostModel;
use crate::scenario::work_classes::NO_CLASS;
use crate::units::DurNs;

use super::{Draft, Layout};

/// What a change of work or device makes of a task's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Kept,
    Ratio(f64, Prediction),
    /// A kernel, or a collective that does not wait: the ratio, and what roofs allow.
    Kernel(f64, LeastTimes, Prediction, Most),
    Fixed(Prediction, Most),
    /// Its work is not known, its device changed.
    Roofs(RoofRatio),
    /// A collective: the ratio, what its link allows, and what it took before by the model.
    Transfer(f64, LeastTimes, DurNs, Prediction),
}

/// What a kernel takes at most: on a GPU that is worse in nothing no longer than its new work would take on the one it was recorded on,
/// but for what kernels take longer to start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Most {
    /// Of what it took.
    ratio: f64,
    plus: DurNs,
}

impl Default for Most {
    fn default() -> Self {
        Self { ratio: f64::INFINITY, plus: DurNs::ZERO }
    }
}

impl Most {
    fn hold(self, before: DurNs, now: DurNs) -> DurNs {
        if self.ratio.is_finite() { now.min(before.scale(self.ratio) + self.plus) } else { now }
    }
}

type Changes = FxHashMap<(u32, u32, usize), Change>;

/// Changes that were asked about: by the class a task came from, the one it has, and the first rank [alike](Draft::alike) its own.
/// A thread that stopped while it wrote left whole answers behind.
#[derive(Debug, Default)]
pub(super) struct Memo(RwLock<Changes>);

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self(RwLock::new(self.known(Changes::clone)))
    }
}

impl Memo {
    fn known<T>(&self, ask: impl FnOnce(&Changes) -> T) -> T {
        ask(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, found: impl IntoIterator<Item = ((u32, u32, usize), Change)>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(found);
    }

    pub(super) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Draft<'_> {
    /// Prices the classes of all touched kernels together, which takes the models a fraction of the time.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn predict_changes(&self) {
        self.predict_figures();
        let graph = self.graph();
        // By class: the rank and the class that it came from, as seen last.
        let classes = self.base.works().classes.len() + self.works.classes.len();
        let mut last = vec![(0, NO_CLASS); classes];
        let mut open: BTreeMap<usize, BTreeSet<(u32, u32)>> = BTreeMap::new();
        let kernels = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel);
        for node in kernels.filter(|&node| self.is_touched(node)) {
            let ((old, new), rank) = (self.classes_of(node), self.base.rank_index(graph.tasks[node].lane));
            let rank = self.alike(rank);
            let Some(last) = last.get_mut(new as usize).filter(|last| **last != (rank, old)) else { continue };
            *last = (rank, old);
            if !self.changes.known(|known| known.contains_key(&(old, new, rank))) {
                open.entry(rank).or_default().insert((old, new));
            }
        }
        for (rank, changes) in open {
            self.predict_changes_on(rank, &changes);
        }
    }

    fn predict_changes_on(&self, rank: usize, changes: &BTreeSet<(u32, u32)>) {
        let traced_on = self.context.devices.get(rank).or_else(|| self.context.devices.first());
        let Some(traced_on) = traced_on.filter(|device| device.profile.is_known()) else { return };
        let Some(now) = self.device(rank) else { return };
        let work = |class| self.class_at(class).and_then(|class| class.work.as_deref());
        let moves = traced_on.profile != *now;
        let kernel = |&(old, new): &(u32, u32)| self.kernel((old, work(old)), work(new), moves);
        let kernels: Vec<Kernel<'_>> = changes.iter().map(kernel).collect();
        let predictions = self.context.models.between(&traced_on.profile, now).predict_all(&kernels);
        // What no model covers may still follow roofs, which ask for the kernel's name.
        let modelled =
            changes.iter().zip(&kernels).zip(predictions).filter(|(_, p)| p.provenance != Provenance::Unmodelled);
        let priced = modelled.map(|((&(old, new), &kernel), prediction)| {
            ((old, new, rank), self.change_of_kernel(kernel, prediction, [&traced_on.profile, now]))
        });
        self.changes.add(priced.collect::<Vec<_>>());
    }

    /// What the work and device that a task has now make of its time.
    pub(super) fn change(&self, node: NodeId) -> Change {
        match self.known_change(node) {
            Change::Transfer(ratio, least, _, of) if !self.may_hold_waiting(node) => {
                Change::Kernel(ratio, least, of, Most::default())
            }
            change => change,
        }
    }

    fn known_change(&self, node: NodeId) -> Change {
        let task = &self.graph().tasks[node];
        let (old, new) = self.classes_of(node);
        if old == NO_CLASS {
            return Change::Kept;
        }
        let rank = self.alike(self.base.rank_index(task.lane));
        let known = self.changes.known(|known| known.get(&(old, new, rank)).copied());
        if let Some(known) = known {
            return known;
        }
        let change = self.work_out((old, new), rank, task);
        self.changes.add([((old, new, rank), change)]);
        change
    }

    fn work_out(&self, (old, new): (u32, u32), rank: usize, task: &Task) -> Change {
        let work = |class| self.class_at(class).and_then(|class| class.work.as_deref());
        let Some(traced_on) = self.context.devices.get(rank).or_else(|| self.context.devices.first()) else {
            return Change::Kept;
        };
        let traced_on = traced_on.profile.as_ref();
        let is_collective = matches!(task.kind, TaskKind::Collective(_));
        if is_collective {
            let change = self.over_links((work(old), work(new)), traced_on);
            return if change == Change::Kept || self.needs(Some(traced_on)) { change } else { Change::Kept };
        }
        if let (TaskKind::Compute, Some(host)) = (task.kind, &self.context.host) {
            return on_host(host, work(old), work(new));
        }
        if !traced_on.is_known() {
            if work(old) != work(new) {
                self.needs(Some(traced_on));
            }
            return Change::Kept;
        }
        let now =
            if task.kind == TaskKind::Compute { traced_on } else { self.device(rank).map_or(traced_on, Arc::as_ref) };
        // A class is told by more than its work: by whether its units may be others on the device, for one.
        let is_same = old == new || work(old) == work(new);
        if is_same && *traced_on == *now {
            return Change::Kept;
        }
        let kernel = self.kernel((old, work(old)), work(new), *traced_on != *now);
        let prediction = self.context.models.between(traced_on, now).predict(kernel);
        let roofs = match (prediction.provenance, task.kind) {
            (Provenance::Unmodelled, TaskKind::Kernel) if is_same && !self.context.is_predicted => {
                self.by_roofs(task, old, (traced_on, now))
            }
            _ => None,
        };
        roofs.map_or_else(|| self.change_of_kernel(kernel, prediction, [traced_on, now]), Change::Roofs)
    }

    /// The change to `prediction` of `kernel`, which is on the device of `after` now.
    fn change_of_kernel(&self, kernel: Kernel<'_>, prediction: Prediction, [from, to]: [&DeviceProfile; 2]) -> Change {
        let most = self.most(kernel, [from, to]);
        match self.unlimited(kernel, prediction, [from, to]) {
            Change::Kernel(ratio, least, of, _) => Change::Kernel(ratio, least, of, most),
            Change::Fixed(anew, _) => Change::Fixed(anew, most),
            change => change,
        }
    }

    /// The same, however long that is. A time that was predicted itself changes as the model's answers do: it may hold what these do not
    /// know, such as tables of several sizes.
    fn unlimited(&self, kernel: Kernel<'_>, prediction: Prediction, [from, to]: [&DeviceProfile; 2]) -> Change {
        let before = Placed { work: kernel.old, device: from };
        let after = Placed { work: kernel.new, device: to };
        let is_alone = self.context.is_predicted && prediction.provenance == Provenance::Absolute;
        let nothing = Placed { work: None, device: from };
        let then = is_alone.then(|| self.context.models.predict(None, nothing, before));
        match then.filter(|then| then.provenance == Provenance::Absolute && then.duration > DurNs::ZERO) {
            Some(then) => {
                let ratio = prediction.duration.0 as f64 / then.duration.0 as f64;
                let least = LeastTimes::of_predicted(prediction.model, before, after);
                Change::Kernel(ratio, least, prediction, Most::default())
            }
            None => Change::of_kernel(prediction, before, after),
        }
    }

    /// What a kernel takes at most that moves.
    fn most(&self, kernel: Kernel<'_>, [from, to]: [&DeviceProfile; 2]) -> Most {
        let precision = kernel.new.map_or(Precision::Fp32, |work| work.precision);
        if from == to || !to.is_worse_in_nothing(from, precision) {
            return Most::default();
        }
        let plus = (to.kernel_start - from.kernel_start).max(DurNs::ZERO);
        if kernel.old == kernel.new {
            return Most { ratio: 1.0, plus };
        }
        let stayed = self.context.models.between(from, from).predict(kernel);
        match self.unlimited(kernel, stayed, [from, from]) {
            Change::Kernel(ratio, ..) => Most { ratio, plus },
            Change::Fixed(anew, _) => Most { ratio: 0.0, plus: anew.duration + plus },
            _ => Most::default(),
        }
    }

    /// A task of class `old`, in units of [`UNIT`] where it was measured.
    ///
    /// # Arguments
    /// `moves`: whether its device changes.
    fn kernel<'w>(&self, (class, old): (u32, Option<&'w Work>), new: Option<&'w Work>, moves: bool) -> Kernel<'w> {
        let typical = self.base.works().typical.get(class as usize).copied();
        let measured = (!(self.context.is_predicted && (moves || old != new))).then_some(UNIT);
        Kernel { measured, typical, old, new }
    }

    fn by_roofs(&self, task: &Task, class: u32, (old, new): (&DeviceProfile, &DeviceProfile)) -> Option<RoofRatio> {
        roof_ratio(self.graph().names.get(task.name), self.class_at(class)?.family, old, new)
    }

    /// A collective runs over the interconnect that an edit chose, else that of the device it is on now where both that
    /// and the traced one's are known: over the slowest of those of unlike ranks, so that it takes as long on each.
    fn over_links(&self, (old, new): (Option<&Work>, Option<&Work>), device: &DeviceProfile) -> Change {
        let models = &self.context.models;
        let slowest = |devices: &mut dyn Iterator<Item = &DeviceProfile>| {
            let links: Option<Vec<&LinkProfile>> = devices.map(|device| models.links().of_device(device)).collect();
            links?.into_iter().min_by(|one, other| one.gb_s.total_cmp(&other.gb_s))
        };
        let traced = || self.context.devices.iter().map(|device| device.profile.as_ref());
        let own = models.links().of_device(device);
        let own = own.map(|own| slowest(&mut traced()).unwrap_or(own));
        let is_moved = self.devices().iter().zip(traced()).any(|(now, traced)| now.id != traced.id);
        let with_device = slowest(&mut self.devices().iter().map(Arc::as_ref)).filter(|_| is_moved);
        let link = self.machine.interconnect.as_ref().or(with_device);
        if old == new && link.is_none() && self.machine.layout == Layout::default() {
            return Change::Kept;
        }
        match (old, new, own) {
            (Some(old), Some(new), Some(own)) => {
                let traced = Layout::default();
                let before = self.topology(own, &traced);
                let after = self.topology(link.unwrap_or(own), &self.machine.layout);
                let moved = Change::of(models.predict_over(UNIT, (old, before), (new, after), is_moved));
                match (moved, before.transfer(old)) {
                    (Change::Ratio(ratio, of), Some(time)) if of.provenance == Provenance::Anchored => {
                        let start = after.latency(new).map_or(DurNs::ZERO, DurNs::from_us_f64);
                        let least = LeastTimes::given(before.least(old), after.least(new), start);
                        Change::Transfer(ratio, least, DurNs::from_us_f64(time.us), of)
                    }
                    (moved, _) => moved,
                }
            }
            _ if self.machine.interconnect.is_some() && own.is_none() => Change::of(unmodelled(Some(UNIT))),
            _ if self.machine.interconnect.is_none() && old == new => Change::Kept,
            _ => Change::of(models.predict(Some(UNIT), Placed { work: old, device }, Placed { work: new, device })),
        }
    }

    /// Whether a task is a collective of which not all ranks are loaded: its traced time contains waiting for the others.
    pub fn may_hold_waiting(&self, node: NodeId) -> bool {
        let graph = self.graph();
        let TaskKind::Collective(id) = graph.tasks[node].kind else { return false };
        graph.collectives.get(id.0 as usize).is_some_and(|collective| collective.loaded < collective.group_size)
    }

    /// What a collective took that is taken to be waiting: what is beyond the model's transfer, where not all ranks are loaded.
    pub fn waiting_in(&self, node: NodeId) -> DurNs {
        let task = &self.graph().tasks[node];
        if !self.is_touched(node) || !self.may_hold_waiting(node) {
            return DurNs::ZERO;
        }
        let transfer = match self.known_change(node) {
            Change::Transfer(_, _, before, _) => Some(before),
            _ => self.figured_transfer(node),
        };
        transfer.map_or(DurNs::ZERO, |transfer| (task.duration - transfer).max(DurNs::ZERO))
    }

    /// The nodes of a job whose devices `inside` joins.
    pub(in crate::scenario) fn topology<'t>(&'t self, inside: &'t LinkProfile, layout: &'t Layout) -> Topology<'t> {
        let flat = Topology { ports: layout.ports, algorithm: layout.algorithm, ..Topology::flat(inside) };
        if inside.between_nodes {
            return flat;
        }
        let own = if inside.most > 0 { inside.most } else { COMMON_NODE };
        let between = layout.link.as_ref().or_else(|| self.context.models.links().find(COMMON_BETWEEN_NODES));
        Topology { between, per_node: layout.devices.unwrap_or(own), ..flat }
    }
}

/// A host computation of another size: the fitted host's ratio.
pub(super) fn on_host(host: &HostModel, old: Option<&Work>, new: Option<&Work>) -> Change {
    let (Some(old), Some(new)) = (old, new) else { return Change::Kept };
    if old == new {
        return Change::Kept;
    }
    let (ratio, Estimate { duration, model, error, extrapolated }) = host.ratio(old, new);
    Change::Ratio(ratio, Prediction { duration, provenance: Provenance::Anchored, model, error, extrapolated })
}

/// The measured duration for which re-pricings are worked out: long enough that its rounding does not show.
pub(super) const UNIT: DurNs = DurNs(1_000_000_000);

/// A collective whose measured time contains waiting for ranks that are not loaded: what it took beyond the model's transfer
/// is that waiting, which does not shrink or grow with messages and links.
fn beyond(start: Prediction, (ratio, least): (f64, LeastTimes), before: DurNs, of: Prediction) -> Prediction {
    let waiting = (start.duration - before).max(DurNs::ZERO);
    let own = start.duration - waiting;
    let transfer = least.hold(own, own.scale(ratio));
    let duration = waiting + transfer;
    let share = transfer.0 as f64 / duration.0.max(1) as f64;
    let error = (of.error * share as f32).hypot(start.error);
    Prediction { duration, error, provenance: of.provenance.max(start.provenance), ..of }
}

impl Change {
    pub(super) fn of(prediction: Prediction) -> Self {
        match prediction.provenance {
            Provenance::Measured => Self::Kept,
            Provenance::Anchored => Self::Ratio(prediction.duration.0 as f64 / UNIT.0 as f64, prediction),
            Provenance::Unmodelled => Self::Ratio(1.0, prediction),
            Provenance::Absolute => Self::anew(prediction),
        }
    }

    /// To what it is predicted to take, whatever it took.
    pub(super) fn anew(prediction: Prediction) -> Self {
        Self::Fixed(prediction, Most::default())
    }

    /// That of a kernel, which roofs stop.
    pub(super) fn of_kernel(prediction: Prediction, before: Placed<'_>, after: Placed<'_>) -> Self {
        match Self::of(prediction) {
            Self::Ratio(ratio, of) if of.provenance == Provenance::Anchored => {
                Self::Kernel(ratio, LeastTimes::of_predicted(of.model, before, after), of, Most::default())
            }
            change => change,
        }
    }

    /// What a task takes after the change that took `start` before.
    pub(super) fn apply(self, start: Prediction) -> Prediction {
        match self {
            Self::Kept => start,
            Self::Kernel(ratio, least, of, most) => {
                let changed = Self::Ratio(ratio, of).apply(start);
                let duration = least.hold(start.duration, most.hold(start.duration, changed.duration));
                Prediction { duration, ..changed }
            }
            Self::Ratio(ratio, of) => Prediction {
                duration: start.duration.scale(ratio),
                error: of.error.hypot(start.error),
                provenance: of.provenance.max(start.provenance),
                ..of
            },
            Self::Fixed(anew, most) => Prediction { duration: most.hold(start.duration, anew.duration), ..anew },
            Self::Roofs(roofs) => {
                let moved = roofs.predict(start.duration);
                let (error, provenance) = (moved.error.hypot(start.error), moved.provenance.max(start.provenance));
                Prediction { provenance, error, ..moved }
            }
            Self::Transfer(ratio, least, before, of) => beyond(start, (ratio, least), before, of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_ranks_that_are_not_loaded_neither_shrinks_nor_grows() {
        let of = Prediction {
            provenance: Provenance::Anchored,
            model: "measured-curve",
            error: 0.1,
            ..Prediction::measured(DurNs(1))
        };
        let after = |measured, ratio, before| {
            beyond(Prediction::measured(DurNs(measured)), (ratio, LeastTimes::default()), DurNs(before), of)
        };
        let slower = after(1_000, 3.0, 200);
        assert_eq!(slower.duration, DurNs(800 + 600));
        assert!((slower.error - 0.1 * 600.0 / 1_400.0).abs() < 1e-6, "what waits has no error of the model's");
        assert_eq!(after(1_000, 0.5, 200).duration, DurNs(800 + 100));
        assert_eq!(after(1_000, 3.0, 2_000).duration, DurNs(3_000), "faster than the model: it did not wait");
    }
}
