//! A straight line through a few noisy points.

use super::figures::number;

/// As many points as [`Samples`](super::Samples) keeps.
const MAX_POINTS: usize = 6;
const MAX_PAIRS: usize = MAX_POINTS * (MAX_POINTS - 1) / 2;

/// A straight line through measured figures: `base + slope * size`.
///
/// The slope is the median of the slopes between all pairs of points, which one outlier cannot change much. It is at
/// least the slope between the two largest sizes, because still larger sizes follow that slope.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::{Sample, Samples};
///
/// let mut samples = [Sample::new(8), Sample::new(16)];
/// samples[0].bytes = Some(1800);
/// samples[1].bytes = Some(2600);
/// let bytes = Samples::from_iter(samples).bytes().unwrap();
/// assert_eq!((bytes.at(32.0), bytes.size_at(5000.0)), (4200.0, 40.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The figure at size 0.
    pub(crate) base: f64,
    /// The figure that one more item, or cost unit, adds; negative or zero if the size does not matter.
    pub(crate) slope: f64,
    /// The largest measured size.
    pub(crate) largest: f64,
    /// Number of points.
    pub(crate) points: usize,
}

impl Fit {
    /// Fits a line through points of different sizes; through the origin if there is one point.
    pub(super) fn through(points: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let (mut all, count) = gather::<MAX_POINTS, _>((0.0, 0.0), points);
        let points = &mut all[..count];
        points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let &(largest, last) = points.last()?;
        if count == 1 {
            return Some(Self { base: 0.0, slope: last / largest, largest, points: 1 });
        }
        let slope = slope(points);
        let base = median(points.iter().map(|&(size, figure)| figure - slope * size));
        Some(Self { base, slope, largest, points: count })
    }

    /// Number of sizes that were measured; the line of a single size goes through the origin.
    pub fn points(&self) -> usize {
        self.points
    }

    /// The largest size that was measured.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// Returns the figure at `size`.
    pub fn at(&self, size: f64) -> f64 {
        self.base + self.slope * size
    }

    /// Returns the figure per item in an attempt of `size`.
    pub(super) fn per_item(&self, size: usize) -> f64 {
        self.at(number(size)).max(0.0) / number(size)
    }

    /// Returns the size at which the figure is `limit`; infinite if the size does not matter.
    pub fn size_at(&self, limit: f64) -> f64 {
        if self.slope > 0.0 { (limit - self.base) / self.slope } else { f64::INFINITY }
    }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let between = |one: &(f64, f64), other: &(f64, f64)| (other.1 - one.1) / (other.0 - one.0);
    let pairs = points.iter().enumerate().flat_map(|(i, one)| {
        let larger = &points[i + 1..];
        larger.iter().map(move |other| between(one, other))
    });
    let steepest_end = between(&points[points.len() - 2], &points[points.len() - 1]);
    median(pairs).max(steepest_end)
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let (mut all, count) = gather::<MAX_PAIRS, _>(0.0, figures);
    let (figures, middle) = (&mut all[..count], count / 2);
    figures.sort_unstable_by(f64::total_cmp);
    if count % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) }
}

/// Collects at most `N` items on the stack, because this runs where memory has just run out.
fn gather<const N: usize, T: Copy>(empty: T, items: impl Iterator<Item = T>) -> ([T; N], usize) {
    let (mut all, mut count) = ([empty; N], 0);
    for (place, item) in all.iter_mut().zip(items) {
        (*place, count) = (item, count + 1);
    }
    (all, count)
}

#[cfg(test)]
mod tests {
    use super::Fit;

    fn line(points: &[(f64, f64)]) -> Fit {
        Fit::through(points.iter().copied()).unwrap()
    }

    #[test]
    fn exact_points_give_the_exact_line() {
        let line = line(&[(64.0, 740.0), (2.0, 120.0), (16.0, 260.0)]);
        assert_eq!((line.base, line.slope, line.largest), (100.0, 10.0, 64.0));
        assert_eq!((line.at(8.0), line.size_at(300.0)), (180.0, 20.0));
    }

    #[test]
    fn one_outlier_below_does_not_promise_room() {
        let points: Vec<_> = [2.0, 4.0, 8.0, 16.0, 32.0].map(|size| (size, 100.0 + 10.0 * size)).to_vec();
        for index in 0..points.len() {
            let mut disturbed = points.clone();
            disturbed[index].1 *= 0.5;
            let fits = line(&disturbed).size_at(1100.0);
            assert!(fits < 110.0, "{fits} with an outlier at {index}");
        }
    }

    #[test]
    fn flat_points_predict_no_size() {
        let line = line(&[(2.0, 100.0), (64.0, 100.0)]);
        assert!(line.size_at(1000.0).is_infinite());
    }

    #[test]
    fn one_point_is_taken_as_proportional() {
        assert_eq!(line(&[(4.0, 100.0)]).size_at(1000.0).to_string(), "40");
    }
}
