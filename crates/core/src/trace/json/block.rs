//! Thirty-two bytes of text at a time: a bit for each byte of a kind.

use wide::u8x16;

/// Bytes of a block.
pub(super) const BLOCK: usize = 32;

/// A block of text; the lowest bit of every answer is its first byte's.
#[derive(Clone, Copy)]
pub(super) struct Block([u8x16; 2]);

impl Block {
    /// The block at `text[at..]`; `None` where the text ends within it.
    #[inline]
    pub(super) fn at(text: &[u8], at: usize) -> Option<Self> {
        let bytes = text.get(at..)?.first_chunk::<BLOCK>()?;
        let ([low, high], _) = bytes.as_chunks() else { return None };
        Some(Self([u8x16::new(*low), u8x16::new(*high)]))
    }

    #[inline]
    fn bits(self, is_one: impl Fn(u8x16) -> u8x16) -> u32 {
        is_one(self.0[0]).to_bitmask() | is_one(self.0[1]).to_bitmask() << (BLOCK / 2)
    }

    /// Where a `byte` is.
    #[inline]
    pub(super) fn equal(self, byte: u8) -> u32 {
        self.bits(|half| half.simd_eq(u8x16::splat(byte)))
    }

    /// Where brackets and braces open.
    #[inline]
    pub(super) fn opens(self) -> u32 {
        self.bits(|half| (half | u8x16::splat(0x20)).simd_eq(u8x16::splat(b'{')))
    }

    /// Where brackets and braces close.
    #[inline]
    pub(super) fn closes(self) -> u32 {
        self.bits(|half| (half | u8x16::splat(0x20)).simd_eq(u8x16::splat(b'}')))
    }

    /// Where control characters are.
    #[inline]
    pub(super) fn controls(self) -> u32 {
        self.bits(is_control)
    }

    /// Where something other than a plain character of a string is: a quote, a backslash or a control character.
    #[inline]
    pub(super) fn specials(self) -> u32 {
        self.bits(|half| half.simd_eq(u8x16::splat(b'"')) | half.simd_eq(u8x16::splat(b'\\')) | is_control(half))
    }
}

#[inline]
fn is_control(half: u8x16) -> u8x16 {
    half.min(u8x16::splat(0x1f)).simd_eq(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_of_its_kinds_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for place in 0..BLOCK {
                let mut text = [b'a'; BLOCK + 1];
                text[1 + place] = byte;
                let block = Block::at(&text, 1).unwrap();
                let bit = |is_one: bool| u32::from(is_one) << place;
                assert_eq!(block.equal(b'\\'), bit(byte == b'\\'), "{byte}");
                assert_eq!(block.opens(), bit(matches!(byte, b'[' | b'{')), "{byte}");
                assert_eq!(block.closes(), bit(matches!(byte, b']' | b'}')), "{byte}");
                assert_eq!(block.controls(), bit(byte < 0x20), "{byte}");
                assert_eq!(block.specials(), bit(matches!(byte, b'"' | b'\\' | 0..0x20)), "{byte}");
            }
        }
        assert!(Block::at(&[0; BLOCK], 1).is_none() && Block::at(&[], 3).is_none());
    }
}
