//! Recorded forwards: of a piece for real, and of any number of items in a dry run.

use std::ops::{ControlFlow, Range};

use tch::Tensor;
use toma_core::Outcome;
use toma_plan::Judged;
use toma_trace::Trace;

use super::dry;
use super::making::wide;
use crate::cpu;
use crate::ffi::Recording;
use crate::record::trace_of;

/// Runs a piece of the data. A recording gets marks where the data are cut and where the result is taken.
pub(crate) trait Run<R>: FnMut(Option<&Recording>, Range<usize>) -> R {}

impl<R, F: FnMut(Option<&Recording>, Range<usize>) -> R> Run<R> for F {}

/// The outcome of a body whose value is a tensor.
pub(crate) trait TensorOutcome<S>: Outcome<S, Value = Tensor, Of<Tensor> = Self> + Sized {}

impl<R: Outcome<S, Value = Tensor, Of<Tensor> = R>, S> TensorOutcome<S> for R {}

/// Runs a piece. Returns `Err` if it has failed, otherwise its forward if that could be recorded.
pub(super) fn recorded<R: TensorOutcome<S>, S>(
    piece: &Range<usize>,
    run: &mut impl Run<R>,
) -> (R, Result<Option<Trace>, ()>) {
    cpu::count();
    let Ok(recording) = Recording::begin() else { return (run(None, piece.clone()), Ok(None)) };
    let outcome = run(Some(&recording), piece.clone());
    match outcome.branch::<Tensor>() {
        ControlFlow::Break(failed) => (failed, Err(())),
        ControlFlow::Continue(result) => (R::of(result), Ok(trace_of(&recording).ok())),
    }
}

/// Reason for judging nothing.
pub(super) const UNJUDGED: &str = "it could not be judged by dry runs";

/// Reason for judging and predicting nothing.
pub(super) const SEEDS: &str = "it seeds random numbers, so each piece would draw the same";

/// Returns the program of two sizes, or the reason why there is none.
pub(super) fn judged<R: TensorOutcome<S>, S>(
    sizes: [u32; 2],
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) -> Result<Judged, &'static str> {
    let mut forward = |size| {
        let ran = dry_run(wide(size), Answer::always(1.0), run, undo).ok_or(UNJUDGED)?;
        if ran.has_seeded { Err(SEEDS) } else { ran.forward.ok_or(UNJUDGED) }
    };
    let [one, other] = [forward(sizes[0])?, forward(sizes[1])?];
    Judged::of([(sizes[0], &one), (sizes[1], &other)]).map_err(|_| UNJUDGED)
}

/// Values of numbers that only data know, in the order in which a body reads them: `first`, `first + step`, and so on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) first: f64,
    pub(super) step: f64,
}

impl Answer {
    pub(super) const fn always(number: f64) -> Self {
        Self { first: number, step: 0.0 }
    }
}

/// A dry run of a forward.
pub(super) struct DryForward {
    /// `None` if the body has failed.
    pub(super) forward: Option<Trace>,
    /// Operators whose results only data know.
    pub(super) unknown: Vec<String>,
    /// True if the body has seeded random numbers.
    pub(super) has_seeded: bool,
}

/// Runs the forward of so many items dry; `None` if it cannot run dry.
///
/// All threads share a generator. So a body that seems to have seeded it runs again, because another thread may have
/// done so meanwhile, and a body that seeds does so each time.
pub(super) fn dry_run<R: TensorOutcome<S>, S>(
    size: usize,
    answer: Answer,
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) -> Option<DryForward> {
    let first = dry_run_once(size, answer, run, undo)?;
    if first.has_seeded { dry_run_once(size, answer, run, undo) } else { Some(first) }
}

fn dry_run_once<R: TensorOutcome<S>, S>(
    size: usize,
    answer: Answer,
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) -> Option<DryForward> {
    let (mut has_failed, mut has_seeded) = (true, false);
    let forward = |recording: &Recording| {
        recording.answer(answer.first, answer.step);
        let outcome = dry::caught(|| run(Some(recording), 0..size)).ok()?;
        has_seeded = recording.has_seeded();
        Some(match outcome.branch::<Tensor>() {
            ControlFlow::Break(failed) => failed,
            ControlFlow::Continue(result) => {
                has_failed = false;
                R::of(result)
            }
        })
    };
    let (trace, unknown) = dry::run(true, forward, || undo(0..size)).ok()?;
    Some(DryForward { forward: (!has_failed).then_some(trace), unknown, has_seeded })
}

/// Returns the forward of so many items in a dry run that answers 1; `None` if the body cannot run dry.
pub(super) fn dry_trace<R: TensorOutcome<S>, S>(
    size: usize,
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) -> Option<Trace> {
    dry_run(size, Answer::always(1.0), run, undo)?.forward
}
