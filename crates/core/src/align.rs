//! Aligning two sequences: a longest common subsequence, and what is in one of them only. Knows no trace and no graph.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// A place in either sequence or in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aligned {
    /// The same element at these places.
    Both(usize, usize),
    /// Only in the first.
    First(usize),
    /// Only in the second.
    Second(usize),
}

/// Aligns two sequences: a longest common subsequence, with what is in one only between its members.
///
/// # Complexity
/// O(n + m) where they are the same but for one stretch of each; O(k·l / 64) time and O(k + l · distinct elements / 64)
/// memory for stretches of k and l.
///
/// # Reference
/// D. S. Hirschberg, 1975 (linear space by halving); H. Hyyrö, 2004 (64 cells of the table in a word).
pub fn align<T: Copy + Eq + Hash>(a: &[T], b: &[T]) -> Vec<Aligned> {
    let mut numbers: FxHashMap<T, u32> = FxHashMap::default();
    let mut numbered = |elements: &[T]| -> Vec<u32> {
        let number = |&element: &T| {
            let next = numbers.len() as u32;
            *numbers.entry(element).or_insert(next)
        };
        elements.iter().map(number).collect()
    };
    let (a, b) = (numbered(a), numbered(b));
    let mut found = Vec::with_capacity(a.len().max(b.len()));
    part(&a, &b, (0, 0), &mut found);
    found
}

/// Pairs of equal elements `(index in a, index in b)` of [`align`], both rising.
pub fn common_subsequence<T: Copy + Eq + Hash>(a: &[T], b: &[T]) -> impl Iterator<Item = (usize, usize)> {
    align(a, b).into_iter().filter_map(|aligned| match aligned {
        Aligned::Both(i, j) => Some((i, j)),
        Aligned::First(_) | Aligned::Second(_) => None,
    })
}

fn part(a: &[u32], b: &[u32], (at_a, at_b): (usize, usize), found: &mut Vec<Aligned>) {
    let before = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[before..], &b[before..]);
    let after = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (inner_a, inner_b) = (&rest_a[..rest_a.len() - after], &rest_b[..rest_b.len() - after]);
    found.extend((0..before).map(|i| Aligned::Both(at_a + i, at_b + i)));
    differing(inner_a, inner_b, (at_a + before, at_b + before), found);
    let (to_a, to_b) = (at_a + before + inner_a.len(), at_b + before + inner_b.len());
    found.extend((0..after).map(|i| Aligned::Both(to_a + i, to_b + i)));
}

/// Stretches that begin and end differently: the first in halves, the second where both halves together have most in common.
fn differing(a: &[u32], b: &[u32], (at_a, at_b): (usize, usize), found: &mut Vec<Aligned>) {
    match a {
        [] => found.extend((0..b.len()).map(|j| Aligned::Second(at_b + j))),
        _ if b.is_empty() => found.extend((0..a.len()).map(|i| Aligned::First(at_a + i))),
        [only] => {
            let same = b.iter().position(|other| other == only);
            let second = |j: usize| Aligned::Second(at_b + j);
            let here = same.map_or(Aligned::First(at_a), |j| Aligned::Both(at_a, at_b + j));
            let split = same.unwrap_or(0);
            found.extend((0..split).map(second).chain([here]));
            found.extend((split + usize::from(same.is_some())..b.len()).map(second));
        }
        _ => {
            let middle = a.len() / 2;
            let (first, second) = a.split_at(middle);
            let ahead = common(first.iter(), b.len(), |j| b[j]);
            let behind = common(second.iter().rev(), b.len(), |j| b[b.len() - 1 - j]);
            let together = |&cut: &usize| ahead[cut] + behind[b.len() - cut];
            let cut = (0..=b.len()).rev().max_by_key(together).unwrap_or(0);
            part(first, &b[..cut], (at_a, at_b), found);
            part(second, &b[cut..], (at_a + middle, at_b + cut), found);
        }
    }
}

/// Lengths of the longest common subsequences of `a` and every beginning of `b`, whose elements `at` gives.
fn common<'a>(a: impl Iterator<Item = &'a u32>, width: usize, at: impl Fn(usize) -> u32) -> Vec<u32> {
    let words = width.div_ceil(64);
    let mut places: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
    for j in 0..width {
        places.entry(at(j)).or_insert_with(|| vec![0; words])[j / 64] |= 1 << (j % 64);
    }
    // A zero stands where one more member of `b` makes the subsequence longer.
    let mut row = vec![u64::MAX; words];
    for places in a.filter_map(|name| places.get(name)) {
        let mut carry = false;
        for (word, &places) in row.iter_mut().zip(places) {
            let hit = *word & places;
            let (sum, over) = word.overflowing_add(hit);
            let (sum, over_by_carry) = sum.overflowing_add(u64::from(carry));
            carry = over || over_by_carry;
            *word = sum | (*word & !places);
        }
    }
    let mut lengths = Vec::with_capacity(width + 1);
    let mut length = 0;
    lengths.push(length);
    for j in 0..width {
        length += u32::from(row[j / 64] >> (j % 64) & 1 == 0);
        lengths.push(length);
    }
    lengths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Aligned::{Both, First, Second};
    use super::*;

    /// The length of the longest common subsequence, by the textbook's table.
    fn longest(a: &[&str], b: &[&str]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..a.len() {
            for j in 0..b.len() {
                table[i + 1][j + 1] = if a[i] == b[j] { table[i][j] + 1 } else { table[i][j + 1].max(table[i + 1][j]) };
            }
        }
        table[a.len()][b.len()]
    }

    #[test]
    fn what_is_in_one_only_stands_between_what_is_in_both() {
        let a = ["linear", "relu", "linear", "relu", "loss"];
        let b = ["linear", "relu", "norm", "linear", "gelu", "loss"];
        let found = align(&a, &b);
        let both: Vec<_> = found.iter().filter(|one| matches!(one, Both(..))).collect();
        assert_eq!(both, [&Both(0, 0), &Both(1, 1), &Both(2, 3), &Both(4, 5)]);
        assert_eq!(found.len(), 7);
        assert_eq!(align(&[], &["x"]), [Second(0)]);
        assert_eq!(align(&a, &a), [0, 1, 2, 3, 4].map(|i| Both(i, i)));
    }

    #[test]
    fn long_sequences_without_anything_in_common_are_aligned_too() {
        let (a, b) = (vec!["x"; 9_000], vec!["y"; 9_000]);
        let found = align(&a, &b);
        assert_eq!(found.len(), 18_000);
        let firsts: Vec<usize> =
            found.iter().filter_map(|one| if let First(i) = one { Some(*i) } else { None }).collect();
        assert_eq!(firsts, (0..9_000).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn as_much_as_possible_stands_side_by_side_and_everything_is_there_once_in_order(
            a in proptest::collection::vec(0usize..5, 0..150),
            b in proptest::collection::vec(0usize..5, 0..150),
        ) {
            const NAMES: [&str; 5] = ["linear", "relu", "norm", "add", "loss"];
            let names = |picks: &[usize]| picks.iter().map(|&pick| NAMES[pick]).collect::<Vec<_>>();
            let (a, b) = (names(&a), names(&b));
            let found = align(&a, &b);
            let (mut i, mut j, mut both) = (0, 0, 0);
            for one in &found {
                match *one {
                    Both(x, y) => {
                        prop_assert_eq!((x, y), (i, j));
                        prop_assert_eq!(a[x], b[y]);
                        (i, j, both) = (i + 1, j + 1, both + 1);
                    }
                    First(x) => {
                        prop_assert_eq!(x, i);
                        i += 1;
                    }
                    Second(y) => {
                        prop_assert_eq!(y, j);
                        j += 1;
                    }
                }
            }
            prop_assert_eq!((i, j), (a.len(), b.len()));
            prop_assert_eq!(both, longest(&a, &b));
        }
    }
}
