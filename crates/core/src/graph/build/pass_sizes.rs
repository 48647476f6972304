//! How many samples the forward passes of a rank run on: those that a backward pass goes back over, and those that nothing is trained on.

use std::ops::Range;

use crate::graph::{ExecutionGraph, LaneId, Operator, Pass, RankPart, batch_size};
use crate::units::{DurNs, TimeNs};

use super::batches::{Call, Calls};

impl Calls {
    /// Each pass that trains, with its batch, in order of time; empty where not each tells one size.
    ///
    /// # Complexity
    /// O(passes · operators).
    pub(super) fn sizes(&self, graph: &ExecutionGraph, part: &RankPart, is_counted: bool) -> Vec<Pass> {
        let Some(main) = self.main.filter(|_| !self.backward.is_empty()) else { return Vec::new() };
        let mut from = 0;
        let pass = |own: &Vec<Call>| {
            let before = || {
                let (begins, ends) = (*self.forward.get(from)?, own.first()?.start);
                Some((begins, between(graph, main, begins..ends).to_vec()))
            };
            let (begins, operators) = forward_of(graph, own).or_else(before)?;
            from = self.forward.partition_point(|&at| at <= own[own.len() - 1].start);
            match batch_size::candidates(&operators, &graph.operands, &graph.names)[..] {
                [batch] => Some(Pass { rank: part.rank, from: begins, batch, is_counted }),
                _ => None,
            }
        };
        let mut passes = self.each(graph).iter().map(pass).collect::<Option<Vec<Pass>>>().unwrap_or_default();
        passes.sort_by_key(|pass| pass.from);
        passes.dedup_by_key(|pass| pass.from);
        passes
    }

    /// The calls of each backward pass. Where passes stand in no order that calls tell of, a forward pass is as many calls that follow one
    /// another, if those of each run on one number of samples; none where they do not.
    fn each(&self, graph: &ExecutionGraph) -> Vec<Vec<Call>> {
        if self.count > 1 || self.batches == 1 {
            return self.chunks().map(<[Call]>::to_vec).collect();
        }
        let mut linked: Vec<Call> = self.backward.iter().filter(|call| call.forward.is_some()).copied().collect();
        linked.sort_by_key(|call| call.forward);
        let count = self.batches as usize;
        if linked.is_empty() || !linked.len().is_multiple_of(count) {
            return Vec::new();
        }
        let passes: Vec<Vec<Call>> = linked.chunks(linked.len() / count).map(<[Call]>::to_vec).collect();
        let is_one = |pass: &Vec<Call>| {
            let mut sizes: Vec<Vec<u64>> = pass.iter().map(|call| own_size(graph, call)).collect();
            sizes.retain(|size| !size.is_empty());
            sizes.dedup();
            sizes.len() == 1
        };
        if passes.iter().all(is_one) { passes } else { Vec::new() }
    }

    /// Forward passes that no backward pass goes back over though they give the same weights to operators as those of `trained` do, where
    /// each tells its batch: evaluations, and what runs again before the backward pass.
    ///
    /// # Complexity
    /// O(passes · operators).
    pub(super) fn untrained(&self, graph: &ExecutionGraph, part: &RankPart, within: &Range<TimeNs>) -> Vec<Pass> {
        let Some(main) = self.main.filter(|_| !self.backward.is_empty()) else { return Vec::new() };
        let is_trained = self.trained();
        let all: Vec<Operator> =
            self.each(graph).iter().filter_map(|pass| Some(forward_of(graph, pass)?.1)).flatten().collect();
        let kept = || self.forward.iter().zip(&is_trained).filter(|(_, trained)| **trained).map(|(at, _)| *at);
        let on_main: Vec<Operator> =
            kept().flat_map(|at| between(graph, main, at..self.next(at, within)).to_vec()).collect();
        let known = batch_size::weights(all.iter().chain(&on_main), &graph.operands, &graph.names);
        let places: Vec<usize> = (0..self.forward.len()).collect();
        let alike = places.chunk_by(|&a, &b| is_trained[a] == is_trained[b]).filter(|run| !is_trained[run[0]]);
        let pass = |run: &[usize]| {
            let (first, last) = (self.forward[run[0]], self.forward[*run.last()?]);
            let operators = between(graph, main, first..self.next(last, within));
            let weights = batch_size::weights(operators.iter(), &graph.operands, &graph.names);
            if weights.is_empty() || !weights.is_subset(&known) {
                return None;
            }
            match batch_size::candidates(operators, &graph.operands, &graph.names)[..] {
                [batch] => Some(Pass { rank: part.rank, from: first, batch, is_counted: false }),
                _ => None,
            }
        };
        alike.filter_map(pass).collect()
    }

    /// Of each call of the forward pass whether a backward pass goes back over it; where none tells of any, whether one follows.
    fn trained(&self) -> Vec<bool> {
        let linked: Vec<(LaneId, TimeNs)> = self.backward.iter().filter_map(|call| call.forward).collect();
        let last = self.backward.last().map(|call| call.start);
        let mut found: Vec<bool> =
            self.forward.iter().map(|&at| linked.is_empty() && last.is_some_and(|last| at < last)).collect();
        for &(_, at) in linked.iter().filter(|&&(lane, _)| Some(lane) == self.main) {
            if let Some(place) = self.forward.partition_point(|&call| call <= at).checked_sub(1) {
                found[place] = true;
            }
        }
        found
    }

    /// When the call of the forward pass behind that at `at` begins, or `within` ends.
    fn next(&self, at: TimeNs, within: &Range<TimeNs>) -> TimeNs {
        self.forward.get(self.forward.partition_point(|&call| call <= at)).copied().unwrap_or(within.end)
    }
}

/// The operators of a lane that start within a span of time.
fn between(graph: &ExecutionGraph, lane: LaneId, within: Range<TimeNs>) -> &[Operator] {
    let before = |time: TimeNs| move |it: &Operator| (it.lane, it.start) < (lane, time);
    let [first, last] = [within.start, within.end].map(|time| graph.operators.partition_point(before(time)));
    graph.operators.get(first..last).unwrap_or_default()
}

/// When the forward pass begins over whose calls a backward pass goes, and its operators on each thread; `None` where it tells of none.
fn forward_of(graph: &ExecutionGraph, pass: &[Call]) -> Option<(TimeNs, Vec<Operator>)> {
    let mut known: Vec<(LaneId, TimeNs)> = pass.iter().filter_map(|call| call.forward).collect();
    known.sort_unstable();
    let begins = known.iter().map(|&(_, at)| at).min()?;
    let of_lane = |own: &[(LaneId, TimeNs)]| {
        let ((lane, first), (_, last)) = (own[0], own[own.len() - 1]);
        between(graph, lane, first..last + DurNs(1)).to_vec()
    };
    Some((begins, known.chunk_by(|a, b| a.0 == b.0).flat_map(of_lane).collect()))
}

/// What the batch of the forward call may be that a call of a backward pass goes back over.
fn own_size(graph: &ExecutionGraph, call: &Call) -> Vec<u64> {
    let Some((lane, at)) = call.forward else { return Vec::new() };
    let operators = between(graph, lane, at..at + DurNs(1));
    let ends = operators.first().map_or(at, |operator| operator.start + operator.dur);
    batch_size::candidates(between(graph, lane, at..ends.max(at + DurNs(1))), &graph.operands, &graph.names)
}
