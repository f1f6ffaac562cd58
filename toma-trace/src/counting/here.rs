//! The state of one thread in a recording: its frames, its operators and its memory.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::failure::Living;
use super::known::Group;
use super::makers::Makers;
use super::moments::Moments;
use super::names::{NameId, name};
use super::owner::Owner;
use super::packed::{Packed, PackedBlock, lower};
use super::shared::{Shared, number, running};
use crate::event::{Mark, Node};
use crate::lines::{DeviceId, LineId, Stack};
use toma_core::marks::Function;

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    static PAUSES: Cell<u32> = const { Cell::new(0) };
}

/// State of a thread in a recording.
pub(super) struct Here {
    pub(super) shared: Arc<Shared>,
    number: u32,
    pub(super) stack: Stack,
    frames: Vec<Called>,
    /// Running operators, innermost last.
    pub(super) operators: Vec<NameId>,
    /// Running attempts, innermost last.
    pub(super) groups: Vec<Group>,
    makers: Arc<Makers>,
    /// Sequence number of the thread's next operator, as last read: each operator with a gradient takes one.
    pub(super) position: Node,
    pub(super) now: Moments,
    is_in_backward: bool,
    /// Moment at which the last attempt began.
    pub(super) attempt_began: u32,
    pub(super) optimizers: u32,
    /// The current line when memory ran out.
    pub(super) failed: Option<Failed>,
}

/// An out-of-memory failure, with its line if the thread was in one.
pub(super) struct Failed(pub(super) Option<LineId>);

/// A frame of a function.
#[derive(Clone, Copy)]
struct Called {
    function: &'static Function,
    first: LineId,
    /// Distance of its lines from those of the same function in no attempt.
    shift: u32,
    group: Group,
    /// False for a closure, and for a task that is resumed.
    is_call: bool,
}

impl Called {
    fn is_of(&self, function: &'static Function) -> bool {
        std::ptr::eq(self.function, function)
    }
}

/// Runs `act` with the state of this thread. `None` if no recording runs.
pub(super) fn here<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    let number = number()?;
    let mut act = Some(act);
    let known = |here: &RefCell<Option<Here>>| {
        // Nothing is recorded within an allocation of the recorder itself.
        let mut here = here.try_borrow_mut().ok()?;
        if here.as_ref().is_none_or(|here| here.shared.number != number) {
            *here = Some(Here::new(running()?));
        }
        here.as_mut().map(act.take()?)
    };
    // A thread that ends releases its state, and then counts as a new one.
    HERE.try_with(known).unwrap_or_else(|_| Some(act.take()?(&mut Here::new(running()?))))
}

pub(super) fn unless_paused<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    if is_paused() { None } else { here(act) }
}

pub(super) fn is_paused() -> bool {
    PAUSES.get() > 0
}

/// Ends the state of this thread.
pub(super) fn forget() {
    let _ = HERE.try_with(RefCell::take);
}

/// Returns the number of this thread in the recording, and the moment at which its last attempt began.
pub(super) fn last_attempt() -> Option<(u32, u32)> {
    here(|here| (here.number, here.attempt_began))
}

/// Records that memory ran out for this thread, on any thread.
pub(super) fn failed(line: Option<LineId>) {
    here(|here| here.failed = Some(Failed(line)));
}

/// Guard that stops the recording of this thread while it lives, for a dry run.
#[derive(Debug)]
#[must_use = "the thread is recorded again once it is dropped"]
pub struct Pause(PhantomData<*const ()>);

/// Stops recording this thread until the guard is dropped. Memory that it allocates meanwhile is exempt.
pub fn pause() -> Pause {
    PAUSES.set(PAUSES.get() + 1);
    Pause(PhantomData)
}

impl Drop for Pause {
    fn drop(&mut self) {
        PAUSES.set(PAUSES.get() - 1);
    }
}

impl Here {
    fn new(shared: Arc<Shared>) -> Self {
        (shared.thread_begins)();
        let position = (shared.position)();
        Self {
            number: shared.threads.fetch_add(1, Relaxed),
            stack: Stack::new(&shared.rows),
            frames: Vec::new(),
            operators: Vec::with_capacity(64),
            groups: Vec::new(),
            makers: shared.makers.of_thread(position),
            position,
            now: Moments::default(),
            is_in_backward: false,
            attempt_began: 0,
            optimizers: 0,
            failed: None,
            shared,
        }
    }

    /// Records an event. Returns its position among all events, or 0 if events are not kept.
    pub(super) fn record(&self, packed: Packed) -> u64 {
        self.shared.ring.as_ref().map_or(0, |ring| ring.push(packed.words(self.number)))
    }

    /// Records an event with a name. A name stays forever, so none is made if events are not kept.
    pub(super) fn record_named(&self, packed: fn(NameId) -> Packed, text: &str) {
        if self.shared.ring.is_some() {
            self.record(packed(name(text)));
        }
    }

    /// Returns the moment of the next birth.
    pub(super) fn moment(&self) -> u32 {
        let ring = self.shared.ring.as_ref();
        ring.map_or_else(|| self.shared.births.load(Relaxed), |ring| lower(ring.count()))
    }
}

/// Memory. Devices that are not part of the recording are left out.
impl Here {
    pub(super) fn has(&self, device: u8) -> bool {
        usize::from(device) < self.shared.devices
    }

    /// Ends the failure state, if memory ran out before.
    pub(super) fn end_failure(&mut self) {
        if self.failed.take().is_some() {
            self.shared.failures.forget(self.number);
        }
    }

    pub(super) fn allocated(&mut self, device: u8, address: u64, bytes: u64, node: Node) -> Owner {
        self.end_failure();
        self.gradient_of(node);
        self.detect_numbered_operator();
        let born = self.stack.allocated(DeviceId(device.into()), bytes);
        let operator = self.operators.last().copied().unwrap_or(NameId::NONE);
        let position = self.record(Packed::Born(PackedBlock { device, address, bytes, operator }));
        Owner::new(self.shared.number, born, self.moment_of(position), self.optimizers > 0)
    }

    /// Returns the moment of a birth, which may have been recorded as the event at this position.
    pub(super) fn moment_of(&self, position: u64) -> u32 {
        let is_kept = self.shared.ring.is_some();
        if is_kept { lower(position) } else { self.shared.births.fetch_add(1, Relaxed) }
    }

    pub(super) fn freed(&mut self, device: u8, address: u64, bytes: u64, owner: Owner) {
        self.stack.freed(DeviceId(device.into()), bytes, owner.born(self.shared.number));
        self.record(Packed::Died(PackedBlock { device, address, bytes, operator: NameId::NONE }));
    }

    fn gradient_of(&mut self, node: Node) {
        let is_backward = node != Node::default();
        if is_backward && !self.is_in_backward {
            (self.now.backward, self.now.operator) = (Some(self.moment()), Some(self.moment()));
        }
        if is_backward || self.is_in_backward {
            let own = is_backward && node.is_of_thread(self.position);
            let line = if own { self.makers.of(node) } else { self.shared.makers.line(node) };
            self.stack.gradient_of(line);
        }
        self.is_in_backward = is_backward;
    }

    pub(super) fn out_of_memory(
        &mut self,
        device: u8,
        requested: u64,
        operator: NameId,
        holders: impl FnOnce(&mut dyn FnMut(Living)),
    ) {
        self.stack.out_of_memory(DeviceId(device.into()));
        let line = self.stack.line().or_else(|| self.shared.rows.only_line());
        self.failed = Some(Failed(line));
        self.detect_numbered_operator();
        let at = self.moment();
        self.shared.failures.keep(self.number, |failure| {
            (failure.device, failure.requested, failure.operator) = (device.into(), requested, operator);
            (failure.line, failure.at, failure.now) = (line, at, self.now);
            holders(&mut |block| failure.add(block));
        });
    }
}

/// Frames and lines.
impl Here {
    pub(super) fn enter(&mut self, function: &'static Function, line: u32, is_call: bool) {
        let group = self.groups.last().copied().unwrap_or_default();
        let (first, shift) = match self.frames.last() {
            Some(frame) if frame.is_of(function) && frame.group == group => (frame.first, frame.shift),
            _ => self.shared.known().first(function, group),
        };
        self.frames.push(Called { function, first, shift, group, is_call });
        self.stack.enter_apart(first.nth(line), shift);
        self.record(Packed::Mark(Mark::Enters(first.nth(line))));
        self.becomes_current(first.nth(line));
    }

    /// Returns the callback to run if the ending line has run a backward.
    pub(super) fn ended_backward(&mut self) -> Option<fn()> {
        let has_run = std::mem::take(&mut self.is_in_backward);
        has_run.then(|| {
            self.stack.gradient_of(None);
            self.shared.after_backward
        })
    }

    pub(super) fn mark(&mut self, function: &'static Function, line: u32) {
        // A line of another function has begun before the recording.
        if let Some(frame) = self.frames.last().filter(|frame| frame.is_of(function)) {
            let line = frame.first.nth(line);
            self.stack.mark(line);
            self.record(Packed::Mark(Mark::Line(line)));
            self.becomes_current(line);
        }
    }

    pub(super) fn left_block(&mut self, enclosing: u32) {
        if let Some(frame) = self.frames.last() {
            let line = frame.first.nth(enclosing);
            self.stack.left_block(line);
            self.record(Packed::Mark(Mark::LeftTo(line)));
            self.becomes_current(line);
        }
    }

    pub(super) fn leave(&mut self) -> (u32, Option<String>) {
        let Some(frame) = self.frames.pop() else { return (0, None) };
        let line = self.stack.line().map_or(0, |line| line.0.saturating_sub(frame.first.0));
        self.stack.leave();
        self.record(Packed::Mark(Mark::Leaves));
        if let Some(line) = self.stack.line() {
            self.becomes_current(line);
        }
        let due = if frame.is_call { self.shared.called(frame.function) } else { None };
        (line, due.map(|lines| lines.to_string()))
    }

    fn becomes_current(&mut self, line: LineId) {
        self.begin_line();
        self.makers.becomes_current(line, self.position);
    }

    /// Enters a row for something without lines, unless the thread is in a line. Returns true if it did.
    pub(super) fn enter_row(&mut self, of: &str, text: &str, resumes: bool) -> bool {
        let is_row = self.stack.line().is_none();
        if is_row {
            let line = self.shared.known().row(of, text);
            self.stack.enter(line);
            if !resumes {
                self.stack.mark(line);
            }
        }
        is_row
    }

    pub(super) fn leave_row(&mut self, is_row: bool) {
        if is_row && self.frames.is_empty() {
            self.stack.leave();
        }
    }
}

/// Moments.
impl Here {
    /// Detects operators with a gradient by their sequence numbers, if operators themselves are not recorded.
    fn detect_numbered_operator(&mut self) {
        let next = (self.shared.position)();
        if next != self.position {
            (self.position, self.now.numbered) = (next, Some(self.moment()));
        }
    }

    /// Begins a line or an attempt: none of its operators has begun yet.
    pub(super) fn begin_line(&mut self) {
        self.position = (self.shared.position)();
        (self.now.line, self.now.operator, self.now.numbered) = (self.moment(), None, None);
    }

    /// Records that the outermost attempt begins (`begins`), or that it is resumed or has ended.
    pub(super) fn note_outermost_attempt(&mut self, begins: bool) {
        if self.groups.is_empty() {
            self.now.attempt = begins.then(|| self.moment());
        }
    }
}
