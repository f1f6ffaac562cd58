//! Operators of threads that have entered a manager.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, OnceLock};

use super::swap::{self, StorageRef, Use};
use super::{DeviceId, RawError, checked};
use crate::error::Error;

unsafe extern "C" {
    safe fn toma_offload_install(offloading: &'static Offloading);
    safe fn toma_offload_register(error: &mut RawError) -> i32;
    /// Lets storages of at least so many bytes move, so that operators of threads that have entered fetch them.
    pub(crate) safe fn toma_offload_moves(least_bytes: u64);
    /// Reports this thread's operators from here until it leaves.
    pub(crate) safe fn toma_offload_enter(least_bytes: u64);
    /// Returns true if no thread is entered any more.
    pub(crate) safe fn toma_offload_leave() -> bool;
    /// Returns true if any thread has entered.
    pub(crate) safe fn toma_offload_is_watched() -> bool;
    /// Returns true if this process is a fork of the one that made the first manager.
    pub(crate) safe fn toma_offload_is_forked() -> bool;
    safe fn toma_offload_aside(aside: bool) -> bool;
    safe fn toma_offload_predict(predicts: bool);
    safe fn toma_cuda_relieve(device: u32, most_bytes: u64);
}

/// `toma_ended` of the shim.
#[repr(C)]
struct RawEnded {
    name: *const c_char,
    uses: *mut Use<'static>,
    use_count: usize,
    made: *mut Use<'static>,
    made_count: usize,
    inside_bytes: u64,
    lends_uses: bool,
    lends_made: bool,
    has_failed: bool,
}

/// Storages of an operator that has ended.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) name: &'a str,
    pub(crate) uses: &'a mut [Use<'a>],
    pub(crate) made: &'a mut [Use<'a>],
    /// Peak in bytes beyond those allocated when the operator began.
    pub(crate) inside_bytes: u64,
    /// The program may read their memory without another operator.
    pub(crate) lends_uses: bool,
    pub(crate) lends_made: bool,
    pub(crate) has_failed: bool,
}

/// `toma_offloading` of the shim.
#[repr(C)]
struct Offloading {
    begins: extern "C" fn(*const c_char, *mut Use<'static>, usize, &mut RawError) -> i32,
    ends: extern "C" fn(&RawEnded),
    held: extern "C" fn(*mut Use<'static>, usize, bool),
    lacks: extern "C" fn(DeviceId, u64) -> bool,
    dropped: extern "C" fn(*mut c_void) -> u64,
    memory: extern "C" fn(*const c_void) -> *const u8,
    read: extern "C" fn(*const c_void, *const u64, usize, u64, *mut u8, u64, &mut RawError) -> i32,
}

static OFFLOADING: Offloading =
    Offloading { begins, ends, held, lacks, dropped: swap::dropped, memory, read };

/// Returns the storages of a callback, which live through it.
fn uses<'a>(uses: *mut Use<'static>, count: usize) -> &'a mut [Use<'a>] {
    let uses = if count == 0 { NonNull::dangling().as_ptr() } else { uses.cast() };
    // SAFETY: the shim has so many, which live through its call as their storages do, and lends them to it alone.
    unsafe { slice::from_raw_parts_mut(uses, count) }
}

extern "C" fn begins(
    name: *const c_char,
    begun: *mut Use<'static>,
    count: usize,
    error: &mut RawError,
) -> i32 {
    match manages().begin(name_at(name), uses(begun, count)) {
        Ok(()) => 0,
        Err(failed) => error.fill(&failed),
    }
}

fn name_at(name: *const c_char) -> &'static str {
    // SAFETY: the pointer is to the name of an operator, which lives as long as the library that registered it.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("an operator")
}

extern "C" fn ends(raw: &RawEnded) {
    manages().end(&mut Ended {
        name: name_at(raw.name),
        uses: uses(raw.uses, raw.use_count),
        made: uses(raw.made, raw.made_count),
        inside_bytes: raw.inside_bytes,
        lends_uses: raw.lends_uses,
        lends_made: raw.lends_made,
        has_failed: raw.has_failed,
    });
}

extern "C" fn held(of: *mut Use<'static>, count: usize, begins: bool) {
    manages().hold(uses(of, count), begins);
}

extern "C" fn lacks(device: DeviceId, bytes: u64) -> bool {
    manages().make_room(device, bytes)
}

/// Bytes of an evicted table, from which operators take rows.
pub(crate) trait Rows: Send + Sync {
    /// Returns the bytes; `None` if a kernel could not read them.
    fn memory(&self) -> Option<&[u8]>;
    /// Reads `bytes` at each of the offsets to the same offset in `to`.
    fn read(&self, offsets: &[u64], bytes: u64, to: &mut [u8]) -> Result<(), Error>;
}

impl Use<'_> {
    /// Lets the operator take rows of the evicted bytes, until it ends.
    pub(crate) fn stay(&mut self, rows: Arc<dyn Rows>, kept: &StorageRef) {
        self.block = kept.block();
        self.host_copy = Box::into_raw(Box::new(rows)).cast_const().cast();
    }

    /// Returns true if the storage stayed evicted.
    pub(crate) fn has_stayed(&self) -> bool {
        !self.host_copy.is_null()
    }

    /// Returns the bytes from which rows were taken.
    pub(crate) fn take_rows(&mut self) -> Option<Box<Arc<dyn Rows>>> {
        let rows: *mut Arc<dyn Rows> = std::mem::replace(&mut self.host_copy, ptr::null()).cast_mut().cast();
        // SAFETY: the pointer is of a box, made by `stay`, which is taken back once.
        (!rows.is_null()).then(|| unsafe { Box::from_raw(rows) })
    }
}

fn rows_at<'a>(rows: *const c_void) -> &'a dyn Rows {
    // SAFETY: the pointer was made by `stay`, and the operator that uses it has not ended.
    let rows = unsafe { &*rows.cast::<Arc<dyn Rows>>() };
    &**rows
}

extern "C" fn memory(rows: *const c_void) -> *const u8 {
    rows_at(rows).memory().map_or(ptr::null(), <[u8]>::as_ptr)
}

extern "C" fn read(
    rows: *const c_void,
    offsets: *const u64,
    count: usize,
    bytes: u64,
    to: *mut u8,
    room: u64,
    error: &mut RawError,
) -> i32 {
    let offsets = if count == 0 { NonNull::dangling().as_ptr() } else { offsets.cast_mut() };
    // SAFETY: the shim has so many offsets, which live through its call.
    let offsets = unsafe { slice::from_raw_parts(offsets, count) };
    let room = usize::try_from(room).expect("it has addresses");
    // SAFETY: the shim has so many bytes, and lends them to this call alone.
    let to = unsafe { slice::from_raw_parts_mut(to, room) };
    match rows_at(rows).read(offsets, bytes, to) {
        Ok(()) => 0,
        Err(failed) => error.fill(&failed),
    }
}

/// Callbacks for operators, on the threads that run them. They must not panic.
pub(crate) trait Manages: Sync {
    /// Fetches the storages of an operator, which stay until it ends.
    fn begin(&self, name: &str, uses: &mut [Use<'_>]) -> Result<(), Error>;
    fn end(&self, ended: &mut Ended<'_>);
    /// Called when an operator of a thread that has not entered begins or ends.
    fn hold(&self, uses: &mut [Use<'_>], begins: bool);
    /// Returns true if an allocation that lacks so many bytes is worth a retry.
    fn make_room(&self, device: DeviceId, bytes: u64) -> bool;
}

static MANAGES: OnceLock<&'static dyn Manages> = OnceLock::new();

fn manages() -> &'static dyn Manages {
    *MANAGES.get().expect("callbacks are installed before any thread enters")
}

/// Installs the callbacks before any storage is moved. Only the first call has an effect.
pub(crate) fn install_offloading(manages: &'static dyn Manages) {
    MANAGES.get_or_init(|| manages);
    toma_offload_install(&OFFLOADING);
}

/// Registers with libtorch's dispatcher, before a thread enters.
pub(crate) fn register_offloading() -> Result<(), Error> {
    checked(|error| toma_offload_register(error))
}

/// Evicts storages from now on before CUDA's allocator fails, and refuses more than `most_bytes` on that device.
pub(crate) fn relieve_cuda(device: usize, most_bytes: u64) {
    if let Ok(device) = u32::try_from(device) {
        toma_cuda_relieve(device, most_bytes);
    }
}

/// Guard during which operators of dry runs of this thread are reported.
#[derive(Debug)]
pub(crate) struct Predicts(());

impl Predicts {
    pub(crate) fn begin() -> Self {
        toma_offload_predict(true);
        Self(())
    }
}

impl Drop for Predicts {
    fn drop(&mut self) {
        toma_offload_predict(false);
    }
}

/// Guard during which no operator of this thread is reported, and its allocations are not the program's.
#[derive(Debug)]
pub(crate) struct Aside {
    before: bool,
}

impl Aside {
    pub(crate) fn begin() -> Self {
        Self { before: toma_offload_aside(true) }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        toma_offload_aside(self.before);
    }
}
