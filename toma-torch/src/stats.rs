/// Counters of a libtorch allocator on one device: [`Device::stats`](crate::Device::stats).
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::Device;
///
/// let device = Device::new(tch::Device::Cpu);
/// let before = device.stats()?;
/// let tensor = Tensor::zeros([256], (Kind::Float, tch::Device::Cpu));
/// assert_eq!(device.stats()?.allocated_bytes - before.allocated_bytes, 1024);
/// # drop(tensor);
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[non_exhaustive]
#[repr(C)] // `toma_stats` of the shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that tensors hold.
    pub allocated_bytes: u64,
    /// Bytes that the allocator has from the driver, held by tensors or cached.
    pub reserved_bytes: u64,
    /// The most bytes that tensors held at any time since the peaks were reset.
    pub peak_allocated_bytes: u64,
    /// The most bytes that the allocator had at any time since the peaks were reset.
    pub peak_reserved_bytes: u64,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Times the allocator released its cached memory because the driver had no more.
    pub alloc_retries: u64,
    /// Times the allocator gave up and raised out of memory.
    pub ooms: u64,
}
