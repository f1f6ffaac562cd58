//! Number of pieces for which a call queues for exclusive turns, once it needed one.
//!
//! # Why
//!
//! Without exclusive turns each piece would fail under contention. Only an attempt next to the others shows that they
//! have ended.

/// The most pieces in a row.
const MOST: u32 = 64;

/// Pieces for which a call queues for an exclusive turn: 1, 2, 4 .. 64, twice as many each time.
///
/// If calls do not fit together, each piece would fail under contention first. But only an attempt next to the others
/// shows that they fit again, so the call goes back to shared turns, later each time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    left: u32,
    most: u32,
}

impl Backoff {
    /// True if the next piece queues for an exclusive turn.
    pub(crate) fn lasts(self) -> bool {
        self.left > 0
    }

    /// Counts a piece that is done.
    pub(crate) fn piece_done(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Begins a longer series, because a piece failed under contention and succeeded with the device to itself.
    pub(crate) fn begin(&mut self) {
        self.most = (self.most * 2).clamp(1, MOST);
        self.left = self.most;
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;

    /// Pieces done in exclusive turns between two failures under contention.
    fn spell(backoff: &mut Backoff) -> usize {
        backoff.begin();
        let mut pieces = 0;
        while backoff.lasts() {
            backoff.piece_done();
            pieces += 1;
        }
        pieces
    }

    #[test]
    fn failures_under_contention_become_rare() {
        let mut backoff = Backoff::default();
        assert!(!backoff.lasts());
        let spells: Vec<_> = (0..9).map(|_| spell(&mut backoff)).collect();
        assert_eq!(spells, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
