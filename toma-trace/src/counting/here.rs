//! A thread in a recording: its frames, its operators and its memory.

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
use super::shared::{Shared, number, running};
use super::told::{Memory, Node, Told, lower};
use crate::lines::{DeviceId, LineId, Stack};
use toma_core::marks::Function;

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    static PAUSES: Cell<u32> = const { Cell::new(0) };
}

/// A thread in a recording.
pub(super) struct Here {
    pub(super) shared: Arc<Shared>,
    number: u32,
    pub(super) stack: Stack,
    frames: Vec<Called>,
    /// The operators that run, innermost last.
    pub(super) operators: Vec<NameId>,
    /// The attempts that run, innermost last.
    pub(super) groups: Vec<Group>,
    makers: Arc<Makers>,
    /// The number of the thread's next operator, when it was seen last: each with a gradient takes one.
    pub(super) position: Node,
    pub(super) now: Moments,
    is_in_backward: bool,
    /// When the last attempt began.
    pub(super) attempt_began: u32,
    pub(super) optimizers: u32,
    /// The line in force when memory ran out.
    pub(super) failed: Option<Failed>,
}

/// Memory ran out, at a line if the thread was in one.
pub(super) struct Failed(pub(super) Option<LineId>);

/// A frame.
#[derive(Clone, Copy)]
struct Called {
    function: &'static Function,
    first: LineId,
    /// How far behind its lines of no attempt these are.
    shift: u32,
    group: Group,
    /// Not a closure, and not a task that goes on.
    is_call: bool,
}

impl Called {
    fn is_of(&self, function: &'static Function) -> bool {
        std::ptr::eq(self.function, function)
    }
}

/// Runs `act` with what this thread has told so far. `None` where no recording runs.
pub(super) fn here<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    let number = number()?;
    let mut act = Some(act);
    let known = |here: &RefCell<Option<Here>>| {
        // Within an allocation of ours nothing is told.
        let mut here = here.try_borrow_mut().ok()?;
        if here.as_ref().is_none_or(|here| here.shared.number != number) {
            *here = Some(Here::new(running()?));
        }
        here.as_mut().map(act.take()?)
    };
    // A thread that ends gives back what it has kept, and counts as a new one then.
    HERE.try_with(known).unwrap_or_else(|_| Some(act.take()?(&mut Here::new(running()?))))
}

pub(super) fn unless_paused<R>(act: impl FnOnce(&mut Here) -> R) -> Option<R> {
    if is_paused() { None } else { here(act) }
}

pub(super) fn is_paused() -> bool {
    PAUSES.get() > 0
}

/// Ends what this thread has told.
pub(super) fn forget() {
    let _ = HERE.try_with(RefCell::take);
}

/// The number of this thread in the recording, and when its last attempt began.
pub(super) fn last_attempt() -> Option<(u32, u32)> {
    here(|here| (here.number, here.attempt_began))
}

/// Memory ran out for this thread, on whichever.
pub(super) fn failed(line: Option<LineId>) {
    here(|here| here.failed = Some(Failed(line)));
}

/// While one of these lives, nothing of this thread is heard: what runs is a rehearsal, as a dry run.
#[derive(Debug)]
#[must_use = "the thread is heard again once it is dropped"]
pub struct Pause(PhantomData<*const ()>);

/// Lets nothing of this thread be heard until the answer is dropped. Memory that it allocates meanwhile is exempt.
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

    /// Answers the event's place among all, or 0 where none is kept.
    pub(super) fn tell(&self, told: Told) -> u64 {
        self.shared.ring.as_ref().map_or(0, |ring| ring.push(told.words(self.number)))
    }

    /// Tells of what has a name, which stays for ever: none is made where no event is kept.
    pub(super) fn tell_named(&self, told: fn(NameId) -> Told, text: &str) {
        if self.shared.ring.is_some() {
            self.tell(told(name(text)));
        }
    }

    /// The moment of the next birth.
    pub(super) fn moment(&self) -> u32 {
        let places = self.shared.ring.as_ref();
        places.map_or_else(|| self.shared.births.load(Relaxed), |ring| lower(ring.count()))
    }
}

/// Memory. Devices that the recording does not have are left out.
impl Here {
    pub(super) fn has(&self, device: u8) -> bool {
        usize::from(device) < self.shared.devices
    }

    /// If memory ran out, that is over.
    pub(super) fn goes_on(&mut self) {
        if self.failed.take().is_some() {
            self.shared.failures.forget(self.number);
        }
    }

    pub(super) fn allocated(&mut self, device: u8, address: u64, bytes: u64, node: Node) -> Owner {
        self.goes_on();
        self.gradient_of(node);
        self.looks_for_numbered();
        let born = self.stack.allocated(DeviceId(device.into()), bytes);
        let operator = self.operators.last().copied().unwrap_or(NameId::NONE);
        let place = self.tell(Told::Born(Memory { device, address, bytes, operator }));
        Owner::new(self.shared.number, born, self.moment_of(place), self.optimizers > 0)
    }

    /// Of a birth, which may have been told as an event at this place.
    pub(super) fn moment_of(&self, place: u64) -> u32 {
        let is_kept = self.shared.ring.is_some();
        if is_kept { lower(place) } else { self.shared.births.fetch_add(1, Relaxed) }
    }

    pub(super) fn freed(&mut self, device: u8, address: u64, bytes: u64, owner: Owner) {
        match owner.born(self.shared.number) {
            Some(born) => self.stack.freed(DeviceId(device.into()), bytes, born),
            None => self.stack.freed_older(DeviceId(device.into()), bytes),
        }
        self.tell(Told::Died(Memory { device, address, bytes, operator: NameId::NONE }));
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
        asked: u64,
        operator: NameId,
        holders: impl FnOnce(&mut dyn FnMut(Living)),
    ) {
        self.stack.out_of_memory(DeviceId(device.into()));
        let line = self.stack.line().or_else(|| self.shared.rows.only_line());
        self.failed = Some(Failed(line));
        self.looks_for_numbered();
        let at = self.moment();
        self.shared.failures.keep(self.number, |failure| {
            (failure.device, failure.asked, failure.operator) = (device.into(), asked, operator);
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
            _ => self.shared.first(function, group),
        };
        self.frames.push(Called { function, first, shift, group, is_call });
        self.stack.enter_apart(first.nth(line), shift);
        self.tell(Told::Enters(first.nth(line)));
        self.in_force(first.nth(line));
    }

    /// What is to be called, if the line that ends has run a backward.
    pub(super) fn ended_backward(&mut self) -> Option<fn()> {
        let has_run = std::mem::take(&mut self.is_in_backward);
        has_run.then(|| {
            self.stack.gradient_of(None);
            self.shared.after_backward
        })
    }

    pub(super) fn mark(&mut self, function: &'static Function, line: u32) {
        // That of another function has begun before the recording.
        if let Some(frame) = self.frames.last().filter(|frame| frame.is_of(function)) {
            let line = frame.first.nth(line);
            self.stack.mark(line);
            self.tell(Told::Mark(line));
            self.in_force(line);
        }
    }

    pub(super) fn left_block(&mut self, enclosing: u32) {
        if let Some(frame) = self.frames.last() {
            let line = frame.first.nth(enclosing);
            self.stack.left_block(line);
            self.tell(Told::LeftTo(line));
            self.in_force(line);
        }
    }

    pub(super) fn leave(&mut self) -> (u32, Option<String>) {
        let Some(frame) = self.frames.pop() else { return (0, None) };
        let line = self.stack.line().map_or(0, |line| line.0.saturating_sub(frame.first.0));
        self.stack.leave();
        self.tell(Told::Leaves);
        if let Some(line) = self.stack.line() {
            self.in_force(line);
        }
        let due = if frame.is_call { self.shared.called(frame.function) } else { None };
        (line, due.map(|lines| lines.to_string()))
    }

    fn in_force(&mut self, line: LineId) {
        self.begins_anew();
        self.makers.in_force(line, self.position);
    }

    /// A row of something without lines, unless the thread is in one. Answers whether it is.
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
    /// Where operators are not told of, those with a gradient are known by the numbers they take.
    fn looks_for_numbered(&mut self) {
        let next = (self.shared.position)();
        if next != self.position {
            (self.position, self.now.numbered) = (next, Some(self.moment()));
        }
    }

    /// A line or an attempt begins: none of its operators has.
    pub(super) fn begins_anew(&mut self) {
        self.position = (self.shared.position)();
        (self.now.line, self.now.operator, self.now.numbered) = (self.moment(), None, None);
    }

    /// The outermost attempt begins, or goes on, or has ended.
    pub(super) fn attempts(&mut self, begins: bool) {
        if self.groups.is_empty() {
            self.now.attempt = begins.then(|| self.moment());
        }
    }
}
