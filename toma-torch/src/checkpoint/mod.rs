//! Gradient checkpointing: the same batch in less memory, bit for bit.
//!
//! Backward needs what forward has saved. A *region* records the operators of a closure, drops some of what
//! they save as a [`Plan`] says, and runs those operators again when backward asks. The closure runs once, may
//! borrow what it likes, and returns anything.
//!
//! ```
//! use tch::nn::{self, ModuleT as _};
//! use tch::{Device, Kind, Tensor};
//! use toma_torch::checkpoint;
//!
//! let vs = nn::VarStore::new(Device::Cpu);
//! let layer = |path: nn::Path| nn::linear(path, 32, 32, Default::default());
//! let net = (0..8).fold(checkpoint::seq_t(), |net, at| net.add(layer(vs.root() / at)).add_fn(|x| x.tanh()));
//!
//! let input = Tensor::ones([64, 32], (Kind::Float, Device::Cpu));
//! let output = checkpoint::region(|| net.forward_t(&input, true));
//! output.sum(Kind::Float).backward();
//! println!("{}", checkpoint::last().unwrap());
//! ```
//!
//! # Stages
//!
//! A stage is kept or repeated as a whole. Stages end at the layers of a [`seq()`] or [`seq_t`], at [`cut`], and
//! elsewhere where few bytes live. Two of them are one stage where backward needs less than half of what lives between
//! them and little else of one: a plan would count as held what is not. A region inside a region is a stage of the outer one, whose plan holds
//! for both.
//!
//! # What is known
//!
//! The first run of a region measures what stages take: bytes from one operator to the next, and seconds. It holds
//! the inputs of some stages: each once as much was dropped since the last one as is held by then. Of `n` like stages
//! that are about `sqrt(2 n)`, and as many are repeated together. From then on the region takes the fastest [`Plan`] that fits
//! what is free on the device, or a [`budget`](With::budget). That is remembered for each place in the program and
//! all shapes. An operator that differs from it is noticed at once: the region goes on as another one that is known and
//! has begun the same, or is new from there on.
//!
//! # Exact
//!
//! Loss, gradients, statistics of batch norm and random numbers are those of the plain run. What cannot be
//! repeated exactly is kept, and [`last`] says so:
//!
//! - operators that write to memory that tensors from outside the region share, such as those from before it and
//!   those of `Tensor::data`, and operators that have read it before; statistics of batch norm are written once;
//! - tensors that are made of no tensor, such as `Tensor::zeros`, unless they are random: programs fill them past
//!   libtorch;
//! - tensors made by other threads, or past libtorch's operators.
//!
//! Batch norm in training writes to running statistics without a new version, so a region copies the statistics that its
//! operators read: those given to a norm in eval mode, and any other vector of up to 8,192 numbers from outside the region
//! that needs no gradient.
//!
//! A parameter or an input that is changed in place before backward is an error, as without a region; here also where
//! the plain backward would not have read it. So is a random operator beside which another thread drew from the same
//! generator. A repetition sets the generator back for the moment in which it draws: a thread that draws in this moment
//! outside of regions may draw numbers twice.
//!
//! # Limits
//!
//! - On GPUs the bytes of what stages hold are known, and not what kernels take besides: leave some of the budget.
//! - The first run at a place, and the first of each size, knows no budget.
//! - A value that passes stages by counts at each boundary that it passes. What the program itself holds, such as the
//!   temporaries of a long statement, is never dropped.
//!
//! With gradients off, in a [dry run](crate::dry_run()) and with `TOMA_DISABLE=1` a region runs its closure plainly.

mod budget;
mod choosing;
mod form;
mod knowledge;
mod leaner;
mod measured;
mod region;
mod report;
mod running;
mod seq;

use std::panic::Location;

use tch::TchError;

pub use form::{With, with};
pub use report::{Report, last};
pub use seq::{Checkpointed, Sequential, SequentialT, module, seq, seq_t};
// One list of imports suffices a program; the names are documented where they are made.
#[doc(hidden)]
pub use toma_plan::checkpoint::{Action, Costs, Plan, Point, Saving, Solver, Stage, TooSmall};

use crate::ffi;

/// Runs a closure whose backward repeats what does not fit: with everything at its [default](with).
///
/// # Panics
/// Where libtorch does; where another autograd engine is in place, as in a program with Python; and where no plan
/// fits what is free, with a text that means out of memory.
#[track_caller]
pub fn region<R>(body: impl FnOnce() -> R) -> R {
    With::default().region_at(Location::caller(), body)
}

/// The same for a closure that returns errors of tch.
///
/// # Errors
/// Those of the closure; and of its first operator, or the first that is not what was known, where no plan fits what is
/// free.
#[track_caller]
pub fn f_region<R>(body: impl FnOnce() -> Result<R, TchError>) -> Result<R, TchError> {
    With::default().f_region_at(Location::caller(), body)
}

/// Ends a stage of the region that this thread runs. Outside of regions it does nothing.
///
/// ```
/// # use tch::{Device, Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let input = Tensor::ones([8], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// let output = checkpoint::region(|| {
///     let half = (&input * 2).sigmoid();
///     checkpoint::cut();
///     half.tanh()
/// });
/// output.sum(Kind::Float).backward();
/// assert_eq!(checkpoint::last().unwrap().stages(), 2);
/// ```
pub fn cut() {
    ffi::cut_region(0);
}
