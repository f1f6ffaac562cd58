//! Values that can be worked on piece by piece.
//!
//! A [`Chunked`] value has an extent, the number of items along an axis, and gives views of ranges
//! of it. A view is *held* for one attempt and *lent* to the body, so that a body can take a
//! parameter of the value's own type, such as `&Tensor`, where the view is a value of its own.
//!
//! # Why
//!
//! A view is made within the attempt, because it may take memory of its own. An attempt that failed to make
//! one never came to the body, so there is nothing to undo.
//!
//! `Chunked` has a kind, a type parameter that is inferred. The orphan rule forbids a trait of one crate
//! for types of another. A kind of the implementing crate's own makes it legal, as for tch's `Tensor`.
//! [`Outcome`](crate::Outcome) has one for the same reason.

#[cfg(feature = "ndarray")]
mod ndarray;
mod slice;
mod tuple;

use std::ops::Range;

/// The types of one value's views, for a borrow of length `'a`.
///
/// `B` lets the compiler conclude that `Self` outlives `'a`; it never has to be written. `K` is the
/// kind of [`Chunked`].
pub trait ChunkOf<'a, K = Own, B = &'a Self> {
    /// What is kept for the time of one attempt.
    type Held;

    /// What the body gets.
    type Chunk;
}

/// A value that can be worked on piece by piece along an axis.
///
/// Implemented for slices, mutable slices, and tuples of up to six values of equal extent; for
/// ndarray views with the feature `ndarray`; backends add their own data.
///
/// `K` is found by inference and never has to be written. A crate can implement this trait for a
/// foreign type by using a kind of its own.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::execute;
///
/// let input = [1, 2, 3, 4, 5];
/// let mut output = [0; 5];
/// execute::chunked((&input[..], &mut output[..]), 2, |(input, output), _start, _end| {
///     for (out, value) in output.iter_mut().zip(input) {
///         *out = value * value;
///     }
/// });
/// assert_eq!(output, [1, 4, 9, 16, 25]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be cut into chunks",
    label = "not a slice, a tensor, nor a tuple of them",
    note = "pass a slice of a `Vec` or an array: `&data[..]` or `&mut data[..]`"
)]
pub trait Chunked<K = Own>: for<'a> ChunkOf<'a, K> {
    /// The number of items along axis `dim`; a negative `dim` counts from the last axis.
    ///
    /// # Panics
    /// When there is no such axis, or the parts of a tuple differ, with the values. The place of the panic is the
    /// caller's, which for a form is the line that calls it.
    #[track_caller]
    fn extent(&self, dim: isize) -> usize;

    /// A view of the items in `range` along `dim`, kept for one attempt.
    ///
    /// It is made within the attempt: where it takes memory and there is none, a smaller one is tried.
    fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self, K>;

    /// Tells the value from others of other shapes but for its extent, where the shape decides how much memory
    /// an item takes.
    #[doc(hidden)]
    fn shape_key(&self, dim: isize) -> u64 {
        let _ = dim;
        0
    }

    /// Names the memory that each part is in, where that is known: `cpu`, `cuda:0`, `metal:0`.
    #[doc(hidden)]
    fn places(&self, place: &mut dyn FnMut(&str)) {
        let _ = place;
    }

    /// Lends the view to the body.
    fn lend<'a>(held: &'a mut Held<'_, Self, K>) -> Chunk<'a, Self, K>;
}

/// What is kept of `D` for the time of one attempt.
pub type Held<'a, D, K = Own> = <D as ChunkOf<'a, K>>::Held;

/// What the body gets of `D`.
pub type Chunk<'a, D, K = Own> = <D as ChunkOf<'a, K>>::Chunk;

/// The kind of values that implement [`Chunked`] where the trait or the type is at home. Tuples have
/// the kinds of their parts.
#[derive(Clone, Copy, Debug)]
pub struct Own;

/// `dim` as an index into `axes` axes.
///
/// # Panics
/// When there is no such axis.
#[doc(hidden)]
#[track_caller]
pub fn axis(dim: isize, axes: usize) -> usize {
    let index = if dim < 0 { axes.checked_add_signed(dim) } else { usize::try_from(dim).ok() };
    match index {
        Some(index) if index < axes => index,
        _ if axes == 0 => panic!("dim {dim}: a value without axes has no items"),
        _ => panic!(
            "dim {dim}: must be between -{axes} and {} for {axes} axes",
            axes.wrapping_sub(1).cast_signed()
        ),
    }
}
