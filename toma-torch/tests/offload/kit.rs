//! Steps of training, with and without a budget.

use crate::ground;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tch::nn::{self, OptimizerConfig as _};
use tch::{Kind, TchError, Tensor};
use toma_torch::Device;
use toma_torch::offload::{Entered, Eviction, Manager};

pub(crate) use crate::alone::alone;
use crate::child;
use crate::nets::Net;

pub(crate) fn cpu_device() -> Device {
    Device::new(ground::device())
}

/// A manager that moves even the smallest storages and, as on an accelerator, fetches the bytes that were copied.
pub(crate) fn manager(eviction: impl Eviction + 'static) -> Manager {
    toma_torch::__private::believe_copies();
    Manager::new(&cpu_device()).min_bytes(1).eviction(eviction)
}

/// Runs the test of this name in a process of its own, where the C library overwrites freed memory. A crash there is a
/// failure of this test alone.
pub(crate) fn poisoned(name: &str, test: impl FnOnce()) {
    match child::run(name, &[("GLIBC_TUNABLES", "glibc.malloc.perturb=165")]) {
        Some(ended) => drop(ended.passed()),
        None => test(),
    }
}

/// A manager with a budget of this many bytes, entered.
pub(crate) fn entered(bytes: u64, eviction: impl Eviction + 'static) -> (Manager, Entered) {
    let manager = manager(eviction).budget(bytes);
    let entered = manager.enter().unwrap();
    (manager, entered)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Plain gradient descent, without a state.
    Plain,
    Sgd,
    Adam,
}

impl Rule {
    pub(crate) fn build(self, variables: &nn::VarStore) -> nn::Optimizer {
        match self {
            Self::Plain => nn::sgd(0.0, 0.0, 0.0, false).build(variables, 1e-2).unwrap(),
            Self::Sgd => nn::sgd(0.9, 0.0, 0.0, false).build(variables, 1e-2).unwrap(),
            Self::Adam => nn::Adam::default().build(variables, 1e-3).unwrap(),
        }
    }
}

/// A step of training, which returns its loss.
pub(crate) fn step_of(net: &Net, rule: Rule) -> impl FnMut() -> Vec<u32> {
    let mut optimizer = rule.build(&net.variables);
    move || {
        let loss = net.loss();
        optimizer.backward_step(&loss);
        bits(&loss)
    }
}

/// Returns this percentage of the peak bytes of two steps.
pub(crate) fn budget_of(net: fn() -> Net, percent: u64) -> u64 {
    let peak = ground::peak_of(|| {
        let net = net();
        Rule::Sgd.build(&net.variables).backward_step(&net.loss());
        Rule::Sgd.build(&net.variables).backward_step(&net.loss());
    });
    peak * percent / 100
}

/// Results that must be equal bit for bit: the losses, and in the end all variables.
#[derive(Debug, PartialEq)]
pub(crate) struct Learned {
    losses: Vec<u64>,
    variables: Vec<(String, Vec<u32>)>,
}

pub(crate) fn bits(tensor: &Tensor) -> Vec<u32> {
    let flat = tensor.detach().to_kind(Kind::Float).flatten(0, -1);
    Vec::<f32>::try_from(flat).unwrap().into_iter().map(f32::to_bits).collect()
}

/// Returns the bits of all variables, by name.
pub(crate) fn contents(variables: &nn::VarStore) -> Vec<(String, Vec<u32>)> {
    let mut all: Vec<_> =
        variables.variables().into_iter().map(|(name, weight)| (name, bits(&weight))).collect();
    all.sort();
    all
}

pub(crate) fn train(net: &Net, rule: Rule, steps: usize) -> Learned {
    try_train(net, rule, steps).unwrap()
}

/// Trains; out of memory in a step is returned as an error.
pub(crate) fn try_train(net: &Net, rule: Rule, steps: usize) -> Result<Learned, TchError> {
    train_with(net, rule, steps, |_| {})
}

/// Trains, and calls a closure between forward and backward of each step.
pub(crate) fn train_with(
    net: &Net,
    rule: Rule,
    steps: usize,
    mut between: impl FnMut(usize),
) -> Result<Learned, TchError> {
    let mut optimizer = rule.build(&net.variables);
    tch::manual_seed(11);
    let mut losses = Vec::new();
    for step in 0..steps {
        let loss = caught(|| {
            let loss = net.loss();
            between(step);
            optimizer.backward_step(&loss);
            loss.double_value(&[])
        })?;
        losses.push(loss.to_bits());
    }
    Ok(Learned { losses, variables: contents(&net.variables) })
}

/// Returns the error with which tch's ordinary methods panic.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, TchError> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        TchError::Torch(text.unwrap_or_else(|| "a panic without a text".to_owned()))
    })
}
