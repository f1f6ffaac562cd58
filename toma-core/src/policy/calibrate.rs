//! Sizes that grow from a small first piece, as far as the next one fits by the bytes that earlier pieces took.
//!
//! # Why
//!
//! If too large a size ends the process, it cannot be tried. The bytes of a larger size are estimated as the largest of
//! three curves through the last two points: a line, a power, and a square plus a constant. Bytes that grow as a line
//! or as a square, with or without a constant, lie on one of these curves. Bytes that grow in steps of more than the
//! margin, or faster at larger sizes, do not.
//!
//! Resident bytes do not grow while the allocator serves a piece from memory that it holds back. Until pieces have
//! shown growth, all bytes that the allocator may hold back count as taken, and as growing with the square of the size.

use super::figures::{bytes, number, whole};
use super::{Evidence, Needs, Policy};
use crate::memory::MemorySource;

/// The largest ratio of the next size to the largest so far.
const FASTEST: f64 = 4.0;

/// Factor on the bytes that a size is estimated to take; the product has to fit.
const MARGIN: f64 = 1.1;

/// Growth of resident memory below this many bytes is noise.
const NOISE: f64 = 256.0 * 1024.0;

/// Grows from a piece of the smallest size, as far as the next one fits by the bytes that earlier pieces took: see
/// [`calibrated`](crate::execute::With::calibrated).
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::memory::Resident;
/// use toma::policy::Calibrate;
/// use toma::{NoCache, execute};
///
/// let memory = Resident::now()?;
/// let form = execute::with::<NoCache>().device(&memory).policy(Calibrate::of(&memory));
/// form.range(0..64, 64, |start, end| drop(vec![0_u8; (end - start) << 10]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Calibrate {
    /// Bytes that an allocator may hold back, which hides the bytes that pieces take.
    held_bytes: u64,
}

impl Calibrate {
    /// Creates the policy for work in this memory.
    ///
    /// # Panics
    /// If the memory does not count bytes.
    #[track_caller]
    pub fn of(memory: &dyn MemorySource) -> Self {
        let name = memory.name();
        assert!(
            memory.usage().is_some(),
            "calibrate: {name} counts no bytes: take `memory::Resident`, which does"
        );
        Self { held_bytes: memory.held_bytes() }
    }

    /// Returns the largest size that fits by the bytes that pieces took.
    fn fits(self, evidence: &Evidence) -> Option<f64> {
        let usable = bytes(evidence.available_bytes?) / MARGIN;
        let (points, held) = (points(evidence), bytes(self.held_bytes));
        let noise = if self.held_bytes == 0 { 0.0 } else { NOISE };
        Some(match *points.last()? {
            (size, took) if took > usable => size * usable / took,
            (size, took) => match points[..] {
                [.., (near, less), (far, more)] if less >= noise => {
                    let curves = Curves { near, less, far, more: more.max(less + noise) };
                    largest(size, |size| curves.at(size) <= usable)
                }
                _ => alone(size, (usable + held) / (took + held).max(1.0)),
            },
        })
    }
}

impl Policy for Calibrate {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        let fits = self.fits(evidence).map_or(evidence.floor, whole);
        // If failures can be caught, they are better evidence than the curves.
        evidence.bounds.smallest_failure.map_or(fits, |failed| fits.min(evidence.bounds.below(failed)))
    }

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}

/// Returns sizes with the bytes that they took, the smallest first. A first item that costs more than a step has no
/// sample yet, so its peak is used.
fn points(evidence: &Evidence) -> Vec<(f64, f64)> {
    let samples = evidence.measurements.samples().iter();
    let mut points: Vec<_> =
        samples.filter_map(|sample| Some((number(sample.size), bytes(sample.bytes?)))).collect();
    if points.is_empty() {
        points.extend(evidence.peak_bytes.map(|peak| (number(evidence.size), bytes(peak))));
    }
    points
}

/// Returns the next size after a single sample, if `times` its bytes fit. Bytes are taken to grow as a square, but from
/// one item to two as a line, because otherwise few programs would get beyond the first piece.
fn alone(size: f64, times: f64) -> f64 {
    let grown = size * times.sqrt().min(FASTEST);
    if size < 2.0 && times >= 2.0 { grown.max(2.0) } else { grown }
}

/// Two sizes and the bytes that they took.
struct Curves {
    near: f64,
    less: f64,
    far: f64,
    more: f64,
}

impl Curves {
    /// Returns the largest of the three estimates for a size beyond both.
    fn at(&self, size: f64) -> f64 {
        let Self { near, less, far, more } = *self;
        let grown = more - less;
        let line = grown / (far - near) * (size - far);
        let square = grown / (far * far - near * near) * (size * size - far * far);
        let power = (size / far).powf((more / less.max(1.0)).ln() / (far / near).ln());
        (more + line.max(square)).max(more * power)
    }
}

/// Returns the largest size from `size` to `size * FASTEST` that fits. `size` itself fits.
fn largest(size: f64, fits: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (size, size * FASTEST);
    if fits(high) {
        return high;
    }
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        *(if fits(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::figures::whole_bytes;
    use super::*;
    use crate::policy::{Measurements, Sample, Samples};

    /// Returns the sizes of consecutive pieces, if `available` bytes can be taken.
    fn sizes((held, most_held): (u64, u64), available: u64, takes: impl Fn(f64) -> f64) -> Vec<usize> {
        let (policy, mut samples, mut sizes) =
            (Calibrate { held_bytes: most_held }, Samples::default(), Vec::new());
        for _ in 0..200 {
            let mut evidence = Evidence::new(1 << 40);
            evidence.available_bytes = Some(available);
            evidence.measurements = Measurements::from(samples);
            let size = policy.advance(&evidence).max(1);
            sizes.push(size);
            let took = takes(number(size)) - bytes(held);
            samples.add(Sample { bytes: Some(whole_bytes(took)), ..Sample::new(size) });
        }
        sizes
    }

    proptest! {
        /// For any curve and any bytes that the allocator holds back: never more than available, and soon most of it.
        #[test]
        fn no_size_takes_too_much_and_most_is_taken_in_the_end(
            (constant, each, square) in (0..100_u64 << 20, 1_u64 << 10..1 << 20, prop_oneof![Just(0), 0_u64..1 << 14]),
            (held, most_held) in prop_oneof![Just((0, 0)), (1_u64 << 20..64 << 20, 0.0..1.0).prop_map(|(most, share)| (whole_bytes(bytes(most) * share), most))],
            free in 1_u64 << 26..8 << 30,
        ) {
            let takes = |size: f64| bytes(constant) + bytes(each) * size + bytes(square) * size * size;
            let available = whole_bytes(takes(2.0) * 2.2) + 4 * most_held + free;
            let sizes = sizes((held, most_held), available, takes);
            let usable = bytes(available + held);
            prop_assert!(sizes.iter().all(|&size| takes(number(size)) <= usable), "{sizes:?}");
            let last = *sizes.last().unwrap();
            let is_near = takes(number(last) / 0.8) > usable;
            prop_assert!(is_near, "{} of {usable}: {sizes:?}", takes(number(last)));
        }
    }
}
