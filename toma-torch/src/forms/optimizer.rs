use tch::nn::Optimizer;

use super::variables::Variables;

/// Takes a step once all gradients are there: an optimizer, or one with [clipped](Clipped) gradients.
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
        (self.clip)(self.optimizer, self.max);
        self.optimizer.step();
    }
}
