//! Gradient checkpointing: the same batch in less memory, bit for bit.
//!
//! Backward needs the activations that forward has saved. A *region* records the operators of a closure, drops some of
//! these activations by a [`Plan`], and recomputes them when backward requests them. The closure runs once, may borrow
//! anything, and returns anything.
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
//! A stage is saved or recomputed as a whole. Stages end at the layers of a [`seq()`] or [`seq_t`], at [`cut`], and
//! elsewhere where few bytes are live. Two neighboring stages are merged if backward needs less than half of the bytes
//! that live between them, and little else of one of the two. Otherwise a plan would count bytes as held that are not.
//! A region inside a region is a stage of the outer one, whose plan holds for both.
//!
//! # Learned costs
//!
//! The first run of a region measures the costs of its stages: bytes from one operator to the next, and seconds. It
//! holds the inputs of some stages as checkpoints: one each time that the bytes dropped since the last checkpoint reach
//! the bytes held so far. Of `n` equal stages about `sqrt(2 n)` are checkpoints, and runs of about as many stages are
//! recomputed together. From then on the region takes the fastest [`Plan`] that fits the free bytes of the device, or a
//! [`budget`](With::budget). Costs are remembered for each call site and all shapes. An operator that differs from the
//! known structure is noticed at once: the region continues as another known structure with the same beginning, or is
//! new from there on.
//!
//! # Exact
//!
//! Loss, gradients, statistics of batch norm and random numbers are those of the plain run. Operators that cannot be
//! recomputed exactly are kept, and [`last`] reports them:
//!
//! - operators that write to memory shared with tensors from outside of the region, such as tensors from before it and
//!   those of `Tensor::data`, and operators that read such memory before the write; statistics of batch norm are
//!   written once;
//! - tensors that are made from no tensor, such as `Tensor::zeros`, unless they are random: programs fill them without
//!   an operator;
//! - operators on sparse tensors and those of other layouts without a storage, whose memory is not known;
//! - tensors made by other threads, or without libtorch's operators.
//!
//! Batch norm in training writes to running statistics without a new version, so a region copies the statistics that
//! its operators read: those given to a norm in eval mode, and any other vector of up to 8,192 numbers from outside of
//! the region that needs no gradient, in any shape.
//!
//! Changing a parameter or an input in place before backward is an error, as without a region; here also where the
//! plain backward would not have read it. A change that has no version, by `Tensor::data` after the region, is noticed
//! only with [`verify`](With::verify).
//!
//! Other threads may draw random numbers on the CPU at any time. On GPUs a draw by another thread from the same
//! generator during a random operator of the region is an error, and a recomputation sets the generator back while it
//! draws: a thread outside of regions that draws at this moment may draw numbers twice.
//!
//! # Limits
//!
//! - On CUDA plans count allocated bytes, measured with the scratch of kernels. They do not count the free parts of the
//!   segments that the allocator reserves, which may be many more bytes: leave some of the budget.
//! - The first run at a call site, and the first of each size, has no learned costs and follows no budget. If it runs
//!   out of memory, the error names [`measure`](With::measure) and the bytes that its stages need at least.
//! - Gradients that are added up after the last operator's backward count only where the graph ends at the region.
//!   Behind inputs that were computed with gradients, the backward goes on to other work.
//! - A tensor used by a later stage counts at every stage boundary in between. Tensors that the program itself holds,
//!   such as the temporaries of a long statement, are never dropped.
//!
//! With gradients off, in a [dry run](crate::dry_run()) and with `TOMA_DISABLE=1` a region only runs its closure.

mod budget;
mod choosing;
mod form;
mod leaner;
mod learned;
mod measured;
mod region;
mod report;
mod running;
mod seq;

use std::panic::Location;

pub use form::{With, with};
pub use report::{Report, last};
pub use seq::{Checkpointed, Sequential, SequentialT, module, seq, seq_t};
// Re-exported so that one import list is enough; documented where they are defined.
#[doc(hidden)]
pub use toma_plan::checkpoint::{Action, Costs, Plan, Point, Saving, Solver, Stage, TooSmall};

use crate::ffi;

/// Runs a closure and recomputes in its backward the activations that do not fit, with the [default options](with).
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let weight = Tensor::ones([64, 64], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
/// let output = checkpoint::region(|| weight.sigmoid().tanh().sin());
/// output.sum(Kind::Float).backward(); // recomputes the dropped activations
/// assert!(weight.grad().defined());
/// ```
///
/// # Panics
/// Where libtorch does; where another autograd engine is in place, as in a program with Python; and where no plan fits
/// the free bytes, with a text that counts as out of memory. [`With::f_region`] returns errors instead.
#[track_caller]
pub fn region<R>(body: impl FnOnce() -> R) -> R {
    With::default().region_at(Location::caller(), body)
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
    ffi::toma_region_cut(0);
}
