//! The counting CPU allocator.

use std::ffi::c_void;

use toma_trace::counting;

use crate::stats::Stats;

// Sound to call with any numbers, from any thread: what they touch is atomic or of the calling thread,
// and the allocator may be put in place at any time.
unsafe extern "C" {
    pub(crate) safe fn toma_cpu_install();
    pub(crate) safe fn toma_cpu_stats() -> Stats;
    pub(crate) safe fn toma_cpu_allocated_bytes() -> u64;
    pub(crate) safe fn toma_cpu_reset_peak();
    /// The limit in force, `u64::MAX` for none.
    pub(crate) safe fn toma_cpu_budget() -> u64;
    pub(crate) safe fn toma_cpu_set_budget(bytes: u64);
    safe fn toma_cpu_fail_after(skip: i64) -> i64;
    safe fn toma_cpu_watch(watcher: &'static Watcher);
    fn toma_cpu_each_block(body: EachBlock, context: *mut c_void);
}

type EachBlock = extern "C" fn(*mut c_void, u64, u64, u64);

/// A living block of the counting allocator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// What a recording has answered for it.
    #[allow(dead_code, reason = "a recording knows what it is called")]
    pub(crate) owner: u64,
}

/// Every living block. `body` must neither make nor free a tensor, and should not panic: that would end the process.
pub(crate) fn each_cpu_block<F: FnMut(Block)>(mut body: F) {
    extern "C" fn of<F: FnMut(Block)>(context: *mut c_void, address: u64, bytes: u64, owner: u64) {
        // SAFETY: it is the body below, lent for the call.
        let body = unsafe { &mut *context.cast::<F>() };
        body(Block { address, bytes, owner });
    }
    // SAFETY: `body` lives through the call, which hands it to the function of its type alone.
    unsafe { toma_cpu_each_block(of::<F>, (&raw mut body).cast()) };
}

/// What is told of every block, on the thread that makes, frees or lacks it.
#[repr(C)]
struct Watcher {
    allocated: extern "C" fn(u64) -> u64,
    freed: extern "C" fn(u64, u64),
    refused: extern "C" fn(u64),
}

/// The only device of a recording.
const HOST: u32 = 0;

extern "C" fn allocated(bytes: u64) -> u64 {
    counting::allocated(HOST, bytes)
}

extern "C" fn freed(owner: u64, bytes: u64) {
    counting::freed(HOST, bytes, owner);
}

extern "C" fn refused(_: u64) {
    counting::out_of_memory(HOST);
}

/// Tells the recording that runs of every block from now on; without one that is two loads.
pub(crate) fn watch_cpu() {
    static WATCHER: Watcher = Watcher { allocated, freed, refused };
    toma_cpu_watch(&WATCHER);
}

/// Lets an allocation of this thread fail after `skip` more; returns how many were left before.
pub(crate) fn fail_cpu_allocation(skip: Option<u32>) -> Option<u32> {
    let left = toma_cpu_fail_after(skip.map_or(-1, i64::from));
    u32::try_from(left).ok()
}
