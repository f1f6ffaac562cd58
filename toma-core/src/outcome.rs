//! Return values of bodies: which are successes, and how errors are classified.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use crate::classify::{Class, Classify, Failure};
use crate::ranks::ended;

/// Return value of a body of an inline form: a `Result`, or a plain value.
///
/// The kind of return type is found by inference, so bodies need no annotation: `Result<T, E>`,
/// `()`, numbers, the standard containers, tensors, and anything wrapped in [`Plain`].
///
/// `Kind` keeps the implementations apart and never has to be written. A crate can implement this
/// trait for a foreign type by using a kind of its own.
///
/// A body that returns a type of your own:
///
/// ```
/// # extern crate toma_core as toma;
/// use std::ops::ControlFlow;
/// use toma::{Outcome, execute};
///
/// struct Score(f64);
///
/// /// The kind of scores.
/// struct Scores;
///
/// impl Outcome<Scores> for Score {
///     type Value = Self;
///     type Of<U> = U;
///
///     fn branch<U>(self) -> ControlFlow<U, Self> {
///         ControlFlow::Continue(self)
///     }
///
///     fn of<U>(value: U) -> U {
///         value
///     }
/// }
///
/// let score = execute::batch(8, |size| Score(size as f64));
/// assert_eq!(score.0, 8.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "a body cannot return `{Self}` as it is: wrap it, `toma::Plain(value)`",
    label = "neither a `Result`, `()`, a number nor a standard container"
)]
pub trait Outcome<Kind> {
    /// The value of a body that succeeds.
    type Value;

    /// This kind of outcome around another value.
    type Of<U>;

    /// Splits the outcome into its value, or the error to pass on.
    fn branch<U>(self) -> ControlFlow<Self::Of<U>, Self::Value>;

    /// Makes a success.
    fn of<U>(value: U) -> Self::Of<U>;
}

/// The kind of `Result`.
#[derive(Clone, Copy, Debug)]
pub struct Fallible;

/// The kind of plain values.
#[derive(Clone, Copy, Debug)]
pub struct Ready;

impl<T, E> Outcome<Fallible> for Result<T, E> {
    type Value = T;
    type Of<U> = Result<U, E>;

    #[inline]
    fn branch<U>(self) -> ControlFlow<Result<U, E>, T> {
        match self {
            Ok(value) => ControlFlow::Continue(value),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }

    #[inline]
    fn of<U>(value: U) -> Result<U, E> {
        Ok(value)
    }
}

/// Lets a body return any value at all.
///
/// ```
/// # extern crate toma_core as toma;
/// struct Embedding([f32; 4]);
///
/// let rows: Vec<toma::Plain<Embedding>> =
///     toma::execute::map(0..8, 4, |_start, _end| toma::Plain(Embedding([0.0; 4])));
/// assert_eq!(rows.len(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plain<T>(pub T);

/// Implements [`Outcome`] for types whose values are no failures, such as tensors. The crate that calls it defines the
/// types or the kind.
#[doc(hidden)]
#[macro_export]
macro_rules! ready {
    ($kind:ty: $([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> $crate::Outcome<$kind> for $type {
            type Value = Self;
            type Of<U> = U;

            #[inline]
            fn branch<U>(self) -> ::core::ops::ControlFlow<U, Self> {
                ::core::ops::ControlFlow::Continue(self)
            }

            #[inline]
            fn of<U>(value: U) -> U {
                value
            }
        }
    )*};
}

ready! { Ready:
    [] (); [] bool; [] char; [] String;
    [] u8; [] u16; [] u32; [] u64; [] u128; [] usize;
    [] i8; [] i16; [] i32; [] i64; [] i128; [] isize;
    [] f32; [] f64;
    [T: ?Sized] &T; [T: ?Sized] Box<T>; [T: ?Sized] Rc<T>; [T: ?Sized] Arc<T>;
    [T] Option<T>; [T] Vec<T>; [T] VecDeque<T>; [T] LinkedList<T>; [T] BinaryHeap<T>;
    [T] BTreeSet<T>; [T, S] HashSet<T, S>; [K, V] BTreeMap<K, V>; [K, V, S] HashMap<K, V, S>;
    [T, const N: usize] [T; N];
    [A] (A,); [A, B] (A, B); [A, B, C] (A, B, C); [A, B, C, D] (A, B, C, D);
    [A, B, C, D, E] (A, B, C, D, E); [A, B, C, D, E, F] (A, B, C, D, E, F);
    [T] Plain<T>;
}

/// Return value of a body of `range` or `chunked`: `()`, or a `Result` of it.
#[diagnostic::on_unimplemented(
    message = "a body of `range` or `chunked` returns `()` or `Result<(), E>`, not `{Self}`",
    label = "this value would be lost",
    note = "use `map` to collect the values in order, or `fold` to reduce them"
)]
pub trait Completes {
    /// The outcome when every piece succeeded.
    fn completed() -> Self;
}

impl Completes for () {
    fn completed() -> Self {}
}

impl<E> Completes for Result<(), E> {
    fn completed() -> Self {
        Ok(())
    }
}

/// Judges success and failure. `M` is found by inference.
#[diagnostic::on_unimplemented(
    message = "cannot tell whether a body that returns `{R}` ran out of memory",
    label = "not a `Result` whose error can be classified",
    note = "implement `std::error::Error` for the error type (which must be `'static`), or give the option `classify = path`"
)]
pub trait Judge<R, M> {
    /// The failure, or `None` for a success.
    fn failure(&self, outcome: &R) -> Option<Failure>;

    /// Makes the outcome of a call that another [rank](crate::ranks) has ended.
    ///
    /// # Panics
    /// If the outcome has no place for that error.
    #[cold]
    fn elsewhere(&self, error: &ended::Error) -> R {
        ended::raise(error)
    }
}

impl<R, M, J: Judge<R, M>> Judge<R, M> for &J {
    #[inline]
    fn failure(&self, outcome: &R) -> Option<Failure> {
        (**self).failure(outcome)
    }

    fn elsewhere(&self, error: &ended::Error) -> R {
        (**self).elsewhere(error)
    }
}

/// Judges by type: errors are classified, plain values are successes.
#[derive(Clone, Copy, Debug)]
pub struct Auto;

/// The marker under which [`Auto`] judges a `Result`.
#[derive(Clone, Copy, Debug)]
pub struct ByError<M>(M);

/// The marker under which [`Auto`] judges a plain value.
#[derive(Clone, Copy, Debug)]
pub struct ByValue<Kind>(Kind);

impl<T, E: Classify<M>, M> Judge<Result<T, E>, ByError<M>> for Auto {
    #[inline]
    fn failure(&self, outcome: &Result<T, E>) -> Option<Failure> {
        outcome.as_ref().err().map(Classify::classify)
    }

    fn elsewhere(&self, error: &ended::Error) -> Result<T, E> {
        Err(E::of_ranks(error).unwrap_or_else(|| ended::raise(error)))
    }
}

impl<R: Outcome<Kind, Of<()> = ()>, Kind> Judge<R, ByValue<Kind>> for Auto {
    #[inline]
    fn failure(&self, _: &R) -> Option<Failure> {
        None
    }
}

/// Judges every value as a success. Attributes use it for return types that are no `Result`.
#[derive(Clone, Copy, Debug)]
pub struct AnyValue;

impl<R> Judge<R, ()> for AnyValue {
    #[inline]
    fn failure(&self, _: &R) -> Option<Failure> {
        None
    }
}

/// Classifies errors by the user's function.
#[derive(Clone, Copy, Debug)]
pub struct Classified<F>(pub F);

impl<T, E, F, C> Judge<Result<T, E>, C> for Classified<F>
where
    F: Fn(&E) -> C,
    C: Into<Failure>,
{
    #[inline]
    fn failure(&self, outcome: &Result<T, E>) -> Option<Failure> {
        outcome.as_ref().err().map(|error| (self.0)(error).into())
    }
}

/// Lets a function given to the option `classify` return a class alone.
impl From<Class> for Failure {
    fn from(class: Class) -> Self {
        Self::new(class, "an error that the call's own `classify` judged")
    }
}
