//! Every form of the library, run on the same scene.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use toma::cache::SizeCache;
use toma::device::Ladder;
use toma::policy::Policy;

use crate::executor::block_on;
use crate::rules::attributes;
use crate::rules::stage::{Fault, Stage};
use crate::rules::twin::Rules;

/// Every form, with the different return types of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Batch,
    Range,
    /// The body returns nothing.
    RangeUnit,
    /// The errors of the body are boxed, and no `classify` option is given.
    RangeBoxed,
    Map,
    /// The body returns plain values.
    MapPlain,
    Fold,
    Slice,
    SliceMut,
    Tuple,
    AttributeBatch,
    AttributeBatchI64,
    AttributeRange,
    AttributeRangeI64,
    /// A form without `before_retry`, which uses another code path of the library.
    AttributeRangeUnit,
    AttributeChunked,
    AttributeChunkedI64,
    /// A form without `initial`.
    AttributeChunkedWhole,
    AttributeBatchAsync,
    AttributeRangeAsync,
    AttributeChunkedAsync,
}

/// One call with all of its options.
pub(crate) struct Scene<'a> {
    pub(crate) total: usize,
    /// Start of the range: 0 for forms that take none.
    pub(crate) offset: usize,
    pub(crate) rules: Rules,
    pub(crate) policy: &'a dyn Policy,
    pub(crate) cache: &'a dyn SizeCache,
    pub(crate) stage: &'a Stage,
    pub(crate) deadline: Option<Duration>,
    pub(crate) ladder: Ladder<'static>,
    /// For each item, the number of the attempt that wrote it last, plus one.
    pub(crate) out: RefCell<Vec<usize>>,
}

impl Scene<'_> {
    pub(crate) fn undo(&self, failed: Range<usize>) {
        self.stage.undo(failed.start - self.offset, failed.end - self.offset);
    }
}

/// Ending of a call.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Success, with the numbers of the attempts whose values came back, for forms that return values.
    Done(Option<Vec<usize>>),
    Error(Fault),
    Panic(Box<dyn Any + Send>),
}

impl Ending {
    pub(crate) fn of(call: impl FnOnce() -> Result<Option<Vec<usize>>, Fault>) -> Self {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(values)) => Self::Done(values),
            Ok(Err(fault)) => Self::Error(fault),
            Err(payload) => Self::Panic(payload),
        }
    }
}

/// Name under which sizes can be seeded.
pub(crate) const NAME: &str = "scene";

impl Form {
    /// Returns true if errors are classified by the test's own function, which knows the requested bytes.
    pub(crate) fn knows_requested(self) -> bool {
        !matches!(self, Self::RangeBoxed | Self::Map)
    }

    pub(crate) fn panics_only(self) -> bool {
        matches!(self, Self::RangeUnit | Self::MapPlain | Self::AttributeRangeUnit)
    }

    pub(crate) fn undoes(self) -> bool {
        self != Self::AttributeRangeUnit
    }

    pub(crate) fn is_batch(self) -> bool {
        matches!(
            self,
            Self::Batch | Self::AttributeBatch | Self::AttributeBatchI64 | Self::AttributeBatchAsync
        )
    }

    fn is_chunked(self) -> bool {
        matches!(self, Self::Slice | Self::SliceMut | Self::Tuple | Self::AttributeChunked)
            || matches!(
                self,
                Self::AttributeChunkedI64 | Self::AttributeChunkedWhole | Self::AttributeChunkedAsync
            )
    }

    pub(crate) fn has_range(self) -> bool {
        !self.is_batch() && !self.is_chunked()
    }

    pub(crate) fn perform(self, scene: &Scene<'_>) -> Ending {
        Ending::of(|| self.dispatch(scene))
    }

    fn dispatch(self, scene: &Scene<'_>) -> Result<Option<Vec<usize>>, Fault> {
        let Range { start, end } = whole(scene);
        match self {
            Self::Batch => return Ok(Some(vec![batch(scene)?])),
            Self::Map => return map(scene).map(Some),
            Self::MapPlain => return Ok(Some(map_plain(scene))),
            Self::Fold => return fold(scene).map(Some),
            Self::AttributeBatch => return Ok(Some(vec![attributes::batch(scene)?])),
            Self::AttributeBatchI64 => return Ok(Some(vec![attributes::batch_i64(scene)?])),
            Self::AttributeBatchAsync => return Ok(Some(vec![block_on(attributes::batch_async(scene))?])),
            Self::Range => range(scene)?,
            Self::RangeUnit => range_unit(scene),
            Self::RangeBoxed => range_boxed(scene).map_err(unboxed)?,
            Self::Slice => slice(scene)?,
            Self::SliceMut => slice_mut(scene)?,
            Self::Tuple => tuple(scene)?,
            Self::AttributeRange => attributes::range(start, end, scene)?,
            Self::AttributeRangeI64 => {
                let start = -(scene.offset as i64);
                attributes::range_i64(start, start + scene.total as i64, scene)?;
            }
            Self::AttributeRangeUnit => attributes::range_unit(start, end, scene),
            Self::AttributeRangeAsync => block_on(attributes::range_async(start, end, scene))?,
            Self::AttributeChunked => with_out(scene, |out| attributes::chunked(out, scene))?,
            Self::AttributeChunkedI64 => attributes::chunked_i64(&numbers(scene.total), scene)?,
            Self::AttributeChunkedWhole => with_out(scene, |out| attributes::chunked_whole(out, scene))?,
            Self::AttributeChunkedAsync => {
                with_out(scene, |out| block_on(attributes::chunked_async(out, scene)))?;
            }
        }
        Ok(None)
    }
}

/// Makes an inline form with these sizes.
macro_rules! with_sizes {
    ($rules:expr) => {{
        let rules: &$crate::rules::twin::Rules = $rules;
        toma::execute::with::<toma::NoCache>()
            .min(rules.min)
            .max(rules.max)
            .multiple_of(rules.multiple_of)
            .max_attempts(rules.max_attempts)
            .name($crate::rules::forms::NAME)
    }};
}

pub(crate) use with_sizes;

/// Makes an inline form with all options of a scene.
macro_rules! with {
    ($scene:expr) => {{
        let with = with_sizes!(&$scene.rules).cache($scene.cache).policy($scene.policy).device($scene.stage);
        let with = with.ladder($scene.ladder).before_retry(|failed| $scene.undo(failed));
        match $scene.deadline {
            Some(deadline) => with.deadline(deadline),
            None => with,
        }
    }};
}

fn batch(scene: &Scene<'_>) -> Result<usize, Fault> {
    let with = with!(scene).classify(Fault::failure);
    with.batch(scene.rules.initial, |size| scene.stage.act(0, size))
}

fn range(scene: &Scene<'_>) -> Result<(), Fault> {
    let with = with!(scene).classify(Fault::failure);
    with.range(whole(scene), scene.rules.initial, |start, end| body(scene, start, end).map(drop))
}

fn range_unit(scene: &Scene<'_>) {
    with!(scene).range(whole(scene), scene.rules.initial, |start, end| certain(body(scene, start, end)));
}

fn range_boxed(scene: &Scene<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
    with!(scene).range(whole(scene), scene.rules.initial, |start, end| {
        Ok(body(scene, start, end).map(drop).map_err(Outer)?)
    })
}

fn map(scene: &Scene<'_>) -> Result<Vec<usize>, Fault> {
    with!(scene).map(whole(scene), scene.rules.initial, |start, end| body(scene, start, end))
}

fn map_plain(scene: &Scene<'_>) -> Vec<usize> {
    with!(scene).map(whole(scene), scene.rules.initial, |start, end| {
        body(scene, start, end).expect("a body that only panics returned an error")
    })
}

fn fold(scene: &Scene<'_>) -> Result<Vec<usize>, Fault> {
    let with = with!(scene).classify(Fault::failure);
    with.fold(whole(scene), scene.rules.initial, Vec::new(), |so_far, start, end| {
        let mut next = so_far.clone();
        next.push(body(scene, start, end)?);
        Ok(next)
    })
}

fn slice(scene: &Scene<'_>) -> Result<(), Fault> {
    let data = numbers(scene.total);
    let with = with!(scene).classify(Fault::failure);
    with.chunked(&data[..], scene.rules.initial, |chunk, start, end| {
        assert!(chunk.iter().copied().eq(start..end), "{chunk:?} is not the chunk {start}..{end}");
        at(scene, start, end).map(drop)
    })
}

fn slice_mut(scene: &Scene<'_>) -> Result<(), Fault> {
    let with = with!(scene).classify(Fault::failure).dim(-1);
    with_out(scene, |out| {
        with.chunked(out, scene.rules.initial, |chunk, start, end| write(chunk, start, end, scene))
    })
}

fn tuple(scene: &Scene<'_>) -> Result<(), Fault> {
    let data = numbers(scene.total);
    let with = with!(scene).classify(Fault::failure);
    with_out(scene, |out| {
        with.chunked((&data[..], out), scene.rules.initial, |(input, output), start, end| {
            assert!(input.iter().copied().eq(start..end), "{input:?} is not the chunk {start}..{end}");
            write(output, start, end, scene)
        })
    })
}

fn whole(scene: &Scene<'_>) -> Range<usize> {
    scene.offset..scene.offset + scene.total
}

/// Runs the body of forms over the user's own range.
pub(crate) fn body(scene: &Scene<'_>, start: usize, end: usize) -> Result<usize, Fault> {
    at(scene, start - scene.offset, end - scene.offset)
}

/// Runs an attempt that writes its items before it fails, as bodies do.
pub(crate) fn at(scene: &Scene<'_>, start: usize, end: usize) -> Result<usize, Fault> {
    scene.out.borrow_mut()[start..end].fill(scene.stage.attempts() + 1);
    scene.stage.act(start, end)
}

/// Runs an attempt of a body that receives the slice to write to.
pub(crate) fn write(chunk: &mut [usize], start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
    assert_eq!(chunk.len(), end - start);
    chunk.fill(scene.stage.attempts() + 1);
    scene.stage.act(start, end).map(drop)
}

fn with_out<R>(scene: &Scene<'_>, run: impl FnOnce(&mut [usize]) -> R) -> R {
    run(&mut scene.out.borrow_mut())
}

pub(crate) fn certain(result: Result<usize, Fault>) {
    result.expect("a body that only panics returned an error");
}

fn numbers(total: usize) -> Vec<usize> {
    (0..total).collect()
}

pub(crate) fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(size: i64) -> usize {
    usize::try_from(size).expect("a size or position is negative")
}

/// An error that is out of memory only through its source.
#[derive(Debug)]
struct Outer(Fault);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the step failed")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn unboxed(error: Box<dyn Error + Send + Sync>) -> Fault {
    error.downcast::<Outer>().expect("the error is the one the body returned").0
}
