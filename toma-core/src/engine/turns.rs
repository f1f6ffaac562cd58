//! When a call asks to be alone before it has failed among others.

/// The most pieces in a row that a call takes turns for.
const MOST: u32 = 64;

/// Pieces for which a call takes turns with others.
///
/// Where calls do not fit together each piece would fail among others, to succeed alone. But whether
/// they still do not fit shows only among others; so the call goes back there, later each time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    left: u32,
    most: u32,
}

impl Turns {
    /// Whether the coming piece is one of them.
    pub(crate) fn are_left(self) -> bool {
        self.left > 0
    }

    /// A piece of them is done.
    pub(crate) fn taken(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// A piece failed among others and succeeded alone.
    pub(crate) fn failed_among_others(&mut self) {
        self.most = (self.most * 2).clamp(1, MOST);
        self.left = self.most;
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    /// Pieces done alone between two failures among others.
    fn taken(turns: &mut Turns) -> usize {
        turns.failed_among_others();
        let mut taken = 0;
        while turns.are_left() {
            turns.taken();
            taken += 1;
        }
        taken
    }

    #[test]
    fn failures_among_others_become_rare() {
        let mut turns = Turns::default();
        assert!(!turns.are_left());
        let series: Vec<_> = (0..9).map(|_| taken(&mut turns)).collect();
        assert_eq!(series, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
