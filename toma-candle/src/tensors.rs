//! Tensors in toma's traits: as data that is worked on in chunks, and as values that bodies return.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use candle_core::{DeviceLocation, Error, Tensor};
use toma_core::chunk::{Chunk, ChunkOf, Chunked, Held, axis};

/// The kind of tensors, by which they implement traits of another crate; it is inferred and never has to be
/// written.
///
/// A function that takes any data of candle names the kind:
///
/// ```
/// use candle_core::{Device, Tensor};
/// use toma_candle::Tensors;
/// use toma_core::chunk::Chunked;
///
/// fn rows(data: &impl Chunked<Tensors>) -> usize {
///     data.extent(0)
/// }
///
/// let tensor = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0], [5.0, 6.0]], &Device::Cpu)?;
/// assert_eq!(rows(&tensor), 3);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tensors;

toma_core::ready! { Tensors: [] Tensor; }

macro_rules! chunked {
    ($($tensor:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<'a> ChunkOf<'a, Tensors> for $tensor {
            type Held = Tensor;
            type Chunk = &'a Tensor;
        }

        /// A chunk shares the tensor's storage, as [`narrow`](Tensor::narrow) does.
        #[diagnostic::do_not_recommend]
        impl Chunked<Tensors> for $tensor {
            fn extent(&self, dim: isize) -> usize {
                self.dims()[axis(dim, self.rank())]
            }

            fn shape_key(&self, dim: isize) -> u64 {
                let mut sizes = self.dims().to_vec();
                sizes.remove(axis(dim, sizes.len()));
                let mut hasher = DefaultHasher::new();
                (self.dtype(), sizes).hash(&mut hasher);
                hasher.finish()
            }

            fn places(&self, place: &mut dyn FnMut(&str)) {
                match self.device().location() {
                    DeviceLocation::Cpu => place("cpu"),
                    DeviceLocation::Cuda { gpu_id } => place(&format!("cuda:{gpu_id}")),
                    DeviceLocation::Metal { gpu_id } => place(&format!("metal:{gpu_id}")),
                }
            }

            fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self, Tensors> {
                let held = self.narrow(axis(dim, self.rank()), range.start, range.len());
                held.unwrap_or_else(|error| panic!("chunk {range:?} of a tensor along dim {dim}: {error}"))
            }

            fn lend<'a>(held: &'a mut Held<'_, Self, Tensors>) -> Chunk<'a, Self, Tensors> {
                held
            }
        }
    )*};
}

chunked!(&Tensor, Tensor);

/// Concatenates the parts that [`map`](toma_core::execute::map) has collected into one tensor.
///
/// The parts and the result are in memory together for a moment. A single part is the result, without a copy.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use toma_candle::Concatenate as _;
///
/// let rows = Tensor::new(&[[1_f32], [2.0]], &Device::Cpu)?;
/// let parts = vec![rows.clone(), rows];
/// assert_eq!(parts.concatenate(0)?.dims(), [4, 1]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub trait Concatenate {
    /// The error of the bodies.
    type Error;

    /// Concatenates the parts along `dim`.
    ///
    /// # Errors
    /// If the bodies failed; if there are no parts, they have no such dim, their shapes differ in other dims, or
    /// memory runs out.
    fn concatenate(self, dim: usize) -> Result<Tensor, Self::Error>;
}

impl Concatenate for Vec<Tensor> {
    type Error = Error;

    fn concatenate(self, dim: usize) -> Result<Tensor, Error> {
        // A single part is returned as it is, so its dim is checked here.
        self.first().map(|first| first.dim(dim)).transpose()?;
        Tensor::cat(&self, dim)
    }
}

impl<E: From<Error>> Concatenate for Result<Vec<Tensor>, E> {
    type Error = E;

    fn concatenate(self, dim: usize) -> Result<Tensor, E> {
        Ok(self?.concatenate(dim)?)
    }
}
