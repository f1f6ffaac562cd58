//! Runs one piece of work in every form, each with every option.

use std::fmt::Debug;
use std::ops::Range;

use toma::chunk::{Chunk, ChunkOf, Chunked, Held, axis};
use toma::{NoCache, execute};

use crate::executor::{block_on, pause};
use crate::options::{RANGE, Refused, StartsAt4, Trial};

#[derive(Clone, Copy)]
pub(crate) struct Form(pub(crate) &'static str, pub(crate) fn(&Trial<'_>) -> Result<(), Refused>);

macro_rules! with {
    ($trial:ident) => {
        match $trial.cache {
            Some(cache) => execute::with::<NoCache>().cache($trial.give("cache", cache)),
            None => execute::with::<StartsAt4>(),
        }
        .min($trial.give("min", $trial.min))
        .max($trial.give("max", $trial.max))
        .multiple_of($trial.give("multiple_of", $trial.multiple_of))
        .max_attempts($trial.give("max_attempts", $trial.max_attempts))
        .deadline($trial.give("deadline", $trial.deadline))
        .key($trial.give("key", $trial.key))
        .name($trial.give("name", $trial.name))
        .device($trial.give("device", &$trial.device))
        .ranks($trial.give("ranks", &$trial.rank))
        .observer($trial.give("observer", &$trial.observer))
        .ladder($trial.give("ladder", $trial.ladder))
        .predict($trial.give("predict", $trial.predict))
        .dim($trial.give("dim", $trial.dim))
        .policy($trial.give("policy", $trial.policy))
        .before_retry(|failed| $trial.undo(failed))
        .classify($trial.give("classify", $trial.classify))
    };
}

pub(crate) const INLINE: [Form; 8] = [
    Form("batch", |trial| {
        with!(trial).batch(trial.give("initial", trial.initial), |size| trial.attempt(0..size))
    }),
    Form("range", |trial| {
        let initial = trial.give("initial", trial.initial);
        with!(trial).range(RANGE, initial, |start, end| trial.attempt(start..end))
    }),
    Form("chunked", |trial| {
        with!(trial).chunked(GRID, trial.give("initial", trial.initial), |chunk, start, end| {
            assert_eq!(chunk, GRID.cut(trial.dim, start..end));
            trial.attempt(start..end)
        })
    }),
    Form("map", |trial| {
        let initial = trial.give("initial", trial.initial);
        let values = with!(trial).map(RANGE, initial, |start, end| trial.attempt(start..end))?;
        assert_eq!(values.len(), trial.successes());
        Ok(())
    }),
    Form("fold", |trial| {
        let items =
            with!(trial).fold(RANGE, trial.give("initial", trial.initial), 0, |items, start, end| {
                trial.attempt(start..end).map(|()| items + end - start)
            })?;
        assert_eq!(items, RANGE.len());
        Ok(())
    }),
    Form("iter", |trial| {
        let initial = trial.give("initial", trial.initial);
        let values = with!(trial).iter(RANGE, initial, |start, end| trial.attempt(start..end));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        assert_eq!(values.len(), trial.successes());
        Ok(())
    }),
    Form("stream", |trial| {
        let initial = trial.give("initial", trial.initial);
        let mut values = with!(trial).stream(RANGE, initial, async |start, end| {
            pause().await;
            trial.attempt(start..end)
        });
        while let Some(value) = block_on(values.next()) {
            value?;
        }
        Ok(())
    }),
    Form("range by cost", |trial| {
        let initial = trial.give("initial", trial.initial);
        with!(trial).by_cost(|_| 1).range(RANGE, initial, |start, end| trial.attempt(start..end))
    }),
];

/// Defines functions of one kind with attributes. In a batch, `start` is an ordinary argument.
macro_rules! functions {
    ($trial:ident $size:ident ($($asynchronous:tt)?) $($cache:tt)*) => {
        functions! {
            @ $size ($($asynchronous)?) $trial start end
            cache = $($cache)*,
            initial = $trial.give_size("initial", $trial.initial),
            min = $trial.give_size("min", $trial.min),
            max = $trial.give_size("max", $trial.max),
            multiple_of = $trial.give_size("multiple_of", $trial.multiple_of),
            max_attempts = $trial.give("max_attempts", $trial.max_attempts),
            deadline = $trial.give("deadline", $trial.deadline),
            key = $trial.give("key", $trial.key),
            name = $trial.give("name", $trial.name),
            device = $trial.give("device", &$trial.device),
            ranks = $trial.give("ranks", &$trial.rank),
            observer = $trial.give("observer", $trial.observer.clone()),
            ladder = $trial.give("ladder", $trial.ladder),
            predict = $trial.give("predict", $trial.predict),
            policy = $trial.give("policy", $trial.policy),
            before_retry = $trial.undo(items(start, end)),
            classify = $trial.give("classify", $trial.classify)
        }
    };
    (@ $size:ident ($($asynchronous:tt)?) $trial:ident $start:ident $end:ident $($options:tt)*) => {{
        #[toma::batch($($options)*)]
        $($asynchronous)? fn batch($end: $size, $start: $size, $trial: &Trial<'_>) -> Result<(), Refused> {
            pause!($($asynchronous)?);
            $trial.attempt(items($start, $end))
        }
        #[toma::range($($options)*)]
        $($asynchronous)? fn range($start: $size, $end: $size, $trial: &Trial<'_>) -> Result<(), Refused> {
            pause!($($asynchronous)?);
            $trial.attempt(items($start, $end))
        }
        #[toma::chunked($($options)*, dim = $trial.give("dim", $trial.dim))]
        $($asynchronous)? fn chunked(
            grid: Grid,
            $start: $size,
            $end: $size,
            $trial: &Trial<'_>,
        ) -> Result<(), Refused> {
            pause!($($asynchronous)?);
            assert_eq!(grid, GRID.cut($trial.dim, items($start, $end)));
            $trial.attempt(items($start, $end))
        }
        [
            Form(stringify!(#[batch] $($asynchronous)? $size), |$trial| {
                finish!($($asynchronous)? batch(0, $trial))
            }),
            Form(stringify!(#[range] $($asynchronous)? $size), |$trial| {
                let [start, end] = [RANGE.start, RANGE.end].map(|end| end.try_into().unwrap());
                finish!($($asynchronous)? range(start, end, $trial))
            }),
            Form(stringify!(#[chunked] $($asynchronous)? $size), |$trial| {
                finish!($($asynchronous)? chunked(GRID, $trial))
            }),
        ]
    }};
}

/// Awaits in the middle of an asynchronous body.
macro_rules! pause {
    () => {};
    (async) => {
        pause().await
    };
}

/// Returns the outcome of a function, asynchronous or not.
macro_rules! finish {
    (async $call:expr) => {
        block_on($call)
    };
    ($call:expr) => {
        $call
    };
}

macro_rules! every_function {
    ($trial:ident: $($cache:tt)*) => {
        [
            functions!($trial usize () $($cache)*),
            functions!($trial i64 () $($cache)*),
            functions!($trial usize (async) $($cache)*),
            functions!($trial i64 (async) $($cache)*),
        ]
        .concat()
    };
}

/// Functions whose attributes give the cache of the trial.
pub(crate) fn attributes() -> Vec<Form> {
    every_function!(trial: &*trial.give("cache", trial.cache.unwrap()))
}

/// Functions whose attributes give a cache by its type.
pub(crate) fn attributes_with_type() -> Vec<Form> {
    every_function!(trial: StartsAt4)
}

fn items<S: TryInto<usize, Error: Debug>>(start: S, end: S) -> Range<usize> {
    start.try_into().unwrap()..end.try_into().unwrap()
}

const GRID: Grid = Grid([0..240, 0..12]);

/// Data with extents along two axes and no elements.
#[derive(Debug, PartialEq)]
pub(crate) struct Grid([Range<usize>; 2]);

impl Grid {
    fn cut(&self, dim: isize, items: Range<usize>) -> Self {
        let mut axes = self.0.clone();
        axes[axis(dim, 2)] = items;
        Self(axes)
    }
}

impl ChunkOf<'_> for Grid {
    type Held = Self;
    type Chunk = Self;
}

impl Chunked for Grid {
    fn extent(&self, dim: isize) -> usize {
        self.0[axis(dim, 2)].len()
    }

    fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self> {
        self.cut(dim, range)
    }

    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        Self(held.0.clone())
    }
}
