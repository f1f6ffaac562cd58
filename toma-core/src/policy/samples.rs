//! What attempts of different sizes took and allocated: few enough to keep in a cache's entry.

use std::time::Duration;

use super::figures::{bytes, number, share, whole_bytes};
use super::fit::Fit;

/// Sizes that are kept. When all slots are full, a new size replaces the one farthest from it.
const SLOTS: usize = 6;

/// What one attempt of a size, in items or in [cost units](crate::execute::With::by_cost), took and
/// allocated.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The attempt's size.
    pub size: usize,
    /// How long it took, when that was measured.
    pub time: Option<Duration>,
    /// Most bytes it had allocated at one time beyond those before it, when that was measured.
    pub bytes: Option<u64>,
}

/// At most six [`Sample`]s, of sizes that differ by a third at least.
///
/// The difference between nearer sizes is smaller than the noise. Figures are in single precision, because
/// every entry of a size cache holds them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Samples {
    slots: [Slot; SLOTS],
}

/// A negative figure is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    size: usize,
    seconds: f32,
    bytes: f32,
}

impl Sample {
    /// An attempt of this size, with its figures unknown.
    pub const fn new(size: usize) -> Self {
        Self { size, time: None, bytes: None }
    }

    /// Items, or cost units, per second, when the time is known.
    pub fn rate(&self) -> Option<f64> {
        Some(number(self.size) / self.time?.as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

impl Samples {
    /// None at all.
    pub(crate) const NONE: Self = Self { slots: [Slot::EMPTY; SLOTS] };

    /// Takes note of an attempt.
    ///
    /// Of one size the most bytes and the least time count at once; a figure that contradicts them moves
    /// them by half. So one disturbed attempt changes little, and a lasting change soon all.
    pub(crate) fn add(&mut self, sample: Sample) {
        let Some(new) = Slot::of(&sample) else { return };
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.size == new.size) {
            *slot = slot.merged(new);
            return;
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.is_near(new.size)) {
            *slot = Slot::EMPTY;
        }
        let farthest = self.slots.iter_mut().max_by(|one, other| {
            let distances = [one, other].map(|slot| slot.distance(new.size));
            distances[0].total_cmp(&distances[1])
        });
        if let Some(slot) = farthest {
            *slot = new;
        }
    }

    /// The samples, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = Sample> {
        let mut slots = self.slots;
        slots.sort_unstable_by_key(|slot| slot.size);
        slots.into_iter().filter(|slot| slot.size > 0).map(|slot| slot.sample())
    }

    /// Bytes as a function of the size, when there is a sample.
    pub fn bytes(&self) -> Option<Fit> {
        Fit::through(self.known(|slot| slot.bytes))
    }

    /// Bytes that this size needs, when at least two sizes tell.
    pub(crate) fn needs_bytes(&self, size: usize) -> Option<u64> {
        let line = self.bytes().filter(|line| line.points > 1)?;
        Some(whole_bytes(line.at(number(size))))
    }

    /// Seconds as a function of the size, when there is a sample.
    pub fn seconds(&self) -> Option<Fit> {
        Fit::through(self.known(|slot| slot.seconds))
    }

    fn known(&self, figure: impl Fn(&Slot) -> f32) -> impl Iterator<Item = (f64, f64)> {
        let point = move |slot: &Slot| (number(slot.size), f64::from(figure(slot)));
        self.slots.iter().filter(|slot| slot.size > 0).map(point).filter(|&(_, figure)| figure >= 0.0)
    }
}

impl FromIterator<Sample> for Samples {
    fn from_iter<I: IntoIterator<Item = Sample>>(samples: I) -> Self {
        let mut all = Self::NONE;
        samples.into_iter().for_each(|sample| all.add(sample));
        all
    }
}

impl Default for Samples {
    fn default() -> Self {
        Self::NONE
    }
}

impl Slot {
    const EMPTY: Self = Self { size: 0, seconds: -1.0, bytes: -1.0 };

    #[expect(clippy::cast_possible_truncation, reason = "bytes are an estimate")]
    fn of(sample: &Sample) -> Option<Self> {
        let seconds = sample.time.map_or(-1.0, |time| time.as_secs_f32());
        let bytes = sample.bytes.map_or(-1.0, |known| bytes(known) as f32);
        (sample.size > 0).then_some(Self { size: sample.size, seconds, bytes })
    }

    /// The larger size over the smaller one; infinite for an empty slot.
    fn distance(&self, size: usize) -> f64 {
        let (smaller, larger) = (self.size.min(size), self.size.max(size));
        share(larger, smaller)
    }

    fn is_near(&self, size: usize) -> bool {
        self.distance(size) < 4.0 / 3.0
    }

    fn merged(self, new: Self) -> Self {
        Self {
            seconds: blend(self.seconds, new.seconds, f32::min),
            bytes: blend(self.bytes, new.bytes, f32::max),
            ..new
        }
    }

    fn sample(&self) -> Sample {
        // A negative number of seconds is no duration.
        let time = Duration::try_from_secs_f32(self.seconds).ok();
        let bytes = (self.bytes >= 0.0).then(|| whole_bytes(f64::from(self.bytes)));
        Sample { size: self.size, time, bytes }
    }
}

fn blend(old: f32, new: f32, prefer: fn(f32, f32) -> f32) -> f32 {
    match (old >= 0.0, new >= 0.0) {
        (true, true) => prefer(new, f32::midpoint(old, new)),
        (true, false) => old,
        _ => new,
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
    fn every_size_but_nothing_is_kept() {
        let samples: Samples = [sample(0, 1), sample(usize::MAX, 1)].into_iter().collect();
        assert!(samples.iter().map(|sample| sample.size).eq([usize::MAX]));
    }
}
