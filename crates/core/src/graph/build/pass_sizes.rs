//! How many samples the forward passes of a rank run on: those that a backward pass goes back over, and those that nothing is trained on.

use std::ops::Range;

use crate::graph::{ExecutionGraph, LaneId, Operator, Pass, RankPart, batch_size};
use crate::units::{DurNs, TimeNs};

use super::batches::{Call, Calls};

/// The graph, and of each operator whether it stands beside what is trained.
type Told<'a> = (&'a ExecutionGraph, &'a [bool]);

impl Calls {
    /// Each pass that trains, with its batch, in order of time; empty where not each tells one size.
    ///
    /// # Complexity
    /// O(passes · operators).
    pub(super) fn sizes(&self, (graph, alone): Told<'_>, part: &RankPart, is_counted: bool) -> Vec<Pass> {
        let Some(main) = self.main.filter(|_| !self.backward.is_empty()) else { return Vec::new() };
        let is_trained = self.trained();
        let mut from = 0;
        let pass = |own: &Vec<Call>| {
            let before = || {
                let (begins, ends) = (*self.forward.get(from)?, own.first()?.start);
                Some((begins, graph.operators_but(places(graph, main, begins..ends), alone).into_owned()))
            };
            let (begins, mut operators) = forward_of((graph, alone), own).or_else(before)?;
            let fed_from = self.fed_from((graph, alone), &is_trained, from, begins);
            operators.extend_from_slice(&graph.operators[places(graph, main, fed_from..begins)]);
            let begins = fed_from;
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

    /// When the first of the layers begins that run right before a pass that begins at `begins`, from the call at place `from` on, without
    /// gradients, and do not stand alone.
    fn fed_from(&self, (graph, alone): Told<'_>, is_trained: &[bool], from: usize, begins: TimeNs) -> TimeNs {
        let Some(main) = self.main else { return begins };
        let until = self.forward.partition_point(|&at| at < begins);
        let before = (from.min(until)..until).rev().take_while(|&at| !is_trained[at]);
        let calls = before
            .map(|at| (at, places(graph, main, self.forward[at]..self.next(self.forward[at], &(begins..begins)))));
        let own = calls.take_while(|(_, own)| !alone.get(own.clone()).is_some_and(|alone| alone.contains(&true)));
        let has_layers = |own: &Range<usize>| {
            !batch_size::weights(graph.operators[own.clone()].iter(), &graph.operands, &graph.names).is_empty()
        };
        own.filter(|(_, own)| has_layers(own)).last().map_or(begins, |(at, _)| self.forward[at])
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

    /// Forward passes that no backward pass goes back over though they give the same weights to operators as those of `trained` do, or that
    /// stand `alone`, where each tells its batch: evaluations, what runs again before the backward pass, and other models.
    ///
    /// # Complexity
    /// O(passes · operators).
    pub(super) fn untrained(&self, (graph, alone): Told<'_>, part: &RankPart, within: &Range<TimeNs>) -> Vec<Pass> {
        let Some(main) = self.main.filter(|_| !self.backward.is_empty()) else { return Vec::new() };
        let is_trained = self.trained();
        let none: &[bool] = &[];
        let all: Vec<Operator> =
            self.each(graph).iter().filter_map(|pass| Some(forward_of((graph, none), pass)?.1)).flatten().collect();
        let kept = || self.forward.iter().zip(&is_trained).filter(|(_, trained)| **trained).map(|(at, _)| *at);
        let own = |at: TimeNs| places(graph, main, at..self.next(at, within));
        let on_main: Vec<Operator> = kept().flat_map(|at| graph.operators[own(at)].to_vec()).collect();
        let known = batch_size::weights(all.iter().chain(&on_main), &graph.operands, &graph.names);
        let runs = self.runs((graph, alone), &is_trained, own);
        let pass = |run: Range<usize>| {
            let (first, last) = (self.forward[run.start], self.forward[run.end - 1]);
            let run = places(graph, main, first..self.next(last, within));
            let stands_alone = alone.get(run.clone()).is_some_and(|alone| alone.contains(&true));
            let operators = &graph.operators[run];
            let weights = batch_size::weights(operators.iter(), &graph.operands, &graph.names);
            if weights.is_empty() || !(stands_alone || weights.is_subset(&known)) {
                return None;
            }
            match batch_size::candidates(operators, &graph.operands, &graph.names)[..] {
                [batch] => Some(Pass { rank: part.rank, from: first, batch, is_counted: false }),
                _ => None,
            }
        };
        runs.into_iter().filter_map(pass).collect()
    }

    /// Places of forward calls one after another that no backward pass goes back over, and whose layers stand alone or do not. Calls
    /// without layers belong to those before them.
    fn runs(
        &self,
        (graph, alone): Told<'_>,
        is_trained: &[bool],
        own: impl Fn(TimeNs) -> Range<usize>,
    ) -> Vec<Range<usize>> {
        let mut runs: Vec<(Range<usize>, Option<bool>)> = Vec::new();
        for (at, &start) in self.forward.iter().enumerate().filter(|(at, _)| !is_trained[*at]) {
            let call = own(start);
            let stands_alone = alone.get(call.clone()).is_some_and(|alone| alone.contains(&true));
            let has_layers =
                !batch_size::weights(graph.operators[call].iter(), &graph.operands, &graph.names).is_empty();
            let kind = has_layers.then_some(stands_alone);
            match runs.last_mut() {
                Some((run, known)) if run.end == at && (known.is_none() || kind.is_none() || *known == kind) => {
                    (run.end, *known) = (at + 1, known.or(kind));
                }
                _ => runs.push((at..at + 1, kind)),
            }
        }
        runs.into_iter().map(|(run, _)| run).collect()
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

/// Places of the operators of a lane that start within a span of time.
fn places(graph: &ExecutionGraph, lane: LaneId, within: Range<TimeNs>) -> Range<usize> {
    let before = |time: TimeNs| move |it: &Operator| (it.lane, it.start) < (lane, time);
    let [first, last] = [within.start, within.end].map(|time| graph.operators.partition_point(before(time)));
    first..last.max(first)
}

/// When the forward pass begins over whose calls a backward pass goes, and its operators on each thread but those that stand alone; `None`
/// where it tells of none.
fn forward_of((graph, alone): Told<'_>, pass: &[Call]) -> Option<(TimeNs, Vec<Operator>)> {
    let mut known: Vec<(LaneId, TimeNs)> = pass.iter().filter_map(|call| call.forward).collect();
    known.sort_unstable();
    let begins = known.iter().map(|&(_, at)| at).min()?;
    let of_lane = |own: &[(LaneId, TimeNs)]| {
        let ((lane, first), (_, last)) = (own[0], own[own.len() - 1]);
        graph.operators_but(places(graph, lane, first..last + DurNs(1)), alone).into_owned()
    };
    Some((begins, known.chunk_by(|a, b| a.0 == b.0).flat_map(of_lane).collect()))
}

/// What the batch of the forward call may be that a call of a backward pass goes back over.
fn own_size(graph: &ExecutionGraph, call: &Call) -> Vec<u64> {
    let Some((lane, at)) = call.forward else { return Vec::new() };
    let operators = &graph.operators[places(graph, lane, at..at + DurNs(1))];
    let ends = operators.first().map_or(at, |operator| operator.start + operator.dur);
    let own = places(graph, lane, at..ends.max(at + DurNs(1)));
    batch_size::candidates(&graph.operators[own], &graph.operands, &graph.names)
}
