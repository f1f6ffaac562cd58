use tch::Tensor;

/// Data whose device is known: tensors, and tuples of data.
pub trait Located {
    /// The device of the first tensor.
    fn device(&self) -> tch::Device;
}

impl Located for Tensor {
    fn device(&self) -> tch::Device {
        Tensor::device(self)
    }
}

impl<T: Located + ?Sized> Located for &T {
    fn device(&self) -> tch::Device {
        T::device(self)
    }
}

impl<T: Located + ?Sized> Located for &mut T {
    fn device(&self) -> tch::Device {
        T::device(self)
    }
}

macro_rules! tuples {
    ($(($first:ident $($rest:ident)*))*) => {$(
        impl<$first: Located, $($rest),*> Located for ($first, $($rest,)*) {
            fn device(&self) -> tch::Device {
                self.0.device()
            }
        }
    )*};
}

tuples!((A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F));
