//! The few values that mostly stand behind a key.

use crate::trace::json::pattern::Pattern;

/// Longest value that is remembered.
const LONGEST: usize = 32;
/// Values that are looked at; what is frequent has shown by then.
const LOOKED_AT: u32 = 4096;
/// Values that are told apart, and the part of all that a frequent one makes up at least.
const APART: usize = 8;
/// How often a value is seen from one time that it counts as frequent to the next.
const OFTEN: u32 = 32;

/// What stood behind a key how often.
#[derive(Clone, Debug, Default)]
pub(super) struct FrequentValues {
    seen: u32,
    values: Vec<(Pattern, u32)>,
}

impl FrequentValues {
    /// Notes a value.
    ///
    /// # Returns
    /// Whether it was seen so often that it may be expected.
    #[inline]
    pub(super) fn settles(&mut self, value: &[u8]) -> bool {
        self.seen < LOOKED_AT && self.note(value)
    }

    fn note(&mut self, value: &[u8]) -> bool {
        self.seen += 1;
        if let Some((_, count)) = self.values.iter_mut().find(|(known, _)| known.text() == value) {
            *count += 1;
            return *count % OFTEN == 0 && *count as usize * APART >= self.seen as usize;
        }
        if self.values.len() == APART
            && let Some(rarest) = (0..APART).min_by_key(|&at| self.values[at].1)
        {
            self.values.swap_remove(rarest);
        }
        if value.len() <= LONGEST {
            self.values.push((Pattern::of(value), 1));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a value settles when these follow each other.
    fn settled<'a>(values: impl IntoIterator<Item = &'a str>) -> usize {
        let mut frequent = FrequentValues::default();
        values.into_iter().filter(|value| frequent.settles(value.as_bytes())).count()
    }

    #[test]
    fn values_settle_that_come_often_and_no_others() {
        assert_eq!(settled(["7"; OFTEN as usize - 1]), 0);
        assert_eq!(settled(["7"; OFTEN as usize]), 1);
        assert_eq!(settled(["7", "8", "9"].into_iter().cycle().take(6 * OFTEN as usize)), 6);
        assert_eq!(settled([r#""a text of more than thirty-two bytes""#; 1_000]), 0);
        let numbers: Vec<String> = (0..1_000).map(|number| (number / 10).to_string()).collect();
        assert_eq!(settled(numbers.iter().map(String::as_str)), 0);
        let rare = (0..1_000).map(|number| if number % 10 == 0 { "seven" } else { numbers[number].as_str() });
        assert_eq!(settled(rare), 0);
    }
}
