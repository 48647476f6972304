//! Recorded sizes that the recorded times tell to be wrong: no device could have worked them off so fast, so what was recorded is not
//! what ran, and counts as not known.

use std::sync::Arc;

use crate::cost::{Shape, Work};
use crate::device::DeviceProfile;
use crate::graph::{ExecutionGraph, NodeId};
use crate::units::{Bytes, DurNs};

use super::work_classes::WorkClasses;

/// How fine the coarsest clocks are.
const TICK: DurNs = DurNs(1_000);
/// How many times its peak rate, or the bandwidth of its cache or its link, a device may seem to reach. Algorithms that do less arithmetic
/// than they are counted for, units of another type than the operator's and a clock that counts microseconds together reach less.
const MOST_OF_PEAK: f64 = 10.0;

/// Whether the fastest of `devices` could do `work` in `time`, where any is known, and any machine at all.
fn is_possible(work: &Work, time: DurNs, devices: &[Arc<DeviceProfile>]) -> bool {
    let fastest = |rate: &dyn Fn(&DeviceProfile) -> f64| devices.iter().map(|device| rate(device)).fold(0.0, f64::max);
    let is_within = |amount: f64, rate: f64, time: DurNs| rate <= 0.0 || amount <= MOST_OF_PEAK * rate * time.secs();
    let peak = fastest(&|device| device.product_rate(work.precision).0);
    let bandwidth = fastest(&|device| device.l2_bandwidth.0.max(device.dram_bandwidth.0));
    // What a look-up reads of a table is its rows, a copy's bytes are its own.
    let is_streamed = !matches!(work.shape, Shape::Embedding { .. } | Shape::Copy { .. } | Shape::Collective { .. });
    let link = fastest(&|device| device.peer_link.0);
    // What a rank of several hands on leaves its device.
    let sent = if matches!(work.shape, Shape::Collective { ranks: 2.., .. }) { work.read } else { Bytes(0) };
    is_within(work.flop.0, peak, time)
        && is_within(sent.0 as f64, link, time + TICK)
        && (!is_streamed || is_within(work.bytes().0 as f64, bandwidth, time + TICK))
        && work.is_possible_within(time + TICK)
}

impl WorkClasses {
    /// Forgets the work of classes that none of `devices` could do in the time that the longest of their tasks took.
    ///
    /// # Complexity
    /// O(tasks).
    pub(super) fn refute(&mut self, graph: &ExecutionGraph, devices: &[Arc<DeviceProfile>]) {
        let mut longest = vec![DurNs::ZERO; self.classes.len()];
        for (task, &class) in graph.tasks.node_weights().zip(&self.of_node) {
            if let Some(longest) = longest.get_mut(class as usize) {
                *longest = (*longest).max(task.duration).max(task.measured);
            }
        }
        for (class, longest) in self.classes.iter_mut().zip(longest) {
            // Times of tasks without one are still to be predicted.
            let is_told = longest > DurNs::ZERO;
            if is_told && class.work.as_ref().is_some_and(|work| !is_possible(work, longest, devices)) {
                (class.work, class.is_refuted) = (None, true);
            }
        }
    }

    /// Tasks that took too little time for the sizes recorded with them, in order.
    pub(super) fn refuted<'a>(&'a self, graph: &'a ExecutionGraph) -> impl Iterator<Item = NodeId> + 'a {
        graph.tasks.node_indices().filter(|&node| self.class(node).is_some_and(|class| class.is_refuted))
    }
}
