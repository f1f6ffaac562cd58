//! Failures in between: attempts that do their work, or half of it, and then run out of memory.

use toma::classify::OutOfMemory;

/// Which attempts fail: one bit each, the lowest first; all later ones succeed.
#[derive(Debug)]
pub(crate) struct Flaky {
    bits: u32,
    failures: usize,
    /// What the succeeding attempts covered so far.
    covered: usize,
}

impl Flaky {
    pub(crate) fn new(bits: u32) -> Self {
        Self { bits, failures: 0, covered: 0 }
    }

    /// The end of one attempt.
    pub(crate) fn end(&mut self, start: usize, end: usize) -> Result<(), OutOfMemory> {
        assert_eq!(start, self.covered, "each item once and in order");
        let fails = self.bits & 1 == 1 && end - start > 1;
        self.bits >>= 1;
        if fails {
            self.failures += 1;
            return Err(OutOfMemory::new(None));
        }
        self.covered = end;
        Ok(())
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// Where the items begin that no attempt has done.
    pub(crate) fn covered(&self) -> usize {
        self.covered
    }
}
