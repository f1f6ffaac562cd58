//! A test double of the CUDA driver: it counts bytes and fails on purpose, and computes nothing.
//!
//! The tests compile it into a library named like the driver and put it first on the loader path of
//! the processes they run in, so that cudarc talks to it as to the real one. It has the functions
//! that cudarc and `toma::cuda` call, for devices that are nothing but an account of bytes, and beside
//! them functions of its own, `double_*`, by which a test sets it up.
//!
//! Its memory pool is as unhelpful as a pool may be: freed bytes serve only requests of the same
//! size, and stay reserved until the pool is trimmed. A real pool is as bad where it is fragmented.

#![allow(unsafe_code, reason = "it stands in for a library that is written in C")]
#![allow(non_snake_case, reason = "the names of the driver")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use function::Function;

/// Its own, as it is a library of its own; not for the lints, which see it among the tests.
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

const FUNCTIONS: usize = Function::SetCurrent as usize + 1;

static STATE: Mutex<State> = Mutex::new(State {
    devices: [Device::NEW; 2],
    device_count: 2,
    has_pools: true,
    blocks: BTreeMap::new(),
    next_address: 0x7000_0000,
    handles: 0,
    calls: [0; FUNCTIONS],
    failing: None,
    poisoned: SUCCESS,
});

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

struct State {
    devices: [Device; 2],
    device_count: c_int,
    has_pools: bool,
    /// By address.
    blocks: BTreeMap<u64, Block>,
    next_address: u64,
    handles: usize,
    calls: [u64; FUNCTIONS],
    /// A function, how many calls of it still succeed, and with what the next fails.
    failing: Option<(usize, u32, Code)>,
    /// What every call returns, once a context is poisoned.
    poisoned: Code,
}

/// The account of one device.
struct Device {
    total_bytes: u64,
    /// Bytes that are allocated outside of the pool.
    bytes: u64,
    used_bytes_of_pool: u64,
    peak_bytes_of_pool: u64,
    /// Sizes that the pool holds back.
    held_back: Vec<u64>,
}

struct Block {
    device: usize,
    from_pool: bool,
    content: Vec<u8>,
}

impl Device {
    const NEW: Self = Self {
        total_bytes: 1 << 20,
        bytes: 0,
        used_bytes_of_pool: 0,
        peak_bytes_of_pool: 0,
        held_back: Vec::new(),
    };

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
    /// Counts a call; the code it has to return, when it has to fail.
    fn call(&mut self, function: Function) -> Code {
        self.calls[function as usize] += 1;
        if self.poisoned != SUCCESS {
            return self.poisoned;
        }
        match &mut self.failing {
            Some((of, 0, code)) if *of == function as usize => {
                let code = *code;
                self.failing = None;
                code
            }
            Some((of, left, _)) if *of == function as usize => {
                *left -= 1;
                SUCCESS
            }
            _ => SUCCESS,
        }
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

    /// A free that has to fail frees all the same: what it returns is the error of earlier work.
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

    /// Counts a copy, and lets `work` have the bytes of the device.
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

    fn handle(&mut self) -> usize {
        self.handles += 1;
        self.handles
    }

    fn poison(&self) -> Code {
        self.poisoned
    }
}

/// The device of the calling thread's context; contexts are numbers of devices, from one.
fn current() -> usize {
    CURRENT.get().saturating_sub(1)
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

// What a test sets up and asks.

#[unsafe(no_mangle)]
extern "C" fn double_set_total(device: usize, bytes: u64) {
    state().devices[device].total_bytes = bytes;
}

#[unsafe(no_mangle)]
extern "C" fn double_set_device_count(count: c_int) {
    state().device_count = count;
}

#[unsafe(no_mangle)]
extern "C" fn double_without_pools() {
    state().has_pools = false;
}

/// The call of this function after `skip` more fails once with `code`.
#[unsafe(no_mangle)]
extern "C" fn double_fail(function: usize, skip: u32, code: Code) {
    state().failing = Some((function, skip, code));
}

/// From now on everything fails with `code`, as after a kernel that went wrong.
#[unsafe(no_mangle)]
extern "C" fn double_poison(code: Code) {
    state().poisoned = code;
}

#[unsafe(no_mangle)]
extern "C" fn double_calls(function: usize) -> u64 {
    state().calls[function]
}

/// Bytes that slices hold on a device.
#[unsafe(no_mangle)]
extern "C" fn double_used_bytes(device: usize) -> u64 {
    let device = &state().devices[device];
    device.bytes + device.used_bytes_of_pool
}

/// Bytes that are not free on a device.
#[unsafe(no_mangle)]
extern "C" fn double_taken_bytes(device: usize) -> u64 {
    let device = &state().devices[device];
    device.total_bytes - device.free_bytes()
}

// What cudarc calls.

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> Code {
    state().call(Function::Initialize)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: Out<'_, c_int>) -> Code {
    count.write(state().device_count);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Out<'_, c_int>, index: c_int) -> Code {
    device.write(index);
    if (0..state().device_count).contains(&index) { SUCCESS } else { INVALID_DEVICE }
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_int, _device: c_int) -> Code {
    const MEMORY_POOLS_SUPPORTED: c_int = 115;
    value.write(c_int::from(attribute == MEMORY_POOLS_SUPPORTED && state().has_pools));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: Out<'_, usize>, device: c_int) -> Code {
    context.write(usize::try_from(device).map_or(0, |device| device + 1));
    state().poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_device: c_int) -> Code {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: Out<'_, usize>) -> Code {
    context.write(CURRENT.get());
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> Code {
    let mut state = state();
    // A poisoned context can be made current all the same.
    let code = state.call(Function::SetCurrent);
    if code != SUCCESS && code != state.poisoned {
        return code;
    }
    CURRENT.set(context);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    state().call(Function::Synchronize)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_stream: usize) -> Code {
    state().call(Function::Synchronize)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: Out<'_, usize>, _flags: c_uint) -> Code {
    let mut state = state();
    stream.write(state.handle());
    state.poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_stream: usize) -> Code {
    state().poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(_stream: usize, _event: usize, _flags: c_uint) -> Code {
    state().poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(event: Out<'_, usize>, _flags: c_uint) -> Code {
    let mut state = state();
    event.write(state.handle());
    state.poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(_event: usize, _stream: usize) -> Code {
    state().poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(_event: usize) -> Code {
    state().poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) -> Code {
    let mut state = state();
    let device = &state.devices[current()];
    free.write(usize::try_from(device.free_bytes()).unwrap_or(usize::MAX));
    total.write(usize::try_from(device.total_bytes).unwrap_or(usize::MAX));
    state.call(Function::Information)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: Out<'_, u64>, size: usize) -> Code {
    state().allocate(address, size, false)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(address: Out<'_, u64>, size: usize, _stream: usize) -> Code {
    state().allocate(address, size, true)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> Code {
    state().free(address)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, _stream: usize) -> Code {
    state().free(address)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(address: u64, value: u8, size: usize, _stream: usize) -> Code {
    state().copy(address, size, |bytes| bytes.fill(value))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    address: u64,
    source: *const c_void,
    size: usize,
    _stream: usize,
) -> Code {
    // SAFETY: the caller has as many bytes there as it says.
    let source = unsafe { std::slice::from_raw_parts(source.cast::<u8>(), size) };
    state().copy(address, size, |bytes| bytes.copy_from_slice(source))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    target: *mut c_void,
    address: u64,
    size: usize,
    _stream: usize,
) -> Code {
    // SAFETY: the caller has room for as many bytes there as it says.
    let target = unsafe { std::slice::from_raw_parts_mut(target.cast::<MaybeUninit<u8>>(), size) };
    state().copy(address, size, |bytes| {
        for (target, byte) in target.iter_mut().zip(bytes) {
            target.write(*byte);
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, size: usize, _stream: usize) -> Code {
    let mut state = state();
    let Some(bytes) = state.at(source, size).map(|bytes| bytes.to_vec()) else { return INVALID_VALUE };
    state.copy(target, size, |target| target.copy_from_slice(&bytes))
}

/// Pools are numbers of devices, from one.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetMemPool(pool: Out<'_, usize>, device: c_int) -> Code {
    pool.write(usize::try_from(device).map_or(0, |device| device + 1));
    state().poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolGetAttribute(pool: usize, attribute: c_int, value: Out<'_, u64>) -> Code {
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
    state.poison()
}

const USED_MEM_HIGH: c_int = 8;

/// It keeps what is freed in any case. A peak can be set to nothing, and stays there until the next
/// allocation.
#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(pool: usize, attribute: c_int, value: &u64) -> Code {
    let mut state = state();
    if attribute == USED_MEM_HIGH {
        if *value != 0 {
            return INVALID_VALUE;
        }
        state.devices[pool - 1].peak_bytes_of_pool = 0;
    }
    state.poison()
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: usize, keep: usize) -> Code {
    let mut state = state();
    let code = state.call(Function::Trim);
    if code == SUCCESS && keep == 0 {
        state.devices[pool - 1].held_back.clear();
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(_code: Code, _name: Out<'_, *const c_char>) -> Code {
    INVALID_VALUE
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(code: Code, text: Out<'_, *const c_char>) -> Code {
    let words: &CStr = match code {
        OUT_OF_MEMORY => c"out of memory",
        700 => c"an illegal memory access was encountered",
        _ => return INVALID_VALUE,
    };
    text.write(words.as_ptr());
    SUCCESS
}
