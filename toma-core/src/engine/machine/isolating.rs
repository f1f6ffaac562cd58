//! Finding the item that is too heavy alone, and forgetting what its failures seemed to say.
//!
//! A piece that fails may be too large, or hold one item that fits nowhere. Nobody knows which until
//! its items are done, so each failure keeps what was known before it until then. When an item of it
//! fails alone, the item was to blame, and that is restored.

use super::{Learning, Machine};
use crate::policy::{Bounds, Measurements};

/// Failures that one item may be to blame for.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Those of pieces that are not all done, the oldest first. None is of a piece that has been worked
    /// off since the one before it: such a failure was real and, being of a part of that piece, says more.
    open: Vec<Doubt>,
    /// How far to go once anything has succeeded, after an item was left out: only that shows that
    /// the item was to blame, and not the memory that is gone for all.
    resumes: Option<Reach>,
}

/// How far a piece may go.
#[derive(Clone, Copy, Debug)]
struct Reach {
    step: usize,
    /// Items.
    most: usize,
}

/// A failure, and what was known before it.
#[derive(Debug)]
struct Doubt {
    /// Where the piece ends.
    end: usize,
    before: Before,
}

#[derive(Debug)]
struct Before {
    reach: Reach,
    bounds: Bounds,
    measurements: Option<Measurements>,
    learning: Learning,
    settled_at: Option<usize>,
}

impl Doubts {
    /// All items before `position` are done: a failure of nothing but those was real.
    fn work_off(&mut self, position: usize) {
        if let Some(last) = self.open.iter().rposition(|doubt| doubt.end <= position) {
            self.open.drain(..=last);
        }
    }
}

impl Machine {
    /// The coming piece is about to be known to fail.
    #[inline(never)]
    pub(super) fn doubt(&mut self) {
        let (end, step) = (self.piece.cut.end, self.step);
        let (bounds, measurements, learning) = (self.bounds, self.measurements, self.learning);
        let Some(packing) = &mut self.packing else { return };
        let reach = packing.doubts.resumes.take().unwrap_or(Reach { step, most: packing.most });
        let before = Before { reach, bounds, measurements, learning, settled_at: packing.settled_at };
        packing.doubts.open.push(Doubt { end, before });
    }

    /// The item that has failed alone was to blame for all failures in doubt, because each was of a piece
    /// that held it: what they seemed to say is forgotten.
    ///
    /// What was measured of attempts that succeeded stays, and so does the time.
    pub(super) fn acquit(&mut self) {
        let Some(packing) = &mut self.packing else { return };
        let Some(first) = packing.doubts.open.drain(..).next() else { return };
        let Before { reach, bounds, measurements, learning, settled_at } = first.before;
        packing.doubts.resumes = Some(reach);
        packing.settled_at = settled_at;
        (self.bounds, self.learning) = (bounds, learning);
        self.measurements = self.measurements.zip(measurements).map(|(now, before)| Measurements {
            time: now.time,
            samples: now.samples,
            failure_age: before.failure_age.saturating_add(now.time.saturating_sub(before.time)),
            ..before
        });
    }

    /// A piece has succeeded. Returns the step to go back to, where an item was left out before.
    pub(super) fn resume(&mut self) -> Option<usize> {
        let packing = self.packing.as_mut()?;
        packing.doubts.work_off(self.position);
        let Reach { step, most } = packing.doubts.resumes.take()?;
        packing.most = most;
        Some(step)
    }

    /// A larger step that the policy wants, as far as it helps to find out what was to blame.
    ///
    /// What is left of a piece that failed would fail again as a whole where one item is; so a step grows
    /// to half of it at most.
    pub(super) fn short_of_doubts(&self, next: usize) -> usize {
        let Some(packing) = &self.packing else { return next };
        let Some(&Doubt { end, .. }) = packing.doubts.open.last() else { return next };
        let left = packing.cost_of(self.position..end);
        next.min(self.sizes.fit(left / 2).max(self.step))
    }
}
