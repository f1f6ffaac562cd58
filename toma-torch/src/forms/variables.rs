use tch::Tensor;
use tch::nn::{Optimizer, VarStore};

/// Owner of variables whose gradients a backward adds up.
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
