use tch::Tensor;
use tch::nn::{Optimizer, VarStore};

/// Owner of variables whose gradients a backward adds up.
///
/// A model that trains only its head:
///
/// ```
/// use tch::{Kind, Tensor, nn};
/// use toma_core::{GlobalCache, execute};
/// use toma_torch::{Backward as _, Loss, Variables};
///
/// struct Head(nn::Linear);
///
/// impl Variables for Head {
///     fn trainable_variables(&self) -> Vec<Tensor> {
///         vec![self.0.ws.shallow_clone()]
///     }
/// }
///
/// let variables = nn::VarStore::new(tch::Device::Cpu);
/// let head = Head(nn::linear(variables.root(), 4, 2, Default::default()));
/// let data = Tensor::ones([8, 4], (Kind::Float, tch::Device::Cpu));
/// let form = execute::with::<GlobalCache>();
/// form.backward(Loss::Sum, &head, &data, |data| data.apply(&head.0).sum(Kind::Float));
/// assert_eq!(head.0.ws.grad().double_value(&[0, 0]), 8.0);
/// ```
pub trait Variables {
    /// Handles to the variables that are trained.
    fn trainable_variables(&self) -> Vec<Tensor>;

    /// Bytes that are allocated once the gradients exist, and stay.
    #[doc(hidden)]
    fn room_bytes(&self, trained: &[Tensor]) -> u64 {
        let _ = trained;
        0
    }
}

impl Variables for VarStore {
    fn trainable_variables(&self) -> Vec<Tensor> {
        VarStore::trainable_variables(self)
    }
}

impl Variables for Optimizer {
    fn trainable_variables(&self) -> Vec<Tensor> {
        Optimizer::trainable_variables(self)
    }
}

impl Variables for Tensor {
    fn trainable_variables(&self) -> Vec<Tensor> {
        vec![self.shallow_clone()]
    }
}

impl<V: Variables + ?Sized> Variables for &V {
    fn trainable_variables(&self) -> Vec<Tensor> {
        V::trainable_variables(self)
    }
}

impl<V: Variables> Variables for [V] {
    fn trainable_variables(&self) -> Vec<Tensor> {
        self.iter().flat_map(V::trainable_variables).collect()
    }
}

impl<V: Variables, const N: usize> Variables for [V; N] {
    fn trainable_variables(&self) -> Vec<Tensor> {
        self.as_slice().trainable_variables()
    }
}

impl<V: Variables> Variables for Vec<V> {
    fn trainable_variables(&self) -> Vec<Tensor> {
        self.as_slice().trainable_variables()
    }
}
