//! Two sequences of names, aligned so that as many as possible of the same name stand beside each other in order.

/// Most cells of the table that is filled for the parts in which the sequences differ; a larger part is cut in halves
/// first, which may miss pairs across the cut.
const MOST_CELLS: usize = 1 << 25;

/// A place in either sequence or in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aligned {
    /// The same name at these places.
    Both(usize, usize),
    /// Only in the first.
    First(usize),
    /// Only in the second.
    Second(usize),
}

/// Aligns two sequences: a longest common subsequence, what is in one only between its members.
///
/// # Complexity
/// O(n + m) where they are the same but for one stretch of each; O(k·l) time and memory for stretches of k and l.
/// Stretches of more than `MOST_CELLS` cells are cut in halves until they are smaller.
pub fn align(a: &[&str], b: &[&str]) -> Vec<Aligned> {
    let mut found = Vec::with_capacity(a.len().max(b.len()));
    part(a, b, (0, 0), &mut found);
    found
}

fn part(a: &[&str], b: &[&str], (at_a, at_b): (usize, usize), found: &mut Vec<Aligned>) {
    let before = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[before..], &b[before..]);
    let after = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (inner_a, inner_b) = (&rest_a[..rest_a.len() - after], &rest_b[..rest_b.len() - after]);
    found.extend((0..before).map(|i| Aligned::Both(at_a + i, at_b + i)));
    let (from_a, from_b) = (at_a + before, at_b + before);
    if inner_a.len().saturating_mul(inner_b.len()) > MOST_CELLS {
        let (middle_a, middle_b) = (inner_a.len() / 2, inner_b.len() / 2);
        part(&inner_a[..middle_a], &inner_b[..middle_b], (from_a, from_b), found);
        part(&inner_a[middle_a..], &inner_b[middle_b..], (from_a + middle_a, from_b + middle_b), found);
    } else {
        longest(inner_a, inner_b, (from_a, from_b), found);
    }
    let (to_a, to_b) = (from_a + inner_a.len(), from_b + inner_b.len());
    found.extend((0..after).map(|i| Aligned::Both(to_a + i, to_b + i)));
}

/// The longest common subsequence by dynamic programming, from the back so that it is read off from the front.
fn longest(a: &[&str], b: &[&str], (at_a, at_b): (usize, usize), found: &mut Vec<Aligned>) {
    let width = b.len() + 1;
    let mut lengths = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = if a[i] == b[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let is_both = i < a.len() && j < b.len() && a[i] == b[j];
        if is_both {
            found.push(Aligned::Both(at_a + i, at_b + j));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            found.push(Aligned::First(at_a + i));
            i += 1;
        } else {
            found.push(Aligned::Second(at_b + j));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Aligned::{Both, First, Second};
    use super::*;

    #[test]
    fn what_is_in_one_only_stands_between_what_is_in_both() {
        let a = ["linear", "relu", "linear", "relu", "loss"];
        let b = ["linear", "relu", "norm", "linear", "gelu", "loss"];
        assert_eq!(align(&a, &b), [Both(0, 0), Both(1, 1), Second(2), Both(2, 3), First(3), Second(4), Both(4, 5)]);
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
}
