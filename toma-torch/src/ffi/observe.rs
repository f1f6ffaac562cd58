//! Recorders of a thread's operators, memory and marks.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::slice;

use toma_core::marks::Function;
use toma_trace::counting::{self, Listening, Mark};

use super::{RawError, checked};
use crate::error::{Error, ErrorKind};

/// `toma_event` of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct RawEvent {
    kind: u32,
    thread: u32,
    subject: u64,
    bytes: u64,
    device: u64,
    from: u64,
    count: u64,
}

/// `toma_recording` of the shim.
#[repr(C)]
struct RawRecording {
    events: *const RawEvent,
    event_count: usize,
    numbers: *const i64,
    number_count: usize,
    names: *const u8,
    name_bytes: usize,
    torn: bool,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    OperatorBegins,
    NodeBegins,
    MarkBegins,
    Ends,
    Attribute,
    Born,
    Died,
    Reads,
    Writes,
    Makes,
    Views,
    Enters,
    Line,
    LeftTo,
    Leaves,
    Number,
}

/// Kinds in the order of `toma_event_kind`.
const KINDS: [EventKind; 16] = [
    EventKind::OperatorBegins,
    EventKind::NodeBegins,
    EventKind::MarkBegins,
    EventKind::Ends,
    EventKind::Attribute,
    EventKind::Born,
    EventKind::Died,
    EventKind::Reads,
    EventKind::Writes,
    EventKind::Makes,
    EventKind::Views,
    EventKind::Enters,
    EventKind::Line,
    EventKind::LeftTo,
    EventKind::Leaves,
    EventKind::Number,
];

/// One event; fields that its kind does not have are empty or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind,
    pub(crate) thread: u32,
    pub(crate) name: &'a str,
    /// Address of memory, valid while the memory is alive.
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Number of the device's kind in c10, and its index.
    pub(crate) device: (u32, u32),
    pub(crate) numbers: &'a [i64],
    /// For marks: the function, and the index of the line in it.
    pub(crate) line: Option<(&'static Function, u32)>,
}

/// State of the marks received so far.
#[derive(Debug, Default)]
struct Marked {
    /// Lines, by the numbers of their events.
    lines: Vec<(&'static Function, u32)>,
    /// Functions that run, the innermost last.
    frames: Vec<&'static Function>,
}

unsafe extern "C" {
    fn toma_record_begin(out: &mut *mut c_void, error: &mut RawError) -> i32;
    // These take a recorder of `toma_record_begin` or of `toma_dry_begin`.
    fn toma_record_read(recorder: *mut c_void, out: &mut RawRecording);
    fn toma_record_mark(recorder: *mut c_void, name: *const c_char);
    fn toma_record_line(recorder: *mut c_void, kind: u32, number: u64);
    fn toma_record_end(recorder: *mut c_void);
}

/// A recorder of this thread, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: NonNull<c_void>,
    marked: Rc<RefCell<Marked>>,
    /// Dropped first. None if something else receives all marks, as a test of marks does.
    listening: Option<Listening>,
}

impl Recording {
    pub(crate) fn begin() -> Result<Self, Error> {
        let mut recorder = ptr::null_mut();
        // SAFETY: both references are written to, and live through the call.
        checked(|error| unsafe { toma_record_begin(&mut recorder, error) })?;
        Ok(Self::of(recorder, false))
    }

    /// Wraps a recorder that has begun on this thread and that nothing else ends. With `is_alone` it is a dry run, so
    /// outer recorders receive no marks.
    pub(super) fn of(recorder: *mut c_void, is_alone: bool) -> Self {
        let recorder = NonNull::new(recorder).expect("a recorder that has begun");
        let marked = Rc::<RefCell<Marked>>::default();
        let told = Rc::clone(&marked);
        let tell = move |mark| write(recorder, &mut told.borrow_mut(), mark);
        let listening = counting::listen(Rc::new(tell), is_alone).ok();
        Self { recorder, marked, listening }
    }

    pub(super) const fn recorder(&self) -> *mut c_void {
        self.recorder.as_ptr()
    }

    /// Records a mark around `body`. If `body` panics, the mark lasts to the end of the recording.
    pub(crate) fn marked<R>(&self, name: &CStr, body: impl FnOnce() -> R) -> R {
        // SAFETY: the recorder lives, and the name lives through the call.
        unsafe { toma_record_mark(self.recorder.as_ptr(), name.as_ptr()) };
        let value = body();
        // SAFETY: the recorder lives; null stands for the end of the mark.
        unsafe { toma_record_mark(self.recorder.as_ptr(), ptr::null()) };
        value
    }

    /// Calls `read` for each event so far, in the order in which they happened.
    ///
    /// # Errors
    /// If memory ran out while events were recorded, or the first error of `read`.
    pub(crate) fn read(&self, mut read: impl FnMut(&Event<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut raw = RawRecording {
            events: ptr::null(),
            event_count: 0,
            numbers: ptr::null(),
            number_count: 0,
            names: ptr::null(),
            name_bytes: 0,
            torn: false,
        };
        // SAFETY: the recorder lives, and `raw` lives through the call.
        unsafe { toma_record_read(self.recorder.as_ptr(), &mut raw) };
        if raw.torn {
            let message = "out of memory for the events of a recorded step".to_owned();
            return Err(Error::new(ErrorKind::OutOfMemory, message));
        }
        // SAFETY: the recorder holds so many until it records more, and `read` calls nothing that it records.
        let events = unsafe { slice_of(raw.events, raw.event_count) };
        // SAFETY: see above.
        let numbers = unsafe { slice_of(raw.numbers, raw.number_count) };
        // SAFETY: see above.
        let names = unsafe { slice_of(raw.names, raw.name_bytes) };
        let marked = self.marked.borrow();
        events.iter().try_for_each(|event| read(&event.read(numbers, names, &marked.lines)))
    }
}

/// Records a mark. Of a function that began before the recorder, only the end is recorded.
fn write(recorder: NonNull<c_void>, marked: &mut Marked, mark: Mark) {
    let (kind, line) = match mark {
        Mark::Enters(function, line) => {
            marked.frames.push(function);
            (EventKind::Enters, Some((function, line)))
        }
        Mark::Line(function, line) => (EventKind::Line, Some((function, line))),
        Mark::LeftTo(line) => (EventKind::LeftTo, marked.frames.last().map(|function| (*function, line))),
        Mark::Leaves => {
            marked.frames.pop();
            (EventKind::Leaves, None)
        }
    };
    let number = marked.lines.len() as u64;
    marked.lines.extend(line);
    // SAFETY: the receiver of marks is dropped before the recorder ends.
    unsafe { toma_record_line(recorder.as_ptr(), kind as u32, number) };
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.listening = None;
        // SAFETY: the recorder began on this thread, and nothing of it is used any more.
        unsafe { toma_record_end(self.recorder.as_ptr()) };
    }
}

impl RawEvent {
    fn read<'a>(&self, numbers: &'a [i64], names: &'a [u8], lines: &[(&'static Function, u32)]) -> Event<'a> {
        let at = |number: u64| usize::try_from(number).expect("within what there is");
        let half = |number: u64| u32::try_from(number).expect("half of it");
        let kind = KINDS[at(self.kind.into())];
        let is_mark = matches!(kind, EventKind::Enters | EventKind::Line | EventKind::LeftTo);
        let has_name = matches!(
            kind,
            EventKind::OperatorBegins
                | EventKind::NodeBegins
                | EventKind::MarkBegins
                | EventKind::Attribute
                | EventKind::Number
        );
        let name = if has_name { CStr::from_bytes_until_nul(&names[at(self.subject)..]).ok() } else { None };
        Event {
            kind,
            thread: self.thread,
            name: name.and_then(|name| name.to_str().ok()).unwrap_or_default(),
            address: if has_name { 0 } else { self.subject },
            bytes: self.bytes,
            device: (half(self.device >> 32), half(self.device & u64::from(u32::MAX))),
            numbers: &numbers[at(self.from)..at(self.from + self.count)],
            line: if is_mark { lines.get(at(self.bytes)).copied() } else { None },
        }
    }
}

/// # Safety
/// Same as [`slice::from_raw_parts`], except that a null pointer stands for an empty slice.
unsafe fn slice_of<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(data, count) }
}
