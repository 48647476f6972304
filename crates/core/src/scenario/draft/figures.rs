//! Figures of a hypothetical device: what each task takes on it over what it takes on the device with its own figures.
//!
//! The fits of that very device have no say in it, since they do not know what its figures do.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, PoisonError, RwLock};

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::cost::roofline::LeastTimes;
use crate::cost::{Estimate, Placed, Prediction, Provenance, Work};
use crate::device::{DeviceKind, DeviceProfile, HYPOTHETICAL, LinkProfile};
use crate::graph::{NodeId, TaskKind};
use crate::units::DurNs;

use super::price::LEAST;
use super::{Draft, Layout, Node};

/// A figure of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Memory bandwidth.
    DramBandwidth,
    /// All arithmetic rates.
    Flops,
    /// Bandwidth between devices.
    Link,
    /// Bandwidth to the host.
    HostLink,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::DramBandwidth, Self::Flops, Self::Link, Self::HostLink];

    /// What steps and knobs call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DramBandwidth => "dram_bw",
            Self::Flops => "flops",
            Self::Link => "link",
            Self::HostLink => "host_link",
        }
    }
}

/// By what each figure of every device is multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures([f64; 4]);

impl Default for Figures {
    fn default() -> Self {
        Self([1.0; 4])
    }
}

impl Figures {
    fn factor(self, figure: Figure) -> f64 {
        self.0[figure as usize]
    }

    /// The figures that bound a kind of task.
    fn bounding(kind: TaskKind) -> &'static [Figure] {
        match kind {
            TaskKind::Collective(_) => &[Figure::Link],
            TaskKind::Memcpy => &[Figure::DramBandwidth, Figure::Flops, Figure::HostLink],
            kind if kind.is_device() => &[Figure::DramBandwidth, Figure::Flops],
            _ => &[],
        }
    }

    /// `ratio` between that of the figure with the largest effect and none.
    fn bounded(self, kind: TaskKind, ratio: f64) -> f64 {
        let factors = || Self::bounding(kind).iter().map(|&figure| self.factor(figure).recip());
        ratio
            .clamp(factors().fold(1.0, |low, it| low * it.min(1.0)), factors().fold(1.0, |high, it| high * it.max(1.0)))
    }

    /// `device` with its figures multiplied, under a name of its own so that no fit takes it for the real one.
    fn hypothetical(self, device: &DeviceProfile) -> DeviceProfile {
        let mut changed = device.clone();
        changed.lineage.insert(0, device.id.clone());
        changed.id = format!("{}{HYPOTHETICAL}", device.id);
        changed.scale_memory_bandwidth(self.factor(Figure::DramBandwidth));
        changed.peak.values_mut().for_each(|rate| rate.0 *= self.factor(Figure::Flops));
        changed.host_link.0 *= self.factor(Figure::HostLink);
        changed.peer_link.0 *= self.factor(Figure::Link);
        changed
    }
}

/// What a kind of task takes on a hypothetical device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figured {
    /// Over what it takes on the device with its own figures.
    ratio: f64,
    /// What roofs allow, with its own figures and with those.
    least: LeastTimes,
    /// Of a collective what the model says that it transfers for, with its own figures.
    transfer: Option<DurNs>,
}

impl Figured {
    /// What a task takes that takes `own` on the device with its own figures, `waiting` of it for others.
    pub(super) fn apply(self, own: Prediction, waiting: DurNs) -> Prediction {
        let working = own.duration - waiting;
        let duration = waiting + self.least.hold(working, working.scale(self.ratio));
        if duration == own.duration {
            return own;
        }
        let model = if own.model.is_empty() { "scale" } else { own.model };
        Prediction { duration, provenance: own.provenance.max(Provenance::Anchored), model, ..own }
    }
}

/// By the address of the work, which is kept, and the first rank [alike](Draft::alike) the task's; `None` where no model tells.
type Known = FxHashMap<(usize, usize), (Arc<Work>, Option<Figured>)>;

/// Ratios that were worked out.
#[derive(Debug, Default)]
pub(super) struct Ratios(RwLock<Known>);

impl Clone for Ratios {
    fn clone(&self) -> Self {
        Self(RwLock::new(self.known(Known::clone)))
    }
}

impl Ratios {
    fn known<T>(&self, ask: impl FnOnce(&Known) -> T) -> T {
        ask(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn clear(&self) {
        self.change(Known::clear);
    }
}

impl Draft<'_> {
    /// Multiplies a figure of every device.
    pub fn scale_figure(&mut self, figure: Figure, factor: f64) {
        self.machine.figures.0[figure as usize] *= factor;
        self.ratios.clear();
        self.touch_all(|draft, node| Figures::bounding(draft.graph().tasks[node].kind).contains(&figure));
    }

    /// Bytes per second between a rank's device and its host, with what edits multiply it by; 0 where none is known.
    pub fn host_link(&self, rank: usize) -> Option<f64> {
        Some(self.device(rank)?.host_link.0 * self.machine.figures.factor(Figure::HostLink))
    }

    /// The figures that edits multiplied, with by what.
    pub fn scaled_figures(&self) -> Vec<(Figure, f64)> {
        let all = Figure::ALL.into_iter().map(|figure| (figure, self.machine.figures.factor(figure)));
        all.filter(|(_, factor)| (factor - 1.0).abs() > f64::EPSILON).collect()
    }

    /// The tasks that a figure may bound.
    pub fn bounded_by(&self, figure: Figure) -> Vec<Node> {
        let is_bounded = |&node: &Node| Figures::bounding(self.kind_of(node)).contains(&figure);
        let nodes = (0..self.graph().tasks.node_count()).into_par_iter().with_min_len(LEAST).map(NodeId::new);
        let traced = nodes.filter(|&node| !self.is_removed(node)).map(Node::Traced);
        let mut bounded: Vec<Node> = traced.filter(is_bounded).collect();
        bounded.extend(self.added_nodes().filter(is_bounded));
        bounded
    }

    /// What each task takes for the figures that edits multiplied, over what it would take without, but for roofs; `None` where no
    /// model tells.
    pub fn figure_ratios(&self, nodes: &[Node]) -> Vec<Option<f64>> {
        if self.machine.figures == Figures::default() {
            return vec![Some(1.0); nodes.len()];
        }
        let ratio = |&node: &Node| if self.has_own_figures(node) { Some(1.0) } else { Some(self.figured(node)?.ratio) };
        nodes.par_iter().with_min_len(LEAST).map(ratio).collect()
    }

    /// Whether no figure that bounds a task was changed.
    fn has_own_figures(&self, node: Node) -> bool {
        self.machine.figures == Figures::default() || Figures::bounding(self.kind_of(node)).is_empty()
    }

    /// The device of each rank, with the figures that edits chose.
    pub(in crate::scenario) fn devices_as_figured(&self) -> Vec<Arc<DeviceProfile>> {
        let figures = self.machine.figures;
        let is_own = figures == Figures::default();
        let figured = |device: &Arc<DeviceProfile>| {
            if is_own || device.kind != DeviceKind::Gpu {
                Arc::clone(device)
            } else {
                Arc::new(figures.hypothetical(device))
            }
        };
        self.devices().iter().map(figured).collect()
    }

    /// What a task takes on the device as edits have it, that would take `own` on the one with its own figures.
    pub(super) fn as_figured(&self, node: Node, own: Prediction) -> Prediction {
        let Some(figured) = self.figured_anew(node) else { return own };
        let beyond = figured.transfer.filter(|_| self.may_wait(node)).map(|transfer| own.duration - transfer);
        figured.apply(own, beyond.map_or(DurNs::ZERO, |beyond| beyond.max(DurNs::ZERO)))
    }

    /// What figures that edits multiplied make of a task; `None` where they are its own or no model tells.
    fn figured_anew(&self, node: Node) -> Option<Figured> {
        if self.has_own_figures(node) { None } else { self.figured(node) }
    }

    /// What a traced collective transfers for by the model, where a figure of its link was multiplied.
    pub(super) fn figured_transfer(&self, node: NodeId) -> Option<DurNs> {
        self.figured_anew(Node::Traced(node))?.transfer
    }

    fn may_wait(&self, node: Node) -> bool {
        matches!(node, Node::Traced(node) if self.may_hold_waiting(node))
    }

    fn figured(&self, node: Node) -> Option<Figured> {
        let rank = self.alike(self.rank_of(self.lane_of(node)));
        let key = (std::ptr::from_ref(self.work_of(node)?).addr(), rank);
        if let Some(known) = self.ratios.known(|known| Some(known.get(&key)?.1)) {
            return known;
        }
        let work = self.shared_work_of(node)?;
        let figured = self.work_out_ratios(self.kind_of(node), rank, &[&work]).pop().flatten();
        self.ratios.change(|known| known.insert(key, (work, figured)));
        figured
    }

    /// Works out the ratios of all tasks together, which takes the models a fraction of the time.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn predict_figures(&self) {
        if self.machine.figures == Figures::default() {
            return;
        }
        let mut open: BTreeMap<usize, Vec<Arc<Work>>> = BTreeMap::new();
        self.ratios.change(|known| {
            for node in self.nodes().filter(|&node| self.kind_of(node) == TaskKind::Kernel) {
                let Some(work) = self.work_of(node) else { continue };
                let rank = self.alike(self.rank_of(self.lane_of(node)));
                let address = std::ptr::from_ref(work).addr();
                let (Entry::Vacant(unknown), Some(work)) = (known.entry((address, rank)), self.shared_work_of(node))
                else {
                    continue;
                };
                unknown.insert((Arc::clone(&work), None));
                open.entry(rank).or_default().push(work);
            }
        });
        for (rank, works) in open {
            let asked: Vec<&Work> = works.iter().map(AsRef::as_ref).collect();
            let ratios = self.work_out_ratios(TaskKind::Kernel, rank, &asked);
            let keyed = works.into_iter().zip(ratios);
            let keyed = keyed.map(|(work, ratio)| ((Arc::as_ptr(&work).addr(), rank), (work, ratio)));
            self.ratios.change(|known| known.extend(keyed));
        }
    }

    fn work_out_ratios(&self, kind: TaskKind, rank: usize, works: &[&Work]) -> Vec<Option<Figured>> {
        let figures = self.machine.figures;
        let Some(device) = self.device(rank).filter(|device| device.kind == DeviceKind::Gpu) else {
            return vec![None; works.len()];
        };
        let figured = |before: f64, after: f64, least: LeastTimes| {
            (before > 0.0).then(|| Figured { ratio: figures.bounded(kind, after / before), least, transfer: None })
        };
        if matches!(kind, TaskKind::Collective(_)) {
            let time = |work| self.link_times(work, device, figures.factor(Figure::Link));
            return works
                .iter()
                .map(|work| {
                    let (before, after) = time(work)?;
                    let transfer = Some(DurNs::from_us_f64(before));
                    Some(Figured { transfer, ..figured(before, after, LeastTimes::default())? })
                })
                .collect();
        }
        let devices = [Figures::default(), figures].map(|figures| figures.hypothetical(device));
        let [now, then] = [0, 1].map(|at| self.context.models.estimates(works, &devices[at]));
        let pairs = works.iter().zip(now.into_iter().zip(then));
        let of_pair = |(work, (now, then)): (&&Work, (Option<Estimate>, Option<Estimate>))| {
            let [own, with] = [0, 1].map(|at| Placed { work: Some(work), device: &devices[at] });
            figured(now?.duration.0 as f64, then?.duration.0 as f64, LeastTimes::of(own, with))
        };
        pairs.map(of_pair).collect()
    }

    /// A collective's time over its link, and over one with `factor` times the bandwidth, in µs.
    fn link_times(&self, work: &Work, device: &DeviceProfile, factor: f64) -> Option<(f64, f64)> {
        let own = || self.context.models.links().of_device(device);
        let link = self.interconnect().or_else(own)?;
        let between = self.topology(link, self.layout()).between.cloned();
        let time = |link: &LinkProfile, between: Option<LinkProfile>| {
            let layout = Layout { link: between, ..self.layout().clone() };
            Some(self.topology(link, &layout).transfer(work)?.us)
        };
        let faster = |link: &LinkProfile| faster(link, factor);
        Some((time(link, between.clone())?, time(&faster(link), between.as_ref().map(faster))?))
    }
}

/// The link with its bandwidth multiplied; the latency stays.
fn faster(link: &LinkProfile, factor: f64) -> LinkProfile {
    let mut faster = link.clone();
    faster.gb_s *= factor;
    for curve in &mut faster.curves {
        let latency = curve.us.first().copied().unwrap_or(0.0);
        for us in &mut curve.us {
            *us = latency + (*us - latency) / factor;
        }
        curve.fit = curve.fit.map(|fit| fit.scaled(factor));
    }
    faster.bounded_by = link.bounded_by.iter().map(|other| self::faster(other, factor)).collect();
    faster
}
