//! Memory of storages that is evicted and fetched.

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use tch::{Kind, Tensor};

use super::{DeviceId, RawError, checked};
use crate::error::Error;

/// `toma_use` of the shim: a storage that lives for `'a`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use<'a> {
    storage: *const c_void,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceId,
    pub(crate) writes: bool,
    /// The storage stays on its device until the operator ends.
    pub(crate) is_pinned: bool,
    /// Only rows of it are read, so moving the whole storage costs more.
    pub(crate) is_gathered: bool,
    /// For a gathered storage that stays evicted: its [`Rows`](super::offload::Rows), until the operator has ended.
    pub(super) host_copy: *const c_void,
    /// For such a storage: its block, if that stayed in place.
    pub(super) block: *const c_void,
    lives: PhantomData<&'a ()>,
}

unsafe extern "C" {
    // These take a live storage, or a tensor.
    fn toma_storage_remember(storage: *const c_void) -> *mut c_void;
    fn toma_storage_may_move(storage: *const c_void) -> bool;
    fn toma_storage_use(tensor: *const c_void, second: bool, out: *mut Use<'_>) -> bool;
    // These take a pointer from `remember`.
    fn toma_storage_forget(remembered: *mut c_void);
    fn toma_storage_is_gone(remembered: *const c_void) -> bool;
    fn toma_storage_is_in_use(remembered: *const c_void) -> bool;
    fn toma_storage_keep(remembered: *mut c_void) -> *mut c_void;
    // These take a pointer from `keep`.
    fn toma_storage_release(kept: *mut c_void);
    fn toma_storage_take(
        kept: *mut c_void,
        stand_in: *mut c_void,
        stays: bool,
        words: *const c_char,
    ) -> *mut c_void;
    fn toma_storage_refuse(kept: *mut c_void, words: *const c_char);
    fn toma_storage_memory(kept: *mut c_void, bytes: u64, out: &mut *mut c_void, error: &mut RawError)
    -> i32;
    fn toma_storage_give(kept: *mut c_void, memory: *mut c_void) -> *mut c_void;
    fn toma_storage_stand_in(kept: *mut c_void) -> *mut c_void;
    fn toma_storage_block(kept: *mut c_void) -> *const c_void;
    fn toma_storage_copy(kept: *mut c_void, host: *mut u8, bytes: u64, error: &mut RawError) -> i32;
    fn toma_host_pin(device: DeviceId, data: *mut c_void, bytes: u64) -> bool;
    fn toma_host_unpin(data: *mut c_void);
    // These take memory from `memory` or `take`.
    fn toma_memory_drop(memory: *mut c_void);
    fn toma_memory_fill(
        memory: *mut c_void,
        host: *const u8,
        bytes: u64,
        overwrites: bool,
        differs: &mut bool,
        error: &mut RawError,
    ) -> i32;
}

static BELIEVES_COPIES: AtomicBool = AtomicBool::new(false);

/// Makes blocks that stayed in place on a CPU be filled from their copies, as memory of an accelerator is, so that
/// tests on a CPU detect wrong copies.
pub fn believe_copies() {
    BELIEVES_COPIES.store(true, Ordering::Relaxed);
}

fn believes_copies() -> bool {
    BELIEVES_COPIES.load(Ordering::Relaxed)
}

impl<'a> Use<'a> {
    /// Returns the storages of a tensor; for a sparse tensor those of its values and indices.
    pub(crate) fn of(tensor: &'a Tensor) -> impl Iterator<Item = Self> {
        [false, true].into_iter().filter_map(|second| {
            let mut found = Self::default();
            // SAFETY: the pointer is to a tensor of libtorch, which lives through the call, as `found` does.
            unsafe { toma_storage_use(tensor.as_ptr().cast(), second, &raw mut found) }.then_some(found)
        })
    }

    /// True if its memory is its allocator's alone, or evicted by us. No other thread may move it meanwhile.
    pub(crate) fn may_move(&self) -> bool {
        // SAFETY: the storage lives for its lifetime.
        unsafe { toma_storage_may_move(self.storage) }
    }

    /// Identity of the storage while it lives.
    pub(crate) fn id(&self) -> u64 {
        self.storage.addr() as u64
    }
}

/// Weak reference to a storage. No other storage has its address meanwhile.
#[derive(Debug)]
pub(crate) struct Remembered(NonNull<c_void>);

// SAFETY: the pointer is to reference counts that threads share.
unsafe impl Send for Remembered {}
// SAFETY: see above.
unsafe impl Sync for Remembered {}

impl Remembered {
    pub(crate) fn new(storage: &Use<'_>) -> Self {
        // SAFETY: the storage lives for its lifetime.
        let remembered = unsafe { toma_storage_remember(storage.storage) };
        Self(NonNull::new(remembered).expect("a storage has an address"))
    }

    pub(crate) fn is_gone(&self) -> bool {
        // SAFETY: the weak reference is released only on drop.
        unsafe { toma_storage_is_gone(self.0.as_ptr()) }
    }

    /// Returns true if an operator of a thread that has not entered may be using it.
    pub(crate) fn is_in_use(&self) -> bool {
        // SAFETY: see `is_gone`.
        unsafe { toma_storage_is_in_use(self.0.as_ptr()) }
    }

    /// Returns the storage if it is alive.
    pub(crate) fn keep(&self) -> Option<StorageRef> {
        // SAFETY: see `is_gone`.
        NonNull::new(unsafe { toma_storage_keep(self.0.as_ptr()) }).map(StorageRef)
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        // SAFETY: the weak reference is released once.
        unsafe { toma_storage_forget(self.0.as_ptr()) };
    }
}

/// Strong reference to a storage. Dropping it may free the storage.
#[derive(Debug)]
pub(crate) struct StorageRef(NonNull<c_void>);

// SAFETY: libtorch lets storages end on any thread.
unsafe impl Send for StorageRef {}

impl StorageRef {
    /// Evicts its memory and returns it; no other thread may move it. A CPU block with `stays` is counted as freed when
    /// the returned memory is dropped, and may be read until the storage ends. Otherwise no operator may use it.
    pub(crate) fn take(&self, stand_in: Box<StandIn>, stays: bool, words: Option<&CStr>) -> DeviceMemory {
        let stand_in = Box::into_raw(stand_in).cast();
        // SAFETY: it lives; the stand-in for its memory is a box's, which comes back or is dropped once.
        let memory = unsafe { toma_storage_take(self.0.as_ptr(), stand_in, stays, text_of(words)) };
        DeviceMemory::new(memory)
    }

    /// Makes access an error of these words, or of the first that a call passed, while the storage is evicted. Without words, which needs a block that
    /// stayed in place, access finds the bytes as they were. No other thread may move it.
    pub(crate) fn refuse(&self, words: Option<&CStr>) {
        // SAFETY: it lives, and the shim copies the words.
        unsafe { toma_storage_refuse(self.0.as_ptr(), text_of(words)) };
    }

    /// Returns memory for an evicted storage: on a CPU the block that stayed in place, if it did.
    pub(crate) fn memory(&self, bytes: u64) -> Result<DeviceMemory, Error> {
        let mut memory = ptr::null_mut();
        // SAFETY: it lives and is evicted, and `memory` lives through the call.
        checked(|error| unsafe { toma_storage_memory(self.0.as_ptr(), bytes, &mut memory, error) })?;
        Ok(DeviceMemory::new(memory))
    }

    /// Gives it memory, and takes back the stand-in. No other thread may move it.
    pub(crate) fn give(&self, memory: DeviceMemory) -> Option<Box<StandIn>> {
        let memory = std::mem::ManuallyDrop::new(memory);
        // SAFETY: it lives, and takes the memory over.
        let stand_in = unsafe { toma_storage_give(self.0.as_ptr(), memory.memory.as_ptr()) };
        // SAFETY: `take` made it of a box, and nothing else has it any more.
        (!stand_in.is_null()).then(|| unsafe { Box::from_raw(stand_in.cast()) })
    }

    /// Returns the stand-in for its memory. No other thread may move it meanwhile.
    pub(crate) fn stand_in(&self) -> Option<&StandIn> {
        // SAFETY: it lives.
        let stand_in = unsafe { toma_storage_stand_in(self.0.as_ptr()) };
        // SAFETY: `take` made it of a box, and it stays until the storage is given memory.
        unsafe { stand_in.cast::<StandIn>().cast_const().as_ref() }
    }

    /// Returns true if it is evicted now.
    pub(crate) fn is_evicted(&self) -> bool {
        // SAFETY: it lives, and the result is not dereferenced.
        !unsafe { toma_storage_stand_in(self.0.as_ptr()) }.is_null()
    }

    /// Returns its block if it is evicted and the block stayed in place: the true bytes of the storage, whatever was
    /// copied. Null for none. No other thread may move it meanwhile.
    pub(crate) fn block(&self) -> *const c_void {
        if believes_copies() {
            return ptr::null();
        }
        // SAFETY: it lives.
        unsafe { toma_storage_block(self.0.as_ptr()) }
    }

    /// Copies its bytes, which are present or stayed in place, to the host.
    pub(crate) fn read(&self, host: &mut [u8]) -> Result<(), Error> {
        // SAFETY: it lives, and the call fails if it has another number of bytes.
        checked(|error| unsafe {
            toma_storage_copy(self.0.as_ptr(), host.as_mut_ptr(), host.len() as u64, error)
        })
    }

    /// Copies its bytes to a block of the host with enough room.
    pub(crate) fn copy_to(&self, host: &mut HostBytes, bytes: u64) -> Result<(), Error> {
        let host = &mut host.bytes;
        assert!(host.capacity() as u64 >= bytes, "the host's block is large enough");
        let to = host.as_mut_ptr();
        // SAFETY: it lives, and there is room for so many bytes.
        checked(|error| unsafe { toma_storage_copy(self.0.as_ptr(), to, bytes, error) })?;
        // SAFETY: these bytes have been written.
        unsafe { host.set_len(usize::try_from(bytes).expect("it was copied")) };
        Ok(())
    }
}

impl Drop for StorageRef {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe { toma_storage_release(self.0.as_ptr()) };
    }
}

fn text_of(words: Option<&CStr>) -> *const c_char {
    words.map_or(ptr::null(), CStr::as_ptr)
}

/// Makes a tensor whose memory has never been on its device.
pub(crate) fn born_evicted(
    shape: &[i64],
    kind: Kind,
    device: tch::Device,
    stand_in: Box<StandIn>,
    words: &CStr,
) -> Result<Tensor, Error> {
    // libtorch requires memory of the device.
    let somewhere = Tensor::f_empty([1], (Kind::Uint8, device))?;
    let memory = somewhere.data_ptr().cast_const().cast();
    // SAFETY: nothing reads this memory, which is too short, and is taken away before the tensor is handed out.
    let tensor = unsafe { Tensor::f_from_blob(memory, shape, &[], kind, device) }?;
    let storage = Use::of(&tensor).next().expect("a dense tensor has a storage");
    let kept = Remembered::new(&storage).keep().expect("the tensor has it");
    // The memory belongs to no allocator, and is not freed with this.
    let _nothing = kept.take(stand_in, false, Some(words));
    Ok(tensor)
}

/// Stand-in for the memory of an evicted storage. It belongs to the storage, and is dropped with it.
#[derive(Debug)]
pub(crate) struct StandIn {
    pub(crate) bytes: u64,
    /// Location of the bytes.
    pub(crate) location: Box<dyn Any + Send + Sync>,
}

/// Memory of a device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    memory: NonNull<c_void>,
    /// The block stayed in place, and was written after its bytes were copied.
    pub(crate) is_newer: bool,
}

// SAFETY: libtorch lets memory be freed on any thread.
unsafe impl Send for DeviceMemory {}

impl DeviceMemory {
    fn new(memory: *mut c_void) -> Self {
        Self { memory: NonNull::new(memory).expect("memory was there or made"), is_newer: false }
    }

    /// Copies bytes to its begin; it must be large enough. Only `believe_copies` changes a block that stayed in place.
    pub(crate) fn fill(&mut self, host: &[u8]) -> Result<(), Error> {
        let (bytes, overwrites) = (host.len() as u64, believes_copies());
        let mut differs = false;
        // SAFETY: the memory and the bytes live; it was requested with at least this size.
        checked(|error| unsafe {
            toma_memory_fill(self.memory.as_ptr(), host.as_ptr(), bytes, overwrites, &mut differs, error)
        })?;
        self.is_newer = differs && !overwrites;
        Ok(())
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: it is dropped once.
        unsafe { toma_memory_drop(self.memory.as_ptr()) };
    }
}

/// Bytes of the host, in pinned pages if a GPU copies them by itself.
#[derive(Debug, Default)]
pub(crate) struct HostBytes {
    is_pinned: bool,
    bytes: Vec<u8>,
}

impl HostBytes {
    /// Pins the bytes if possible. Copies to other pages give the same result, but take longer.
    pub(crate) fn new(mut bytes: Vec<u8>, pinned_for: Option<DeviceId>) -> Self {
        let (data, room) = (bytes.as_mut_ptr().cast(), bytes.capacity() as u64);
        // SAFETY: the vector owns so many bytes, and releases none before they are unpinned.
        let is_pinned = pinned_for.is_some_and(|device| unsafe { toma_host_pin(device, data, room) });
        Self { is_pinned, bytes }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.unpin();
        std::mem::take(&mut self.bytes)
    }

    fn unpin(&mut self) {
        if std::mem::take(&mut self.is_pinned) {
            // SAFETY: it was pinned, and is unpinned once.
            unsafe { toma_host_unpin(self.bytes.as_mut_ptr().cast()) };
        }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        self.unpin();
    }
}

/// Drops a stand-in with its storage; returns the bytes.
pub(super) extern "C" fn dropped(stand_in: *mut c_void) -> u64 {
    // SAFETY: `take` made it of a box, and its storage does not use it any more.
    let stand_in = unsafe { Box::from_raw(stand_in.cast::<StandIn>()) };
    stand_in.bytes
}
