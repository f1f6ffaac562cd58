//! Sequential modules whose layers are stages.

use std::panic::Location;

use tch::Tensor;
use tch::nn::{Module, ModuleT};

use super::With;
use super::region::Cut;
use crate::ffi;

/// The outputs of the first `n` layers, in order; at least one layer runs, as with tch.
fn outputs<L>(
    layers: &[L],
    n: usize,
    input: &Tensor,
    forward: impl Fn(&L, &Tensor) -> Tensor,
) -> Vec<Tensor> {
    let _layers = Cut::begin(1);
    let mut outputs: Vec<Tensor> = Vec::new();
    for layer in layers.iter().take(n.max(1)) {
        ffi::toma_region_cut(0);
        outputs.push(forward(layer, outputs.last().unwrap_or(input)));
    }
    if outputs.is_empty() { vec![input.shallow_clone()] } else { outputs }
}

fn output<L>(layers: &[L], input: &Tensor, forward: impl Fn(&L, &Tensor) -> Tensor) -> Tensor {
    let _layers = Cut::begin(1);
    layers.iter().fold(input.shallow_clone(), |value, layer| {
        ffi::toma_region_cut(0);
        forward(layer, &value)
    })
}

macro_rules! sequential {
    ($name:ident, $module:ident, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Outside of a region its forward is a region of its own.
        #[derive(Debug)]
        pub struct $name {
            layers: Vec<Box<dyn $module>>,
            location: &'static Location<'static>,
            enabled: bool,
        }

        impl $name {
            #[track_caller]
            fn empty() -> Self {
                Self { layers: Vec::new(), location: Location::caller(), enabled: true }
            }

            /// The number of layers.
            #[expect(clippy::cast_possible_wrap, reason = "the type of tch's")]
            pub fn len(&self) -> i64 {
                self.layers.len() as i64
            }

            /// Returns true if there are no layers.
            pub fn is_empty(&self) -> bool {
                self.layers.is_empty()
            }

            /// Appends a layer.
            #[must_use]
            #[expect(clippy::should_implement_trait, reason = "the name of tch's")]
            pub fn add<M: $module + 'static>(mut self, layer: M) -> Self {
                self.layers.push(Box::new(layer));
                self
            }

            /// Appends a closure.
            #[must_use]
            pub fn add_fn<F>(self, f: F) -> Self
            where
                F: 'static + Fn(&Tensor) -> Tensor + Send,
            {
                self.add(tch::nn::func(f))
            }

            /// With `false` its forward runs without recomputation, as with memonger's `set_reforward(False)`.
            #[must_use]
            pub fn enabled(mut self, on: bool) -> Self {
                self.enabled = on;
                self
            }

            fn region<R>(&self, body: impl FnOnce() -> R) -> R {
                With::default().enabled(self.enabled).region_at(self.location, body)
            }
        }
    };
}

sequential!(Sequential, Module, "tch's `nn::Sequential`, whose layers are stages.");
sequential!(SequentialT, ModuleT, "tch's `nn::SequentialT`, whose layers are stages.");

/// A sequence without layers, as `nn::seq()`.
///
/// ```
/// use tch::nn::{self, Module as _};
/// use tch::{Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let net = checkpoint::seq()
///     .add(nn::linear(variables.root(), 4, 2, Default::default()))
///     .add_fn(|xs| xs.relu());
/// net.forward(&Tensor::ones([3, 4], (Kind::Float, tch::Device::Cpu))).sum(Kind::Float).backward();
/// ```
#[track_caller]
pub fn seq() -> Sequential {
    Sequential::empty()
}

/// A sequence without layers that distinguishes training from evaluation, as `nn::seq_t()`.
///
/// ```
/// use tch::nn::{self, ModuleT as _};
/// use tch::{Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let net = checkpoint::seq_t()
///     .add(nn::linear(variables.root(), 4, 2, Default::default()))
///     .add_fn_t(|xs, train| xs.dropout(0.1, train));
/// net.forward_t(&Tensor::ones([3, 4], (Kind::Float, tch::Device::Cpu)), true).sum(Kind::Float).backward();
/// ```
#[track_caller]
pub fn seq_t() -> SequentialT {
    SequentialT::empty()
}

impl Sequential {
    /// The outputs of the first `n` layers, or of all.
    pub fn forward_all(&self, xs: &Tensor, n: Option<usize>) -> Vec<Tensor> {
        let n = n.unwrap_or(self.layers.len());
        self.region(|| outputs(&self.layers, n, xs, |layer, xs| layer.forward(xs)))
    }
}

impl Module for Sequential {
    fn forward(&self, xs: &Tensor) -> Tensor {
        self.region(|| output(&self.layers, xs, |layer, xs| layer.forward(xs)))
    }
}

impl SequentialT {
    /// Appends a closure that distinguishes training from evaluation.
    #[must_use]
    pub fn add_fn_t<F>(self, f: F) -> Self
    where
        F: 'static + Fn(&Tensor, bool) -> Tensor + Send,
    {
        self.add(tch::nn::func_t(f))
    }

    /// The outputs of the first `n` layers, or of all.
    pub fn forward_all_t(&self, xs: &Tensor, train: bool, n: Option<usize>) -> Vec<Tensor> {
        let n = n.unwrap_or(self.layers.len());
        self.region(|| outputs(&self.layers, n, xs, |layer, xs| layer.forward_t(xs, train)))
    }
}

impl ModuleT for SequentialT {
    fn forward_t(&self, xs: &Tensor, train: bool) -> Tensor {
        self.region(|| output(&self.layers, xs, |layer, xs| layer.forward_t(xs, train)))
    }
}

/// A module whose forward is a region.
///
/// ```
/// use tch::nn;
/// use toma_torch::checkpoint::{self, Checkpointed};
///
/// struct Net {
///     block: Checkpointed<nn::Linear>,
/// }
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let block = checkpoint::module(nn::linear(variables.root(), 4, 2, Default::default()));
/// let _net = Net { block };
/// ```
#[derive(Debug)]
pub struct Checkpointed<M> {
    module: M,
    location: &'static Location<'static>,
}

/// Makes the forward of any module a region.
///
/// ```
/// use tch::nn::{self, ModuleT as _};
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::checkpoint;
///
/// let vs = nn::VarStore::new(Device::Cpu);
/// let net = checkpoint::module(nn::linear(vs.root(), 4, 2, Default::default()));
/// net.forward_t(&Tensor::ones([3, 4], (Kind::Float, Device::Cpu)), true).sum(Kind::Float).backward();
/// ```
#[track_caller]
pub fn module<M: ModuleT>(module: M) -> Checkpointed<M> {
    Checkpointed { module, location: Location::caller() }
}

impl<M: ModuleT> ModuleT for Checkpointed<M> {
    fn forward_t(&self, xs: &Tensor, train: bool) -> Tensor {
        With::default().region_at(self.location, || self.module.forward_t(xs, train))
    }
}
