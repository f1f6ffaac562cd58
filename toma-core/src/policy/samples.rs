//! Times and bytes of attempts of different sizes: few enough to keep in a cache's entry.
//!
//! # Why
//!
//! Sizes are kept a third apart. With one for each power of two, a batch that bisects between two powers would have no
//! second point. Nearer sizes differ by noise more than by their size.

use std::time::Duration;

use super::figures::{bytes, number, share, whole_bytes};
use super::fit::Fit;

/// Number of sizes that are kept. When all slots are full, a new size replaces the one farthest from it.
const SLOTS: usize = 6;

/// Sizes nearer to each other than this ratio replace each other.
const NEAR: f64 = 4.0 / 3.0;

/// The time and the bytes of one attempt of a size, in items or in [cost units](crate::execute::With::by_cost).
///
/// ```
/// # extern crate toma_core as toma;
/// use std::time::Duration;
/// use toma::policy::Sample;
///
/// let mut sample = Sample::new(512);
/// sample.time = Some(Duration::from_millis(250));
/// assert_eq!(sample.rate(), Some(2048.0));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The attempt's size.
    pub size: usize,
    /// Duration of the attempt, when it was measured.
    pub time: Option<Duration>,
    /// Part of the duration that was spent on [recomputing](crate::leaner).
    pub repeated: Duration,
    /// Most bytes it had allocated at one time beyond those allocated before it, when that was measured. Never set for
    /// an attempt that recomputed, because the bytes are to show which sizes fit without.
    pub bytes: Option<u64>,
}

/// At most six [`Sample`]s, whose sizes differ by a third at least.
///
/// Nearer sizes differ by less than the noise.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::{Sample, Samples};
///
/// let samples = Samples::from_iter([Sample::new(16), Sample::new(8), Sample::new(17)]);
/// // 17 is near 16, and newer.
/// assert_eq!(samples.iter().map(|sample| sample.size).collect::<Vec<_>>(), [8, 17]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Samples {
    /// Slots of size 0 are free.
    slots: [Sample; SLOTS],
}

impl Sample {
    /// Returns a sample of this size, with its figures unknown.
    pub const fn new(size: usize) -> Self {
        Self { size, time: None, repeated: Duration::ZERO, bytes: None }
    }

    /// Returns items, or cost units, per second, when the time is known.
    pub fn rate(&self) -> Option<f64> {
        Some(number(self.size) / self.time?.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// Returns the ratio of the larger size to the smaller one; infinite for a free slot.
    fn distance(&self, size: usize) -> f64 {
        share(self.size.max(size), self.size.min(size))
    }

    fn repeats(&self) -> bool {
        !self.repeated.is_zero()
    }

    /// Returns this sample updated by a newer attempt of the same size.
    fn merged(self, new: Self) -> Self {
        if self.repeats() != new.repeats() {
            // The attempts used different plans, so their times cannot be combined.
            return new;
        }
        Self {
            time: blend(self.time, new.time, |old, new| new.min(old.saturating_add(new) / 2)),
            bytes: blend(self.bytes, new.bytes, |old, new| new.max(u64::midpoint(old, new))),
            ..new
        }
    }
}

impl Samples {
    /// Records an attempt.
    ///
    /// For one size, more bytes or less time replace the old figure at once; a figure in the other direction moves it
    /// by half. So one disturbed attempt changes little, and a lasting change soon all.
    pub(crate) fn add(&mut self, new: Sample) {
        if new.size == 0 {
            return;
        }
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.size == new.size) {
            *slot = slot.merged(new);
            return;
        }
        let is_near = |slot: &Sample| slot.size > 0 && slot.distance(new.size) < NEAR;
        if new.repeats() && self.slots.iter().any(|slot| is_near(slot) && !slot.repeats()) {
            // The near size is faster, and its bytes are known.
            return;
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.distance(new.size) < NEAR) {
            slot.size = 0;
        }
        let farthest =
            |a: &&mut Sample, b: &&mut Sample| a.distance(new.size).total_cmp(&b.distance(new.size));
        if let Some(slot) = self.slots.iter_mut().max_by(farthest) {
            *slot = new;
        }
    }

    /// Returns the samples, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = Sample> {
        let mut slots = self.slots;
        slots.sort_unstable_by_key(|slot| slot.size);
        slots.into_iter().filter(|sample| sample.size > 0)
    }

    /// Fits the bytes as a function of the size, if there is a sample.
    pub fn bytes(&self) -> Option<Fit> {
        Fit::through(self.known(|sample| sample.bytes.map(bytes)))
    }

    /// Estimates the bytes that this size needs, if at least two sizes were measured.
    pub(crate) fn needs_bytes(&self, size: usize) -> Option<u64> {
        let line = self.bytes().filter(|line| line.points > 1)?;
        Some(whole_bytes(line.at(number(size))))
    }

    /// Fits the seconds as a function of the size, if there is a sample.
    pub fn seconds(&self) -> Option<Fit> {
        Fit::through(self.known(|sample| sample.time.map(|time| time.as_secs_f64())))
    }

    /// Fits the seconds without the time spent on recomputing.
    pub(super) fn seconds_without_repeating(&self) -> Option<Fit> {
        Fit::through(self.known(|sample| Some(sample.time?.saturating_sub(sample.repeated).as_secs_f64())))
    }

    fn known(&self, figure: impl Fn(&Sample) -> Option<f64>) -> impl Iterator<Item = (f64, f64)> {
        let samples = self.slots.iter().filter(|sample| sample.size > 0);
        samples.filter_map(move |sample| Some((number(sample.size), figure(sample)?)))
    }
}

impl FromIterator<Sample> for Samples {
    fn from_iter<I: IntoIterator<Item = Sample>>(samples: I) -> Self {
        let mut all = Self::default();
        samples.into_iter().for_each(|sample| all.add(sample));
        all
    }
}

fn blend<T: Copy>(old: Option<T>, new: Option<T>, both: fn(T, T) -> T) -> Option<T> {
    match (old, new) {
        (Some(old), Some(new)) => Some(both(old, new)),
        _ => new.or(old),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Sample, Samples};

    fn sample(size: usize, bytes: u64) -> Sample {
        Sample { bytes: Some(bytes), ..Sample::new(size) }
    }

    #[test]
    fn sizes_near_each_other_replace_each_other() {
        let sizes = |sizes: &[usize]| {
            let samples: Samples = sizes.iter().map(|&size| sample(size, 1)).collect();
            samples.iter().map(|sample| sample.size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[300, 3, 399]), [3, 399]);
        assert_eq!(sizes(&[300, 3, 400]), [3, 300, 400]);
        assert_eq!(sizes(&[100, 150, 125]), [125]);
        assert_eq!(sizes(&[1, 2, 4, 8, 16, 32, 64]), [2, 4, 8, 16, 32, 64], "the farthest goes");
        assert_eq!(sizes(&[64, 32, 16, 8, 4, 2, 1]), [1, 2, 4, 8, 16, 32]);
    }

    #[test]
    fn one_disturbed_attempt_changes_little_and_a_lasting_change_soon_all() {
        let timed = |millis| Sample { time: Some(Duration::from_millis(millis)), ..Sample::new(8) };
        let mut samples: Samples = [timed(100), timed(1000), timed(100)].into_iter().collect();
        let seconds = |samples: &Samples| samples.iter().next().unwrap().time.unwrap().as_secs_f32();
        assert!((seconds(&samples) - 0.1).abs() < 1e-6);
        (0..8).for_each(|_| samples.add(timed(1000)));
        assert!(seconds(&samples) > 0.95);
    }

    #[test]
    fn more_bytes_count_at_once() {
        let samples: Samples = [sample(8, 100), sample(8, 300), sample(8, 200)].into_iter().collect();
        assert_eq!(samples.iter().next().unwrap().bytes, Some(250));
    }

    #[test]
    fn a_size_that_repeats_takes_no_place_of_one_that_does_not() {
        let timed = |size, millis, repeated| Sample {
            time: Some(Duration::from_millis(millis)),
            repeated: Duration::from_millis(repeated),
            ..Sample::new(size)
        };
        let kept = |samples: [Sample; 2]| {
            let samples: Samples = samples.into_iter().collect();
            samples.iter().map(|sample| (sample.size, sample.repeated.as_millis())).collect::<Vec<_>>()
        };
        assert_eq!(kept([timed(100, 100, 0), timed(120, 150, 30)]), [(100, 0)]);
        assert_eq!(kept([timed(120, 150, 30), timed(100, 100, 0)]), [(100, 0)]);
        assert_eq!(kept([timed(100, 100, 0), timed(200, 250, 50)]), [(100, 0), (200, 50)]);
        assert_eq!(
            kept([timed(100, 100, 0), timed(100, 150, 50)]),
            [(100, 50)],
            "the newer plan of one size"
        );
        let samples: Samples = [timed(100, 100, 0), timed(200, 260, 60)].into_iter().collect();
        let line = samples.seconds_without_repeating().unwrap();
        assert!((line.at(400.0) - 0.4).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn every_size_but_nothing_is_kept() {
        let samples: Samples = [sample(0, 1), sample(usize::MAX, 1)].into_iter().collect();
        assert!(samples.iter().map(|sample| sample.size).eq([usize::MAX]));
    }
}
