//! Recorders of what a thread does.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use super::{RawError, checked};
use crate::error::{Error, ErrorKind};

/// `toma_event` of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent {
    kind: u32,
    pub(crate) thread: u32,
    subject: u64,
    bytes: u64,
    device: u64,
    dims: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    OperatorBegins(&'a CStr),
    OperatorEnds,
    NodeBegins(&'a CStr),
    NodeEnds,
    /// Of storages: bytes, and the kind and index of the device. They are numbered in the order in which they
    /// come up in either.
    Born(u64, (u32, u32)),
    Existed(u64, (u32, u32)),
    Died(u64),
    /// A storage, how, its shape, and whether a gradient is wanted.
    Used(u64, u8, &'a [i64], bool),
    Attribute(&'a CStr, &'a [i64]),
    MarkBegins(&'a CStr),
    MarkEnds,
}

/// `toma_recording` of the shim.
#[repr(C)]
struct RawRecording {
    events: *const RawEvent,
    event_count: usize,
    shapes: *const i64,
    shape_count: usize,
    torn: bool,
}

unsafe extern "C" {
    fn toma_record_begin(out: &mut *mut c_void, error: &mut RawError) -> i32;
    // These take what the first has given.
    fn toma_record_end(recorder: *mut c_void);
    fn toma_record_mark(recorder: *mut c_void, name: *const c_char);
    fn toma_record_unmark(recorder: *mut c_void);
    fn toma_record_read(recorder: *const c_void, out: &mut RawRecording);
    fn toma_record_name(recorder: *const c_void, number: u64) -> *const c_char;
    fn toma_record_free(recorder: *mut c_void);
}

/// A recorder of this thread, which ends when it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: NonNull<c_void>,
    runs: bool,
    of_thread: PhantomData<*const ()>,
}

impl Recording {
    pub(crate) fn begin() -> Result<Self, Error> {
        let mut recorder = ptr::null_mut();
        // SAFETY: both are written to, and live through the call.
        checked(|error| unsafe { toma_record_begin(&mut recorder, error) })?;
        let recorder = NonNull::new(recorder).expect("a recorder that has begun");
        Ok(Self { recorder, runs: true, of_thread: PhantomData })
    }

    /// Marks what `body` does by a name. What panics is marked to the end of the recording.
    pub(crate) fn marked<R>(&self, name: &CStr, body: impl FnOnce() -> R) -> R {
        // SAFETY: the recorder lives, and the name through the call.
        unsafe { toma_record_mark(self.recorder.as_ptr(), name.as_ptr()) };
        let value = body();
        // SAFETY: the recorder lives.
        unsafe { toma_record_unmark(self.recorder.as_ptr()) };
        value
    }

    /// Ends it and hands each event to `read`, in the order in which they happened.
    ///
    /// # Errors
    /// When there was no memory to write all of them down, and the first of `read`.
    pub(crate) fn finish<E: From<Error>>(
        mut self,
        mut read: impl FnMut(u32, Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end();
        let mut raw = RawRecording {
            events: ptr::null(),
            event_count: 0,
            shapes: ptr::null(),
            shape_count: 0,
            torn: false,
        };
        // SAFETY: the recorder has ended and lives.
        unsafe { toma_record_read(self.recorder.as_ptr(), &mut raw) };
        if raw.torn {
            let message = "out of memory for the events of a recorded step".to_owned();
            return Err(Error::new(ErrorKind::OutOfMemory, message).into());
        }
        // SAFETY: the recorder holds so many until it is freed, and writes no more.
        let events = unsafe { slice_of(raw.events, raw.event_count) };
        // SAFETY: the same.
        let numbers = unsafe { slice_of(raw.shapes, raw.shape_count) };
        events.iter().try_for_each(|event| read(event.thread, self.event(event, numbers)))
    }

    fn event<'a>(&'a self, raw: &RawEvent, numbers: &'a [i64]) -> Event<'a> {
        let device = halves(raw.device);
        let values = || {
            let [from, count] =
                [raw.bytes, raw.dims].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            &numbers[from..from + count]
        };
        match raw.kind {
            0 => Event::OperatorBegins(self.name(raw.subject)),
            1 => Event::OperatorEnds,
            2 => Event::NodeBegins(self.name(raw.subject)),
            3 => Event::NodeEnds,
            4 => Event::Born(raw.bytes, device),
            5 => Event::Died(raw.subject),
            6 => Event::Existed(raw.bytes, device),
            7 => {
                let [access, wants_gradient, ..] = raw.device.to_le_bytes();
                Event::Used(raw.subject, access, values(), wants_gradient != 0)
            }
            8 => Event::Attribute(self.name(raw.subject), values()),
            9 => Event::MarkBegins(self.name(raw.subject)),
            _ => Event::MarkEnds,
        }
    }

    fn name(&self, number: u64) -> &CStr {
        // SAFETY: the recorder lives, and has given this number itself.
        let name = unsafe { toma_record_name(self.recorder.as_ptr(), number) };
        // SAFETY: a text of C++, which lives as long as the recorder and ends with a zero.
        unsafe { CStr::from_ptr(name) }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.runs) {
            // SAFETY: the recorder has not ended, and began on this thread.
            unsafe { toma_record_end(self.recorder.as_ptr()) };
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
        // SAFETY: it has ended, and nothing of it is used any more.
        unsafe { toma_record_free(self.recorder.as_ptr()) };
    }
}

/// The upper half and the lower.
fn halves(number: u64) -> (u32, u32) {
    let half = |number| u32::try_from(number).expect("half of it");
    (half(number >> 32), half(number & u64::from(u32::MAX)))
}

/// # Safety
/// As of [`slice::from_raw_parts`], but that a null pointer is a slice of nothing.
unsafe fn slice_of<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(data, count) }
}
