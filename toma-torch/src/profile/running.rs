//! The recording that runs, as what it is told of tensors finds it.

use std::sync::{Arc, PoisonError, RwLock};

use tch::Tensor;
use toma_trace::counting;

use super::named::{self, Named};
use crate::ffi;

static RUNNING: RwLock<Option<Arc<Named>>> = RwLock::new(None);

pub(super) fn set(named: Option<Arc<Named>>) {
    *RUNNING.write().unwrap_or_else(PoisonError::into_inner) = named;
}

pub(super) fn named() -> Option<Arc<Named>> {
    RUNNING.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs a step of an optimizer: what it makes and keeps is its state, such as `Adam.weight.exp_avg`.
///
/// Without a recording that runs, it only runs the step. Names of states need the
/// [`variables`](super::Profiler::variables), and that the optimizer's first step is recorded. The name tells optimizers
/// apart: of two with one name, states of the second have no names.
///
/// ```
/// use tch::nn::{self, Module as _, OptimizerConfig as _};
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::profile::{self, Profiler};
///
/// let variables = nn::VarStore::new(Device::Cpu);
/// let net = nn::linear(variables.root(), 8, 4, nn::LinearConfig::default());
/// let mut optimizer = nn::Adam::default().build(&variables, 1e-3)?;
/// let profiling = Profiler::new().variables(&variables).start()?;
/// net.forward(&Tensor::ones([2, 8], (Kind::Float, Device::Cpu))).sum(Kind::Float).backward();
/// profile::optimizer("Adam", || optimizer.step());
/// drop(profiling);
/// let held = profile::inventory().variables(&variables).take()?.to_string();
/// assert!(held.contains("Adam.weight.exp_avg_sq"), "{held}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn optimizer<R>(name: &str, step: impl FnOnce() -> R) -> R {
    let Some(named) = named() else { return step() };
    let _phase = counting::phase(&format!("optimizer {name}"));
    let states = States::begin(&named, name);
    let value = step();
    drop(states);
    named.note_step(name);
    value
}

/// Notes the states that an optimizer makes until this is dropped: one that runs out of memory keeps those it has.
struct States<'a> {
    named: &'a Named,
    optimizer: &'a str,
    recording: ffi::Recording,
}

impl<'a> States<'a> {
    fn begin(named: &'a Named, optimizer: &'a str) -> Option<Self> {
        if named.has_stepped(optimizer) {
            return None;
        }
        // libtorch's own profiler may be in the way: then states have no names.
        Some(Self { named, optimizer, recording: ffi::Recording::begin().ok()? })
    }
}

impl Drop for States<'_> {
    fn drop(&mut self) {
        self.named.note_states(self.optimizer, &self.recording);
    }
}

/// Gives the memory of a tensor a name in the recording that runs, if one does.
pub fn label(name: &str, tensor: &Tensor) {
    if counting::runs() {
        named::label(name, tensor);
    }
}

/// Notes where the variables of the recording and their gradients are.
pub(super) fn note_variables() {
    if let Some(named) = named() {
        named.note_variables();
    }
}
