use tch::nn::Optimizer;

use super::variables::Variables;

/// Takes a step once all gradients are there: an optimizer, or one with [clipped](Clipped) gradients.
///
/// An optimizer that counts its steps:
///
/// ```
/// use tch::nn::{self, Optimizer, OptimizerConfig as _};
/// use tch::{Kind, Tensor};
/// use toma_torch::{Steps, backward_step};
///
/// struct Counted<'a>(&'a mut Optimizer, usize);
///
/// impl Steps for &mut Counted<'_> {
///     type Trained = Optimizer;
///
///     fn trained(&self) -> &Optimizer {
///         self.0
///     }
///
///     fn zero_grad(&mut self) {
///         self.0.zero_grad();
///     }
///
///     fn step(&mut self) {
///         self.0.step();
///         self.1 += 1;
///     }
/// }
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let layer = nn::linear(variables.root(), 4, 2, Default::default());
/// let mut optimizer = nn::Sgd::default().build(&variables, 0.1)?;
/// let mut counted = Counted(&mut optimizer, 0);
/// let data = Tensor::ones([8, 4], (Kind::Float, tch::Device::Cpu));
/// backward_step(&mut counted, &data, |data| data.apply(&layer).mean(Kind::Float));
/// assert_eq!(counted.1, 1);
/// # Ok::<(), tch::TchError>(())
/// ```
pub trait Steps {
    /// Type of the trained variables.
    type Trained: Variables;

    /// Returns the trained variables.
    fn trained(&self) -> &Self::Trained;

    /// Begins a step by clearing the gradients.
    fn zero_grad(&mut self);

    /// Changes the variables by their gradients.
    fn step(&mut self);
}

impl Steps for &mut Optimizer {
    type Trained = Optimizer;

    fn trained(&self) -> &Optimizer {
        self
    }

    fn zero_grad(&mut self) {
        Optimizer::zero_grad(self);
    }

    fn step(&mut self) {
        Optimizer::step(self);
    }
}

/// An optimizer whose gradients are clipped before each step, as `backward_step_clip` and
/// `backward_step_clip_norm` of tch do.
///
/// ```
/// use tch::nn::{self, OptimizerConfig as _};
/// use tch::{Kind, Tensor};
/// use toma_torch::{Clipped, backward_step};
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let layer = nn::linear(variables.root(), 4, 2, Default::default());
/// let mut optimizer = nn::Sgd::default().build(&variables, 0.1)?;
/// let data = Tensor::ones([8, 4], (Kind::Float, tch::Device::Cpu));
/// let clipped = Clipped::by_norm(&mut optimizer, 1.0);
/// backward_step(clipped, &data, |data| data.apply(&layer).mean(Kind::Float));
/// # Ok::<(), tch::TchError>(())
/// ```
#[derive(Debug)]
pub struct Clipped<'a> {
    optimizer: &'a mut Optimizer,
    clip: fn(&Optimizer, f64),
    max: f64,
}

impl<'a> Clipped<'a> {
    /// Keeps each element of the gradients between `-max` and `max`.
    pub fn by_value(optimizer: &'a mut Optimizer, max: f64) -> Self {
        Self { optimizer, clip: Optimizer::clip_grad_value, max }
    }

    /// Scales the gradients so that their norm, over all variables, is at most `max`.
    pub fn by_norm(optimizer: &'a mut Optimizer, max: f64) -> Self {
        Self { optimizer, clip: Optimizer::clip_grad_norm, max }
    }
}

impl Steps for Clipped<'_> {
    type Trained = Optimizer;

    fn trained(&self) -> &Optimizer {
        self.optimizer
    }

    fn zero_grad(&mut self) {
        self.optimizer.zero_grad();
    }

    fn step(&mut self) {
        // tch cannot take the norm of no gradients, as after data of which nothing counts.
        if self.optimizer.trainable_variables().iter().any(|variable| variable.grad().defined()) {
            (self.clip)(self.optimizer, self.max);
        }
        self.optimizer.step();
    }
}
