//! Functions, types and macros for the attributes' expansions. Not for users: anything here may change.

#![expect(clippy::inline_always, reason = "the number of our own frames must not depend on the optimizer")]

use std::any::type_name;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;

use crate::cache::SizeCache;
pub use crate::cache::{default::DefaultCache, none::NoCache};
pub use crate::call_site::Site;
use crate::chunk::Chunk;
pub use crate::chunk::Chunked;
use crate::classify::{Classify, Failure};
pub use crate::contained::contained;
use crate::execute::{LacksView, Size, Unit, With};
pub use crate::outcome::AnyValue;
use crate::outcome::{Auto, Classified, Completes, Judge};
use crate::policy::{Halve, Policy};
use crate::ranks::ended;
use crate::switches::Switches;
pub use crate::task::Task;
pub use crate::{done, judge, site, size};

/// The builder of an annotated function.
#[inline]
pub fn at<C: SizeCache + 'static>(site: &'static Site) -> With<'static, Halve, Auto, ()> {
    With::new(C::shared(), Some(site))
}

/// Judges by the user's function.
pub fn classified<F>(classify: F) -> Classified<F> {
    Classified(classify)
}

/// An `i64` option of the function `name` as a size.
///
/// # Panics
/// If it is negative; 0 is refused later, like any other size that is 0.
pub fn size(name: &str, option: &str, value: i64) -> usize {
    usize::try_from(value).unwrap_or_else(|_| panic!("{name}: {option} {value}: must be at least 1"))
}

/// The call site of an annotated function.
#[doc(hidden)]
#[macro_export]
macro_rules! site {
    ($name:literal) => {{
        static SITE: $crate::private::Site = $crate::private::Site::new(
            ::core::concat!(::core::module_path!(), "::", $name),
            ::core::file!(),
            ::core::line!(),
            ::core::column!(),
        )
        .of_version(::core::option_env!("CARGO_PKG_VERSION"));
        &SITE
    }};
}

/// Chooses how a return type is judged, with the required traits in scope.
#[doc(hidden)]
#[macro_export]
macro_rules! judge {
    ($ty:ty) => {{
        use $crate::private::{ViaResult as _, ViaValue as _};
        (&$crate::private::Via::<$ty>::new()).judge()
    }};
}

/// An `i64` option of an annotated function as a size.
#[doc(hidden)]
#[macro_export]
macro_rules! size {
    ($name:literal, $option:literal, $value:expr) => {
        $crate::private::size(::core::concat!(::core::module_path!(), "::", $name), $option, $value)
    };
}

/// Returns from an async function when its attempt is the last.
#[doc(hidden)]
#[macro_export]
macro_rules! done {
    ($done:ident) => {
        if let ::core::option::Option::Some(value) = $done {
            return value;
        }
    };
}

/// True if `TOMA_DISABLE=1` is set, so that bodies run once.
#[must_use]
pub fn is_disabled() -> bool {
    Switches::load().has(Switches::DISABLE)
}

/// Chooses how a return type is judged, by autoref: a `Result` by its error, all else as success.
#[derive(Debug)]
pub struct Via<R>(PhantomData<fn() -> R>);

#[expect(clippy::new_without_default, reason = "only expansions make one")]
impl<R> Via<R> {
    /// Makes the choice for the return type `R`.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Judges a known return type.
///
/// It names the type, so that a `_` in it is inferred. It has no bounds on the type, so that an error type that is
/// not classified is reported once.
#[derive(Debug)]
pub struct Of<R> {
    failure: fn(&R) -> Option<Failure>,
    elsewhere: fn(&ended::Error) -> Option<R>,
}

impl<R> Judge<R, ()> for Of<R> {
    #[inline]
    fn failure(&self, outcome: &R) -> Option<Failure> {
        (self.failure)(outcome)
    }

    fn elsewhere(&self, error: &ended::Error) -> R {
        (self.elsewhere)(error).unwrap_or_else(|| ended::raise(error))
    }
}

/// Chosen first, if the return type is a `Result`.
pub trait ViaResult {
    /// The return type of the body.
    type Returned;

    /// The error type of the `Result`.
    type Error;

    /// Judges by the error.
    fn judge<M>(&self) -> Of<Self::Returned>
    where
        Self::Error: Classify<M>;
}

impl<T, E> ViaResult for Via<Result<T, E>> {
    type Returned = Result<T, E>;
    type Error = E;

    fn judge<M>(&self) -> Of<Result<T, E>>
    where
        E: Classify<M>,
    {
        Of {
            failure: |outcome| outcome.as_ref().err().map(Classify::classify),
            elsewhere: |error| E::of_ranks(error).map(Err),
        }
    }
}

/// Chosen for all other return types.
pub trait ViaValue {
    /// The return type of the body.
    type Returned;

    /// Judges every value as a success.
    fn judge(&self) -> Of<Self::Returned>;
}

impl<R> ViaValue for &Via<R> {
    type Returned = R;

    fn judge(&self) -> Of<R> {
        // Behind a type parameter the traits cannot see a `Result`, and its errors would be taken for
        // successes. So would those of a boxed future, which runs after the attempt.
        let name = type_name::<R>();
        assert!(
            !name.starts_with("core::pin::Pin<alloc::boxed::Box<dyn core::future::future::Future<"),
            "return type `{name}`: the attempt would end before the future runs: await it in an `async fn`"
        );
        assert!(
            !name.starts_with("core::result::Result<"),
            "return type `{name}`: an attribute cannot classify errors behind a type parameter: write `Result<T, E>`"
        );
        Of { failure: |_| None, elsewhere: |_| None }
    }
}

/// The forms of attributes. The options are set, and sizes are of the function's own type.
impl<P: Policy, K> With<'_, P, K, ()> {
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn run_batch<S: Size, R, M>(self, body: impl FnMut(S) -> R) -> R
    where
        K: Judge<R, M>,
    {
        self.batch_at(Location::caller(), body)
    }
}

impl<P: Policy, K, U: Unit> With<'_, P, K, (), U> {
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn run_range<S: Size, R: Completes, M>(self, start: S, end: S, body: impl FnMut(S, S) -> R) -> R
    where
        K: Judge<R, M>,
    {
        self.range_at(Location::caller(), (start, end), body)
    }

    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn run_chunked<D: Chunked<C>, C, S: Size, R: Completes, M>(
        self,
        data: D,
        body: impl FnMut(Chunk<'_, D, C>, S, S) -> R,
    ) -> R
    where
        K: Judge<R, M>,
    {
        self.chunked_at(Location::caller(), data, body)
    }
}

/// The forms of attributes with `before_retry`. One closure is both body and undo, selected by its last argument, so
/// that both can borrow the same arguments.
impl<P: Policy, K> With<'_, P, K, ()> {
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn undo_batch<S: Size, R, M>(self, body: impl FnMut(S, bool) -> Option<R>) -> R
    where
        K: Judge<R, M>,
    {
        let both = RefCell::new(body);
        let undo = |failed: Range<usize>| drop(both.borrow_mut()(S::from_count(failed.len()), true));
        self.before_retry(undo).batch_at(Location::caller(), |size| value(both.borrow_mut()(size, false)))
    }
}

impl<P: Policy, K, U: Unit> With<'_, P, K, (), U> {
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn undo_range<S: Size, R: Completes, M>(
        self,
        start: S,
        end: S,
        body: impl FnMut(S, S, bool) -> Option<R>,
    ) -> R
    where
        K: Judge<R, M>,
    {
        let both = RefCell::new(body);
        let undo = |failed: Range<usize>| {
            drop(both.borrow_mut()(start.plus(failed.start), start.plus(failed.end), true));
        };
        let body = |start, end| value(both.borrow_mut()(start, end, false));
        self.before_retry(undo).range_at(Location::caller(), (start, end), body)
    }

    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn undo_chunked<D: Chunked<C>, C, S: Size, R: Completes, M>(
        self,
        mut data: D,
        mut body: impl FnMut(Chunk<'_, D, C>, S, S, bool) -> Option<R>,
    ) -> R
    where
        K: Judge<R, M>,
    {
        let dim = self.core.dim;
        let items = data.extent(dim);
        let lacks_view = LacksView::default();
        self.shaped(&data).undo_range(0, items, |start, end, undo| {
            if undo && lacks_view.take() {
                return None;
            }
            let mut held = lacks_view.hold(|| data.hold(dim, start..end));
            body(D::lend(&mut held), S::from_count(start), S::from_count(end), undo)
        })
    }
}

fn value<R>(returned: Option<R>) -> R {
    returned.expect("the expansion returns a value unless it undoes a piece")
}
