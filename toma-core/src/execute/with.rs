use std::borrow::Cow;
use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::unit::{EvenItems, Items};
use crate::cache::SizeCache;
use crate::call_site::{Above, Name, Origin, Site, hash_of};
use crate::device::Ladder;
use crate::engine::options::Options;
use crate::memory::MemorySource;
use crate::observe::Observer;
use crate::outcome::{Auto, Classified};
use crate::policy::{Calibrate, Halve, Policy};
use crate::predict::Predict;
use crate::ranks::Group;
use crate::shield;
use crate::switches::Switches;

/// An inline form with its cache and options, made by [`with()`](super::with()). It ends with [`batch`](With::batch),
/// [`range`](Self::range), [`chunked`](Self::chunked), [`map`](Self::map), [`fold`](Self::fold), [`iter`](Self::iter)
/// or [`stream`](Self::stream), or goes on to [`Buckets`](super::Buckets).
///
/// Sizes are in items, unless [`by_cost`](With::by_cost) gives them another unit. The sizes used are
/// multiples of `multiple_of` between the floor, the larger of `min` and `multiple_of`, and `initial`
/// or `max`; only a last piece may be smaller.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, execute};
///
/// let form = execute::with::<GlobalCache>().name("resize").multiple_of(8);
/// assert_eq!(form.map(0..100, 44, |start, end| end - start), [40, 40, 20]);
/// ```
#[must_use = "nothing runs until a form such as `range` is called"]
#[derive(Clone)]
pub struct With<'a, P, K, B, U = Items> {
    pub(crate) core: Core<'a, P>,
    pub(crate) judge: K,
    pub(crate) undo: B,
    pub(crate) unit: U,
}

/// Options of the call; judge and undo belong to the driver.
#[derive(Clone, Debug)]
pub(crate) struct Core<'a, P> {
    pub(crate) cache: &'a dyn SizeCache,
    pub(crate) site: Option<&'static Site>,
    pub(crate) name: Option<Cow<'static, str>>,
    pub(crate) dim: isize,
    /// Start of the user's range; pieces count from 0.
    pub(crate) start: usize,
    /// Hash of the data's shape, if a prediction needs it.
    pub(crate) shape: u64,
    pub(crate) options: Options<'a>,
    pub(crate) policy: P,
}

impl<P> Core<'_, P> {
    /// The name of a call from this location.
    #[cold]
    pub(crate) fn name_at(&self, caller: Option<&'static Location<'static>>) -> Name {
        Name::of(self.name.clone(), &Origin { site: self.site, caller, above: Above::Unknown })
    }
}

impl<'a> With<'a, Halve, Auto, ()> {
    #[inline]
    pub(crate) fn new(cache: &'a dyn SizeCache, site: Option<&'static Site>) -> Self {
        let core = Core {
            cache,
            site,
            name: None,
            dim: 0,
            start: 0,
            shape: 0,
            options: Options::default(),
            policy: Halve,
        };
        Self { core, judge: Auto, undo: (), unit: Items }
    }
}

impl<'a, P, K, B, U> With<'a, P, K, B, U> {
    /// Uses this cache instead of the one chosen by type.
    #[inline]
    pub fn cache(mut self, cache: &'a dyn SizeCache) -> Self {
        self.core.cache = cache;
        self
    }

    /// Never uses a size under `min`, except for a last piece that is smaller.
    #[inline]
    pub fn min(mut self, min: usize) -> Self {
        self.core.options.sizes.min = min;
        self
    }

    /// Never uses a size over `max`.
    #[inline]
    pub fn max(mut self, max: usize) -> Self {
        self.core.options.sizes.max = Some(max);
        self
    }

    /// Uses multiples of `multiple_of` only, except for a last piece.
    #[inline]
    pub fn multiple_of(mut self, multiple_of: usize) -> Self {
        self.core.options.sizes.multiple_of = multiple_of;
        self
    }

    /// Makes at most `max_attempts` attempts at one piece.
    ///
    /// All count: those at every size, those that try a size again, and those in
    /// [fallback](crate::device::falls_back). So a size that is halved twice before nothing smaller is left takes
    /// four attempts until it falls back.
    ///
    /// The form panics if it is 0.
    #[inline]
    pub fn max_attempts(mut self, max_attempts: usize) -> Self {
        self.core.options.max_attempts = Some(max_attempts);
        self
    }

    /// Decides on no retry once this time has passed since the call began: a later failure is passed on. A retry that
    /// was decided before, and waits for the device, may start later.
    #[inline]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.core.options.deadline = Some(deadline);
        self
    }

    /// Makes the same attempts at the same sizes as all other [ranks](crate::ranks): out of memory on one is out of
    /// memory on all. With one rank it changes nothing.
    ///
    /// A body must not wait for other ranks itself (NCCL, MPI), because one of them may have failed before. Compute in
    /// the body, and reduce when the call has returned.
    ///
    /// The form panics inside of an attempt of another call with `ranks`.
    #[inline]
    pub fn ranks(mut self, ranks: &'a dyn Group) -> Self {
        self.core.options.ranks = Some(ranks).filter(|ranks| ranks.size() > 1);
        self
    }

    /// Gives calls with different keys entries of their own in the size cache, for instance one for each image size.
    #[inline]
    pub fn key(mut self, key: impl Hash) -> Self {
        self.core.options.user = hash_of(key);
        self
    }

    /// Cuts along this axis; negative counts from the last. Only `chunked` has an axis; the other forms ignore it.
    #[inline]
    pub fn dim(mut self, dim: isize) -> Self {
        self.core.dim = dim;
        self
    }

    /// Sets the memory that the work allocates from; the host's unless given.
    ///
    /// Without this option the host's free memory selects the remembered size and judges transient failures. A policy
    /// that [measures memory](crate::policy::Needs) gets no reading, because the memory that runs out may be another.
    /// If it is the host's, name the host:
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{Adaptive, GlobalCache, memory::Host};
    ///
    /// let with = toma::execute::with::<GlobalCache>().policy(Adaptive::default()).device(Host::shared());
    /// assert_eq!(with.map(0..8, 4, |start, end| end - start), [4, 4]);
    /// ```
    #[inline]
    pub fn device(mut self, device: &'a dyn MemorySource) -> Self {
        self.core.options.device = Some(device);
        self
    }

    /// Chooses the rungs that are tried when memory runs out, in addition to a smaller size: see the
    /// [ladder](crate::device#the-ladder).
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{GlobalCache, device::Ladder, execute};
    ///
    /// let patient = Ladder::default().wait(std::time::Duration::from_secs(60));
    /// let pieces = execute::with::<GlobalCache>().ladder(patient).map(0..8, 4, |start, end| end - start);
    /// assert_eq!(pieces, [4, 4]);
    /// ```
    #[inline]
    pub fn ladder(mut self, ladder: Ladder<'a>) -> Self {
        self.core.options.ladder = Some(ladder);
        self
    }

    /// Starts with the size that `predict` predicts to fit the [`device`](Self::device), where the size cache has no
    /// entry for the call.
    ///
    /// The prediction is made before the first attempt, in the unit of sizes: items, or [costs](With::by_cost). A
    /// policy that measures memory asks for it again for later pieces. It is ignored where a call like this one has
    /// met a limit before, and with `TOMA_PREDICT=0`. If not even the smallest size is predicted to fit, attempts are
    /// made all the same, and [`Report::shortfall`](crate::report::Report::shortfall) has the missing bytes.
    ///
    /// A `predict` that runs the body dry, as `toma::torch::DryRun` does, runs it when the form is called, also for an
    /// [iterator](Self::iter). The body gets the first items, at several sizes; its side effects are undone by
    /// [`before_retry`](Self::before_retry). An asynchronous body cannot be run dry.
    ///
    /// The form panics when there is no `device`. [`Predict`] has an example.
    #[inline]
    pub fn predict(mut self, predict: &'a dyn Predict) -> Self {
        self.core.options.predict = Some(predict);
        self
    }

    /// Hash of the user's `key` option, for caches outside of this crate.
    #[doc(hidden)]
    pub fn user_key(&self) -> u64 {
        self.core.options.user
    }

    /// Never shrinks: the smallest size is the largest that the other options leave for so many items.
    #[doc(hidden)]
    pub fn unsplit(mut self, items: usize) -> Self {
        let sizes = &mut self.core.options.sizes;
        let largest = sizes.max.map_or(items, |max| max.min(items));
        let multiple = largest.checked_div(sizes.multiple_of).map_or(0, |times| times * sizes.multiple_of);
        sizes.min = sizes.min.max(multiple);
        self
    }

    /// Gives up instead of shrinking once the flag is set: the attempt works on all items.
    #[doc(hidden)]
    pub fn shrinks_unless(mut self, is_whole: &'a AtomicBool) -> Self {
        self.core.options.is_whole = Some(is_whole);
        self
    }

    /// The largest size that the options allow.
    #[doc(hidden)]
    pub fn largest(&self) -> Option<usize> {
        self.core.options.sizes.max
    }

    /// Splits the form from its undo.
    #[doc(hidden)]
    pub fn lend_undo(self) -> (With<'a, P, K, (), U>, B) {
        (With { core: self.core, judge: self.judge, undo: (), unit: self.unit }, self.undo)
    }

    /// Drops a prediction that needs a dry run, for a body that cannot be run dry.
    #[doc(hidden)]
    pub fn without_dry_runs(mut self) -> Self {
        self.core.options.predict = self.core.options.predict.filter(|predict| !predict.runs_dry());
        self
    }

    /// True if the body should be run dry to find the first size.
    #[doc(hidden)]
    pub fn asks_dry(&self) -> bool {
        self.core.options.predict.is_some_and(Predict::runs_dry)
    }

    /// True if a body may be run dry here: not within another dry run, and not with `TOMA_PREDICT=0`.
    #[doc(hidden)]
    pub fn can_run_dry(&self) -> bool {
        !shield::is_dry() && !Switches::load().has(Switches::UNPREDICTED)
    }

    /// Reports every event of the call to `observer`.
    #[inline]
    pub fn observer(mut self, observer: &'a dyn Observer) -> Self {
        self.core.options.observer = Some(observer);
        self
    }

    /// Sets the name in events, reports and cache entries.
    #[inline]
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.core.name = Some(name.into());
        self
    }

    /// Grows from one small piece, as far as the next one fits into `memory` by an estimate from earlier pieces.
    ///
    /// For work that ends the process if it takes too much, as on a CPU in a container, where there is no failure to
    /// learn from. Pieces are real work from the first on. Each is at most four times as large as any before, and the
    /// bytes that it is estimated to take have to fit, with a tenth to spare.
    ///
    /// The estimate is right for memory that grows linearly or quadratically with the number of items, or linearly
    /// with [costs](With::by_cost), plus a constant. Memory that grows in steps of more than a tenth, such as a `Vec`
    /// that doubles, may exceed the limit. So may a second item, if two take more than twice the bytes of one.
    ///
    /// Sizes are remembered like any others, so a later call begins with the remembered one: give other data another
    /// [`key`](Self::key), or count by [cost](With::by_cost). A batch, which is one piece, grows from call to call if
    /// its cache stores sizes. A loop inside a measured attempt does not grow, because its own peak is unknown.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// # #[cfg(target_os = "linux")] {
    /// use toma::{GlobalCache, execute, memory::Resident};
    ///
    /// let memory = Resident::now()?;
    /// let form = execute::with::<GlobalCache>().calibrated(&memory);
    /// let sizes = form.map(0..100, 100, |start, end| end - start);
    /// assert_eq!((sizes[0], sizes.iter().sum()), (1, 100));
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `memory` counts no bytes, as the host by itself; [`Resident`](crate::memory::Resident) does.
    #[track_caller]
    #[inline]
    pub fn calibrated(self, memory: &'a dyn MemorySource) -> With<'a, Calibrate, K, B, U> {
        self.device(memory).policy(Calibrate::of(memory))
    }

    /// Decides sizes by `policy` instead of [`Halve`].
    #[inline]
    pub fn policy<Q: Policy>(self, policy: Q) -> With<'a, Q, K, B, U> {
        let Core { cache, site, name, dim, start, shape, options, policy: _ } = self.core;
        let core = Core { cache, site, name, dim, start, shape, options, policy };
        With { core, judge: self.judge, undo: self.undo, unit: self.unit }
    }

    /// Runs `undo` with the failed piece before each retry, to undo the failed attempt's changes to borrowed state.
    /// It runs after the failed attempt's values are dropped.
    ///
    /// The body and `undo` are two closures: share state that both change in a `RefCell` or `Cell`.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use std::cell::RefCell;
    /// use toma::{NoCache, classify::OutOfMemory, execute};
    ///
    /// let rows = RefCell::new(Vec::new());
    /// let form = execute::with::<NoCache>().before_retry(|failed| rows.borrow_mut().truncate(failed.start));
    /// form.range(0..8, 8, |start, end| {
    ///     rows.borrow_mut().extend(start..end);
    ///     if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
    /// })?;
    /// assert_eq!(*rows.borrow(), [0, 1, 2, 3, 4, 5, 6, 7]);
    /// # Ok::<(), OutOfMemory>(())
    /// ```
    #[inline]
    pub fn before_retry<V: FnMut(std::ops::Range<usize>)>(self, undo: V) -> With<'a, P, K, V, U> {
        With { core: self.core, judge: self.judge, undo, unit: self.unit }
    }

    /// Classifies the body's errors by `classify`, which takes `&E` and returns a [`Class`](crate::classify::Class)
    /// or a [`Failure`](crate::classify::Failure): for error types that are no `std::error::Error`, or whose codes say
    /// more than their texts.
    #[inline]
    pub fn classify<F>(self, classify: F) -> With<'a, P, Classified<F>, B, U> {
        self.judge(Classified(classify))
    }

    /// Judges outcomes by `judge`; the attributes choose it by return type.
    #[doc(hidden)]
    #[inline]
    pub fn judge<J>(self, judge: J) -> With<'a, P, J, B, U> {
        With { core: self.core, judge, undo: self.undo, unit: self.unit }
    }

    /// Sets the largest size; without it, a range or a chunked value starts with the whole.
    #[doc(hidden)]
    #[inline]
    pub fn initial(mut self, initial: usize) -> Self {
        self.core.options.sizes.initial = Some(initial);
        self
    }
}

impl<'a, P, K, B> With<'a, P, K, B> {
    /// Cuts the work into as few pieces as the size allows, and these as even as can be.
    ///
    /// A last piece of a few items takes nearly as long as a full one, and a mean over that piece is a mean over few
    /// items. With `min` or `multiple_of` this option changes nothing.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{NoCache, execute};
    ///
    /// let sizes = execute::with::<NoCache>().max(4).evenly().map(0..10, 10, |start, end| end - start);
    /// assert_eq!(sizes, [4, 3, 3]);
    /// ```
    #[inline]
    pub fn evenly(self) -> With<'a, P, K, B, EvenItems> {
        self.counting(|_| EvenItems)
    }
}

impl<P: fmt::Debug, K, B, U> fmt::Debug for With<'_, P, K, B, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("With").field("core", &self.core).finish_non_exhaustive()
    }
}
