//! One step of training, with a failure at every single allocation of it, one at a time: the retry
//! gives the very same values, and nothing stays allocated.

use std::cell::Cell;

use tch::nn::{self, ModuleT, OptimizerConfig as _, RNN as _};
use tch::{Device, Kind, TchError, Tensor};
use toma_core::cache::NoCache;
use toma_core::execute;
use toma_torch::ModeGuard;
use toma_torch::cpu::{self, FailingAllocation};

use crate::stage::{FLOATS, alone, printed_by};

/// More than any step here allocates: a loop that goes on so long would never end.
const MOST: u32 = 5000;

type Forward = Box<dyn Fn(&Tensor) -> Tensor>;

/// A net and what it learns from.
struct Net {
    variables: nn::VarStore,
    forward: Forward,
    input: Tensor,
}

fn net(input: &[i64], build: impl FnOnce(&nn::Path<'_>) -> Forward) -> Net {
    tch::manual_seed(7);
    let variables = nn::VarStore::new(Device::Cpu);
    let forward = build(&variables.root());
    Net { variables, forward, input: Tensor::randn(input, FLOATS) }
}

impl Net {
    /// Forward and backward from zero gradients: the loss and all gradients.
    fn step(&self) -> Result<Vec<Tensor>, TchError> {
        let mut variables = self.variables.trainable_variables();
        variables.iter_mut().for_each(Tensor::zero_grad);
        let loss = (self.forward)(&self.input).square().mean(Kind::Float);
        loss.f_backward()?;
        let gradients = variables.iter().map(|variable| variable.grad().copy());
        Ok(gradients.chain([loss.detach().copy()]).collect())
    }

    fn survives_a_failure_anywhere(&self) {
        // Twice: the first makes the gradients, which stay.
        self.step().unwrap();
        let right = self.step().unwrap();
        let before = cpu::allocated_bytes();
        let mut allocation = 0;
        while self.survives(allocation, &right) {
            assert_eq!(cpu::allocated_bytes(), before, "allocation {allocation}");
            allocation += 1;
            assert!(allocation < MOST);
        }
        assert!(allocation > 5, "{allocation} allocations: too few for a step");
        assert_eq!(cpu::allocated_bytes(), before);
    }

    /// Whether there is such an allocation at all.
    fn survives(&self, allocation: u32, right: &[Tensor]) -> bool {
        let (attempts, has_failed) = (Cell::new(0), Cell::new(false));
        let printed = printed_by(|| {
            let values = execute::with::<NoCache>().batch(2, |_| {
                let _modes = ModeGuard::new();
                attempts.set(attempts.get() + 1);
                let failing = (attempts.get() == 1).then(|| FailingAllocation::after(allocation));
                let values = self.step();
                has_failed.set(has_failed.get() || failing.is_some_and(|failing| failing.has_failed()));
                values
            });
            assert_eq!(values.unwrap(), right, "allocation {allocation}");
        });
        assert_eq!(printed, 0, "allocation {allocation}");
        attempts.get() == 2 || has_failed.get()
    }
}

#[test]
fn of_a_perceptron() {
    let _alone = alone();
    net(&[8, 16], |path| {
        let net = nn::seq()
            .add(nn::linear(path / "1", 16, 32, nn::LinearConfig::default()))
            .add_fn(Tensor::relu)
            .add(nn::linear(path / "2", 32, 4, nn::LinearConfig::default()));
        Box::new(move |input| net.forward_t(input, true))
    })
    .survives_a_failure_anywhere();
}

#[test]
fn of_a_convolution() {
    let _alone = alone();
    net(&[2, 3, 8, 8], |path| {
        let net = nn::seq()
            .add(nn::conv2d(path / "1", 3, 4, 3, nn::ConvConfig::default()))
            .add_fn(|input| input.relu().max_pool2d_default(2).flatten(1, -1))
            .add(nn::linear(path / "2", 36, 4, nn::LinearConfig::default()));
        Box::new(move |input| net.forward_t(input, true))
    })
    .survives_a_failure_anywhere();
}

#[test]
fn of_an_lstm() {
    let _alone = alone();
    net(&[2, 5, 6], |path| {
        let lstm = nn::lstm(path, 6, 8, nn::RNNConfig::default());
        Box::new(move |input| lstm.seq(input).0)
    })
    .survives_a_failure_anywhere();
}

#[test]
fn of_an_optimizer_without_momentum() {
    let _alone = alone();
    let net = net(&[8, 16], |path| {
        let linear = nn::linear(path, 16, 4, nn::LinearConfig::default());
        Box::new(move |input| linear.forward_t(input, true))
    });
    let mut optimizer = nn::Sgd::default().build(&net.variables, 0.1).unwrap();
    net.step().unwrap();
    let before = cpu::allocated_bytes();
    optimizer.step();
    assert_eq!(cpu::allocated_bytes(), before);
    net.survives_a_failure_anywhere();
}
