//! A whole step of a program that uses tch, in pieces that fit: one line in place of one line.

#![expect(clippy::inline_always, reason = "the number of our own frames must not depend on the optimizer")]

mod first_steps;
mod gradients;
mod inference;
mod loss;
mod optimizer;
mod pieces;
mod training;
mod variables;

use tch::Tensor;
use toma_core::Bisect;
use toma_core::DefaultCache;
use toma_core::chunk::{Chunk, Chunked};
use toma_core::execute::{self, With};
use toma_core::{Auto, Judge, Outcome};

pub use self::inference::Forward;
pub use self::loss::Loss;
pub use self::optimizer::{Clipped, Steps};
pub use self::training::Backward;
pub use self::variables::Variables;
use crate::{Device, DryRun, TensorData};

/// Runs `body` without gradients on pieces of `data` that fit, and fills one tensor with its rows.
///
/// The first attempt is at all the data, or at the largest size that is predicted to fit. `body` returns one row for
/// each item along dim 0. An output whose rows depend on each other, as after a softmax over the rows or batch norm in
/// training, is not split, nor is one that a dry run cannot judge.
///
/// Before that `body` runs [dry](crate::dry_run). It leaves out side effects, such as counting hits, where
/// [`is_dry`](toma_core::predict::is_dry) is true; or [`Forward`] takes them back in `before_retry`.
///
/// ```
/// use tch::{Device, Kind, Tensor, nn, nn::Module as _};
///
/// let variables = nn::VarStore::new(Device::Cpu);
/// let net = nn::linear(variables.root(), 8, 3, nn::LinearConfig::default());
/// let images = Tensor::randn([100, 8], (Kind::Float, Device::Cpu));
///
/// let logits = toma_torch::forward(&images, |images| net.forward(images));
/// assert_eq!(logits.size(), [100, 3]);
/// assert!(!logits.requires_grad());
/// ```
///
/// The pieces' rows are copied to their places, so memory holds the output once, and one piece's rows in addition. The
/// output shares no memory with the data: rows that `body` returns as a view are copied.
/// Without items, `body` runs once on the empty data.
///
/// # Errors
/// Errors of `body`. Out of memory is passed on when a single item does not fit.
///
/// # Panics
/// When `body` returns another number of rows than it got items, or rows of different shapes, with
/// the shapes; and when a later piece has other operators than the first, in a body that reads numbers or at a smaller
/// size.
#[track_caller]
#[inline(always)]
pub fn forward<D, C, R, S, M>(data: D, body: impl FnMut(Chunk<'_, D, C>) -> R) -> R
where
    D: Chunked<C> + TensorData,
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
    Auto: Judge<R, M>,
{
    let device = Device::new(data.device());
    fitting(&device).forward(data, body)
}

/// Adds the gradients of the loss of `body` to those of `variables`, in pieces that fit.
///
/// This is `body(data).backward()` for a loss that is a mean or a sum over the items, which a dry run distinguishes.
/// Any other loss is not split; [`Backward::backward`] takes the [kind of loss](Loss) from the caller. Returns the loss
/// of the whole, without a graph. `body` runs dry first, as that of [`forward`] does.
///
/// ```
/// use tch::{Device, Kind, Tensor};
///
/// let data = Tensor::arange(5, (Kind::Float, Device::Cpu));
/// let weight = Tensor::ones([], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// let loss = toma_torch::backward(&[&weight], &data, |data| (data * &weight).mean(Kind::Float));
/// assert_eq!(loss.double_value(&[]), 2.0);
/// assert_eq!(weight.grad().double_value(&[]), 2.0);
/// ```
///
/// # Errors
/// Errors of `body`. Gradients of earlier pieces have been added then.
///
/// # Panics
/// As [`Backward::backward`].
#[track_caller]
#[inline(always)]
pub fn backward<D, C, R, S, M>(
    variables: &(impl Variables + ?Sized),
    data: D,
    body: impl FnMut(Chunk<'_, D, C>) -> R,
) -> R
where
    D: Chunked<C> + TensorData,
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
    Auto: Judge<R, M>,
{
    let device = Device::new(data.device());
    fitting(&device).backward(Loss::Found, variables, data, body)
}

/// Takes one step of `optimizer` on the loss of `body`, in pieces that fit.
///
/// This is `optimizer.backward_step(&body(data))`: gradients begin at zero, and the step is taken
/// once the gradients of all pieces are there. Returns the loss of the whole, without a graph.
/// `optimizer` is a `&mut Optimizer` of tch, or a [`Clipped`] one, whose gradients are clipped before the step.
///
/// ```
/// use tch::{Device, Kind, Tensor, nn, nn::ModuleT as _, nn::OptimizerConfig as _};
///
/// # fn main() -> Result<(), tch::TchError> {
/// let variables = nn::VarStore::new(Device::Cpu);
/// let net = nn::seq_t().add(nn::linear(variables.root(), 8, 3, nn::LinearConfig::default()));
/// let mut optimizer = nn::Adam::default().build(&variables, 1e-3)?;
/// let images = Tensor::randn([100, 8], (Kind::Float, Device::Cpu));
/// let labels = Tensor::zeros([100], (Kind::Int64, Device::Cpu));
///
/// let loss = toma_torch::backward_step(&mut optimizer, (&images, &labels), |(images, labels)| {
///     net.forward_t(images, true).cross_entropy_for_logits(labels)
/// });
/// assert!(loss.double_value(&[]) > 0.0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Errors of `body`. No step is taken then.
///
/// # Panics
/// As [`Backward::backward`].
#[track_caller]
#[inline(always)]
pub fn backward_step<D, C, R, S, M>(
    optimizer: impl Steps,
    data: D,
    body: impl FnMut(Chunk<'_, D, C>) -> R,
) -> R
where
    D: Chunked<C> + TensorData,
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
    Auto: Judge<R, M>,
{
    let device = Device::new(data.device());
    fitting(&device).backward_step(Loss::Found, optimizer, data, body)
}

/// Options of these functions: data that fit are not split, and the first attempt is at the size that a dry run
/// predicts.
fn fitting(device: &Device) -> With<'_, Bisect, Auto, ()> {
    execute::with::<DefaultCache>().device(device).policy(Bisect::default()).predict(&DryRun)
}
