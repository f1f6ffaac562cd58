//! Recorded forwards: of a piece for real, and of any number of items in a dry run.

use std::ops::{ControlFlow, Range};

use tch::Tensor;
use toma_core::Outcome;
use toma_plan::Judged;
use toma_trace::Trace;

use super::dry;
use super::making::wide;
use crate::cpu;
use crate::error::Error;
use crate::ffi::Recording;
use crate::record::trace_of;

/// Runs a piece of the data. A recording gets marks where the data are cut and where the result is taken.
pub(crate) trait Run<R>: FnMut(Option<&Recording>, Range<usize>) -> R {}

impl<R, F: FnMut(Option<&Recording>, Range<usize>) -> R> Run<R> for F {}

/// Runs a piece. Returns `Err` if it has failed, otherwise its forward if that could be recorded.
pub(super) fn recorded<R, S>(piece: &Range<usize>, run: &mut impl Run<R>) -> (R, Result<Option<Trace>, ()>)
where
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
{
    cpu::count();
    let Ok(recording) = Recording::begin() else { return (run(None, piece.clone()), Ok(None)) };
    let outcome = run(Some(&recording), piece.clone());
    match outcome.branch::<Tensor>() {
        ControlFlow::Break(failed) => (failed, Err(())),
        ControlFlow::Continue(result) => (R::of(result), Ok(trace_of(&recording).ok())),
    }
}

pub(super) fn judged<R, S>(
    sizes: [u32; 2],
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) -> Option<Judged>
where
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
{
    let [small, large] = sizes.map(wide);
    let [(one, _), (other, _)] = [dry_trace(small, 1.0, run, undo)?, dry_trace(large, 1.0, run, undo)?];
    Judged::of([(sizes[0], &one), (sizes[1], &other)]).ok()
}

/// Returns the forward of so many items in a dry run that answers `answer` for values that only data know, and the
/// operators that took it; `None` if the body cannot run dry.
pub(super) fn dry_trace<R, S>(
    size: usize,
    answer: f64,
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) -> Option<(Trace, Vec<String>)>
where
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
{
    let mut ran = Ok(());
    let forward = |recording: &Recording| {
        recording.answer(answer);
        let outcome = dry::caught(|| run(Some(recording), 0..size));
        ran = outcome.as_ref().map(|_| ()).map_err(|failure| Error::from(failure.clone()));
        outcome.ok()
    };
    let traced = dry::run(true, forward, || undo(0..size)).ok()?;
    ran.ok().map(|()| traced)
}
