//! Tensors in toma's traits: as data that is processed in chunks, and as values that bodies return.
//!
//! # Why
//!
//! All functions between a loop and libtorch are inlined. Each one cost a chunk 7 to 15 ns, many times its
//! instructions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use tch::{Kind, TchError, Tensor};
use toma_core::chunk::{Chunk, ChunkOf, Chunked, Held, axis};

/// Marker by which tensors implement traits of another crate; programs never have to write it.
///
/// A function that takes any data of tch names the kind:
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_core::chunk::Chunked;
/// use toma_torch::Tensors;
///
/// fn rows(data: &impl Chunked<Tensors>) -> usize {
///     data.extent(0)
/// }
/// assert_eq!(rows(&Tensor::zeros([3, 2], (Kind::Float, tch::Device::Cpu))), 3);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tensors;

toma_core::ready! { Tensors: [] Tensor; }

macro_rules! chunked {
    ($($tensor:ty),*) => {$(
        impl<'a> ChunkOf<'a, Tensors> for $tensor {
            type Held = Tensor;
            type Chunk = &'a Tensor;
        }

        /// A chunk is a view along `dim` that shares the tensor's storage: writing to the chunk in place writes to the
        /// tensor.
        impl Chunked<Tensors> for $tensor {
            fn extent(&self, dim: isize) -> usize {
                extent(self, dim)
            }

            fn shape_key(&self, dim: isize) -> u64 {
                shape_key(self, dim)
            }

            #[inline]
            fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self, Tensors> {
                view(self, dim, &range)
            }

            #[inline]
            fn lend<'a>(held: &'a mut Held<'_, Self, Tensors>) -> Chunk<'a, Self, Tensors> {
                held
            }
        }
    )*};
}

chunked!(&Tensor, &mut Tensor, Tensor);

/// Bytes of a tensor's elements, densely packed. Its storage may have more, or fewer if dimensions are expanded.
pub(crate) fn packed_bytes(tensor: &Tensor) -> usize {
    tensor.numel() * tensor.kind().elt_size_in_bytes()
}

#[track_caller]
fn extent(tensor: &Tensor, dim: isize) -> usize {
    assert!(tensor.defined(), "chunked tensor: must be defined");
    assert!(
        !tensor.is_sparse(),
        "chunked tensor: a sparse tensor has no views; loop over a range and use `narrow_copy`"
    );
    let sizes = tensor.size();
    let size = sizes[axis(dim, sizes.len())];
    usize::try_from(size).expect("sizes of tensors are natural numbers")
}

/// Hash that is equal for tensors whose items take the same memory.
fn shape_key(tensor: &Tensor, dim: isize) -> u64 {
    let mut sizes = tensor.size();
    sizes.remove(axis(dim, sizes.len()));
    let mut hasher = DefaultHasher::new();
    (tensor.kind(), sizes).hash(&mut hasher);
    hasher.finish()
}

/// libtorch counts negative dims from the last axis as we do.
// Inlined like all its callers: each function between the loop and libtorch costs a chunk 7 to 15 ns.
#[inline]
fn view(tensor: &Tensor, dim: isize, range: &Range<usize>) -> Tensor {
    let number = |index: usize| i64::try_from(index).expect("extents of tensors fit in i64");
    tensor.f_narrow(dim as i64, number(range.start), number(range.len())).unwrap_or_else(|error| {
        // Layouts that tch cannot recognize: compressed rows or columns, and oneDNN's own.
        panic!("chunked tensor: it has no views along dim {dim}; make it dense and strided first: {error}")
    })
}

/// Joins the parts that [`map`](toma_core::execute::map) collected to one tensor.
///
/// The parts and the whole are in memory together for a moment, so the whole should be at most half of the available
/// memory. A single part is returned without a copy.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_core::execute;
/// use toma_torch::Concatenate as _;
///
/// let input = Tensor::arange(10, (Kind::Float, Device::Cpu));
/// let squares = execute::map(0..10, 4, |start, end| {
///     input.narrow(0, start as i64, (end - start) as i64).square()
/// })
/// .concatenate(0);
/// assert_eq!(squares, input.square());
/// ```
pub trait Concatenate {
    /// One tensor, or a result with the error of the parts.
    type Whole;

    /// Joins the parts in order along `dim`; a negative `dim` counts from the last axis.
    ///
    /// # Panics
    /// If `Whole` is a tensor, as tch's ordinary methods do: when there are no parts, or they have no such dim, or
    /// their shapes differ in other dims, or memory runs out.
    fn concatenate(self, dim: i64) -> Self::Whole;
}

impl Concatenate for Vec<Tensor> {
    type Whole = Tensor;

    fn concatenate(self, dim: i64) -> Tensor {
        let parts = self.len();
        concatenate(self, dim)
            .unwrap_or_else(|error| panic!("concatenate {parts} tensors along dim {dim}: {error}"))
    }
}

impl<E: From<TchError>> Concatenate for Result<Vec<Tensor>, E> {
    type Whole = Result<Tensor, E>;

    fn concatenate(self, dim: i64) -> Result<Tensor, E> {
        Ok(concatenate(self?, dim)?)
    }
}

fn concatenate(mut parts: Vec<Tensor>, dim: i64) -> Result<Tensor, TchError> {
    // One part without such a dim is joined like many parts, so that the mistake shows before a loop shrinks.
    if parts.len() == 1 && has_dim(&parts[0], dim) {
        return Ok(parts.swap_remove(0));
    }
    Tensor::f_cat(&parts, dim)
}

fn has_dim(tensor: &Tensor, dim: i64) -> bool {
    i64::try_from(tensor.dim()).is_ok_and(|dims| (-dims..dims).contains(&dim))
}

/// Data made of tensors: a tensor, or a tuple of data.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::TensorData;
///
/// /// Tensors of a batch.
/// struct Batch {
///     images: Tensor,
///     labels: Tensor,
/// }
///
/// impl TensorData for Batch {
///     fn device(&self) -> tch::Device {
///         self.images.device()
///     }
///
///     fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64])) {
///         (&self.images, &self.labels).describe(describe);
///     }
///
///     fn integers(&self, found: &mut Vec<Tensor>) {
///         (&self.images, &self.labels).integers(found);
///     }
/// }
///
/// let images = Tensor::zeros([8, 784], (Kind::Float, tch::Device::Cpu));
/// let batch = Batch { images, labels: Tensor::zeros([8], (Kind::Int64, tch::Device::Cpu)) };
/// let mut labels = Vec::new();
/// batch.integers(&mut labels);
/// assert_eq!(labels.len(), 1);
/// ```
pub trait TensorData {
    /// The device of the first tensor.
    fn device(&self) -> tch::Device;

    /// Calls `describe` with the kind and sizes of each tensor.
    fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64]));

    /// Adds the tensors that may be labels: those of signed integers, and those of one dimension in other kinds.
    fn integers(&self, found: &mut Vec<Tensor>);
}

impl TensorData for Tensor {
    fn device(&self) -> tch::Device {
        Tensor::device(self)
    }

    fn describe(&self, describe: &mut dyn FnMut(Kind, &[i64])) {
        describe(self.kind(), &self.size());
    }

    fn integers(&self, found: &mut Vec<Tensor>) {
        let is_of_integers = matches!(self.kind(), Kind::Int64 | Kind::Int | Kind::Int16 | Kind::Int8);
        if is_of_integers || self.dim() <= 1 {
            found.push(self.shallow_clone());
        }
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

            fn integers(&self, found: &mut Vec<Tensor>) {
                T::integers(self, found);
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

            fn integers(&self, found: &mut Vec<Tensor>) {
                $(self.$index.integers(found);)*
            }
        }
    )*};
}

tuples!((A 0) (A 0 B 1) (A 0 B 1 C 2) (A 0 B 1 C 2 D 3) (A 0 B 1 C 2 D 3 E 4) (A 0 B 1 C 2 D 3 E 4 F 5));
