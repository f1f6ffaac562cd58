//! Tests which axis of an ndarray view `dim` selects.

use ndarray::{Array1, Array2, Array3, ArrayView0, ArrayView2, ArrayViewMut2, arr0};
use toma::{NoCache, execute};

use crate::chunks::panic_of;

/// Returns the shapes of the chunks along `dim`.
fn shapes(dim: isize) -> Vec<(usize, usize, usize)> {
    let array = Array3::<u8>::zeros((2, 3, 5));
    let mut shapes = Vec::new();
    execute::with::<NoCache>().dim(dim).chunked(array.view(), 2, |chunk, _, _| shapes.push(chunk.dim()));
    shapes
}

#[test]
fn negative_ones_count_from_the_last() {
    assert_eq!(shapes(0), [(2, 3, 5)]);
    assert_eq!(shapes(1), [(2, 2, 5), (2, 1, 5)]);
    assert_eq!(shapes(2), [(2, 3, 2), (2, 3, 2), (2, 3, 1)]);
    for dim in 0..3 {
        assert_eq!(shapes(dim - 3), shapes(dim), "dim {dim}");
    }
}

#[test]
fn out_of_range_is_refused() {
    let message = |dim: isize, axes: isize| {
        format!("dim {dim}: must be between -{axes} and {} for {axes} axes", axes - 1)
    };
    for (dim, axes) in [(1, 1), (-2, 1), (2, 2), (-3, 2), (3, 3), (-4, 3), (isize::MAX, 3), (isize::MIN, 3)] {
        let with = execute::with::<NoCache>().dim(dim);
        let words = panic_of(|| match axes {
            1 => with.chunked(Array1::<u8>::zeros(4).view(), 2, |_, _, _| ()),
            2 => with.chunked(Array2::<u8>::zeros((4, 4)).view_mut(), 2, |_, _, _| ()),
            _ => with.chunked(Array3::<u8>::zeros((4, 4, 4)).view(), 2, |_, _, _| ()),
        });
        assert_eq!(words, message(dim, axes));
    }
}

#[test]
fn an_array_without_axes_is_refused() {
    let array = arr0(1.0);
    let view: ArrayView0<'_, f64> = array.view();
    let words = panic_of(|| execute::with::<NoCache>().chunked(view, 2, |_, _, _| ()));
    assert_eq!(words, "dim 0: a value without axes has no items");
}

#[test]
fn a_slice_beside_an_array_has_one() {
    let (array, slice) = (Array2::<u8>::zeros((4, 3)), [0_u8; 3]);
    let mut widths = Vec::new();
    execute::with::<NoCache>().dim(-1).chunked((array.view(), &slice[..]), 2, |(array, slice), _, _| {
        widths.push((array.dim(), slice.len()));
    });
    assert_eq!(widths, [((4, 2), 2), ((4, 1), 1)]);
    let along = |dim| {
        panic_of(|| execute::with::<NoCache>().dim(dim).chunked((array.view(), &slice[..]), 2, |_, _, _| ()))
    };
    assert_eq!(along(0), "chunked tuple: the extents [4, 3] must be equal");
    assert_eq!(along(1), "dim 1: must be between -1 and 0 for 1 axes");
    assert_eq!(along(-2), "dim -2: must be between -1 and 0 for 1 axes");
}

#[test]
fn annotated_functions_take_views() {
    #[toma::chunked(initial = 2, dim = axis, cache = NoCache)]
    fn add(
        (mut out, x): (ArrayViewMut2<'_, i32>, ArrayView2<'_, i32>),
        start: i64,
        end: i64,
        axis: isize,
        shapes: &mut Vec<(usize, usize)>,
    ) {
        assert_eq!(out.dim(), x.dim());
        shapes.push(out.dim());
        out += &x;
        out += i32::try_from(end - start).unwrap();
    }

    let x = Array2::from_elem((3, 4), 7);
    let (mut out, mut shapes) = (Array2::zeros((3, 4)), Vec::new());
    add((out.view_mut(), x.view()), -1, &mut shapes);
    assert_eq!((shapes, out), (vec![(3, 2), (3, 2)], Array2::from_elem((3, 4), 9)));
}
