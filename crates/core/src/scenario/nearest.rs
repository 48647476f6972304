//! The known word nearest to a mistyped one.

pub(super) use strsim::levenshtein as distance;

/// Longer texts are no mistyped word, and would take long to compare.
const LONGEST: usize = 100;

/// The one of `known` with the fewest insertions, deletions and changes from `typed`; letters of any case.
/// A word that begins with `typed` comes first. `None` when nothing is near: more than half of the word would have to change.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > LONGEST {
        return None;
    }
    let typed = typed.to_lowercase();
    let begins = |word: &str| !typed.is_empty() && word.to_lowercase().starts_with(typed.as_str());
    let ranked = known.into_iter().map(|word| (begins(word), distance(&typed, &word.to_lowercase()), word));
    let (starts, changes, word) = ranked.min_by_key(|&(starts, changes, _)| (!starts, changes))?;
    (starts || 2 * changes <= word.chars().count().max(2)).then_some(word)
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
