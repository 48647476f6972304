//! Steps of several kinds that take turns: as many as it takes until the first kind comes again are one iteration of the job.
//!
//! A loop that trains two networks in turn, or updates its parameters every fourth step, repeats as a whole: how long one of its
//! steps takes says nothing of how fast it is.

use crate::units::TimeNs;

use super::Trace;
use super::steps::StepRange;

/// Most kinds of steps that take turns, by what they call or how long they take.
const MOST_KINDS: usize = 16;

/// A property by which kinds of steps are told apart.
#[derive(Clone, Copy)]
struct Evidence<'a> {
    /// Of each step.
    values: &'a [f64],
    /// How far those of one kind are apart at most, as a share.
    within: f64,
    /// How far the largest of all kinds is from the smallest at least, as a share.
    across: f64,
    /// How often each kind was recorded at least.
    turns: usize,
    /// Most kinds.
    kinds: usize,
}

/// Joins steps that take turns: those of one turn are one, which ends with the longest. Steps at both ends that are of no whole turn are
/// left out.
///
/// # Returns
/// How many kinds there are, and how many steps were left out; `None` where steps are of one kind, or in no order.
///
/// # Complexity
/// O(events of the steps · log).
pub(super) fn join(trace: &Trace, steps: &mut Vec<StepRange>) -> Option<(usize, usize)> {
    let Turns { kinds, whole } = kinds(trace, steps)?;
    let longest = (0..kinds).max_by_key(|&kind| {
        let of_kind = steps[..whole].iter().skip(kind).step_by(kinds).skip(1);
        of_kind.map(|step| step.end.since(step.start)).max()
    })?;
    let first = (longest + 1) % kinds;
    let all = steps.len();
    let turns: Vec<StepRange> = steps[first..whole].chunks_exact(kinds).map(joined).collect();
    let left_out = all - turns.len() * kinds;
    *steps = turns;
    Some((kinds, left_out))
}

fn joined(turn: &[StepRange]) -> StepRange {
    let (first, last) = (&turn[0], &turn[turn.len() - 1]);
    let name = format!("{} to {}", first.name, last.name);
    StepRange { name, end: last.end, parts: turn.len() as u32, ..first.clone() }
}

/// Steps that take turns.
#[derive(Clone, Copy)]
struct Turns {
    /// How many kinds of them there are.
    kinds: usize,
    /// How many of the steps keep to them: those behind, fewer than a turn, may be cut.
    whole: usize,
}

/// By how many kinds steps take turns.
fn kinds(trace: &Trace, steps: &[StepRange]) -> Option<Turns> {
    if steps.len() < 4 {
        return None;
    }
    let calls: Vec<f64> = steps.iter().map(|step| calls(trace, step) as f64).collect();
    let ends: Vec<TimeNs> = steps.iter().map(|step| step.end).collect();
    let first = steps[0].end.since(steps[0].start).0 as f64;
    let periods = ends.windows(2).map(|pair| pair[1].since(pair[0]).0 as f64);
    let periods: Vec<f64> = std::iter::once(first).chain(periods).collect();
    // What a program does it does again to the call; how long that takes differs, and may be alike by chance.
    let by_calls = Evidence { values: &calls, within: 0.02, across: 0.1, turns: 2, kinds: MOST_KINDS };
    let by_time = Evidence { values: &periods, within: 0.05, across: 0.25, turns: 3, kinds: MOST_KINDS };
    // The first step is often longer than those that follow.
    let settled = |evidence: &Evidence<'_>| Evidence { values: &evidence.values[1..], ..*evidence }.kinds();
    let after_first = |turns: Turns| Turns { whole: turns.whole + 1, ..turns };
    let found = |evidence: Evidence<'_>| evidence.kinds().or_else(|| settled(&evidence).map(after_first));
    // Updates are counted, not measured: no number of steps between them comes about by chance.
    let updates = updates(trace, steps);
    let by_updates = Evidence { values: &updates, within: 0.0, across: 0.0, turns: 2, kinds: usize::MAX };
    found(by_calls).or_else(|| found(by_time)).or_else(|| found(by_updates))
}

/// Events of a step's thread.
fn calls(trace: &Trace, step: &StepRange) -> usize {
    trace.events.within(step.start..step.end).filter(|&id| trace.events.track(id) == step.track).count()
}

/// Steps of optimizers in each step.
fn updates(trace: &Trace, steps: &[StepRange]) -> Vec<f64> {
    let begins: Vec<TimeNs> = super::steps::updates(trace).into_iter().map(|id| trace.events.start(id)).collect();
    let before = |time: TimeNs| begins.partition_point(|&begin| begin < time);
    steps.iter().map(|step| (before(step.end) - before(step.start)) as f64).collect()
}

impl Evidence<'_> {
    /// The fewest kinds by which the values take turns: all of them, else those of whole turns, behind which the recording stopped.
    ///
    /// # Complexity
    /// O(values · most kinds), and O(values) where those of one kind are equal.
    fn kinds(&self) -> Option<Turns> {
        let equal = (self.within == 0.0).then(|| (repeats(self.values), unchanged(self.values)));
        let may_be = |&Turns { kinds, whole }: &Turns| {
            equal.as_ref().is_none_or(|(repeats, unchanged)| repeats[kinds] >= whole - kinds && whole > *unchanged)
        };
        let all = self.values.len();
        let most = (all / self.turns).min(self.kinds);
        let of_all = (2..=most).map(|kinds| Turns { kinds, whole: all });
        let of_whole = (2..=most).map(|kinds| Turns { kinds, whole: all - all % kinds });
        of_all.chain(of_whole).find(|turns| may_be(turns) && self.take(*turns))
    }

    /// Whether the values take such turns.
    fn take(&self, Turns { kinds, whole }: Turns) -> bool {
        let of_kind = |kind: usize| range(self.values[..whole].iter().skip(kind).step_by(kinds).copied());
        let ranges: Vec<(f64, f64)> = (0..kinds).map(of_kind).collect();
        let is_alike = ranges.iter().all(|(least, most)| *most <= least * (1.0 + self.within));
        let (least, most) = range(ranges.iter().map(|(least, _)| *least));
        is_alike && most > least * (1.0 + self.across)
    }
}

/// How many of `values` are equal to the first, before the first that is not.
fn unchanged(values: &[f64]) -> usize {
    values.iter().take_while(|value| value.total_cmp(&values[0]).is_eq()).count()
}

/// For each place of `values`, how many from there on are equal to those from the beginning on (the Z function) [Gusfield 1997 § 1.3].
fn repeats(values: &[f64]) -> Vec<usize> {
    let mut repeats = vec![values.len(); values.len()];
    let (mut from, mut to) = (0, 0);
    for at in 1..values.len() {
        let mut length = if at < to { repeats[at - from].min(to - at) } else { 0 };
        while values.get(at + length).is_some_and(|value| value.total_cmp(&values[length]).is_eq()) {
            length += 1;
        }
        if at + length > to {
            (from, to) = (at, at + length);
        }
        repeats[at] = length;
    }
    repeats
}

/// The least and the most of `values`.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::super::steps::{steps, steps_and_odd_ranges};
    use super::{repeats, unchanged};
    use crate::trace::{Trace, load_bytes};

    /// Steps of a loop, one after another: how long each takes in µs, and how many operators it calls.
    fn recorded(steps: &[(u32, u32)]) -> Trace {
        let mut at = 0;
        let mut events = Vec::new();
        let mut push = |name: String, category: &str, ts: u32, dur: u32| {
            events.push(format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
            ));
        };
        for (number, (length, calls)) in steps.iter().enumerate() {
            push(format!("ProfilerStep#{number}"), "user_annotation", at, *length);
            (0..*calls).for_each(|call| push("aten::mm".to_owned(), "cpu_op", at + 2 * call, 1));
            at += length;
        }
        load_bytes(format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")).as_bytes(), "loop.json").unwrap()
    }

    /// Name and length in µs of each step that is found.
    fn found(recorded_steps: &[(u32, u32)]) -> Vec<(String, i64)> {
        steps(&recorded(recorded_steps))
            .iter()
            .map(|step| (step.name.clone(), step.end.since(step.start).0 / 1000))
            .collect()
    }

    #[test]
    fn steps_that_take_turns_are_one_which_ends_with_the_longest() {
        let by_time = [(400, 5), (400, 5), (1000, 5)].repeat(3);
        let turns = found(&by_time);
        assert_eq!(turns.len(), 3);
        assert_eq!(turns[1], ("ProfilerStep#3 to ProfilerStep#5".to_owned(), 1800));
        let by_calls = [(1000, 30), (980, 10)].repeat(3);
        assert_eq!(found(&by_calls)[0], ("ProfilerStep#1 to ProfilerStep#2".to_owned(), 1980), "behind the longer");
        let cut = found(&[&by_calls[..], &[(980, 10)]].concat());
        assert_eq!(cut.len(), 2, "the recording stops inside a turn");
        let cut = found(&[&[(400, 5), (400, 5), (1000, 5)].repeat(3)[..], &[(900, 7)]].concat());
        assert_eq!((cut.len(), cut[2].1), (3, 1800), "the last step is of no whole turn");
        let (_, odd) = steps_and_odd_ranges(&recorded(&by_calls));
        assert_eq!((odd.kinds, odd.beside_turns), (2, 2), "the first and the last are of no whole turn");
    }

    #[test]
    fn steps_of_one_kind_stay() {
        for steps in [
            vec![(400, 5); 8],
            vec![(400, 5), (1000, 5), (400, 5), (1000, 5)],
            [vec![(500, 5); 4], vec![(800, 9)], vec![(500, 5); 5]].concat(),
            vec![(900, 9), (400, 5), (410, 5), (400, 5), (405, 5), (400, 5)],
            vec![(400, 5), (420, 5), (600, 5), (400, 5), (900, 5), (410, 5), (400, 5)],
            vec![(400, 5), (1000, 5), (400, 5), (700, 5), (400, 5), (1000, 5)],
        ] {
            assert_eq!(found(&steps).len(), steps.len(), "{steps:?}");
        }
    }

    #[test]
    fn what_repeats_is_found_in_one_pass() {
        let values = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 1.0];
        assert_eq!(repeats(&values), [8, 0, 4, 0, 2, 0, 0, 1]);
        assert_eq!((unchanged(&values), unchanged(&[4.0; 3])), (1, 3));
        assert_eq!(repeats(&[5.0; 4]), [4, 3, 2, 1]);
    }
}
