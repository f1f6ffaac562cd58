//! Random numbers that never change between versions, so that a recorded seed stays valid.

use super::Verdict;

/// `SplitMix64`, from Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
/// (OOPSLA 2014): small, well distributed from any seed, and fixed by its publication, where a
/// library may change its numbers with any version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generator {
    state: u64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a separate generator for each `name` and `count`.
    pub(super) fn derived(seed: u64, name: &str, count: u64) -> Self {
        // The offset and prime are those of 64-bit FNV-1a.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        let seed = Self::new(seed ^ name).next();
        Self::new(Self::new(seed ^ count).next())
    }

    /// Returns out of memory with `probability`, before or after the body with equal chances.
    pub(super) fn verdict(&mut self, probability: f64) -> Verdict {
        if self.fraction() >= probability {
            return Verdict::PASS;
        }
        if self.fraction() < 0.5 { Verdict::OUT_OF_MEMORY } else { Verdict::OUT_OF_MEMORY.after_body() }
    }

    /// Returns a number that is at least 0 and less than 1.
    fn fraction(&mut self) -> f64 {
        // 32 bits are more than any probability typed by hand needs, and exact as a float.
        f64::from((self.next() >> 32) as u32) / 4_294_967_296.0
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
