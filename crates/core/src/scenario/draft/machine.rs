//! What a draft runs on: the device of each rank, the interconnect, host overheads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cost::Overheads;
use crate::cost::topology::{Algorithm, COMMON_NODE};
use crate::device::{DeviceProfile, LinkProfile};
use crate::graph::TaskKind;

use super::Draft;
use super::figures::Figures;
use crate::scenario::context::Context;

/// How ranks are spread over nodes; what is not said is as usual.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The link between them.
    pub link: Option<LinkProfile>,
    /// Devices of each.
    pub devices: Option<u32>,
    /// Ports of each to others.
    pub ports: Option<u32>,
    /// How collectives go from one to another.
    pub algorithm: Option<Algorithm>,
}

/// What the ranks of a draft run on.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// Device of each rank.
    pub(super) devices: Vec<Arc<DeviceProfile>>,
    /// By rank the first that was traced on the same device, and is on the same one now: models tell the same of both.
    alike: Vec<usize>,
    /// Interconnect, where it was changed.
    pub(super) interconnect: Option<LinkProfile>,
    /// The link that an edit named which joins nodes: it is the interconnect where each device is a node, else that between nodes.
    joins_nodes: Option<LinkProfile>,
    /// How ranks are spread over nodes, where an edit said so.
    pub(super) layout: Layout,
    /// Figures of all devices that edits multiplied.
    pub(super) figures: Figures,
    /// Host overheads of work that was never run, where an edit named others than the program's.
    overheads: Option<Arc<Overheads>>,
    /// How many ranks there are, where an edit changed it.
    rank_count: Option<u32>,
    missing: Missing,
}

/// Whether somebody asked for figures of a device that is not known.
#[derive(Debug, Default)]
struct Missing(AtomicBool);

impl Clone for Missing {
    fn clone(&self) -> Self {
        Self(self.0.load(Ordering::Relaxed).into())
    }
}

impl Machine {
    /// That on which the trace was recorded.
    pub(super) fn of(context: &Context) -> Self {
        let devices: Vec<Arc<DeviceProfile>> = context.devices.iter().map(|device| device.profile.clone()).collect();
        let mut kinds: Vec<usize> = Vec::new();
        let mut alike = Vec::with_capacity(devices.len());
        for (rank, device) in devices.iter().enumerate() {
            let is_same = |&&kind: &&usize| Arc::ptr_eq(&devices[kind], device) || devices[kind] == *device;
            let known = kinds.iter().find(is_same).copied();
            if known.is_none() {
                kinds.push(rank);
            }
            alike.push(known.unwrap_or(rank));
        }
        Self {
            devices,
            alike,
            interconnect: None,
            joins_nodes: None,
            layout: Layout::default(),
            figures: Figures::default(),
            overheads: None,
            rank_count: None,
            missing: Missing::default(),
        }
    }
}

impl Draft<'_> {
    /// The device of the rank at position `rank` now. Whoever asks for one that is not known gets no figures of any use, so that is
    /// [noted](Self::misses_device).
    pub fn device(&self, rank: usize) -> Option<&Arc<DeviceProfile>> {
        let device = self.machine.devices.get(rank).or_else(|| self.machine.devices.first());
        self.needs(device.map(AsRef::as_ref));
        device
    }

    /// Notes it where the figures of a device are needed and not known. Whether they are known.
    pub(super) fn needs(&self, device: Option<&DeviceProfile>) -> bool {
        let is_known = device.is_none_or(DeviceProfile::is_known);
        if !is_known {
            self.machine.missing.0.store(true, Ordering::Relaxed);
        }
        is_known
    }

    /// Whether anything that edits did, or what a task takes for it, needs figures of a device that is not known.
    ///
    /// # Complexity
    /// O(tasks).
    pub(in crate::scenario) fn misses_device(&self) -> bool {
        let is_missing = || self.machine.missing.0.load(Ordering::Relaxed);
        is_missing() || {
            self.nodes().for_each(|node| {
                self.price_of(node);
            });
            is_missing()
        }
    }

    /// The devices of all ranks now.
    pub fn devices(&self) -> &[Arc<DeviceProfile>] {
        &self.machine.devices
    }

    /// The first rank of which models tell the same as of the one at position `rank`.
    pub(super) fn alike(&self, rank: usize) -> usize {
        self.machine.alike.get(rank).copied().unwrap_or(0)
    }

    /// Moves all ranks to another device.
    ///
    /// # Complexity
    /// O(tasks + ranks).
    pub fn set_device(&mut self, device: &Arc<DeviceProfile>) {
        self.move_added(device);
        self.machine.devices.fill(Arc::clone(device));
        self.changes.clear();
        self.ratios.clear();
        self.touch_all(|draft, node| draft.graph().tasks[node].kind.is_device());
    }

    /// The interconnect, where an edit changed it.
    pub fn interconnect(&self) -> Option<&LinkProfile> {
        self.machine.interconnect.as_ref()
    }

    /// Names the link that collectives run over, of which the largest is among `ranks` ranks. One that joins nodes is taken to join nodes of
    /// several devices where there are more ranks than one has, else to make each device a node of its own.
    ///
    /// # Returns
    /// Whether it joins nodes of several devices.
    pub fn set_link(&mut self, link: LinkProfile, ranks: u32) -> bool {
        if link.between_nodes {
            self.machine.joins_nodes = Some(link);
            return self.join_nodes(ranks);
        }
        self.set_interconnect(Some(link));
        false
    }

    /// Puts the link that joins nodes, where an edit named one, to where it belongs with collectives of up to so many ranks.
    ///
    /// # Returns
    /// Whether it joins nodes of several devices.
    pub fn join_nodes(&mut self, ranks: u32) -> bool {
        let Some(link) = self.machine.joins_nodes.clone() else { return false };
        let is_between = ranks > self.layout().devices.unwrap_or(COMMON_NODE);
        let (alone, between) = if is_between { (None, Some(link)) } else { (Some(link), None) };
        let is_inside = |link: &LinkProfile| !link.between_nodes;
        let interconnect = alone.or_else(|| self.machine.interconnect.clone().filter(is_inside));
        if interconnect != self.machine.interconnect {
            self.set_interconnect(interconnect);
        }
        if between != self.machine.layout.link {
            self.machine.layout.link = between;
            self.touch_collectives();
        }
        is_between
    }

    fn set_interconnect(&mut self, link: Option<LinkProfile>) {
        self.relink_added(link.as_ref());
        self.machine.interconnect = link;
        self.touch_collectives();
    }

    /// Says how ranks are spread over nodes; collectives that span some are re-costed. A link between nodes that it names takes the place
    /// of one that an edit named before.
    pub fn set_layout(&mut self, layout: Layout) {
        if layout.link.is_some() && self.machine.joins_nodes.take().is_some() {
            let inside = self.machine.interconnect.clone().filter(|link| !link.between_nodes);
            self.set_interconnect(inside);
        }
        self.machine.layout = layout;
        self.touch_collectives();
    }

    fn touch_collectives(&mut self) {
        self.changes.clear();
        self.ratios.clear();
        self.touch_all(|draft, node| matches!(draft.graph().tasks[node].kind, TaskKind::Collective(_)));
    }

    /// How ranks are spread over nodes, where an edit said so.
    pub fn layout(&self) -> &Layout {
        &self.machine.layout
    }

    /// Host overheads of work that was never run.
    pub fn overheads(&self) -> &Overheads {
        self.machine.overheads.as_deref().unwrap_or(&self.context.overheads)
    }

    /// Changes the host overheads of work that was never run; with `None` back to the program's.
    pub fn set_overheads(&mut self, overheads: Option<Arc<Overheads>>) {
        self.machine.overheads = overheads;
    }

    /// How many ranks there are, where an edit changed it.
    pub fn rank_count(&self) -> Option<u32> {
        self.machine.rank_count
    }

    /// Notes that there are `count` ranks now, each like one that was traced.
    pub fn set_rank_count(&mut self, count: u32) {
        self.machine.rank_count = Some(count);
    }
}
