//! Chunks of device slices and views, which are views themselves.

use std::ops::Range;

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use toma_core::chunk::{Chunk, ChunkOf, Chunked, Held, axis};

/// The kind of device slices and views as [`Chunked`] data; found by inference, never written.
///
/// A function that takes any device slice names the kind:
///
/// ```
/// use toma_core::chunk::Chunked;
/// use toma_cuda::DeviceSlices;
///
/// fn items(data: &impl Chunked<DeviceSlices>) -> usize {
///     data.extent(0)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceSlices;

macro_rules! chunked {
    ($($data:ty, $view:ident, $hold:ident, $lend:ident;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<'a, T> ChunkOf<'a, DeviceSlices> for $data {
            type Held = $view<'a, T>;
            type Chunk = $view<'a, T>;
        }

        #[diagnostic::do_not_recommend]
        impl<T> Chunked<DeviceSlices> for $data {
            fn extent(&self, dim: isize) -> usize {
                axis(dim, 1);
                self.len()
            }

            fn hold(&mut self, _: isize, range: Range<usize>) -> Held<'_, Self, DeviceSlices> {
                let len = self.len();
                self.$hold(range.clone()).unwrap_or_else(|| out_of_range(&range, len))
            }

            #[inline]
            fn lend<'a>(held: &'a mut Held<'_, Self, DeviceSlices>) -> Chunk<'a, Self, DeviceSlices> {
                held.$lend(..)
            }
        }
    )*};
}

chunked! {
    &CudaSlice<T>, CudaView, try_slice, slice;
    &mut CudaSlice<T>, CudaViewMut, try_slice_mut, slice_mut;
    CudaView<'_, T>, CudaView, try_slice, slice;
    CudaViewMut<'_, T>, CudaViewMut, try_slice_mut, slice_mut;
}

#[cold]
fn out_of_range(range: &Range<usize>, len: usize) -> ! {
    panic!("chunk {range:?} of a device slice: must be within 0..{len}")
}
