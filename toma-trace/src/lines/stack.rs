//! The frames of one thread: stays of their lines, and the contribution of a stay to a row.
//!
//! # Why
//!
//! Sums of a line are differences of its thread's sums. So an allocation adds to one number, at any depth of calls. A
//! stay inside another stay of its line adds nothing.
//!
//! A block that was left takes effect at the next allocation. Values that `return`, `?` and `break` drop belong to the
//! line that leaves. Memory that a `for` allocates for its next value belongs to the `for`.

use std::array;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::accounts::{Account, DeviceCounters, Helpers, Levels, Sums};
use super::rows::Rows;
use super::sources::LineId;

/// The profiled functions that one thread is in, with the current line of each.
///
/// Each instant belongs to one line of each frame. A block belongs to the current line of the innermost frame.
///
/// ```
/// use std::sync::Arc;
/// use toma_trace::Place;
/// use toma_trace::lines::{Rows, Source, Sources, Stack};
///
/// let mut sources = Sources::new();
/// let first = sources.add(Source::new("step", "src/net.rs").line(9, "fn step() {").line(10, "let x = f();"));
/// let rows = Arc::new(Rows::new(&[(Place::HOST, 100)]));
/// let host = rows.device(&Place::HOST).expect("a device of these rows");
///
/// let mut stack = Stack::new(&rows);
/// stack.enter(first);
/// stack.mark(first.nth(1));
/// let born = stack.allocated(host, 24);
/// stack.leave();
/// stack.freed(host, 24, Some(born));
///
/// let figures = rows.by_line()[&first.nth(1)].devices[&host];
/// assert_eq!((figures.peak, figures.rise, figures.allocated, figures.kept), (124, 24, 24, 0));
/// ```
#[derive(Debug)]
pub struct Stack {
    pub(super) rows: Arc<Rows>,
    pub(super) account: Arc<Account>,
    /// Sums of this thread, by device.
    pub(super) sums: Vec<Sums>,
    /// The line whose operator's gradient is computed.
    pub(super) gradient_of: Option<LineId>,
    /// The frames of the thread, each with its current stay.
    frames: Vec<LineFrame>,
    /// The part of each frame that is separate for each device: as many entries for each frame as there are devices.
    by_device: Vec<Stay>,
    /// Number of frames in each line, over all attempts.
    depths: Vec<u32>,
}

/// A function that a thread is in.
#[derive(Debug)]
struct LineFrame {
    /// The current line.
    line: LineId,
    /// Distance of its line numbers from those of the same function in no attempt, so that recursion counts once.
    shift: u32,
    /// The enclosing line of a block that was left. It becomes current at the next allocation or call, because values
    /// that are dropped on the way out are the work of the line that leaves.
    left_to: Option<LineId>,
    /// Time at which the line became current.
    began: Duration,
}

/// The current stay of one frame, on one device.
#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    start: Levels,
    /// Sums of the thread at the start.
    sums: Sums,
    /// Highest levels of the stay before the call that is under way.
    before_call: Levels,
    /// Highest levels of the frame's earlier stays.
    of_frame: Levels,
}

/// Depth of calls from which a stack grows.
const CALLS: usize = 16;

impl Stack {
    /// Creates the stack of a thread that is in no profiled function.
    #[must_use]
    pub fn new(rows: &Arc<Rows>) -> Self {
        Self {
            account: rows.accounts.take(rows.devices.len()),
            rows: Arc::clone(rows),
            // If memory is short, calls that are not very deep must not need more.
            frames: Vec::with_capacity(CALLS),
            by_device: Vec::with_capacity(CALLS * rows.devices.len()),
            sums: vec![Sums::default(); rows.devices.len()],
            depths: Vec::new(),
            gradient_of: None,
        }
    }

    /// Begins a function or a closure, or polls a task, at one of its lines. That is no hit of the line.
    pub fn enter(&mut self, line: LineId) {
        self.enter_apart(line, 0);
    }

    /// As [`enter`](Self::enter), for a function with separate lines, whose numbers are `shift` behind its other ones.
    /// For recursion both count as the same lines.
    pub fn enter_apart(&mut self, line: LineId, shift: u32) {
        self.resume();
        self.account.line.store(line.0, Relaxed);
        // Set before the levels are read, so that allocations of other threads are in the watermarks or in the levels.
        self.account.is_profiling.store(true, SeqCst);
        let before = self.by_device.len();
        for device in 0..self.sums.len() {
            let (highest, start) = self.account.shared[device].watermark.restart(&self.rows.devices[device]);
            if let Some(caller) = before.checked_sub(self.sums.len()) {
                self.by_device[caller + device].before_call = highest;
            }
            self.by_device.push(Stay { start, ..Stay::default() });
        }
        self.frames.push(LineFrame { line, shift, left_to: None, began: Duration::ZERO });
        self.begin(line, self.rows.now());
    }

    /// Ends the innermost frame: it returns, panics, or its task waits.
    ///
    /// Returns its current line, at which a task is resumed.
    pub fn leave(&mut self) -> Option<LineId> {
        self.end(self.rows.now());
        let left = self.frames.pop()?.line;
        let ended = self.innermost();
        if let Some(frame) = self.frames.last() {
            self.account.line.store(frame.line.0, Relaxed);
            let caller = ended - self.sums.len();
            for (device, shared) in self.account.shared.iter().enumerate() {
                let of_callee = self.by_device[ended + device].of_frame;
                shared.watermark.raise(self.by_device[caller + device].before_call.max(of_callee));
            }
        } else {
            self.account.is_profiling.store(false, SeqCst);
        }
        self.by_device.truncate(ended);
        Some(left)
    }

    /// Begins a line of the innermost frame.
    pub fn mark(&mut self, line: LineId) {
        if !self.frames.is_empty() {
            self.switch(line);
            self.account.lines.at(line.0).hits.add(1);
        }
    }

    /// Returns the current line of the innermost frame, if the thread is in any.
    #[must_use]
    pub fn line(&self) -> Option<LineId> {
        Some(self.frames.last()?.line)
    }

    /// Returns the index of the first stay of the innermost frame.
    fn innermost(&self) -> usize {
        self.by_device.len().saturating_sub(self.sums.len())
    }

    /// Records that a block was left, and that this line encloses it.
    ///
    /// The line becomes current before the next allocation or call, if no mark comes first.
    pub fn left_block(&mut self, enclosing: LineId) {
        if let Some(frame) = self.frames.last_mut() {
            frame.left_to = Some(enclosing);
        }
    }

    /// Makes the enclosing line of a left block current.
    pub(super) fn resume(&mut self) {
        if let Some(line) = self.frames.last().and_then(|frame| frame.left_to) {
            self.switch(line);
        }
    }

    fn switch(&mut self, line: LineId) {
        let now = self.rows.now();
        self.end(now);
        self.begin(line, now);
    }

    /// Makes a line current in the innermost frame, whose stays know their start.
    fn begin(&mut self, line: LineId, now: Duration) {
        let Some(frame) = self.frames.last_mut() else { return };
        *frame = LineFrame { line, left_to: None, began: now, ..*frame };
        let index = frame.depth();
        self.account.line.store(line.0, Relaxed);
        if self.depths.len() <= index {
            self.depths.resize(index + 1, 0);
        }
        self.depths[index] += 1;
        let first = self.innermost();
        for ((stay, sums), shared) in
            self.by_device[first..].iter_mut().zip(&self.sums).zip(&self.account.shared)
        {
            stay.sums = helped(sums, &shared.helpers);
        }
    }

    /// Ends the current stay of the innermost frame, and records the start of the next one.
    fn end(&mut self, now: Duration) {
        let Some(frame @ &LineFrame { line, began, .. }) = self.frames.last() else { return };
        let row = self.account.lines.at(line.0);
        let depth = &mut self.depths[frame.depth()];
        *depth -= 1;
        let is_outermost = *depth == 0;
        row.stays.add(1);
        if is_outermost {
            row.spend(now.saturating_sub(began));
        }
        let (first, devices) = (self.innermost(), self.sums.len());
        for (device, stay) in self.by_device[first..].iter_mut().enumerate() {
            let (shared, counters) = (&self.account.shared[device], row.device(device, devices));
            let (highest, levels) = shared.watermark.restart(&self.rows.devices[device]);
            stay.end(highest, levels, counters);
            if is_outermost {
                let sums = helped(&self.sums[device], &shared.helpers);
                for ((counter, now), start) in counters.sums.iter().zip(sums).zip(stay.sums) {
                    counter.add(now - start);
                }
            }
        }
    }
}

impl Drop for Stack {
    /// Adds the stays of all frames, because the thread ends.
    fn drop(&mut self) {
        while self.leave().is_some() {}
        self.account.give_back();
    }
}

impl LineFrame {
    /// Returns the index of its line among the depths of a thread.
    fn depth(&self) -> usize {
        self.line.0.saturating_sub(self.shift) as usize
    }
}

impl Stay {
    fn end(&mut self, highest: Levels, now: Levels, counters: &DeviceCounters) {
        counters.peak.raise(highest.allocated);
        counters.reserved.raise(highest.reserved);
        counters.rise.raise(highest.allocated.saturating_sub(self.start.allocated));
        counters.current.raise(now.allocated);
        self.of_frame = self.of_frame.max(highest);
        self.start = now;
    }
}

/// Adds the counts of threads in no line.
fn helped(sums: &Sums, helpers: &Helpers) -> Sums {
    array::from_fn(|sum| sums[sum] + helpers[sum].load(Relaxed))
}
