//! `dim`: the axis along which chunks are cut. Only chunked data has axes.

use std::ops::Range;

use toma::chunk::{Chunk, ChunkOf, Chunked, Held, axis};
use toma::{NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<isize>;

#[test]
fn inline_chunked() {
    effect(|trial| {
        execute::with::<NoCache>().dim(trial.given).chunked(GRID, 16, |chunk, start, end| {
            chunk.check(trial.given, end - start);
            trial.attempt(start, end)
        })
    });
}

macro_rules! chunked_dim_form {
    ($cell:ident ($size:ty) ($($asynchronous:tt)?)) => {
        #[test]
        fn $cell() {
            #[toma::chunked(initial = 16, cache = NoCache, dim = trial.given)]
            $($asynchronous)? fn annotated(
                grid: Grid,
                start: $size,
                end: $size,
                trial: &Trial,
            ) -> Result<(), Error> {
                pause!($($asynchronous)?);
                grid.check(trial.given, usize::try_from(end - start).unwrap());
                trial.attempt(start, end)
            }
            effect(|trial| finish!($($asynchronous)? annotated(GRID, trial)));
        }
    };
}

chunked_dim_form! { chunked_usize (usize) () }
chunked_dim_form! { chunked_i64 (i64) () }
chunked_dim_form! { chunked_usize_async (usize) (async) }
chunked_dim_form! { chunked_i64_async (i64) (async) }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let steps = |dim| {
        let trial = Trial::giving(dim, 8);
        form(&trial).unwrap();
        trial.steps()
    };
    assert_eq!(steps(0), [12, 6]);
    assert_eq!(steps(1), [16, 8]);
    assert_eq!(steps(-1), steps(1));
    assert_eq!(steps(-2), steps(0));
}

const GRID: Grid = Grid([12, 48]);

/// The lengths of two axes: all there is to see of data that is cut.
#[derive(Clone, Copy)]
struct Grid([usize; 2]);

impl Grid {
    /// Panics unless this is a chunk of `length` items along `dim`, and whole along the other axis.
    fn check(self, dim: isize, length: usize) {
        let mut lengths = GRID.0;
        lengths[axis(dim, 2)] = length;
        assert_eq!(self.0, lengths);
    }
}

impl ChunkOf<'_> for Grid {
    type Held = Self;
    type Chunk = Self;
}

impl Chunked for Grid {
    fn extent(&self, dim: isize) -> usize {
        self.0[axis(dim, 2)]
    }

    fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self> {
        let mut held = *self;
        held.0[axis(dim, 2)] = range.len();
        held
    }

    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        *held
    }
}
