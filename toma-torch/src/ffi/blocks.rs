//! Living blocks of the CPU and of GPUs, and what a recording is told of them.

use std::ffi::c_void;

use toma_trace::counting::{self, Living, Node, Owner};

use super::{node, operator_of_stack};

unsafe extern "C" {
    safe fn toma_cpu_watch(watcher: &'static Watcher);
    safe fn toma_cpu_owner(address: u64) -> u64;
    safe fn toma_gpu_owner(address: u64) -> u64;
    safe fn toma_gpu_observe();
    // The body takes its own context.
    fn toma_cpu_each_block(body: EachBlock, context: *mut c_void);
    fn toma_gpu_each_block(device: u32, body: EachBlock, context: *mut c_void);
}

type EachBlock = extern "C" fn(*mut c_void, u64, u64, u64);

/// What is told of every block, on the thread that makes, frees or lacks it. The CPU is device 0, and GPUs follow.
#[repr(C)]
struct Watcher {
    allocated: extern "C" fn(u32, u64, u64) -> u64,
    freed: extern "C" fn(u32, u64, u64, u64),
    refused: extern "C" fn(u32, u64),
    reserved: extern "C" fn(u32, u64),
}

const CPU: u32 = 0;

extern "C" fn allocated(device: u32, address: u64, bytes: u64) -> u64 {
    if counting::runs() {
        return counting::allocated(number(device), address, bytes, node()).0;
    }
    // A storage that moves between recordings is the same in the next.
    if counting::moving().is_some() {
        counting::allocated(number(device), address, bytes, Node(0)).0
    } else {
        0
    }
}

extern "C" fn freed(device: u32, address: u64, bytes: u64, owner: u64) {
    counting::freed(number(device), address, bytes, Owner(owner));
}

extern "C" fn refused(device: u32, bytes: u64) {
    if counting::runs() {
        counting::out_of_memory(number(device), bytes, operator_of_stack, |tell| each_block(device, tell));
    }
}

extern "C" fn reserved(device: u32, total: u64) {
    counting::reserved(number(device), total);
}

/// No recording has the last of them.
fn number(device: u32) -> u8 {
    u8::try_from(device).unwrap_or(u8::MAX)
}

/// Tells the recording that runs of every block from now on; without one that is two loads.
pub(crate) fn watch_blocks() {
    static WATCHER: Watcher = Watcher { allocated, freed, refused, reserved };
    toma_cpu_watch(&WATCHER);
}

/// Tells the recording of blocks of GPUs that this thread and its backwards make and free.
pub(crate) fn observe_gpus() {
    toma_gpu_observe();
}

/// What a recording has answered for the block at an address.
pub(crate) fn owner_at(address: u64) -> Owner {
    let owner = toma_cpu_owner(address);
    Owner(if owner == 0 { toma_gpu_owner(address) } else { owner })
}

/// Every living block of the counting allocator. `body` must neither make nor free a tensor, and should not panic: that
/// would end the process.
pub(crate) fn each_cpu_block<F: FnMut(Living)>(body: F) {
    each_block(CPU, body);
}

/// The same of the CPU or a GPU, of which those are known that a recording was told of.
pub(crate) fn each_block<F: FnMut(Living)>(device: u32, mut body: F) {
    extern "C" fn of<F: FnMut(Living)>(context: *mut c_void, address: u64, bytes: u64, owner: u64) {
        // SAFETY: it is the body below, lent for the call.
        let body = unsafe { &mut *context.cast::<F>() };
        body(Living { address, bytes, owner: Owner(owner) });
    }
    let context = (&raw mut body).cast();
    if device == CPU {
        // SAFETY: `body` lives through the call, which hands it to the function of its type alone.
        unsafe { toma_cpu_each_block(of::<F>, context) };
    } else {
        // SAFETY: the same.
        unsafe { toma_gpu_each_block(device, of::<F>, context) };
    }
}
