//! Aligning two sequences: the longest common subsequence, found cheaply where the sequences are alike.

/// Most insertions and deletions the exact search follows; memory grows with its square (16 MiB here).
const MOST_EDITS: usize = 2048;
/// How far ahead the inexact search looks for the next common element.
const LOOK_AHEAD: usize = 64;

/// Pairs of equal elements `(index in a, index in b)`, both rising.
///
/// # Complexity
/// O((n + m) d) for d insertions and deletions, after E. W. Myers, "An O(ND) Difference Algorithm and Its Variations"
/// (1986). Beyond [`MOST_EDITS`] a greedy search with a look-ahead takes over, which may miss pairs.
pub fn align<T: PartialEq>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    shortest_edit(a, b).unwrap_or_else(|| greedy(a, b))
}

/// The furthest places reached on each diagonal after each number of edits, followed back.
fn shortest_edit<T: PartialEq>(a: &[T], b: &[T]) -> Option<Vec<(usize, usize)>> {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let mut rounds: Vec<Vec<isize>> = Vec::new();
    for edits in 0..=(n + m).min(MOST_EDITS as isize) {
        let mut reached = vec![0; 2 * edits as usize + 1];
        for diagonal in (-edits..=edits).step_by(2) {
            let mut x = first_on(rounds.last(), edits, diagonal);
            while x < n && x - diagonal < m && a[x as usize] == b[(x - diagonal) as usize] {
                x += 1;
            }
            reached[(diagonal + edits) as usize] = x;
            if x >= n && x - diagonal >= m {
                rounds.push(reached);
                return Some(follow_back(&rounds, n, diagonal));
            }
        }
        rounds.push(reached);
    }
    None
}

/// Where round `edits` enters `diagonal`, from the better of its two neighbours in the round before.
fn first_on(before: Option<&Vec<isize>>, edits: isize, diagonal: isize) -> isize {
    let Some(before) = before else { return 0 };
    let at = |diagonal: isize| before.get(usize::try_from(diagonal + edits - 1).ok()?).copied();
    let from_below = at(diagonal - 1).map(|x| x + 1);
    from_below.max(at(diagonal + 1)).unwrap_or_default()
}

fn follow_back(rounds: &[Vec<isize>], end: isize, mut diagonal: isize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut x = end;
    for edits in (0..rounds.len()).rev() {
        let before = edits.checked_sub(1).map(|before| &rounds[before]);
        let entry = first_on(before, edits as isize, diagonal);
        while x > entry {
            x -= 1;
            pairs.push((x as usize, (x - diagonal) as usize));
        }
        let Some(before) = before else { break };
        let at = |diagonal: isize| before.get(usize::try_from(diagonal + edits as isize - 1).ok()?).copied();
        if at(diagonal - 1).is_some_and(|x| x + 1 == entry) && at(diagonal - 1).map(|x| x + 1) >= at(diagonal + 1) {
            x = entry - 1;
            diagonal -= 1;
        } else {
            diagonal += 1;
        }
    }
    pairs.reverse();
    pairs
}

fn greedy<T: PartialEq>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    let (mut pairs, mut x, mut y) = (Vec::new(), 0, 0);
    while x < a.len() && y < b.len() {
        let ahead = (0..2 * LOOK_AHEAD).find_map(|sum| {
            let skip = |dx: usize| (a.get(x + dx)? == b.get(y + sum - dx)?).then_some((x + dx, y + sum - dx));
            (0..=sum).find_map(skip)
        });
        if let Some((next_x, next_y)) = ahead {
            pairs.push((next_x, next_y));
            (x, y) = (next_x + 1, next_y + 1);
        } else {
            (x, y) = (x + LOOK_AHEAD, y + LOOK_AHEAD);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Length of the longest common subsequence, by the textbook table.
    fn longest(a: &[u8], b: &[u8]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (at, y) in b.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if x == y { diagonal + 1 } else { above.max(row[at]) };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    fn assert_common(pairs: &[(usize, usize)], a: &[u8], b: &[u8]) {
        assert!(pairs.iter().all(|&(x, y)| a[x] == b[y]));
        assert!(pairs.windows(2).all(|p| p[0].0 < p[1].0 && p[0].1 < p[1].1));
    }

    proptest! {
        #[test]
        fn the_common_subsequence_is_the_longest(
            a in prop::collection::vec(0u8..5, 0..40),
            b in prop::collection::vec(0u8..5, 0..40),
        ) {
            let pairs = align(&a, &b);
            assert_common(&pairs, &a, &b);
            prop_assert_eq!(pairs.len(), longest(&a, &b));
        }

        #[test]
        fn the_greedy_search_gives_a_common_subsequence(
            a in prop::collection::vec(0u8..5, 0..60),
            b in prop::collection::vec(0u8..5, 0..60),
        ) {
            assert_common(&greedy(&a, &b), &a, &b);
        }
    }
}
