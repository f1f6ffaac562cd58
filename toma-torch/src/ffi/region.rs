//! Regions: their recordings, and the plans that are chosen for them.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use tch::Tensor;
use toma_plan::checkpoint::recording::Step;
use torch_sys::C_tensor;

use super::costs::{Observes, RawReport, observe};
use super::{DeviceId, RawError, checked};
use crate::error::{Error, ErrorKind};

/// `toma_begun` of the shim.
#[repr(C)]
struct RawBegun {
    prints: *const u64,
    print_count: usize,
    is_whole: bool,
    device: DeviceId,
}

/// `toma_chosen` of the shim.
#[repr(C)]
struct RawChosen {
    prints: *const u64,
    print_count: usize,
    cuts: *const u32,
    cut_count: usize,
    actions: *const Step,
    action_count: usize,
}

/// `toma_region_figures` of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionFigures {
    pub(crate) operators: u64,
    /// `u64::MAX` for none.
    pub(crate) differs: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) repeat_ns: u64,
    pub(crate) input_gradient_bytes: u64,
    pub(crate) variable_gradient_bytes: u64,
    pub(crate) first_gradient_bytes: u64,
    pub(crate) is_over: bool,
}

/// `toma_region_options` of the shim.
#[repr(C)]
struct RawOptions {
    verify: bool,
    undoes: bool,
    observe: extern "C" fn(*mut c_void, &RawReport) -> bool,
    guest: *const c_void,
}

/// Options of a region when it begins.
pub(crate) struct RegionOptions {
    /// Recomputed tensors must have the bits of the first run.
    pub(crate) verify: bool,
    /// Changes can be undone.
    pub(crate) undoes: bool,
    pub(crate) observer: Arc<dyn Observes>,
}

type Choose = extern "C" fn(*mut c_void, RawBegun, &mut RawChosen, &mut RawError) -> i32;

unsafe extern "C" {
    pub(crate) safe fn toma_region_install();
    /// Makes the next operator of this thread begin a stage, if the thread records a region.
    pub(crate) safe fn toma_region_cut(deeper: i32);
    pub(crate) safe fn toma_region_records() -> bool;
    // The callback receives its own context, which must live until the end.
    fn toma_region_begin(
        choose: Choose,
        context: *mut c_void,
        options: RawOptions,
        out: &mut *mut c_void,
        error: &mut RawError,
    ) -> i32;
    // These take a region of `toma_region_begin`.
    fn toma_region_end(region: *mut c_void);
    fn toma_region_is_inside(region: *const c_void, tensor: *const C_tensor) -> bool;
    fn toma_region_set_gradients_aside(region: *mut c_void, error: &mut RawError) -> i32;
    fn toma_region_undo(region: *mut c_void, error: &mut RawError) -> i32;
    fn toma_region_drop(region: *mut c_void);
    fn toma_region_lacking(region: *const c_void) -> u64;
    fn toma_region_figures_of(region: *const c_void) -> RegionFigures;
    // These write at most `room` elements, and return the number of all.
    fn toma_region_prints(region: *const c_void, out: *mut u64, room: usize) -> usize;
    fn toma_region_kept(region: *const c_void, out: *mut c_char, room: usize) -> usize;
}

/// First operators of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BegunRegion<'a> {
    /// Fingerprint of each operator, of which the last has not run.
    pub(crate) prints: &'a [u64],
    /// True if all of them have run and no more follow.
    pub(crate) is_whole: bool,
    pub(crate) device: DeviceId,
}

impl BegunRegion<'_> {
    /// Number of operators that have run.
    pub(crate) fn operators(&self) -> usize {
        self.prints.len() - usize::from(!self.is_whole)
    }
}

/// Known structure and plan of a region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    /// Fingerprint of each operator; empty if the region is unknown.
    pub(crate) prints: Arc<[u64]>,
    /// Operators that begin stages, without the first one.
    pub(crate) cuts: Arc<[u32]>,
    pub(crate) actions: Vec<Step>,
}

/// Called before the first operator, and where an operator differs from the known structure.
type Chooses<'a> = dyn FnMut(BegunRegion<'_>) -> Result<Chosen, Error> + 'a;

struct ChoosingContext<'a> {
    choose: Box<Chooses<'a>>,
    chosen: Chosen,
}

extern "C" fn choose(
    context: *mut c_void,
    begun: RawBegun,
    out: &mut RawChosen,
    error: &mut RawError,
) -> i32 {
    // SAFETY: it is the context passed by `begin`, which lives until the region ends, and is used by this thread alone.
    let choosing = unsafe { &mut *context.cast::<ChoosingContext<'_>>() };
    let RawBegun { prints, print_count, is_whole, device } = begun;
    // SAFETY: so many live until this returns, and there is at least one.
    let prints = unsafe { slice::from_raw_parts(prints, print_count) };
    match (choosing.choose)(BegunRegion { prints, is_whole, device }) {
        Ok(chosen) => choosing.chosen = chosen,
        Err(failed) => return error.fill(&failed),
    }
    let Chosen { prints, cuts, actions } = &choosing.chosen;
    *out = RawChosen {
        prints: prints.as_ptr(),
        print_count: prints.len(),
        cuts: cuts.as_ptr(),
        cut_count: cuts.len(),
        actions: actions.as_ptr(),
        action_count: actions.len(),
    };
    0
}

/// A region of this thread, which ends when `end` is called or it is dropped.
pub(crate) struct RecordingRegion<'a> {
    region: Option<Region>,
    /// The shim holds the address of the box.
    #[expect(dead_code, reason = "lent to the shim")]
    choosing: Box<ChoosingContext<'a>>,
}

impl<'a> RecordingRegion<'a> {
    /// Begins a region. `choosing` must not panic.
    pub(crate) fn begin(
        choosing: impl FnMut(BegunRegion<'_>) -> Result<Chosen, Error> + 'a,
        options: RegionOptions,
    ) -> Result<Self, Error> {
        let mut choosing =
            Box::new(ChoosingContext { choose: Box::new(choosing), chosen: Chosen::default() });
        let mut region = ptr::null_mut();
        let context = (&raw mut *choosing).cast();
        let RegionOptions { verify, undoes, observer } = options;
        let guest = Box::into_raw(Box::new(observer));
        let options = RawOptions { verify, undoes, observe, guest: guest.cast_const().cast() };
        // SAFETY: the context belongs to the callback, and lives in a box until the region ends.
        let began =
            checked(|error| unsafe { toma_region_begin(choose, context, options, &mut region, error) });
        if began.is_err() {
            // SAFETY: no region exists that would report to it.
            drop(unsafe { Box::from_raw(guest) });
        }
        began?;
        let region = NonNull::new(region).map(Region);
        Ok(Self { region, choosing })
    }

    /// Returns true if the graph of `tensor` ends at this region's variables and inputs. Needs `undoes`.
    pub(crate) fn is_inside(&self, tensor: &Tensor) -> bool {
        // SAFETY: the region has not ended, and both live through the call.
        self.region
            .as_ref()
            .is_some_and(|region| unsafe { toma_region_is_inside(region.0.as_ptr(), tensor.as_ptr()) })
    }

    /// Ends the recording and returns it.
    pub(crate) fn end(mut self) -> Option<Region> {
        self.finish()
    }

    fn finish(&mut self) -> Option<Region> {
        let region = self.region.take()?;
        // SAFETY: it has not ended, and began on this thread, which the boxed context keeps it on.
        unsafe { toma_region_end(region.0.as_ptr()) };
        Some(region)
    }
}

impl Drop for RecordingRegion<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Recording of a region, which is updated while its graph is alive.
pub(crate) struct Region(NonNull<c_void>);

// SAFETY: the state behind the pointer is under a lock.
unsafe impl Send for Region {}
// SAFETY: see above.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn figures(&self) -> RegionFigures {
        // SAFETY: the region lives until it is dropped.
        unsafe { toma_region_figures_of(self.0.as_ptr()) }
    }

    pub(crate) fn prints(&self) -> Vec<u64> {
        // SAFETY: the region lives, and the shim writes no more than there is room for.
        filled(|out, room| unsafe { toma_region_prints(self.0.as_ptr(), out, room) })
    }

    /// Returns the bytes of gradients that its variables lack now.
    pub(crate) fn lacking_bytes(&self) -> u64 {
        // SAFETY: the region lives until it is dropped.
        unsafe { toma_region_lacking(self.0.as_ptr()) }
    }

    /// Replaces the gradients of its variables by copies until `undo`. Needs `undoes`.
    pub(crate) fn set_gradients_aside(&self) -> Result<(), Error> {
        // SAFETY: the region lives until it is dropped.
        checked(|error| unsafe { toma_region_set_gradients_aside(self.0.as_ptr(), error) })
    }

    /// Restores everything that the region has changed, including gradients. Needs `undoes`.
    pub(crate) fn undo(&self) -> Result<(), Error> {
        // SAFETY: the region lives until it is dropped.
        checked(|error| unsafe { toma_region_undo(self.0.as_ptr(), error) })
    }

    /// Returns the stages that are kept because they cannot be recomputed, with the reason; one line each.
    pub(crate) fn kept(&self) -> String {
        let mut text = vec![0_u8; 1 << 14];
        // SAFETY: the region lives, and the shim writes no more than there is room for.
        let length = unsafe { toma_region_kept(self.0.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
        text.truncate(length);
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Region").field(&self.figures()).finish()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it is dropped once.
        unsafe { toma_region_drop(self.0.as_ptr()) };
    }
}

/// Returns all elements that `fill` writes, whose number does not grow between its two calls.
fn filled<T: Clone + Default>(fill: impl Fn(*mut T, usize) -> usize) -> Vec<T> {
    let mut values = vec![T::default(); fill(ptr::null_mut(), 0)];
    let count = fill(values.as_mut_ptr(), values.len());
    values.truncate(count);
    values
}

impl RawError {
    /// Copies an error of ours; returns its code.
    pub(super) fn fill(&mut self, error: &Error) -> i32 {
        let message = error.to_string();
        let bytes = message.as_bytes();
        let length = bytes.len().min(self.message.len() - 1);
        self.message[..length].copy_from_slice(&bytes[..length]);
        match error.kind() {
            ErrorKind::OutOfMemory => 1,
            ErrorKind::NoDevice => 2,
            ErrorKind::Unsupported => 3,
            ErrorKind::Offloaded | ErrorKind::Other => 4,
        }
    }
}
