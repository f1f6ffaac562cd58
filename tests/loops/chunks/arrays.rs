//! Tests ndarray views of one to three axes, along each axis and in every memory layout, with failures in between,
//! against a loop by hand over all elements.

use ndarray::{Array, Array1, Array2, ArrayD, ArrayView, Axis, Dim, Dimension, IntoDimension, Ix1, Ix2, Ix3};
use ndarray::{IxDyn, RemoveAxis, Slice};
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, TestRunner};
use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

use crate::chunks::flaky::Flaky;
use crate::rounds::rounds;

#[derive(Clone, Copy, Debug)]
struct Case {
    shape: [usize; 3],
    /// Layouts of the array that is read and of the one that is written.
    layouts: [Layout; 2],
    initial: usize,
    bits: u32,
}

/// Layout of a view within the array under it.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Takes every second element along each axis.
    steps: bool,
    /// Runs backwards along the last axis.
    inverted: bool,
    /// Exchanges the first and the last axis.
    swapped: bool,
}

fn layout() -> impl Strategy<Value = Layout> {
    any::<[bool; 3]>().prop_map(|[steps, inverted, swapped]| Layout { steps, inverted, swapped })
}

impl Layout {
    /// Returns an array in which a view of `shape` has this layout.
    fn under<D: Dimension>(self, shape: &D) -> Array<i64, D> {
        let mut shape = shape.clone();
        let axes = shape.slice_mut();
        if self.swapped {
            axes.reverse();
        }
        if self.steps {
            for extent in axes {
                *extent *= 2;
            }
        }
        Array::zeros(shape)
    }
}

/// Turns a view of the whole array into one with this layout.
macro_rules! lay {
    ($view:expr, $layout:expr) => {{
        let (mut view, layout) = ($view, $layout);
        let last = Axis(view.ndim() - 1);
        for axis in 0..view.ndim() {
            view.slice_axis_inplace(Axis(axis), Slice::new(0, None, if layout.steps { 2 } else { 1 }));
        }
        if layout.inverted {
            view.invert_axis(last);
        }
        if layout.swapped {
            view.swap_axes(0, last.0);
        }
        view
    }};
}

fn check(test: impl Fn(Case)) {
    let cases = ([0..7_usize, 0..7, 0..7], [layout(), layout()], 1..8_usize, any::<u32>());
    let cases = cases.prop_map(|(shape, layouts, initial, bits)| Case { shape, layouts, initial, bits });
    let config = Config { cases: rounds(250, 1000), ..Config::default() };
    let result = TestRunner::new(config).run(&cases, |case| {
        test(case);
        Ok(())
    });
    result.unwrap();
}

/// Writes `3 x + position along the axis + 1` along each axis, given as a positive and as a negative `dim`.
fn along_each_axis<D: Dimension + RemoveAxis>(shape: &D, case: Case) {
    let mut under_x = case.layouts[0].under(shape);
    under_x.iter_mut().zip(0..).for_each(|(x, number)| *x = number);
    let x = lay!(under_x.view(), case.layouts[0]);
    assert_eq!(x.raw_dim(), *shape);
    let count = isize::try_from(shape.ndim()).unwrap();
    for dim in -count..count {
        let axis = usize::try_from(dim.rem_euclid(count)).unwrap();
        let mut under = case.layouts[1].under(shape);
        run(&x, lay!(under.view_mut(), case.layouts[1]), dim, case);
        assert_eq!(lay!(under.view(), case.layouts[1]).into_dyn(), by_hand(&x, axis), "dim {dim}");
        // Nothing is written outside of the view.
        assert_eq!(under.iter().filter(|&&value| value != 0).count(), x.len(), "dim {dim}");
    }
}

fn run<D: Dimension + RemoveAxis>(
    x: &ArrayView<'_, i64, D>,
    out: ndarray::ArrayViewMut<'_, i64, D>,
    dim: isize,
    case: Case,
) {
    let axis = Axis(usize::try_from(dim.rem_euclid(isize::try_from(x.ndim()).unwrap())).unwrap());
    let positions: Vec<i64> = (0..).take(x.len_of(axis)).collect();
    let mut flaky = Flaky::new(case.bits);
    let body = execute::with::<NoCache>().dim(dim).chunked(
        (x.view(), out),
        case.initial,
        |(x, mut out), start, end| {
            assert_eq!((x.len_of(axis), out.shape()), (end - start, x.shape()));
            for (i, &position) in positions[start..end].iter().enumerate() {
                let mut out = out.index_axis_mut(axis, i);
                out.assign(&x.index_axis(axis, i).mapv(|x| 3 * x + position + 1));
            }
            flaky.end(start, end)
        },
    );
    assert_eq!((body, flaky.covered()), (Ok::<(), OutOfMemory>(()), x.len_of(axis)));
}

/// Computes the expected result element by element.
fn by_hand<D: Dimension>(x: &ArrayView<'_, i64, D>, axis: usize) -> ArrayD<i64> {
    let x = x.view().into_dyn();
    let mut out = ArrayD::zeros(IxDyn(x.shape()));
    for (index, value) in x.indexed_iter() {
        out[index.clone()] = 3 * value + i64::try_from(index[axis]).unwrap() + 1;
    }
    out
}

#[test]
fn of_one_to_three_axes_and_of_axes_known_at_run_time_only() {
    check(|case| {
        along_each_axis::<Ix1>(&Dim(case.shape[0]), case);
        along_each_axis::<Ix2>(&(case.shape[0], case.shape[1]).into_dimension(), case);
        along_each_axis::<Ix3>(&Dim(case.shape), case);
        along_each_axis(&IxDyn(&case.shape), case);
    });
}

#[test]
fn beside_a_slice() {
    check(|case| {
        let [rows, columns, _] = case.shape;
        let x = lay_rows(rows, columns);
        let mut sums = vec![0; rows];
        let mut flaky = Flaky::new(case.bits);
        let body = execute::with::<NoCache>().chunked(
            (&mut sums[..], (x.t().reversed_axes(), x.view())),
            case.initial,
            |(sums, (same, x)), start, end| {
                assert_eq!(same, x);
                for (sum, row) in sums.iter_mut().zip(x.outer_iter()) {
                    *sum = row.sum();
                }
                flaky.end(start, end)
            },
        );
        assert_eq!((body, flaky.covered()), (Ok::<(), OutOfMemory>(()), rows));
        let expected: Vec<i64> =
            (0..rows).map(|row| (0..columns).map(|column| x[[row, column]]).sum()).collect();
        assert_eq!(sums, expected);
    });
}

fn lay_rows(rows: usize, columns: usize) -> Array2<i64> {
    let numbers: Array1<i64> = (1..).take(rows * columns).collect();
    numbers.into_shape_with_order((rows, columns)).unwrap()
}

/// A view shares the elements of the caller and clones none.
#[test]
fn elements_stay_where_they_are() {
    struct Unclonable(usize);

    let mut array = Array::from_shape_fn((3, 4), |(row, column)| Unclonable(10 * row + column));
    let places = array.map(std::ptr::from_ref);
    execute::with::<NoCache>().dim(1).chunked(
        (array.view_mut(), places.view()),
        3,
        |(mut chunk, places), _, _| {
            for (element, &place) in chunk.iter_mut().zip(&places) {
                assert_eq!(std::ptr::from_ref(element), place);
                element.0 += 100;
            }
        },
    );
    assert!(array.indexed_iter().all(|((row, column), element)| element.0 == 100 + 10 * row + column));
}
