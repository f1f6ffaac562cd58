//! Corrections of a prediction, learned from attempts.
//!
//! # Why
//!
//! The bytes that a prediction missed are kept with it, and are no sample of the policy, because samples hold
//! measurements. So a correction serves calls about which the size cache knows nothing, under any policy.

use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of wrong predictions after which sizes are measured.
const TRUSTED: u8 = 2;

/// A size that failed is no longer predicted to fit, by one part in so many of its predicted bytes.
const MARGIN: u64 = 16;

/// A piece that takes fewer bytes than expected by one part in so many belongs to another program.
const FAR_LESS: u64 = 4;

/// The size that worked instead is predicted to fit with one part in so many to spare, for the head-room.
const SPARE: u64 = 64;

/// Corrects a prediction by the bytes that attempts were measured to take beyond it, and by sizes that were predicted
/// to fit and failed.
#[derive(Debug, Default)]
pub(crate) struct Correction(Mutex<Learned>);

#[derive(Clone, Copy, Debug)]
struct Learned {
    /// The part of the free bytes into which sizes have to fit.
    part: f64,
    /// Bytes that a first piece took beyond the prediction; less than 0 if it took fewer.
    beyond_bytes: i64,
    /// True once a first piece has succeeded.
    is_proven: bool,
    /// Calls in which a size failed that was predicted to fit.
    wrong: u8,
    /// True if a size that was predicted to fit has failed, or a piece took far less than one before.
    doubted: bool,
    renewed: bool,
}

impl Default for Learned {
    fn default() -> Self {
        Self { part: 1.0, beyond_bytes: 0, is_proven: false, wrong: 0, doubted: false, renewed: false }
    }
}

impl Correction {
    /// Bytes into which the predicted bytes have to fit; `None` once the prediction has been wrong too often.
    pub(crate) fn usable(&self, free_bytes: u64) -> Option<u64> {
        let Learned { part, beyond_bytes, wrong, .. } = *self.learned();
        let usable = free_bytes.saturating_add_signed(beyond_bytes.saturating_neg());
        (wrong < TRUSTED).then(|| scaled(usable, part))
    }

    /// Learns from a first piece that has succeeded. It was predicted to take `predicted_bytes`, and took `peak_bytes`
    /// if measured.
    ///
    /// More bytes count at once, fewer by half, because pieces of one size differ. Far fewer than before belong to
    /// another program, unless a dry run has just confirmed the prediction.
    pub(crate) fn took(&self, predicted_bytes: u64, peak_bytes: Option<u64>) {
        let mut learned = self.learned();
        let was_proven = std::mem::replace(&mut learned.is_proven, true);
        let Some(peak_bytes) = peak_bytes else { return };
        // A workspace that the first piece has allocated is there for the next.
        let before = predicted_bytes.saturating_add_signed(learned.beyond_bytes.min(0));
        if was_proven && !learned.renewed && peak_bytes < before - before / FAR_LESS {
            learned.doubted = true;
            return;
        }
        let beyond = peak_bytes.wrapping_sub(predicted_bytes).cast_signed();
        learned.beyond_bytes = beyond.max(i64::midpoint(learned.beyond_bytes, beyond));
    }

    /// Records that a size failed which was predicted to need `predicted_bytes`, and that one succeeded then which was
    /// predicted to need `works`. Shrinks the usable part of the free bytes to that. Returns true at the failure after
    /// which the prediction is not used any more.
    pub(crate) fn failed(&self, predicted_bytes: u64, works: Option<u64>, free_bytes: u64) -> bool {
        let mut learned = self.learned();
        let less = predicted_bytes - predicted_bytes / MARGIN;
        let works = works.map_or(less, |works| works.saturating_add(works / SPARE).min(less));
        learned.part = learned.part.min(share(works, free_bytes));
        learned.wrong = learned.wrong.saturating_add(1);
        learned.wrong == TRUSTED
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.learned().is_proven
    }

    /// Records that the prediction may be of another program.
    pub(crate) fn doubt(&self) {
        self.learned().doubted = true;
    }

    /// Returns true, once, if the prediction was wrong or is doubted: then the dry run is to be made anew.
    pub(crate) fn renews(&self) -> bool {
        let mut learned = self.learned();
        (learned.wrong > 0 || learned.doubted) && !std::mem::replace(&mut learned.renewed, true)
    }

    /// Returns the correction for a renewed prediction; `compared` is how its bytes compare with those before. If they
    /// are more, `part` is no longer needed. If they differ without a failure, it is another program, and nothing is
    /// kept.
    pub(crate) fn for_renewed(&self, compared: Ordering) -> Self {
        let learned = Learned { doubted: false, ..*self.learned() };
        Self(Mutex::new(match compared {
            Ordering::Equal => learned,
            _ if learned.wrong == 0 => Learned::default(),
            Ordering::Less => learned,
            Ordering::Greater => Learned { part: 1.0, ..learned },
        }))
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is an estimate")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, which is not negative"
)]
fn scaled(bytes: u64, part: f64) -> u64 {
    if part < 1.0 { (bytes as f64 * part) as u64 } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::Correction;
    use std::cmp::Ordering;

    #[test]
    fn a_piece_that_took_more_leaves_less_and_one_that_took_less_leaves_half_of_that_more() {
        let correction = Correction::default();
        assert_eq!((correction.usable(1000), correction.is_proven()), (Some(1000), false));
        correction.took(100, Some(300));
        assert_eq!(correction.usable(1000), Some(800));
        correction.took(100, Some(100));
        assert_eq!((correction.usable(1000), correction.is_proven()), (Some(900), true));
        correction.took(100, None);
        assert_eq!(correction.usable(50), Some(0));
    }

    #[test]
    fn a_size_that_failed_does_not_fit_again_and_after_the_second_failure_nothing_is_predicted() {
        let correction = Correction::default();
        assert!(!correction.renews(), "it was not wrong");
        assert!(!correction.failed(800, None, 1000));
        assert_eq!(correction.usable(1000), Some(750));
        let half = Correction::default();
        assert!(!half.failed(800, Some(400), 1000));
        assert_eq!(half.usable(1000), Some(406), "the size that worked, and a little more");
        assert!(correction.renews() && !correction.renews());
        assert_eq!(correction.for_renewed(Ordering::Equal).usable(1000), Some(750));
        let renewed = correction.for_renewed(Ordering::Greater);
        assert_eq!(renewed.usable(1000), Some(1000));
        assert!(renewed.failed(900, Some(890), 1000) && !renewed.renews());
        assert_eq!(renewed.usable(1000), None);
    }

    #[test]
    fn far_less_than_before_is_another_programs_and_teaches_nothing() {
        let correction = Correction::default();
        correction.took(1000, Some(500));
        assert!(!correction.renews(), "the first piece shows hidden bytes");
        correction.took(1000, Some(600));
        assert!(!correction.renews());
        let usable = correction.usable(1000);
        correction.took(1000, Some(200));
        assert_eq!(correction.usable(1000), usable);
        assert!(correction.renews() && !correction.renews());
        let same = correction.for_renewed(Ordering::Equal);
        same.took(1000, Some(200));
        assert!(same.usable(1000) > usable && !same.renews(), "it takes less by itself");
        let other = correction.for_renewed(Ordering::Less);
        assert_eq!(other.usable(1000), Some(1000));
        other.doubt();
        assert!(other.renews());
    }
}
