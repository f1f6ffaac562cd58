//! Values that can be worked on piece by piece.
//!
//! A [`Chunked`] value has an extent, the number of items along an axis, and gives views of ranges of items. A view
//! is *held* for one attempt and *lent* to the body, so that a body can take a parameter of the value's own type,
//! such as `&Tensor`, even if the view is an owned value.
//!
//! # Why
//!
//! A view is made within the attempt, because it may take memory of its own. If making the view fails, the body has
//! not run, so there is nothing to undo.
//!
//! `Chunked` has a kind, a type parameter that is inferred. The orphan rule forbids implementing a trait of one
//! crate for types of another. A kind defined by the implementing crate makes it legal, as for tch's `Tensor`.
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
///
/// The views of a type of your own, which [`Chunked`] makes:
///
/// ```
/// # extern crate toma_core as toma;
/// use std::ops::Range;
/// use toma::chunk::{Chunk, ChunkOf, Chunked, Held};
/// use toma::execute;
///
/// /// Frames of a film, by their numbers.
/// struct Film {
///     frames: usize,
/// }
///
/// impl<'a> ChunkOf<'a> for Film {
///     type Held = Range<usize>;
///     type Chunk = &'a Range<usize>;
/// }
///
/// impl Chunked for Film {
///     fn extent(&self, _dim: isize) -> usize {
///         self.frames
///     }
///
///     fn hold(&mut self, _dim: isize, range: Range<usize>) -> Held<'_, Self> {
///         range
///     }
///
///     fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
///         held
///     }
/// }
///
/// let mut shown = Vec::new();
/// execute::chunked(Film { frames: 5 }, 2, |frames, _, _| shown.push(frames.clone()));
/// assert_eq!(shown, [0..2, 2..4, 4..5]);
/// ```
pub trait ChunkOf<'a, K = Own, B = &'a Self> {
    /// The view that is kept for the time of one attempt.
    type Held;

    /// The view that the body gets.
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
    /// Returns the number of items along axis `dim`; a negative `dim` counts from the last axis.
    ///
    /// # Panics
    /// If there is no such axis, or the parts of a tuple differ; the message has the values. The location of the
    /// panic is the caller's, which for a form is the line that calls it.
    #[track_caller]
    fn extent(&self, dim: isize) -> usize;

    /// Returns a view of the items in `range` along `dim`, kept for one attempt.
    ///
    /// Called within the attempt: if the view takes memory and there is none, a smaller one is tried.
    fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self, K>;

    /// Returns a number that differs for values of other shapes, apart from their extent, if the shape decides how
    /// much memory an item takes.
    #[doc(hidden)]
    fn shape_key(&self, dim: isize) -> u64 {
        let _ = dim;
        0
    }

    /// Reports the memory of each part, if it is known: `cpu`, `cuda:0`, `metal:0`.
    #[doc(hidden)]
    fn places(&self, place: &mut dyn FnMut(&str)) {
        let _ = place;
    }

    /// Lends the view to the body.
    fn lend<'a>(held: &'a mut Held<'_, Self, K>) -> Chunk<'a, Self, K>;
}

/// The view of `D` that is kept for the time of one attempt.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::chunk::Held;
///
/// /// A part of a slice is kept as a slice.
/// fn kept<'a>(part: &'a [f32]) -> Held<'a, &'a [f32]> {
///     part
/// }
/// assert_eq!(kept(&[1.0, 2.0]), [1.0, 2.0]);
/// ```
pub type Held<'a, D, K = Own> = <D as ChunkOf<'a, K>>::Held;

/// The view of `D` that the body gets.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::chunk::Chunk;
///
/// /// A body for chunks of a slice.
/// fn sum<'a>(part: Chunk<'a, &'a [f32]>) -> f32 {
///     part.iter().sum()
/// }
/// assert_eq!(sum(&[1.0, 2.0]), 3.0);
/// ```
pub type Chunk<'a, D, K = Own> = <D as ChunkOf<'a, K>>::Chunk;

/// The kind of values that implement [`Chunked`] in the crate of the trait or of the type. Tuples have the kinds of
/// their parts.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::chunk::{Chunked, Own};
///
/// fn items(data: &impl Chunked<Own>) -> usize {
///     data.extent(0)
/// }
/// assert_eq!(items(&&[1, 2, 3][..]), 3);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Own;

/// Converts `dim` to an index into `axes` axes.
///
/// # Panics
/// If there is no such axis.
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
