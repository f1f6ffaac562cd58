//! Evicts tensors from a device while no operator uses them, and fetches them before an operator needs them.
//!
//! So a model or a training step that is larger than the device runs in unmodified code. Only storages move: tensors,
//! views, graph and optimizer stay the same.
//!
//! ```
//! use tch::nn::{self, Module, OptimizerConfig};
//! use tch::{Kind, Tensor};
//! use toma_torch::offload::Manager;
//! use toma_torch::{Device, cpu};
//!
//! let device = Device::new(tch::Device::Cpu);
//! let manager = Manager::new(&device).budget(cpu::allocated_bytes() + (8 << 20));
//! let _offload = manager.enter()?; // the only new line: below is plain tch
//! let vs = nn::VarStore::new(device.device());
//! let net = nn::seq()
//!     .add(nn::linear(&vs.root() / "in", 512, 1024, Default::default()))
//!     .add_fn(Tensor::relu)
//!     .add(nn::linear(&vs.root() / "out", 1024, 256, Default::default()));
//! let mut opt = nn::Adam::default().build(&vs, 1e-3)?;
//! let x = Tensor::randn([64, 512], (Kind::Float, device.device()));
//! opt.backward_step(&net.forward(&x).square().mean(Kind::Float)); // wants 13 MiB, has 8
//! assert!(manager.report().fetches > 0);
//! # Ok::<(), tch::TchError>(())
//! ```

mod moves;
mod program;
mod step;

pub use moves::callbacks::{AroundOperators, Event, OperatorCall};
pub use moves::parking::Stays;
pub use moves::planned::Planned;
pub(crate) use moves::queries::{evicted_bytes, unmoved};
pub use program::governor::Governor;
pub use program::manager::{Entered, Manager};
pub use program::park::{Parked, Unresumed, park};
pub use program::source::OnPressure;
pub(crate) use program::source::free_bytes;
pub use program::status::{Report, Status};
pub use program::tensor_ref::{Pin, Residency, TensorRef};
// So that a program needs one list of imports. The names are documented where they are defined.
#[doc(hidden)]
pub use toma_plan::residency::{Candidate, Eviction, Flow, Genoa, Lru, Next, NextEvent, Situation};

/// Storages of fewer bytes are not evicted by default.
const MIN_BYTES: u64 = 64 << 10;
