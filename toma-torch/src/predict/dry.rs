//! Runs of a step on tensors without memory.
//!
//! # Why
//!
//! Memory that a dry run takes for itself (states of random numbers, and zeros for kernels) is not counted. Otherwise a
//! thread that predicts at the same time would find fewer bytes free for a moment, and begin smaller.
//!
//! Tensor versions and gradients' handles are put back, because autograd changes both above the kernels. It would
//! refuse a graph of the user's for a parameter that was never written.
//!
//! Panics in a dry run are silent, and printed where they are passed on. Most are refusals, which are returned as an
//! error.

use std::cell::Cell;
use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};

use toma_core::classify::{Failure, classify_panic};
use toma_core::predict::{is_dry, run_dry};
use toma_core::thread_state::Saved;
use toma_trace::Trace;

use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Dry, DryOutcome, Recording};
use crate::record::trace_of;
use crate::state::DryCopies;

/// Records the operators of `step` without running them: they take and return tensors that have shapes and a device,
/// and no memory.
///
/// The step is the user's own code with the model and the data that it captures. Autograd, autocast and the choice of
/// kernels by device work as always, so the trace has the same operators and the same live bytes as that of
/// [`record`](crate::record()). Nothing of the user's is read, computed or written: afterwards parameters, gradients,
/// buffers, random state, modes and allocated bytes are as they were. A step that calls [`is_dry`] can leave out work
/// that libtorch cannot take back, such as a count of rows.
///
/// CPU tensors are [counted](crate::cpu) from now on, to find the bytes that kernels take.
///
/// Changes to a tensor without an operator cannot be taken back: an optimizer's `zero_grad` drops gradients in a dry
/// run as it would for real, so leave it out of `step`. An optimizer with state of its own makes it in its first
/// `step`, and would keep tensors without memory.
///
/// Values that only data know are assumed: `item()` answers 1, and shapes that depend on data count at their largest.
/// Threads that `step` starts run for real.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_trace::Place;
///
/// let weight = Tensor::ones([4, 4], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// let trace = toma_torch::dry_run(|| {
///     let rows = Tensor::ones([1 << 20, 4], (Kind::Float, Device::Cpu));
///     rows.matmul(&weight).square().sum(Kind::Float).backward();
/// })?;
/// assert!(trace.live(&Place::HOST).peak().bytes > 3 << 24);
/// assert!(!weight.grad().defined());
/// # Ok::<(), toma_torch::Error>(())
/// ```
///
/// # Errors
/// When an operator cannot be run dry (the error names it), when one gives in place a gradient to a tensor from outside,
/// for dry runs within dry runs, where the system reserves no addresses, and when `step` panics because memory runs out.
///
/// # Panics
/// When `step` panics otherwise, and when it keeps a tensor of the dry run, with the bytes and the operator that made
/// it.
pub fn dry_run<R>(step: impl FnOnce() -> R) -> Result<Trace, Error> {
    run(false, |_| step(), || ()).map(|(trace, _)| trace)
}

/// Does the work of [`dry_run`] in microseconds for each operator, and leaves out the bytes that kernels of the CPU
/// take in addition to their results.
///
/// Where no Meta kernel knows the shapes of results, `dry_run` calls the kernel itself, with zeros, once for each
/// shape; a large convolution takes as long as a real one. This function follows rules instead, for the common
/// operators.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::dry_run_by_shapes;
/// use toma_trace::Place;
///
/// let trace = dry_run_by_shapes(|| Tensor::ones([1 << 20, 256], (Kind::Float, tch::Device::Cpu)).relu())?;
/// assert_eq!(trace.live(&Place::HOST).peak().bytes, 2 << 30); // of which nothing was allocated
/// # Ok::<(), toma_torch::Error>(())
/// ```
///
/// # Errors
/// As [`dry_run`].
///
/// # Panics
/// As [`dry_run`].
#[doc(hidden)]
pub fn dry_run_by_shapes<R>(step: impl FnOnce() -> R) -> Result<Trace, Error> {
    run(true, |_| step(), || ()).map(|(trace, _)| trace)
}

thread_local! {
    static KEEPS_SIZE: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a region of the running dry run keeps its size. A dry run counts its plain bytes, and a plan may need less.
pub(crate) fn note_kept_size() {
    KEEPS_SIZE.set(true);
}

/// True if a region has noted that since the last call.
pub(super) fn takes_kept_size() -> bool {
    KEEPS_SIZE.take()
}

/// A trace of the pieces of one size, and the operators whose results only data know.
pub(super) type Ran = Result<(Trace, Vec<String>), Error>;

/// Runs a step dry that may mark parts of itself, then `undo`, still dry. Returns the trace, and the operators whose
/// results only data know.
pub(super) fn run<R>(by_shapes: bool, step: impl FnOnce(&Recording) -> R, undo: impl FnOnce()) -> Ran {
    let mut value = None;
    let step = |value: &mut Option<R>, recording: &Recording| *value = Some(step(recording));
    let take_back = |value: &mut Option<R>| {
        drop(value.take());
        undo();
    };
    run_with(by_shapes, &mut value, step, take_back)
}

/// Runs a step dry that works on `state`. In every case `take_back` ends it, within the dry run and after its trace.
pub(super) fn run_with<S>(
    by_shapes: bool,
    state: &mut S,
    step: impl FnOnce(&mut S, &Recording),
    take_back: impl FnOnce(&mut S),
) -> Ran {
    if is_dry() {
        return Err(Error::new(ErrorKind::Unsupported, "dry run: within another dry run".to_owned()));
    }
    cpu::count();
    let modes = ffi::modes();
    // A cast of a weight that an outer piece has made leads into its graph.
    ffi::toma_casts_clear();
    let dry = Dry::begin(by_shapes).inspect_err(|_| restore(&modes))?;
    // The step's value is dropped within the dry run, because dropping may call operators, too.
    let _in_no_line = toma_trace::counting::pause();
    let outcome = run_dry(|| {
        let _copies = DryCopies;
        let panic = run_dry(|| step(state, dry.recording())).err();
        let trace = trace_of(dry.recording());
        take_back(state);
        (trace, panic)
    });
    restore(&modes);
    let ended = dry.end();
    if !ended.refused.is_empty() {
        return Err(Error::new(ErrorKind::Unsupported, format!("dry run: {}", ended.refused)));
    }
    let (trace, panic) = outcome.unwrap_or_else(|panic| panic.pass_on());
    if let Some(panic) = panic {
        return match panic.out_of_memory() {
            Some(message) => Err(Error::new(ErrorKind::OutOfMemory, format!("dry run: {message}"))),
            None => panic.pass_on(),
        };
    }
    assert_nothing_kept(&ended);
    let unknown = ended.unknown.split(", ").filter(|name| !name.is_empty());
    Ok((trace?, unknown.map(str::to_owned).collect()))
}

/// Catches a panic of a form's body, which only means that there is no prediction: a real attempt shows it.
pub(super) fn caught<R>(body: impl FnOnce() -> R) -> Result<R, Failure> {
    panic::catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let Failure { class, message, .. } = classify_panic(&*payload);
        Failure::new(class, format!("the body panicked: {}", message.lines().next().unwrap_or_default()))
    })
}

/// Error of a dry run of so many items in which the body failed.
pub(super) fn failed(items: impl Display, failure: &Failure) -> Error {
    Error::from(Failure::new(failure.class, format!("dry run of {items} items: {}", failure.message)))
}

fn assert_nothing_kept(ended: &DryOutcome) {
    let DryOutcome { kept, kept_bytes, kept_operator, .. } = ended;
    assert!(
        *kept == 0,
        "dry run: the body kept {kept} tensors of {kept_bytes} bytes, made by {kept_operator}: they hold nothing; \
         make them before, or not when toma::predict::is_dry(); an optimizer's step makes some, too"
    );
}

/// Restores the modes from before, and drops casts of weights, which may be dry.
fn restore(modes: &Saved) {
    // Sets variables of this thread, which does not fail.
    let _ = ffi::set_modes(modes);
    ffi::toma_casts_clear();
    ffi::toma_backward_drop_stranded();
}
