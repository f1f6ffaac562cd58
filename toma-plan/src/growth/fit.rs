//! The line of one block through its bytes at several sizes.

use super::line::Line;

/// Bytes of a block at one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) size: u32,
    pub(super) bytes: u64,
}

/// Growth of a block's bytes with the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// The line as steep as the steepest line from a far point to the largest, and as high as every point.
    pub(super) line: Line,
    /// The line for sizes below the smallest point.
    pub(super) below: Line,
    /// True if all points lie on a parabola of pairs of items.
    pub(super) is_square: bool,
}

/// Returns the fit through points of rising sizes.
///
/// If bytes grow in steps, as with whole pages, the slope to the largest size is nearest to the slope beyond it. If a
/// kernel began to take memory late, the last slope is the steepest. No slope is taken from points of more than two
/// thirds of the largest size, except from the smallest point: one step, such as one tile more for the ninth row than
/// for eight, would count for every item beyond. A slope that is no integer is rounded up. Bytes that fall with the
/// size are assumed to stay, because bytes that a kernel saves at one size are no evidence about the next. Below the
/// smallest point a line may reach zero too early, if a kernel began to take memory between two points. There it runs
/// through the origin instead, which is as high.
pub(super) fn fit(points: &[Point]) -> Fit {
    let steepest = match points {
        [first, others @ .., largest] => {
            let far = others.iter().filter(|point| point.size <= largest.size / 3 * 2);
            far.chain([first]).map(|point| slope(*point, *largest)).max()
        }
        _ => None,
    };
    let line = highest_with(steepest.unwrap_or(0).max(0), points);
    let below = match points {
        [first, ..] if line.fixed < 0 => {
            Line { fixed: 0, per_item: slope(Point { size: 0, bytes: 0 }, *first) }
        }
        _ => line,
    };
    Fit { line, below, is_square: is_square(points) }
}

/// Returns the bytes per item between two points, rounded up.
fn slope(from: Point, to: Point) -> i128 {
    let bytes = i128::from(to.bytes) - i128::from(from.bytes);
    -(-bytes).div_euclid(i128::from(to.size - from.size))
}

fn highest_with(per_item: i128, points: &[Point]) -> Line {
    let fixed = points.iter().map(|point| i128::from(point.bytes) - per_item * i128::from(point.size));
    Line { fixed: fixed.max().unwrap_or(0), per_item }
}

/// True if all points lie on one parabola with nonnegative parts that counts pairs.
///
/// Rows that interact take bytes for pairs of rows: `n * n` is `n` plus two for each pair. Memory that grows in steps
/// hardly ever fits a parabola. Points that overflow fit none.
fn is_square(points: &[Point]) -> bool {
    let [first, second, third, ..] = points else { return false };
    let Some(curve) = Parabola::through([*first, *second, *third]) else { return false };
    let is_on = |point: &Point| curve.at(point.size) == Some(i128::from(point.bytes));
    curve.fixed >= 0 && curve.per_item >= 0 && curve.per_pair >= 1 && points.iter().all(is_on)
}

/// Bytes as a function of the size, with a part for each pair of items.
struct Parabola {
    fixed: i128,
    per_item: i128,
    per_pair: i128,
}

impl Parabola {
    /// Rounds the parts, so the parabola runs through the points only if there is one in integers.
    fn through(points: [Point; 3]) -> Option<Self> {
        let [x, y, z] = points.map(|point| i128::from(point.size));
        let [at_x, at_y, at_z] = points.map(|point| i128::from(point.bytes));
        let bend = (at_z - at_y).checked_mul(y - x)?.checked_sub((at_y - at_x).checked_mul(z - y)?)?;
        let per_pair = bend.checked_mul(2)? / ((z - y) * (y - x) * (z - x));
        let per_item = ((at_y - at_x) - per_pair.checked_mul(pairs(y) - pairs(x))?) / (y - x);
        let fixed =
            at_x.checked_sub(per_pair.checked_mul(pairs(x))?)?.checked_sub(per_item.checked_mul(x)?)?;
        Some(Self { fixed, per_item, per_pair })
    }

    fn at(&self, size: u32) -> Option<i128> {
        let size = i128::from(size);
        let of_pairs = self.per_pair.checked_mul(pairs(size))?;
        self.per_item.checked_mul(size)?.checked_add(of_pairs)?.checked_add(self.fixed)
    }
}

fn pairs(size: i128) -> i128 {
    size * (size - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::{Fit, Line, Point, fit};

    fn fitted(points: &[(u32, u64)]) -> Fit {
        fit(&points.iter().map(|(size, bytes)| Point { size: *size, bytes: *bytes }).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_is_as_high_as_every_point() {
        for (points, fixed, per_item) in [
            (&[(4, 400), (8, 800)][..], 0, 100),
            (&[(4, 500), (8, 900)], 100, 100),
            (&[(4, 12), (8, 28)], -4, 4),              // rows but one
            (&[(4, 64), (8, 64)], 64, 0),              // weights
            (&[(4, 90), (8, 64)], 90, 0),              // another kernel that needs less
            (&[(4, 10), (8, 11)], 6, 1),               // a quarter of a byte is a byte
            (&[(4, 0), (8, 0), (16, 800)], -400, 100), // a step between 8 and 16
            (&[(4, 0), (8, 800), (16, 800)], 264, 67), // most of it early
            (&[(4, 32_768), (8, 57_344), (48, 278_528)], 12_656, 5_586), // whole pages
            (&[(4, 400), (8, 800), (9, 1200)], -240, 160), // whole tiles of 4
            (&[(4, 400), (6, 800), (8, 800)], 200, 100),
            (&[(2, 400), (3, 400)], 400, 0),
            (&[(4, 400), (8, 800), (16, 1600)], 0, 100),
        ] {
            assert_eq!(fitted(points).line, Line { fixed, per_item }, "{points:?}");
        }
    }

    #[test]
    fn below_the_smallest_point_a_line_is_never_negative() {
        assert_eq!(fitted(&[(4, 12), (8, 28)]).below, Line { fixed: 0, per_item: 3 });
        assert_eq!(fitted(&[(4, 1), (8, 800)]).below, Line { fixed: 0, per_item: 1 });
        assert_eq!(fitted(&[(4, 0), (8, 800)]).below, Line::default());
        assert_eq!(fitted(&[(4, 500), (8, 900)]).below, Line { fixed: 100, per_item: 100 });
    }

    #[test]
    fn pairs_of_items_are_distinguished_from_steps() {
        let squares: [fn(u64) -> u64; 6] = [
            |n| 4 * n * n,
            |n| n * (n - 1) / 2,
            |n| 4 * n * (n - 1) / 2 + 16,
            |n| 4 * (n + 3) * (n + 3),
            |n| n * n + 1000 * n + 5,
            |n| 3 * n * (n + 1) / 2,
        ];
        for (index, bytes) in squares.iter().enumerate() {
            for sizes in [[4, 8, 12], [4, 8, 16], [2, 3, 48], [1, 2, 3]] {
                let points = sizes.map(|size| (size, bytes(size.into())));
                assert!(fitted(&points).is_square, "{index} at {sizes:?}");
                let fourth = [points[0], points[1], points[2], (100, bytes(100) + 1)];
                assert!(!fitted(&fourth).is_square, "{index} at {sizes:?} with a fourth point beside it");
            }
        }
        for points in [
            [(4, 400), (8, 800), (16, 1600)],
            [(4, 0), (8, 0), (16, 4096)],
            [(4, 0), (8, 0), (16, 960)],
            [(4, 512), (8, 512), (12, 1024)],
            [(4, 1024), (8, 1024), (16, 512)],
            [(4, 900), (8, 1600), (16, 1700)],
            [(4, 64), (8, 512), (16, 4096)], // the cube
        ] {
            assert!(!fitted(&points).is_square, "{points:?}");
        }
        // Two sizes do not determine a third.
        assert!(!fitted(&[(4, 64), (8, 256)]).is_square);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let most = (u32::MAX, u64::MAX);
        let high = fitted(&[(u32::MAX - 1, 0), most]);
        assert_eq!(high.line.per_item, i128::from(u64::MAX));
        assert_eq!(high.line.at(u64::from(u32::MAX)), i128::from(u64::MAX));
        assert!(!fitted(&[(1, 0), (u32::MAX - 1, 0), most]).is_square);
        assert_eq!(high.below, Line::default());
    }
}
