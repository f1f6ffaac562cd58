//! The running recording, for functions that name tensors.

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

/// Runs a step of an optimizer, and names the tensors that it makes and keeps as its states: `Adam.weight.exp_avg`.
///
/// Without a running recording, this only runs the step. Names of states need the
/// [`variables`](super::Profiler::variables), and a recording of the optimizer's first step. Optimizers are
/// distinguished by `name`: of two with one name, states of the second have no names.
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
    let first_step = FirstStep::begin(&named, name);
    let value = step();
    drop(first_step);
    named.note_step(name);
    value
}

/// Records the first step of an optimizer, and notes the states that it has made when this is dropped, also after the
/// step has run out of memory.
struct FirstStep<'a> {
    named: &'a Named,
    optimizer: &'a str,
    recording: ffi::Recording,
}

impl<'a> FirstStep<'a> {
    fn begin(named: &'a Named, optimizer: &'a str) -> Option<Self> {
        if named.has_stepped(optimizer) {
            return None;
        }
        // Fails if libtorch's own profiler runs: then states have no names.
        Some(Self { named, optimizer, recording: ffi::Recording::begin().ok()? })
    }
}

impl Drop for FirstStep<'_> {
    fn drop(&mut self) {
        self.named.note_states(self.optimizer, &self.recording);
    }
}

/// Names the memory of a tensor in the running recording, if there is one.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::profile::{self, Profiler};
///
/// let profiling = Profiler::new().start()?;
/// let images = Tensor::ones([64, 784], (Kind::Float, tch::Device::Cpu));
/// profile::label("images", &images);
/// let peak = profiling.finish().peak();
/// println!("{peak}"); // names the images
/// # Ok::<(), toma_torch::Error>(())
/// ```
pub fn label(name: &str, tensor: &Tensor) {
    if counting::runs() {
        named::label(name, tensor);
    }
}

/// Notes the current addresses of the recording's variables and their gradients.
pub(super) fn note_variables() {
    if let Some(named) = named() {
        named.note_variables();
    }
}
