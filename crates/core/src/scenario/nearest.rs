//! The known word nearest to a mistyped one.

/// The one of `known` with the fewest insertions, deletions and changes from `typed`; letters of any case.
/// A word that begins with `typed` comes first. `None` when nothing is near: more than half of the word would have to change.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let begins = |word: &str| !typed.is_empty() && word.to_lowercase().starts_with(typed.as_str());
    let ranked = known.into_iter().map(|word| (begins(word), distance(&typed, &word.to_lowercase()), word));
    let (starts, changes, word) = ranked.min_by_key(|&(starts, changes, _)| (!starts, changes))?;
    (starts || 2 * changes <= word.chars().count().max(2)).then_some(word)
}

/// How many letters have to be put in, taken out or changed.
pub(super) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_word_and_nonsense_finds_none() {
        let known = ["scale", "remove", "swap-gpu", "resize-batch"];
        assert_eq!(nearest("scle", known), Some("scale"));
        assert_eq!(nearest("resize_batch", known), Some("resize-batch"));
        assert_eq!(nearest("swap", known), Some("swap-gpu"));
        assert_eq!(nearest("xyzzy", known), None);
    }
}
