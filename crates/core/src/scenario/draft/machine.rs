//! What a draft runs on: the device of each rank, the interconnect, host overheads.

use std::sync::Arc;

use crate::cost::Overheads;
use crate::device::{DeviceProfile, LinkProfile};
use crate::graph::TaskKind;

use super::{Draft, Layout};

impl Draft<'_> {
    /// The device of the rank at position `rank` now.
    pub fn device(&self, rank: usize) -> Option<&Arc<DeviceProfile>> {
        self.devices.get(rank).or_else(|| self.devices.first())
    }

    /// The devices of all ranks now.
    pub fn devices(&self) -> &[Arc<DeviceProfile>] {
        &self.devices
    }

    /// Moves the rank at position `rank` to another device.
    pub fn set_device(&mut self, rank: usize, device: Arc<DeviceProfile>) {
        if rank < self.devices.len() {
            self.move_added(rank, &device);
            self.devices[rank] = device;
            self.memo.clear();
            self.touch_all(|draft, node| {
                let task = &draft.graph().tasks[node];
                draft.base.rank_index(task.lane) == rank && task.kind.is_device()
            });
        }
    }

    /// The interconnect, where an edit changed it.
    pub fn interconnect(&self) -> Option<&LinkProfile> {
        self.interconnect.as_ref()
    }

    /// Changes the interconnect of all ranks.
    pub fn set_interconnect(&mut self, link: LinkProfile) {
        self.relink_added(&link);
        self.interconnect = Some(link);
        self.memo.clear();
        self.touch_all(|draft, node| matches!(draft.graph().tasks[node].kind, TaskKind::Collective(_)));
    }

    /// Says how ranks are spread over nodes; collectives that span some are re-costed.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
        self.memo.clear();
        self.touch_all(|draft, node| matches!(draft.graph().tasks[node].kind, TaskKind::Collective(_)));
    }

    /// How ranks are spread over nodes, where an edit said so.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Host overheads of work that was never run.
    pub fn overheads(&self) -> &Overheads {
        self.overheads.as_deref().unwrap_or(&self.context.overheads)
    }

    /// Changes the host overheads of work that was never run; with `None` back to the program's.
    pub fn set_overheads(&mut self, overheads: Option<Arc<Overheads>>) {
        self.overheads = overheads;
    }
}
