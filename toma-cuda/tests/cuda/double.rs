//! A test double of the CUDA driver: it counts bytes and fails on purpose, and computes nothing.
//!
//! The tests compile it into a library named like the driver and put it first on the loader path of the processes they
//! run in, so that cudarc uses it like the real one. It has the functions that cudarc and `toma::cuda` call, for
//! devices that are only an account of bytes, and one more, `double_answer`, by which a test sets it up and asks for
//! its counts.
//!
//! Its memory pool reuses as little as a pool may: freed bytes serve only requests of the same size, and stay reserved
//! until the pool is trimmed. A real pool behaves like this when it is fragmented.

#![allow(unsafe_code, reason = "it stands in for a library that is written in C")]
#![allow(non_snake_case, reason = "the names of the driver")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint};
use std::mem::MaybeUninit;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use function::{Function, Request};

/// A copy of its own, because the double is a separate library; not for the lints, which see it among the tests.
#[cfg(not(clippy))]
#[path = "function.rs"]
mod function;

#[cfg(clippy)]
use crate::function;

type Code = u32;
type Out<'a, T> = &'a mut MaybeUninit<T>;

const SUCCESS: Code = 0;
const INVALID_VALUE: Code = 1;
const OUT_OF_MEMORY: Code = 2;
const INVALID_DEVICE: Code = 101;
const USED_MEM_HIGH: c_int = 8;

const FUNCTIONS: usize = Function::SetCurrent as usize + 1;

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let device = || Device { total_bytes: 1 << 20, ..Device::default() };
    let devices = [device(), device()];
    let state =
        State { devices, device_count: 2, has_pools: true, next_address: 0x7000_0000, ..State::default() };
    Mutex::new(state)
});

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

#[derive(Default)]
struct State {
    devices: [Device; 2],
    device_count: c_int,
    has_pools: bool,
    /// Blocks by address.
    blocks: BTreeMap<u64, Block>,
    next_address: u64,
    handles: usize,
    calls: [u64; FUNCTIONS],
    /// The function that fails, the number of calls before it fails, and its code.
    failing: Option<(usize, u32, Code)>,
    /// The code that every call returns once a context is poisoned.
    poisoned: Code,
}

/// The account of one device.
#[derive(Default)]
struct Device {
    total_bytes: u64,
    /// Bytes that are allocated outside of the pool.
    bytes: u64,
    used_bytes_of_pool: u64,
    peak_bytes_of_pool: u64,
    /// Sizes of the blocks that the pool holds back.
    held_back: Vec<u64>,
}

struct Block {
    device: usize,
    from_pool: bool,
    content: Vec<u8>,
}

impl Device {
    fn reserved_bytes_of_pool(&self) -> u64 {
        self.used_bytes_of_pool + self.held_back.iter().sum::<u64>()
    }

    fn free_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.bytes + self.reserved_bytes_of_pool())
    }

    fn take(&mut self, size: u64, from_pool: bool) -> bool {
        let again = self.held_back.iter().position(|held| *held == size).filter(|_| from_pool);
        if again.is_none() && size > self.free_bytes() {
            return false;
        }
        again.map(|at| self.held_back.swap_remove(at));
        *(if from_pool { &mut self.used_bytes_of_pool } else { &mut self.bytes }) += size;
        self.peak_bytes_of_pool = self.peak_bytes_of_pool.max(self.used_bytes_of_pool);
        true
    }

    fn give_back(&mut self, size: u64, from_pool: bool) {
        *(if from_pool { &mut self.used_bytes_of_pool } else { &mut self.bytes }) -= size;
        self.held_back.extend(from_pool.then_some(size));
    }
}

impl State {
    /// Counts a call, and returns its code.
    fn call(&mut self, function: Function) -> Code {
        self.calls[function as usize] += 1;
        if self.poisoned != SUCCESS {
            return self.poisoned;
        }
        match &mut self.failing {
            Some((of, left @ 1.., _)) if *of == function as usize => *left -= 1,
            Some((of, ..)) if *of == function as usize => {
                return self.failing.take().map_or(SUCCESS, |(.., code)| code);
            }
            _ => {}
        }
        SUCCESS
    }

    fn allocate(&mut self, address: Out<'_, u64>, size: usize, from_pool: bool) -> Code {
        let code = self.call(Function::Allocate);
        if code != SUCCESS {
            return code;
        }
        if size == 0 || CURRENT.get() == 0 {
            return INVALID_VALUE;
        }
        let device = current();
        if !self.devices[device].take(size as u64, from_pool) {
            return OUT_OF_MEMORY;
        }
        address.write(self.next_address);
        self.blocks.insert(self.next_address, Block { device, from_pool, content: vec![0xAA; size] });
        self.next_address += (size as u64).next_multiple_of(256) + 256;
        SUCCESS
    }

    /// A free that has to fail frees all the same, because it returns the error of earlier work.
    fn free(&mut self, address: u64) -> Code {
        let code = self.call(Function::Free);
        let Some(block) = self.blocks.remove(&address) else { return INVALID_VALUE };
        self.devices[block.device].give_back(block.content.len() as u64, block.from_pool);
        code
    }

    /// The bytes at an address, when all of them are in one block.
    fn at(&mut self, address: u64, size: usize) -> Option<&mut [u8]> {
        let (start, block) = self.blocks.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        block.content.get_mut(offset..offset.checked_add(size)?)
    }

    /// Counts a copy, and passes the bytes of the device to `work`.
    fn copy(&mut self, address: u64, size: usize, work: impl FnOnce(&mut [u8])) -> Code {
        let code = self.call(Function::Copy);
        if code != SUCCESS {
            return code;
        }
        self.at(address, size).map_or(INVALID_VALUE, |bytes| {
            work(bytes);
            SUCCESS
        })
    }

    /// Writes a new handle.
    fn create(&mut self, handle: Out<'_, usize>) -> Code {
        self.handles += 1;
        handle.write(self.handles);
        self.poisoned
    }
}

/// The device of the calling thread's context.
fn current() -> usize {
    CURRENT.get().saturating_sub(1)
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
extern "C" fn double_answer(request: Request) -> u64 {
    let mut state = state();
    match request {
        Request::SetTotal(bytes) => state.devices[0].total_bytes = bytes,
        Request::SetDeviceCount(count) => state.device_count = count,
        Request::WithoutPools => state.has_pools = false,
        Request::Fail(function, skip, code) => state.failing = Some((function as usize, skip, code)),
        Request::Poison(code) => state.poisoned = code,
        Request::Calls(function) => return state.calls[function as usize],
        Request::UsedBytes => return state.devices[0].bytes + state.devices[0].used_bytes_of_pool,
        Request::TakenBytes => return state.devices[0].total_bytes - state.devices[0].free_bytes(),
    }
    0
}

/// Defines functions of the driver, with the names by which cudarc finds them.
macro_rules! driver {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $ty:ty),*) $body:block)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $ty),*) -> Code $body
    )*};
}

driver! {
    fn cuInit(_flags: c_uint) { state().call(Function::Initialize) }

    fn cuDeviceGetCount(count: Out<'_, c_int>) {
        count.write(state().device_count);
        SUCCESS
    }

    fn cuDeviceGet(device: Out<'_, c_int>, index: c_int) {
        device.write(index);
        if (0..state().device_count).contains(&index) { SUCCESS } else { INVALID_DEVICE }
    }

    fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_int, _device: c_int) {
        const MEMORY_POOLS_SUPPORTED: c_int = 115;
        value.write(c_int::from(attribute == MEMORY_POOLS_SUPPORTED && state().has_pools));
        SUCCESS
    }

    /// Contexts and pools are numbers of devices, from one.
    fn cuDevicePrimaryCtxRetain(context: Out<'_, usize>, device: c_int) {
        context.write(usize::try_from(device).map_or(0, |device| device + 1));
        state().poisoned
    }

    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) { SUCCESS }

    fn cuCtxGetCurrent(context: Out<'_, usize>) {
        context.write(CURRENT.get());
        SUCCESS
    }

    fn cuCtxSetCurrent(context: usize) {
        let mut state = state();
        // A poisoned context can be made current all the same.
        let code = state.call(Function::SetCurrent);
        if code != SUCCESS && code != state.poisoned {
            return code;
        }
        CURRENT.set(context);
        SUCCESS
    }

    fn cuCtxSynchronize() { state().call(Function::Synchronize) }
    fn cuStreamSynchronize(_stream: usize) { state().call(Function::Synchronize) }
    fn cuStreamCreate(stream: Out<'_, usize>, _flags: c_uint) { state().create(stream) }
    fn cuEventCreate(event: Out<'_, usize>, _flags: c_uint) { state().create(event) }
    fn cuStreamDestroy_v2(_stream: usize) { state().poisoned }
    fn cuStreamWaitEvent(_stream: usize, _event: usize, _flags: c_uint) { state().poisoned }
    fn cuEventRecord(_event: usize, _stream: usize) { state().poisoned }
    fn cuEventDestroy_v2(_event: usize) { state().poisoned }

    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        let mut state = state();
        let device = &state.devices[current()];
        free.write(usize::try_from(device.free_bytes()).unwrap_or(usize::MAX));
        total.write(usize::try_from(device.total_bytes).unwrap_or(usize::MAX));
        state.call(Function::Information)
    }

    fn cuMemAlloc_v2(address: Out<'_, u64>, size: usize) { state().allocate(address, size, false) }

    fn cuMemAllocAsync(address: Out<'_, u64>, size: usize, _stream: usize) {
        state().allocate(address, size, true)
    }

    fn cuMemFree_v2(address: u64) { state().free(address) }
    fn cuMemFreeAsync(address: u64, _stream: usize) { state().free(address) }

    fn cuMemsetD8Async(address: u64, value: u8, size: usize, _stream: usize) {
        state().copy(address, size, |bytes| bytes.fill(value))
    }

    fn cuMemcpyHtoDAsync_v2(address: u64, source: *const u8, size: usize, _stream: usize) {
        // SAFETY: the caller has `size` bytes there.
        state().copy(address, size, |bytes| unsafe { source.copy_to(bytes.as_mut_ptr(), size) })
    }

    fn cuMemcpyDtoHAsync_v2(target: *mut u8, address: u64, size: usize, _stream: usize) {
        // SAFETY: the caller has room for `size` bytes there.
        state().copy(address, size, |bytes| unsafe { target.copy_from(bytes.as_ptr(), size) })
    }

    fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, size: usize, _stream: usize) {
        let mut state = state();
        let Some(bytes) = state.at(source, size).map(|bytes| bytes.to_vec()) else { return INVALID_VALUE };
        state.copy(target, size, |target| target.copy_from_slice(&bytes))
    }

    fn cuDeviceGetMemPool(pool: Out<'_, usize>, device: c_int) {
        pool.write(usize::try_from(device).map_or(0, |device| device + 1));
        state().poisoned
    }

    fn cuMemPoolGetAttribute(pool: usize, attribute: c_int, value: Out<'_, u64>) {
        const RESERVED_MEM_CURRENT: c_int = 5;
        const USED_MEM_CURRENT: c_int = 7;
        let state = state();
        let device = &state.devices[pool - 1];
        match attribute {
            RESERVED_MEM_CURRENT => value.write(device.reserved_bytes_of_pool()),
            USED_MEM_CURRENT => value.write(device.used_bytes_of_pool),
            USED_MEM_HIGH => value.write(device.peak_bytes_of_pool),
            _ => return INVALID_VALUE,
        };
        state.poisoned
    }

    /// Accepts any threshold, because the pool keeps all freed memory anyway. A peak can only be reset to zero, and
    /// stays there until the next allocation.
    fn cuMemPoolSetAttribute(pool: usize, attribute: c_int, value: &u64) {
        let mut state = state();
        if attribute == USED_MEM_HIGH {
            if *value != 0 {
                return INVALID_VALUE;
            }
            state.devices[pool - 1].peak_bytes_of_pool = 0;
        }
        state.poisoned
    }

    fn cuMemPoolTrimTo(pool: usize, keep: usize) {
        let mut state = state();
        let code = state.call(Function::Trim);
        if code == SUCCESS && keep == 0 {
            state.devices[pool - 1].held_back.clear();
        }
        code
    }

    fn cuGetErrorName(_code: Code, _name: Out<'_, *const c_char>) { INVALID_VALUE }

    fn cuGetErrorString(code: Code, text: Out<'_, *const c_char>) {
        let words = match code {
            OUT_OF_MEMORY => c"out of memory",
            700 => c"an illegal memory access was encountered",
            _ => return INVALID_VALUE,
        };
        text.write(words.as_ptr());
        SUCCESS
    }
}
