//! What a step leaves behind, to be compared bit for bit.

use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// A net and what it is trained on. Its stages end at `checkpoint::cut()` and at the layers of a `seq_t`.
pub struct Net {
    pub name: &'static str,
    pub variables: VarStore,
    /// What it computes, as far as a region goes.
    pub forward: Box<dyn Fn() -> Tensor>,
}

impl Net {
    pub fn new(name: &'static str, variables: VarStore, forward: impl Fn() -> Tensor + 'static) -> Self {
        // A first gradient of zeros: a step that makes gradients takes memory that stays.
        for variable in variables.trainable_variables() {
            (&variable * 0.0).sum(Kind::Float).backward();
        }
        Self { name, variables, forward: Box::new(forward) }
    }

    fn buffers(&self) -> Vec<Tensor> {
        let mut buffers: Vec<_> = self.variables.variables().into_iter().collect();
        buffers.sort_by(|(a, _), (b, _)| a.cmp(b));
        buffers.into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// All that a step leaves, from a state that is the same each time.
    pub fn step(&self, region: impl FnOnce(&dyn Fn() -> Tensor) -> Tensor) -> Left {
        let before: Vec<Tensor> = tch::no_grad(|| self.buffers().iter().map(|tensor| tensor.copy()).collect());
        tch::manual_seed(7);
        let output = region(&*self.forward);
        output.square().mean(Kind::Float).backward();
        let left = Left::of(&output, &self.buffers());
        drop(output);
        tch::no_grad(|| {
            for (mut tensor, before) in self.buffers().into_iter().zip(before) {
                if tensor.grad().defined() {
                    let _ = tensor.grad().zero_();
                }
                if tensor != before {
                    tensor.copy_(&before);
                }
            }
        });
        left
    }

    pub fn plain(&self) -> Left {
        self.step(|forward| forward())
    }
}

/// The output, gradients, buffers and random state after a step, as bytes.
#[derive(PartialEq)]
pub struct Left(Vec<Vec<u8>>);

impl Left {
    fn of(output: &Tensor, buffers: &[Tensor]) -> Self {
        let random = Tensor::rand([4], (Kind::Float, Device::Cpu));
        let gradients = buffers.iter().map(Tensor::grad).filter(Tensor::defined);
        let all = [output.shallow_clone(), random].into_iter().chain(buffers.iter().map(Tensor::shallow_clone));
        Self(all.chain(gradients).map(|tensor| bytes(&tensor)).collect())
    }
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tensors", self.0.len())
    }
}

pub fn bytes(tensor: &Tensor) -> Vec<u8> {
    let flat = tensor.detach().contiguous().reshape([-1]).to_kind(Kind::Double);
    Vec::<f64>::try_from(flat).unwrap().into_iter().flat_map(f64::to_ne_bytes).collect()
}
