//! Recorders of a thread's operators, memory and marks.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::time::Duration;

use toma_core::marks::Function;
use toma_trace::counting::{self, Listening, MarkedLine};
use toma_trace::{Access, Event, Location, Mark, Memory, Reader, ScopeKind, ThreadId};

use super::{DeviceId, RawError, checked, slice_of};
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
#[derive(Default)]
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

/// State of the marks received so far.
#[derive(Debug, Default)]
struct MarkState {
    /// Marks, by the numbers in their events.
    marks: Vec<Mark<(&'static Function, u32)>>,
    /// Functions that run, the innermost last.
    frames: Vec<&'static Function>,
}

unsafe extern "C" {
    fn toma_record_begin(out: &mut *mut c_void, error: &mut RawError) -> i32;
    // These take a recorder of `toma_record_begin` or of `toma_dry_begin`.
    fn toma_record_read(recorder: *mut c_void, out: &mut RawRecording);
    fn toma_record_mark(recorder: *mut c_void, name: *const c_char);
    fn toma_record_line(recorder: *mut c_void, number: u64);
    fn toma_record_end(recorder: *mut c_void);
}

/// A recorder of this thread, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: NonNull<c_void>,
    marked: Rc<RefCell<MarkState>>,
    /// A dry run measures no durations: its kernels do no work.
    is_dry: bool,
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

    /// Wraps a recorder that has begun on this thread and that nothing else ends. Outer recorders receive no marks
    /// during a dry run.
    pub(super) fn of(recorder: *mut c_void, is_dry: bool) -> Self {
        let recorder = NonNull::new(recorder).expect("a recorder that has begun");
        let marked = Rc::<RefCell<MarkState>>::default();
        let received = Rc::clone(&marked);
        let receive = move |mark| write(recorder, &mut received.borrow_mut(), mark);
        let listening = counting::listen(Rc::new(receive), is_dry).ok();
        Self { recorder, marked, is_dry, listening }
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

    /// Passes each event so far to a reader, in the order in which they happened.
    ///
    /// # Errors
    /// If memory ran out while events were recorded, or the first contradiction that the reader finds.
    pub(crate) fn read(&self, reader: &mut impl Reader) -> Result<(), Error> {
        let mut raw = RawRecording::default();
        // SAFETY: the recorder lives, and `raw` lives through the call.
        unsafe { toma_record_read(self.recorder.as_ptr(), &mut raw) };
        if raw.torn {
            let message = "out of memory for the events of a recorded step".to_owned();
            return Err(Error::new(ErrorKind::OutOfMemory, message));
        }
        // SAFETY: the recorder holds so many until it records more, and a reader does nothing that it records.
        let events = unsafe { slice_of(raw.events, raw.event_count) };
        // SAFETY: see above.
        let numbers = unsafe { slice_of(raw.numbers, raw.number_count) };
        // SAFETY: see above.
        let names = unsafe { slice_of(raw.names, raw.name_bytes) };
        let tables = EventTables { numbers, names, marks: &self.marked.borrow().marks, is_dry: self.is_dry };
        let contradicts = |refused| Error::new(ErrorKind::Other, format!("recorded step: {refused}"));
        events.iter().try_for_each(|raw| {
            let event = tables.event(raw);
            event
                .map_or(Ok(()), |event| reader.read(ThreadId(raw.thread.into()), &event))
                .map_err(contradicts)
        })
    }
}

/// Records a mark. Of a function that began before the recorder, only the end is recorded.
fn write(recorder: NonNull<c_void>, marked: &mut MarkState, mark: Mark<MarkedLine>) {
    match mark {
        Mark::Enters((function, _)) => marked.frames.extend(function),
        Mark::Leaves => drop(marked.frames.pop()),
        Mark::Line(_) | Mark::LeftTo(_) => {}
    }
    let innermost = marked.frames.last().copied();
    let Some(mark) = mark.find(|(function, line)| Some((function.or(innermost)?, line))) else { return };
    let number = marked.marks.len() as u64;
    marked.marks.push(mark);
    // SAFETY: the receiver of marks is dropped before the recorder ends.
    unsafe { toma_record_line(recorder.as_ptr(), number) };
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.listening = None;
        // SAFETY: the recorder began on this thread, and nothing of it is used any more.
        unsafe { toma_record_end(self.recorder.as_ptr()) };
    }
}

/// Data that events refer to.
struct EventTables<'a> {
    numbers: &'a [i64],
    names: &'a [u8],
    marks: &'a [Mark<(&'static Function, u32)>],
    is_dry: bool,
}

impl<'a> EventTables<'a> {
    /// Translates an event, whose kind is a `toma_event_kind`. Returns `None` if its line is unknown.
    fn event(&self, raw: &RawEvent) -> Option<Event<'a>> {
        let name = || self.name(raw);
        let scope = |kind| Event::ScopeBegins { kind, name: name(), node: None };
        Some(match raw.kind {
            0 => Event::OperatorBegins { name: name(), node: None },
            1 => scope(ScopeKind::Node),
            2 => scope(ScopeKind::Attempt),
            3 => Event::Ends { duration: (!self.is_dry).then(|| Duration::from_nanos(raw.bytes)) },
            4 => Event::Attribute { name: name(), values: self.numbers(raw) },
            5 => Event::Number { name: name(), value: f64::from_bits(raw.bytes) },
            6 => {
                Event::Mark(self.marks[at(raw.bytes)].find(|(function, line)| Location::of(function, line))?)
            }
            7 => Event::Born(raw.memory()),
            8 => Event::Died(raw.memory()),
            9 => self.uses(raw, Access::Reads)?,
            10 => self.uses(raw, Access::Writes)?,
            11 => self.uses(raw, Access::Makes)?,
            _ => self.uses(raw, Access::Views)?,
        })
    }

    fn uses(&self, raw: &RawEvent, access: Access) -> Option<Event<'a>> {
        let [flags, identity, hash, shape @ ..] = self.numbers(raw) else { return None };
        let written_by_host = (flags & 2 != 0).then_some(hash.cast_unsigned());
        let (memory, wants_gradient, identity) = (raw.memory(), flags & 1 != 0, identity.cast_unsigned());
        Some(Event::Uses { access, memory, shape, wants_gradient, written_by_host, identity })
    }

    fn name(&self, raw: &RawEvent) -> &'a str {
        let name = CStr::from_bytes_until_nul(&self.names[at(raw.subject)..]).ok();
        name.and_then(|name| name.to_str().ok()).unwrap_or_default()
    }

    fn numbers(&self, raw: &RawEvent) -> &'a [i64] {
        &self.numbers[at(raw.from)..at(raw.from + raw.count)]
    }
}

impl RawEvent {
    fn memory(&self) -> Memory {
        Memory { address: self.subject, place: DeviceId::of_word(self.device).place(), bytes: self.bytes }
    }
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("within the tables")
}
