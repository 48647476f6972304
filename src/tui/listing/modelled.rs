//! What the models say of each measured kernel on the device it ran on.

use rustc_hash::FxHashMap;

use crate::session::Loaded;
use retime_core::cost::Estimate;
use retime_core::graph::{NodeId, TaskKind};

/// Estimates by task.
#[derive(Clone, Debug, Default)]
pub struct Modelled {
    of_node: Vec<Option<Estimate>>,
}

impl Modelled {
    /// Asks the models of `loaded`, once per distinct kind of call; nothing where the times are predictions themselves.
    ///
    /// # Complexity
    /// O(tasks + distinct calls · cost of a model).
    pub fn of(loaded: &Loaded) -> Self {
        if loaded.predicted().is_some() {
            return Self::default();
        }
        let (graph, base, context) = (&loaded.graph, &loaded.base, &loaded.context);
        let mut known: FxHashMap<(usize, usize), Option<Estimate>> = FxHashMap::default();
        let estimate = |node: NodeId| {
            let task = &graph.tasks[node];
            let work = base.work(node).filter(|_| task.kind == TaskKind::Kernel)?;
            let rank = base.rank_index(task.lane);
            let device = context.devices.get(rank).filter(|device| device.recognised)?;
            let ask = || context.models.estimate(work, &device.profile);
            *known.entry((std::ptr::from_ref(work).addr(), rank)).or_insert_with(ask)
        };
        Self { of_node: graph.tasks.node_indices().map(estimate).collect() }
    }

    /// What the model says of a kernel; `None` where none covers it.
    pub fn get(&self, node: NodeId) -> Option<Estimate> {
        self.of_node.get(node.index()).copied().flatten()
    }
}
