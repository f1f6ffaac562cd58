//! When a call asks to be alone before it has failed among others, and when it does not ask after it has.

use std::time::{Duration, Instant};

/// The most pieces in a row for which it stays as it is.
const MOST: u32 = 64;

/// So much of the time since the first wait in vain may go into such waits, and one wait more.
const SHARE_IN_VAIN: u32 = 10;

/// Pieces for which a call takes turns with others.
///
/// Where calls do not fit together each piece would fail among others, to succeed alone. But whether
/// they still do not fit shows only among others; so the call goes back there, later each time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns(Spell);

impl Turns {
    /// Whether the coming piece is one of them.
    pub(crate) fn are_left(self) -> bool {
        self.0.lasts()
    }

    /// A piece of them is done.
    pub(crate) fn taken(&mut self) {
        self.0.piece_done();
    }

    /// A piece failed among others and succeeded alone.
    pub(crate) fn failed_among_others(&mut self) {
        self.0.begin();
    }
}

/// Whether a call waits for others, after it has waited in vain.
///
/// Those that were in its way may stay for long, and then each wait would be lost. But they may have
/// gone. So it waits again, after more pieces each time, because each wait in vain costs an attempt, too;
/// and not before the time that was lost is a small share of what has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    lost: Lost,
    rest: Spell,
}

impl Patience {
    /// Whether the call may wait; the clock is read only where one wait was in vain.
    pub(crate) fn is_left(self, now: impl FnOnce() -> Instant) -> bool {
        !self.rest.lasts() && self.lost.is_little(now)
    }

    /// A wait of so long, which began at `since`, was in vain.
    pub(crate) fn waited_in_vain(&mut self, since: Instant, long: Duration) {
        self.lost.add(since, long);
        self.rest.begin();
    }

    /// A piece is done.
    pub(crate) fn piece_done(&mut self) {
        self.rest.piece_done();
    }
}

/// Time that was lost to waits in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    time: Duration,
    since: Option<Instant>,
    /// The last stretch of it: waits of several threads at the same time count once.
    last: Option<(Instant, Instant)>,
}

impl Lost {
    /// Whether it is a small share of what has passed; the clock is read only where anything was lost.
    pub(crate) fn is_little(self, now: impl FnOnce() -> Instant) -> bool {
        let enough =
            |since| now().saturating_duration_since(since) >= self.time.saturating_mul(SHARE_IN_VAIN);
        self.since.is_none_or(enough)
    }

    /// A wait of so long, which began at `begin`, was in vain.
    pub(crate) fn add(&mut self, begin: Instant, long: Duration) {
        let end = begin.checked_add(long).unwrap_or(begin);
        let overlaps = self.last.filter(|&(from, to)| begin <= to && from <= end);
        let (from, to) = overlaps.unwrap_or((begin, begin));
        let last = (from.min(begin), to.max(end));
        self.time = self.time.saturating_add((last.1 - last.0).saturating_sub(to - from));
        (self.since, self.last) = (Some(self.since.map_or(begin, |since| since.min(begin))), Some(last));
    }
}

/// A number of pieces for which something is so, twice as many each time.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    left: u32,
    most: u32,
}

impl Spell {
    fn begin(&mut self) {
        self.most = (self.most * 2).clamp(1, MOST);
        self.left = self.most;
    }

    fn lasts(self) -> bool {
        self.left > 0
    }

    fn piece_done(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// With pieces of this length, each of which would wait for so long in vain.
    fn share_lost(piece: Duration, wait: Duration) -> f64 {
        let begin = Instant::now();
        let (mut patience, mut now, mut lost) = (Patience::default(), begin, Duration::ZERO);
        for _ in 0..100_000 {
            if patience.is_left(|| now) {
                patience.waited_in_vain(now, wait);
                now += wait;
                lost += wait;
            }
            assert!(!patience.is_left(|| now), "not twice for one piece");
            now += piece;
            patience.piece_done();
            // But for the last one, which may have been just now.
            let most = (now - begin).as_secs_f64() / 10.0 + wait.as_secs_f64();
            assert!(lost.as_secs_f64() <= most + 1e-6, "{lost:?} of {:?}", now - begin);
        }
        lost.as_secs_f64() / (now - begin).as_secs_f64()
    }

    #[test]
    fn little_is_lost_to_waits_in_vain_however_long_they_and_the_pieces_are() {
        for piece in [1, 1_000, 1_000_000] {
            for wait in [0, 1, 1_000, 10_000_000] {
                let [piece, wait] = [piece, wait].map(Duration::from_micros);
                share_lost(piece, wait);
            }
        }
        // Long pieces: by their number.
        assert!(share_lost(Duration::from_secs(10), Duration::from_secs(10)) < 0.02);
        // Short ones: by the time. But it goes on waiting.
        let share = share_lost(Duration::from_millis(10), Duration::from_secs(1));
        assert!((0.08..0.11).contains(&share), "{share}");
    }

    #[test]
    fn waits_at_the_same_time_are_lost_once() {
        let second = Duration::from_secs(1);
        let (begin, mut lost) = (Instant::now(), Lost::default());
        // Those that end later are told of later, wherever they begin.
        for (from, long) in [(4, 2), (5, 2), (0, 10), (20, 1)] {
            lost.add(begin + from * second, long * second);
        }
        assert!(!lost.is_little(|| begin + 109 * second), "{lost:?}");
        assert!(lost.is_little(|| begin + 110 * second), "{lost:?}");
    }

    #[test]
    fn the_clock_is_not_read_before_a_wait_was_in_vain() {
        assert!(Patience::default().is_left(|| unreachable!("nothing was lost")));
    }
}
