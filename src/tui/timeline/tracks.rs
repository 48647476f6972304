//! Tracks below the lanes: how much was launched and had not begun, and how much device memory was in use, over time.

use unicode_width::UnicodeWidthStr;

use crate::session::Loaded;
use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;
use retime_core::graph::ExecutionGraph;
use retime_core::memory::{RankMemory, Simulated};
use retime_core::scenario::Resolved;
use retime_core::sim::Schedule;
use retime_core::units::{Bytes, DurNs, TimeNs};

use super::density::DensityIndex;
use super::item::Item;
use super::lane_label::rank_label;
use super::render::label_width;
use super::scene::{Scene, call_of};
use super::state::Timeline;

/// A value that changes in steps over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// When the value changes.
    times: Vec<TimeNs>,
    /// Maxima over ranges as a binary tree: the leaves, one per time, are the second half.
    tree: Vec<u64>,
}

impl Track {
    /// A track of the values from each instant on; of several at one instant the last counts.
    ///
    /// # Complexity
    /// O(n log n).
    pub fn new(mut steps: Vec<(TimeNs, u64)>) -> Self {
        steps.sort_by_key(|&(time, _)| time);
        let mut kept: Vec<(TimeNs, u64)> = Vec::with_capacity(steps.len());
        for step in steps {
            match kept.last_mut() {
                Some(last) if last.0 == step.0 => last.1 = step.1,
                _ => kept.push(step),
            }
        }
        let count = kept.len();
        let mut tree = vec![0; count];
        tree.extend(kept.iter().map(|&(_, value)| value));
        for at in (1..count).rev() {
            tree[at] = tree[2 * at].max(tree[2 * at + 1]);
        }
        Self { times: kept.into_iter().map(|(time, _)| time).collect(), tree }
    }

    /// A track that counts up at some instants and down at others.
    fn counting(mut changes: Vec<(TimeNs, i64)>) -> Self {
        changes.sort_unstable();
        let mut now = 0_i64;
        let steps = changes.into_iter().map(|(time, by)| {
            now += by;
            (time, now.max(0) as u64)
        });
        Self::new(steps.collect())
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The largest value of all.
    pub fn most(&self) -> u64 {
        self.most_at(0, self.times.len())
    }

    /// The largest value within a range of time.
    ///
    /// # Complexity
    /// O(log n).
    pub fn most_within(&self, from: TimeNs, to: TimeNs) -> u64 {
        let before = self.times.partition_point(|&time| time <= from).saturating_sub(1);
        self.most_at(before, self.times.partition_point(|&time| time < to))
    }

    fn most_at(&self, from: usize, to: usize) -> u64 {
        let count = self.times.len();
        let (mut low, mut high, mut most) = (from + count, to + count, 0);
        while low < high {
            if low % 2 == 1 {
                most = most.max(self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                most = most.max(self.tree[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        most
    }
}

/// For each rank how many pieces of device work were launched and had not begun, in the times of `density`.
///
/// # Complexity
/// O(n log n) in device work.
pub fn queues(graph: &ExecutionGraph, density: &DensityIndex) -> Vec<Track> {
    let mut changes: Vec<Vec<(TimeNs, i64)>> = vec![Vec::new(); graph.ranks.len()];
    for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device()) {
        let rank = graph.lanes[graph.tasks[node].lane.0 as usize].rank;
        let place = graph.place_of(rank);
        let call = graph.launch_of(node).and_then(|launch| call_of(graph, launch));
        let begins = |node| density.times(Item::Task(node)).map(|(start, _)| start);
        if let (Some(place), Some(launched), Some(begun)) = (place, call.and_then(begins), begins(node)) {
            changes[place].extend([(launched, 1), (begun.max(launched), -1)]);
        }
    }
    changes.into_iter().map(Track::counting).collect()
}

/// For each rank the memory that it holds, in measured times; empty where nothing is known.
pub fn memory(loaded: &Loaded) -> Vec<Track> {
    let of_rank = |memory: &Option<RankMemory>| {
        let steps = memory.as_ref().map(RankMemory::over_time).unwrap_or_default();
        Track::new(steps.into_iter().map(|(at, bytes)| (at, bytes.0)).collect())
    };
    loaded.base.memory().iter().map(of_rank).collect()
}

/// For each rank the memory that it holds under a scenario, in simulated times moved by `shift`; empty where nothing is known.
pub fn memory_simulated(resolved: &Resolved, schedule: &Schedule, shift: DurNs) -> Vec<Track> {
    let simulated = Simulated { graph: &resolved.graph, timed: &resolved.timed, schedule };
    let track =
        |steps: Vec<(TimeNs, Bytes)>| Track::new(steps.into_iter().map(|(at, bytes)| (at + shift, bytes.0)).collect());
    simulated.over_time(&resolved.memory).into_iter().map(track).collect()
}

/// The tracks of one rank with their names and largest values, those of which something is known.
pub fn of_rank<'a>(scene: Scene<'a>, memory: &'a [Track], lane: usize) -> Vec<(String, Role, &'a Track)> {
    let rank = scene.lane(lane).map(|lane| lane.rank);
    let place = rank.and_then(|rank| scene.graph.place_of(rank)).unwrap_or(0);
    let prefix = if scene.graph.rank_count() > 1 {
        format!("{} ", rank_label(scene.graph, scene.graph.ranks[place].rank))
    } else {
        String::new()
    };
    let queue = |track: &Track| format!("{prefix}queue ≤{}", track.most());
    let queue_simulated = |track: &Track| format!(" sim. ≤{}", track.most());
    let used = |track: &Track| format!("{prefix}mem {}", Bytes(track.most()));
    let measured = scene.measured.queues.get(place).map(|track| (queue(track), Role::Measured, track));
    let simulated = scene.simulated.queues.get(place).map(|track| (queue_simulated(track), Role::Simulated, track));
    let used_simulated = |track: &Track| format!(" sim. {}", Bytes(track.most()));
    let memory = memory.get(place).map(|track| (used(track), Role::Measured, track));
    let after = scene.simulated.memory.get(place).map(|track| (used_simulated(track), Role::Simulated, track));
    let [simulated, after] = [simulated, after].map(|track| track.filter(|_| scene.is_edited));
    [measured, simulated, memory, after].into_iter().flatten().filter(|(_, _, track)| !track.is_empty()).collect()
}

/// Draws tracks, one per row, each scaled to its largest value.
pub fn render(tracks: &[(String, Role, &Track)], state: &Timeline, canvas: &mut Canvas<'_>) {
    const LOWER: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let labels = label_width(canvas.width());
    let width = canvas.width().saturating_sub(labels);
    for (y, (name, role, track)) in tracks.iter().enumerate() {
        let y = y as u16;
        let room = labels.saturating_sub(2) as usize;
        let brief = name.replacen(" MiB", "M", 1).replacen(" GiB", "G", 1).replacen(" KiB", "K", 1);
        let name = if name.width() > room { &brief } else { name };
        canvas.part(0, y, labels - 1, 1).text(1, 0, name, *role);
        let most = track.most().max(1) as f64;
        for x in 0..width {
            let time = |x: u16| TimeNs(state.span.time_at(f64::from(x), width) as i64);
            let value = track.most_within(time(x), time(x + 1)) as f64;
            let eighths = (value / most * 8.0).ceil() as usize;
            canvas.text(labels + x, y, LOWER[eighths.min(8)], *role);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_of_a_range_counts_what_was_in_force_when_it_begins() {
        let at = |time, value| (TimeNs(time), value);
        let track = Track::new(vec![at(10, 3), at(20, 7), at(30, 1), at(30, 2), at(40, 0)]);
        let most = |from, to| track.most_within(TimeNs(from), TimeNs(to));
        assert_eq!((track.most(), most(12, 18), most(12, 21), most(25, 28)), (7, 3, 7, 7));
        assert_eq!((most(30, 31), most(35, 50), most(40, 90)), (2, 2, 0));
        assert_eq!(most(0, 5), 0, "nothing is known before the first step");
    }

    #[test]
    fn work_counts_from_its_launch_until_it_begins() {
        let track = Track::counting(vec![(TimeNs(5), 1), (TimeNs(6), 1), (TimeNs(9), -1), (TimeNs(12), -1)]);
        let most = |from, to| track.most_within(TimeNs(from), TimeNs(to));
        assert_eq!((most(5, 6), most(6, 9), most(9, 12), most(12, 20)), (1, 2, 1, 0));
        assert!(Track::counting(Vec::new()).is_empty());
        assert_eq!(Track::default().most(), 0);
    }
}
