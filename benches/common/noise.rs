//! Made-up numbers, the same in every run.

/// Numbers without a pattern (SplitMix64).
pub struct Noise(pub u64);

impl Noise {
    /// A number from 0 to `limit` − 1.
    pub fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit) as i64
    }
}
