//! What a draft runs on: the device of each rank, the interconnect, host overheads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cost::Overheads;
use crate::cost::topology::Algorithm;
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

    /// Changes the interconnect of all ranks.
    pub fn set_interconnect(&mut self, link: LinkProfile) {
        self.relink_added(&link);
        self.machine.interconnect = Some(link);
        self.changes.clear();
        self.ratios.clear();
        self.touch_all(|draft, node| matches!(draft.graph().tasks[node].kind, TaskKind::Collective(_)));
    }

    /// Says how ranks are spread over nodes; collectives that span some are re-costed.
    pub fn set_layout(&mut self, layout: Layout) {
        self.machine.layout = layout;
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
