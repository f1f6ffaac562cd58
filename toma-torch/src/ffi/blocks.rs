//! Live blocks of the CPU and of GPUs, which are reported to a recording.

use std::ffi::c_void;

use toma_trace::counting::{self, Living, Node, Owner};

use super::{node, operator_of_stack};

unsafe extern "C" {
    safe fn toma_cpu_watch(watcher: &'static BlockWatcher);
    safe fn toma_cpu_owner(address: u64) -> u64;
    safe fn toma_gpu_owner(address: u64) -> u64;
    /// Reports blocks of GPUs that this thread and its backwards make and free to the current recording.
    pub(crate) safe fn toma_gpu_observe();
    // `body` receives its own context.
    fn toma_cpu_each_block(body: EachBlock, context: *mut c_void);
    fn toma_gpu_each_block(device: u32, body: EachBlock, context: *mut c_void);
}

type EachBlock = extern "C" fn(*mut c_void, u64, u64, u64);

/// Callbacks for every block, on the thread that allocates, frees or is refused it. The CPU is device 0, and GPUs
/// follow.
#[repr(C)]
struct BlockWatcher {
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
    // A storage that moves between recordings keeps its owner for the next one.
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
        counting::out_of_memory(number(device), bytes, operator_of_stack, |visit| each_block(device, visit));
    }
}

extern "C" fn reserved(device: u32, total: u64) {
    counting::reserved(number(device), total);
}

/// No recording has a device of number 255, which stands for all larger ones.
fn number(device: u32) -> u8 {
    u8::try_from(device).unwrap_or(u8::MAX)
}

/// Reports every block to the current recording from now on; without a recording that takes two loads.
pub(crate) fn watch_blocks() {
    static WATCHER: BlockWatcher = BlockWatcher { allocated, freed, refused, reserved };
    toma_cpu_watch(&WATCHER);
}

/// Returns the owner that a recording gave the block at an address.
pub(crate) fn owner_at(address: u64) -> Owner {
    let owner = toma_cpu_owner(address);
    Owner(if owner == 0 { toma_gpu_owner(address) } else { owner })
}

/// Visits every live block of the counting allocator. `body` must neither make nor free a tensor, and should not panic,
/// because that would end the process.
pub(crate) fn each_cpu_block<F: FnMut(Living)>(body: F) {
    each_block(CPU, body);
}

/// Visits every live block of the CPU or of a GPU; on a GPU those that were reported to a recording.
pub(crate) fn each_block<F: FnMut(Living)>(device: u32, mut body: F) {
    extern "C" fn of<F: FnMut(Living)>(context: *mut c_void, address: u64, bytes: u64, owner: u64) {
        // SAFETY: `context` is the `body` below, lent for the call.
        let body = unsafe { &mut *context.cast::<F>() };
        body(Living { address, bytes, owner: Owner(owner) });
    }
    let context = (&raw mut body).cast();
    if device == CPU {
        // SAFETY: `body` lives through the call, which passes it only to the function of its type.
        unsafe { toma_cpu_each_block(of::<F>, context) };
    } else {
        // SAFETY: see above.
        unsafe { toma_gpu_each_block(device, of::<F>, context) };
    }
}
