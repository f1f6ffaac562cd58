//! Scripted failures: attempts that do all or half of their work and then run out of memory.

use toma::classify::OutOfMemory;

/// One bit per attempt, the lowest first: 1 fails the attempt unless it has one item. All later attempts succeed.
#[derive(Debug)]
pub(crate) struct Flaky {
    bits: u32,
    failures: usize,
    /// Number of items that the succeeding attempts have covered so far.
    covered: usize,
}

impl Flaky {
    pub(crate) fn new(bits: u32) -> Self {
        Self { bits, failures: 0, covered: 0 }
    }

    /// Ends an attempt: with a failure if its bit is set.
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

    /// Returns the position of the first item that no attempt has done.
    pub(crate) fn covered(&self) -> usize {
        self.covered
    }
}
