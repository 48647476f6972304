//! Which members of collectives on different ranks belong together.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::units::{DurNs, TimeNs};

use super::collectives::Member;
use super::constants::median;

/// Members that end within this of each other belong together, once clocks are aligned …
const SAME_END: DurNs = DurNs(2_000_000);

/// … or within this share of the shorter: ranks leave an all-to-all when their own part is done.
const SAME_END_SHARE: f64 = 0.3;

/// Clocks this close are aligned by the pairs that are found without more ado.
const ROUGHLY_SAME: DurNs = DurNs(1_000_000);
/// Fewest ends that tell a clock which is further off from chance.
const LEAST_ENDS: usize = 4;

/// Collectives of the ranks so far.
#[derive(Default)]
pub(super) struct Groups {
    /// Of each its members.
    pub(super) list: Vec<Vec<Member>>,
    /// By what is matched: which.
    by_key: FxHashMap<[String; 3], Vec<usize>>,
}

impl Groups {
    /// Pairs of a collective and a member of the next rank: equal sequence numbers, else the nearest end, each used once.
    ///
    /// Streams run in order on every rank, and so do the collectives that two streams share: a pair that would cross another of the
    /// same two streams is none.
    ///
    /// # Complexity
    /// O((own members, collectives of their keys and pairs that may be) · log).
    pub(super) fn pairs(&self, own: &[Member]) -> Vec<(usize, usize)> {
        let candidates = Candidates::of(own);
        let mut found: Vec<(i64, usize, usize)> = Vec::new();
        for &index in candidates.all.keys().filter_map(|key| self.by_key.get(*key)).flatten() {
            candidates.of_member(own, &self.list[index][0], |distance, other| found.push((distance, index, other)));
        }
        found.sort_unstable();
        let mut taken = Taken::default();
        let is_taken =
            |(_, a, b): (i64, usize, usize)| taken.take((&self.list[a][0], a), (&own[b], b)).then_some((a, b));
        found.into_iter().filter_map(is_taken).collect()
    }

    /// Aligns a rank's members roughly with the collectives: by how much later most of those end that come in the same order as the others
    /// of their key, where more pairs are found so.
    ///
    /// # Returns
    /// By how much they were moved.
    pub(super) fn clocks_apart(&self, own: &mut [Member]) -> DurNs {
        let mut later = Vec::new();
        for (key, mut ends) in by_key(own) {
            let mut others: Vec<TimeNs> =
                self.by_key.get(key).into_iter().flatten().map(|&index| self.list[index][0].end).collect();
            if others.len() == ends.len() {
                ends.sort_unstable();
                others.sort_unstable();
                later.extend(ends.into_iter().zip(others).map(|(own, other)| own.since(other)));
            }
        }
        let apart = median(&mut later);
        let agree = later.iter().filter(|&&one| (one - apart).abs() <= SAME_END).count();
        if apart.abs() <= ROUGHLY_SAME || agree < LEAST_ENDS || 2 * agree < later.len() {
            return DurNs::ZERO;
        }
        let before = self.pairs(own).len();
        let mut moved = |by: DurNs| {
            for member in &mut *own {
                member.end = member.end - by;
            }
            self.pairs(own).len()
        };
        if moved(apart) > before {
            return apart;
        }
        moved(-apart);
        DurNs::ZERO
    }

    /// Takes a rank's members in, those of `pairs` into the collective that they are paired with.
    pub(super) fn join(&mut self, own: Vec<Member>, pairs: &[(usize, usize)]) {
        let mut place = vec![None; own.len()];
        for &(group, member) in pairs {
            place[member] = Some(group);
        }
        for (member, place) in own.into_iter().zip(place) {
            if let Some(group) = place {
                self.list[group].push(member);
            } else {
                self.by_key.entry(member.key.clone()).or_default().push(self.list.len());
                self.list.push(vec![member]);
            }
        }
    }
}

/// When the members of each key end.
fn by_key(members: &[Member]) -> FxHashMap<&[String; 3], Vec<TimeNs>> {
    let mut ends: FxHashMap<_, Vec<TimeNs>> = FxHashMap::default();
    for member in members {
        ends.entry(&member.key).or_default().push(member.end);
    }
    ends
}

/// Members of one rank, as they are looked for.
struct Candidates<'a> {
    /// Of one key those without a number, by end.
    unnumbered: FxHashMap<&'a [String; 3], Vec<(TimeNs, usize)>>,
    /// Of one key all, by end.
    all: FxHashMap<&'a [String; 3], Vec<(TimeNs, usize)>>,
    /// Those of one key and number.
    numbered: FxHashMap<(&'a [String; 3], u64), Vec<usize>>,
}

impl<'a> Candidates<'a> {
    fn of(own: &'a [Member]) -> Self {
        let mut found =
            Self { unnumbered: FxHashMap::default(), all: FxHashMap::default(), numbered: FxHashMap::default() };
        for (index, member) in own.iter().enumerate() {
            found.all.entry(&member.key).or_default().push((member.end, index));
            match member.sequence {
                0 => found.unnumbered.entry(&member.key).or_default().push((member.end, index)),
                sequence => found.numbered.entry((&member.key, sequence)).or_default().push(index),
            }
        }
        let lists = found.all.values_mut().chain(found.unnumbered.values_mut());
        lists.for_each(|list| list.sort_unstable());
        found
    }

    /// Those that `member` of another rank may belong to, and how far their ends lie apart; -1 for one of the same number.
    fn of_member(&self, own: &[Member], member: &Member, mut found: impl FnMut(i64, usize)) {
        if member.sequence != 0 {
            let same = self.numbered.get(&(&member.key, member.sequence));
            same.into_iter().flatten().for_each(|&other| found(-1, other));
        }
        let ends = if member.sequence == 0 { &self.all } else { &self.unnumbered };
        let Some(ends) = ends.get(&member.key) else { return };
        let near = |dur: DurNs| SAME_END.max(dur.scale(SAME_END_SHARE));
        let (from, to) = (member.end - near(member.dur), member.end + near(member.dur));
        let first = ends.partition_point(|&(end, _)| end < from);
        for &(end, other) in ends[first..].iter().take_while(|&&(end, _)| end <= to) {
            let distance = end.since(member.end).abs();
            if distance <= near(own[other].dur) {
                found(distance.0, other);
            }
        }
    }
}

/// What is paired.
#[derive(Default)]
struct Taken {
    groups: FxHashSet<usize>,
    own: FxHashSet<usize>,
    /// By rank and stream of the one and stream of the other: position of the one to that of the other.
    streams: FxHashMap<(usize, u32, u32), BTreeMap<u32, u32>>,
}

impl Taken {
    /// Pairs the two if nothing stands against it.
    fn take(&mut self, (member, a): (&Member, usize), (other, b): (&Member, usize)) -> bool {
        if self.groups.contains(&a) || self.own.contains(&b) {
            return false;
        }
        let pairs = self.streams.entry((member.rank, member.stream, other.stream)).or_default();
        let before = pairs.range(..member.activity).next_back().is_some_and(|(_, &at)| at > other.activity);
        let behind = pairs.range(member.activity..).next().is_some_and(|(_, &at)| at < other.activity);
        if before || behind {
            return false;
        }
        pairs.insert(member.activity, other.activity);
        self.groups.insert(a) && self.own.insert(b)
    }
}
