//! Numbers that are the same in every run.

/// Numbers that are the same in every run (`splitmix64`).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % u64::try_from(end).unwrap()).unwrap()
    }
}
