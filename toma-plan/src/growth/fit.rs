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
    Fit { line, below }
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
    fn extremes_do_not_overflow() {
        let most = (u32::MAX, u64::MAX);
        let high = fitted(&[(u32::MAX - 1, 0), most]);
        assert_eq!(high.line.per_item, i128::from(u64::MAX));
        assert_eq!(high.line.at(u64::from(u32::MAX)), i128::from(u64::MAX));
        assert_eq!(high.below, Line::default());
    }
}
