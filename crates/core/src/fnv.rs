//! The 64-bit hash FNV-1a (Fowler, Noll and Vo, 1991): the same on every machine and in every version, so that files may be named by it.

const PRIME: u64 = 0x0100_0000_01b3;

/// A hash of the bytes that were added so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Adds bytes.
    ///
    /// # Complexity
    /// O(bytes).
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    }

    /// Adds a number at once, not byte by byte as the original does: an eighth of the time for the times of a whole trace. Its
    /// high bits are brought down, where the next product spreads them.
    pub fn add_i64(&mut self, number: i64) {
        let product = (self.0 ^ number as u64).wrapping_mul(PRIME);
        self.0 = product ^ (product >> 32);
    }

    /// The hash.
    pub fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_are_met() {
        let of = |text: &str| {
            let mut hash = Fnv1a::default();
            hash.add(text.as_bytes());
            hash.finish()
        };
        assert_eq!(
            (of(""), of("a"), of("foobar")),
            (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8)
        );
    }

    #[test]
    fn every_bit_of_a_number_counts_and_so_does_the_order() {
        let of = |numbers: [i64; 2]| {
            let mut hash = Fnv1a::default();
            for number in numbers {
                hash.add_i64(number);
            }
            hash.finish()
        };
        let all: std::collections::BTreeSet<u64> = (0..64).map(|bit| of([1 << bit, 0])).collect();
        assert_eq!(all.len(), 64);
        assert_ne!(of([1, 2]), of([2, 1]));
        assert_eq!(of([1, -2]), of([1, -2]));
    }
}
