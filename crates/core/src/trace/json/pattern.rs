//! A text that others are compared with, sixteen bytes at a time.

/// Bytes of a block.
const BLOCK: usize = 16;

/// A text that others are compared with.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The text, filled up to whole blocks.
    blocks: Box<[[u8; BLOCK]]>,
    length: usize,
    /// The bits of the last block that count.
    last: u128,
}

impl Pattern {
    /// The pattern of `text`.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut blocks = vec![[0; BLOCK]; text.len().div_ceil(BLOCK)].into_boxed_slice();
        blocks.as_flattened_mut()[..text.len()].copy_from_slice(text);
        let over = blocks.len() * BLOCK - text.len();
        Self { blocks, length: text.len(), last: u128::MAX >> (8 * over) }
    }

    /// How long it is.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The text itself.
    pub(crate) fn text(&self) -> &[u8] {
        &self.blocks.as_flattened()[..self.length]
    }

    /// Whether `text` begins with it.
    #[inline]
    pub(crate) fn begins(&self, text: &[u8]) -> bool {
        let Some(whole) = text.get(..self.blocks.len() * BLOCK) else {
            return text.starts_with(self.text());
        };
        let mut counted = self.last;
        for (own, other) in self.blocks.iter().zip(whole.as_chunks::<BLOCK>().0).rev() {
            if (u128::from_le_bytes(*own) ^ u128::from_le_bytes(*other)) & counted != 0 {
                return false;
            }
            counted = u128::MAX;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_begins_what_it_begins_byte_by_byte() {
        let text: Vec<u8> = (b' '..=b'~').collect();
        for length in 0..50 {
            let pattern = Pattern::of(&text[..length]);
            for end in 0..text.len() {
                assert_eq!(pattern.begins(&text[..end]), end >= length, "{length} of {end}");
            }
            for wrong in 0..length {
                let mut other = text.clone();
                other[wrong] = b'~';
                assert!(!pattern.begins(&other), "{length}, {wrong}");
            }
        }
    }
}
