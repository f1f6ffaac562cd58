use tch::{Kind, Tensor};

/// Data made of tensors: a tensor, or a tuple of data.
pub trait TensorData {
    /// The device of the first tensor.
    fn device(&self) -> tch::Device;

    /// Tells `describe` of the kind and sizes of each tensor.
    fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64]));
}

impl TensorData for Tensor {
    fn device(&self) -> tch::Device {
        Tensor::device(self)
    }

    fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64])) {
        describe(self.kind(), &self.size());
    }
}

macro_rules! references {
    ($($reference:ty),*) => {$(
        impl<T: TensorData + ?Sized> TensorData for $reference {
            fn device(&self) -> tch::Device {
                T::device(self)
            }

            fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64])) {
                T::describe(self, describe);
            }
        }
    )*};
}

references!(&T, &mut T);

macro_rules! tuples {
    ($(($($part:ident $index:tt)*))*) => {$(
        impl<$($part: TensorData),*> TensorData for ($($part,)*) {
            fn device(&self) -> tch::Device {
                self.0.device()
            }

            fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64])) {
                $(self.$index.describe(describe);)*
            }
        }
    )*};
}

tuples!((A 0) (A 0 B 1) (A 0 B 1 C 2) (A 0 B 1 C 2 D 3) (A 0 B 1 C 2 D 3 E 4) (A 0 B 1 C 2 D 3 E 4 F 5));
