//! The cost of a call and of a chunk beyond their bodies, when nothing fails.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use tch::{TchError, Tensor};
use toma::memory::{Host, MemorySource};

use crate::Result;
use crate::cases::Figures;
use crate::forms::{Form, Rows};
use crate::layer::{run_out_of_memory, zeros};

/// Shorter times are measured with more calls.
const ENOUGH: Duration = Duration::from_millis(20);

/// Bodies with no work. While there is a limit, more than one row does not fit.
pub(crate) struct Empty {
    data: Tensor,
    rows: usize,
    limit: Cell<usize>,
    chunks: Cell<u32>,
}

impl Empty {
    fn new() -> Result<Self> {
        let mut empty = Self { data: Tensor::new(), rows: 0, limit: Cell::new(1), chunks: Cell::new(0) };
        empty.resize(2)?;
        Ok(empty)
    }

    fn resize(&mut self, rows: usize) -> Result<()> {
        (self.rows, self.data) = (rows, zeros(rows, 1)?);
        self.chunks.set(0);
        Ok(())
    }
}

impl Rows for Empty {
    fn rows(&self) -> usize {
        self.rows
    }

    fn initial(&self) -> usize {
        2
    }

    fn fixed(&self, _: usize) -> usize {
        1
    }

    fn data(&self) -> &Tensor {
        &self.data
    }

    fn memory(&self) -> &dyn MemorySource {
        Host::shared()
    }

    fn whole(&self, batch_size: usize) -> std::result::Result<(), TchError> {
        self.piece(0, batch_size)
    }

    fn piece(&self, start: usize, end: usize) -> std::result::Result<(), TchError> {
        self.chunks.set(black_box(self.chunks.get() + 1));
        if end - start > self.limit.get() { run_out_of_memory() } else { Ok(()) }
    }

    fn chunk(&self, _: &Tensor, start: usize, end: usize) -> std::result::Result<(), TchError> {
        self.piece(start, end)
    }
}

/// Microseconds per call with one chunk, and per chunk beyond it.
///
/// The loop has failed once before, so that a cache has an entry.
pub(crate) fn measure(
    is_test: bool,
    form: Form,
    call: impl Fn(&Empty) -> std::result::Result<(), TchError>,
) -> Result<Figures> {
    let (mut empty, enough) = (Empty::new()?, if is_test { Duration::ZERO } else { ENOUGH });
    call(&empty)?;
    empty.limit.set(usize::MAX);
    empty.resize(1)?;
    let one = seconds_per_call(enough, || call(&empty))?;
    let mut figures = Figures::from([("call_us".to_owned(), one * 1e6)]);
    if form != Form::Batch {
        figures.insert("chunk_us".to_owned(), seconds_per_chunk(enough, &mut empty, one, call)? * 1e6);
    }
    Ok(figures)
}

fn seconds_per_call(enough: Duration, call: impl Fn() -> std::result::Result<(), TchError>) -> Result<f64> {
    let mut calls = 1_u32;
    loop {
        let begin = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        let elapsed = begin.elapsed();
        if elapsed >= enough {
            return Ok(elapsed.as_secs_f64() / f64::from(calls));
        }
        calls *= 2;
    }
}

fn seconds_per_chunk(
    enough: Duration,
    empty: &mut Empty,
    one: f64,
    call: impl Fn(&Empty) -> std::result::Result<(), TchError>,
) -> Result<f64> {
    let mut rows = 8;
    loop {
        empty.resize(rows)?;
        let begin = Instant::now();
        call(empty)?;
        let elapsed = begin.elapsed();
        if elapsed >= enough {
            return Ok((elapsed.as_secs_f64() - one) / f64::from(empty.chunks.get() - 1));
        }
        rows *= 2;
    }
}
