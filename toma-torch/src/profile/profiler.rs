use std::sync::Arc;

use tch::Tensor;
use tch::nn::VarStore;
use toma_trace::Place;
use toma_trace::counting::{Counting, Setup};
use toma_trace::lines::Lines;

use super::attempts;
use super::named::{self, Named};
use super::recording::{EndState, Recording};
use super::running;
use crate::cpu;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, DeviceId};
use crate::notes;

/// Options of a recording.
///
/// No counter of libtorch is reset, and no size or retry of a loop changes.
///
/// ```
/// use tch::{Kind, Tensor, nn};
/// use toma_torch::profile::{Depth, Profiler};
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let layer = nn::linear(variables.root(), 784, 10, Default::default());
/// let images = Tensor::ones([64, 784], (Kind::Float, tch::Device::Cpu));
/// let profiler = Profiler::new().depth(Depth::Events).variables(&variables).label("images", &images);
/// let profiling = profiler.start()?;
/// let _logits = images.apply(&layer);
/// println!("{}", profiling.finish().peak());
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is recorded until it is started"]
pub struct Profiler {
    depth: Depth,
    events: usize,
    named: Named,
    labels: Vec<(String, Tensor)>,
}

/// Depth of a recording.
///
/// ```
/// use toma_torch::profile::{Depth, Profiler};
///
/// let profiling = Profiler::new().depth(Depth::Events).start()?;
/// assert!(profiling.finish().trace().is_some());
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Depth {
    /// Bytes by line.
    #[default]
    Lines,
    /// Also operators, and all events in order, as a [trace](Recording::trace).
    Events,
}

/// Enough for a few hundred steps of a large net: 32 MiB.
const EVENTS: usize = 1 << 20;

impl Profiler {
    /// Records bytes by line.
    #[expect(clippy::new_without_default, reason = "a profiler is set up, not filled in")]
    pub fn new() -> Self {
        Self { depth: Depth::Lines, events: EVENTS, named: Named::default(), labels: Vec::new() }
    }

    /// Sets the depth of the recording.
    pub fn depth(self, depth: Depth) -> Self {
        Self { depth, ..self }
    }

    /// With [`Depth::Events`], keeps the last `most` events of 32 bytes each; the default is 1,048,576.
    ///
    /// The begin and the end of an operator, a mark, and the birth and the death of a block are one event each.
    /// [`Recording::lost_events`] counts the events that did not fit.
    pub fn events(self, most: usize) -> Self {
        Self { events: most.max(1), ..self }
    }

    /// Names the variables of a store, also those added later, their gradients, and the states of
    /// [optimizers](super::optimizer).
    ///
    /// Each variable is named by its path in its own store. The store may be dropped meanwhile.
    pub fn variables(mut self, store: &VarStore) -> Self {
        self.named.variables(store);
        self
    }

    /// Names the memory of a tensor, such as an input. The profiler keeps the tensor alive. During a recording use
    /// [`label`](super::label).
    pub fn label(mut self, name: &str, tensor: &Tensor) -> Self {
        self.labels.push((name.to_owned(), tensor.shallow_clone()));
        self
    }

    /// Starts to record, on all threads.
    ///
    /// CPU tensors are [counted](crate::cpu) from now on. Blocks from before belong to no line. On GPUs only blocks are
    /// recorded that marked functions and their backwards allocate and free on their threads.
    ///
    /// # Errors
    /// When another profiler runs.
    pub fn start(self) -> Result<Profiling, Error> {
        let Self { depth, events, named, labels } = self;
        cpu::count();
        let events = if depth == Depth::Events { events } else { 0 };
        let setup = Setup {
            events,
            position: ffi::position,
            after_backward: running::note_variables,
            thread_begins: || ffi::toma_gpu_observe(),
            ..Counting::of(&devices())
        };
        let busy = |_| {
            let message = "profiler: another runs, or TOMA_PROFILE is set: one at a time";
            Error::new(ErrorKind::Unsupported, message.to_owned())
        };
        let counting = setup.start().map_err(busy)?;
        correct(&counting);
        notes::forget();
        named.note_variables();
        for (name, tensor) in &labels {
            named::label(name, tensor);
        }
        let sources = SourcesGuard::begin(Arc::new(named), depth);
        Ok(Profiling { sources, counting })
    }
}

/// Returns the CPU, then every GPU, each with its allocated bytes.
fn devices() -> Vec<(Place, u64)> {
    let gpu = |index| {
        let device = DeviceId::of(tch::Device::Cuda(index));
        let stats = ffi::device_stats(device).ok()?;
        Some((device.place(), stats.allocated_bytes))
    };
    let cpu = (Place::HOST, cpu::allocated_bytes());
    std::iter::once(cpu).chain((0..).map_while(gpu)).collect()
}

/// Reads the allocated bytes again: other threads may have allocated or freed since they were first read.
fn correct(counting: &Counting) {
    for (index, (_, bytes)) in (0..).zip(devices()) {
        counting.correct(index, bytes);
    }
}

/// A running recording, until it is finished or dropped.
///
/// ```
/// use toma_torch::profile::Profiler;
///
/// let mut profiling = Profiler::new().start()?;
/// // ... a warm-up ...
/// profiling.clear();
/// // ... steps to record ...
/// println!("{}", profiling.finish().lines());
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "recording ends when this is dropped"]
pub struct Profiling {
    sources: SourcesGuard,
    /// Dropped last, because it keeps other recordings from beginning.
    counting: Counting,
}

impl Profiling {
    /// Returns the lines recorded so far, without those that run now.
    pub fn lines(&self) -> Lines {
        self.counting.so_far().lines()
    }

    /// Discards the recording so far, and goes on. Functions that run now are recorded again from their next call on.
    pub fn clear(&mut self) {
        self.counting.clear();
        correct(&self.counting);
        notes::forget_gone();
    }

    /// Ends the recording.
    pub fn finish(self) -> Recording {
        let Self { sources, counting } = self;
        // Read while it runs: later there are blocks that it has not observed, and other recordings discard names.
        let end_state = EndState::now(&sources.named, &counting.so_far());
        drop(sources);
        Recording::of(&counting.finish(), end_state)
    }
}

/// Switches on the sources of the recording until this is dropped.
#[derive(Debug)]
struct SourcesGuard {
    named: Arc<Named>,
}

impl SourcesGuard {
    fn begin(named: Arc<Named>, depth: Depth) -> Self {
        running::set(Some(Arc::clone(&named)));
        ffi::watch_blocks();
        ffi::report_operators(depth == Depth::Events);
        attempts::report(true);
        Self { named }
    }
}

impl Drop for SourcesGuard {
    fn drop(&mut self) {
        attempts::report(false);
        ffi::report_operators(false);
        running::set(None);
    }
}
