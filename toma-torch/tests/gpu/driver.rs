//! cudarc against the driver of this machine: a real one, or the double that cudarc's own tests use.

#![expect(unsafe_code, reason = "cudarc has no safe functions for memory pools")]

use std::cell::RefCell;
use std::sync::Arc;

use cudarc::driver::result::{self, mem_pool};
use cudarc::driver::sys::{CUmemPool_attribute, CUresult};
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DriverError};
use toma::NoCache;
use toma::classify::{Class, Classify as _};
use toma::cuda::Device;
use toma::execute;
use toma::memory::MemorySource as _;

use crate::measure::{median_of_short, mib};
use crate::table::{Check, Needs, printed_by};

pub(crate) const CHECKS: &[Check] = &[
    with_driver("cudarc: out of memory has its code", code),
    with_driver("cudarc: exactly the halved sizes, and nothing is lost", halving),
    with_driver("cudarc: a panic is retried without a word", as_a_panic),
    with_driver("cudarc: what the pool holds back is free, and is released", trim),
    with_driver("cudarc: chunks of slices, together with host slices", chunks),
    with_driver("cudarc: an attribute over a view", attribute),
    with_driver("cudarc: cost of a read", reading),
];

const fn with_driver(name: &'static str, run: fn() -> String) -> Check {
    Check { name, needs: Needs::Driver, run }
}

fn device() -> Device {
    Device::new(0).unwrap()
}

fn stream(device: &Device) -> Arc<CudaStream> {
    device.context().default_stream()
}

/// Free bytes as the driver reports them, without the bytes that the pool holds back.
fn driver_free(device: &Device) -> usize {
    device.context().mem_get_info().unwrap().0
}

fn code() -> String {
    let device = device();
    let total = usize::try_from(device.read().unwrap().total_bytes).unwrap();
    let error = stream(&device).alloc_zeros::<u8>(total + 1).unwrap_err();
    assert_eq!(error.0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(error.classify().class, Class::OutOfMemory);
    error.to_string()
}

/// A fifth of the free bytes: four of them fit, and eight do not.
fn fifth(device: &Device) -> usize {
    device.release_cached_memory();
    driver_free(device) / 5
}

fn halving() -> String {
    let device = device();
    let (stream, unit) = (stream(&device), fifth(&device));
    let (before, sizes) = (driver_free(&device), RefCell::new(Vec::new()));
    let done = execute::with::<NoCache>().device(&device).batch(8, |fifths| {
        sizes.borrow_mut().push(fifths);
        let _first = stream.alloc_zeros::<u8>(unit * fifths / 2)?;
        stream.alloc_zeros::<u8>(unit * fifths / 2).map(drop)
    });
    assert_eq!((done, sizes.take()), (Ok(()), vec![8, 4]));
    device.release_cached_memory();
    assert_eq!(device.take_drop_error(), None);
    let after = driver_free(&device);
    assert!(after + unit / 10 > before, "{before} bytes free before, {after} after");
    "sizes [8, 4]".to_owned()
}

fn as_a_panic() -> String {
    let device = device();
    let (stream, unit) = (stream(&device), fifth(&device));
    let printed = printed_by(|| {
        let fitted = execute::with::<NoCache>().device(&device).batch(8, |fifths| {
            drop(stream.alloc_zeros::<u8>(unit * fifths).unwrap());
            fifths
        });
        assert_eq!(fitted, 4);
    });
    assert_eq!(printed, 0);
    String::new()
}

/// Lets the pool keep freed memory, which by default it returns at the next synchronization.
fn keep_freed(device: &Device, bytes: u64) {
    let (mut bytes, attribute) = (bytes, CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
    // SAFETY: the device is that of a living context.
    let pool = unsafe { result::device::get_mem_pool(device.context().cu_device()) }.unwrap();
    // SAFETY: the pool lives as long as the device, and the attribute is a `u64`.
    unsafe { mem_pool::set_attribute(pool, attribute, (&raw mut bytes).cast()) }.unwrap();
}

fn trim() -> String {
    let device = device();
    if !device.context().has_async_alloc() {
        return "the device has no memory pools".to_owned();
    }
    let unit = fifth(&device);
    let (stream, before) = (stream(&device), driver_free(&device));
    keep_freed(&device, u64::MAX);
    drop(stream.alloc_zeros::<u8>(unit).unwrap());
    stream.synchronize().unwrap();
    let (held_back, counted) = (driver_free(&device), device.read().unwrap().free_bytes);
    device.release_cached_memory();
    let released = driver_free(&device);
    keep_freed(&device, 0);
    assert!(held_back + unit / 2 < before, "the pool held nothing back");
    assert!(counted > u64::try_from(held_back + unit / 2).unwrap(), "{counted} counted of {before}");
    assert!(released > held_back + unit / 2, "{released} free after {held_back}");
    format!("{} held back, then released", mib(u64::try_from(unit).unwrap()))
}

fn chunks() -> String {
    let device = device();
    let stream = stream(&device);
    let input: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let data = stream.clone_htod(&input).unwrap();
    let (mut output, mut copy) = (vec![0.0_f32; 1000], stream.alloc_zeros::<f32>(1000).unwrap());
    execute::chunked((&data, &mut copy), 64, |(chunk, mut copy), _, _| stream.memcpy_dtod(&chunk, &mut copy))
        .unwrap();
    let read = |(chunk, out): (CudaView<'_, f32>, &mut [f32]), _, _| stream.memcpy_dtoh(&chunk, out);
    execute::chunked((&copy, &mut output[..]), 300, read).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(output, input);
    String::new()
}

#[toma::chunked(initial = 300)]
fn brought_home(
    data: CudaView<'_, u32>,
    start: usize,
    end: usize,
    out: &mut [u32],
) -> Result<(), DriverError> {
    let stream = Device::new(0).unwrap().context().default_stream();
    stream.memcpy_dtoh(&data, &mut out[start..end])
}

fn attribute() -> String {
    let device = device();
    let input: Vec<u32> = (0..1000).collect();
    let data: CudaSlice<u32> = stream(&device).clone_htod(&input).unwrap();
    let mut output = vec![0; 1000];
    brought_home(data.as_view(), &mut output).unwrap();
    device.context().synchronize().unwrap();
    assert_eq!(output, input);
    String::new()
}

fn reading() -> String {
    let device = device();
    let read = median_of_short(|| _ = device.read().unwrap());
    let driver = median_of_short(|| _ = driver_free(&device));
    format!("read {read:.1?}, of which the driver {driver:.1?}")
}
