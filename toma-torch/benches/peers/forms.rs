//! Forms of a loop: by hand, and as functions with an attribute.

use std::cmp::min;

use serde::Serialize;
use tch::{TchError, Tensor};
use toma::cache::SizeCache;
use toma::memory::MemorySource;
use toma::policy::Policy;

/// Rows to process.
pub(crate) trait Rows {
    fn rows(&self) -> usize;
    /// The initial size of a call without a learned one.
    fn initial(&self) -> usize;
    /// A size that always fits: the largest one divided by `share`.
    fn fixed(&self, share: usize) -> usize;
    fn data(&self) -> &Tensor;
    fn memory(&self) -> &dyn MemorySource;
    fn whole(&self, batch_size: usize) -> Result<(), TchError>;
    fn piece(&self, start: usize, end: usize) -> Result<(), TchError>;
    fn chunk(&self, chunk: &Tensor, start: usize, end: usize) -> Result<(), TchError>;
}

/// The options of a call.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) cache: &'a dyn SizeCache,
    pub(crate) policy: &'a dyn Policy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    Batch,
    Range,
    Chunked,
}

impl Form {
    pub(crate) const ALL: [Self; 3] = [Self::Batch, Self::Range, Self::Chunked];

    /// Loops by hand, without a library, as one can if the limit is known.
    pub(crate) fn by_hand(self, rows: &impl Rows, share: usize) -> Result<(), TchError> {
        let (size, end) = (rows.fixed(share), rows.rows());
        let mut pieces = (0..end).step_by(size).map(|start| (start, min(start + size, end)));
        match self {
            Self::Batch => rows.whole(size),
            Self::Range => pieces.try_for_each(|(start, end)| rows.piece(start, end)),
            Self::Chunked => pieces.try_for_each(|(start, end)| {
                rows.chunk(&rows.data().f_narrow(0, number(start), number(end - start))?, start, end)
            }),
        }
    }

    pub(crate) fn adapting(self, rows: &impl Rows, choice: Choice<'_>) -> Result<(), TchError> {
        match self {
            Self::Batch => batch(rows, choice),
            Self::Range => range(0, rows.rows(), rows, choice),
            Self::Chunked => chunked(rows.data(), rows, choice),
        }
    }
}

#[toma::batch(initial = rows.initial(), cache = &*choice.cache, policy = choice.policy, device = rows.memory())]
fn batch(batch_size: usize, rows: &impl Rows, choice: Choice<'_>) -> Result<(), TchError> {
    rows.whole(batch_size)
}

#[toma::range(initial = rows.initial(), cache = &*choice.cache, policy = choice.policy, device = rows.memory())]
fn range(start: usize, end: usize, rows: &impl Rows, choice: Choice<'_>) -> Result<(), TchError> {
    rows.piece(start, end)
}

#[toma::chunked(initial = rows.initial(), cache = &*choice.cache, policy = choice.policy, device = rows.memory())]
fn chunked(
    chunk: &Tensor,
    start: usize,
    end: usize,
    rows: &impl Rows,
    choice: Choice<'_>,
) -> Result<(), TchError> {
    rows.chunk(chunk, start, end)
}

/// A size in libtorch's type.
pub(crate) fn number(size: usize) -> i64 {
    i64::try_from(size).expect("a size is small")
}
